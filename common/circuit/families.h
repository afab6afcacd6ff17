/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel families and their points: what a hardware class can launch.
 *
 * A family is one algorithm: one module, one argument struct (kernels/args/<family>.h), one launcher
 * (worker/ops/<family>.c). A point is one instantiation of it: one function of that module. The
 * tables are generated at build time from kernels/<class>/common/KERNEL_FAMILIES.toml.
 *
 * Names. Module = family. Function = family, then the policies that tell its points apart:
 *   embed_<weight>           linear_<weight>            rms_norm    rotary
 *   rope_append_<cache>      attention_<cache>          add  glu  activate  scale  gather
 * with <weight> and <cache> the names of common/numeric/format.h: linear_q4_1, attention_bf16.
 */
#ifndef MTR_CIRCUIT_FAMILIES_H
#define MTR_CIRCUIT_FAMILIES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/numeric/format.h"

struct mtr_point {
    const char *function;
    enum mtr_format weight; /* weight policy, or MTR_FORMAT_COUNT when the family has none */
    enum mtr_format cache;  /* cache policy, or MTR_FORMAT_COUNT */
    uint32_t min_rows, max_rows; /* that one launch covers; 0: no bound */
    const char *numerics;   /* how it sums, in words that the plan's digest includes */
    bool by_default;        /* false: only when a named policy asks for it */
};

struct mtr_family {
    const char *name; /* = module */
    const char *compute; /* "cpu", "cuda core", "tensor core", "memory" */
    uint32_t point_count;
    const struct mtr_point *points; /* [point_count] */
};

/* A hardware class as generated: families, rules, formats. hardware.h finds one by name. */
struct mtr_hardware;

#endif
