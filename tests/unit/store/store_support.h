/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the store's tests share: a store in memory, objects made of few words. */
#ifndef MTR_UNIT_STORE_SUPPORT_H
#define MTR_UNIT_STORE_SUPPORT_H

#include <stdio.h>

#include "broker/store/store.h"
#include "tests/unit/check_main.h"

static struct mtr_arena arena;
static struct mtr_error err;
static struct mtr_log silent;
static struct mtr_store *store;

static inline struct mtr_store *open_store(const char *path, uint64_t max_bytes)
{
    struct mtr_store_options o = {.path = path, .max_bytes = max_bytes};
    struct mtr_store *s = mtr_store_open(&o, &silent, &err);
    ck_assert_msg(s != NULL, "%s", err.message);
    return s;
}

static void setup(void)
{
    mtr_log_init(&silent, "test");
    mtr_log_set_level(&silent, MTR_ERROR);
    mtr_arena_init(&arena, 0);
    err = (struct mtr_error){0};
    store = open_store("", 0);
}

static void teardown(void)
{
    mtr_store_close(store);
    mtr_arena_free(&arena);
}

static inline struct mtr_store_object object(const char *id, uint64_t owner, const char *body)
{
    return (struct mtr_store_object){.kind = MTR_STORED_RESPONSE,
                                     .id = mtr_str(id),
                                     .owner = owner,
                                     .created = 7,
                                     .body = mtr_str(body),
                                     .extra = MTR_STR("{}")};
}

static inline void keep_object(struct mtr_store *s, struct mtr_store_object o)
{
    struct mtr_store_batch *b = mtr_store_batch(s);
    mtr_batch_put(b, &o);
    ck_assert(mtr_store_write(s, b, &err));
}

static inline void keep_item(struct mtr_store *s, const char *parent, const char *id)
{
    struct mtr_store_batch *b = mtr_store_batch(s);
    mtr_batch_item(b, &(struct mtr_store_item){.id = mtr_str(id),
                                               .parent = mtr_str(parent),
                                               .list = MTR_LIST_INPUT,
                                               .owner = 1,
                                               .body = mtr_str(id)});
    ck_assert(mtr_store_write(s, b, &err));
}

/* The body of a response, or NULL where there is none for this owner. */
static inline const char *body_of(struct mtr_store *s, const char *id, uint64_t owner)
{
    struct mtr_store_object o;
    err = (struct mtr_error){0};
    if (!mtr_store_get(s, &arena, MTR_STORED_RESPONSE, mtr_str(id), owner, &o, &err)) {
        ck_assert_int_eq(err.code, MTR_NOT_FOUND);
        return NULL;
    }
    return o.body.ptr;
}

#endif
