/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A stack of free numbers. `taken` is there to catch our own mistakes: a block given back twice
 * would be shared by two sequences, and nothing downstream could tell.
 */
#include "broker/sched/id_pool.h"

#include <assert.h>
#include <stdlib.h>

bool mtr_id_pool_init(struct mtr_id_pool *p, uint32_t capacity)
{
    *p = (struct mtr_id_pool){.capacity = capacity, .free_count = capacity};
    p->free = malloc((capacity + 1ul) * sizeof(*p->free));
    p->taken = calloc(capacity + 1ul, sizeof(*p->taken));
    if (!p->free || !p->taken) {
        mtr_id_pool_free(p);
        return false;
    }
    for (uint32_t i = 0; i < capacity; i++)
        p->free[i] = capacity - 1 - i;
    return true;
}

void mtr_id_pool_free(struct mtr_id_pool *p)
{
    free(p->free);
    free(p->taken);
    *p = (struct mtr_id_pool){0};
}

uint32_t mtr_id_pool_take(struct mtr_id_pool *p)
{
    if (p->free_count == 0)
        return MTR_NO_ID;
    uint32_t id = p->free[--p->free_count];
    p->taken[id] = true;
    if (id >= p->high)
        p->high = id + 1;
    return id;
}

void mtr_id_pool_give(struct mtr_id_pool *p, uint32_t id)
{
    assert(id < p->capacity && p->taken[id]);
    p->taken[id] = false;
    p->free[p->free_count++] = id;
}
