/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Merging.
 *
 * Both kinds of rules answer one question: what do these two neighbours make, and at which rank?
 * The merging loops are written once as inline functions over that question (struct rules) and
 * compiled for each kind.
 *
 * In the heap, a candidate is rank << 32 | position, so that its order is rank first, leftmost
 * next. A candidate whose neighbours changed meanwhile is recognized by its rank, which the node no
 * longer has; it is dropped when it comes up.
 */
#include "broker/text/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"

#define SHORT_WORD 40 /* symbols: up to here scanning beats a heap */
#define NO_RANK    UINT32_MAX
#define NOWHERE    UINT32_MAX

struct mtr_bpe_node {
    uint32_t id, len;
    uint32_t previous, next; /* NOWHERE at the ends */
    uint32_t rank, made;     /* of the pair with the next node */
};

struct rules {
    const struct mtr_bpe_table *table; /* one of the two */
    const struct mtr_bpe_scores *scores;
    const char *text;
};

/* -------------------------------------------------------------------------------------- tables */

static uint64_t pair_hash(uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

bool mtr_bpe_table_init(struct mtr_bpe_table *t, size_t merges)
{
    size_t capacity = 64, bits = 1024;
    while (capacity < merges * 2)
        capacity *= 2;
    while (bits < merges * 12)
        bits *= 2;
    *t = (struct mtr_bpe_table){.mask = capacity - 1, .maybe_mask = bits - 1};
    t->pairs = malloc(capacity * sizeof *t->pairs);
    t->maybe = calloc(bits / 64, sizeof *t->maybe);
    if (t->pairs == NULL || t->maybe == NULL)
        return mtr_bpe_table_free(t), false;
    memset(t->pairs, 0xff, capacity * sizeof *t->pairs);
    return true;
}

void mtr_bpe_table_free(struct mtr_bpe_table *t)
{
    free(t->pairs);
    free(t->maybe);
    memset(t, 0, sizeof *t);
}

/* The entry of the pair, or the free one where it belongs. */
static struct mtr_bpe_pair *probe(const struct mtr_bpe_table *t, uint32_t left, uint32_t right,
                                  uint64_t hash)
{
    size_t at = hash & t->mask;
    while (t->pairs[at].id != MTR_TOKEN_NONE &&
           (t->pairs[at].left != left || t->pairs[at].right != right))
        at = (at + 1) & t->mask;
    return &t->pairs[at];
}

void mtr_bpe_table_put(struct mtr_bpe_table *t, struct mtr_bpe_pair pair)
{
    uint64_t hash = pair_hash(pair.left, pair.right);
    uint64_t bit = hash >> 20 & t->maybe_mask;
    t->maybe[bit >> 6] |= 1ull << (bit & 63);
    *probe(t, pair.left, pair.right, hash) = pair;
}

const struct mtr_bpe_pair *mtr_bpe_table_find(const struct mtr_bpe_table *t, uint32_t left,
                                              uint32_t right)
{
    const struct mtr_bpe_pair *p = probe(t, left, right, pair_hash(left, right));
    return p->id == MTR_TOKEN_NONE ? NULL : p;
}

uint32_t mtr_bpe_score_rank(float score)
{
    uint32_t bits;
    if (score != score)
        return NO_RANK - 1;
    memcpy(&bits, &score, 4);
    bits = bits >> 31 ? ~bits : bits | 0x80000000u; /* now as unsigned, ascending */
    bits = ~bits;
    return bits >= NO_RANK - 1 ? NO_RANK - 2 : bits;
}

/* --------------------------------------------------------------------------------------- rules */

struct made {
    uint32_t rank, id; /* rank NO_RANK: no rule */
};

static inline struct made rule_ranked(const struct mtr_bpe_table *t, uint32_t left, uint32_t right)
{
    uint64_t hash = pair_hash(left, right);
    uint64_t bit = hash >> 20 & t->maybe_mask;
    if (!(t->maybe[bit >> 6] >> (bit & 63) & 1))
        return (struct made){NO_RANK, 0};
    const struct mtr_bpe_pair *p = probe(t, left, right, hash);
    return (struct made){p->id == MTR_TOKEN_NONE ? NO_RANK : p->rank, p->id};
}

static inline struct made rule_scored(const struct mtr_bpe_scores *s, const char *text, size_t len)
{
    uint32_t id = mtr_vocab_find(s->vocab, (struct mtr_str){text, len});
    return (struct made){id == MTR_TOKEN_NONE ? NO_RANK : s->rank[id], id};
}

/* What two neighbours make; at is the text offset of the left one. */
static inline struct made rule(const struct rules *r, uint32_t left, uint32_t left_len,
                               uint32_t right, uint32_t right_len, size_t at)
{
    if (r->table != NULL)
        return rule_ranked(r->table, left, right);
    return rule_scored(r->scores, r->text + at, (size_t)left_len + right_len);
}

/* ------------------------------------------------------------------------------------ short words
 */

struct short_symbol {
    uint32_t id, at;     /* at: where its text begins; it ends where the next one's begins */
    uint32_t rank, made; /* of the pair with the next symbol */
};

struct short_word {
    struct short_symbol s[SHORT_WORD + 1]; /* [count], and the end of the text */
    size_t count;
};

static inline void rank_pair(const struct rules *r, struct short_word *w, size_t i)
{
    struct short_symbol *s = &w->s[i];
    s->rank = NO_RANK;
    if (i + 1 >= w->count)
        return;
    struct made m = rule(r, s[0].id, s[1].at - s[0].at, s[1].id, s[2].at - s[1].at, s[0].at);
    s->rank = m.rank;
    s->made = m.id;
}

static inline void merge_short(const struct rules *r, struct mtr_bpe_work *work)
{
    struct short_word w; /* not cleared: most words are far shorter */
    uint32_t at = 0;
    w.count = work->count;
    for (size_t i = 0; i < work->count; i++) {
        w.s[i].id = work->symbols[i].id;
        w.s[i].at = at;
        at += work->symbols[i].len;
    }
    w.s[w.count].at = at;
    for (size_t i = 0; i < work->count; i++)
        rank_pair(r, &w, i);
    while (w.count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < w.count; i++)
            best = w.s[i].rank < w.s[best].rank ? i : best;
        if (w.s[best].rank == NO_RANK)
            break;
        w.s[best].id = w.s[best].made;
        w.count--;
        for (size_t i = best + 1; i <= w.count; i++)
            w.s[i] = w.s[i + 1];
        rank_pair(r, &w, best);
        if (best > 0)
            rank_pair(r, &w, best - 1);
    }
    for (size_t i = 0; i < w.count; i++)
        work->symbols[i] = (struct mtr_bpe_symbol){w.s[i].id, w.s[i + 1].at - w.s[i].at};
    work->count = w.count;
}

/* ------------------------------------------------------------------------------------- long words
 */

#define ARITY 4 /* of the heap: shallow, and a node's children share a cache line or two */

static void sift_down(uint64_t *heap, size_t count, size_t at)
{
    uint64_t key = heap[at];
    for (;;) {
        size_t first = at * ARITY + 1, best = first;
        if (first >= count)
            break;
        for (size_t i = first + 1; i < first + ARITY && i < count; i++)
            best = heap[i] < heap[best] ? i : best;
        if (heap[best] >= key)
            break;
        heap[at] = heap[best];
        at = best;
    }
    heap[at] = key;
}

static bool heap_push(struct mtr_bpe_work *w, uint64_t key)
{
    if (!mtr_grow((void **)&w->heap, &w->heap_cap, w->heap_count + 1, sizeof key))
        return false;
    size_t at = w->heap_count++;
    while (at > 0 && w->heap[(at - 1) / ARITY] > key) {
        w->heap[at] = w->heap[(at - 1) / ARITY];
        at = (at - 1) / ARITY;
    }
    w->heap[at] = key;
    return true;
}

static uint64_t heap_pop(struct mtr_bpe_work *w)
{
    uint64_t top = w->heap[0];
    w->heap[0] = w->heap[--w->heap_count];
    if (w->heap_count > 0)
        sift_down(w->heap, w->heap_count, 0);
    return top;
}

/* The text offset of a node is kept while it lives: nodes are numbered by symbols, so that it needs
 * a place of its own only where the rules read text. */
static inline void rank_node(const struct rules *r, struct mtr_bpe_node *nodes, uint32_t i,
                             const uint32_t *offsets)
{
    struct mtr_bpe_node *n = &nodes[i];
    n->rank = NO_RANK;
    if (n->next == NOWHERE)
        return;
    const struct mtr_bpe_node *right = &nodes[n->next];
    struct made m = rule(r, n->id, n->len, right->id, right->len, offsets != NULL ? offsets[i] : 0);
    n->rank = m.rank;
    n->made = m.id;
}

/* Nodes from symbols, with every first candidate in the heap. */
static inline bool start_long(const struct rules *r, struct mtr_bpe_work *w,
                              const uint32_t *offsets)
{
    size_t n = w->count;
    if (n >= NOWHERE || !mtr_grow((void **)&w->nodes, &w->node_cap, n, sizeof *w->nodes) ||
        !mtr_grow((void **)&w->heap, &w->heap_cap, n, sizeof *w->heap))
        return false;
    for (size_t i = 0; i < n; i++)
        w->nodes[i] = (struct mtr_bpe_node){
            .id = w->symbols[i].id,
            .len = w->symbols[i].len,
            .previous = i > 0 ? (uint32_t)i - 1 : NOWHERE,
            .next = i + 1 < n ? (uint32_t)i + 1 : NOWHERE,
        };
    w->heap_count = 0;
    for (uint32_t i = 0; i < n; i++) {
        rank_node(r, w->nodes, i, offsets);
        if (w->nodes[i].rank != NO_RANK)
            w->heap[w->heap_count++] = (uint64_t)w->nodes[i].rank << 32 | i;
    }
    for (size_t i = w->heap_count / ARITY + 1; i-- > 0;)
        if (i < w->heap_count)
            sift_down(w->heap, w->heap_count, i);
    return true;
}

/* Merges node i with its right neighbour. */
static inline bool merge_node(const struct rules *r, struct mtr_bpe_work *w, uint32_t i,
                              const uint32_t *offsets)
{
    struct mtr_bpe_node *n = &w->nodes[i], *right = &w->nodes[n->next];
    n->id = n->made;
    n->len += right->len;
    right->rank = NO_RANK; /* its candidates are void */
    n->next = right->next;
    if (n->next != NOWHERE)
        w->nodes[n->next].previous = i;
    rank_node(r, w->nodes, i, offsets);
    if (n->rank != NO_RANK && !heap_push(w, (uint64_t)n->rank << 32 | i))
        return false;
    if (n->previous == NOWHERE)
        return true;
    rank_node(r, w->nodes, n->previous, offsets);
    uint32_t rank = w->nodes[n->previous].rank;
    return rank == NO_RANK || heap_push(w, (uint64_t)rank << 32 | n->previous);
}

static inline bool merge_long(const struct rules *r, struct mtr_bpe_work *w,
                              const uint32_t *offsets)
{
    if (!start_long(r, w, offsets))
        return false;
    while (w->heap_count > 0) {
        uint64_t top = heap_pop(w);
        uint32_t i = (uint32_t)top;
        if (w->nodes[i].rank == top >> 32 && !merge_node(r, w, i, offsets))
            return false;
    }
    w->count = 0;
    for (uint32_t i = 0; i != NOWHERE; i = w->nodes[i].next)
        w->symbols[w->count++] = (struct mtr_bpe_symbol){w->nodes[i].id, w->nodes[i].len};
    return true;
}

bool mtr_bpe_merge_ranked(const struct mtr_bpe_table *t, struct mtr_bpe_work *w)
{
    struct rules r = {.table = t};
    if (w->count > SHORT_WORD)
        return merge_long(&r, w, NULL);
    if (w->count > 1)
        merge_short(&r, w);
    return true;
}

bool mtr_bpe_merge_scored(const struct mtr_bpe_scores *s, struct mtr_bpe_work *w,
                          struct mtr_str text)
{
    struct rules r = {.scores = s, .text = text.ptr};
    if (w->count <= SHORT_WORD) {
        if (w->count > 1)
            merge_short(&r, w);
        return true;
    }
    uint32_t *offsets = malloc(w->count * sizeof *offsets);
    uint32_t at = 0;
    for (size_t i = 0; offsets != NULL && i < w->count; i++) {
        offsets[i] = at;
        at += w->symbols[i].len;
    }
    bool ok = offsets != NULL && merge_long(&r, w, offsets);
    free(offsets);
    return ok;
}

void mtr_bpe_work_free(struct mtr_bpe_work *w)
{
    free(w->symbols);
    free(w->nodes);
    free(w->heap);
    memset(w, 0, sizeof *w);
}

bool mtr_bpe_push(struct mtr_bpe_work *w, uint32_t id, uint32_t len)
{
    if (w->count == w->cap &&
        !mtr_grow((void **)&w->symbols, &w->cap, w->count + 1, sizeof *w->symbols))
        return false;
    w->symbols[w->count++] = (struct mtr_bpe_symbol){id, len};
    return true;
}
