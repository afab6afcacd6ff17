/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Causal attention over a paged cache, the two forms of a point (kernels/args/attention.h). One
 * function serves heads of all lengths.
 */
#include "kernels/gb10/common/attention_single.cuh"
#include "kernels/gb10/common/attention_tile.cuh"

MTR_KERNEL(attention::SINGLE_THREADS)
attention_bf16_r1(const __grid_constant__ struct mtr_attention_args a)
{
    using namespace attention;
    extern __shared__ __align__(1024) uint8_t memory[];
    struct single w;
    mtr_begin();
    if (!find_single(a, &w))
        return;
    if (a.head_dim <= 64)
        attend_heads<single_shape<64>>(a, w, memory);
    else if (a.head_dim <= 96)
        attend_heads<single_shape<96>>(a, w, memory);
    else if (a.head_dim <= 128)
        attend_heads<single_shape<128>>(a, w, memory);
    else
        attend_heads<single_shape<256>>(a, w, memory);
}

MTR_KERNEL(attention::TILE_THREADS)
attention_bf16_r128(const __grid_constant__ struct mtr_attention_args a)
{
    using namespace attention;
    extern __shared__ __align__(1024) uint8_t memory[];
    mtr_begin();
    const uint32_t shared = device::shared_address(memory);
    /* The longest histories first: they end last. */
    const uint32_t rows = TILE_ROWS / (a.heads / a.kv_heads);
    const uint32_t begin = (gridDim.y - 1 - blockIdx.y) * rows;
    const uint32_t end = min(begin + rows, a.step->tokens);
    if (a.head_dim <= 64)
        attend_rows<tile_shape<64>>(a, begin, end, shared);
    else if (a.head_dim <= 96)
        attend_rows<tile_shape<96>>(a, begin, end, shared);
    else if (a.head_dim <= 128)
        attend_rows<tile_shape<128>>(a, begin, end, shared);
    else
        attend_rows<tile_shape<256>>(a, begin, end, shared);
}
