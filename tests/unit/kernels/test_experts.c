/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* experts_*: a pair has the bits that linear_* gives its row with its expert's matrix alone. */
#include "kernels/args/experts.h"

#include "tests/unit/kernels/kernel_test.h"

static const struct {
    const char *linear, *experts;
    enum mtr_format format;
} kinds[] = {{"linear_f32", "experts_f32", MTR_F32},
             {"linear_bf16", "experts_bf16", MTR_BF16},
             {"linear_q4_1", "experts_q4_1", MTR_Q4_1},
             {"linear_q6_k", "experts_q6_k", MTR_Q6_K}};

struct problem {
    int kind;
    uint32_t tokens, experts, top_k, n, k;
    bool glu, x_pairs;
    float *x, *y, *want;
    uint8_t *w[2];
    int32_t *chosen;
};

static size_t stack_bytes(const struct problem *p)
{
    return p->n * format_bytes(kinds[p->kind].format, p->k);
}

static struct mtr_linear_args linear_of(const struct problem *p, const struct mtr_step_view *step)
{
    struct mtr_linear_args a = {.step = step,
                                .parts = p->glu ? 2 : 1,
                                .k = p->k,
                                .x_stride = p->k,
                                .epilogue = p->glu ? MTR_EPILOGUE_GLU : MTR_EPILOGUE_NONE,
                                .activation = MTR_ACT_SILU,
                                .multiplier = 1};
    for (uint32_t i = 0; i < a.parts; i++)
        a.part[i] =
            (struct mtr_linear_part){.weight = p->w[i], .y = p->y, .n = p->n, .y_stride = p->n};
    return a;
}

/* Pair by pair, as a step of one row. */
static void expect(const struct problem *p)
{
    struct mtr_step_view one = {.tokens = 1};
    for (uint32_t pair = 0; pair < p->tokens * p->top_k; pair++) {
        struct mtr_linear_args a = linear_of(p, &one);
        a.x = p->x + (size_t)(p->x_pairs ? pair : pair / p->top_k) * p->k;
        a.rows_kind = MTR_ROWS_TOKENS;
        for (uint32_t i = 0; i < a.parts; i++) {
            a.part[i].weight = p->w[i] + (size_t)p->chosen[pair] * stack_bytes(p);
            a.part[i].y = p->want + (size_t)pair * p->n;
        }
        run_kernel(kinds[p->kind].linear, MTR_ISA_PORTABLE, &a, 2, 1);
    }
}

static void check(struct noise *n, struct problem p)
{
    uint32_t pairs = p.tokens * p.top_k;
    struct mtr_step_view step = {.tokens = p.tokens, .pairs = pairs};
    p.x = noise_floats(n, (size_t)(p.x_pairs ? pairs : p.tokens) * p.k);
    p.y = must_alloc(pairs * p.n * sizeof *p.y);
    p.want = must_alloc(pairs * p.n * sizeof *p.want);
    p.chosen = must_alloc(pairs * sizeof *p.chosen);
    for (int i = 0; i < 2; i++)
        p.w[i] = noise_weights(n, kinds[p.kind].format, p.experts * p.n, p.k);
    for (uint32_t i = 0; i < pairs; i++) /* different ones within a token; most go to few */
        p.chosen[i] = (int32_t)((noise_below(n, 2) + i % p.top_k * 2) % p.experts);
    expect(&p);
    struct mtr_experts_args a = {.linear = linear_of(&p, &step),
                                 .chosen = p.chosen,
                                 .experts = p.experts,
                                 .top_k = p.top_k,
                                 .x_pairs = p.x_pairs,
                                 .weight_bytes = stack_bytes(&p)};
    a.linear.x = p.x;
    a.linear.rows_kind = MTR_ROWS_PAIRS;
    for (uint32_t by_pair = 0; by_pair < 2; by_pair++)
        FOR_EACH_ISA(isa)
        {
            a.by_pair = by_pair;
            poison(p.y, pairs * p.n * sizeof *p.y);
            run_kernel(kinds[p.kind].experts, isa, &a, 2, by_pair ? pairs : 3);
            same_bits(p.want, p.y, pairs * p.n, kinds[p.kind].experts, isa);
        }
    free(p.x);
    free(p.y);
    free(p.want);
    free(p.chosen);
    free(p.w[0]);
    free(p.w[1]);
}

START_TEST(pairs_are_rows_of_their_expert)
{
    struct noise n = {11};
    for (int kind = 0; kind < (int)(sizeof kinds / sizeof *kinds); kind++) {
        check(&n, (struct problem){
                      .kind = kind, .tokens = 1, .experts = 8, .top_k = 2, .n = 40, .k = 256});
        check(&n, (struct problem){.kind = kind,
                                   .tokens = 90,
                                   .experts = 6,
                                   .top_k = 3,
                                   .n = 33,
                                   .k = 256,
                                   .glu = true});
        check(&n, (struct problem){.kind = kind,
                                   .tokens = 11,
                                   .experts = 9,
                                   .top_k = 4,
                                   .n = 70,
                                   .k = 512,
                                   .x_pairs = true});
    }
    check(&n, (struct problem){.kind = 0, .tokens = 3, .experts = 2, .top_k = 1, .n = 5, .k = 37});
}
END_TEST

MTR_CHECK_MAIN("kernels/experts")
{
    tcase_add_test(tc, pairs_are_rows_of_their_expert);
}
