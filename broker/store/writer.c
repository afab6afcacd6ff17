/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The store's writing half: batches into transactions, and expiry.
 *
 *   objects  kind, id    one row each; `touched` is when it was last written
 *   items    seq         in the order of writing; (parent, list, seq) is how they are read
 *
 * Write-ahead logging with synchronous=NORMAL: a crash of the machine may lose the last moments,
 * never the file. Whoever waits for a batch waits for `written_count` to pass its number.
 */
#include <stdlib.h>
#include <string.h>

#include "broker/store/internal.h"
#include "common/base/clock.h"

#define MAX_QUEUED_BYTES ((size_t)256 << 20)
#define EXPIRE_EVERY_S   60
#define EVICT_AT_ONCE    64
#define ROW_BYTES        128 /* what a row takes beside its texts, about */

/* ---- Statements -------------------------------------------------------------------------------
 */

bool mtr_sql_failed(sqlite3 *db, struct mtr_error *err)
{
    return mtr_fail(err, MTR_IO, "the store of responses: %s", sqlite3_errmsg(db));
}

sqlite3_stmt *mtr_sql(sqlite3 *db, struct mtr_error *err, const char *sql, const char *format, ...)
{
    sqlite3_stmt *statement = NULL;
    va_list args;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) {
        mtr_sql_failed(db, err);
        return NULL;
    }
    va_start(args, format);
    for (int i = 0; format[i]; i++) {
        if (format[i] == 's') {
            struct mtr_str s = va_arg(args, struct mtr_str);
            sqlite3_bind_text64(statement, i + 1, s.ptr ? s.ptr : "", s.len, SQLITE_TRANSIENT,
                                SQLITE_UTF8);
        } else {
            sqlite3_bind_int64(statement, i + 1, va_arg(args, int64_t));
        }
    }
    va_end(args);
    return statement;
}

bool mtr_sql_run(sqlite3 *db, struct mtr_error *err, sqlite3_stmt *statement, int *changed)
{
    if (!statement)
        return false;
    int rc;
    do
        rc = sqlite3_step(statement);
    while (rc == SQLITE_ROW); /* the rows of a result bound it */
    sqlite3_finalize(statement);
    if (changed)
        *changed = sqlite3_changes(db);
    return rc == SQLITE_DONE || mtr_sql_failed(db, err);
}

/* The first column of the first row, or 0. */
static int64_t number(sqlite3_stmt *statement)
{
    int64_t n = 0;
    if (statement && sqlite3_step(statement) == SQLITE_ROW)
        n = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return n;
}

bool mtr_store_prepare(struct mtr_store *s, struct mtr_error *err)
{
    static const char *const setup[] = {
        "PRAGMA auto_vacuum=INCREMENTAL",
        "PRAGMA journal_mode=WAL",
        "PRAGMA synchronous=NORMAL",
        "CREATE TABLE IF NOT EXISTS objects(kind INTEGER, id TEXT, owner INTEGER, created INTEGER,"
        " touched INTEGER, unfinished INTEGER, bytes INTEGER, body TEXT, extra TEXT,"
        " PRIMARY KEY(kind, id))",
        "CREATE INDEX IF NOT EXISTS objects_touched ON objects(touched)",
        "CREATE TABLE IF NOT EXISTS items(seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT,"
        " parent TEXT, list INTEGER, owner INTEGER, bytes INTEGER, body TEXT)",
        "CREATE INDEX IF NOT EXISTS items_parent ON items(parent, list, seq)",
        "CREATE INDEX IF NOT EXISTS items_id ON items(id)",
        "UPDATE objects SET unfinished=0, body=json_set(body, '$.status', 'failed', '$.error',"
        " json('{\"code\":\"server_error\",\"message\":\"the server was started again before this"
        " response was complete\"}')) WHERE unfinished=1",
    };
    for (size_t i = 0; i < sizeof setup / sizeof setup[0]; i++)
        if (!mtr_sql_run(s->writing, err, mtr_sql(s->writing, err, setup[i], ""), NULL))
            return false;
    s->held_bytes = (uint64_t)number(mtr_sql(
        s->writing, err,
        "SELECT (SELECT COALESCE(SUM(bytes),0) FROM objects)+(SELECT COALESCE(SUM(bytes),0) FROM"
        " items)",
        ""));
    return true;
}

/* ---- Batches ----------------------------------------------------------------------------------
 */

struct mtr_store_batch *mtr_store_batch(struct mtr_store *s)
{
    return calloc(1, sizeof(struct mtr_store_batch));
}

static void batch_free(struct mtr_store_batch *b)
{
    mtr_arena_free(&b->arena);
    free(b);
}

static struct mtr_str copy(struct mtr_store_batch *b, struct mtr_str s)
{
    struct mtr_str to = s.ptr ? mtr_arena_str(&b->arena, s) : MTR_STR("");
    b->failed |= !to.ptr;
    return to;
}

static void add(struct mtr_store_batch *b, enum operation kind, const struct mtr_store_object *o,
                const struct mtr_store_item *item)
{
    if (!b)
        return;
    struct mtr_store_operation *op = mtr_arena_calloc(&b->arena, 1, sizeof *op);
    if (!op) {
        b->failed = true;
        return;
    }
    op->kind = kind;
    if (o) {
        op->object = *o;
        op->object.id = copy(b, o->id);
        op->object.body = copy(b, o->body);
        op->object.extra = copy(b, o->extra);
    } else {
        op->item = *item;
        op->item.id = copy(b, item->id);
        op->item.parent = copy(b, item->parent);
        op->item.body = copy(b, item->body);
    }
    if (b->last)
        b->last->next = op;
    else
        b->first = op;
    b->last = op;
}

void mtr_batch_put(struct mtr_store_batch *b, const struct mtr_store_object *o)
{
    add(b, PUT, o, NULL);
}

void mtr_batch_finish(struct mtr_store_batch *b, const struct mtr_store_object *o)
{
    add(b, FINISH, o, NULL);
}

void mtr_batch_item(struct mtr_store_batch *b, const struct mtr_store_item *item)
{
    add(b, ITEM, NULL, item);
}

void mtr_batch_delete(struct mtr_store_batch *b, enum mtr_stored kind, struct mtr_str id,
                      uint64_t owner)
{
    add(b, DELETE, &(struct mtr_store_object){.kind = kind, .id = id, .owner = owner}, NULL);
}

void mtr_batch_delete_item(struct mtr_store_batch *b, struct mtr_str parent, struct mtr_str id,
                           uint64_t owner)
{
    add(b, DELETE_ITEM, NULL, &(struct mtr_store_item){.parent = parent, .id = id, .owner = owner});
}

bool mtr_store_write(struct mtr_store *s, struct mtr_store_batch *b, struct mtr_error *err)
{
    if (!b || b->failed) {
        if (b)
            batch_free(b);
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory keeping a response");
    }
    pthread_mutex_lock(&s->lock);
    bool room = s->queued_bytes + b->arena.used_bytes <= MAX_QUEUED_BYTES;
    if (room) {
        if (s->last)
            s->last->next = b;
        else
            s->first = b;
        s->last = b;
        s->queued_bytes += b->arena.used_bytes;
        s->handed_count++;
        pthread_cond_signal(&s->handed);
    }
    pthread_mutex_unlock(&s->lock);
    if (room)
        return true;
    batch_free(b);
    return mtr_fail(err, MTR_BUSY, "the store of responses does not keep up: more than %zu MB wait",
                    MAX_QUEUED_BYTES >> 20);
}

/* ---- Writing ----------------------------------------------------------------------------------
 */

static int64_t bytes_of(struct mtr_str a, struct mtr_str b)
{
    return (int64_t)(a.len + b.len) + ROW_BYTES;
}

static bool put(struct mtr_store *s, const struct mtr_store_object *o, struct mtr_error *err)
{
    int64_t bytes = bytes_of(o->body, o->extra);
    int64_t before = number(mtr_sql(s->writing, err,
                                    "SELECT bytes FROM objects WHERE kind=? AND"
                                    " id=?",
                                    "is", (int64_t)o->kind, o->id));
    s->held_bytes += (uint64_t)(bytes - before);
    return mtr_sql_run(
        s->writing, err,
        mtr_sql(s->writing, err,
                "INSERT INTO objects(kind,id,owner,created,touched,unfinished,bytes,body,extra)"
                " VALUES(?,?,?,?,?,?,?,?,?) ON CONFLICT(kind,id) DO UPDATE SET"
                " touched=excluded.touched, unfinished=excluded.unfinished, bytes=excluded.bytes,"
                " body=excluded.body, extra=excluded.extra",
                "isiiiiiss", (int64_t)o->kind, o->id, (int64_t)o->owner, o->created,
                mtr_wall_seconds(), (int64_t)o->unfinished, bytes, o->body, o->extra),
        NULL);
}

static bool is_unfinished(struct mtr_store *s, const struct mtr_store_object *o)
{
    return number(mtr_sql(s->writing, NULL,
                          "SELECT unfinished FROM objects WHERE kind=? AND id=? AND owner=?", "isi",
                          (int64_t)o->kind, o->id, (int64_t)o->owner)) == 1;
}

static bool put_item(struct mtr_store *s, const struct mtr_store_item *i, struct mtr_error *err)
{
    int64_t bytes = bytes_of(i->body, i->id);
    s->held_bytes += (uint64_t)bytes;
    return mtr_sql_run(s->writing, err,
                       mtr_sql(s->writing, err,
                               "INSERT INTO items(id,parent,list,owner,bytes,body) "
                               "VALUES(?,?,?,?,?,?)",
                               "ssiiis", i->id, i->parent, (int64_t)i->list, (int64_t)i->owner,
                               bytes, i->body),
                       NULL) &&
           mtr_sql_run(s->writing, err,
                       mtr_sql(s->writing, err,
                               "UPDATE objects SET touched=? WHERE kind=? AND id=?", "iis",
                               mtr_wall_seconds(), (int64_t)MTR_STORED_CONVERSATION, i->parent),
                       NULL);
}

static bool delete_object(struct mtr_store *s, enum mtr_stored kind, struct mtr_str id,
                          struct mtr_error *err)
{
    int64_t bytes = number(mtr_sql(s->writing, err,
                                   "SELECT bytes+(SELECT COALESCE(SUM(bytes),0) FROM items WHERE "
                                   "parent=objects.id) FROM objects WHERE kind=? AND id=?",
                                   "is", (int64_t)kind, id));
    s->held_bytes -= (uint64_t)bytes;
    return mtr_sql_run(s->writing, err,
                       mtr_sql(s->writing, err, "DELETE FROM items WHERE parent=?", "s", id),
                       NULL) &&
           mtr_sql_run(s->writing, err,
                       mtr_sql(s->writing, err, "DELETE FROM objects WHERE kind=? AND id=?", "is",
                               (int64_t)kind, id),
                       NULL);
}

static bool delete_own(struct mtr_store *s, const struct mtr_store_object *o, struct mtr_error *err)
{
    bool own = number(mtr_sql(s->writing, err,
                              "SELECT COUNT(*) FROM objects WHERE kind=? AND id=? AND owner=?",
                              "isi", (int64_t)o->kind, o->id, (int64_t)o->owner)) > 0;
    return !own || delete_object(s, o->kind, o->id, err);
}

static bool delete_item(struct mtr_store *s, const struct mtr_store_item *i, struct mtr_error *err)
{
    s->held_bytes -= (uint64_t)number(
        mtr_sql(s->writing, err,
                "SELECT COALESCE(SUM(bytes),0) FROM items WHERE parent=? AND id=? AND owner=?",
                "ssi", i->parent, i->id, (int64_t)i->owner));
    return mtr_sql_run(s->writing, err,
                       mtr_sql(s->writing, err,
                               "DELETE FROM items WHERE parent=? AND id=? AND owner=?", "ssi",
                               i->parent, i->id, (int64_t)i->owner),
                       NULL);
}

static bool write_batch(struct mtr_store *s, const struct mtr_store_batch *b, struct mtr_error *err)
{
    for (const struct mtr_store_operation *op = b->first; op; op = op->next) {
        bool ok = true;
        switch (op->kind) {
        case FINISH:
            if (!is_unfinished(s, &op->object))
                return true;
            ok = put(s, &op->object, err);
            break;
        case PUT:
            ok = put(s, &op->object, err);
            break;
        case ITEM:
            ok = put_item(s, &op->item, err);
            break;
        case DELETE:
            ok = delete_own(s, &op->object, err);
            break;
        case DELETE_ITEM:
            ok = delete_item(s, &op->item, err);
            break;
        }
        if (!ok)
            return false;
    }
    return true;
}

/* ---- Expiry -----------------------------------------------------------------------------------
 */

struct victim {
    enum mtr_stored kind;
    struct mtr_str id;
};

/* The oldest objects that were last written before `before`; 0: none are left. */
static size_t find_victims(struct mtr_store *s, struct mtr_arena *arena, int64_t before,
                           struct victim out[EVICT_AT_ONCE])
{
    size_t count = 0;
    sqlite3_stmt *q = mtr_sql(
        s->writing, NULL, "SELECT kind,id FROM objects WHERE touched<? ORDER BY touched LIMIT ?",
        "ii", before, (int64_t)EVICT_AT_ONCE);
    while (q && count < EVICT_AT_ONCE && sqlite3_step(q) == SQLITE_ROW) {
        struct mtr_str id = {(const char *)sqlite3_column_text(q, 1),
                             (size_t)sqlite3_column_bytes(q, 1)};
        out[count].kind = (enum mtr_stored)sqlite3_column_int(q, 0);
        out[count].id = mtr_arena_str(arena, id);
        if (out[count].id.ptr)
            count++;
    }
    sqlite3_finalize(q);
    return count;
}

/* Deletes the oldest while there are too many bytes, and all that are too old. Each round takes
 * some away, so their number bounds the rounds. */
static void expire(struct mtr_store *s)
{
    struct victim victims[EVICT_AT_ONCE];
    struct mtr_arena arena;
    int64_t now = mtr_wall_seconds();
    uint64_t most = s->options.max_bytes;
    bool by_age = s->options.max_age_s && now - s->expired_s >= EXPIRE_EVERY_S;
    mtr_arena_init(&arena, 0);
    for (size_t n = 1; n && by_age;) {
        n = find_victims(s, &arena, now - s->options.max_age_s, victims);
        for (size_t i = 0; i < n; i++)
            if (!delete_object(s, victims[i].kind, victims[i].id, NULL))
                n = i = 0, by_age = false;
    }
    if (by_age)
        s->expired_s = now;
    for (size_t n = 1; n && most && s->held_bytes > most;) {
        n = find_victims(s, &arena, INT64_MAX, victims);
        for (size_t i = 0; i < n && s->held_bytes > most; i++)
            if (!delete_object(s, victims[i].kind, victims[i].id, NULL))
                n = 0;
    }
    mtr_arena_free(&arena);
}

static void run(struct mtr_store *s, const char *sql)
{
    mtr_sql_run(s->writing, NULL, mtr_sql(s->writing, NULL, sql, ""), NULL);
}

/* Everything that waits is one transaction. */
static void write_all(struct mtr_store *s, struct mtr_store_batch *first)
{
    struct mtr_error error = {0};
    run(s, "BEGIN IMMEDIATE");
    for (const struct mtr_store_batch *b = first; b; b = b->next)
        if (!write_batch(s, b, &error))
            mtr_error_log(s->log, "what a client asked to keep is lost: %s", error.message);
    expire(s);
    run(s, "COMMIT");
    run(s, "PRAGMA incremental_vacuum(256)");
}

void *mtr_store_thread(void *store)
{
    struct mtr_store *s = store;
    bool running = true;
    while (running) {
        pthread_mutex_lock(&s->lock);
        while (!s->first && !s->closing)
            pthread_cond_wait(&s->handed, &s->lock);
        struct mtr_store_batch *first = s->first, *next;
        uint64_t count = s->handed_count;
        running = first || !s->closing;
        s->first = s->last = NULL;
        s->queued_bytes = 0;
        pthread_mutex_unlock(&s->lock);
        if (first)
            write_all(s, first);
        pthread_mutex_lock(&s->lock);
        s->written_count = count;
        pthread_cond_broadcast(&s->written);
        pthread_mutex_unlock(&s->lock);
        for (struct mtr_store_batch *b = first; b; b = next) {
            next = b->next;
            batch_free(b);
        }
    }
    return NULL;
}
