/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A step, as plain C: what the scheduler makes and the executor runs.
 *
 * These structs mirror StepPlan and StepResult of proto/plan.proto field by field; that file
 * defines their meaning. codec.h packs and unpacks them. Tests and golden-check build them
 * directly and need no wire.
 *
 * Arrays belong to whoever filled the struct (a step arena) and are read-only for everyone else.
 */
#ifndef MTR_WIRE_STEP_H
#define MTR_WIRE_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/str.h"

#define MTR_PROTOCOL_VERSION 1
#define MTR_PLANS_IN_FLIGHT  2
#define MTR_MAX_GROUPS       8    /* cache groups of a model */
#define MTR_MAX_BIASES       1024 /* logit biases of a sequence, wherever they are counted */

enum mtr_effect_kind {
    MTR_EFFECT_NONE,
    MTR_COPY_BLOCK,
    MTR_FREE_BLOCK,
    MTR_SPILL_BLOCK,
    MTR_RESTORE_BLOCK,
    MTR_ZERO_STATE,
    MTR_SNAPSHOT_STATE,
    MTR_RESTORE_STATE,
    MTR_LOAD_ADAPTER,
    MTR_EFFECT_COUNT,
};

struct mtr_effect {
    enum mtr_effect_kind kind;
    uint32_t group;
    uint32_t src;
    uint32_t dst;
    struct mtr_str name; /* LOAD_ADAPTER */
};

/* Neutral values are those of mtr_sampling_greedy(). */
struct mtr_sampling {
    float temperature;        /* 0: greedy */
    float top_p;              /* 1: off */
    uint32_t top_k;           /* 0: off */
    float min_p;              /* 0: off */
    float top_n_sigma;        /* 0: off */
    float repetition_penalty; /* 1: off */
    float presence_penalty;   /* 0: off */
    float frequency_penalty;  /* 0: off */
    uint64_t seed;
    uint32_t output_start; /* position of the first generated token */
    uint32_t logprobs;     /* 0: none; 1 + n: the token's own and the n best */
    uint32_t bias_count;
    const uint32_t *bias_ids; /* [bias_count] */
    const float *bias_values; /* [bias_count] */
};

static inline struct mtr_sampling mtr_sampling_greedy(void)
{
    return (struct mtr_sampling){.top_p = 1, .repetition_penalty = 1};
}

struct mtr_table_change {
    uint32_t group;
    uint32_t first;
    uint32_t count;
    const uint32_t *blocks; /* [count] */
};

struct mtr_lane {
    uint64_t sequence;
    uint32_t slot;
    bool open;
    uint32_t start;
    uint32_t count;
    const uint32_t *tokens; /* [count], or NULL: they stand in the slot's history */
    uint32_t history_count;
    const uint32_t *history; /* [history_count] tokens from position 0, with open */
    uint32_t table_count;
    const struct mtr_table_change *tables; /* [table_count] */
    uint32_t outputs;
    uint32_t drafts;
    const struct mtr_sampling *sampling; /* NULL: as before */
    const uint8_t *mask;                 /* [outputs, ceil(vocab / 8)] or NULL */
    uint32_t mask_bytes;                 /* of all rows together */
    uint32_t banned_count;
    const uint32_t *banned; /* [banned_count] */
    bool score;
    uint32_t adapter;
};

struct mtr_step_plan {
    uint64_t step;
    uint32_t effect_count;
    const struct mtr_effect *effects; /* [effect_count] */
    uint32_t lane_count;
    const struct mtr_lane *lanes; /* [lane_count] */
};

struct mtr_token_logprobs {
    float logprob;
    uint32_t rank;
    uint32_t top_count;
    const uint32_t *top_ids;   /* [top_count], best first */
    const float *top_logprobs; /* [top_count] */
};

struct mtr_lane_result {
    uint64_t sequence;
    uint32_t token_count;
    const uint32_t *tokens; /* [token_count] */
    uint32_t accepted;
    uint32_t draft_count;
    const uint32_t *drafts; /* [draft_count] */
    uint32_t logprob_count;
    const struct mtr_token_logprobs *logprobs; /* [logprob_count] */
    uint32_t score_count;
    const struct mtr_token_logprobs *scores; /* [score_count] */
};

struct mtr_step_result {
    uint64_t step;
    uint32_t lane_count;
    const struct mtr_lane_result *lanes; /* [lane_count] */
    uint64_t device_ns;
    uint64_t wait_ns;
};

#endif
