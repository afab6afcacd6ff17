/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * safetensors: u64 header length, a JSON object {name: {dtype, shape, data_offsets}}, then data.
 *
 * As the format demands: the header begins with '{' and may be padded with spaces, is at most
 * 100,000,000 bytes; data_offsets [begin, end) count from the end of the header, cover the rest of
 * the file without hole or overlap, and end - begin is what dtype and shape say.
 *
 * Source: the format description in the README of huggingface/safetensors.
 */
#ifndef MTR_CHECKPOINT_SAFETENSORS_H
#define MTR_CHECKPOINT_SAFETENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/str.h"
#include "common/checkpoint/checkpoint.h"

#define MTR_SAFETENSORS_MAX_HEADER_BYTES 100000000u
#define MTR_SAFETENSORS_MAX_NAME_BYTES   1024

struct mtr_safetensors {
    struct mtr_tensor *tensors; /* [tensor_count] in the order of the header; file is 0 */
    uint32_t tensor_count;
};

/* Reads the header of a whole file in memory; names are copied into the arena. The message does not
 * name the file: the caller prefixes it. */
bool mtr_safetensors_parse(struct mtr_arena *arena, struct mtr_str bytes,
                           struct mtr_safetensors *out, struct mtr_error *err);

#endif
