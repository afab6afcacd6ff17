/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Finding the tensor of a weight: its name in the checkpoint at hand, its format, its scales.
 * Internal to common/circuit.
 */
#ifndef MTR_CIRCUIT_BINDING_H
#define MTR_CIRCUIT_BINDING_H

#include "common/circuit/config_map.h"

struct mtr_binding {
    const struct mtr_weight_def *def;
    uint16_t layer; /* MTR_NONE outside layers */
    bool bias;
    uint64_t rows, cols; /* expected; rows 1: a vector */
    uint32_t stack;      /* matrices of that shape; 1: no stack */
    bool linear;         /* may be quantized with scales beside it */
    bool conv;           /* of one input channel a row: [rows, 1, cols] in safetensors */
};

/* Errors: MTR_NOT_FOUND and MTR_INVALID name the tensor, what was found and what was expected. */
bool mtr_bind(struct mtr_arena *arena, const struct mtr_model_source *source,
              const struct mtr_settings *settings, const struct mtr_binding *want,
              struct mtr_instance_weight *out, struct mtr_error *err);

#endif
