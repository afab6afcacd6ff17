/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The index of a sharded checkpoint. */
#include "common/checkpoint/shards.c"

#include "tests/unit/check_main.h"

static struct mtr_arena arena;
static struct mtr_error err;

static bool parse_index(const char *text, struct mtr_layout *l)
{
    *l = (struct mtr_layout){.folder = "/m"};
    mtr_arena_free(&arena);
    return mtr_shards_parse(&arena, mtr_str(text), l, &err);
}

START_TEST(good)
{
    struct mtr_layout l;
    ck_assert_msg(
        parse_index("{\"metadata\":{\"total_size\":1},\"weight_map\":{\"b\":\"m-2.safetensors\","
              "\"a\":\"m-1.safetensors\",\"c\":\"m-2.safetensors\"}}",
              &l),
        "%s", err.message);
    ck_assert_uint_eq(l.path_count, 2);
    ck_assert_str_eq(l.paths[0], "/m/m-1.safetensors");
    ck_assert_str_eq(l.paths[1], "/m/m-2.safetensors");
    ck_assert_uint_eq(l.shard_count, 3);
    ck_assert_uint_eq(mtr_layout_shard(&l, MTR_STR("a"))->path, 0);
    ck_assert_uint_eq(mtr_layout_shard(&l, MTR_STR("c"))->path, 1);
    ck_assert_ptr_null(mtr_layout_shard(&l, MTR_STR("d")));
}
END_TEST

START_TEST(refused)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "line 1"},
        {"[]", "weight_map is missing"},
        {"{}", "weight_map is missing"},
        {"{\"weight_map\":[]}", "weight_map is"},
        {"{\"weight_map\":{}}", "weight_map is empty"},
        {"{\"weight_map\":{\"a\":1}}", "\"a\" is integer"},
        {"{\"weight_map\":{\"a\":\"../x.safetensors\"}}", "no .safetensors file of this folder"},
        {"{\"weight_map\":{\"a\":\"/etc/x.safetensors\"}}", "no .safetensors file of this folder"},
        {"{\"weight_map\":{\"a\":\"s/x.safetensors\"}}", "no .safetensors file of this folder"},
        {"{\"weight_map\":{\"a\":\".safetensors\"}}", "no .safetensors file of this folder"},
        {"{\"weight_map\":{\"a\":\"x\\u0000.safetensors\"}}",
         "no .safetensors file of this folder"},
        {"{\"weight_map\":{\"a\":\"x.bin\"}}", "no .safetensors file of this folder"},
        {"{\"weight_map\":{\"a\":\"\"}}", "no .safetensors file of this folder"},
        {"{\"weight_map\":{\"\":\"x.safetensors\"}}", "the name is empty"},
        {"{\"weight_map\":{\"a\":\"x.safetensors\",\"a\":\"y.safetensors\"}}",
         "stands there twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mtr_layout l;
        ck_assert_msg(!parse_index(cases[i].text, &l), "%s", cases[i].text);
        ck_assert_msg(strstr(err.message, cases[i].words), "%s: %s", cases[i].text, err.message);
    }
}
END_TEST

START_TEST(many)
{
    struct mtr_buf b = {0};
    struct mtr_layout l;
    mtr_buf_puts(&b, "{\"weight_map\":{");
    for (int i = 0; i < 100000; i++)
        mtr_buf_printf(&b, "%s\"t.%d\":\"m-%d.safetensors\"", i ? "," : "", i,
                       i % MTR_CHECKPOINT_MAX_FILES);
    mtr_buf_puts(&b, "}}");
    ck_assert_msg(parse_index(b.data, &l), "%s", err.message);
    ck_assert_uint_eq(l.path_count, MTR_CHECKPOINT_MAX_FILES);
    ck_assert_str_eq(l.paths[mtr_layout_shard(&l, MTR_STR("t.2047"))->path],
                     "/m/m-1023.safetensors");
    b.len -= 2;
    mtr_buf_puts(&b, ",\"one\":\"more.safetensors\"}}");
    ck_assert(!parse_index(b.data, &l));
    ck_assert_msg(strstr(err.message, "1025 files, at most 1024"), "%s", err.message);
    mtr_buf_free(&b);
}
END_TEST

MTR_CHECK_MAIN("checkpoint/shards")
{
    mtr_arena_init(&arena, 0);
    tcase_add_test(tc, good);
    tcase_add_test(tc, refused);
    tcase_add_test(tc, many);
}
