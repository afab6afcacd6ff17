/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "common/wire/socket.h"
#include "tests/unit/check_main.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/mtr_key_XXXXXX";
static char path[64];

static void setup(void)
{
    memcpy(dir + sizeof(dir) - 7, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/a.key", dir);
}

static void teardown(void)
{
    unlink(path);
    rmdir(dir);
}

static void write_file(const char *text, mode_t mode)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
    ck_assert_int_eq(chmod(path, mode), 0);
}

START_TEST(a_key_survives_its_file)
{
    char pub[41], sec[41], back[41], line[64];
    struct mtr_error err = {0};
    ck_assert(mtr_wire_keygen(pub, sec, &err));
    ck_assert_str_ne(pub, sec);
    ck_assert(mtr_wire_check_key(pub));
    snprintf(line, sizeof(line), "%s\n", sec);
    write_file(line, 0600);
    ck_assert_msg(mtr_wire_read_key(path, true, back, &err), "%s", err.message);
    ck_assert_str_eq(sec, back);
}
END_TEST

START_TEST(a_secret_must_be_one)
{
    char pub[41], sec[41], back[41];
    struct mtr_error err = {0};
    ck_assert(mtr_wire_keygen(pub, sec, &err));
    write_file(sec, 0604);
    ck_assert(!mtr_wire_read_key(path, true, back, &err));
    ck_assert_int_eq(err.code, MTR_DENIED);
    ck_assert(mtr_wire_read_key(path, false, back, &err));
}
END_TEST

START_TEST(what_is_no_key_is_refused)
{
    static const char *const texts[] = {"", "short", "0123456789012345678901234567890123456789x",
                                        "~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~",
                                        "not a key, and much longer than any key could be, by far"};
    char back[41];
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct mtr_error err = {0};
        write_file(texts[i], 0600);
        ck_assert_msg(!mtr_wire_read_key(path, true, back, &err), "%s", texts[i]);
        ck_assert_int_eq(err.code, MTR_INVALID);
        ck_assert_ptr_nonnull(strstr(err.message, path));
    }
    struct mtr_error err = {0};
    ck_assert(!mtr_wire_read_key(dir, true, back, &err));
    ck_assert(!mtr_wire_read_key("/nonexistent/a.key", true, back, &err));
    ck_assert_int_eq(err.code, MTR_IO);
}
END_TEST

MTR_CHECK_MAIN("wire/key")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_key_survives_its_file);
    tcase_add_test(tc, a_secret_must_be_one);
    tcase_add_test(tc, what_is_no_key_is_refused);
}
