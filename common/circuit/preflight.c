/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two passes: over the plan's weights, marking the tensors that they bind; then over the tensors,
 * for those that nobody marked. Findings are counted by kind; the first few of each kind make the
 * error message, all of them (bounded) the report.
 */
#include "common/circuit/preflight.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define SHOWN 3 /* names of each kind in the error message */

enum kind { MISSING, MISSHAPED, OTHER_FORMAT, EXTRA, KINDS };

static const char *const kind_names[KINDS] = {"missing", "misshaped", "of another format", "extra"};

struct findings {
    uint32_t count[KINDS];
    struct mtr_buf first[KINDS]; /* for the message: "a, b, c" */
    struct mtr_buf *report;
    uint32_t lines;
};

/* A pattern with at most one '*' at each end. */
static const struct {
    const char *pattern, *why;
} ignored[] = {
    {"*rotary_emb.inv_freq", "buffer of a rotary embedding"},
    {"*.attn.masked_bias", "buffer of an attention mask"},
    {"*.input_scale", "activation scale"},
    {"*.input_global_scale", "activation scale"},
    {"*.activation_scale", "activation scale"},
    {"visual.*", "vision tower"},
    {"model.visual.*", "vision tower"},
    {"vision_tower.*", "vision tower"},
    {"model.vision_tower.*", "vision tower"},
    {"vision_model.*", "vision tower"},
    {"model.embed_vision.*", "vision tower"},
    {"multi_modal_projector.*", "vision tower"},
    {"model.multi_modal_projector.*", "vision tower"},
    {"audio_tower.*", "audio tower"},
    {"model.audio_tower.*", "audio tower"},
    {"model.embed_audio.*", "audio tower"},
    {"mtp.*", "draft layers"},
    {"model.mtp.*", "draft layers"},
    {"v.*", "vision tower"},
    {"mm.*", "vision tower"},
};

static bool matches(struct mtr_str name, const char *pattern)
{
    struct mtr_str p = mtr_str(pattern);
    if (p.len && p.ptr[0] == '*')
        return mtr_str_ends(name, mtr_str_sub(p, 1, p.len));
    if (p.len && p.ptr[p.len - 1] == '*')
        return mtr_str_starts(name, mtr_str_sub(p, 0, p.len - 1));
    return mtr_str_equal(name, p);
}

const char *mtr_preflight_ignored(struct mtr_str name)
{
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        if (matches(name, ignored[i].pattern))
            return ignored[i].why;
    return NULL;
}

/* `detail` is printf'd behind the name. */
static void __attribute__((format(printf, 4, 5)))
found(struct findings *f, enum kind kind, struct mtr_str name, const char *detail, ...)
{
    char text[2 * MTR_SHAPE_BYTES + 64];
    va_list args;
    va_start(args, detail);
    vsnprintf(text, sizeof text, detail, args);
    va_end(args);
    int shown = name.len > 100 ? 100 : (int)name.len;
    if (f->count[kind]++ < SHOWN)
        mtr_buf_printf(&f->first[kind], "%s%.*s%s", f->count[kind] > 1 ? ", " : "", shown, name.ptr,
                       text);
    if (f->report && f->lines++ < MTR_PREFLIGHT_MAX_LINES)
        mtr_buf_printf(f->report, "%s: %.*s%s\n", kind_names[kind], (int)name.len, name.ptr, text);
}

static void check_weight(struct findings *f, const struct mtr_plan_weight *w,
                         const struct mtr_tensor *t)
{
    char shape[MTR_SHAPE_BYTES];
    uint64_t rows = (w->tensor_rows ? w->tensor_rows : w->rows) / mtr_weight_tensors(w);
    /* Packed e2m1 is listed as bytes; one scale a row as a column or as a vector. */
    uint64_t packing = w->format == MTR_E2M1 && t->format == MTR_U8 ? 2 : 1;
    uint64_t cols = w->cols == 1 ? 1 : t->rank ? t->shape[t->rank - 1] * packing : 1;
    uint64_t elements = mtr_tensor_elements(t) * packing;
    bool whole = w->first_row <= rows && w->rows / mtr_weight_tensors(w) <= rows - w->first_row;
    bool fits = cols == w->cols && w->cols && elements % w->cols == 0 &&
                elements / w->cols == rows && whole;
    if (!fits && rows == 1)
        found(f, MISSHAPED, t->name, " is %s, expected [%" PRIu64 "]", mtr_tensor_shape(t, shape),
              w->cols);
    else if (!fits)
        found(f, MISSHAPED, t->name, " is %s, expected [%" PRIu64 ", %" PRIu64 "]",
              mtr_tensor_shape(t, shape), rows, w->cols / packing);
    if (t->format != w->format && packing == 1)
        found(f, OTHER_FORMAT, t->name, " is %s, expected %s", mtr_format_info(t->format)->name,
              mtr_format_info(w->format)->name);
}

static bool summarize(struct findings *f, const struct mtr_plan *plan,
                      const struct mtr_checkpoint *ck, struct mtr_error *err)
{
    struct mtr_buf text = {0};
    bool fits = true;
    for (int k = 0; k < KINDS; k++) {
        if (f->count[k] == 0)
            continue;
        mtr_buf_printf(&text, "%s%" PRIu32 " %s (%s%s)", fits ? "" : "; ", f->count[k],
                       kind_names[k], f->first[k].data, f->count[k] > SHOWN ? ", ..." : "");
        fits = false;
    }
    if (!fits)
        mtr_fail(err, MTR_INVALID, "%s: its tensors do not fit circuit %s: %s", ck->path,
                 plan->circuit, text.data ? text.data : "no memory to say how");
    if (f->report && f->lines > MTR_PREFLIGHT_MAX_LINES)
        mtr_buf_printf(f->report, "and %" PRIu32 " more\n", f->lines - MTR_PREFLIGHT_MAX_LINES);
    for (int k = 0; k < KINDS; k++)
        mtr_buf_free(&f->first[k]);
    mtr_buf_free(&text);
    return fits;
}

/* Some publishers store the head of a model beside the embedding that it is tied to. The settings
 * say that it is tied; the second copy is not read. */
static bool second_head(const struct mtr_plan *plan, struct mtr_str name)
{
    bool tied = false;
    for (uint32_t i = 0; i < plan->weight_count; i++)
        tied |= plan->weights[i].tied;
    return tied && matches(name, "*lm_head.weight");
}

static void check_tensor(struct findings *f, const struct mtr_plan_weight *w, uint32_t expert,
                         const struct mtr_checkpoint *ck, bool *bound)
{
    char room[MTR_WEIGHT_NAME_BYTES];
    struct mtr_str name = mtr_weight_tensor(w, expert, room);
    const struct mtr_tensor *t = mtr_checkpoint_find(ck, name);
    if (t)
        bound[t - ck->tensors] = true;
    if (t)
        check_weight(f, w, t);
    else if (!w->tied)
        found(f, MISSING, name, "%s", "");
}

bool mtr_preflight(const struct mtr_plan *plan, const struct mtr_checkpoint *ck,
                   struct mtr_buf *report, struct mtr_error *err)
{
    struct findings f = {.report = report};
    bool *bound = calloc(ck->tensor_count + 1u, sizeof *bound);
    if (!bound)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for %" PRIu32 " tensors", ck->tensor_count);
    for (uint32_t i = 0; i < plan->weight_count; i++) {
        const struct mtr_plan_weight *w = &plan->weights[i];
        for (uint32_t e = 0; e < mtr_weight_tensors(w); e++)
            check_tensor(&f, w, e, ck, bound);
    }
    for (uint32_t i = 0; i < ck->tensor_count; i++)
        if (!bound[i] && !mtr_preflight_ignored(ck->tensors[i].name) &&
            !second_head(plan, ck->tensors[i].name))
            found(&f, EXTRA, ck->tensors[i].name, "%s", "");
    free(bound);
    return summarize(&f, plan, ck, err);
}
