/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* All host kernels: X(module, function). registry.c makes its table and declarations of this. */
#ifndef MTR_HOST_FUNCTIONS_H
#define MTR_HOST_FUNCTIONS_H

#define MTR_HOST_WEIGHTS(X, family)                                                                \
    X(family, family##_f32)                                                                        \
    X(family, family##_f16)                                                                        \
    X(family, family##_bf16)                                                                       \
    X(family, family##_q4_0)                                                                       \
    X(family, family##_q4_1)                                                                       \
    X(family, family##_q5_0)                                                                       \
    X(family, family##_q5_1)                                                                       \
    X(family, family##_q8_0)                                                                       \
    X(family, family##_q4_k)                                                                       \
    X(family, family##_q5_k)                                                                       \
    X(family, family##_q6_k)

#define MTR_HOST_LATENT(X, half)                                                                   \
    X(latent, latent_##half##_f32)                                                                 \
    X(latent, latent_##half##_f16)                                                                 \
    X(latent, latent_##half##_bf16)                                                                \
    X(latent, latent_##half##_q4_0)                                                                \
    X(latent, latent_##half##_q4_1)                                                                \
    X(latent, latent_##half##_q5_0)                                                                \
    X(latent, latent_##half##_q5_1)                                                                \
    X(latent, latent_##half##_q8_0)                                                                \
    X(latent, latent_##half##_q4_k)                                                                \
    X(latent, latent_##half##_q5_k)                                                                \
    X(latent, latent_##half##_q6_k)                                                                \
    X(latent, latent_##half##_e4m3_tensor)                                                         \
    X(latent, latent_##half##_e4m3_channel)                                                        \
    X(latent, latent_##half##_e4m3_block)                                                          \
    X(latent, latent_##half##_e2m1_group16)

#define MTR_HOST_FUNCTIONS(X)                                                                      \
    MTR_HOST_WEIGHTS(X, embed)                                                                     \
    MTR_HOST_WEIGHTS(X, linear)                                                                    \
    X(linear, linear_e4m3_tensor)                                                                  \
    X(linear, linear_e4m3_channel)                                                                 \
    X(linear, linear_e4m3_block)                                                                   \
    X(linear, linear_e2m1_group16)                                                                 \
    MTR_HOST_WEIGHTS(X, experts)                                                                   \
    X(experts, experts_e4m3_tensor)                                                                \
    X(experts, experts_e4m3_channel)                                                               \
    X(experts, experts_e4m3_block)                                                                 \
    X(experts, experts_e2m1_group16)                                                               \
    X(route, route)                                                                                \
    X(combine, combine)                                                                            \
    X(rms_norm, rms_norm)                                                                          \
    X(rms_norm, gated_norm)                                                                        \
    X(rope, rotary)                                                                                \
    X(rope, rope_append_f32)                                                                       \
    X(rope, rope_append_bf16)                                                                      \
    X(attention, attention_f32)                                                                    \
    X(attention, attention_bf16)                                                                   \
    X(attention, latent_attention_f32)                                                             \
    X(attention, latent_attention_bf16)                                                            \
    X(latent, latent_append_f32)                                                                   \
    X(latent, latent_append_bf16)                                                                  \
    MTR_HOST_LATENT(X, query)                                                                      \
    MTR_HOST_LATENT(X, value)                                                                      \
    X(elementwise, add)                                                                            \
    X(elementwise, glu)                                                                            \
    X(elementwise, activate)                                                                       \
    X(elementwise, scale)                                                                          \
    X(elementwise, gather)                                                                         \
    X(elementwise, gate)                                                                           \
    X(elementwise, slice)                                                                          \
    X(elementwise, concat)                                                                         \
    X(conv1d, conv1d_f32)                                                                          \
    X(delta, delta_gate)                                                                           \
    X(delta, delta_rule)                                                                           \
    X(scan, scan)                                                                                  \
    X(sample, argmax)                                                                              \
    X(sample, sample)                                                                              \
    X(dummy, dummy_f32)                                                                            \
    X(dummy, dummy_f16)                                                                            \
    X(dummy, dummy_bf16)                                                                           \
    X(dummy, dummy_blocks)                                                                         \
    X(dummy, dummy_bytes)

#endif
