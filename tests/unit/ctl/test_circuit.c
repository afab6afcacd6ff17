/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which reports there are, and what is said where none can be made. */
#include "ctl/circuit.c"

#include "tests/unit/ctl/captured.h"

static struct captured c;
static char model[1024];

static void setup(void)
{
    const char *root = getenv("MTR_SOURCE_ROOT");
    snprintf(model, sizeof model, "%s/tests/golden/llama", root ? root : ".");
}

START_TEST(every_report_is_made)
{
    static const struct {
        const char *report, *says;
    } reports[] = {
        {"show", "llama"}, {"plan", "decode"}, {"memory", "cache"}, {"precision", "bf16"}};
    for (size_t i = 0; i < sizeof reports / sizeof reports[0]; i++) {
        CAPTURE(&c, mtr_ctl_circuit, "circuit", reports[i].report, model);
        ck_assert_msg(c.status == 0 && !c.err[0], "%s: %s", reports[i].report, c.err);
        ck_assert_msg(strstr(c.out, reports[i].says) != NULL, "%s: %s", reports[i].report, c.out);
    }
}
END_TEST

START_TEST(flags_change_the_plan)
{
    char before[sizeof c.out];
    CAPTURE(&c, mtr_ctl_circuit, "circuit", "memory", model);
    memcpy(before, c.out, sizeof before);
    CAPTURE(&c, mtr_ctl_circuit, "circuit", "memory", model, "--kv-cache-dtype", "f32");
    ck_assert_int_eq(c.status, 0);
    ck_assert_str_ne(before, c.out);
}
END_TEST

START_TEST(what_is_wrong_is_named)
{
    static const struct {
        const char *words[6];
        int status;
        const char *says;
    } cases[] = {
        {{"circuit"}, MTR_EXIT_USAGE, "which report"},
        {{"circuit", "shw", model}, MTR_EXIT_USAGE, "which report"},
        {{"circuit", "show"}, MTR_EXIT_USAGE, "of which model"},
        {{"circuit", "show", "/nonexistent/m.gguf"}, MTR_EXIT_FAILED, "/nonexistent/m.gguf"},
        {{"circuit", "show", model, "--device=abacus"}, MTR_EXIT_FAILED, "'abacus'; known are"},
        {{"circuit", "show", model, "--kv-cache-dtype", "i3"}, MTR_EXIT_USAGE, "'i3'"},
        {{"circuit", "show", model, "--hardware", "abacus"}, MTR_EXIT_USAGE, "hardware"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *words[7] = {NULL};
        memcpy(words, cases[i].words, sizeof cases[i].words);
        capture(&c, mtr_ctl_circuit, words);
        ck_assert_msg(c.status == cases[i].status && strstr(c.err, cases[i].says) && !c.out[0],
                      "case %zu: status %d: %s", i, c.status, c.err);
    }
}
END_TEST

MTR_CHECK_MAIN("ctl/circuit")
{
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, every_report_is_made);
    tcase_add_test(tc, flags_change_the_plan);
    tcase_add_test(tc, what_is_wrong_is_named);
}
