/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A golden folder: the logits of the prompt and of a teacher-forced continuation against the
 * recorded ones, the free-running greedy continuation by the margin rule, and the same bytes
 * however the prompt was cut, beside whom it ran and where its prefix came from.
 */
#include "tests/check/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct golden {
    struct mtr_arena arena;
    struct mtr_checkpoint *file;
    uint32_t prompt_count, greedy_count, vocab;
    uint32_t *tokens; /* [prompt_count + greedy_count] prompt, then the greedy continuation */
    float *logits;    /* [prompt_count + greedy_count - 1, vocab] */
    float *margin;    /* [greedy_count] */
};

static const void *tensor(const struct golden *g, const char *name, enum mtr_format format,
                          uint32_t rank, uint64_t shape[2], struct mtr_error *err)
{
    const struct mtr_tensor *t = mtr_checkpoint_find(g->file, mtr_str(name));
    if (!t || t->format != format || t->rank != rank) {
        mtr_fail(err, MTR_INVALID, "golden.safetensors: %s is missing or of another kind", name);
        return NULL;
    }
    memcpy(shape, t->shape, rank * sizeof *shape);
    return mtr_checkpoint_data(g->file, t);
}

static bool read_golden(struct golden *g, const char *dir, struct mtr_error *err)
{
    uint64_t t[2], n[2], l[2], s[2], m[2];
    mtr_arena_init(&g->arena, 0);
    g->file = mtr_checkpoint_open(
        &g->arena, mtr_arena_printf(&g->arena, "%s/golden.safetensors", dir), NULL, err);
    if (!g->file)
        return false;
    const void *prompt = tensor(g, "prompt", MTR_I32, 1, t, err);
    const void *greedy = prompt ? tensor(g, "greedy", MTR_I32, 1, n, err) : NULL;
    const void *logits = greedy ? tensor(g, "logits", MTR_F32, 2, l, err) : NULL;
    const void *steps = logits ? tensor(g, "step_logits", MTR_F32, 2, s, err) : NULL;
    const void *margin = steps ? tensor(g, "margin", MTR_F32, 1, m, err) : NULL;
    if (!margin)
        return false;
    if (!t[0] || !n[0] || l[0] != t[0] || s[0] != n[0] || m[0] != n[0] || l[1] != s[1])
        return mtr_fail(err, MTR_INVALID, "golden.safetensors: shapes disagree");
    g->prompt_count = (uint32_t)t[0];
    g->greedy_count = (uint32_t)n[0];
    g->vocab = (uint32_t)l[1];
    g->tokens = mtr_arena_calloc(&g->arena, t[0] + n[0], sizeof *g->tokens);
    g->logits = mtr_arena_calloc(&g->arena, (t[0] + n[0] - 1) * l[1], sizeof *g->logits);
    g->margin = mtr_arena_calloc(&g->arena, n[0], sizeof *g->margin);
    if (mtr_arena_failed(&g->arena))
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for golden.safetensors");
    memcpy(g->tokens, prompt, t[0] * 4);
    memcpy(g->tokens + t[0], greedy, n[0] * 4);
    memcpy(g->logits, logits, t[0] * l[1] * 4);
    /* step_logits[0] belongs to the last prompt token, whose row we have. */
    memcpy(g->logits + t[0] * l[1], (const float *)steps + l[1], (n[0] - 1) * l[1] * 4);
    memcpy(g->margin, margin, n[0] * 4);
    return true;
}

static void free_golden(struct golden *g)
{
    mtr_checkpoint_close(g->file);
    mtr_arena_free(&g->arena);
}

static double relative_error(const float *got, const float *want, size_t count, double *max_abs)
{
    double diff = 0, norm = 0;
    *max_abs = 0;
    for (size_t i = 0; i < count; i++) {
        double d = (double)got[i] - (double)want[i];
        if (!(fabs(d) <= *max_abs))
            *max_abs = fabs(d); /* NaN too */
        diff += d * d;
        norm += (double)want[i] * (double)want[i];
    }
    return sqrt(diff / norm);
}

/* The logits of rows [from, to) into slot's rows, `chunk` rows a step, beside lanes - 1 like it. */
static bool forward(struct engine *e, uint32_t first_slot, uint32_t lanes, const uint32_t *tokens,
                    uint32_t from, uint32_t to, uint32_t chunk, bool borrow, struct mtr_error *err)
{
    for (uint32_t at = from; at < to; at += chunk) {
        struct engine_run runs[ENGINE_MAX_SLOTS];
        uint32_t count = to - at < chunk ? to - at : chunk;
        for (uint32_t i = 0; i < lanes; i++)
            runs[i] = (struct engine_run){.slot = first_slot + i,
                                          .start = at,
                                          .count = count,
                                          .tokens = tokens + at,
                                          .score = true,
                                          .borrow = borrow && at == from};
        if (!engine_step(e, runs, lanes, err))
            return false;
    }
    return true;
}

static bool report(const char *dir, const char *what, bool ok, const char *figure)
{
    printf("%s: %-28s %s%s\n", dir, what, figure, ok ? "" : "  FAILED");
    return ok;
}

static bool check_logits(const char *dir, const struct golden *g, const float *got,
                         double tolerance)
{
    char figure[128];
    double prompt_abs, step_abs;
    size_t prompt = (size_t)g->prompt_count * g->vocab;
    size_t steps = (size_t)(g->greedy_count - 1) * g->vocab;
    double p = relative_error(got, g->logits, prompt, &prompt_abs);
    double s = relative_error(got + prompt, g->logits + prompt, steps, &step_abs);
    snprintf(figure, sizeof figure, "relative error %.3e, largest difference %.3e", p, prompt_abs);
    bool ok = report(dir, "prompt logits", p <= tolerance, figure);
    snprintf(figure, sizeof figure, "relative error %.3e, largest difference %.3e", s, step_abs);
    return report(dir, "teacher-forced logits", s <= tolerance, figure) && ok;
}

/* Step i of a continuation. */
static struct engine_run free_run(const struct golden *g, uint32_t slot, uint32_t i,
                                  const struct mtr_sampling *sampling)
{
    if (i == 0)
        return (struct engine_run){.slot = slot,
                                   .count = g->prompt_count,
                                   .tokens = g->tokens,
                                   .output = true,
                                   .sampling = sampling};
    return (struct engine_run){
        .slot = slot, .start = g->prompt_count + i - 1, .count = 1, .output = true};
}

/* A token may differ where the recorded margin is within twice the error of that step's logits;
 * what follows it then means nothing. `logits` are the teacher-forced ones, right up to that place.
 * The continuation goes to tokens [greedy_count]. */
static bool check_greedy(const char *dir, struct engine *e, uint32_t slot, const struct golden *g,
                         const float *logits, uint32_t *tokens, struct mtr_error *err)
{
    char figure[128];
    uint32_t matches = 0;
    double max_abs = 0;
    for (uint32_t i = 0; i < g->greedy_count; i++) {
        struct engine_run r = free_run(g, slot, i, NULL);
        if (!engine_step(e, &r, 1, err))
            return false;
        tokens[i] = e->result.lanes[0].tokens[0];
        matches += matches == i && tokens[i] == g->tokens[g->prompt_count + i];
    }
    bool excused = matches < g->greedy_count;
    if (excused) {
        size_t row = (size_t)(g->prompt_count + matches - 1) * g->vocab;
        relative_error(logits + row, g->logits + row, g->vocab, &max_abs);
        excused = (double)g->margin[matches] <= 2 * max_abs;
    }
    snprintf(figure, sizeof figure, "%u of %u%s", matches, g->greedy_count,
             excused ? ", then within the margin" : "");
    return report(dir, "greedy tokens", matches == g->greedy_count || excused, figure);
}

/* Finishes a step; how many of its tokens are the one that is wanted. */
static uint32_t finish_flight(struct engine *e, uint32_t want, struct mtr_error *err)
{
    uint32_t same = 0;
    if (!engine_finish(e, err))
        return 0;
    for (uint32_t i = 0; i < e->result.lane_count; i++)
        same += e->result.lanes[i].tokens[0] == want;
    return same;
}

/* The same continuation in all lanes at once, chosen by the device, each step begun before the one
 * before it has finished (if the class can). */
static bool check_flight(const char *dir, struct engine *e, uint32_t lanes, const struct golden *g,
                         const uint32_t *tokens, const struct mtr_sampling *sampling,
                         struct mtr_error *err)
{
    struct engine_run runs[ENGINE_MAX_SLOTS];
    char figure[128], what[64];
    uint32_t same = 0, all = lanes * g->greedy_count;
    bool overlaps = !sampling || e->draws;
    engine_observe(e, false);
    for (uint32_t i = 0; i < g->greedy_count; i++) {
        for (uint32_t l = 0; l < lanes; l++)
            runs[l] = free_run(g, 1 + l, i, sampling);
        same += i && !overlaps ? finish_flight(e, tokens[i - 1], err) : 0;
        if (!engine_begin(e, runs, lanes, err))
            return false;
        same += i && overlaps ? finish_flight(e, tokens[i - 1], err) : 0;
    }
    same += finish_flight(e, tokens[g->greedy_count - 1], err);
    engine_observe(e, true);
    snprintf(figure, sizeof figure, "%u of %u", same, all);
    snprintf(what, sizeof what, "%sin flight, %u lane%s", sampling ? "drawn " : "", lanes,
             lanes > 1 ? "s" : "");
    return report(dir, what, same == all, figure);
}

/* The same for tokens that are drawn: what this process draws, step by step, and the device. */
static bool check_drawn(const char *dir, struct engine *e, uint32_t lanes, const struct golden *g,
                        uint32_t *tokens, struct mtr_error *err)
{
    const struct mtr_sampling s = {.temperature = 0.9f,
                                   .top_p = 0.95f,
                                   .top_k = 40,
                                   .min_p = 0.01f,
                                   .repetition_penalty = 1,
                                   .seed = 20261130};
    for (uint32_t i = 0; i < g->greedy_count; i++) {
        struct engine_run r = free_run(g, 1, i, &s);
        if (!engine_step(e, &r, 1, err))
            return false;
        tokens[i] = e->result.lanes[0].tokens[0];
    }
    return check_flight(dir, e, lanes, g, tokens, &s, err);
}

static bool check_same(const char *dir, const char *what, const float *got, const float *want,
                       size_t count)
{
    double max_abs;
    char figure[64] = "same bytes";
    bool same = memcmp(got, want, count * sizeof *got) == 0;
    relative_error(got, want, count, &max_abs);
    if (!same)
        snprintf(figure, sizeof figure, "differ by up to %.3e", max_abs);
    return report(dir, what, same, figure);
}

/* Slot 0 computes the prompt again and leaves, at `position`, a snapshot of its recurrent state. */
static bool leave_snapshot(struct engine *e, const struct golden *g, uint32_t position,
                           struct mtr_error *err)
{
    float *rows = e->rows[0];
    const struct engine_run rest = {.start = position,
                                    .count = g->prompt_count - position,
                                    .tokens = g->tokens + position,
                                    .snapshot = true};
    e->rows[0] = NULL;
    bool ok = forward(e, 0, 1, g->tokens, 0, position, position, false, err) &&
              engine_step(e, &rest, 1, err);
    e->rows[0] = rows;
    return ok;
}

static bool check_cuts(const char *dir, struct engine *e, const struct golden *g,
                       const struct check_options *o, float *whole, float *other,
                       struct mtr_error *err)
{
    size_t count = (size_t)g->prompt_count * g->vocab;
    char what[64];
    bool ok = true;
    e->rows[1] = other;
    for (uint32_t i = 0; i < o->chunk_count; i++) {
        memset(other, 0, count * sizeof *other);
        if (!forward(e, 1, 1, g->tokens, 0, g->prompt_count, o->chunks[i], false, err))
            return false;
        snprintf(what, sizeof what, "in chunks of %u", o->chunks[i]);
        ok = check_same(dir, what, other, whole, count) && ok;
    }
    /* Slot 0 computed the prompt; slot 1 takes its first blocks as a prefix hit would, and a
     * snapshot where layers are recurrent. */
    uint32_t hit = (g->prompt_count - 1) / 16 * 16;
    if (hit && e->plan->state_count && !leave_snapshot(e, g, hit, err))
        return false;
    size_t skip = (size_t)hit * g->vocab;
    memset(other, 0, count * sizeof *other);
    if (hit && !forward(e, 1, 1, g->tokens, hit, g->prompt_count, g->prompt_count, true, err))
        return false;
    snprintf(what, sizeof what, "after a prefix of %u", hit);
    return check_same(dir, what, other + skip, whole + skip, hit ? count - skip : 0) && ok;
}

static bool check_lanes(const char *dir, struct engine *e, const struct golden *g, uint32_t lanes,
                        float *whole, float *other, struct mtr_error *err)
{
    size_t count = (size_t)g->prompt_count * g->vocab;
    char what[64];
    bool ok = true;
    for (uint32_t i = 0; i < lanes; i++)
        e->rows[1 + i] = other + i * count;
    memset(other, 0, lanes * count * sizeof *other);
    if (!forward(e, 1, lanes, g->tokens, 0, g->prompt_count, g->prompt_count, false, err))
        return false;
    for (uint32_t i = 0; i < lanes; i++) {
        snprintf(what, sizeof what, "lane %u of %u", i + 1, lanes);
        ok = check_same(dir, what, other + i * count, whole, count) && ok;
    }
    return ok;
}

static double tolerance_of(const struct check_options *o, const struct engine *e)
{
    if (o->tolerance > 0)
        return o->tolerance;
    return engine_exact(e) ? 1e-3 : 3e-2;
}

static bool run_checks(const char *dir, struct engine *e, const struct golden *g,
                       const struct check_options *o, float *whole, float *other, uint32_t *tokens,
                       struct mtr_error *err)
{
    uint32_t rows = g->prompt_count + g->greedy_count - 1;
    e->rows[0] = whole;
    if (!forward(e, 0, 1, g->tokens, 0, g->prompt_count, g->prompt_count, false, err) ||
        !forward(e, 0, 1, g->tokens, g->prompt_count, rows, 1, false, err))
        return false;
    bool ok = check_logits(dir, g, whole, tolerance_of(o, e));
    ok = check_cuts(dir, e, g, o, whole, other, err) && ok;
    ok = (o->lanes < 2 || check_lanes(dir, e, g, o->lanes, whole, other, err)) && ok;
    e->rows[1] = NULL;
    ok = check_greedy(dir, e, 1, g, whole, tokens, err) && ok;
    ok = check_flight(dir, e, 1, g, tokens, NULL, err) && ok;
    ok = (o->lanes < 2 || check_flight(dir, e, o->lanes, g, tokens, NULL, err)) && ok;
    return check_drawn(dir, e, o->lanes, g, tokens, err) && ok;
}

bool check_folder(const char *dir, const struct check_options *o, struct mtr_error *err)
{
    struct golden g = {0};
    struct engine e;
    struct check_options fit = *o;
    bool ok = read_golden(&g, dir, err);
    uint32_t rows = g.prompt_count + g.greedy_count, lanes = o->lanes ? o->lanes : 1;
    fit.engine.slots = 1 + lanes;
    fit.engine.sequence_tokens = rows;
    fit.engine.step_tokens = rows * lanes;
    if (!ok || !engine_open(&e, dir, &fit.engine, err)) {
        free_golden(&g);
        return false;
    }
    float *whole = calloc((size_t)rows * g.vocab, sizeof *whole);
    float *other = calloc((size_t)rows * g.vocab * lanes, sizeof *other);
    uint32_t *tokens = calloc(g.greedy_count, sizeof *tokens);
    if (g.vocab != e.plan->vocab)
        ok = mtr_fail(err, MTR_INVALID, "golden has a vocabulary of %u, the model of %u", g.vocab,
                      e.plan->vocab);
    else if (!whole || !other || !tokens)
        ok = mtr_fail(err, MTR_NO_MEMORY, "no memory for logits");
    else
        ok = run_checks(dir, &e, &g, &fit, whole, other, tokens, err);
    free(tokens);
    free(other);
    free(whole);
    engine_close(&e);
    free_golden(&g);
    return ok;
}
