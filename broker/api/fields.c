/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The fields that every completion protocol shares, and the walk over a body.
 *
 * Ranges are OpenAI's where OpenAI has the field and those that people know from other open servers
 * (top_k, min_p, repetition_penalty, ...) elsewhere.
 */
#include "broker/api/fields.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_METADATA       16
#define MAX_METADATA_KEY   64
#define MAX_METADATA_VALUE 512

void mtr_chat_request_init(struct mtr_chat_request *r, struct mtr_arena *arena)
{
    *r = (struct mtr_chat_request){
        .arena = arena,
        .choices = 1,
        .sampling = mtr_sampling_greedy(),
        .skip_special = true,
    };
    r->sampling.temperature = 1;
}

static bool wrong_type(const struct mtr_json *v, const char *name, const char *wanted,
                       struct mtr_error *err)
{
    return mtr_fail_field(err, MTR_INVALID, name, "'%s' must be %s, not %s", name, wanted,
                          mtr_json_kind_name(v));
}

static bool read_real(const struct mtr_json *v, const char *name, double min, double max,
                      double *out, struct mtr_error *err)
{
    double d;
    *out = 0;
    if (!mtr_json_number(v, &d))
        return wrong_type(v, name, "a number", err);
    if (!(d >= min && d <= max))
        return mtr_fail_field(err, MTR_INVALID, name, "'%s' is %g, but must be from %g to %g", name,
                              d, min, max);
    *out = d;
    return true;
}

static bool read_count(const struct mtr_json *v, const char *name, int64_t min, int64_t max,
                       int64_t *out, struct mtr_error *err)
{
    *out = 0;
    if (v->kind != MTR_JSON_INT)
        return wrong_type(v, name, "an integer", err);
    if (v->big || v->integer < min || v->integer > max)
        return mtr_fail_field(err, MTR_INVALID, name, "'%s' is %.*s, but must be from %lld to %lld",
                              name, (int)(v->text.len < 40 ? v->text.len : 40), v->text.ptr,
                              (long long)min, (long long)max);
    *out = v->integer;
    return true;
}

static bool read_flag(const struct mtr_json *v, const char *name, bool *out, struct mtr_error *err)
{
    if (v->kind != MTR_JSON_BOOL)
        return wrong_type(v, name, "a boolean", err);
    *out = v->boolean;
    return true;
}

static bool f_model(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    if (v->kind != MTR_JSON_STRING)
        return wrong_type(v, "model", "a string", err);
    r->model = v->text;
    return true;
}

static bool f_max_tokens(struct mtr_chat_request *r, const struct mtr_json *v,
                         struct mtr_error *err)
{
    int64_t n;
    if (!read_count(v, "max_tokens", 1, UINT32_MAX, &n, err))
        return false;
    r->max_tokens = (uint32_t)n;
    return true;
}

static bool f_max_completion_tokens(struct mtr_chat_request *r, const struct mtr_json *v,
                                    struct mtr_error *err)
{
    int64_t n;
    if (!read_count(v, "max_completion_tokens", 1, UINT32_MAX, &n, err))
        return false;
    r->max_tokens = (uint32_t)n;
    return true;
}

static bool f_min_tokens(struct mtr_chat_request *r, const struct mtr_json *v,
                         struct mtr_error *err)
{
    int64_t n;
    if (!read_count(v, "min_tokens", 0, UINT32_MAX, &n, err))
        return false;
    r->min_tokens = (uint32_t)n;
    return true;
}

static bool f_n(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    int64_t n;
    if (!read_count(v, "n", 1, MTR_MAX_CHOICES, &n, err))
        return false;
    r->choices = (uint32_t)n;
    return true;
}

static bool f_temperature(struct mtr_chat_request *r, const struct mtr_json *v,
                          struct mtr_error *err)
{
    double d;
    if (!read_real(v, "temperature", 0, 2, &d, err))
        return false;
    r->sampling.temperature = (float)d;
    r->has_temperature = true;
    return true;
}

static bool f_top_p(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    double d;
    if (!read_real(v, "top_p", 0, 1, &d, err))
        return false;
    /* OpenAI accepts 0; the one best token is what it means. */
    r->sampling.top_p = d > 0 ? (float)d : 1e-6f;
    r->has_top_p = true;
    return true;
}

static bool f_top_k(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    int64_t n;
    if (!read_count(v, "top_k", -1, INT32_MAX, &n, err))
        return false;
    r->sampling.top_k = n > 0 ? (uint32_t)n : 0;
    r->has_top_k = true;
    return true;
}

static bool f_min_p(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    double d;
    if (!read_real(v, "min_p", 0, 1, &d, err))
        return false;
    r->sampling.min_p = (float)d;
    r->has_min_p = true;
    return true;
}

static bool f_top_n_sigma(struct mtr_chat_request *r, const struct mtr_json *v,
                          struct mtr_error *err)
{
    double d;
    if (!read_real(v, "top_n_sigma", -1, 1000, &d, err))
        return false;
    r->sampling.top_n_sigma = d > 0 ? (float)d : 0;
    r->has_top_n_sigma = true;
    return true;
}

static bool f_repetition_penalty(struct mtr_chat_request *r, const struct mtr_json *v,
                                 struct mtr_error *err)
{
    double d;
    if (!read_real(v, "repetition_penalty", 0.01, 100, &d, err))
        return false;
    r->sampling.repetition_penalty = (float)d;
    r->has_repetition_penalty = true;
    return true;
}

static bool f_presence_penalty(struct mtr_chat_request *r, const struct mtr_json *v,
                               struct mtr_error *err)
{
    double d;
    if (!read_real(v, "presence_penalty", -2, 2, &d, err))
        return false;
    r->sampling.presence_penalty = (float)d;
    return true;
}

static bool f_frequency_penalty(struct mtr_chat_request *r, const struct mtr_json *v,
                                struct mtr_error *err)
{
    double d;
    if (!read_real(v, "frequency_penalty", -2, 2, &d, err))
        return false;
    r->sampling.frequency_penalty = (float)d;
    return true;
}

static bool f_seed(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    int64_t n;
    if (!read_count(v, "seed", INT64_MIN, INT64_MAX, &n, err))
        return false;
    r->seed = (uint64_t)n;
    r->has_seed = true;
    return true;
}

static bool f_logit_bias(struct mtr_chat_request *r, const struct mtr_json *v,
                         struct mtr_error *err)
{
    if (v->kind != MTR_JSON_OBJECT)
        return wrong_type(v, "logit_bias", "an object of token ids and biases", err);
    if (v->count > MTR_MAX_BIASES)
        return mtr_fail_field(err, MTR_TOO_LARGE, "logit_bias",
                              "'logit_bias' has %u entries, at most %d are allowed", v->count,
                              MTR_MAX_BIASES);
    uint32_t *ids = mtr_arena_calloc(r->arena, v->count + 1, sizeof *ids);
    float *values = mtr_arena_calloc(r->arena, v->count + 1, sizeof *values);
    if (!ids || !values)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory reading logit_bias");
    for (uint32_t i = 0; i < v->count; i++) {
        const struct mtr_json_member *m = &v->members[i];
        uint64_t id;
        double bias;
        if (!mtr_str_to_u64(m->key, &id) || id > INT32_MAX)
            return mtr_fail_field(err, MTR_INVALID, "logit_bias",
                                  "a key of 'logit_bias' is no token id: '%.*s'",
                                  (int)(m->key.len < 40 ? m->key.len : 40), m->key.ptr);
        if (!read_real(&m->value, "logit_bias", -100, 100, &bias, err))
            return false;
        ids[i] = (uint32_t)id;
        values[i] = (float)bias;
    }
    r->sampling.bias_count = v->count;
    r->sampling.bias_ids = ids;
    r->sampling.bias_values = values;
    return true;
}

static bool add_stop(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    if (v->kind != MTR_JSON_STRING)
        return wrong_type(v, "stop", "a string or an array of strings", err);
    if (v->text.len == 0 || v->text.len > MTR_MAX_STOP_BYTES)
        return mtr_fail_field(err, MTR_INVALID, "stop",
                              "a stop string must have 1 to %d bytes, one has %zu",
                              MTR_MAX_STOP_BYTES, v->text.len);
    if (r->stop_count == MTR_MAX_STOPS)
        return mtr_fail_field(err, MTR_TOO_LARGE, "stop", "'stop' has more than %d strings",
                              MTR_MAX_STOPS);
    r->stops[r->stop_count++] = v->text;
    return true;
}

static bool f_stop(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    if (v->kind != MTR_JSON_ARRAY)
        return add_stop(r, v, err);
    for (uint32_t i = 0; i < v->count; i++)
        if (!add_stop(r, &v->items[i], err))
            return false;
    return true;
}

static bool f_stop_token_ids(struct mtr_chat_request *r, const struct mtr_json *v,
                             struct mtr_error *err)
{
    if (v->kind != MTR_JSON_ARRAY)
        return wrong_type(v, "stop_token_ids", "an array of token ids", err);
    if (v->count > MTR_MAX_STOP_IDS)
        return mtr_fail_field(err, MTR_TOO_LARGE, "stop_token_ids",
                              "'stop_token_ids' has %u ids, at most %d are allowed", v->count,
                              MTR_MAX_STOP_IDS);
    for (uint32_t i = 0; i < v->count; i++) {
        int64_t id;
        if (!read_count(&v->items[i], "stop_token_ids", 0, INT32_MAX, &id, err))
            return false;
        r->stop_ids[i] = (uint32_t)id;
    }
    r->stop_id_count = v->count;
    return true;
}

static bool f_ignore_eos(struct mtr_chat_request *r, const struct mtr_json *v,
                         struct mtr_error *err)
{
    return read_flag(v, "ignore_eos", &r->ignore_eos, err);
}

static bool f_include_stop(struct mtr_chat_request *r, const struct mtr_json *v,
                           struct mtr_error *err)
{
    return read_flag(v, "include_stop_str_in_output", &r->include_stop, err);
}

static bool f_skip_special(struct mtr_chat_request *r, const struct mtr_json *v,
                           struct mtr_error *err)
{
    return read_flag(v, "skip_special_tokens", &r->skip_special, err);
}

static bool f_stream(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    return read_flag(v, "stream", &r->stream, err);
}

static bool f_stream_options(struct mtr_chat_request *r, const struct mtr_json *v,
                             struct mtr_error *err)
{
    if (v->kind != MTR_JSON_OBJECT)
        return wrong_type(v, "stream_options", "an object", err);
    for (uint32_t i = 0; i < v->count; i++) {
        struct mtr_str key = v->members[i].key;
        const struct mtr_json *value = &v->members[i].value;
        bool ignored;
        if (mtr_str_is(key, "include_usage")) {
            if (value->kind != MTR_JSON_NULL &&
                !read_flag(value, "stream_options.include_usage", &r->include_usage, err))
                return false;
        } else if (mtr_str_is(key, "include_obfuscation")) {
            /* Padding against traffic analysis on a public network; loopback needs none. */
            if (value->kind != MTR_JSON_NULL &&
                !read_flag(value, "stream_options.include_obfuscation", &ignored, err))
                return false;
        } else {
            return mtr_fail_field(err, MTR_INVALID, "stream_options",
                                  "unknown field 'stream_options.%.*s'",
                                  (int)(key.len < 40 ? key.len : 40), key.ptr);
        }
    }
    return true;
}

static bool f_timeout(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    double seconds;
    if (!read_real(v, "timeout", 0.001, 86400, &seconds, err))
        return false;
    r->timeout_ms = (uint64_t)(seconds * 1000);
    return true;
}

static bool f_user(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    return v->kind == MTR_JSON_STRING || wrong_type(v, "user", "a string", err);
}

bool mtr_read_metadata(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    if (!mtr_metadata_check(v, err))
        return false;
    r->metadata = v;
    return true;
}

bool mtr_metadata_check(const struct mtr_json *v, struct mtr_error *err)
{
    if (v->kind != MTR_JSON_OBJECT)
        return wrong_type(v, "metadata", "an object of strings", err);
    if (v->count > MAX_METADATA)
        return mtr_fail_field(err, MTR_TOO_LARGE, "metadata",
                              "'metadata' has %u members, at most %d are allowed", v->count,
                              MAX_METADATA);
    for (uint32_t i = 0; i < v->count; i++) {
        const struct mtr_json_member *m = &v->members[i];
        if (m->value.kind != MTR_JSON_STRING)
            return wrong_type(&m->value, "metadata", "an object of strings", err);
        if (m->key.len > MAX_METADATA_KEY || m->value.text.len > MAX_METADATA_VALUE)
            return mtr_fail_field(err, MTR_TOO_LARGE, "metadata",
                                  "a key of 'metadata' may have %d bytes and a value %d",
                                  MAX_METADATA_KEY, MAX_METADATA_VALUE);
    }
    return true;
}

bool mtr_read_store(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    if (!read_flag(v, "store", &r->keep, err))
        return false;
    return !r->keep || r->store ||
           mtr_fail_field(err, MTR_UNSUPPORTED, "store",
                          "'store' can't be true: this server was told to keep nothing");
}

static const struct mtr_field common_fields[] = {
    {"model", f_model, NULL, NULL},
    {"max_tokens", f_max_tokens, NULL, NULL},
    {"max_completion_tokens", f_max_completion_tokens, NULL, NULL},
    {"min_tokens", f_min_tokens, NULL, NULL},
    {"n", f_n, NULL, NULL},
    {"temperature", f_temperature, NULL, NULL},
    {"top_p", f_top_p, NULL, NULL},
    {"top_k", f_top_k, NULL, NULL},
    {"min_p", f_min_p, NULL, NULL},
    {"top_n_sigma", f_top_n_sigma, NULL, NULL},
    {"repetition_penalty", f_repetition_penalty, NULL, NULL},
    {"presence_penalty", f_presence_penalty, NULL, NULL},
    {"frequency_penalty", f_frequency_penalty, NULL, NULL},
    {"seed", f_seed, NULL, NULL},
    {"logit_bias", f_logit_bias, NULL, NULL},
    {"stop", f_stop, NULL, NULL},
    {"stop_token_ids", f_stop_token_ids, NULL, NULL},
    {"ignore_eos", f_ignore_eos, NULL, NULL},
    {"include_stop_str_in_output", f_include_stop, NULL, NULL},
    {"skip_special_tokens", f_skip_special, NULL, NULL},
    {"stream", f_stream, NULL, NULL},
    {"stream_options", f_stream_options, NULL, NULL},
    {"timeout", f_timeout, NULL, NULL},
    {"user", f_user, NULL, NULL},
    /* Hints that change no answer. */
    {"metadata", mtr_read_metadata, NULL, NULL},
    {"service_tier", NULL, NULL, NULL},
    {"safety_identifier", NULL, NULL, NULL},
    {"prompt_cache_key", NULL, NULL, NULL},
    {"prompt_cache_retention", NULL, NULL, NULL},
    {"prompt_cache_options", NULL, NULL, NULL},
    {"moderation", NULL, "this server moderates nothing", NULL},
};

const struct mtr_field *mtr_fields_common(size_t *count)
{
    *count = sizeof common_fields / sizeof common_fields[0];
    return common_fields;
}

/* Whether v is the one value that a refused field may have. */
static bool is_neutral(struct mtr_arena *scratch, const struct mtr_json *v, const char *neutral)
{
    if (v->kind == MTR_JSON_NULL)
        return true;
    if (!neutral)
        return false;
    const struct mtr_json *n = mtr_json_parse(scratch, mtr_str(neutral), MTR_JSON_STRICT, NULL);
    if (!n)
        return false;
    struct mtr_buf a = {0}, b = {0};
    struct mtr_json_writer wa = mtr_json_writer(&a), wb = mtr_json_writer(&b);
    mtr_json_put_value(&wa, v);
    mtr_json_put_value(&wb, n);
    bool same = mtr_str_equal(mtr_buf_view(&a), mtr_buf_view(&b));
    mtr_buf_free(&a);
    mtr_buf_free(&b);
    return same;
}

static const struct mtr_field *find_field(const struct mtr_field *const *tables, size_t table_count,
                                          const size_t *counts, struct mtr_str name)
{
    for (size_t t = 0; t < table_count; t++)
        for (size_t i = 0; i < counts[t]; i++)
            if (mtr_str_is(name, tables[t][i].name))
                return &tables[t][i];
    return NULL;
}

static bool read_member(struct mtr_chat_request *r, const struct mtr_field *f,
                        const struct mtr_json *v, struct mtr_error *err)
{
    if (f->refusal) {
        if (is_neutral(r->arena, v, f->neutral))
            return true;
        return mtr_fail_field(err, MTR_UNSUPPORTED, f->name, "'%s' is not supported: %s", f->name,
                              f->refusal);
    }
    if (v->kind == MTR_JSON_NULL || !f->read)
        return true;
    return f->read(r, v, err);
}

bool mtr_fields_read(struct mtr_chat_request *r, const struct mtr_json *body,
                     const struct mtr_field *const *tables, size_t table_count,
                     const size_t *counts, struct mtr_error *err)
{
    if (body->kind != MTR_JSON_OBJECT)
        return mtr_fail(err, MTR_INVALID, "the body must be a JSON object, not %s",
                        mtr_json_kind_name(body));
    for (uint32_t i = 0; i < body->count; i++) {
        const struct mtr_json_member *m = &body->members[i];
        const struct mtr_field *f = find_field(tables, table_count, counts, m->key);
        if (!f) {
            char name[48];
            snprintf(name, sizeof name, "%.*s", (int)(m->key.len < 40 ? m->key.len : 40),
                     m->key.ptr ? m->key.ptr : "");
            return mtr_fail_field(err, MTR_INVALID, name, "unknown field '%s'", name);
        }
        if (!read_member(r, f, &m->value, err))
            return false;
    }
    return mtr_request_check(r, err);
}

bool mtr_request_check(struct mtr_chat_request *r, struct mtr_error *err)
{
    if (r->include_usage && !r->stream)
        return mtr_fail_field(err, MTR_INVALID, "stream_options",
                              "'stream_options' needs 'stream': true");
    if (r->max_tokens && r->min_tokens > r->max_tokens)
        return mtr_fail_field(err, MTR_INVALID, "min_tokens",
                              "'min_tokens' is %u, more than 'max_tokens' %u", r->min_tokens,
                              r->max_tokens);
    return true;
}
