/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Buffers never overlap while both are alive; limits size them. */
#include "common/circuit/planner.c"

#include "tests/unit/circuit/model.h"

static struct model m;

static void teardown(void)
{
    model_free(&m);
}

struct life {
    uint32_t first, last;
};

/* First and last launch that touch each buffer. */
static struct life *lives_of(const struct mtr_plan *p)
{
    struct life *life = mtr_arena_calloc(&m.arena, p->buffer_count, sizeof *life);
    for (uint32_t i = 0; i < p->buffer_count; i++)
        life[i].first = UINT32_MAX;
    for (uint32_t k = 0; k < p->lists[0].count; k++) {
        const struct mtr_launch *l = &p->lists[0].launches[k];
        for (uint32_t i = 0; i < (uint32_t)l->in_count + l->out_count; i++) {
            uint16_t b = i < l->in_count ? l->in[i] : l->out[i - l->in_count];
            life[b].first = life[b].first < k ? life[b].first : k;
            life[b].last = k;
        }
    }
    life[p->logits] = (struct life){0, p->lists[0].count};
    return life;
}

static void check_apart(const struct mtr_plan *p)
{
    const struct life *life = lives_of(p);
    for (uint32_t a = 0; a < p->buffer_count; a++) {
        const struct mtr_plan_buffer *x = &p->buffers[a];
        uint64_t x_end = x->offset + x->row_bytes * mtr_plan_max_rows(&p->limits, x->rows, 1);
        ck_assert(x->offset % 64 == 0 && x_end <= p->arena_bytes);
        for (uint32_t b = 0; b < a; b++) {
            const struct mtr_plan_buffer *y = &p->buffers[b];
            uint64_t y_end = y->offset + y->row_bytes * mtr_plan_max_rows(&p->limits, y->rows, 1);
            bool together = life[a].first <= life[b].last && life[b].first <= life[a].last;
            ck_assert_msg(!together || x_end <= y->offset || y_end <= x->offset, "%s and %s",
                          x->name, y->name);
        }
    }
}

START_TEST(live_buffers_are_apart)
{
    static const char *const files[] = {"golden-llama.json", "golden-qwen3.json",
                                        "qwen2.5-0.5b.json", "qwen3-8b.json"};
    model_start(&m);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        model_free(&m);
        model_config(&m, files[i]);
        check_apart(good_plan(&m));
    }
}
END_TEST

START_TEST(memory_is_shared_between_layers)
{
    model_config(&m, "qwen2.5-0.5b.json");
    uint64_t many = good_plan(&m)->arena_bytes;
    model_set(&m, "num_hidden_layers", "2");
    ck_assert_uint_eq(good_plan(&m)->arena_bytes, many);
}
END_TEST

START_TEST(limits_size_the_arena)
{
    model_config(&m, "golden-llama.json");
    struct mtr_plan_options o = {.hardware = "host",
                                 .cache = MTR_F32,
                                 .limits = {.max_step_tokens = 7, .max_step_outputs = 3}};
    const struct mtr_plan *p = mtr_plan_build(&m.arena, &m.source, &o, &m.err);
    ck_assert_msg(p != NULL, "%s", m.err.message);
    check_apart(p);
    ck_assert_uint_eq(p->buffers[p->logits].row_bytes, 512 * 4);
    ck_assert_uint_lt(p->arena_bytes, 40000);
    ck_assert(p->groups[0].block_bytes == 16 * 2 * 32 * 4 * 2);
}
END_TEST

static const struct mtr_plan_weight *weight_of(const struct mtr_plan *p, const char *name)
{
    for (uint32_t i = 0; i < p->weight_count; i++)
        if (strcmp(p->weights[i].name, name) == 0)
            return &p->weights[i];
    ck_abort_msg("no weight %s", name);
    return NULL;
}

START_TEST(scales_are_weights_that_matrices_name)
{
    model_config(&m, "../../golden/qwen3-nvfp4-ct/config.json");
    const struct mtr_plan *p = good_plan(&m);
    const struct mtr_plan_weight *q = weight_of(p, "model.layers.0.self_attn.q_proj.weight_packed");
    const struct mtr_plan_weight *s = &p->weights[q->scale], *g = &p->weights[q->global_scale];
    ck_assert(q->role == MTR_WEIGHT_VALUES && q->kernel_format == MTR_E2M1 && !q->inverted);
    ck_assert_str_eq(s->name, "model.layers.0.self_attn.q_proj.weight_scale");
    ck_assert(s->role == MTR_WEIGHT_SCALES && s->kernel_format == MTR_E4M3 && !s->inverted);
    ck_assert(s->rows == q->rows && s->cols == q->cols / 16 && s->scale == MTR_NONE);
    ck_assert_str_eq(g->name, "model.layers.0.self_attn.q_proj.weight_global_scale");
    ck_assert(g->role == MTR_WEIGHT_GLOBAL && g->kernel_format == MTR_F32 && g->inverted);
    ck_assert(g->rows == 1 && g->cols == 1 && g->global_scale == MTR_NONE);
    for (uint32_t k = 0; k < p->lists[0].count; k++)
        for (uint32_t i = 0; i < p->lists[0].launches[k].weight_count; i++) {
            uint16_t w = p->lists[0].launches[k].weights[i];
            ck_assert(w == MTR_NONE || p->weights[w].role == MTR_WEIGHT_VALUES);
        }
    model_free(&m);
    model_config(&m, "../../golden/qwen3-fp8-block/config.json");
    p = good_plan(&m);
    q = weight_of(p, "model.layers.1.mlp.down_proj.weight");
    s = &p->weights[q->scale];
    ck_assert(s->format == MTR_BF16 && s->kernel_format == MTR_F32 && !s->inverted);
    ck_assert(s->rows == (q->rows + 127) / 128 && s->cols == (q->cols + 127) / 128);
    ck_assert_uint_eq(q->global_scale, MTR_NONE);
}
END_TEST

START_TEST(rows)
{
    struct mtr_plan_limits l = {5, 3, 2, 100};
    ck_assert_uint_eq(mtr_plan_max_rows(&l, MTR_ROWS_TOKENS, 8), 5);
    ck_assert_uint_eq(mtr_plan_max_rows(&l, MTR_ROWS_OUTPUTS, 8), 3);
    ck_assert_uint_eq(mtr_plan_max_rows(&l, MTR_ROWS_PAIRS, 8), 40);
    ck_assert_uint_eq(mtr_plan_max_rows(&l, MTR_ROWS_LANES, 8), 2);
}
END_TEST

/* The largest numbers that a document may hold still give honest sizes or a refusal. */
START_TEST(sizes_do_not_wrap)
{
    model_config(&m, "golden-llama.json");
    model_set(&m, "vocab_size", "4194304");
    model_set(&m, "hidden_size", "1048576");
    refused(&m, MTR_UNSUPPORTED, "up to 61440 columns of a matrix, not 1048576");
    model_set(&m, "hidden_size", "61440");
    model_set(&m, "intermediate_size", "61440");
    model_set(&m, "num_attention_heads", "4096");
    model_set(&m, "num_key_value_heads", "4096");
    model_set(&m, "head_dim", "14");
    model_set(&m, "num_hidden_layers", "1024");
    struct mtr_plan_options o = {.hardware = "host", .cache = MTR_F32};
    o.limits.max_step_tokens = 65536;
    const struct mtr_plan *p = mtr_plan_build(&m.arena, &m.source, &o, &m.err);
    ck_assert_msg(p != NULL, "%s", m.err.message);
    ck_assert_uint_gt(p->arena_bytes, 65536ull * 61440 * 4);
    ck_assert_uint_gt(p->parameters, 1024ull * 3 * 61440 * 61440);
}
END_TEST

MTR_CHECK_MAIN("circuit/planner")
{
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, live_buffers_are_apart);
    tcase_add_test(tc, memory_is_shared_between_layers);
    tcase_add_test(tc, limits_size_the_arena);
    tcase_add_test(tc, scales_are_weights_that_matrices_name);
    tcase_add_test(tc, rows);
    tcase_add_test(tc, sizes_do_not_wrap);
}
