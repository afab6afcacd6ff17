/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * tokenizer.ggml.* of a GGUF file as a struct mtr_vocab_source.
 *
 *   model             "gpt2" or "llama"
 *   pre               name of the split pattern
 *   tokens            strings, by id
 *   scores            numbers, "llama"
 *   token_type        enum mtr_token_type
 *   merges            "left right", "gpt2"
 *   {bos,eos,eot,eom,unknown,padding}_token_id
 *   add_{bos,eos}_token, add_space_prefix
 */
#include <string.h>

#include "broker/text/tokenizer.h"
#include "common/base/arena.h"
#include "common/checkpoint/gguf.h"

#define KEY(name) "tokenizer.ggml." name

static bool no_memory(struct mtr_error *err)
{
    return mtr_fail(err, MTR_NO_MEMORY, "tokenizer: out of memory");
}

/* An array of strings as slices of the mapping; *out stays NULL where the key is absent. */
static bool read_strings(const struct mtr_gguf *g, struct mtr_arena *arena, const char *key,
                         const struct mtr_str **out, uint32_t *count, struct mtr_error *err)
{
    struct mtr_gguf_array array = {0};
    struct mtr_gguf_cursor cursor = {0};
    if (!mtr_gguf_opt_strings(g, key, &array, err))
        return false;
    struct mtr_str *items = mtr_arena_calloc(arena, array.count + 1, sizeof *items);
    if (items == NULL)
        return no_memory(err);
    while (*count < array.count && mtr_gguf_next(&array, &cursor, &items[*count]))
        (*count)++;
    *out = items;
    return true;
}

static bool numbers_of(const struct mtr_gguf *g, const char *key, uint32_t tokens,
                       struct mtr_gguf_array *array, struct mtr_error *err)
{
    return mtr_gguf_opt_numbers(g, key, array, err) &&
           (array->count == 0 || array->count == tokens ||
            mtr_fail(err, MTR_INVALID, "%s: %llu items for %u tokens", key,
                     (unsigned long long)array->count, tokens));
}

static bool read_scores(const struct mtr_gguf *g, struct mtr_arena *arena,
                        struct mtr_vocab_source *s, struct mtr_error *err)
{
    struct mtr_gguf_array array = {0};
    if (!numbers_of(g, KEY("scores"), s->token_count, &array, err) || array.count == 0)
        return array.count == 0;
    float *scores = mtr_arena_alloc(arena, (size_t)array.count * sizeof *scores);
    if (scores == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < array.count; i++)
        scores[i] = (float)mtr_gguf_item_f64(&array, i);
    s->scores = scores;
    return true;
}

static bool read_types(const struct mtr_gguf *g, struct mtr_arena *arena,
                       struct mtr_vocab_source *s, struct mtr_error *err)
{
    struct mtr_gguf_array array = {0};
    if (!numbers_of(g, KEY("token_type"), s->token_count, &array, err) || array.count == 0)
        return array.count == 0;
    uint8_t *types = mtr_arena_alloc(arena, array.count);
    if (types == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < array.count; i++) {
        int64_t type = mtr_gguf_item_i64(&array, i);
        if (type < 0 || type > MTR_TOKEN_BYTE)
            return mtr_fail(err, MTR_INVALID, "%s[%u]: %lld, expected 0 to 6", KEY("token_type"), i,
                            (long long)type);
        types[i] = (uint8_t)type;
    }
    s->types = types;
    return true;
}

static bool read_ids(const struct mtr_gguf *g, struct mtr_vocab_source *s, struct mtr_error *err)
{
    const struct {
        const char *key;
        uint32_t *id;
    } keys[] = {
        {KEY("bos_token_id"), &s->bos},         {KEY("eos_token_id"), &s->eos},
        {KEY("eot_token_id"), &s->eot},         {KEY("eom_token_id"), &s->eom},
        {KEY("unknown_token_id"), &s->unknown}, {KEY("padding_token_id"), &s->pad},
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        int64_t id = *keys[i].id;
        if (!mtr_gguf_opt_i64(g, keys[i].key, -1, MTR_TOKEN_NONE, &id, err))
            return false;
        *keys[i].id = id < 0 ? MTR_TOKEN_NONE : (uint32_t)id;
    }
    return true;
}

/* What files leave out depends on what they are. */
static void set_defaults(struct mtr_vocab_source *s)
{
    bool scores = s->model == MTR_VOCAB_SCORES;
    s->add_bos = scores || mtr_str_is(s->pre, "llama-bpe") || mtr_str_is(s->pre, "llama3") ||
                 mtr_str_is(s->pre, "llama-v3") || mtr_str_is(s->pre, "tekken");
    s->add_space_prefix = scores;
    if (!scores)
        return;
    s->bos = 1;
    s->eos = 2;
    s->unknown = 0;
}

static bool read_model(const struct mtr_gguf *g, struct mtr_vocab_source *s, struct mtr_error *err)
{
    struct mtr_str model = {NULL, 0};
    s->bos = s->eos = s->eot = s->eom = s->unknown = s->pad = MTR_TOKEN_NONE;
    s->pre = MTR_STR("gpt-2");
    if (!mtr_gguf_opt_str(g, KEY("model"), &model, err) ||
        !mtr_gguf_opt_str(g, KEY("pre"), &s->pre, err))
        return false;
    if (mtr_str_is(model, "llama"))
        s->model = MTR_VOCAB_SCORES;
    else if (!mtr_str_is(model, "gpt2"))
        return mtr_fail(err, model.ptr == NULL ? MTR_INVALID : MTR_UNSUPPORTED,
                        "%s: found \"%.*s\", expected \"gpt2\" or \"llama\"", KEY("model"),
                        MTR_STR_ARG(model));
    set_defaults(s);
    return mtr_gguf_opt_bool(g, KEY("add_bos_token"), &s->add_bos, err) &&
           mtr_gguf_opt_bool(g, KEY("add_eos_token"), &s->add_eos, err) &&
           mtr_gguf_opt_bool(g, KEY("add_space_prefix"), &s->add_space_prefix, err);
}

/* Default ids stand only where the file does not name others. */
static bool read_source(const struct mtr_gguf *g, struct mtr_arena *arena,
                        struct mtr_vocab_source *s, struct mtr_error *err)
{
    if (!read_model(g, s, err) ||
        !read_strings(g, arena, KEY("tokens"), &s->tokens, &s->token_count, err))
        return false;
    if (s->token_count == 0)
        return mtr_fail(err, MTR_INVALID, "%s: missing or empty", KEY("tokens"));
    return read_strings(g, arena, KEY("merges"), &s->merges, &s->merge_count, err) &&
           read_scores(g, arena, s, err) && read_types(g, arena, s, err) && read_ids(g, s, err);
}

struct mtr_tokenizer *mtr_tokenizer_from_gguf(const struct mtr_gguf *g, struct mtr_error *err)
{
    struct mtr_arena arena;
    struct mtr_vocab_source source = {0};
    mtr_arena_init(&arena, 0);
    struct mtr_tokenizer *t = NULL;
    if (read_source(g, &arena, &source, err))
        t = mtr_tokenizer_from_source(&source, err);
    mtr_arena_free(&arena);
    return t;
}
