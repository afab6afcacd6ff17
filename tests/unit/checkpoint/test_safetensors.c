/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The safetensors reader: what it reads, what it refuses; every cut and many mutations. */
#include "common/checkpoint/safetensors.c"

#include "tests/unit/check_main.h"
#include "tests/unit/checkpoint/build.h"

static struct mtr_arena arena;
static struct mtr_error err;

static const char good_header[] =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[12,16]},"
    "\"a\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
    "\"e\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[16,16]},"
    "\"f\\u00e4\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,1,1,1,2],\"data_offsets\":[16,20]}}   ";

static bool parse_exact(const void *bytes, size_t len, struct mtr_safetensors *s)
{
    char *copy = malloc(len ? len : 1);
    memcpy(copy, bytes, len);
    memset(&err, 0, sizeof err);
    mtr_arena_free(&arena);
    mtr_arena_init(&arena, 64u << 20);
    bool ok = mtr_safetensors_parse(&arena, (struct mtr_str){copy, len}, s, &err);
    if (ok)
        for (uint32_t i = 0; i < s->tensor_count; i++) {
            ck_assert_uint_le(s->tensors[i].offset, len);
            ck_assert_uint_le(s->tensors[i].bytes, len - s->tensors[i].offset);
        }
    else
        ck_assert_uint_gt(strlen(err.message), 10);
    free(copy);
    return ok;
}

START_TEST(good)
{
    struct mtr_buf b = {0};
    struct mtr_safetensors s;
    put_safetensors(&b, good_header, 20);
    ck_assert_msg(parse_exact(b.data, b.len, &s), "%s", err.message);
    ck_assert_uint_eq(s.tensor_count, 4);
    const struct mtr_tensor *t = s.tensors;
    ck_assert(mtr_str_is(t[0].name, "b") && t[0].rank == 0 && t[0].bytes == 4);
    ck_assert_uint_eq(t[0].offset, 8 + strlen(good_header) + 12);
    ck_assert(mtr_str_is(t[1].name, "a") && t[1].shape[0] == 2 && t[1].shape[1] == 3);
    ck_assert(t[1].format == MTR_BF16 && t[1].bytes == 12);
    ck_assert_uint_eq(t[2].bytes, 0);
    ck_assert(mtr_str_is(t[3].name, "f\xc3\xa4") && t[3].rank == 5 && t[3].format == MTR_E4M3);
    mtr_buf_free(&b);
    put_safetensors(&b, "{}", 0);
    ck_assert(parse_exact(b.data, b.len, &s) && s.tensor_count == 0);
    mtr_buf_free(&b);
}
END_TEST

START_TEST(cut_everywhere)
{
    struct mtr_buf b = {0};
    struct mtr_safetensors s;
    put_safetensors(&b, good_header, 20);
    for (size_t len = 0; len < b.len; len++)
        ck_assert_msg(!parse_exact(b.data, len, &s), "%zu of %zu bytes were taken", len, b.len);
    mtr_buf_byte(&b, 0);
    ck_assert(!parse_exact(b.data, b.len, &s)); /* a byte that belongs to no tensor */
    mtr_buf_free(&b);
}
END_TEST

START_TEST(bytes_changed)
{
    static const char values[] = {0, '"', '{', '}', '[', ']', '9', '-', 'e', '\\', '\x7f', '\xff'};
    struct mtr_buf b = {0};
    struct mtr_safetensors s;
    put_safetensors(&b, good_header, 20);
    for (size_t at = 0; at < b.len - 20; at++) {
        char before = b.data[at];
        for (size_t k = 0; k < sizeof values; k++) {
            b.data[at] = values[k];
            parse_exact(b.data, b.len, &s);
        }
        b.data[at] = before;
    }
    ck_assert(parse_exact(b.data, b.len, &s));
    mtr_buf_free(&b);
}
END_TEST

/* Headers with 16 bytes of data behind them. */
START_TEST(refused)
{
#define TENSOR(dtype, shape, offsets)                                                              \
    "{\"x\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
    static const struct {
        const char *header, *words;
    } cases[] = {
        {"[]", "does not begin with '{'"},
        {" {}", "does not begin with '{'"},
        {"{\"x\":1}", "\"x\": is integer, expected an object"},
        {"{\"x\":{}}", "\"dtype\" is missing"},
        {TENSOR("1", "[4]", "[0,16]"), "\"dtype\" is integer"},
        {TENSOR("\"F33\"", "[4]", "[0,16]"), "dtype \"F33\" is unknown"},
        {TENSOR("\"F64\"", "[2]", "[0,16]"), "dtype F64 is not supported"},
        {TENSOR("\"F32\"", "4", "[0,16]"), "\"shape\" is integer"},
        {TENSOR("\"F32\"", "[-4]", "[0,16]"), "\"shape\"[0] is integer -4"},
        {TENSOR("\"F32\"", "[4.0]", "[0,16]"), "\"shape\"[0] is"},
        {TENSOR("\"F32\"", "[1,1,1,1,1,1,4]", "[0,16]"), "\"shape\" has 7 items"},
        {TENSOR("\"F32\"", "[99999999999999999999]", "[0,16]"), "99999999999999999999"},
        {TENSOR("\"F32\"", "[4611686018427387903,4611686018427387903]", "[0,16]"), "out of range"},
        {TENSOR("\"F32\"", "[4]", "[0]"), "\"data_offsets\" has 1 items"},
        {TENSOR("\"F32\"", "[4]", "[0,16,16]"), "\"data_offsets\" has 3 items"},
        {TENSOR("\"F32\"", "[4]", "[0,12]"), "hold 12 bytes, its shape [4] in f32 needs 16"},
        {TENSOR("\"F32\"", "[4]", "[16,0]"), "ends at 0 before it begins at 16"},
        {TENSOR("\"F32\"", "[4]", "[4,20]"), "leave the file's data"},
        {TENSOR("\"F32\"", "[4]", "[4611686018427387887,4611686018427387903]"), "leave the file"},
        {TENSOR("\"F32\"", "[3]", "[0,12]"), "the last tensor ends at"},
        {TENSOR("\"F32\"", "[3]", "[4,16]"), "belong to no tensor"},
        {"{\"\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", "the name is empty"},
        {"{\"a\\u0000\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", "control"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
         "\"y\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}",
         "\"y\" begins"},
        {"{\"__metadata__\":[]}", "__metadata__ is array"},
        {"{\"__metadata__\":{\"a\":1}}", "__metadata__ has a value that is integer"},
        {"{\"x\":", "header"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mtr_buf b = {0};
        struct mtr_safetensors s;
        put_safetensors(&b, cases[i].header, 16);
        ck_assert_msg(!parse_exact(b.data, b.len, &s), "%s", cases[i].header);
        ck_assert_msg(strstr(err.message, cases[i].words), "%s: %s", cases[i].header, err.message);
        mtr_buf_free(&b);
    }
}
END_TEST

START_TEST(header_lengths)
{
    const uint64_t lengths[] = {0,         1,          3,         17,        100000000,
                                100000001, UINT32_MAX, INT64_MAX, UINT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct mtr_buf b = {0};
        struct mtr_safetensors s;
        put_uint(&b, lengths[i], 8);
        mtr_buf_puts(&b, "{}");
        ck_assert(!parse_exact(b.data, b.len, &s));
        mtr_buf_free(&b);
    }
}
END_TEST

/* Nesting that would overflow a recursive reader, and a header that is one long array. */
START_TEST(greedy)
{
    enum { DEPTH = 1000000 };
    struct mtr_buf b = {0};
    struct mtr_safetensors s;
    put_uint(&b, DEPTH + 5, 8);
    mtr_buf_puts(&b, "{\"x\":");
    for (int i = 0; i < DEPTH; i++)
        mtr_buf_byte(&b, '[');
    ck_assert(!parse_exact(b.data, b.len, &s));
    mtr_buf_free(&b);
    put_uint(&b, 4 * DEPTH + 8, 8);
    mtr_buf_puts(&b, "{\"x\":[0");
    for (int i = 0; i < 2 * DEPTH - 1; i++)
        mtr_buf_puts(&b, ",0");
    mtr_buf_puts(&b, "]} ");
    ck_assert(!parse_exact(b.data, b.len, &s));
    ck_assert_msg(strstr(err.message, "\"x\": is array"), "%s", err.message);
    mtr_buf_free(&b);
}
END_TEST

MTR_CHECK_MAIN("checkpoint/safetensors")
{
    mtr_arena_init(&arena, 0);
    tcase_add_test(tc, good);
    tcase_add_test(tc, cut_everywhere);
    tcase_add_test(tc, bytes_changed);
    tcase_add_test(tc, refused);
    tcase_add_test(tc, header_lengths);
    tcase_add_test(tc, greedy);
}
