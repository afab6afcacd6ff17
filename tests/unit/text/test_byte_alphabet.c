/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A bijection of bytes and characters. */
#include "broker/text/byte_alphabet.c"

#include "tests/unit/check_main.h"

START_TEST(bijection)
{
    bool seen[0x144] = {false};
    for (int b = 0; b < 256; b++) {
        uint32_t cp = mtr_byte_to_char((uint8_t)b);
        ck_assert_uint_lt(cp, 0x144);
        ck_assert(!seen[cp]);
        seen[cp] = true;
        ck_assert_int_eq(mtr_char_to_byte(cp), b);
    }
    for (uint32_t cp = 0; cp < 0x144; cp++)
        ck_assert(seen[cp] == (mtr_char_to_byte(cp) >= 0));
    ck_assert_int_eq(mtr_char_to_byte(0x144), -1);
    ck_assert_uint_eq(mtr_byte_to_char(' '), 0x120);
    ck_assert_uint_eq(mtr_byte_to_char('\n'), 0x10a);
}
END_TEST

START_TEST(texts)
{
    struct mtr_buf b = {0};
    ck_assert(mtr_bytes_to_alphabet(MTR_STR(" a\xc3\xa9"), &b));
    ck_assert_str_eq(b.data, "\xc4\xa0"
                             "a\xc3\x83\xc2\xa9");
    struct mtr_buf back = {0};
    ck_assert(mtr_alphabet_to_bytes(mtr_buf_view(&b), &back));
    ck_assert_str_eq(back.data, " a\xc3\xa9");
    ck_assert(!mtr_alphabet_to_bytes(MTR_STR("a b"), &back)); /* a space is not in the alphabet */
    ck_assert(!mtr_alphabet_to_bytes(MTR_STR("a\xff"), &back));
    ck_assert_uint_eq(back.len, 4);
    mtr_buf_free(&b);
    mtr_buf_free(&back);
}
END_TEST

MTR_CHECK_MAIN("text/byte_alphabet")
{
    tcase_add_test(tc, bijection);
    tcase_add_test(tc, texts);
}
