/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tests/support/exec_rig.h"

#include <check.h>
#include <string.h>

#include "worker/backend/host/host.h"

static void keep_row(void *context, uint64_t sequence, uint32_t position, const float *logits)
{
    struct rig *r = context;
    memcpy(r->logits[sequence][position], logits, sizeof r->logits[0][0]);
    r->seen[sequence][position] = true;
}

void rig_open(struct rig *r, uint32_t max_step_outputs, enum mtr_format cache)
{
    memset(r, 0, sizeof *r);
    tiny_model_init(&r->model,
                    (struct mtr_plan_limits){.max_step_tokens = 200,
                                             .max_step_outputs = max_step_outputs,
                                             .max_lanes = RIG_SLOTS,
                                             .max_sequence_tokens = RIG_TOKENS},
                    cache);
    r->backend = mtr_host_backend_create(&(struct mtr_host_options){.threads = 2}, &r->err);
    ck_assert_msg(r->backend != NULL, "%s", r->err.message);
    struct mtr_exec_options o = {.backend = r->backend,
                                 .plan = &r->model.plan,
                                 .weights = r->model.addresses,
                                 .max_slots = RIG_SLOTS,
                                 .group_blocks = {RIG_SLOTS * RIG_BLOCKS},
                                 .observer = {keep_row, r}};
    r->exec = mtr_exec_create(&o, &r->err);
    ck_assert_msg(r->exec != NULL, "%s", r->err.message);
}

void rig_close(struct rig *r)
{
    mtr_exec_destroy(r->exec);
    r->backend->ops->destroy(r->backend);
    tiny_model_free(&r->model);
}

bool rig_try(struct rig *r, const struct mtr_step_plan *plan)
{
    return mtr_exec_step(r->exec, plan, &r->result, &r->err);
}

void rig_step(struct rig *r, const struct mtr_lane *lanes, uint32_t count)
{
    struct mtr_step_plan plan = {.step = ++r->step, .lane_count = count, .lanes = lanes};
    ck_assert_msg(rig_try(r, &plan), "%s", r->err.message);
}

/* Tables that outlive the call: one a slot, never written again. */
struct mtr_lane rig_lane(uint32_t slot, uint64_t sequence, uint32_t start, const uint32_t *tokens,
                         uint32_t count, uint32_t outputs)
{
    static uint32_t blocks[RIG_SLOTS][RIG_BLOCKS];
    static struct mtr_table_change changes[RIG_SLOTS];
    for (uint32_t i = 0; i < RIG_BLOCKS; i++)
        blocks[slot][i] = slot * RIG_BLOCKS + i;
    changes[slot] = (struct mtr_table_change){.count = RIG_BLOCKS, .blocks = blocks[slot]};
    bool open = start == 0;
    return (struct mtr_lane){.sequence = sequence,
                             .slot = slot,
                             .open = open,
                             .start = start,
                             .count = count,
                             .tokens = tokens,
                             .table_count = open,
                             .tables = &changes[slot],
                             .outputs = outputs};
}

uint32_t rig_token(uint32_t i)
{
    return (i * 37 + i * i * 11 + 5) % TINY_VOCAB;
}

void rig_greedy(struct rig *r, uint32_t slot, uint64_t sequence, uint32_t prompt, uint32_t *tokens,
                uint32_t count)
{
    uint32_t text[RIG_TOKENS];
    for (uint32_t i = 0; i < prompt; i++)
        text[i] = rig_token(i);
    struct mtr_lane lane = rig_lane(slot, sequence, 0, text, prompt, 1);
    for (uint32_t i = 0; i < count; i++) {
        rig_step(r, &lane, 1);
        tokens[i] = r->result.lanes[0].tokens[0];
        lane = rig_lane(slot, sequence, prompt + i, NULL, 1, 1);
    }
}
