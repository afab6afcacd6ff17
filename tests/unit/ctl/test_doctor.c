/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Findings and their report; what a machine has differs, so only their form is checked. */
#include "ctl/doctor.c"

#include "tests/unit/ctl/captured.h"

static struct captured c;
static struct doctor d;

static void setup(void)
{
    d = (struct doctor){.count = 0};
    mtr_arena_init(&d.arena, 0);
}

static void teardown(void)
{
    mtr_arena_free(&d.arena);
}

static const struct mtr_json *parse(void)
{
    struct mtr_error err = {0};
    const struct mtr_json *v = mtr_json_parse(&d.arena, mtr_str(c.out), MTR_JSON_STRICT, &err);
    ck_assert_msg(v && v->kind == MTR_JSON_ARRAY, "%s: %s", err.message, c.out);
    return v;
}

START_TEST(values_of_proc_files)
{
    char path[] = "/tmp/mtr_doctor_XXXXXX";
    static const char text[] = "noise\nModel:\t one\nModel: two\nMemory:     12 kB\n";
    int fd = mkstemp(path);
    ck_assert_int_eq(write(fd, text, sizeof text - 1), (ssize_t)sizeof text - 1);
    close(fd);
    ck_assert_str_eq(proc_value(&d, path, "Model"), "one");
    ck_assert_str_eq(proc_value(&d, path, "Memory"), "12 kB");
    ck_assert_ptr_null(proc_value(&d, path, "noise"));
    ck_assert_ptr_null(proc_value(&d, path, "absent"));
    unlink(path);
    ck_assert_ptr_null(proc_value(&d, path, "Model"));
}
END_TEST

START_TEST(more_findings_than_there_is_room_for)
{
    for (int i = 0; i < MAX_FINDINGS + 5; i++)
        find(&d, OK, "thing", NULL, NULL);
    ck_assert_uint_eq(d.count, MAX_FINDINGS);
    ck_assert_str_eq(d.findings[0].found, "?");
}
END_TEST

START_TEST(addresses_of_gids)
{
    union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}};
    ck_assert(is_ipv4_gid(&gid));
    gid.raw[0] = 0xfe;
    ck_assert(!is_ipv4_gid(&gid));
}
END_TEST

/* Beside a test there is no broker: that alone stops a launch. */
START_TEST(what_stops_a_launch_is_the_exit_status)
{
    CAPTURE(&c, mtr_ctl_doctor, "doctor", "--json");
    const struct mtr_json *list = parse();
    bool stops = false, has_processor = false, has_memory = false;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct mtr_json *f = &list->items[i], *verdict = mtr_json_get(f, "verdict");
        const struct mtr_json *what = mtr_json_get(f, "what"), *remedy = mtr_json_get(f, "remedy");
        ck_assert(verdict && what && remedy && mtr_json_get(f, "found"));
        bool ok = mtr_str_is(verdict->text, "ok");
        ck_assert(ok || mtr_str_is(verdict->text, "note") || mtr_str_is(verdict->text, "stop"));
        ck_assert_msg(ok || remedy->kind == MTR_JSON_STRING, "no remedy for '%.*s'",
                      MTR_STR_ARG(what->text));
        stops |= mtr_str_is(verdict->text, "stop");
        has_processor |= mtr_str_is(what->text, "processor");
        has_memory |= mtr_str_is(what->text, "memory");
    }
    ck_assert(stops && has_processor && has_memory);
    ck_assert_int_eq(c.status, MTR_EXIT_FAILED);
}
END_TEST

START_TEST(people_read_the_remedy)
{
    CAPTURE(&c, mtr_ctl_doctor, "doctor");
    ck_assert_ptr_nonnull(strstr(c.out, "stop  metrale-broker"));
    ck_assert_ptr_nonnull(strstr(c.out, "install the programs side by side"));
}
END_TEST

MTR_CHECK_MAIN("ctl/doctor")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, values_of_proc_files);
    tcase_add_test(tc, more_findings_than_there_is_room_for);
    tcase_add_test(tc, addresses_of_gids);
    tcase_add_test(tc, what_stops_a_launch_is_the_exit_status);
    tcase_add_test(tc, people_read_the_remedy);
}
