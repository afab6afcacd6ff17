/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the reader lists covers the data without hole or overlap; what is refused has a reason. */
#include "tests/fuzz/fuzz.h"

#include "common/base/utf8.h"
#include "common/checkpoint/safetensors.h"

#define ARENA_BYTES (64u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mtr_arena arena;
    struct mtr_error err = {0};
    struct mtr_safetensors s;
    mtr_arena_init(&arena, ARENA_BYTES);
    if (mtr_safetensors_parse(&arena, (struct mtr_str){(const char *)data, size}, &s, &err)) {
        uint64_t bytes = 0, header = 0;
        for (unsigned i = 0; i < 8; i++)
            header |= (uint64_t)data[i] << 8 * i;
        for (uint32_t i = 0; i < s.tensor_count; i++) {
            const struct mtr_tensor *t = &s.tensors[i];
            MTR_FUZZ_CHECK(t->name.len > 0 && mtr_utf8_valid(t->name));
            MTR_FUZZ_CHECK(t->rank <= MTR_TENSOR_MAX_RANK && t->offset >= 8 + header);
            MTR_FUZZ_CHECK(t->offset <= size && t->bytes <= size - t->offset);
            bytes += t->bytes;
        }
        MTR_FUZZ_CHECK(8 + header + bytes == size);
    } else {
        MTR_FUZZ_CHECK(err.code != MTR_OK && err.message[0] &&
                       mtr_utf8_valid(mtr_str(err.message)));
    }
    mtr_arena_free(&arena);
    return 0;
}
