/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the broker knows of a model: its checkpoint's texts, tokenizer, template, plan.
 * Immutable once loaded; shared by all threads.
 */
#ifndef MTR_ENGINE_MODEL_H
#define MTR_ENGINE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/engine/formats.h"
#include "broker/text/tokenizer.h"
#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/json.h"
#include "common/circuit/plan.h"

struct mtr_target_model;
struct mtr_template;
struct mtr_checkpoint;

struct mtr_served_model_options {
    const char *model;     /* path or hub id */
    const char *cache_dir; /* or NULL */
    const char *name;      /* served name; NULL: the checkpoint's */
    const char *hardware;  /* kernel class the workers run */
    const char *precision;
    bool dummy_weights; /* the checkpoint needs no tensors */
    const char *cache_format;
    uint32_t block_tokens;
    struct mtr_plan_limits limits;              /* max_sequence_tokens 0: the model's context */
    const char *template_file;                  /* overrides the checkpoint's, or NULL */
    const char *tool_parser, *reasoning_parser; /* a format's name, "none"; NULL: by the template */
    bool disable_thinking;
    uint32_t max_thinking_budget; /* tokens of reasoning for who does not say; 0: no limit */
    double auto_compact;          /* compact_above, as a part of the context; 0: never */
};

/* Defaults that the checkpoint recommends, then those of its MODEL.toml; absent ones are the
 * neutral values. */
struct mtr_served_model_defaults {
    float temperature, top_p, min_p, repetition_penalty;
    uint32_t top_k;
};

struct mtr_served_model {
    struct mtr_arena arena;
    struct mtr_checkpoint *checkpoint;
    const char *path; /* absolute: what workers open */
    struct mtr_str name;
    struct mtr_tokenizer *tokenizer;
    const struct mtr_template *chat_template;  /* NULL: none; chat requests are refused */
    const struct mtr_json *template_variables; /* bos_token, eos_token, ... */
    const struct mtr_json *template_defaults;  /* where a request says nothing; NULL: none */
    struct mtr_formats formats;                /* of reasoning and calls */
    bool disable_thinking;                     /* no request may think */
    uint32_t max_thinking_budget;              /* 0: no limit */
    uint32_t think_end_count;
    const uint32_t
        *think_end; /* [think_end_count] what ends reasoning by force; none: it can't be */
    const struct mtr_target_model *target; /* what the class knows of this model, or NULL */
    const struct mtr_plan *plan;
    struct mtr_served_model_defaults defaults;
    uint32_t stop_count;
    const uint32_t *stop_ids; /* [stop_count] end of generation */
    uint32_t max_sequence_tokens;
    uint32_t compact_above; /* prompts longer than this lose their oldest turns; 0: never */
    int64_t created;        /* seconds since 1970 */
};

struct mtr_served_model *mtr_served_model_load(const struct mtr_served_model_options *options,
                                               struct mtr_error *err);
void mtr_served_model_free(struct mtr_served_model *m);

/* Is that its name? False (MTR_NOT_FOUND) says which one is. */
bool mtr_served_model_is(const struct mtr_served_model *m, struct mtr_str name,
                         struct mtr_error *err);

#endif
