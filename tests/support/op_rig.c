/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tests/support/op_rig.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static char places[OP_RIG_BUFFERS + 2 * TINY_LAYERS + 2]; /* addresses */

void op_rig_open(struct op_rig *r)
{
    *r = (struct op_rig){0};
    tiny_model_init(&r->model,
                    (struct mtr_plan_limits){.max_step_tokens = 64,
                                             .max_step_outputs = 8,
                                             .max_lanes = 4,
                                             .max_sequence_tokens = 128},
                    MTR_F32);
    char *place = places;
    for (uint32_t i = 0; i < OP_RIG_BUFFERS; i++)
        r->buffers[i] = place++;
    for (uint32_t i = 0; i < TINY_LAYERS; i++) {
        r->caches[i].k = place++;
        r->caches[i].v = place++;
        r->caches[i].blocks = 8;
    }
    r->constants[0] = r->model.inv_freq;
    r->context = (struct mtr_op_context){
        .backend = mtr_mock_backend_create(),
        .plan = &r->model.plan,
        .step = (const struct mtr_step_view *)place,
        .output_rows = r->output_rows,
        .rows = {[MTR_ROWS_TOKENS] = 40, [MTR_ROWS_OUTPUTS] = 2, [MTR_ROWS_LANES] = 3},
        .buffers = r->buffers,
        .weights = r->model.addresses,
        .caches = r->caches,
        .constants = r->constants,
    };
    ck_assert_ptr_nonnull(r->context.backend);
}

void op_rig_close(struct op_rig *r)
{
    r->context.backend->ops->destroy(r->context.backend);
    tiny_model_free(&r->model);
}

const struct mtr_mock_call *op_rig_run(struct op_rig *r, const struct mtr_launch *l)
{
    struct mtr_resolved_op op;
    struct mtr_backend *b = r->context.backend;
    mtr_mock_forget(b);
    ck_assert_msg(mtr_op_resolve(&op, b, &r->model.plan, l, &r->err), "%s", r->err.message);
    ck_assert_msg(mtr_op_run(&r->context, &op, &r->err), "%s", r->err.message);
    ck_assert_uint_eq(mtr_mock_call_count(b), 1);
    const struct mtr_mock_call *call = mtr_mock_call(b, 0);
    ck_assert_int_eq(call->kind, MTR_MOCK_LAUNCH);
    ck_assert_str_eq(call->function, l->point->function);
    return call;
}

struct mtr_launch op_rig_launch(const struct op_rig *r, const char *function)
{
    const struct mtr_launch_list *list = &r->model.plan.lists[MTR_MODE_MIXED];
    for (uint32_t i = 0; i < list->count; i++)
        if (strncmp(list->launches[i].point->function, function, strlen(function)) == 0)
            return list->launches[i];
    ck_abort_msg("no launch of %s", function);
    return (struct mtr_launch){0};
}
