/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ctl/commands.c"

#include "tests/unit/ctl/captured.h"

static struct captured c;

START_TEST(without_a_command_usage)
{
    CAPTURE(&c, mtr_ctl_run, "metralectl");
    ck_assert_int_eq(c.status, MTR_EXIT_USAGE);
    ck_assert(strstr(c.err, "usage: metralectl COMMAND") && !c.out[0]);
    CAPTURE(&c, mtr_ctl_run, "metralectl", "--help");
    ck_assert_int_eq(c.status, 0);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        ck_assert_msg(strstr(c.out, commands[i].summary) != NULL, "%s", commands[i].name);
}
END_TEST

START_TEST(unknown_commands_are_named)
{
    CAPTURE(&c, mtr_ctl_run, "metralectl", "srve");
    ck_assert_int_eq(c.status, MTR_EXIT_USAGE);
    ck_assert_ptr_nonnull(strstr(c.err, "no command 'srve'"));
}
END_TEST

START_TEST(the_version_is_said)
{
    CAPTURE(&c, mtr_ctl_run, "metralectl", "--version");
    ck_assert_int_eq(c.status, 0);
    ck_assert_str_eq(c.out, "metrale " MTR_VERSION "\n");
    CAPTURE(&c, mtr_ctl_run, "metralectl", "version");
    ck_assert_str_eq(c.out, "metrale " MTR_VERSION "\n");
}
END_TEST

/* serve asks the broker, which is not there; all others know themselves. */
START_TEST(every_command_helps)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, "serve") == 0 || strcmp(commands[i].name, "version") == 0)
            continue;
        CAPTURE(&c, mtr_ctl_run, "metralectl", commands[i].name, "--help");
        ck_assert_msg(c.status == 0 && strstr(c.out, commands[i].name) && !c.err[0], "%s: %d %s",
                      commands[i].name, c.status, c.err);
    }
}
END_TEST

START_TEST(wrong_flags_are_called_so)
{
    static const char *const names[] = {"status", "drain", "keygen", "doctor"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        CAPTURE(&c, mtr_ctl_run, "metralectl", names[i], "--no-such-flag");
        ck_assert_int_eq(c.status, MTR_EXIT_USAGE);
        ck_assert_msg(strstr(c.err, "--no-such-flag") && strstr(c.err, names[i]), "%s", c.err);
    }
}
END_TEST

START_TEST(errors_have_an_exit_status)
{
    struct mtr_error wrong = {.code = MTR_INVALID}, failed = {.code = MTR_IO};
    ck_assert_int_eq(mtr_ctl_error("x", &wrong), MTR_EXIT_USAGE);
    ck_assert_int_eq(mtr_ctl_error("x", &failed), MTR_EXIT_FAILED);
}
END_TEST

MTR_CHECK_MAIN("ctl/commands")
{
    tcase_add_test(tc, without_a_command_usage);
    tcase_add_test(tc, unknown_commands_are_named);
    tcase_add_test(tc, the_version_is_said);
    tcase_add_test(tc, every_command_helps);
    tcase_add_test(tc, wrong_flags_are_called_so);
    tcase_add_test(tc, errors_have_an_exit_status);
}
