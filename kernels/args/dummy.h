/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Random weights, byte for byte the same on every class (Philox: common/base/philox.h).
 *
 *   dummy_f32, dummy_f16, dummy_bf16
 *       element e = offset + range * (u - 1/2), where u in [0, 1) is the upper 24 bits of word e %
 * 4 of philox(seed, e / 4, 0); every operation is rounded to f32, the result to the format
 *   dummy_blocks
 *       bytes [16 j, 16 j + 16) of block n are philox(seed, n, 16 j); then the f16 numbers named
 *       below are put in their places
 *   dummy_bytes
 *       byte e is byte e % 16 of philox(seed, e / 16, 0), and byte_mask, or byte_bits
 *
 * Grid: tiles of MTR_DUMMY_TILE groups of four elements, or pieces of 16 bytes; blocks take further
 * tiles where there are more. MTR_DUMMY_THREADS threads.
 */
#ifndef MTR_ARGS_DUMMY_H
#define MTR_ARGS_DUMMY_H

#include <stdint.h>

#define MTR_DUMMY_TILE    4096
#define MTR_DUMMY_THREADS 256
#define MTR_DUMMY_PIECE   16 /* bytes of a block that one number makes */

struct mtr_dummy_args {
    void *dst; /* of element or block `first`, aligned to 16 bytes where `first` is 0 */
    uint64_t seed;
    uint64_t first, count; /* elements; of dummy_blocks: blocks; of dummy_bytes: bytes */
    uint64_t items;        /* groups that hold them (of elements divisible by 4); or all pieces */
    float offset, range;
    uint32_t block_bytes, block_pieces;
    uint32_t scale_count;
    uint16_t scale_at[2]; /* even offsets in a block */
    uint16_t scale[2];    /* f16 */
    uint8_t byte_mask, byte_bits;
};

#endif
