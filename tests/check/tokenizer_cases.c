/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One line, all that it records.
 */
#include "tests/check/tokenizer_cases.h"

#include <stdio.h>
#include <string.h>

#include "broker/text/detokenizer.h"
#include "common/base/json.h"

#define MAX_SHOWN_IDS 40

bool mtr_check_ids(const struct mtr_ids *got, const struct mtr_json *want)
{
    if (want == NULL || want->kind != MTR_JSON_ARRAY || want->count != got->count)
        return false;
    for (uint32_t i = 0; i < want->count; i++)
        if (want->items[i].integer != got->ids[i])
            return false;
    return true;
}

static void print_escaped(const char *label, struct mtr_str s)
{
    struct mtr_buf b = {0};
    mtr_json_escape(&b, mtr_str_sub(s, 0, 300));
    printf("    %s %.*s\n", label, b.failed ? 0 : (int)b.len, b.data);
    mtr_buf_free(&b);
}

void mtr_check_report(struct mtr_check_counts *counts, bool ok, const char *what,
                      struct mtr_str text, const struct mtr_ids *got, const struct mtr_json *want)
{
    counts->checks++;
    counts->failed += !ok;
    if (ok || counts->shown == MTR_CHECK_SHOWN)
        return;
    counts->shown++;
    printf("  %s differs\n", what);
    print_escaped("text", text);
    printf("    got ");
    for (size_t i = 0; i < got->count && i < MAX_SHOWN_IDS; i++)
        printf(" %u", got->ids[i]);
    printf("\n    want");
    for (uint32_t i = 0; want != NULL && i < want->count && i < MAX_SHOWN_IDS; i++)
        printf(" %lld", (long long)want->items[i].integer);
    printf("\n");
}

static void report_text(struct mtr_check_counts *counts, bool ok, const char *what,
                        struct mtr_str got, struct mtr_str want)
{
    counts->checks++;
    counts->failed += !ok;
    if (ok || counts->shown == MTR_CHECK_SHOWN)
        return;
    counts->shown++;
    printf("  %s differs\n", what);
    print_escaped("got ", got);
    print_escaped("want", want);
}

static struct mtr_str text_of(const struct mtr_json *c, const char *key)
{
    const struct mtr_json *v = mtr_json_get(c, key);
    return v != NULL && v->kind == MTR_JSON_STRING ? v->text : (struct mtr_str){NULL, 0};
}

static void check_encode(struct mtr_encoder *e, const struct mtr_json *c, const char *key,
                         unsigned flags, struct mtr_check_counts *counts)
{
    const struct mtr_json *want = mtr_json_get(c, key);
    struct mtr_ids got = {0};
    if (want == NULL)
        return;
    bool ok = mtr_encode(e, text_of(c, "text"), flags, &got, NULL);
    mtr_check_report(counts, ok && mtr_check_ids(&got, want), key, text_of(c, "text"), &got, want);
    mtr_ids_free(&got);
}

/* ids decoded, against the text under `key` or, where it is left out, under `otherwise`. */
static void check_decode(const struct mtr_tokenizer *t, const struct mtr_json *c, const char *ids,
                         bool skip, const char *key, const char *otherwise,
                         struct mtr_check_counts *counts)
{
    const struct mtr_json *list = mtr_json_get(c, ids);
    struct mtr_str want = text_of(c, key);
    struct mtr_ids v = {0};
    struct mtr_buf got = {0};
    if (want.ptr == NULL)
        want = text_of(c, otherwise);
    bool ok = list != NULL && list->kind == MTR_JSON_ARRAY;
    for (uint32_t i = 0; ok && i < list->count; i++)
        ok = mtr_ids_push(&v, (uint32_t)list->items[i].integer);
    ok = ok && mtr_decode(t, v.ids, v.count, skip, &got, NULL);
    report_text(counts, ok && mtr_str_equal(mtr_buf_view(&got), want), key, mtr_buf_view(&got),
                want);
    mtr_ids_free(&v);
    mtr_buf_free(&got);
}

void mtr_check_case(const struct mtr_tokenizer *t, struct mtr_encoder *e, struct mtr_str line,
                    struct mtr_check_counts *counts)
{
    struct mtr_arena arena;
    mtr_arena_init(&arena, 0);
    const struct mtr_json *c = mtr_json_parse(&arena, line, MTR_JSON_STRICT, NULL);
    counts->cases++;
    check_encode(e, c, "ids", MTR_ENCODE_PARSE_SPECIAL, counts);
    check_encode(e, c, "ids_special", MTR_ENCODE_PARSE_SPECIAL | MTR_ENCODE_ADD_SPECIAL, counts);
    check_encode(e, c, "ids_as_text", 0, counts);
    check_decode(t, c, "ids", false, "decoded", "decoded", counts);
    check_decode(t, c, "ids_special", false, "decoded_special", "decoded", counts);
    check_decode(t, c, "ids_special", true, "decoded_skipped", "decoded", counts);
    mtr_arena_free(&arena);
}

/*
 * After each id, what was handed out must begin what all ids decode to (unless the recording gave
 * up on that), must not be behind the recorded chunks, and must begin the text of the ids so far:
 * but for the end of that, where U+FFFD stand for bytes that are not yet whole.
 */
static bool stream_step(const struct mtr_json *c, uint32_t i, struct mtr_str got,
                        const struct mtr_buf *chunks)
{
    const struct mtr_json *prefixes = mtr_json_get(c, "prefixes");
    struct mtr_str all = prefixes->items[prefixes->count - 1].text;
    bool gave_up = mtr_json_get(c, "chunk_error") != NULL;
    if (!mtr_str_starts(got, mtr_buf_view(chunks)))
        return false;
    struct mtr_str now = prefixes->items[i].text;
    bool open = mtr_str_ends(now, MTR_STR("\xef\xbf\xbd"));
    return gave_up || (mtr_str_starts(all, got) && (open || mtr_str_starts(now, got)));
}

static bool check_steps(const struct mtr_tokenizer *t, const struct mtr_json *c,
                        struct mtr_buf *got, struct mtr_buf *chunks)
{
    const struct mtr_json *ids = mtr_json_get(c, "ids"), *pieces = mtr_json_get(c, "chunks");
    const struct mtr_json *prefixes = mtr_json_get(c, "prefixes");
    bool gave_up = mtr_json_get(c, "chunk_error") != NULL, ok = true;
    struct mtr_detokenizer d;
    if (prefixes->count == 0)
        return true;
    mtr_detokenizer_init(&d, t, false);
    for (uint32_t i = 0; ok && i < ids->count; i++) {
        ok = mtr_detokenizer_push(&d, (uint32_t)ids->items[i].integer, got, NULL);
        if (i < pieces->count && pieces->items[i].kind == MTR_JSON_STRING)
            mtr_buf_str(chunks, pieces->items[i].text);
        ok = ok && stream_step(c, i, mtr_buf_view(got), chunks);
    }
    ok = ok && mtr_detokenizer_flush(&d, got, NULL);
    mtr_detokenizer_free(&d);
    return ok &&
           (gave_up || mtr_str_equal(mtr_buf_view(got), prefixes->items[prefixes->count - 1].text));
}

void mtr_check_stream(const struct mtr_tokenizer *t, struct mtr_str line,
                      struct mtr_check_counts *counts)
{
    struct mtr_arena arena;
    struct mtr_buf got = {0}, chunks = {0};
    mtr_arena_init(&arena, 0);
    const struct mtr_json *c = mtr_json_parse(&arena, line, MTR_JSON_STRICT, NULL);
    counts->cases++;
    bool ok = c != NULL && check_steps(t, c, &got, &chunks);
    report_text(counts, ok, "stream", mtr_buf_view(&got), line);
    mtr_buf_free(&got);
    mtr_buf_free(&chunks);
    mtr_arena_free(&arena);
}
