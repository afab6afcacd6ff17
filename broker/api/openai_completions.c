/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * POST /v1/completions (legacy): prompts as text or token ids, several at once, echo, scoring.
 *
 * Choice number p * n + c is completion c of prompt p, as OpenAI numbers them.
 */
#include <stdio.h>
#include <string.h>

#include "broker/api/fields.h"
#include "broker/api/openai.h"

#define MAX_PROMPTS 256

/* ---- Request ----------------------------------------------------------------------------------
 */

static bool read_ids(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_prompt *out,
                     struct mtr_error *err)
{
    uint32_t *ids = mtr_arena_calloc(r->arena, v->count, sizeof *ids);
    if (!ids)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory reading 'prompt'");
    for (uint32_t i = 0; i < v->count; i++) {
        const struct mtr_json *id = &v->items[i];
        if (id->kind != MTR_JSON_INT || id->big || id->integer < 0 || id->integer > INT32_MAX)
            return mtr_fail_field(err, MTR_INVALID, "prompt", "entry %u of 'prompt' is no token id",
                                  i);
        ids[i] = (uint32_t)id->integer;
    }
    *out = (struct mtr_prompt){.kind = MTR_PROMPT_IDS, .ids = ids, .id_count = v->count};
    return true;
}

static bool read_one(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_prompt *out,
                     struct mtr_error *err)
{
    if (v->kind == MTR_JSON_STRING) {
        *out = (struct mtr_prompt){.kind = MTR_PROMPT_TEXT, .text = v->text};
        return true;
    }
    if (v->kind == MTR_JSON_ARRAY && v->count && v->items[0].kind == MTR_JSON_INT)
        return read_ids(r, v, out, err);
    return mtr_fail_field(err, MTR_INVALID, "prompt",
                          "'prompt' must be a string, an array of token ids, or an array of these, "
                          "and not empty");
}

static bool f_prompt(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    bool many = v->kind == MTR_JSON_ARRAY && v->count && v->items[0].kind != MTR_JSON_INT;
    uint32_t count = many ? v->count : 1;
    if (count > MAX_PROMPTS)
        return mtr_fail_field(err, MTR_TOO_LARGE, "prompt",
                              "'prompt' has %u prompts, at most %d are allowed", count,
                              MAX_PROMPTS);
    struct mtr_prompt *prompts = mtr_arena_calloc(r->arena, count, sizeof *prompts);
    if (!prompts)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory reading 'prompt'");
    for (uint32_t i = 0; i < count; i++)
        if (!read_one(r, many ? &v->items[i] : v, &prompts[i], err))
            return false;
    r->prompts = prompts;
    r->prompt_count = count;
    return true;
}

static bool f_logprobs(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    if (v->kind != MTR_JSON_INT || v->big || v->integer < 0 || v->integer > MTR_MAX_TOP_LOGPROBS)
        return mtr_fail_field(err, MTR_INVALID, "logprobs",
                              "'logprobs' must be an integer from 0 to %d", MTR_MAX_TOP_LOGPROBS);
    r->logprobs = true;
    r->top_logprobs = (uint32_t)v->integer;
    return true;
}

static bool f_echo(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    if (v->kind != MTR_JSON_BOOL)
        return mtr_fail_field(err, MTR_INVALID, "echo", "'echo' must be a boolean, not %s",
                              mtr_json_kind_name(v));
    r->echo = v->boolean;
    return true;
}

static bool f_best_of(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    if (v->kind != MTR_JSON_INT || v->big || v->integer < 1 || v->integer > MTR_MAX_CHOICES)
        return mtr_fail_field(err, MTR_INVALID, "best_of",
                              "'best_of' must be an integer from 1 to %d", MTR_MAX_CHOICES);
    r->best_of = (uint32_t)v->integer;
    return true;
}

/* max_tokens may be 0 here: echo with scores and nothing more. */
static bool f_max_tokens(struct mtr_chat_request *r, const struct mtr_json *v,
                         struct mtr_error *err)
{
    if (v->kind != MTR_JSON_INT || v->big || v->integer < 0 || v->integer > UINT32_MAX)
        return mtr_fail_field(err, MTR_INVALID, "max_tokens",
                              "'max_tokens' must be an integer of at least 0");
    r->max_tokens = (uint32_t)v->integer;
    r->no_tokens = v->integer == 0;
    return true;
}

static const struct mtr_field completion_fields[] = {
    {"prompt", f_prompt, NULL, NULL},
    {"max_tokens", f_max_tokens, NULL, NULL},
    {"logprobs", f_logprobs, NULL, NULL},
    {"echo", f_echo, NULL, NULL},
    {"best_of", f_best_of, NULL, NULL},
    {"suffix", NULL, "insertion needs a model made for it", "\"\""},
};

static bool parse_completions(struct mtr_chat_request *r, const struct mtr_json *body,
                              struct mtr_error *err)
{
    size_t common_count;
    const struct mtr_field *tables[] = {completion_fields, mtr_fields_common(&common_count)};
    size_t counts[] = {sizeof completion_fields / sizeof completion_fields[0], common_count};
    r->max_tokens = 16; /* OpenAI's default here */
    if (!mtr_fields_read(r, body, tables, 2, counts, err))
        return false;
    if (!r->prompt_count)
        return mtr_fail_field(err, MTR_INVALID, "prompt", "the body has no 'prompt'");
    if (r->no_tokens && !r->echo)
        return mtr_fail_field(err, MTR_INVALID, "max_tokens",
                              "'max_tokens' is 0, which needs 'echo': true");
    if (r->best_of && r->best_of != r->choices)
        return mtr_fail_field(err, MTR_UNSUPPORTED, "best_of",
                              "'best_of' is %u and 'n' is %u: they must be equal", r->best_of,
                              r->choices);
    if ((uint64_t)r->prompt_count * r->choices > MTR_MAX_CHOICES)
        return mtr_fail_field(err, MTR_TOO_LARGE, "n",
                              "%u prompts with 'n' %u ask for more than %d completions",
                              r->prompt_count, r->choices, MTR_MAX_CHOICES);
    return true;
}

/* ---- Answer -----------------------------------------------------------------------------------
 */

/* The four parallel arrays of this protocol's logprobs, as comma-separated JSON. */
struct columns {
    struct mtr_buf tokens, logprobs, tops, offsets;
};

struct completion_choice {
    struct mtr_buf text;
    struct columns columns;
    enum mtr_end finish;
};

struct completion_answer {
    struct mtr_answer base;
    uint32_t count;
    struct completion_choice *choices; /* [count] */
    struct mtr_str chunk_head, chunk_tail;
};

static struct mtr_json_writer next_entry(struct mtr_buf *column)
{
    if (column->len)
        mtr_buf_byte(column, ',');
    return mtr_json_writer(column);
}

static void put_top(struct mtr_json_writer *w, const struct mtr_event_token *t)
{
    mtr_json_begin_object(w);
    for (uint32_t k = 0; k < t->top_count; k++) {
        mtr_json_key_str(w, t->top[k].bytes);
        mtr_json_put_f64(w, t->top[k].logprob);
    }
    mtr_json_end_object(w);
}

static void add_columns(struct columns *c, const struct mtr_out_event *ev)
{
    for (uint32_t i = 0; i < ev->token_count; i++) {
        const struct mtr_event_token *t = &ev->tokens[i];
        struct mtr_json_writer w = next_entry(&c->tokens);
        mtr_json_put_str(&w, t->bytes);
        w = next_entry(&c->offsets);
        mtr_json_put_u64(&w, t->text_offset);
        w = next_entry(&c->logprobs);
        if (t->unscored)
            mtr_json_put_null(&w);
        else
            mtr_json_put_f64(&w, t->logprob);
        w = next_entry(&c->tops);
        if (t->unscored)
            mtr_json_put_null(&w);
        else
            put_top(&w, t);
    }
}

static void put_array(struct mtr_json_writer *w, const char *key, struct mtr_buf *column)
{
    mtr_json_key(w, key);
    mtr_json_begin_array(w);
    if (column->len)
        mtr_json_put_raw(w, mtr_buf_view(column));
    mtr_json_end_array(w);
}

static void put_logprobs(struct mtr_json_writer *w, bool wanted, struct columns *c)
{
    if (!wanted) {
        mtr_json_put_null(w);
        return;
    }
    mtr_json_begin_object(w);
    put_array(w, "tokens", &c->tokens);
    put_array(w, "token_logprobs", &c->logprobs);
    put_array(w, "top_logprobs", &c->tops);
    put_array(w, "text_offset", &c->offsets);
    mtr_json_end_object(w);
}

static void free_columns(struct columns *c)
{
    mtr_buf_free(&c->tokens);
    mtr_buf_free(&c->logprobs);
    mtr_buf_free(&c->tops);
    mtr_buf_free(&c->offsets);
}

static void put_head(struct mtr_json_writer *w, const struct mtr_answer *e)
{
    char id[80];
    snprintf(id, sizeof id, "cmpl-%.*s", MTR_STR_ARG(e->head.id));
    mtr_json_key(w, "id");
    mtr_json_put_cstr(w, id);
    mtr_json_key(w, "object");
    mtr_json_put_cstr(w, "text_completion");
    mtr_json_key(w, "created");
    mtr_json_put_i64(w, e->head.created);
    mtr_json_key(w, "model");
    mtr_json_put_str(w, e->head.model);
    mtr_json_key(w, "system_fingerprint");
    mtr_json_put_cstr(w, "metrale-" MTR_VERSION);
}

static void put_end(struct mtr_json_writer *w, enum mtr_end finish)
{
    if (finish == MTR_END_NONE)
        mtr_json_put_null(w);
    else
        mtr_json_put_cstr(w, mtr_openai_end(finish));
}

static void put_choice(struct mtr_json_writer *w, uint32_t index, struct mtr_str text,
                       bool logprobs, struct columns *columns, enum mtr_end finish)
{
    mtr_json_begin_object(w);
    mtr_json_key(w, "index");
    mtr_json_put_u64(w, index);
    mtr_json_key(w, "text");
    mtr_json_put_str(w, text);
    mtr_json_key(w, "logprobs");
    put_logprobs(w, logprobs, columns);
    mtr_json_key(w, "finish_reason");
    put_end(w, finish);
    mtr_json_end_object(w);
}

/* What of a streamed answer's chunks is always the same: everything before the choice's index, and
 * everything behind its finish reason. Written once, since chunks come a token each. */
static bool make_chunk_ends(struct completion_answer *all)
{
    struct mtr_answer *e = &all->base;
    struct mtr_buf text = {0};
    struct mtr_json_writer w = mtr_json_writer(&text);
    mtr_openai_frame_begin(&text);
    mtr_json_begin_object(&w);
    put_head(&w, e);
    mtr_json_key(&w, "choices");
    mtr_json_begin_array(&w);
    mtr_json_begin_object(&w);
    mtr_json_key(&w, "index");
    all->chunk_head = mtr_arena_str(e->arena, mtr_buf_view(&text));
    all->chunk_tail =
        e->request->include_usage ? MTR_STR("}],\"usage\":null}\n\n") : MTR_STR("}]}\n\n");
    bool ok = !text.failed && all->chunk_head.ptr;
    mtr_buf_free(&text);
    return ok;
}

static void stream_begin(struct mtr_answer *e, struct mtr_buf *out)
{
}

static void stream_event(struct mtr_answer *e, const struct mtr_out_event *ev, struct mtr_buf *out)
{
    const struct completion_answer *all = (const struct completion_answer *)e;
    if (ev->kind == MTR_EVENT_ERROR) {
        mtr_openai_stream_error(ev->error, out);
        return;
    }
    struct columns columns = {0};
    bool logprobs = e->request->logprobs && ev->token_count;
    if (logprobs)
        add_columns(&columns, ev);
    struct mtr_json_writer w = mtr_json_writer(out);
    mtr_buf_str(out, all->chunk_head);
    mtr_json_put_u64(&w, ev->choice);
    mtr_buf_puts(out, ",\"text\":");
    mtr_json_escape(out, ev->text);
    mtr_buf_puts(out, ",\"logprobs\":");
    w = mtr_json_writer(out);
    put_logprobs(&w, logprobs, &columns);
    mtr_buf_puts(out, ",\"finish_reason\":");
    w = mtr_json_writer(out);
    put_end(&w, ev->finish);
    mtr_buf_str(out, all->chunk_tail);
    free_columns(&columns);
}

static void stream_end(struct mtr_answer *e, const struct mtr_usage *usage, struct mtr_buf *out)
{
    if (e->request->include_usage) {
        struct mtr_json_writer w = mtr_json_writer(out);
        mtr_openai_frame_begin(out);
        mtr_json_begin_object(&w);
        put_head(&w, e);
        mtr_json_key(&w, "choices");
        mtr_json_begin_array(&w);
        mtr_json_end_array(&w);
        mtr_json_key(&w, "usage");
        mtr_openai_usage(&w, usage);
        mtr_json_end_object(&w);
        mtr_openai_frame_end(out);
    }
    mtr_buf_puts(out, "data: [DONE]\n\n");
}

static void whole_begin(struct mtr_answer *e, struct mtr_buf *out)
{
}

static void whole_event(struct mtr_answer *e, const struct mtr_out_event *ev, struct mtr_buf *out)
{
    struct completion_choice *c = &((struct completion_answer *)e)->choices[ev->choice];
    if (ev->kind == MTR_EVENT_TEXT || ev->kind == MTR_EVENT_REASONING)
        e->failed |= !mtr_buf_str(&c->text, ev->text);
    if (ev->kind == MTR_EVENT_FINISH)
        c->finish = ev->finish;
    if (e->request->logprobs)
        add_columns(&c->columns, ev);
}

static void whole_end(struct mtr_answer *e, const struct mtr_usage *usage, struct mtr_buf *out)
{
    struct completion_answer *all = (struct completion_answer *)e;
    struct mtr_json_writer w = mtr_json_writer(out);
    mtr_json_begin_object(&w);
    put_head(&w, e);
    mtr_json_key(&w, "choices");
    mtr_json_begin_array(&w);
    for (uint32_t i = 0; i < all->count; i++) {
        struct completion_choice *c = &all->choices[i];
        put_choice(&w, i, mtr_buf_view(&c->text), e->request->logprobs, &c->columns, c->finish);
    }
    mtr_json_end_array(&w);
    mtr_json_key(&w, "usage");
    mtr_openai_usage(&w, usage);
    mtr_json_end_object(&w);
}

static void release(struct mtr_answer *e)
{
    struct completion_answer *all = (struct completion_answer *)e;
    for (uint32_t i = 0; i < all->count; i++) {
        mtr_buf_free(&all->choices[i].text);
        free_columns(&all->choices[i].columns);
    }
}

static const struct mtr_answer_ops stream_ops = {stream_begin, stream_event, stream_end, release};
static const struct mtr_answer_ops whole_ops = {whole_begin, whole_event, whole_end, release};

static struct mtr_answer *completions_answer(const struct mtr_chat_request *r,
                                             const struct mtr_answer_head *head)
{
    struct completion_answer *e = mtr_arena_calloc(r->arena, 1, sizeof *e);
    if (!e)
        return NULL;
    e->count = r->prompt_count * r->choices;
    e->choices = mtr_arena_calloc(r->arena, e->count, sizeof *e->choices);
    if (!e->choices)
        return NULL;
    e->base = (struct mtr_answer){.ops = r->stream ? &stream_ops : &whole_ops,
                                  .request = r,
                                  .head = *head,
                                  .arena = r->arena};
    return !r->stream || make_chunk_ends(e) ? &e->base : NULL;
}

const struct mtr_protocol *mtr_openai_completions(void)
{
    static const struct mtr_protocol protocol = {.name = "completions",
                                                 .parse = parse_completions,
                                                 .answer = completions_answer,
                                                 .error = mtr_openai_error,
                                                 .stream_error = mtr_openai_stream_error};
    return &protocol;
}
