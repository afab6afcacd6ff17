/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Three spellings of the same few schemes. Each method has a table of the keys that its document
 * may have, and a reader that picks a row of the schemes; everything else is refused by name. What
 * concerns activations alone is let pass: they are not quantized here.
 */
#include "common/circuit/quant.h"

#include <fnmatch.h>
#include <string.h>

#define MAX_EXCEPTIONS 65536

static const struct mtr_quant_scheme schemes[] = {
    {"fp8 in blocks of 128 x 128", MTR_E4M3, MTR_SCALING_BLOCK, ".weight", ".weight_scale_inv"},
    {"fp8 by tensor", MTR_E4M3, MTR_SCALING_TENSOR, ".weight", ".weight_scale",
     .other_scale = ".weight_scale_inv"}, /* transformers' name, where there are no blocks either */
    {"fp8 by channel", MTR_E4M3, MTR_SCALING_CHANNEL, ".weight", ".weight_scale"},
    {"nvfp4 (compressed-tensors)", MTR_E2M1, MTR_SCALING_GROUP16, ".weight_packed", ".weight_scale",
     ".weight_global_scale", true},
    {"nvfp4 (ModelOpt)", MTR_E2M1, MTR_SCALING_GROUP16, ".weight", ".weight_scale",
     ".weight_scale_2"},
};
enum { FP8_BLOCK, FP8_TENSOR, FP8_CHANNEL, NVFP4_CT, NVFP4_MODELOPT };

static bool text_is(const struct mtr_json *v, const char *text)
{
    return v && v->kind == MTR_JSON_STRING && mtr_str_is(v->text, text);
}

static bool int_is(const struct mtr_json *v, int64_t n)
{
    return v && v->kind == MTR_JSON_INT && !v->big && v->integer == n;
}

/* Absent, null, or an empty object or list. */
static bool nothing(const struct mtr_json *v)
{
    if (!v || v->kind == MTR_JSON_NULL)
        return true;
    return (v->kind == MTR_JSON_OBJECT || v->kind == MTR_JSON_ARRAY) && v->count == 0;
}

static int unsupported(struct mtr_error *err, const char *key, const struct mtr_json *value)
{
    if (value && value->kind == MTR_JSON_STRING)
        mtr_fail(err, MTR_UNSUPPORTED, "quantization_config: %s \"%.*s\" is not read here", key,
                 MTR_STR_ARG(mtr_str_sub(value->text, 0, 80)));
    else
        mtr_fail(err, MTR_UNSUPPORTED, "quantization_config: this %s (%s) is not read here", key,
                 value ? mtr_json_kind_name(value) : "absent");
    return -1;
}

/* A key that a document may have. `values` are the texts and booleans that it may hold, between
 * bars; "" is null, false, {} or []; NULL is anything: read elsewhere, or without effect. */
struct key {
    const char *name, *values;
};

static const struct key fp8_keys[] = {
    {"quant_method", NULL},
    {"fmt", NULL},
    {"weight_block_size", NULL},
    {"modules_to_not_convert", NULL},
    {"ignored_layers", NULL},
    {"ignore", NULL},
    {"activation_scheme", "dynamic|static"},
    {"scale_fmt", "float|ue8m0"}, /* how they were rounded; their type is that of the tensor */
    {"dequantize", ""},
    {"kv_cache_scheme", ""},
    {NULL, NULL},
};

static const struct key compressed_keys[] = {
    {"quant_method", NULL},
    {"format", NULL},
    {"config_groups", NULL},
    {"ignore", NULL},
    {"version", NULL},
    {"global_compression_ratio", NULL},
    {"quantization_status", "compressed|frozen"},
    {"kv_cache_scheme", ""},
    {"sparsity_config", ""},
    {"transform_config", ""},
    {"run_compressed", "true|"},
    {NULL, NULL},
};

static const struct key modelopt_keys[] = {
    {"quant_method", NULL},
    {"quant_algo", NULL},
    {"config_groups", NULL},
    {"group_size", NULL},
    {"ignore", NULL},
    {"exclude_modules", NULL},
    {"modules_to_not_convert", NULL},
    {"producer", NULL},
    {"kv_cache_quant_algo", ""},
    {"kv_cache_scheme", ""},
    {"has_zero_point", ""},
    {"pre_quant_scale", ""},
    {NULL, NULL},
};

static const struct key group_keys[] = {
    {"targets", NULL},           {"weights", NULL},
    {"input_activations", NULL}, {"format", "float-quantized|nvfp4-pack-quantized|"},
    {"output_activations", ""},  {NULL, NULL},
};

static const struct key weight_keys[] = {
    {"num_bits", NULL},
    {"type", NULL},
    {"strategy", "tensor|channel|tensor_group|"},
    {"group_size", NULL},
    {"observer", NULL},
    {"observer_kwargs", NULL},
    {"symmetric", "true"},
    {"dynamic", ""},
    {"actorder", ""},
    {"block_structure", ""},
    {"scale_dtype", "torch.float8_e4m3fn|torch.float32|torch.bfloat16|"},
    {"zp_dtype", NULL}, /* of zero points, which symmetric weights don't have */
    {NULL, NULL},
};

static bool value_is(const struct mtr_json *v, struct mtr_str name)
{
    if (name.len == 0)
        return nothing(v) || (v->kind == MTR_JSON_BOOL && !v->boolean);
    if (v->kind == MTR_JSON_BOOL)
        return v->boolean && mtr_str_is(name, "true");
    return v->kind == MTR_JSON_STRING && mtr_str_equal(v->text, name);
}

static bool value_may_be(const struct mtr_json *v, const char *values)
{
    for (const char *from = values; from;) {
        const char *bar = strchr(from, '|');
        if (value_is(v, mtr_str_sub(mtr_str(from), 0, bar ? (size_t)(bar - from) : SIZE_MAX)))
            return true;
        from = bar ? bar + 1 : NULL;
    }
    return values == NULL;
}

/* Every key of the object is in the table and holds what it may. */
static bool keys_known(const struct mtr_json *object, const struct key *keys, struct mtr_error *err)
{
    for (uint32_t i = 0; i < object->count; i++) {
        const struct mtr_json_member *m = &object->members[i];
        const struct key *k = keys;
        while (k->name && !mtr_str_is(m->key, k->name))
            k++;
        if (!k->name)
            return mtr_fail(err, MTR_UNSUPPORTED, "quantization_config: unknown key \"%.*s\"",
                            MTR_STR_ARG(mtr_str_sub(m->key, 0, 80)));
        if (!value_may_be(&m->value, k->values))
            return unsupported(err, k->name, &m->value) >= 0;
    }
    return true;
}

static int read_fp8(const struct mtr_json *c, struct mtr_error *err)
{
    const struct mtr_json *block = mtr_json_get(c, "weight_block_size");
    const struct mtr_json *fmt = mtr_json_get(c, "fmt");
    if (!keys_known(c, fp8_keys, err))
        return -1;
    if (fmt && !text_is(fmt, "e4m3"))
        return unsupported(err, "fmt", fmt);
    if (nothing(block))
        return FP8_TENSOR;
    if (block->kind != MTR_JSON_ARRAY || block->count != 2 || !int_is(&block->items[0], 128) ||
        !int_is(&block->items[1], 128))
        return unsupported(err, "weight_block_size", block);
    return FP8_BLOCK;
}

/* The weights of the only group of a config_groups object. */
static const struct mtr_json *only_group(const struct mtr_json *c, struct mtr_error *err)
{
    const struct mtr_json *groups = mtr_json_get(c, "config_groups");
    if (!groups || groups->kind != MTR_JSON_OBJECT || groups->count != 1) {
        mtr_fail(err, MTR_UNSUPPORTED,
                 "quantization_config: config_groups must hold one group, not %u",
                 groups && groups->kind == MTR_JSON_OBJECT ? groups->count : 0);
        return NULL;
    }
    const struct mtr_json *group = &groups->members[0].value;
    const struct mtr_json *targets = mtr_json_get(group, "targets");
    if (!targets || targets->kind != MTR_JSON_ARRAY || targets->count != 1 ||
        !text_is(&targets->items[0], "Linear")) {
        unsupported(err, "targets", targets);
        return NULL;
    }
    const struct mtr_json *weights = mtr_json_get(group, "weights");
    if (!weights || weights->kind != MTR_JSON_OBJECT) {
        unsupported(err, "weights", weights);
        return NULL;
    }
    return keys_known(group, group_keys, err) && keys_known(weights, weight_keys, err) ? weights
                                                                                       : NULL;
}

static int read_float8(const struct mtr_json *weights, struct mtr_error *err)
{
    const struct mtr_json *strategy = mtr_json_get(weights, "strategy");
    if (!int_is(mtr_json_get(weights, "num_bits"), 8))
        return unsupported(err, "num_bits", mtr_json_get(weights, "num_bits"));
    if (text_is(strategy, "tensor"))
        return FP8_TENSOR;
    if (text_is(strategy, "channel"))
        return FP8_CHANNEL;
    return unsupported(err, "strategy", strategy);
}

static int read_compressed(const struct mtr_json *c, struct mtr_error *err)
{
    const struct mtr_json *format = mtr_json_get(c, "format");
    if (!keys_known(c, compressed_keys, err))
        return -1;
    if (!text_is(format, "float-quantized") && !text_is(format, "nvfp4-pack-quantized"))
        return unsupported(err, "format", format);
    const struct mtr_json *weights = only_group(c, err);
    if (!weights)
        return -1;
    if (!text_is(mtr_json_get(weights, "type"), "float"))
        return unsupported(err, "type", mtr_json_get(weights, "type"));
    if (text_is(format, "float-quantized"))
        return read_float8(weights, err);
    if (!int_is(mtr_json_get(weights, "group_size"), 16))
        return unsupported(err, "group_size", mtr_json_get(weights, "group_size"));
    return NVFP4_CT;
}

static int read_modelopt(const struct mtr_json *c, struct mtr_error *err)
{
    const struct mtr_json *algo = mtr_json_get(c, "quant_algo");
    if (!keys_known(c, modelopt_keys, err))
        return -1;
    const struct mtr_json *group = mtr_json_get(c, "group_size");
    if (!nothing(mtr_json_get(c, "config_groups")) && !only_group(c, err))
        return -1;
    if (text_is(algo, "NVFP4") && !nothing(group) && !int_is(group, 16))
        return unsupported(err, "group_size", group);
    if (text_is(algo, "NVFP4"))
        return NVFP4_MODELOPT;
    if (text_is(algo, "FP8"))
        return FP8_TENSOR;
    return unsupported(err, "quant_algo", algo);
}

static bool read_exceptions(struct mtr_arena *arena, const struct mtr_json *c,
                            struct mtr_quant_scheme *q, struct mtr_error *err)
{
    static const char *const keys[] = {"ignore", "modules_to_not_convert", "exclude_modules",
                                       "ignored_layers"};
    const struct mtr_json *list = NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!nothing(mtr_json_get(c, keys[i])))
            list = mtr_json_get(c, keys[i]);
    if (!list)
        return true;
    if (list->kind != MTR_JSON_ARRAY || list->count > MAX_EXCEPTIONS)
        return mtr_fail(err, MTR_INVALID, "quantization_config: the list of exceptions is %s",
                        mtr_json_kind_name(list));
    struct mtr_str *except = mtr_arena_calloc(arena, list->count, sizeof *except);
    for (uint32_t i = 0; except && i < list->count; i++) {
        const struct mtr_json *item = &list->items[i];
        if (item->kind != MTR_JSON_STRING || item->text.len == 0)
            return mtr_fail(err, MTR_INVALID, "quantization_config: exception %u is %s", i,
                            item->kind == MTR_JSON_STRING ? "empty" : mtr_json_kind_name(item));
        except[i] = list->items[i].text;
    }
    q->except = except;
    q->except_count = except ? list->count : 0;
    return except || mtr_fail(err, MTR_NO_MEMORY, "no memory for the list of exceptions");
}

struct mtr_quant_scheme *mtr_quant_read(struct mtr_arena *arena, const struct mtr_json *config,
                                        const struct mtr_json *modelopt, struct mtr_error *err)
{
    const struct mtr_json *c = config ? config : mtr_json_get(modelopt, "quantization");
    const struct mtr_json *method = mtr_json_get(c, "quant_method");
    int row;
    if (!c || c->kind != MTR_JSON_OBJECT) {
        mtr_fail(err, MTR_INVALID, "quantization_config is %s, not an object",
                 c ? mtr_json_kind_name(c) : "absent");
        return NULL;
    }
    if (text_is(method, "fp8"))
        row = read_fp8(c, err);
    else if (text_is(method, "compressed-tensors"))
        row = read_compressed(c, err);
    else if (text_is(method, "modelopt") || (!method && mtr_json_get(c, "quant_algo")))
        row = read_modelopt(c, err);
    else
        row = unsupported(err, "quant_method", method);
    if (row < 0)
        return NULL;
    struct mtr_quant_scheme *q = mtr_arena_alloc(arena, sizeof *q);
    if (!q) {
        mtr_fail(err, MTR_NO_MEMORY, "no memory for the quantization scheme");
        return NULL;
    }
    *q = schemes[row];
    return read_exceptions(arena, c, q, err) ? q : NULL;
}

/* "re:.*mlp\\.gate$" is compared by its literal middle: enough for estimates without tensors. */
static bool pattern_matches(struct mtr_str pattern, const char *module)
{
    char plain[256];
    size_t n = 0;
    for (size_t i = 3; i < pattern.len && n < sizeof plain - 1; i++)
        if (!strchr("\\*$^", pattern.ptr[i]) &&
            !(pattern.ptr[i] == '.' && i + 1 < pattern.len && pattern.ptr[i + 1] == '*'))
            plain[n++] = pattern.ptr[i];
    plain[n] = 0;
    return n && strstr(module, plain);
}

/* "model.layers.0*", as ModelOpt writes it. */
static bool glob_matches(struct mtr_str pattern, const char *module)
{
    char text[256];
    if (pattern.len >= sizeof text)
        return false;
    memcpy(text, pattern.ptr, pattern.len);
    text[pattern.len] = 0;
    return fnmatch(text, module, 0) == 0;
}

static bool name_matches(struct mtr_str name, const char *module)
{
    if (mtr_str_starts(name, MTR_STR("re:")))
        return pattern_matches(name, module);
    if (mtr_str_find(name, MTR_STR("*"), 0) != SIZE_MAX)
        return glob_matches(name, module);
    return mtr_str_find(mtr_str(module), name, 0) != SIZE_MAX;
}

bool mtr_quant_excepts(const struct mtr_quant_scheme *q, const char *module)
{
    for (uint32_t i = 0; i < q->except_count; i++)
        if (name_matches(q->except[i], module))
            return true;
    return false;
}
