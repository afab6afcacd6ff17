/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "broker/engine/model.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "broker/text/template.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/gguf.h"
#include "common/circuit/compile.h"
#include "common/circuit/preflight.h"
#include "common/circuit/source.h"
#include "common/circuit/target.h"
#include "common/config/config.h"

#define MODEL_ARENA_BYTES  ((size_t)4 << 30)
#define MAX_TEMPLATE_BYTES (4u << 20)

/* ---- Tokenizer --------------------------------------------------------------------------------
 */

static bool load_tokenizer(struct mtr_served_model *m, struct mtr_error *err)
{
    struct mtr_str json, config;
    if (m->checkpoint->gguf) {
        m->tokenizer = mtr_tokenizer_from_gguf(m->checkpoint->gguf, err);
    } else {
        if (!mtr_checkpoint_text(m->checkpoint, &m->arena, MTR_TEXT_TOKENIZER, &json, err) ||
            !mtr_checkpoint_text(m->checkpoint, &m->arena, MTR_TEXT_TOKENIZER_CONFIG, &config, err))
            return false;
        if (!json.ptr)
            return mtr_fail(err, MTR_NOT_FOUND, "%s has no tokenizer.json", m->checkpoint->path);
        m->tokenizer = mtr_tokenizer_from_json(json, config, err);
    }
    return m->tokenizer || mtr_error_prefix(err, "tokenizer");
}

static bool check_vocabulary(const struct mtr_served_model *m, struct mtr_error *err)
{
    uint32_t size = mtr_tokenizer_size(m->tokenizer);
    return size <= m->plan->vocab ||
           mtr_fail(err, MTR_INVALID, "the tokenizer has %u tokens, the model only %u", size,
                    m->plan->vocab);
}

/* ---- Chat template ----------------------------------------------------------------------------
 */

/* bos_token and friends, as transformers gives them to a template. */
static bool template_variables(struct mtr_served_model *m, struct mtr_error *err)
{
    const struct {
        const char *name;
        uint32_t id;
    } tokens[] = {
        {"bos_token", mtr_tokenizer_bos(m->tokenizer)},
        {"eos_token", mtr_tokenizer_eos(m->tokenizer)},
        {"pad_token", mtr_tokenizer_pad(m->tokenizer)},
        {"unk_token", mtr_tokenizer_unknown(m->tokenizer)},
    };
    size_t n = sizeof tokens / sizeof tokens[0];
    struct mtr_json_member *members = mtr_arena_calloc(&m->arena, n, sizeof *members);
    struct mtr_json *object = mtr_arena_calloc(&m->arena, 1, sizeof *object);
    if (!members || !object)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory loading the model");
    object->kind = MTR_JSON_OBJECT;
    object->members = members;
    for (size_t i = 0; i < n; i++)
        if (tokens[i].id != MTR_TOKEN_NONE)
            members[object->count++] = (struct mtr_json_member){
                mtr_str(tokens[i].name),
                {.kind = MTR_JSON_STRING, .text = mtr_token_name(m->tokenizer, tokens[i].id)}};
    m->template_variables = object;
    return true;
}

/* The tokens that end reasoning where its budget is spent. */
static bool encode_think_end(struct mtr_served_model *m, struct mtr_error *err)
{
    struct mtr_buf text = {0};
    struct mtr_ids ids = {0};
    bool ok = true;
    mtr_formats_think_end(m->formats.reasoning, &text);
    struct mtr_encoder *encoder = text.len ? mtr_encoder_new(m->tokenizer) : NULL;
    if (encoder)
        ok = mtr_encode(encoder, mtr_buf_view(&text), MTR_ENCODE_PARSE_SPECIAL, &ids, err);
    uint32_t *kept = mtr_arena_calloc(&m->arena, ids.count + 1, sizeof *kept);
    if (ok && kept && ids.count)
        memcpy(kept, ids.ids, ids.count * sizeof *kept);
    m->think_end = kept;
    m->think_end_count = (uint32_t)ids.count;
    ok = ok && (kept || mtr_fail(err, MTR_NO_MEMORY, "out of memory loading the model"));
    mtr_ids_free(&ids);
    mtr_encoder_free(encoder);
    mtr_buf_free(&text);
    return ok;
}

static bool load_formats(struct mtr_served_model *m, const struct mtr_served_model_options *o,
                         struct mtr_str source, struct mtr_error *err)
{
    m->disable_thinking = o->disable_thinking;
    m->max_thinking_budget = o->max_thinking_budget;
    return mtr_formats_choose(m->chat_template, source, o->tool_parser, o->reasoning_parser,
                              &m->formats, err) &&
           encode_think_end(m, err);
}

static bool load_template(struct mtr_served_model *m, const struct mtr_served_model_options *o,
                          struct mtr_error *err)
{
    const char *file = o->template_file;
    struct mtr_str source = {0};
    bool ok = file ? mtr_file_read(&m->arena, file, MAX_TEMPLATE_BYTES, &source, err)
                   : mtr_checkpoint_chat_template(m->checkpoint, &m->arena, NULL, &source, err);
    if (!ok)
        return false;
    if (!source.ptr)
        return true; /* chat requests will be refused, completions served */
    m->chat_template = mtr_template_compile(&m->arena, source, err);
    if (!m->chat_template)
        return mtr_error_prefix(err, "chat template");
    return template_variables(m, err) && load_formats(m, o, source, err);
}

/* ---- Generation settings ----------------------------------------------------------------------
 */

static bool add_stop(struct mtr_served_model *m, uint32_t *ids, uint32_t id)
{
    for (uint32_t i = 0; i < m->stop_count; i++)
        if (ids[i] == id)
            return false;
    ids[m->stop_count++] = id;
    return true;
}

/* Harmony's <|end|> ends a message, and the answer has several. */
static bool ends_message_only(const struct mtr_served_model *m, uint32_t id)
{
    const struct mtr_parse_format *f = m->formats.tools;
    return f && f->grammar == MTR_CALLS_HARMONY &&
           mtr_str_is(mtr_token_name(m->tokenizer, id), "<|end|>");
}

/* The checkpoint's word, then what the class knows of the model, then nothing. */
static double said(double checkpoint, double target, double otherwise)
{
    return checkpoint >= 0 ? checkpoint : target >= 0 ? target : otherwise;
}

static bool load_generation(struct mtr_served_model *m, struct mtr_error *err)
{
    static const struct mtr_target_model nothing = {
        .temperature = -1, .top_p = -1, .min_p = -1, .repetition_penalty = -1, .top_k = -1};
    const struct mtr_target_model *t = m->target ? m->target : &nothing;
    struct mtr_generation g;
    size_t eog_count;
    const uint32_t *eog = mtr_tokenizer_eog(m->tokenizer, &eog_count);
    if (!mtr_generation_read(m->checkpoint, &g, err))
        return false;
    uint32_t *ids = mtr_arena_calloc(&m->arena, eog_count + g.eos_count + 1, sizeof *ids);
    if (!ids)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory loading the model");
    for (uint32_t i = 0; i < g.eos_count; i++)
        if (g.eos_ids[i] >= 0 && (uint32_t)g.eos_ids[i] < m->plan->vocab)
            add_stop(m, ids, (uint32_t)g.eos_ids[i]);
    for (size_t i = 0; i < eog_count; i++)
        if (!ends_message_only(m, eog[i]))
            add_stop(m, ids, eog[i]);
    m->stop_ids = ids;
    m->defaults = (struct mtr_served_model_defaults){
        .temperature = (float)said(g.temperature, t->temperature, 1),
        .top_p = (float)said(g.top_p, t->top_p, 1),
        .min_p = (float)said(g.min_p, t->min_p, 0),
        .top_k = (uint32_t)said((double)g.top_k, t->top_k, 0),
        .repetition_penalty = (float)said(g.repetition_penalty, t->repetition_penalty, 1),
    };
    return true;
}

/* ---- Plan -------------------------------------------------------------------------------------
 */

static bool take_variables(struct mtr_served_model *m, const struct mtr_target_model *t,
                           struct mtr_error *err)
{
    struct mtr_json_member *members =
        mtr_arena_calloc(&m->arena, t->variable_count, sizeof *members);
    struct mtr_json *object = mtr_arena_calloc(&m->arena, 1, sizeof *object);
    if (!members || !object)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory loading the model");
    for (uint32_t i = 0; i < t->variable_count; i++)
        members[i] =
            (struct mtr_json_member){mtr_str(t->variables[i].name),
                                     {.kind = MTR_JSON_BOOL, .boolean = t->variables[i].value}};
    *object =
        (struct mtr_json){.kind = MTR_JSON_OBJECT, .count = t->variable_count, .members = members};
    m->template_defaults = object;
    return true;
}

static bool choose_target(struct mtr_served_model *m, struct mtr_str model_type,
                          struct mtr_error *err)
{
    uint32_t count;
    const struct mtr_target_model *models = mtr_target_models(&count);
    const struct mtr_target_subject subject = {m->plan->hardware, model_type, m->plan->hidden,
                                               mtr_str(m->checkpoint->name)};
    return mtr_target_choose(models, count, &subject, &m->target, err) &&
           (!m->target || !m->target->variable_count || take_variables(m, m->target, err));
}

static bool load_plan(struct mtr_served_model *m, const struct mtr_served_model_options *o,
                      struct mtr_error *err)
{
    struct mtr_config config;
    struct mtr_plan_options options = {
        .hardware = o->hardware,
        .precision = o->precision,
        .block_tokens = o->block_tokens,
        .limits = o->limits,
    };
    if (!mtr_format_parse(mtr_str(o->cache_format), &options.cache))
        return mtr_fail(err, MTR_INVALID, "there is no cache format '%s'", o->cache_format);
    if (!mtr_config_read(&m->arena, m->checkpoint, &config, err))
        return false;
    struct mtr_model_source source = mtr_model_source_of(m->checkpoint, &config);
    m->plan = mtr_plan_build(&m->arena, &source, &options, err);
    if (!m->plan)
        return false;
    m->max_sequence_tokens = m->plan->limits.max_sequence_tokens;
    m->compact_above = (uint32_t)(o->auto_compact * m->max_sequence_tokens);
    if (!choose_target(m, config.architecture, err))
        return false;
    /* The workers look too, but a checkpoint that can't be served should be refused before any is
     * started. */
    return o->dummy_weights || mtr_preflight(m->plan, m->checkpoint, NULL, err);
}

static bool load(struct mtr_served_model *m, const struct mtr_served_model_options *o,
                 struct mtr_error *err)
{
    struct mtr_checkpoint_options options = {.cache_dir = o->cache_dir};
    m->checkpoint = mtr_checkpoint_open(&m->arena, o->model, &options, err);
    if (!m->checkpoint)
        return false;
    char *absolute = realpath(m->checkpoint->path, NULL);
    if (!absolute)
        return mtr_fail_errno(err, "%s", m->checkpoint->path);
    m->path = mtr_arena_strdup(&m->arena, mtr_str(absolute));
    free(absolute);
    m->name = mtr_str(o->name ? o->name : m->checkpoint->name);
    m->created = mtr_wall_seconds();
    return load_plan(m, o, err) && load_tokenizer(m, err) && check_vocabulary(m, err) &&
           load_template(m, o, err) && load_generation(m, err);
}

struct mtr_served_model *mtr_served_model_load(const struct mtr_served_model_options *options,
                                               struct mtr_error *err)
{
    struct mtr_served_model *m = calloc(1, sizeof *m);
    if (!m) {
        mtr_fail(err, MTR_NO_MEMORY, "out of memory loading the model");
        return NULL;
    }
    mtr_arena_init(&m->arena, MODEL_ARENA_BYTES);
    if (!load(m, options, err)) {
        mtr_served_model_free(m);
        return NULL;
    }
    return m;
}

void mtr_served_model_free(struct mtr_served_model *m)
{
    if (!m)
        return;
    mtr_tokenizer_free(m->tokenizer);
    mtr_checkpoint_close(m->checkpoint);
    mtr_arena_free(&m->arena);
    free(m);
}

bool mtr_served_model_is(const struct mtr_served_model *m, struct mtr_str name,
                         struct mtr_error *err)
{
    return mtr_str_equal(name, m->name) ||
           mtr_fail_field(err, MTR_NOT_FOUND, "model",
                          "the model '%.*s' is not served here; '%.*s' is",
                          (int)(name.len < 120 ? name.len : 120), name.ptr ? name.ptr : "",
                          MTR_STR_ARG(m->name));
}
