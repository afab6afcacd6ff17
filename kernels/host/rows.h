/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the kernels of this directory share: row counts, and the loop over a grid. */
#ifndef MTR_HOST_ROWS_H
#define MTR_HOST_ROWS_H

#include "common/circuit/plan.h"
#include "kernels/args/step.h"
#include "kernels/host/host_kernel.h"

/* Rows of a kind in this step. */
static inline uint32_t mtr_step_rows(const struct mtr_step_view *step, uint32_t kind)
{
    const uint32_t rows[MTR_ROWS_COUNT] = {
        [MTR_ROWS_TOKENS] = step->tokens,
        [MTR_ROWS_OUTPUTS] = step->outputs,
        [MTR_ROWS_PAIRS] = step->pairs,
        [MTR_ROWS_LANES] = step->lanes,
    };
    return kind < MTR_ROWS_COUNT ? rows[kind] : 0;
}

#endif
