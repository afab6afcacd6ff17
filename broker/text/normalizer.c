/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Each type of step is one function from a text to a buffer, in one table with the function that
 * reads its members from JSON. A step that finds nothing to do says so and the text goes on as it
 * is, uncopied: that is the usual case.
 */
#include "broker/text/normalizer.h"

#include <stdlib.h>
#include <string.h>

#include "broker/text/byte_alphabet.h"
#include "common/base/utf8.h"

struct step_type;

struct mtr_normalizer_step {
    const struct step_type *type;
    struct mtr_pattern pattern;          /* Replace */
    struct mtr_buf content;              /* Replace, Prepend */
    struct mtr_charsmap charsmap;        /* Precompiled */
    bool left, right;                    /* Strip */
    bool clean, chinese, accents, lower; /* BertNormalizer */
};

struct context {
    const struct mtr_unicode *unicode;
    struct mtr_normalizer_work *work;
    bool cut; /* the first character of the text is gone */
    struct mtr_error *err;
};

enum outcome { FAILED, SAME, CHANGED };

struct step_type {
    const char *name;
    bool (*parse)(struct mtr_normalizer_step *s, const struct mtr_json *v, struct mtr_error *err);
    enum outcome (*apply)(const struct mtr_normalizer_step *s, struct context *c, struct mtr_str in,
                          struct mtr_buf *out);
    enum mtr_normal_form form;
};

static enum outcome written(const struct mtr_buf *out)
{
    return out->failed ? FAILED : CHANGED;
}

static bool append_char(struct mtr_buf *out, uint32_t cp)
{
    char c[4];
    return mtr_buf_append(out, c, (size_t)mtr_utf8_encode(cp, c));
}

/* --------------------------------------------------------------------------------------- steps */

static enum outcome apply_form(const struct mtr_normalizer_step *s, struct context *c,
                               struct mtr_str in, struct mtr_buf *out)
{
    if (!mtr_normal_form_needed(c->unicode, s->type->form, in))
        return SAME;
    return mtr_normal_form(c->unicode, s->type->form, &c->work->normal, in, out) ? CHANGED : FAILED;
}

static enum outcome lower_case(struct mtr_str in, struct mtr_buf *out)
{
    for (size_t at = 0; at < in.len && !out->failed;) {
        uint32_t cp, lower[2];
        at += (size_t)mtr_utf8_next(in.ptr + at, &cp);
        int n = mtr_unicode_lower(cp, lower);
        for (int i = 0; i < n; i++)
            append_char(out, lower[i]);
    }
    return written(out);
}

static enum outcome apply_lowercase(const struct mtr_normalizer_step *s, struct context *c,
                                    struct mtr_str in, struct mtr_buf *out)
{
    return lower_case(in, out);
}

static bool is_space(const struct mtr_unicode *u, struct mtr_str text, size_t at)
{
    uint32_t cp;
    mtr_utf8_next(text.ptr + at, &cp);
    return (mtr_unicode_properties(u, cp) & MTR_CHAR_SPACE) != 0;
}

static enum outcome apply_strip(const struct mtr_normalizer_step *s, struct context *c,
                                struct mtr_str in, struct mtr_buf *out)
{
    size_t start = 0, end = in.len;
    while (s->left && start < end && is_space(c->unicode, in, start))
        start += (size_t)mtr_utf8_length(in.ptr[start]);
    while (s->right && end > start && is_space(c->unicode, in, mtr_utf8_back(in.ptr, end)))
        end = mtr_utf8_back(in.ptr, end);
    if (start == 0 && end == in.len)
        return SAME;
    c->cut |= start > 0;
    mtr_buf_append(out, in.ptr + start, end - start);
    return written(out);
}

/* Leaves out the characters of the categories that the library knows. */
static enum outcome drop_marks(struct context *c, uint32_t mask, struct mtr_str in,
                               struct mtr_buf *out)
{
    for (size_t at = 0; at < in.len && !out->failed;) {
        uint32_t cp;
        size_t n = (size_t)mtr_utf8_next(in.ptr + at, &cp);
        if (!(mtr_unicode_mask(c->unicode, cp) & mask) || mtr_unicode_unnormalized(cp))
            mtr_buf_append(out, in.ptr + at, n);
        else
            c->cut |= at == 0;
        at += n;
    }
    return written(out);
}

static enum outcome apply_strip_accents(const struct mtr_normalizer_step *s, struct context *c,
                                        struct mtr_str in, struct mtr_buf *out)
{
    return drop_marks(c, MTR_MASK_M, in, out);
}

static const struct {
    uint32_t first, last;
    bool space; /* becomes a space, or else nothing */
} nmt_table[] = {
    {0x1, 0x8, false},      {0x9, 0xa, true},       {0xb, 0xb, false},      {0xc, 0xd, true},
    {0xe, 0x1f, false},     {0x7f, 0x7f, false},    {0x8f, 0x8f, false},    {0x9f, 0x9f, false},
    {0x1680, 0x1680, true}, {0x200b, 0x200f, true}, {0x2028, 0x2029, true}, {0x2581, 0x2581, true},
    {0xfeff, 0xfeff, true}, {0xfffd, 0xfffd, true},
};

static enum outcome apply_nmt(const struct mtr_normalizer_step *s, struct context *c,
                              struct mtr_str in, struct mtr_buf *out)
{
    const size_t count = sizeof nmt_table / sizeof nmt_table[0];
    for (size_t at = 0; at < in.len && !out->failed;) {
        uint32_t cp;
        size_t n = (size_t)mtr_utf8_next(in.ptr + at, &cp), i = 0;
        while (i < count && (cp < nmt_table[i].first || cp > nmt_table[i].last))
            i++;
        if (i == count)
            mtr_buf_append(out, in.ptr + at, n);
        else if (nmt_table[i].space)
            mtr_buf_byte(out, ' ');
        else
            c->cut |= at == 0;
        at += n;
    }
    return written(out);
}

static enum outcome apply_replace(const struct mtr_normalizer_step *s, struct context *c,
                                  struct mtr_str in, struct mtr_buf *out)
{
    struct mtr_regex_scanner *scanner = &c->work->scanner;
    size_t done = 0, start, end;
    mtr_regex_begin(scanner, in.len);
    while (mtr_pattern_next(&s->pattern, scanner, in, done, false, &start, &end)) {
        mtr_buf_append(out, in.ptr + done, start - done);
        mtr_buf_str(out, mtr_buf_view(&s->content));
        c->cut |= start == 0 && s->content.len == 0;
        done = end;
        if (out->failed)
            return FAILED;
    }
    if (scanner->failed)
        return mtr_pattern_gave_up(c->err), FAILED;
    if (done == 0)
        return SAME;
    mtr_buf_append(out, in.ptr + done, in.len - done);
    return written(out);
}

static enum outcome apply_prepend(const struct mtr_normalizer_step *s, struct context *c,
                                  struct mtr_str in, struct mtr_buf *out)
{
    if (in.len == 0)
        return SAME;
    mtr_buf_str(out, mtr_buf_view(&s->content));
    mtr_buf_str(out, in);
    return written(out);
}

static enum outcome apply_precompiled(const struct mtr_normalizer_step *s, struct context *c,
                                      struct mtr_str in, struct mtr_buf *out)
{
    return mtr_charsmap_apply(&s->charsmap, in, out) ? CHANGED : FAILED;
}

static enum outcome apply_byte_level(const struct mtr_normalizer_step *s, struct context *c,
                                     struct mtr_str in, struct mtr_buf *out)
{
    return mtr_bytes_to_alphabet(in, out) ? CHANGED : FAILED;
}

/* -------------------------------------------------------------------------------- BertNormalizer
 */

static bool is_chinese(uint32_t cp)
{
    return (cp >= 0x4e00 && cp <= 0x9fff) || (cp >= 0x3400 && cp <= 0x4dbf) ||
           (cp >= 0x20000 && cp <= 0x2a6df) || (cp >= 0x2a700 && cp <= 0x2b81f) ||
           (cp >= 0x2b920 && cp <= 0x2ceaf) || (cp >= 0xf900 && cp <= 0xfaff) ||
           (cp >= 0x2f800 && cp <= 0x2fa1f);
}

/* Control, format and private characters, as far as the library's older tables know them. */
static bool is_dropped(const struct mtr_unicode *u, uint32_t cp)
{
    uint32_t dropped = MTR_MASK(MTR_CC) | MTR_MASK(MTR_CF) | MTR_MASK(MTR_CO);
    if (cp == '\t' || cp == '\n' || cp == '\r')
        return false;
    return cp == 0xfffd || ((mtr_unicode_mask(u, cp) & dropped) && !mtr_unicode_unnormalized(cp) &&
                            cp != 0x8e2 && cp != 0x890 && cp != 0x891);
}

/* One pass: control characters out, white space to spaces, spaces around Chinese characters. */
static void bert_clean(const struct mtr_normalizer_step *s, const struct mtr_unicode *u,
                       struct mtr_str in, struct mtr_buf *out)
{
    for (size_t at = 0; at < in.len && !out->failed;) {
        uint32_t cp;
        size_t n = (size_t)mtr_utf8_next(in.ptr + at, &cp);
        bool around = s->chinese && is_chinese(cp);
        if (around)
            mtr_buf_byte(out, ' ');
        if (s->clean && (mtr_unicode_properties(u, cp) & MTR_CHAR_SPACE) && !is_dropped(u, cp))
            mtr_buf_byte(out, ' ');
        else if (!s->clean || (cp != 0 && !is_dropped(u, cp)))
            mtr_buf_append(out, in.ptr + at, n);
        if (around)
            mtr_buf_byte(out, ' ');
        at += n;
    }
}

static enum outcome apply_bert(const struct mtr_normalizer_step *s, struct context *c,
                               struct mtr_str in, struct mtr_buf *out)
{
    struct mtr_buf a = {0}, b = {0};
    bert_clean(s, c->unicode, in, &a);
    bool ok = !a.failed;
    if (ok && s->accents) {
        ok = mtr_normal_form(c->unicode, MTR_NFD, &c->work->normal, mtr_buf_view(&a), &b);
        mtr_buf_clear(&a);
        ok = ok && drop_marks(c, MTR_MASK(MTR_MN), mtr_buf_view(&b), &a) != FAILED;
    }
    if (ok && s->lower)
        ok = lower_case(mtr_buf_view(&a), out) != FAILED;
    else if (ok)
        ok = mtr_buf_str(out, mtr_buf_view(&a));
    mtr_buf_free(&a);
    mtr_buf_free(&b);
    return ok ? CHANGED : FAILED;
}

/* ------------------------------------------------------------------------------------- reading */

static bool read_nothing(struct mtr_normalizer_step *s, const struct mtr_json *v,
                         struct mtr_error *err)
{
    return true;
}

static bool read_strip(struct mtr_normalizer_step *s, const struct mtr_json *v,
                       struct mtr_error *err)
{
    s->left = s->right = true;
    return mtr_json_opt_bool(v, "strip_left", &s->left, err) &&
           mtr_json_opt_bool(v, "strip_right", &s->right, err);
}

static bool read_text(struct mtr_normalizer_step *s, const struct mtr_json *v, const char *key,
                      struct mtr_error *err)
{
    struct mtr_str text = {NULL, 0};
    if (!mtr_json_opt_str(v, key, &text, err))
        return false;
    if (text.ptr == NULL)
        return mtr_fail(err, MTR_INVALID, "%s: missing", key);
    return mtr_buf_str(&s->content, text) || mtr_fail(err, MTR_NO_MEMORY, "out of memory");
}

static bool read_replace(struct mtr_normalizer_step *s, const struct mtr_json *v,
                         struct mtr_error *err)
{
    return mtr_pattern_from_json(&s->pattern, v, err) && read_text(s, v, "content", err);
}

static bool read_prepend(struct mtr_normalizer_step *s, const struct mtr_json *v,
                         struct mtr_error *err)
{
    return read_text(s, v, "prepend", err);
}

static bool read_precompiled(struct mtr_normalizer_step *s, const struct mtr_json *v,
                             struct mtr_error *err)
{
    struct mtr_str map = {NULL, 0};
    return mtr_json_opt_str(v, "precompiled_charsmap", &map, err) &&
           mtr_charsmap_init(&s->charsmap, map, err);
}

static bool read_bert(struct mtr_normalizer_step *s, const struct mtr_json *v,
                      struct mtr_error *err)
{
    s->clean = s->chinese = s->lower = true;
    if (!mtr_json_opt_bool(v, "clean_text", &s->clean, err) ||
        !mtr_json_opt_bool(v, "handle_chinese_chars", &s->chinese, err) ||
        !mtr_json_opt_bool(v, "lowercase", &s->lower, err))
        return false;
    s->accents = s->lower; /* unless said otherwise */
    return mtr_json_opt_bool(v, "strip_accents", &s->accents, err);
}

static const struct step_type step_types[] = {
    {"NFC", read_nothing, apply_form, MTR_NFC},
    {"NFD", read_nothing, apply_form, MTR_NFD},
    {"NFKC", read_nothing, apply_form, MTR_NFKC},
    {"NFKD", read_nothing, apply_form, MTR_NFKD},
    {"Lowercase", read_nothing, apply_lowercase, 0},
    {"Strip", read_strip, apply_strip, 0},
    {"StripAccents", read_nothing, apply_strip_accents, 0},
    {"Nmt", read_nothing, apply_nmt, 0},
    {"Replace", read_replace, apply_replace, 0},
    {"Prepend", read_prepend, apply_prepend, 0},
    {"Precompiled", read_precompiled, apply_precompiled, 0},
    {"BertNormalizer", read_bert, apply_bert, 0},
    {"ByteLevel", read_nothing, apply_byte_level, 0},
};

/* NULL: no such type (err is not set), or too many. */
static const struct step_type *find_type(struct mtr_str name)
{
    for (size_t i = 0; i < sizeof step_types / sizeof step_types[0]; i++)
        if (mtr_str_is(name, step_types[i].name))
            return &step_types[i];
    return NULL;
}

static struct mtr_normalizer_step *new_step(struct mtr_normalizer *n, const struct step_type *type,
                                            struct mtr_error *err)
{
    if (n->count == MTR_NORMALIZER_MAX_STEPS) {
        mtr_fail(err, MTR_TOO_LARGE, "normalizer: more than %d steps", MTR_NORMALIZER_MAX_STEPS);
        return NULL;
    }
    if (!mtr_grow((void **)&n->steps, &n->cap, n->count + 1, sizeof *n->steps)) {
        mtr_fail(err, MTR_NO_MEMORY, "normalizer: out of memory");
        return NULL;
    }
    struct mtr_normalizer_step *s = &n->steps[n->count++];
    memset(s, 0, sizeof *s);
    s->type = type;
    return s;
}

/* Sequences nest no deeper than JSON may. */
static bool read_normalizer(struct mtr_normalizer *n, const struct mtr_json *v,
                            struct mtr_error *err)
{
    struct mtr_str type = {NULL, 0};
    if (!mtr_json_opt_str(v, "type", &type, err))
        return mtr_error_prefix(err, "normalizer");
    const struct step_type *known = find_type(type);
    if (known != NULL) {
        struct mtr_normalizer_step *s = new_step(n, known, err);
        return s != NULL &&
               (known->parse(s, v, err) || mtr_error_prefix(err, "normalizer %s", known->name));
    }
    if (!mtr_str_is(type, "Sequence"))
        return mtr_fail(err, MTR_UNSUPPORTED, "normalizer: type \"%.*s\" is not known",
                        MTR_STR_ARG(type));
    const struct mtr_json *list = mtr_json_get(v, "normalizers");
    if (list == NULL || list->kind != MTR_JSON_ARRAY)
        return mtr_fail(err, MTR_INVALID, "normalizer Sequence: normalizers is not an array");
    for (uint32_t i = 0; i < list->count; i++)
        if (!read_normalizer(n, &list->items[i], err))
            return false;
    return true;
}

bool mtr_normalizer_from_json(struct mtr_normalizer *n, const struct mtr_json *v,
                              struct mtr_error *err)
{
    memset(n, 0, sizeof *n);
    if (v == NULL || v->kind == MTR_JSON_NULL)
        return true;
    if (read_normalizer(n, v, err))
        return true;
    mtr_normalizer_free(n);
    return false;
}

bool mtr_normalizer_for_nfc(struct mtr_normalizer *n, struct mtr_error *err)
{
    memset(n, 0, sizeof *n);
    return new_step(n, find_type(MTR_STR("NFC")), err) != NULL;
}

bool mtr_normalizer_for_sentencepiece(struct mtr_normalizer *n, bool prefix, struct mtr_error *err)
{
    const struct mtr_str mark = MTR_STR("\xe2\x96\x81");
    memset(n, 0, sizeof *n);
    struct mtr_normalizer_step *s = NULL;
    if (prefix && ((s = new_step(n, find_type(MTR_STR("Prepend")), err)) == NULL ||
                   !mtr_buf_str(&s->content, mark)))
        return s != NULL && mtr_fail(err, MTR_NO_MEMORY, "normalizer: out of memory");
    s = new_step(n, find_type(MTR_STR("Replace")), err);
    return s != NULL && mtr_pattern_from_string(&s->pattern, MTR_STR(" "), err) &&
           (mtr_buf_str(&s->content, mark) ||
            mtr_fail(err, MTR_NO_MEMORY, "normalizer: out of memory"));
}

void mtr_normalizer_free(struct mtr_normalizer *n)
{
    for (size_t i = 0; i < n->count; i++) {
        mtr_pattern_free(&n->steps[i].pattern);
        mtr_buf_free(&n->steps[i].content);
        mtr_charsmap_free(&n->steps[i].charsmap);
    }
    free(n->steps);
    memset(n, 0, sizeof *n);
}

void mtr_normalizer_work_free(struct mtr_normalizer_work *w)
{
    mtr_buf_free(&w->buffers[0]);
    mtr_buf_free(&w->buffers[1]);
    mtr_normal_work_free(&w->normal);
    mtr_regex_scanner_free(&w->scanner);
}

bool mtr_normalize(const struct mtr_normalizer *n, const struct mtr_unicode *u,
                   struct mtr_normalizer_work *w, struct mtr_str text, struct mtr_str *out,
                   bool *cut, struct mtr_error *err)
{
    struct mtr_error why = {.code = MTR_OK};
    struct context c = {u, w, false, &why};
    int side = 0;
    *out = text;
    for (size_t i = 0; i < n->count; i++) {
        struct mtr_buf *b = &w->buffers[side];
        mtr_buf_clear(b);
        b->limit_bytes = MTR_NORMALIZER_MAX_BYTES;
        enum outcome o = n->steps[i].type->apply(&n->steps[i], &c, *out, b);
        if (o == FAILED && why.code == MTR_OK)
            return mtr_fail(err, MTR_TOO_LARGE, "text: no memory for its normalized form");
        if (o == FAILED)
            return mtr_fail(err, why.code, "%s", why.message);
        if (o == SAME)
            continue;
        *out = b->len > 0 ? mtr_buf_view(b) : MTR_STR("");
        side = 1 - side;
    }
    if (cut != NULL)
        *cut = c.cut;
    return true;
}
