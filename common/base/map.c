/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Linear probing: an entry stands at its home slot or in the unbroken run behind it. Removal keeps
 * that invariant by moving back each later entry of the run that the gap would cut off from its
 * home (Knuth, TAOCP 6.4, algorithm R), so a look-up may stop at the first empty slot. Key 0 marks
 * an empty slot; the entry with that key stands beside the table.
 */
#include "common/base/map.h"

#include <stdlib.h>

#include "common/base/hash.h"

#define MIN_CAPACITY 16u

struct mtr_map_entry {
    uint64_t key;
    uint64_t value;
};

static size_t home(const struct mtr_map *m, uint64_t key)
{
    return (size_t)mtr_mix64(key) & (m->capacity - 1);
}

/* The slot that holds key, or the empty slot where it would go. The table is never full. */
static size_t find(const struct mtr_map *m, uint64_t key)
{
    size_t i = home(m, key);
    while (m->entries[i].key && m->entries[i].key != key)
        i = (i + 1) & (m->capacity - 1);
    return i;
}

void mtr_map_free(struct mtr_map *m)
{
    free(m->entries);
    *m = (struct mtr_map){0};
}

static bool grow(struct mtr_map *m)
{
    struct mtr_map wider = *m;
    if (m->capacity > SIZE_MAX / 4)
        return false;
    wider.capacity = m->capacity ? m->capacity * 2 : MIN_CAPACITY;
    wider.entries = calloc(wider.capacity, sizeof *wider.entries);
    if (!wider.entries)
        return false;
    for (size_t i = 0; i < m->capacity; i++)
        if (m->entries[i].key)
            wider.entries[find(&wider, m->entries[i].key)] = m->entries[i];
    free(m->entries);
    *m = wider;
    return true;
}

bool mtr_map_put(struct mtr_map *m, uint64_t key, uint64_t value)
{
    if (key == 0) {
        m->count += !m->has_zero;
        m->has_zero = true;
        m->zero_value = value;
        return true;
    }
    if (m->capacity) {
        size_t i = find(m, key);
        if (m->entries[i].key) {
            m->entries[i].value = value;
            return true;
        }
    }
    if ((m->count + 1) * 4 > m->capacity * 3 && !grow(m))
        return false;
    m->entries[find(m, key)] = (struct mtr_map_entry){key, value};
    m->count++;
    return true;
}

bool mtr_map_get(const struct mtr_map *m, uint64_t key, uint64_t *value)
{
    if (key == 0) {
        if (m->has_zero)
            *value = m->zero_value;
        return m->has_zero;
    }
    if (!m->capacity)
        return false;
    const struct mtr_map_entry *e = &m->entries[find(m, key)];
    if (!e->key)
        return false;
    *value = e->value;
    return true;
}

/* Empties slot `gap` and closes it. */
static void close_gap(struct mtr_map *m, size_t gap)
{
    size_t mask = m->capacity - 1;
    for (size_t i = (gap + 1) & mask; m->entries[i].key; i = (i + 1) & mask) {
        size_t from_home = (i - home(m, m->entries[i].key)) & mask;
        if (from_home >= ((i - gap) & mask)) {
            m->entries[gap] = m->entries[i];
            gap = i;
        }
    }
    m->entries[gap] = (struct mtr_map_entry){0};
}

bool mtr_map_remove(struct mtr_map *m, uint64_t key, uint64_t *value)
{
    uint64_t old;
    if (!mtr_map_get(m, key, &old))
        return false;
    if (value)
        *value = old;
    if (key == 0)
        m->has_zero = false;
    else
        close_gap(m, find(m, key));
    m->count--;
    return true;
}
