/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Checks that both kinds of file share, on tensors as their headers describe them. Private to the
 * room.
 */
#ifndef MTR_CHECKPOINT_LISTING_H
#define MTR_CHECKPOINT_LISTING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/checkpoint/checkpoint.h"

/* A name from a file as it may stand in a message: one line, at most this long. */
#define MTR_QUOTED_BYTES 96
const char *mtr_quoted(struct mtr_str name, char out[MTR_QUOTED_BYTES]);

/* A name that can be shown and looked up: 1..max bytes of UTF-8 without control characters. */
bool mtr_name_check(struct mtr_str name, size_t max_bytes, struct mtr_error *err);

/* Sets t->bytes from t->format, t->rank and t->shape. False, with the reason, when the innermost
 * dimension is no whole number of blocks or the product does not fit into 62 bits. */
bool mtr_listing_size(struct mtr_tensor *t, struct mtr_error *err);

enum mtr_listing_holes { MTR_HOLES_ALLOWED, MTR_HOLES_REFUSED };

/* Refuses tensors of one file that leave [begin, end), overlap, or (if asked) leave bytes of it to
 * no tensor. */
bool mtr_listing_layout(const struct mtr_tensor *t, uint32_t count, uint64_t begin, uint64_t end,
                        enum mtr_listing_holes holes, struct mtr_error *err);

/* The indices of t [count], sorted by name, in the arena. NULL when memory is out. */
uint32_t *mtr_listing_sort(struct mtr_arena *arena, const struct mtr_tensor *t, uint32_t count);

/* Order of names: bytes first, then length. */
int mtr_str_order(struct mtr_str a, struct mtr_str b);

#endif
