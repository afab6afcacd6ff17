/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Dequantizers against recorded values of random blocks, bit for bit; the table's arithmetic. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "common/base/file.h"
#include "common/base/json.h"
#include "common/numeric/format.h"
#include "common/numeric/numeric.h"
#include "tests/unit/check_main.h"

#define BLOCKS 64

static const struct {
    const char *file;
    enum mtr_format format;
} golden[] = {
    {"Q4_0", MTR_Q4_0}, {"Q4_1", MTR_Q4_1}, {"Q5_0", MTR_Q5_0}, {"Q5_1", MTR_Q5_1},
    {"Q8_0", MTR_Q8_0}, {"Q4_K", MTR_Q4_K}, {"Q5_K", MTR_Q5_K}, {"Q6_K", MTR_Q6_K},
};

/* The bytes of one tensor of a safetensors file. */
static const uint8_t *tensor(const struct mtr_file *f, const struct mtr_json *header, size_t base,
                             const char *name, uint64_t expected_bytes)
{
    const struct mtr_json *at = mtr_json_get(mtr_json_get(header, name), "data_offsets");
    ck_assert_ptr_nonnull(at);
    ck_assert_int_eq(at->count, 2);
    uint64_t from = (uint64_t)at->items[0].integer, to = (uint64_t)at->items[1].integer;
    ck_assert_uint_eq(to - from, expected_bytes);
    ck_assert_uint_le(base + to, f->size);
    return f->data + base + from;
}

START_TEST(blocks_equal_recorded_values)
{
    const struct mtr_format_info *info = mtr_format_info(golden[_i].format);
    const char *root = getenv("MTR_SOURCE_ROOT");
    struct mtr_error err;
    struct mtr_arena arena;
    struct mtr_file f;
    uint64_t header_len;
    mtr_arena_init(&arena, 0);
    char *path = mtr_arena_printf(&arena, "%s/tests/golden/blocks/%s.safetensors",
                                  root ? root : ".", golden[_i].file);
    ck_assert_msg(mtr_file_map(&f, path, &err), "%s", err.message);
    memcpy(&header_len, f.data, 8);
    const struct mtr_json *header =
        mtr_json_parse(&arena, (struct mtr_str){(const char *)f.data + 8, header_len}, 0, &err);
    ck_assert_msg(header != NULL, "%s", err.message);
    size_t count = (size_t)BLOCKS * info->block_elements;
    const uint8_t *in = tensor(&f, header, 8 + header_len, "blocks", BLOCKS * info->block_bytes);
    const uint8_t *want = tensor(&f, header, 8 + header_len, "values", count * 4);
    float *out = mtr_arena_alloc(&arena, count * sizeof *out);
    memset(out, 0xff, count * sizeof *out);
    info->dequantize(in, out, BLOCKS);
    for (size_t i = 0; i < count; i++) {
        float w;
        memcpy(&w, want + 4 * i, 4);
        ck_assert_msg(mtr_f32_bits(out[i]) == mtr_f32_bits(w) || (out[i] == 0 && w == 0),
                      "%s element %zu: %a, expected %a", info->name, i, out[i], w);
    }
    mtr_file_unmap(&f);
    mtr_arena_free(&arena);
}
END_TEST

START_TEST(plain_formats)
{
    const uint8_t f16[] = {0x00, 0x3c, 0x00, 0xc0, 0xff, 0x7b}, bf16[] = {0x80, 0x3f, 0x49, 0x40};
    const float f32[] = {1.5f, -0.0f};
    float out[3];
    mtr_format_info(MTR_F16)->dequantize(f16, out, 3);
    ck_assert(out[0] == 1.0f && out[1] == -2.0f && out[2] == 65504.0f);
    mtr_format_info(MTR_BF16)->dequantize(bf16, out, 2);
    ck_assert(out[0] == 1.0f && out[1] == 3.140625f);
    mtr_format_info(MTR_F32)->dequantize(f32, out, 2);
    ck_assert(out[0] == 1.5f && signbit(out[1]));
}
END_TEST

START_TEST(names_parse_back)
{
    enum mtr_format f;
    for (int i = 0; i < MTR_FORMAT_COUNT; i++) {
        const struct mtr_format_info *info = mtr_format_info((enum mtr_format)i);
        ck_assert_ptr_nonnull(info->name);
        ck_assert_uint_gt(info->block_elements, 0);
        ck_assert_uint_gt(info->block_bytes, 0);
        ck_assert(mtr_format_parse(mtr_str(info->name), &f));
        ck_assert_int_eq(f, i);
    }
    ck_assert(!mtr_format_parse(MTR_STR("q4_2"), &f));
    ck_assert(!mtr_format_parse(MTR_STR(""), &f));
    ck_assert(!mtr_format_parse(MTR_STR("bf16 "), &f));
}
END_TEST

START_TEST(row_bytes)
{
    uint64_t bytes = 7;
    ck_assert(mtr_format_row_bytes(MTR_Q4_1, 64, &bytes));
    ck_assert_uint_eq(bytes, 40);
    ck_assert(mtr_format_row_bytes(MTR_E2M1, 6, &bytes));
    ck_assert_uint_eq(bytes, 3);
    ck_assert(mtr_format_row_bytes(MTR_F32, 0, &bytes));
    ck_assert_uint_eq(bytes, 0);
    ck_assert(!mtr_format_row_bytes(MTR_Q4_1, 33, &bytes));
    ck_assert(!mtr_format_row_bytes(MTR_Q6_K, 128, &bytes));
    ck_assert(!mtr_format_row_bytes(MTR_I64, UINT64_MAX / 4, &bytes));
}
END_TEST

MTR_CHECK_MAIN("numeric/format")
{
    tcase_add_loop_test(tc, blocks_equal_recorded_values, 0, sizeof golden / sizeof *golden);
    tcase_add_test(tc, plain_formats);
    tcase_add_test(tc, names_parse_back);
    tcase_add_test(tc, row_bytes);
}
