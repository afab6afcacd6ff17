/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* End-of-sequence ids and sampling defaults. */
#include "common/config/generation.c"

#include "tests/unit/check_main.h"
#include "tests/unit/checkpoint/build.h"

static struct mtr_arena arena;
static struct mtr_error err;
static char *folder;
static struct mtr_checkpoint *ck;
static struct mtr_generation g;

static void setup(void)
{
    folder = make_folder();
    mtr_arena_init(&arena, 0);
    memset(&err, 0, sizeof err);
}

static void teardown(void)
{
    mtr_checkpoint_close(ck);
    ck = NULL;
    remove_folder(folder);
    mtr_arena_free(&arena);
}

static bool read_generation(const char *name)
{
    mtr_checkpoint_close(ck);
    ck = mtr_checkpoint_open(&arena, in_folder(folder, name), NULL, &err);
    ck_assert_msg(ck, "%s", err.message);
    return mtr_generation_read(ck, &g, &err);
}

START_TEST(folder_generation)
{
    write_text(folder, "config.json", "{\"eos_token_id\":2,\"bos_token_id\":1}");
    ck_assert_msg(read_generation(""), "%s", err.message);
    ck_assert(g.eos_count == 1 && g.eos_ids[0] == 2 && g.bos_id == 1 && g.pad_id == -1);
    ck_assert(g.temperature < 0 && g.top_p < 0 && g.top_k < 0 && g.min_p < 0);
    write_text(folder, "generation_config.json",
               "{\"eos_token_id\":[7,8,7],\"pad_token_id\":0,\"temperature\":0.6,\"top_p\":0.95,"
               "\"top_k\":20,\"repetition_penalty\":1.05}");
    ck_assert_msg(read_generation(""), "%s", err.message);
    ck_assert(g.eos_count == 2 && g.eos_ids[0] == 7 && g.eos_ids[1] == 8);
    ck_assert(g.bos_id == 1 && g.pad_id == 0 && g.temperature == 0.6 && g.top_p == 0.95);
    ck_assert(g.top_k == 20 && g.repetition_penalty == 1.05);
    write_text(folder, "generation_config.json", "{\"do_sample\":false}");
    ck_assert(read_generation("") && g.temperature == 0 && g.eos_ids[0] == 2);
    write_text(folder, "generation_config.json", "{\"eos_token_id\":null}");
    write_text(folder, "config.json",
               "{\"text_config\":{\"eos_token_id\":5},\"bos_token_id\":null}");
    ck_assert(read_generation("") && g.eos_count == 1 && g.eos_ids[0] == 5 && g.bos_id == -1);
}
END_TEST

START_TEST(bad_folder_generation)
{
    static const char *const texts[] = {
        "{\"eos_token_id\":\"2\"}",
        "{\"eos_token_id\":-2}",
        "{\"eos_token_id\":[1.5]}",
        "{\"temperature\":-1}",
        "{\"top_p\":2}",
        "{\"top_k\":\"x\"}",
        "[]",
        "{\"eos_token_id\":1e1000}",
        "{\"bos_token_id\":99999999999}",
    };
    write_text(folder, "config.json", "{}");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        write_text(folder, "generation_config.json", texts[i]);
        ck_assert_msg(!read_generation(""), "%s", texts[i]);
        ck_assert_msg(strstr(err.message, "generation_config.json: "), "%s", err.message);
    }
    struct mtr_buf b = {0};
    mtr_buf_puts(&b, "{\"eos_token_id\":[0");
    for (int i = 0; i < MTR_GENERATION_MAX_EOS; i++)
        mtr_buf_printf(&b, ",%d", i);
    mtr_buf_puts(&b, "]}");
    write_buf(folder, "generation_config.json", &b);
    ck_assert(!read_generation("") && strstr(err.message, "33 ids"));
}
END_TEST

static void write_gguf(const char *const *tokens, uint32_t count, uint32_t type)
{
    struct mtr_buf b = {0};
    put_head(&b, 3, 0, 6);
    put_kv_text(&b, "general.architecture", "llama");
    put_kv_u32(&b, "tokenizer.ggml.eos_token_id", 1);
    put_kv_u32(&b, "tokenizer.ggml.bos_token_id", UINT32_MAX);
    put_kv_f32(&b, "general.sampling.temp", 0.5f);
    put_kv_array(&b, "tokenizer.ggml.tokens", 8, count);
    for (uint32_t i = 0; i < count; i++)
        put_text(&b, tokens[i]);
    put_kv_array(&b, "tokenizer.ggml.token_type", 5, count);
    for (uint32_t i = 0; i < count; i++)
        put_uint(&b, type, 4);
    write_buf(folder, "m.gguf", &b);
}

START_TEST(gguf_generation)
{
    static const char *const tokens[] = {"a",       "</s>",      "<|im_end|>", "<end_of_turn>",
                                         "<|end|>", "<|return|>"};
    write_gguf(tokens, 5, CONTROL_TOKEN);
    ck_assert_msg(read_generation("m.gguf"), "%s", err.message);
    ck_assert(g.eos_count == 4 && g.eos_ids[0] == 1 && g.eos_ids[1] == 2 && g.eos_ids[2] == 3);
    ck_assert(g.eos_ids[3] == 4 && g.bos_id == -1 && g.temperature == 0.5 && g.top_p < 0);
    write_gguf(tokens, 6, CONTROL_TOKEN); /* now <|end|> ends a message, not the turn */
    ck_assert(read_generation("m.gguf") && g.eos_count == 4 && g.eos_ids[3] == 5);
    write_gguf(tokens, 6, 1); /* ordinary tokens with such texts mean nothing */
    ck_assert(read_generation("m.gguf") && g.eos_count == 1);
}
END_TEST

START_TEST(bad_gguf_generation)
{
    struct mtr_buf b = {0};
    put_head(&b, 3, 0, 1);
    put_kv_text(&b, "tokenizer.ggml.eos_token_id", "2");
    write_buf(folder, "m.gguf", &b);
    ck_assert(!read_generation("m.gguf") && strstr(err.message, "eos_token_id"));
    put_head(&b, 3, 0, 1);
    put_kv_f32(&b, "general.sampling.top_p", 7);
    write_buf(folder, "m.gguf", &b);
    ck_assert(!read_generation("m.gguf") && strstr(err.message, "top_p"));
}
END_TEST

MTR_CHECK_MAIN("config/generation")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, folder_generation);
    tcase_add_test(tc, bad_folder_generation);
    tcase_add_test(tc, gguf_generation);
    tcase_add_test(tc, bad_gguf_generation);
}
