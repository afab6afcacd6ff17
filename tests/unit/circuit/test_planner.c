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
    tcase_add_test(tc, rows);
    tcase_add_test(tc, sizes_do_not_wrap);
}
