/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/ops/latent.c"

#include "tests/support/op_rig.h"
#include "tests/unit/check_main.h"

static const struct mtr_family family = {.name = "latent"}, attention = {.name = "attention"};
static const struct mtr_point query = {.function = "latent_query_f32",
                                       .shape_count = 1,
                                       .shapes = {{"latent_query_f32", .rows = 16, .cols = 1}}};
static const struct mtr_point value = {.function = "latent_value_f32",
                                       .shape_count = 1,
                                       .shapes = {{"latent_value_f32", .rows = 16, .cols = 1}}};
static const struct mtr_point append = {.function = "latent_append_f32",
                                        .shape_count = 1,
                                        .shapes = {{"latent_append_f32", .rows = 8}}};
static const struct mtr_point look = {.function = "latent_attention_f32",
                                      .shape_count = 1,
                                      .shapes = {{"latent_attention_f32", .rows = 16}}};

/* Four heads: a matrix of 4 x (8 + 24) rows and 40 columns. */
static void shape(struct op_rig *r)
{
    op_rig_open(r);
    r->model.weights[1].rows = 4 * 32;
    r->model.weights[1].cols = 40;
    r->model.weights[1].scale = r->model.weights[1].global_scale = MTR_NONE;
    r->model.buffers[2].cols = 4 * 14;
    r->model.buffers[4].cols = 46;
    r->model.buffers[5].cols = 4 * 46;
}

START_TEST(halves_of_a_matrix)
{
    struct op_rig r;
    shape(&r);
    struct mtr_launch l = {.family = &family,
                           .point = &query,
                           .rows = MTR_ROWS_TOKENS,
                           .in_count = 2,
                           .in = {2, 3},
                           .out_count = 1,
                           .out = {5},
                           .weight_count = 1,
                           .weights = {1},
                           .param_count = 6,
                           .params = {{MTR_P_HEADS, 4},
                                      {MTR_P_VALUE_DIM, 24},
                                      {MTR_P_ROTARY_DIM, 6},
                                      {MTR_P_INTERLEAVED, 1},
                                      {MTR_P_QUERY_BETA, 0.5},
                                      {MTR_P_QUERY_LENGTH, 64}},
                           .cache = MTR_NONE,
                           .state = MTR_NONE,
                           .constant = MTR_NONE};
    const struct mtr_mock_call *call = op_rig_run(&r, &l);
    const struct mtr_latent_heads_args *a = call->args;
    ck_assert(call->grid[0] == 3 && call->grid[1] == 4);
    ck_assert(a->x == r.buffers[2] && a->y == r.buffers[5]);
    ck_assert_ptr_eq(a->table, r.buffers[3]);
    ck_assert_ptr_eq(a->weight, r.model.addresses[1]);
    ck_assert(!a->scale && !a->global_scale);
    ck_assert(a->heads == 4 && a->nope == 8 && a->value == 24 && a->rank == 40 && a->pairs == 3);
    ck_assert(a->x_dim == 14 && a->interleaved == 1 && a->query_length == 64);
    ck_assert_float_eq(a->query_beta, 0.5f);

    l.point = &value;
    l.in_count = 1;
    l.in[0] = 5;
    l.out[0] = 2;
    l.param_count = 2;
    a = op_rig_run(&r, &l)->args;
    ck_assert(a->x == r.buffers[5] && a->y == r.buffers[2] && !a->table);
    ck_assert(a->nope == 8 && a->value == 24 && a->rank == 40 && a->x_dim == 46);
    ck_assert(a->query_beta == 0);
    op_rig_close(&r);
}
END_TEST

START_TEST(one_cache_for_all_heads)
{
    struct op_rig r;
    shape(&r);
    struct mtr_launch l = {.family = &family,
                           .point = &append,
                           .rows = MTR_ROWS_TOKENS,
                           .in_count = 2,
                           .in = {4, 3},
                           .weight_count = 1,
                           .weights = {1},
                           .param_count = 2,
                           .params = {{MTR_P_ROTARY_DIM, 6}, {MTR_P_EPS, 0.25}},
                           .cache = 0,
                           .state = MTR_NONE,
                           .constant = MTR_NONE};
    const struct mtr_latent_append_args *a = op_rig_run(&r, &l)->args;
    ck_assert(a->kv == r.buffers[4] && a->cache == r.caches[0].k);
    ck_assert_ptr_eq(a->table, r.buffers[3]);
    ck_assert_ptr_eq(a->norm, r.model.addresses[1]);
    ck_assert(a->rank == 40 && a->pairs == 3 && a->block_tokens == 16 && !a->interleaved);
    ck_assert_float_eq(a->eps, 0.25f);
    op_rig_close(&r);
}
END_TEST

START_TEST(heads_of_attention_in_parts)
{
    static const uint32_t heads[][2] = {{4, 1}, {32, 4}, {12, 2}, {7, 1}, {11, 11}, {1, 1}};
    struct op_rig r;
    shape(&r);
    struct mtr_launch l = {
        .family = &attention,
        .point = &look,
        .rows = MTR_ROWS_TOKENS,
        .in_count = 1,
        .in = {5},
        .out_count = 1,
        .out = {2},
        .param_count = 3,
        .params = {{MTR_P_HEADS, 4}, {MTR_P_HEAD_DIM, 46}, {MTR_P_ATTN_SCALE, 3}},
        .cache = 0,
        .state = MTR_NONE,
        .constant = MTR_NONE};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        l.params[0].value = heads[i][0];
        const struct mtr_mock_call *call = op_rig_run(&r, &l);
        const struct mtr_attention_args *a = call->args;
        ck_assert_uint_eq(a->kv_heads, heads[i][1]);
        ck_assert(call->grid[0] == heads[i][1] && call->grid[1] == 3);
        ck_assert(a->q == r.buffers[5] && a->out == r.buffers[2]);
        ck_assert(a->k_cache == r.caches[0].k && a->v_cache == r.caches[0].k);
        ck_assert(a->head_dim == 46 && a->window == 0 && !a->sinks);
        ck_assert_float_eq(a->scale, 3);
    }
    op_rig_close(&r);
}
END_TEST

MTR_CHECK_MAIN("ops/latent")
{
    tcase_add_test(tc, halves_of_a_matrix);
    tcase_add_test(tc, one_cache_for_all_heads);
    tcase_add_test(tc, heads_of_attention_in_parts);
}
