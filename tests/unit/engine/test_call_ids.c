/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Ids of nine letters and digits, the same for a call and its result. */
#include "broker/engine/call_ids.c"

#include "tests/unit/check_main.h"

START_TEST(a_call_and_its_result_keep_one_id)
{
    struct mtr_arena arena;
    mtr_arena_init(&arena, 0);
    const struct mtr_json *in = mtr_json_parse(
        &arena,
        MTR_STR("[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"tool_calls\":["
                "{\"id\":\"call_0123456789\",\"function\":{\"name\":\"f\"}},{\"id\":\"abcDEF123\"},"
                "7]},{\"role\":\"tool\",\"tool_call_id\":\"call_0123456789\"},{\"role\":\"tool\","
                "\"tool_call_id\":\"abcDEF123\"}]"),
        MTR_JSON_STRICT, NULL);
    const struct mtr_json *out = mtr_short_call_ids(&arena, in);
    ck_assert_ptr_nonnull(out);
    const struct mtr_json *calls = mtr_json_get(&out->items[1], "tool_calls");
    struct mtr_str first = mtr_json_get(&calls->items[0], "id")->text;
    ck_assert(is_short(first));
    ck_assert(mtr_str_equal(first, mtr_json_get(&out->items[2], "tool_call_id")->text));
    ck_assert(mtr_str_is(mtr_json_get(&calls->items[1], "id")->text, "abcDEF123"));
    ck_assert(mtr_str_is(mtr_json_get(&out->items[3], "tool_call_id")->text, "abcDEF123"));
    ck_assert(mtr_str_is(mtr_json_path(&calls->items[0], "function.name")->text, "f"));
    ck_assert(!is_short(mtr_json_get(&in->items[2], "tool_call_id")->text));
    mtr_arena_free(&arena);
}
END_TEST

MTR_CHECK_MAIN("engine/call_ids")
{
    tcase_add_test(tc, a_call_and_its_result_keep_one_id);
}
