/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* From the file's formats to those of the kernels. */
#include "worker/weights/convert.c"

#include "tests/unit/check_main.h"

START_TEST(pairs)
{
    ck_assert(mtr_convertible(MTR_F16, MTR_BF16) && mtr_convertible(MTR_Q4_K, MTR_F32));
    ck_assert(mtr_convertible(MTR_E4M3, MTR_E4M3) && mtr_convertible(MTR_I64, MTR_I64));
    ck_assert(!mtr_convertible(MTR_F32, MTR_Q4_1) && !mtr_convertible(MTR_F32, MTR_E4M3));
}
END_TEST

START_TEST(plain)
{
    enum { N = 3000 };
    static float in[N], back[N];
    static uint8_t half[2 * N + 1], wide[2 * N + 1];
    for (int i = 0; i < N; i++)
        in[i] = (float)(i - N / 2) * 0.013f;
    mtr_convert(MTR_F32, in, MTR_BF16, half + 1, N); /* odd addresses on purpose */
    mtr_convert(MTR_BF16, half + 1, MTR_F32, back, N);
    for (int i = 0; i < N; i++)
        ck_assert(back[i] == mtr_bf16_to_f32(mtr_bf16_from_f32(in[i])));
    mtr_convert(MTR_F32, in, MTR_F16, half + 1, N);
    mtr_convert(MTR_F16, half + 1, MTR_F16, wide, N);
    ck_assert(memcmp(half + 1, wide, 2 * N) == 0);
    mtr_convert(MTR_F16, wide, MTR_F32, back, N);
    for (int i = 0; i < N; i++)
        ck_assert(back[i] == mtr_f16_to_f32(mtr_f16_from_f32(in[i])));
}
END_TEST

START_TEST(blocks)
{
    enum { BLOCKS = 100 };
    static uint8_t in[BLOCKS * 34], bf16[BLOCKS * 64];
    static float out[BLOCKS * 32];
    for (int b = 0; b < BLOCKS; b++) {
        uint16_t d = mtr_f16_from_f32(0.5f);
        memcpy(in + b * 34, &d, 2);
        for (int i = 0; i < 32; i++)
            in[b * 34 + 2 + i] = (uint8_t)(b + i);
    }
    mtr_convert(MTR_Q8_0, in, MTR_F32, out, BLOCKS * 32);
    mtr_convert(MTR_Q8_0, in, MTR_BF16, bf16, BLOCKS * 32);
    for (int i = 0; i < BLOCKS * 32; i++) {
        uint16_t h;
        float want = 0.5f * (float)(int8_t)(i / 32 + i % 32);
        memcpy(&h, bf16 + 2 * i, 2);
        ck_assert(out[i] == want && mtr_bf16_to_f32(h) == want); /* seven bits are exact in bf16 */
    }
}
END_TEST

START_TEST(inverses)
{
    static const float in[] = {2.0f, -3.0f, 1e-3f, 0x1p-140f};
    uint8_t at[sizeof in + 1];
    memcpy(at + 1, in, sizeof in);
    mtr_invert(at + 1, 4);
    for (int i = 0; i < 4; i++) {
        float got;
        memcpy(&got, at + 1 + 4 * i, sizeof got);
        ck_assert(got == 1.0f / in[i]);
    }
}
END_TEST

MTR_CHECK_MAIN("weights/convert")
{
    tcase_add_test(tc, inverses);
    tcase_add_test(tc, pairs);
    tcase_add_test(tc, plain);
    tcase_add_test(tc, blocks);
}
