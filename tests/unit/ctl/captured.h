/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a command writes to standard output and standard error, and its exit status. */
#ifndef MTR_UNIT_CTL_CAPTURED_H
#define MTR_UNIT_CTL_CAPTURED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/ctl.h"
#include "tests/unit/check_main.h"

struct captured {
    int status;
    char out[32768], err[8192];
};

static inline int captured_begin(FILE *stream, int *saved)
{
    char path[] = "/tmp/mtr_captured_XXXXXX";
    int fd = mkstemp(path);
    unlink(path);
    fflush(stream);
    *saved = dup(fileno(stream));
    ck_assert(fd >= 0 && dup2(fd, fileno(stream)) >= 0);
    return fd;
}

static inline void captured_end(FILE *stream, int fd, int saved, char *text, size_t size)
{
    fflush(stream);
    dup2(saved, fileno(stream));
    close(saved);
    ssize_t n = pread(fd, text, size - 1, 0);
    text[n < 0 ? 0 : n] = '\0';
    close(fd);
}

/* Runs a command with these arguments, at most 15, the first of which is its name. */
static inline void capture(struct captured *c, int (*run)(int, char **), const char *const *words)
{
    int out_saved, err_saved, argc = 0;
    char *argv[16] = {NULL};
    for (; argc < 15 && words[argc]; argc++)
        argv[argc] = (char *)words[argc];
    int out = captured_begin(stdout, &out_saved), err = captured_begin(stderr, &err_saved);
    c->status = run(argc, argv);
    captured_end(stdout, out, out_saved, c->out, sizeof c->out);
    captured_end(stderr, err, err_saved, c->err, sizeof c->err);
}

#define CAPTURE(c, run, ...) capture((c), (run), (const char *const[]){__VA_ARGS__, NULL})

#endif
