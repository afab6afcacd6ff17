/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the reader lists lies inside the bytes, apart from each other; what is refused has a reason.
 * Settings, generation defaults and templates are read from whatever was accepted. */
#include "tests/fuzz/fuzz.h"

#include "common/base/utf8.h"
#include "common/checkpoint/gguf.h"
#include "common/config/config.h"

#define ARENA_BYTES (64u << 20)

static void check_tensors(const struct mtr_gguf *g, size_t size)
{
    for (uint32_t i = 0; i < g->tensor_count; i++) {
        const struct mtr_tensor *t = &g->tensors[i];
        MTR_FUZZ_CHECK(t->name.len > 0 && mtr_utf8_valid(t->name));
        MTR_FUZZ_CHECK(t->rank <= MTR_GGUF_MAX_RANK && t->bytes > 0);
        MTR_FUZZ_CHECK(t->offset >= g->data_offset && t->offset <= size);
        MTR_FUZZ_CHECK(t->bytes <= size - t->offset && t->offset % g->alignment == 0);
        MTR_FUZZ_CHECK(mtr_tensor_elements(t) > 0);
    }
}

static void check_metadata(const struct mtr_gguf *g)
{
    for (uint32_t i = 0; i < g->kv_count; i++) {
        const struct mtr_gguf_kv *kv = &g->kv[i];
        MTR_FUZZ_CHECK(mtr_utf8_valid(kv->key));
        if (kv->type != MTR_GGUF_ARRAY)
            continue;
        struct mtr_gguf_cursor c = {0};
        struct mtr_str s;
        uint64_t strings = 0;
        while (mtr_gguf_next(&kv->array, &c, &s))
            strings++;
        MTR_FUZZ_CHECK(kv->array.type != MTR_GGUF_STRING || strings == kv->array.count);
        for (uint64_t k = 0; k < kv->array.count && k < 100; k++)
            (void)mtr_gguf_item_f64(&kv->array, k), (void)mtr_gguf_item_i64(&kv->array, k);
    }
}

static void check_readers(struct mtr_arena *arena, const struct mtr_gguf *g)
{
    struct mtr_checkpoint ck = {.kind = MTR_CHECKPOINT_GGUF, .path = "x.gguf", .gguf = g};
    struct mtr_config config;
    struct mtr_generation generation;
    struct mtr_str text;
    struct mtr_error err = {0};
    MTR_FUZZ_CHECK(mtr_config_read(arena, &ck, &config, &err) || err.message[0]);
    MTR_FUZZ_CHECK(mtr_generation_read(&ck, &generation, &err) || err.message[0]);
    MTR_FUZZ_CHECK(mtr_checkpoint_chat_template(&ck, arena, NULL, &text, &err) || err.message[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mtr_arena arena;
    struct mtr_error err = {0};
    struct mtr_gguf g;
    mtr_arena_init(&arena, ARENA_BYTES);
    if (mtr_gguf_parse(&arena, (struct mtr_str){(const char *)data, size}, &g, &err)) {
        check_tensors(&g, size);
        check_metadata(&g);
        check_readers(&arena, &g);
    } else {
        MTR_FUZZ_CHECK(err.code != MTR_OK && err.message[0] &&
                       mtr_utf8_valid(mtr_str(err.message)));
    }
    mtr_arena_free(&arena);
    return 0;
}
