/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A queue of messages to one thread. Any thread posts; the owner takes everything at once, in
 * order. Messages begin with struct mtr_message and belong to the poster until posted, to the owner
 * after. A descriptor becomes readable when something was posted to an empty box, so a sleeping
 * owner wakes once for any number of messages.
 *
 * The queue itself has no bound; what is posted is bounded by the limits on requests and steps.
 */
#ifndef MTR_ENGINE_INBOX_H
#define MTR_ENGINE_INBOX_H

#include <pthread.h>
#include <stdbool.h>

#include "common/base/error.h"

enum mtr_message_kind {
    MTR_MESSAGE_DELIVERY, /* to an HTTP thread: struct mtr_delivery */
    MTR_MESSAGE_TASK,     /* to an HTTP thread: a text task that it submitted is done */
    MTR_MESSAGE_DRAIN,    /* to an HTTP thread: accept no more */
    MTR_MESSAGE_STOP,     /* to any thread: end your loop */
    MTR_MESSAGE_JOB,      /* to the scheduler thread: a job whose tokens are ready */
    MTR_MESSAGE_CANCEL,   /* to the scheduler thread */
};

struct mtr_message {
    struct mtr_message *next;
    enum mtr_message_kind kind;
};

struct mtr_inbox {
    pthread_mutex_t lock;
    struct mtr_message *first, *last;
    int fd; /* eventfd */
};

bool mtr_inbox_init(struct mtr_inbox *box, struct mtr_error *err);
void mtr_inbox_free(struct mtr_inbox *box); /* must be empty */
void mtr_inbox_post(struct mtr_inbox *box, struct mtr_message *m);
void mtr_inbox_wake(struct mtr_inbox *box); /* makes the descriptor readable, without a message */

/* All waiting messages, first first, or NULL. Clears the descriptor. */
struct mtr_message *mtr_inbox_take(struct mtr_inbox *box);

#endif
