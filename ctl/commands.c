/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * metralectl: one table of commands.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"

static const struct mtr_command commands[] = {
    {"serve", "MODEL [flags]", "start a broker and its workers in the foreground", mtr_ctl_serve},
    {"status", "[--json]", "model, state, workers, sequences, cache of a running server",
     mtr_ctl_status},
    {"sequences", "[--json]", "what a running server computes for whom", mtr_ctl_sequences},
    {"drain", "", "finish what runs, refuse what is new", mtr_ctl_drain},
    {"resume", "", "take new requests again", mtr_ctl_resume},
    {"shutdown", "", "drain, then end the server", mtr_ctl_shutdown},
    {"log-level", "LEVEL", "change what a running server logs: error, warn, info, debug",
     mtr_ctl_log_level},
    {"circuit", "show|plan|memory|precision MODEL", "what a model computes, before loading it",
     mtr_ctl_circuit},
    {"kernels", "list | show TARGET [MODULE] | closure TARGET", "the CUDA kernels in this build",
     mtr_ctl_kernels},
    {"bench", "run NAME | list [NAME] | history",
     "how fast a server answers, and what it did before", mtr_ctl_bench},
    {"doctor", "[--json]", "what this machine has, what is missing, and the remedy",
     mtr_ctl_doctor},
    {"keygen", "NAME", "make a key pair for plan sockets over TCP: NAME.key and NAME.pub",
     mtr_ctl_keygen},
    {"completion", "bash|zsh", "print a completion script for a shell", mtr_ctl_completion},
    {"version", "", "print the version", mtr_ctl_version},
};

const struct mtr_command *mtr_commands(size_t *count)
{
    *count = sizeof commands / sizeof commands[0];
    return commands;
}

static const struct mtr_command *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static void print_usage(FILE *out)
{
    fprintf(out, "usage: metralectl COMMAND [arguments]\n\n");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char left[64];
        snprintf(left, sizeof left, "%s %s", commands[i].name, commands[i].arguments);
        fprintf(out, "  %-42s %s\n", left, commands[i].summary);
    }
    fprintf(out, "\nmetralectl COMMAND --help says more.\n");
}

int mtr_ctl_error(const char *command, const struct mtr_error *err)
{
    fprintf(stderr, "metralectl %s: %s\n", command, err->message);
    return err->code == MTR_INVALID ? MTR_EXIT_USAGE : MTR_EXIT_FAILED;
}

int mtr_ctl_help(const char *command, const struct mtr_flag *flags, size_t count)
{
    const struct mtr_command *c = find_command(command);
    struct mtr_buf text = {0};
    mtr_flags_help(flags, count, &text);
    printf("usage: metralectl %s%s%s%s\n\n%c%s.\n\n%.*s", c->name, c->arguments[0] ? " " : "",
           c->arguments, count > 1 && !strchr(c->arguments, '[') ? " [flags]" : "",
           toupper((unsigned char)c->summary[0]), c->summary + 1, (int)text.len,
           text.len ? text.data : "");
    mtr_buf_free(&text);
    return 0;
}

int mtr_ctl_version(int argc, char **argv)
{
    printf("metrale %s\n", MTR_VERSION);
    return 0;
}

int mtr_ctl_run(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return MTR_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0)
        return mtr_ctl_version(0, NULL);
    const struct mtr_command *c = find_command(argv[1]);
    if (!c) {
        fprintf(stderr, "metralectl: there is no command '%s'\nmetralectl --help lists them\n",
                argv[1]);
        return MTR_EXIT_USAGE;
    }
    return c->run(argc - 1, argv + 1);
}
