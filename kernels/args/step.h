/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What every kernel can know about the step it runs in.
 *
 * One struct in device memory for each step in flight, filled by the executor and read by kernels
 * through a pointer, so that a captured graph replays with new contents. Shared by C and CUDA.
 *
 * A launch argument struct (the other headers of this directory) is the same for every hardware
 * class: a CUDA kernel takes it by value as its only parameter, a host kernel by pointer. All
 * pointers in it are device addresses. Rows are in the order of the lanes.
 */
#ifndef MTR_ARGS_STEP_H
#define MTR_ARGS_STEP_H

#include <stdint.h>

#define MTR_ARGS_GROUPS 8 /* as MTR_MAX_GROUPS */

struct mtr_sample_row;

struct mtr_step_view {
    uint32_t tokens; /* rows of this step */
    uint32_t lanes;
    uint32_t outputs;
    uint32_t max_context;       /* longest lane, end position: bounds history loops */
    uint32_t pairs;             /* tokens x experts of a token */
    const int32_t *token_ids;   /* [tokens]; -1 - slot: the last token sampled in that slot */
    const int32_t *last_tokens; /* [slots] sampled on the device; NULL where none ever is */
    const int32_t *positions;   /* [tokens] absolute */
    const int32_t *token_lanes; /* [tokens] which lane a row belongs to */
    const int32_t *lane_slots;  /* [lanes] */
    const int32_t *lane_rows;   /* [lanes + 1] first row of each lane; the last is tokens */
    const int32_t *lane_starts; /* [lanes] absolute position of the lane's first row */
    const int32_t *output_rows; /* [outputs] row of each output */
    const struct mtr_sample_row *sampling;  /* [outputs] or NULL: kernels/args/sample.h */
    const int32_t *tables[MTR_ARGS_GROUPS]; /* [slots, table_stride] block ids, by group */
    uint32_t table_stride[MTR_ARGS_GROUPS];
};

#endif
