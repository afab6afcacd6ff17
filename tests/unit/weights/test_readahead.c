/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The read-ahead touches all that it was given, and stops when told. */
#include "worker/weights/readahead.c"

#include <time.h>

#include "common/base/file.h"
#include "tests/unit/check_main.h"
#include "tests/unit/checkpoint/build.h"

#define BYTES   (10u << 20)
#define WAIT_MS 20000

static char *folder;
static struct mtr_file file;

static uint8_t pattern(size_t i)
{
    return (uint8_t)(i * 31 + (i >> 12) * 7);
}

static void setup(void)
{
    folder = make_folder();
    uint8_t *data = malloc(BYTES);
    for (size_t i = 0; i < BYTES; i++)
        data[i] = pattern(i);
    write_bytes(folder, "data", data, BYTES);
    free(data);
    ck_assert(mtr_file_map(&file, in_folder(folder, "data"), NULL));
}

static void teardown(void)
{
    mtr_file_unmap(&file);
    remove_folder(folder);
}

static bool wait_for(const struct mtr_readahead *r, uint64_t bytes)
{
    const struct timespec ms = {0, 1000000};
    for (int i = 0; i < WAIT_MS && mtr_readahead_done(r) < bytes; i++)
        nanosleep(&ms, NULL);
    return mtr_readahead_done(r) == bytes;
}

START_TEST(reads_all)
{
    const struct mtr_stretch stretches[] = {
        {file.data + 100, 5000000}, {file.data + 9000000, 10}, {file.data, BYTES}, {file.data, 0}};
    struct mtr_readahead *r = mtr_readahead_start(stretches, 4, false);
    ck_assert_ptr_nonnull(r);
    ck_assert(wait_for(r, 5000000 + 10 + BYTES));
    unsigned char resident[BYTES / 4096];
    ck_assert_int_eq(mincore((void *)file.data, BYTES, resident), 0);
    for (size_t i = 0; i < sizeof resident; i++)
        ck_assert(resident[i] & 1);
    mtr_readahead_stop(r);
}
END_TEST

START_TEST(stops)
{
    const struct mtr_stretch all = {file.data, BYTES};
    for (int i = 0; i < 20; i++)
        mtr_readahead_stop(mtr_readahead_start(&all, 1, true)); /* wherever it is */
    mtr_readahead_stop(mtr_readahead_start(NULL, 0, true));
    mtr_readahead_stop(NULL);
}
END_TEST

/* The content stays, at the same addresses, while it is being read. */
START_TEST(huge_pages)
{
    const struct timespec ms = {0, 1000000};
    const struct mtr_stretch parts[] = {{file.data + 5000000, BYTES - 5000000},
                                        {file.data, 4990000}};
    struct mtr_readahead *r = mtr_readahead_start(parts, 2, true);
    ck_assert_ptr_nonnull(r);
    for (int i = 0; i < WAIT_MS && !mtr_readahead_over(r); i++) {
        for (size_t k = 0; k < BYTES; k += 4096)
            ck_assert_msg(file.data[k] == pattern(k), "byte %zu", k);
        nanosleep(&ms, NULL);
    }
    ck_assert(mtr_readahead_over(r));
    mtr_readahead_stop(r);
    for (size_t k = 0; k < BYTES; k++)
        if (file.data[k] != pattern(k))
            ck_abort_msg("byte %zu", k);
}
END_TEST

START_TEST(touching)
{
    touch((uintptr_t)file.data, (uintptr_t)file.data + BYTES, 4096); /* what old kernels get */
}
END_TEST

MTR_CHECK_MAIN("weights/readahead")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, reads_all);
    tcase_add_test(tc, stops);
    tcase_add_test(tc, huge_pages);
    tcase_add_test(tc, touching);
}
