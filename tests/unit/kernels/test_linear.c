/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* linear_*: against f64 sums over dequantized weights, and bit for bit across sets and row counts.
 */
#include "kernels/args/linear.h"

#include <sys/mman.h>
#include <unistd.h>

#include "common/circuit/ir.h"
#include "tests/unit/kernels/kernel_test.h"

static const struct {
    const char *function;
    enum mtr_format format;
    enum mtr_scaling scaling;
} kinds[] = {
    {"linear_f32", MTR_F32},
    {"linear_f16", MTR_F16},
    {"linear_bf16", MTR_BF16},
    {"linear_q4_0", MTR_Q4_0},
    {"linear_q4_1", MTR_Q4_1},
    {"linear_q5_0", MTR_Q5_0},
    {"linear_q5_1", MTR_Q5_1},
    {"linear_q8_0", MTR_Q8_0},
    {"linear_q4_k", MTR_Q4_K},
    {"linear_q5_k", MTR_Q5_K},
    {"linear_q6_k", MTR_Q6_K},
    {"linear_e4m3_tensor", MTR_E4M3, MTR_SCALING_TENSOR},
    {"linear_e4m3_channel", MTR_E4M3, MTR_SCALING_CHANNEL},
    {"linear_e4m3_block", MTR_E4M3, MTR_SCALING_BLOCK},
    {"linear_e2m1_group16", MTR_E2M1, MTR_SCALING_GROUP16},
};
#define SCALED 11 /* the first whose scales stand in tensors of their own */
#define KINDS  (int)(sizeof kinds / sizeof *kinds)

/* One product and its inputs. */
struct problem {
    struct mtr_step_view step;
    struct mtr_linear_args args;
    const char *function;
    enum mtr_format format;
    enum mtr_scaling scaling;
    uint32_t rows;
    float *x;
    uint8_t *w[MTR_LINEAR_PARTS];
    void *scale[MTR_LINEAR_PARTS]; /* NULL where the weights have none of their own */
    float *global[MTR_LINEAR_PARTS];
    float *bias[MTR_LINEAR_PARTS];
    float *before; /* what y holds before the launch */
    size_t y_count;
};

/* ---- weights with scales in tensors of their own ---- */

static uint8_t code_below(struct noise *n, uint8_t limit)
{
    return (uint8_t)(noise_below(n, limit) | noise_below(n, 2) << 7);
}

static uint8_t *noise_codes(struct noise *n, enum mtr_format f, size_t count)
{
    size_t bytes = format_bytes(f, count);
    uint8_t *w = must_alloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        w[i] = f == MTR_E4M3 ? code_below(n, 0x7f) : (uint8_t)noise_u32(n);
    return w;
}

static float *noise_scales(struct noise *n, size_t count)
{
    float *s = noise_floats(n, count);
    for (size_t i = 0; i < count; i++)
        s[i] *= 0.01f;
    return s;
}

static void make_scales(struct problem *p, struct noise *n, uint32_t i)
{
    size_t rows = p->args.part[i].n, k = p->args.k;
    switch (p->scaling) {
    case MTR_SCALING_TENSOR:
        p->scale[i] = noise_scales(n, 1);
        break;
    case MTR_SCALING_CHANNEL:
        p->scale[i] = noise_scales(n, rows);
        break;
    case MTR_SCALING_BLOCK:
        p->scale[i] = noise_scales(n, (rows + 127) / 128 * ((k + 127) / 128));
        break;
    case MTR_SCALING_GROUP16:
        p->scale[i] = noise_codes(n, MTR_E4M3, rows * (k / 16));
        p->global[i] = noise_scales(n, 1);
        break;
    default:
        break;
    }
    p->args.part[i].scale = p->scale[i];
    p->args.part[i].global_scale = p->global[i];
}

/* The plain loop: what kernels/args/linear.h says of one weight. */
static float scaled_value(const struct problem *p, uint32_t part, size_t row, size_t i)
{
    size_t k = p->args.k;
    const float *s = p->scale[part];
    uint8_t byte = p->w[part][p->format == MTR_E2M1 ? (row * k + i) / 2 : row * k + i];
    if (p->scaling == MTR_SCALING_TENSOR)
        return mtr_e4m3_to_f32(byte) * s[0];
    if (p->scaling == MTR_SCALING_CHANNEL)
        return mtr_e4m3_to_f32(byte) * s[row];
    if (p->scaling == MTR_SCALING_BLOCK)
        return mtr_e4m3_to_f32(byte) * s[row / 128 * ((k + 127) / 128) + i / 128];
    float scale = mtr_e4m3_to_f32(((uint8_t *)p->scale[part])[row * (k / 16) + i / 16]);
    return mtr_e2m1_to_f32(i & 1 ? byte >> 4 : byte & 15) * (scale * p->global[part][0]);
}

static float *weights_of(const struct problem *p, uint32_t part)
{
    size_t rows = p->args.part[part].n, k = p->args.k;
    if (p->scaling == MTR_SCALING_NONE)
        return dequantized(p->format, p->w[part], rows, k);
    float *w = must_alloc(rows * k * sizeof *w);
    for (size_t i = 0; i < rows * k; i++)
        w[i] = scaled_value(p, part, i / k, i % k);
    return w;
}

/* ---- problems ---- */

static void make(struct problem *p, struct noise *n, int kind, uint32_t rows, uint32_t k,
                 const uint32_t *ns, uint32_t parts, enum mtr_epilogue epilogue)
{
    *p = (struct problem){.function = kinds[kind].function,
                          .format = kinds[kind].format,
                          .scaling = kinds[kind].scaling};
    p->rows = rows;
    p->step.tokens = rows;
    p->args = (struct mtr_linear_args){.parts = parts,
                                       .k = k,
                                       .x_stride = k + 3,
                                       .rows_kind = MTR_ROWS_TOKENS,
                                       .epilogue = epilogue,
                                       .activation = MTR_ACT_SILU,
                                       .multiplier = 1.0f};
    p->x = noise_floats(n, (size_t)rows * (k + 3));
    p->args.x = p->x;
    for (uint32_t i = 0; i < parts; i++) {
        p->w[i] = p->scaling ? noise_codes(n, p->format, (size_t)ns[i] * k)
                             : noise_weights(n, p->format, ns[i], k);
        p->args.part[i] =
            (struct mtr_linear_part){.weight = p->w[i], .n = ns[i], .y_stride = ns[i] + 5};
        make_scales(p, n, i);
        if (i % 2 == 1 || parts == 1) {
            p->bias[i] = noise_floats(n, ns[i]);
            p->args.part[i].bias = p->bias[i];
        }
        p->y_count += (size_t)rows * (ns[i] + 5);
    }
    if (parts == 1)
        p->args.multiplier = 0.5f;
    p->before = noise_floats(n, p->y_count);
}

static void drop(struct problem *p)
{
    free(p->x);
    free(p->before);
    for (int i = 0; i < MTR_LINEAR_PARTS; i++) {
        free(p->w[i]);
        free(p->scale[i]);
        free(p->global[i]);
        free(p->bias[i]);
    }
}

/* Runs it into fresh memory laid out part after part. */
static float *run(struct problem *p, enum mtr_isa isa)
{
    float *y = must_alloc(p->y_count * sizeof *y), *at = y;
    memcpy(y, p->before, p->y_count * sizeof *y);
    uint32_t tiles = 0;
    p->args.step = &p->step;
    for (uint32_t i = 0; i < p->args.parts; i++) {
        struct mtr_linear_part *part = &p->args.part[i];
        part->y = at;
        at += (size_t)p->rows * part->y_stride;
        tiles += (part->n + MTR_LINEAR_TILE_N - 1) / MTR_LINEAR_TILE_N;
    }
    if (p->args.epilogue != MTR_EPILOGUE_ADD) /* the outputs are not read */
        for (uint32_t i = 0; i < p->args.parts; i++)
            for (uint32_t r = 0; r < p->rows; r++)
                poison((float *)p->args.part[i].y + (size_t)r * p->args.part[i].y_stride,
                       p->args.part[i].n * sizeof *y);
    run_kernel(p->function, isa, &p->args, tiles,
               (p->rows + MTR_LINEAR_TILE_ROWS - 1) / MTR_LINEAR_TILE_ROWS);
    return y;
}

/* f64 value of one output of a part before the epilogue, and the scale of its rounding error. */
static double reference(const struct problem *p, const float *w, uint32_t part, uint32_t r,
                        uint32_t n, double *scale)
{
    double sum = 0, size = 0;
    for (uint32_t i = 0; i < p->args.k; i++) {
        double term = (double)w[(size_t)n * p->args.k + i] * p->x[(size_t)r * p->args.x_stride + i];
        sum += term;
        size += fabs(term);
    }
    sum *= p->args.multiplier;
    if (p->bias[part])
        sum += p->bias[part][n];
    *scale = size + 1;
    return sum;
}

static void check_part(const struct problem *p, const float *y, const float *before, uint32_t part)
{
    const struct mtr_linear_part *l = &p->args.part[part];
    float *w = weights_of(p, part), *up = NULL;
    if (p->args.epilogue == MTR_EPILOGUE_GLU)
        up = weights_of(p, 1);
    for (uint32_t r = 0; r < p->rows; r++)
        for (uint32_t n = 0; n < l->n; n++) {
            double scale, other = 0, want = reference(p, w, part, r, n, &scale);
            size_t at = (size_t)r * l->y_stride + n;
            if (p->args.epilogue == MTR_EPILOGUE_ADD)
                want += before[at];
            if (up) {
                double v = reference(p, up, 1, r, n, &other);
                want = want / (1 + exp(-want)) * v;
                scale *= other;
            }
            ck_assert_msg(fabs(y[at] - want) <= 2e-6 * scale, "%s part %u [%u, %u]: %g, not %g",
                          p->function, part, r, n, (double)y[at], want);
        }
    /* What stands between the rows is not the kernel's. */
    for (uint32_t r = 0; r < p->rows; r++)
        for (uint32_t i = l->n; i < l->y_stride; i++)
            ck_assert(y[(size_t)r * l->y_stride + i] == before[(size_t)r * l->y_stride + i]);
    free(w);
    free(up);
}

static void check_all(struct problem *p)
{
    float *want = run(p, MTR_ISA_PORTABLE), *y = want, *before = p->before;
    uint32_t parts = p->args.epilogue == MTR_EPILOGUE_GLU ? 1 : p->args.parts;
    for (uint32_t i = 0; i < parts; i++) {
        check_part(p, y, before, i);
        y += (size_t)p->rows * p->args.part[i].y_stride;
        before += (size_t)p->rows * p->args.part[i].y_stride;
    }
    FOR_EACH_ISA(isa)
    {
        float *got = run(p, isa);
        same_bits(want, got, p->y_count, p->function, isa);
        free(got);
    }
    free(want);
}

static uint32_t some_k(struct noise *n, enum mtr_format f)
{
    uint32_t block = mtr_format_info(f)->block_elements;
    if (f == MTR_E4M3 || f == MTR_E2M1) /* rows of more than one block, and of whole groups */
        return f == MTR_E4M3 ? 1 + noise_below(n, 400) : 16 * (1 + noise_below(n, 20));
    return block == 1 ? 1 + noise_below(n, 200) : block * (1 + noise_below(n, block == 32 ? 9 : 2));
}

START_TEST(values)
{
    struct noise n = {(uint64_t)_i + 1};
    for (int round = 0; round < 6; round++) {
        uint32_t parts = 1 + noise_below(&n, 3), ns[3];
        for (int i = 0; i < 3; i++)
            ns[i] = 1 + noise_below(&n, 70);
        struct problem p;
        make(&p, &n, _i, 1 + noise_below(&n, 17), some_k(&n, kinds[_i].format), ns, parts,
             MTR_EPILOGUE_NONE);
        check_all(&p);
        drop(&p);
    }
}
END_TEST

START_TEST(epilogues)
{
    struct noise n = {(uint64_t)_i + 100};
    for (int round = 0; round < 4; round++) {
        uint32_t ns[2];
        ns[0] = ns[1] = 1 + noise_below(&n, 70);
        bool glu = round & 1;
        struct problem p;
        make(&p, &n, _i, round < 2 ? 1 : 1 + noise_below(&n, 9), some_k(&n, kinds[_i].format), ns,
             glu ? 2 : 1, glu ? MTR_EPILOGUE_GLU : MTR_EPILOGUE_ADD);
        check_all(&p);
        drop(&p);
    }
}
END_TEST

/* A row alone, the same row among m: the same bits. */
static void row_is_itself(struct problem *p, enum mtr_isa isa, uint32_t row)
{
    float *many = run(p, isa);
    struct problem one = *p;
    one.rows = 1;
    one.step.tokens = 1;
    one.args.x = p->x + (size_t)row * p->args.x_stride;
    one.y_count = one.args.part[0].y_stride;
    one.before = p->before + (size_t)row * one.args.part[0].y_stride;
    float *alone = run(&one, isa);
    same_bits(alone, many + (size_t)row * p->args.part[0].y_stride, p->args.part[0].n, p->function,
              isa);
    free(alone);
    free(many);
}

START_TEST(a_row_is_itself_in_company)
{
    struct noise n = {(uint64_t)_i + 200};
    FOR_EACH_ISA(isa)
    {
        for (uint32_t rows = 2; rows <= 16; rows++) {
            uint32_t width = 1 + noise_below(&n, 40);
            struct problem p;
            make(&p, &n, _i, rows, some_k(&n, kinds[_i].format), &width, 1, MTR_EPILOGUE_ADD);
            row_is_itself(&p, isa, noise_below(&n, rows));
            row_is_itself(&p, isa, rows - 1);
            drop(&p);
        }
        uint32_t width = 33;
        struct problem p;
        make(&p, &n, _i, 512, 256, &width, 1, MTR_EPILOGUE_NONE);
        for (uint32_t row = 0; row < 512; row += 73)
            row_is_itself(&p, isa, row);
        drop(&p);
    }
}
END_TEST

/* A vector of x with a single one picks out a column: sums of one weight are the weight itself, to
 * the bit, in each place of the matrix. */
START_TEST(scaled_weights_are_exact)
{
    static const uint32_t ks[] = {16, 48, 112, 144, 272};
    struct noise n = {(uint64_t)_i + 300};
    for (size_t round = 0; round < sizeof ks / sizeof *ks; round++) {
        uint32_t width = 150, k = ks[round] - (kinds[_i].format == MTR_E4M3 ? 3 : 0);
        struct problem p;
        make(&p, &n, _i, 1, k, &width, 1, MTR_EPILOGUE_NONE);
        p.args.multiplier = 1.0f;
        p.args.part[0].bias = NULL;
        float *w = weights_of(&p, 0);
        FOR_EACH_ISA(isa)
        {
            for (uint32_t i = 0; i < k; i++) {
                for (uint32_t j = 0; j < k; j++)
                    p.x[j] = j == i;
                float *y = run(&p, isa);
                for (uint32_t row = 0; row < width; row++)
                    ck_assert_msg(y[row] == w[(size_t)row * k + i], "%s [%u, %u]: %g, not %g",
                                  p.function, row, i, (double)y[row],
                                  (double)w[(size_t)row * k + i]);
                free(y);
            }
        }
        free(w);
        drop(&p);
    }
}
END_TEST

/* A copy that ends where memory does: what reads on is killed. */
struct at_the_end {
    uint8_t *pages;
    size_t bytes;
};

static void *put_at_the_end(struct at_the_end *e, const void *data, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
    e->bytes = room + page;
    e->pages = mmap(NULL, e->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(e->pages != MAP_FAILED && mprotect(e->pages + room, page, PROT_NONE) == 0);
    return memcpy(e->pages + room - bytes, data, bytes);
}

static size_t scale_bytes(const struct problem *p)
{
    size_t n = p->args.part[0].n, k = p->args.k;
    if (p->scaling == MTR_SCALING_GROUP16)
        return n * (k / 16);
    if (p->scaling == MTR_SCALING_BLOCK)
        return sizeof(float) * ((n + 127) / 128) * ((k + 127) / 128);
    return sizeof(float) * (p->scaling == MTR_SCALING_CHANNEL ? n : 1);
}

START_TEST(nothing_is_read_behind_the_end)
{
    static const uint32_t ks[] = {16, 48, 80, 144, 512, 528};
    struct noise n = {(uint64_t)_i + 400};
    for (uint32_t round = 0; round < 12; round++) {
        uint32_t width = 1 + noise_below(&n, 40), rows = round % 2 ? 1 : 20;
        uint32_t k = ks[round / 2] - (kinds[_i].format == MTR_E4M3 ? noise_below(&n, 16) : 0);
        struct problem p;
        struct at_the_end w, s;
        make(&p, &n, _i, rows, k, &width, 1, MTR_EPILOGUE_NONE);
        float *want = run(&p, MTR_ISA_PORTABLE);
        p.args.part[0].weight =
            put_at_the_end(&w, p.w[0], format_bytes(p.format, (size_t)width * k));
        p.args.part[0].scale = put_at_the_end(&s, p.scale[0], scale_bytes(&p));
        FOR_EACH_ISA(isa)
        {
            float *got = run(&p, isa);
            same_bits(want, got, p.y_count, p.function, isa);
            free(got);
        }
        munmap(w.pages, w.bytes);
        munmap(s.pages, s.bytes);
        free(want);
        drop(&p);
    }
}
END_TEST

START_TEST(nan_stays_nan)
{
    struct noise n = {5};
    uint32_t width = 3;
    FOR_EACH_ISA(isa)
    {
        struct problem p;
        make(&p, &n, _i, 1, 64, &width, 1, MTR_EPILOGUE_NONE);
        if (p.format == MTR_E4M3)
            p.w[0][64 + 40] = 0xff;
        else
            ((uint8_t *)p.scale[0])[4 + 2] = 0x7f;
        float *y = run(&p, isa);
        ck_assert(!isnan(y[0]) && isnan(y[1]) && !isnan(y[2]));
        free(y);
        drop(&p);
    }
}
END_TEST

/* The largest sums that the scratch has room for, whose panels are a few weight rows only. */
START_TEST(long_sums)
{
    struct noise n = {7};
    uint32_t width = 6;
    struct problem p;
    make(&p, &n, _i, 3, MTR_LINEAR_MAX_K, &width, 1, MTR_EPILOGUE_NONE);
    check_all(&p);
    row_is_itself(&p, mtr_host_best_isa(), 2);
    drop(&p);
}
END_TEST

MTR_CHECK_MAIN("kernels/linear")
{
    tcase_add_loop_test(tc, values, 0, KINDS);
    tcase_add_loop_test(tc, epilogues, 0, KINDS);
    tcase_add_loop_test(tc, a_row_is_itself_in_company, 0, KINDS);
    tcase_add_loop_test(tc, scaled_weights_are_exact, SCALED, KINDS);
    tcase_add_loop_test(tc, nothing_is_read_behind_the_end, SCALED, KINDS);
    tcase_add_loop_test(tc, nan_stays_nan, SCALED, KINDS);
    tcase_add_loop_test(tc, long_sums, 4, 5);
    tcase_add_loop_test(tc, long_sums, SCALED, KINDS);
}
