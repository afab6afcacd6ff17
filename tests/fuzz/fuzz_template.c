/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Any template over any variables ends within its limits, in a text whose spans cover it, or in an
 * error that says something. The input is a template, a line with the word VARIABLES, and JSON.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "broker/text/jinja/jinja.h"
#include "common/base/utf8.h"

#define ARENA_BYTES (64u << 20)

static const struct mtr_json *variables_of(struct mtr_arena *arena, struct mtr_str *source)
{
    static const char mark[] = "\nVARIABLES\n";
    static const char fallback[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a<b>\\u00e9\\nc\"},{\"role\":\"x\","
        "\"content\":[{\"type\":\"text\",\"text\":\" t \"}]}],\"n\":3,\"f\":-1.5,\"t\":true,"
        "\"z\":null,\"d\":{\"a\":1,\"items\":[1,2]},\"bos_token\":\"<s>\"}";
    size_t at = mtr_str_find(*source, MTR_STR(mark), 0);
    const struct mtr_json *v = NULL;
    if (at != SIZE_MAX) {
        struct mtr_str json = mtr_str_sub(*source, at + sizeof mark - 1, source->len);
        v = mtr_json_parse(arena, json, MTR_JSON_STRICT, NULL);
        *source = mtr_str_sub(*source, 0, at);
    }
    if (!v || v->kind != MTR_JSON_OBJECT)
        v = mtr_json_parse(arena, MTR_STR(fallback), MTR_JSON_STRICT, NULL);
    return v;
}

static void check_result(const struct mtr_jinja_result *r)
{
    size_t at = 0;
    MTR_FUZZ_CHECK(mtr_utf8_valid(r->text));
    for (size_t i = 0; i < r->span_count; i++) {
        MTR_FUZZ_CHECK(r->spans[i].offset == at && r->spans[i].len > 0);
        MTR_FUZZ_CHECK(i == 0 || r->spans[i].from_template != r->spans[i - 1].from_template);
        at += r->spans[i].len;
    }
    MTR_FUZZ_CHECK(at == r->text.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const trusted[] = {"bos_token", "messages[].role"};
    struct mtr_jinja_options options = {
        .limits = {.steps = 200000, .output_bytes = 1u << 20, .memory_bytes = 32u << 20},
        .now = {2026, 3, 5, 14, 7, 9, 0},
        .trusted = trusted,
        .trusted_count = 2,
    };
    struct mtr_arena arena;
    struct mtr_error err = {0};
    struct mtr_jinja_result result;
    struct mtr_str source = {(const char *)data, size};
    mtr_arena_init(&arena, ARENA_BYTES);
    const struct mtr_json *variables = variables_of(&arena, &source);
    const struct mtr_jinja *t = mtr_jinja_compile(&arena, source, &err);
    if (t && mtr_jinja_render(t, variables, &options, &arena, &result, &err))
        check_result(&result);
    else
        MTR_FUZZ_CHECK(err.code != MTR_OK && (err.message[0] || (t && result.raised)) &&
                       mtr_utf8_valid(mtr_str(err.message)));
    mtr_arena_free(&arena);
    return 0;
}
