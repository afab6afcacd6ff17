/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Module "attention" on Hopper: single rows as the parent has them, tiles of rows on the warpgroup
 * instruction (attention_wide.cuh) for heads of up to 128. What longer ones sum up does not fit
 * into its registers: they run the parent's kernel.
 */
#include "kernels/gb10/common/attention_single.cuh"
#include "kernels/hopper/common/attention_wide.cuh"

extern "C" __global__ void __launch_bounds__(attention::SINGLE_THREADS, 2)
attention_bf16_r1(const __grid_constant__ struct mtr_attention_args a)
{
    extern __shared__ __align__(1024) uint8_t memory[];
    device::let_successor_start();
    attention::attend_singles(a, memory);
}

MTR_KERNEL(attention::WIDE_THREADS)
attention_bf16_r128(const __grid_constant__ struct mtr_attention_args a)
{
    using namespace attention;
    using narrow = wide_shape<64>;
    using full = wide_shape<128>;
    extern __shared__ __align__(1024) uint8_t memory[];
    const narrow::pipe narrow_pipe(memory);
    const full::pipe full_pipe(memory);
    if (threadIdx.x == 0 && a.head_dim <= 64)
        narrow_pipe.init(TILE_WARPS);
    else if (threadIdx.x == 0)
        full_pipe.init(TILE_WARPS);
    mtr_begin();
    __syncthreads();
    if (threadIdx.x >= WIDE_WORKERS) {
        hopper::fewer_registers<40>();
        if (threadIdx.x >= WIDE_WORKERS + MTR_WARP)
            return;
        if (a.head_dim <= 64)
            feed_wide<narrow>(a, narrow_pipe);
        else if (a.head_dim <= 128)
            feed_wide<full>(a, full_pipe);
    } else {
        hopper::more_registers<232>();
        uint32_t begin, end;
        if (a.head_dim <= 64) {
            work_wide<narrow>(a, narrow_pipe);
        } else if (a.head_dim <= 128) {
            work_wide<full>(a, full_pipe);
        } else {
            rows_of_block(a, TILE_ROWS, &begin, &end);
            attend_rows<tile_shape<256>>(a, begin, end, device::shared_address(memory));
        }
    }
}
