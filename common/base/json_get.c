/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Look-ups. Objects that people write are small, so a look-up walks the members, from the last,
 * which finds the last of duplicate keys first. Whoever reads a vocabulary walks it once instead.
 */
#include "common/base/json.h"

static const struct mtr_json *get(const struct mtr_json *v, struct mtr_str key)
{
    if (!v || v->kind != MTR_JSON_OBJECT)
        return NULL;
    for (size_t i = v->count; i-- > 0;)
        if (mtr_str_equal(v->members[i].key, key))
            return &v->members[i].value;
    return NULL;
}

const struct mtr_json *mtr_json_get(const struct mtr_json *v, const char *key)
{
    return get(v, mtr_str(key));
}

const struct mtr_json *mtr_json_path(const struct mtr_json *v, const char *path)
{
    for (;;) {
        size_t len = strcspn(path, ".");
        v = get(v, (struct mtr_str){path, len});
        if (!v || !path[len])
            return v;
        path += len + 1;
    }
}

const char *mtr_json_kind_name(const struct mtr_json *v)
{
    static const char *const names[] = {
        [MTR_JSON_NULL] = "null",     [MTR_JSON_BOOL] = "boolean",  [MTR_JSON_INT] = "integer",
        [MTR_JSON_REAL] = "number",   [MTR_JSON_STRING] = "string", [MTR_JSON_ARRAY] = "array",
        [MTR_JSON_OBJECT] = "object",
    };
    return v ? names[v->kind] : "nothing";
}

/* The member if it is there and not null. */
static const struct mtr_json *present(const struct mtr_json *o, const char *key)
{
    const struct mtr_json *v = mtr_json_get(o, key);
    return v && v->kind != MTR_JSON_NULL ? v : NULL;
}

static bool wrong_kind(const struct mtr_json *v, const char *key, const char *expected,
                       struct mtr_error *err)
{
    return mtr_fail_field(err, MTR_INVALID, key, "'%s' is of type %s, expected %s", key,
                          mtr_json_kind_name(v), expected);
}

bool mtr_json_opt_bool(const struct mtr_json *o, const char *key, bool *out, struct mtr_error *err)
{
    const struct mtr_json *v = present(o, key);
    if (!v)
        return true;
    if (v->kind != MTR_JSON_BOOL)
        return wrong_kind(v, key, "a boolean", err);
    *out = v->boolean;
    return true;
}

bool mtr_json_opt_i64(const struct mtr_json *o, const char *key, int64_t min, int64_t max,
                      int64_t *out, struct mtr_error *err)
{
    const struct mtr_json *v = present(o, key);
    if (!v)
        return true;
    if (v->kind != MTR_JSON_INT)
        return wrong_kind(v, key, "an integer", err);
    if (v->big || v->integer < min || v->integer > max)
        return mtr_fail_field(err, MTR_INVALID, key, "'%s' is %.*s, expected %lld to %lld", key,
                              v->text.len > 40 ? 40 : (int)v->text.len, v->text.ptr, (long long)min,
                              (long long)max);
    *out = v->integer;
    return true;
}

bool mtr_json_number(const struct mtr_json *v, double *out)
{
    if (!v || (v->kind != MTR_JSON_INT && v->kind != MTR_JSON_REAL))
        return false;
    *out = v->kind == MTR_JSON_INT && !v->big ? (double)v->integer : v->real;
    return true;
}

bool mtr_json_opt_f64(const struct mtr_json *o, const char *key, double min, double max,
                      double *out, struct mtr_error *err)
{
    const struct mtr_json *v = present(o, key);
    double d;
    if (!v)
        return true;
    if (!mtr_json_number(v, &d))
        return wrong_kind(v, key, "a number", err);
    if (!(d >= min && d <= max))
        return mtr_fail_field(err, MTR_INVALID, key, "'%s' is %.*s, expected %g to %g", key,
                              v->text.len > 40 ? 40 : (int)v->text.len, v->text.ptr, min, max);
    *out = d;
    return true;
}

bool mtr_json_opt_str(const struct mtr_json *o, const char *key, struct mtr_str *out,
                      struct mtr_error *err)
{
    const struct mtr_json *v = present(o, key);
    if (!v)
        return true;
    if (v->kind != MTR_JSON_STRING)
        return wrong_kind(v, key, "a string", err);
    *out = v->text;
    return true;
}
