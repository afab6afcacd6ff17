/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The router's choice. Scores of a token stand in scratch; the best one is looked for top_k times,
 * which for so few is cheaper than sorting. A score that is no number counts as the lowest.
 */
#include "kernels/args/route.h"

#include "kernels/host/dequant.h"
#include "kernels/host/rows.h"
#include "kernels/host/vec_math.h"

#define TAKEN (-__builtin_inff())

struct scratch {
    float scores[MTR_ROUTE_MAX_EXPERTS + 16];
    float choice[MTR_ROUTE_MAX_EXPERTS + 16]; /* what is left to choose from */
    uint8_t used[MTR_ROUTE_MAX_EXPERTS];
    uint8_t open[MTR_ROUTE_MAX_EXPERTS]; /* groups */
};

MTR_INLINE vf square_root(vf x)
{
    float v[16];
    vf_store(v, x);
    for (int i = 0; i < 16; i++)
        v[i] = __builtin_sqrtf(v[i]);
    return vf_load(v);
}

static float highest(const float *x, uint32_t n)
{
    float most = TAKEN;
    for (uint32_t i = 0; i < n; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

static void softmax(const float *logits, uint32_t n, float *out)
{
    vf most = vf_set1(highest(logits, n)), sum = vf_zero();
    for (uint32_t i = 0; i < n; i += 16) {
        size_t have = n - i < 16 ? n - i : 16;
        float e[16] = {0};
        vf_store_n(e, vf_exp(vf_sub(vf_load_n(logits + i, have), most)), have);
        vf_store(out + i, vf_load(e));
        sum = vf_add(sum, vf_load(e));
    }
    vf all = vf_set1(vf_sum(sum));
    for (uint32_t i = 0; i < n; i += 16)
        vf_store(out + i, vf_div(vf_load(out + i), all));
}

static void score(const struct mtr_route_args *a, const float *logits, float *out)
{
    if (a->scoring == MTR_SCORE_SOFTMAX) {
        softmax(logits, a->experts, out);
        return;
    }
    for (uint32_t i = 0; i < a->experts; i += 16) {
        vf x = vf_load_n(logits + i, a->experts - i < 16 ? a->experts - i : 16);
        vf_store(out + i,
                 a->scoring == MTR_SCORE_SIGMOID ? vf_sigmoid(x) : square_root(vf_softplus(x)));
    }
}

/* The first of the highest that is free; all lanes that are no number come last. */
static uint32_t best(const float *choice, const uint8_t *used, uint32_t n)
{
    uint32_t found = n;
    for (uint32_t i = 0; i < n; i++)
        if (!used[i] && (found == n || choice[i] > choice[found] ||
                         (choice[found] != choice[found] && choice[i] == choice[i])))
            found = i;
    return found;
}

/* The two best of a group, added. */
static float group_value(const float *choice, uint32_t n)
{
    float first = TAKEN, second = TAKEN;
    for (uint32_t i = 0; i < n; i++) {
        if (choice[i] > first) {
            second = first;
            first = choice[i];
        } else if (choice[i] > second) {
            second = choice[i];
        }
    }
    return n > 1 ? first + second : first;
}

/* Closes the experts of all groups but the best. */
static void close_groups(const struct mtr_route_args *a, struct scratch *s)
{
    uint32_t each = a->experts / a->groups;
    float values[MTR_ROUTE_MAX_EXPERTS];
    for (uint32_t g = 0; g < a->groups; g++)
        values[g] = group_value(s->choice + g * each, each);
    memset(s->open, 0, a->groups);
    for (uint32_t i = 0; i < a->top_groups; i++)
        s->open[best(values, s->open, a->groups)] = 1;
    for (uint32_t e = 0; e < a->experts; e++)
        if (!s->open[e / each])
            s->choice[e] = TAKEN;
}

static void choose(const struct mtr_route_args *a, struct scratch *s, int32_t *chosen,
                   float *shares)
{
    float sum = 0;
    memset(s->used, 0, a->experts);
    for (uint32_t k = 0; k < a->top_k; k++) {
        uint32_t e = best(s->choice, s->used, a->experts);
        s->used[e] = 1;
        chosen[k] = (int32_t)e;
        shares[k] = s->scores[e];
        sum += shares[k];
    }
    for (uint32_t k = 0; k < a->top_k; k++) {
        float share = !a->renormalize ? shares[k] : sum > 0 ? shares[k] / sum : 0;
        shares[k] = share * a->multiplier;
    }
}

void MTR_HOST_FN(route)(const void *arguments, const struct mtr_host_block *block);
void MTR_HOST_FN(route)(const void *arguments, const struct mtr_host_block *block)
{
    const struct mtr_route_args *a = arguments;
    struct scratch *s = block->scratch;
    for (uint32_t t = block->x; t < a->step->tokens; t += block->grid_x) {
        score(a, a->logits + (size_t)t * a->experts, s->scores);
        for (uint32_t e = 0; e < a->experts; e++)
            s->choice[e] = a->bias ? s->scores[e] + a->bias[e] : s->scores[e];
        if (a->groups > 1)
            close_groups(a, s);
        choose(a, s, a->chosen + (size_t)t * a->top_k, a->shares + (size_t)t * a->top_k);
    }
}
