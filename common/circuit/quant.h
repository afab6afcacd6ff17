/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Declared weight quantization: quantization_config of config.json, or hf_quant_config.json.
 *
 * What is read says how a quantized matrix stands in the checkpoint: its format, its scales and the
 * names of their tensors. Which matrices are quantized is decided by the tensors where they are
 * listed, and by the scheme's exceptions where only config.json is at hand. Activation scales take
 * no part: weights are dequantized, activations are not quantized. Formats: compressed-tensors
 * 0.12, ModelOpt 0.37, transformers' fp8; see ir.h for the scalings.
 */
#ifndef MTR_CIRCUIT_QUANT_H
#define MTR_CIRCUIT_QUANT_H

#include "common/base/json.h"
#include "common/circuit/ir.h"

struct mtr_quant_scheme {
    const char *name; /* "compressed-tensors nvfp4-pack-quantized" */
    enum mtr_format format;
    enum mtr_scaling scaling;
    const char *weight; /* suffixes: ".weight_packed" */
    const char *scale;
    const char *global; /* or NULL */
    bool global_divides;
    const char *other_scale; /* another spelling of `scale`, or NULL */
    uint32_t except_count;
    const struct mtr_str *except; /* module names, or "re:" and a pattern */
};

/* NULL with err filled when it is malformed (MTR_INVALID) or of a kind that is not read here
 * (MTR_UNSUPPORTED, by name). One of the two objects may be NULL. */
struct mtr_quant_scheme *mtr_quant_read(struct mtr_arena *arena, const struct mtr_json *config,
                                        const struct mtr_json *modelopt, struct mtr_error *err);

/* Whether the scheme leaves the module ("lm_head", "model.layers.0.mlp.down_proj") as it is. */
bool mtr_quant_excepts(const struct mtr_quant_scheme *q, const char *module);

#endif
