/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Small numbers that are taken and given back: block ids of a cache group, slots, snapshots.
 *
 * The number given back last is taken first, and fresh ones come in ascending order, so that what
 * is in use stays dense at the low end.
 */
#ifndef MTR_SCHED_ID_POOL_H
#define MTR_SCHED_ID_POOL_H

#include <stdbool.h>
#include <stdint.h>

#define MTR_NO_ID UINT32_MAX

struct mtr_id_pool {
    uint32_t *free; /* [free_count], the next to be taken last */
    uint32_t free_count;
    uint32_t capacity;
    uint32_t high; /* all that were ever taken are less */
    bool *taken;   /* [capacity] */
};

bool mtr_id_pool_init(struct mtr_id_pool *p, uint32_t capacity); /* false: no memory */
void mtr_id_pool_free(struct mtr_id_pool *p);                    /* fine on a zeroed struct */

uint32_t mtr_id_pool_take(struct mtr_id_pool *p);          /* MTR_NO_ID when none is left */
void mtr_id_pool_give(struct mtr_id_pool *p, uint32_t id); /* must be taken */

#endif
