/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The trie is built from the sorted vocabulary, level by level: a node is a stretch of sorted
 * strings that share their first `depth` bytes, and its children are the stretches into which the
 * next byte divides it. The children of a node stand side by side.
 */
#include "broker/text/unigram.h"

#include <stdlib.h>
#include <string.h>

#include "broker/text/unicode.h"
#include "common/base/buf.h"

#define UNKNOWN_PENALTY 10.0

struct sorted {
    const char *ptr;
    uint32_t len, id;
};

struct stretch { /* of sorted strings, beside the node of the same index */
    uint32_t first, last, depth;
};

static int by_bytes(const void *a, const void *b)
{
    const struct sorted *x = a, *y = b;
    int order = memcmp(x->ptr, y->ptr, x->len < y->len ? x->len : y->len);
    if (order != 0)
        return order;
    return x->len != y->len ? (x->len < y->len ? -1 : 1) : x->id < y->id ? -1 : x->id > y->id;
}

static bool add_node(struct mtr_unigram *u, struct stretch **stretches, size_t *cap, uint8_t byte,
                     struct stretch s)
{
    if (!mtr_grow((void **)&u->nodes, &u->node_cap, u->node_count + 1, sizeof *u->nodes) ||
        !mtr_grow((void **)stretches, cap, u->node_count + 1, sizeof **stretches))
        return false;
    u->nodes[u->node_count] = (struct mtr_trie_node){.id = MTR_TOKEN_NONE, .byte = byte};
    (*stretches)[u->node_count++] = s;
    return true;
}

/* Divides node n: strings that end here give it its id, the others become children. */
static bool divide(struct mtr_unigram *u, const struct sorted *sorted, struct stretch **stretches,
                   size_t *cap, size_t n)
{
    struct stretch s = (*stretches)[n];
    uint32_t at = s.first;
    for (; at < s.last && sorted[at].len == s.depth; at++)
        u->nodes[n].id = sorted[at].id;
    u->nodes[n].first_child = (uint32_t)u->node_count;
    while (at < s.last) {
        uint8_t byte = (uint8_t)sorted[at].ptr[s.depth];
        uint32_t end = at + 1;
        while (end < s.last && (uint8_t)sorted[end].ptr[s.depth] == byte)
            end++;
        if (!add_node(u, stretches, cap, byte, (struct stretch){at, end, s.depth + 1}))
            return false;
        u->nodes[n].child_count++;
        at = end;
    }
    return true;
}

static bool build_trie(struct mtr_unigram *u, const struct sorted *sorted, uint32_t count)
{
    struct stretch *stretches = NULL;
    size_t cap = 0;
    bool ok = add_node(u, &stretches, &cap, 0, (struct stretch){0, count, 0});
    for (size_t n = 0; ok && n < u->node_count; n++)
        ok = divide(u, sorted, &stretches, &cap, n);
    free(stretches);
    return ok;
}

bool mtr_unigram_init(struct mtr_unigram *u, const struct mtr_vocab *vocab, const double *scores,
                      struct mtr_error *err)
{
    memset(u, 0, sizeof *u);
    u->scores = scores;
    struct sorted *sorted = malloc(((size_t)vocab->size + 1) * sizeof *sorted);
    uint32_t count = 0;
    double lowest = 0;
    for (uint32_t id = 0; sorted != NULL && id < vocab->size; id++) {
        struct mtr_str s = mtr_vocab_get(vocab, id);
        if (s.ptr == NULL)
            continue;
        lowest = count == 0 || scores[id] < lowest ? scores[id] : lowest;
        if (s.len > 0)
            sorted[count++] = (struct sorted){s.ptr, (uint32_t)s.len, id};
    }
    u->unknown_score = lowest - UNKNOWN_PENALTY;
    if (sorted != NULL)
        qsort(sorted, count, sizeof *sorted, by_bytes);
    bool ok = sorted != NULL && build_trie(u, sorted, count);
    free(sorted);
    return ok || mtr_fail(err, MTR_NO_MEMORY, "unigram: out of memory");
}

void mtr_unigram_free(struct mtr_unigram *u)
{
    free(u->nodes);
    memset(u, 0, sizeof *u);
}

static const struct mtr_trie_node *child(const struct mtr_unigram *u, const struct mtr_trie_node *n,
                                         uint8_t byte)
{
    const struct mtr_trie_node *c = u->nodes + n->first_child;
    size_t low = 0, high = n->child_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c[middle].byte < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n->child_count && c[low].byte == byte ? c + low : NULL;
}

/* Offers a token [start, end) to the position where it ends. */
static void offer(struct mtr_unigram_step *steps, size_t start, size_t end, uint32_t id,
                  double score)
{
    double sum = score + steps[start].score;
    if (steps[end].start == UINT32_MAX || sum > steps[end].score)
        steps[end] = (struct mtr_unigram_step){sum, (uint32_t)start, id};
}

/* All tokens that begin at `at`; a character that is none of them itself is an unknown one. */
static void extend(const struct mtr_unigram *u, struct mtr_unigram_step *steps, struct mtr_str text,
                   size_t at)
{
    size_t single = at + (size_t)mtr_utf8_length(text.ptr[at]);
    const struct mtr_trie_node *n = u->nodes;
    bool known = false;
    for (size_t end = at; end < text.len;) {
        n = child(u, n, (uint8_t)text.ptr[end++]);
        if (n == NULL)
            break;
        if (n->id == MTR_TOKEN_NONE)
            continue;
        offer(steps, at, end, n->id, u->scores[n->id]);
        known |= end == single;
    }
    if (!known)
        offer(steps, at, single, MTR_TOKEN_NONE, u->unknown_score);
}

void mtr_unigram_work_free(struct mtr_unigram_work *w)
{
    free(w->steps);
    free(w->ends);
    memset(w, 0, sizeof *w);
}

bool mtr_unigram_split(const struct mtr_unigram *u, struct mtr_unigram_work *w, struct mtr_str text)
{
    w->count = 0;
    if (!mtr_grow((void **)&w->steps, &w->cap, text.len + 1, sizeof *w->steps))
        return false;
    for (size_t i = 0; i <= text.len; i++)
        w->steps[i] = (struct mtr_unigram_step){0, UINT32_MAX, MTR_TOKEN_NONE};
    for (size_t at = 0; at < text.len; at += (size_t)mtr_utf8_length(text.ptr[at]))
        extend(u, w->steps, text, at);
    for (size_t end = text.len; end > 0; end = w->steps[end].start)
        w->count++;
    if (!mtr_grow((void **)&w->ends, &w->end_cap, w->count, sizeof *w->ends))
        return false;
    size_t i = w->count;
    for (size_t end = text.len; end > 0; end = w->steps[end].start)
        w->ends[--i] = (uint32_t)end;
    return true;
}
