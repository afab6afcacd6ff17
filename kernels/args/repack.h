/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Lays a matrix, or its scales by group, out as one kernel point wants to read it, once, when it is
 * loaded. The number of bytes a block keeps; rows and columns are padded to multiples of the
 * point's repack_rows and repack_cols with blocks worth zero. Grid: tiles of repack_rows rows.
 */
#ifndef MTR_ARGS_REPACK_H
#define MTR_ARGS_REPACK_H

#include <stdint.h>

struct mtr_repack_args {
    const void *src; /* [n, k] as in the file */
    void *dst;       /* [n rounded up, k rounded up] in the point's layout */
    uint32_t n;
    uint32_t k;
};

#endif
