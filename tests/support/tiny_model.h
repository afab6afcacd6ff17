/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A Llama-shaped model of two layers whose plan is written by hand, with random F32 weights: enough
 * to run every part of the executor without checkpoint, circuit or fuser.
 *
 *   embed, rotary, 2 x (norm, qkv, rope_append, attention, out +=, norm, glu, down +=), norm, head
 */
#ifndef MTR_SUPPORT_TINY_MODEL_H
#define MTR_SUPPORT_TINY_MODEL_H

#include "common/circuit/families.h"
#include "common/circuit/plan.h"
#include "worker/backend/backend.h"

#define TINY_VOCAB    83 /* no multiple of anything */
#define TINY_HIDDEN   64
#define TINY_HEADS    4
#define TINY_KV_HEADS 2
#define TINY_HEAD_DIM 16
#define TINY_FFN      96
#define TINY_LAYERS   2
#define TINY_LAUNCHES (4 + 8 * TINY_LAYERS)

struct tiny_model {
    struct mtr_plan plan;
    struct mtr_plan_buffer buffers[12];
    struct mtr_plan_weight weights[3 + 9 * TINY_LAYERS];
    struct mtr_cache_group group;
    struct mtr_plan_cache caches[TINY_LAYERS];
    struct mtr_plan_constant constant;
    float inv_freq[TINY_HEAD_DIM / 2];
    struct mtr_launch launches[TINY_LAUNCHES];
    void *addresses[3 + 9 * TINY_LAYERS];
    float *memory;
};

/* limits.max_sequence_tokens etc. as given. cache: MTR_F32 or MTR_BF16. */
void tiny_model_init(struct tiny_model *m, struct mtr_plan_limits limits, enum mtr_format cache);
void tiny_model_free(struct tiny_model *m);

#endif
