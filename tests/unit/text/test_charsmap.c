/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A map of two entries, built by hand; and random bytes in place of one. */
#include "broker/text/charsmap.c"

#include "common/base/philox.h"
#include "tests/unit/check_main.h"

static void to_base64(const uint8_t *p, size_t n, struct mtr_buf *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) |
                     (i + 2 < n ? p[i + 2] : 0);
        for (size_t k = 0; k < 4; k++)
            mtr_buf_byte(out, k <= n - i ? (uint8_t)digits[v >> (18 - 6 * k) & 63] : '=');
    }
}

/* "a" becomes "xy", "b" becomes nothing. Units by index: 0 root, 'a' ^ 256, 'b' ^ 256, their
 * values. */
static void build(struct mtr_charsmap *m)
{
    enum { UNITS = 1024 };
    uint32_t units[UNITS + 1] = {0};
    uint32_t *u = units + 1;
    units[0] = UNITS * 4;
    u[0] = 256u << 10;
    u[256 ^ 'a'] = 'a' | 1u << 8 | ((256u ^ 'a' ^ 600u) << 10);
    u[600] = 0;
    u[256 ^ 'b'] = 'b' | 1u << 8 | ((256u ^ 'b' ^ 601u) << 10);
    u[601] = 3;
    struct mtr_buf raw = {0}, text = {0};
    mtr_buf_append(&raw, units, sizeof units);
    mtr_buf_append(&raw, "xy\0\0", 4);
    to_base64((const uint8_t *)raw.data, raw.len, &text);
    struct mtr_error err = {0};
    ck_assert_msg(mtr_charsmap_init(m, mtr_buf_view(&text), &err), "%s", err.message);
    mtr_buf_free(&raw);
    mtr_buf_free(&text);
}

START_TEST(replaces)
{
    struct mtr_charsmap m;
    struct mtr_buf got = {0};
    build(&m);
    ck_assert(mtr_charsmap_apply(&m, MTR_STR("cabac\xc3\xa9"), &got));
    ck_assert_str_eq(got.data, "cxyxyc\xc3\xa9");
    mtr_buf_clear(&got);
    /* A cluster is asked for as a whole, and the shortest entry that begins it answers. */
    ck_assert(mtr_charsmap_apply(&m, MTR_STR("a\xcc\x81"), &got));
    ck_assert_str_eq(got.data, "xy");
    mtr_buf_free(&got);
    mtr_charsmap_free(&m);
}
END_TEST

START_TEST(any_bytes_are_a_bounded_map)
{
    for (uint32_t seed = 0; seed < 300; seed++) {
        uint32_t words[64];
        struct mtr_charsmap m;
        struct mtr_buf text = {0}, got = {0};
        for (uint32_t i = 0; i < 64; i += 4)
            mtr_philox(seed, i, 0, words + i);
        words[0] = 48 * 4;
        to_base64((const uint8_t *)words, sizeof words, &text);
        ck_assert(mtr_charsmap_init(&m, mtr_buf_view(&text), NULL));
        ck_assert(mtr_charsmap_apply(&m, MTR_STR("abcdefgh\xe4\xb8\xad"), &got));
        mtr_buf_free(&text);
        mtr_buf_free(&got);
        mtr_charsmap_free(&m);
    }
}
END_TEST

START_TEST(refusals)
{
    struct mtr_charsmap m;
    ck_assert(!mtr_charsmap_init(&m, MTR_STR("****"), NULL));
    ck_assert(!mtr_charsmap_init(&m, MTR_STR(""), NULL));
    ck_assert(!mtr_charsmap_init(&m, MTR_STR("/////w=="), NULL)); /* a trie of 4 GiB */
    ck_assert(!mtr_charsmap_init(&m, MTR_STR("AQAAAAA="), NULL)); /* a trie of one byte */
}
END_TEST

MTR_CHECK_MAIN("text/charsmap")
{
    tcase_add_test(tc, replaces);
    tcase_add_test(tc, any_bytes_are_a_bounded_map);
    tcase_add_test(tc, refusals);
}
