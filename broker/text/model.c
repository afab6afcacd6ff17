/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Words repeat: a small cache in front of the merging answers nine of ten pieces of natural text.
 * Its entries are one cache line each, the word and its ids inside, so that a hit is one memory
 * access; what does not fit an entry is merged each time. An entry is overwritten by the next word
 * of the same hash.
 */
#include "broker/text/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/text/closed_chars.h"
#include "broker/text/unicode.h"
#include "common/base/buf.h"
#include "common/base/utf8.h"

#define CACHE_ENTRIES    16384 /* one megabyte: stays in a second-level cache */
#define CACHE_WORD_BYTES 28
#define CACHE_WORD_IDS   8
#define UNCUT_BYTES      16 /* shorter ASCII words are not worth looking for joints */

struct mtr_cached_word {
    uint8_t len; /* 0: free */
    uint8_t count;
    uint8_t unknown_first; /* the first id stands for an unknown character */
    uint8_t unused;
    char bytes[CACHE_WORD_BYTES];
    uint32_t ids[CACHE_WORD_IDS];
};

/* ----------------------------------------------------------------------------------- finishing */

static void find_byte_ids(struct mtr_model *m)
{
    for (int b = 0; m->kind != MTR_MODEL_SCORES && b < 256; b++) {
        char name[8] = {(char)b};
        size_t len = 1;
        if (m->kind != MTR_MODEL_BPE_BYTES)
            len = (size_t)snprintf(name, sizeof name, "<0x%02X>", b);
        m->byte_ids[b] = mtr_vocab_find(&m->pieces, (struct mtr_str){name, len});
    }
}

/* Whether an unknown character may vanish, so that those beside it meet. */
static bool may_vanish(const struct mtr_model *m)
{
    bool bytes = m->kind == MTR_MODEL_BPE_BYTES || m->byte_fallback;
    for (int b = 0; b < 256; b++)
        bytes &= m->byte_ids[b] != MTR_TOKEN_NONE;
    return m->kind != MTR_MODEL_SCORES && m->unknown == MTR_TOKEN_NONE && !bytes;
}

/* Cutting at joints is exact where a merge depends on nothing but the two symbols. */
static bool find_joints(struct mtr_model *m)
{
    m->cuts = m->kind == MTR_MODEL_BPE_BYTES || m->kind == MTR_MODEL_BPE_CHARS ||
              m->kind == MTR_MODEL_SCORES;
    m->cuts &= m->prefix_len == 0 && m->suffix_len == 0 && !may_vanish(m);
    if (!m->cuts)
        return true;
    if (!mtr_joints_init(&m->joints, m->pieces.byte_count))
        return false;
    for (uint32_t id = 0; id < m->pieces.size; id++)
        mtr_joints_add(&m->joints, mtr_vocab_get(&m->pieces, id));
    mtr_joints_finish(&m->joints);
    return true;
}

/* The characters that are tokens. */
static uint32_t *token_chars(const struct mtr_vocab *pieces)
{
    uint32_t *ids = malloc(MTR_CLOSED_CHARS * sizeof *ids);
    uint32_t cp;
    if (ids == NULL)
        return NULL;
    memset(ids, 0xff, MTR_CLOSED_CHARS * sizeof *ids);
    for (uint32_t id = 0; id < pieces->size; id++) {
        struct mtr_str s = mtr_vocab_get(pieces, id);
        if (s.len > 0 && s.len < 4 && mtr_utf8_decode(s.ptr, s.len, &cp) == (int)s.len)
            ids[cp] = mtr_vocab_find(pieces, s);
    }
    return ids;
}

bool mtr_model_finish(struct mtr_model *m, struct mtr_error *err)
{
    find_byte_ids(m);
    if (!find_joints(m))
        return mtr_fail(err, MTR_NO_MEMORY, "tokenizer model: out of memory");
    if (m->kind == MTR_MODEL_UNIGRAM)
        return mtr_unigram_init(&m->unigram, &m->pieces, m->scores, err);
    if (!m->cuts)
        return true;
    m->chars = m->kind == MTR_MODEL_BPE_BYTES
                   ? mtr_closed_chars(&m->pieces, &m->merges, m->byte_ids)
                   : token_chars(&m->pieces);
    return m->chars != NULL || mtr_fail(err, MTR_NO_MEMORY, "tokenizer model: out of memory");
}

void mtr_model_free(struct mtr_model *m)
{
    mtr_vocab_free(&m->pieces);
    mtr_bpe_table_free(&m->merges);
    mtr_joints_free(&m->joints);
    mtr_unigram_free(&m->unigram);
    free(m->chars);
    free(m->ranks);
    free(m->scores);
    memset(m, 0, sizeof *m);
}

void mtr_model_work_free(struct mtr_model_work *w)
{
    mtr_bpe_work_free(&w->bpe);
    mtr_unigram_work_free(&w->unigram);
    free(w->cache);
    memset(w, 0, sizeof *w);
}

/* ------------------------------------------------------------------------------------- symbols */

/* The bytes of an unknown character; false when the vocabulary lacks one of them. */
static bool push_bytes(const struct mtr_model *m, struct mtr_bpe_work *w, struct mtr_str s,
                       bool *ok)
{
    for (size_t i = 0; i < s.len; i++)
        if (m->byte_ids[(uint8_t)s.ptr[i]] == MTR_TOKEN_NONE)
            return false;
    for (size_t i = 0; i < s.len; i++)
        *ok &= mtr_bpe_push(w, m->byte_ids[(uint8_t)s.ptr[i]], 1);
    return true;
}

/* The id of the character at `at` if it may enter as one symbol: closed, and no ASCII beside it. */
static uint32_t closed_char(const struct mtr_model *m, struct mtr_str s, size_t at, size_t *len)
{
    uint32_t cp;
    *len = (size_t)mtr_utf8_next(s.ptr + at, &cp);
    if (m->chars == NULL || cp >= MTR_CLOSED_CHARS || (at > 0 && (uint8_t)s.ptr[at - 1] < 0x80) ||
        (at + *len < s.len && (uint8_t)s.ptr[at + *len] < 0x80))
        return MTR_TOKEN_NONE;
    return m->chars[cp];
}

static void start_byte(const struct mtr_model *m, struct mtr_bpe_work *w, char byte)
{
    uint32_t id = m->byte_ids[(uint8_t)byte];
    id = id == MTR_TOKEN_NONE ? m->unknown : id;
    if (id != MTR_TOKEN_NONE)
        w->symbols[w->count++] = (struct mtr_bpe_symbol){id, 1};
}

static bool start_bytes(const struct mtr_model *m, struct mtr_bpe_work *w, struct mtr_str s)
{
    w->count = 0;
    if (!mtr_grow((void **)&w->symbols, &w->cap, s.len, sizeof *w->symbols))
        return false;
    for (size_t at = 0; at < s.len;) {
        size_t len = 1;
        uint32_t id = MTR_TOKEN_NONE;
        if ((uint8_t)s.ptr[at] >= 0x80)
            id = closed_char(m, s, at, &len);
        if (id != MTR_TOKEN_NONE)
            w->symbols[w->count++] = (struct mtr_bpe_symbol){id, (uint32_t)len};
        for (size_t i = 0; id == MTR_TOKEN_NONE && i < len; i++)
            start_byte(m, w, s.ptr[at + i]);
        at += len;
    }
    return true;
}

static uint32_t plain_char(const struct mtr_model *m, struct mtr_str c)
{
    uint32_t cp;
    mtr_utf8_next(c.ptr, &cp);
    return m->chars != NULL && cp < MTR_CLOSED_CHARS ? m->chars[cp] : mtr_vocab_find(&m->pieces, c);
}

/* The id of a character in its place in the word, where pieces inside and at the end are marked. */
static uint32_t find_char(const struct mtr_model *m, struct mtr_str c, bool first, bool last)
{
    char text[4 + 2 * MTR_MODEL_MAX_AFFIX_BYTES];
    size_t len = 0;
    if (m->prefix_len + m->suffix_len == 0)
        return plain_char(m, c);
    if (!first) {
        memcpy(text, m->prefix, m->prefix_len);
        len = m->prefix_len;
    }
    memcpy(text + len, c.ptr, c.len);
    len += c.len;
    if (last) {
        memcpy(text + len, m->suffix, m->suffix_len);
        len += m->suffix_len;
    }
    return mtr_vocab_find(&m->pieces, (struct mtr_str){text, len});
}

/* Characters as symbols. An unknown one waits in `pending`, so that those behind it may join it. */
static bool start_chars(const struct mtr_model *m, struct mtr_bpe_work *w, struct mtr_str s)
{
    uint32_t pending = 0; /* bytes of unknown characters not pushed yet */
    bool ok = true;
    w->count = 0;
    for (size_t at = 0; ok && at < s.len;) {
        struct mtr_str c = mtr_str_sub(s, at, (size_t)mtr_utf8_length(s.ptr[at]));
        uint32_t id = find_char(m, c, at == 0, at + c.len == s.len);
        at += c.len;
        if (id == MTR_TOKEN_NONE && m->byte_fallback && push_bytes(m, w, c, &ok))
            continue;
        if (id == MTR_TOKEN_NONE && m->unknown == MTR_TOKEN_NONE)
            continue;
        if (pending > 0 && (id != MTR_TOKEN_NONE || !m->fuse_unknown)) {
            ok &= mtr_bpe_push(w, m->unknown, pending);
            pending = 0;
        }
        if (id == MTR_TOKEN_NONE)
            pending += (uint32_t)c.len;
        else
            ok &= mtr_bpe_push(w, id, (uint32_t)c.len);
    }
    return ok && (pending == 0 || mtr_bpe_push(w, m->unknown, pending));
}

/* SentencePiece: characters are spans first; what is no token after merging falls to bytes. */
static bool merge_scores(const struct mtr_model *m, struct mtr_bpe_work *w, struct mtr_str s)
{
    struct mtr_bpe_scores scores = {&m->pieces, m->ranks};
    w->count = 0;
    for (size_t at = 0; at < s.len;) {
        struct mtr_str c = mtr_str_sub(s, at, (size_t)mtr_utf8_length(s.ptr[at]));
        if (!mtr_bpe_push(w, plain_char(m, c), (uint32_t)c.len))
            return false;
        at += c.len;
    }
    return mtr_bpe_merge_scored(&scores, w, s);
}

static bool merge(const struct mtr_model *m, struct mtr_bpe_work *w, struct mtr_str s)
{
    switch (m->kind) {
    case MTR_MODEL_BPE_BYTES:
        return start_bytes(m, w, s) && mtr_bpe_merge_ranked(&m->merges, w);
    case MTR_MODEL_BPE_CHARS:
        return start_chars(m, w, s) && mtr_bpe_merge_ranked(&m->merges, w);
    default:
        return merge_scores(m, w, s);
    }
}

/* ---------------------------------------------------------------------------------------- output
 */

static bool reserve(struct mtr_ids *out, size_t more)
{
    return mtr_grow((void **)&out->ids, &out->cap, out->count + more, sizeof *out->ids);
}

/* Appends one unknown token, unless it joins the one before it in the same piece. */
static void put_unknown(const struct mtr_model *m, struct mtr_ids *out, size_t start)
{
    if (m->unknown == MTR_TOKEN_NONE)
        return;
    if (m->fuse_unknown && out->count > start && out->ids[out->count - 1] == m->unknown)
        return;
    out->ids[out->count++] = m->unknown;
}

/* A span that is no token: its bytes, or unknown. */
static void put_span(const struct mtr_model *m, struct mtr_str s, struct mtr_ids *out, size_t start)
{
    bool bytes = m->byte_fallback;
    for (size_t i = 0; i < s.len; i++)
        bytes &= m->byte_ids[(uint8_t)s.ptr[i]] != MTR_TOKEN_NONE;
    if (!bytes) {
        put_unknown(m, out, start);
        return;
    }
    for (size_t i = 0; i < s.len; i++)
        out->ids[out->count++] = m->byte_ids[(uint8_t)s.ptr[i]];
}

/* The symbols of a segment; start is where the piece's ids begin in out. */
static bool put_symbols(const struct mtr_model *m, const struct mtr_bpe_work *w, struct mtr_str s,
                        struct mtr_ids *out, size_t start)
{
    size_t at = 0;
    if (!reserve(out, s.len + w->count))
        return false;
    for (size_t i = 0; i < w->count; i++) {
        struct mtr_bpe_symbol symbol = w->symbols[i];
        if (symbol.id == MTR_TOKEN_NONE)
            put_span(m, mtr_str_sub(s, at, symbol.len), out, start);
        else if (symbol.id == m->unknown && i == 0)
            put_unknown(m, out, start);
        else
            out->ids[out->count++] = symbol.id;
        at += symbol.len;
    }
    return true;
}

/* ----------------------------------------------------------------------------------------- cache
 */

static struct mtr_cached_word *cache_entry(struct mtr_model_work *w, struct mtr_str s)
{
    if (!w->cache_tried) {
        w->cache_tried = true;
        w->cache = aligned_alloc(64, CACHE_ENTRIES * sizeof *w->cache);
        if (w->cache != NULL)
            memset(w->cache, 0, CACHE_ENTRIES * sizeof *w->cache);
    }
    if (w->cache == NULL || s.len > CACHE_WORD_BYTES)
        return NULL;
    return &w->cache[mtr_short_hash(s.ptr, s.len) >> 20 & (CACHE_ENTRIES - 1)];
}

static void remember(struct mtr_cached_word *c, struct mtr_str s, const uint32_t *ids, size_t count,
                     bool unknown_first)
{
    if (count > CACHE_WORD_IDS)
        return;
    c->len = (uint8_t)s.len;
    c->count = (uint8_t)count;
    c->unknown_first = unknown_first;
    memcpy(c->bytes, s.ptr, s.len);
    memcpy(c->ids, ids, count * sizeof *ids);
}

/* A segment's ids behind those of the piece's earlier segments, which begin at start. */
static bool encode_segment(const struct mtr_model *m, struct mtr_model_work *w, struct mtr_str s,
                           struct mtr_ids *out, size_t start)
{
    struct mtr_cached_word *c = cache_entry(w, s);
    if (c != NULL && c->len == s.len && memcmp(c->bytes, s.ptr, s.len) == 0) {
        size_t skip = c->unknown_first && m->fuse_unknown && out->count > start &&
                      out->ids[out->count - 1] == m->unknown;
        if (!reserve(out, CACHE_WORD_IDS))
            return false;
        memcpy(out->ids + out->count, c->ids + skip, (c->count - skip) * sizeof *c->ids);
        out->count += c->count - skip;
        return true;
    }
    if (!merge(m, &w->bpe, s))
        return false;
    size_t before = out->count;
    if (!put_symbols(m, &w->bpe, s, out, start))
        return false;
    bool unknown = w->bpe.count > 0 &&
                   (w->bpe.symbols[0].id == m->unknown || w->bpe.symbols[0].id == MTR_TOKEN_NONE);
    bool joined = unknown && before > start; /* then the ids depend on what stood before */
    if (c != NULL && !joined)
        remember(c, s, out->ids + before, out->count - before,
                 unknown && out->count > before && out->ids[before] == m->unknown);
    return true;
}

static bool encode_bpe(const struct mtr_model *m, struct mtr_model_work *w, struct mtr_str piece,
                       struct mtr_ids *out)
{
    size_t start = out->count;
    if (m->ignore_merges) {
        uint32_t id = mtr_vocab_find(&m->pieces, piece);
        if (id != MTR_TOKEN_NONE)
            return mtr_ids_push(out, id);
    }
    if (!m->cuts || (piece.len <= UNCUT_BYTES && (uint8_t)piece.ptr[piece.len - 1] < 0x80))
        return encode_segment(m, w, piece, out, start);
    for (size_t at = 0; at < piece.len;) {
        size_t end = mtr_joints_cut(&m->joints, piece, at);
        if (!encode_segment(m, w, mtr_str_sub(piece, at, end - at), out, start))
            return false;
        at = end;
    }
    return true;
}

/* --------------------------------------------------------------------------------- other models */

/* Unknown characters, or the unknown token's own text, behind one another are looked up together.
 */
static void put_unknown_run(const struct mtr_model *m, struct mtr_str s, struct mtr_ids *out,
                            size_t start)
{
    uint32_t id = mtr_vocab_find(&m->pieces, s);
    if (id != MTR_TOKEN_NONE)
        out->ids[out->count++] = id;
    else
        put_span(m, s, out, start);
}

static bool encode_unigram(const struct mtr_model *m, struct mtr_model_work *w,
                           struct mtr_str piece, struct mtr_ids *out)
{
    size_t start = out->count, at = 0, run = 0; /* run: where unknown text began */
    if (!mtr_unigram_split(&m->unigram, &w->unigram, piece) || !reserve(out, piece.len))
        return false;
    for (size_t i = 0; i < w->unigram.count; i++) {
        uint32_t end = w->unigram.ends[i], id = w->unigram.steps[end].id;
        if (id != MTR_TOKEN_NONE && id != m->unknown) {
            if (run < at)
                put_unknown_run(m, mtr_str_sub(piece, run, at - run), out, start);
            out->ids[out->count++] = id;
            run = end;
        }
        at = end;
    }
    if (run < at)
        put_unknown_run(m, mtr_str_sub(piece, run, at - run), out, start);
    return true;
}

/* The longest token that begins the rest of a word; *len is what it covers of it. */
static uint32_t longest_piece(const struct mtr_model *m, struct mtr_str rest, bool first,
                              size_t *len)
{
    struct mtr_str prefix = {m->prefix, first ? 0 : m->prefix_len};
    for (*len = rest.len; *len > 0; *len = mtr_utf8_back(rest.ptr, *len)) {
        uint32_t id =
            mtr_vocab_find_pair(&m->pieces, prefix, mtr_str_sub(rest, 0, *len), MTR_TOKEN_NONE);
        if (id != MTR_TOKEN_NONE)
            return id;
    }
    return MTR_TOKEN_NONE;
}

static size_t count_chars(struct mtr_str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++)
        n += ((uint8_t)s.ptr[i] & 0xc0) != 0x80;
    return n;
}

static bool encode_wordpiece(const struct mtr_model *m, struct mtr_str piece, struct mtr_ids *out)
{
    size_t start = out->count;
    bool known = count_chars(piece) <= m->max_chars;
    for (size_t at = 0, len; known && at < piece.len; at += len) {
        uint32_t id = longest_piece(m, mtr_str_sub(piece, at, SIZE_MAX), at == 0, &len);
        known = id != MTR_TOKEN_NONE;
        if (known && !mtr_ids_push(out, id))
            return false;
    }
    if (known)
        return true;
    out->count = start;
    return m->unknown == MTR_TOKEN_NONE || mtr_ids_push(out, m->unknown);
}

static bool encode_wordlevel(const struct mtr_model *m, struct mtr_str piece, struct mtr_ids *out)
{
    uint32_t id = mtr_vocab_find(&m->pieces, piece);
    if (id == MTR_TOKEN_NONE)
        id = m->unknown;
    return id == MTR_TOKEN_NONE || mtr_ids_push(out, id);
}

bool mtr_model_encode(const struct mtr_model *m, struct mtr_model_work *w, struct mtr_str piece,
                      struct mtr_ids *out)
{
    switch (m->kind) {
    case MTR_MODEL_UNIGRAM:
        return encode_unigram(m, w, piece, out);
    case MTR_MODEL_WORDPIECE:
        return encode_wordpiece(m, piece, out);
    case MTR_MODEL_WORDLEVEL:
        return encode_wordlevel(m, piece, out);
    default:
        return encode_bpe(m, w, piece, out);
    }
}
