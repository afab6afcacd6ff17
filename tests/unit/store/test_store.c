/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reading: owners, lists in both orders, pages. */
#include "tests/unit/store/store_support.h"

START_TEST(what_was_handed_over_is_found)
{
    keep_object(store, object("r1", 1, "{\"a\":1}"));
    ck_assert_str_eq(body_of(store, "r1", 1), "{\"a\":1}");
    ck_assert_ptr_null(body_of(store, "r1", 2));
    ck_assert_ptr_null(body_of(store, "r2", 1));
    keep_object(store, object("r1", 1, "{}"));
    ck_assert_str_eq(body_of(store, "r1", 1), "{}");
}
END_TEST

static void expect_page(struct mtr_store_page page, const char *ids, bool has_more)
{
    struct mtr_store_item *items;
    char got[64] = "";
    ck_assert(mtr_store_items(store, &arena, MTR_STR("p"), MTR_LIST_INPUT, 1, &page, &items, &err));
    for (uint32_t i = 0; i < page.count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%.*s", MTR_STR_ARG(items[i].id));
    ck_assert_str_eq(got, ids);
    ck_assert(page.has_more == has_more);
}

START_TEST(pages)
{
    static const char *const ids[] = {"a", "b", "c", "d", "e"};
    for (size_t i = 0; i < 5; i++)
        keep_item(store, "p", ids[i]);
    keep_item(store, "other", "z");
    expect_page((struct mtr_store_page){0}, "abcde", false);
    expect_page((struct mtr_store_page){.limit = 2}, "ab", true);
    expect_page((struct mtr_store_page){.limit = 2, .after = MTR_STR("b")}, "cd", true);
    expect_page((struct mtr_store_page){.limit = 2, .after = MTR_STR("c")}, "de", false);
    expect_page((struct mtr_store_page){.descending = true, .limit = 3}, "edc", true);
    expect_page((struct mtr_store_page){.descending = true, .after = MTR_STR("c")}, "ba", false);
    struct mtr_store_page wrong = {.after = MTR_STR("z")};
    struct mtr_store_item *items;
    ck_assert(
        !mtr_store_items(store, &arena, MTR_STR("p"), MTR_LIST_INPUT, 1, &wrong, &items, &err));
    ck_assert_int_eq(err.code, MTR_NOT_FOUND);
}
END_TEST

START_TEST(objects_by_age)
{
    struct mtr_store_page page = {.limit = 2};
    struct mtr_store_object *objects;
    keep_object(store, object("x", 1, "{}"));
    keep_object(store, object("y", 2, "{}"));
    keep_object(store, object("z", 1, "{}"));
    keep_object(store, object("x", 1, "{\"again\":1}"));
    ck_assert(mtr_store_objects(store, &arena, MTR_STORED_RESPONSE, 1, &page, &objects, &err));
    ck_assert_uint_eq(page.count, 2);
    ck_assert(mtr_str_is(objects[0].id, "x") && mtr_str_is(objects[1].id, "z"));
    page = (struct mtr_store_page){.after = MTR_STR("x")};
    ck_assert(mtr_store_objects(store, &arena, MTR_STORED_RESPONSE, 1, &page, &objects, &err));
    ck_assert_uint_eq(page.count, 1);
}
END_TEST

START_TEST(single_items)
{
    struct mtr_store_item item;
    keep_item(store, "p", "a");
    ck_assert(mtr_store_item(store, &arena, (struct mtr_str){0}, MTR_STR("a"), 1, &item, &err));
    ck_assert(mtr_str_is(item.parent, "p"));
    ck_assert(mtr_store_item(store, &arena, MTR_STR("p"), MTR_STR("a"), 1, &item, &err));
    ck_assert(!mtr_store_item(store, &arena, MTR_STR("q"), MTR_STR("a"), 1, &item, &err));
    ck_assert(!mtr_store_item(store, &arena, MTR_STR("p"), MTR_STR("a"), 2, &item, &err));
}
END_TEST

MTR_CHECK_MAIN("store/store")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, what_was_handed_over_is_found);
    tcase_add_test(tc, pages);
    tcase_add_test(tc, objects_by_age);
    tcase_add_test(tc, single_items);
}
