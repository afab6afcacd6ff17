/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What is replaced and what is not; the bytes stay. */
#include "worker/weights/huge.c"

#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/check_main.h"

#define BYTES (MTR_HUGE_BYTES * 6)

static uint8_t *map;
static int fd;

static void setup(void)
{
    char path[] = "/tmp/mtr-huge-XXXXXX";
    fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    unlink(path);
    uint8_t *data = malloc(BYTES);
    for (size_t i = 0; i < BYTES; i++)
        data[i] = (uint8_t)(i ^ i >> 8 ^ i >> 16);
    ck_assert_int_eq(write(fd, data, BYTES), (int)BYTES);
    free(data);
    map = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(map, MAP_FAILED);
}

static void teardown(void)
{
    munmap(map, BYTES);
    close(fd);
}

/* Which pages still follow the file: those that see what is written to it. */
static size_t replaced_bytes(void)
{
    size_t replaced = 0;
    for (size_t i = 0; i < BYTES; i += 4096) {
        uint8_t was = map[i], other = (uint8_t)(was ^ 0xff);
        ck_assert_int_eq(pwrite(fd, &other, 1, (off_t)i), 1);
        replaced += map[i] == was ? 4096 : 0;
        ck_assert_int_eq(pwrite(fd, &was, 1, (off_t)i), 1);
    }
    return replaced;
}

static void check_content(void)
{
    for (size_t i = 0; i < BYTES; i++)
        if (map[i] != (uint8_t)(i ^ i >> 8 ^ i >> 16))
            ck_abort_msg("byte %zu", i);
}

START_TEST(steps)
{
    uintptr_t from = (uintptr_t)map + 5, to = (uintptr_t)map + BYTES - 5, at = from;
    uintptr_t first = (from + MTR_HUGE_BYTES - 1) & ~(MTR_HUGE_BYTES - 1);
    uintptr_t whole = (to & ~(MTR_HUGE_BYTES - 1)) - first;
    at = mtr_huge_replace(at, to, MTR_HUGE_BYTES * 2 + 1000);
    ck_assert_uint_eq(at, first + 2 * MTR_HUGE_BYTES);
    ck_assert_uint_eq(replaced_bytes(), 2 * MTR_HUGE_BYTES);
    check_content();
    while (at < to)
        at = mtr_huge_replace(at, to, MTR_HUGE_BYTES * 2);
    ck_assert_uint_eq(at, to);
    ck_assert_uint_eq(replaced_bytes(), whole);
    check_content();
}
END_TEST

START_TEST(too_small)
{
    uintptr_t from = (uintptr_t)map;
    ck_assert_uint_eq(mtr_huge_replace(from + 1, from + MTR_HUGE_BYTES, MTR_HUGE_BYTES),
                      from + MTR_HUGE_BYTES);
    ck_assert_uint_eq(mtr_huge_replace(from, from + BYTES, 4096), from + BYTES);
    ck_assert_uint_eq(mtr_huge_replace(from, from, MTR_HUGE_BYTES), from);
    ck_assert_uint_eq(replaced_bytes(), 0);
}
END_TEST

MTR_CHECK_MAIN("weights/huge")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, steps);
    tcase_add_test(tc, too_small);
}
