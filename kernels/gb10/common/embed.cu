/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Rows of the embedding table, decoded from its format. A block takes a row. */
#include "kernels/args/embed.h"

#include "kernels/gb10/common/dequant.cuh"

#define THREADS 256

template <enum mtr_format F> MTR_DEVICE void embed(const struct mtr_embed_args &args)
{
    const struct mtr_step_view *step = args.step;
    uint64_t stride = mtr_row_bytes(F, args.cols);
    for (uint32_t r = blockIdx.x; r < step->tokens; r += gridDim.x) {
        int32_t token = step->token_ids[r];
        if (token < 0)
            token = step->last_tokens[-1 - token];
        const uint8_t *row = (const uint8_t *)args.table + (uint64_t)token * stride;
        uint16_t *y = (uint16_t *)args.y + (uint64_t)r * args.cols;
        for (uint32_t i = threadIdx.x; 8 * i < args.cols; i += THREADS) {
            float v[8];
            mtr_dequant8<F>(row, i, args.cols, v);
#pragma unroll
            for (int e = 0; e < 8; e++)
                v[e] *= args.multiplier;
            mtr_store8(y, 8 * i, args.cols, v);
        }
    }
}

#define EMBED(name, format)                                                                        \
    MTR_KERNEL(THREADS) embed_##name(const __grid_constant__ struct mtr_embed_args args)           \
    {                                                                                              \
        mtr_begin();                                                                               \
        embed<format>(args);                                                                       \
    }

EMBED(f32, MTR_F32)
EMBED(f16, MTR_F16)
EMBED(bf16, MTR_BF16)
EMBED(q4_0, MTR_Q4_0)
EMBED(q4_1, MTR_Q4_1)
EMBED(q5_0, MTR_Q5_0)
EMBED(q5_1, MTR_Q5_1)
EMBED(q8_0, MTR_Q8_0)
EMBED(q4_k, MTR_Q4_K)
EMBED(q5_k, MTR_Q5_K)
EMBED(q6_k, MTR_Q6_K)
