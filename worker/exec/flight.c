/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A step's way through the executor.
 *
 *   begin    check; effects and lanes into tables; view, launches, fetching of what this process
 *            needs, each put on the stream and not waited for
 *   finish   wait for the event behind all of it; choose what is left to choose; the result
 *
 * Flights are a ring: the next one begins in the place of the last but one. What a flight writes
 * while another is running is its own (view, staging, results), or is ordered by the stream
 * (tables, tokens, activations and caches on the device).
 *
 * Of a step whose tokens are all the device's choice everything but the tokens' ids is known as it
 * begins: slots advance at once, and the next step refers to what is pending. Such steps overlap.
 */
#include "worker/exec/executor.h"

static struct mtr_flight *flight_at(struct mtr_exec *e, uint32_t i)
{
    return &e->flights[(e->oldest + i) % MTR_PLANS_IN_FLIGHT];
}

/* Effects and lanes, in the order of the plan. */
static bool apply(struct mtr_exec *e, struct mtr_flight *f, struct mtr_error *err)
{
    const struct mtr_step_plan *plan = f->plan;
    f->staging.used = 0;
    for (uint32_t i = 0; i < plan->effect_count; i++)
        if (!mtr_exec_effect(&e->memory, e->stream, &plan->effects[i], err))
            return false;
    for (uint32_t i = 0; i < plan->lane_count; i++)
        if (!mtr_slots_apply(&e->slots, e->backend, e->stream, &f->staging, &plan->lanes[i], err))
            return false;
    return true;
}

static bool any_chosen(const struct mtr_flight *f)
{
    for (uint32_t i = 0; i < f->row_count; i++)
        if (f->rows[i].chosen)
            return true;
    return false;
}

/* The logits of a pass are used before the next one overwrites them; those of the last, when the
 * step finishes. */
static bool run_passes(struct mtr_exec *e, struct mtr_flight *f, struct mtr_error *err)
{
    struct mtr_cursor at = {0};
    struct mtr_pass pass;
    for (uint32_t passes = 0; mtr_exec_next_pass(e, f->plan, &at, &pass); passes++) {
        if (passes && (!e->backend->ops->stream_wait(e->backend, e->stream, err) ||
                       !mtr_outputs_use(e, f, err)))
            return false;
        f->settles_later = f->settles_later && passes == 0;
        mtr_outputs_list(e, f, &pass);
        if (!mtr_exec_run(e, f, &pass, any_chosen(f), err) || !mtr_outputs_fetch(e, f, err))
            return false;
    }
    return true;
}

static bool settles_later(const struct mtr_exec *e, const struct mtr_flight *f)
{
    for (uint32_t i = 0; i < f->plan->lane_count; i++) {
        const struct mtr_lane *l = &f->plan->lanes[i];
        if (l->score || l->drafts || (l->outputs && f->outputs[i].choice == MTR_CHOICE_HOST))
            return false;
    }
    return !e->observer.row;
}

static bool launch(struct mtr_exec *e, struct mtr_flight *f, struct mtr_error *err)
{
    const struct mtr_backend_ops *ops = e->backend->ops;
    if (!ops->event_record(e->backend, f->first, e->stream, err) || !apply(e, f, err) ||
        !mtr_outputs_begin(e, f, err))
        return false;
    f->row_count = f->fetched = 0;
    f->settles_later = settles_later(e, f);
    return run_passes(e, f, err) && ops->event_record(e->backend, f->last, e->stream, err);
}

/* Whether a lane neither overwrites nor takes over a slot whose newest token has no id yet, but
 * goes on behind it. */
static bool leaves_pending(const struct mtr_exec *e, const struct mtr_lane *l)
{
    const struct mtr_slot *slot = l->slot < e->slots.count ? &e->slots.slots[l->slot] : NULL;
    if (!slot || !slot->pending)
        return true;
    return !l->open && !l->tokens && (uint64_t)l->start + l->count == slot->length;
}

bool mtr_exec_can_begin(const struct mtr_exec *e, const struct mtr_step_plan *plan)
{
    uint64_t rows = 0;
    if (e->in_flight == MTR_PLANS_IN_FLIGHT)
        return false;
    for (uint32_t i = 0; i < e->in_flight; i++)
        if (!e->flights[(e->oldest + i) % MTR_PLANS_IN_FLIGHT].settles_later)
            return false;
    for (uint32_t i = 0; i < plan->lane_count; i++) {
        rows += mtr_lane_logit_rows(&plan->lanes[i]);
        if (!leaves_pending(e, &plan->lanes[i]))
            return false;
    }
    return e->in_flight == 0 || rows <= e->plan->limits.max_step_outputs; /* one pass */
}

bool mtr_exec_begin(struct mtr_exec *e, const struct mtr_step_plan *plan, struct mtr_error *err)
{
    struct mtr_flight *f = flight_at(e, e->in_flight);
    if (!mtr_exec_can_begin(e, plan))
        return mtr_fail(err, MTR_INTERNAL, "step %llu begins before what it needs is there",
                        (unsigned long long)plan->step);
    if (!mtr_exec_check(e, plan, err))
        return false;
    f->plan = plan;
    if (!launch(e, f, err))
        return false;
    e->in_flight++;
    for (uint32_t i = 0; f->settles_later && i < plan->lane_count; i++)
        mtr_slots_advance(&e->slots, &plan->lanes[i]);
    return true;
}

uint32_t mtr_exec_in_flight(const struct mtr_exec *e)
{
    return e->in_flight;
}

bool mtr_exec_done(struct mtr_exec *e, bool *done, struct mtr_error *err)
{
    *done = false;
    return e->in_flight == 0 ||
           e->backend->ops->event_done(e->backend, flight_at(e, 0)->last, done, err);
}

bool mtr_exec_finish(struct mtr_exec *e, struct mtr_step_result *result, struct mtr_error *err)
{
    const struct mtr_backend_ops *ops = e->backend->ops;
    struct mtr_flight *f = flight_at(e, 0);
    if (e->in_flight == 0)
        return mtr_fail(err, MTR_INTERNAL, "no step is in flight");
    *result = (struct mtr_step_result){.step = f->plan->step};
    if (!ops->event_wait(e->backend, f->last, err) || !mtr_outputs_use(e, f, err) ||
        !mtr_outputs_end(e, f, result, err) ||
        !ops->event_elapsed_ns(e->backend, f->first, f->last, &result->device_ns, err))
        return false;
    e->oldest = (e->oldest + 1) % MTR_PLANS_IN_FLIGHT;
    e->in_flight--;
    return true;
}

bool mtr_exec_step(struct mtr_exec *e, const struct mtr_step_plan *plan,
                   struct mtr_step_result *result, struct mtr_error *err)
{
    return mtr_exec_begin(e, plan, err) && mtr_exec_finish(e, result, err);
}
