/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Mamba-2, token after token. As in delta.c a block takes a few columns of a head's matrix through
 * all rows of a lane, packed in scratch where there are several; but one pass over them does, since
 * nothing is asked of S before it is written.
 */
#include "kernels/args/scan.h"

#include "kernels/host/dequant.h"
#include "kernels/host/rows.h"
#include "kernels/host/vec_math.h"

/* A token as a head and sixteen columns see it. */
struct token {
    const float *b, *c; /* [state_dim] */
    vf decay, input;    /* dt x */
};

MTR_INLINE vf take_row(float *row, size_t n, uint32_t i, const struct token *t, vf sum)
{
    vf s = vf_fma(vf_set1(t->b[i]), t->input, vf_mul(vf_load_n(row, n), t->decay));
    vf_store_n(row, s, n);
    return vf_fma(vf_set1(t->c[i]), s, sum);
}

/* S = decay S + B input^T; returns C^T S. Row i of the columns at s + i * stride. */
MTR_INLINE vf take_columns(float *s, size_t stride, size_t n, uint32_t rows, const struct token *t)
{
    vf even = vf_zero(), odd = vf_zero();
    uint32_t i;
    for (i = 0; i + 2 <= rows; i += 2) {
        even = take_row(s + i * stride, n, i, t, even);
        odd = take_row(s + (i + 1) * stride, n, i + 1, t, odd);
    }
    if (i < rows)
        even = take_row(s + i * stride, n, i, t, even);
    return vf_add(even, odd);
}

/* The width of row r's step for a head, and what it leaves of S. */
static void take_width(const struct mtr_scan_args *a, uint32_t r, uint32_t head, vf *dt, vf *decay)
{
    float raw = ((const float *)a->dt)[(size_t)r * a->heads + head] + a->dt_bias[head];
    vf width = vf_softplus(vf_set1(raw)), least = vf_set1(a->least);
    width = vf_less(width, least, least, width);
    *dt = width;
    *decay = vf_exp(vf_neg(vf_mul(vf_exp(vf_set1(a->a_log[head])), width)));
}

/* Row r through the head's columns [first, first + cols), which stand at s. */
static void run_row(const struct mtr_scan_args *a, uint32_t r, uint32_t head, uint32_t first,
                    uint32_t cols, float *s, size_t stride)
{
    size_t inner = (size_t)a->heads * a->head_dim, group = head / (a->heads / a->groups);
    size_t row = inner + 2 * (size_t)a->groups * a->state_dim;
    const float *x = (const float *)a->xbc + r * row;
    const float *b = x + inner + group * a->state_dim;
    struct token t = {.b = b, .c = b + (size_t)a->groups * a->state_dim};
    size_t at = (size_t)head * a->head_dim + first;
    float *y = (float *)a->y + r * inner + at;
    vf dt;
    take_width(a, r, head, &dt, &t.decay);
    for (uint32_t j = 0; j < cols; j += 16) {
        size_t n = cols - j < 16 ? cols - j : 16;
        vf in = vf_load_n(x + at + j, n);
        t.input = vf_mul(dt, in);
        vf sum = n == 16 ? take_columns(s + j, stride, 16, a->state_dim, &t)
                         : take_columns(s + j, stride, n, a->state_dim, &t);
        vf_store_n(y + j, vf_fma(vf_set1(a->d[head]), in, sum), n);
    }
}

static void copy_columns(float *to, size_t to_stride, const float *from, size_t from_stride,
                         uint32_t rows, uint32_t cols)
{
    for (uint32_t i = 0; i < rows; i++)
        memcpy(to + i * to_stride, from + i * from_stride, cols * sizeof *to);
}

static void run_lane(const struct mtr_scan_args *a, uint32_t lane, uint32_t head, uint32_t first,
                     float *packed)
{
    uint32_t row = (uint32_t)a->step->lane_rows[lane], cols = a->head_dim - first;
    uint32_t end = (uint32_t)a->step->lane_rows[lane + 1];
    size_t at = (size_t)a->step->lane_slots[lane] * a->heads + head;
    float *state = a->state + at * a->state_dim * a->head_dim + first;
    cols = cols < MTR_SCAN_TILE ? cols : MTR_SCAN_TILE;
    if (end - row == 1 || a->state_dim > MTR_SCAN_PACKED_ROWS) {
        for (; row < end; row++)
            run_row(a, row, head, first, cols, state, a->head_dim);
        return;
    }
    copy_columns(packed, MTR_SCAN_TILE, state, a->head_dim, a->state_dim, cols);
    for (; row < end; row++)
        run_row(a, row, head, first, cols, packed, MTR_SCAN_TILE);
    copy_columns(state, a->head_dim, packed, MTR_SCAN_TILE, a->state_dim, cols);
}

void MTR_HOST_FN(scan)(const void *arguments, const struct mtr_host_block *block);
void MTR_HOST_FN(scan)(const void *arguments, const struct mtr_host_block *block)
{
    const struct mtr_scan_args *args = arguments;
    uint32_t tiles = (args->head_dim + MTR_SCAN_TILE - 1) / MTR_SCAN_TILE;
    for (uint32_t t = block->x; t < args->heads * tiles; t += block->grid_x)
        for (uint32_t lane = block->y; lane < args->step->lanes; lane += block->grid_y)
            run_lane(args, lane, t / tiles, t % tiles * MTR_SCAN_TILE, block->scratch);
}
