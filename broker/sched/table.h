/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A sequence's block tables: for each cache group, which block holds the tokens
 * [16 i, 16 i + 16).
 *
 * The first `shared` entries belong to nodes of the prefix tree (the sequence's path), the others
 * to the sequence alone; what the worker writes goes to the latter only. In SLIDING groups the
 * entries below `floor` were given back, because no later token sees them.
 *
 * Publishing makes full blocks nodes of the tree. Where the tree has the same content already, the
 * sequence takes over the tree's block and gives its own back: the bytes are the same.
 */
#ifndef MTR_SCHED_TABLE_H
#define MTR_SCHED_TABLE_H

#include "broker/sched/radix.h"

struct mtr_seq;

struct mtr_table {
    uint32_t *blocks[MTR_MAX_GROUPS]; /* [count]; MTR_NO_ID below floor */
    size_t caps[MTR_MAX_GROUPS];
    uint32_t count[MTR_MAX_GROUPS];
    uint32_t floor[MTR_MAX_GROUPS];
    uint32_t sent[MTR_MAX_GROUPS]; /* entries that the worker knows of */
    uint32_t *nodes;               /* [shared] */
    size_t nodes_cap;
    uint32_t shared;
    bool apart; /* the path could not go on; later blocks stay private */
};

/* A block to be copied into the table's first private entry, because its beginning is the same. */
struct mtr_table_copy {
    uint32_t tokens; /* 0: none */
    uint32_t src[MTR_MAX_GROUPS];
};

/*
 * Starts the empty tables of q on the longest useful prefix of its first `limit` tokens that the
 * tree knows; returns how many tokens that is. For recurrent models only prefixes that end at a
 * snapshot count; *snapshot is then its id, MTR_NO_ID for none. *copy: in other models the prefix
 * may end inside a block; the caller claims entries for it and copies (counted in the return
 * value).
 */
uint32_t mtr_table_attach(struct mtr_radix *r, const struct mtr_sched_geometry *g,
                          struct mtr_seq *q, uint32_t limit, uint32_t *snapshot,
                          struct mtr_table_copy *copy);

/* Extends a group's table to hold `positions` tokens. False: blocks or memory ran out, the entries
 * gained so far stay. */
bool mtr_table_claim(struct mtr_radix *r, struct mtr_table *t, uint32_t group, uint32_t positions);

/* Gives back what a token at `position` and later ones can't see. */
void mtr_table_slide(struct mtr_radix *r, const struct mtr_sched_geometry *g, struct mtr_table *t,
                     uint32_t position);

/* Makes the full blocks of q's first `positions` tokens known to the tree. */
void mtr_table_publish(struct mtr_radix *r, const struct mtr_sched_geometry *g, struct mtr_seq *q,
                       uint32_t positions);

/* Gives back everything; the tables are empty again. */
void mtr_table_release(struct mtr_radix *r, struct mtr_table *t);

/* The same when the worker and its memory are gone: the tree is not touched. */
void mtr_table_forget(struct mtr_table *t);

void mtr_table_free(struct mtr_table *t); /* an empty table */

#endif
