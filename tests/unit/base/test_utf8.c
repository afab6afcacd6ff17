/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Decoding against the definition: the valid sequences are exactly the encodings. */
#include "common/base/utf8.c"

#include "tests/unit/check_main.h"

/* Checks of millions of cases count what is wrong and assert once: an assertion takes a while. */
static bool round_trips(uint32_t cp)
{
    char out[4];
    uint32_t back = 0;
    int n = mtr_utf8_encode(cp, out);
    bool ok = n == (cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4);
    ok = ok && mtr_utf8_decode(out, (size_t)n, &back) == n && back == cp;
    for (int cut = 1; cut < n; cut++)
        ok = ok && mtr_utf8_decode(out, (size_t)cut, &back) == -2;
    return ok;
}

START_TEST(encoding_decodes_back)
{
    unsigned wrong = 0;
    for (uint32_t cp = 0; cp <= 0x10ffff; cp++)
        if (cp < 0xd800 || cp >= 0xe000)
            wrong += !round_trips(cp);
    ck_assert_uint_eq(wrong, 0);
}
END_TEST

/* Of all sequences of three bytes with a high first one: what decodes must encode to the same. */
START_TEST(nothing_else_decodes)
{
    unsigned wrong = 0, decoded = 0;
    for (uint32_t bits = 0x800000; bits < 1u << 24; bits++) {
        char in[3] = {(char)(bits >> 16), (char)(bits >> 8), (char)bits}, out[4];
        uint32_t cp;
        int n = mtr_utf8_decode(in, 3, &cp);
        if (n <= 0)
            continue;
        decoded++;
        wrong += cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000) || mtr_utf8_encode(cp, out) != n ||
                 memcmp(in, out, (size_t)n) != 0;
    }
    ck_assert_uint_eq(wrong, 0);
    /* all two-byte characters with any third byte, all three-byte characters but surrogates */
    ck_assert_uint_eq(decoded, 1920 * 256 + (0x10000 - 0x800 - 0x800));
}
END_TEST

static const struct {
    const char *text;
    size_t len;
    bool valid;
    size_t complete;
} cases[] = {
    {"", 0, true, 0},
    {"abc", 3, true, 3},
    {"a\0b", 3, true, 3},
    {"12345678\xe2\x82\xac"
     "12345678901234567",
     28, true, 28},
    {"\xe2\x82\xac", 3, true, 3},
    {"a\xe2\x82", 3, false, 1},
    {"a\xe2", 2, false, 1},
    {"a\xf0\x9f\x98", 4, false, 1},
    {"\xf0\x9f\x98\x80", 4, true, 4},
    {"a\x82", 2, false, 2},
    {"\x82\x82\x82\x82", 4, false, 4},
    {"\xed\xa0\x80", 3, false, 3},     /* a surrogate */
    {"a\xed\xa0", 3, false, 3},        /* its beginning can never become valid */
    {"\xc0\x80", 2, false, 2},         /* overlong */
    {"\xe0\x80\x80", 3, false, 3},     /* overlong */
    {"\xf4\x90\x80\x80", 4, false, 4}, /* above U+10FFFF */
    {"\xf5", 1, false, 1},
    {"aaaaaaaaaaaaaaaa\xff", 17, false, 17},
};

START_TEST(table_of_cases)
{
    struct mtr_str s = {cases[_i].text, cases[_i].len};
    ck_assert(mtr_utf8_valid(s) == cases[_i].valid);
    ck_assert_uint_eq(mtr_utf8_complete(s), cases[_i].complete);
}
END_TEST

MTR_CHECK_MAIN("base/utf8")
{
    tcase_add_test(tc, encoding_decodes_back);
    tcase_add_test(tc, nothing_else_decodes);
    tcase_add_loop_test(tc, table_of_cases, 0, sizeof cases / sizeof *cases);
}
