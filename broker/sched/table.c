/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Attaching looks for the longest path, then steps back until everything that later tokens need is
 * there: in SLIDING groups an unbroken run of blocks over the window before the end, in recurrent
 * models a snapshot at the end.
 */
#include "broker/sched/table.h"

#include <assert.h>
#include <stdlib.h>

#include "broker/sched/sequence.h"
#include "common/base/buf.h"

/* Table index of the first block that a token at `position` sees through a window. */
static uint32_t window_floor(uint32_t position, uint32_t window, uint32_t block_tokens)
{
    return position >= window ? (position - window + 1) / block_tokens : 0;
}

/* ---- attaching --------------------------------------------------------------------------------
 */

/* The path in the tree along q's tokens, into t->nodes; its length. */
static uint32_t find_path(const struct mtr_radix *r, struct mtr_seq *q, uint32_t most)
{
    struct mtr_table *t = &q->table;
    uint32_t at = MTR_RADIX_ROOT, length = 0;
    for (; length < most; length++) {
        struct mtr_radix_key key = mtr_seq_key(q, length, r->block_tokens);
        at = mtr_radix_child(r, at, &key);
        void *array = t->nodes;
        if (at == MTR_NO_ID || !mtr_grow(&array, &t->nodes_cap, length + 1ul, sizeof(*t->nodes)))
            break;
        t->nodes = array;
        t->nodes[length] = at;
    }
    return length;
}

/* Are the blocks of a SLIDING group there that a token behind `length` blocks sees? */
static bool window_there(const struct mtr_radix *r, const struct mtr_table *t, uint32_t length,
                         uint32_t group, uint32_t window)
{
    uint32_t floor = window_floor(length * r->block_tokens, window, r->block_tokens);
    for (uint32_t i = length; i-- > floor;)
        if (mtr_radix_block(r, t->nodes[i], group) == MTR_NO_ID)
            return false;
    return true;
}

static bool usable(const struct mtr_radix *r, const struct mtr_sched_geometry *g,
                   const struct mtr_table *t, uint32_t length)
{
    if (g->recurrent && r->nodes[t->nodes[length - 1]].snapshot == MTR_NO_ID)
        return false;
    for (uint32_t i = 0; i < g->group_count; i++)
        if (r->sliding[i] && !window_there(r, t, length, i, g->groups[i].window))
            return false;
    return true;
}

/* Takes the first `length` nodes of the path as the table's beginning. */
static bool adopt(struct mtr_radix *r, const struct mtr_sched_geometry *g, struct mtr_table *t,
                  uint32_t length)
{
    for (uint32_t i = 0; i < g->group_count; i++) {
        void *array = t->blocks[i];
        if (!mtr_grow(&array, &t->caps[i], length, sizeof(uint32_t)))
            return false;
        t->blocks[i] = array;
    }
    for (uint32_t i = 0; i < length; i++)
        mtr_radix_hold(r, t->nodes[i]);
    for (uint32_t i = 0; i < g->group_count; i++) {
        uint32_t floor = r->sliding[i] ? window_floor(length * r->block_tokens, g->groups[i].window,
                                                      r->block_tokens)
                                       : 0;
        for (uint32_t b = 0; b < length; b++) {
            t->blocks[i][b] = b < floor ? MTR_NO_ID : mtr_radix_block(r, t->nodes[b], i);
            if (r->sliding[i] && b >= floor)
                mtr_radix_pin(r, t->nodes[b], i);
        }
        t->count[i] = length;
        t->floor[i] = t->sent[i] = floor;
    }
    t->shared = length;
    return true;
}

/* A block behind the path that begins like q's next one. */
static void find_copy(const struct mtr_radix *r, struct mtr_seq *q, uint32_t limit,
                      struct mtr_table_copy *copy)
{
    const struct mtr_table *t = &q->table;
    uint32_t done = t->shared * r->block_tokens;
    uint32_t rest = limit - done < r->block_tokens ? limit - done : r->block_tokens;
    if (rest == 0 || r->group_count == 0)
        return;
    struct mtr_radix_key key = mtr_seq_key(q, t->shared, r->block_tokens);
    uint32_t parent = t->shared ? t->nodes[t->shared - 1] : MTR_RADIX_ROOT;
    uint32_t node = mtr_radix_similar(r, parent, &key, rest, &copy->tokens);
    for (uint32_t i = 0; i < r->group_count && node != MTR_NO_ID; i++)
        copy->src[i] = mtr_radix_block(r, node, i);
}

uint32_t mtr_table_attach(struct mtr_radix *r, const struct mtr_sched_geometry *g,
                          struct mtr_seq *q, uint32_t limit, uint32_t *snapshot,
                          struct mtr_table_copy *copy)
{
    struct mtr_table *t = &q->table;
    copy->tokens = 0;
    *snapshot = MTR_NO_ID;
    uint32_t length = find_path(r, q, limit / r->block_tokens);
    while (length > 0 && !usable(r, g, t, length))
        length--;
    if (length > 0 && !adopt(r, g, t, length))
        return 0;
    if (g->recurrent)
        *snapshot = length ? r->nodes[t->nodes[length - 1]].snapshot : MTR_NO_ID;
    else
        find_copy(r, q, limit, copy);
    return length * r->block_tokens + copy->tokens;
}

/* ---- growing and shrinking --------------------------------------------------------------------
 */

bool mtr_table_claim(struct mtr_radix *r, struct mtr_table *t, uint32_t group, uint32_t positions)
{
    uint32_t need = (positions + r->block_tokens - 1) / r->block_tokens;
    if (need <= t->count[group])
        return true;
    void *array = t->blocks[group];
    if (!mtr_grow(&array, &t->caps[group], need, sizeof(uint32_t)))
        return false;
    t->blocks[group] = array;
    for (; t->count[group] < need; t->count[group]++) {
        uint32_t block = mtr_radix_take(r, group);
        if (block == MTR_NO_ID)
            return false;
        t->blocks[group][t->count[group]] = block;
    }
    return true;
}

static void give_entry(struct mtr_radix *r, struct mtr_table *t, uint32_t group, uint32_t index)
{
    if (index >= t->shared)
        mtr_radix_give(r, group, t->blocks[group][index]);
    else if (r->sliding[group])
        mtr_radix_unpin(r, t->nodes[index], group);
    t->blocks[group][index] = MTR_NO_ID;
}

void mtr_table_slide(struct mtr_radix *r, const struct mtr_sched_geometry *g, struct mtr_table *t,
                     uint32_t position)
{
    for (uint32_t i = 0; i < g->group_count; i++) {
        if (!r->sliding[i])
            continue;
        uint32_t floor = window_floor(position, g->groups[i].window, r->block_tokens);
        floor = floor < t->count[i] ? floor : t->count[i];
        for (; t->floor[i] < floor; t->floor[i]++)
            give_entry(r, t, i, t->floor[i]);
        if (t->sent[i] < t->floor[i])
            t->sent[i] = t->floor[i];
    }
}

void mtr_table_release(struct mtr_radix *r, struct mtr_table *t)
{
    for (uint32_t i = 0; i < r->group_count; i++)
        for (uint32_t b = t->count[i]; b-- > t->floor[i];)
            give_entry(r, t, i, b);
    while (t->shared > 0)
        mtr_radix_drop(r, t->nodes[--t->shared]);
    mtr_table_forget(t);
}

void mtr_table_forget(struct mtr_table *t)
{
    for (uint32_t i = 0; i < MTR_MAX_GROUPS; i++)
        t->count[i] = t->floor[i] = t->sent[i] = 0;
    t->shared = 0;
    t->apart = false;
}

void mtr_table_free(struct mtr_table *t)
{
    for (uint32_t i = 0; i < MTR_MAX_GROUPS; i++)
        free(t->blocks[i]);
    free(t->nodes);
    *t = (struct mtr_table){0};
}

/* ---- publishing -------------------------------------------------------------------------------
 */

/* Changes an entry to the tree's block; the worker has to hear of it. */
static void swap_entry(struct mtr_radix *r, struct mtr_table *t, uint32_t group, uint32_t index,
                       uint32_t block)
{
    mtr_radix_give(r, group, t->blocks[group][index]);
    t->blocks[group][index] = block;
    if (t->sent[group] > index)
        t->sent[group] = index;
}

/* The tree has this content: each block that both have becomes the tree's. */
static void merge(struct mtr_radix *r, struct mtr_table *t, uint32_t node, uint32_t index)
{
    for (uint32_t g = 0; g < r->group_count; g++) {
        if (index < t->floor[g])
            continue;
        uint32_t theirs = mtr_radix_block(r, node, g);
        if (theirs != MTR_NO_ID)
            swap_entry(r, t, g, index, theirs);
        else
            mtr_radix_restore(r, node, g, t->blocks[g][index]);
    }
}

static uint32_t new_node(struct mtr_radix *r, struct mtr_table *t, uint32_t parent,
                         const struct mtr_radix_key *key, uint32_t index)
{
    uint32_t blocks[MTR_MAX_GROUPS];
    for (uint32_t g = 0; g < r->group_count; g++)
        blocks[g] = t->blocks[g][index];
    return mtr_radix_insert(r, parent, key, blocks);
}

static bool publish_block(struct mtr_radix *r, struct mtr_seq *q)
{
    struct mtr_table *t = &q->table;
    uint32_t index = t->shared;
    void *array = t->nodes;
    if (!mtr_grow(&array, &t->nodes_cap, index + 1ul, sizeof(*t->nodes)))
        return false;
    t->nodes = array;
    struct mtr_radix_key key = mtr_seq_key(q, index, r->block_tokens);
    uint32_t parent = index ? t->nodes[index - 1] : MTR_RADIX_ROOT;
    uint32_t node = mtr_radix_child(r, parent, &key);
    if (node != MTR_NO_ID)
        merge(r, t, node, index);
    else
        node = new_node(r, t, parent, &key, index);
    if (node == MTR_NO_ID)
        return false;
    mtr_radix_hold(r, node);
    for (uint32_t g = 0; g < r->group_count; g++)
        if (r->sliding[g] && index >= t->floor[g])
            mtr_radix_pin(r, node, g);
    t->nodes[t->shared++] = node;
    return true;
}

void mtr_table_publish(struct mtr_radix *r, const struct mtr_sched_geometry *g, struct mtr_seq *q,
                       uint32_t positions)
{
    struct mtr_table *t = &q->table;
    assert(positions <= q->known);
    while (!t->apart && (t->shared + 1ul) * g->block_tokens <= positions)
        if (!publish_block(r, q))
            t->apart = true;
}
