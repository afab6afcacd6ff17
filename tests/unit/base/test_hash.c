/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "common/base/hash.c"

#include "common/base/map.h"
#include "tests/unit/check_main.h"

/* Values are written down: tables on disk or on the wire may rest on them, on any machine. */
START_TEST(values_do_not_change)
{
    static const char text[] = "The quick brown fox jumps over the lazy dog";
    ck_assert_uint_eq(mtr_hash64("", 0, 0), 0x387e41253735131eu);
    ck_assert_uint_eq(mtr_hash64("abc", 3, 1), 0x7183ecb6d81cd3e8u);
    ck_assert_uint_eq(mtr_hash64(text, 43, 2), 0xc5b3a5ba183896d3u);
}
END_TEST

START_TEST(every_bit_and_the_seed_matter)
{
    unsigned weak = 0;
    for (size_t len = 1; len <= 70; len++) {
        uint8_t bytes[70] = {0};
        uint64_t plain = mtr_hash64(bytes, len, 0);
        ck_assert_uint_ne(plain, mtr_hash64(bytes, len, 1));
        ck_assert_uint_ne(plain, mtr_hash64(bytes, len - 1, 0));
        for (size_t bit = 0; bit < len * 8; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            int changed = __builtin_popcountll(plain ^ mtr_hash64(bytes, len, 0));
            weak += changed < 8 || changed > 56;
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
    ck_assert_uint_eq(weak, 0);
}
END_TEST

START_TEST(small_keys_do_not_collide)
{
    struct mtr_map seen = {0};
    unsigned collisions = 0;
    for (uint32_t i = 0; i < 300000; i++) {
        uint64_t h = mtr_hash64(&i, sizeof i, 9), old;
        collisions += mtr_map_get(&seen, h, &old);
        mtr_map_put(&seen, h, i);
    }
    ck_assert_uint_eq(collisions, 0);
    ck_assert_uint_eq(seen.count, 300000);
    mtr_map_free(&seen);
}
END_TEST

START_TEST(reads_no_byte_outside)
{
    for (size_t len = 0; len < 40; len++) {
        uint8_t a[64], b[64];
        memset(a, 0x55, sizeof a);
        memset(b, 0xaa, sizeof b);
        memset(a + 8, 3, len);
        memset(b + 8, 3, len);
        ck_assert_uint_eq(mtr_hash64(a + 8, len, 0), mtr_hash64(b + 8, len, 0));
    }
}
END_TEST

START_TEST(sha256_of_abc)
{
    uint8_t digest[32];
    char hex[65];
    mtr_sha256("abc", 3, digest);
    mtr_hex(digest, 32, hex);
    ck_assert_str_eq(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    mtr_hex(digest, 0, hex);
    ck_assert_str_eq(hex, "");
}
END_TEST

MTR_CHECK_MAIN("base/hash")
{
    tcase_add_test(tc, values_do_not_change);
    tcase_add_test(tc, every_bit_and_the_seed_matter);
    tcase_add_test(tc, small_keys_do_not_collide);
    tcase_add_test(tc, reads_no_byte_outside);
    tcase_add_test(tc, sha256_of_abc);
}
