/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What is accepted must come out of the writer and parse again to the same text. */
#include "tests/fuzz/fuzz.h"

#include "common/base/json.h"
#include "common/base/utf8.h"

#define ARENA_BYTES (64u << 20)

static void check_round_trip(const struct mtr_json *v, unsigned flags)
{
    struct mtr_buf once = {0}, twice = {0};
    struct mtr_arena arena;
    mtr_arena_init(&arena, ARENA_BYTES);
    struct mtr_json_writer w = mtr_json_writer(&once);
    mtr_json_put_value(&w, v);
    MTR_FUZZ_CHECK(!once.failed && mtr_utf8_valid(mtr_buf_view(&once)));
    const struct mtr_json *again = mtr_json_parse(&arena, mtr_buf_view(&once), flags, NULL);
    MTR_FUZZ_CHECK(again != NULL);
    w = mtr_json_writer(&twice);
    mtr_json_put_value(&w, again);
    MTR_FUZZ_CHECK(mtr_str_equal(mtr_buf_view(&once), mtr_buf_view(&twice)));
    mtr_arena_free(&arena);
    mtr_buf_free(&once);
    mtr_buf_free(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mtr_arena arena;
    struct mtr_error err = {0};
    unsigned flags = size ? data[0] & MTR_JSON_NONFINITE : 0;
    mtr_arena_init(&arena, ARENA_BYTES);
    struct mtr_str text = {(const char *)data, size};
    const struct mtr_json *v = mtr_json_parse(&arena, text, flags, &err);
    if (v)
        check_round_trip(v, flags);
    else
        MTR_FUZZ_CHECK(err.code != MTR_OK && err.message[0] &&
                       mtr_utf8_valid(mtr_str(err.message)));
    mtr_arena_free(&arena);
    return 0;
}
