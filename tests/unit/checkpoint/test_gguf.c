/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The GGUF reader: what it reads, what it refuses and with which words; every cut and many
 * mutations. */
#include "common/checkpoint/gguf.c"

#include <time.h>

#include "tests/unit/check_main.h"
#include "tests/unit/checkpoint/build.h"

#define SLOWEST_NS 1000000000 /* for any file of this size */

static struct mtr_arena arena;
static struct mtr_error err;

/* All kinds of values and two tensors. */
static void build_good(struct mtr_buf *b, uint32_t version)
{
    put_head(b, version, 2, 16);
    put_kv_text(b, "general.architecture", "llama");
    put_kv_u32(b, "general.alignment", 64);
    put_key(b, "u8", 0), put_uint(b, 200, 1);
    put_key(b, "i8", 1), put_uint(b, 0x80, 1);
    put_key(b, "u16", 2), put_uint(b, 65535, 2);
    put_key(b, "i16", 3), put_uint(b, 0xfffe, 2);
    put_key(b, "i32", 5), put_uint(b, 0xffffffff, 4);
    put_kv_f32(b, "f32", 1.5f);
    put_kv_bool(b, "bool", 1);
    put_key(b, "u64", 10), put_uint(b, UINT64_MAX, 8);
    put_key(b, "i64", 11), put_uint(b, (uint64_t)INT64_MIN, 8);
    put_key(b, "f64", 12), put_uint(b, 0x3ff8000000000000, 8);
    put_kv_array(b, "strings", 8, 3), put_text(b, "a"), put_text(b, ""), put_text(b, "ccc");
    put_kv_array(b, "numbers", 5, 2), put_uint(b, 7, 4), put_uint(b, 0xffffffff, 4);
    put_kv_array(b, "bools", 7, 3), put_uint(b, 0x010001, 3);
    put_kv_array(b, "empty", 4, 0);
    put_tensor(b, "w", 2, (uint64_t[]){64, 3}, 3, 0); /* q4_1: 3 rows of 40 bytes */
    put_tensor(b, "n", 1, (uint64_t[]){5}, 0, 128);   /* f32 */
    put_padding(b, 64);
    put_zeros(b, 128 + 20);
}

static bool parse(const void *bytes, size_t len, struct mtr_gguf *g)
{
    memset(&err, 0, sizeof err);
    mtr_arena_free(&arena);
    mtr_arena_init(&arena, 64u << 20);
    return mtr_gguf_parse(&arena, (struct mtr_str){bytes, len}, g, &err);
}

/* Parses a copy that ends where the file ends, so that a sanitizer sees a byte too far. */
static bool parse_exact(const void *bytes, size_t len, struct mtr_gguf *g)
{
    struct timespec a, b;
    char *copy = malloc(len ? len : 1);
    memcpy(copy, bytes, len);
    clock_gettime(CLOCK_MONOTONIC, &a);
    bool ok = parse(copy, len, g);
    clock_gettime(CLOCK_MONOTONIC, &b);
    ck_assert_int_lt((b.tv_sec - a.tv_sec) * 1000000000l + b.tv_nsec - a.tv_nsec, SLOWEST_NS);
    if (ok)
        for (uint32_t i = 0; i < g->tensor_count; i++) {
            const struct mtr_tensor *t = &g->tensors[i];
            ck_assert_uint_le(t->offset, len);
            ck_assert_uint_le(t->bytes, len - t->offset);
            ck_assert_uint_gt(t->name.len, 0);
        }
    else
        ck_assert_uint_gt(strlen(err.message), 10);
    free(copy);
    return ok;
}

START_TEST(good)
{
    for (uint32_t version = 2; version <= 3; version++) {
        struct mtr_buf b = {0};
        struct mtr_gguf g;
        build_good(&b, version);
        ck_assert_msg(parse(b.data, b.len, &g), "%s", err.message);
        ck_assert_uint_eq(g.version, version);
        ck_assert_uint_eq(g.alignment, 64);
        ck_assert_uint_eq(g.kv_count, 16);
        ck_assert_uint_eq(g.tensor_count, 2);
        const struct mtr_tensor *t = g.tensors;
        ck_assert(mtr_str_is(t[0].name, "w") && t[0].format == MTR_Q4_1 && t[0].rank == 2);
        ck_assert(t[0].shape[0] == 3 && t[0].shape[1] == 64 && t[0].bytes == 120);
        ck_assert_uint_eq(t[0].offset, g.data_offset);
        ck_assert(t[1].shape[0] == 5 && t[1].bytes == 20 && t[1].offset == g.data_offset + 128);
        ck_assert_uint_eq(g.data_offset % 64, 0);
        ck_assert_int_eq(mtr_gguf_get(&g, "i8")->i, -128);
        ck_assert_int_eq(mtr_gguf_get(&g, "i16")->i, -2);
        ck_assert_int_eq(mtr_gguf_get(&g, "i64")->i, INT64_MIN);
        ck_assert_uint_eq(mtr_gguf_get(&g, "u64")->u, UINT64_MAX);
        ck_assert(mtr_gguf_get(&g, "f32")->f == 1.5 && mtr_gguf_get(&g, "f64")->f == 1.5);
        ck_assert(mtr_gguf_get(&g, "bool")->b);
        ck_assert_uint_eq(mtr_gguf_get(&g, "strings")->array.count, 3);
        mtr_buf_free(&b);
    }
}
END_TEST

/* Every prefix but those that only lack what belongs to no tensor is refused. */
START_TEST(cut_everywhere)
{
    struct mtr_buf b = {0};
    struct mtr_gguf g;
    build_good(&b, 3);
    for (size_t len = 0; len < b.len; len++)
        ck_assert_msg(!parse_exact(b.data, len, &g), "%zu of %zu bytes were taken", len, b.len);
    mtr_buf_free(&b);
}
END_TEST

/* Each byte of the header to extreme values: refused, or read without leaving the file. */
START_TEST(bytes_changed)
{
    static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
    struct mtr_buf b = {0};
    struct mtr_gguf g;
    build_good(&b, 3);
    size_t header = b.len - 148;
    for (size_t at = 0; at < header; at++) {
        uint8_t before = (uint8_t)b.data[at];
        for (size_t k = 0; k < sizeof values; k++) {
            b.data[at] = (char)values[k];
            parse_exact(b.data, b.len, &g);
        }
        b.data[at] = (char)(before ^ 1);
        parse_exact(b.data, b.len, &g);
        b.data[at] = (char)before;
    }
    ck_assert(parse_exact(b.data, b.len, &g));
    mtr_buf_free(&b);
}
END_TEST

/* Any eight bytes to numbers that break sums and products. */
START_TEST(words_changed)
{
    struct mtr_buf b = {0};
    struct mtr_gguf g;
    build_good(&b, 3);
    const uint64_t values[] = {
        0,          1,          2,         b.len - 1,  b.len,           b.len + 1, UINT32_MAX,
        1ull << 32, 1ull << 61, INT64_MAX, 1ull << 63, UINT64_MAX - 31, UINT64_MAX};
    for (size_t at = 0; at + 8 <= b.len - 148; at++) {
        char before[8];
        memcpy(before, b.data + at, 8);
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
            memcpy(b.data + at, &values[k], 8);
            parse_exact(b.data, b.len, &g);
        }
        memcpy(b.data + at, before, 8);
    }
    mtr_buf_free(&b);
}
END_TEST

static void one_entry(struct mtr_buf *b)
{
    put_head(b, 3, 0, 1);
}

static void refused_head(struct mtr_buf *b, int which)
{
    switch (which) {
    case 0:
        mtr_buf_puts(b, "GGML\3\0\0\0");
        put_zeros(b, 32);
        break;
    case 1:
        put_head(b, 1, 0, 0);
        break;
    case 2:
        put_head(b, 0x03000000, 0, 0);
        break;
    case 3:
        put_head(b, 4, 0, 0);
        break;
    case 4:
        put_head(b, 3, UINT64_MAX, 0);
        break;
    case 5:
        put_head(b, 3, 0, UINT64_MAX);
        break;
    case 6:
        put_head(b, 3, 1000000, 0);
        break;
    case 7:
        put_head(b, 3, 0, 60000);
        break;
    default:
        put_head(b, 0, 0, 0);
    }
}

START_TEST(heads)
{
    static const char *const words[] = {
        "expected \"GGUF\"",
        "version 1;",
        "big-endian",
        "version 4;",
        "18446744073709551615 tensors",
        "18446744073709551615 metadata",
        "can't hold",
        "can't hold",
        "version 0;",
    };
    for (int i = 0; i < (int)(sizeof words / sizeof words[0]); i++) {
        struct mtr_buf b = {0};
        struct mtr_gguf g;
        refused_head(&b, i);
        ck_assert(!parse_exact(b.data, b.len, &g));
        ck_assert_msg(strstr(err.message, words[i]), "%d: %s", i, err.message);
        mtr_buf_free(&b);
    }
}
END_TEST

static void refused_entry(struct mtr_buf *b, int which)
{
    if (which != 8)
        one_entry(b);
    switch (which) {
    case 0:
        put_kv_bool(b, "flag", 2);
        break;
    case 1:
        put_key(b, "odd", 13), put_uint(b, 0, 8);
        break;
    case 2:
        put_kv_array(b, "deep", 9, 1), put_uint(b, 4, 4), put_uint(b, 0, 8);
        break;
    case 3:
        put_kv_array(b, "long", 0, MTR_GGUF_MAX_ARRAY_ITEMS + 1u);
        break;
    case 4:
        put_kv_array(b, "wide", 10, 1000), put_zeros(b, 100);
        break;
    case 5:
        put_kv_u32(b, "", 1);
        break;
    case 6:
        put_kv_u32(b, "two\nlines", 1);
        break;
    case 7:
        put_kv_u32(b, "bad\xff", 1);
        break;
    case 8:
        put_head(b, 3, 0, 2);
        put_kv_u32(b, "same", 1), put_kv_u32(b, "same", 2);
        break;
    case 9:
        put_key(b, "text", 8), put_uint(b, UINT64_MAX, 8), put_zeros(b, 64);
        break;
    case 10:
        put_kv_array(b, "items", 8, 3), put_text(b, "a"), put_uint(b, 1u << 30, 8);
        break;
    case 11:
        put_kv_array(b, "flags", 7, 2), put_uint(b, 0x0300, 2);
        break;
    case 12:
        put_kv_u32(b, "general.alignment", 48);
        break;
    case 13:
        put_kv_u32(b, "general.alignment", 0);
        break;
    case 14:
        put_kv_text(b, "general.alignment", "32");
        break;
    default:
        put_kv_u32(b, "general.alignment", 1u << 31);
    }
}

START_TEST(entries)
{
    static const char *const words[] = {
        "\"flag\": a bool is 2",
        "\"odd\": value type 13 is unknown",
        "\"deep\": an array of arrays",
        "\"long\": an array of 16777217 items",
        "\"wide\": array of uint64",
        "key: the name is empty",
        "control character 0x0a",
        "not valid UTF-8",
        "\"same\" stands there twice",
        "\"text\": the file ends",
        "item 1 of 3",
        "item 1 of 2: a bool is 3",
        "general.alignment is 48",
        "general.alignment is 0",
        "general.alignment is of type string",
        "general.alignment is 2147483648",
    };
    for (int i = 0; i < (int)(sizeof words / sizeof words[0]); i++) {
        struct mtr_buf b = {0};
        struct mtr_gguf g;
        refused_entry(&b, i);
        ck_assert(!parse_exact(b.data, b.len, &g));
        ck_assert_msg(strstr(err.message, words[i]), "%d: %s", i, err.message);
        mtr_buf_free(&b);
    }
}
END_TEST

START_TEST(tensors)
{
    static const struct {
        const char *name;
        uint32_t rank;
        uint64_t dims[5];
        uint32_t type;
        uint64_t offset;
        const char *words;
    } cases[] = {
        {"a", 5, {1, 1, 1, 1, 1}, 0, 0, "\"a\": it has 5 dimensions"},
        {"a", 2, {4, 0}, 0, 0, "dimension 1 is 0"},
        {"a", 2, {1ull << 40, 1ull << 40}, 0, 0, "out of range"},
        {"a", 1, {UINT64_MAX}, 0, 0, "out of range"},
        {"a", 1, {1ull << 61}, 0, 0, "out of range"},
        {"a", 4, {1ull << 32, 1ull << 32, 1, 1}, 0, 0, "out of range"},
        {"a", 1, {33}, 2, 0, "no multiple of the 32 elements of a block of q4_0"},
        {"a", 2, {128, 2}, 12, 0, "no multiple of the 256 elements"},
        {"a", 1, {32}, 16, 0, "type IQ2_XXS (16) is not supported"},
        {"a", 1, {32}, 39, 0, "type MXFP4 (39) is not supported"},
        {"a", 1, {32}, 41, 0, "type 41 is unknown"},
        {"a", 1, {32}, UINT32_MAX, 0, "is unknown"},
        {"a", 1, {4}, 0, 8, "offset 8 is no multiple of the alignment 32"},
        {"a", 1, {4}, 0, 32, "leave the file's data"},
        {"a", 1, {4}, 0, 1ull << 62, "leave the file's data"},
        {"a", 1, {4}, 0, UINT64_MAX - 31, "out of range"},
        {"a", 1, {9}, 0, 0, "leave the file's data"},
        {"", 1, {4}, 0, 0, "the name is empty"},
        {"x\x7f", 1, {4}, 0, 0, "control character 0x7f"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mtr_buf b = {0};
        struct mtr_gguf g;
        put_head(&b, 3, 1, 0);
        put_tensor(&b, cases[i].name, cases[i].rank, cases[i].dims, cases[i].type, cases[i].offset);
        put_padding(&b, 32);
        put_zeros(&b, 32);
        ck_assert_msg(!parse_exact(b.data, b.len, &g), "%zu", i);
        ck_assert_msg(strstr(err.message, cases[i].words), "%zu: %s", i, err.message);
        mtr_buf_free(&b);
    }
}
END_TEST

START_TEST(overlap)
{
    struct mtr_buf b = {0};
    struct mtr_gguf g;
    put_head(&b, 3, 2, 0);
    put_tensor(&b, "second", 1, (uint64_t[]){8}, 0, 32);
    put_tensor(&b, "first", 1, (uint64_t[]){9}, 0, 0);
    put_padding(&b, 32);
    put_zeros(&b, 96);
    ck_assert(!parse_exact(b.data, b.len, &g));
    ck_assert_msg(strstr(err.message, "\"second\" begins") && strstr(err.message, "\"first\""),
                  "%s", err.message);
    mtr_buf_free(&b);
}
END_TEST

/* Headers that would take long or much if they were believed: sixteen million empty strings in a
 * few bytes, a million tensors, a name of a gigabyte. */
START_TEST(greedy)
{
    struct mtr_buf b = {0};
    struct mtr_gguf g;
    put_head(&b, 3, 0, 1);
    put_kv_array(&b, "strings", 8, MTR_GGUF_MAX_ARRAY_ITEMS);
    put_zeros(&b, 4u << 20);
    ck_assert(!parse_exact(b.data, b.len, &g));
    ck_assert_uint_lt(arena.used_bytes, 1u << 20);
    mtr_buf_free(&b);
    put_head(&b, 3, 1000000, 0);
    put_zeros(&b, 26u << 20);
    ck_assert(!parse_exact(b.data, b.len, &g));
    mtr_buf_free(&b);
    put_head(&b, 3, 1, 0);
    put_uint(&b, 1u << 20, 8);
    put_zeros(&b, 2u << 20);
    ck_assert(!parse_exact(b.data, b.len, &g));
    ck_assert_msg(strstr(err.message, "at most 255"), "%s", err.message);
    mtr_buf_free(&b);
}
END_TEST

MTR_CHECK_MAIN("checkpoint/gguf")
{
    mtr_arena_init(&arena, 0);
    tcase_add_test(tc, good);
    tcase_add_test(tc, cut_everywhere);
    tcase_add_test(tc, bytes_changed);
    tcase_add_test(tc, words_changed);
    tcase_add_test(tc, heads);
    tcase_add_test(tc, entries);
    tcase_add_test(tc, tensors);
    tcase_add_test(tc, overlap);
    tcase_add_test(tc, greedy);
}
