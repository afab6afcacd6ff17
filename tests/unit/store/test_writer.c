/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Writing: what stays over a restart, what goes with age, size and deletion. */
#include "broker/store/writer.c"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/store/store_support.h"

START_TEST(deletion_takes_the_items)
{
    struct mtr_store_item item;
    keep_object(store, object("p", 1, "{}"));
    keep_item(store, "p", "a");
    struct mtr_store_batch *b = mtr_store_batch(store);
    mtr_batch_delete(b, MTR_STORED_RESPONSE, MTR_STR("p"), 2);
    ck_assert(mtr_store_write(store, b, &err));
    ck_assert_ptr_nonnull(body_of(store, "p", 1));
    b = mtr_store_batch(store);
    mtr_batch_delete(b, MTR_STORED_RESPONSE, MTR_STR("p"), 1);
    ck_assert(mtr_store_write(store, b, &err));
    ck_assert_ptr_null(body_of(store, "p", 1));
    ck_assert(!mtr_store_item(store, &arena, MTR_STR("p"), MTR_STR("a"), 1, &item, &err));
    ck_assert_uint_eq(store->held_bytes, 0);
}
END_TEST

START_TEST(only_the_unfinished_are_finished)
{
    struct mtr_store_object o = object("r", 1, "{\"s\":1}");
    o.unfinished = true;
    keep_object(store, o);
    o = object("r", 1, "{\"s\":2}");
    for (int i = 0; i < 2; i++) {
        struct mtr_store_batch *b = mtr_store_batch(store);
        mtr_batch_finish(b, &o);
        ck_assert(mtr_store_write(store, b, &err));
        ck_assert_str_eq(body_of(store, "r", 1), "{\"s\":2}");
        o.body = MTR_STR("{\"s\":3}");
    }
}
END_TEST

START_TEST(the_oldest_go_when_it_is_full)
{
    char id[16];
    mtr_store_close(store);
    store = open_store("", 4096);
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "r%d", i);
        keep_object(store, object(id, 1, "{\"padding\":\"0123456789012345678901234567890\"}"));
        ck_assert_ptr_nonnull(body_of(store, id, 1));
    }
    ck_assert_uint_le(store->held_bytes, 4096);
    ck_assert_ptr_null(body_of(store, "r0", 1));
}
END_TEST

START_TEST(what_is_too_old_goes)
{
    keep_object(store, object("r", 1, "{}"));
    ck_assert_ptr_nonnull(body_of(store, "r", 1));
    store->options.max_age_s = 10;
    run(store, "UPDATE objects SET touched=touched-100");
    ck_assert_ptr_null(body_of(store, "r", 1));
    keep_object(store, object("q", 1, "{}"));
    ck_assert_ptr_nonnull(body_of(store, "q", 1));
    ck_assert_int_eq(number(mtr_sql(store->writing, &err, "SELECT COUNT(*) FROM objects", "")), 1);
}
END_TEST

START_TEST(a_restart)
{
    char path[] = "/tmp/mtr_store_XXXXXX";
    struct stat st;
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    unlink(path);
    struct mtr_store *s = open_store(path, 0);
    struct mtr_store_object half = object("half", 1, "{\"status\":\"in_progress\"}");
    half.unfinished = true;
    keep_object(s, object("whole", 1, "{\"status\":\"completed\"}"));
    keep_object(s, half);
    mtr_store_close(s);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0600);
    s = open_store(path, 0);
    ck_assert_uint_gt(s->held_bytes, 0);
    ck_assert_str_eq(body_of(s, "whole", 1), "{\"status\":\"completed\"}");
    ck_assert_ptr_nonnull(strstr(body_of(s, "half", 1), "\"failed\""));
    mtr_store_close(s);
    unlink(path);
}
END_TEST

START_TEST(a_file_that_is_none)
{
    struct mtr_store_options o = {.path = "/nowhere/at/all.db"};
    ck_assert_ptr_null(mtr_store_open(&o, &silent, &err));
    ck_assert_int_eq(err.code, MTR_IO);
    o.path = "/dev/full";
    ck_assert_ptr_null(mtr_store_open(&o, &silent, &err));
}
END_TEST

MTR_CHECK_MAIN("store/writer")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, deletion_takes_the_items);
    tcase_add_test(tc, only_the_unfinished_are_finished);
    tcase_add_test(tc, the_oldest_go_when_it_is_full);
    tcase_add_test(tc, what_is_too_old_goes);
    tcase_add_test(tc, a_restart);
    tcase_add_test(tc, a_file_that_is_none);
}
