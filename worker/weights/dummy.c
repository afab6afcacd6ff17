/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Plain formats get uniform numbers. Blocks get random bits as quants and fixed small scales, which
 * is cheaper than quantizing and all that a measurement of speed asks for. Philox counts blocks, so
 * that a part can be filled without what stands before it.
 */
#include "worker/weights/dummy.h"

#include "common/numeric/numeric.h"

#define MATRIX_RANGE 0.04f /* uniform in +-half of it */
#define VECTOR_RANGE 0.1f
#define MAX_GRID     65535u

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

bool mtr_dummy_launch(enum mtr_format format, bool vector, uint64_t seed, uint32_t index,
                      uint64_t first, uint64_t elements, void *dst, struct mtr_dummy_launch *out)
{
    const struct mtr_format_info *info = mtr_format_info(format);
    *out = (struct mtr_dummy_launch){.args = {.dst = dst,
                                              .seed = seed ^ (uint64_t)index << 32,
                                              .first = first / info->block_elements,
                                              .count = elements / info->block_elements,
                                              .offset = vector ? 1.0f : 0.0f,
                                              .range = vector ? VECTOR_RANGE : MATRIX_RANGE,
                                              .block_bytes = info->block_bytes}};
    if (!set_function(format, out))
        return false;
    struct mtr_dummy_args *a = &out->args;
    if (info->block_elements == 1) {
        a->items = (a->first + a->count + 3) / 4 - a->first / 4;
    } else {
        a->block_pieces = (a->block_bytes + MTR_DUMMY_PIECE - 1) / MTR_DUMMY_PIECE;
        a->items = a->count * a->block_pieces;
    }
    uint64_t tiles = (a->items + MTR_DUMMY_TILE - 1) / MTR_DUMMY_TILE;
    out->grid = tiles < MAX_GRID ? (uint32_t)tiles : MAX_GRID;
    return true;
}
