/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sizes are tiny on purpose: blocks of four tokens, pools of a few blocks more than one sequence
 * needs, so that everything runs out all the time. Prompts share beginnings, inside blocks too.
 */
#include "tests/sim/world.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/ns.h"
#include "common/base/philox.h"

#define MS MTR_NS_PER_MS

uint32_t mtr_sim_below(struct mtr_sim_random *r, uint32_t limit)
{
    uint32_t out[4];
    mtr_philox(r->seed, r->count++, 0, out);
    return (uint32_t)((uint64_t)out[0] * limit >> 32);
}

static uint32_t pick(struct mtr_sim_random *r, const uint32_t *values, uint32_t count)
{
    return values[mtr_sim_below(r, count)];
}

static void make_geometry(struct mtr_sim_world *w)
{
    static const uint32_t blocks[] = {2, 4, 4, 4, 16};
    struct mtr_sim_random *r = &w->random;
    struct mtr_sched_geometry *g = &w->config.geometry;
    g->vocab = MTR_SIM_VOCAB;
    g->block_tokens = pick(r, blocks, 5);
    g->recurrent = mtr_sim_chance(r, 30);
    g->chunk_tokens = g->recurrent ? g->block_tokens * mtr_sim_between(r, 1, 3) : 0;
    g->group_count = mtr_sim_between(r, g->recurrent && mtr_sim_chance(r, 10) ? 0 : 1, 3);
    for (uint32_t i = 0; i < g->group_count; i++) {
        bool sliding = mtr_sim_chance(r, i == 0 ? 15 : 60);
        g->groups[i].kind = sliding ? MTR_CACHE_SLIDING : MTR_CACHE_FULL;
        g->groups[i].window = sliding ? mtr_sim_between(r, 2, 40) : 0;
    }
}

static void make_limits(struct mtr_sim_world *w)
{
    struct mtr_sim_random *r = &w->random;
    struct mtr_sched_config *c = &w->config;
    uint32_t chunk = c->geometry.recurrent ? c->geometry.chunk_tokens : 2;
    c->policy = mtr_sim_chance(r, 50) ? MTR_SCHED_SLAI : MTR_SCHED_FIFO;
    c->prefix_cache = mtr_sim_chance(r, 85);
    c->max_batch_size = mtr_sim_between(r, 1, 8);
    c->max_num_seqs = mtr_sim_between(r, 1, 24);
    c->max_prefill_tokens = chunk + mtr_sim_below(r, 40);
    c->max_sequence_tokens = mtr_sim_between(r, 24, 120);
    c->max_drafts = !c->geometry.recurrent && mtr_sim_chance(r, 30) ? mtr_sim_between(r, 1, 4) : 0;
    c->max_score_rows = mtr_sim_between(r, 2, 30);
    c->tbt_deadline_ms = mtr_sim_between(r, 1, 100);
    c->snapshot_interval_tokens =
        c->geometry.recurrent && mtr_sim_chance(r, 50) ? chunk * mtr_sim_between(r, 1, 4) : 0;
}

/* Between what one sequence needs and what all need. */
static void make_capacity(struct mtr_sim_world *w)
{
    struct mtr_sim_random *r = &w->random;
    const struct mtr_sched_geometry *g = &w->config.geometry;
    uint32_t one = w->config.max_sequence_tokens / g->block_tokens + 2;
    for (uint32_t i = 0; i < g->group_count; i++)
        w->capacity.group_blocks[i] =
            mtr_sim_chance(r, 20) ? one * 8 : mtr_sim_between(r, one / 2 + 8, one * 3 + 8);
    w->capacity.snapshots = g->recurrent ? mtr_sim_below(r, 6) : 0;
}

static void make_model(struct mtr_sim_world *w)
{
    const struct mtr_sched_geometry *g = &w->config.geometry;
    w->model = (struct mtr_scripted_config){.vocab = g->vocab,
                                            .slots = w->config.max_batch_size,
                                            .block_tokens = g->block_tokens,
                                            .group_count = g->group_count,
                                            .snapshots = w->capacity.snapshots,
                                            .recurrent = g->recurrent,
                                            .chunk_tokens = g->chunk_tokens,
                                            .max_drafts = w->config.max_drafts,
                                            .physical = true,
                                            .deep = true};
    for (uint32_t i = 0; i < g->group_count; i++) {
        w->model.group_blocks[i] = w->capacity.group_blocks[i];
        w->model.windows[i] = g->groups[i].window;
    }
}

void mtr_sim_world_init(struct mtr_sim_world *w, uint64_t seed)
{
    *w = (struct mtr_sim_world){.random = {.seed = seed}};
    make_geometry(w);
    make_limits(w);
    make_capacity(w);
    make_model(w);
    w->ranks = mtr_sim_chance(&w->random, 25) ? 2 : 1;
    w->shrinks = mtr_sim_chance(&w->random, 10);
    w->request_count = mtr_sim_between(&w->random, 1, MTR_SIM_MAX_REQUESTS);
}

void mtr_sim_world_free(struct mtr_sim_world *w)
{
    for (uint32_t i = 0; i < w->request_count; i++) {
        free(w->requests[i].tokens);
        free(w->requests[i].expected);
    }
}

uint32_t mtr_sim_capacity_tokens(const struct mtr_sim_world *w)
{
    const struct mtr_sched_geometry *g = &w->config.geometry;
    uint32_t most = w->config.max_sequence_tokens, bt = g->block_tokens;
    for (uint32_t i = 0; i < g->group_count; i++) {
        uint32_t window = g->groups[i].window, blocks = w->capacity.group_blocks[i];
        uint32_t moving = window + (g->recurrent ? g->chunk_tokens : 1) + 2 * bt;
        if ((window == 0 || blocks * bt < moving) && blocks * bt < most)
            most = blocks * bt;
    }
    return most;
}

/* ---- requests ---------------------------------------------------------------------------------
 */

/* One of a few texts that many prompts begin with. */
static uint32_t common_token(uint32_t text, uint32_t position)
{
    uint32_t out[4];
    mtr_philox(text, position, 7, out);
    return out[0] % MTR_SIM_VOCAB;
}

/* A finished request's prompt and answer, as the next turn of a conversation brings them. */
static const struct mtr_sim_request *last_turn(struct mtr_sim_world *w, uint32_t index)
{
    if (index == 0 || !mtr_sim_chance(&w->random, 35))
        return NULL;
    const struct mtr_sim_request *q = &w->requests[mtr_sim_below(&w->random, index)];
    return q->done && q->expected_count > 0 ? q : NULL;
}

static void make_prompt(struct mtr_sim_world *w, struct mtr_sim_request *q, uint32_t index)
{
    struct mtr_sim_random *r = &w->random;
    uint32_t longest = w->config.max_sequence_tokens + 1, count = 0;
    const struct mtr_sim_request *before = last_turn(w, index);
    q->tokens = calloc(4ul * longest, sizeof(uint32_t));
    for (uint32_t i = 0; before && i < before->params.token_count; i++)
        q->tokens[count++] = before->tokens[i];
    for (uint32_t i = 0; before && i < before->got; i++)
        q->tokens[count++] = before->expected[i];
    if (!before) {
        uint32_t text = mtr_sim_below(r, 3), common = mtr_sim_below(r, longest * 2 / 3);
        for (; count < common; count++)
            q->tokens[count] = common_token(text, count);
    }
    for (uint32_t own = mtr_sim_between(r, count ? 0 : 1, 20); own > 0; own--)
        q->tokens[count++] = mtr_sim_below(r, MTR_SIM_VOCAB);
    q->params.token_count = count;
}

static void make_sampling(struct mtr_sim_world *w, struct mtr_sim_request *q)
{
    struct mtr_sim_random *r = &w->random;
    q->params.sampling = mtr_sampling_greedy();
    q->params.sampling.seed = mtr_sim_below(r, 4);
    q->params.sampling.repetition_penalty = mtr_sim_chance(r, 20) ? 1.5f : 1;
    q->params.sampling.logprobs = mtr_sim_chance(r, 20) ? 1 + mtr_sim_below(r, 3) : 0;
    q->params.max_tokens = mtr_sim_chance(r, 5) ? 0 : mtr_sim_between(r, 1, 50);
    q->params.min_tokens = mtr_sim_chance(r, 30) ? mtr_sim_below(r, 12) : 0;
    q->params.stop_count = mtr_sim_below(r, MTR_SIM_MAX_STOPS + 1);
    for (uint32_t i = 0; i < q->params.stop_count; i++)
        q->stops[i] = mtr_sim_below(r, MTR_SIM_VOCAB);
    q->params.score = mtr_sim_chance(r, 10);
    q->params.constrained = mtr_sim_chance(r, 10);
    for (uint32_t i = 0; i < sizeof(q->mask); i++)
        q->mask[i] = (uint8_t)(mtr_sim_below(r, 256) | 1u << i % 8);
    q->params.adapter = mtr_sim_chance(r, 10) ? 1 : 0;
}

/* Another sample of an earlier request. */
static bool make_sibling(struct mtr_sim_world *w, struct mtr_sim_request *q, uint32_t index)
{
    if (index == 0 || !mtr_sim_chance(&w->random, 15))
        return false;
    const struct mtr_sim_request *first = &w->requests[index - 1];
    q->tokens = calloc(4ul * (w->config.max_sequence_tokens + 1), sizeof(uint32_t));
    q->params.token_count = first->params.token_count;
    memcpy(q->tokens, first->tokens, first->params.token_count * sizeof(uint32_t));
    q->params.after = first->id;
    return true;
}

static void expect(struct mtr_sim_world *w, struct mtr_sim_request *q)
{
    uint32_t most = q->params.max_tokens;
    struct mtr_scripted_request request = {.prompt = q->tokens,
                                           .prompt_count = q->params.token_count,
                                           .adapter = q->params.adapter,
                                           .seed = q->params.sampling.seed,
                                           .stop_ids = q->stops,
                                           .stop_count = q->params.stop_count,
                                           .min_tokens = q->params.min_tokens,
                                           .mask = q->params.constrained ? q->mask : NULL};
    q->expected = calloc(most + 1ul, sizeof(uint32_t));
    uint32_t count = mtr_scripted_expect(&w->model, &request, most, q->expected);
    for (uint32_t i = 0; i < q->params.stop_count && count > 0; i++)
        q->expects_stop |= q->expected[count - 1] == q->stops[i];
    q->expected_count = count - q->expects_stop;
}

void mtr_sim_make_request(struct mtr_sim_world *w, uint32_t index, uint64_t now_ns)
{
    struct mtr_sim_request *q = &w->requests[index];
    if (!make_sibling(w, q, index))
        make_prompt(w, q, index);
    make_sampling(w, q);
    q->params.tokens = q->tokens;
    q->params.stop_ids = q->stops;
    q->params.user = q;
    q->params.deadline_ns =
        mtr_sim_chance(&w->random, 10) ? now_ns + mtr_sim_below(&w->random, 2000) * MS : 0;
    q->scored = 1;
    q->submitted_ns = now_ns;
    expect(w, q);
}
