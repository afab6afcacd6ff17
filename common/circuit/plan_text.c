/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The plan as text. Everything that decides what is computed and where it stands is a word of it;
 * reals are printed as the floats that kernels get. Two plans are the same if and only if their
 * texts are.
 */
#include <string.h>

#include "common/circuit/compile.h"
#include "common/circuit/rules.h"

static const char *const row_names[MTR_ROWS_COUNT] = {"tokens", "outputs", "pairs", "lanes"};
static const char *const mode_names[MTR_MODE_COUNT] = {"mixed", "decode"};
static const char *const cache_names[] = {"full", "sliding", "latent", "indexer"};
static const char *const state_names[] = {"conv", "delta", "scan"};
static const char *const param_names[MTR_P_COUNT] = {
    [MTR_P_EPS] = "eps",
    [MTR_P_UNIT_OFFSET] = "unit_offset",
    [MTR_P_HEADS] = "heads",
    [MTR_P_KV_HEADS] = "kv_heads",
    [MTR_P_HEAD_DIM] = "head_dim",
    [MTR_P_VALUE_DIM] = "value_dim",
    [MTR_P_ROTARY_DIM] = "rotary_dim",
    [MTR_P_INTERLEAVED] = "interleaved",
    [MTR_P_ROPE_SCALE] = "rope_scale",
    [MTR_P_ATTN_SCALE] = "attn_scale",
    [MTR_P_WINDOW] = "window",
    [MTR_P_SOFTCAP] = "softcap",
    [MTR_P_ACTIVATION] = "activation",
    [MTR_P_MULTIPLIER] = "multiplier",
    [MTR_P_EXPERTS] = "experts",
    [MTR_P_TOP_K] = "top_k",
    [MTR_P_EPILOGUE] = "epilogue",
    [MTR_P_CLAMP] = "clamp",
    [MTR_P_FIRST] = "first",
    [MTR_P_KERNEL] = "kernel",
    [MTR_P_STRIDE] = "stride",
    [MTR_P_GROUPS] = "groups",
    [MTR_P_TOP_GROUPS] = "top_groups",
    [MTR_P_SCORING] = "scoring",
    [MTR_P_RENORMALIZE] = "renormalize",
    [MTR_P_STATE_DIM] = "state_dim",
    [MTR_P_STREAMS] = "streams",
    [MTR_P_ITERATIONS] = "iterations",
    [MTR_P_GATE_FIRST] = "gate_first",
    [MTR_P_QUERY_BETA] = "query_beta",
    [MTR_P_QUERY_LENGTH] = "query_length",
};

static void put_head(struct mtr_buf *out, const struct mtr_plan *p)
{
    const struct mtr_plan_limits *l = &p->limits;
    mtr_buf_printf(out, "plan %s on %s, precision %s\n", p->circuit, p->hardware, p->precision);
    mtr_buf_printf(out, "model vocab %u hidden %u layers %u context %u parameters %llu\n", p->vocab,
                   p->hidden, p->layers, p->context, (unsigned long long)p->parameters);
    mtr_buf_printf(out, "limits step_tokens %u step_outputs %u lanes %u sequence_tokens %u\n",
                   l->max_step_tokens, l->max_step_outputs, l->max_lanes, l->max_sequence_tokens);
}

static void put_memory(struct mtr_buf *out, const struct mtr_plan *p)
{
    for (uint32_t i = 0; i < p->group_count; i++) {
        const struct mtr_cache_group *g = &p->groups[i];
        mtr_buf_printf(out,
                       "cache %u %s %s %s window %u block %u layers %u kv_heads %u head_dim %u "
                       "block_bytes %llu\n",
                       i, g->name, cache_names[g->kind], mtr_format_info(g->format)->name,
                       g->window, g->block_tokens, g->layers, g->kv_heads, g->head_dim,
                       (unsigned long long)g->block_bytes);
    }
    for (uint32_t i = 0; i < p->state_count; i++)
        mtr_buf_printf(out, "state %u %s layer %u bytes %llu\n", i, state_names[p->states[i].kind],
                       p->states[i].layer, (unsigned long long)p->states[i].slot_bytes);
    for (uint32_t i = 0; i < p->constant_count; i++) {
        mtr_buf_printf(out, "constant %u %s", i, p->constants[i].name);
        for (uint32_t j = 0; j < p->constants[i].count; j++)
            mtr_buf_printf(out, " %.9g", p->constants[i].values[j]);
        mtr_buf_puts(out, "\n");
    }
    mtr_buf_printf(out, "arena %llu logits %u\n", (unsigned long long)p->arena_bytes, p->logits);
    for (uint32_t i = 0; i < p->buffer_count; i++) {
        const struct mtr_plan_buffer *b = &p->buffers[i];
        mtr_buf_printf(out, "buffer %u %s %s x %u %s at %llu\n", i, b->name, row_names[b->rows],
                       b->cols, mtr_format_info(b->format)->name, (unsigned long long)b->offset);
    }
}

static void put_weights(struct mtr_buf *out, const struct mtr_plan *p)
{
    for (uint32_t i = 0; i < p->weight_count; i++) {
        const struct mtr_plan_weight *w = &p->weights[i];
        mtr_buf_printf(out, "weight %u %s [%llu, %llu] %s", i, w->name, (unsigned long long)w->rows,
                       (unsigned long long)w->cols, mtr_format_info(w->format)->name);
        if (w->kernel_format != w->format)
            mtr_buf_printf(out, " as %s", mtr_format_info(w->kernel_format)->name);
        if (w->inverted)
            mtr_buf_puts(out, " inverted");
        if (w->stack > 1)
            mtr_buf_printf(out, " stack %u%s", w->stack, w->apart ? " apart" : "");
        if (w->tensor_rows != w->rows)
            mtr_buf_printf(out, " rows from %u of %llu", w->first_row,
                           (unsigned long long)w->tensor_rows);
        if (w->scale != MTR_NONE)
            mtr_buf_printf(out, " scale %u", w->scale);
        if (w->global_scale != MTR_NONE)
            mtr_buf_printf(out, " global %u", w->global_scale);
        mtr_buf_puts(out, w->tied ? " tied\n" : "\n");
    }
}

static void put_list(struct mtr_buf *out, const char *word, const uint16_t *list, uint32_t count)
{
    if (!count)
        return;
    mtr_buf_printf(out, " %s", word);
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == MTR_NONE)
            mtr_buf_puts(out, " -");
        else
            mtr_buf_printf(out, " %u", list[i]);
}

static void put_index(struct mtr_buf *out, const char *word, uint16_t index)
{
    if (index != MTR_NONE)
        mtr_buf_printf(out, " %s %u", word, index);
}

static void put_launch(struct mtr_buf *out, const struct mtr_launch *l)
{
    if (l->layer == MTR_NONE)
        mtr_buf_puts(out, "  -");
    else
        mtr_buf_printf(out, "  L%u", l->layer);
    mtr_buf_printf(out, " %s.%s %s", l->family->name, l->point->function, row_names[l->rows]);
    put_list(out, "in", l->in, l->in_count);
    put_list(out, "out", l->out, l->out_count);
    put_list(out, "weights", l->weights, l->weight_count);
    put_index(out, "cache", l->cache);
    put_index(out, "state", l->state);
    put_index(out, "constant", l->constant);
    for (uint32_t i = 0; i < l->param_count; i++)
        mtr_buf_printf(out, " %s=%.9g", param_names[l->params[i].name],
                       (double)(float)l->params[i].value);
    mtr_buf_printf(out, " : %s %s\n", l->rule->name, mtr_tag_name(l->rule->tag));
}

/* Each kernel's numerics once: they are part of what the plan computes. */
static void put_numerics(struct mtr_buf *out, const struct mtr_launch_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const struct mtr_launch *l = &list->launches[i];
        bool seen = false;
        for (uint32_t j = 0; j < i && !seen; j++)
            seen = list->launches[j].point == l->point;
        if (!seen)
            mtr_buf_printf(out, "numerics %s.%s: %s\n", l->family->name, l->point->function,
                           l->point->numerics);
    }
}

bool mtr_plan_text(struct mtr_buf *out, const struct mtr_plan *plan)
{
    put_head(out, plan);
    put_memory(out, plan);
    put_weights(out, plan);
    for (uint32_t m = 0; m < MTR_MODE_COUNT; m++) {
        const struct mtr_launch_list *list = &plan->lists[m];
        if (m > 0 && list->launches == plan->lists[0].launches) {
            mtr_buf_printf(out, "list %s as %s\n", mode_names[m], mode_names[0]);
            continue;
        }
        mtr_buf_printf(out, "list %s %u\n", mode_names[m], list->count);
        for (uint32_t i = 0; i < list->count; i++)
            put_launch(out, &list->launches[i]);
        put_numerics(out, list);
    }
    return !out->failed;
}
