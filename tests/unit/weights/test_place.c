/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where weights will be. */
#include "worker/weights/place.c"

#include "common/checkpoint/listing.h"
#include "tests/unit/check_main.h"

static struct mtr_arena arena;
static struct mtr_error err;
static struct mtr_placement got;
static _Alignas(64) uint8_t data[65536];

static struct mtr_tensor tensors[] = {
    {.name = MTR_STR("a"),
     .format = MTR_F32,
     .rank = 2,
     .shape = {4, 8},
     .offset = 0,
     .bytes = 128},
    {.name = MTR_STR("b"), .format = MTR_BF16, .rank = 1, .shape = {8}, .offset = 129, .bytes = 16},
    {.name = MTR_STR("q"),
     .format = MTR_Q4_1,
     .rank = 2,
     .shape = {5, 32},
     .offset = 150,
     .bytes = 100},
    {.name = MTR_STR("s.0"),
     .format = MTR_F32,
     .rank = 2,
     .shape = {2, 8},
     .offset = 512,
     .bytes = 64},
    {.name = MTR_STR("s.1"),
     .format = MTR_F32,
     .rank = 2,
     .shape = {2, 8},
     .offset = 256,
     .bytes = 64},
};
static uint32_t by_name[] = {0, 1, 2, 3, 4};
static struct mtr_checkpoint_file file = {.path = "m", .map = {data, sizeof data, -1}};
static struct mtr_checkpoint ck = {.path = "m",
                                   .files = &file,
                                   .file_count = 1,
                                   .tensors = tensors,
                                   .tensor_count = 5,
                                   .by_name = by_name};

static bool place_from(const struct mtr_checkpoint *from, const struct mtr_plan_weight *w,
                       uint32_t count, bool in_place, const struct mtr_launch *launches,
                       uint32_t launch_count)
{
    struct mtr_plan plan = {.weights = w, .weight_count = count};
    plan.lists[MTR_MODE_DECODE] = (struct mtr_launch_list){launch_count, launches};
    mtr_arena_free(&arena);
    return mtr_place_weights(&arena, &plan, from, in_place, &got, &err);
}

static bool place(const struct mtr_plan_weight *w, uint32_t count, bool in_place,
                  const struct mtr_launch *launches, uint32_t launch_count)
{
    return place_from(&ck, w, count, in_place, launches, launch_count);
}

/* Experts that are tensors of their own are copied, one behind the other. */
START_TEST(apart)
{
    struct mtr_plan_weight w = {.name = "s.{e}",
                                .rows = 4,
                                .cols = 8,
                                .format = MTR_F32,
                                .kernel_format = MTR_F32,
                                .stack = 2,
                                .apart = true};
    ck_assert_msg(place(&w, 1, true, NULL, 0), "%s", err.message);
    const struct mtr_place *p = got.places;
    ck_assert(p->kind == MTR_PLACE_COPIED && p->bytes == 128 && p->src_bytes == 128);
    ck_assert(p->parts[0].src == data + 512 && p->parts[1].src == data + 256);
    w.stack = 3;
    w.rows = 6;
    ck_assert(!place(&w, 1, true, NULL, 0));
    ck_assert_msg(strstr(err.message, "tensor s.2 is missing"), "%s", err.message);
}
END_TEST

START_TEST(in_file)
{
    const struct mtr_plan_weight w[] = {
        {.name = "a", .rows = 4, .cols = 8, .format = MTR_F32, .kernel_format = MTR_F32},
        {.name = "b", .rows = 1, .cols = 8, .format = MTR_BF16, .kernel_format = MTR_BF16},
        {.name = "q", .rows = 5, .cols = 32, .format = MTR_Q4_1, .kernel_format = MTR_Q4_1},
        {.name = "a",
         .rows = 2,
         .cols = 8,
         .format = MTR_F32,
         .kernel_format = MTR_BF16,
         .first_row = 1},
        {.name = "q",
         .rows = 5,
         .cols = 32,
         .format = MTR_Q4_1,
         .kernel_format = MTR_Q4_1,
         .tied = true},
        {.name = "q",
         .rows = 2,
         .cols = 32,
         .format = MTR_Q4_1,
         .kernel_format = MTR_Q4_1,
         .tied = true},
    };
    ck_assert_msg(place(w, 6, true, NULL, 0), "%s", err.message);
    const struct mtr_place *p = got.places;
    ck_assert(p[0].kind == MTR_PLACE_MAPPED && p[0].src == data && p[0].bytes == 128);
    ck_assert(p[1].kind == MTR_PLACE_COPIED && p[1].offset == 0 &&
              p[1].bytes == 16); /* odd address */
    ck_assert(p[2].kind == MTR_PLACE_MAPPED && p[2].src == data + 150);
    ck_assert(p[3].kind == MTR_PLACE_COPIED && p[3].src == data + 32 && p[3].bytes == 32);
    ck_assert_uint_eq(p[3].offset, MTR_WEIGHT_ALIGNMENT);
    ck_assert(p[4].kind == MTR_PLACE_SHARED && p[4].shared == 2);
    ck_assert_int_eq(p[5].kind, MTR_PLACE_MAPPED); /* a part is another weight */
    ck_assert_uint_eq(got.mapped_bytes, 128 + 100 + 40);
    ck_assert_uint_eq(got.copied_bytes, 48);
    ck_assert(got.memory_bytes == 2 * MTR_WEIGHT_ALIGNMENT && got.scratch_bytes == 0);
    ck_assert(place(w, 6, false, NULL, 0));
    ck_assert(got.mapped_bytes == 0 && got.copied_bytes == 128 + 16 + 100 + 32 + 40);
}
END_TEST

START_TEST(divisors_are_copied)
{
    struct mtr_plan_weight w = {
        .name = "a", .rows = 4, .cols = 8, .format = MTR_F32, .kernel_format = MTR_F32};
    ck_assert(place(&w, 1, true, NULL, 0) && got.places[0].kind == MTR_PLACE_MAPPED);
    w.inverted = true;
    ck_assert(place(&w, 1, true, NULL, 0) && got.places[0].kind == MTR_PLACE_COPIED);
}
END_TEST

START_TEST(laid_out)
{
    const struct mtr_plan_weight w[] = {
        {.name = "q", .rows = 5, .cols = 32, .format = MTR_Q4_1, .kernel_format = MTR_Q4_1},
        {.name = "a", .rows = 4, .cols = 8, .format = MTR_F32, .kernel_format = MTR_BF16},
    };
    const struct mtr_point four = {.repack = "by4", .repack_rows = 4}, plain = {0};
    struct mtr_launch launches[] = {
        {.point = &four, .weight_count = 3, .weights = {0, MTR_NONE, 1}},
        {.point = &four, .weight_count = 1, .weights = {0}},
    };
    ck_assert_msg(place(w, 2, true, launches, 2), "%s", err.message);
    const struct mtr_place *p = got.places;
    ck_assert(p[0].kind == MTR_PLACE_COPIED && p[0].readable && p[0].bytes == 8 * 20);
    ck_assert(p[1].kind == MTR_PLACE_COPIED && !p[1].readable && p[1].bytes == 64);
    ck_assert_uint_eq(got.scratch_bytes, 64); /* converted before it is laid out */
    launches[1].point = &plain;
    ck_assert(!place(w, 2, true, launches, 2));
    ck_assert_msg(strstr(err.message, "q is read by points that want it in different layouts"),
                  "%s", err.message);
}
END_TEST

/* One row makes a matrix no vector: its point reads it as laid out too; a bias stays as it is. */
START_TEST(one_row_is_laid_out)
{
    const struct mtr_plan_weight w[] = {
        {.name = "q", .rows = 1, .cols = 32, .format = MTR_Q4_1, .kernel_format = MTR_Q4_1},
        {.name = "b", .rows = 1, .cols = 8, .format = MTR_BF16, .kernel_format = MTR_F32},
    };
    const struct mtr_point four = {.repack = "by4", .repack_rows = 4};
    struct mtr_launch launch = {.point = &four, .weight_count = 2, .weights = {0, 1}};
    ck_assert_msg(place(w, 2, true, &launch, 1), "%s", err.message);
    ck_assert_str_eq(got.places[0].repack, "by4");
    ck_assert_uint_eq(got.places[0].bytes, 4 * 20);
    ck_assert_ptr_null(got.places[1].repack);
    ck_assert_uint_eq(got.places[1].bytes, 32);
}
END_TEST

START_TEST(padded_columns_and_scales)
{
    const struct mtr_plan_weight w[] = {
        {.name = "a",
         .rows = 5,
         .cols = 80,
         .format = MTR_E2M1,
         .kernel_format = MTR_E2M1,
         .scale = 1,
         .global_scale = MTR_NONE},
        {.name = "q",
         .rows = 5,
         .cols = 5,
         .format = MTR_E4M3,
         .kernel_format = MTR_E4M3,
         .role = MTR_WEIGHT_SCALES},
    };
    const struct mtr_point point = {
        .repack = "by16", .repack_rows = 16, .repack_cols = 64, .repack_scales = "scales_by16"};
    struct mtr_launch launch = {.point = &point, .weight_count = 1, .weights = {0}};
    ck_assert_msg(place_from(NULL, w, 2, false, &launch, 1), "%s", err.message);
    const struct mtr_place *p = got.places;
    ck_assert(p[0].kind == MTR_PLACE_COPIED && p[0].bytes == 16 * 128 / 2);
    ck_assert(p[1].kind == MTR_PLACE_COPIED && p[1].bytes == 16 * 8);
    ck_assert_str_eq(p[1].repack, "scales_by16");
    ck_assert_uint_eq(got.scratch_bytes, 5 * 40);
}
END_TEST

START_TEST(refused)
{
    const struct mtr_plan_weight cases[] = {
        {.name = "none", .rows = 4, .cols = 8, .format = MTR_F32, .kernel_format = MTR_F32},
        {.name = "a", .rows = 4, .cols = 8, .format = MTR_F32, .kernel_format = MTR_Q4_1},
        {.name = "a", .rows = 5, .cols = 8, .format = MTR_F32, .kernel_format = MTR_F32},
        {.name = "a",
         .rows = 4,
         .cols = 8,
         .format = MTR_F32,
         .kernel_format = MTR_F32,
         .first_row = 1},
        {.name = "q", .rows = 1, .cols = 31, .format = MTR_Q4_1, .kernel_format = MTR_Q4_1},
    };
    static const char *const words[] = {"none is missing", "no conversion from f32 to q4_1",
                                        "fewer rows", "fewer rows", "multiple of a block"};
    for (size_t i = 0; i < 5; i++) {
        ck_assert(!place(&cases[i], 1, true, NULL, 0));
        ck_assert_msg(strstr(err.message, words[i]), "%s", err.message);
    }
}
END_TEST

MTR_CHECK_MAIN("weights/place")
{
    mtr_arena_init(&arena, 0);
    tcase_add_test(tc, in_file);
    tcase_add_test(tc, apart);
    tcase_add_test(tc, divisors_are_copied);
    tcase_add_test(tc, laid_out);
    tcase_add_test(tc, one_row_is_laid_out);
    tcase_add_test(tc, padded_columns_and_scales);
    tcase_add_test(tc, refused);
}
