/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The two kinds of case that golden-check runs. Each prints one line a figure and returns whether
 * all of it is right; what could not be run at all is told in err with a false.
 */
#ifndef MTR_CHECK_CHECK_H
#define MTR_CHECK_CHECK_H

#include "tests/check/engine.h"

#define CHECK_MAX_CHUNKS 16

struct check_options {
    struct engine_options engine;
    uint32_t chunks[CHECK_MAX_CHUNKS]; /* prefill chunk sizes beside the whole */
    uint32_t chunk_count;
    uint32_t lanes;   /* the same prompt this many times in one step */
    double tolerance; /* relative Frobenius error of logits; 0: by the cache's format */
    const char *only; /* case name of a real file, or NULL */
};

/* DIR: config.json, model.safetensors, golden.safetensors. */
bool check_folder(const char *dir, const struct check_options *o, struct mtr_error *err);

/* json: recorded cases of a published model; model: its GGUF file. */
bool check_real(const char *model, const char *json, const struct check_options *o,
                struct mtr_error *err);

#endif
