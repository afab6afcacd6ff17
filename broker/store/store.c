/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The store's life and its reading half. Readers share one connection, in turns: what they read is
 * small against what a model computes with it.
 */
#include "broker/store/store.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "broker/store/internal.h"
#include "common/base/clock.h"

#define BUSY_MS 10000
#define MEMORY  "file:metrale-store-%p?mode=memory&cache=shared"

/* ---- Life -------------------------------------------------------------------------------------
 */

static bool open_connection(const char *path, sqlite3 **db, struct mtr_error *err)
{
    int flags =
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI | SQLITE_OPEN_FULLMUTEX;
    if (sqlite3_open_v2(path, db, flags, NULL) != SQLITE_OK)
        return mtr_fail(err, MTR_IO, "can't open the store of responses %s: %s", path,
                        *db ? sqlite3_errmsg(*db) : "out of memory");
    sqlite3_busy_timeout(*db, BUSY_MS);
    return true;
}

/* Nobody else may read what people said. */
static bool make_file(const char *path, struct mtr_error *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return mtr_fail_errno(err, "can't open the store of responses %s", path);
    close(fd);
    return true;
}

struct mtr_store *mtr_store_open(const struct mtr_store_options *options, struct mtr_log *log,
                                 struct mtr_error *err)
{
    char memory[96];
    struct mtr_store *s = calloc(1, sizeof *s);
    if (!s) {
        mtr_fail(err, MTR_NO_MEMORY, "out of memory opening the store of responses");
        return NULL;
    }
    s->options = *options;
    s->log = log;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->read_lock, NULL);
    pthread_cond_init(&s->handed, NULL);
    pthread_cond_init(&s->written, NULL);
    snprintf(memory, sizeof memory, MEMORY, (void *)s);
    const char *path = options->path[0] ? options->path : memory;
    bool ok = (path == memory || make_file(path, err)) && open_connection(path, &s->writing, err) &&
              mtr_store_prepare(s, err) && open_connection(path, &s->reading, err);
    if (ok && pthread_create(&s->thread, NULL, mtr_store_thread, s) != 0)
        ok = mtr_fail(err, MTR_NO_MEMORY, "can't start the store's thread");
    s->thread_runs = ok;
    if (ok)
        return s;
    mtr_store_close(s);
    return NULL;
}

void mtr_store_close(struct mtr_store *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_signal(&s->handed);
    pthread_mutex_unlock(&s->lock);
    if (s->thread_runs)
        pthread_join(s->thread, NULL);
    sqlite3_close(s->reading);
    sqlite3_close(s->writing);
    pthread_cond_destroy(&s->handed);
    pthread_cond_destroy(&s->written);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->read_lock);
    free(s);
}

/* ---- Reading ----------------------------------------------------------------------------------
 */

/* Waits until what was handed over is written, then has the connection. */
static void begin_read(struct mtr_store *s)
{
    pthread_mutex_lock(&s->lock);
    uint64_t wanted = s->handed_count;
    while (s->written_count < wanted)
        pthread_cond_wait(&s->written, &s->lock);
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_lock(&s->read_lock);
}

static void end_read(struct mtr_store *s)
{
    pthread_mutex_unlock(&s->read_lock);
}

static struct mtr_str column(struct mtr_arena *arena, sqlite3_stmt *q, int i)
{
    struct mtr_str text = {(const char *)sqlite3_column_text(q, i),
                           (size_t)sqlite3_column_bytes(q, i)};
    return mtr_arena_str(arena, text.ptr ? text : MTR_STR(""));
}

/* What was last written before this is gone, whether or not it has been deleted yet. */
static int64_t oldest(const struct mtr_store *s)
{
    return s->options.max_age_s ? mtr_wall_seconds() - s->options.max_age_s : INT64_MIN;
}

static bool not_found(struct mtr_str id, struct mtr_error *err)
{
    return mtr_fail(err, MTR_NOT_FOUND, "there is no '%.*s' here", (int)(id.len < 80 ? id.len : 80),
                    id.ptr ? id.ptr : "");
}

#define OBJECT_COLUMNS "kind,id,owner,created,unfinished,body,extra"
#define ITEM_COLUMNS   "id,parent,list,owner,body"

static void take_object(struct mtr_arena *arena, sqlite3_stmt *q, struct mtr_store_object *o)
{
    o->kind = (enum mtr_stored)sqlite3_column_int(q, 0);
    o->id = column(arena, q, 1);
    o->owner = (uint64_t)sqlite3_column_int64(q, 2);
    o->created = sqlite3_column_int64(q, 3);
    o->unfinished = sqlite3_column_int(q, 4) != 0;
    o->body = column(arena, q, 5);
    o->extra = column(arena, q, 6);
}

static void take_item(struct mtr_arena *arena, sqlite3_stmt *q, struct mtr_store_item *i)
{
    i->id = column(arena, q, 0);
    i->parent = column(arena, q, 1);
    i->list = (enum mtr_store_list)sqlite3_column_int(q, 2);
    i->owner = (uint64_t)sqlite3_column_int64(q, 3);
    i->body = column(arena, q, 4);
}

static bool arena_full(const struct mtr_arena *arena, struct mtr_error *err)
{
    return mtr_arena_failed(arena) &&
           !mtr_fail(err, MTR_TOO_LARGE, "what was kept is more than one request may take");
}

bool mtr_store_get(struct mtr_store *s, struct mtr_arena *arena, enum mtr_stored kind,
                   struct mtr_str id, uint64_t owner, struct mtr_store_object *out,
                   struct mtr_error *err)
{
    begin_read(s);
    sqlite3_stmt *q = mtr_sql(s->reading, err,
                              "SELECT " OBJECT_COLUMNS
                              " FROM objects WHERE kind=? AND id=? AND owner=? AND touched>=?",
                              "isii", (int64_t)kind, id, (int64_t)owner, oldest(s));
    bool found = q && sqlite3_step(q) == SQLITE_ROW;
    if (found)
        take_object(arena, q, out);
    sqlite3_finalize(q);
    end_read(s);
    return found ? !arena_full(arena, err) : q && not_found(id, err);
}

bool mtr_store_item(struct mtr_store *s, struct mtr_arena *arena, struct mtr_str parent,
                    struct mtr_str id, uint64_t owner, struct mtr_store_item *out,
                    struct mtr_error *err)
{
    begin_read(s);
    sqlite3_stmt *q =
        mtr_sql(s->reading, err,
                "SELECT " ITEM_COLUMNS " FROM items WHERE id=? AND owner=? AND (?='' OR parent=?)"
                " ORDER BY seq DESC LIMIT 1",
                "siss", id, (int64_t)owner, parent, parent);
    bool found = q && sqlite3_step(q) == SQLITE_ROW;
    if (found)
        take_item(arena, q, out);
    sqlite3_finalize(q);
    end_read(s);
    return found ? !arena_full(arena, err) : q && not_found(id, err);
}

/* Up to `limit` rows and one that tells whether there are more. */
static void take_rows(struct mtr_arena *arena, sqlite3_stmt *q, struct mtr_store_page *page,
                      size_t size, void **rows,
                      void (*take)(struct mtr_arena *, sqlite3_stmt *, void *))
{
    size_t cap = 0;
    page->count = 0;
    page->has_more = false;
    while (sqlite3_step(q) == SQLITE_ROW) {
        if (page->limit && page->count == page->limit) {
            page->has_more = true;
            return;
        }
        if (page->count == cap) {
            void *more = mtr_arena_calloc(arena, cap ? cap * 2 : 16, size);
            if (!more)
                return;
            if (cap)
                memcpy(more, *rows, cap * size);
            *rows = more;
            cap = cap ? cap * 2 : 16;
        }
        take(arena, q, (char *)*rows + page->count++ * size);
    }
}

static void take_any_object(struct mtr_arena *arena, sqlite3_stmt *q, void *to)
{
    take_object(arena, q, to);
}

static void take_any_item(struct mtr_arena *arena, sqlite3_stmt *q, void *to)
{
    take_item(arena, q, to);
}

/* Where `after` stands in the order; the order's beginning without one; -1: there is no such. */
static int64_t position(struct mtr_store *s, const char *sql, struct mtr_str first, uint64_t owner,
                        const struct mtr_store_page *page)
{
    int64_t at = -1;
    if (!page->after.ptr)
        return page->descending ? INT64_MAX : 0;
    sqlite3_stmt *q = mtr_sql(s->reading, NULL, sql, "ssi", first, page->after, (int64_t)owner);
    if (q && sqlite3_step(q) == SQLITE_ROW)
        at = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    return at;
}

bool mtr_store_items(struct mtr_store *s, struct mtr_arena *arena, struct mtr_str parent,
                     enum mtr_store_list list, uint64_t owner, struct mtr_store_page *page,
                     struct mtr_store_item **items, struct mtr_error *err)
{
    static const char *const orders[] = {
        "SELECT " ITEM_COLUMNS
        " FROM items WHERE parent=? AND list=? AND owner=? AND seq>? ORDER BY seq",
        "SELECT " ITEM_COLUMNS
        " FROM items WHERE parent=? AND list=? AND owner=? AND seq<? ORDER BY seq DESC"};
    *items = NULL;
    begin_read(s);
    int64_t from = position(s, "SELECT seq FROM items WHERE parent=? AND id=? AND owner=?", parent,
                            owner, page);
    sqlite3_stmt *q = from < 0 ? NULL
                               : mtr_sql(s->reading, err, orders[page->descending], "siii", parent,
                                         (int64_t)list, (int64_t)owner, from);
    if (q)
        take_rows(arena, q, page, sizeof **items, (void **)items, take_any_item);
    sqlite3_finalize(q);
    end_read(s);
    if (from < 0)
        return not_found(page->after, err);
    return q && !arena_full(arena, err);
}

bool mtr_store_objects(struct mtr_store *s, struct mtr_arena *arena, enum mtr_stored kind,
                       uint64_t owner, struct mtr_store_page *page,
                       struct mtr_store_object **objects, struct mtr_error *err)
{
    static const char *const orders[] = {
        "SELECT " OBJECT_COLUMNS
        " FROM objects WHERE kind=? AND owner=? AND rowid>? AND touched>=? ORDER BY rowid",
        "SELECT " OBJECT_COLUMNS
        " FROM objects WHERE kind=? AND owner=? AND rowid<? AND touched>=? ORDER BY rowid DESC"};
    static const char *const kinds[] = {"0", "1", "2"};
    *objects = NULL;
    begin_read(s);
    int64_t from = position(s, "SELECT rowid FROM objects WHERE kind=? AND id=? AND owner=?",
                            mtr_str(kinds[kind]), owner, page);
    sqlite3_stmt *q = from < 0 ? NULL
                               : mtr_sql(s->reading, err, orders[page->descending], "iiii",
                                         (int64_t)kind, (int64_t)owner, from, oldest(s));
    if (q)
        take_rows(arena, q, page, sizeof **objects, (void **)objects, take_any_object);
    sqlite3_finalize(q);
    end_read(s);
    if (from < 0)
        return not_found(page->after, err);
    return q && !arena_full(arena, err);
}
