/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A model's settings as one document, whichever kind of checkpoint they come from.
 *
 * Of a folder it is config.json as it is (with Infinity and NaN, which published files contain). Of
 * a GGUF file it is a flat object of its metadata, in the file's order and under its keys:
 *
 *   {"general.architecture": "llama", "llama.block_count": 30, "llama.rope.freq_base": 100000.0,
 * ...}
 *
 * Arrays of numbers become arrays; arrays longer than MTR_CONFIG_MAX_ARRAY (vocabularies, merges,
 * scores) and everything under "tokenizer." are left out, since they are text's and not the
 * circuit's. Config maps name keys of either spelling; which one it is says `gguf`.
 */
#ifndef MTR_CONFIG_CONFIG_H
#define MTR_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/json.h"
#include "common/checkpoint/checkpoint.h"

#define MTR_CONFIG_MAX_ARRAY 8192 /* items: one per layer, per expert, per frequency */

struct mtr_config {
    const struct mtr_json *root;  /* an object */
    const struct mtr_json *quant; /* hf_quant_config.json (ModelOpt), or NULL */
    struct mtr_str
        architecture; /* general.architecture, or model_type; "" when a folder has none */
    bool gguf;
    uint64_t vocab_tokens; /* GGUF: length of tokenizer.ggml.tokens; 0: not said */
};

/* Everything lives in the arena, or in the checkpoint's mappings. */
bool mtr_config_read(struct mtr_arena *arena, const struct mtr_checkpoint *ck,
                     struct mtr_config *out, struct mtr_error *err);

/*
 * How the publisher wants it to generate: which tokens begin and end, and defaults of the sampler
 * for requests that do not say. From generation_config.json, then config.json; or from GGUF
 * metadata, where end-of-turn tokens that only their text betrays ("<|im_end|>", "<end_of_turn>",
 * ...) are found among the control tokens.
 */
#define MTR_GENERATION_MAX_EOS 32

struct mtr_generation {
    int64_t bos_id; /* -1: none */
    int64_t pad_id; /* -1: none */
    uint32_t eos_count;
    int32_t eos_ids[MTR_GENERATION_MAX_EOS]; /* no duplicates, the file's main one first */

    /* Negative: not said. */
    double temperature; /* 0 when the publisher says do_sample = false and gives none */
    double top_p;
    double min_p;
    int64_t top_k;
    double repetition_penalty;
};

bool mtr_generation_read(const struct mtr_checkpoint *ck, struct mtr_generation *out,
                         struct mtr_error *err);

#endif
