/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Metadata built by hand, as the reader of GGUF files hands it out. */
#include "broker/text/tokenizer_gguf.c"

#include "tests/unit/text/tiny_source.h"

struct file {
    struct mtr_buf bytes;
    uint64_t count;
};

static void put(struct file *f, const void *p, size_t n)
{
    ck_assert(mtr_buf_append(&f->bytes, p, n));
}

static void put_u32(struct file *f, uint32_t v)
{
    put(f, &v, 4);
}

static void put_str(struct file *f, struct mtr_str s)
{
    uint64_t len = s.len;
    put(f, &len, 8);
    put(f, s.ptr, s.len);
}

static void key(struct file *f, const char *name, uint32_t type)
{
    put_str(f, mtr_str(name));
    put_u32(f, type);
    f->count++;
}

static void array(struct file *f, const char *name, uint32_t type, uint64_t count)
{
    key(f, name, MTR_GGUF_ARRAY);
    put_u32(f, type);
    put(f, &count, 8);
}

static void text(struct file *f, const char *name, const char *value)
{
    key(f, name, MTR_GGUF_STRING);
    put_str(f, mtr_str(value));
}

static void number(struct file *f, const char *name, uint32_t value)
{
    key(f, name, MTR_GGUF_U32);
    put_u32(f, value);
}

static void tiny_metadata(struct file *f, const struct tiny *t, uint64_t types)
{
    text(f, KEY("model"), "gpt2");
    text(f, KEY("pre"), "smollm");
    array(f, KEY("tokens"), MTR_GGUF_STRING, TINY_TOKENS);
    for (int i = 0; i < TINY_TOKENS; i++)
        put_str(f, t->tokens[i]);
    array(f, KEY("merges"), MTR_GGUF_STRING, TINY_MADE);
    for (int i = 0; i < TINY_MADE; i++)
        put_str(f, t->merges[i]);
    array(f, KEY("token_type"), MTR_GGUF_I32, types);
    for (uint64_t i = 0; i < types; i++)
        put_u32(f, t->types[i]);
    number(f, KEY("bos_token_id"), 263);
    number(f, KEY("eos_token_id"), 265);
}

static struct mtr_tokenizer *load(struct file *f, struct mtr_error *err)
{
    struct mtr_arena arena;
    struct mtr_gguf g;
    struct file whole = {0};
    uint64_t tensors = 0;
    put(&whole, "GGUF", 4);
    put_u32(&whole, 3);
    put(&whole, &tensors, 8);
    put(&whole, &f->count, 8);
    put(&whole, f->bytes.data, f->bytes.len);
    mtr_arena_init(&arena, 0);
    ck_assert_msg(mtr_gguf_parse(&arena, mtr_buf_view(&whole.bytes), &g, err), "%s", err->message);
    struct mtr_tokenizer *t = mtr_tokenizer_from_gguf(&g, err);
    mtr_arena_free(&arena);
    mtr_buf_free(&whole.bytes);
    mtr_buf_free(&f->bytes);
    *f = (struct file){0};
    return t;
}

START_TEST(byte_level)
{
    struct file f = {0};
    struct tiny tiny;
    struct mtr_error err = {0};
    struct mtr_ids ids = {0};
    tiny_init(&tiny);
    tiny_metadata(&f, &tiny, TINY_TOKENS);
    struct mtr_tokenizer *t = load(&f, &err);
    ck_assert_msg(t != NULL, "%s", err.message);
    tiny_free(&tiny); /* nothing points into the metadata */
    struct mtr_encoder *e = mtr_encoder_new(t);
    ck_assert(mtr_encode(e, MTR_STR("hello12<s>"),
                         MTR_ENCODE_ADD_SPECIAL | MTR_ENCODE_PARSE_SPECIAL, &ids, &err));
    const uint32_t want[] = {259, '1', '2', 263}; /* "gpt2" adds no bos unless the file says so */
    ck_assert_uint_eq(ids.count, 4);
    ck_assert(memcmp(ids.ids, want, sizeof want) == 0);
    ck_assert_uint_eq(mtr_tokenizer_eos(t), 265);
    mtr_ids_free(&ids);
    mtr_encoder_free(e);
    mtr_tokenizer_free(t);
}
END_TEST

START_TEST(refusals)
{
    struct file f = {0};
    struct tiny tiny;
    struct mtr_error err = {0};
    tiny_init(&tiny);
    ck_assert(load(&f, &err) == NULL);
    ck_assert(strstr(err.message, "tokenizer.ggml.model") != NULL);
    text(&f, KEY("model"), "bert");
    ck_assert(load(&f, &err) == NULL);
    ck_assert_int_eq(err.code, MTR_UNSUPPORTED);
    text(&f, KEY("model"), "gpt2");
    ck_assert(load(&f, &err) == NULL);
    ck_assert(strstr(err.message, "tokens") != NULL);
    tiny_metadata(&f, &tiny, TINY_TOKENS - 1);
    ck_assert(load(&f, &err) == NULL);
    ck_assert(strstr(err.message, "token_type") != NULL);
    tiny.types[3] = 9;
    tiny_metadata(&f, &tiny, TINY_TOKENS);
    ck_assert(load(&f, &err) == NULL);
    ck_assert(strstr(err.message, "token_type") != NULL);
    tiny_free(&tiny);
}
END_TEST

MTR_CHECK_MAIN("text/tokenizer_gguf")
{
    tcase_add_test(tc, byte_level);
    tcase_add_test(tc, refusals);
}
