/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/ops/linear.c"

#include "tests/support/op_rig.h"
#include "tests/unit/check_main.h"

static struct op_rig r;

static uint32_t tiles_of(uint32_t n)
{
    return (n + MTR_LINEAR_TILE_N - 1) / MTR_LINEAR_TILE_N;
}

START_TEST(parts_have_their_own_outputs_and_tiles)
{
    op_rig_open(&r);
    struct mtr_launch l = op_rig_launch(&r, "linear"); /* q, k, v */
    uint16_t bias = l.weights[0];
    l.weights[3] = bias; /* a bias for k */
    const struct mtr_mock_call *call = op_rig_run(&r, &l);
    const struct mtr_linear_args *a = call->args;
    const uint32_t n[3] = {64, 32, 32};
    ck_assert_uint_eq(a->parts, 3);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(a->part[i].n, n[i]);
        ck_assert_uint_eq(a->part[i].y_stride, n[i]);
        ck_assert_ptr_eq(a->part[i].weight, r.model.addresses[l.weights[2 * i]]);
        ck_assert_ptr_eq(a->part[i].y, r.buffers[l.out[i]]);
        ck_assert_ptr_eq(a->part[i].bias, i == 1 ? r.model.addresses[bias] : NULL);
        ck_assert_ptr_null(a->part[i].scale);
    }
    ck_assert_uint_eq(call->grid[0], tiles_of(64) + 2 * tiles_of(32));
    ck_assert_uint_eq(call->grid[1], 1);
    ck_assert_uint_eq(a->k, TINY_HIDDEN);
    ck_assert_uint_eq(a->x_stride, TINY_HIDDEN);
    ck_assert_uint_eq(a->epilogue, MTR_EPILOGUE_NONE);
    ck_assert_float_eq(a->multiplier, 1);
    op_rig_close(&r);
}
END_TEST

START_TEST(glu_shares_columns)
{
    op_rig_open(&r);
    struct mtr_launch l = {0};
    for (uint32_t i = 0; i < TINY_LAUNCHES; i++)
        if (mtr_launch_u32(&r.model.launches[i], MTR_P_EPILOGUE, 0) == MTR_EPILOGUE_GLU)
            l = r.model.launches[i];
    const struct mtr_mock_call *call = op_rig_run(&r, &l);
    const struct mtr_linear_args *a = call->args;
    ck_assert_uint_eq(a->parts, 2);
    ck_assert_uint_eq(a->epilogue, MTR_EPILOGUE_GLU);
    ck_assert_uint_eq(a->activation, MTR_ACT_SILU);
    ck_assert_uint_eq(call->grid[0], tiles_of(TINY_FFN));
    ck_assert_ptr_eq(a->part[0].y, r.buffers[l.out[0]]);
    ck_assert_ptr_eq(a->part[1].y, r.buffers[l.out[0]]);
    op_rig_close(&r);
}
END_TEST

START_TEST(rows_beyond_a_tile_and_scales)
{
    op_rig_open(&r);
    struct mtr_launch l = r.model.launches[TINY_LAUNCHES - 1]; /* the output head */
    r.model.weights[l.weights[0]].scale = 1;
    r.model.weights[l.weights[0]].global_scale = 2;
    r.context.rows[MTR_ROWS_OUTPUTS] = 2 * MTR_LINEAR_TILE_ROWS + 1;
    const struct mtr_mock_call *call = op_rig_run(&r, &l);
    const struct mtr_linear_args *a = call->args;
    ck_assert_uint_eq(call->grid[0], tiles_of(TINY_VOCAB));
    ck_assert_uint_eq(call->grid[1], 3);
    ck_assert_uint_eq(a->rows_kind, MTR_ROWS_OUTPUTS);
    ck_assert_ptr_eq(a->part[0].scale, r.model.addresses[1]);
    ck_assert_ptr_eq(a->part[0].global_scale, r.model.addresses[2]);
    op_rig_close(&r);
}
END_TEST

/* Shapes of 8, 16 and 32 rows, the last two persistent and only for a tile on every processor, on a
 * device of so many. */
static const struct mtr_mock_call *run_persistent(uint32_t rows, uint32_t processors)
{
    static struct mtr_point point;
    struct mtr_launch l = r.model.launches[TINY_LAUNCHES - 1]; /* the output head */
    point = *l.point;
    point.shape_count = 3;
    for (uint32_t i = 0; i < 3; i++)
        point.shapes[i] = (struct mtr_point_shape){"linear_f32", 8u << i, TINY_VOCAB,
                                                   .persistent = i > 0, .fill = i > 0 ? 100 : 0};
    l.point = &point;
    r.context.processors = processors;
    r.context.rows[MTR_ROWS_OUTPUTS] = rows;
    return op_rig_run(&r, &l);
}

START_TEST(persistent_blocks_are_no_more_than_processors)
{
    op_rig_open(&r);
    ck_assert_uint_eq(run_persistent(100, 2)->grid[0], 2); /* 4 tiles of 32 */
    op_rig_close(&r);
}
END_TEST

START_TEST(a_persistent_shape_has_work_for_every_processor)
{
    op_rig_open(&r);
    ck_assert_uint_eq(run_persistent(100, 4)->grid[0], 4); /* of 32 rows */
    ck_assert_uint_eq(run_persistent(100, 5)->grid[0], 5); /* of 16: there are 7 */
    ck_assert_uint_eq(run_persistent(20, 9)->grid[1], 3);  /* of 8: 2 of 16 are too few */
    ck_assert_uint_eq(run_persistent(5, 9)->grid[0], 1);   /* of 8 */
    op_rig_close(&r);
}
END_TEST

/* Of the forms for as many rows the last that has tiles enough: they have 3, 6 and 12. */
START_TEST(forms_for_as_many_rows)
{
    static struct mtr_point point;
    static const struct mtr_point_shape forms[] = {
        {"linear_f32", 8, TINY_VOCAB},
        {"linear_f32", 8, (TINY_VOCAB + 1) / 2, .fill = 101},
        {"linear_f32", 8, (TINY_VOCAB + 3) / 4, .fill = 300}};
    op_rig_open(&r);
    struct mtr_launch l = r.model.launches[TINY_LAUNCHES - 1];
    point = *l.point;
    point.shape_count = 3;
    memcpy(point.shapes, forms, sizeof forms);
    l.point = &point;
    r.context.rows[MTR_ROWS_OUTPUTS] = 20;
    for (uint32_t i = 0; i < 3; i++) {
        r.context.processors = 6 - i;
        ck_assert_uint_eq(op_rig_run(&r, &l)->grid[0], 1u << i);
    }
    op_rig_close(&r);
}
END_TEST

MTR_CHECK_MAIN("ops/linear")
{
    tcase_add_test(tc, parts_have_their_own_outputs_and_tiles);
    tcase_add_test(tc, glu_shares_columns);
    tcase_add_test(tc, rows_beyond_a_tile_and_scales);
    tcase_add_test(tc, persistent_blocks_are_no_more_than_processors);
    tcase_add_test(tc, a_persistent_shape_has_work_for_every_processor);
    tcase_add_test(tc, forms_for_as_many_rows);
}
