/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Storage formats of tensors: how elements stand in memory, and what they are worth.
 *
 * A format is a run of blocks along the innermost dimension; plain formats have blocks of one
 * element. One table (format.c) says block length, bytes, name and dequantizer of each; nothing
 * else in the program switches on a format for its size.
 *
 * Block layouts of the GGUF types are those of ggml's documentation of quantized blocks; the
 * dequantized values are exact float32 arithmetic in the order given there, so that they equal the
 * published reference bit for bit but for the sign of zero.
 */
#ifndef MTR_NUMERIC_FORMAT_H
#define MTR_NUMERIC_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/str.h"

enum mtr_format {
    MTR_F32,
    MTR_F16,
    MTR_BF16,
    MTR_E4M3, /* FP8; its scales are separate tensors, see circuit/ir.h */
    MTR_E5M2,
    MTR_E2M1, /* packed FP4, two a byte, the even index in the low nibble */
    MTR_I8,
    MTR_I32,
    MTR_I64,
    MTR_U8,
    MTR_BOOL,
    MTR_Q4_0, /* 32 elements, 18 bytes */
    MTR_Q4_1, /* 32, 20 */
    MTR_Q5_0, /* 32, 22 */
    MTR_Q5_1, /* 32, 24 */
    MTR_Q8_0, /* 32, 34 */
    MTR_Q4_K, /* 256, 144 */
    MTR_Q5_K, /* 256, 176 */
    MTR_Q6_K, /* 256, 210 */
    MTR_FORMAT_COUNT,
};

struct mtr_format_info {
    const char *name;        /* "bf16", "q4_1" */
    uint32_t block_elements; /* elements a block */
    uint32_t block_bytes;
    bool weight; /* the kernels can read weights of it */

    /* out [blocks * block_elements] f32. NULL for formats whose value needs another tensor. */
    void (*dequantize)(const void *in, float *out, size_t blocks);
};

const struct mtr_format_info *mtr_format_info(enum mtr_format f);
bool mtr_format_parse(struct mtr_str name, enum mtr_format *out);

/* Bytes of `elements` in a row; false when elements is no multiple of the block or it overflows. */
bool mtr_format_row_bytes(enum mtr_format f, uint64_t elements, uint64_t *bytes);

#endif
