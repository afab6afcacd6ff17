/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Models that a class treats for themselves: kernels/<class>/<model>/MODEL.toml. It says which
 * checkpoints it means, how they like to be sampled when neither request nor checkpoint says so,
 * and which variables their chat template gets. A folder below it, named after a format of weights,
 * may hold kernels of its own for that model (kernels/images). Tables are generated; a class has
 * its ancestors' models too.
 */
#ifndef MTR_CIRCUIT_TARGET_H
#define MTR_CIRCUIT_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/str.h"
#include "common/circuit/plan.h"

/* What a checkpoint must be; NULL, 0 and no names stand for anything. */
struct mtr_target_match {
    const char *model_type; /* of config.json, or general.architecture */
    uint32_t hidden_size;
    uint32_t name_count;
    const char *const *names; /* one of these in the checkpoint's name, in lower case */
};

struct mtr_target_variable {
    const char *name; /* "enable_thinking" */
    bool value;
};

struct mtr_target_model {
    const char *hardware; /* "hopper" */
    const char *model;    /* the folder's name: "qwen3-8b" */
    uint32_t match_count, variable_count;
    const struct mtr_target_match *matches;
    const struct mtr_target_variable *variables;
    /* Negative: not said. */
    double temperature, top_p, min_p, repetition_penalty;
    int32_t top_k;
};

const struct mtr_target_model *mtr_target_models(uint32_t *count);

/* A checkpoint, as a choice sees it. */
struct mtr_target_subject {
    const char *hardware;
    struct mtr_str model_type;
    uint32_t hidden_size;
    struct mtr_str name; /* of file, folder or hub id */
};

/* Among models [count] the one for a checkpoint, or NULL in *out for none. One that names type and
 * size goes before one that names less; among equals, one that knows the name goes before those
 * that don't. What is then still undecided is refused (MTR_INVALID), naming both. */
bool mtr_target_choose(const struct mtr_target_model *models, uint32_t count,
                       const struct mtr_target_subject *subject,
                       const struct mtr_target_model **out, struct mtr_error *err);

/* What most of a plan's matrices are kept in: the name of a leaf's folder. */
const char *mtr_target_quant(const struct mtr_plan *plan);

#endif
