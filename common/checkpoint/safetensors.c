/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reading a safetensors header. The JSON tree of a header lives in a scratch arena and dies here;
 * what is kept is one struct and one name a tensor.
 */
#include "common/checkpoint/safetensors.h"

#include <inttypes.h>

#include "common/base/json.h"
#include "common/checkpoint/listing.h"

#define SCRATCH_BYTES ((size_t)512 << 20) /* what the tree of the largest header may take */

/* A name without `known` is in the format but not read here. */
static const struct {
    const char *name;
    bool known;
    enum mtr_format format;
} dtypes[] = {
    {"F32", true, MTR_F32},
    {"F16", true, MTR_F16},
    {"BF16", true, MTR_BF16},
    {"F8_E4M3", true, MTR_E4M3},
    {"F8_E5M2", true, MTR_E5M2},
    {"F4", true, MTR_E2M1},
    {"I8", true, MTR_I8},
    {"I32", true, MTR_I32},
    {"I64", true, MTR_I64},
    {"U8", true, MTR_U8},
    {"BOOL", true, MTR_BOOL},
    {"F8_E8M0"},
    {"F6_E2M3"},
    {"F6_E3M2"},
    {"F64"},
    {"I16"},
    {"U16"},
    {"U32"},
    {"U64"},
    {"C64"},
};

static bool read_dtype(const struct mtr_json *v, enum mtr_format *out, struct mtr_error *err)
{
    char quoted[MTR_QUOTED_BYTES];
    const struct mtr_json *dtype = mtr_json_get(v, "dtype");
    if (!dtype || dtype->kind != MTR_JSON_STRING)
        return mtr_fail(err, MTR_INVALID, "\"dtype\" is %s, expected a string",
                        dtype ? mtr_json_kind_name(dtype) : "missing");
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (!mtr_str_is(dtype->text, dtypes[i].name))
            continue;
        if (!dtypes[i].known)
            return mtr_fail(err, MTR_UNSUPPORTED, "its dtype %s is not supported", dtypes[i].name);
        *out = dtypes[i].format;
        return true;
    }
    return mtr_fail(err, MTR_INVALID, "its dtype %s is unknown", mtr_quoted(dtype->text, quoted));
}

/* An array of min..max numbers in [0, 2^62). */
static bool read_numbers(const struct mtr_json *v, const char *key, uint32_t min, uint32_t max,
                         uint64_t *out, uint32_t *count, struct mtr_error *err)
{
    const struct mtr_json *a = mtr_json_get(v, key);
    if (!a || a->kind != MTR_JSON_ARRAY)
        return mtr_fail(err, MTR_INVALID, "\"%s\" is %s, expected an array", key,
                        a ? mtr_json_kind_name(a) : "missing");
    if (a->count < min || a->count > max)
        return mtr_fail(err, MTR_INVALID,
                        "\"%s\" has %" PRIu32 " items, expected %" PRIu32 " to %" PRIu32, key,
                        a->count, min, max);
    for (uint32_t i = 0; i < a->count; i++) {
        const struct mtr_json *n = &a->items[i];
        if (n->kind != MTR_JSON_INT || n->big || n->integer < 0 || n->integer >> 62 != 0)
            return mtr_fail(err, MTR_INVALID,
                            "\"%s\"[%" PRIu32 "] is %s %.*s, expected 0 to 2^62-1", key, i,
                            mtr_json_kind_name(n), n->text.len > 40 ? 40 : (int)n->text.len,
                            n->text.ptr ? n->text.ptr : "");
        out[i] = (uint64_t)n->integer;
    }
    *count = a->count;
    return true;
}

static bool read_tensor(const struct mtr_json *v, uint64_t data, struct mtr_tensor *t,
                        struct mtr_error *err)
{
    uint64_t offsets[2];
    uint32_t two;
    char shape[MTR_SHAPE_BYTES];
    if (v->kind != MTR_JSON_OBJECT)
        return mtr_fail(err, MTR_INVALID, "is %s, expected an object", mtr_json_kind_name(v));
    if (!read_dtype(v, &t->format, err) ||
        !read_numbers(v, "shape", 0, MTR_TENSOR_MAX_RANK, t->shape, &t->rank, err) ||
        !read_numbers(v, "data_offsets", 2, 2, offsets, &two, err) || !mtr_listing_size(t, err))
        return false;
    if (offsets[1] < offsets[0])
        return mtr_fail(err, MTR_INVALID,
                        "its data ends at %" PRIu64 " before it begins at %" PRIu64, offsets[1],
                        offsets[0]);
    if (offsets[1] - offsets[0] != t->bytes)
        return mtr_fail(err, MTR_INVALID,
                        "its data_offsets hold %" PRIu64
                        " bytes, its shape %s in %s needs %" PRIu64,
                        offsets[1] - offsets[0], mtr_tensor_shape(t, shape),
                        mtr_format_info(t->format)->name, t->bytes);
    t->offset = data + offsets[0];
    return true;
}

static bool check_metadata(const struct mtr_json *v, struct mtr_error *err)
{
    if (v->kind != MTR_JSON_OBJECT)
        return mtr_fail(err, MTR_INVALID, "__metadata__ is %s, expected an object",
                        mtr_json_kind_name(v));
    for (uint32_t i = 0; i < v->count; i++)
        if (v->members[i].value.kind != MTR_JSON_STRING)
            return mtr_fail(err, MTR_INVALID,
                            "__metadata__ has a value that is %s, expected a string",
                            mtr_json_kind_name(&v->members[i].value));
    return true;
}

static bool read_member(struct mtr_arena *arena, const struct mtr_json_member *m, uint64_t data,
                        struct mtr_safetensors *out, struct mtr_error *err)
{
    char quoted[MTR_QUOTED_BYTES];
    if (mtr_str_is(m->key, "__metadata__"))
        return check_metadata(&m->value, err);
    struct mtr_tensor *t = &out->tensors[out->tensor_count];
    if (!mtr_name_check(m->key, MTR_SAFETENSORS_MAX_NAME_BYTES, err) ||
        !read_tensor(&m->value, data, t, err))
        return mtr_error_prefix(err, "tensor %s", mtr_quoted(m->key, quoted));
    t->name = mtr_arena_str(arena, m->key);
    if (!t->name.ptr)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for the names of the tensors");
    out->tensor_count++;
    return true;
}

static bool read_header(struct mtr_arena *arena, struct mtr_arena *scratch, struct mtr_str text,
                        uint64_t data, struct mtr_safetensors *out, struct mtr_error *err)
{
    const struct mtr_json *root = mtr_json_parse(scratch, text, MTR_JSON_STRICT, err);
    if (!root)
        return mtr_error_prefix(err, "header");
    if (root->kind != MTR_JSON_OBJECT)
        return mtr_fail(err, MTR_INVALID, "the header is %s, expected an object",
                        mtr_json_kind_name(root));
    if (root->count > MTR_CHECKPOINT_MAX_TENSORS)
        return mtr_fail(err, MTR_TOO_LARGE, "%" PRIu32 " tensors, at most %d are allowed",
                        root->count, MTR_CHECKPOINT_MAX_TENSORS);
    out->tensors = mtr_arena_calloc(arena, root->count + 1u, sizeof *out->tensors);
    if (!out->tensors)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for %" PRIu32 " tensors", root->count);
    for (uint32_t i = 0; i < root->count; i++)
        if (!read_member(arena, &root->members[i], data, out, err))
            return false;
    return true;
}

bool mtr_safetensors_parse(struct mtr_arena *arena, struct mtr_str bytes,
                           struct mtr_safetensors *out, struct mtr_error *err)
{
    uint64_t header = 0;
    *out = (struct mtr_safetensors){0};
    if (bytes.len < 10)
        return mtr_fail(err, MTR_INVALID, "has %zu bytes, too few for a safetensors header",
                        bytes.len);
    for (unsigned i = 0; i < 8; i++)
        header |= (uint64_t)(uint8_t)bytes.ptr[i] << 8 * i;
    if (header > MTR_SAFETENSORS_MAX_HEADER_BYTES)
        return mtr_fail(err, MTR_TOO_LARGE,
                        "says that its header has %" PRIu64 " bytes, at most %u are allowed",
                        header, MTR_SAFETENSORS_MAX_HEADER_BYTES);
    if (header > bytes.len - 8)
        return mtr_fail(err, MTR_INVALID,
                        "says that its header has %" PRIu64 " bytes, the file has %zu (cut off?)",
                        header, bytes.len);
    if (header < 2 || bytes.ptr[8] != '{')
        return mtr_fail(err, MTR_INVALID, "its header does not begin with '{'");
    struct mtr_arena scratch;
    mtr_arena_init(&scratch, SCRATCH_BYTES);
    bool ok = read_header(arena, &scratch, mtr_str_sub(bytes, 8, header), 8 + header, out, err) &&
              mtr_listing_layout(out->tensors, out->tensor_count, 8 + header, bytes.len,
                                 MTR_HOLES_REFUSED, err);
    mtr_arena_free(&scratch);
    return ok;
}
