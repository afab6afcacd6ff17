/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Formats whose text is messages in channels: a header says what the body is.
 *
 *   Harmony:  <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>
 *   Kimi K3:  <|open|>think<|sep|>...<|close|>think<|sep|><|open|>response<|sep|>...
 */
#include <string.h>

#include "broker/parse/internal.h"

static enum mtr_progress need(const struct mtr_parser *p)
{
    return p->v.final ? MTR_NO : MTR_MORE;
}

/* Text up to the next byte that may begin a mark. */
static enum mtr_progress plain(struct mtr_parser *p, bool at_least_one)
{
    size_t end = p->v.at + at_least_one;
    while (!mtr_at_end(p, end) && !p->interesting[(uint8_t)p->v.s.ptr[end]])
        end++;
    mtr_run_put(p, mtr_str_sub(p->v.s, p->v.at, end - p->v.at));
    bool moved = end > p->v.at;
    p->v.at = end;
    return moved ? MTR_YES : MTR_NO;
}

/* ---- Harmony ----------------------------------------------------------------------------------
 */

#define MESSAGE "<|message|>"

/* The word behind the last channel mark, and the recipient. */
static void read_header(struct mtr_str header, struct mtr_str *channel, struct mtr_str *recipient)
{
    static const char mark[] = "<|channel|>";
    *channel = *recipient = (struct mtr_str){0};
    for (size_t at = 0; (at = mtr_str_find(header, MTR_STR(mark), at)) != SIZE_MAX;) {
        at += sizeof mark - 1;
        size_t end = at;
        while (end < header.len && header.ptr[end] >= 'a' && header.ptr[end] <= 'z')
            end++;
        *channel = mtr_str_sub(header, at, end - at);
    }
    size_t to = mtr_str_find(header, MTR_STR("to="), 0);
    if (to == SIZE_MAX)
        return;
    size_t end = to += 3;
    while (end < header.len && !mtr_is_space(header.ptr[end]) && header.ptr[end] != '<')
        end++;
    *recipient = mtr_str_sub(header, to, end - to);
}

/* The end of a message's header, *end at its last mark. NO: there is none. */
static enum mtr_progress header_end(const struct mtr_parser *p, size_t *end)
{
    static const char *const ends[] = {"<|end|>", "<|return|>", "<|call|>"};
    for (size_t at = p->v.at; at - p->v.at <= MTR_PARSE_MAX_HEADER; at++) {
        if (mtr_at_end(p, at))
            return need(p);
        enum mtr_progress r = mtr_look(p, at, MESSAGE);
        *end = at;
        if (r != MTR_NO)
            return r;
        for (size_t i = 0; i < 3; i++) {
            r = mtr_look(p, at, ends[i]);
            if (r == MTR_YES)
                return MTR_NO;
            if (r == MTR_MORE)
                return r;
        }
    }
    return MTR_NO;
}

/* Does a header begin here? Else the body follows without one. */
static enum mtr_progress header_begins(const struct mtr_parser *p)
{
    static const char *const begins[] = {"<|channel|>", "<|start|>", MESSAGE, "<|constrain|>",
                                         "to="};
    size_t at = mtr_look_space(p, p->v.at);
    enum mtr_progress best = MTR_NO;
    if (mtr_at_end(p, at))
        return MTR_MORE;
    for (size_t i = 0; i < 5; i++) {
        enum mtr_progress r = mtr_look(p, at, begins[i]);
        if (r == MTR_YES)
            return r;
        if (r == MTR_MORE)
            best = r;
    }
    return best;
}

static enum mtr_progress harmony_header(struct mtr_parser *p)
{
    struct mtr_str channel, recipient;
    struct mtr_header h;
    size_t end = p->v.at;
    enum mtr_progress r = header_begins(p);
    if (r == MTR_MORE)
        return r;
    if (r == MTR_NO) {
        p->in_header = false;
        return MTR_YES;
    }
    r = header_end(p, &end);
    if (r == MTR_MORE)
        return r;
    if (r == MTR_NO) { /* never shown, not even in part */
        p->v.at = p->v.final && mtr_at_end(p, end + 1) ? p->v.s.len : end;
        p->in_header = false;
        mtr_run_mark(p, MTR_MARK_OPENER);
        return MTR_YES;
    }
    read_header(mtr_str_sub(p->v.s, p->v.at, end - p->v.at), &channel, &recipient);
    h = (struct mtr_header){.form = MTR_ARGS_EMPTY};
    size_t body = end + strlen(MESSAGE);
    if (p->format && recipient.len && mtr_declared(p, recipient, &h)) {
        static const char *const closers[] = {"<|call|>", "<|end|>", "<|return|>"};
        size_t first = mtr_look_space(p, body);
        if (mtr_at_end(p, first) && !p->v.final)
            return MTR_MORE;
        for (size_t i = 0; i < 3; i++) {
            r = mtr_look(p, first, closers[i]);
            if (r == MTR_MORE)
                return r;
            if (r == MTR_YES)
                break;
        }
        h.body = first;
        if (r == MTR_NO)
            r = mtr_at_end(p, first) ? MTR_NO : mtr_body_try(p, first, &h);
        if (r == MTR_MORE)
            return r;
        if (r == MTR_YES) {
            p->in_header = false;
            h.wrapped = true;
            mtr_call_begin(p, &h);
            return MTR_YES;
        }
    }
    p->v.at = body;
    p->in_header = false;
    mtr_run_mark(p, MTR_MARK_OPENER);
    mtr_run_switch(p, mtr_str_is(channel, "analysis"));
    return MTR_YES;
}

enum mtr_progress mtr_harmony_step(struct mtr_parser *p)
{
    static const struct {
        const char *word;
        bool header, taken;
    } marks[] = {
        {"<|end|>", true, true},        {"<|return|>", true, true},     {"<|call|>", true, true},
        {"<|start|>", true, false},     {"<|channel|>", true, false},   {MESSAGE, true, false},
        {"<|constrain|>", false, true}, {"<|endoftext|>", false, true},
    };
    if (p->in_header)
        return harmony_header(p);
    bool behind = p->after_call && p->run.blank;
    if (behind && strchr("]},) \n\t\r", p->v.s.ptr[p->v.at])) {
        p->v.at++;
        return MTR_YES;
    }
    if (plain(p, false) == MTR_YES)
        return MTR_YES;
    enum mtr_progress best = MTR_NO;
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        enum mtr_progress r = mtr_look(p, p->v.at, marks[i].word);
        if (r == MTR_MORE)
            best = r;
        if (r != MTR_YES)
            continue;
        if (marks[i].taken)
            p->v.at += strlen(marks[i].word);
        if (marks[i].header) {
            mtr_run_mark(p, MTR_MARK_CLOSER);
            mtr_run_switch(p, false);
            p->in_header = true;
        }
        return MTR_YES;
    }
    size_t len;
    if (best == MTR_NO && mtr_look_hidden(p, p->v.at, &len) == MTR_YES) {
        p->v.at += len;
        return MTR_YES;
    }
    return best == MTR_MORE ? best : plain(p, true);
}

/* ---- Kimi K3 ----------------------------------------------------------------------------------
 */

/* A tag's text between its first token and <|sep|>. */
static enum mtr_progress kimi_tag(const struct mtr_parser *p, size_t at, struct mtr_str *text,
                                  size_t *end)
{
    for (size_t i = at; i - at <= MTR_PARSE_MAX_HEADER; i++) {
        if (mtr_at_end(p, i))
            return need(p);
        enum mtr_progress r = mtr_look(p, i, "<|sep|>");
        if (r == MTR_YES) {
            *text = mtr_str_sub(p->v.s, at, i - at);
            *end = i + 7;
        }
        if (r != MTR_NO)
            return r;
    }
    return MTR_NO;
}

static bool is_tag(struct mtr_str text, const char *word)
{
    size_t len = strlen(word);
    return mtr_str_starts(text, mtr_str(word)) && (text.len == len || mtr_is_space(text.ptr[len]));
}

static enum mtr_progress kimi_call(struct mtr_parser *p, size_t at)
{
    struct mtr_header h = {.form = MTR_ARGS_STREAM, .state = MTR_PARSE_TAGS};
    struct mtr_tag tag = {.name = &p->name};
    enum mtr_progress r =
        mtr_tag_open(p, at, p->format->call_open, p->format->name_attribute, &tag);
    if (r != MTR_YES)
        return r;
    if (tag.malformed || !mtr_declared(p, mtr_buf_view(&p->name), &h))
        return MTR_NO;
    h.body = tag.end;
    h.wrapped = p->wrapped;
    mtr_call_begin(p, &h);
    return MTR_YES;
}

static enum mtr_progress kimi_open(struct mtr_parser *p, size_t open, bool opens)
{
    struct mtr_str text = {0};
    size_t end = p->v.at;
    enum mtr_progress r = kimi_tag(p, p->v.at + open, &text, &end);
    if (r == MTR_MORE)
        return r;
    if (r == MTR_NO && p->v.final) { /* never shown, not even in part */
        p->v.at = p->v.s.len;
        return MTR_YES;
    }
    if (r == MTR_NO) {
        p->v.at += open;
        return MTR_YES;
    }
    if (opens && p->format && is_tag(text, "call")) {
        r = kimi_call(p, p->v.at);
        if (r != MTR_NO)
            return r;
    }
    p->v.at = end;
    mtr_run_mark(p, MTR_MARK_OPENER);
    if (is_tag(text, "think"))
        mtr_run_switch(p, opens);
    else if (is_tag(text, "response") || is_tag(text, "tools") || is_tag(text, "message") ||
             is_tag(text, "call"))
        mtr_run_switch(p, false);
    if (is_tag(text, "tools"))
        p->wrapped = opens;
    return MTR_YES;
}

enum mtr_progress mtr_kimi3_step(struct mtr_parser *p)
{
    size_t len;
    if (plain(p, false) == MTR_YES)
        return MTR_YES;
    enum mtr_progress open = mtr_look(p, p->v.at, "<|open|>");
    enum mtr_progress close = mtr_look(p, p->v.at, "<|close|>");
    if (open == MTR_YES)
        return kimi_open(p, 8, true);
    if (close == MTR_YES)
        return kimi_open(p, 9, false);
    enum mtr_progress end = mtr_look(p, p->v.at, "<|end_of_msg|>");
    if (end == MTR_YES) {
        p->v.at += 14;
        mtr_run_mark(p, MTR_MARK_CLOSER);
        return MTR_YES;
    }
    if (open == MTR_MORE || close == MTR_MORE || end == MTR_MORE)
        return MTR_MORE;
    enum mtr_progress r = mtr_look_hidden(p, p->v.at, &len);
    if (r == MTR_YES)
        p->v.at += len;
    return r == MTR_NO ? plain(p, true) : r;
}
