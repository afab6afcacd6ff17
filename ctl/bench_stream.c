/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Server-sent events, as far as streamed answers use them.
 *
 * Bytes become lines (ended by LF, CR or CRLF), "data:" lines are gathered, an empty line ends an
 * event. An event is "[DONE]" or a JSON object; what counts in it: text (a chat delta's content or
 * reasoning, a completion's text, a tool call), finish_reason, usage, error. An event gets the time
 * at which its last byte was given to us.
 */
#include <stdio.h>
#include <string.h>

#include "ctl/bench.h"

#define MAX_EVENT_BYTES (1u << 20)
#define ARENA_BYTES     (64u << 20)
#define MAX_GAPS        (1u << 26)
#define MAX_COUNT       (1 << 30) /* of tokens in one answer: sums of a run stay exact */

void mtr_bench_stream_begin(struct mtr_bench_stream *s, struct mtr_bench_sample *sample,
                            struct mtr_bench_gaps *gaps)
{
    *s = (struct mtr_bench_stream){.sample = sample, .gaps = gaps};
    mtr_arena_init(&s->arena, ARENA_BYTES);
    s->line.limit_bytes = s->data.limit_bytes = MAX_EVENT_BYTES;
}

void mtr_bench_stream_free(struct mtr_bench_stream *s)
{
    mtr_arena_free(&s->arena);
    mtr_buf_free(&s->line);
    mtr_buf_free(&s->data);
}

/* The first error is kept, as one line of printable text. */
static bool fail(struct mtr_bench_sample *sample, const char *what, struct mtr_str detail)
{
    if (!sample->error[0]) {
        snprintf(sample->error, sizeof sample->error, "%s%s%.*s", what, detail.len ? ": " : "",
                 detail.len > MTR_BENCH_ERROR_BYTES ? MTR_BENCH_ERROR_BYTES : (int)detail.len,
                 detail.len ? detail.ptr : "");
        for (char *c = sample->error; *c; c++)
            if ((unsigned char)*c < ' ')
                *c = ' ';
    }
    return false;
}

/* ---- One event --------------------------------------------------------------------------------
 */

static bool has_text(const struct mtr_json *v)
{
    return v && v->kind == MTR_JSON_STRING && v->text.len > 0;
}

static bool has_piece(const struct mtr_json *choice)
{
    const struct mtr_json *delta = mtr_json_get(choice, "delta");
    const struct mtr_json *calls = mtr_json_get(delta, "tool_calls");
    return has_text(mtr_json_get(choice, "text")) || has_text(mtr_json_get(delta, "content")) ||
           has_text(mtr_json_get(delta, "reasoning_content")) ||
           has_text(mtr_json_get(delta, "reasoning")) ||
           (calls && calls->kind == MTR_JSON_ARRAY && calls->count);
}

static void take_piece(struct mtr_bench_stream *s, uint64_t now_ns)
{
    struct mtr_bench_sample *m = s->sample;
    struct mtr_bench_gaps *g = s->gaps;
    if (!m->pieces++)
        m->first_ns = now_ns;
    else if (g && g->count < MAX_GAPS &&
             mtr_grow((void **)&g->ns, &g->cap, g->count + 1, sizeof *g->ns))
        g->ns[g->count++] = now_ns - m->last_ns;
    m->last_ns = now_ns;
}

/* The only token may be one that has no text; it came all the same. */
static void take_finish(struct mtr_bench_stream *s, uint64_t now_ns)
{
    s->ended = true;
    if (!s->sample->pieces)
        s->sample->first_ns = s->sample->last_ns = now_ns;
}

static bool take_usage(struct mtr_bench_sample *m, const struct mtr_json *usage)
{
    static const struct {
        const char *path;
        size_t offset;
    } counts[] = {
        {"prompt_tokens", offsetof(struct mtr_bench_sample, prompt_tokens)},
        {"completion_tokens", offsetof(struct mtr_bench_sample, output_tokens)},
        {"prompt_tokens_details.cached_tokens", offsetof(struct mtr_bench_sample, cached_tokens)},
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const struct mtr_json *v = mtr_json_path(usage, counts[i].path);
        if (v && v->kind == MTR_JSON_INT && (v->big || v->integer < 0 || v->integer > MAX_COUNT))
            return fail(m, "the usage is no count of tokens", mtr_str(counts[i].path));
        if (v && v->kind == MTR_JSON_INT)
            *(uint64_t *)((char *)m + counts[i].offset) = (uint64_t)v->integer;
    }
    const struct mtr_json *output = mtr_json_get(usage, "completion_tokens");
    m->has_usage = m->has_usage || (output && output->kind == MTR_JSON_INT);
    return true;
}

static bool take_error(struct mtr_bench_sample *m, const struct mtr_json *error)
{
    const struct mtr_json *message =
        error->kind == MTR_JSON_OBJECT ? mtr_json_get(error, "message") : error;
    return fail(m, "error in the stream", has_text(message) ? message->text : (struct mtr_str){0});
}

static bool take_event(struct mtr_bench_stream *s, uint64_t now_ns)
{
    struct mtr_error error = {0};
    struct mtr_str data = mtr_buf_view(&s->data);
    if (mtr_str_is(data, "[DONE]")) {
        s->ended = true;
        return true;
    }
    mtr_arena_reset(&s->arena);
    const struct mtr_json *event = mtr_json_parse(&s->arena, data, MTR_JSON_STRICT, &error);
    if (!event || event->kind != MTR_JSON_OBJECT)
        return fail(s->sample, "an event is no JSON object", mtr_str(error.message));
    const struct mtr_json *e = mtr_json_get(event, "error");
    if (e && e->kind != MTR_JSON_NULL)
        return take_error(s->sample, e);
    const struct mtr_json *choices = mtr_json_get(event, "choices");
    bool has_choice = choices && choices->kind == MTR_JSON_ARRAY && choices->count;
    const struct mtr_json *choice = has_choice ? &choices->items[0] : NULL;
    if (has_piece(choice))
        take_piece(s, now_ns);
    if (has_text(mtr_json_get(choice, "finish_reason")))
        take_finish(s, now_ns);
    const struct mtr_json *usage = mtr_json_get(event, "usage");
    if (usage && usage->kind == MTR_JSON_OBJECT)
        return take_usage(s->sample, usage);
    return true;
}

/* ---- Lines ------------------------------------------------------------------------------------
 */

static bool take_line(struct mtr_bench_stream *s, uint64_t now_ns)
{
    struct mtr_str line = mtr_buf_view(&s->line);
    bool ok = true;
    if (!line.len && s->data.len) {
        ok = take_event(s, now_ns);
        mtr_buf_clear(&s->data);
    } else if (line.len && mtr_str_starts(line, MTR_STR("data:"))) {
        size_t skip = line.len > 5 && line.ptr[5] == ' ' ? 6 : 5;
        if (s->data.len)
            mtr_buf_byte(&s->data, '\n');
        mtr_buf_str(&s->data, mtr_str_sub(line, skip, line.len));
    }
    if (s->line.failed || s->data.failed)
        ok = fail(s->sample, "an event is larger than 1 MiB", (struct mtr_str){0});
    mtr_buf_clear(&s->line);
    return ok;
}

bool mtr_bench_stream_feed(struct mtr_bench_stream *s, struct mtr_str bytes, uint64_t now_ns)
{
    size_t from = 0;
    for (size_t i = 0; i < bytes.len && !s->sample->error[0]; i++) {
        char c = bytes.ptr[i];
        bool skipped = c == '\n' && s->after_cr; /* the second byte of CRLF */
        s->after_cr = c == '\r';
        if (c != '\n' && c != '\r')
            continue;
        if (!skipped) {
            mtr_buf_append(&s->line, bytes.ptr + from, i - from);
            take_line(s, now_ns);
        }
        from = i + 1;
    }
    if (from < bytes.len && !mtr_buf_append(&s->line, bytes.ptr + from, bytes.len - from))
        fail(s->sample, "an event is larger than 1 MiB", (struct mtr_str){0});
    return !s->sample->error[0];
}

void mtr_bench_stream_end(struct mtr_bench_stream *s)
{
    if (!s->ended)
        fail(s->sample, "the answer ended early, or is no event stream", (struct mtr_str){0});
}

void mtr_bench_http_error(struct mtr_bench_sample *sample, long status, struct mtr_str body)
{
    struct mtr_arena arena;
    char what[32];
    snprintf(what, sizeof what, "status %ld", status);
    mtr_arena_init(&arena, ARENA_BYTES);
    const struct mtr_json *v = mtr_json_parse(&arena, body, MTR_JSON_STRICT, NULL);
    const struct mtr_json *message = mtr_json_path(v, "error.message");
    if (!message)
        message = mtr_json_get(v, "message");
    fail(sample, what, has_text(message) ? message->text : body);
    mtr_arena_free(&arena);
}
