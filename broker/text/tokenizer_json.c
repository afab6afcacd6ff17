/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reading tokenizer.json.
 *
 * The vocabulary comes first, by its spelling in the file; merges are resolved against it. Then the
 * model gets its own form of it: raw bytes where the pre-tokenizer ends in the byte alphabet. Added
 * tokens come last: they may rename ids and add new ones, but the model never sees them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/text/byte_alphabet.h"
#include "broker/text/tokenizer_parts.h"
#include "common/base/arena.h"
#include "common/base/json.h"

#define MAX_MERGES      (16u << 20)
#define MAX_ARENA_BYTES (4ull << 30)
#define MAX_WORD_CHARS  1000 /* of WordPiece; files say 100 or 200 */

static bool no_memory(struct mtr_error *err)
{
    return mtr_fail(err, MTR_NO_MEMORY, "tokenizer.json: out of memory");
}

/* ---------------------------------------------------------------------------------- vocabulary */

static bool read_vocab_object(struct mtr_tokenizer *t, const struct mtr_json *vocab,
                              struct mtr_error *err)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < vocab->count; i++)
        bytes += vocab->members[i].key.len;
    if (!mtr_vocab_reserve(&t->names, vocab->count, bytes))
        return no_memory(err);
    for (uint32_t i = 0; i < vocab->count; i++) {
        const struct mtr_json_member *m = &vocab->members[i];
        if (m->value.kind != MTR_JSON_INT || m->value.big || m->value.integer < 0 ||
            m->value.integer >= MTR_TOKENIZER_MAX_TOKENS)
            return mtr_fail(err, MTR_INVALID, "model.vocab: the id of \"%.*s\" is not in 0..%u",
                            m->key.len > 80 ? 80 : (int)m->key.len, m->key.ptr,
                            MTR_TOKENIZER_MAX_TOKENS - 1);
        uint32_t id = (uint32_t)m->value.integer;
        if (!mtr_vocab_put(&t->names, id, m->key, true, err))
            return mtr_error_prefix(err, "model.vocab");
    }
    return true;
}

/*
 * A score as the library reads it: digits as an integer, divided by a power of ten, which may be
 * off in the last bit. It matters where two ways to split a text are equally good but for rounding.
 */
static double score_of(const struct mtr_json *v)
{
    uint64_t digits = 0;
    int64_t scale = 0, exponent = 0;
    size_t i = v->text.len > 0 && v->text.ptr[0] == '-';
    bool fraction = false, full = false;
    for (; i < v->text.len && (v->text.ptr[i] | 32) != 'e'; i++) {
        uint64_t more = (uint64_t)(v->text.ptr[i] - '0');
        fraction |= v->text.ptr[i] == '.';
        if (v->text.ptr[i] == '.')
            continue;
        full |= digits > (UINT64_MAX - more) / 10;
        digits = full ? digits : digits * 10 + more;
        scale += full ? !fraction : -(int64_t)fraction;
    }
    struct mtr_str tail = mtr_str_sub(v->text, i + 1, SIZE_MAX);
    if (tail.len > 0 && tail.ptr[0] == '+')
        tail = mtr_str_sub(tail, 1, SIZE_MAX);
    if (tail.len > 0 && !mtr_str_to_i64(tail, &exponent))
        return v->kind == MTR_JSON_REAL ? v->real : 0;
    double f = (double)digits;
    scale += exponent;
    if (scale < -308 || scale > 308 || v->kind != MTR_JSON_REAL)
        return v->kind == MTR_JSON_REAL || v->big ? v->real : (double)v->integer;
    f = scale < 0 ? f / pow(10, (double)-scale) : f * pow(10, (double)scale);
    return v->text.ptr[0] == '-' ? -f : f;
}

/* Unigram: an array of [piece, score]. */
static bool read_vocab_scores(struct mtr_tokenizer *t, const struct mtr_json *vocab,
                              struct mtr_error *err)
{
    t->model.scores = calloc((size_t)vocab->count + 1, sizeof *t->model.scores);
    if (t->model.scores == NULL || !mtr_vocab_reserve(&t->names, vocab->count, 0))
        return no_memory(err);
    for (uint32_t i = 0; i < vocab->count; i++) {
        const struct mtr_json *v = &vocab->items[i];
        if (v->kind != MTR_JSON_ARRAY || v->count != 2 || v->items[0].kind != MTR_JSON_STRING ||
            !mtr_json_number(&v->items[1], &t->model.scores[i]))
            return mtr_fail(err, MTR_INVALID, "model.vocab[%u]: not [piece, score]", i);
        t->model.scores[i] = score_of(&v->items[1]);
        if (!mtr_vocab_put(&t->names, i, v->items[0].text, true, err))
            return mtr_error_prefix(err, "model.vocab");
    }
    return true;
}

static bool read_vocab(struct mtr_tokenizer *t, const struct mtr_json *model, struct mtr_error *err)
{
    const struct mtr_json *vocab = mtr_json_get(model, "vocab");
    enum mtr_json_kind want = t->model.kind == MTR_MODEL_UNIGRAM ? MTR_JSON_ARRAY : MTR_JSON_OBJECT;
    if (vocab == NULL || vocab->kind != want)
        return mtr_fail(err, MTR_INVALID, "model.vocab: found %s, expected %s",
                        mtr_json_kind_name(vocab), want == MTR_JSON_ARRAY ? "array" : "object");
    if (vocab->count > MTR_TOKENIZER_MAX_TOKENS)
        return mtr_fail(err, MTR_TOO_LARGE, "model.vocab: %u tokens, at most %u are supported",
                        vocab->count, MTR_TOKENIZER_MAX_TOKENS);
    return want == MTR_JSON_ARRAY ? read_vocab_scores(t, vocab, err)
                                  : read_vocab_object(t, vocab, err);
}

/* -------------------------------------------------------------------------------------- merges */

/* The two sides of a merge: ["a", "b"], or "a b" in older files. */
static bool merge_sides(const struct mtr_json *v, struct mtr_str *left, struct mtr_str *right)
{
    if (v->kind == MTR_JSON_ARRAY && v->count == 2 && v->items[0].kind == MTR_JSON_STRING &&
        v->items[1].kind == MTR_JSON_STRING) {
        *left = v->items[0].text;
        *right = v->items[1].text;
        return true;
    }
    if (v->kind != MTR_JSON_STRING)
        return false;
    const char *space = memchr(v->text.ptr, ' ', v->text.len);
    if (space == NULL)
        return false;
    *left = (struct mtr_str){v->text.ptr, (size_t)(space - v->text.ptr)};
    *right = mtr_str_sub(v->text, left->len + 1, SIZE_MAX);
    return memchr(right->ptr, ' ', right->len) == NULL;
}

static bool read_merge(struct mtr_tokenizer *t, const struct mtr_json *v, uint32_t rank,
                       uint32_t *last, struct mtr_error *err)
{
    struct mtr_str left, right, rest;
    if (v->kind == MTR_JSON_STRING && mtr_str_starts(v->text, MTR_STR("#version")))
        return true;
    if (!merge_sides(v, &left, &right))
        return mtr_fail(err, MTR_INVALID, "model.merges[%u]: not two tokens", rank);
    rest = right.len >= t->model.prefix_len ? mtr_str_sub(right, t->model.prefix_len, SIZE_MAX)
                                            : right;
    struct mtr_bpe_pair pair = {
        .left = mtr_vocab_find(&t->names, left),
        .right = mtr_vocab_find(&t->names, right),
        .rank = rank,
        .id = mtr_vocab_find_pair(&t->names, left, rest, *last + 1),
    };
    if (pair.left == MTR_TOKEN_NONE || pair.right == MTR_TOKEN_NONE || pair.id == MTR_TOKEN_NONE)
        return mtr_fail(err, MTR_INVALID,
                        "model.merges[%u]: \"%.*s\", \"%.*s\" or both together are not in the "
                        "vocabulary",
                        rank, left.len > 80 ? 80 : (int)left.len, left.ptr,
                        right.len > 80 ? 80 : (int)right.len, right.ptr);
    mtr_bpe_table_put(&t->model.merges, pair);
    *last = pair.id;
    return true;
}

static bool read_merges(struct mtr_tokenizer *t, const struct mtr_json *model,
                        struct mtr_error *err)
{
    const struct mtr_json *merges = mtr_json_get(model, "merges");
    if (merges == NULL || merges->kind != MTR_JSON_ARRAY)
        return mtr_fail(err, MTR_INVALID, "model.merges: found %s, expected array",
                        mtr_json_kind_name(merges));
    if (merges->count > MAX_MERGES)
        return mtr_fail(err, MTR_TOO_LARGE, "model.merges: %u, at most %u are supported",
                        merges->count, MAX_MERGES);
    uint32_t last = 0; /* id that the merge before made */
    if (!mtr_bpe_table_init(&t->model.merges, merges->count))
        return no_memory(err);
    for (uint32_t i = 0; i < merges->count; i++)
        if (!read_merge(t, &merges->items[i], i, &last, err))
            return false;
    return true;
}

/* --------------------------------------------------------------------------------------- models */

/* "##", "</w>" and the like: copied, as they are a few bytes. */
static bool read_affix(const struct mtr_json *model, const char *key, const char *otherwise,
                       char *out, size_t *len, struct mtr_error *err)
{
    struct mtr_str s = mtr_str(otherwise);
    if (!mtr_json_opt_str(model, key, &s, err))
        return mtr_error_prefix(err, "model");
    if (s.len > MTR_MODEL_MAX_AFFIX_BYTES)
        return mtr_fail(err, MTR_TOO_LARGE, "model.%s: more than %d bytes", key,
                        MTR_MODEL_MAX_AFFIX_BYTES);
    memcpy(out, s.ptr, s.len);
    *len = s.len;
    return true;
}

static bool read_unknown(struct mtr_tokenizer *t, const struct mtr_json *model,
                         const char *otherwise, struct mtr_error *err)
{
    struct mtr_str name = mtr_str(otherwise);
    if (!mtr_json_opt_str(model, "unk_token", &name, err))
        return mtr_error_prefix(err, "model");
    t->model.unknown = name.ptr == NULL ? MTR_TOKEN_NONE : mtr_vocab_find(&t->names, name);
    if (name.ptr != NULL && t->model.unknown == MTR_TOKEN_NONE)
        return mtr_fail(err, MTR_INVALID, "model.unk_token: \"%.*s\" is not in the vocabulary",
                        MTR_STR_ARG(name));
    return true;
}

static bool read_bpe(struct mtr_tokenizer *t, const struct mtr_json *model, struct mtr_error *err)
{
    struct mtr_model *m = &t->model;
    double dropout = 0;
    if (!mtr_json_opt_bool(model, "fuse_unk", &m->fuse_unknown, err) ||
        !mtr_json_opt_bool(model, "byte_fallback", &m->byte_fallback, err) ||
        !mtr_json_opt_bool(model, "ignore_merges", &m->ignore_merges, err) ||
        !mtr_json_opt_f64(model, "dropout", 0, 1, &dropout, err))
        return mtr_error_prefix(err, "model");
    if (dropout != 0)
        return mtr_fail(err, MTR_UNSUPPORTED, "model.dropout: %g; only 0 is", dropout);
    return read_affix(model, "continuing_subword_prefix", "", m->prefix, &m->prefix_len, err) &&
           read_affix(model, "end_of_word_suffix", "", m->suffix, &m->suffix_len, err) &&
           read_unknown(t, model, NULL, err) && read_merges(t, model, err);
}

static bool read_unigram(struct mtr_tokenizer *t, const struct mtr_json *model,
                         struct mtr_error *err)
{
    int64_t unknown = -1;
    if (!mtr_json_opt_i64(model, "unk_id", 0, t->names.size - 1, &unknown, err) ||
        !mtr_json_opt_bool(model, "byte_fallback", &t->model.byte_fallback, err))
        return mtr_error_prefix(err, "model");
    t->model.unknown = unknown < 0 ? MTR_TOKEN_NONE : (uint32_t)unknown;
    t->model.fuse_unknown = true;
    return true;
}

static bool read_wordpiece(struct mtr_tokenizer *t, const struct mtr_json *model,
                           struct mtr_error *err)
{
    int64_t chars = 100;
    if (!mtr_json_opt_i64(model, "max_input_chars_per_word", 0, MAX_WORD_CHARS, &chars, err))
        return mtr_error_prefix(err, "model");
    t->model.max_chars = (uint32_t)chars;
    return read_affix(model, "continuing_subword_prefix", "##", t->model.prefix,
                      &t->model.prefix_len, err) &&
           read_unknown(t, model, "[UNK]", err);
}

static bool read_wordlevel(struct mtr_tokenizer *t, const struct mtr_json *model,
                           struct mtr_error *err)
{
    return read_unknown(t, model, "<unk>", err);
}

static const struct model_type {
    const char *name;
    enum mtr_model_kind kind;
    bool (*parse)(struct mtr_tokenizer *t, const struct mtr_json *model, struct mtr_error *err);
} model_types[] = {
    {"BPE", MTR_MODEL_BPE_CHARS, read_bpe},
    {"Unigram", MTR_MODEL_UNIGRAM, read_unigram},
    {"WordPiece", MTR_MODEL_WORDPIECE, read_wordpiece},
    {"WordLevel", MTR_MODEL_WORDLEVEL, read_wordlevel},
};

/* Old files name no type: what they hold tells. */
static const char *guess_type(const struct mtr_json *model)
{
    const struct mtr_json *vocab = mtr_json_get(model, "vocab");
    if (mtr_json_get(model, "merges") != NULL)
        return "BPE";
    if (vocab != NULL && vocab->kind == MTR_JSON_ARRAY)
        return "Unigram";
    return mtr_json_get(model, "max_input_chars_per_word") != NULL ? "WordPiece" : "WordLevel";
}

static bool read_model(struct mtr_tokenizer *t, const struct mtr_json *model, struct mtr_error *err)
{
    struct mtr_str name = {NULL, 0};
    if (model == NULL || model->kind != MTR_JSON_OBJECT)
        return mtr_fail(err, MTR_INVALID, "model: found %s, expected object",
                        mtr_json_kind_name(model));
    if (!mtr_json_opt_str(model, "type", &name, err))
        return mtr_error_prefix(err, "model");
    if (name.ptr == NULL)
        name = mtr_str(guess_type(model));
    for (size_t i = 0; i < sizeof model_types / sizeof model_types[0]; i++) {
        if (!mtr_str_is(name, model_types[i].name))
            continue;
        t->model.kind = model_types[i].kind;
        return read_vocab(t, model, err) && model_types[i].parse(t, model, err);
    }
    return mtr_fail(err, MTR_UNSUPPORTED, "model: type \"%.*s\" is not known", MTR_STR_ARG(name));
}

/* The model's own form of the vocabulary. */
static bool fill_pieces(struct mtr_tokenizer *t, struct mtr_error *err)
{
    struct mtr_model *m = &t->model;
    bool raw = t->pretokenizer.raw_bytes && m->kind == MTR_MODEL_BPE_CHARS && m->prefix_len == 0 &&
               m->suffix_len == 0;
    struct mtr_buf bytes = {0};
    bool ok = mtr_vocab_reserve(&m->pieces, t->names.count, t->names.byte_count) || no_memory(err);
    if (raw)
        m->kind = MTR_MODEL_BPE_BYTES;
    for (uint32_t id = 0; ok && id < t->names.size; id++) {
        struct mtr_str name = mtr_vocab_get(&t->names, id);
        /* A name that another id has taken over since is out of reach. */
        if (name.ptr == NULL || mtr_vocab_find(&t->names, name) != id)
            continue;
        mtr_buf_clear(&bytes);
        if (!raw)
            ok = mtr_vocab_put(&m->pieces, id, name, true, err);
        else if (mtr_alphabet_to_bytes(name, &bytes))
            ok = mtr_vocab_put(&m->pieces, id, mtr_buf_view(&bytes), true, err);
        else if (bytes.failed)
            ok = no_memory(err);
    }
    mtr_buf_free(&bytes);
    return ok;
}

/* ---------------------------------------------------------------------------------- added tokens
 */

struct added_id {
    uint32_t largest; /* of added tokens so far; MTR_TOKEN_NONE: none */
    uint32_t vocab;   /* tokens of the model */
};

/* The library gives a token that the model does not know the next free id, whatever the file says.
 */
static uint32_t added_token_id(const struct mtr_tokenizer *t, struct added_id *ids,
                               struct mtr_str content)
{
    uint32_t id = mtr_vocab_find(&t->names, content);
    if (id == MTR_TOKEN_NONE)
        id = ids->largest != MTR_TOKEN_NONE && ids->largest >= ids->vocab ? ids->largest + 1
                                                                          : ids->vocab;
    if (ids->largest == MTR_TOKEN_NONE || id > ids->largest)
        ids->largest = id;
    return id;
}

static bool put_normalized(struct mtr_tokenizer *t, struct mtr_normalizer_work *work,
                           struct mtr_str content, struct mtr_added_token token,
                           struct mtr_error *err)
{
    struct mtr_str normal;
    if (!mtr_normalize(&t->normalizer, &t->unicode, work, content, &normal, NULL, err))
        return false;
    if (!mtr_str_equal(normal, content) && !mtr_vocab_set(&t->respelled, token.id, normal, err))
        return false;
    return normal.len == 0 || mtr_added_put(&t->added_normalized, normal, token) || no_memory(err);
}

static bool read_added(struct mtr_tokenizer *t, const struct mtr_json *v, struct added_id *ids,
                       struct mtr_normalizer_work *work, struct mtr_error *err)
{
    struct mtr_added_token token = {0};
    struct mtr_str content = {NULL, 0};
    if (v->kind != MTR_JSON_OBJECT)
        return mtr_fail(err, MTR_INVALID, "found %s, expected object", mtr_json_kind_name(v));
    if (!mtr_json_opt_str(v, "content", &content, err) ||
        !mtr_json_opt_bool(v, "special", &token.special, err) ||
        !mtr_json_opt_bool(v, "single_word", &token.single_word, err) ||
        !mtr_json_opt_bool(v, "lstrip", &token.lstrip, err) ||
        !mtr_json_opt_bool(v, "rstrip", &token.rstrip, err))
        return false;
    bool normalized = !token.special;
    if (!mtr_json_opt_bool(v, "normalized", &normalized, err))
        return false;
    if (content.len == 0)
        return content.ptr != NULL || mtr_fail(err, MTR_INVALID, "content: missing");
    if (content.len > MTR_TOKENIZER_MAX_TOKEN_BYTES)
        return mtr_fail(err, MTR_TOO_LARGE, "content: %zu bytes, more than %u", content.len,
                        MTR_TOKENIZER_MAX_TOKEN_BYTES);
    token.id = added_token_id(t, ids, content);
    if (!mtr_vocab_put(&t->names, token.id, content, true, err))
        return false;
    return normalized ? put_normalized(t, work, content, token, err)
                      : mtr_added_put(&t->added, content, token) || no_memory(err);
}

static bool read_all_added(struct mtr_tokenizer *t, const struct mtr_json *list,
                           struct mtr_error *err)
{
    struct mtr_normalizer_work work = {0};
    struct added_id ids = {MTR_TOKEN_NONE, t->names.count};
    bool ok = true;
    if (list == NULL || list->kind == MTR_JSON_NULL)
        return true;
    if (list->kind != MTR_JSON_ARRAY)
        return mtr_fail(err, MTR_INVALID, "added_tokens: found %s, expected array",
                        mtr_json_kind_name(list));
    for (uint32_t i = 0; ok && i < list->count; i++)
        ok = read_added(t, &list->items[i], &ids, &work, err) ||
             mtr_error_prefix(err, "added_tokens[%u]", i);
    mtr_normalizer_work_free(&work);
    return ok;
}

/* Special is what the file's added tokens say, by their text. */
static void mark_special(struct mtr_tokenizer *t, const struct mtr_json *list)
{
    for (uint32_t i = 0; list != NULL && list->kind == MTR_JSON_ARRAY && i < list->count; i++) {
        const struct mtr_json *special = mtr_json_get(&list->items[i], "special");
        const struct mtr_json *content = mtr_json_get(&list->items[i], "content");
        if (special == NULL || special->kind != MTR_JSON_BOOL || !special->boolean)
            continue;
        uint32_t id = mtr_vocab_find(&t->names, content->text);
        if (id != MTR_TOKEN_NONE)
            t->flags[id] |= MTR_FLAG_SPECIAL;
    }
}

/* ------------------------------------------------------------------------------- post-processor */

static bool add_around(struct mtr_tokenizer *t, const uint32_t *before, size_t before_count,
                       const uint32_t *after, size_t after_count, struct mtr_error *err)
{
    if (t->before_count + before_count > MTR_TOKENIZER_MAX_AFFIX ||
        t->after_count + after_count > MTR_TOKENIZER_MAX_AFFIX)
        return mtr_fail(err, MTR_TOO_LARGE, "post_processor: more than %d tokens on one side",
                        MTR_TOKENIZER_MAX_AFFIX);
    memmove(t->before + before_count, t->before, t->before_count * sizeof *t->before);
    memcpy(t->before, before, before_count * sizeof *before);
    memcpy(t->after + t->after_count, after, after_count * sizeof *after);
    t->before_count += before_count;
    t->after_count += after_count;
    return true;
}

static bool is_id(const struct mtr_tokenizer *t, const struct mtr_json *v)
{
    return v != NULL && v->kind == MTR_JSON_INT && !v->big && v->integer >= 0 &&
           v->integer < MTR_TOKENIZER_MAX_TOKENS && mtr_vocab_has(&t->names, (uint32_t)v->integer);
}

/* The ids of a special token of the template, appended. */
static bool template_ids(const struct mtr_tokenizer *t, const struct mtr_json *specials,
                         const struct mtr_json *item, uint32_t *ids, size_t *count,
                         struct mtr_error *err)
{
    struct mtr_str name = {NULL, 0};
    if (!mtr_json_opt_str(item, "id", &name, err))
        return false;
    const struct mtr_json *list = NULL;
    for (uint32_t i = 0;
         specials != NULL && specials->kind == MTR_JSON_OBJECT && i < specials->count; i++)
        if (mtr_str_equal(specials->members[i].key, name))
            list = mtr_json_get(&specials->members[i].value, "ids");
    if (list == NULL || list->kind != MTR_JSON_ARRAY)
        return mtr_fail(err, MTR_INVALID, "special token \"%.*s\" has no ids", MTR_STR_ARG(name));
    for (uint32_t i = 0; i < list->count; i++) {
        if (!is_id(t, &list->items[i]) || *count == MTR_TOKENIZER_MAX_AFFIX)
            return mtr_fail(err, MTR_INVALID,
                            "special token \"%.*s\": ids that are no tokens, or too many",
                            MTR_STR_ARG(name));
        ids[(*count)++] = (uint32_t)list->items[i].integer;
    }
    return true;
}

static bool read_template(struct mtr_tokenizer *t, const struct mtr_json *v, struct mtr_error *err)
{
    const struct mtr_json *single = mtr_json_get(v, "single");
    uint32_t ids[2][MTR_TOKENIZER_MAX_AFFIX];
    size_t counts[2] = {0, 0};
    int side = 0; /* 1 once the sequence has come */
    if (single == NULL || single->kind != MTR_JSON_ARRAY)
        return mtr_fail(err, MTR_INVALID, "single: found %s, expected array",
                        mtr_json_kind_name(single));
    for (uint32_t i = 0; i < single->count; i++) {
        const struct mtr_json *special = mtr_json_get(&single->items[i], "SpecialToken");
        const struct mtr_json *sequence = mtr_json_get(&single->items[i], "Sequence");
        if (special != NULL) {
            if (!template_ids(t, mtr_json_get(v, "special_tokens"), special, ids[side],
                              &counts[side], err))
                return false;
        } else if (sequence == NULL || side == 1) {
            return mtr_fail(err, MTR_UNSUPPORTED,
                            "single[%u]: not a special token, nor the one "
                            "sequence",
                            i);
        } else {
            side = 1;
        }
    }
    return add_around(t, ids[0], counts[0], ids[1], counts[1], err);
}

/* BertProcessing and RobertaProcessing: "cls" and "sep" are [text, id]. */
static bool read_pair(struct mtr_tokenizer *t, const struct mtr_json *v, struct mtr_error *err)
{
    const struct mtr_json *cls = mtr_json_get(v, "cls"), *sep = mtr_json_get(v, "sep");
    if (cls == NULL || cls->kind != MTR_JSON_ARRAY || cls->count != 2 ||
        !is_id(t, &cls->items[1]) || sep == NULL || sep->kind != MTR_JSON_ARRAY ||
        sep->count != 2 || !is_id(t, &sep->items[1]))
        return mtr_fail(err, MTR_INVALID, "cls, sep: not [text, id of a token]");
    uint32_t before = (uint32_t)cls->items[1].integer, after = (uint32_t)sep->items[1].integer;
    return add_around(t, &before, 1, &after, 1, err);
}

/* Only trims offsets, which nobody asks for here. */
static bool read_byte_level(struct mtr_tokenizer *t, const struct mtr_json *v,
                            struct mtr_error *err)
{
    return true;
}

static const struct {
    const char *name;
    bool (*parse)(struct mtr_tokenizer *t, const struct mtr_json *v, struct mtr_error *err);
} post_types[] = {
    {"TemplateProcessing", read_template},
    {"BertProcessing", read_pair},
    {"RobertaProcessing", read_pair},
    {"ByteLevel", read_byte_level},
};

static bool read_post(struct mtr_tokenizer *t, const struct mtr_json *v, struct mtr_error *err)
{
    struct mtr_str type = {NULL, 0};
    if (v == NULL || v->kind == MTR_JSON_NULL)
        return true;
    if (!mtr_json_opt_str(v, "type", &type, err))
        return mtr_error_prefix(err, "post_processor");
    for (size_t i = 0; i < sizeof post_types / sizeof post_types[0]; i++)
        if (mtr_str_is(type, post_types[i].name))
            return post_types[i].parse(t, v, err) ||
                   mtr_error_prefix(err, "post_processor %s", post_types[i].name);
    const struct mtr_json *list = mtr_json_get(v, "processors");
    if (!mtr_str_is(type, "Sequence") || list == NULL || list->kind != MTR_JSON_ARRAY)
        return mtr_fail(err, MTR_UNSUPPORTED, "post_processor: type \"%.*s\" is not known",
                        MTR_STR_ARG(type));
    for (uint32_t i = 0; i < list->count; i++)
        if (!read_post(t, &list->items[i], err))
            return false;
    return true;
}

/* ------------------------------------------------------------------------------------ the whole */

/* A token of tokenizer_config.json: its text, or an object with "content". */
static uint32_t config_token(const struct mtr_tokenizer *t, const struct mtr_json *config,
                             const char *key)
{
    const struct mtr_json *v = mtr_json_get(config, key);
    if (v != NULL && v->kind == MTR_JSON_OBJECT)
        v = mtr_json_get(v, "content");
    return v != NULL && v->kind == MTR_JSON_STRING ? mtr_vocab_find(&t->names, v->text)
                                                   : MTR_TOKEN_NONE;
}

static void describe(struct mtr_tokenizer *t)
{
    static const char *const kinds[] = {
        [MTR_MODEL_BPE_BYTES] = "byte-level BPE", [MTR_MODEL_BPE_CHARS] = "BPE",
        [MTR_MODEL_SCORES] = "SentencePiece BPE", [MTR_MODEL_UNIGRAM] = "unigram",
        [MTR_MODEL_WORDPIECE] = "WordPiece",      [MTR_MODEL_WORDLEVEL] = "words",
    };
    snprintf(t->describe, sizeof t->describe, "%s, %u tokens, %zu of them added",
             kinds[t->model.kind], t->names.size, t->added.count + t->added_normalized.count);
}

static bool read_stages(struct mtr_tokenizer *t, const struct mtr_json *root, struct mtr_error *err)
{
    const struct mtr_json *added = mtr_json_get(root, "added_tokens");
    if (!mtr_normalizer_from_json(&t->normalizer, mtr_json_get(root, "normalizer"), err) ||
        !mtr_pretokenizer_from_json(&t->pretokenizer, mtr_json_get(root, "pre_tokenizer"), err) ||
        !mtr_decoder_from_json(&t->decoder, mtr_json_get(root, "decoder"), err) ||
        !read_model(t, mtr_json_get(root, "model"), err) || !fill_pieces(t, err) ||
        !mtr_model_finish(&t->model, err) || !read_all_added(t, added, err) ||
        !read_post(t, mtr_json_get(root, "post_processor"), err) ||
        !mtr_tokenizer_fill_bytes(t, err))
        return false;
    mark_special(t, added);
    return true;
}

static bool read_both(struct mtr_tokenizer *t, const struct mtr_json *root,
                      const struct mtr_json *config, struct mtr_error *err)
{
    if (root->kind != MTR_JSON_OBJECT)
        return mtr_fail(err, MTR_INVALID, "found %s, expected object", mtr_json_kind_name(root));
    if (!read_stages(t, root, err))
        return false;
    t->bos = config_token(t, config, "bos_token");
    t->eos = config_token(t, config, "eos_token");
    t->pad = config_token(t, config, "pad_token");
    t->unknown = t->model.unknown;
    describe(t);
    return mtr_tokenizer_fill_eog(t, NULL, 0, err);
}

struct mtr_tokenizer *mtr_tokenizer_from_json(struct mtr_str tokenizer_json,
                                              struct mtr_str config_json, struct mtr_error *err)
{
    struct mtr_arena arena;
    mtr_arena_init(&arena, MAX_ARENA_BYTES);
    const struct mtr_json *root = mtr_json_parse(&arena, tokenizer_json, MTR_JSON_STRICT, err);
    bool ok = root != NULL || mtr_error_prefix(err, "tokenizer.json");
    const struct mtr_json *config = NULL;
    if (ok && config_json.len > 0) {
        config = mtr_json_parse(&arena, config_json, MTR_JSON_NONFINITE, err);
        ok = config != NULL || mtr_error_prefix(err, "tokenizer_config.json");
    }
    struct mtr_tokenizer *t = ok ? mtr_tokenizer_new(err) : NULL;
    if (t != NULL && !read_both(t, root, config, err)) {
        mtr_error_prefix(err, "tokenizer.json");
        mtr_tokenizer_free(t);
        t = NULL;
    }
    mtr_arena_free(&arena);
    return t;
}
