/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tests/check/kernel_sample.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/circuit/fuser.h"

#define SLOTS 8
#define ROWS  16 /* most outputs of the step */

static const struct rig_sequence step[] = {{5, 9}, {0, 1}, {2, 4}, {7, 3}};
static const uint32_t widths[] = {1, 7, 1000, 49152, 151937};

/* Few different numbers, so that there are ties; a row of its own for each kind of oddity. */
static void fill(struct rig *r, float *x, uint32_t rows, uint32_t vocab)
{
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t i = 0; i < vocab; i++) {
            float v = floorf(rig_random(r) * 64) / 8;
            uint32_t dice = rig_below(r, 16);
            if (row == 0)
                v = NAN;
            else if (row == 1)
                v = dice < 8 ? -INFINITY : NAN;
            else if (row == 2)
                v = dice < 8 ? 0.0f : -0.0f;
            else if (row == 3)
                v = dice == 0 ? INFINITY : v;
            else if (dice == 1)
                v = NAN;
            x[(size_t)row * vocab + i] = v;
        }
}

static void choose(struct rig *r, enum rig_side_name side, const char *function, uint16_t logits,
                   uint32_t vocab, int32_t *tokens, int32_t *last)
{
    static const struct rig_variant larger = {.name = "", .shape = -1, .extra = 3};
    struct rig_side *s = &r->sides[side];
    struct mtr_backend *b = s->backend;
    struct mtr_op_context c;
    int32_t *at = rig_memory(r, side, NULL, ROWS * sizeof *at);
    int32_t *last_at = rig_memory(r, side, NULL, SLOTS * sizeof *last_at);
    s->plan.logits = logits;
    s->plan.vocab = vocab;
    rig_prepare(r, side, &larger, &c);
    struct mtr_kernel *k = r->err.code ? NULL : b->ops->kernel(b, "sample", function, &r->err);
    if (!k || !mtr_op_sample(&c, k, at, last_at, &r->err))
        return;
    b->ops->download(b, NULL, tokens, at, ROWS * sizeof *at, &r->err);
    b->ops->download(b, NULL, last, last_at, SLOTS * sizeof *last, &r->err);
    b->ops->stream_wait(b, NULL, &r->err);
}

static bool try_width(struct rig *r, const char *function, uint32_t vocab, uint64_t seed)
{
    int32_t tokens[RIG_SIDES][ROWS] = {{0}}, last[RIG_SIDES][SLOTS] = {{0}};
    const struct mtr_family *family = mtr_family_find(r->sides[RIG_SUBJECT].hardware, "rms_norm");
    rig_begin(r, family, &family->points[0], seed, step, sizeof step / sizeof *step);
    uint16_t logits = rig_input(r, MTR_ROWS_OUTPUTS, vocab, 1, true);
    if (!r->err.code)
        fill(r, r->buffers[logits].values, r->outputs, vocab);
    for (int side = 0; side < RIG_SIDES; side++)
        choose(r, (enum rig_side_name)side, function, logits, vocab, tokens[side], last[side]);
    rig_end(r);
    return !r->err.code && memcmp(tokens[0], tokens[1], sizeof tokens[0]) == 0 &&
           memcmp(last[0], last[1], sizeof last[0]) == 0;
}

static int try_function(struct rig *r, const char *function, uint32_t widths_tried, uint32_t seeds)
{
    int status = 0;
    for (uint32_t i = 0; i < widths_tried; i++) {
        bool same = true;
        for (uint32_t seed = 1; seed <= seeds && !r->err.code; seed++)
            same = try_width(r, function, widths[i], seed) && same;
        if (r->err.code) {
            fprintf(stderr, "kernel-check: %s: %s\n", function, r->err.message);
            return 2;
        }
        printf("{\"kernel\":\"%s\",\"case\":\"vocab %u\",\"ok\":%s}\n", function, widths[i],
               same ? "true" : "false");
        status = same ? status : 1;
    }
    return status;
}

/* The host's twin of "sample" is slow: not for the widest rows. */
int kernel_sample(struct rig *r, const char *only, uint32_t seeds)
{
    const uint32_t count = sizeof widths / sizeof *widths;
    const char *names[] = {"argmax", "sample"};
    int status = 0;
    for (int i = 0; i < 2; i++) {
        if (only && strncmp(names[i], only, strlen(only)) != 0)
            continue;
        int one = try_function(r, names[i], count - (uint32_t)i, seeds);
        status = one > status ? one : status;
    }
    return status;
}
