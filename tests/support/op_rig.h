/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One launch on the mock backend: the tiny model's tables, addresses that are only compared, and
 * the arguments that came out.
 */
#ifndef MTR_SUPPORT_OP_RIG_H
#define MTR_SUPPORT_OP_RIG_H

#include "tests/support/tiny_model.h"
#include "worker/backend/mock/mock.h"
#include "worker/ops/ops.h"

#define OP_RIG_BUFFERS 12

struct op_rig {
    struct tiny_model model;
    struct mtr_op_context context;
    void *buffers[OP_RIG_BUFFERS];
    struct mtr_op_cache caches[TINY_LAYERS];
    float *constants[1];
    int32_t output_rows[1];
    struct mtr_error err;
};

/* 40 tokens of 3 lanes, 2 outputs. */
void op_rig_open(struct op_rig *r);
void op_rig_close(struct op_rig *r);

/* Resolves and runs a launch; the one call that the mock saw. */
const struct mtr_mock_call *op_rig_run(struct op_rig *r, const struct mtr_launch *l);

/* The first launch of the model's list whose function begins with this name. */
struct mtr_launch op_rig_launch(const struct op_rig *r, const char *function);

#endif
