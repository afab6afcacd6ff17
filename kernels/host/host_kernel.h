/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A host kernel: the twin of a CUDA kernel of the same module, function and argument struct.
 *
 * It is called once for each block of the grid, from any thread of the pool, in any order. Blocks
 * of one launch do not depend on each other. `scratch` is the thread's own memory, 64-byte aligned,
 * for panels and the like; its content is undefined.
 *
 * Activations are f32. Reference numerics: every output has one accumulator of MTR_HOST_LANES
 * virtual lanes along K (element k adds into lane k mod MTR_HOST_LANES with a fused multiply-add,
 * in increasing k) and one fixed final tree over the lanes. All instruction sets and all row counts
 * follow it, so a row's bits depend on neither.
 */
#ifndef MTR_HOST_KERNEL_H
#define MTR_HOST_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#define MTR_HOST_LANES         16
#define MTR_HOST_SCRATCH_BYTES (512u << 10)

struct mtr_host_block {
    uint32_t x, y, z;
    uint32_t grid_x, grid_y, grid_z;
    void *scratch; /* [MTR_HOST_SCRATCH_BYTES] */
};

typedef void (*mtr_host_function)(const void *args, const struct mtr_host_block *block);

enum mtr_isa { MTR_ISA_PORTABLE, MTR_ISA_NEON, MTR_ISA_AVX2, MTR_ISA_AVX512, MTR_ISA_COUNT };

struct mtr_host_entry {
    const char *module;
    const char *function;
    mtr_host_function variants[MTR_ISA_COUNT]; /* NULL: use the next lower one */
};

/* All host kernels. */
const struct mtr_host_entry *mtr_host_kernels(size_t *count);

/* What this CPU can run, best last; and "avx512", ... */
enum mtr_isa mtr_host_best_isa(void);
const char *mtr_isa_name(enum mtr_isa isa);

#endif
