/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A worker's plans on their way to results: received, begun, finished, in order.
 *
 * There is room for MTR_PLANS_IN_FLIGHT. A plan begins as soon as the executor lets it, which may
 * be while the one before it runs on the device; a step that has been run finishes before the next
 * one begins, so that its result is not kept back by a backend whose launches do not return before
 * they are done.
 */
#ifndef MTR_SESSION_STEPS_H
#define MTR_SESSION_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/wire/step.h"
#include "worker/exec/exec.h"

/* A plan and the memory in which it lives until its step has finished. */
struct mtr_steps_place {
    struct mtr_arena arena;
    struct mtr_step_plan plan;
    uint64_t waited_ns; /* how long there was no plan before it */
};

struct mtr_steps {
    struct mtr_exec *exec; /* the caller's; NULL before a model is loaded */
    bool (*send)(void *context, const struct mtr_step_result *result, struct mtr_error *err);
    void *context;

    struct mtr_steps_place places[MTR_PLANS_IN_FLIGHT]; /* a ring */
    uint32_t first, count;                              /* of which the executor has some */
    uint64_t last_step;                                 /* taken */
};

void mtr_steps_init(struct mtr_steps *s);
void mtr_steps_free(struct mtr_steps *s);

/* Where the next message is to be unpacked, emptied. Only after mtr_steps_advance(). */
struct mtr_arena *mtr_steps_room(struct mtr_steps *s);

/* Takes a plan that lives in the room. MTR_INVALID when it is not the next one. */
bool mtr_steps_add(struct mtr_steps *s, const struct mtr_step_plan *plan, uint64_t waited_ns,
                   struct mtr_error *err);

/* Begins and finishes what can be; waits for the device only where there is nothing else to do:
 * when all places are taken. What was under way when a plan is refused finishes first. */
bool mtr_steps_advance(struct mtr_steps *s, struct mtr_error *err);

/* Finishes all. */
bool mtr_steps_flush(struct mtr_steps *s, struct mtr_error *err);

#endif
