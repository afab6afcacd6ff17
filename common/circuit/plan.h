/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The plan: the exact list of kernel launches that runs a checkpoint on a hardware class.
 *
 *   config ─config map─► instance ─fuser─► groups ─families of the class─► plan ─► executor
 *
 * A plan is immutable once built and lives in the arena it was built in. It names everything by
 * index: buffers (edges of the circuit that survived fusion), weights (what must be bound), caches
 * and states (memory that outlives a step), constants (tables computed from the configuration). It
 * is pure data: broker, worker and metralectl build the same plan from the same checkpoint, and its
 * digest, a SHA-256 over its canonical text, says so.
 *
 * Rows are symbolic until a step is known:
 *   tokens    one row for each token that the step computes (all lanes, one after the other)
 *   outputs   one row for each token whose logits are wanted
 *   pairs     tokens x experts per token
 *   lanes     one row a lane
 */
#ifndef MTR_CIRCUIT_PLAN_H
#define MTR_CIRCUIT_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/error.h"
#include "common/numeric/format.h"

#define MTR_PLAN_GROUPS 8 /* cache groups of a plan: as MTR_MAX_GROUPS of common/wire/step.h */

/* Recurrent layers: prefill is cut at multiples of this position, and only there may a prompt be
 * picked up again from a snapshot; a multiple of any block. */
#define MTR_PLAN_CHUNK_TOKENS 64

#define MTR_NONE 0xffffu /* "no such index", for all 16-bit indices below */

enum mtr_rows { MTR_ROWS_TOKENS, MTR_ROWS_OUTPUTS, MTR_ROWS_PAIRS, MTR_ROWS_LANES, MTR_ROWS_COUNT };

/* A step with any prefill lane runs the mixed list; one with decode lanes only, the decode list. */
enum mtr_mode { MTR_MODE_MIXED, MTR_MODE_DECODE, MTR_MODE_COUNT };

/* Memory that lives within a step: buffers share the arena as their life spans allow. */
struct mtr_plan_buffer {
    const char *name; /* of the edge, for reports: "L3.mlp.h" */
    enum mtr_rows rows;
    uint32_t cols;
    enum mtr_format format;
    uint64_t row_bytes; /* cols x element size: rows are dense */
    uint64_t offset;    /* in the arena, a multiple of 64 */
};

/* What a tensor of the checkpoint is to its kernels. */
enum mtr_weight_role {
    MTR_WEIGHT_VALUES, /* a matrix or a vector */
    MTR_WEIGHT_SCALES, /* of a matrix: f32 by tensor, channel or block; e4m3 by group */
    MTR_WEIGHT_GLOBAL, /* second level of its scales: one number, f32 */
};

/* A matrix or vector of the checkpoint. The kernel point that reads it was chosen for
 * kernel_format; where that differs from what the file holds, the loader converts (plain formats to
 * f32 or bf16 only; a class keeps its vectors in one format). Scales in tensors of their own
 * are weights too: in no launch's list, but named by the matrix that they belong to. */
struct mtr_plan_weight {
    const char *name;              /* in the checkpoint */
    uint64_t rows;                 /* outputs; 1 for vectors */
    uint64_t cols;                 /* inputs, innermost */
    enum mtr_format format;        /* in the checkpoint */
    enum mtr_format kernel_format; /* in device memory */
    bool tied;                     /* the same tensor is bound by an earlier weight too */
    /* Quantization scales in tensors of their own: indices into weights, or MTR_NONE. */
    uint16_t scale;        /* block, channel or tensor scales */
    uint16_t global_scale; /* second level (NVFP4) */
    uint32_t first_row;    /* a slice of a fused tensor: rows [first_row, first_row + rows) of it */
    uint64_t tensor_rows;  /* rows of the whole tensor */
    enum mtr_weight_role role;
    uint32_t stack; /* matrices one behind the other in `rows`, one an expert; else 1 */
    bool apart;     /* each is a tensor of its own, "{e}" in the name for its number */
    bool inverted;  /* the file holds divisors: in device memory are their inverses */
};

enum mtr_cache_kind { MTR_CACHE_FULL, MTR_CACHE_SLIDING, MTR_CACHE_LATENT, MTR_CACHE_INDEXER };

/* Blocks of one group have one size and one id space; each layer of the group has its own memory
 * for each block. Physical layout of a layer of FULL or SLIDING kind:
 *   K [blocks, kv_heads, block_tokens, head_dim] then V the same.
 * LATENT: [blocks, block_tokens, latent]. */
struct mtr_cache_group {
    const char *name; /* "full", "sliding", ... */
    enum mtr_cache_kind kind;
    enum mtr_format format;
    uint32_t window;       /* SLIDING: tokens that stay visible, else 0 */
    uint32_t block_tokens; /* 16 */
    uint32_t layers;
    uint32_t kv_heads;
    uint32_t head_dim;    /* LATENT: the latent's width, with kv_heads 1 */
    uint64_t block_bytes; /* of one layer, K and V together */
};

/* A layer's share of a group. */
struct mtr_plan_cache {
    uint16_t group;
    uint16_t index; /* among the group's layers */
};

enum mtr_state_kind { MTR_STATE_CONV, MTR_STATE_DELTA, MTR_STATE_SCAN };

/* Per-slot state of a recurrent layer. */
struct mtr_plan_state {
    enum mtr_state_kind kind;
    uint16_t layer;
    uint64_t slot_bytes;
};

/* A table computed from the configuration, uploaded once: inverse frequencies, window functions. */
struct mtr_plan_constant {
    const char *name;
    uint32_t count;
    const float *values; /* [count] */
};

/* Named numbers of a launch. The set is closed; a launcher asks for those it needs. */
enum mtr_param {
    MTR_P_EPS,         /* real */
    MTR_P_UNIT_OFFSET, /* norm weight is 1 + w */
    MTR_P_HEADS,
    MTR_P_KV_HEADS,
    MTR_P_HEAD_DIM,
    MTR_P_VALUE_DIM,
    MTR_P_ROTARY_DIM,
    MTR_P_INTERLEAVED, /* rotary pairs are (2i, 2i+1), not (i, i + dim/2) */
    MTR_P_ROPE_SCALE,  /* real: factor on cos and sin (YaRN, longrope) */
    MTR_P_ATTN_SCALE,  /* real */
    MTR_P_WINDOW,      /* 0: full */
    MTR_P_SOFTCAP,     /* real, 0: off */
    MTR_P_ACTIVATION,  /* enum mtr_activation */
    MTR_P_MULTIPLIER,  /* real: embedding, residual or logit scale */
    MTR_P_EXPERTS,
    MTR_P_TOP_K,
    MTR_P_EPILOGUE, /* enum mtr_epilogue of kernels/args/linear.h */
    MTR_P_CLAMP,    /* real: bound of a gated unit's halves, 0: off */
    MTR_P_FIRST,    /* first column of a slice */
    MTR_P_KERNEL,   /* taps of a convolution */
    MTR_P_STRIDE,   /* tokens pooled into one cache entry */
    MTR_P_GROUPS,
    MTR_P_TOP_GROUPS,
    MTR_P_SCORING, /* enum mtr_scoring: how router logits become scores */
    MTR_P_RENORMALIZE,
    MTR_P_STATE_DIM,
    MTR_P_STREAMS,
    MTR_P_ITERATIONS,
    MTR_P_GATE_FIRST,   /* the gate goes before the norm */
    MTR_P_QUERY_BETA,   /* real: queries times 1 + beta log(1 + position / length) */
    MTR_P_QUERY_LENGTH, /* that length, in tokens; the quotient is rounded down */
    MTR_P_COUNT,
};

enum mtr_activation {
    MTR_ACT_NONE,
    MTR_ACT_SILU,
    MTR_ACT_GELU,
    MTR_ACT_GELU_TANH,
    MTR_ACT_RELU,
    MTR_ACT_RELU2,
    MTR_ACT_SIGMOID,
};

enum mtr_scoring { MTR_SCORE_SOFTMAX, MTR_SCORE_SIGMOID, MTR_SCORE_SQRT_SOFTPLUS };

#define MTR_LAUNCH_IN      6
#define MTR_LAUNCH_OUT     4
#define MTR_LAUNCH_WEIGHTS 8
#define MTR_LAUNCH_PARAMS  12

struct mtr_launch_param {
    enum mtr_param name;
    double value; /* integers are exact */
};

struct mtr_family;      /* kernel family of the class: families.h */
struct mtr_point;       /* one of its points */
struct mtr_fusion_rule; /* rules.h */

struct mtr_launch {
    const struct mtr_family *family;
    const struct mtr_point *point;
    const struct mtr_fusion_rule *rule; /* what made it, for reports */
    uint16_t layer;                     /* MTR_NONE outside layers */
    enum mtr_rows rows;
    uint8_t in_count, out_count, weight_count, param_count;
    uint16_t in[MTR_LAUNCH_IN];           /* buffers */
    uint16_t out[MTR_LAUNCH_OUT];         /* buffers; may equal an input (in place) */
    uint16_t weights[MTR_LAUNCH_WEIGHTS]; /* MTR_NONE where an optional one is absent */
    struct mtr_launch_param params[MTR_LAUNCH_PARAMS];
    uint16_t cache;    /* of caches, or MTR_NONE */
    uint16_t state;    /* of states, or MTR_NONE */
    uint16_t constant; /* of constants, or MTR_NONE */
};

struct mtr_launch_list {
    uint32_t count;
    const struct mtr_launch *launches; /* [count] in order */
};

/* What the plan was made for. */
struct mtr_plan_limits {
    uint32_t max_step_tokens;
    uint32_t max_step_outputs;
    uint32_t max_lanes;
    uint32_t max_sequence_tokens;
};

struct mtr_plan {
    const char *circuit;   /* "llama" */
    const char *hardware;  /* "host" */
    const char *precision; /* "declared" */
    struct mtr_plan_limits limits;

    uint32_t vocab, hidden, layers;
    uint32_t context; /* positions that the model was made for */
    uint32_t top_k;   /* experts of a token: rows of kind PAIRS for each; 1 where there are none */

    uint32_t buffer_count;
    const struct mtr_plan_buffer *buffers;
    uint64_t arena_bytes;
    uint16_t logits; /* buffer [outputs, vocab] f32 */

    uint32_t weight_count;
    const struct mtr_plan_weight *weights;
    uint32_t group_count;
    const struct mtr_cache_group *groups; /* at most MTR_PLAN_GROUPS */
    uint32_t cache_count;
    const struct mtr_plan_cache *caches;
    uint32_t state_count;
    const struct mtr_plan_state *states;
    uint32_t constant_count;
    const struct mtr_plan_constant *constants;

    struct mtr_launch_list lists[MTR_MODE_COUNT];

    uint64_t parameters; /* elements of all weights, tied ones once */
    uint64_t active;     /* of them, those that a token meets: of experts, the chosen ones */
    uint8_t digest[32];
};

/* Tensors of the checkpoint that a weight is made of, and the name of one of them, which is w->name
 * or stands in `room`. */
#define MTR_WEIGHT_NAME_BYTES 320
uint32_t mtr_weight_tensors(const struct mtr_plan_weight *w);
struct mtr_str mtr_weight_tensor(const struct mtr_plan_weight *w, uint32_t expert,
                                 char room[MTR_WEIGHT_NAME_BYTES]);

/* The value of a launch's parameter, or `absent`. */
double mtr_launch_real(const struct mtr_launch *l, enum mtr_param name, double absent);
uint32_t mtr_launch_u32(const struct mtr_launch *l, enum mtr_param name, uint32_t absent);

#endif
