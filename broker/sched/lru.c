/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The children of heap[i] are heap[2i + 1] and heap[2i + 2]; none is older than its parent. */
#include "broker/sched/lru.h"

#include <assert.h>
#include <stdlib.h>

#include "broker/sched/id_pool.h"

bool mtr_lru_init(struct mtr_lru *l, uint32_t items)
{
    *l = (struct mtr_lru){.items = items};
    l->heap = malloc((items + 1ul) * sizeof(*l->heap));
    l->places = calloc(items + 1ul, sizeof(*l->places));
    if (l->heap && l->places)
        return true;
    mtr_lru_free(l);
    return false;
}

void mtr_lru_free(struct mtr_lru *l)
{
    free(l->heap);
    free(l->places);
    *l = (struct mtr_lru){0};
}

static bool older(struct mtr_lru_entry a, struct mtr_lru_entry b)
{
    return a.tick < b.tick || (a.tick == b.tick && a.item < b.item);
}

static void place(struct mtr_lru *l, uint32_t at, struct mtr_lru_entry e)
{
    l->heap[at] = e;
    l->places[e.item] = at + 1;
}

static void sift_up(struct mtr_lru *l, uint32_t at, struct mtr_lru_entry e)
{
    for (uint32_t up; at > 0 && older(e, l->heap[up = (at - 1) / 2]); at = up)
        place(l, at, l->heap[up]);
    place(l, at, e);
}

static void sift_down(struct mtr_lru *l, uint32_t at, struct mtr_lru_entry e)
{
    for (uint32_t child; (child = 2 * at + 1) < l->count; at = child) {
        if (child + 1 < l->count && older(l->heap[child + 1], l->heap[child]))
            child++;
        if (!older(l->heap[child], e))
            break;
        place(l, at, l->heap[child]);
    }
    place(l, at, e);
}

void mtr_lru_put(struct mtr_lru *l, uint32_t item, uint64_t tick)
{
    assert(item < l->items && !mtr_lru_has(l, item));
    sift_up(l, l->count++, (struct mtr_lru_entry){tick, item});
}

void mtr_lru_remove(struct mtr_lru *l, uint32_t item)
{
    if (!mtr_lru_has(l, item))
        return;
    uint32_t at = l->places[item] - 1;
    l->places[item] = 0;
    struct mtr_lru_entry last = l->heap[--l->count];
    if (at == l->count)
        return;
    if (at > 0 && older(last, l->heap[(at - 1) / 2]))
        sift_up(l, at, last);
    else
        sift_down(l, at, last);
}

uint32_t mtr_lru_oldest(const struct mtr_lru *l)
{
    return l->count ? l->heap[0].item : MTR_NO_ID;
}
