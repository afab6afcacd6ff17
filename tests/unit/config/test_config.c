/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Settings of both kinds of checkpoint as one document. */
#include "common/config/config.c"

#include "tests/unit/check_main.h"
#include "tests/unit/checkpoint/build.h"

static struct mtr_arena arena;
static struct mtr_error err;
static char *folder;
static struct mtr_checkpoint *ck;
static struct mtr_config config;

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

static bool read_config(const char *name)
{
    mtr_checkpoint_close(ck);
    ck = mtr_checkpoint_open(&arena, in_folder(folder, name), NULL, &err);
    ck_assert_msg(ck, "%s", err.message);
    return mtr_config_read(&arena, ck, &config, &err);
}

START_TEST(folder_config)
{
    write_text(folder, "config.json",
               "{\"model_type\":\"llama\",\"x\":Infinity,\"text_config\":{\"n\":3}}");
    ck_assert_msg(read_config(""), "%s", err.message);
    ck_assert(!config.gguf && !config.quant && mtr_str_is(config.architecture, "llama"));
    ck_assert(isinf(mtr_json_get(config.root, "x")->real));
    ck_assert_int_eq(mtr_json_path(config.root, "text_config.n")->integer, 3);
    write_text(folder, "hf_quant_config.json", "{\"quantization\":{\"quant_algo\":\"NVFP4\"}}");
    ck_assert(read_config("config.json"));
    ck_assert(mtr_json_path(config.quant, "quantization.quant_algo"));
    write_text(folder, "config.json", "{}");
    ck_assert(read_config("") && config.architecture.len == 0);
}
END_TEST

START_TEST(bad_folder_config)
{
    write_text(folder, "config.json", "[]");
    ck_assert(!read_config(""));
    ck_assert_msg(strstr(err.message, "config.json: is array, expected an object"), "%s",
                  err.message);
    write_text(folder, "config.json", "{\"model_type\":3}");
    ck_assert(!read_config("") && strstr(err.message, "model_type"));
    write_text(folder, "config.json", "{");
    ck_assert(!read_config("") && strstr(err.message, "config.json: "));
    write_text(folder, "config.json", "{}");
    write_text(folder, "hf_quant_config.json", "3");
    ck_assert(!read_config("") && strstr(err.message, "hf_quant_config.json"));
    struct mtr_buf b = {0};
    put_safetensors(&b, "{}", 0);
    write_buf(folder, "alone/model.safetensors", &b);
    ck_assert(!read_config("alone"));
    ck_assert_msg(strstr(err.message, "alone/config.json: no such file"), "%s", err.message);
}
END_TEST

static void build_gguf(struct mtr_buf *b)
{
    put_head(b, 3, 0, 12);
    put_kv_text(b, "general.architecture", "llama");
    put_kv_u32(b, "llama.block_count", 30);
    put_kv_f32(b, "llama.eps", 1e-5f);
    put_kv_f32(b, "llama.theta", 100000.0f);
    put_kv_bool(b, "llama.flag", 1);
    put_key(b, "llama.big", 10), put_uint(b, UINT64_MAX, 8);
    put_key(b, "llama.minus", 5), put_uint(b, 0xffffffff, 4);
    put_kv_array(b, "llama.heads", 5, 3), put_uint(b, 8, 4), put_uint(b, 4, 4), put_uint(b, 8, 4);
    put_kv_array(b, "general.tags", 8, 2), put_text(b, "a"), put_text(b, "b");
    put_kv_array(b, "llama.long", 0, MTR_CONFIG_MAX_ARRAY + 1),
        put_zeros(b, MTR_CONFIG_MAX_ARRAY + 1);
    put_kv_array(b, "tokenizer.ggml.tokens", 8, 2), put_text(b, "x"), put_text(b, "y");
    put_kv_array(b, "llama.mask", 7, 2), put_uint(b, 0x0100, 2);
}

START_TEST(gguf_config)
{
    struct mtr_buf b = {0}, out = {0};
    build_gguf(&b);
    write_buf(folder, "m.gguf", &b);
    ck_assert_msg(read_config("m.gguf"), "%s", err.message);
    ck_assert(config.gguf && mtr_str_is(config.architecture, "llama") && config.vocab_tokens == 2);
    struct mtr_json_writer w = mtr_json_writer(&out);
    mtr_json_put_value(&w, config.root);
    ck_assert_str_eq(out.data, "{\"general.architecture\":\"llama\",\"llama.block_count\":30,"
                               "\"llama.eps\":1e-05,\"llama.theta\":1e+05,\"llama.flag\":true,"
                               "\"llama.big\":18446744073709551615,\"llama.minus\":-1,"
                               "\"llama.heads\":[8,4,8],\"general.tags\":[\"a\",\"b\"],"
                               "\"llama.mask\":[false,true]}");
    ck_assert(mtr_json_get(config.root, "llama.eps")->real == (double)1e-5f);
    ck_assert(mtr_json_get(config.root, "llama.big")->big);
    mtr_buf_free(&out);
}
END_TEST

START_TEST(bad_gguf_config)
{
    struct mtr_buf b = {0};
    put_head(&b, 3, 0, 1);
    put_kv_u32(&b, "x.y", 1);
    write_buf(folder, "m.gguf", &b);
    ck_assert(!read_config("m.gguf") && strstr(err.message, "\"general.architecture\" is missing"));
    put_head(&b, 3, 0, 1);
    put_kv_u32(&b, "general.architecture", 1);
    write_buf(folder, "m.gguf", &b);
    ck_assert(!read_config("m.gguf") && strstr(err.message, "expected string"));
    put_head(&b, 3, 0, 2);
    put_kv_text(&b, "general.architecture", "llama");
    put_kv_text(&b, "general.name", "\xff");
    write_buf(folder, "m.gguf", &b);
    ck_assert(!read_config("m.gguf"));
    ck_assert_msg(strstr(err.message, "m.gguf: metadata \"general.name\": is not valid UTF-8"),
                  "%s", err.message);
}
END_TEST

START_TEST(real_numbers)
{
    static const struct {
        double value;
        bool single;
        const char *text;
    } cases[] = {
        {1, true, "1.0"},
        {(double)0.1f, true, "0.1"},
        {0.1, false, "0.1"},
        {(double)0.1f, false, "0.10000000149011612"},
        {1e300, false, "1e+300"},
        {-2.5, false, "-2.5"},
        {(double)1e10f, true, "1e+10"},
        {INFINITY, true, "Infinity"},
        {-INFINITY, true, "-Infinity"},
        {NAN, false, "NaN"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mtr_str s = real_text(&arena, cases[i].value, cases[i].single);
        ck_assert_msg(mtr_str_is(s, cases[i].text), "%.*s, not %s", MTR_STR_ARG(s), cases[i].text);
    }
}
END_TEST

MTR_CHECK_MAIN("config/config")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, folder_config);
    tcase_add_test(tc, bad_folder_config);
    tcase_add_test(tc, gguf_config);
    tcase_add_test(tc, bad_gguf_config);
    tcase_add_test(tc, real_numbers);
}
