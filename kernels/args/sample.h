/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Choosing tokens on the device. Function "argmax": tokens[r] = the index of the largest of row r's
 * logits, the lowest of equals, NaN never; 0 where all are NaN or -infinity. A lane's last output
 * also becomes the last token of the lane's slot, which the embedding of the next step reads. Grid:
 * rows, one block of MTR_SAMPLE_THREADS each.
 */
#ifndef MTR_ARGS_SAMPLE_H
#define MTR_ARGS_SAMPLE_H

#include "kernels/args/step.h"

#define MTR_SAMPLE_THREADS 1024

struct mtr_sample_args {
    const struct mtr_step_view *step;
    const float *logits;  /* [outputs, stride] */
    int32_t *tokens;      /* [outputs] */
    int32_t *last_tokens; /* [slots] */
    uint32_t vocab;       /* of each row, so many count */
    uint32_t stride;      /* elements from row to row */
};

#endif
