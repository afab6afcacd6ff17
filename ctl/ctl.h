/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * metralectl's commands. Each takes what stands behind its name on the command line and returns an
 * exit status: 0 done, 1 failed, 2 called wrongly; bench.c has its own.
 */
#ifndef MTR_CTL_H
#define MTR_CTL_H

#include <stddef.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/error.h"
#include "common/base/flags.h"
#include "common/wire/admin.pb-c.h"

#define MTR_EXIT_FAILED 1
#define MTR_EXIT_USAGE  2

struct mtr_command {
    const char *name;
    const char *arguments; /* for usage lines */
    const char *summary;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name */
};

const struct mtr_command *mtr_commands(size_t *count);

/* The whole program; its exit status. */
int mtr_ctl_run(int argc, char **argv);

int mtr_ctl_serve(int argc, char **argv);
int mtr_ctl_kernels(int argc, char **argv);
int mtr_ctl_status(int argc, char **argv);
int mtr_ctl_sequences(int argc, char **argv);
int mtr_ctl_drain(int argc, char **argv);
int mtr_ctl_resume(int argc, char **argv);
int mtr_ctl_shutdown(int argc, char **argv);
int mtr_ctl_log_level(int argc, char **argv);
int mtr_ctl_circuit(int argc, char **argv);
int mtr_ctl_bench(int argc, char **argv);
int mtr_ctl_doctor(int argc, char **argv);
int mtr_ctl_keygen(int argc, char **argv);
int mtr_ctl_completion(int argc, char **argv);
int mtr_ctl_version(int argc, char **argv);

/* Prints "metralectl COMMAND: message" and returns the status that goes with the error. */
int mtr_ctl_error(const char *command, const struct mtr_error *err);

/* Prints usage and the flags to standard output; returns 0. */
int mtr_ctl_help(const char *command, const struct mtr_flag *flags, size_t count);

/* ---- Asking a running broker (admin.c) --------------------------------------------------------
 */

struct mtr_admin_target {
    const char *run_dir, *admin_socket;
    uint32_t port;
};

/* The flags that say which server is meant; appended to a command's own. Returns how many. */
size_t mtr_admin_flags(struct mtr_admin_target *t, struct mtr_flag *flags);
#define MTR_ADMIN_FLAGS 3

/* The broker's answer, in the arena; NULL on failure, an error in the answer included. */
const Mtr__AdminReply *mtr_admin_ask(struct mtr_arena *arena, const struct mtr_admin_target *t,
                                     const Mtr__AdminRequest *request, struct mtr_error *err);

#endif
