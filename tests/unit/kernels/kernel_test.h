/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the tests of the host kernels share: random data, running a kernel over a grid in shuffled
 * order on one instruction set, and comparing bits. Every test runs on all sets that this CPU has
 * and demands the portable one's bits.
 */
#ifndef MTR_UNIT_KERNELS_KERNEL_TEST_H
#define MTR_UNIT_KERNELS_KERNEL_TEST_H

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/circuit/plan.h"
#include "common/numeric/format.h"
#include "common/numeric/numeric.h"
#include "kernels/host/host_kernel.h"
#include "tests/unit/check_main.h"

struct noise {
    uint64_t state;
};

static inline uint32_t noise_u32(struct noise *n) /* splitmix64 */
{
    uint64_t z = n->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) >> 32);
}

static inline uint32_t noise_below(struct noise *n, uint32_t bound)
{
    return (uint32_t)((uint64_t)noise_u32(n) * bound >> 32);
}

/* In (-1, 1). */
static inline float noise_float(struct noise *n)
{
    return (float)(int32_t)noise_u32(n) * 0x1p-31f;
}

static inline void *must_alloc(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 64) / 64 * 64);
    ck_assert_ptr_nonnull(p);
    return p;
}

static inline float *noise_floats(struct noise *n, size_t count)
{
    float *p = must_alloc(count * sizeof *p);
    for (size_t i = 0; i < count; i++)
        p[i] = noise_float(n);
    return p;
}

/* Output memory that no kernel may leave as it is where it should write. */
static inline void poison(void *p, size_t bytes)
{
    memset(p, 0xff, bytes); /* NaN in f32 and bf16 */
}

static inline size_t format_bytes(enum mtr_format f, size_t elements)
{
    uint64_t bytes;
    ck_assert(mtr_format_row_bytes(f, elements, &bytes));
    return bytes;
}

/* A tensor [rows, k]: random quants under scales of sane size. */
static inline uint8_t *noise_weights(struct noise *n, enum mtr_format f, size_t rows, size_t k)
{
    const struct mtr_format_info *info = mtr_format_info(f);
    size_t bytes = rows * format_bytes(f, k);
    uint8_t *w = must_alloc(bytes);
    if (info->block_elements == 1) {
        for (size_t i = 0; i < rows * k; i++) {
            float v = noise_float(n);
            uint16_t h = f == MTR_F16 ? mtr_f16_from_f32(v) : mtr_bf16_from_f32(v);
            if (f == MTR_F32)
                memcpy(w + 4 * i, &v, 4);
            else
                memcpy(w + 2 * i, &h, 2);
        }
        return w;
    }
    for (size_t i = 0; i < bytes; i++)
        w[i] = (uint8_t)noise_u32(n);
    for (size_t b = 0; b < bytes; b += info->block_bytes) {
        uint16_t d = mtr_f16_from_f32(noise_float(n) * 0.1f), m = mtr_f16_from_f32(noise_float(n));
        size_t at = f == MTR_Q6_K ? 208 : 0;
        memcpy(w + b + at, &d, 2);
        if (f == MTR_Q4_1 || f == MTR_Q5_1 || f == MTR_Q4_K || f == MTR_Q5_K)
            memcpy(w + b + 2, &m, 2);
    }
    return w;
}

static inline float *dequantized(enum mtr_format f, const uint8_t *w, size_t rows, size_t k)
{
    const struct mtr_format_info *info = mtr_format_info(f);
    float *out = must_alloc(rows * k * sizeof *out);
    info->dequantize(w, out, rows * k / info->block_elements);
    return out;
}

static inline const struct mtr_host_entry *find_kernel(const char *function)
{
    size_t count;
    const struct mtr_host_entry *e = mtr_host_kernels(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(e[i].function, function) == 0)
            return &e[i];
    ck_abort_msg("no kernel %s", function);
    return NULL;
}

/* Runs the grid's blocks in an order of its own, with poisoned scratch. */
static inline void run_kernel(const char *function, enum mtr_isa isa, const void *args,
                              uint32_t grid_x, uint32_t grid_y)
{
    mtr_host_function call = mtr_host_variant(find_kernel(function), isa);
    void *scratch = must_alloc(MTR_HOST_SCRATCH_BYTES);
    poison(scratch, MTR_HOST_SCRATCH_BYTES);
    uint32_t blocks = grid_x * grid_y, stride = 7919 % blocks ? 7919 : 1;
    for (uint32_t i = 0, b = blocks / 2; i < blocks; i++, b = (b + stride) % blocks) {
        uint32_t at = blocks % 7919 ? b : i;
        struct mtr_host_block block = {at % grid_x, at / grid_x, 0, grid_x, grid_y, 1, scratch};
        call(args, &block);
    }
    free(scratch);
}

/* The first difference of bits fails, naming its place. */
static inline void same_bits(const float *a, const float *b, size_t count, const char *what,
                             enum mtr_isa isa)
{
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(mtr_f32_bits(a[i]) == mtr_f32_bits(b[i]),
                      "%s (%s): element %zu is %a, not %a", what, mtr_isa_name(isa), i,
                      (double)b[i], (double)a[i]);
}

#define FOR_EACH_ISA(isa)                                                                          \
    for (enum mtr_isa isa = MTR_ISA_PORTABLE; isa < MTR_ISA_COUNT; isa++)                          \
        if (mtr_host_isa_available(isa))

#endif
