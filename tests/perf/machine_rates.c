/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The best of several short measurements, since other programs may share the machine. */
#include "tests/perf/machine_rates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define READ_BYTES (256u << 20)
#define PIECES     256
#define ROUNDS     8
#define FMA_LOOPS  200000
#define CHAINS     12

double mtr_perf_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct task {
    const uint64_t *memory;
    uint64_t sums[PIECES];
    double flops[PIECES];
};

#if defined(__x86_64__)
__attribute__((target_clones("avx2", "default")))
#endif
static uint64_t read_words(const uint64_t *p, size_t count)
{
    uint64_t sums[16] = {0};
    for (size_t i = 0; i < count; i += 16)
        for (int j = 0; j < 16; j++)
            sums[j] += p[i + j];
    uint64_t sum = 0;
    for (int j = 0; j < 16; j++)
        sum += sums[j];
    return sum;
}

static void read_piece(void *context, uint32_t i)
{
    struct task *t = context;
    size_t count = READ_BYTES / 8 / PIECES;
    t->sums[i] = read_words(t->memory + i * count, count);
}

/* Each returns the operations that it did. */
#if defined(__x86_64__)
__attribute__((target("avx512f"))) static double fma512(void)
{
    __m512 acc[CHAINS], x = _mm512_set1_ps(0.5f);
    for (int c = 0; c < CHAINS; c++)
        acc[c] = _mm512_set1_ps((float)c);
    for (int i = 0; i < FMA_LOOPS; i++)
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++)
            acc[c] = _mm512_fmadd_ps(acc[c], x, x);
    __m512 all = acc[0];
    for (int c = 1; c < CHAINS; c++)
        all = _mm512_add_ps(all, acc[c]);
    volatile float keep = _mm512_reduce_add_ps(all);
    (void)keep;
    return 2.0 * 16 * CHAINS * FMA_LOOPS;
}

__attribute__((target("avx2,fma"))) static double fma256(void)
{
    __m256 acc[CHAINS], x = _mm256_set1_ps(0.5f);
    for (int c = 0; c < CHAINS; c++)
        acc[c] = _mm256_set1_ps((float)c);
    for (int i = 0; i < FMA_LOOPS; i++)
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++)
            acc[c] = _mm256_fmadd_ps(acc[c], x, x);
    __m256 all = acc[0];
    for (int c = 1; c < CHAINS; c++)
        all = _mm256_add_ps(all, acc[c]);
    volatile float keep = _mm256_cvtss_f32(all);
    (void)keep;
    return 2.0 * 8 * CHAINS * FMA_LOOPS;
}
#endif

static double fma_plain(void)
{
    float acc[CHAINS];
    for (int c = 0; c < CHAINS; c++)
        acc[c] = (float)c;
#if defined(__aarch64__)
    float32x4_t wide[CHAINS], x = vdupq_n_f32(0.5f);
    for (int c = 0; c < CHAINS; c++)
        wide[c] = vdupq_n_f32((float)c);
    for (int i = 0; i < FMA_LOOPS; i++)
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++)
            wide[c] = vfmaq_f32(x, wide[c], x);
    for (int c = 0; c < CHAINS; c++)
        acc[c] = vaddvq_f32(wide[c]);
    const double lanes = 4;
#else
    for (int i = 0; i < FMA_LOOPS; i++)
        for (int c = 0; c < CHAINS; c++)
            acc[c] = fmaf(acc[c], 0.5f, 0.5f);
    const double lanes = 1;
#endif
    volatile float keep = 0;
    for (int c = 0; c < CHAINS; c++)
        keep += acc[c];
    return 2.0 * lanes * CHAINS * FMA_LOOPS;
}

static void fma_piece(void *context, uint32_t i)
{
    struct task *t = context;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        t->flops[i] = fma512();
    else if (__builtin_cpu_supports("fma"))
        t->flops[i] = fma256();
    else
#endif
        t->flops[i] = fma_plain();
}

static double best_seconds(struct mtr_backend *b, uint32_t count,
                           void (*work)(void *context, uint32_t index), void *context)
{
    double best = INFINITY;
    for (int round = 0; round < ROUNDS; round++) {
        double start = mtr_perf_now();
        b->ops->parallel(b, count, work, context);
        best = fmin(best, mtr_perf_now() - start);
    }
    return best;
}

struct mtr_machine_rates mtr_measure_machine(struct mtr_backend *b)
{
    struct mtr_machine_rates rates = {0, 0};
    struct task *t = calloc(1, sizeof *t);
    void *memory = b->ops->alloc(b, READ_BYTES, NULL);
    if (t && memory) {
        memset(memory, 1, READ_BYTES);
        t->memory = memory;
        rates.read_gb_per_s = READ_BYTES / best_seconds(b, PIECES, read_piece, t) * 1e-9;
        double seconds = best_seconds(b, 16, fma_piece, t), flops = 0;
        for (int i = 0; i < 16; i++)
            flops += t->flops[i];
        rates.fma_gflop_per_s = flops / seconds * 1e-9;
    }
    b->ops->free(b, memory);
    free(t);
    return rates;
}
