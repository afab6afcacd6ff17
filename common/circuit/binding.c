/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A weight's module name comes from its pattern ("{L}.self_attn.q_proj"); the tensor is that and a
 * suffix. With a tensor list, the list decides what a matrix is: plain or block-quantized under
 * ".weight", or under the suffixes of the declared scheme with its scales. Without one (a bare
 * config.json), the declared type and scheme decide.
 */
#include "common/circuit/binding.h"

#include <string.h>

#include "common/circuit/quant.h"

#define NAME_BYTES 256
#define NO_EXPERT  UINT32_MAX

struct finder {
    struct mtr_arena *arena;
    const struct mtr_model_source *source;
    const struct mtr_settings *settings;
    const struct mtr_binding *want;
    const char *module; /* "model.layers.3.self_attn.q_proj" */
    bool apart;         /* a tensor for each expert; the module is one's */
    struct mtr_error *err;
};

/* The path of the decoder ends with its own name where it stands within a larger model. */
static int outer_length(const char *module)
{
    const char *dot = strrchr(module, '.');
    return dot && strcmp(dot, ".model") == 0 ? (int)(dot + 1 - module) : 0;
}

/* Replaces {M}, {H}, {L}, {l}, and {e} unless no expert is given. */
static const char *expand(struct mtr_arena *arena, const char *pattern, const char *module,
                          uint16_t layer, uint32_t expert)
{
    struct mtr_buf b = {.limit_bytes = NAME_BYTES};
    for (const char *p = pattern; *p; p++) {
        bool place = p[0] == '{' && p[1] && p[2] == '}';
        if (!place) {
            mtr_buf_byte(&b, (uint8_t)*p);
            continue;
        }
        if (p[1] == 'e' && expert == NO_EXPERT)
            mtr_buf_puts(&b, "{e}");
        else if (p[1] == 'e')
            mtr_buf_printf(&b, "%u", expert);
        else if (p[1] == 'M')
            mtr_buf_puts(&b, module);
        else if (p[1] == 'H')
            mtr_buf_printf(&b, "%.*s", outer_length(module), module);
        else if (p[1] == 'L')
            mtr_buf_printf(&b, "%s.layers.%u", module, layer);
        else
            mtr_buf_printf(&b, "%u", layer);
        p += 2;
    }
    char *name = b.failed ? NULL : mtr_arena_strdup(arena, mtr_buf_view(&b));
    mtr_buf_free(&b);
    return name;
}

static bool find(const struct finder *f, const char *suffix, struct mtr_model_tensor *t,
                 const char **name)
{
    *name = mtr_arena_printf(f->arena, "%s%s", f->module, suffix);
    return *name && f->source->find(f->source->tensors, mtr_str(*name), t);
}

static const char *shape_text(struct mtr_arena *arena, const struct mtr_model_tensor *t)
{
    struct mtr_buf b = {.limit_bytes = NAME_BYTES};
    for (uint32_t i = 0; i < t->rank && i < MTR_MODEL_MAX_RANK; i++)
        mtr_buf_printf(&b, "%s%llu", i ? ", " : "", (unsigned long long)t->shape[i]);
    const char *text = b.data ? mtr_arena_strdup(arena, mtr_buf_view(&b)) : "";
    mtr_buf_free(&b);
    return text ? text : "?";
}

static bool misshaped(const struct finder *f, const char *name, const struct mtr_model_tensor *t,
                      const char *expected)
{
    return mtr_fail(f->err, MTR_INVALID, "tensor %s is %s [%s], but %s is expected", name,
                    mtr_format_info(t->format)->name, shape_text(f->arena, t), expected);
}

static bool check_shape(const struct finder *f, const char *name, const struct mtr_model_tensor *t,
                        uint64_t rows, uint64_t cols)
{
    bool vector = f->want->def->rows.text == NULL || f->want->bias;
    bool conv = f->want->conv && !vector, stack = f->want->stack > 1 && !f->apart;
    uint32_t rank = vector ? 1 : conv || stack ? 3 : 2;
    if (t->rank == rank && t->shape[rank - 1] == cols && (vector || t->shape[stack] == rows) &&
        (!conv || t->shape[1] == 1) && (!stack || t->shape[0] == f->want->stack))
        return true;
    const char *expected =
        vector  ? mtr_arena_printf(f->arena, "[%llu]", (unsigned long long)cols)
        : stack ? mtr_arena_printf(f->arena, "[%u, %llu, %llu]", f->want->stack,
                                   (unsigned long long)rows, (unsigned long long)cols)
                : mtr_arena_printf(f->arena, "[%llu, %s%llu]", (unsigned long long)rows,
                                   conv ? "1, " : "", (unsigned long long)cols);
    return misshaped(f, name, t, expected ? expected : "another shape");
}

static bool is_plain(enum mtr_format f)
{
    return f == MTR_F32 || f == MTR_F16 || f == MTR_BF16;
}

/* The scales' shape, as rows and columns; a lone number is 1 x 1. */
static void scale_shape(const struct mtr_instance_weight *w, uint64_t *rows, uint64_t *cols)
{
    *rows = *cols = 1;
    if (w->scaling == MTR_SCALING_CHANNEL || w->scaling == MTR_SCALING_GROUP16)
        *rows = w->rows;
    if (w->scaling == MTR_SCALING_GROUP16)
        *cols = w->cols / 16;
    if (w->scaling == MTR_SCALING_BLOCK) {
        *rows = (w->rows + 127) / 128;
        *cols = (w->cols + 127) / 128;
    }
}

static uint64_t elements(const struct mtr_model_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->rank && i < MTR_MODEL_MAX_RANK; i++)
        if (__builtin_mul_overflow(n, t->shape[i], &n))
            return UINT64_MAX;
    return n;
}

/* rows x cols numbers; a lone column may be a vector or, of one row, a number without shape.
 * e4m3: scales of groups, which kernels read as they stand; others are converted to f32. */
static bool bind_scale(const struct finder *f, const char *suffix, uint64_t rows, uint64_t cols,
                       bool e4m3, enum mtr_format *format, const char **name)
{
    struct mtr_model_tensor t;
    if (!find(f, suffix, &t, name))
        return mtr_fail(f->err, MTR_NOT_FOUND,
                        "tensor %s is missing: the scales of a quantized matrix",
                        *name ? *name : suffix);
    if (elements(&t) != rows * cols ||
        (cols > 1 && (t.rank != 2 || t.shape[0] != rows || t.shape[1] != cols))) {
        const char *expected = mtr_arena_printf(f->arena, "[%llu, %llu] scales",
                                                (unsigned long long)rows, (unsigned long long)cols);
        return misshaped(f, *name, &t, expected ? expected : "another number of scales");
    }
    if (e4m3 ? t.format != MTR_E4M3 : !is_plain(t.format))
        return misshaped(f, *name, &t, e4m3 ? "e4m3" : "f32, f16 or bf16");
    *format = t.format;
    return true;
}

static bool whole_groups(const struct finder *f, const char *name, uint64_t cols,
                         const struct mtr_quant_scheme *q)
{
    return q->scaling != MTR_SCALING_GROUP16 || cols % 16 == 0 ||
           mtr_fail(f->err, MTR_UNSUPPORTED,
                    "matrix %s has %llu columns, which are no whole number of groups of 16 that "
                    "share a scale",
                    name, (unsigned long long)cols);
}

/* The suffix under which the scales are listed. */
static const char *scale_suffix(const struct finder *f, const struct mtr_quant_scheme *q)
{
    struct mtr_model_tensor t;
    const char *name;
    bool other =
        q->other_scale && !find(f, q->scale, &t, &name) && find(f, q->other_scale, &t, &name);
    return other ? q->other_scale : q->scale;
}

/* The matrix under the declared scheme, as listed. */
static bool bind_scaled(const struct finder *f, const struct mtr_quant_scheme *q,
                        const struct mtr_model_tensor *t, const char *name,
                        struct mtr_instance_weight *w)
{
    uint64_t packing = q->format == MTR_E2M1 && t->format == MTR_U8 ? 2 : 1;
    bool group = q->scaling == MTR_SCALING_GROUP16;
    if (!whole_groups(f, name, w->cols, q) || !check_shape(f, name, t, w->rows, w->cols / packing))
        return false;
    if (t->format != q->format && packing == 1)
        return misshaped(f, name, t, mtr_format_info(q->format)->name);
    w->name = name;
    w->format = q->format;
    w->scaling = q->scaling;
    w->global_divides = q->global_divides;
    scale_shape(w, &w->scale_rows, &w->scale_cols);
    if (!bind_scale(f, scale_suffix(f, q), w->scale_rows, w->scale_cols, group, &w->scale_format,
                    &w->scale_name))
        return false;
    return !q->global || bind_scale(f, q->global, 1, 1, false, &w->global_format, &w->global_name);
}

static bool bind_listed(const struct finder *f, struct mtr_instance_weight *w)
{
    const struct mtr_quant_scheme *q = f->want->linear && !w->vector ? f->settings->quant : NULL;
    const char *suffix = f->want->def->bare ? "" : f->want->bias ? ".bias" : ".weight";
    struct mtr_model_tensor t;
    const char *name;
    if (q && find(f, q->weight, &t, &name) && !is_plain(t.format))
        return bind_scaled(f, q, &t, name, w);
    if (!find(f, suffix, &t, &name))
        return mtr_fail(f->err, MTR_NOT_FOUND, "tensor %s is missing", name ? name : f->module);
    if (!check_shape(f, name, &t, w->rows, w->cols))
        return false;
    if (w->vector && !is_plain(t.format))
        return misshaped(f, name, &t, "f32, f16 or bf16");
    if (!mtr_format_info(t.format)->weight)
        return misshaped(f, name, &t, "a format that holds weights");
    w->name = name;
    w->format = t.format;
    return true;
}

static bool bind_declared(const struct finder *f, struct mtr_instance_weight *w)
{
    const struct mtr_quant_scheme *q = f->want->linear && !w->vector ? f->settings->quant : NULL;
    const char *suffix = f->want->def->bare ? "" : f->want->bias ? ".bias" : ".weight";
    w->name = mtr_arena_printf(f->arena, "%s%s", f->module, suffix);
    w->format = f->settings->dtype;
    if (!q || mtr_quant_excepts(q, f->module))
        return true;
    w->name = mtr_arena_printf(f->arena, "%s%s", f->module, q->weight);
    if (!whole_groups(f, w->name ? w->name : f->module, w->cols, q))
        return false;
    w->format = q->format;
    w->scaling = q->scaling;
    w->global_divides = q->global_divides;
    scale_shape(w, &w->scale_rows, &w->scale_cols);
    w->scale_name = mtr_arena_printf(f->arena, "%s%s", f->module, q->scale);
    w->scale_format = q->scaling == MTR_SCALING_GROUP16 ? MTR_E4M3 : MTR_BF16;
    if (q->global)
        w->global_name = mtr_arena_printf(f->arena, "%s%s", f->module, q->global);
    w->global_format = MTR_F32;
    return true;
}

static bool bind_one(const struct finder *f, struct mtr_instance_weight *w)
{
    memset(w, 0, sizeof *w);
    w->rows = f->want->rows;
    w->cols = f->want->cols;
    w->vector = f->want->bias || f->want->def->rows.text == NULL;
    w->stack = f->want->stack;
    w->apart = f->apart;
    return f->source->find ? bind_listed(f, w) : bind_declared(f, w);
}

/* The same name for all experts. */
static const char *for_all(const struct finder *f, const char *all, const char *name)
{
    return name && all ? mtr_arena_printf(f->arena, "%s%s", all, name + strlen(f->module)) : NULL;
}

/* Every expert's matrix is there and stands as the first one does: a kernel reads them all. */
static bool others_alike(const struct finder *first, const char *pattern,
                         const struct mtr_instance_weight *w)
{
    struct finder f = *first;
    for (uint32_t e = 1; e < w->stack && f.source->find; e++) {
        struct mtr_instance_weight other;
        f.module = expand(f.arena, pattern, f.settings->document->module, f.want->layer, e);
        if (!f.module || !bind_one(&f, &other))
            return false;
        if (other.format != w->format || other.scaling != w->scaling ||
            other.scale_format != w->scale_format || other.global_format != w->global_format)
            return mtr_fail(f.err, MTR_UNSUPPORTED,
                            "tensor %s is %s with scales by %s, but the first expert's is %s with "
                            "scales by %s",
                            other.name, mtr_format_info(other.format)->name,
                            mtr_scaling_name(other.scaling), mtr_format_info(w->format)->name,
                            mtr_scaling_name(w->scaling));
    }
    return true;
}

static bool bind_apart(const struct finder *f, const char *pattern, struct mtr_instance_weight *w)
{
    const char *module = f->settings->document->module;
    const char *all = expand(f->arena, pattern, module, f->want->layer, NO_EXPERT);
    if (!bind_one(f, w) || !others_alike(f, pattern, w))
        return false;
    w->name = for_all(f, all, w->name);
    w->scale_name = for_all(f, all, w->scale_name);
    w->global_name = for_all(f, all, w->global_name);
    return true;
}

bool mtr_bind(struct mtr_arena *arena, const struct mtr_model_source *source,
              const struct mtr_settings *settings, const struct mtr_binding *want,
              struct mtr_instance_weight *out, struct mtr_error *err)
{
    const char *pattern = source->gguf ? want->def->gguf : want->def->hf;
    const char *role = want->def->role;
    struct finder f = {arena, source, settings, want, NULL, false, err};
    if (!pattern)
        return mtr_fail(err, MTR_INTERNAL, "%s has no name in such checkpoints", role);
    f.module = expand(arena, pattern, settings->document->module, want->layer, 0);
    f.apart = strstr(pattern, "{e}") != NULL;
    if (!f.module)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for the name of %s", role);
    bool good = f.apart ? bind_apart(&f, pattern, out) : bind_one(&f, out);
    return mtr_arena_failed(arena) ? mtr_fail(err, MTR_NO_MEMORY, "no memory to bind %s", role)
                                   : good;
}
