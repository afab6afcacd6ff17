/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * See parser.h. Text is appended to a buffer; steps take from its beginning what they can decide.
 */
#include "broker/parse/internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/utf8.h"

#define COMPACT_BYTES 4096 /* taken bytes that are worth moving the rest down for */
#define PATIENT_BYTES 256  /* a header that long is looked at again when it is an eighth longer */

/* ---- Looking ----------------------------------------------------------------------------------
 */

static bool is_hidden(const struct mtr_parse_format *f, struct mtr_str word)
{
    for (size_t i = 0; f && i < MTR_FORMAT_MAX_WORDS && f->hidden[i]; i++)
        if (mtr_str_is(word, f->hidden[i]))
            return true;
    return false;
}

static const struct mtr_parse_token *token_at(const struct mtr_parser *p, size_t at)
{
    for (size_t i = 0; i < p->token_count; i++)
        if (p->tokens[i].at == p->dropped + at)
            return &p->tokens[i];
    return NULL;
}

bool mtr_parser_hides(const struct mtr_parser *p, struct mtr_str spelling)
{
    return is_hidden(p->setup.tools, spelling) || is_hidden(p->think, spelling);
}

/* A hidden token's spelling counts only where the token came, if the vocabulary has it. */
static bool is_real(const struct mtr_parser *p, size_t at, struct mtr_str word)
{
    if (!p->setup.tokenizer || p->v.s.ptr != p->in.data || token_at(p, at))
        return true;
    return !mtr_parser_hides(p, word) || mtr_token_id(p->setup.tokenizer, word) == MTR_TOKEN_NONE;
}

enum mtr_progress mtr_look(const struct mtr_parser *p, size_t at, const char *word)
{
    if (!word || at > p->v.s.len)
        return MTR_NO;
    struct mtr_str rest = mtr_str_sub(p->v.s, at, p->v.s.len), w = mtr_str(word);
    if (mtr_str_starts(rest, w))
        return is_real(p, at, w) ? MTR_YES : MTR_NO;
    return !p->v.final && mtr_str_starts(w, rest) ? MTR_MORE : MTR_NO;
}

size_t mtr_look_space(const struct mtr_parser *p, size_t at)
{
    while (at < p->v.s.len && mtr_is_space(p->v.s.ptr[at]))
        at++;
    return at;
}

bool mtr_look_piece(const struct mtr_parser *p, size_t at, const char *word, size_t min)
{
    if (!word || !p->v.final)
        return false;
    struct mtr_str rest = mtr_str_sub(p->v.s, at, p->v.s.len);
    return rest.len >= min && rest.len < strlen(word) && mtr_str_starts(mtr_str(word), rest);
}

enum mtr_progress mtr_look_value(struct mtr_parser *p, size_t at, enum mtr_dialect dialect,
                                 size_t *end)
{
    struct mtr_value_scan local = {.at = at}, *scan = &local;
    bool kept = p->v.s.ptr == p->in.data;
    if (kept && p->scan_from == p->dropped + at) {
        scan = &p->scan;
        scan->at -= p->dropped;
    }
    enum mtr_progress r = mtr_value_scan(scan, p->v.s, dialect, p->v.final);
    *end = scan->at;
    if (kept && r == MTR_MORE) {
        p->scan = *scan;
        p->scan.at += p->dropped;
        p->scan_from = p->dropped + at;
    } else if (kept && scan == &p->scan) {
        p->scan_from = SIZE_MAX;
    }
    return r;
}

static enum mtr_progress look_list(const struct mtr_parser *p, const struct mtr_parse_format *f,
                                   size_t at, size_t *len)
{
    enum mtr_progress best = MTR_NO;
    for (size_t i = 0; f && i < MTR_FORMAT_MAX_WORDS && f->hidden[i]; i++) {
        enum mtr_progress r = mtr_look(p, at, f->hidden[i]);
        if (r == MTR_YES) {
            *len = strlen(f->hidden[i]);
            return r;
        }
        if (r == MTR_MORE)
            best = r;
    }
    return best;
}

enum mtr_progress mtr_look_hidden(const struct mtr_parser *p, size_t at, size_t *len)
{
    enum mtr_progress a = look_list(p, p->format, at, len);
    if (a == MTR_YES)
        return a;
    enum mtr_progress b = p->think == p->format ? a : look_list(p, p->think, at, len);
    if (b == MTR_YES)
        return b;
    if (p->setup.tools && p->setup.tools != p->format) {
        enum mtr_progress c = look_list(p, p->setup.tools, at, len);
        if (c != MTR_NO)
            return c;
    }
    if (p->token_count && p->v.s.ptr == p->in.data) {
        const struct mtr_parse_token *t = token_at(p, at);
        if (t) {
            *len = t->len;
            return MTR_YES;
        }
    }
    return a == MTR_MORE ? a : b;
}

/* ---- Telling ----------------------------------------------------------------------------------
 */

static void flush(struct mtr_parser *p)
{
    if (p->out.len) {
        p->setup.piece(p->setup.context, p->out_kind, mtr_buf_view(&p->out));
        mtr_buf_clear(&p->out);
    }
}

void mtr_put_piece(struct mtr_parser *p, enum mtr_piece_kind kind, struct mtr_str text)
{
    if (p->out_kind != kind)
        flush(p);
    p->out_kind = kind;
    if (kind == MTR_PIECE_CALL || kind == MTR_PIECE_CALL_END) {
        flush(p);
        p->setup.piece(p->setup.context, kind, text);
    } else {
        mtr_buf_str(&p->out, text);
    }
}

struct mtr_buf *mtr_arguments_out(struct mtr_parser *p)
{
    if (p->out_kind != MTR_PIECE_ARGUMENTS)
        flush(p);
    p->out_kind = MTR_PIECE_ARGUMENTS;
    return &p->out;
}

/* ---- The loop ---------------------------------------------------------------------------------
 */

static enum mtr_progress step(struct mtr_parser *p)
{
    static enum mtr_progress (*const steps[])(struct mtr_parser *) = {
        [MTR_PARSE_TEXT] = mtr_text_step,       [MTR_PARSE_OBJECT] = mtr_object_step,
        [MTR_PARSE_STRING] = mtr_string_step,   [MTR_PARSE_ENVELOPE] = mtr_envelope_step,
        [MTR_PARSE_TAGS] = mtr_tags_step,       [MTR_PARSE_VALUE] = mtr_value_step,
        [MTR_PARSE_PASSAGE] = mtr_passage_step,
    };
    return steps[p->state](p);
}

/* Each step that goes on either takes bytes or changes the state, and no more than a handful of
 * states follow each other without taking any. */
static void run(struct mtr_parser *p)
{
    size_t idle = 0, limit = 16;
    while (idle < limit &&
           (!mtr_at_end(p, p->v.at) || (p->v.final && p->state != MTR_PARSE_TEXT))) {
        size_t before = p->v.at;
        if (step(p) == MTR_MORE)
            break;
        idle = p->v.at > before ? 0 : idle + 1;
    }
    if (idle == limit) { /* our mistake; the text is not lost */
        mtr_run_put(p, mtr_str_sub(p->v.s, p->v.at, 1));
        p->v.at++;
    }
}

static void forget_tokens(struct mtr_parser *p)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->token_count; i++)
        if (p->tokens[i].at >= p->dropped)
            p->tokens[kept++] = p->tokens[i];
    p->token_count = kept;
}

static void look_at(struct mtr_parser *p, bool final)
{
    struct mtr_str all = mtr_buf_view(&p->in);
    size_t len = final ? all.len : mtr_utf8_complete(all);
    p->v.s = mtr_str_sub(all, 0, len);
    p->v.final = final;
}

static void compact(struct mtr_parser *p)
{
    size_t keep = p->v.at;
    /* V3 looks at what stands before a tag, so a value keeps a wrapper's length. */
    if (p->state == MTR_PARSE_VALUE)
        keep = keep > 64 ? keep - 64 : 0;
    if (keep < COMPACT_BYTES && keep < p->in.len)
        return;
    mtr_buf_consume(&p->in, keep);
    p->v.at -= keep;
    p->dropped += keep;
    if (p->state == MTR_PARSE_VALUE) {
        p->value.scan -= keep;
        if (p->value.hold != SIZE_MAX)
            p->value.hold -= keep;
    }
    forget_tokens(p);
}

static bool work(struct mtr_parser *p, bool final)
{
    for (;;) {
        size_t before = p->v.at;
        look_at(p, final);
        run(p);
        if (!final || mtr_at_end(p, p->v.at) || p->v.at == before)
            break;
    }
    if (!final)
        compact(p);
    flush(p);
    p->failed |= p->in.failed || p->out.failed || p->run.held.failed || p->name.failed ||
                 p->key.failed || p->text.failed || p->stray.failed;
    return !p->failed;
}

bool mtr_parser_text(struct mtr_parser *p, struct mtr_str text)
{
    mtr_buf_str(&p->in, text);
    if (p->dropped + p->in.len < p->wait && !p->in.failed)
        return true;
    bool ok = work(p, false);
    size_t held = p->in.len - p->v.at;
    bool patient = p->state == MTR_PARSE_TEXT && held > PATIENT_BYTES;
    p->wait = patient ? p->dropped + p->in.len + held / 8 : 0;
    return ok;
}

bool mtr_parser_token(struct mtr_parser *p, struct mtr_str spelling)
{
    if (!spelling.len)
        return true;
    if (!mtr_grow((void **)&p->tokens, &p->token_cap, p->token_count + 1, sizeof *p->tokens))
        return false;
    p->tokens[p->token_count++] = (struct mtr_parse_token){p->dropped + p->in.len, spelling.len};
    p->interesting[(uint8_t)spelling.ptr[0]] = true;
    return mtr_parser_text(p, spelling);
}

/* An end-of-turn token at the end is never shown, wherever it stands. */
static void strip_end_tokens(struct mtr_parser *p)
{
    size_t len;
    for (size_t at = p->v.at; at < p->in.len; at++) {
        look_at(p, true);
        if (p->interesting[(uint8_t)p->in.data[at]] && mtr_look_hidden(p, at, &len) == MTR_YES) {
            size_t rest = at;
            while (rest < p->in.len && mtr_look_hidden(p, rest, &len) == MTR_YES)
                rest += len;
            if (rest == p->in.len) {
                bool inside = p->state == MTR_PARSE_STRING || p->state == MTR_PARSE_VALUE;
                if (inside)
                    p->in.len = at;
                return;
            }
        }
    }
}

bool mtr_parser_finish(struct mtr_parser *p)
{
    strip_end_tokens(p);
    bool ok = work(p, true);
    mtr_run_end(p);
    flush(p);
    return ok && !p->out.failed;
}

/* ---- Life -------------------------------------------------------------------------------------
 */

static void note_byte(struct mtr_parser *p, const char *word)
{
    if (word && word[0])
        p->interesting[(uint8_t)word[0]] = true;
}

static void note_bytes(struct mtr_parser *p, const struct mtr_parse_format *f)
{
    if (!f)
        return;
    const char *const words[] = {f->think_open, f->think_close, f->wrap_open,
                                 f->wrap_close, f->call_open,   f->call_close};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        note_byte(p, words[i]);
    for (size_t i = 0; i < MTR_FORMAT_MAX_WORDS && f->hidden[i]; i++)
        note_byte(p, f->hidden[i]);
    bool bare = f->grammar == MTR_CALLS_BARE;
    if (bare)
        p->interesting['{'] = true;
    if (bare || f->grammar == MTR_CALLS_PYTHON)
        p->interesting['['] = true;
}

static size_t find_last(struct mtr_str s, const char *word)
{
    struct mtr_str w = mtr_str(word);
    size_t last = SIZE_MAX;
    for (size_t at = 0; w.len && (at = mtr_str_find(s, w, at)) != SIZE_MAX; at += w.len)
        last = at;
    return last;
}

/* Does an earlier turn end behind `from`? */
static bool turn_ends(const struct mtr_parse_format *f, struct mtr_str tail, size_t from)
{
    for (size_t i = 0; i < MTR_FORMAT_MAX_WORDS && f->hidden[i]; i++) {
        size_t at = find_last(tail, f->hidden[i]);
        if (at != SIZE_MAX && at >= from)
            return true;
    }
    for (size_t i = 0; i < 4 && f->turns[i]; i++) {
        size_t at = find_last(tail, f->turns[i]);
        if (at != SIZE_MAX && at >= from)
            return true;
    }
    return false;
}

/* R2: the last mark of reasoning in the prompt's end, if it belongs to this turn. */
static void first_state(struct mtr_parser *p)
{
    const struct mtr_parse_format *f = p->think;
    struct mtr_str tail = p->setup.prompt_tail;
    p->in_header = p->setup.tools && p->setup.tools->grammar == MTR_CALLS_HARMONY;
    p->in_header |= f && f->grammar == MTR_CALLS_HARMONY;
    if (!f || p->in_header || !f->think_open || !tail.len)
        return;
    size_t open = find_last(tail, f->think_open), close = find_last(tail, f->think_close);
    if (open == SIZE_MAX && close == SIZE_MAX)
        return;
    bool opened = open != SIZE_MAX && (close == SIZE_MAX || open > close);
    size_t at = opened ? open : close;
    if (turn_ends(f, tail, at + strlen(opened ? f->think_open : f->think_close)))
        return;
    mtr_run_mark(p, opened ? MTR_MARK_OPENER : MTR_MARK_CLOSER);
    mtr_run_switch(p, opened);
}

struct mtr_parser *mtr_parser_new(const struct mtr_parser_setup *setup)
{
    struct mtr_parser *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->setup = *setup;
    bool declared =
        setup->declared && setup->declared->kind == MTR_JSON_ARRAY && setup->declared->count > 0;
    p->format = declared ? setup->tools : NULL;
    p->think = setup->reasoning && setup->reasoning->think_open ? setup->reasoning : NULL;
    p->run = (struct mtr_run){.blank = true, .line_start = true, .last = '\n'};
    p->scan_from = SIZE_MAX;
    note_bytes(p, setup->tools);
    note_bytes(p, p->think);
    first_state(p);
    return p;
}

void mtr_parser_free(struct mtr_parser *p)
{
    if (!p)
        return;
    struct mtr_buf *const bufs[] = {&p->in,  &p->run.held, &p->name, &p->text,
                                    &p->key, &p->stray,    &p->out};
    for (size_t i = 0; i < sizeof bufs / sizeof bufs[0]; i++)
        mtr_buf_free(bufs[i]);
    mtr_map_free(&p->keys);
    free(p->tokens);
    free(p);
}

bool mtr_parser_in_reasoning(const struct mtr_parser *p)
{
    return p->state == MTR_PARSE_TEXT && p->run.reasoning;
}

uint32_t mtr_parser_calls(const struct mtr_parser *p)
{
    return p->calls;
}
