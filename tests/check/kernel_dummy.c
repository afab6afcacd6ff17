/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tests/check/kernel_dummy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/weights/dummy.h"

#define ELEMENTS 1048576u /* more than one tile */
#define GUARD    256u     /* bytes behind them that stay 0 */

static const enum mtr_format formats[] = {MTR_F32,  MTR_F16,  MTR_BF16, MTR_Q4_0,
                                          MTR_Q4_1, MTR_Q5_0, MTR_Q5_1, MTR_Q8_0,
                                          MTR_Q4_K, MTR_Q5_K, MTR_Q6_K};
static const struct {
    uint64_t first, count; /* elements, in units of 256 */
    enum mtr_dummy_kind kind;
} stretches[] = {{0, ELEMENTS / 256, MTR_DUMMY_MATRIX},
                 {7, 3, MTR_DUMMY_VECTOR},
                 {9, 2, MTR_DUMMY_SCALES},
                 {1ull << 25, 1000, MTR_DUMMY_MATRIX}};

static void make(struct rig *r, enum rig_side_name side, const struct mtr_dummy_launch *l,
                 uint8_t *out, size_t bytes)
{
    struct mtr_backend *b = r->sides[side].backend;
    const uint32_t grid[3] = {l->grid, 1, 1}, block[3] = {MTR_DUMMY_THREADS, 1, 1};
    struct mtr_dummy_args args = l->args;
    args.dst = rig_memory(r, side, NULL, bytes);
    struct mtr_kernel *k = r->err.code ? NULL : b->ops->kernel(b, "dummy", l->function, &r->err);
    if (k && b->ops->launch(b, NULL, k, grid, block, 0, &args, sizeof args, &r->err) &&
        b->ops->download(b, NULL, out, args.dst, bytes, &r->err))
        b->ops->stream_wait(b, NULL, &r->err);
}

static bool try_format(struct rig *r, enum mtr_format format, uint8_t *want, uint8_t *have)
{
    const struct mtr_format_info *info = mtr_format_info(format);
    bool same = true;
    for (size_t i = 0; i < sizeof stretches / sizeof *stretches && !r->err.code; i++) {
        uint64_t count = stretches[i].count * 256;
        size_t bytes = count / info->block_elements * info->block_bytes + GUARD;
        struct mtr_dummy_launch l;
        same = mtr_dummy_launch(format, stretches[i].kind, 11, 5, stretches[i].first * 256, count,
                                NULL, &l) &&
               same;
        make(r, RIG_HOST, &l, want, bytes);
        make(r, RIG_SUBJECT, &l, have, bytes);
        rig_end(r);
        same = same && !r->err.code && memcmp(want, have, bytes) == 0;
    }
    return same;
}

int kernel_dummy(struct rig *r)
{
    int status = 0;
    uint8_t *want = calloc(1, ELEMENTS * 4 + GUARD), *have = calloc(1, ELEMENTS * 4 + GUARD);
    for (size_t i = 0; want && have && i < sizeof formats / sizeof *formats && status < 2; i++) {
        const char *name = mtr_format_info(formats[i])->name;
        bool same = try_format(r, formats[i], want, have);
        if (r->err.code)
            fprintf(stderr, "kernel-check: dummies of %s: %s\n", name, r->err.message);
        else
            printf("{\"kernel\":\"dummy\",\"case\":\"%s\",\"ok\":%s}\n", name,
                   same ? "true" : "false");
        status = r->err.code ? 2 : same ? status : 1;
    }
    free(want);
    free(have);
    return want && have ? status : 2;
}
