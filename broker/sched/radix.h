/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The worker's cache memory as the scheduler sees it: pools of block ids, and the prefix tree that
 * knows what is in them.
 *
 * A node of the tree is one full block of tokens after its parent's: the path from the root spells
 * a prefix (RadixAttention, Zheng et al. 2023, at block granularity). The edge's key is the tokens
 * and what else the cache content depends on: the adapter, and the digests of images that reach
 * into the block. A node owns one block in each cache group; in SLIDING groups it may have lost it.
 * In recurrent models it may also own a snapshot of the state right behind its last token.
 *
 * Each block has one owner: the free list, a node, or the one sequence that is filling it
 * (table.h). A sequence holds each node of its path, and pins the blocks of SLIDING groups that are
 * still in its window. What nobody uses may be evicted when blocks run out:
 *   - a leaf that nobody holds, the least recently used first, with all that it owns;
 *   - in SLIDING groups any node's block that nobody pins, leaf or not;
 *   - snapshots, by a list of their own: they are read within the step that asks for them.
 */
#ifndef MTR_SCHED_RADIX_H
#define MTR_SCHED_RADIX_H

#include "broker/sched/id_pool.h"
#include "broker/sched/lru.h"
#include "broker/sched/sched.h"
#include "common/base/map.h"

#define MTR_RADIX_ROOT         0u
#define MTR_RADIX_IMAGE_BYTES  16
#define MTR_RADIX_MAX_SIBLINGS 32    /* examined for a common beginning */
#define MTR_RADIX_SPARE_NODES  65536 /* where no group has a block for every node */

struct mtr_radix_key {
    uint32_t adapter;
    uint8_t image[MTR_RADIX_IMAGE_BYTES]; /* of the digests that reach into the block, or 0 */
    const uint32_t *tokens;               /* [block_tokens] */
};

struct mtr_radix_node {
    uint64_t hash; /* of parent and key: its key in the index */
    uint64_t tick; /* of its last use */
    uint32_t parent;
    uint32_t child;        /* newest, or MTR_NO_ID */
    uint32_t older, newer; /* siblings, or MTR_NO_ID */
    uint32_t snapshot;     /* or MTR_NO_ID */
    uint32_t holders;      /* sequences whose path goes through here */
    uint32_t adapter;
    uint8_t image[MTR_RADIX_IMAGE_BYTES];
};

struct mtr_radix {
    uint32_t group_count;
    uint32_t block_tokens;
    bool sliding[MTR_MAX_GROUPS];
    struct mtr_id_pool pools[MTR_MAX_GROUPS];
    struct mtr_id_pool snapshots;
    struct mtr_id_pool ids;                 /* of nodes; the root is always taken */
    struct mtr_radix_node *nodes;           /* [ids.capacity] */
    uint32_t *tokens;                       /* [nodes, block_tokens] */
    uint32_t *blocks;                       /* [nodes, group_count]; MTR_NO_ID: lost */
    uint32_t *pins;                         /* [nodes, group_count], SLIDING groups only */
    struct mtr_map index;                   /* hash to node */
    struct mtr_lru leaves;                  /* leaves that nobody holds */
    struct mtr_lru windows[MTR_MAX_GROUPS]; /* SLIDING: nodes with a block that nobody pins */
    struct mtr_lru snapped;                 /* nodes with a snapshot */
    uint32_t idle;                          /* nodes that nobody holds */
    uint64_t tick;
    uint64_t evicted_blocks;
};

bool mtr_radix_init(struct mtr_radix *r, const struct mtr_sched_geometry *g,
                    const struct mtr_sched_capacity *c, struct mtr_error *err);
void mtr_radix_free(struct mtr_radix *r); /* fine on a zeroed struct */

/* A block of the group for a new owner: free, or by eviction. MTR_NO_ID: all are in use. */
uint32_t mtr_radix_take(struct mtr_radix *r, uint32_t group);
static inline void mtr_radix_give(struct mtr_radix *r, uint32_t group, uint32_t block)
{
    mtr_id_pool_give(&r->pools[group], block);
}

/* How many blocks of the group can be taken. */
static inline uint32_t mtr_radix_available(const struct mtr_radix *r, uint32_t group)
{
    uint32_t evictable = r->sliding[group] ? r->windows[group].count : r->idle;
    return r->pools[group].free_count + evictable;
}

/* The child with this key, or MTR_NO_ID. */
uint32_t mtr_radix_child(const struct mtr_radix *r, uint32_t parent,
                         const struct mtr_radix_key *key);

/* The child whose first tokens, at most `limit`, agree with the key's for longest; *common says how
 * many (0 and MTR_NO_ID: none). Adapter and image must be equal, all blocks must be there. */
uint32_t mtr_radix_similar(const struct mtr_radix *r, uint32_t parent,
                           const struct mtr_radix_key *key, uint32_t limit, uint32_t *common);

/* A new child that takes over blocks [group_count] (MTR_NO_ID where lost), held by nobody yet.
 * parent must be held or the root. MTR_NO_ID: no room; the blocks stay the caller's. */
uint32_t mtr_radix_insert(struct mtr_radix *r, uint32_t parent, const struct mtr_radix_key *key,
                          const uint32_t *blocks);

static inline uint32_t mtr_radix_block(const struct mtr_radix *r, uint32_t node, uint32_t group)
{
    return r->blocks[(size_t)node * r->group_count + group];
}

/* Gives a node the block of a SLIDING group that it had lost. */
void mtr_radix_restore(struct mtr_radix *r, uint32_t node, uint32_t group, uint32_t block);

/* One holder more, or less. A path is held from the root on and let go as a whole. */
void mtr_radix_hold(struct mtr_radix *r, uint32_t node);
void mtr_radix_drop(struct mtr_radix *r, uint32_t node);

/* One sequence more, or less, that needs the node's block of a SLIDING group. */
void mtr_radix_pin(struct mtr_radix *r, uint32_t node, uint32_t group);
void mtr_radix_unpin(struct mtr_radix *r, uint32_t node, uint32_t group);

/* A snapshot id for the node, which must have none: free, or the least recently used. */
uint32_t mtr_radix_snapshot(struct mtr_radix *r, uint32_t node);
void mtr_radix_drop_snapshot(struct mtr_radix *r, uint32_t node); /* fine when it has none */

#endif
