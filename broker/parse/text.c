/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Outside of calls: at each byte that a mark may begin with, is there one? What is none is text of
 * the present run.
 */
#include <string.h>

#include "broker/parse/internal.h"

/* ---- Behind a call ----------------------------------------------------------------------------
 */

static enum mtr_progress closer_at(const struct mtr_parser *p, size_t at, size_t *len, bool *wrap)
{
    const struct mtr_parse_format *f = p->format;
    const char *const words[] = {f->wrap_close, f->call_close, f->param_close};
    enum mtr_progress best = MTR_NO;
    bool keys = f->grammar == MTR_CALLS_KEYS; /* call and wrapper close alike */
    for (size_t i = 0; i < 3; i++) {
        enum mtr_progress r = mtr_look(p, at, words[i]);
        if (r == MTR_YES) {
            *len = strlen(words[i]);
            *wrap = i == 0 || (keys && i == 1) || !f->wrap_close;
            return r;
        }
        if (r == MTR_MORE)
            best = r;
    }
    return best;
}

static bool bare(const struct mtr_parser *p)
{
    return p->format->grammar == MTR_CALLS_BARE;
}

static void begin_or_pass(struct mtr_parser *p, enum mtr_progress r, const struct mtr_header *h)
{
    if (r == MTR_YES) {
        mtr_call_begin(p, h);
    } else { /* an element that is no call is content as it stands */
        mtr_run_mark(p, MTR_MARK_CALL);
        p->scan = (struct mtr_value_scan){.at = p->dropped + p->v.at};
        p->state = MTR_PARSE_PASSAGE;
    }
}

/* Brackets, commas and further calls that directly follow one. */
static enum mtr_progress directly_behind(struct mtr_parser *p)
{
    char c = p->v.s.ptr[p->v.at];
    struct mtr_header h;
    bool inside = p->wrapped || p->list;
    bool python = p->format->grammar == MTR_CALLS_PYTHON;
    if (bare(p) && c == ';') {
        p->v.at++;
        return MTR_YES;
    }
    if (bare(p) && !inside && c == ',') {
        size_t next = mtr_look_space(p, p->v.at + 1);
        if (mtr_at_end(p, next) && !p->v.final)
            return MTR_MORE;
        if (mtr_at_end(p, next) || p->v.s.ptr[next] != '{')
            return MTR_NO;
        enum mtr_progress r = mtr_header_try(p, next, &h);
        if (r == MTR_YES)
            mtr_call_begin(p, &h);
        return r;
    }
    if (!inside)
        return MTR_NO;
    if (strchr("]})", c)) {
        p->list &= c != ']';
        p->v.at++;
        return MTR_YES;
    }
    if (c == ',') {
        p->v.at++;
        return MTR_YES;
    }
    bool envelopes = p->format->grammar != MTR_CALLS_TAGS &&
                     p->format->grammar != MTR_CALLS_GEMMA && p->format->grammar != MTR_CALLS_NAMED;
    bool name = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if ((c == '{' && envelopes && !python) || (python && p->list && name)) {
        enum mtr_progress r = mtr_element_try(p, p->v.at, &h);
        if (r == MTR_MORE || (r == MTR_NO && !p->list))
            return r;
        begin_or_pass(p, r, &h);
        return MTR_YES;
    }
    return MTR_NO;
}

enum mtr_progress mtr_after_call(struct mtr_parser *p)
{
    size_t len;
    bool wrap;
    if (!p->format)
        return MTR_NO;
    if (p->wrapped || (p->after_call && p->run.blank)) {
        enum mtr_progress r = closer_at(p, p->v.at, &len, &wrap);
        if (r == MTR_YES) {
            p->v.at += len;
            p->wrapped &= !wrap;
            p->list &= p->wrapped;
            mtr_run_mark(p, MTR_MARK_CALL);
        }
        if (r != MTR_NO)
            return r;
    }
    bool held = p->run.fence_line || p->run.fence_held || p->run.ticks;
    return p->after_call && p->run.blank && !held ? directly_behind(p) : MTR_NO;
}

enum mtr_progress mtr_passage_step(struct mtr_parser *p)
{
    size_t from = p->v.at;
    struct mtr_value_scan scan = p->scan;
    enum mtr_dialect dialect =
        p->format->grammar == MTR_CALLS_PYTHON ? MTR_DIALECT_PYTHON : MTR_DIALECT_JSON;
    scan.at -= p->dropped;
    if (dialect == MTR_DIALECT_PYTHON && scan.depth == 0 && scan.at == from) {
        while (!mtr_at_end(p, scan.at) && p->v.s.ptr[scan.at] != '(')
            scan.at++;
        if (mtr_at_end(p, scan.at) && !p->v.final)
            return MTR_MORE;
    }
    enum mtr_progress r = mtr_value_scan(&scan, p->v.s, dialect, p->v.final);
    mtr_run_put(p, mtr_str_sub(p->v.s, from, scan.at - from));
    p->v.at = scan.at;
    p->scan = scan;
    p->scan.at += p->dropped;
    if (r == MTR_YES && (p->list || p->wrapped))
        mtr_run_mark(p, MTR_MARK_CALL); /* so that what separates it from the next goes */
    if (r != MTR_MORE || p->v.final)
        p->state = MTR_PARSE_TEXT;
    return r == MTR_MORE ? MTR_MORE : MTR_YES;
}

/* ---- Reasoning --------------------------------------------------------------------------------
 */

/* Gemma's opener goes on with a word and a newline. MORE: they may still come. */
static enum mtr_progress opener_length(const struct mtr_parser *p, size_t *len)
{
    const char *word = p->think->think_word;
    *len = strlen(p->think->think_open);
    if (!word)
        return MTR_YES;
    enum mtr_progress r = mtr_look(p, p->v.at + *len, word);
    if (r == MTR_YES) {
        *len += strlen(word);
        if (mtr_at_end(p, p->v.at + *len) && !p->v.final)
            return MTR_MORE;
    }
    return r;
}

static enum mtr_progress look_opener(const struct mtr_parser *p, size_t *len)
{
    enum mtr_progress r = mtr_look(p, p->v.at, p->think->think_open);
    return r == MTR_YES ? opener_length(p, len) : r;
}

static void take_mark(struct mtr_parser *p, size_t len, enum mtr_last_mark mark, bool reasoning)
{
    p->v.at += len;
    mtr_run_mark(p, mark);
    mtr_run_switch(p, reasoning);
    p->closer_due = false;
    if (mark == MTR_MARK_OPENER)
        p->wrapped = p->list = false;
}

static enum mtr_progress in_reasoning(struct mtr_parser *p)
{
    size_t len;
    enum mtr_progress r = mtr_look(p, p->v.at, p->think->think_close);
    if (r == MTR_YES)
        take_mark(p, strlen(p->think->think_close), MTR_MARK_CLOSER, false);
    if (r != MTR_NO || !p->run.blank)
        return r;
    r = look_opener(p, &len);
    if (r == MTR_YES)
        take_mark(p, len, MTR_MARK_OPENER, true);
    return r;
}

static enum mtr_progress in_content(struct mtr_parser *p)
{
    const struct mtr_parse_format *f = p->think;
    bool fenced = p->run.fence_open || p->run.fence_held;
    size_t len;
    enum mtr_progress r = MTR_NO, more = MTR_NO;
    if (f->think_token || (mtr_run_at_line_start(p) && !fenced)) {
        r = look_opener(p, &len);
        if (r == MTR_YES)
            take_mark(p, len, MTR_MARK_OPENER, true);
        if (r == MTR_YES)
            return r;
        more = r;
    }
    if (p->closer_due || (p->last_mark == MTR_MARK_CLOSER && p->run.blank)) {
        r = mtr_look(p, p->v.at, f->think_close);
        if (r == MTR_YES)
            take_mark(p, strlen(f->think_close), MTR_MARK_CLOSER, false);
    }
    return r == MTR_NO ? more : r;
}

/* ---- Text -------------------------------------------------------------------------------------
 */

static void end_reasoning(struct mtr_parser *p)
{
    if (!p->run.reasoning)
        return;
    p->closer_due = true;
}

static enum mtr_progress call_at(struct mtr_parser *p)
{
    struct mtr_header h;
    enum mtr_progress r = mtr_header_try(p, p->v.at, &h);
    if (r == MTR_YES) {
        end_reasoning(p);
        mtr_call_begin(p, &h);
    }
    /* An opener that is none: what closes it is text too. */
    if (r == MTR_NO && (h.refused || mtr_look(p, p->v.at, p->format->wrap_open) == MTR_YES))
        p->wrapped = p->list = p->after_call = false;
    return r;
}

/* An object at the start of a line that is no call: nothing inside it is looked at. */
static bool passes(struct mtr_parser *p)
{
    bool object = p->format && bare(p) && p->v.s.ptr[p->v.at] == '{' && !p->run.reasoning &&
                  mtr_run_at_line_start(p);
    if (!object)
        return false;
    p->scan = (struct mtr_value_scan){.at = p->dropped + p->v.at};
    p->state = MTR_PARSE_PASSAGE;
    return true;
}

static size_t plain_length(const struct mtr_parser *p)
{
    size_t at = p->v.at;
    while (at < p->v.s.len && !p->interesting[(uint8_t)p->v.s.ptr[at]])
        at++;
    return at - p->v.at;
}

static enum mtr_progress mark_at(struct mtr_parser *p)
{
    size_t len = 0;
    enum mtr_progress r = mtr_after_call(p);
    if (r != MTR_NO)
        return r;
    r = p->format ? call_at(p) : MTR_NO;
    if (r != MTR_NO)
        return r;
    r = !p->think ? MTR_NO : p->run.reasoning ? in_reasoning(p) : in_content(p);
    if (r != MTR_NO)
        return r;
    r = mtr_look_hidden(p, p->v.at, &len);
    if (r == MTR_YES)
        p->v.at += len;
    return r;
}

enum mtr_progress mtr_text_step(struct mtr_parser *p)
{
    enum mtr_call_grammar grammar = p->setup.tools ? p->setup.tools->grammar : MTR_CALLS_NONE;
    if (mtr_at_end(p, p->v.at))
        return MTR_MORE;
    if (grammar == MTR_CALLS_HARMONY || (p->think && p->think->grammar == MTR_CALLS_HARMONY))
        return mtr_harmony_step(p);
    if (grammar == MTR_CALLS_KIMI3 || (p->think && p->think->grammar == MTR_CALLS_KIMI3))
        return mtr_kimi3_step(p);
    /* Right behind a call any character may be a separator. */
    bool behind = p->format && p->after_call && p->run.blank;
    size_t len = behind ? 0 : plain_length(p);
    if (behind) {
        size_t at = mtr_look_space(p, p->v.at);
        mtr_run_put(p, mtr_str_sub(p->v.s, p->v.at, at - p->v.at));
        p->v.at = at;
        if (mtr_at_end(p, at))
            return MTR_MORE;
        behind = p->after_call && p->run.blank;
    }
    if (len) {
        mtr_run_put(p, mtr_str_sub(p->v.s, p->v.at, len));
        p->v.at += len;
        return MTR_YES;
    }
    enum mtr_progress r = mark_at(p);
    if (r != MTR_NO)
        return r;
    if (passes(p))
        return MTR_YES;
    mtr_run_put(p, mtr_str_sub(p->v.s, p->v.at, 1));
    p->v.at++;
    return MTR_YES;
}
