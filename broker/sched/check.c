/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What must hold between steps. Each block of a group is counted once: free, a node's, or a
 * sequence's own; each hold and pin of a node has its sequence.
 */
#include <stdlib.h>

#include "broker/sched/internal.h"

struct tally {
    uint32_t *owners;  /* [blocks] of one group: nodes and sequences that own the block */
    uint32_t *holders; /* [nodes] */
    uint32_t *pins;    /* [nodes] */
};

static bool broken(struct mtr_error *err, const char *what, uint64_t which)
{
    return mtr_fail(err, MTR_INTERNAL, "%s (%llu)", what, (unsigned long long)which);
}

static bool check_counts(const struct mtr_seq *q, struct mtr_error *err)
{
    if (!q->running && q->planned != 0)
        return broken(err, "a waiting sequence has planned rows", q->id);
    if (q->running && q->pending == 0 && !q->closing && q->planned >= q->known)
        return broken(err, "nothing is left to compute and nothing is pending", q->id);
    if (q->running && q->pending > 0 && q->planned != q->known + q->pending - 1)
        return broken(err, "planned rows and pending samples disagree", q->id);
    if (q->pending > MTR_PLANS_IN_FLIGHT || (!q->prompt_only && q->known >= q->limit))
        return broken(err, "a sequence went past its end", q->id);
    return true;
}

static bool check_table(const struct mtr_radix *r, const struct mtr_seq *q, struct mtr_error *err)
{
    const struct mtr_table *t = &q->table;
    for (uint32_t g = 0; g < r->group_count; g++) {
        if (q->running && (uint64_t)t->count[g] * r->block_tokens < q->planned)
            return broken(err, "rows without blocks", q->id);
        for (uint32_t i = t->floor[g]; i < t->count[g]; i++)
            if (i < t->shared && t->blocks[g][i] != mtr_radix_block(r, t->nodes[i], g))
                return broken(err, "a shared entry is not its node's block", q->id);
        if (!q->running && t->count[g] != 0)
            return broken(err, "a waiting sequence has blocks", q->id);
    }
    return true;
}

static bool check_sequences(const struct mtr_sched *s, struct mtr_error *err)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < s->running_count; i++) {
        const struct mtr_seq *q = s->running[i];
        if (q->id <= last || !q->running || mtr_sched_find(s, q->id) != q)
            return broken(err, "running sequences are out of order", q->id);
        if (!check_counts(q, err) || !check_table(&s->radix, q, err))
            return false;
        last = q->id;
    }
    uint32_t count = 0;
    last = 0;
    for (const struct mtr_seq *q = s->waiting.first; q; q = q->next, count++) {
        if (q->id <= last || q->running || mtr_sched_find(s, q->id) != q)
            return broken(err, "waiting sequences are out of order", q->id);
        if (!check_counts(q, err) || (s->ready && !check_table(&s->radix, q, err)))
            return false;
        last = q->id;
    }
    if (count != s->waiting.count || s->by_id.count != (size_t)count + s->running_count)
        return broken(err, "sequences were lost", count);
    if (s->slots.capacity - s->slots.free_count != s->running_count)
        return broken(err, "slots in use are not those of running sequences", s->running_count);
    return true;
}

static void count_nodes(const struct mtr_radix *r, uint32_t group, struct tally *t)
{
    for (uint32_t n = 1; n < r->ids.high; n++)
        if (r->ids.taken[n] && mtr_radix_block(r, n, group) != MTR_NO_ID)
            t->owners[mtr_radix_block(r, n, group)]++;
}

static void count_tables(const struct mtr_sched *s, uint32_t group, struct tally *t)
{
    for (uint32_t i = 0; i < s->running_count; i++) {
        const struct mtr_table *table = &s->running[i]->table;
        for (uint32_t b = table->floor[group]; b < table->count[group]; b++) {
            if (b >= table->shared)
                t->owners[table->blocks[group][b]]++;
            else
                t->pins[table->nodes[b]]++;
        }
        for (uint32_t b = 0; b < table->shared && group == 0; b++)
            t->holders[table->nodes[b]]++;
    }
}

static bool check_group(const struct mtr_sched *s, uint32_t g, struct tally *t,
                        struct mtr_error *err)
{
    const struct mtr_radix *r = &s->radix;
    count_nodes(r, g, t);
    count_tables(s, g, t);
    for (uint32_t b = 0; b < r->pools[g].high; b++)
        if (t->owners[b] != r->pools[g].taken[b])
            return broken(err,
                          r->pools[g].taken[b] ? "a block has not one owner"
                                               : "a free block has an owner",
                          b);
    for (uint32_t n = 1; n < r->ids.high; n++) {
        if (g == 0 && r->ids.taken[n] && t->holders[n] != r->nodes[n].holders)
            return broken(err, "a node's holders are miscounted", n);
        if (!r->sliding[g] || !r->ids.taken[n])
            continue;
        bool idle = t->pins[n] == 0 && mtr_radix_block(r, n, g) != MTR_NO_ID;
        if (t->pins[n] != r->pins[(size_t)n * r->group_count + g])
            return broken(err, "a node's pins are miscounted", n);
        if (idle != mtr_lru_has(&r->windows[g], n))
            return broken(err, "an idle window block is not in its list", n);
    }
    return true;
}

static bool check_groups(const struct mtr_sched *s, struct mtr_error *err)
{
    bool ok = true;
    for (uint32_t g = 0; g < s->radix.group_count && ok; g++) {
        struct tally t = {calloc(s->radix.pools[g].high + 1ul, sizeof(uint32_t)),
                          calloc(s->radix.ids.high, sizeof(uint32_t)),
                          calloc(s->radix.ids.high, sizeof(uint32_t))};
        ok = t.owners && t.holders && t.pins ? check_group(s, g, &t, err)
                                             : broken(err, "no memory to check", g);
        free(t.owners);
        free(t.holders);
        free(t.pins);
    }
    return ok;
}

static bool check_tree(const struct mtr_radix *r, struct mtr_error *err)
{
    uint32_t idle = 0, snapshots = 0, nodes = 0;
    for (uint32_t n = 1; n < r->ids.high; n++) {
        if (!r->ids.taken[n])
            continue;
        const struct mtr_radix_node *node = &r->nodes[n];
        nodes++;
        idle += node->holders == 0;
        snapshots += node->snapshot != MTR_NO_ID;
        if (!r->ids.taken[node->parent])
            return broken(err, "a node has lost its parent", n);
        if (node->holders > 0 && node->parent != MTR_RADIX_ROOT &&
            r->nodes[node->parent].holders < node->holders)
            return broken(err, "a node is held, its parent is not", n);
        if (mtr_lru_has(&r->leaves, n) != (node->holders == 0 && node->child == MTR_NO_ID))
            return broken(err, "the list of idle leaves is wrong", n);
        if (mtr_lru_has(&r->snapped, n) != (node->snapshot != MTR_NO_ID))
            return broken(err, "the list of snapshots is wrong", n);
    }
    if (idle != r->idle || nodes != r->index.count)
        return broken(err, "nodes are miscounted", idle);
    return snapshots == r->snapshots.capacity - r->snapshots.free_count ||
           broken(err, "snapshots leak", snapshots);
}

bool mtr_sched_check(const struct mtr_sched *s, struct mtr_error *err)
{
    if (!check_sequences(s, err))
        return false;
    return !s->ready || (check_groups(s, err) && check_tree(&s->radix, err));
}
