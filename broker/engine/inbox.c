/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "broker/engine/inbox.h"

#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

bool mtr_inbox_init(struct mtr_inbox *box, struct mtr_error *err)
{
    *box = (struct mtr_inbox){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (box->fd < 0)
        return mtr_fail_errno(err, "can't create an event descriptor");
    pthread_mutex_init(&box->lock, NULL);
    return true;
}

void mtr_inbox_free(struct mtr_inbox *box)
{
    pthread_mutex_destroy(&box->lock);
    close(box->fd);
}

void mtr_inbox_wake(struct mtr_inbox *box)
{
    uint64_t one = 1;
    ssize_t n = write(box->fd, &one, sizeof one);
    (void)n; /* can only fail when the counter is at its limit, and then it is readable */
}

void mtr_inbox_post(struct mtr_inbox *box, struct mtr_message *m)
{
    m->next = NULL;
    pthread_mutex_lock(&box->lock);
    bool was_empty = !box->first;
    if (was_empty)
        box->first = m;
    else
        box->last->next = m;
    box->last = m;
    pthread_mutex_unlock(&box->lock);
    if (was_empty)
        mtr_inbox_wake(box);
}

struct mtr_message *mtr_inbox_take(struct mtr_inbox *box)
{
    uint64_t count;
    ssize_t n = read(box->fd, &count, sizeof count);
    (void)n; /* nothing to clear is fine */
    pthread_mutex_lock(&box->lock);
    struct mtr_message *first = box->first;
    box->first = box->last = NULL;
    pthread_mutex_unlock(&box->lock);
    return first;
}
