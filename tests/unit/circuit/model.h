/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Models for tests of the compiler: settings from tests/data/configs, with members changed, and
 * tensors from a list of patterns: {"blk.{l}.attn_q.weight": ["q4_1", 576, 576], ...}.
 */
#ifndef MTR_UNIT_CIRCUIT_MODEL_H
#define MTR_UNIT_CIRCUIT_MODEL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/hash.h"
#include "common/circuit/config_map.h"
#include "common/circuit/rules.h"
#include "tests/unit/check_main.h"

struct model {
    struct mtr_arena arena;
    struct mtr_error err;
    struct mtr_model_source source;
    const struct mtr_json *patterns;
    uint32_t layers;
    const char *absent; /* a tensor that the list lacks, or NULL */
};

static inline const char *source_path(struct model *m, const char *path)
{
    const char *root = getenv("MTR_SOURCE_ROOT");
    return mtr_arena_printf(&m->arena, "%s/%s", root ? root : ".", path);
}

static inline struct mtr_str read_source(struct model *m, const char *path)
{
    FILE *f = fopen(source_path(m, path), "rb");
    if (!f)
        return (struct mtr_str){NULL, 0};
    struct mtr_buf b = {0};
    char part[4096];
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
        mtr_buf_append(&b, part, n);
    fclose(f);
    struct mtr_str text = mtr_arena_str(&m->arena, mtr_buf_view(&b));
    mtr_buf_free(&b);
    return text;
}

static inline const struct mtr_json *parse(struct model *m, struct mtr_str text)
{
    const struct mtr_json *v = mtr_json_parse(&m->arena, text, MTR_JSON_NONFINITE, &m->err);
    ck_assert_msg(v != NULL, "%s in %.*s", m->err.message, MTR_STR_ARG(text));
    return v;
}

/* "a.{l}.b" matches "a.3.b" for 3 < layers. */
static inline bool pattern_is(const struct model *m, struct mtr_str pattern, struct mtr_str name)
{
    size_t at = mtr_str_find(pattern, MTR_STR("{l}"), 0);
    if (at == SIZE_MAX)
        return mtr_str_equal(pattern, name);
    struct mtr_str head = mtr_str_sub(pattern, 0, at);
    struct mtr_str tail = mtr_str_sub(pattern, at + 3, SIZE_MAX);
    if (name.len < head.len + tail.len || !mtr_str_starts(name, head) || !mtr_str_ends(name, tail))
        return false;
    uint64_t layer;
    return mtr_str_to_u64(mtr_str_sub(name, at, name.len - head.len - tail.len), &layer) &&
           layer < m->layers;
}

static inline bool find_tensor(const void *tensors, struct mtr_str name,
                               struct mtr_model_tensor *out)
{
    const struct model *m = tensors;
    if (m->absent && mtr_str_is(name, m->absent))
        return false;
    for (uint32_t i = 0; i < m->patterns->count; i++) {
        const struct mtr_json_member *p = &m->patterns->members[i];
        if (!pattern_is(m, p->key, name))
            continue;
        *out = (struct mtr_model_tensor){.name = name, .rank = p->value.count - 1};
        ck_assert(mtr_format_parse(p->value.items[0].text, &out->format));
        for (uint32_t k = 1; k < p->value.count; k++)
            out->shape[k - 1] = (uint64_t)p->value.items[k].integer;
        return true;
    }
    return false;
}

static inline void model_start(struct model *m)
{
    memset(m, 0, sizeof *m);
    mtr_arena_init(&m->arena, 0);
}

static inline void model_free(struct model *m)
{
    mtr_arena_free(&m->arena);
}

/* Settings from a file of tests/data/configs, without tensors. */
static inline void model_config(struct model *m, const char *file)
{
    model_start(m);
    struct mtr_str text =
        read_source(m, mtr_arena_printf(&m->arena, "tests/data/configs/%s", file));
    ck_assert_msg(text.ptr != NULL, "no %s", file);
    m->source.config = parse(m, text);
    m->source.gguf = strstr(file, ".gguf.") != NULL;
}

static inline void model_tensors(struct model *m, struct mtr_str patterns, uint32_t layers)
{
    m->patterns = parse(m, patterns);
    m->layers = layers;
    m->source.find = find_tensor;
    m->source.tensors = m;
}

static inline void model_smollm2_gguf(struct model *m)
{
    model_config(m, "smollm2-135m.gguf.json");
    model_tensors(m, read_source(m, "tests/data/configs/smollm2-135m.gguf.tensors.json"), 30);
}

/* Sets a member of an object to JSON text, or removes it (NULL). */
static inline const struct mtr_json *changed(struct model *m, const struct mtr_json *o,
                                             const char *key, const char *value)
{
    struct mtr_buf b = {0};
    struct mtr_json_writer w = mtr_json_writer(&b);
    mtr_json_begin_object(&w);
    for (uint32_t i = 0; i < o->count; i++) {
        if (mtr_str_is(o->members[i].key, key))
            continue;
        mtr_json_key_str(&w, o->members[i].key);
        mtr_json_put_value(&w, &o->members[i].value);
    }
    if (value) {
        mtr_json_key(&w, key);
        mtr_json_put_raw(&w, mtr_str(value));
    }
    mtr_json_end_object(&w);
    const struct mtr_json *v = parse(m, mtr_arena_str(&m->arena, mtr_buf_view(&b)));
    mtr_buf_free(&b);
    return v;
}

static inline void model_set(struct model *m, const char *key, const char *value)
{
    m->source.config = changed(m, m->source.config, key, value);
}

static inline struct mtr_plan *model_plan(struct model *m)
{
    struct mtr_plan_options options = {.hardware = "host", .cache = MTR_FORMAT_COUNT};
    return mtr_plan_build(&m->arena, &m->source, &options, &m->err);
}

/* The plan, or a failed test with the refusal. */
static inline const struct mtr_plan *good_plan(struct model *m)
{
    const struct mtr_plan *plan = model_plan(m);
    ck_assert_msg(plan != NULL, "%s", m->err.message);
    return plan;
}

/* Fails unless the plan is refused with this code and these words. */
static inline void refused(struct model *m, enum mtr_code code, const char *words)
{
    memset(&m->err, 0, sizeof m->err);
    ck_assert_msg(model_plan(m) == NULL, "not refused: %s", words);
    ck_assert_msg(m->err.code == code && strstr(m->err.message, words), "%s: %s (expected: %s)",
                  mtr_code_name(m->err.code), m->err.message, words);
}

#endif
