/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * GGUF, versions 2 and 3, little-endian: one file with typed metadata and tensors.
 *
 *   "GGUF" u32 version, u64 tensor count, u64 metadata count
 *   metadata: string key, u32 type, value         (string: u64 length, bytes)
 *   tensors:  string name, u32 rank, u64 dimensions innermost first, u32 type, u64 offset
 *   padding to general.alignment (32), then data; offsets count from there
 *
 * The header is walked once and every value of it checked; what is kept are pointers into the
 * mapping, so that a vocabulary of 260,000 strings costs nothing until somebody iterates over it.
 * Refused: arrays of arrays, booleans that are neither 0 nor 1, duplicate keys, unknown
 * types (by name where ggml knows them), offsets that are not aligned, overlap or leave the file.
 * Tensor names may still repeat: checkpoint.c checks that over all files of a model.
 *
 * Source: the GGUF specification in ggml's documentation (docs/gguf.md).
 */
#ifndef MTR_CHECKPOINT_GGUF_H
#define MTR_CHECKPOINT_GGUF_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/str.h"
#include "common/checkpoint/checkpoint.h"

#define MTR_GGUF_MAX_METADATA     65536
#define MTR_GGUF_MAX_KEY_BYTES    65535
#define MTR_GGUF_MAX_NAME_BYTES   255         /* of a tensor; the specification says 64 */
#define MTR_GGUF_MAX_ARRAY_ITEMS  (16u << 20) /* sixty times the largest vocabulary known */
#define MTR_GGUF_MAX_HEADER_BYTES (256u << 20)
#define MTR_GGUF_MAX_RANK         4
#define MTR_GGUF_MAX_ALIGNMENT    (1u << 20)

enum mtr_gguf_type { /* as in the file */
                     MTR_GGUF_U8,
                     MTR_GGUF_I8,
                     MTR_GGUF_U16,
                     MTR_GGUF_I16,
                     MTR_GGUF_U32,
                     MTR_GGUF_I32,
                     MTR_GGUF_F32,
                     MTR_GGUF_BOOL,
                     MTR_GGUF_STRING,
                     MTR_GGUF_ARRAY,
                     MTR_GGUF_U64,
                     MTR_GGUF_I64,
                     MTR_GGUF_F64,
                     MTR_GGUF_TYPE_COUNT,
};

struct mtr_gguf_array {
    enum mtr_gguf_type type; /* of the items; never ARRAY */
    uint64_t count;
    struct mtr_str data; /* the items as they stand in the file, not aligned */
};

struct mtr_gguf_kv {
    struct mtr_str key; /* valid UTF-8 without control characters */
    enum mtr_gguf_type type;
    union {
        uint64_t u;       /* U8 U16 U32 U64 */
        int64_t i;        /* I8 I16 I32 I64 */
        double f;         /* F32 F64; may be infinite or NaN */
        bool b;           /* BOOL */
        struct mtr_str s; /* STRING: any bytes */
        struct mtr_gguf_array array;
    };
};

struct mtr_gguf {
    uint32_t version;
    uint32_t alignment;
    const struct mtr_gguf_kv *kv; /* [kv_count] in the order of the file */
    uint32_t kv_count;
    const uint32_t *kv_by_key;  /* [kv_count] indices, sorted by key */
    struct mtr_tensor *tensors; /* [tensor_count] in the order of the file; file is 0 */
    uint32_t tensor_count;
    uint64_t data_offset; /* where tensor data begins */
};

/* Reads the header of a whole file in memory. All pointers lead into `bytes` and the arena. The
 * message does not name the file: the caller prefixes it. */
bool mtr_gguf_parse(struct mtr_arena *arena, struct mtr_str bytes, struct mtr_gguf *out,
                    struct mtr_error *err);

/* The entry of that key, or NULL. */
const struct mtr_gguf_kv *mtr_gguf_get(const struct mtr_gguf *g, const char *key);

/*
 * Readers for optional keys: true and *out set when present and right; true and *out untouched when
 * absent; false with key, found and expected named when of another type or out of range. Integers
 * of any width and sign are taken for i64, and floats of any width and integers for f64.
 */
bool mtr_gguf_opt_bool(const struct mtr_gguf *g, const char *key, bool *out, struct mtr_error *err);
bool mtr_gguf_opt_i64(const struct mtr_gguf *g, const char *key, int64_t min, int64_t max,
                      int64_t *out, struct mtr_error *err);
bool mtr_gguf_opt_f64(const struct mtr_gguf *g, const char *key, double min, double max,
                      double *out, struct mtr_error *err);
bool mtr_gguf_opt_str(const struct mtr_gguf *g, const char *key, struct mtr_str *out,
                      struct mtr_error *err);
bool mtr_gguf_opt_strings(const struct mtr_gguf *g, const char *key, struct mtr_gguf_array *out,
                          struct mtr_error *err); /* an array of STRING */
bool mtr_gguf_opt_numbers(const struct mtr_gguf *g, const char *key, struct mtr_gguf_array *out,
                          struct mtr_error *err); /* an array of any number type, or BOOL */

/* Walks an array of strings in the mapped file: start with {0}; false at the end. */
struct mtr_gguf_cursor {
    size_t at;
    uint64_t index; /* of the next string */
};
bool mtr_gguf_next(const struct mtr_gguf_array *a, struct mtr_gguf_cursor *c, struct mtr_str *out);

/* Item i of an array of numbers or booleans; 0 outside. A U64 beyond INT64_MAX saturates; floats
 * are rounded towards zero and saturate, NaN is 0. */
int64_t mtr_gguf_item_i64(const struct mtr_gguf_array *a, uint64_t i);
double mtr_gguf_item_f64(const struct mtr_gguf_array *a, uint64_t i);

/* "uint32", "string", ...: for messages. */
const char *mtr_gguf_type_name(enum mtr_gguf_type type);

#endif
