/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Causal attention over a paged cache, the two forms of a point (kernels/args/attention.h). One
 * function serves heads of all lengths.
 */
#include "kernels/gb10/common/attention_single.cuh"
#include "kernels/gb10/common/attention_tile.cuh"

extern "C" __global__ void __launch_bounds__(attention::SINGLE_THREADS, 2)
    attention_bf16_r1(const __grid_constant__ struct mtr_attention_args a)
{
    extern __shared__ __align__(1024) uint8_t memory[];
    device::let_successor_start();
    attention::attend_singles(a, memory);
}

MTR_KERNEL(attention::TILE_THREADS)
attention_bf16_r128(const __grid_constant__ struct mtr_attention_args a)
{
    using namespace attention;
    extern __shared__ __align__(1024) uint8_t memory[];
    mtr_begin();
    const uint32_t shared = device::shared_address(memory);
    uint32_t begin, end;
    rows_of_block(a, TILE_ROWS, &begin, &end);
    if (a.head_dim <= 64)
        attend_rows<tile_shape<64>>(a, begin, end, shared);
    else if (a.head_dim <= 96)
        attend_rows<tile_shape<96>>(a, begin, end, shared);
    else if (a.head_dim <= 128)
        attend_rows<tile_shape<128>>(a, begin, end, shared);
    else
        attend_rows<tile_shape<256>>(a, begin, end, shared);
}
