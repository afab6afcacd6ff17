/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Command-line flags as a table.
 *
 * A program lists its flags once: name, kind, where the value goes, help. Parsing, range checks,
 * --help and suggestions for misspelt names come from the table. Flags are long ("--port 8888" or
 * "--port=8888"); a boolean flag takes no value and is named for its non-default state. Whatever is
 * no flag is a positional argument; "--" ends the flags.
 */
#ifndef MTR_BASE_FLAGS_H
#define MTR_BASE_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/error.h"

enum mtr_flag_kind {
    MTR_FLAG_BOOL,    /* bool *, set to true */
    MTR_FLAG_NOT,     /* bool *, set to false */
    MTR_FLAG_U32,     /* uint32_t *, from min to max */
    MTR_FLAG_U64,     /* uint64_t *, from min to max */
    MTR_FLAG_REAL,    /* double *, from min to max */
    MTR_FLAG_STRING,  /* const char ** */
    MTR_FLAG_CHOICE,  /* const char **, one of `choices`, separated by | */
    MTR_FLAG_SECTION, /* no flag: a heading for --help, in `help` */
};

struct mtr_flag {
    const char *name; /* without the dashes */
    enum mtr_flag_kind kind;
    void *target;
    const char *value; /* name of the value in --help: "N", "PATH" */
    const char *help;
    double min, max;
    const char *choices;
};

/* Reads argv[1..argc). Positional arguments go to positionals [max_positionals] in order. On
 * failure err names the flag, what was given and what it takes. */
bool mtr_flags_parse(const struct mtr_flag *flags, size_t count, int argc, char **argv,
                     const char **positionals, size_t max_positionals, size_t *positional_count,
                     struct mtr_error *err);

/* One line a flag, aligned; defaults are what the targets hold at the moment. */
bool mtr_flags_help(const struct mtr_flag *flags, size_t count, struct mtr_buf *out);

#endif
