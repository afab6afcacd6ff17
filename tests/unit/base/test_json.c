/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The parser: what it accepts and as what, what it refuses and where. */
#include "common/base/json.c"

#include "common/base/philox.h"
#include "tests/unit/check_main.h"

static struct mtr_arena arena;
static struct mtr_error err;

static void setup(void)
{
    mtr_arena_init(&arena, 0);
    memset(&err, 0, sizeof err);
}

static void teardown(void)
{
    mtr_arena_free(&arena);
}

static const struct mtr_json *parse_bytes(const char *text, size_t len, unsigned flags)
{
    /* On the heap and without a NUL, so that a sanitizer sees any byte read too far. */
    char *copy = malloc(len ? len : 1);
    memcpy(copy, text, len);
    const struct mtr_json *v = mtr_json_parse(&arena, (struct mtr_str){copy, len}, flags, &err);
    char *kept = mtr_arena_alloc(&arena, len);
    memcpy(kept, copy, len);
    if (v)
        v = mtr_json_parse(&arena, (struct mtr_str){kept, len}, flags, &err);
    free(copy);
    return v;
}

static const struct mtr_json *parse(const char *text)
{
    return parse_bytes(text, strlen(text), 0);
}

START_TEST(scalars)
{
    ck_assert_int_eq(parse("null")->kind, MTR_JSON_NULL);
    ck_assert(parse(" true ")->boolean);
    ck_assert(!parse("\t\r\nfalse\n")->boolean);
    ck_assert_int_eq(parse("false")->kind, MTR_JSON_BOOL);
    ck_assert_int_eq(parse("-12")->integer, -12);
    ck_assert_int_eq(parse("0")->kind, MTR_JSON_INT);
    const struct mtr_json *v = parse("-0");
    ck_assert(v->kind == MTR_JSON_INT && v->integer == 0 && mtr_str_is(v->text, "-0"));
    v = parse("1.50");
    ck_assert(v->kind == MTR_JSON_REAL && v->real == 1.5 && mtr_str_is(v->text, "1.50"));
    v = parse("1e-07");
    ck_assert(v->kind == MTR_JSON_REAL && v->real == 1e-7 && mtr_str_is(v->text, "1e-07"));
    v = parse("1E+2");
    ck_assert(v->kind == MTR_JSON_REAL && v->real == 100);
    v = parse("1e999");
    ck_assert(v->kind == MTR_JSON_REAL && isinf(v->real));
}
END_TEST

START_TEST(integers_beyond_int64_keep_their_text)
{
    const struct mtr_json *v = parse("[12345678901234567890, -9223372036854775808, "
                                     "9223372036854775807, 9223372036854775808]");
    ck_assert(v->items[0].big && v->items[0].kind == MTR_JSON_INT);
    ck_assert(mtr_str_is(v->items[0].text, "12345678901234567890"));
    ck_assert(v->items[0].real == 12345678901234567890.0);
    ck_assert(!v->items[1].big && v->items[1].integer == INT64_MIN);
    ck_assert(!v->items[2].big && v->items[2].integer == INT64_MAX);
    ck_assert(v->items[3].big);
}
END_TEST

static const struct {
    const char *json, *text;
    size_t len;
} strings[] = {
    {"\"\"", "", 0},
    {"\"abc\"", "abc", 3},
    {"\"a\\u0000b\"", "a\0b", 3},
    {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8},
    {"\"\\u00e9\\u20AC\\ud83d\\uDe00\"", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9},
    {"\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9},
    {"\"12345678\\n12345678\xc3\xa9"
     "12345678\\t\"",
     "12345678\n12345678\xc3\xa9"
     "12345678\t",
     28},
    {"\"\x7f\"", "\x7f", 1},
    {"\"\\\\\\\"\"", "\\\"", 2},
};

START_TEST(strings_decode)
{
    const struct mtr_json *v = parse(strings[_i].json);
    ck_assert_msg(v != NULL, "%s: %s", strings[_i].json, err.message);
    ck_assert_int_eq(v->kind, MTR_JSON_STRING);
    ck_assert_uint_eq(v->text.len, strings[_i].len);
    ck_assert_int_eq(memcmp(v->text.ptr, strings[_i].text, strings[_i].len), 0);
}
END_TEST

/* Each special character at each offset from a word boundary. */
START_TEST(strings_end_where_they_end)
{
    for (size_t before = 0; before < 20; before++)
        for (size_t after = 0; after < 20; after++) {
            char json[64] = "\"", want[64] = "";
            memset(json + 1, 'a', before);
            memcpy(json + 1 + before, "\\n", 2);
            memset(json + 3 + before, 'b', after);
            json[3 + before + after] = '"';
            memset(want, 'a', before);
            want[before] = '\n';
            memset(want + before + 1, 'b', after);
            const struct mtr_json *v = parse(json);
            ck_assert_ptr_nonnull(v);
            ck_assert(mtr_str_is(v->text, want));
        }
}
END_TEST

START_TEST(containers)
{
    const struct mtr_json *v =
        parse(" { \"a\" : [ 1 , [ ] , { } , \"x\" ] , \"b\":{\"c\":null} } ");
    ck_assert_int_eq(v->kind, MTR_JSON_OBJECT);
    ck_assert_uint_eq(v->count, 2);
    ck_assert(mtr_str_is(v->members[0].key, "a"));
    const struct mtr_json *a = &v->members[0].value;
    ck_assert_uint_eq(a->count, 4);
    ck_assert_int_eq(a->items[0].integer, 1);
    ck_assert(a->items[1].kind == MTR_JSON_ARRAY && a->items[1].count == 0);
    ck_assert(a->items[2].kind == MTR_JSON_OBJECT && a->items[2].count == 0);
    ck_assert(mtr_str_is(a->items[3].text, "x"));
    ck_assert_int_eq(v->members[1].value.members[0].value.kind, MTR_JSON_NULL);
}
END_TEST

START_TEST(keys_keep_order_and_duplicates)
{
    const struct mtr_json *v = parse("{\"z\":1,\"a\":2,\"z\":3,\"\\u0061\":4}");
    ck_assert_uint_eq(v->count, 4);
    ck_assert(mtr_str_is(v->members[0].key, "z") && mtr_str_is(v->members[2].key, "z"));
    ck_assert_int_eq(mtr_json_get(v, "z")->integer, 3);
    ck_assert_int_eq(mtr_json_get(v, "a")->integer, 4);
}
END_TEST

static const struct {
    const char *json, *message;
} refused[] = {
    {"", "JSON line 1 column 1 (byte 0): found the end of the text, expected a value"},
    {"  ", "JSON line 1 column 3 (byte 2): found the end of the text, expected a value"},
    {"{\n \"a\": tru\n}", "JSON line 2 column 7 (byte 8): found 't', expected a value"},
    {"[1,]", "found ']', expected a value"},
    {"[1 2]", "found '2', expected ',' or ']'"},
    {"[1", "found the end of the text, expected ',' or ']'"},
    {"[", "found the end of the text, expected a value"},
    {"[}", "found '}', expected a value"},
    {"{\"a\":1,}", "found '}', expected '\"' and a key"},
    {"{a:1}", "found 'a', expected '\"' and a key"},
    {"{\"a\" 1}", "found '1', expected ':' after a key"},
    {"{\"a\":}", "found '}', expected a value"},
    {"{\"a\":1]", "found ']', expected ',' or '}'"},
    {"{1:2}", "found '1', expected '\"' and a key"},
    {"1 2", "found '2', expected the end of the text"},
    {"[1]]", "found ']', expected the end of the text"},
    {"01", "can't begin with 0"},
    {"-01", "can't begin with 0"},
    {"-", "found the end of the text, expected a digit"},
    {"+1", "found '+', expected a value"},
    {".5", "found '.', expected a value"},
    {"1.", "expected a digit after the decimal point"},
    {"1.e5", "expected a digit after the decimal point"},
    {"1e", "expected a digit in the exponent"},
    {"1e+", "expected a digit in the exponent"},
    {"0x10", "found 'x', expected the end of the text"},
    {"nul", "expected a value"},
    {"True", "expected a value"},
    {"NaN", "expected a value"},
    {"Infinity", "expected a value"},
    {"-Infinity", "found 'I', expected a digit"},
    {"'a'", "found ''', expected a value"},
    {"\"abc", "ends inside a string"},
    {"\"abc\\", "unknown escape"},
    {"\"abc\\\"", "ends inside a string"},
    {"\"abc\\n", "ends inside a string"},
    {"\"\\x41\"", "unknown escape"},
    {"\"\\u12\"", "four hexadecimal digits"},
    {"\"\\u12g4\"", "four hexadecimal digits"},
    {"\"\\u123", "four hexadecimal digits"},
    {"\"\\ud800\"", "without its other half"},
    {"\"\\udc00\"", "without its other half"},
    {"\"\\ud800\\u0041\"", "without its other half"},
    {"\"\\ud800\\", "without its other half"},
    {"\"a\nb\"", "must be escaped"},
    {"\"\x01\"", "must be escaped"},
    {"\"\\n\x1f\"", "must be escaped"},
    {"\"\xff\"", "not valid UTF-8"},
    {"\"\xed\xa0\x80\"", "not valid UTF-8"},
    {"\"abc\xc3\"", "not valid UTF-8"},
    {"\"\\n\xc0\x80\"", "not valid UTF-8"},
    {"\xef\xbb\xbf{}", "byte order mark"},
    {"\xff", "found byte 0xff, expected a value"},
    {"[1]\x01", "found byte 0x01, expected the end"},
    {"/* */ 1", "found '/', expected a value"},
    {"\xc2\xa0"
     "1",
     "found byte 0xc2"},
};

START_TEST(bad_text_is_refused_by_name_and_place)
{
    ck_assert_ptr_null(parse(refused[_i].json));
    ck_assert_int_eq(err.code, MTR_INVALID);
    ck_assert_msg(strstr(err.message, refused[_i].message) != NULL, "'%s' gave: %s",
                  refused[_i].json, err.message);
}
END_TEST

START_TEST(nul_is_no_end)
{
    ck_assert_ptr_null(parse_bytes("1\0", 2, 0));
    ck_assert_ptr_null(parse_bytes("\"a\0b\"", 5, 0));
    ck_assert_ptr_null(parse_bytes("\0", 1, 0));
}
END_TEST

START_TEST(nonfinite_is_an_extension)
{
    const char text[] = "[Infinity,-Infinity,NaN,-1,1]";
    const struct mtr_json *v = parse_bytes(text, sizeof text - 1, MTR_JSON_NONFINITE);
    ck_assert_msg(v != NULL, "%s", err.message);
    ck_assert(v->items[0].real == INFINITY && v->items[1].real == -INFINITY);
    ck_assert(isnan(v->items[2].real) && v->items[3].integer == -1);
    ck_assert(mtr_str_is(v->items[1].text, "-Infinity"));
    ck_assert_ptr_null(parse_bytes("-x", 2, MTR_JSON_NONFINITE));
}
END_TEST

START_TEST(depth_is_bounded)
{
    char text[2 * MTR_JSON_MAX_DEPTH + 4];
    for (size_t depth = MTR_JSON_MAX_DEPTH; depth <= MTR_JSON_MAX_DEPTH + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        const struct mtr_json *v = parse_bytes(text, 2 * depth, 0);
        ck_assert((v != NULL) == (depth == MTR_JSON_MAX_DEPTH));
    }
    ck_assert_int_eq(err.code, MTR_TOO_LARGE);
    size_t many = 1 << 20;
    char *deep = mtr_arena_alloc(&arena, many);
    memset(deep, '[', many);
    ck_assert_ptr_null(parse_bytes(deep, many, 0));
    ck_assert_int_eq(err.code, MTR_TOO_LARGE);
}
END_TEST

START_TEST(numbers_are_bounded)
{
    char text[MTR_JSON_MAX_NUMBER_BYTES + 1];
    memset(text, '7', sizeof text);
    ck_assert_ptr_null(parse_bytes(text, sizeof text, 0));
    ck_assert_int_eq(err.code, MTR_TOO_LARGE);
    const struct mtr_json *v = parse_bytes(text, sizeof text - 1, 0);
    ck_assert(v && v->big && isinf(v->real));
}
END_TEST

START_TEST(memory_is_bounded_by_the_arena)
{
    struct mtr_arena small;
    size_t count = 100000;
    struct mtr_buf b = {0};
    mtr_buf_byte(&b, '[');
    for (size_t i = 0; i < count; i++)
        mtr_buf_puts(&b, i ? ",1" : "1");
    mtr_buf_byte(&b, ']');
    mtr_arena_init(&small, 1 << 20);
    ck_assert_ptr_null(mtr_json_parse(&small, mtr_buf_view(&b), 0, &err));
    ck_assert_int_eq(err.code, MTR_NO_MEMORY);
    mtr_arena_free(&small);
    mtr_arena_init(&small, 8 << 20);
    ck_assert_ptr_nonnull(mtr_json_parse(&small, mtr_buf_view(&b), 0, &err));
    mtr_arena_free(&small);
    mtr_buf_free(&b);
}
END_TEST

/* Cut and damaged texts never crash and never read outside (run under the sanitizers too). */
START_TEST(damaged_text_is_survived)
{
    static const char text[] = "{\"a\":[1,-2.5e3,\"x\\u20ac\\ud83d\\ude00\xe2\x82\xac\",true,null],"
                               "\"bb\":{\"c\":[[],{}]}, \"d\":\"\\n\"}";
    char damaged[sizeof text];
    ck_assert_ptr_nonnull(parse(text));
    for (size_t len = 0; len < sizeof text - 1; len++)
        ck_assert_ptr_null(parse_bytes(text, len, 0));
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t r[4];
        mtr_philox(11, i, 0, r);
        memcpy(damaged, text, sizeof text);
        damaged[r[0] % (sizeof text - 1)] = (char)r[1];
        damaged[r[2] % (sizeof text - 1)] = text[r[3] % (sizeof text - 1)];
        if (!parse_bytes(damaged, sizeof text - 1, i & 1))
            ck_assert_int_ne(err.message[0], 0);
        if (i % 256 == 0)
            mtr_arena_reset(&arena);
    }
}
END_TEST

MTR_CHECK_MAIN("base/json")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, scalars);
    tcase_add_test(tc, integers_beyond_int64_keep_their_text);
    tcase_add_loop_test(tc, strings_decode, 0, sizeof strings / sizeof *strings);
    tcase_add_test(tc, strings_end_where_they_end);
    tcase_add_test(tc, containers);
    tcase_add_test(tc, keys_keep_order_and_duplicates);
    tcase_add_loop_test(tc, bad_text_is_refused_by_name_and_place, 0,
                        sizeof refused / sizeof *refused);
    tcase_add_test(tc, nul_is_no_end);
    tcase_add_test(tc, nonfinite_is_an_extension);
    tcase_add_test(tc, depth_is_bounded);
    tcase_add_test(tc, numbers_are_bounded);
    tcase_add_test(tc, memory_is_bounded_by_the_arena);
    tcase_add_test(tc, damaged_text_is_survived);
}
