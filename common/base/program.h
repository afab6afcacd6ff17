/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The other programs of this project: where they are, and what one says.
 */
#ifndef MTR_BASE_PROGRAM_H
#define MTR_BASE_PROGRAM_H

#include "common/base/arena.h"
#include "common/base/error.h"

#define MTR_PROGRAM_MAX_BYTES 65536 /* of what a program may say */

/* The path of metrale-broker or metrale-worker: beside this program, or in the build tree, where
 * each has a folder named after its role. In the arena; NULL on failure. */
const char *mtr_program_find(struct mtr_arena *arena, const char *name, struct mtr_error *err);

/* Runs a program and waits for its end; *out, in the arena, is what it printed. It has limit_ms for
 * all of it. A status other than 0 is MTR_IO; what it has to say about that goes to our standard
 * error. arguments[0] is the path, the last one NULL. */
bool mtr_program_ask(struct mtr_arena *arena, char *const arguments[], int limit_ms,
                     struct mtr_str *out, struct mtr_error *err);

#endif
