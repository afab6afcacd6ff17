/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Texts of a folder, and where chat templates are found. */
#include "common/checkpoint/texts.c"

#include "tests/unit/check_main.h"
#include "tests/unit/checkpoint/build.h"

static struct mtr_arena arena;
static struct mtr_error err;
static char *folder;
static struct mtr_checkpoint ck;
static struct mtr_str text;

static void setup(void)
{
    folder = make_folder();
    mtr_arena_init(&arena, 0);
    memset(&err, 0, sizeof err);
    ck = (struct mtr_checkpoint){.folder = folder, .path = folder, .config_path = "/nowhere"};
}

static void teardown(void)
{
    remove_folder(folder);
    mtr_arena_free(&arena);
}

static bool template(const char *variant)
{
    return mtr_checkpoint_chat_template(&ck, &arena, variant, &text, &err);
}

START_TEST(texts)
{
    for (int i = 0; i < MTR_TEXT_COUNT; i++) {
        ck_assert(mtr_checkpoint_text(&ck, &arena, i, &text, &err));
        ck_assert_ptr_null(text.ptr);
    }
    ck.config_path = in_folder(folder, "config.json");
    for (int i = 0; i < MTR_TEXT_COUNT; i++) {
        write_text(folder, mtr_checkpoint_text_name(i), mtr_checkpoint_text_name(i));
        ck_assert(mtr_checkpoint_text(&ck, &arena, i, &text, &err));
        ck_assert(mtr_str_is(text, mtr_checkpoint_text_name(i)));
    }
    ck.folder = NULL;
    ck_assert(mtr_checkpoint_text(&ck, &arena, MTR_TEXT_TOKENIZER, &text, &err) && !text.ptr);
}
END_TEST

START_TEST(folder_templates)
{
    ck_assert(template(NULL) && !text.ptr);
    write_text(folder, "tokenizer_config.json", "{\"chat_template\": null}");
    ck_assert(template(NULL) && !text.ptr);
    write_text(folder, "tokenizer_config.json", "{\"chat_template\": \"old\\n\"}");
    ck_assert(template(NULL) && mtr_str_is(text, "old\n"));
    ck_assert(template("default") && mtr_str_is(text, "old\n"));
    ck_assert(template("tool_use") && !text.ptr);
    write_text(folder, "tokenizer_config.json",
               "{\"chat_template\": [{\"name\":\"default\",\"template\":\"d\"},"
               "{\"name\":\"tool_use\",\"template\":\"t\"}]}");
    ck_assert(template(NULL) && mtr_str_is(text, "d"));
    ck_assert(template("tool_use") && mtr_str_is(text, "t"));
    ck_assert(template("rag") && !text.ptr);
    write_text(folder, "chat_template.json", "{\"chat_template\": \"json\"}");
    ck_assert(template(NULL) && mtr_str_is(text, "json"));
    write_text(folder, "chat_template.jinja", "jinja");
    ck_assert(template(NULL) && mtr_str_is(text, "jinja"));
    write_text(folder, "additional_chat_templates/rag.jinja", "rag");
    ck_assert(template("rag") && mtr_str_is(text, "rag"));
}
END_TEST

START_TEST(bad_templates)
{
    ck_assert(!template("../x"));
    ck_assert(!template(""));
    write_text(folder, "tokenizer_config.json", "{\"chat_template\": 3}");
    ck_assert(!template(NULL) && strstr(err.message, "chat_template is integer"));
    write_text(folder, "tokenizer_config.json", "{");
    ck_assert(!template(NULL) && strstr(err.message, "tokenizer_config.json"));
    write_text(folder, "chat_template.jinja", "\xff");
    ck_assert(!template(NULL) && strstr(err.message, "not valid UTF-8"));
}
END_TEST

START_TEST(gguf_templates)
{
    struct mtr_buf b = {0};
    struct mtr_gguf g;
    put_head(&b, 3, 0, 3);
    put_kv_text(&b, "tokenizer.chat_template", "main");
    put_kv_text(&b, "tokenizer.chat_template.tool_use", "tools");
    put_kv_text(&b, "tokenizer.chat_template.bad", "\xff");
    ck_assert(mtr_gguf_parse(&arena, mtr_buf_view(&b), &g, &err));
    ck = (struct mtr_checkpoint){.gguf = &g, .path = "x.gguf"};
    ck_assert(template(NULL) && mtr_str_is(text, "main"));
    ck_assert(template("tool_use") && mtr_str_is(text, "tools"));
    ck_assert(template("rag") && !text.ptr);
    ck_assert(!template("bad") && strstr(err.message, "not valid UTF-8"));
    mtr_buf_free(&b);
    put_head(&b, 3, 0, 1);
    put_kv_u32(&b, "tokenizer.chat_template", 1);
    ck_assert(mtr_gguf_parse(&arena, mtr_buf_view(&b), &g, &err));
    ck_assert(!template(NULL) && strstr(err.message, "expected string"));
    mtr_buf_free(&b);
}
END_TEST

MTR_CHECK_MAIN("checkpoint/texts")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, texts);
    tcase_add_test(tc, folder_templates);
    tcase_add_test(tc, bad_templates);
    tcase_add_test(tc, gguf_templates);
}
