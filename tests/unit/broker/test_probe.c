/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "broker/probe.c"

#include "tests/unit/check_main.h"

static bool reads(const char *line, struct mtr_probe *out, struct mtr_error *err)
{
    static struct mtr_arena arena; /* of the last answer */
    *err = (struct mtr_error){0};
    mtr_arena_free(&arena);
    mtr_arena_init(&arena, 1 << 20);
    return mtr_probe_read(&arena, mtr_str(line), out, err);
}

START_TEST(reads_a_worker_s_line)
{
    struct mtr_probe p;
    struct mtr_error err;
    ck_assert(reads("{\"hardware\":\"hopper\",\"device\":\"NVIDIA H200\",\"more\":1}\n", &p, &err));
    ck_assert_str_eq(p.hardware, "hopper");
    ck_assert_str_eq(p.device, "NVIDIA H200");
    ck_assert_ptr_null(p.note);
    ck_assert(reads("{\"hardware\":\"host\",\"device\":\"x\",\"note\":\"no driver\"}", &p, &err));
    ck_assert_str_eq(p.note, "no driver");
}
END_TEST

START_TEST(anything_else_is_refused)
{
    static const char *const lines[] = {
        "",   "metrale 0.1.0", "{}", "{\"hardware\":\"host\"}", "{\"hardware\":3,\"device\":\"x\"}",
        "[1]"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct mtr_probe p;
        struct mtr_error err;
        ck_assert_msg(!reads(lines[i], &p, &err) && err.message[0], "%s", lines[i]);
    }
}
END_TEST

START_TEST(a_broker_without_a_worker_beside_it_says_so)
{
    struct mtr_arena arena;
    struct mtr_probe p;
    struct mtr_error err = {0};
    mtr_arena_init(&arena, 0);
    ck_assert(!mtr_probe_worker(&arena, "auto", 0, &p, &err));
    ck_assert_int_eq(err.code, MTR_NOT_FOUND);
    mtr_arena_free(&arena);
}
END_TEST

MTR_CHECK_MAIN("broker/probe")
{
    tcase_add_test(tc, reads_a_worker_s_line);
    tcase_add_test(tc, anything_else_is_refused);
    tcase_add_test(tc, a_broker_without_a_worker_beside_it_says_so);
}
