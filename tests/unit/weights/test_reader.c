/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Pieces come in order and whole, from the page cache, past it, plainly or from the mapping. */
#include "worker/weights/reader.c"

#include <stdio.h>
#include <sys/mman.h>

#include "common/numeric/numeric.h"
#include "tests/unit/check_main.h"

#define FILE_BYTES 300001 /* no multiple of anything */
#define PIECES     40
#define BUFFERS    3

static char path[] = "/tmp/mtr-reader-XXXXXX";
static struct mtr_checkpoint_file file;
static struct mtr_read_piece pieces[PIECES];
static void *buffers[BUFFERS];
static struct mtr_error err;

static uint8_t content(uint64_t i)
{
    return (uint8_t)(i * 7 + i / 251);
}

static void setup(void)
{
    int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    for (uint64_t i = 0; i < FILE_BYTES; i++)
        fputc(content(i), f);
    fclose(f);
    file.path = path;
    ck_assert(mtr_file_map(&file.map, path, &err));
    uint64_t room = 0;
    for (uint32_t i = 0; i < PIECES; i++) {
        uint64_t at = (uint64_t)i * i * 187, bytes = i == 0 ? 1 : FILE_BYTES / PIECES + i;
        if (i == PIECES - 1)
            at = FILE_BYTES - bytes; /* the very end */
        pieces[i] = (struct mtr_read_piece){.offset = at,
                                            .bytes = bytes,
                                            .from = MTR_U8,
                                            .to = MTR_U8,
                                            .elements = bytes,
                                            .out_bytes = bytes};
        room = mtr_reader_room(&pieces[i]) > room ? mtr_reader_room(&pieces[i]) : room;
    }
    for (uint32_t i = 0; i < BUFFERS; i++)
        buffers[i] = malloc(room);
}

static void teardown(void)
{
    for (uint32_t i = 0; i < BUFFERS; i++)
        free(buffers[i]);
    mtr_file_unmap(&file.map);
    unlink(path);
}

static struct mtr_reader *start(uint32_t threads)
{
    struct mtr_reader *r = mtr_reader_start(&(struct mtr_reader_options){.files = &file,
                                                                         .pieces = pieces,
                                                                         .count = PIECES,
                                                                         .buffers = buffers,
                                                                         .buffer_count = BUFFERS,
                                                                         .threads = threads},
                                            &err);
    ck_assert_msg(r != NULL, "%s", err.message);
    return r;
}

static void ck_piece(const struct mtr_read_piece *p, const uint8_t *data)
{
    for (uint64_t i = 0; i < p->bytes; i++)
        ck_assert_msg(data[i] == content(p->offset + i), "byte %llu of the piece at %llu",
                      (unsigned long long)i, (unsigned long long)p->offset);
}

START_TEST(pieces_come_in_order)
{
    static const uint32_t threads[] = {1, 2, 8};
    struct mtr_reader *r = start(threads[_i]);
    for (uint32_t i = 0; i < PIECES; i++) {
        const void *data;
        ck_assert_msg(mtr_reader_take(r, &data, &err), "%s", err.message);
        ck_piece(&pieces[i], data);
        if (i >= BUFFERS - 1) /* some are kept for a while */
            mtr_reader_give(r);
    }
    mtr_reader_stop(r);
}
END_TEST

/* Each way by itself. */
START_TEST(every_way_gives_the_same)
{
    static uint8_t room[1 << 17];
    struct mtr_checkpoint_file mapped = file;
    int direct = open_direct(&file);
    mapped.map.fd = -1;
    for (uint32_t i = 0; i < PIECES; i++) {
        const struct mtr_read_piece *p = &pieces[i];
        uint64_t skip = p->offset % MTR_READER_ALIGNMENT;
        uint8_t *aligned = (uint8_t *)up((uintptr_t)room);
        ck_assert(read_plain(&file, p->offset, p->bytes, room, &err));
        ck_piece(p, room);
        memset(room, 0, sizeof room);
        ck_assert(read_plain(&mapped, p->offset, p->bytes, room, &err));
        ck_piece(p, room);
        memset(room, 0, sizeof room);
        if (read_direct(direct, p->offset - skip, skip + p->bytes, up(skip + p->bytes), aligned))
            ck_piece(p, aligned + skip);
        memset(room, 0, sizeof room);
        if (read_cached(&file, p->offset, p->bytes, room))
            ck_piece(p, room);
    }
    ck_assert(!read_direct(-1, 0, 1, 4096, room));
    ck_assert(!read_cached(&mapped, 0, 1, room));
    if (direct >= 0)
        close(direct);
}
END_TEST

START_TEST(conversions_happen_on_the_way)
{
    for (uint32_t i = 0; i < PIECES; i++) {
        struct mtr_read_piece *p = &pieces[i];
        p->bytes &= ~3ull;
        p->from = MTR_F32;
        p->to = MTR_BF16;
        p->elements = p->bytes / 4;
        p->out_bytes = p->bytes / 2;
    }
    struct mtr_reader *r = start(2);
    for (uint32_t i = 0; i < PIECES; i++) {
        const void *data;
        ck_assert_msg(mtr_reader_take(r, &data, &err), "%s", err.message);
        for (uint64_t k = 0; k < pieces[i].elements; k++) {
            float f;
            uint16_t h;
            memcpy(&f, file.map.data + pieces[i].offset + 4 * k, 4);
            memcpy(&h, (const uint8_t *)data + 2 * k, 2);
            ck_assert_uint_eq(h, mtr_bf16_from_f32(f));
        }
        mtr_reader_give(r);
    }
    mtr_reader_stop(r);
}
END_TEST

/* Where the formats are equal too, and from any address. */
START_TEST(divisors_are_inverted)
{
    for (uint32_t i = 0; i < PIECES; i++) {
        struct mtr_read_piece *p = &pieces[i];
        p->bytes &= ~3ull;
        p->from = i % 2 ? MTR_F32 : MTR_BF16;
        p->to = MTR_F32;
        p->elements = i % 2 ? p->bytes / 4 : p->bytes / 2;
        p->out_bytes = 4 * p->elements;
        p->inverted = true;
        uint64_t room = mtr_reader_room(p);
        for (uint32_t b = 0; i == 0 && b < BUFFERS; b++)
            buffers[b] = realloc(buffers[b], 4 * room + (1u << 16));
    }
    struct mtr_reader *r = start(2);
    for (uint32_t i = 0; i < PIECES; i++) {
        const void *data;
        ck_assert_msg(mtr_reader_take(r, &data, &err), "%s", err.message);
        for (uint64_t k = 0; k < pieces[i].elements; k++) {
            float f, got;
            mtr_convert(pieces[i].from,
                        file.map.data + pieces[i].offset + k * pieces[i].bytes / pieces[i].elements,
                        MTR_F32, &f, 1);
            memcpy(&got, (const uint8_t *)data + 4 * k, 4);
            ck_assert(got == 1 / f || (got != got && f != f));
        }
        mtr_reader_give(r);
    }
    mtr_reader_stop(r);
}
END_TEST

/* The piece that has one is refused, not those before it, whoever reads ahead. */
START_TEST(an_e4m3_that_is_no_number_is_refused)
{
    const void *data;
    pieces[0].from = pieces[0].to = MTR_E4M3; /* one byte, 0 */
    pieces[2].from = pieces[2].to = MTR_E4M3; /* all bytes there are */
    struct mtr_reader *r = start(4);
    for (uint32_t i = 0; i < 2; i++)
        ck_assert_msg(mtr_reader_take(r, &data, &err), "%s", err.message);
    ck_assert(!mtr_reader_take(r, &data, &err));
    ck_assert_int_eq(err.code, MTR_INVALID);
    ck_assert_str_eq(err.message, "has an e4m3 element that is no number");
    mtr_reader_stop(r);
}
END_TEST

START_TEST(a_file_that_shrinks_is_an_error)
{
    const void *data;
    bool ok = true;
    ck_assert_int_eq(truncate(path, 1000), 0);
    struct mtr_reader *r = start(2);
    for (uint32_t i = 0; ok && i < PIECES; i++) {
        ok = mtr_reader_take(r, &data, &err);
        if (ok)
            mtr_reader_give(r);
    }
    ck_assert(!ok);
    ck_assert_int_eq(err.code, MTR_IO);
    ck_assert_msg(strstr(err.message, "shorter") != NULL, "%s", err.message);
    mtr_reader_stop(r);
}
END_TEST

START_TEST(it_can_be_stopped_any_time)
{
    const void *data;
    mtr_reader_stop(NULL);
    mtr_reader_stop(start(8));
    struct mtr_reader *r = start(1);
    ck_assert(mtr_reader_take(r, &data, &err));
    mtr_reader_stop(r); /* a buffer is out */
}
END_TEST

START_TEST(another_file_of_that_name_is_not_read)
{
    char other[] = "/tmp/mtr-reader-XXXXXX";
    int fd = mkstemp(other);
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(rename(other, path), 0);
    ck_assert_int_eq(open_direct(&file), -1);
    const void *data;
    struct mtr_reader *r = start(1);
    ck_assert(mtr_reader_take(r, &data, &err));
    ck_piece(&pieces[0], data);
    mtr_reader_stop(r);
}
END_TEST

MTR_CHECK_MAIN("weights/reader")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, pieces_come_in_order, 0, 3);
    tcase_add_test(tc, every_way_gives_the_same);
    tcase_add_test(tc, conversions_happen_on_the_way);
    tcase_add_test(tc, divisors_are_inverted);
    tcase_add_test(tc, an_e4m3_that_is_no_number_is_refused);
    tcase_add_test(tc, a_file_that_shrinks_is_an_error);
    tcase_add_test(tc, it_can_be_stopped_any_time);
    tcase_add_test(tc, another_file_of_that_name_is_not_read);
}
