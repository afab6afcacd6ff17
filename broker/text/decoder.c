/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A chain is read as steps. If it is one of the two common kinds it is reduced to that kind's few
 * parameters; else the steps run as the library's do: each takes a list of strings to a list of
 * strings, and at the end the list is joined.
 */
#include "broker/text/decoder.h"

#include <stdlib.h>
#include <string.h>

#include "broker/text/byte_alphabet.h"
#include "common/base/arena.h"
#include "common/base/utf8.h"

enum step_kind {
    BYTE_LEVEL,
    BYTE_FALLBACK,
    FUSE,
    REPLACE,
    STRIP,
    METASPACE,
    WORD_PIECE,
    BPE_SUFFIX,
    CTC,
};

struct mtr_decoder_step {
    enum step_kind kind;
    struct mtr_pattern pattern; /* REPLACE */
    struct mtr_buf text;        /* content, replacement, prefix, suffix, or CTC's pad token */
    struct mtr_buf other;       /* CTC's word delimiter */
    uint32_t start, stop;       /* STRIP */
    bool flag;                  /* METASPACE: a prefix was added; WORD_PIECE, CTC: clean up */
};

#define REPLACEMENT "\xef\xbf\xbd"

static bool no_memory(struct mtr_error *err)
{
    return mtr_fail(err, MTR_NO_MEMORY, "decoder: out of memory");
}

int mtr_byte_token(struct mtr_str name)
{
    int value = 0;
    if (name.len != 6 || memcmp(name.ptr, "<0x", 3) != 0 || name.ptr[5] != '>')
        return -1;
    for (int i = 3; i < 5; i++) {
        char c = name.ptr[i];
        int v = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                       : -1;
        if (v < 0)
            return -1;
        value = value * 16 + v;
    }
    return value;
}

bool mtr_lossy(struct mtr_str bytes, struct mtr_buf *out)
{
    size_t done = 0; /* copied up to here */
    uint32_t cp;
    for (size_t at = 0; at < bytes.len;) {
        int n = mtr_utf8_decode(bytes.ptr + at, bytes.len - at, &cp);
        if (n > 0) {
            at += (size_t)n;
            continue;
        }
        mtr_buf_append(out, bytes.ptr + done, at - done);
        mtr_buf_puts(out, REPLACEMENT);
        size_t bad = 1; /* the longest beginning of a character */
        while (n == -1 && bad < 4 && at + bad < bytes.len &&
               mtr_utf8_decode(bytes.ptr + at, bad + 1, &cp) == -2)
            bad++;
        at = n == -2 ? bytes.len : at + bad;
        done = at;
    }
    return mtr_buf_str(out, mtr_str_sub(bytes, done, bytes.len)); /* bytes may be NULL, 0 */
}

/* ------------------------------------------------------------------------------------- reading */

static bool read_text(const struct mtr_json *v, const char *key, const char *otherwise,
                      struct mtr_buf *out, struct mtr_error *err)
{
    struct mtr_str text = mtr_str(otherwise);
    return mtr_json_opt_str(v, key, &text, err) && (mtr_buf_str(out, text) || no_memory(err));
}

static bool read_none(struct mtr_decoder_step *s, const struct mtr_json *v, struct mtr_error *err)
{
    return true;
}

static bool read_replace(struct mtr_decoder_step *s, const struct mtr_json *v,
                         struct mtr_error *err)
{
    return mtr_pattern_from_json(&s->pattern, v, err) && read_text(v, "content", "", &s->text, err);
}

static bool read_strip(struct mtr_decoder_step *s, const struct mtr_json *v, struct mtr_error *err)
{
    int64_t start = 0, stop = 0;
    if (!mtr_json_opt_i64(v, "start", 0, UINT16_MAX, &start, err) ||
        !mtr_json_opt_i64(v, "stop", 0, UINT16_MAX, &stop, err))
        return false;
    s->start = (uint32_t)start;
    s->stop = (uint32_t)stop;
    return read_text(v, "content", " ", &s->text, err);
}

static bool read_metaspace(struct mtr_decoder_step *s, const struct mtr_json *v,
                           struct mtr_error *err)
{
    struct mtr_str scheme = MTR_STR("always");
    bool prefix = true;
    if (!mtr_json_opt_bool(v, "add_prefix_space", &prefix, err) ||
        !mtr_json_opt_str(v, "prepend_scheme", &scheme, err))
        return false;
    s->flag = prefix && !mtr_str_is(scheme, "never");
    return read_text(v, "replacement", "\xe2\x96\x81", &s->text, err);
}

static bool read_word_piece(struct mtr_decoder_step *s, const struct mtr_json *v,
                            struct mtr_error *err)
{
    s->flag = true;
    return mtr_json_opt_bool(v, "cleanup", &s->flag, err) &&
           read_text(v, "prefix", "##", &s->text, err);
}

static bool read_suffix(struct mtr_decoder_step *s, const struct mtr_json *v, struct mtr_error *err)
{
    return read_text(v, "suffix", "</w>", &s->text, err);
}

static bool read_ctc(struct mtr_decoder_step *s, const struct mtr_json *v, struct mtr_error *err)
{
    s->flag = true;
    return mtr_json_opt_bool(v, "cleanup", &s->flag, err) &&
           read_text(v, "pad_token", "<pad>", &s->text, err) &&
           read_text(v, "word_delimiter_token", "|", &s->other, err);
}

static const struct {
    const char *name;
    enum step_kind kind;
    bool (*parse)(struct mtr_decoder_step *s, const struct mtr_json *v, struct mtr_error *err);
} types[] = {
    {"ByteLevel", BYTE_LEVEL, read_none},
    {"ByteFallback", BYTE_FALLBACK, read_none},
    {"Fuse", FUSE, read_none},
    {"Replace", REPLACE, read_replace},
    {"Strip", STRIP, read_strip},
    {"Metaspace", METASPACE, read_metaspace},
    {"WordPiece", WORD_PIECE, read_word_piece},
    {"BPEDecoder", BPE_SUFFIX, read_suffix},
    {"CTC", CTC, read_ctc},
};

static bool read_step(struct mtr_decoder *d, size_t type, const struct mtr_json *v,
                      struct mtr_error *err)
{
    if (d->count == MTR_DECODER_MAX_STEPS)
        return mtr_fail(err, MTR_TOO_LARGE, "decoder: more than %d steps", MTR_DECODER_MAX_STEPS);
    if (!mtr_grow((void **)&d->steps, &d->cap, d->count + 1, sizeof *d->steps))
        return no_memory(err);
    struct mtr_decoder_step *s = &d->steps[d->count++];
    memset(s, 0, sizeof *s);
    s->kind = types[type].kind;
    return types[type].parse(s, v, err) || mtr_error_prefix(err, "decoder %s", types[type].name);
}

static bool read_decoder(struct mtr_decoder *d, const struct mtr_json *v, struct mtr_error *err)
{
    struct mtr_str type = {NULL, 0};
    if (!mtr_json_opt_str(v, "type", &type, err))
        return mtr_error_prefix(err, "decoder");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (mtr_str_is(type, types[i].name))
            return read_step(d, i, v, err);
    if (!mtr_str_is(type, "Sequence"))
        return mtr_fail(err, MTR_UNSUPPORTED, "decoder: type \"%.*s\" is not known",
                        MTR_STR_ARG(type));
    const struct mtr_json *list = mtr_json_get(v, "decoders");
    if (list == NULL || list->kind != MTR_JSON_ARRAY)
        return mtr_fail(err, MTR_INVALID, "decoder Sequence: decoders is not an array");
    for (uint32_t i = 0; i < list->count; i++)
        if (!read_decoder(d, &list->items[i], err))
            return false;
    return true;
}

/* Whether the steps are [Replace or Metaspace] ByteFallback? Fuse? Strip?, and their parameters. */
static bool reduce_to_spaces(struct mtr_decoder *d)
{
    size_t i = 0;
    bool fused = false;
    if (i < d->count && d->steps[i].kind == REPLACE && d->steps[i].pattern.string != NULL) {
        struct mtr_pattern *p = &d->steps[i].pattern;
        if (!mtr_buf_append(&d->mark, p->string, p->string_len) ||
            !mtr_buf_str(&d->space, mtr_buf_view(&d->steps[i].text)))
            return false;
        i++;
    } else if (i < d->count && d->steps[i].kind == METASPACE) {
        d->first_bare = d->steps[i].flag;
        if (!mtr_buf_str(&d->mark, mtr_buf_view(&d->steps[i].text)) ||
            !mtr_buf_puts(&d->space, " "))
            return false;
        i++;
    }
    if (i < d->count && d->steps[i].kind == BYTE_FALLBACK) {
        d->byte_tokens = true;
        i++;
    }
    for (; i < d->count && d->steps[i].kind == FUSE; i++)
        fused = true;
    if (fused && i < d->count && d->steps[i].kind == STRIP && d->steps[i].stop == 0) {
        d->strip = d->steps[i].start;
        if (!mtr_buf_str(&d->stripped, mtr_buf_view(&d->steps[i].text)))
            return false;
        i++;
    }
    return i == d->count;
}

bool mtr_decoder_from_json(struct mtr_decoder *d, const struct mtr_json *v, struct mtr_error *err)
{
    memset(d, 0, sizeof *d);
    d->kind = MTR_DECODE_CHAIN;
    if (v == NULL || v->kind == MTR_JSON_NULL)
        return true;
    if (!read_decoder(d, v, err)) {
        mtr_decoder_free(d);
        return false;
    }
    if (d->count == 1 && d->steps[0].kind == BYTE_LEVEL)
        d->kind = MTR_DECODE_BYTES;
    else if (reduce_to_spaces(d))
        d->kind = MTR_DECODE_SPACES;
    return true;
}

bool mtr_decoder_for_sentencepiece(struct mtr_decoder *d, bool strip, struct mtr_error *err)
{
    memset(d, 0, sizeof *d);
    d->kind = MTR_DECODE_SPACES;
    d->byte_tokens = true;
    d->strip = strip;
    return (mtr_buf_puts(&d->mark, "\xe2\x96\x81") && mtr_buf_puts(&d->space, " ") &&
            mtr_buf_puts(&d->stripped, " ")) ||
           no_memory(err);
}

void mtr_decoder_free(struct mtr_decoder *d)
{
    for (size_t i = 0; i < d->count; i++) {
        mtr_pattern_free(&d->steps[i].pattern);
        mtr_buf_free(&d->steps[i].text);
        mtr_buf_free(&d->steps[i].other);
    }
    free(d->steps);
    mtr_buf_free(&d->mark);
    mtr_buf_free(&d->space);
    mtr_buf_free(&d->stripped);
    memset(d, 0, sizeof *d);
}

/* ---------------------------------------------------------------------------------- one token */

/* Appends s with every `from` replaced. */
static bool replace_all(struct mtr_str s, struct mtr_str from, struct mtr_str to,
                        struct mtr_buf *out)
{
    for (size_t at = 0; at < s.len;) {
        const char *found =
            from.len > 0 ? memmem(s.ptr + at, s.len - at, from.ptr, from.len) : NULL;
        size_t end = found != NULL ? (size_t)(found - s.ptr) : s.len;
        mtr_buf_append(out, s.ptr + at, end - at);
        if (found != NULL)
            mtr_buf_str(out, to);
        at = end + from.len;
    }
    return !out->failed;
}

bool mtr_decoder_token(const struct mtr_decoder *d, struct mtr_str name, struct mtr_buf *out,
                       bool *byte)
{
    *byte = false;
    if (d->kind == MTR_DECODE_BYTES)
        return mtr_alphabet_to_bytes(name, out) || mtr_buf_str(out, name);
    if (d->kind == MTR_DECODE_CHAIN)
        return mtr_buf_str(out, name);
    int value = d->byte_tokens ? mtr_byte_token(name) : -1;
    if (value >= 0) {
        *byte = true;
        return mtr_buf_byte(out, (uint8_t)value);
    }
    return replace_all(name, mtr_buf_view(&d->mark), mtr_buf_view(&d->space), out);
}

/* ------------------------------------------------------------------------------------- chains */

struct list {
    struct mtr_arena *arena;
    struct mtr_str *items; /* [count], there is room for what a step adds */
    size_t count;
};

static bool keep(struct list *l, size_t i, struct mtr_buf *text)
{
    l->items[i] = mtr_arena_str(l->arena, text->len > 0 ? mtr_buf_view(text) : MTR_STR(""));
    return l->items[i].ptr != NULL && !text->failed;
}

static bool chain_bytes(const struct mtr_decoder_step *s, struct list *l, struct mtr_buf *b)
{
    struct mtr_buf raw = {0};
    for (size_t i = 0; i < l->count; i++)
        if (!mtr_alphabet_to_bytes(l->items[i], &raw))
            mtr_buf_str(&raw, l->items[i]);
    bool ok = !raw.failed && mtr_lossy(mtr_buf_view(&raw), b) && keep(l, 0, b);
    l->count = l->count > 0;
    mtr_buf_free(&raw);
    return ok;
}

/* Ends a run of byte tokens: their text if it is valid, or one U+FFFD for each. */
static bool end_byte_run(struct list *l, struct mtr_buf *run, struct mtr_buf *b, size_t *count)
{
    if (run->len == 0)
        return true;
    bool valid = mtr_utf8_valid(mtr_buf_view(run));
    mtr_buf_clear(b);
    for (size_t i = 0; !valid && i < run->len; i++)
        mtr_buf_puts(b, REPLACEMENT);
    bool ok = keep(l, *count, valid ? run : b);
    (*count)++;
    mtr_buf_clear(run);
    return ok;
}

static bool chain_byte_fallback(const struct mtr_decoder_step *s, struct list *l, struct mtr_buf *b)
{
    struct mtr_buf run = {0};
    size_t count = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < l->count; i++) {
        struct mtr_str item = l->items[i];
        int byte = mtr_byte_token(item);
        if (byte >= 0) {
            ok = mtr_buf_byte(&run, (uint8_t)byte);
            continue;
        }
        ok = end_byte_run(l, &run, b, &count);
        l->items[count++] = item;
    }
    ok = ok && end_byte_run(l, &run, b, &count);
    l->count = count;
    mtr_buf_free(&run);
    return ok;
}

static bool chain_fuse(const struct mtr_decoder_step *s, struct list *l, struct mtr_buf *b)
{
    for (size_t i = 0; i < l->count; i++)
        mtr_buf_str(b, l->items[i]);
    l->count = 1;
    return keep(l, 0, b);
}

static bool replace_in(const struct mtr_decoder_step *s, struct mtr_str text, struct mtr_buf *b)
{
    struct mtr_regex_scanner scanner = {0};
    size_t done = 0, start, end;
    mtr_regex_begin(&scanner, text.len);
    while (mtr_pattern_next(&s->pattern, &scanner, text, done, false, &start, &end)) {
        mtr_buf_append(b, text.ptr + done, start - done);
        mtr_buf_str(b, mtr_buf_view(&s->text));
        done = end;
    }
    mtr_buf_append(b, text.ptr + done, text.len - done);
    bool ok = !scanner.failed && !b->failed;
    mtr_regex_scanner_free(&scanner);
    return ok;
}

static bool chain_replace(const struct mtr_decoder_step *s, struct list *l, struct mtr_buf *b)
{
    for (size_t i = 0; i < l->count; i++) {
        mtr_buf_clear(b);
        if (!replace_in(s, l->items[i], b) || !keep(l, i, b))
            return false;
    }
    return true;
}

static bool chain_strip(const struct mtr_decoder_step *s, struct list *l, struct mtr_buf *b)
{
    struct mtr_str c = mtr_buf_view(&s->text);
    for (size_t i = 0; i < l->count; i++) {
        struct mtr_str *t = &l->items[i];
        for (uint32_t n = 0; n < s->start && mtr_str_starts(*t, c); n++)
            *t = mtr_str_sub(*t, c.len, SIZE_MAX);
        for (uint32_t n = 0; n < s->stop && mtr_str_ends(*t, c); n++)
            t->len -= c.len;
    }
    return true;
}

static bool chain_metaspace(const struct mtr_decoder_step *s, struct list *l, struct mtr_buf *b)
{
    for (size_t i = 0; i < l->count; i++) {
        mtr_buf_clear(b);
        struct mtr_str space = i == 0 && s->flag ? MTR_STR("") : MTR_STR(" ");
        if (!replace_all(l->items[i], mtr_buf_view(&s->text), space, b) || !keep(l, i, b))
            return false;
    }
    return true;
}

static const struct {
    const char *from, *to;
} clean_ups[] = {
    {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
    {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
    {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
};

static bool clean_up(struct list *l, size_t i)
{
    struct mtr_buf a = {0};
    bool ok = true;
    for (size_t c = 0; ok && c < sizeof clean_ups / sizeof clean_ups[0]; c++) {
        mtr_buf_clear(&a);
        ok = replace_all(l->items[i], mtr_str(clean_ups[c].from), mtr_str(clean_ups[c].to), &a) &&
             keep(l, i, &a);
    }
    mtr_buf_free(&a);
    return ok;
}

static bool chain_word_piece(const struct mtr_decoder_step *s, struct list *l, struct mtr_buf *b)
{
    struct mtr_str prefix = mtr_buf_view(&s->text);
    for (size_t i = 0; i < l->count; i++) {
        mtr_buf_clear(b);
        bool inside = i > 0 && mtr_str_starts(l->items[i], prefix);
        if (i > 0 && !inside)
            mtr_buf_puts(b, " ");
        mtr_buf_str(b, inside ? mtr_str_sub(l->items[i], prefix.len, SIZE_MAX) : l->items[i]);
        if (!keep(l, i, b) || (s->flag && !clean_up(l, i)))
            return false;
    }
    return true;
}

static bool chain_suffix(const struct mtr_decoder_step *s, struct list *l, struct mtr_buf *b)
{
    for (size_t i = 0; i < l->count; i++) {
        mtr_buf_clear(b);
        struct mtr_str space = i + 1 == l->count ? MTR_STR("") : MTR_STR(" ");
        if (!replace_all(l->items[i], mtr_buf_view(&s->text), space, b) || !keep(l, i, b))
            return false;
    }
    return true;
}

static bool chain_ctc(const struct mtr_decoder_step *s, struct list *l, struct mtr_buf *b)
{
    size_t count = 0;
    struct mtr_str last = {NULL, 0};
    for (size_t i = 0; i < l->count; i++) {
        struct mtr_str item = l->items[i];
        bool again = last.ptr != NULL && mtr_str_equal(item, last);
        last = item;
        if (again)
            continue;
        mtr_buf_clear(b);
        replace_all(item, mtr_buf_view(&s->text), MTR_STR(""), b);
        if (!keep(l, count, b) || (s->flag && !clean_up(l, count)))
            return false;
        mtr_buf_clear(b);
        if (s->flag && (!replace_all(l->items[count], mtr_buf_view(&s->other), MTR_STR(" "), b) ||
                        !keep(l, count, b)))
            return false;
        count += l->items[count].len > 0;
    }
    l->count = count;
    return true;
}

static bool (*const chain_steps[])(const struct mtr_decoder_step *, struct list *,
                                   struct mtr_buf *) = {
    [BYTE_LEVEL] = chain_bytes,
    [BYTE_FALLBACK] = chain_byte_fallback,
    [FUSE] = chain_fuse,
    [REPLACE] = chain_replace,
    [STRIP] = chain_strip,
    [METASPACE] = chain_metaspace,
    [WORD_PIECE] = chain_word_piece,
    [BPE_SUFFIX] = chain_suffix,
    [CTC] = chain_ctc,
};

bool mtr_decoder_chain(const struct mtr_decoder *d, const struct mtr_str *names, size_t count,
                       struct mtr_buf *out, struct mtr_error *err)
{
    struct mtr_arena arena;
    struct mtr_buf scratch = {0};
    mtr_arena_init(&arena, 0);
    struct list l = {&arena, mtr_arena_calloc(&arena, count + 1, sizeof *l.items), count};
    bool ok = l.items != NULL;
    if (ok && count > 0)
        memcpy(l.items, names, count * sizeof *names);
    for (size_t i = 0; ok && i < d->count; i++) {
        mtr_buf_clear(&scratch);
        ok = chain_steps[d->steps[i].kind](&d->steps[i], &l, &scratch);
    }
    for (size_t i = 0; ok && i < l.count; i++) {
        if (i > 0 && d->count == 0) /* no decoder: names with spaces between */
            mtr_buf_puts(out, " ");
        ok = mtr_buf_str(out, l.items[i]);
    }
    mtr_buf_free(&scratch);
    mtr_arena_free(&arena);
    return ok || no_memory(err);
}
