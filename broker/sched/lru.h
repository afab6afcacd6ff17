/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which of many was used least recently: a binary heap of (tick, item), the oldest first, that also
 * knows where each item stands, so that any item can leave. Equal ticks go by item, so that the
 * order never depends on history.
 */
#ifndef MTR_SCHED_LRU_H
#define MTR_SCHED_LRU_H

#include <stdbool.h>
#include <stdint.h>

struct mtr_lru_entry {
    uint64_t tick;
    uint32_t item;
};

struct mtr_lru {
    struct mtr_lru_entry *heap; /* [count] */
    uint32_t *places;           /* [items]: 1 + index in heap, 0: not there */
    uint32_t count;
    uint32_t items;
};

bool mtr_lru_init(struct mtr_lru *l, uint32_t items); /* items are < items; false: no memory */
void mtr_lru_free(struct mtr_lru *l);                 /* fine on a zeroed struct */

void mtr_lru_put(struct mtr_lru *l, uint32_t item, uint64_t tick); /* must not be there */
void mtr_lru_remove(struct mtr_lru *l, uint32_t item);             /* fine when it isn't there */

static inline bool mtr_lru_has(const struct mtr_lru *l, uint32_t item)
{
    return l->places[item] != 0;
}

/* The oldest item, which stays; MTR_NO_ID when empty. */
uint32_t mtr_lru_oldest(const struct mtr_lru *l);

#endif
