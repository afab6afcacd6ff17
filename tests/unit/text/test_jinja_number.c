/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "broker/text/jinja/number.c"

#include "tests/unit/text/jinja_case.h"

static void expect_repr(double d, const char *want)
{
    char text[MTR_JFLOAT_BYTES];
    ck_assert_uint_eq(mtr_jfloat_repr(d, text), strlen(want));
    ck_assert_str_eq(text, want);
}

START_TEST(floats_print_as_in_python)
{
    expect_repr(0, "0.0");
    expect_repr(-0.0, "-0.0");
    expect_repr(1, "1.0");
    expect_repr(0.1, "0.1");
    expect_repr(0.1 + 0.2, "0.30000000000000004");
    expect_repr(1e-4, "0.0001");
    expect_repr(1e-5, "1e-05");
    expect_repr(1.5e-7, "1.5e-07");
    expect_repr(123456789012345.0, "123456789012345.0");
    expect_repr(1e15, "1000000000000000.0");
    expect_repr(1e16, "1e+16");
    expect_repr(1.5e300, "1.5e+300");
    expect_repr(5e-324, "5e-324");
    expect_repr(2.2250738585072014e-308, "2.2250738585072014e-308");
    expect_repr(1.7976931348623157e308, "1.7976931348623157e+308");
    expect_repr(9007199254740993.0, "9007199254740992.0");
    expect_repr(100.0, "100.0");
    expect_repr(12.5, "12.5");
    expect_repr(-2.75, "-2.75");
    expect_repr(INFINITY, "inf");
    expect_repr(-INFINITY, "-inf");
    expect_repr(NAN, "nan");
}
END_TEST

/* Whatever is printed reads back as the same double, and no shorter text does. */
START_TEST(every_float_reads_back)
{
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < 200000; i++) {
        double d;
        char text[MTR_JFLOAT_BYTES], shorter[40];
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        memcpy(&d, &x, sizeof d);
        if (!isfinite(d))
            continue;
        mtr_jfloat_repr(d, text);
        ck_assert_msg(strtod(text, NULL) == d, "%s", text);
        char *exponent = strchr(text, 'e');
        const char *end = exponent ? exponent : text + strlen(text);
        int digits = 0, zeros = 0; /* significant digits, and the zeros at their end */
        for (const char *p = text; p < end; p++) {
            if (*p < '0' || *p > '9' || (*p == '0' && digits == 0))
                continue;
            digits++;
            zeros = *p == '0' ? zeros + 1 : 0;
        }
        digits -= zeros;
        if (digits > 1) {
            snprintf(shorter, sizeof shorter, "%.*e", digits - 2, d);
            ck_assert_msg(strtod(shorter, NULL) != d, "%s is shorter than %s", shorter, text);
        }
    }
}
END_TEST

static void expect_float(const char *text, bool ok, double want)
{
    double d = 0;
    ck_assert_msg(mtr_jparse_float(mtr_str(text), &d) == ok, "%s", text);
    if (ok)
        ck_assert_double_eq(d, want);
}

START_TEST(floats_are_read_as_in_python)
{
    expect_float(" 1.5 ", true, 1.5);
    expect_float("-1e3", true, -1000);
    expect_float("1_0.5", true, 10.5);
    expect_float(".5", true, 0.5);
    expect_float("5.", true, 5);
    expect_float("inf", true, INFINITY);
    expect_float("-Infinity", true, -INFINITY);
    expect_float("1e400", true, INFINITY);
    expect_float("", false, 0);
    expect_float("0x10", false, 0);
    expect_float("1__0", false, 0);
    expect_float("1e", false, 0);
    expect_float("nan(1)", false, 0);
    expect_float("infin", false, 0);
    expect_float(".", false, 0);
    expect_float("1 2", false, 0);
}
END_TEST

START_TEST(integers_of_any_length)
{
    expect_text("{{ '  -0012 '|int }} {{ '12345678901234567890123'|int }} {{ '-0'|int }}", "{}",
                "-12 12345678901234567890123 0");
    expect_text("{{ x }} {{ [x]|tojson }} {{ -x }}", "{\"x\": 12345678901234567890}",
                "12345678901234567890 [12345678901234567890] -12345678901234567890");
    expect_text("{{ 1e23|int }} {{ -1.9|int }}", "{}", "99999999999999991611392 -1");
    expect_error("{{ x + 1 }}", "{\"x\": 9223372036854775807}", MTR_INVALID,
                 "line 1: an integer beyond 64 bits");
}
END_TEST

MTR_CHECK_MAIN("text/jinja_number")
{
    tcase_add_test(tc, floats_print_as_in_python);
    tcase_add_test(tc, every_float_reads_back);
    tcase_add_test(tc, floats_are_read_as_in_python);
    tcase_add_test(tc, integers_of_any_length);
}
