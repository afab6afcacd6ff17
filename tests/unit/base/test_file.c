/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "common/base/file.c"

#include <stdio.h>

#include "tests/unit/check_main.h"

struct place {
    char dir[64];
    char path[96];
};

/* A file with the given content in a folder of its own. */
static struct place put(const char *content, size_t len)
{
    struct place p = {.dir = "/tmp/mtr-file-XXXXXX"};
    ck_assert_ptr_nonnull(mkdtemp(p.dir));
    snprintf(p.path, sizeof p.path, "%s/f", p.dir);
    FILE *f = fopen(p.path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(content, 1, len, f), len);
    fclose(f);
    return p;
}

static void drop(const struct place *p)
{
    unlink(p->path);
    rmdir(p->dir);
}

START_TEST(maps_and_unmaps)
{
    struct place p = put("content", 7);
    struct mtr_file f;
    struct mtr_error err;
    ck_assert(mtr_file_map(&f, p.path, &err));
    ck_assert_uint_eq(f.size, 7);
    ck_assert_int_eq(memcmp(f.data, "content", 7), 0);
    ck_assert_int_ge(f.fd, 0);
    mtr_file_unmap(&f);
    mtr_file_unmap(&f);
    ck_assert_int_eq(f.fd, -1);
    drop(&p);
}
END_TEST

START_TEST(empty_files_are_fine)
{
    struct place p = put("", 0);
    struct mtr_file f;
    struct mtr_arena a;
    struct mtr_str text;
    mtr_arena_init(&a, 0);
    ck_assert(mtr_file_map(&f, p.path, NULL));
    ck_assert_ptr_null(f.data);
    mtr_file_unmap(&f);
    ck_assert(mtr_file_read(&a, p.path, 100, &text, NULL));
    ck_assert_uint_eq(text.len, 0);
    ck_assert_str_eq(text.ptr, "");
    mtr_arena_free(&a);
    drop(&p);
}
END_TEST

START_TEST(reads_up_to_the_limit)
{
    struct place p = put("0123456789", 10);
    struct mtr_arena a;
    struct mtr_str text;
    struct mtr_error err;
    mtr_arena_init(&a, 0);
    ck_assert(mtr_file_read(&a, p.path, 10, &text, &err));
    ck_assert_str_eq(text.ptr, "0123456789");
    ck_assert(!mtr_file_read(&a, p.path, 9, &text, &err));
    ck_assert_int_eq(err.code, MTR_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(err.message, p.path));
    mtr_arena_free(&a);
    mtr_arena_init(&a, 8);
    ck_assert(!mtr_file_read(&a, p.path, 10, &text, &err));
    ck_assert_int_eq(err.code, MTR_NO_MEMORY);
    mtr_arena_free(&a);
    drop(&p);
}
END_TEST

START_TEST(kernel_files_have_no_size)
{
    struct mtr_arena a;
    struct mtr_str text;
    struct mtr_error err;
    mtr_arena_init(&a, 0);
    ck_assert_msg(mtr_file_read(&a, "/proc/self/status", 1 << 20, &text, &err), "%s", err.message);
    ck_assert_uint_gt(text.len, 20);
    ck_assert(!mtr_file_read(&a, "/proc/self/status", 20, &text, &err));
    ck_assert_int_eq(err.code, MTR_TOO_LARGE);
    mtr_arena_free(&a);
}
END_TEST

START_TEST(what_is_no_regular_file_is_refused)
{
    struct place p = put("x", 1);
    struct mtr_file f;
    struct mtr_error err;
    ck_assert(!mtr_file_map(&f, "/nonexistent/file", &err));
    ck_assert_int_eq(err.code, MTR_NOT_FOUND);
    ck_assert_int_eq(f.fd, -1);
    ck_assert(!mtr_file_map(&f, p.dir, &err));
    ck_assert_int_eq(err.code, MTR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "a directory"));
    ck_assert(!mtr_file_map(&f, "/dev/null", &err));
    ck_assert_int_eq(err.code, MTR_INVALID);
    unlink(p.path);
    ck_assert_int_eq(mkfifo(p.path, 0600), 0);
    ck_assert(!mtr_file_map(&f, p.path, &err)); /* and does not wait for a writer */
    drop(&p);
}
END_TEST

START_TEST(existence)
{
    struct place p = put("x", 1);
    ck_assert(mtr_file_exists(p.path) && !mtr_dir_exists(p.path));
    ck_assert(!mtr_file_exists(p.dir) && mtr_dir_exists(p.dir));
    drop(&p);
    ck_assert(!mtr_file_exists(p.path) && !mtr_dir_exists(p.dir));
}
END_TEST

MTR_CHECK_MAIN("base/file")
{
    tcase_add_test(tc, maps_and_unmaps);
    tcase_add_test(tc, empty_files_are_fine);
    tcase_add_test(tc, reads_up_to_the_limit);
    tcase_add_test(tc, kernel_files_have_no_size);
    tcase_add_test(tc, what_is_no_regular_file_is_refused);
    tcase_add_test(tc, existence);
}
