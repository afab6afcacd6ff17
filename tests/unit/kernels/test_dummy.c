/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Random weights: every set gives the same bytes, in whatever grid, and no byte outside. */
#include "kernels/args/dummy.h"

#include "tests/unit/kernels/kernel_test.h"

#define BYTES (1u << 17)

static void check(const char *function, struct mtr_dummy_args *args, size_t bytes)
{
    uint8_t *first = NULL, *b = must_alloc(BYTES);
    FOR_EACH_ISA(isa)
    {
        for (uint32_t grid = 1; grid < 40; grid += 17) {
            poison(b, BYTES);
            args->dst = b;
            run_kernel(function, isa, args, grid, 1);
            for (size_t i = bytes; i < BYTES; i++)
                ck_assert_uint_eq(b[i], 0xff);
            if (!first) {
                first = must_alloc(bytes);
                memcpy(first, b, bytes);
            }
            ck_assert_mem_eq(b, first, bytes);
        }
    }
    free(first);
    free(b);
}

START_TEST(plain_formats)
{
    static const struct {
        const char *function;
        uint32_t bytes;
    } formats[] = {{"dummy_f32", 4}, {"dummy_f16", 2}, {"dummy_bf16", 2}};
    static const uint64_t stretches[][2] = {{0, 20000}, {3, 17}, {5, 1}, {1ull << 33, 30000}};
    for (uint32_t f = 0; f < 3; f++)
        for (uint32_t s = 0; s < 4; s++) {
            uint64_t first = stretches[s][0], count = stretches[s][1];
            struct mtr_dummy_args a = {.seed = 9,
                                       .first = first,
                                       .count = count,
                                       .items = (first + count + 3) / 4 - first / 4,
                                       .range = 0.04f};
            check(formats[f].function, &a, count * formats[f].bytes);
        }
}
END_TEST

START_TEST(blocks)
{
    for (uint32_t bytes = 18; bytes <= 210; bytes += 32) {
        struct mtr_dummy_args a = {.seed = 9,
                                   .first = 7,
                                   .count = 300,
                                   .block_bytes = bytes,
                                   .block_pieces = (bytes + 15) / 16,
                                   .scale_count = 2,
                                   .scale_at = {0, (uint16_t)(bytes - 2)},
                                   .scale = {0x1234, 0x5678}};
        a.items = a.count * a.block_pieces;
        check("dummy_blocks", &a, 300 * bytes);
    }
}
END_TEST

START_TEST(single_bytes)
{
    static const uint64_t stretches[][2] = {{0, 20000}, {3, 17}, {5, 1}, {1ull << 33, 70001}};
    for (uint32_t s = 0; s < 4; s++) {
        uint64_t first = stretches[s][0], count = stretches[s][1];
        struct mtr_dummy_args a = {.seed = 9,
                                   .first = first,
                                   .count = count,
                                   .items = (first + count + 15) / 16 - first / 16,
                                   .byte_mask = 0xf0,
                                   .byte_bits = 0x11};
        check("dummy_bytes", &a, count);
    }
}
END_TEST

MTR_CHECK_MAIN("kernels/dummy")
{
    tcase_add_test(tc, plain_formats);
    tcase_add_test(tc, blocks);
    tcase_add_test(tc, single_bytes);
}
