/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reading a settings document with a map.
 *
 * Keys are read in the order of the document, each by the function of its class; what they set is
 * remembered with the key that set it, so that two keys that contradict each other are refused.
 * Then symbols whose keys were absent get their defaults, symbols that tensors decide are decided,
 * others computed, and the map's conditions checked.
 */
#include "common/circuit/config_map.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/circuit/quant.h"
#include "common/circuit/rope.h"
#include "common/circuit/suggest.h"

struct reader {
    struct mtr_arena *arena;
    const struct mtr_model_source *source;
    struct mtr_settings *out;
    const struct mtr_json *layers; /* a list of kinds, or NULL */
    const struct mtr_key *layers_key;
    const struct mtr_json *members[MTR_MAX_MEMBERS]; /* [out->member_count] */
    bool within;                                     /* an object with the document's keys */
    const char *set_by[MTR_MAX_SYMBOLS];
    struct mtr_error *err;
};

#define SHOWN_BYTES 64

/* A value for a message, as JSON, cut. */
static const char *shown(const struct mtr_json *v, char out[SHOWN_BYTES + 4])
{
    struct mtr_buf b = {0};
    struct mtr_json_writer w = mtr_json_writer(&b);
    mtr_json_put_value(&w, v);
    bool cut = b.len > SHOWN_BYTES;
    snprintf(out, SHOWN_BYTES + 4, "%.*s%s", SHOWN_BYTES, b.data ? b.data : "?", cut ? "..." : "");
    mtr_buf_free(&b);
    return out;
}

static bool refuse(struct reader *r, enum mtr_code code, const struct mtr_key *k,
                   const struct mtr_json *v, const char *expected)
{
    char text[SHOWN_BYTES + 4];
    return mtr_fail(r->err, code, "%s is %s, but %s", k->name, shown(v, text), expected);
}

static bool set_symbol(struct reader *r, const struct mtr_key *k, double value)
{
    struct mtr_symbols *s = &r->out->symbols;
    if (s->known[k->symbol] && s->values[k->symbol] != value)
        return mtr_fail(r->err, MTR_INVALID, "%s and %s contradict each other (%g and %g)",
                        r->set_by[k->symbol], k->name, s->values[k->symbol], value);
    s->values[k->symbol] = value;
    s->known[k->symbol] = true;
    r->set_by[k->symbol] = k->name;
    return true;
}

/* Whether a number's map says what null stands for; elsewhere null is as absent. */
static bool null_means(const struct mtr_key *k, const struct mtr_json *v)
{
    bool number = k->kind == MTR_KEY_DIM || k->kind == MTR_KEY_REAL;
    return v->kind == MTR_JSON_NULL && number && k->value_count;
}

static bool read_number(struct reader *r, const struct mtr_key *k, const struct mtr_json *v)
{
    double n;
    char expected[96];
    bool whole = k->kind == MTR_KEY_DIM;
    if (null_means(k, v))
        return set_symbol(r, k, k->values[0].value);
    if (!mtr_json_number(v, &n) || (whole && v->kind != MTR_JSON_INT))
        return refuse(r, MTR_INVALID, k, v,
                      whole ? "a whole number is expected" : "a number is expected");
    if (!(n >= k->min && n <= k->max)) {
        snprintf(expected, sizeof expected, "only values from %.10g to %.10g are possible", k->min,
                 k->max);
        return refuse(r, MTR_INVALID, k, v, expected);
    }
    return set_symbol(r, k, n);
}

static bool read_switch(struct reader *r, const struct mtr_key *k, const struct mtr_json *v)
{
    if (v->kind != MTR_JSON_BOOL)
        return refuse(r, MTR_INVALID, k, v, "true or false is expected");
    return set_symbol(r, k, v->boolean);
}

static bool value_is(const struct mtr_key_value *want, const struct mtr_json *v)
{
    double n;
    if (want->kind == MTR_JSON_STRING)
        return v->kind == MTR_JSON_STRING && mtr_str_is(v->text, want->text);
    if (want->kind == MTR_JSON_BOOL)
        return v->kind == MTR_JSON_BOOL && v->boolean == (want->number != 0);
    if (want->kind == MTR_JSON_NULL)
        return v->kind == MTR_JSON_NULL;
    return mtr_json_number(v, &n) && n == want->number;
}

static const struct mtr_key_value *listed_value(const struct mtr_key *k, const struct mtr_json *v)
{
    for (uint32_t i = 0; i < k->value_count; i++)
        if (value_is(&k->values[i], v))
            return &k->values[i];
    return NULL;
}

/* "only \"silu\", \"gelu\" are computed here (missing: ...)" */
static bool refuse_value(struct reader *r, const struct mtr_key *k, const struct mtr_json *v)
{
    char expected[256];
    int n = snprintf(expected, sizeof expected, "only");
    for (uint32_t i = 0; i < k->value_count && n < 160; i++) {
        const struct mtr_key_value *w = &k->values[i];
        const char *sep = i ? ", " : " ";
        if (w->kind == MTR_JSON_STRING)
            n += snprintf(expected + n, sizeof expected - (size_t)n, "%s\"%s\"", sep, w->text);
        else if (w->kind == MTR_JSON_BOOL)
            n += snprintf(expected + n, sizeof expected - (size_t)n, "%s%s", sep,
                          w->number != 0 ? "true" : "false");
        else if (w->kind == MTR_JSON_NULL)
            n += snprintf(expected + n, sizeof expected - (size_t)n, "%snull", sep);
        else
            n += snprintf(expected + n, sizeof expected - (size_t)n, "%s%g", sep, w->number);
    }
    snprintf(expected + n, sizeof expected - (size_t)n, " %s computed here (missing: %s)",
             k->value_count == 1 ? "is" : "are", k->note ? k->note : "this value");
    return refuse(r, MTR_UNSUPPORTED, k, v, expected);
}

static bool read_listed(struct reader *r, const struct mtr_key *k, const struct mtr_json *v)
{
    const struct mtr_key_value *w = listed_value(k, v);
    if (!w)
        return refuse_value(r, k, v);
    return k->kind == MTR_KEY_REQUIRE || set_symbol(r, k, w->value);
}

static bool is_token(const struct mtr_json *v)
{
    return v->kind == MTR_JSON_INT && !v->big && v->integer >= -1;
}

static bool read_token(struct reader *r, const struct mtr_key *k, const struct mtr_json *v)
{
    bool good = is_token(v) || (v->kind == MTR_JSON_ARRAY && v->count > 0);
    for (uint32_t i = 0; good && v->kind == MTR_JSON_ARRAY && i < v->count; i++)
        good = is_token(&v->items[i]);
    return good || refuse(r, MTR_INVALID, k, v, "a token id or a list of them is expected");
}

static bool read_dtype(struct reader *r, const struct mtr_key *k, const struct mtr_json *v)
{
    static const struct {
        const char *name;
        enum mtr_format format;
    } names[] = {{"bfloat16", MTR_BF16}, {"float16", MTR_F16}, {"float32", MTR_F32}};
    if (v->kind != MTR_JSON_STRING)
        return refuse(r, MTR_INVALID, k, v, "the name of a type is expected");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (mtr_str_is(v->text, names[i].name)) {
            r->out->dtype = names[i].format;
            return true;
        }
    return refuse(r, MTR_UNSUPPORTED, k, v, "only bfloat16, float16 and float32 are known here");
}

static bool read_quant(struct reader *r, const struct mtr_key *k, const struct mtr_json *v)
{
    if (v->kind != MTR_JSON_OBJECT)
        return refuse(r, MTR_INVALID, k, v, "an object is expected");
    r->out->quant = mtr_quant_read(r->arena, v, r->source->quant, r->err);
    return r->out->quant != NULL;
}

static bool read_object(struct reader *r, const struct mtr_key_map *map, const struct mtr_json *o);

static bool read_nested(struct reader *r, const struct mtr_key *k, const struct mtr_json *v)
{
    bool within = r->within, again = !k->nested;
    if (v->kind != MTR_JSON_OBJECT)
        return refuse(r, MTR_INVALID, k, v, "an object is expected");
    if (again && within)
        return refuse(r, MTR_INVALID, k, v, "it stands within one already");
    r->within = again;
    bool good = read_object(r, again ? &r->out->document->keys : k->nested, v);
    r->within = within;
    return good || mtr_error_prefix(r->err, "%s", k->name);
}

/* The document's own chose the map. */
static bool read_model_type(struct reader *r, const struct mtr_key *k, const struct mtr_json *v)
{
    const struct mtr_document_map *d = r->out->document;
    for (uint32_t i = 0; i < d->within_count; i++)
        if (v->kind == MTR_JSON_STRING && mtr_str_is(v->text, d->within[i]))
            return true;
    return !r->within || refuse(r, MTR_UNSUPPORTED, k, v, "another kind of model is expected here");
}

/* "architectures": a list of which the first is what the weights are for. */
static bool read_type(struct reader *r, const struct mtr_key *k, const struct mtr_json *v)
{
    const struct mtr_document_map *d = r->out->document;
    if (strcmp(k->name, "architectures") != 0)
        return read_model_type(r, k, v);
    if (v->kind != MTR_JSON_ARRAY || v->count == 0 || v->items[0].kind != MTR_JSON_STRING)
        return refuse(r, MTR_INVALID, k, v, "a list of names is expected");
    for (uint32_t i = 0; i < d->architecture_count; i++)
        if (mtr_str_is(v->items[0].text, d->architectures[i]))
            return true;
    return refuse(r, MTR_UNSUPPORTED, k, v,
                  "the only heads computed here are those of language models");
}

/* Kept until the number of layers is known. */
static bool read_members(struct reader *r, const struct mtr_key *k, const struct mtr_json *v)
{
    uint32_t n = r->out->member_count;
    bool good = v->kind == MTR_JSON_ARRAY;
    for (uint32_t i = 0; good && i < v->count; i++)
        good = v->items[i].kind == MTR_JSON_INT;
    if (!good)
        return refuse(r, MTR_INVALID, k, v, "a list of layers' numbers is expected");
    for (uint32_t i = 0; i < n; i++)
        if (r->out->members[i].symbol == k->symbol)
            return refuse(r, MTR_INVALID, k, v, "it is there twice");
    if (n == MTR_MAX_MEMBERS)
        return refuse(r, MTR_TOO_LARGE, k, v, "there are too many such lists");
    r->members[n] = v;
    r->out->members[n] = (struct mtr_layer_members){.symbol = k->symbol};
    r->out->member_count++;
    return true;
}

static bool read_key(struct reader *r, const struct mtr_key *k, const struct mtr_json *v)
{
    bool absent = v->kind == MTR_JSON_NULL && k->kind != MTR_KEY_REQUIRE && !null_means(k, v);
    if (absent)
        return !k->required || refuse(r, MTR_INVALID, k, v, "a value is needed");
    switch (k->kind) {
    case MTR_KEY_DIM:
    case MTR_KEY_REAL:
        return read_number(r, k, v);
    case MTR_KEY_SWITCH:
        return read_switch(r, k, v);
    case MTR_KEY_CHOICE:
    case MTR_KEY_REQUIRE:
        return read_listed(r, k, v);
    case MTR_KEY_TOKEN:
        return read_token(r, k, v);
    case MTR_KEY_NESTED:
        return read_nested(r, k, v);
    case MTR_KEY_DTYPE:
        return read_dtype(r, k, v);
    case MTR_KEY_QUANT:
        return read_quant(r, k, v);
    case MTR_KEY_TYPE:
        return read_type(r, k, v);
    case MTR_KEY_MEMBERS:
        return read_members(r, k, v);
    case MTR_KEY_LAYERS:
        r->layers = v;
        r->layers_key = k;
        return true;
    case MTR_KEY_IGNORE:
        return true;
    }
    return mtr_fail(r->err, MTR_INTERNAL, "key %s has no class", k->name);
}

/* Whether a map's name is the document's key. "{a}.x" stands for "<architecture>.x". */
static bool name_is(const struct reader *r, const struct mtr_key *k, struct mtr_str key)
{
    struct mtr_str name = mtr_str(k->name), type = mtr_str(r->out->type);
    if (mtr_str_starts(name, MTR_STR("{a}."))) {
        if (!mtr_str_starts(key, type) || key.len < type.len + 1 || key.ptr[type.len] != '.')
            return false;
        name = mtr_str_sub(name, 4, SIZE_MAX);
        key = mtr_str_sub(key, type.len + 1, SIZE_MAX);
    }
    return k->prefix ? mtr_str_starts(key, name) : mtr_str_equal(key, name);
}

/* The key's class for this document: one for its type before one for all. */
static const struct mtr_key *find_key(const struct reader *r, const struct mtr_key_map *map,
                                      struct mtr_str key)
{
    const struct mtr_key *found = NULL;
    for (uint32_t i = 0; i < map->key_count; i++) {
        const struct mtr_key *k = &map->keys[i];
        if (k->variant ? strcmp(k->variant, r->out->type) == 0 : !found)
            if (name_is(r, k, key))
                found = k;
    }
    return found;
}

static bool unknown_key(struct reader *r, const struct mtr_key_map *map, struct mtr_str key)
{
    const char *best = NULL;
    uint32_t distance = MTR_SUGGEST_LIMIT;
    for (uint32_t i = 0; i < map->key_count; i++) {
        const char *name = map->keys[i].name;
        bool arch = strncmp(name, "{a}.", 4) == 0;
        struct mtr_str rest = arch ? mtr_str_sub(key, strlen(r->out->type) + 1, SIZE_MAX) : key;
        mtr_suggest(rest, arch ? name + 4 : name, &best, &distance);
    }
    struct mtr_str cut = mtr_str_sub(key, 0, 120);
    return mtr_fail(r->err, MTR_UNSUPPORTED,
                    "key \"%.*s\" is unknown for %s and may change what the model computes%s%s%s",
                    MTR_STR_ARG(cut), r->out->type, best ? "; did you mean \"" : "",
                    best ? best : "", best ? "\"?" : "");
}

static bool has_key(const struct reader *r, const struct mtr_key *k, const struct mtr_json *o)
{
    for (uint32_t i = 0; i < o->count; i++)
        if (name_is(r, k, o->members[i].key))
            return true;
    return false;
}

static bool check_required(struct reader *r, const struct mtr_key_map *map,
                           const struct mtr_json *o)
{
    for (uint32_t i = 0; i < map->key_count; i++) {
        const struct mtr_key *k = &map->keys[i];
        if (!k->required || (k->variant && strcmp(k->variant, r->out->type) != 0) ||
            has_key(r, k, o))
            continue;
        if (map == &r->out->document->keys && k->symbol != MTR_NONE &&
            r->out->symbols.known[k->symbol])
            continue; /* it stood in the object within */
        bool arch = strncmp(k->name, "{a}", 3) == 0;
        return mtr_fail(r->err, MTR_INVALID, "key \"%s%s\" is missing", arch ? r->out->type : "",
                        arch ? k->name + 3 : k->name);
    }
    return true;
}

static bool read_object(struct reader *r, const struct mtr_key_map *map, const struct mtr_json *o)
{
    for (uint32_t i = 0; i < o->count; i++) {
        const struct mtr_key *k = find_key(r, map, o->members[i].key);
        if (!k)
            return unknown_key(r, map, o->members[i].key);
        if (!read_key(r, k, &o->members[i].value))
            return false;
    }
    return r->within || check_required(r, map, o);
}

static bool tensor_exists(const struct reader *r, const char *name)
{
    struct mtr_model_tensor t;
    return r->source->find && r->source->find(r->source->tensors, mtr_str(name), &t);
}

static void read_presence(struct reader *r)
{
    const struct mtr_document_map *d = r->out->document;
    for (uint32_t i = 0; i < d->presence_count; i++) {
        uint16_t symbol = d->presence[i].symbol;
        r->out->symbols.values[symbol] =
            tensor_exists(r, d->presence[i].tensor) != d->presence[i].absent;
        r->out->symbols.known[symbol] = true;
    }
}

static bool derive(struct reader *r)
{
    const struct mtr_document_map *d = r->out->document;
    struct mtr_symbols *s = &r->out->symbols;
    for (uint32_t i = 0; i < d->derived_count; i++) {
        const struct mtr_derived *v = &d->derived[i];
        if (v->only_absent && s->known[v->symbol])
            continue;
        if (v->variant && strcmp(v->variant, r->out->type) != 0)
            continue;
        if (!mtr_expr_eval(&v->value, s, &s->values[v->symbol], r->err))
            return false;
        s->known[v->symbol] = true;
    }
    return true;
}

static bool check(struct reader *r)
{
    const struct mtr_document_map *d = r->out->document;
    for (uint32_t i = 0; i < d->check_count; i++) {
        bool holds;
        if (!mtr_expr_true(&d->checks[i].condition, &r->out->symbols, &holds, r->err))
            return false;
        if (!holds)
            return mtr_fail(r->err, MTR_UNSUPPORTED, "%s (\"%s\" does not hold)",
                            d->checks[i].message, d->checks[i].condition.text);
    }
    return true;
}

/* Where no key lists them: by their numbers, or all of the first kind. */
static bool derive_kinds(struct reader *r, uint8_t *kinds, uint32_t count)
{
    const struct mtr_document_map *d = r->out->document;
    struct mtr_symbols numbered = r->out->symbols;
    for (uint32_t i = 0; i < count && d->kind_count; i++) {
        bool holds = false;
        mtr_symbol_set(&numbered, "layer", i);
        for (uint32_t k = 0; k < d->kind_count && !holds; k++) {
            if (!mtr_expr_true(&d->kinds[k].when, &numbered, &holds, r->err))
                return false;
            kinds[i] = d->kinds[k].kind;
        }
        if (!holds)
            return mtr_fail(r->err, MTR_UNSUPPORTED, "layer %u is of no kind that is known here",
                            i);
    }
    return true;
}

/* A number that no layer has means none. */
static bool fill_members(struct reader *r, uint32_t layers)
{
    for (uint32_t i = 0; i < r->out->member_count; i++) {
        const struct mtr_json *list = r->members[i];
        uint8_t *has = mtr_arena_calloc(r->arena, layers, 1);
        if (!has)
            return mtr_fail(r->err, MTR_NO_MEMORY, "no memory for %u layers", layers);
        for (uint32_t k = 0; k < list->count; k++)
            if (!list->items[k].big && list->items[k].integer >= 0 &&
                list->items[k].integer < (int64_t)layers)
                has[list->items[k].integer] = 1;
        r->out->members[i].has = has;
    }
    return true;
}

static bool read_layers(struct reader *r)
{
    uint32_t count = (uint32_t)mtr_symbol_get(&r->out->symbols, "layers", 0);
    uint8_t *kinds = mtr_arena_calloc(r->arena, count, 1);
    if (!kinds)
        return mtr_fail(r->err, MTR_NO_MEMORY, "no memory for %u layers", count);
    r->out->layers = count;
    r->out->kinds = kinds;
    if (!fill_members(r, count))
        return false;
    if (!r->layers)
        return derive_kinds(r, kinds, count);
    if (r->layers->kind != MTR_JSON_ARRAY || r->layers->count != count)
        return mtr_fail(
            r->err, MTR_INVALID, "%s must be a list of %u entries, one a layer, not %s of %u",
            r->layers_key->name, count, mtr_json_kind_name(r->layers), r->layers->count);
    for (uint32_t i = 0; i < count; i++) {
        const struct mtr_key_value *w = listed_value(r->layers_key, &r->layers->items[i]);
        if (!w)
            return refuse_value(r, r->layers_key, &r->layers->items[i]);
        kinds[i] = (uint8_t)w->value;
    }
    return true;
}

static bool type_listed(const struct mtr_document_map *d, struct mtr_str type, const char **name)
{
    for (uint32_t i = 0; i < d->type_count; i++)
        if (mtr_str_is(type, d->types[i])) {
            *name = d->types[i];
            return true;
        }
    return false;
}

/* The refusal of a type without a map: by name where the family is known. */
static bool no_map(const struct mtr_model_source *source, struct mtr_str type,
                   struct mtr_error *err)
{
    uint32_t count;
    const struct mtr_known_family *f = mtr_known_families(&count);
    for (uint32_t i = 0; i < count; i++)
        if (mtr_str_is(type, f[i].type))
            return mtr_fail(err, MTR_UNSUPPORTED, "%s (\"%s\") has no circuit yet; missing: %s",
                            f[i].title, f[i].type, f[i].missing);
    char have[256];
    int n = 0;
    const struct mtr_config_map *maps = mtr_config_maps(&count);
    for (uint32_t i = 0; i < count; i++) {
        const struct mtr_document_map *d = source->gguf ? &maps[i].gguf : &maps[i].hf;
        for (uint32_t j = 0; j < d->type_count && n < 200; j++)
            n += snprintf(have + n, sizeof have - (size_t)n, "%s%s", n ? ", " : "", d->types[j]);
    }
    struct mtr_str cut = mtr_str_sub(type, 0, 80);
    return mtr_fail(err, MTR_UNSUPPORTED,
                    "no circuit computes models of type \"%.*s\"; there are: %s", MTR_STR_ARG(cut),
                    have);
}

static bool find_map(struct reader *r)
{
    const char *key = r->source->gguf ? "general.architecture" : "model_type";
    const struct mtr_json *type = mtr_json_get(r->source->config, key);
    uint32_t count;
    const struct mtr_config_map *maps = mtr_config_maps(&count);
    if (!type || type->kind != MTR_JSON_STRING)
        return mtr_fail(r->err, MTR_INVALID, "%s is %s, but names the kind of model", key,
                        type ? mtr_json_kind_name(type) : "missing");
    for (uint32_t i = 0; i < count; i++) {
        const struct mtr_document_map *d = r->source->gguf ? &maps[i].gguf : &maps[i].hf;
        if (type_listed(d, type->text, &r->out->type)) {
            r->out->map = &maps[i];
            r->out->document = d;
            return true;
        }
    }
    return no_map(r->source, type->text, r->err);
}

static bool read_all(struct reader *r)
{
    struct mtr_settings *out = r->out;
    if (!r->source->config || r->source->config->kind != MTR_JSON_OBJECT)
        return mtr_fail(r->err, MTR_INVALID, "an object is expected");
    if (!find_map(r))
        return false;
    if (r->source->vocab_tokens)
        mtr_symbol_set(&out->symbols, "vocab_tokens", (double)r->source->vocab_tokens);
    if (!read_object(r, &out->document->keys, r->source->config))
        return false;
    if (r->source->quant && !out->quant &&
        !(out->quant = mtr_quant_read(r->arena, NULL, r->source->quant, r->err)))
        return false;
    read_presence(r);
    return derive(r) && check(r) && mtr_rope_prepare(&out->symbols, "rope_", r->err) &&
           read_layers(r);
}

bool mtr_settings_read(struct mtr_arena *arena, const struct mtr_model_source *source,
                       struct mtr_settings *out, struct mtr_error *err)
{
    memset(out, 0, sizeof *out);
    out->dtype = MTR_BF16;
    struct reader r = {.arena = arena, .source = source, .out = out, .err = err};
    return read_all(&r) || mtr_error_prefix(err, source->gguf ? "GGUF metadata" : "config.json");
}
