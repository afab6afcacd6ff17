/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What clients asked the server to keep: responses, conversations and their items, chat
 * completions. SQLite, one file, so that it outlives the process.
 *
 * Writes are batches. A batch is made anywhere, handed over at once, and written by the store's own
 * thread as one transaction: an HTTP thread never waits for a disk. Reads wait until everything
 * that was handed over before is written, so a client that was told of a response finds it; they
 * belong on text threads.
 *
 * An object has a kind, an id and an owner (the caller's key; see mtr_access_check): nobody finds
 * what is another's. `body` is the JSON that clients see, `extra` what only the protocol needs.
 * Items are JSON too; they belong to an object, their `parent`, in one of its lists, in the order
 * of writing, and go with it.
 *
 * Expiry: what was not written for max_age_s is gone; beyond max_bytes the oldest objects go.
 *
 * Thread-safe. Strings of results live in the arena given.
 */
#ifndef MTR_STORE_STORE_H
#define MTR_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/str.h"

struct mtr_store;

struct mtr_store_options {
    const char *path;   /* made with mode 0600 where it is not there; "" keeps all in memory */
    uint64_t max_bytes; /* of bodies and items; 0: no limit */
    int64_t max_age_s;  /* 0: no limit */
};

struct mtr_store *mtr_store_open(const struct mtr_store_options *options, struct mtr_log *log,
                                 struct mtr_error *err);

/* Writes what was handed over. NULL is fine. */
void mtr_store_close(struct mtr_store *s);

enum mtr_stored { MTR_STORED_CHAT, MTR_STORED_RESPONSE, MTR_STORED_CONVERSATION };

struct mtr_store_object {
    enum mtr_stored kind;
    struct mtr_str id;
    uint64_t owner;
    int64_t created;
    bool unfinished; /* such a response is failed when the store is opened again */
    struct mtr_str body, extra;
};

enum mtr_store_list { MTR_LIST_INPUT, MTR_LIST_OUTPUT, MTR_LIST_CONVERSATION };

struct mtr_store_item {
    struct mtr_str id, parent;
    enum mtr_store_list list;
    uint64_t owner;
    struct mtr_str body;
};

/* ---- Writing --------------------------------------------------------------------------------- */

struct mtr_store_batch;

/* NULL: no memory. What is added is copied. */
struct mtr_store_batch *mtr_store_batch(struct mtr_store *s);

/* Replaces the object of that kind and id, and with it nothing of its items. */
void mtr_batch_put(struct mtr_store_batch *b, const struct mtr_store_object *o);

/* The same, but only where the object is there and unfinished; then also what comes behind it in
 * the batch is left out. */
void mtr_batch_finish(struct mtr_store_batch *b, const struct mtr_store_object *o);
void mtr_batch_item(struct mtr_store_batch *b, const struct mtr_store_item *item);
void mtr_batch_delete(struct mtr_store_batch *b, enum mtr_stored kind, struct mtr_str id,
                      uint64_t owner);
void mtr_batch_delete_item(struct mtr_store_batch *b, struct mtr_str parent, struct mtr_str id,
                           uint64_t owner);

/* The batch is the store's from here on. False: it does not fit into memory, or too much is to be
 * written already; nothing of it will be. */
bool mtr_store_write(struct mtr_store *s, struct mtr_store_batch *b, struct mtr_error *err);

/* ---- Reading --------------------------------------------------------------------------------- */

/* MTR_NOT_FOUND where there is none for this owner. */
bool mtr_store_get(struct mtr_store *s, struct mtr_arena *arena, enum mtr_stored kind,
                   struct mtr_str id, uint64_t owner, struct mtr_store_object *out,
                   struct mtr_error *err);

/* One item, of any parent where that is {NULL, 0}. */
bool mtr_store_item(struct mtr_store *s, struct mtr_arena *arena, struct mtr_str parent,
                    struct mtr_str id, uint64_t owner, struct mtr_store_item *out,
                    struct mtr_error *err);

struct mtr_store_page {
    bool descending;
    struct mtr_str after; /* id to begin behind, or {NULL, 0} */
    uint32_t limit;       /* 0: all */
    bool has_more;        /* out */
    uint32_t count;       /* out */
};

/* Items of a list of a parent. *items [page->count]. MTR_NOT_FOUND: no such `after`. */
bool mtr_store_items(struct mtr_store *s, struct mtr_arena *arena, struct mtr_str parent,
                     enum mtr_store_list list, uint64_t owner, struct mtr_store_page *page,
                     struct mtr_store_item **items, struct mtr_error *err);

/* Objects of a kind, by age. *objects [page->count]. */
bool mtr_store_objects(struct mtr_store *s, struct mtr_arena *arena, enum mtr_stored kind,
                       uint64_t owner, struct mtr_store_page *page,
                       struct mtr_store_object **objects, struct mtr_error *err);

#endif
