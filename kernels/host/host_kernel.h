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
 * follow it, so a row's bits depend on neither. A K that is no multiple of the lanes counts as
 * padded with zeros. The tree: lanes i and i + 8, of those i and i + 4, i and i + 2, the last two
 * (vec.h). Weights are worth exactly what common/numeric/format.c says; elementary functions are
 * polynomials over exact operations (vec_math.h).
 *
 * A kernel walks whatever grid it is given: block x takes tiles x, x + grid_x, ..., so the sizes of
 * tiles that kernels/args name are advice to the launcher and no contract.
 */
#ifndef MTR_HOST_KERNEL_H
#define MTR_HOST_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MTR_HOST_LANES         16
#define MTR_HOST_SCRATCH_BYTES (1u << 20)

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

/* The variant for an instruction set, or of the next lower one that there is; never NULL. */
mtr_host_function mtr_host_variant(const struct mtr_host_entry *entry, enum mtr_isa isa);

/* Whether this build has it and this CPU can run it; the best such; and "avx512", ... */
bool mtr_host_isa_available(enum mtr_isa isa);
enum mtr_isa mtr_host_best_isa(void);
const char *mtr_isa_name(enum mtr_isa isa);

#endif
