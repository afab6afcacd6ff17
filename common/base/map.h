/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A hash table from 64-bit keys to 64-bit values (open addressing, linear probing, backward-shift
 * deletion: no tombstones). Values are indices, ids or pointers cast to uintptr_t; the map owns
 * neither. Not thread-safe.
 */
#ifndef MTR_BASE_MAP_H
#define MTR_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mtr_map_entry;

struct mtr_map {
    struct mtr_map_entry *entries; /* [capacity], a power of two, or NULL */
    size_t capacity;
    size_t count;
    bool has_zero; /* the entry of key 0, which the table itself uses for an empty slot */
    uint64_t zero_value;
};

void mtr_map_free(struct mtr_map *m); /* a zeroed struct is an empty map */
bool mtr_map_put(struct mtr_map *m, uint64_t key, uint64_t value); /* replaces; false: no memory */
bool mtr_map_get(const struct mtr_map *m, uint64_t key, uint64_t *value);
bool mtr_map_remove(struct mtr_map *m, uint64_t key, uint64_t *value); /* value may be NULL */

#endif
