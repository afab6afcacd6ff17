/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The compiler: from a checkpoint's settings and tensor list to a plan. Broker, worker and
 * metralectl all use this one entry, and get the same plan, bit for bit.
 *
 *   mtr_settings_read   config map        (config_map.h)
 *   mtr_instantiate     circuit at a shape (below)
 *   mtr_fuse            groups            (fuser.h)
 *   mtr_plan_build      all of them, buffers and digest
 *
 * Pure: no files, no clock, no environment. Everything is allocated in the caller's arena and lives
 * as long as it. Errors: MTR_INVALID for settings that can't be right, MTR_UNSUPPORTED for what is
 * well-formed and not computed here (the message names key, value or operation), MTR_NOT_FOUND for
 * a tensor that should be there, MTR_TOO_LARGE, MTR_NO_MEMORY.
 */
#ifndef MTR_CIRCUIT_COMPILE_H
#define MTR_CIRCUIT_COMPILE_H

#include "common/base/json.h"
#include "common/circuit/ir.h"
#include "common/circuit/plan.h"

struct mtr_hardware;
struct mtr_settings;

#define MTR_MODEL_MAX_RANK 6

/* What the compiler needs to know of a tensor. */
struct mtr_model_tensor {
    struct mtr_str name;
    enum mtr_format format;
    uint32_t rank;
    uint64_t shape[MTR_MODEL_MAX_RANK]; /* outermost first, in elements */
};

/* A checkpoint, seen by the compiler. source.h makes one of an open checkpoint. */
struct mtr_model_source {
    const struct mtr_json *config; /* config.json, or the flat object of GGUF metadata */
    const struct mtr_json *quant;  /* hf_quant_config.json, or NULL */
    bool gguf;
    uint64_t vocab_tokens; /* GGUF: entries of the vocabulary; 0: unknown */

    /* Finds a tensor; false when there is none. NULL: no tensors at hand (a bare config.json), and
     * formats are those that the settings declare. */
    bool (*find)(const void *tensors, struct mtr_str name, struct mtr_model_tensor *out);
    const void *tensors;
};

struct mtr_plan_options {
    const char *hardware;          /* class: "host" */
    const char *precision;         /* "declared": weights as the checkpoint holds them */
    enum mtr_format cache;         /* MTR_FORMAT_COUNT: the class's default */
    uint32_t block_tokens;         /* of a cache block; 0: MTR_DEFAULT_BLOCK_TOKENS */
    struct mtr_plan_limits limits; /* zeros: MTR_DEFAULT_..., and the model's context */
};

#define MTR_DEFAULT_BLOCK_TOKENS 16
#define MTR_DEFAULT_STEP_TOKENS  512
#define MTR_DEFAULT_LANES        64

/* NULL on failure. */
struct mtr_plan *mtr_plan_build(struct mtr_arena *arena, const struct mtr_model_source *source,
                                const struct mtr_plan_options *options, struct mtr_error *err);

/* The plan as text, one thing a line, the same on every machine: what the digest is taken of and
 * what the golden plans hold. */
bool mtr_plan_text(struct mtr_buf *out, const struct mtr_plan *plan);

/* A circuit at the shape that settings give, for a class. */
bool mtr_instantiate(struct mtr_arena *arena, const struct mtr_model_source *source,
                     const struct mtr_settings *settings, const struct mtr_hardware *hardware,
                     const struct mtr_plan_options *options, struct mtr_instance *out,
                     struct mtr_error *err);

#endif
