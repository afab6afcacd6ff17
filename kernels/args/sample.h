/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Choosing tokens on the device. Function "argmax": tokens[r] = the index of the largest of row r's
 * logits, the lowest of equals, NaN never; 0 where all are NaN or -infinity. A lane's last output
 * also becomes the last token of the lane's slot, which the embedding of the next step reads. Grid:
 * blocks of MTR_SAMPLE_THREADS, a multiple of MTR_SAMPLE_SPLIT. On devices so many neighbours look
 * at a row together, where the grid has as many for each row.
 *
 * Function "sample": the same for rows whose `inverse` is 0. The others are drawn as
 * worker/exec/sampler.h says from steps 3 to 8, top_n_sigma left out, to the same token: token i
 * weighs round(exp(s) 2^30), s = (logit - max) * inverse, the order is s descending, then id.
 */
#ifndef MTR_ARGS_SAMPLE_H
#define MTR_ARGS_SAMPLE_H

#include "kernels/args/step.h"

#define MTR_SAMPLE_THREADS 1024
#define MTR_SAMPLE_SPLIT   8

/* How a row's token is drawn. */
struct mtr_sample_row {
    float inverse;     /* 1 / temperature; 0: the largest logit */
    float top_p;       /* 1: off */
    float least;       /* logarithm of min_p; -infinity: off */
    uint32_t top_k;    /* 0: off */
    uint32_t fraction; /* of the weight that is left, in 2^-24: where the draw falls */
};

#define MTR_SAMPLE_WEIGHT 1073741824.0f /* of the largest: 2^30 */

struct mtr_sample_args {
    const struct mtr_step_view *step;
    const float *logits;  /* [outputs, stride] */
    int32_t *tokens;      /* [outputs] */
    int32_t *last_tokens; /* [slots] */
    uint32_t vocab;       /* of each row, so many count */
    uint32_t stride;      /* elements from row to row */
};

#endif
