/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * config.json is parsed as it is; GGUF metadata is turned into the tree that a parser would have
 * made of the same settings written as JSON, so that whoever reads settings knows one kind of
 * value.
 */
#include "common/config/config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/utf8.h"
#include "common/checkpoint/gguf.h"

static bool no_memory(struct mtr_error *err)
{
    return mtr_fail(err, MTR_NO_MEMORY, "no memory for the configuration");
}

/* The shortest text that reads back as the same float, or as the same double. */
static struct mtr_str real_text(struct mtr_arena *arena, double v, bool single)
{
    char text[40];
    if (isnan(v))
        return MTR_STR("NaN");
    if (isinf(v))
        return v > 0 ? MTR_STR("Infinity") : MTR_STR("-Infinity");
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (single ? strtof(text, NULL) == (float)v : strtod(text, NULL) == v)
            break;
    }
    if (!strpbrk(text, ".e"))
        return mtr_str(mtr_arena_printf(arena, "%s.0", text));
    return mtr_arena_str(arena, mtr_str(text));
}

static bool put_i64(struct mtr_arena *arena, int64_t i, struct mtr_json *out)
{
    *out = (struct mtr_json){.kind = MTR_JSON_INT, .integer = i};
    out->text = mtr_str(mtr_arena_printf(arena, "%" PRId64, i));
    return out->text.ptr;
}

static bool put_u64(struct mtr_arena *arena, uint64_t u, struct mtr_json *out)
{
    if (u <= INT64_MAX)
        return put_i64(arena, (int64_t)u, out);
    *out = (struct mtr_json){.kind = MTR_JSON_INT, .big = true, .real = (double)u};
    out->text = mtr_str(mtr_arena_printf(arena, "%" PRIu64, u));
    return out->text.ptr;
}

static bool put_real(struct mtr_arena *arena, double v, bool single, struct mtr_json *out)
{
    *out = (struct mtr_json){.kind = MTR_JSON_REAL, .real = v};
    out->text = real_text(arena, v, single);
    return out->text.ptr;
}

static bool put_string(struct mtr_str s, struct mtr_json *out, struct mtr_error *err)
{
    *out = (struct mtr_json){.kind = MTR_JSON_STRING, .text = s};
    return mtr_utf8_valid(s) || mtr_fail(err, MTR_INVALID, "is not valid UTF-8");
}

/* Item i of an array of numbers or booleans. */
static bool put_item(struct mtr_arena *arena, const struct mtr_gguf_array *a, uint64_t i,
                     struct mtr_json *out)
{
    if (a->type == MTR_GGUF_F32 || a->type == MTR_GGUF_F64)
        return put_real(arena, mtr_gguf_item_f64(a, i), a->type == MTR_GGUF_F32, out);
    if (a->type != MTR_GGUF_BOOL)
        return put_i64(arena, mtr_gguf_item_i64(a, i), out);
    *out = (struct mtr_json){.kind = MTR_JSON_BOOL, .boolean = mtr_gguf_item_i64(a, i) != 0};
    return true;
}

static bool put_array(struct mtr_arena *arena, const struct mtr_gguf_array *a, struct mtr_json *out,
                      struct mtr_error *err)
{
    struct mtr_gguf_cursor cursor = {0};
    struct mtr_str s;
    struct mtr_json *items = mtr_arena_calloc(arena, a->count + 1, sizeof *items);
    if (!items)
        return no_memory(err);
    for (uint64_t i = 0; i < a->count; i++) {
        bool text = mtr_gguf_next(a, &cursor, &s);
        if (text ? !put_string(s, &items[i], err) : !put_item(arena, a, i, &items[i]))
            return text ? mtr_error_prefix(err, "item %" PRIu64, i) : no_memory(err);
    }
    *out = (struct mtr_json){.kind = MTR_JSON_ARRAY, .count = (uint32_t)a->count, .items = items};
    return true;
}

static bool put_value(struct mtr_arena *arena, const struct mtr_gguf_kv *kv, struct mtr_json *out,
                      struct mtr_error *err)
{
    switch (kv->type) {
    case MTR_GGUF_U8:
    case MTR_GGUF_U16:
    case MTR_GGUF_U32:
    case MTR_GGUF_U64:
        return put_u64(arena, kv->u, out) || no_memory(err);
    case MTR_GGUF_F32:
    case MTR_GGUF_F64:
        return put_real(arena, kv->f, kv->type == MTR_GGUF_F32, out) || no_memory(err);
    case MTR_GGUF_BOOL:
        *out = (struct mtr_json){.kind = MTR_JSON_BOOL, .boolean = kv->b};
        return true;
    case MTR_GGUF_STRING:
        return put_string(kv->s, out, err);
    case MTR_GGUF_ARRAY:
        return put_array(arena, &kv->array, out, err);
    default:
        return put_i64(arena, kv->i, out) || no_memory(err);
    }
}

/* Settings of the text side, and what is as large as a vocabulary, are no business of circuits. */
static bool is_setting(const struct mtr_gguf_kv *kv)
{
    return !mtr_str_starts(kv->key, MTR_STR("tokenizer.")) &&
           !(kv->type == MTR_GGUF_ARRAY && kv->array.count > MTR_CONFIG_MAX_ARRAY);
}

static bool gguf_document(struct mtr_arena *arena, const struct mtr_gguf *g, struct mtr_config *out,
                          struct mtr_error *err)
{
    struct mtr_json *root = mtr_arena_calloc(arena, 1, sizeof *root);
    struct mtr_json_member *members = mtr_arena_calloc(arena, g->kv_count + 1u, sizeof *members);
    if (!root || !members)
        return no_memory(err);
    root->kind = MTR_JSON_OBJECT;
    root->members = members;
    for (uint32_t i = 0; i < g->kv_count; i++) {
        const struct mtr_gguf_kv *kv = &g->kv[i];
        if (!is_setting(kv))
            continue;
        members[root->count].key = kv->key;
        if (!put_value(arena, kv, &members[root->count].value, err))
            return mtr_error_prefix(err, "metadata \"%.*s\"",
                                    kv->key.len > 80 ? 80 : (int)kv->key.len, kv->key.ptr);
        root->count++;
    }
    struct mtr_gguf_array tokens = {0};
    if (!mtr_gguf_opt_str(g, "general.architecture", &out->architecture, err) ||
        !mtr_gguf_opt_strings(g, "tokenizer.ggml.tokens", &tokens, err))
        return false;
    if (out->architecture.len == 0)
        return mtr_fail(err, MTR_INVALID, "metadata \"general.architecture\" is missing");
    out->root = root;
    out->vocab_tokens = tokens.count;
    return true;
}

/* A JSON object beside the tensors; NULL in *out when there is none. */
static bool read_object(struct mtr_arena *arena, const struct mtr_checkpoint *ck,
                        enum mtr_checkpoint_text which, const struct mtr_json **out,
                        struct mtr_error *err)
{
    struct mtr_str text;
    *out = NULL;
    if (!mtr_checkpoint_text(ck, arena, which, &text, err))
        return false;
    if (!text.ptr)
        return true;
    const char *path = which == MTR_TEXT_CONFIG ? ck->config_path : mtr_checkpoint_text_name(which);
    *out = mtr_json_parse(arena, text, MTR_JSON_NONFINITE, err);
    if (!*out)
        return mtr_error_prefix(err, "%s", path);
    if ((*out)->kind != MTR_JSON_OBJECT)
        return mtr_fail(err, MTR_INVALID, "%s: is %s, expected an object", path,
                        mtr_json_kind_name(*out));
    return true;
}

static bool folder_document(struct mtr_arena *arena, const struct mtr_checkpoint *ck,
                            struct mtr_config *out, struct mtr_error *err)
{
    if (!read_object(arena, ck, MTR_TEXT_CONFIG, &out->root, err) ||
        !read_object(arena, ck, MTR_TEXT_QUANT_CONFIG, &out->quant, err))
        return false;
    if (!out->root)
        return mtr_fail(err, MTR_NOT_FOUND, "%s: no such file, so nothing says what the model is",
                        ck->config_path);
    if (!mtr_json_opt_str(out->root, "model_type", &out->architecture, err))
        return mtr_error_prefix(err, "%s", ck->config_path);
    return true;
}

bool mtr_config_read(struct mtr_arena *arena, const struct mtr_checkpoint *ck,
                     struct mtr_config *out, struct mtr_error *err)
{
    *out = (struct mtr_config){.gguf = ck->gguf != NULL, .architecture = MTR_STR("")};
    if (ck->gguf)
        return gguf_document(arena, ck->gguf, out, err) || mtr_error_prefix(err, "%s", ck->path);
    return folder_document(arena, ck, out, err);
}
