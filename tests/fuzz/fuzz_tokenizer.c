/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A tokenizer.json. One that is accepted encodes any text to ids that it has, and ids come back as
 * valid UTF-8, all at once and one by one.
 */
#include "tests/fuzz/fuzz.h"

#include "broker/text/detokenizer.h"
#include "broker/text/tokenizer.h"
#include "common/base/utf8.h"

static void decode(const struct mtr_tokenizer *t, const struct mtr_ids *ids)
{
    struct mtr_buf whole = {0}, pieces = {0};
    struct mtr_detokenizer d;
    mtr_detokenizer_init(&d, t, false);
    bool ok = mtr_decode(t, ids->ids, ids->count, false, &whole, NULL);
    for (size_t i = 0; ok && i < ids->count; i++) {
        ok = mtr_detokenizer_push(&d, ids->ids[i], &pieces, NULL);
        MTR_FUZZ_CHECK(mtr_utf8_valid(mtr_buf_view(&pieces)));
    }
    if (ok && mtr_detokenizer_flush(&d, &pieces, NULL))
        MTR_FUZZ_CHECK(mtr_utf8_valid(mtr_buf_view(&pieces)));
    mtr_detokenizer_free(&d);
    mtr_buf_free(&whole);
    mtr_buf_free(&pieces);
}

static void encode(const struct mtr_tokenizer *t, struct mtr_encoder *e, struct mtr_str text)
{
    struct mtr_ids ids = {0};
    struct mtr_error err = {0};
    unsigned flags = MTR_ENCODE_ADD_SPECIAL | (text.len & 1 ? MTR_ENCODE_PARSE_SPECIAL : 0);
    if (mtr_encode(e, text, flags, &ids, &err)) {
        for (size_t i = 0; i < ids.count; i++)
            MTR_FUZZ_CHECK(ids.ids[i] < mtr_tokenizer_size(t));
        decode(t, &ids);
    } else {
        MTR_FUZZ_CHECK(err.message[0] && ids.count == 0);
    }
    mtr_ids_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct mtr_str texts[] = {
        {"", 0},
        {"Hello, world! It's 2026.\n\n  x", sizeof "Hello, world! It's 2026.\n\n  x" - 1},
        {"caf\xc3\xa9 \xe4\xbd\xa0 \xf0\x9f\x98\x80 a\xcc\x81", 18},
        {"\xff\xfe\0<s><|im_end|>", 16},
    };
    struct mtr_error err = {0};
    struct mtr_str json = {(const char *)data, size};
    struct mtr_tokenizer *t = mtr_tokenizer_from_json(json, (struct mtr_str){NULL, 0}, &err);
    if (!t) {
        MTR_FUZZ_CHECK(err.code != MTR_OK && err.message[0]);
        return 0;
    }
    struct mtr_encoder *e = mtr_encoder_new(t);
    for (size_t i = 0; e && i < sizeof texts / sizeof *texts; i++)
        encode(t, e, texts[i]);
    if (e)
        encode(t, e, (struct mtr_str){json.ptr, size < 2000 ? size : 2000});
    mtr_encoder_free(e);
    mtr_tokenizer_free(t);
    return 0;
}
