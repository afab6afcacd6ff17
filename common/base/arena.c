/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Chunks form a list, newest first; only the newest has room worth looking at. Chunk sizes double
 * up to CHUNK_MAX_BYTES, so that a small request touches a page or two and a large load makes few
 * calls. From that size on chunks are whole huge pages: a load of 100 MB would else take 25,000
 * page faults, as long as parsing it. A request too big for a chunk gets one of its own, put behind
 * the newest so that the room left there stays in use.
 */
#include "common/base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define ALIGN           16u
#define CHUNK_MIN_BYTES 4096u
#define CHUNK_MAX_BYTES (2u << 20) /* with the header: one huge page */

struct mtr_arena_chunk {
    struct mtr_arena_chunk *next;
    size_t size; /* bytes behind this header */
    size_t used;
    size_t spare; /* pads the header to a multiple of ALIGN */
};

_Static_assert(sizeof(struct mtr_arena_chunk) % ALIGN == 0, "data must begin aligned");

void mtr_arena_init(struct mtr_arena *a, size_t limit_bytes)
{
    *a = (struct mtr_arena){.limit_bytes = limit_bytes};
}

void mtr_arena_free(struct mtr_arena *a)
{
    for (struct mtr_arena_chunk *c = a->head, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    mtr_arena_init(a, a->limit_bytes);
}

void mtr_arena_reset(struct mtr_arena *a)
{
    struct mtr_arena_chunk *kept = a->head;
    for (struct mtr_arena_chunk *c = a->head; c; c = c->next)
        kept = c->size > kept->size ? c : kept;
    for (struct mtr_arena_chunk *c = a->head, *next; c; c = next) {
        next = c->next;
        if (c != kept)
            free(c);
    }
    a->head = kept;
    a->used_bytes = 0;
    a->failed = false;
    if (kept) {
        kept->next = NULL;
        kept->used = 0;
        a->used_bytes = kept->size;
    }
}

/* Memory for a chunk and its header; *size, what follows the header, may be raised. */
static struct mtr_arena_chunk *take_memory(size_t *size, size_t left)
{
    size_t total = sizeof(struct mtr_arena_chunk) + *size;
    if (total < CHUNK_MAX_BYTES)
        return malloc(total);
    size_t whole = (total + CHUNK_MAX_BYTES - 1) / CHUNK_MAX_BYTES * CHUNK_MAX_BYTES;
    if (whole - sizeof(struct mtr_arena_chunk) > left)
        return malloc(total);
    struct mtr_arena_chunk *c = aligned_alloc(CHUNK_MAX_BYTES, whole);
    if (!c)
        return NULL;
    *size = whole - sizeof *c;
    madvise(c, whole, MADV_HUGEPAGE);
    return c;
}

/* A chunk with room for at least `bytes`, counted against the limit, not yet linked. */
static struct mtr_arena_chunk *new_chunk(struct mtr_arena *a, size_t bytes)
{
    size_t size = a->head ? a->head->size * 2 : CHUNK_MIN_BYTES;
    size_t most = CHUNK_MAX_BYTES - sizeof(struct mtr_arena_chunk), left = SIZE_MAX;
    if (a->limit_bytes)
        left = a->limit_bytes > a->used_bytes ? a->limit_bytes - a->used_bytes : 0;
    if (bytes > left)
        return NULL;
    size = size > most ? most : size;
    size = size > left ? left / ALIGN * ALIGN : size;
    size = size < bytes ? bytes : size;
    struct mtr_arena_chunk *c = take_memory(&size, left);
    if (!c)
        return NULL;
    *c = (struct mtr_arena_chunk){.size = size};
    a->used_bytes += size;
    return c;
}

static void *alloc_slow(struct mtr_arena *a, size_t bytes)
{
    struct mtr_arena_chunk *c = new_chunk(a, bytes);
    if (!c) {
        a->failed = true;
        return NULL;
    }
    c->used = bytes;
    bool behind = a->head && c->size - bytes < a->head->size - a->head->used;
    if (behind) {
        c->next = a->head->next;
        a->head->next = c;
    } else {
        c->next = a->head;
        a->head = c;
    }
    return c + 1;
}

void *mtr_arena_alloc(struct mtr_arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) {
        a->failed = true;
        return NULL;
    }
    bytes = bytes ? (bytes + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
    struct mtr_arena_chunk *c = a->head;
    if (!c || bytes > c->size - c->used)
        return alloc_slow(a, bytes);
    void *p = (char *)(c + 1) + c->used;
    c->used += bytes;
    return p;
}

void *mtr_arena_calloc(struct mtr_arena *a, size_t count, size_t bytes)
{
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total)) {
        a->failed = true;
        return NULL;
    }
    void *p = mtr_arena_alloc(a, total);
    return p ? memset(p, 0, total) : NULL;
}

char *mtr_arena_strdup(struct mtr_arena *a, struct mtr_str s)
{
    char *p = s.len < SIZE_MAX ? mtr_arena_alloc(a, s.len + 1) : NULL;
    if (!p)
        return NULL;
    if (s.len)
        memcpy(p, s.ptr, s.len);
    p[s.len] = 0;
    return p;
}

struct mtr_str mtr_arena_str(struct mtr_arena *a, struct mtr_str s)
{
    char *p = mtr_arena_strdup(a, s);
    return (struct mtr_str){p, p ? s.len : 0};
}

char *mtr_arena_printf(struct mtr_arena *a, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    char *p = len < 0 ? NULL : mtr_arena_alloc(a, (size_t)len + 1);
    if (p)
        vsnprintf(p, (size_t)len + 1, format, again);
    else
        a->failed = true;
    va_end(again);
    va_end(args);
    return p;
}
