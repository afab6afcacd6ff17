/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ctl/keygen.c"

#include <sys/stat.h>

#include "tests/unit/ctl/captured.h"

static struct captured c;
static char dir[] = "/tmp/mtr_keygen_XXXXXX", name[64], secret[80], public[80];

static void setup(void)
{
    memcpy(dir + sizeof dir - 7, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(name, sizeof name, "%s/k", dir);
    snprintf(secret, sizeof secret, "%s.key", name);
    snprintf(public, sizeof public, "%s.pub", name);
}

static void teardown(void)
{
    unlink(secret);
    unlink(public);
    rmdir(dir);
}

START_TEST(a_pair_is_made_for_its_owner)
{
    struct mtr_error err = {0};
    struct stat st;
    char key[41], other[41];
    CAPTURE(&c, mtr_ctl_keygen, "keygen", name);
    ck_assert_msg(c.status == 0 && strstr(c.out, secret) && strstr(c.out, public), "%s", c.err);
    ck_assert(stat(secret, &st) == 0 && (st.st_mode & 0777) == 0600);
    ck_assert(mtr_wire_read_key(secret, true, key, &err));
    ck_assert(mtr_wire_read_key(public, false, other, &err));
    ck_assert_str_ne(key, other);
    ck_assert_ptr_null(strstr(c.out, key));
}
END_TEST

START_TEST(no_key_is_overwritten)
{
    struct mtr_error err = {0};
    char before[41], after[41];
    CAPTURE(&c, mtr_ctl_keygen, "keygen", name);
    ck_assert(mtr_wire_read_key(secret, true, before, &err));
    CAPTURE(&c, mtr_ctl_keygen, "keygen", name);
    ck_assert(c.status == MTR_EXIT_FAILED && strstr(c.err, secret));
    ck_assert(mtr_wire_read_key(secret, true, after, &err));
    ck_assert_str_eq(before, after);
    /* With only the public half in the way nothing of the new pair stays. */
    unlink(secret);
    CAPTURE(&c, mtr_ctl_keygen, "keygen", name);
    ck_assert(c.status == MTR_EXIT_FAILED && access(secret, F_OK) != 0);
}
END_TEST

START_TEST(a_name_is_needed)
{
    CAPTURE(&c, mtr_ctl_keygen, "keygen");
    ck_assert(c.status == MTR_EXIT_USAGE && strstr(c.err, "which name"));
    CAPTURE(&c, mtr_ctl_keygen, "keygen", "/nonexistent/folder/k");
    ck_assert(c.status == MTR_EXIT_FAILED && strstr(c.err, "/nonexistent/folder/k.key"));
}
END_TEST

MTR_CHECK_MAIN("ctl/keygen")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_pair_is_made_for_its_owner);
    tcase_add_test(tc, no_key_is_overwritten);
    tcase_add_test(tc, a_name_is_needed);
}
