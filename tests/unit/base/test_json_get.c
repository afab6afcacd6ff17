/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "common/base/json_get.c"

#include <math.h>

#include "tests/unit/check_main.h"

static struct mtr_arena arena;
static struct mtr_error err;
static const struct mtr_json *doc;

static void setup(void)
{
    mtr_arena_init(&arena, 0);
    memset(&err, 0, sizeof err);
    doc = mtr_json_parse(&arena,
                         MTR_STR("{\"b\":true,\"i\":7,\"f\":0.5,\"s\":\"text\",\"n\":null,"
                                 "\"big\":99999999999999999999,\"huge\":1e999,"
                                 "\"deep\":{\"er\":{\"x\":3}},\"list\":[1]}"),
                         0, &err);
    ck_assert_ptr_nonnull(doc);
}

static void teardown(void)
{
    mtr_arena_free(&arena);
}

START_TEST(paths)
{
    ck_assert_int_eq(mtr_json_path(doc, "deep.er.x")->integer, 3);
    ck_assert_int_eq(mtr_json_path(doc, "i")->integer, 7);
    ck_assert_ptr_null(mtr_json_path(doc, "deep.er.y"));
    ck_assert_ptr_null(mtr_json_path(doc, "deep..x"));
    ck_assert_ptr_null(mtr_json_path(doc, "list.x"));
    ck_assert_ptr_null(mtr_json_path(NULL, "x"));
    ck_assert_ptr_null(mtr_json_get(mtr_json_get(doc, "list"), "x"));
    ck_assert_ptr_null(mtr_json_get(NULL, "x"));
}
END_TEST

START_TEST(optional_members)
{
    bool b = false;
    int64_t i = -1;
    double f = -1;
    struct mtr_str s = {NULL, 0};
    ck_assert(mtr_json_opt_bool(doc, "b", &b, &err) && b);
    ck_assert(mtr_json_opt_i64(doc, "i", 7, 7, &i, &err) && i == 7);
    ck_assert(mtr_json_opt_f64(doc, "f", 0, 1, &f, &err) && f == 0.5);
    ck_assert(mtr_json_opt_f64(doc, "i", 0, 9, &f, &err) && f == 7);
    ck_assert(mtr_json_opt_str(doc, "s", &s, &err) && mtr_str_is(s, "text"));
}
END_TEST

START_TEST(absent_and_null_change_nothing)
{
    static const char *const keys[] = {"n", "absent"};
    for (size_t k = 0; k < 2; k++) {
        bool b = true;
        int64_t i = 5;
        double f = 2.5;
        struct mtr_str s = MTR_STR("kept");
        ck_assert(mtr_json_opt_bool(doc, keys[k], &b, &err) && b);
        ck_assert(mtr_json_opt_i64(doc, keys[k], 0, 1, &i, &err) && i == 5);
        ck_assert(mtr_json_opt_f64(doc, keys[k], 0, 1, &f, &err) && f == 2.5);
        ck_assert(mtr_json_opt_str(doc, keys[k], &s, &err) && mtr_str_is(s, "kept"));
    }
}
END_TEST

START_TEST(wrong_types_name_the_field)
{
    bool b;
    int64_t i;
    double f;
    struct mtr_str s;
    ck_assert(!mtr_json_opt_bool(doc, "i", &b, &err));
    ck_assert_str_eq(err.field, "i");
    ck_assert_str_eq(err.message, "'i' is of type integer, expected a boolean");
    ck_assert(!mtr_json_opt_i64(doc, "f", 0, 9, &i, &err));
    ck_assert(!mtr_json_opt_i64(doc, "s", 0, 9, &i, &err));
    ck_assert(!mtr_json_opt_f64(doc, "s", 0, 9, &f, &err));
    ck_assert(!mtr_json_opt_f64(doc, "b", 0, 9, &f, &err));
    ck_assert(!mtr_json_opt_str(doc, "list", &s, &err));
    ck_assert_str_eq(err.message, "'list' is of type array, expected a string");
}
END_TEST

START_TEST(ranges_are_held)
{
    int64_t i;
    double f;
    ck_assert(!mtr_json_opt_i64(doc, "i", 8, 10, &i, &err));
    ck_assert_str_eq(err.message, "'i' is 7, expected 8 to 10");
    ck_assert(!mtr_json_opt_i64(doc, "i", 0, 6, &i, &err));
    ck_assert(!mtr_json_opt_i64(doc, "big", INT64_MIN, INT64_MAX, &i, &err));
    ck_assert(!mtr_json_opt_f64(doc, "huge", 0, 2, &f, &err));
    ck_assert_str_eq(err.message, "'huge' is 1e999, expected 0 to 2");
    ck_assert(mtr_json_opt_f64(doc, "big", 0, 1e300, &f, &err) && f == 99999999999999999999.0);
}
END_TEST

START_TEST(kinds_have_names)
{
    ck_assert_str_eq(mtr_json_kind_name(NULL), "nothing");
    ck_assert_str_eq(mtr_json_kind_name(doc), "object");
    ck_assert_str_eq(mtr_json_kind_name(mtr_json_get(doc, "n")), "null");
    ck_assert_str_eq(mtr_json_kind_name(mtr_json_get(doc, "f")), "number");
}
END_TEST

MTR_CHECK_MAIN("base/json_get")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, paths);
    tcase_add_test(tc, optional_members);
    tcase_add_test(tc, absent_and_null_change_nothing);
    tcase_add_test(tc, wrong_types_name_the_field);
    tcase_add_test(tc, ranges_are_held);
    tcase_add_test(tc, kinds_have_names);
}
