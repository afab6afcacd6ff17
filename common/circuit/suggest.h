/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * "Did you mean ...?": the nearest of a list of names, by edit distance.
 */
#ifndef MTR_CIRCUIT_SUGGEST_H
#define MTR_CIRCUIT_SUGGEST_H

#include "common/base/str.h"

#define MTR_SUGGEST_MAX_LEN 63 /* longer names are never suggested, nor suggested for */

/* Edits (insert, delete, replace) from a to b, or `limit` when there are that many or more. */
uint32_t mtr_edit_distance(struct mtr_str a, struct mtr_str b, uint32_t limit);

/* Keeps the better of *best (distance *best_distance) and the candidate. Start with
 * MTR_SUGGEST_LIMIT and NULL; only names within a third of their length are taken. */
#define MTR_SUGGEST_LIMIT 4
void mtr_suggest(struct mtr_str wrong, const char *candidate, const char **best,
                 uint32_t *best_distance);

#endif
