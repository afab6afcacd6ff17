/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tokenizers from a vocabulary with a name, as GGUF metadata states them.
 *
 * "gpt2" files say how text is split by a name only; what the names mean is the table below, taken
 * from the tokenizer.json files of the models that the names stand for. "llama" files are
 * SentencePiece's BPE: scores instead of merges, "▁" for spaces, byte tokens for the rest.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/text/byte_alphabet.h"
#include "broker/text/tokenizer_parts.h"

#define MAX_SPLITS 4

#define SPLIT_GPT2                                                                                 \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define SPLIT_TAIL   " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPLIT_LLAMA3 CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" SPLIT_TAIL
#define SPLIT_QWEN2  CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|" SPLIT_TAIL
#define SPLIT_QWEN35                                                                               \
    CONTRACTIONS                                                                                   \
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*"           \
    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPERS "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWERS "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define SPLIT_O200K                                                                                \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPERS "*" LOWERS "+" CONTRACTIONS "?|[^\\r\\n\\p{L}\\p{N}]?" UPPERS  \
    "+" LOWERS "*" CONTRACTIONS "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+"      \
    "|\\s+(?!\\S)|\\s+"
#define SPLIT_TEKKEN                                                                               \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPERS "*" LOWERS "+|[^\\r\\n\\p{L}\\p{N}]?" UPPERS "+" LOWERS        \
    "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define SPLIT_HAN "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
#define SPLIT_DEEPSEEK3                                                                            \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"           \
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* How a named vocabulary splits text, and what else goes with the name. */
static const struct split {
    const char *name;
    const char *regexes[MAX_SPLITS]; /* one after the other */
    bool nfc;                        /* text is brought into form C first */
    bool ignore_merges;
} splits[] = {
    {"gpt-2", {SPLIT_GPT2}, false, false},
    {"gpt2", {SPLIT_GPT2}, false, false},
    {"phi-2", {SPLIT_GPT2}, false, false},
    {"olmo", {SPLIT_GPT2}, false, false},
    {"mpt", {SPLIT_GPT2}, false, false},
    {"smollm", {"\\p{N}", SPLIT_GPT2}, false, false},
    {"starcoder", {"\\p{N}", SPLIT_GPT2}, false, false},
    {"refact", {"\\p{N}", SPLIT_GPT2}, false, false},
    {"command-r", {"\\p{N}", SPLIT_GPT2}, false, false},
    {"codeshell", {"\\p{N}", SPLIT_GPT2}, false, false},
    {"exaone", {"\\p{N}", SPLIT_GPT2}, false, false},
    {"minerva-7b", {"\\p{N}", SPLIT_GPT2}, false, false},
    {"llama-bpe", {SPLIT_LLAMA3}, false, true},
    {"llama3", {SPLIT_LLAMA3}, false, true},
    {"llama-v3", {SPLIT_LLAMA3}, false, true},
    {"falcon3", {SPLIT_LLAMA3}, false, true},
    {"pixtral", {SPLIT_TEKKEN}, false, true},
    {"dbrx", {SPLIT_LLAMA3}, false, false},
    {"smaug-bpe", {SPLIT_LLAMA3}, false, false},
    {"glm4", {SPLIT_LLAMA3}, false, false},
    {"chatglm-bpe", {SPLIT_LLAMA3}, false, false},
    {"qwen2", {SPLIT_QWEN2}, true, false},
    {"deepseek-r1-qwen", {SPLIT_QWEN2}, true, false},
    {"megrez", {SPLIT_QWEN2}, true, false},
    {"stablelm2", {SPLIT_QWEN2}, false, false},
    {"hunyuan", {SPLIT_QWEN2}, false, false},
    {"qwen35", {SPLIT_QWEN35}, true, false},
    {"gpt-4o", {SPLIT_O200K}, false, false},
    {"o200k", {SPLIT_O200K}, false, false},
    {"llama4", {SPLIT_O200K}, false, false},
    {"tekken", {SPLIT_TEKKEN}, false, true},
    {"deepseek-v3", {"\\p{N}{1,3}", SPLIT_HAN, SPLIT_DEEPSEEK3}, false, false},
    {"hunyuan-dense", {"\\p{N}{1,3}", SPLIT_HAN, SPLIT_DEEPSEEK3}, false, false},
};

static bool no_memory(struct mtr_error *err)
{
    return mtr_fail(err, MTR_NO_MEMORY, "tokenizer: out of memory");
}

static enum mtr_token_type type_of(const struct mtr_vocab_source *s, uint32_t id)
{
    return s->types == NULL ? MTR_TOKEN_NORMAL : (enum mtr_token_type)s->types[id];
}

/* --------------------------------------------------------------------------------- all kinds */

/* Names, and the tokens that are cut out of texts whole. */
static bool read_names(struct mtr_tokenizer *t, const struct mtr_vocab_source *s,
                       struct mtr_error *err)
{
    size_t bytes = 0;
    for (uint32_t id = 0; id < s->token_count; id++)
        bytes += s->tokens[id].len;
    if (s->token_count == 0 || s->token_count > MTR_TOKENIZER_MAX_TOKENS)
        return mtr_fail(err, MTR_INVALID, "tokens: %u of them, expected 1 to %u", s->token_count,
                        MTR_TOKENIZER_MAX_TOKENS);
    if (!mtr_vocab_reserve(&t->names, s->token_count, bytes))
        return no_memory(err);
    for (uint32_t id = 0; id < s->token_count; id++) {
        enum mtr_token_type type = type_of(s, id);
        struct mtr_added_token token = {.id = id, .special = type == MTR_TOKEN_CONTROL};
        if (!mtr_vocab_put(&t->names, id, s->tokens[id], false, err))
            return false;
        if ((type == MTR_TOKEN_CONTROL || type == MTR_TOKEN_USER_DEFINED) &&
            s->tokens[id].len > 0 && !mtr_added_put(&t->added, s->tokens[id], token))
            return no_memory(err);
    }
    return true;
}

/* What a token of the byte alphabet stands for is its bytes; added tokens are their own text. */
static bool fix_bytes(struct mtr_tokenizer *t, const struct mtr_vocab_source *s,
                      struct mtr_error *err)
{
    for (uint32_t id = 0; id < s->token_count; id++) {
        enum mtr_token_type type = type_of(s, id);
        bool literal = type == MTR_TOKEN_CONTROL || type == MTR_TOKEN_USER_DEFINED;
        if (literal && !mtr_str_equal(mtr_vocab_get(&t->bytes, id), s->tokens[id]) &&
            !mtr_vocab_set(&t->bytes, id, s->tokens[id], err))
            return false;
        if (type == MTR_TOKEN_CONTROL || type == MTR_TOKEN_UNKNOWN)
            t->flags[id] |= MTR_FLAG_SPECIAL;
        if (literal)
            t->flags[id] &= (uint8_t)~MTR_FLAG_BYTE;
    }
    return true;
}

static bool check_id(const struct mtr_vocab_source *s, const char *name, uint32_t id,
                     struct mtr_error *err)
{
    return id == MTR_TOKEN_NONE || id < s->token_count ||
           mtr_fail(err, MTR_INVALID, "%s token %u: there are %u tokens", name, id, s->token_count);
}

static bool read_ids(struct mtr_tokenizer *t, const struct mtr_vocab_source *s,
                     struct mtr_error *err)
{
    if (!check_id(s, "bos", s->bos, err) || !check_id(s, "eos", s->eos, err) ||
        !check_id(s, "eot", s->eot, err) || !check_id(s, "eom", s->eom, err) ||
        !check_id(s, "unknown", s->unknown, err) || !check_id(s, "padding", s->pad, err))
        return false;
    t->bos = s->bos;
    t->eos = s->eos;
    t->pad = s->pad;
    t->unknown = s->unknown;
    if (s->add_bos && s->bos != MTR_TOKEN_NONE)
        t->before[t->before_count++] = s->bos;
    if (s->add_eos && s->eos != MTR_TOKEN_NONE)
        t->after[t->after_count++] = s->eos;
    return true;
}

/* ------------------------------------------------------------------------------- byte-level BPE */

static const struct split *find_split(struct mtr_str name)
{
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++)
        if (mtr_str_is(name, splits[i].name))
            return &splits[i];
    return NULL;
}

/* A rule that would make a special token out of text is left out. */
static bool read_merge(struct mtr_tokenizer *t, const struct mtr_vocab_source *s, uint32_t rank,
                       uint32_t *last, struct mtr_error *err)
{
    struct mtr_str merge = s->merges[rank];
    /* The first byte belongs to the left side even if it is a space. */
    const char *space = merge.len > 1 ? memchr(merge.ptr + 1, ' ', merge.len - 1) : NULL;
    if (space == NULL)
        return mtr_fail(err, MTR_INVALID, "merges[%u]: \"%.*s\" is not two tokens", rank,
                        merge.len > 80 ? 80 : (int)merge.len, merge.ptr);
    struct mtr_str left = {merge.ptr, (size_t)(space - merge.ptr)};
    struct mtr_str right = mtr_str_sub(merge, left.len + 1, SIZE_MAX);
    struct mtr_bpe_pair pair = {
        .left = mtr_vocab_find(&t->names, left),
        .right = mtr_vocab_find(&t->names, right),
        .rank = rank,
        .id = mtr_vocab_find_pair(&t->names, left, right, *last + 1),
    };
    if (pair.left == MTR_TOKEN_NONE || pair.right == MTR_TOKEN_NONE || pair.id == MTR_TOKEN_NONE)
        return mtr_fail(err, MTR_INVALID,
                        "merges[%u]: the sides of \"%.*s\", or both together, are not tokens", rank,
                        merge.len > 80 ? 80 : (int)merge.len, merge.ptr);
    if (type_of(s, pair.id) != MTR_TOKEN_CONTROL)
        mtr_bpe_table_put(&t->model.merges, pair);
    *last = pair.id;
    return true;
}

static bool read_merges(struct mtr_tokenizer *t, const struct mtr_vocab_source *s,
                        struct mtr_error *err)
{
    uint32_t last = 0; /* id that the merge before made */
    if (!mtr_bpe_table_init(&t->model.merges, s->merge_count))
        return no_memory(err);
    for (uint32_t i = 0; i < s->merge_count; i++)
        if (!read_merge(t, s, i, &last, err))
            return false;
    return true;
}

/* Tokens as raw bytes; special ones are never made by merging. */
static bool read_byte_pieces(struct mtr_tokenizer *t, const struct mtr_vocab_source *s,
                             struct mtr_error *err)
{
    struct mtr_buf bytes = {0};
    bool ok =
        mtr_vocab_reserve(&t->model.pieces, s->token_count, t->names.byte_count) || no_memory(err);
    for (uint32_t id = 0; ok && id < s->token_count; id++) {
        if (type_of(s, id) == MTR_TOKEN_CONTROL || type_of(s, id) == MTR_TOKEN_USER_DEFINED)
            continue;
        mtr_buf_clear(&bytes);
        if (mtr_alphabet_to_bytes(s->tokens[id], &bytes))
            ok = mtr_vocab_put(&t->model.pieces, id, mtr_buf_view(&bytes), false, err);
        else if (bytes.failed)
            ok = no_memory(err);
    }
    mtr_buf_free(&bytes);
    return ok;
}

static bool read_bpe(struct mtr_tokenizer *t, const struct mtr_vocab_source *s,
                     struct mtr_error *err)
{
    const struct split *split = find_split(s->pre);
    size_t count = 0;
    if (split == NULL)
        return mtr_fail(err, MTR_UNSUPPORTED, "split pattern \"%.*s\" is not known",
                        MTR_STR_ARG(s->pre));
    while (count < MAX_SPLITS && split->regexes[count] != NULL)
        count++;
    t->model.kind = MTR_MODEL_BPE_BYTES;
    t->model.ignore_merges = split->ignore_merges;
    t->decoder.kind = MTR_DECODE_BYTES;
    snprintf(t->describe, sizeof t->describe, "byte-level BPE, %u tokens, split as %s",
             s->token_count, split->name);
    return mtr_pretokenizer_from_regexes(&t->pretokenizer, split->regexes, count, err) &&
           (!split->nfc || mtr_normalizer_for_nfc(&t->normalizer, err)) && read_merges(t, s, err) &&
           read_byte_pieces(t, s, err);
}

/* ------------------------------------------------------------------------------- SentencePiece */

/* Tokens that merging may make, and their ranks; byte tokens aside. */
static bool read_scored_pieces(struct mtr_tokenizer *t, const struct mtr_vocab_source *s,
                               struct mtr_error *err)
{
    struct mtr_model *m = &t->model;
    m->ranks = malloc((size_t)s->token_count * sizeof *m->ranks);
    if (m->ranks == NULL || !mtr_vocab_reserve(&m->pieces, s->token_count, t->names.byte_count))
        return no_memory(err);
    memset(m->byte_ids, 0xff, sizeof m->byte_ids);
    for (uint32_t id = 0; id < s->token_count; id++) {
        enum mtr_token_type type = type_of(s, id);
        int byte = mtr_byte_token(s->tokens[id]);
        m->ranks[id] = mtr_bpe_score_rank(s->scores[id]);
        if (byte >= 0 && (type == MTR_TOKEN_BYTE || s->types == NULL)) {
            if (m->byte_ids[byte] == MTR_TOKEN_NONE)
                m->byte_ids[byte] = id;
        } else if (type != MTR_TOKEN_CONTROL && type != MTR_TOKEN_UNKNOWN &&
                   !mtr_vocab_put(&m->pieces, id, s->tokens[id], false, err)) {
            return false;
        }
    }
    return true;
}

static bool read_scores(struct mtr_tokenizer *t, const struct mtr_vocab_source *s,
                        struct mtr_error *err)
{
    if (s->scores == NULL)
        return mtr_fail(err, MTR_INVALID, "scores: missing");
    t->model.kind = MTR_MODEL_SCORES;
    t->model.byte_fallback = true;
    t->model.unknown = s->unknown;
    snprintf(t->describe, sizeof t->describe, "SentencePiece BPE, %u tokens", s->token_count);
    return mtr_normalizer_for_sentencepiece(&t->normalizer, s->add_space_prefix, err) &&
           mtr_decoder_for_sentencepiece(&t->decoder, s->add_space_prefix, err) &&
           read_scored_pieces(t, s, err);
}

static bool read_source(struct mtr_tokenizer *t, const struct mtr_vocab_source *s,
                        struct mtr_error *err)
{
    const uint32_t ends[] = {s->eot, s->eom};
    return read_names(t, s, err) &&
           (s->model == MTR_VOCAB_BPE ? read_bpe(t, s, err) : read_scores(t, s, err)) &&
           mtr_model_finish(&t->model, err) && mtr_tokenizer_fill_bytes(t, err) &&
           fix_bytes(t, s, err) && read_ids(t, s, err) && mtr_tokenizer_fill_eog(t, ends, 2, err);
}

struct mtr_tokenizer *mtr_tokenizer_from_source(const struct mtr_vocab_source *source,
                                                struct mtr_error *err)
{
    struct mtr_tokenizer *t = mtr_tokenizer_new(err);
    if (t == NULL || read_source(t, source, err))
        return t;
    mtr_error_prefix(err, "tokenizer");
    mtr_tokenizer_free(t);
    return NULL;
}
