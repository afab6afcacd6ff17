/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "broker/text/jinja/strftime.c"

#include <time.h>

#include "tests/unit/text/jinja_case.h"

static const char format[] = "%Y-%m-%d %H:%M:%S %y %b %B %h %a %A %j %U %W %V %G %g %u %w %C %e %k "
                             "%l %I %p %P %D %F %R %T %c "
                             "%x %X %r %n %t %% %-d %-m %_d %0e %^a %#p %Ey";

/* Every day of years that begin on all weekdays, leap and not, against the C library. */
START_TEST(days_of_many_years)
{
    struct jinja_case c;
    char source[256];
    snprintf(source, sizeof source, "{{ strftime_now('%s') }}", format);
    for (int i = 0; i < 366 * 30; i++) {
        struct tm tm = {.tm_year = 98, .tm_mon = 0, .tm_mday = 1 + i, .tm_hour = i % 24};
        tm.tm_min = i % 60;
        tm.tm_sec = i * 7 % 60;
        timegm(&tm);
        char want[512];
        strftime(want, sizeof want, format, &tm);
        case_open(&c, source);
        c.options.now = (struct mtr_jinja_time){
            tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, 0};
        case_render(&c, "{}");
        ck_assert_str_eq(c.text, want);
        case_close(&c);
    }
}
END_TEST

START_TEST(odd_formats)
{
    expect_text("{{ strftime_now('%f|%z%Z|%Q|%') }}", "{}", "000042||%Q|%");
    expect_text("[{{ strftime_now('') }}]", "{}", "[]");
    expect_text("{{ strftime_now('\xe5\xb9\xb4%Y') }}", "{}",
                "\xe5\xb9\xb4"
                "2026");
    expect_error("{{ strftime_now() }}", "{}", MTR_INVALID, "line 1: strftime_now lacks");
    expect_error("{{ strftime_now(5) }}", "{}", MTR_INVALID, "line 1: strftime_now: expected str");
}
END_TEST

START_TEST(no_time_given)
{
    struct jinja_case c;
    case_open(&c, "{{ strftime_now('%Y') }}");
    c.options.now = (struct mtr_jinja_time){0};
    case_render(&c, "{}");
    ck_assert(!c.ok);
    case_close(&c);
}
END_TEST

MTR_CHECK_MAIN("text/jinja_strftime")
{
    tcase_add_test(tc, days_of_many_years);
    tcase_add_test(tc, odd_formats);
    tcase_add_test(tc, no_time_given);
}
