/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The cases of kernel-check, as data: which launches each function is tried with.
 */
#ifndef MTR_CHECK_KERNEL_CASES_H
#define MTR_CHECK_KERNEL_CASES_H

#include "tests/check/kernel_rig.h"

enum kernel_flags {
    K_RESIDUAL = 1, /* rms_norm adds to it */
    K_GATHER = 2,   /* rows of outputs out of rows of tokens */
    K_UNIT = 4,     /* norm weights are 1 + w */
    K_NORMS = 8,    /* rope_append normalizes heads */
    K_INTERLEAVED = 16,
    K_NO_TABLE = 32, /* rope_append does not rotate */
    K_SINKS = 64,
    K_BIAS = 128,
    K_LOGITS = 256,  /* f32 output */
    K_FACTORS = 512, /* of rotary */
};

struct kernel_case {
    const char *function; /* or all that begin with it and '_' */
    void (*build)(struct rig *r, const struct kernel_case *c);
    const struct rig_sequence *sequences; /* ends with a count of 0 */
    uint32_t cols;                        /* or rotated pairs, or k of linear */
    uint32_t n[4];                        /* rows of linear's weights, of embed's table, or 0 */
    uint32_t heads, kv_heads, head_dim, window;
    uint32_t epilogue, activation;
    uint32_t flags;
    float number; /* multiplier, soft cap */
};

/* All cases, and those that are worth timing (shapes of models). */
const struct kernel_case *kernel_cases(uint32_t *count);
const struct kernel_case *kernel_timings(uint32_t *count);

/* Whether the case is one for this point. */
bool kernel_case_fits(const struct kernel_case *c, const struct mtr_family *family,
                      const struct mtr_point *point);

uint32_t kernel_case_sequences(const struct kernel_case *c);

/* "rows 64, cols 4096, residual": what tells the case apart. */
void kernel_case_name(const struct kernel_case *c, char *out, size_t room);

/* Bytes that the launch must at least move, and operations that it does. */
void kernel_case_work(const struct kernel_case *c, const struct mtr_point *point, double *bytes,
                      double *operations);

#endif
