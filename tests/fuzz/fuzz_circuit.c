/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Any settings document gives a plan or a reason; a plan has the same bytes when built again, its
 * buffers lie in its arena, and every report can be written of it. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "common/circuit/compile.h"
#include "common/circuit/report.h"

#define ARENA_BYTES (256u << 20)

static void check_plan(const struct mtr_plan *p, const struct mtr_plan *again)
{
    MTR_FUZZ_CHECK(again && memcmp(p->digest, again->digest, sizeof p->digest) == 0);
    MTR_FUZZ_CHECK(p->logits < p->buffer_count && p->parameters > 0);
    for (uint32_t i = 0; i < p->buffer_count; i++)
        MTR_FUZZ_CHECK(p->buffers[i].offset < p->arena_bytes);
    for (uint32_t i = 0; i < p->lists[0].count; i++) {
        const struct mtr_launch *l = &p->lists[0].launches[i];
        for (uint32_t k = 0; k < l->in_count; k++)
            MTR_FUZZ_CHECK(l->in[k] < p->buffer_count);
        for (uint32_t k = 0; k < l->weight_count; k++)
            MTR_FUZZ_CHECK(l->weights[k] == MTR_NONE || l->weights[k] < p->weight_count);
    }
    struct mtr_buf out = {0};
    MTR_FUZZ_CHECK(mtr_report_show(&out, p) && mtr_report_precision(&out, p));
    MTR_FUZZ_CHECK(mtr_report_memory(&out, p, mtr_device_find("gb10")));
    MTR_FUZZ_CHECK(mtr_report_plan(&out, p, mtr_device_find("host"), 0));
    mtr_buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mtr_arena arena;
    struct mtr_error err = {0};
    mtr_arena_init(&arena, ARENA_BYTES);
    struct mtr_model_source source = {
        .config = mtr_json_parse(&arena, (struct mtr_str){(const char *)data, size},
                                 MTR_JSON_NONFINITE, &err)};
    if (source.config) {
        struct mtr_plan_options options = {.hardware = "host", .cache = MTR_BF16};
        source.gguf = mtr_json_get(source.config, "general.architecture") != NULL;
        const struct mtr_plan *plan = mtr_plan_build(&arena, &source, &options, &err);
        MTR_FUZZ_CHECK(plan || (err.message[0] && err.code != MTR_INTERNAL));
        if (plan)
            check_plan(plan, mtr_plan_build(&arena, &source, &options, &err));
    }
    mtr_arena_free(&arena);
    return 0;
}
