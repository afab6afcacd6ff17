/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Text between marks.
 *
 * White space that touches a mark goes with it, so white space is held until what follows is known.
 * A line that opens a Markdown fence is held too, since a call behind it takes it along; then the
 * line that closes the fence goes as well.
 *
 *   held:  white space  [ ```info  newline  white space ]
 *
 * Runs of one kind are joined by one newline, written when the later one gets its first character.
 */
#include <string.h>

#include "broker/parse/internal.h"

#define MAX_INFO_BYTES 64 /* of a fence's first line */

static void write_text(struct mtr_parser *p, struct mtr_str text)
{
    struct mtr_run *r = &p->run;
    enum mtr_piece_kind kind = r->reasoning ? MTR_PIECE_REASONING : MTR_PIECE_CONTENT;
    if (text.len == 0)
        return;
    if (r->blank && r->wrote[r->reasoning])
        mtr_put_piece(p, kind, MTR_STR("\n"));
    r->blank = false;
    r->wrote[r->reasoning] = true;
    mtr_put_piece(p, kind, text);
}

static void fence_toggle(struct mtr_run *r)
{
    if (!r->reasoning)
        r->fence_open = !r->fence_open;
}

/* What is held is text after all. */
static void release(struct mtr_parser *p)
{
    struct mtr_run *r = &p->run;
    if (r->fence_held || r->fence_line)
        fence_toggle(r);
    write_text(p, mtr_buf_view(&r->held));
    mtr_buf_clear(&r->held);
    r->fence_held = r->fence_line = false;
    r->ticks = 0;
}

static void begin_run(struct mtr_run *r)
{
    mtr_buf_clear(&r->held);
    r->blank = r->after_mark = r->line_start = true;
    r->fence_line = r->fence_held = false;
    r->ticks = 0;
    r->last = '\n';
}

/* The end of a held line: a fence line is whole then. */
static bool end_line(struct mtr_parser *p)
{
    struct mtr_run *r = &p->run;
    if (r->fence_line && r->fence_taken) {
        mtr_run_mark(p, MTR_MARK_CALL);
        return true;
    }
    if (r->fence_line && r->fence_open && !r->reasoning) {
        release(p); /* closes a fence of the text */
    } else if (r->fence_line) {
        r->fence_held = true;
        r->fence_line = false;
    }
    r->line_start = true;
    r->ticks = 0;
    return false;
}

static void put_space(struct mtr_parser *p, char c)
{
    struct mtr_run *r = &p->run;
    if (r->ticks && !r->fence_line)
        r->ticks = 0;
    if (c == '\n' && end_line(p))
        return;
    if (c != '\n' && !r->fence_line)
        r->line_start = false;
    if (!(r->blank && r->after_mark && r->held.len == 0))
        mtr_buf_byte(&r->held, (uint8_t)c);
}

static bool info_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_+-.#:{}=\"", c));
}

/* A character that is no white space. True: it is held. */
static bool hold(struct mtr_parser *p, char c)
{
    struct mtr_run *r = &p->run;
    if (c == '`' && r->line_start && (!r->fence_line || r->ticks > 0)) {
        if (r->ticks == 0 && r->fence_held)
            release(p);
        if (r->ticks > 0 && r->held.len && p->run.held.data[r->held.len - 1] != '`')
            return false; /* back ticks again behind the info */
        r->ticks++;
        r->fence_line = r->ticks >= 3;
        mtr_buf_byte(&r->held, (uint8_t)c);
        return true;
    }
    if (r->fence_line && info_byte(c) && !r->fence_taken && !r->fence_open &&
        r->held.len < MAX_INFO_BYTES * 4) {
        mtr_buf_byte(&r->held, (uint8_t)c);
        return true;
    }
    return false;
}

static void put_character(struct mtr_parser *p, char c)
{
    struct mtr_run *r = &p->run;
    if (hold(p, c))
        return;
    if (r->fence_line && r->fence_open && !r->reasoning)
        r->fence_line = false; /* inside a fence a line that goes on does not close it */
    if (r->held.len)
        release(p);
    r->line_start = false;
    r->ticks = 0;
    write_text(p, (struct mtr_str){&c, 1});
}

void mtr_run_put(struct mtr_parser *p, struct mtr_str text)
{
    struct mtr_run *r = &p->run;
    for (size_t i = 0; i < text.len;) {
        char c = text.ptr[i];
        size_t end = i + 1;
        if (mtr_is_space(c)) {
            put_space(p, c);
        } else {
            put_character(p, c);
            /* What follows on the line is text as it stands, up to white space. */
            if (!r->line_start && r->held.len == 0) {
                while (end < text.len && !mtr_is_space(text.ptr[end]))
                    end++;
                write_text(p, mtr_str_sub(text, i + 1, end - i - 1));
            }
        }
        r->last = text.ptr[end - 1];
        i = end;
    }
}

/* Held text up to its last character that is no white space. */
static void release_trimmed(struct mtr_parser *p)
{
    struct mtr_run *r = &p->run;
    while (r->held.len && mtr_is_space(r->held.data[r->held.len - 1]))
        r->held.len--;
    release(p);
}

void mtr_run_mark(struct mtr_parser *p, enum mtr_last_mark mark)
{
    struct mtr_run *r = &p->run;
    bool closes = r->fence_line && r->fence_taken;
    if (closes) {
        r->fence_taken = false;
    } else if (mark == MTR_MARK_CALL && r->fence_held && !r->fence_line) {
        r->fence_taken = true;
    } else if (r->fence_held || r->fence_line || r->ticks) {
        release_trimmed(p);
    }
    begin_run(r);
    p->last_mark = mark;
    p->after_call = mark == MTR_MARK_CALL;
}

void mtr_run_switch(struct mtr_parser *p, bool reasoning)
{
    p->run.reasoning = reasoning && p->think;
}

void mtr_run_end(struct mtr_parser *p)
{
    struct mtr_run *r = &p->run;
    if (r->fence_line && r->fence_taken)
        return;
    if (r->blank && r->reasoning && !r->fence_line && !r->fence_held && !r->ticks)
        return;
    release(p);
}

bool mtr_run_at_line_start(const struct mtr_parser *p)
{
    const struct mtr_run *r = &p->run;
    return r->last == '\n' || (r->blank && !r->fence_line && !r->fence_held && !r->ticks);
}
