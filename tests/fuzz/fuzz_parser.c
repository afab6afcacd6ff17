/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Any text of a model, in any format, cut anywhere: the same answer, every call with arguments that
 * are a JSON object, everything UTF-8. The first byte chooses the format, the second the prompt's
 * end and how the text is cut, the rest is the text.
 *
 * MTR_FUZZ_FORMAT=NAME tries one format only.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "broker/parse/parser.h"
#include "common/base/hash.h"
#include "common/base/utf8.h"

static const char tools_text[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"s\":{\"type\":\"string\"},\"i\":{\"type\":\"integer\"},\"n\":{\"type\":"
    "[\"string\",\"null\"]},\"o\":{\"type\":\"object\"},\"a\":{\"type\":\"array\"},\"b\":{\"type\":"
    "\"boolean\"}}}}},{\"type\":\"function\",\"function\":{\"name\":\"now\"}},{\"type\":"
    "\"function\",\"function\":{\"name\":\"get_weather\",\"parameters\":{\"properties\":{\"city\":"
    "{\"type\":\"string\"},\"days\":{\"type\":\"integer\"}}}}}]";

struct seen {
    struct mtr_buf all; /* kinds and texts, pieces of one kind joined */
    struct mtr_buf arguments;
    int last;
};

static void take(void *context, enum mtr_piece_kind kind, struct mtr_str text)
{
    struct seen *s = context;
    MTR_FUZZ_CHECK(mtr_utf8_valid(text));
    if (kind != (enum mtr_piece_kind)s->last || kind == MTR_PIECE_CALL)
        mtr_buf_printf(&s->all, "\n%d:", kind);
    s->last = kind;
    mtr_buf_str(&s->all, text);
    if (kind == MTR_PIECE_CALL)
        mtr_buf_clear(&s->arguments);
    if (kind == MTR_PIECE_ARGUMENTS)
        mtr_buf_str(&s->arguments, text);
    if (kind == MTR_PIECE_CALL_END) {
        struct mtr_arena arena;
        mtr_arena_init(&arena, 0);
        const struct mtr_json *v =
            mtr_json_parse(&arena, mtr_buf_view(&s->arguments), MTR_JSON_STRICT, NULL);
        MTR_FUZZ_CHECK(v && v->kind == MTR_JSON_OBJECT);
        mtr_arena_free(&arena);
    }
}

static void read_all(const struct mtr_parser_setup *setup, struct mtr_str text, size_t most,
                     uint64_t seed, struct seen *seen)
{
    struct mtr_parser_setup s = *setup;
    s.context = seen;
    seen->last = -1;
    struct mtr_parser *p = mtr_parser_new(&s);
    MTR_FUZZ_CHECK(p != NULL);
    for (size_t at = 0; at < text.len;) {
        size_t len = seed ? 1 + (seed = mtr_mix64(seed + at)) % most : most;
        struct mtr_str piece = mtr_str_sub(text, at, len);
        MTR_FUZZ_CHECK(mtr_parser_text(p, piece));
        at += piece.len;
    }
    MTR_FUZZ_CHECK(mtr_parser_finish(p));
    mtr_parser_free(p);
}

static const struct mtr_parse_format *choose(uint8_t byte)
{
    size_t count;
    const struct mtr_parse_format *formats = mtr_parse_formats(&count);
    const char *only = getenv("MTR_FUZZ_FORMAT");
    const struct mtr_parse_format *f = only ? mtr_parse_format_find(mtr_str(only)) : NULL;
    return f ? f : &formats[byte % count];
}

static void check_same(const struct mtr_parse_format *f, struct mtr_str text,
                       const struct mtr_buf *whole, const struct mtr_buf *cut)
{
    bool same = mtr_str_equal(mtr_buf_view(whole), mtr_buf_view(cut));
    struct mtr_buf quoted = {0};
    mtr_json_escape(&quoted, text);
    if (!same)
        fprintf(stderr, "%s\n", quoted.data);
    mtr_buf_free(&quoted);
    if (!same)
        fprintf(stderr, "%s: whole:%s\n-- cut:%s\n", f->name, whole->data, cut->data);
    MTR_FUZZ_CHECK(same);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const tails[] = {"", "<think>\n", "<think></think>", "<|channel>thought\n"};
    if (size < 2 || size > 20000)
        return 0;
    struct mtr_arena arena;
    mtr_arena_init(&arena, 0);
    struct mtr_str text = {(const char *)data + 2, size - 2};
    const struct mtr_parse_format *f = choose(data[0]);
    struct mtr_parser_setup setup = {
        .tools = f,
        .reasoning = data[1] & 4 ? NULL : f,
        .declared =
            data[1] & 8 ? NULL : mtr_json_parse(&arena, MTR_STR(tools_text), MTR_JSON_STRICT, NULL),
        .prompt_tail = mtr_str(tails[data[1] & 3]),
        .piece = take,
    };
    if (mtr_utf8_valid(text)) {
        struct seen whole = {0}, bytes = {0}, random = {0};
        read_all(&setup, text, text.len + 1, 0, &whole);
        read_all(&setup, text, 1, 0, &bytes);
        read_all(&setup, text, 9, data[1] + 1u, &random);
        check_same(f, text, &whole.all, &bytes.all);
        check_same(f, text, &whole.all, &random.all);
        struct seen *const all[] = {&whole, &bytes, &random};
        for (int i = 0; i < 3; i++) {
            mtr_buf_free(&all[i]->all);
            mtr_buf_free(&all[i]->arguments);
        }
    }
    mtr_arena_free(&arena);
    return 0;
}
