/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The generated tables hang together. */
#include "common/circuit/rules.c"

#include "kernels/args/attention.h"
#include "kernels/args/linear.h"
#include "tests/unit/check_main.h"

START_TEST(names)
{
    ck_assert_str_eq(mtr_tag_name(MTR_TAG_BIT_IDENTICAL), "bit_identical");
    ck_assert_str_eq(mtr_tag_name(99), "?");
    ck_assert_ptr_nonnull(mtr_hardware_find("host"));
    ck_assert_ptr_null(mtr_hardware_find("hos"));
    ck_assert_ptr_nonnull(mtr_device_find("gb10"));
    ck_assert_ptr_null(mtr_device_find("gb11"));
    ck_assert_ptr_nonnull(mtr_circuit_find("llama"));
    ck_assert_ptr_null(mtr_circuit_find("alpaca"));
}
END_TEST

START_TEST(functions_of_points)
{
    struct mtr_point p = {.function = "linear_q4_1", .weight = MTR_Q4_1, .cache = MTR_FORMAT_COUNT};
    ck_assert(mtr_point_is(&p, "linear") && !mtr_point_is(&p, "line") && !mtr_point_is(&p, "lin"));
    p = (struct mtr_point){
        .function = "add", .weight = MTR_FORMAT_COUNT, .cache = MTR_FORMAT_COUNT};
    ck_assert(mtr_point_is(&p, "add") && !mtr_point_is(&p, "ad") && !mtr_point_is(&p, "addx"));
    p = (struct mtr_point){.function = "x_f32_bf16", .weight = MTR_F32, .cache = MTR_BF16};
    ck_assert(mtr_point_is(&p, "x"));
    p.function = "x_f32_f16";
    ck_assert(!mtr_point_is(&p, "x"));
    p = (struct mtr_point){.function = "linear_e4m3_block",
                           .weight = MTR_E4M3,
                           .scaling = MTR_SCALING_BLOCK,
                           .cache = MTR_FORMAT_COUNT};
    ck_assert(mtr_point_is(&p, "linear"));
    p.scaling = MTR_SCALING_TENSOR;
    ck_assert(!mtr_point_is(&p, "linear"));
    p.scaling = MTR_SCALING_NONE;
    ck_assert(!mtr_point_is(&p, "linear"));
}
END_TEST

static bool has_kernel(const struct mtr_hardware *h, const struct mtr_fusion_rule *r)
{
    for (uint32_t i = 0; i < h->family_count; i++)
        for (uint32_t k = 0; k < h->families[i].point_count; k++)
            if (strcmp(h->families[i].name, r->family) == 0 &&
                mtr_point_is(&h->families[i].points[k], r->function))
                return true;
    return false;
}

START_TEST(rules_of_every_class)
{
    uint32_t count;
    const struct mtr_hardware *all = mtr_hardware_classes(&count);
    ck_assert_uint_gt(count, 0);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < all[i].rule_count; k++) {
            const struct mtr_fusion_rule *r = &all[i].rules[k];
            ck_assert_msg(has_kernel(&all[i], r), "%s", r->name);
            ck_assert(k == 0 || all[i].rules[k - 1].priority >= r->priority);
            ck_assert((r->tag == MTR_TAG_BIT_IDENTICAL) == (r->proof != NULL));
            ck_assert(r->modes != 0 && r->node_count > 0);
        }
}
END_TEST

/* A kernel's source fixes its tiles; the launcher takes them from its point. */
START_TEST(tiles_are_those_of_the_kernels)
{
    const struct mtr_hardware *host = mtr_hardware_find("host");
    for (uint32_t i = 0; i < host->family_count; i++)
        for (uint32_t k = 0; k < host->families[i].point_count; k++) {
            const struct mtr_point *p = &host->families[i].points[k];
            if (mtr_point_is(p, "linear"))
                ck_assert(p->shapes[0].cols == MTR_LINEAR_TILE_N &&
                          p->shapes[0].rows == MTR_LINEAR_TILE_ROWS &&
                          p->max_k == MTR_LINEAR_MAX_K);
            if (mtr_point_is(p, "attention"))
                ck_assert(p->shapes[0].rows == MTR_ATTENTION_TILE_ROWS);
        }
}
END_TEST

MTR_CHECK_MAIN("circuit/rules")
{
    tcase_add_test(tc, names);
    tcase_add_test(tc, functions_of_points);
    tcase_add_test(tc, tiles_are_those_of_the_kernels);
    tcase_add_test(tc, rules_of_every_class);
}
