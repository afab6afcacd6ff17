/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The elementary functions of the portable set against f64; test_elementwise and test_attention
 * prove that the other sets give the same bits. */
#define MTR_VEC_PORTABLE
#include "kernels/host/vec_math.h"

#include "tests/unit/kernels/kernel_test.h"

static float of(vf (*f)(vf), float x)
{
    return f(vf_set1(x)).l[3];
}

/* |got - want| in units of the last place of want. */
static double ulps(float got, double want)
{
    int exponent;
    frexp(want, &exponent);
    return fabs(got - want) / ldexp(1, exponent - 24);
}

static void worst(vf (*f)(vf), double (*reference)(double), double from, double to, double limit)
{
    double top = 0, at = 0;
    for (int i = 0; i <= 400000; i++) {
        float x = (float)(from + (to - from) * i / 400000);
        double error = ulps(of(f, x), reference((double)x));
        if (error > top) {
            top = error;
            at = (double)x;
        }
    }
    ck_assert_msg(top <= limit, "%g ulp at %.9g", top, at);
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double gelu(double x)
{
    return 0.5 * x * erfc(-x * M_SQRT1_2);
}

static double softplus(double x)
{
    return log1p(exp(x));
}

START_TEST(errors)
{
    worst(vf_softplus, softplus, -87, 40, 4);
    worst(vf_softplus, softplus, -1, 1, 4);
    worst(vf_exp, exp, -87.2, 88.3, 2);
    worst(vf_exp, exp, -1, 1, 2);
    worst(vf_tanh, tanh, -12, 12, 3);
    worst(vf_tanh, tanh, -1, 1, 3);
    worst(vf_silu, silu, -80, 80, 4);
    worst(vf_gelu, gelu, -1, 10, 6);
}
END_TEST

START_TEST(edges)
{
    const float inf = INFINITY;
    ck_assert(of(vf_exp, -inf) == 0 && of(vf_exp, -100) == 0 && of(vf_exp, 0) == 1);
    ck_assert(isinf(of(vf_exp, inf)) && isinf(of(vf_exp, 89)) && isnan(of(vf_exp, NAN)));
    ck_assert(of(vf_tanh, -inf) == -1 && of(vf_tanh, inf) == 1 && of(vf_tanh, 0) == 0);
    ck_assert(isnan(of(vf_tanh, NAN)));
    ck_assert(of(vf_sigmoid, 200) == 1 && of(vf_sigmoid, -200) == 0);
    ck_assert(of(vf_silu, 300) == 300 && of(vf_silu, -300) == 0);
    ck_assert(of(vf_gelu, 50) == 50 && of(vf_gelu, -50) == 0);
}
END_TEST

MTR_CHECK_MAIN("kernels/vec_math")
{
    tcase_add_test(tc, errors);
    tcase_add_test(tc, edges);
}
