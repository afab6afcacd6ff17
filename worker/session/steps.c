/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Of the `count` places from `first` on, the executor has the first ones, as many as it says are in
 * flight.
 */
#include "worker/session/steps.h"

#define PLAN_BYTES (1u << 30) /* of one unpacked message, at most */

static struct mtr_steps_place *place_at(struct mtr_steps *s, uint32_t i)
{
    return &s->places[(s->first + i) % MTR_PLANS_IN_FLIGHT];
}

void mtr_steps_init(struct mtr_steps *s)
{
    *s = (struct mtr_steps){0};
    for (uint32_t i = 0; i < MTR_PLANS_IN_FLIGHT; i++)
        mtr_arena_init(&s->places[i].arena, PLAN_BYTES);
}

void mtr_steps_free(struct mtr_steps *s)
{
    for (uint32_t i = 0; i < MTR_PLANS_IN_FLIGHT; i++)
        mtr_arena_free(&s->places[i].arena);
}

struct mtr_arena *mtr_steps_room(struct mtr_steps *s)
{
    struct mtr_arena *a = &place_at(s, s->count)->arena;
    mtr_arena_reset(a);
    return a;
}

bool mtr_steps_add(struct mtr_steps *s, const struct mtr_step_plan *plan, uint64_t waited_ns,
                   struct mtr_error *err)
{
    if (plan->step != s->last_step + 1)
        return mtr_fail(err, MTR_INVALID, "step %llu after step %llu",
                        (unsigned long long)plan->step, (unsigned long long)s->last_step);
    struct mtr_steps_place *p = place_at(s, s->count);
    p->plan = *plan;
    p->waited_ns = waited_ns;
    s->last_step = plan->step;
    s->count++;
    return true;
}

static bool finish_one(struct mtr_steps *s, struct mtr_error *err)
{
    struct mtr_step_result result;
    if (!mtr_exec_finish(s->exec, &result, err))
        return false;
    result.wait_ns = place_at(s, 0)->waited_ns;
    s->first = (s->first + 1) % MTR_PLANS_IN_FLIGHT;
    s->count--;
    return s->send(s->context, &result, err);
}

/* The plan that comes next, if it can begin. Refused, it fails behind those that are under way. */
static bool begin_one(struct mtr_steps *s, uint32_t begun, bool *moved, struct mtr_error *err)
{
    const struct mtr_step_plan *plan = &place_at(s, begun)->plan;
    if (!mtr_exec_can_begin(s->exec, plan))
        return true;
    *moved = true;
    if (mtr_exec_begin(s->exec, plan, err))
        return true;
    while (mtr_exec_in_flight(s->exec))
        if (!finish_one(s, NULL))
            break;
    return false;
}

/* One thing that can be done; *moved says whether there was one. */
static bool move(struct mtr_steps *s, bool *moved, struct mtr_error *err)
{
    uint32_t begun = mtr_exec_in_flight(s->exec);
    bool done = false;
    *moved = false;
    if (begun && !mtr_exec_done(s->exec, &done, err))
        return false;
    if (!done && begun < s->count && !begin_one(s, begun, moved, err))
        return false;
    if (*moved || (!done && s->count < MTR_PLANS_IN_FLIGHT))
        return true;
    *moved = true;
    return finish_one(s, err);
}

bool mtr_steps_advance(struct mtr_steps *s, struct mtr_error *err)
{
    for (bool moved = true; moved && s->count;)
        if (!move(s, &moved, err))
            return false;
    return true;
}

bool mtr_steps_flush(struct mtr_steps *s, struct mtr_error *err)
{
    while (s->count) {
        uint32_t begun = mtr_exec_in_flight(s->exec);
        bool moved = false;
        if (begun < s->count && !begin_one(s, begun, &moved, err))
            return false;
        if (!moved && !finish_one(s, err))
            return false;
    }
    return true;
}
