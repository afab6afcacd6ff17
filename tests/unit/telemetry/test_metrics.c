/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What is counted comes out under its name, in the exposition format. */
#include "broker/telemetry/metrics.c"

#include <string.h>

#include "tests/unit/check_main.h"

static struct mtr_metrics m;
static struct mtr_buf out;

static void render(const char *model)
{
    mtr_buf_clear(&out);
    mtr_metrics_render(&m, mtr_str(model), &out);
}

START_TEST(counters_and_gauges)
{
    mtr_count(&m, MTR_C_REQUESTS, 3);
    mtr_gauge_set(&m, MTR_G_RUNNING, 5);
    mtr_gauge_add(&m, MTR_G_RUNNING, -2);
    render("a");
    ck_assert_ptr_nonnull(strstr(out.data, "\nmetrale_requests_total{model=\"a\"} 3\n"));
    ck_assert_ptr_nonnull(strstr(out.data, "\nmetrale_sequences_running{model=\"a\"} 3\n"));
}
END_TEST

START_TEST(labels_are_escaped)
{
    render("a\"b\\c\nd");
    ck_assert_ptr_nonnull(strstr(out.data, "{model=\"a\\\"b\\\\c\\nd\"}"));
}
END_TEST

START_TEST(histograms_are_cumulative)
{
    memset(&m, 0, sizeof m);
    mtr_observe(&m, MTR_H_STEP, 100000); /* on a bound: belongs to it */
    mtr_observe(&m, MTR_H_STEP, 100001);
    mtr_observe(&m, MTR_H_STEP, 999000000000ull);
    render("m");
    ck_assert_ptr_nonnull(
        strstr(out.data, "metrale_step_seconds_bucket{model=\"m\",le=\"0.0001\"} 1\n"));
    ck_assert_ptr_nonnull(
        strstr(out.data, "metrale_step_seconds_bucket{model=\"m\",le=\"0.0002\"} 2\n"));
    ck_assert_ptr_nonnull(
        strstr(out.data, "metrale_step_seconds_bucket{model=\"m\",le=\"+Inf\"} 3\n"));
    ck_assert_ptr_nonnull(strstr(out.data, "metrale_step_seconds_count{model=\"m\"} 3\n"));
}
END_TEST

START_TEST(every_series_has_help_and_type)
{
    size_t help = 0, type = 0;
    render("m");
    for (const char *p = out.data; (p = strstr(p, "# HELP metrale_")); p++)
        help++;
    for (const char *p = out.data; (p = strstr(p, "# TYPE metrale_")); p++)
        type++;
    ck_assert_uint_eq(help, MTR_C_COUNT + MTR_G_COUNT + MTR_H_COUNT);
    ck_assert_uint_eq(type, help);
    ck_assert_ptr_null(strstr(out.data, "(null)"));
}
END_TEST

START_TEST(the_device_is_a_series_too)
{
    render("m");
    mtr_metrics_render_device(mtr_str("m"), "hopper", "a \"GPU\"", &out);
    ck_assert_ptr_nonnull(strstr(out.data, "\nmetrale_device_info{model=\"m\",hardware=\"hopper\","
                                           "device=\"a \\\"GPU\\\"\"} 1\n"));
}
END_TEST

MTR_CHECK_MAIN("telemetry/metrics")
{
    tcase_add_test(tc, the_device_is_a_series_too);
    tcase_add_test(tc, counters_and_gauges);
    tcase_add_test(tc, labels_are_escaped);
    tcase_add_test(tc, histograms_are_cumulative);
    tcase_add_test(tc, every_series_has_help_and_type);
}
