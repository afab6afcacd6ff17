/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What is printed of a broker's answer, and of none. */
#include "ctl/status.c"

#include "tests/unit/ctl/captured.h"

static struct captured c;
static struct mtr_arena arena;
static Mtr__StatusReply status;
static Mtr__SequencesReply sequences;

static void setup(void)
{
    static Mtr__WorkerStatus worker;
    static Mtr__WorkerStatus *workers[] = {&worker};
    static Mtr__GroupStatus group[2];
    static Mtr__GroupStatus *groups[] = {&group[0], &group[1]};
    static Mtr__SequenceStatus sequence;
    static Mtr__SequenceStatus *list[] = {&sequence};
    mtr_arena_init(&arena, 0);
    mtr__worker_status__init(&worker);
    mtr__group_status__init(&group[0]);
    mtr__group_status__init(&group[1]);
    mtr__sequence_status__init(&sequence);
    mtr__status_reply__init(&status);
    mtr__sequences_reply__init(&sequences);
    worker.pid = 77;
    worker.state = "ready";
    worker.device = "a \"quoted\" machine";
    worker.memory_free_bytes = 1500000000;
    worker.last_step_age_ms = 12;
    group[0].name = "full";
    group[1].name = "sliding";
    group[0].used = 3, group[0].cached = 4, group[0].free = 5, group[0].blocks = 12;
    group[1].used = 10, group[1].cached = 20, group[1].free = 30, group[1].blocks = 60;
    status.model = "tiny";
    status.state = "degraded";
    status.reason = "worker[0]: is silent";
    status.uptime_ms = 3723500;
    status.address = "127.0.0.1:8";
    status.version = "1";
    status.running = 2;
    status.n_workers = 1;
    status.workers = workers;
    status.n_groups = 2;
    status.groups = groups;
    sequence.id = 9;
    sequence.state = "decode";
    sequence.request = "f00d";
    sequence.prompt_tokens = 7;
    sequence.age_ms = 1500;
    sequences.n_sequences = 1;
    sequences.sequences = list;
}

static void teardown(void)
{
    mtr_arena_free(&arena);
}

static int put_status_json(int argc, char **argv)
{
    print_status_json(&status);
    return 0;
}

static int put_status(int argc, char **argv)
{
    print_status(&status);
    return 0;
}

static int put_sequences_json(int argc, char **argv)
{
    print_sequences_json(&sequences);
    return 0;
}

static int put_sequences(int argc, char **argv)
{
    print_sequences(&sequences);
    return 0;
}

static const struct mtr_json *parse(const char *text)
{
    struct mtr_error err = {0};
    const struct mtr_json *v = mtr_json_parse(&arena, mtr_str(text), MTR_JSON_STRICT, &err);
    ck_assert_msg(v != NULL, "%s: %s", err.message, text);
    return v;
}

static int64_t number(const struct mtr_json *v, const char *path)
{
    const struct mtr_json *n = mtr_json_path(v, path);
    ck_assert_msg(n && n->kind == MTR_JSON_INT, "%s", path);
    return n->integer;
}

START_TEST(status_as_json)
{
    CAPTURE(&c, put_status_json, "status");
    const struct mtr_json *v = parse(c.out);
    ck_assert(mtr_str_is(mtr_json_get(v, "state")->text, "degraded"));
    ck_assert(mtr_str_is(mtr_json_get(v, "reason")->text, "worker[0]: is silent"));
    ck_assert_double_eq(mtr_json_get(v, "uptime")->real, 3723.5);
    ck_assert_int_eq(number(v, "running"), 2);
    ck_assert_int_eq(number(v, "blocks_used"), 13); /* of all groups */
    ck_assert_int_eq(number(v, "blocks_cached"), 24);
    ck_assert_int_eq(number(v, "blocks_free"), 35);
    const struct mtr_json *workers = mtr_json_get(v, "workers");
    ck_assert(workers->kind == MTR_JSON_ARRAY && workers->count == 1);
    ck_assert_int_eq(number(&workers->items[0], "pid"), 77);
    ck_assert(mtr_str_is(mtr_json_get(&workers->items[0], "device")->text, "a \"quoted\" machine"));
    ck_assert_int_eq(number(&mtr_json_get(v, "cache")->items[1], "blocks"), 60);
}
END_TEST

START_TEST(status_for_people)
{
    CAPTURE(&c, put_status, "status");
    ck_assert_ptr_nonnull(strstr(c.out, "state      degraded: worker[0]: is silent\n"));
    ck_assert_ptr_nonnull(strstr(c.out, "uptime     1:02:03\n"));
    ck_assert_ptr_nonnull(
        strstr(c.out, "cache      sliding: 10 blocks used, 20 cached, 30 free\n"));
    ck_assert_ptr_nonnull(strstr(c.out, "pid 77, a \"quoted\" machine, 1.5 of 0.0 GB free"));
}
END_TEST

START_TEST(lists_of_sequences)
{
    CAPTURE(&c, put_sequences_json, "sequences");
    const struct mtr_json *v = parse(c.out);
    ck_assert(v->kind == MTR_JSON_ARRAY && v->count == 1);
    ck_assert_int_eq(number(&v->items[0], "id"), 9);
    ck_assert_double_eq(mtr_json_get(&v->items[0], "age")->real, 1.5);
    CAPTURE(&c, put_sequences, "sequences");
    ck_assert(strstr(c.out, "f00d") && strstr(c.out, "decode"));
    sequences.n_sequences = 0;
    CAPTURE(&c, put_sequences_json, "sequences");
    ck_assert_str_eq(c.out, "[]\n");
}
END_TEST

START_TEST(no_server_is_said)
{
    CAPTURE(&c, mtr_ctl_status, "status", "--run-dir", "/nonexistent");
    ck_assert(c.status == MTR_EXIT_FAILED && !c.out[0]);
    ck_assert_ptr_nonnull(strstr(c.err, "/nonexistent/admin.sock does not exist"));
    CAPTURE(&c, mtr_ctl_sequences, "sequences", "--run-dir", "/nonexistent", "--json");
    ck_assert(c.status == MTR_EXIT_FAILED && !c.out[0]);
}
END_TEST

MTR_CHECK_MAIN("ctl/status")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, status_as_json);
    tcase_add_test(tc, status_for_people);
    tcase_add_test(tc, lists_of_sequences);
    tcase_add_test(tc, no_server_is_said);
}
