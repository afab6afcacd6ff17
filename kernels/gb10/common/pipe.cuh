// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Stages of shared memory between one thread that has the copy engine fill them and the warps that
// use them up. Each stage has two barriers: `full` ends a phase when all bytes have arrived,
// `empty` when all users have let go. (PTX ISA 8.x: mbarrier, cp.async.bulk.tensor.)
#pragma once

#include <stdint.h>

#include "kernels/args/tensor_map.h"
#include "kernels/gb10/common/device.cuh"

// Barriers stand in front; stages begin on a boundary of 1024 bytes, as the swizzle wants.
#define MTR_PIPE_BYTES 2048

template <int STAGES, int STAGE_BYTES>
struct pipe {
    static_assert(STAGES * 16 <= 1016, "room for barriers");
    uint32_t barriers, stages; // shared addresses

    __device__ explicit pipe(const void *memory)
        : barriers(device::shared_address(memory)), stages((barriers + 1024 + 1023) & ~1023u)
    {
    }

    __device__ uint32_t full(uint32_t use) const
    {
        return barriers + use % STAGES * 8;
    }

    __device__ uint32_t empty(uint32_t use) const
    {
        return barriers + (STAGES + use % STAGES) * 8;
    }

    __device__ uint32_t stage(uint32_t use) const
    {
        return stages + use % STAGES * STAGE_BYTES;
    }

    // A barrier for whoever fills stages alone.
    __device__ uint32_t spare() const
    {
        return barriers + 1016;
    }

    // By one thread; the block synchronizes afterwards.
    __device__ void init(uint32_t users) const
    {
        for (uint32_t s = 0; s < STAGES; s++) {
            device::barrier_init(full(s), 1);
            device::barrier_init(empty(s), users);
        }
        device::barrier_init(spare(), 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }

    // Until the stage for use number `use` is free.
    __device__ void await(uint32_t use) const
    {
        if (use >= STAGES)
            device::barrier_wait(empty(use), (use / STAGES - 1) & 1);
    }

    // The stage is free; says how many bytes will come.
    __device__ void claim(uint32_t use) const
    {
        await(use);
        device::barrier_expect(full(use), STAGE_BYTES);
    }

    __device__ void wait(uint32_t use) const
    {
        device::barrier_wait(full(use), use / STAGES & 1);
    }

    __device__ void release(uint32_t use) const
    {
        device::barrier_arrive(empty(use));
    }
};
