/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Plain formats get uniform numbers. Blocks get random bits as quants and fixed small scales, which
 * is cheaper than quantizing and all that a measurement of speed asks for. So do formats of bytes,
 * whose scales stand in tensors of their own and are fixed too. Philox counts blocks, so that a
 * part can be filled without what stands before it.
 */
#include "worker/weights/dummy.h"

#include "common/numeric/numeric.h"

#define MATRIX_RANGE 0.04f /* uniform in +-half of it */
#define VECTOR_RANGE 0.1f
#define MAX_GRID     65535u
/* Of e4m3 codes times the first, of e2m1 codes times both: a deviation of 0.012. */
#define F32_SCALE   0x1p-13f
#define GROUP_SCALE 0x60u /* 32 */

/* Where a block has f16 numbers, and what they are set to. */
static const struct {
    enum mtr_format format;
    uint16_t at[2];
    float value[2];
    uint8_t count;
} scales[] = {
    {MTR_Q4_0, {0}, {0.0025f}, 1},
    {MTR_Q4_1, {0, 2}, {0.0025f, -0.01875f}, 2},
    {MTR_Q5_0, {0}, {0.00125f}, 1},
    {MTR_Q5_1, {0, 2}, {0.00125f, -0.019375f}, 2},
    {MTR_Q8_0, {0}, {0.00016f}, 1},
    {MTR_Q4_K, {0, 2}, {0.00008f, 0.0006f}, 2},
    {MTR_Q5_K, {0, 2}, {0.00004f, 0.0006f}, 2},
    {MTR_Q6_K, {208}, {0.00001f}, 1},
};

static const struct {
    enum mtr_format format;
    const char *function;
} plain[] = {{MTR_F32, "dummy_f32"}, {MTR_F16, "dummy_f16"}, {MTR_BF16, "dummy_bf16"}};

/* No e4m3 whose lowest bit is 0 is NaN. */
static void set_bytes(enum mtr_format format, enum mtr_dummy_kind kind,
                      struct mtr_dummy_launch *out)
{
    bool fixed = kind == MTR_DUMMY_SCALES;
    out->function = "dummy_bytes";
    out->args.byte_mask = fixed ? 0 : format == MTR_E4M3 ? 0xfe : 0xff;
    out->args.byte_bits = fixed ? GROUP_SCALE : 0;
    out->args.items = (out->args.first + out->args.count + MTR_DUMMY_PIECE - 1) / MTR_DUMMY_PIECE -
                      out->args.first / MTR_DUMMY_PIECE;
}

static void set_values(enum mtr_dummy_kind kind, struct mtr_dummy_args *a)
{
    static const float offsets[] = {0.0f, 1.0f, F32_SCALE};
    static const float ranges[] = {MATRIX_RANGE, VECTOR_RANGE, 0.0f};
    a->offset = offsets[kind];
    a->range = ranges[kind];
}

static bool set_function(enum mtr_format format, struct mtr_dummy_launch *out)
{
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (plain[i].format == format)
            out->function = plain[i].function;
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        if (scales[i].format != format)
            continue;
        out->function = "dummy_blocks";
        out->args.scale_count = scales[i].count;
        for (uint8_t k = 0; k < scales[i].count; k++) {
            out->args.scale_at[k] = scales[i].at[k];
            out->args.scale[k] = mtr_f16_from_f32(scales[i].value[k]);
        }
    }
    return out->function != NULL;
}

bool mtr_dummy_launch(enum mtr_format format, enum mtr_dummy_kind kind, uint64_t seed,
                      uint32_t index, uint64_t first, uint64_t elements, void *dst,
                      struct mtr_dummy_launch *out)
{
    const struct mtr_format_info *info = mtr_format_info(format);
    *out = (struct mtr_dummy_launch){.args = {.dst = dst,
                                              .seed = seed ^ (uint64_t)index << 32,
                                              .first = first / info->block_elements,
                                              .count = elements / info->block_elements,
                                              .block_bytes = info->block_bytes}};
    struct mtr_dummy_args *a = &out->args;
    bool bytes = format == MTR_E4M3 || format == MTR_E2M1;
    set_values(kind, a);
    if (!bytes && !set_function(format, out))
        return false;
    if (bytes) {
        set_bytes(format, kind, out);
    } else if (info->block_elements == 1) {
        a->items = (a->first + a->count + 3) / 4 - a->first / 4;
    } else {
        a->block_pieces = (a->block_bytes + MTR_DUMMY_PIECE - 1) / MTR_DUMMY_PIECE;
        a->items = a->count * a->block_pieces;
    }
    uint64_t tiles = (a->items + MTR_DUMMY_TILE - 1) / MTR_DUMMY_TILE;
    out->grid = tiles < MAX_GRID ? (uint32_t)tiles : MAX_GRID;
    return true;
}
