/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The texts beside the tensors, and the chat template, which has had many homes.
 */
#include "common/checkpoint/checkpoint.h"

#include <stdio.h>

#include "common/base/json.h"
#include "common/base/utf8.h"
#include "common/checkpoint/gguf.h"

#define MAX_VARIANT_BYTES 64

static const char *const names[MTR_TEXT_COUNT] = {
    [MTR_TEXT_CONFIG] = "config.json",
    [MTR_TEXT_GENERATION_CONFIG] = "generation_config.json",
    [MTR_TEXT_TOKENIZER] = "tokenizer.json",
    [MTR_TEXT_TOKENIZER_CONFIG] = "tokenizer_config.json",
    [MTR_TEXT_CHAT_TEMPLATE] = "chat_template.jinja",
    [MTR_TEXT_CHAT_TEMPLATE_JSON] = "chat_template.json",
    [MTR_TEXT_QUANT_CONFIG] = "hf_quant_config.json",
    [MTR_TEXT_PREPROCESSOR_CONFIG] = "preprocessor_config.json",
    [MTR_TEXT_SPECIAL_TOKENS_MAP] = "special_tokens_map.json",
};

const char *mtr_checkpoint_text_name(enum mtr_checkpoint_text which)
{
    return names[which];
}

static bool read_optional(const char *path, struct mtr_arena *arena, struct mtr_str *out,
                          struct mtr_error *err)
{
    *out = (struct mtr_str){0};
    if (!path)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for a path");
    if (!mtr_file_exists(path))
        return true;
    return mtr_file_read(arena, path, MTR_CHECKPOINT_MAX_TEXT_BYTES, out, err);
}

bool mtr_checkpoint_text(const struct mtr_checkpoint *ck, struct mtr_arena *arena,
                         enum mtr_checkpoint_text which, struct mtr_str *out, struct mtr_error *err)
{
    *out = (struct mtr_str){0};
    if (!ck->folder)
        return true;
    if (which == MTR_TEXT_CONFIG)
        return read_optional(ck->config_path, arena, out, err);
    return read_optional(mtr_arena_printf(arena, "%s/%s", ck->folder, names[which]), arena, out,
                         err);
}

static bool is_main(const char *variant)
{
    return !variant || strcmp(variant, "default") == 0;
}

/* It becomes part of a path and of a key. */
static bool variant_ok(const char *variant)
{
    size_t len = strlen(variant);
    return len > 0 && len <= MAX_VARIANT_BYTES &&
           strspn(variant, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
               len;
}

static bool from_gguf(const struct mtr_gguf *g, struct mtr_arena *arena, const char *variant,
                      struct mtr_str *out, struct mtr_error *err)
{
    char key[sizeof "tokenizer.chat_template." + MAX_VARIANT_BYTES];
    snprintf(key, sizeof key, "tokenizer.chat_template%s%s", is_main(variant) ? "" : ".",
             is_main(variant) ? "" : variant);
    if (!mtr_gguf_opt_str(g, key, out, err))
        return false;
    if (!out->ptr)
        return true;
    if (!mtr_utf8_valid(*out))
        return mtr_fail(err, MTR_INVALID, "metadata \"%s\" is not valid UTF-8", key);
    *out = mtr_arena_str(arena, *out);
    return out->ptr || mtr_fail(err, MTR_NO_MEMORY, "no memory for the chat template");
}

/* {name, template} items of an old tokenizer_config.json. */
static const struct mtr_json *pick_variant(const struct mtr_json *list, const char *variant)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const struct mtr_json *name = mtr_json_get(&list->items[i], "name");
        if (name && name->kind == MTR_JSON_STRING &&
            mtr_str_is(name->text, is_main(variant) ? "default" : variant))
            return mtr_json_get(&list->items[i], "template");
    }
    return NULL;
}

static bool template_of(const struct mtr_json *v, const char *variant, struct mtr_arena *arena,
                        struct mtr_str *out, struct mtr_error *err)
{
    if (v && v->kind == MTR_JSON_ARRAY)
        v = pick_variant(v, variant);
    else if (v && v->kind == MTR_JSON_STRING && !is_main(variant))
        return true;
    if (!v || v->kind == MTR_JSON_NULL)
        return true;
    if (v->kind != MTR_JSON_STRING)
        return mtr_fail(err, MTR_INVALID, "chat_template is %s, expected a string or a list",
                        mtr_json_kind_name(v));
    *out = mtr_arena_str(arena, v->text);
    return out->ptr || mtr_fail(err, MTR_NO_MEMORY, "no memory for the chat template");
}

static bool from_json(const struct mtr_checkpoint *ck, struct mtr_arena *arena,
                      enum mtr_checkpoint_text which, const char *variant, struct mtr_str *out,
                      struct mtr_error *err)
{
    struct mtr_arena scratch;
    struct mtr_str text;
    mtr_arena_init(&scratch, 0);
    bool ok = mtr_checkpoint_text(ck, &scratch, which, &text, err);
    if (ok && text.ptr) {
        const struct mtr_json *root = mtr_json_parse(&scratch, text, MTR_JSON_NONFINITE, err);
        ok = root && template_of(mtr_json_get(root, "chat_template"), variant, arena, out, err);
        if (!ok)
            mtr_error_prefix(err, "%s/%s", ck->folder, names[which]);
    }
    mtr_arena_free(&scratch);
    return ok;
}

static bool from_jinja(const struct mtr_checkpoint *ck, struct mtr_arena *arena,
                       const char *variant, struct mtr_str *out, struct mtr_error *err)
{
    const char *path =
        is_main(variant)
            ? mtr_arena_printf(arena, "%s/chat_template.jinja", ck->folder)
            : mtr_arena_printf(arena, "%s/additional_chat_templates/%s.jinja", ck->folder, variant);
    if (!read_optional(path, arena, out, err))
        return false;
    if (out->ptr && !mtr_utf8_valid(*out))
        return mtr_fail(err, MTR_INVALID, "%s is not valid UTF-8", path);
    return true;
}

bool mtr_checkpoint_chat_template(const struct mtr_checkpoint *ck, struct mtr_arena *arena,
                                  const char *variant, struct mtr_str *out, struct mtr_error *err)
{
    *out = (struct mtr_str){0};
    if (!is_main(variant) && !variant_ok(variant))
        return mtr_fail(err, MTR_INVALID, "\"%.64s\" can't be the name of a chat template",
                        variant);
    if (ck->gguf)
        return from_gguf(ck->gguf, arena, variant, out, err) ||
               mtr_error_prefix(err, "%s", ck->path);
    if (!ck->folder)
        return true;
    if (!from_jinja(ck, arena, variant, out, err))
        return false;
    if (out->ptr)
        return true;
    return from_json(ck, arena, MTR_TEXT_CHAT_TEMPLATE_JSON, variant, out, err) &&
           (out->ptr || from_json(ck, arena, MTR_TEXT_TOKENIZER_CONFIG, variant, out, err));
}
