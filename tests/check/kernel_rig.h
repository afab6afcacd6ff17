/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One launch on two backends: the host class, which is the reference, and the class that is
 * checked.
 *
 * A case is a launch with its buffers, weights and cache, built by the functions below in the form
 * of a plan with one launch, so that the launchers of worker/ops start it as they would in a
 * worker. All contents are random numbers of the case's seed, rounded to what the checked class
 * holds, so that both sides have equal inputs. What is not written is poisoned: outputs, the rows
 * of inputs beyond the last, tokens of the cache beyond a sequence's end, block ids that nobody may
 * read.
 *
 * Errors stick: after the first (rig->err) everything is passed over, so a case is built without
 * looking at each step.
 */
#ifndef MTR_CHECK_KERNEL_RIG_H
#define MTR_CHECK_KERNEL_RIG_H

#include "common/circuit/rules.h"
#include "worker/backend/backend.h"
#include "worker/ops/ops.h"

#define RIG_BUFFERS   8
#define RIG_WEIGHTS   16 /* a matrix, its bias, its scales of both levels, of four parts */
#define RIG_SEQUENCES 8
#define RIG_SPARE     9 /* rows of each buffer that no step has */

enum rig_side_name { RIG_HOST, RIG_SUBJECT, RIG_SIDES };

/* What a step has of one sequence. */
struct rig_sequence {
    uint32_t start, count; /* positions [start, start + count) */
};

/* How the rows of a step are cut into lanes: the result must not depend on it. */
enum rig_lanes { RIG_WHOLE, RIG_SINGLE, RIG_HALVES };

/* One way to run a case. */
struct rig_variant {
    const char *name;
    int shape; /* of the point alone, or -1: as the launcher chooses */
    enum rig_lanes lanes;
    uint32_t rows;       /* only so many rows of the step; 0: all */
    uint32_t extra;      /* rows that the grid covers beyond those that there are */
    uint32_t processors; /* that the launcher believes in; 0: the device's */
};

struct rig_buffer {
    bool output;
    float *values; /* [capacity, cols]: what is uploaded before each run; NULL in bulk */
};

struct rig_side {
    struct mtr_backend *backend;
    const struct mtr_hardware *hardware;
    struct mtr_device_info info;
    struct mtr_plan plan;
    struct mtr_launch launch;
    struct mtr_plan_buffer buffers[RIG_BUFFERS];
    struct mtr_plan_weight weights[RIG_WEIGHTS];
    void *buffer_at[RIG_BUFFERS];
    void *weight_at[RIG_WEIGHTS];
    struct mtr_op_cache cache;
    float *constant_at[1];
    uint8_t *view; /* step view and its arrays */
    void *scratch;
    uint64_t scratch_bytes;
};

/* What a run left in one output, or in the cache. */
struct rig_part {
    uint8_t *bytes;             /* [rows, row_bytes] as it stands in memory */
    float *values;              /* [rows, cols] */
    uint32_t rows, cols, valid; /* valid: rows that the run was to write, all of a cache */
    size_t row_bytes;
    bool poisoned; /* the others were NaN before the run */
};

struct rig_result {
    struct rig_part parts[RIG_BUFFERS + 2];
    uint32_t count;
};

struct rig {
    struct rig_side sides[RIG_SIDES];
    struct rig_buffer buffers[RIG_BUFFERS];
    struct mtr_cache_group group;
    struct mtr_plan_cache plan_cache;
    struct mtr_plan_constant constant;
    float *cache_values[2]; /* K and V; NULL in bulk */
    uint64_t cache_elements;
    int32_t *table; /* [sequences, stride] */
    uint32_t table_stride;
    bool cache_is_output;
    struct rig_sequence sequences[RIG_SEQUENCES];
    uint32_t sequence_count;
    uint32_t rows, outputs; /* of the step, whole */
    uint32_t vocab;
    uint64_t seed;
    bool bulk; /* for timing: contents are made in pieces, the host side stays empty */
    struct {
        enum rig_side_name side;
        void *at;
    } owned[128];
    uint32_t owned_count;
    struct mtr_error err;
};

/* The subject may be the host class itself. MTR_NOT_FOUND: there is no such device. */
bool rig_open(struct rig *r, const char *hardware, struct mtr_error *err);
void rig_close(struct rig *r);

/* A new case for a point of the subject's class. The host's point of the same name is its twin. */
void rig_begin(struct rig *r, const struct mtr_family *family, const struct mtr_point *point,
               uint64_t seed, const struct rig_sequence *sequences, uint32_t sequence_count);
void rig_end(struct rig *r);

/* ---- building: indices are those of the plan ---- */

/* Buffers are in the activations' format, or with `plain` in f32; inputs random in [-size, size).
 */
uint16_t rig_input(struct rig *r, enum mtr_rows rows, uint32_t cols, float size, bool plain);
uint16_t rig_output(struct rig *r, enum mtr_rows rows, uint32_t cols, bool plain);
uint16_t rig_in_place(struct rig *r, enum mtr_rows rows, uint32_t cols, float size); /* both */
/* Of a weight as a point reads it. */
uint64_t rig_weight_bytes(const struct mtr_point *point, const struct mtr_plan_weight *w);
/* With scales in tensors of their own where the subject's point has such. */
uint16_t rig_matrix(struct rig *r, enum mtr_format format, uint32_t rows, uint32_t cols);
uint16_t rig_vector(struct rig *r, uint32_t count, float low, float high);
void rig_cache(struct rig *r, uint32_t kv_heads, uint32_t head_dim, uint32_t window, bool output);
void rig_constant(struct rig *r, const float *values, uint32_t count);
void rig_param(struct rig *r, enum mtr_param name, double value);
/* The launch's slots; to be filled on both sides alike. */
void rig_slots(struct rig *r, enum mtr_rows rows, const uint16_t *in, uint32_t in_count,
               const uint16_t *out, uint32_t out_count, const uint16_t *weights,
               uint32_t weight_count);

float rig_random(struct rig *r); /* in [-1, 1) */
uint32_t rig_below(struct rig *r, uint32_t limit);

/* ---- running ---- */

/* Everything as it was built, then the launch, then what it left. The result is the caller's. */
void rig_run(struct rig *r, enum rig_side_name side, const struct rig_variant *v,
             struct rig_result *out);
void rig_result_free(struct rig_result *result);

/* For launches by hand: everything as it was built, and the context for the launchers. */
void rig_prepare(struct rig *r, enum rig_side_name side, const struct rig_variant *v,
                 struct mtr_op_context *context);

/* Rows of a kind in the whole step. */
uint32_t rig_rows(const struct rig *r, enum mtr_rows rows);

/* Device memory of a side, filled from `data`, or if that is NULL with 0; rig_end gives it back. */
void *rig_memory(struct rig *r, enum rig_side_name side, const void *data, size_t bytes);

#endif
