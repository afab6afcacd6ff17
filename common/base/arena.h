/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Memory with one lifetime.
 *
 * An arena hands out memory from chained chunks and gives it all back at once. There is one per
 * load, per request, per template rendering: whoever creates the arena owns everything in it.
 * Memory from an arena is never freed singly and never moves.
 *
 * An arena has a limit. When it is reached, or when the system is out of memory, allocation returns
 * NULL and the arena remembers that it failed; callers that build something large may check
 * mtr_arena_failed() once at the end instead of each pointer, as long as they do not write through
 * NULL in between.
 */
#ifndef MTR_BASE_ARENA_H
#define MTR_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/str.h"

struct mtr_arena_chunk;

struct mtr_arena {
    struct mtr_arena_chunk *head; /* newest chunk first */
    size_t limit_bytes;           /* 0: no limit */
    size_t used_bytes;            /* sum of chunk sizes, what the limit is held against */
    bool failed;
};

/* An arena starts empty and allocates nothing until it is used. */
void mtr_arena_init(struct mtr_arena *a, size_t limit_bytes);

/* Frees every chunk. The arena may be used again, as after init. */
void mtr_arena_free(struct mtr_arena *a);

/* Forgets all allocations but keeps the largest chunk, for loops that must not allocate. */
void mtr_arena_reset(struct mtr_arena *a);

/* bytes [bytes], aligned to 16, not cleared. NULL on failure. */
void *mtr_arena_alloc(struct mtr_arena *a, size_t bytes);

/* count x bytes, cleared; checks the product for overflow. NULL on failure. */
void *mtr_arena_calloc(struct mtr_arena *a, size_t count, size_t bytes);

/* A copy with a NUL behind it. NULL on failure. */
char *mtr_arena_strdup(struct mtr_arena *a, struct mtr_str s);
struct mtr_str mtr_arena_str(struct mtr_arena *a, struct mtr_str s); /* {NULL, 0} on failure */

char *mtr_arena_printf(struct mtr_arena *a, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline bool mtr_arena_failed(const struct mtr_arena *a)
{
    return a->failed;
}

#endif
