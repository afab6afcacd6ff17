/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Children are found through one hash index of (parent, key) rather than through tables of their
 * own; the sibling lists serve only the search for a common beginning. A hash that two keys share
 * makes one of them unfindable, which costs a prefill and nothing else, because a find compares the
 * whole key.
 *
 * Eviction by leaf never breaks a path: a node with children stays. Who holds a node holds its
 * ancestors, so the idle leaves lead, one after the other, to all idle nodes; this is what lets
 * mtr_radix_available() count them without looking at the tree's shape.
 */
#include "broker/sched/radix.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"

static uint32_t *group_row(uint32_t *rows, const struct mtr_radix *r, uint32_t node)
{
    return rows + (size_t)node * r->group_count;
}

static uint32_t *node_tokens(const struct mtr_radix *r, uint32_t node)
{
    return r->tokens + (size_t)node * r->block_tokens;
}

/* Every node owns a block of each group that is not SLIDING. */
static uint32_t node_limit(const struct mtr_sched_geometry *g, const struct mtr_sched_capacity *c)
{
    uint32_t limit = MTR_NO_ID;
    for (uint32_t i = 0; i < g->group_count; i++)
        if (g->groups[i].kind != MTR_CACHE_SLIDING && c->group_blocks[i] < limit)
            limit = c->group_blocks[i];
    return 1 + (limit == MTR_NO_ID ? MTR_RADIX_SPARE_NODES : limit);
}

static bool init_lists(struct mtr_radix *r, const struct mtr_sched_geometry *g, uint32_t nodes)
{
    bool ok = mtr_lru_init(&r->leaves, nodes) && mtr_lru_init(&r->snapped, nodes);
    for (uint32_t i = 0; i < g->group_count && ok; i++) {
        r->sliding[i] = g->groups[i].kind == MTR_CACHE_SLIDING;
        ok = !r->sliding[i] || mtr_lru_init(&r->windows[i], nodes);
    }
    return ok;
}

static bool init_nodes(struct mtr_radix *r, uint32_t nodes)
{
    size_t rows = (size_t)nodes * (r->group_count ? r->group_count : 1);
    r->nodes = calloc(nodes, sizeof(*r->nodes));
    r->tokens = calloc((size_t)nodes * r->block_tokens, sizeof(*r->tokens));
    r->blocks = calloc(rows, sizeof(*r->blocks));
    r->pins = calloc(rows, sizeof(*r->pins));
    return r->nodes && r->tokens && r->blocks && r->pins && mtr_id_pool_init(&r->ids, nodes);
}

bool mtr_radix_init(struct mtr_radix *r, const struct mtr_sched_geometry *g,
                    const struct mtr_sched_capacity *c, struct mtr_error *err)
{
    *r = (struct mtr_radix){.group_count = g->group_count, .block_tokens = g->block_tokens};
    uint32_t nodes = node_limit(g, c);
    bool ok = init_nodes(r, nodes) && init_lists(r, g, nodes) &&
              mtr_id_pool_init(&r->snapshots, c->snapshots);
    for (uint32_t i = 0; i < g->group_count && ok; i++)
        ok = mtr_id_pool_init(&r->pools[i], c->group_blocks[i]);
    if (!ok) {
        mtr_radix_free(r);
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for a prefix cache of %u nodes", nodes);
    }
    uint32_t root = mtr_id_pool_take(&r->ids);
    assert(root == MTR_RADIX_ROOT);
    r->nodes[root] = (struct mtr_radix_node){.parent = MTR_NO_ID,
                                             .child = MTR_NO_ID,
                                             .older = MTR_NO_ID,
                                             .newer = MTR_NO_ID,
                                             .snapshot = MTR_NO_ID};
    return true;
}

void mtr_radix_free(struct mtr_radix *r)
{
    for (uint32_t i = 0; i < MTR_MAX_GROUPS; i++) {
        mtr_id_pool_free(&r->pools[i]);
        mtr_lru_free(&r->windows[i]);
    }
    mtr_id_pool_free(&r->snapshots);
    mtr_id_pool_free(&r->ids);
    mtr_lru_free(&r->leaves);
    mtr_lru_free(&r->snapped);
    mtr_map_free(&r->index);
    free(r->nodes);
    free(r->tokens);
    free(r->blocks);
    free(r->pins);
    *r = (struct mtr_radix){0};
}

/* ---- finding ----------------------------------------------------------------------------------
 */

static uint64_t key_hash(const struct mtr_radix *r, uint32_t parent,
                         const struct mtr_radix_key *key)
{
    uint64_t where = mtr_mix64((uint64_t)key->adapter << 32 | parent);
    uint64_t image = mtr_hash64(key->image, MTR_RADIX_IMAGE_BYTES, where);
    return mtr_hash64(key->tokens, r->block_tokens * sizeof(uint32_t), image);
}

static bool same_kind(const struct mtr_radix_node *n, const struct mtr_radix_key *key)
{
    return n->adapter == key->adapter && memcmp(n->image, key->image, MTR_RADIX_IMAGE_BYTES) == 0;
}

uint32_t mtr_radix_child(const struct mtr_radix *r, uint32_t parent,
                         const struct mtr_radix_key *key)
{
    uint64_t found;
    if (!mtr_map_get(&r->index, key_hash(r, parent, key), &found))
        return MTR_NO_ID;
    const struct mtr_radix_node *n = &r->nodes[found];
    bool same = n->parent == parent && same_kind(n, key) &&
                memcmp(node_tokens(r, (uint32_t)found), key->tokens,
                       r->block_tokens * sizeof(uint32_t)) == 0;
    return same ? (uint32_t)found : MTR_NO_ID;
}

static bool has_all_blocks(const struct mtr_radix *r, uint32_t node)
{
    for (uint32_t g = 0; g < r->group_count; g++)
        if (mtr_radix_block(r, node, g) == MTR_NO_ID)
            return false;
    return true;
}

uint32_t mtr_radix_similar(const struct mtr_radix *r, uint32_t parent,
                           const struct mtr_radix_key *key, uint32_t limit, uint32_t *common)
{
    uint32_t best = MTR_NO_ID, seen = 0;
    *common = 0;
    for (uint32_t n = r->nodes[parent].child; n != MTR_NO_ID && seen < MTR_RADIX_MAX_SIBLINGS;
         n = r->nodes[n].older, seen++) {
        uint32_t same = 0;
        const uint32_t *tokens = node_tokens(r, n);
        while (same < limit && tokens[same] == key->tokens[same])
            same++;
        if (same <= *common || !same_kind(&r->nodes[n], key) || !has_all_blocks(r, n))
            continue;
        *common = same;
        best = n;
    }
    return best;
}

/* ---- life of a node ---------------------------------------------------------------------------
 */

static void link_child(struct mtr_radix *r, uint32_t parent, uint32_t node)
{
    uint32_t first = r->nodes[parent].child;
    r->nodes[node].older = first;
    r->nodes[node].newer = MTR_NO_ID;
    if (first != MTR_NO_ID)
        r->nodes[first].newer = node;
    r->nodes[parent].child = node;
    mtr_lru_remove(&r->leaves, parent);
}

static void offer_leaf(struct mtr_radix *r, uint32_t node)
{
    const struct mtr_radix_node *n = &r->nodes[node];
    if (node != MTR_RADIX_ROOT && n->child == MTR_NO_ID && n->holders == 0 &&
        !mtr_lru_has(&r->leaves, node))
        mtr_lru_put(&r->leaves, node, n->tick);
}

static void unlink_child(struct mtr_radix *r, uint32_t node)
{
    const struct mtr_radix_node *n = &r->nodes[node];
    if (n->newer != MTR_NO_ID)
        r->nodes[n->newer].older = n->older;
    else
        r->nodes[n->parent].child = n->older;
    if (n->older != MTR_NO_ID)
        r->nodes[n->older].newer = n->newer;
    offer_leaf(r, n->parent);
}

/* Takes away the node's block of a group, which nobody needs. */
static void drop_block(struct mtr_radix *r, uint32_t node, uint32_t group)
{
    uint32_t *block = &group_row(r->blocks, r, node)[group];
    if (*block == MTR_NO_ID)
        return;
    mtr_radix_give(r, group, *block);
    *block = MTR_NO_ID;
    r->evicted_blocks++;
    if (r->sliding[group])
        mtr_lru_remove(&r->windows[group], node);
}

void mtr_radix_drop_snapshot(struct mtr_radix *r, uint32_t node)
{
    struct mtr_radix_node *n = &r->nodes[node];
    if (n->snapshot == MTR_NO_ID)
        return;
    mtr_id_pool_give(&r->snapshots, n->snapshot);
    n->snapshot = MTR_NO_ID;
    mtr_lru_remove(&r->snapped, node);
}

/* False: there is no idle leaf. */
static bool evict_leaf(struct mtr_radix *r)
{
    uint32_t node = mtr_lru_oldest(&r->leaves);
    if (node == MTR_NO_ID)
        return false;
    mtr_lru_remove(&r->leaves, node);
    for (uint32_t g = 0; g < r->group_count; g++)
        drop_block(r, node, g);
    mtr_radix_drop_snapshot(r, node);
    mtr_map_remove(&r->index, r->nodes[node].hash, NULL);
    r->idle--;
    unlink_child(r, node);
    mtr_id_pool_give(&r->ids, node);
    return true;
}

static bool evict_window(struct mtr_radix *r, uint32_t group)
{
    uint32_t node = mtr_lru_oldest(&r->windows[group]);
    if (node == MTR_NO_ID)
        return false;
    drop_block(r, node, group);
    return true;
}

uint32_t mtr_radix_take(struct mtr_radix *r, uint32_t group)
{
    while (r->pools[group].free_count == 0)
        if (!(r->sliding[group] ? evict_window(r, group) : evict_leaf(r)))
            return MTR_NO_ID;
    return mtr_id_pool_take(&r->pools[group]);
}

static void fill_node(struct mtr_radix *r, uint32_t node, const struct mtr_radix_key *key,
                      const uint32_t *blocks)
{
    r->nodes[node].adapter = key->adapter;
    memcpy(r->nodes[node].image, key->image, MTR_RADIX_IMAGE_BYTES);
    memcpy(node_tokens(r, node), key->tokens, r->block_tokens * sizeof(uint32_t));
    for (uint32_t g = 0; g < r->group_count; g++) {
        group_row(r->pins, r, node)[g] = 0;
        group_row(r->blocks, r, node)[g] = r->sliding[g] ? MTR_NO_ID : blocks[g];
        if (r->sliding[g] && blocks[g] != MTR_NO_ID)
            mtr_radix_restore(r, node, g, blocks[g]);
    }
}

uint32_t mtr_radix_insert(struct mtr_radix *r, uint32_t parent, const struct mtr_radix_key *key,
                          const uint32_t *blocks)
{
    uint64_t other, hash = key_hash(r, parent, key);
    assert(parent == MTR_RADIX_ROOT || r->nodes[parent].holders > 0);
    if (mtr_map_get(&r->index, hash, &other))
        return MTR_NO_ID;
    while (r->ids.free_count == 0)
        if (!evict_leaf(r))
            return MTR_NO_ID;
    uint32_t node = mtr_id_pool_take(&r->ids);
    if (!mtr_map_put(&r->index, hash, node)) {
        mtr_id_pool_give(&r->ids, node);
        return MTR_NO_ID;
    }
    r->nodes[node] = (struct mtr_radix_node){
        .hash = hash, .tick = r->tick, .parent = parent, .child = MTR_NO_ID, .snapshot = MTR_NO_ID};
    fill_node(r, node, key, blocks);
    link_child(r, parent, node);
    offer_leaf(r, node);
    r->idle++;
    return node;
}

void mtr_radix_restore(struct mtr_radix *r, uint32_t node, uint32_t group, uint32_t block)
{
    assert(r->sliding[group] && mtr_radix_block(r, node, group) == MTR_NO_ID);
    group_row(r->blocks, r, node)[group] = block;
    mtr_lru_put(&r->windows[group], node, r->nodes[node].tick);
}

/* ---- use --------------------------------------------------------------------------------------
 */

void mtr_radix_hold(struct mtr_radix *r, uint32_t node)
{
    if (r->nodes[node].holders++ > 0)
        return;
    r->idle--;
    mtr_lru_remove(&r->leaves, node);
}

/* Gives the node a new tick, and its places in the lists that go by it. */
static void touch(struct mtr_radix *r, uint32_t node)
{
    struct mtr_radix_node *n = &r->nodes[node];
    n->tick = ++r->tick;
    if (n->snapshot == MTR_NO_ID)
        return;
    mtr_lru_remove(&r->snapped, node);
    mtr_lru_put(&r->snapped, node, n->tick);
}

void mtr_radix_drop(struct mtr_radix *r, uint32_t node)
{
    assert(r->nodes[node].holders > 0);
    touch(r, node);
    if (--r->nodes[node].holders > 0)
        return;
    r->idle++;
    offer_leaf(r, node);
}

void mtr_radix_pin(struct mtr_radix *r, uint32_t node, uint32_t group)
{
    assert(r->sliding[group] && mtr_radix_block(r, node, group) != MTR_NO_ID);
    if (group_row(r->pins, r, node)[group]++ == 0)
        mtr_lru_remove(&r->windows[group], node);
}

void mtr_radix_unpin(struct mtr_radix *r, uint32_t node, uint32_t group)
{
    uint32_t *pins = &group_row(r->pins, r, node)[group];
    assert(*pins > 0);
    if (--*pins > 0)
        return;
    touch(r, node);
    mtr_lru_put(&r->windows[group], node, r->nodes[node].tick);
}

uint32_t mtr_radix_snapshot(struct mtr_radix *r, uint32_t node)
{
    assert(r->nodes[node].snapshot == MTR_NO_ID);
    if (r->snapshots.free_count == 0 && r->snapped.count > 0)
        mtr_radix_drop_snapshot(r, mtr_lru_oldest(&r->snapped));
    uint32_t id = mtr_id_pool_take(&r->snapshots);
    if (id != MTR_NO_ID) {
        r->nodes[node].snapshot = id;
        mtr_lru_put(&r->snapped, node, r->nodes[node].tick);
    }
    return id;
}
