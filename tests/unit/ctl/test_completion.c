/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ctl/completion.c"

#include <sys/wait.h>

#include "tests/unit/ctl/captured.h"

static struct captured c;

/* The shell reads it without complaint. */
static void check_syntax(const char *script)
{
    char path[] = "/tmp/mtr_completion_XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_eq(write(fd, script, strlen(script)), (ssize_t)strlen(script));
    close(fd);
    pid_t child = fork();
    if (child == 0) {
        execlp("bash", "bash", "-n", path, (char *)NULL);
        _exit(127);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    unlink(path);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

START_TEST(scripts_know_every_command)
{
    static const char *const shells[] = {"bash", "zsh"};
    size_t count;
    const struct mtr_command *list = mtr_commands(&count);
    for (int s = 0; s < 2; s++) {
        CAPTURE(&c, mtr_ctl_completion, "completion", shells[s]);
        ck_assert_int_eq(c.status, 0);
        for (size_t i = 0; i < count; i++)
            ck_assert_msg(strstr(c.out, list[i].name) != NULL, "%s", list[i].name);
        if (s == 0)
            check_syntax(c.out);
    }
}
END_TEST

START_TEST(other_shells_are_refused)
{
    CAPTURE(&c, mtr_ctl_completion, "completion", "fish");
    ck_assert(c.status == MTR_EXIT_USAGE && strstr(c.err, "bash or zsh") && !c.out[0]);
    CAPTURE(&c, mtr_ctl_completion, "completion");
    ck_assert_int_eq(c.status, MTR_EXIT_USAGE);
}
END_TEST

MTR_CHECK_MAIN("ctl/completion")
{
    tcase_add_test(tc, scripts_know_every_command);
    tcase_add_test(tc, other_shells_are_refused);
}
