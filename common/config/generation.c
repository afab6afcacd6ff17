/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where a model's answers end is said in several places that do not agree: generation_config.json
 * is later and wins over config.json; a GGUF file has one eos id and maybe an end-of-turn id, and
 * files of chat models whose converter did not know the difference have neither. For those the
 * control tokens are looked through for the texts that publishers use to end a turn.
 */
#include "common/config/config.h"

#include <inttypes.h>
#include <stddef.h>

#include "common/checkpoint/gguf.h"

#define MAX_TOKEN_ID  INT32_MAX
#define CONTROL_TOKEN 3 /* tokenizer.ggml.token_type of special tokens */

static void add_eos(struct mtr_generation *g, int64_t id)
{
    for (uint32_t i = 0; i < g->eos_count; i++)
        if (g->eos_ids[i] == id)
            return;
    if (g->eos_count < MTR_GENERATION_MAX_EOS)
        g->eos_ids[g->eos_count++] = (int32_t)id;
}

static bool one_eos(struct mtr_generation *g, const struct mtr_json *v, struct mtr_error *err)
{
    if (v->kind != MTR_JSON_INT || v->big || v->integer < 0 || v->integer > MAX_TOKEN_ID)
        return mtr_fail(err, MTR_INVALID, "eos_token_id is %s, expected token ids",
                        mtr_json_kind_name(v));
    add_eos(g, v->integer);
    return true;
}

/* A number, a list of numbers, or nothing; ids found earlier win as a whole. */
static bool read_eos(struct mtr_generation *g, const struct mtr_json *o, struct mtr_error *err)
{
    const struct mtr_json *v = mtr_json_get(o, "eos_token_id");
    if (!v || v->kind == MTR_JSON_NULL || g->eos_count > 0)
        return true;
    if (v->kind != MTR_JSON_ARRAY)
        return one_eos(g, v, err);
    if (v->count > MTR_GENERATION_MAX_EOS)
        return mtr_fail(err, MTR_TOO_LARGE,
                        "eos_token_id has %" PRIu32 " ids, at most %d are allowed", v->count,
                        MTR_GENERATION_MAX_EOS);
    for (uint32_t i = 0; i < v->count; i++)
        if (!one_eos(g, &v->items[i], err))
            return false;
    return true;
}

/* An id that only the first source to say it sets. Older configs write a list or -1 for "none". */
static bool read_id(const struct mtr_json *o, const char *key, int64_t *id, struct mtr_error *err)
{
    const struct mtr_json *v = mtr_json_get(o, key);
    if (*id >= 0 || !v || v->kind == MTR_JSON_NULL)
        return true;
    if (v->kind == MTR_JSON_ARRAY && v->count > 0)
        v = &v->items[0];
    if (v->kind != MTR_JSON_INT || v->big || v->integer < -1 || v->integer > MAX_TOKEN_ID)
        return mtr_fail(err, MTR_INVALID, "%s is %s, expected a token id", key,
                        mtr_json_kind_name(v));
    *id = v->integer;
    return true;
}

static bool read_ids(struct mtr_generation *g, const struct mtr_json *o, struct mtr_error *err)
{
    return read_eos(g, o, err) && read_id(o, "bos_token_id", &g->bos_id, err) &&
           read_id(o, "pad_token_id", &g->pad_id, err);
}

static bool read_sampling(struct mtr_generation *g, const struct mtr_json *o, struct mtr_error *err)
{
    bool do_sample = true;
    if (!mtr_json_opt_bool(o, "do_sample", &do_sample, err) ||
        !mtr_json_opt_f64(o, "temperature", 0, 100, &g->temperature, err) ||
        !mtr_json_opt_f64(o, "top_p", 0, 1, &g->top_p, err) ||
        !mtr_json_opt_f64(o, "min_p", 0, 1, &g->min_p, err) ||
        !mtr_json_opt_i64(o, "top_k", -1, INT32_MAX, &g->top_k, err) ||
        !mtr_json_opt_f64(o, "repetition_penalty", 0, 100, &g->repetition_penalty, err))
        return false;
    if (!do_sample && g->temperature < 0)
        g->temperature = 0;
    return true;
}

/* The object of a text, in the scratch arena; NULL when there is no such file. */
static bool object_of(const struct mtr_checkpoint *ck, enum mtr_checkpoint_text which,
                      struct mtr_arena *scratch, const struct mtr_json **out, struct mtr_error *err)
{
    struct mtr_str text;
    *out = NULL;
    if (!mtr_checkpoint_text(ck, scratch, which, &text, err))
        return false;
    if (!text.ptr)
        return true;
    *out = mtr_json_parse(scratch, text, MTR_JSON_NONFINITE, err);
    if (*out && (*out)->kind == MTR_JSON_OBJECT)
        return true;
    return *out &&
           mtr_fail(err, MTR_INVALID, "is %s, expected an object", mtr_json_kind_name(*out));
}

static bool from_folder(const struct mtr_checkpoint *ck, struct mtr_arena *scratch,
                        struct mtr_generation *g, struct mtr_error *err)
{
    const struct mtr_json *own, *config;
    if (!object_of(ck, MTR_TEXT_GENERATION_CONFIG, scratch, &own, err) ||
        (own && !(read_ids(g, own, err) && read_sampling(g, own, err))))
        return mtr_error_prefix(err, "%s/generation_config.json", ck->folder);
    if (!object_of(ck, MTR_TEXT_CONFIG, scratch, &config, err) ||
        (config &&
         !(read_ids(g, config, err) && read_ids(g, mtr_json_get(config, "text_config"), err))))
        return mtr_error_prefix(err, "%s", ck->config_path);
    return true;
}

/* Control tokens with these texts end a turn, whatever the metadata says. */
static const char *const end_texts[] = {
    "<|im_end|>", "<|eot_id|>",    "<|eom_id|>",
    "<turn|>",    "<end_of_turn>", "<|END_OF_TURN_TOKEN|>",
    "<|return|>", "<|endoftext|>", "<|end_of_text|>",
    "<|call|>",   "<|eom|>",       "<|eot|>",
};

static bool ends_turn(struct mtr_str text)
{
    for (size_t i = 0; i < sizeof end_texts / sizeof end_texts[0]; i++)
        if (mtr_str_is(text, end_texts[i]))
            return true;
    return false;
}

/* "<|end|>" ends a turn in most formats, but only a message of it where "<|return|>" exists. */
static bool add_ends_by_text(const struct mtr_gguf *f, struct mtr_generation *g,
                             struct mtr_error *err)
{
    struct mtr_gguf_array tokens = {0}, types = {0};
    struct mtr_gguf_cursor cursor = {0};
    struct mtr_str text;
    int64_t end_id = -1;
    bool has_return = false;
    if (!mtr_gguf_opt_strings(f, "tokenizer.ggml.tokens", &tokens, err) ||
        !mtr_gguf_opt_numbers(f, "tokenizer.ggml.token_type", &types, err))
        return false;
    while (mtr_gguf_next(&tokens, &cursor, &text)) {
        int64_t id = (int64_t)cursor.index - 1;
        if (mtr_gguf_item_i64(&types, (uint64_t)id) != CONTROL_TOKEN)
            continue;
        if (ends_turn(text))
            add_eos(g, id);
        if (mtr_str_is(text, "<|end|>"))
            end_id = id;
        has_return |= mtr_str_is(text, "<|return|>");
    }
    if (end_id >= 0 && !has_return)
        add_eos(g, end_id);
    return true;
}

static bool gguf_eos(const struct mtr_gguf *f, const char *key, struct mtr_generation *g,
                     struct mtr_error *err)
{
    int64_t id = -1;
    if (!mtr_gguf_opt_i64(f, key, 0, UINT32_MAX, &id, err))
        return false;
    if (id >= 0 && id <= MAX_TOKEN_ID) /* converters write 0xffffffff for "none" */
        add_eos(g, id);
    return true;
}

static bool from_gguf(const struct mtr_gguf *f, struct mtr_generation *g, struct mtr_error *err)
{
    static const struct {
        const char *key;
        size_t field; /* offset of a double in struct mtr_generation */
        double max;
    } reals[] = {
        {"general.sampling.temp", offsetof(struct mtr_generation, temperature), 100},
        {"general.sampling.top_p", offsetof(struct mtr_generation, top_p), 1},
        {"general.sampling.min_p", offsetof(struct mtr_generation, min_p), 1},
        {"general.sampling.penalty_repeat", offsetof(struct mtr_generation, repetition_penalty),
         100},
    };
    if (!gguf_eos(f, "tokenizer.ggml.eos_token_id", g, err) ||
        !gguf_eos(f, "tokenizer.ggml.eot_token_id", g, err) ||
        !gguf_eos(f, "tokenizer.ggml.eom_token_id", g, err) ||
        !mtr_gguf_opt_i64(f, "tokenizer.ggml.bos_token_id", 0, UINT32_MAX, &g->bos_id, err) ||
        !mtr_gguf_opt_i64(f, "tokenizer.ggml.padding_token_id", 0, UINT32_MAX, &g->pad_id, err) ||
        !mtr_gguf_opt_i64(f, "general.sampling.top_k", -1, INT32_MAX, &g->top_k, err))
        return false;
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
        if (!mtr_gguf_opt_f64(f, reals[i].key, 0, reals[i].max,
                              (double *)((char *)g + reals[i].field), err))
            return false;
    if (g->bos_id > MAX_TOKEN_ID)
        g->bos_id = -1;
    if (g->pad_id > MAX_TOKEN_ID)
        g->pad_id = -1;
    return add_ends_by_text(f, g, err);
}

bool mtr_generation_read(const struct mtr_checkpoint *ck, struct mtr_generation *out,
                         struct mtr_error *err)
{
    struct mtr_arena scratch;
    *out = (struct mtr_generation){.bos_id = -1,
                                   .pad_id = -1,
                                   .temperature = -1,
                                   .top_p = -1,
                                   .min_p = -1,
                                   .top_k = -1,
                                   .repetition_penalty = -1};
    if (ck->gguf)
        return from_gguf(ck->gguf, out, err) || mtr_error_prefix(err, "%s", ck->path);
    mtr_arena_init(&scratch, 0);
    bool ok = from_folder(ck, &scratch, out, err);
    mtr_arena_free(&scratch);
    return ok;
}
