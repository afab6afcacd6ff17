/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Metadata of a GGUF file by key. The header was checked when it was parsed, so that nothing here
 * meets a length that it has to doubt.
 */
#include "common/checkpoint/gguf.h"

#include <inttypes.h>

#include "common/checkpoint/gguf_value.h"
#include "common/checkpoint/listing.h"
#include "common/numeric/numeric.h"

enum number_kind { UNSIGNED, SIGNED, FLOATING, NO_NUMBER };

static const struct {
    const char *name;
    uint8_t bytes; /* 0: not of fixed size */
    uint8_t kind;  /* enum number_kind */
} types[MTR_GGUF_TYPE_COUNT] = {
    [MTR_GGUF_U8] = {"uint8", 1, UNSIGNED},       [MTR_GGUF_I8] = {"int8", 1, SIGNED},
    [MTR_GGUF_U16] = {"uint16", 2, UNSIGNED},     [MTR_GGUF_I16] = {"int16", 2, SIGNED},
    [MTR_GGUF_U32] = {"uint32", 4, UNSIGNED},     [MTR_GGUF_I32] = {"int32", 4, SIGNED},
    [MTR_GGUF_F32] = {"float32", 4, FLOATING},    [MTR_GGUF_BOOL] = {"bool", 1, NO_NUMBER},
    [MTR_GGUF_STRING] = {"string", 0, NO_NUMBER}, [MTR_GGUF_ARRAY] = {"array", 0, NO_NUMBER},
    [MTR_GGUF_U64] = {"uint64", 8, UNSIGNED},     [MTR_GGUF_I64] = {"int64", 8, SIGNED},
    [MTR_GGUF_F64] = {"float64", 8, FLOATING},
};

const char *mtr_gguf_type_name(enum mtr_gguf_type type)
{
    return (unsigned)type < MTR_GGUF_TYPE_COUNT ? types[type].name : "unknown";
}

unsigned mtr_gguf_type_bytes(enum mtr_gguf_type type)
{
    return types[type].bytes;
}

void mtr_gguf_decode(enum mtr_gguf_type type, const void *p, struct mtr_gguf_kv *kv)
{
    unsigned bytes = types[type].bytes, shift = 64 - 8 * bytes;
    uint64_t u = mtr_gguf_word(p, bytes);
    if (types[type].kind == SIGNED) {
        kv->i = (int64_t)(u << shift) >> shift;
    } else if (type == MTR_GGUF_F32) {
        kv->f = (double)mtr_f32_from_bits((uint32_t)u);
    } else if (type == MTR_GGUF_F64) {
        memcpy(&kv->f, &u, sizeof u);
    } else {
        kv->u = u;
    }
}

const struct mtr_gguf_kv *mtr_gguf_get(const struct mtr_gguf *g, const char *key)
{
    struct mtr_str wanted = mtr_str(key);
    uint32_t low = 0, high = g->kv_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct mtr_gguf_kv *kv = &g->kv[g->kv_by_key[middle]];
        int c = mtr_str_order(kv->key, wanted);
        if (c == 0)
            return kv;
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static bool wrong_type(const struct mtr_gguf_kv *kv, const char *expected, struct mtr_error *err)
{
    char quoted[MTR_QUOTED_BYTES];
    bool array = kv->type == MTR_GGUF_ARRAY;
    return mtr_fail(err, MTR_INVALID, "metadata %s is of type %s%s, expected %s",
                    mtr_quoted(kv->key, quoted), array ? "array of " : "",
                    mtr_gguf_type_name(array ? kv->array.type : kv->type), expected);
}

bool mtr_gguf_opt_bool(const struct mtr_gguf *g, const char *key, bool *out, struct mtr_error *err)
{
    const struct mtr_gguf_kv *kv = mtr_gguf_get(g, key);
    if (kv && kv->type != MTR_GGUF_BOOL)
        return wrong_type(kv, "bool", err);
    if (kv)
        *out = kv->b;
    return true;
}

bool mtr_gguf_opt_i64(const struct mtr_gguf *g, const char *key, int64_t min, int64_t max,
                      int64_t *out, struct mtr_error *err)
{
    const struct mtr_gguf_kv *kv = mtr_gguf_get(g, key);
    if (!kv)
        return true;
    enum number_kind kind = types[kv->type].kind;
    if (kind != UNSIGNED && kind != SIGNED)
        return wrong_type(kv, "an integer", err);
    bool fits = kind == SIGNED || kv->u <= INT64_MAX;
    if (!fits || kv->i < min || kv->i > max) {
        const char *format =
            kind == SIGNED ? "metadata \"%s\" is %" PRId64 ", expected %" PRId64 " to %" PRId64
                           : "metadata \"%s\" is %" PRIu64 ", expected %" PRId64 " to %" PRId64;
        return mtr_fail(err, MTR_INVALID, format, key, kv->i, min, max);
    }
    *out = kv->i;
    return true;
}

bool mtr_gguf_opt_f64(const struct mtr_gguf *g, const char *key, double min, double max,
                      double *out, struct mtr_error *err)
{
    const struct mtr_gguf_kv *kv = mtr_gguf_get(g, key);
    if (!kv)
        return true;
    enum number_kind kind = types[kv->type].kind;
    if (kind == NO_NUMBER)
        return wrong_type(kv, "a number", err);
    double value = kind == FLOATING ? kv->f : kind == SIGNED ? (double)kv->i : (double)kv->u;
    if (!(value >= min && value <= max)) /* also catches NaN */
        return mtr_fail(err, MTR_INVALID, "metadata \"%s\" is %g, expected %g to %g", key, value,
                        min, max);
    *out = value;
    return true;
}

bool mtr_gguf_opt_str(const struct mtr_gguf *g, const char *key, struct mtr_str *out,
                      struct mtr_error *err)
{
    const struct mtr_gguf_kv *kv = mtr_gguf_get(g, key);
    if (kv && kv->type != MTR_GGUF_STRING)
        return wrong_type(kv, "string", err);
    if (kv)
        *out = kv->s;
    return true;
}

bool mtr_gguf_opt_strings(const struct mtr_gguf *g, const char *key, struct mtr_gguf_array *out,
                          struct mtr_error *err)
{
    const struct mtr_gguf_kv *kv = mtr_gguf_get(g, key);
    if (kv && (kv->type != MTR_GGUF_ARRAY || kv->array.type != MTR_GGUF_STRING))
        return wrong_type(kv, "array of string", err);
    if (kv)
        *out = kv->array;
    return true;
}

bool mtr_gguf_opt_numbers(const struct mtr_gguf *g, const char *key, struct mtr_gguf_array *out,
                          struct mtr_error *err)
{
    const struct mtr_gguf_kv *kv = mtr_gguf_get(g, key);
    if (kv && (kv->type != MTR_GGUF_ARRAY || kv->array.type == MTR_GGUF_STRING))
        return wrong_type(kv, "array of numbers", err);
    if (kv)
        *out = kv->array;
    return true;
}

bool mtr_gguf_next(const struct mtr_gguf_array *a, struct mtr_gguf_cursor *c, struct mtr_str *out)
{
    if (c->index >= a->count || a->type != MTR_GGUF_STRING)
        return false;
    uint64_t len = mtr_gguf_word(a->data.ptr + c->at, 8);
    *out = (struct mtr_str){a->data.ptr + c->at + 8, (size_t)len};
    c->at += 8 + (size_t)len;
    c->index++;
    return true;
}

/* Item i as it would stand in a metadata entry of its own; false when there is none. */
static bool item(const struct mtr_gguf_array *a, uint64_t i, struct mtr_gguf_kv *out)
{
    if (i >= a->count || a->type == MTR_GGUF_STRING)
        return false;
    mtr_gguf_decode(a->type, a->data.ptr + i * types[a->type].bytes, out);
    return true;
}

int64_t mtr_gguf_item_i64(const struct mtr_gguf_array *a, uint64_t i)
{
    struct mtr_gguf_kv v;
    if (!item(a, i, &v))
        return 0;
    if (types[a->type].kind == SIGNED)
        return v.i;
    if (types[a->type].kind != FLOATING)
        return v.u > INT64_MAX ? INT64_MAX : v.i;
    if (v.f != v.f)
        return 0;
    return v.f >= 0x1p63 ? INT64_MAX : v.f < -0x1p63 ? INT64_MIN : (int64_t)v.f;
}

double mtr_gguf_item_f64(const struct mtr_gguf_array *a, uint64_t i)
{
    struct mtr_gguf_kv v;
    if (!item(a, i, &v))
        return 0;
    enum number_kind kind = types[a->type].kind;
    return kind == FLOATING ? v.f : kind == SIGNED ? (double)v.i : (double)v.u;
}
