/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the store's files share: the connections, the statements.
 */
#ifndef MTR_STORE_INTERNAL_H
#define MTR_STORE_INTERNAL_H

#include <pthread.h>
#include <sqlite3.h>

#include "broker/store/store.h"

enum operation { PUT, FINISH, ITEM, DELETE, DELETE_ITEM };

struct mtr_store_operation {
    struct mtr_store_operation *next;
    enum operation kind;
    struct mtr_store_object object; /* PUT, FINISH, DELETE */
    struct mtr_store_item item;     /* ITEM, DELETE_ITEM */
};

struct mtr_store_batch {
    struct mtr_store_batch *next;
    struct mtr_arena arena; /* of the batch itself but for this head */
    struct mtr_store_operation *first, *last;
    bool failed;
};

struct mtr_store {
    struct mtr_store_options options;
    struct mtr_log *log;

    /* The writer's thread alone uses `writing`. */
    sqlite3 *writing;
    uint64_t held_bytes; /* of all objects and items */
    int64_t expired_s;   /* when age was last looked at */
    pthread_t thread;
    bool thread_runs;

    pthread_mutex_t read_lock;
    sqlite3 *reading;

    /* Under `lock`. */
    pthread_mutex_t lock;
    pthread_cond_t handed, written;
    struct mtr_store_batch *first, *last;
    size_t queued_bytes;
    uint64_t handed_count, written_count;
    bool closing;
};

bool mtr_store_prepare(struct mtr_store *s,
                       struct mtr_error *err); /* tables; what was unfinished */
void *mtr_store_thread(void *store);

/* A statement bound by format: 's' struct mtr_str, 'i' int64_t. NULL with an error. */
sqlite3_stmt *mtr_sql(sqlite3 *db, struct mtr_error *err, const char *sql, const char *format, ...);

/* Runs such a statement to its end; *changed (or NULL) rows were. */
bool mtr_sql_run(sqlite3 *db, struct mtr_error *err, sqlite3_stmt *statement, int *changed);
bool mtr_sql_failed(sqlite3 *db, struct mtr_error *err);

#endif
