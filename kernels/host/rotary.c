/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Cosine and sine of position * inverse frequency, once a step.
 *
 * The angle is rounded to f32 first, as the reference model does; its sine must then be right for
 * angles of a million. Reduction by pi/2 and the series are in f64, so that the result is the
 * correctly rounded one but for rare ties. pi/2 stands in three parts of 33 bits: a multiple below
 * 2^20 of the first two is exact (Cody, Waite 1980). Plain multiplications and additions, one
 * variant for all instruction sets.
 */
#include <math.h>

#include "kernels/args/rope.h"
#include "kernels/host/rows.h"
#include "kernels/host/vec.h"

/* Taylor series on |r| <= pi/4; the first term left out is below 1e-15 of the result. */
static double sine(double r)
{
    double u = r * r;
    double p = -1.0 / 1307674368000.0;
    p = p * u + 1.0 / 6227020800.0;
    p = p * u - 1.0 / 39916800.0;
    p = p * u + 1.0 / 362880.0;
    p = p * u - 1.0 / 5040.0;
    p = p * u + 1.0 / 120.0;
    p = p * u - 1.0 / 6.0;
    return r + r * u * p;
}

static double cosine(double r)
{
    double u = r * r;
    double p = 1.0 / 20922789888000.0;
    p = p * u - 1.0 / 87178291200.0;
    p = p * u + 1.0 / 479001600.0;
    p = p * u - 1.0 / 3628800.0;
    p = p * u + 1.0 / 40320.0;
    p = p * u - 1.0 / 720.0;
    p = p * u + 1.0 / 24.0;
    p = p * u - 0.5;
    return 1.0 + u * p;
}

static void sine_cosine(float angle, float *s, float *c)
{
    double n = rint((double)angle * 0.63661977236758134308);
    double r = ((double)angle - n * 0x1.921fb544p+0) - n * 0x1.0b4611a6p-34;
    r -= n * 0x1.3198a2e037073p-69;
    double a = sine(r), b = cosine(r);
    int quadrant = (int)((int64_t)n & 3);
    double sines[4] = {a, b, -a, -b};
    *s = (float)sines[quadrant];
    *c = (float)sines[(quadrant + 1) & 3];
}

void MTR_HOST_FN(rotary)(const void *arguments, const struct mtr_host_block *block);
void MTR_HOST_FN(rotary)(const void *arguments, const struct mtr_host_block *block)
{
    const struct mtr_rotary_args *args = arguments;
    for (uint32_t r = block->x; r < args->step->tokens; r += block->grid_x) {
        float *cosines = args->table + (size_t)r * 2 * args->pairs, *sines = cosines + args->pairs;
        float position = (float)args->step->positions[r];
        for (uint32_t i = 0; i < args->pairs; i++) {
            float s, c, f = args->inv_freq[i];
            if (args->factors)
                f /= args->factors[i];
            sine_cosine(position * f, &s, &c);
            cosines[i] = c * args->scale;
            sines[i] = s * args->scale;
        }
    }
}
