/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A matrix as the copy engine of a device sees it (TMA: CUtensorMap of the CUDA driver API).
 * Opaque; the backend's table makes them, classes without such an engine leave them zero.
 */
#ifndef MTR_ARGS_TENSOR_MAP_H
#define MTR_ARGS_TENSOR_MAP_H

#include <stdint.h>

#define MTR_TENSOR_MAP_COLS 64 /* of the boxes that bf16 matrices are copied in: 128 bytes */

struct mtr_tensor_map {
    uint64_t opaque[16];
} __attribute__((aligned(64)));

#endif
