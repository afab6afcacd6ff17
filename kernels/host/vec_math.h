/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Elementary functions over sixteen lanes, from the exact operations of vec.h alone, so that every
 * instruction set gives the same bits. The polynomials are minimax fits made for this file
 * (weighted least squares on Chebyshev points); errors are against the true value:
 *
 *   vf_exp      2 ulp; below -87.3 it is 0 (no subnormals), above 88.37 infinite
 *   vf_tanh     3 ulp
 *   vf_silu     x / (1 + exp(-x)): 4 ulp
 *   vf_gelu     x * Phi(x): 6 ulp for x > -1, then relative error grows to 1e-5 where the result is
 *               below 1e-6
 *   vf_gelu_tanh  the tanh form, written as x * sigmoid(2 u)
 *   vf_softplus  log(1 + e^x): 4 ulp
 */
#ifndef MTR_HOST_VEC_MATH_H
#define MTR_HOST_VEC_MATH_H

#include "common/circuit/plan.h"
#include "kernels/host/vec.h"

/* x = n ln 2 + r, |r| <= ln 2 / 2; e^x = 2^n e^r. Adding 1.5 * 2^23 rounds to an integer and leaves
 * it in the low bits. ln 2 stands in two parts, the first short enough that n times it is exact. */
static inline vf vf_exp(vf x)
{
    const vf magic = vf_set1(12582912.0f);
    vf shifted = vf_fma(x, vf_set1(1.44269504f), magic);
    vf n = vf_sub(shifted, magic);
    vf r = vf_fma(n, vf_set1(-0.693359375f), x);
    r = vf_fma(n, vf_set1(2.12194440e-4f), r);
    vf p = vf_set1(1.395053854e-3f);
    p = vf_fma(p, r, vf_set1(8.368918062e-3f));
    p = vf_fma(p, r, vf_set1(4.166620509e-2f));
    p = vf_fma(p, r, vf_set1(1.666651860e-1f));
    p = vf_fma(p, r, vf_set1(5.000000095e-1f));
    p = vf_fma(vf_mul(r, r), p, r);
    p = vf_add(p, vf_set1(1.0f));
    vi power = vi_add(vi_shl(vi_bits(shifted), 23), vi_set1(127 << 23));
    vf y = vf_mul(p, vf_of_bits(power));
    y = vf_less(x, vf_set1(-87.3f), vf_zero(), y);
    return vf_less(vf_set1(88.37f), x, vf_set1(__builtin_inff()), y);
}

static inline vf vf_sigmoid(vf x)
{
    return vf_div(vf_set1(1.0f), vf_add(vf_set1(1.0f), vf_exp(vf_neg(x))));
}

static inline vf vf_silu(vf x)
{
    return vf_div(x, vf_add(vf_set1(1.0f), vf_exp(vf_neg(x))));
}

/* Near 0 an odd polynomial, further out 1 - 2 / (e^2|x| + 1) with the sign of x. */
static inline vf vf_tanh(vf x)
{
    vf u = vf_mul(x, x), a = vf_abs(x);
    vf p = vf_set1(2.097720309e-3f);
    p = vf_fma(p, u, vf_set1(-8.128999704e-3f));
    p = vf_fma(p, u, vf_set1(2.168164254e-2f));
    p = vf_fma(p, u, vf_set1(-5.394339981e-2f));
    p = vf_fma(p, u, vf_set1(1.333318054e-1f));
    p = vf_fma(p, u, vf_set1(-3.333333019e-1f));
    vf near = vf_fma(vf_mul(u, x), p, x);
    vf e = vf_add(vf_exp(vf_add(a, a)), vf_set1(1.0f));
    vf far = vf_sub(vf_set1(1.0f), vf_div(vf_set1(2.0f), e));
    far = vf_less(x, vf_zero(), vf_neg(far), far);
    return vf_less(a, vf_set1(0.63f), near, far);
}

/* erfc(z) = exp(-z^2) q(t), t = 1 / (1 + z / 2); the rounding error of z^2 is put back in. */
static inline vf vf_erfc(vf z)
{
    vf t = vf_div(vf_set1(1.0f), vf_fma(z, vf_set1(0.5f), vf_set1(1.0f)));
    static const float q[11] = {6.361122244e-06f,  2.818995908e-01f,  2.846924436e-01f,
                                2.270961173e-01f,  2.710773501e-01f,  -2.160742041e-01f,
                                6.239983322e-01f,  -9.000248281e-01f, 5.939610925e-01f,
                                -1.910631460e-01f, 2.443088227e-02f};
    vf p = vf_set1(q[10]);
    for (int i = 9; i >= 0; i--)
        p = vf_fma(p, t, vf_set1(q[i]));
    vf square = vf_mul(z, z);
    vf rest = vf_fma(z, z, vf_neg(square));
    vf e = vf_exp(vf_neg(square));
    return vf_mul(vf_fma(vf_neg(rest), e, e), p);
}

static inline vf vf_gelu(vf x)
{
    vf tail = vf_mul(vf_set1(0.5f), vf_erfc(vf_mul(vf_abs(x), vf_set1(0.70710678f))));
    vf phi = vf_less(x, vf_zero(), tail, vf_sub(vf_set1(1.0f), tail));
    return vf_mul(x, phi);
}

static inline vf vf_gelu_tanh(vf x)
{
    vf inner = vf_fma(vf_mul(vf_mul(x, x), x), vf_set1(0.044715f), x);
    vf twice = vf_mul(inner, vf_set1(1.5957691216f)); /* 2 sqrt(2 / pi) */
    return vf_div(x, vf_add(vf_set1(1.0f), vf_exp(vf_neg(twice))));
}

/* max(x, 0) + log(1 + u), u = e^-|x|; log(1 + u) = 2 artanh(s), s = u / (2 + u) <= 1/3. */
static inline vf vf_softplus(vf x)
{
    vf u = vf_exp(vf_neg(vf_abs(x)));
    vf s = vf_div(u, vf_add(u, vf_set1(2.0f)));
    vf q = vf_mul(s, s);
    static const float odd[8] = {1.0f / 17, 1.0f / 15, 1.0f / 13, 1.0f / 11,
                                 1.0f / 9,  1.0f / 7,  1.0f / 5,  1.0f / 3};
    vf p = vf_set1(odd[0]);
    for (int i = 1; i < 8; i++)
        p = vf_fma(p, q, vf_set1(odd[i]));
    vf log1p = vf_mul(vf_set1(2.0f), vf_fma(vf_mul(s, q), p, s));
    return vf_add(vf_less(vf_zero(), x, x, vf_zero()), log1p);
}

static inline vf vf_activate(vf x, enum mtr_activation kind)
{
    vf positive = vf_less(vf_zero(), x, x, vf_zero());
    switch (kind) {
    case MTR_ACT_NONE:
        return x;
    case MTR_ACT_SILU:
        return vf_silu(x);
    case MTR_ACT_GELU:
        return vf_gelu(x);
    case MTR_ACT_GELU_TANH:
        return vf_gelu_tanh(x);
    case MTR_ACT_RELU:
        return positive;
    case MTR_ACT_RELU2:
        return vf_mul(positive, positive);
    case MTR_ACT_SIGMOID:
        return vf_sigmoid(x);
    }
    return x;
}

#endif
