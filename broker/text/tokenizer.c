/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The stages in their order.
 *
 * Encoding works section by section: added tokens are cut out of the text, each stretch between
 * them is normalized and cut again, what is left is cut into pieces, and each piece goes through
 * the model. All scratch is the encoder's, and is kept: encoding a second text of the same size
 * allocates nothing.
 */
#include "broker/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "broker/text/detokenizer.h"
#include "broker/text/tokenizer_parts.h"
#include "common/base/utf8.h"

struct mtr_encoder {
    const struct mtr_tokenizer *tokenizer;
    struct mtr_buf clean; /* the text, where it had to be made valid */
    struct mtr_sections sections, inner;
    struct mtr_normalizer_work normalizer;
    struct mtr_pieces pieces;
    struct mtr_model_work model;
};

static bool no_memory(struct mtr_error *err)
{
    return mtr_fail(err, MTR_NO_MEMORY, "tokenizer: out of memory");
}

/* ------------------------------------------------------------------------------------ building */

struct mtr_tokenizer *mtr_tokenizer_new(struct mtr_error *err)
{
    struct mtr_tokenizer *t = calloc(1, sizeof *t);
    if (t == NULL || !mtr_unicode_init(&t->unicode)) {
        free(t);
        no_memory(err);
        return NULL;
    }
    t->bos = t->eos = t->pad = t->unknown = t->model.unknown = MTR_TOKEN_NONE;
    return t;
}

void mtr_tokenizer_free(struct mtr_tokenizer *t)
{
    if (t == NULL)
        return;
    mtr_unicode_free(&t->unicode);
    mtr_vocab_free(&t->names);
    mtr_vocab_free(&t->bytes);
    mtr_vocab_free(&t->respelled);
    mtr_added_free(&t->added);
    mtr_added_free(&t->added_normalized);
    mtr_normalizer_free(&t->normalizer);
    mtr_pretokenizer_free(&t->pretokenizer);
    mtr_model_free(&t->model);
    mtr_decoder_free(&t->decoder);
    free(t->flags);
    free(t->eog);
    free(t);
}

/* What one token stands for. A byte-level model has decoded its tokens already. */
static bool fill_one(struct mtr_tokenizer *t, uint32_t id, struct mtr_buf *scratch,
                     struct mtr_error *err)
{
    bool byte;
    struct mtr_str raw = mtr_vocab_get(&t->model.pieces, id);
    if (t->model.kind == MTR_MODEL_BPE_BYTES && t->decoder.kind == MTR_DECODE_BYTES &&
        raw.ptr != NULL && !mtr_vocab_has(&t->respelled, id))
        return mtr_vocab_set(&t->bytes, id, raw, err);
    mtr_buf_clear(scratch);
    if (!mtr_decoder_token(&t->decoder, mtr_tokenizer_spelling(t, id), scratch, &byte))
        return no_memory(err);
    t->flags[id] = byte ? MTR_FLAG_BYTE : 0;
    return mtr_vocab_set(&t->bytes, id, mtr_buf_view(scratch), err);
}

bool mtr_tokenizer_fill_bytes(struct mtr_tokenizer *t, struct mtr_error *err)
{
    struct mtr_buf scratch = {0};
    bool ok = true;
    t->flags = calloc((size_t)t->names.size + 1, 1);
    if (t->flags == NULL || !mtr_vocab_reserve(&t->bytes, 0, t->names.byte_count))
        return no_memory(err);
    for (uint32_t id = 0; ok && id < t->names.size; id++)
        ok = !mtr_vocab_has(&t->names, id) || fill_one(t, id, &scratch, err);
    mtr_buf_free(&scratch);
    return ok;
}

/* Tokens that end a turn, under the names that published models give them. */
static const char *const end_names[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|eom_id|>",
    "<EOT>",
    "<|eot|>",
    "<|return|>",
    "<|call|>",
    "<|end_of_text|>",
    "<turn|>",
    "<|eom|>",
    "<|END_OF_TURN_TOKEN|>",
    "<end_of_utterance>",
    "<eos>",
    "[EOT]",
    "[EOS]",
    "<|end_of_turn|>",
    "<|endofresponse|>",
};

static int by_id(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void mark_end(struct mtr_tokenizer *t, uint32_t id)
{
    if (id < t->names.size && mtr_vocab_has(&t->names, id) && !(t->flags[id] & MTR_FLAG_EOG)) {
        t->flags[id] |= MTR_FLAG_EOG;
        t->eog[t->eog_count++] = id;
    }
}

bool mtr_tokenizer_fill_eog(struct mtr_tokenizer *t, const uint32_t *more, size_t count,
                            struct mtr_error *err)
{
    const size_t names = sizeof end_names / sizeof end_names[0];
    t->eog = calloc(names + count + 1, sizeof *t->eog);
    if (t->eog == NULL)
        return no_memory(err);
    mark_end(t, t->eos);
    for (size_t i = 0; i < count; i++)
        mark_end(t, more[i]);
    for (size_t i = 0; i < names; i++) {
        uint32_t id = mtr_vocab_find(&t->names, mtr_str(end_names[i]));
        if (id != MTR_TOKEN_NONE && (t->flags[id] & MTR_FLAG_SPECIAL))
            mark_end(t, id);
    }
    qsort(t->eog, t->eog_count, sizeof *t->eog, by_id);
    return true;
}

/* ------------------------------------------------------------------------------------ encoding */

void mtr_ids_free(struct mtr_ids *v)
{
    free(v->ids);
    memset(v, 0, sizeof *v);
}

bool mtr_ids_push(struct mtr_ids *v, uint32_t id)
{
    if (v->count == v->cap && !mtr_grow((void **)&v->ids, &v->cap, v->count + 1, sizeof *v->ids))
        return false;
    v->ids[v->count++] = id;
    return true;
}

struct mtr_encoder *mtr_encoder_new(const struct mtr_tokenizer *t)
{
    struct mtr_encoder *e = calloc(1, sizeof *e);
    if (e != NULL)
        e->tokenizer = t;
    return e;
}

void mtr_encoder_free(struct mtr_encoder *e)
{
    if (e == NULL)
        return;
    mtr_buf_free(&e->clean);
    free(e->sections.items);
    free(e->inner.items);
    mtr_normalizer_work_free(&e->normalizer);
    mtr_pieces_free(&e->pieces);
    mtr_model_work_free(&e->model);
    free(e);
}

/* Text without added tokens, normalized: pieces through the model. */
static bool encode_plain(struct mtr_encoder *e, struct mtr_str text, bool first,
                         struct mtr_ids *out, struct mtr_error *err)
{
    const struct mtr_tokenizer *t = e->tokenizer;
    if (!mtr_pretokenize(&t->pretokenizer, &e->pieces, text, first, err))
        return false;
    for (size_t i = 0; i < e->pieces.count; i++) {
        struct mtr_piece piece = e->pieces.items[i];
        struct mtr_str s = {e->pieces.text.ptr + piece.at, piece.len};
        if (!mtr_model_encode(&t->model, &e->model, s, out))
            return no_memory(err);
    }
    return true;
}

/* Whether the spans under [start, end) are all trusted. */
static bool trusted_whole(const struct mtr_trust *trust, size_t start, size_t end)
{
    size_t offset = 0;
    for (size_t i = 0; i < trust->count && offset < end; offset += trust->spans[i++].len)
        if (!trust->spans[i].trusted && offset + trust->spans[i].len > start)
            return trust->all;
    return trust->all || trust->count > 0;
}

/* A stretch between added tokens: normalized, searched for the added tokens of normalized text. */
static bool encode_stretch(struct mtr_encoder *e, struct mtr_str text, size_t start,
                           const struct mtr_trust *trust, struct mtr_ids *out,
                           struct mtr_error *err)
{
    const struct mtr_tokenizer *t = e->tokenizer;
    struct mtr_str normal;
    bool cut;
    if (!mtr_normalize(&t->normalizer, &t->unicode, &e->normalizer, text, &normal, &cut, err))
        return false;
    if (t->added_normalized.count == 0)
        return encode_plain(e, normal, start == 0 && !cut, out, err);
    struct mtr_trust inner = {.all = trust->all};
    if (normal.ptr == text.ptr) /* offsets still mean the same */
        inner = (struct mtr_trust){trust->all, trust->spans, trust->count, start, 0, 0};
    else
        inner.all = trusted_whole(trust, start, start + text.len);
    e->inner.count = 0;
    if (!mtr_added_cut(&t->added_normalized, &t->unicode, normal, &inner, &e->inner))
        return no_memory(err);
    for (size_t i = 0; i < e->inner.count; i++) {
        struct mtr_section s = e->inner.items[i];
        bool first = start == 0 && s.start == 0 && !cut;
        if (s.id != MTR_TOKEN_NONE
                ? !mtr_ids_push(out, s.id) && !no_memory(err)
                : !encode_plain(e, mtr_str_sub(normal, s.start, s.end - s.start), first, out, err))
            return false;
    }
    return true;
}

static bool encode_valid(struct mtr_encoder *e, struct mtr_str text, struct mtr_trust *trust,
                         struct mtr_ids *out, struct mtr_error *err)
{
    const struct mtr_tokenizer *t = e->tokenizer;
    struct mtr_trust cut_trust = *trust;
    e->sections.count = 0;
    if (!mtr_added_cut(&t->added, &t->unicode, text, &cut_trust, &e->sections))
        return no_memory(err);
    for (size_t i = 0; i < e->sections.count; i++) {
        struct mtr_section s = e->sections.items[i];
        if (s.id != MTR_TOKEN_NONE) {
            if (!mtr_ids_push(out, s.id))
                return no_memory(err);
        } else if (!encode_stretch(e, mtr_str_sub(text, s.start, s.end - s.start), s.start, trust,
                                   out, err)) {
            return false;
        }
    }
    return true;
}

/* Bytes that are not UTF-8 become one U+FFFD each. Spans no longer fit then: all becomes untrusted,
 * unless the caller trusts all. Texts of requests are valid, so that this is for other callers. */
static bool make_valid(struct mtr_encoder *e, struct mtr_str *text, struct mtr_error *err)
{
    struct mtr_buf *b = &e->clean;
    uint32_t cp;
    mtr_buf_clear(b);
    for (size_t at = 0; at < text->len && !b->failed;) {
        int n = mtr_utf8_decode(text->ptr + at, text->len - at, &cp);
        if (n > 0)
            mtr_buf_append(b, text->ptr + at, (size_t)n);
        else
            mtr_buf_puts(b, "\xef\xbf\xbd");
        at += n > 0 ? (size_t)n : 1;
    }
    *text = mtr_buf_view(b);
    return !b->failed || no_memory(err);
}

static bool push_all(struct mtr_ids *out, const uint32_t *ids, size_t count, struct mtr_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (!mtr_ids_push(out, ids[i]))
            return no_memory(err);
    return true;
}

static bool encode(struct mtr_encoder *e, struct mtr_str text, struct mtr_trust *trust,
                   unsigned flags, struct mtr_ids *out, struct mtr_error *err)
{
    const struct mtr_tokenizer *t = e->tokenizer;
    bool around = (flags & MTR_ENCODE_ADD_SPECIAL) != 0;
    size_t before = out->count;
    if (text.len > MTR_TOKENIZER_MAX_TEXT_BYTES)
        return mtr_fail(err, MTR_TOO_LARGE, "text: %zu bytes, more than %u", text.len,
                        MTR_TOKENIZER_MAX_TEXT_BYTES);
    if (!mtr_utf8_valid(text)) {
        if (!make_valid(e, &text, err))
            return false;
        trust->count = 0;
    }
    if ((around && !push_all(out, t->before, t->before_count, err)) ||
        !encode_valid(e, text, trust, out, err) ||
        (around && !push_all(out, t->after, t->after_count, err))) {
        out->count = before;
        return false;
    }
    return true;
}

bool mtr_encode(struct mtr_encoder *e, struct mtr_str text, unsigned flags, struct mtr_ids *out,
                struct mtr_error *err)
{
    struct mtr_trust trust = {.all = (flags & MTR_ENCODE_PARSE_SPECIAL) != 0};
    return encode(e, text, &trust, flags, out, err);
}

bool mtr_encode_spans(struct mtr_encoder *e, struct mtr_str text, const struct mtr_text_span *spans,
                      size_t span_count, unsigned flags, struct mtr_ids *out, struct mtr_error *err)
{
    struct mtr_trust trust = {
        .all = (flags & MTR_ENCODE_PARSE_SPECIAL) != 0, .spans = spans, .count = span_count};
    size_t sum = 0;
    for (size_t i = 0; i < span_count; i++)
        sum += spans[i].len;
    if (sum != text.len)
        return mtr_fail(err, MTR_INTERNAL, "tokenizer: spans of %zu bytes over a text of %zu", sum,
                        text.len);
    return encode(e, text, &trust, flags, out, err);
}

/* ------------------------------------------------------------------------------------ decoding */

/* Decoders that want all names at once. */
static bool decode_chain(const struct mtr_tokenizer *t, const uint32_t *ids, size_t count,
                         bool skip_special, struct mtr_buf *out, struct mtr_error *err)
{
    struct mtr_str *names = malloc((count + 1) * sizeof *names);
    size_t n = 0;
    if (names == NULL)
        return no_memory(err);
    for (size_t i = 0; i < count; i++)
        if (mtr_vocab_has(&t->names, ids[i]) &&
            !(skip_special && (t->flags[ids[i]] & MTR_FLAG_SPECIAL)))
            names[n++] = mtr_tokenizer_spelling(t, ids[i]);
    bool ok = mtr_decoder_chain(&t->decoder, names, n, out, err);
    free(names);
    return ok;
}

/* Byte-level: all bytes first, then made valid. */
static bool decode_bytes(const struct mtr_tokenizer *t, const uint32_t *ids, size_t count,
                         bool skip_special, struct mtr_buf *out, struct mtr_error *err)
{
    struct mtr_buf raw = {0};
    for (size_t i = 0; i < count; i++)
        if (mtr_vocab_has(&t->bytes, ids[i]) &&
            !(skip_special && (t->flags[ids[i]] & MTR_FLAG_SPECIAL)))
            mtr_buf_str(&raw, mtr_vocab_get(&t->bytes, ids[i]));
    bool ok = !raw.failed && mtr_lossy(mtr_buf_view(&raw), out);
    mtr_buf_free(&raw);
    return ok || no_memory(err);
}

/* Whether the run of byte tokens that begins at ids[*i] is valid UTF-8; *i moves behind it. */
static bool valid_run(const struct mtr_tokenizer *t, const uint32_t *ids, size_t count,
                      bool skip_special, size_t *i, struct mtr_buf *run)
{
    mtr_buf_clear(run);
    for (; *i < count; (*i)++) {
        uint32_t id = ids[*i];
        if (!mtr_vocab_has(&t->names, id) || (skip_special && (t->flags[id] & MTR_FLAG_SPECIAL)))
            continue;
        if (!(t->flags[id] & MTR_FLAG_BYTE))
            break;
        mtr_buf_str(run, mtr_vocab_get(&t->bytes, id));
    }
    return mtr_utf8_valid(mtr_buf_view(run));
}

/* Marks for spaces: as the detokenizer does it, but a broken run of bytes is replaced as a whole.
 */
static bool decode_spaces(const struct mtr_tokenizer *t, const uint32_t *ids, size_t count,
                          bool skip_special, struct mtr_buf *out, struct mtr_error *err)
{
    struct mtr_detokenizer d;
    struct mtr_buf run = {0};
    bool ok = true;
    mtr_detokenizer_init(&d, t, skip_special);
    for (size_t i = 0; ok && i < count;) {
        if (!mtr_vocab_has(&t->names, ids[i]) || !(t->flags[ids[i]] & MTR_FLAG_BYTE)) {
            ok = mtr_detokenizer_push(&d, ids[i++], out, err);
            continue;
        }
        size_t from = i;
        d.bad_run = !valid_run(t, ids, count, skip_special, &i, &run);
        for (; ok && from < i; from++)
            ok = mtr_detokenizer_push(&d, ids[from], out, err);
    }
    ok = ok && mtr_detokenizer_flush(&d, out, err);
    mtr_detokenizer_free(&d);
    mtr_buf_free(&run);
    return ok;
}

bool mtr_decode(const struct mtr_tokenizer *t, const uint32_t *ids, size_t count, bool skip_special,
                struct mtr_buf *out, struct mtr_error *err)
{
    switch (t->decoder.kind) {
    case MTR_DECODE_BYTES:
        return decode_bytes(t, ids, count, skip_special, out, err);
    case MTR_DECODE_SPACES:
        return decode_spaces(t, ids, count, skip_special, out, err);
    case MTR_DECODE_CHAIN:
        break;
    }
    return decode_chain(t, ids, count, skip_special, out, err);
}

/* ---------------------------------------------------------------------------------- vocabulary */

uint32_t mtr_tokenizer_size(const struct mtr_tokenizer *t)
{
    return t->names.size;
}

struct mtr_str mtr_token_name(const struct mtr_tokenizer *t, uint32_t id)
{
    return mtr_vocab_get(&t->names, id);
}

uint32_t mtr_token_id(const struct mtr_tokenizer *t, struct mtr_str name)
{
    return mtr_vocab_find(&t->names, name);
}

struct mtr_str mtr_token_bytes(const struct mtr_tokenizer *t, uint32_t id)
{
    return mtr_vocab_get(&t->bytes, id);
}

bool mtr_token_is_special(const struct mtr_tokenizer *t, uint32_t id)
{
    return id < t->names.size && (t->flags[id] & MTR_FLAG_SPECIAL) != 0;
}

bool mtr_token_is_eog(const struct mtr_tokenizer *t, uint32_t id)
{
    return id < t->names.size && (t->flags[id] & MTR_FLAG_EOG) != 0;
}

uint32_t mtr_tokenizer_bos(const struct mtr_tokenizer *t)
{
    return t->bos;
}

uint32_t mtr_tokenizer_eos(const struct mtr_tokenizer *t)
{
    return t->eos;
}

uint32_t mtr_tokenizer_pad(const struct mtr_tokenizer *t)
{
    return t->pad;
}

uint32_t mtr_tokenizer_unknown(const struct mtr_tokenizer *t)
{
    return t->unknown;
}

const uint32_t *mtr_tokenizer_eog(const struct mtr_tokenizer *t, size_t *count)
{
    *count = t->eog_count;
    return t->eog;
}

const char *mtr_tokenizer_describe(const struct mtr_tokenizer *t)
{
    return t->describe;
}
