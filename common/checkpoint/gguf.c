/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reading a GGUF header: one pass with a cursor that can't leave the bytes.
 *
 * Every read goes through take(), which is the only place where a length from the file meets a
 * pointer. A count is believed only after the bytes that it implies at least have been seen to be
 * there, so that what is allocated never exceeds a small multiple of the file's size.
 */
#include "common/checkpoint/gguf.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/checkpoint/gguf_value.h"
#include "common/checkpoint/listing.h"

#define MIN_KV_BYTES     (8 + 1 + 4 + 1)         /* key length, key, type, value */
#define MIN_TENSOR_BYTES (8 + 1 + 4 + 0 + 4 + 8) /* name length, name, rank, type, offset */

struct reader {
    const uint8_t *bytes;
    size_t size; /* of the file, or MTR_GGUF_MAX_HEADER_BYTES of a larger one */
    size_t at;
    bool capped;
};

/* Tensor types by the number in the file. A name without `known` exists in ggml but isn't read. */
static const struct {
    const char *name;
    bool known;
    enum mtr_format format;
} tensor_types[] = {
    [0] = {"F32", true, MTR_F32},
    [1] = {"F16", true, MTR_F16},
    [2] = {"Q4_0", true, MTR_Q4_0},
    [3] = {"Q4_1", true, MTR_Q4_1},
    [4] = {"Q4_2"},
    [5] = {"Q4_3"},
    [6] = {"Q5_0", true, MTR_Q5_0},
    [7] = {"Q5_1", true, MTR_Q5_1},
    [8] = {"Q8_0", true, MTR_Q8_0},
    [9] = {"Q8_1"},
    [10] = {"Q2_K"},
    [11] = {"Q3_K"},
    [12] = {"Q4_K", true, MTR_Q4_K},
    [13] = {"Q5_K", true, MTR_Q5_K},
    [14] = {"Q6_K", true, MTR_Q6_K},
    [15] = {"Q8_K"},
    [16] = {"IQ2_XXS"},
    [17] = {"IQ2_XS"},
    [18] = {"IQ3_XXS"},
    [19] = {"IQ1_S"},
    [20] = {"IQ4_NL"},
    [21] = {"IQ3_S"},
    [22] = {"IQ2_S"},
    [23] = {"IQ4_XS"},
    [24] = {"I8", true, MTR_I8},
    [25] = {"I16"},
    [26] = {"I32", true, MTR_I32},
    [27] = {"I64", true, MTR_I64},
    [28] = {"F64"},
    [29] = {"IQ1_M"},
    [30] = {"BF16", true, MTR_BF16},
    [31] = {"Q4_0_4_4"},
    [32] = {"Q4_0_4_8"},
    [33] = {"Q4_0_8_8"},
    [34] = {"TQ1_0"},
    [35] = {"TQ2_0"},
    [36] = {"IQ4_NL_4_4"},
    [37] = {"IQ4_NL_4_8"},
    [38] = {"IQ4_NL_8_8"},
    [39] = {"MXFP4"},
    [40] = {"NVFP4"},
};

/* The next n bytes, or NULL when the file ends before. */
static const uint8_t *take(struct reader *r, uint64_t n, struct mtr_error *err)
{
    if (n > r->size - r->at) {
        if (r->capped && n < r->size)
            mtr_fail(err, MTR_TOO_LARGE, "the header has more than the allowed %u bytes",
                     MTR_GGUF_MAX_HEADER_BYTES);
        else
            mtr_fail(err, MTR_INVALID,
                     "the file ends at byte %zu, where %" PRIu64 " more were expected at byte %zu",
                     r->size, n, r->at);
        return NULL;
    }
    const uint8_t *p = r->bytes + r->at;
    r->at += n;
    return p;
}

static bool take_int(struct reader *r, unsigned bytes, uint64_t *out, struct mtr_error *err)
{
    const uint8_t *p = take(r, bytes, err);
    if (!p)
        return false;
    *out = mtr_gguf_word(p, bytes);
    return true;
}

static bool take_str(struct reader *r, struct mtr_str *out, struct mtr_error *err)
{
    uint64_t len;
    if (!take_int(r, 8, &len, err))
        return false;
    const uint8_t *p = take(r, len, err);
    *out = (struct mtr_str){(const char *)p, (size_t)len};
    return p != NULL;
}

/* A number, or a boolean, which must be 0 or 1. */
static bool decode(enum mtr_gguf_type type, const uint8_t *p, struct mtr_gguf_kv *out,
                   struct mtr_error *err)
{
    mtr_gguf_decode(type, p, out);
    if (type != MTR_GGUF_BOOL)
        return true;
    if (out->u > 1)
        return mtr_fail(err, MTR_INVALID, "a bool is %" PRIu64 ", expected 0 or 1", out->u);
    out->b = out->u != 0;
    return true;
}

static bool take_type(struct reader *r, enum mtr_gguf_type *out, struct mtr_error *err)
{
    uint64_t type;
    if (!take_int(r, 4, &type, err))
        return false;
    if (type >= MTR_GGUF_TYPE_COUNT)
        return mtr_fail(err, MTR_INVALID, "value type %" PRIu64 " is unknown, the last is %d", type,
                        MTR_GGUF_TYPE_COUNT - 1);
    *out = (enum mtr_gguf_type)type;
    return true;
}

static bool take_strings(struct reader *r, uint64_t count, struct mtr_error *err)
{
    struct mtr_str s;
    for (uint64_t i = 0; i < count; i++)
        if (!take_str(r, &s, err))
            return mtr_error_prefix(err, "item %" PRIu64 " of %" PRIu64, i, count);
    return true;
}

static bool take_bools(struct reader *r, uint64_t count, struct mtr_error *err)
{
    struct mtr_gguf_kv v;
    const uint8_t *p = take(r, count, err);
    for (uint64_t i = 0; p && i < count; i++)
        if (!decode(MTR_GGUF_BOOL, p + i, &v, err))
            return mtr_error_prefix(err, "item %" PRIu64 " of %" PRIu64, i, count);
    return p != NULL;
}

static bool take_array(struct reader *r, struct mtr_gguf_array *out, struct mtr_error *err)
{
    if (!take_type(r, &out->type, err) || !take_int(r, 8, &out->count, err))
        return mtr_error_prefix(err, "array");
    if (out->type == MTR_GGUF_ARRAY)
        return mtr_fail(err, MTR_UNSUPPORTED, "an array of arrays is not supported");
    if (out->count > MTR_GGUF_MAX_ARRAY_ITEMS)
        return mtr_fail(err, MTR_TOO_LARGE, "an array of %" PRIu64 " items, at most %u are allowed",
                        out->count, MTR_GGUF_MAX_ARRAY_ITEMS);
    size_t from = r->at;
    bool ok = out->type == MTR_GGUF_STRING ? take_strings(r, out->count, err)
              : out->type == MTR_GGUF_BOOL
                  ? take_bools(r, out->count, err)
                  : take(r, out->count * mtr_gguf_type_bytes(out->type), err) != NULL;
    if (!ok)
        return mtr_error_prefix(err, "array of %s", mtr_gguf_type_name(out->type));
    out->data = (struct mtr_str){(const char *)r->bytes + from, r->at - from};
    return true;
}

static bool take_value(struct reader *r, struct mtr_gguf_kv *kv, struct mtr_error *err)
{
    if (!take_type(r, &kv->type, err))
        return false;
    if (kv->type == MTR_GGUF_STRING)
        return take_str(r, &kv->s, err);
    if (kv->type == MTR_GGUF_ARRAY)
        return take_array(r, &kv->array, err);
    const uint8_t *p = take(r, mtr_gguf_type_bytes(kv->type), err);
    return p && decode(kv->type, p, kv, err);
}

static bool take_kv(struct reader *r, struct mtr_gguf_kv *kv, struct mtr_error *err)
{
    char quoted[MTR_QUOTED_BYTES];
    if (!take_str(r, &kv->key, err) || !mtr_name_check(kv->key, MTR_GGUF_MAX_KEY_BYTES, err))
        return mtr_error_prefix(err, "key");
    if (!take_value(r, kv, err))
        return mtr_error_prefix(err, "%s", mtr_quoted(kv->key, quoted));
    return true;
}

static int by_key(const void *pa, const void *pb, void *context)
{
    const struct mtr_gguf_kv *kv = context;
    return mtr_str_order(kv[*(const uint32_t *)pa].key, kv[*(const uint32_t *)pb].key);
}

static bool index_keys(struct mtr_arena *arena, struct mtr_gguf *g, struct mtr_error *err)
{
    char quoted[MTR_QUOTED_BYTES];
    uint32_t *order = mtr_arena_calloc(arena, g->kv_count + 1u, sizeof *order);
    if (!order)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for %" PRIu32 " keys", g->kv_count);
    for (uint32_t i = 0; i < g->kv_count; i++)
        order[i] = i;
    qsort_r(order, g->kv_count, sizeof *order, by_key, (void *)g->kv);
    for (uint32_t i = 1; i < g->kv_count; i++)
        if (mtr_str_equal(g->kv[order[i]].key, g->kv[order[i - 1]].key))
            return mtr_fail(err, MTR_INVALID, "metadata: the key %s stands there twice",
                            mtr_quoted(g->kv[order[i]].key, quoted));
    g->kv_by_key = order;
    return true;
}

static bool take_metadata(struct mtr_arena *arena, struct reader *r, struct mtr_gguf *g,
                          struct mtr_error *err)
{
    struct mtr_gguf_kv *kv = mtr_arena_calloc(arena, g->kv_count + 1u, sizeof *kv);
    if (!kv)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for %" PRIu32 " metadata entries",
                        g->kv_count);
    for (uint32_t i = 0; i < g->kv_count; i++)
        if (!take_kv(r, &kv[i], err))
            return mtr_error_prefix(err, "metadata entry %" PRIu32, i);
    g->kv = kv;
    return index_keys(arena, g, err);
}

static bool read_alignment(struct mtr_gguf *g, struct mtr_error *err)
{
    const struct mtr_gguf_kv *kv = mtr_gguf_get(g, "general.alignment");
    g->alignment = 32;
    if (!kv)
        return true;
    if (kv->type != MTR_GGUF_U32)
        return mtr_fail(err, MTR_INVALID, "general.alignment is of type %s, expected uint32",
                        mtr_gguf_type_name(kv->type));
    if (kv->u < 8 || kv->u > MTR_GGUF_MAX_ALIGNMENT || (kv->u & (kv->u - 1)) != 0)
        return mtr_fail(err, MTR_INVALID,
                        "general.alignment is %" PRIu64 ", expected a power of two from 8 to %u",
                        kv->u, MTR_GGUF_MAX_ALIGNMENT);
    g->alignment = (uint32_t)kv->u;
    return true;
}

static bool take_dimensions(struct reader *r, struct mtr_tensor *t, struct mtr_error *err)
{
    uint64_t rank;
    if (!take_int(r, 4, &rank, err))
        return false;
    if (rank > MTR_GGUF_MAX_RANK)
        return mtr_fail(err, MTR_INVALID, "it has %" PRIu64 " dimensions, at most %d are allowed",
                        rank, MTR_GGUF_MAX_RANK);
    t->rank = (uint32_t)rank;
    for (uint32_t i = 0; i < t->rank; i++) {
        uint64_t *d = &t->shape[t->rank - 1 - i]; /* innermost first in the file */
        if (!take_int(r, 8, d, err))
            return false;
        if (*d == 0)
            return mtr_fail(err, MTR_INVALID, "dimension %" PRIu32 " is 0", i);
    }
    return true;
}

static bool take_tensor_type(struct reader *r, struct mtr_tensor *t, struct mtr_error *err)
{
    uint64_t type;
    if (!take_int(r, 4, &type, err))
        return false;
    if (type >= sizeof tensor_types / sizeof tensor_types[0])
        return mtr_fail(err, MTR_INVALID, "its type %" PRIu64 " is unknown", type);
    if (!tensor_types[type].known)
        return mtr_fail(err, MTR_UNSUPPORTED, "its type %s (%" PRIu64 ") is not supported",
                        tensor_types[type].name, type);
    t->format = tensor_types[type].format;
    return true;
}

/* Name, dimensions, type; t->offset is left as it stands in the file. */
static bool take_tensor(struct reader *r, uint32_t alignment, struct mtr_tensor *t,
                        struct mtr_error *err)
{
    char quoted[MTR_QUOTED_BYTES];
    if (!take_str(r, &t->name, err) || !mtr_name_check(t->name, MTR_GGUF_MAX_NAME_BYTES, err))
        return false;
    bool ok = take_dimensions(r, t, err) && take_tensor_type(r, t, err) &&
              take_int(r, 8, &t->offset, err) && mtr_listing_size(t, err);
    if (ok && t->offset % alignment != 0)
        ok = mtr_fail(err, MTR_INVALID,
                      "its offset %" PRIu64 " is no multiple of the alignment %" PRIu32, t->offset,
                      alignment);
    return ok || mtr_error_prefix(err, "%s", mtr_quoted(t->name, quoted));
}

static bool take_tensors(struct mtr_arena *arena, struct reader *r, struct mtr_gguf *g,
                         struct mtr_error *err)
{
    g->tensors = mtr_arena_calloc(arena, g->tensor_count + 1u, sizeof *g->tensors);
    if (!g->tensors)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for %" PRIu32 " tensors", g->tensor_count);
    for (uint32_t i = 0; i < g->tensor_count; i++)
        if (!take_tensor(r, g->alignment, &g->tensors[i], err))
            return mtr_error_prefix(err, "tensor %" PRIu32 " of %" PRIu32, i, g->tensor_count);
    return true;
}

/* Turns offsets into the data into offsets into the file, and checks them. */
static bool place_tensors(struct reader *r, struct mtr_gguf *g, struct mtr_error *err)
{
    char quoted[MTR_QUOTED_BYTES];
    uint64_t mask = g->alignment - 1;
    g->data_offset = (r->at + mask) & ~mask;
    if (g->tensor_count == 0)
        return true;
    if (g->data_offset > r->size)
        return mtr_fail(err, MTR_INVALID,
                        "the file ends at byte %zu, before its tensor data at byte %" PRIu64,
                        r->size, g->data_offset);
    for (uint32_t i = 0; i < g->tensor_count; i++) {
        struct mtr_tensor *t = &g->tensors[i];
        if (__builtin_add_overflow(t->offset, g->data_offset, &t->offset))
            return mtr_fail(err, MTR_INVALID, "tensor %s: its offset is out of range",
                            mtr_quoted(t->name, quoted));
    }
    return mtr_listing_layout(g->tensors, g->tensor_count, g->data_offset, r->size,
                              MTR_HOLES_ALLOWED, err);
}

static bool take_version(struct reader *r, struct mtr_gguf *g, struct mtr_error *err)
{
    uint64_t version;
    const uint8_t *magic = take(r, 4, err);
    if (!magic)
        return false;
    if (memcmp(magic, "GGUF", 4) != 0)
        return mtr_fail(err, MTR_INVALID,
                        "begins with the bytes %02x %02x %02x %02x, expected \"GGUF\"", magic[0],
                        magic[1], magic[2], magic[3]);
    if (!take_int(r, 4, &version, err))
        return false;
    if (version != 0 && (version & 0xffff) == 0)
        return mtr_fail(err, MTR_UNSUPPORTED, "a big-endian GGUF file; only little-endian is read");
    if (version == 1)
        return mtr_fail(err, MTR_UNSUPPORTED, "GGUF version 1; versions 2 and 3 are read");
    if (version != 2 && version != 3)
        return mtr_fail(err, version > 3 ? MTR_UNSUPPORTED : MTR_INVALID,
                        "GGUF version %" PRIu64 "; versions 2 and 3 are read", version);
    g->version = (uint32_t)version;
    return true;
}

/* A count that the rest of the file can hold. */
static bool take_count(struct reader *r, const char *what, uint64_t max, uint64_t min_bytes,
                       uint32_t *out, struct mtr_error *err)
{
    uint64_t n;
    if (!take_int(r, 8, &n, err))
        return false;
    if (n > max)
        return mtr_fail(err, MTR_TOO_LARGE,
                        "it says that it has %" PRIu64 " %s, at most %" PRIu64 " are allowed", n,
                        what, max);
    if (n * min_bytes > r->size - r->at)
        return mtr_fail(err, MTR_INVALID,
                        "it says that it has %" PRIu64 " %s, which its %zu bytes can't hold", n,
                        what, r->size);
    *out = (uint32_t)n;
    return true;
}

bool mtr_gguf_parse(struct mtr_arena *arena, struct mtr_str bytes, struct mtr_gguf *out,
                    struct mtr_error *err)
{
    struct reader r = {.bytes = (const uint8_t *)bytes.ptr, .size = bytes.len};
    r.capped = bytes.len > MTR_GGUF_MAX_HEADER_BYTES;
    if (r.capped)
        r.size = MTR_GGUF_MAX_HEADER_BYTES;
    *out = (struct mtr_gguf){0};
    bool ok = take_version(&r, out, err) &&
              take_count(&r, "tensors", MTR_CHECKPOINT_MAX_TENSORS, MIN_TENSOR_BYTES,
                         &out->tensor_count, err) &&
              take_count(&r, "metadata entries", MTR_GGUF_MAX_METADATA, MIN_KV_BYTES,
                         &out->kv_count, err) &&
              take_metadata(arena, &r, out, err) && read_alignment(out, err) &&
              take_tensors(arena, &r, out, err);
    r.size = bytes.len;
    return ok && place_tensors(&r, out, err);
}
