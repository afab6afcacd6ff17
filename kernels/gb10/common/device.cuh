// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The instructions that several kernels share, under the names of what they do. (PTX ISA 8.x:
// cp.async, ldmatrix, mma.sync, griddepcontrol.)
#pragma once

#include <cuda_bf16.h>
#include <stdint.h>

#include "kernels/args/step.h"
#include "kernels/args/tensor_map.h"

namespace device {

// enum mtr_rows and enum mtr_activation of common/circuit/plan.h, which is no header for devices.
enum rows { ROWS_TOKENS, ROWS_OUTPUTS, ROWS_PAIRS, ROWS_LANES };
enum activation { ACT_NONE, ACT_SILU, ACT_GELU, ACT_GELU_TANH, ACT_RELU, ACT_RELU2, ACT_SIGMOID };

__device__ inline uint32_t row_count(const struct mtr_step_view *step, uint32_t kind)
{
    return kind == ROWS_TOKENS ? step->tokens : kind == ROWS_OUTPUTS ? step->outputs : step->lanes;
}

__device__ inline float activate(float x, uint32_t activation)
{
    switch (activation) {
    case ACT_SILU:
        return __fdividef(x, 1.0f + __expf(-x));
    case ACT_GELU:
        return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    case ACT_GELU_TANH: {
        float u = 0.79788456f * (x + 0.044715f * x * x * x);
        return 0.5f * x * (1.0f + tanhf(u));
    }
    case ACT_RELU:
        return fmaxf(x, 0.0f);
    case ACT_RELU2: {
        float y = fmaxf(x, 0.0f);
        return y * y;
    }
    case ACT_SIGMOID:
        return 1.0f / (1.0f + __expf(-x));
    default:
        return x;
    }
}

// A kernel may be started while the one before it on the stream still runs (programmatic dependent
// launch); nothing that others write may be touched before this returns. Every kernel calls it, so
// that order is kept through a chain of them.
__device__ inline void wait_for_predecessor()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the kernel after this one be started as blocks find room.
__device__ inline void let_successor_start()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ inline uint32_t shared_address(const void *p)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// 16 bytes to shared memory, asynchronously and past L1; what lies beyond `bytes` is zero.
__device__ inline void copy16(uint32_t shared, const void *global, uint32_t bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global),
                 "r"(bytes)
                 : "memory");
}

__device__ inline void commit_copies()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// All but the newest N groups have arrived.
template <int N>
__device__ inline void wait_copies()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// 8x8 matrices of 16-bit elements; lane i addresses a row of matrix i / 8.
__device__ inline void load_matrix4(uint32_t &a, uint32_t &b, uint32_t &c, uint32_t &d,
                                    uint32_t shared)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(shared)
                 : "memory");
}

__device__ inline void load_matrix4(uint32_t (&m)[4], uint32_t shared)
{
    load_matrix4(m[0], m[1], m[2], m[3], shared);
}

__device__ inline void load_matrix4_transposed(uint32_t &a, uint32_t &b, uint32_t &c, uint32_t &d,
                                               uint32_t shared)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(shared)
                 : "memory");
}

__device__ inline void load_matrix2(uint32_t (&m)[2], uint32_t shared)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(m[0]), "=r"(m[1])
                 : "r"(shared)
                 : "memory");
}

// d [16, 8] += a [16, 16] b [16, 8], bf16 in, f32 sums.
__device__ inline void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Barriers in shared memory, by address.
__device__ inline void barrier_init(uint32_t barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)
                 : "memory");
}

__device__ inline void barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives, and lets the phase end only after so many bytes.
__device__ inline void barrier_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

// Until the phase of this parity has ended.
__device__ inline void barrier_wait(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra over;\n"
                 "bra again;\n"
                 "over:\n"
                 "}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

// Has the copy engine bring the box at (column, row) of a matrix; outside of it, zeros.
__device__ inline void copy_box(uint32_t shared, const struct mtr_tensor_map *map, uint32_t col,
                                uint32_t row, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared),
                 "l"(map), "r"(col), "r"(row), "r"(barrier)
                 : "memory");
}

// True in one thread of a whole warp. The compiler knows that it is one: what that one gives to the
// copy engine costs no branches.
__device__ inline bool elect()
{
    uint32_t chosen;
    asm volatile("{\n"
                 ".reg .pred is;\n"
                 "elect.sync _|is, 0xffffffff;\n"
                 "selp.u32 %0, 1, 0, is;\n"
                 "}"
                 : "=r"(chosen));
    return chosen;
}

// Has it bring a box to the second-level cache only.
__device__ inline void announce_box(const struct mtr_tensor_map *map, uint32_t col, uint32_t row)
{
    asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(map),
                 "r"(col), "r"(row)
                 : "memory");
}

// What this thread wrote to shared memory is there for the copy engine and the tensor core.
__device__ inline void publish_shared()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Has it bring so many bytes, a multiple of 16 at such an address.
__device__ inline void copy_bytes(uint32_t shared, const void *global, uint32_t bytes,
                                  uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(shared),
                 "l"(global), "r"(bytes), "r"(barrier)
                 : "memory");
}

// A barrier of THREADS threads of the block, by number; 0 is __syncthreads.
template <int THREADS>
__device__ inline void sync_some(int number)
{
    asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(THREADS) : "memory");
}

} // namespace device
