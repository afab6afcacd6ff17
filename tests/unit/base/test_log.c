/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "common/base/log.c"

#include "tests/unit/check_main.h"

/* What one call writes, read through a pipe. */
static size_t line_of(struct mtr_log *log, enum mtr_level level, const char *message, char *out,
                      size_t size)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    log->fd = ends[1];
    mtr_log(log, level, "%s", message);
    close(ends[1]);
    ssize_t n = read(ends[0], out, size - 1);
    ck_assert_int_ge(n, 0);
    out[n] = 0;
    close(ends[0]);
    return (size_t)n;
}

START_TEST(a_line_has_time_level_source)
{
    struct mtr_log log;
    char line[256];
    int year, month, day, hour, minute, second, ms, end = 0;
    mtr_log_init(&log, "worker[0]");
    log.journal = false;
    line_of(&log, MTR_WARN, "hello", line, sizeof line);
    ck_assert_int_eq(sscanf(line, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ WARN  worker[0] hello%n", &year,
                            &month, &day, &hour, &minute, &second, &ms, &end),
                     7);
    ck_assert_str_eq(line + end, "\n");
    ck_assert_int_eq(line[24], ' ');
}
END_TEST

START_TEST(the_journal_gets_priorities)
{
    struct mtr_log log;
    char line[256];
    setenv("JOURNAL_STREAM", "8:1", 1);
    mtr_log_init(&log, "broker");
    line_of(&log, MTR_ERROR, "gone", line, sizeof line);
    ck_assert_str_eq(line, "<3>broker gone\n");
    unsetenv("JOURNAL_STREAM");
    mtr_log_init(&log, "broker");
    ck_assert(!log.journal);
}
END_TEST

START_TEST(levels_filter)
{
    struct mtr_log log;
    char line[256];
    enum mtr_level level;
    mtr_log_init(&log, "x");
    ck_assert_uint_eq(line_of(&log, MTR_DEBUG, "no", line, sizeof line), 0);
    mtr_log_set_level(&log, MTR_DEBUG);
    ck_assert_uint_gt(line_of(&log, MTR_DEBUG, "yes", line, sizeof line), 0);
    mtr_log_set_level(&log, MTR_ERROR);
    ck_assert_uint_eq(line_of(&log, MTR_WARN, "no", line, sizeof line), 0);
    ck_assert(mtr_level_parse("debug", &level) && level == MTR_DEBUG);
    ck_assert(mtr_level_parse("error", &level) && level == MTR_ERROR);
    ck_assert(!mtr_level_parse("verbose", &level));
    ck_assert(!mtr_level_parse("", &level));
}
END_TEST

START_TEST(a_message_is_one_line)
{
    struct mtr_log log;
    char line[256];
    mtr_log_init(&log, "x");
    log.journal = true;
    line_of(&log, MTR_INFO, "a\nb\tc\x1b[2Jd", line, sizeof line);
    ck_assert_str_eq(line, "<6>x a?b c?[2Jd\n");
}
END_TEST

START_TEST(a_long_message_is_cut)
{
    struct mtr_log log;
    char message[3 * LINE_BYTES], line[2 * LINE_BYTES];
    memset(message, 'm', sizeof message - 1);
    message[sizeof message - 1] = 0;
    mtr_log_init(&log, "x");
    size_t n = line_of(&log, MTR_INFO, message, line, sizeof line);
    ck_assert_uint_ge(n, LINE_BYTES - 2);
    ck_assert_uint_le(n, LINE_BYTES);
    ck_assert_int_eq(line[n - 1], '\n');
}
END_TEST

START_TEST(errno_survives)
{
    struct mtr_log log;
    mtr_log_init(&log, "x");
    log.fd = -1;
    errno = ENOSPC;
    mtr_log(&log, MTR_INFO, "nowhere");
    ck_assert_int_eq(errno, ENOSPC);
}
END_TEST

START_TEST(a_file_holds_the_level)
{
    static const struct {
        const char *text;
        int level; /* -1: refused */
    } cases[] = {{"debug\n", MTR_DEBUG}, {" \twarn \n\n", MTR_WARN},
                 {"error", MTR_ERROR},   {"", -1},
                 {"loud\n", -1},         {"DEBUG", -1}};
    char path[] = "/tmp/mtr_level_XXXXXX";
    struct mtr_error err = {0};
    struct mtr_log log;
    int fd = mkstemp(path);
    mtr_log_init(&log, "x");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t n = strlen(cases[i].text);
        mtr_log_set_level(&log, MTR_INFO);
        ck_assert(ftruncate(fd, 0) == 0 && pwrite(fd, cases[i].text, n, 0) == (ssize_t)n);
        ck_assert_int_eq(mtr_log_read_level(&log, path, &err), cases[i].level >= 0);
        ck_assert_int_eq(log.level, cases[i].level >= 0 ? cases[i].level : MTR_INFO);
        ck_assert(cases[i].level >= 0 || strstr(err.message, path));
    }
    close(fd);
    unlink(path);
    ck_assert(!mtr_log_read_level(&log, path, &err) && err.code == MTR_IO);
}
END_TEST

MTR_CHECK_MAIN("base/log")
{
    tcase_add_test(tc, a_line_has_time_level_source);
    tcase_add_test(tc, the_journal_gets_priorities);
    tcase_add_test(tc, levels_filter);
    tcase_add_test(tc, a_message_is_one_line);
    tcase_add_test(tc, a_long_message_is_cut);
    tcase_add_test(tc, errno_survives);
    tcase_add_test(tc, a_file_holds_the_level);
}
