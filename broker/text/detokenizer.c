/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * At most three bytes wait: the beginning of a character. A byte either completes it, continues it,
 * or shows that it never will be one.
 *
 * Byte-level vocabularies replace a broken beginning by one U+FFFD (mtr_lossy says how bytes are
 * grouped); vocabularies with byte tokens replace every byte of it.
 */
#include "broker/text/detokenizer.h"

#include <string.h>

#include "broker/text/tokenizer_parts.h"
#include "common/base/utf8.h"

#define REPLACEMENT "\xef\xbf\xbd"

void mtr_detokenizer_init(struct mtr_detokenizer *d, const struct mtr_tokenizer *t,
                          bool skip_special)
{
    *d = (struct mtr_detokenizer){
        .tokenizer = t, .skip_special = skip_special, .strip = t->decoder.strip};
}

void mtr_detokenizer_free(struct mtr_detokenizer *d)
{
    mtr_ids_free(&d->all);
    mtr_buf_free(&d->whole);
}

static bool done(const struct mtr_buf *out, struct mtr_error *err)
{
    return !out->failed || mtr_fail(err, MTR_NO_MEMORY, "detokenizer: out of memory");
}

/* Appends text that may lose spaces if it is the first. */
static void put(struct mtr_detokenizer *d, struct mtr_str text, struct mtr_buf *out)
{
    struct mtr_str space = mtr_buf_view(&d->tokenizer->decoder.stripped);
    for (; d->strip > 0 && mtr_str_starts(text, space); d->strip--)
        text = mtr_str_sub(text, space.len, SIZE_MAX);
    if (text.len == 0)
        return;
    d->strip = 0;
    mtr_buf_str(out, text);
}

/* Gives up on what is held. */
static void put_broken(struct mtr_detokenizer *d, struct mtr_buf *out)
{
    bool one = d->tokenizer->decoder.kind == MTR_DECODE_BYTES;
    for (uint8_t i = 0; i < (one && d->held_count > 0 ? 1 : d->held_count); i++)
        put(d, MTR_STR(REPLACEMENT), out);
    d->held_count = 0;
}

/* One more byte of a character, after the held ones. */
static void put_byte(struct mtr_detokenizer *d, char byte, struct mtr_buf *out)
{
    uint32_t cp;
    d->held[d->held_count] = byte;
    int n = mtr_utf8_decode(d->held, d->held_count + 1u, &cp);
    if (n == -1 && d->held_count > 0) { /* it does not continue: what is held was broken */
        put_broken(d, out);
        put_byte(d, byte, out);
        return;
    }
    d->held_count++;
    if (n > 0)
        put(d, (struct mtr_str){d->held, (size_t)n}, out);
    else if (n == -1)
        put_broken(d, out);
    if (n > 0)
        d->held_count = 0;
}

/* Bytes of a byte-level token: valid stretches go out whole. */
static void push_bytes(struct mtr_detokenizer *d, struct mtr_str s, struct mtr_buf *out)
{
    size_t at = 0;
    while (at < s.len && d->held_count > 0)
        put_byte(d, s.ptr[at++], out);
    while (at < s.len) {
        uint32_t cp;
        size_t end = at;
        int n;
        while (end < s.len && (n = mtr_utf8_decode(s.ptr + end, s.len - end, &cp)) > 0)
            end += (size_t)n;
        put(d, mtr_str_sub(s, at, end - at), out);
        at = end;
        if (at < s.len)
            put_byte(d, s.ptr[at++], out);
        while (at < s.len && d->held_count > 0)
            put_byte(d, s.ptr[at++], out);
    }
}

static bool needs_more(const struct mtr_detokenizer *d, char byte)
{
    char text[4];
    uint32_t cp;
    memcpy(text, d->held, d->held_count);
    text[d->held_count] = byte;
    return mtr_utf8_decode(text, d->held_count + 1u, &cp) != -1;
}

/* A byte token: a run of them that broke once is replaced to its end. */
static void push_byte_token(struct mtr_detokenizer *d, char byte, struct mtr_buf *out)
{
    if (!d->bad_run && !needs_more(d, byte))
        d->bad_run = true;
    if (!d->bad_run) {
        put_byte(d, byte, out);
        return;
    }
    put_broken(d, out);
    put(d, MTR_STR(REPLACEMENT), out);
}

/* The text of a whole token in a vocabulary with marks for spaces. */
static void push_text(struct mtr_detokenizer *d, uint32_t id, struct mtr_buf *out)
{
    const struct mtr_tokenizer *t = d->tokenizer;
    struct mtr_str name = mtr_tokenizer_spelling(t, id), mark = mtr_buf_view(&t->decoder.mark);
    put_broken(d, out);
    d->bad_run = false;
    if (d->begun || !t->decoder.first_bare || mark.len == 0) {
        put(d, mtr_vocab_get(&t->bytes, id), out);
        return;
    }
    for (size_t at = 0; at < name.len;) { /* the first token loses its marks */
        size_t end = mtr_str_find(name, mark, at);
        end = end == SIZE_MAX ? name.len : end;
        put(d, mtr_str_sub(name, at, end - at), out);
        at = end + mark.len;
    }
}

/* Decoders that need all tokens: decode all again, and hand out what is new and not in doubt. */
static bool push_whole(struct mtr_detokenizer *d, struct mtr_buf *out, bool last,
                       struct mtr_error *err)
{
    mtr_buf_clear(&d->whole);
    if (!mtr_decode(d->tokenizer, d->all.ids, d->all.count, d->skip_special, &d->whole, err))
        return false;
    struct mtr_str text = mtr_buf_view(&d->whole);
    while (!last && mtr_str_ends(text, MTR_STR(REPLACEMENT)))
        text.len -= 3;
    if (text.len > d->given) {
        mtr_buf_str(out, mtr_str_sub(text, d->given, SIZE_MAX));
        d->given = text.len;
    }
    return done(out, err);
}

bool mtr_detokenizer_push(struct mtr_detokenizer *d, uint32_t id, struct mtr_buf *out,
                          struct mtr_error *err)
{
    const struct mtr_tokenizer *t = d->tokenizer;
    if (!mtr_vocab_has(&t->names, id) || (d->skip_special && (t->flags[id] & MTR_FLAG_SPECIAL)))
        return true;
    if (t->decoder.kind == MTR_DECODE_CHAIN)
        return (mtr_ids_push(&d->all, id) ||
                mtr_fail(err, MTR_NO_MEMORY, "detokenizer: out of memory")) &&
               push_whole(d, out, false, err);
    if (t->decoder.kind == MTR_DECODE_BYTES)
        push_bytes(d, mtr_vocab_get(&t->bytes, id), out);
    else if (t->flags[id] & MTR_FLAG_BYTE)
        push_byte_token(d, mtr_vocab_get(&t->bytes, id).ptr[0], out);
    else
        push_text(d, id, out);
    d->begun = true;
    return done(out, err);
}

bool mtr_detokenizer_flush(struct mtr_detokenizer *d, struct mtr_buf *out, struct mtr_error *err)
{
    bool ok = true;
    if (d->tokenizer->decoder.kind == MTR_DECODE_CHAIN)
        ok = push_whole(d, out, true, err);
    put_broken(d, out);
    ok = ok && done(out, err);
    mtr_detokenizer_free(d);
    mtr_detokenizer_init(d, d->tokenizer, d->skip_special);
    return ok;
}
