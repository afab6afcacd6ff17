/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Keys and buckets, under a clock of the test's. */
#include "broker/http/access.c"

#include <stdio.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/unit/check_main.h"

static struct mtr_access *a;
static struct mtr_error err;
static uint64_t key;
static uint32_t retry_s;
static char path[] = "/tmp/mtr_access_XXXXXX";

static void teardown(void)
{
    mtr_access_free(a);
    a = NULL;
}

static void create(uint32_t rpm, uint32_t burst, uint32_t tpm)
{
    struct mtr_rate_limits limits = {rpm, burst, tpm, 0};
    memset(&err, 0, sizeof err);
    a = mtr_access_create(&limits);
    ck_assert_ptr_nonnull(a);
}

static bool check(const char *header, uint64_t now_s)
{
    return mtr_access_check(a, mtr_str(header), (now_s + 1) * MTR_NS_PER_S, &key, &retry_s, &err);
}

START_TEST(open_to_all_without_keys)
{
    create(0, 0, 0);
    ck_assert(check(NULL, 0));
    ck_assert(check("Bearer anything", 0));
}
END_TEST

START_TEST(a_key_is_needed_and_compared_whole)
{
    create(0, 0, 0);
    ck_assert(mtr_access_load(a, "secret", NULL, &err));
    ck_assert(check("Bearer secret", 0));
    ck_assert(check("bearer secret", 0));
    ck_assert(check("Bearer  secret ", 0));
    static const char *const wrong[] = {"",
                                        "Bearer",
                                        "Bearer ",
                                        "Bearer secre",
                                        "Bearer secrets",
                                        "Bearer SECRET",
                                        "Basic secret",
                                        "secret"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ck_assert_msg(!check(wrong[i], 0), "'%s' was let in", wrong[i]);
        ck_assert_int_eq(err.code, MTR_DENIED);
    }
}
END_TEST

static void write_file(const char *text, mode_t mode)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
    chmod(path, mode);
}

START_TEST(keys_from_a_file)
{
    int fd = mkstemp(path);
    close(fd);
    create(0, 0, 0);
    write_file("# comment\n\n  one\ntwo\t\n", 0600);
    ck_assert(mtr_access_load(a, "three", path, &err));
    ck_assert(check("Bearer one", 0) && check("Bearer two", 0) && check("Bearer three", 0));
    ck_assert(!check("Bearer # comment", 0));
    write_file("four\n", 0600);
    ck_assert(mtr_access_load(a, NULL, path, &err));
    ck_assert(check("Bearer four", 0) && !check("Bearer one", 0));
    write_file("five\n", 0644);
    ck_assert(!mtr_access_load(a, NULL, path, &err));
    ck_assert_msg(check("Bearer four", 0), "a failed load must change nothing");
    write_file("# none\n", 0600);
    ck_assert(!mtr_access_load(a, NULL, path, &err));
    unlink(path);
}
END_TEST

START_TEST(requests_a_minute)
{
    create(60, 2, 0);
    ck_assert(check(NULL, 0) && check(NULL, 0));
    ck_assert(!check(NULL, 0));
    ck_assert_int_eq(err.code, MTR_BUSY);
    ck_assert_uint_ge(retry_s, 1);
    ck_assert(check(NULL, 1));
    ck_assert(!check(NULL, 1));
    ck_assert(check(NULL, 1000) && check(NULL, 1000));
    ck_assert_msg(!check(NULL, 1000), "a bucket holds no more than its burst");
}
END_TEST

START_TEST(keys_have_their_own_buckets)
{
    create(1, 1, 0);
    ck_assert(mtr_access_load(a, "one", NULL, &err));
    ck_assert(check("Bearer one", 0) && !check("Bearer one", 0));
    ck_assert_msg(mtr_access_load(a, "one", NULL, &err) && !check("Bearer one", 0),
                  "reading the keys again must not refill");
    ck_assert(mtr_access_load(a, "two", NULL, &err));
    ck_assert(check("Bearer two", 0));
}
END_TEST

START_TEST(tokens_a_minute)
{
    create(0, 0, 600);
    ck_assert(check(NULL, 0));
    mtr_access_charge(a, key, 620, MTR_NS_PER_S);
    ck_assert(!check(NULL, 0));
    ck_assert_uint_ge(retry_s, 2);
    ck_assert(!check(NULL, 1));
    ck_assert(check(NULL, 4));
}
END_TEST

MTR_CHECK_MAIN("http/access")
{
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, open_to_all_without_keys);
    tcase_add_test(tc, a_key_is_needed_and_compared_whole);
    tcase_add_test(tc, keys_from_a_file);
    tcase_add_test(tc, requests_a_minute);
    tcase_add_test(tc, keys_have_their_own_buckets);
    tcase_add_test(tc, tokens_a_minute);
}
