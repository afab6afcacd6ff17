/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a seed decides once: geometry, limits, capacity, and the requests of a run with what they
 * must get.
 */
#ifndef MTR_SIM_WORLD_H
#define MTR_SIM_WORLD_H

#include "broker/sched/sched.h"
#include "tests/support/scripted_model.h"

#define MTR_SIM_MAX_REQUESTS 40
#define MTR_SIM_MAX_STOPS    3
#define MTR_SIM_VOCAB        61

/* Numbers from the seed, one after the other. */
struct mtr_sim_random {
    uint64_t seed, count;
};

uint32_t mtr_sim_below(struct mtr_sim_random *r, uint32_t limit); /* [0, limit) */
static inline uint32_t mtr_sim_between(struct mtr_sim_random *r, uint32_t min, uint32_t max)
{
    return min + mtr_sim_below(r, max - min + 1);
}
static inline bool mtr_sim_chance(struct mtr_sim_random *r, uint32_t percent)
{
    return mtr_sim_below(r, 100) < percent;
}

/* A request, what it must get, and what it got. */
struct mtr_sim_request {
    struct mtr_sched_params params;
    uint32_t *tokens; /* the prompt */
    uint32_t stops[MTR_SIM_MAX_STOPS];
    uint8_t mask[(MTR_SIM_VOCAB + 7) / 8];
    uint32_t *expected; /* [expected_count]: up to a stop id or max_tokens */
    uint32_t expected_count;
    bool expects_stop;
    uint64_t id; /* 0: not submitted */
    uint64_t submitted_ns;
    uint32_t got;    /* tokens */
    uint32_t scored; /* the next position to be scored */
    bool cancelled;
    bool done;
};

struct mtr_sim_world {
    struct mtr_sim_random random;
    struct mtr_sched_config config;
    struct mtr_sched_capacity capacity;
    struct mtr_scripted_config model;
    uint32_t ranks;
    bool shrinks; /* a worker may come back with less memory */
    uint32_t request_count;
    struct mtr_sim_request requests[MTR_SIM_MAX_REQUESTS];
};

void mtr_sim_world_init(struct mtr_sim_world *w, uint64_t seed);
void mtr_sim_world_free(struct mtr_sim_world *w);

/* Tokens that the cache can hold of one sequence: what the scheduler must find, computed apart. */
uint32_t mtr_sim_capacity_tokens(const struct mtr_sim_world *w);

/* Makes request number `index`, maybe a continuation of one that is done. */
void mtr_sim_make_request(struct mtr_sim_world *w, uint32_t index, uint64_t now_ns);

#endif
