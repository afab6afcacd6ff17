/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Cutting a step into passes. Rows are taken in order; a pass ends where the next row's logits
 * would not fit. Steps without scoring are one pass, because the scheduler keeps outputs within the
 * limit; a scored prompt of 900 tokens with room for 128 logits takes eight.
 */
#include "worker/exec/executor.h"

/* How many of the lane's rows from `row` on fit when `room` logits do. */
static uint32_t rows_that_fit(const struct mtr_lane *l, uint32_t row, uint32_t room)
{
    uint32_t silent = l->count - mtr_lane_logit_rows(l); /* rows before the first logits */
    uint32_t left = l->count - row;
    uint32_t fit = (row < silent ? silent - row : 0) + room;
    return left < fit ? left : fit;
}

static uint32_t logits_among(const struct mtr_lane *l, uint32_t row, uint32_t count)
{
    uint32_t silent = l->count - mtr_lane_logit_rows(l);
    uint32_t from = row > silent ? row : silent;
    return row + count > from ? row + count - from : 0;
}

static void add_segment(struct mtr_pass *pass, const struct mtr_lane *l, uint32_t lane,
                        uint32_t row, uint32_t count)
{
    uint32_t outputs = logits_among(l, row, count);
    pass->segments[pass->segment_count++] =
        (struct mtr_segment){.lane = lane, .first = row, .count = count, .outputs = outputs};
    pass->tokens += count;
    pass->outputs += outputs;
    pass->decode = pass->decode && outputs == count && !l->score;
}

bool mtr_exec_next_pass(const struct mtr_exec *e, const struct mtr_step_plan *plan,
                        struct mtr_cursor *at, struct mtr_pass *pass)
{
    *pass = (struct mtr_pass){.segments = e->segments, .decode = true};
    while (at->lane < plan->lane_count) {
        const struct mtr_lane *l = &plan->lanes[at->lane];
        uint32_t room = e->plan->limits.max_step_outputs - pass->outputs;
        uint32_t count = rows_that_fit(l, at->row, room);
        if (count == 0)
            break;
        add_segment(pass, l, at->lane, at->row, count);
        at->row += count;
        if (at->row < l->count)
            break;
        *at = (struct mtr_cursor){.lane = at->lane + 1};
    }
    return pass->segment_count > 0;
}
