/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Inverse frequencies of rotary position embedding, with the scalings that published checkpoints
 * declare. Symbols: <prefix>theta, type (0 default, 1 linear, 2 llama3, 3 yarn), factor, low, high,
 * original, attention, beta_fast, beta_slow, mscale, mscale_all, truncate; and rotary_dim, context.
 *
 * Sources: Su et al. 2021 (RoFormer); Chen et al. 2023 (linear); Peng et al. 2023 (YaRN); the Llama
 * 3.1 model card for llama3.
 */
#ifndef MTR_CIRCUIT_ROPE_H
#define MTR_CIRCUIT_ROPE_H

#include "common/base/arena.h"
#include "common/circuit/expr.h"

/* Checks that the symbols of the scaling's type are there and none of another type, and sets
 * <prefix>scale, the factor on cosines and sines, and <prefix>sharpness, that on the logits of
 * families whose attention has one beside it (DeepSeek's mscale_all_dim); 1 without scaling. */
bool mtr_rope_prepare(struct mtr_symbols *s, const char *prefix, struct mtr_error *err);

/* values [rotary_dim / 2]. NULL when out of memory. */
const float *mtr_rope_frequencies(struct mtr_arena *arena, const struct mtr_symbols *s,
                                  const char *prefix, uint32_t pairs);

#endif
