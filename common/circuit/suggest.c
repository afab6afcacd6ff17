/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Levenshtein's distance, row by row in a fixed buffer.
 */
#include "common/circuit/suggest.h"

static uint32_t least(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t m = a < b ? a : b;
    return m < c ? m : c;
}

uint32_t mtr_edit_distance(struct mtr_str a, struct mtr_str b, uint32_t limit)
{
    uint32_t row[MTR_SUGGEST_MAX_LEN + 1];
    if (a.len > MTR_SUGGEST_MAX_LEN || b.len > MTR_SUGGEST_MAX_LEN)
        return limit;
    for (uint32_t j = 0; j <= b.len; j++)
        row[j] = j;
    for (uint32_t i = 1; i <= a.len; i++) {
        uint32_t diagonal = row[0];
        row[0] = i;
        for (uint32_t j = 1; j <= b.len; j++) {
            uint32_t above = row[j];
            row[j] = least(above + 1, row[j - 1] + 1, diagonal + (a.ptr[i - 1] != b.ptr[j - 1]));
            diagonal = above;
        }
    }
    return row[b.len] < limit ? row[b.len] : limit;
}

void mtr_suggest(struct mtr_str wrong, const char *candidate, const char **best,
                 uint32_t *best_distance)
{
    uint32_t d = mtr_edit_distance(wrong, mtr_str(candidate), *best_distance);
    if (d < *best_distance && d * 3 <= wrong.len) {
        *best_distance = d;
        *best = candidate;
    }
}
