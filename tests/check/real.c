/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Recorded cases of a published model: text to ids, log-likelihood of the prompt, greedy
 * continuation, the best logits of each step.
 *
 * With an f32 cache every token must be the recorded one. With another a token may differ where the
 * recorded margin is within twice the largest difference seen among that step's best logits.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/text/tokenizer.h"
#include "common/base/file.h"
#include "common/base/json.h"
#include "common/checkpoint/gguf.h"
#include "tests/check/check.h"

#define JSON_BYTES    (64u << 20)
#define NLL_TOLERANCE 1e-3
#define BATCH         512 /* prompt tokens a step */

struct real {
    struct engine engine;
    const struct check_options *o;
    struct mtr_tokenizer *tokenizer;
    struct mtr_encoder *encoder;
    float *last; /* [vocab] logits of the newest row */
};

static const struct mtr_json *array(const struct mtr_json *c, const char *key,
                                    struct mtr_error *err)
{
    const struct mtr_json *v = mtr_json_get(c, key);
    if (v && v->kind == MTR_JSON_ARRAY)
        return v;
    mtr_fail(err, MTR_INVALID, "a case without the list \"%s\"", key);
    return NULL;
}

static uint32_t item(const struct mtr_json *a, uint32_t i)
{
    return (uint32_t)a->items[i].integer;
}

static bool check_ids(struct real *r, const struct mtr_json *c, const struct mtr_json *ids,
                      uint32_t *right, struct mtr_error *err)
{
    struct mtr_ids got = {0};
    struct mtr_str text = {0};
    if (!mtr_json_opt_str(c, "text", &text, err) ||
        !mtr_encode(r->encoder, text, MTR_ENCODE_ADD_SPECIAL | MTR_ENCODE_PARSE_SPECIAL, &got, err))
        return false;
    while (*right < ids->count && *right < got.count && got.ids[*right] == item(ids, *right))
        ++*right;
    bool ok = *right == ids->count && got.count == ids->count;
    mtr_ids_free(&got);
    return ok;
}

/* The largest difference of log-likelihoods, and of the norm of the last logits. */
struct prompt_error {
    double nll, norm;
};

static void compare_nll(const struct real *r, const struct mtr_json *want, uint32_t from,
                        double *largest)
{
    const struct mtr_lane_result *got = &r->engine.result.lanes[0];
    for (uint32_t i = 0; i < got->score_count; i++) {
        double nll = INFINITY;
        mtr_json_number(&want->items[from + i], &nll);
        double d = fabs(nll + (double)got->scores[i].logprob);
        if (!(d <= *largest))
            *largest = d;
    }
}

static double norm_of(const float *x, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

/* Prefills in batches that overlap by one row, so that every token but the first is scored. */
static bool prefill(struct real *r, const uint32_t *ids, uint32_t count, const struct mtr_json *nll,
                    double last_norm, struct prompt_error *error, struct mtr_error *err)
{
    *error = (struct prompt_error){0};
    for (uint32_t at = 0;; at += BATCH - 1) {
        uint32_t n = count - at < BATCH ? count - at : BATCH;
        bool last = at + n == count;
        struct engine_run run = {
            .start = at, .count = n, .tokens = ids + at, .score = true, .output = last};
        if (!engine_step(&r->engine, &run, 1, err))
            return false;
        compare_nll(r, nll, at, &error->nll);
        if (!last)
            continue;
        error->norm = fabs(norm_of(r->last, r->engine.plan->vocab) / last_norm - 1);
        return true;
    }
}

/* The largest difference among a step's recorded best logits. */
static double top_error(const struct real *r, const struct mtr_json *top)
{
    const struct mtr_json *ids = mtr_json_get(top, "ids"), *logits = mtr_json_get(top, "logits");
    double largest = 0, want;
    for (uint32_t i = 0; ids && logits && i < ids->count && i < logits->count; i++) {
        if (item(ids, i) >= r->engine.plan->vocab || !mtr_json_number(&logits->items[i], &want))
            return INFINITY;
        double d = fabs((double)r->last[item(ids, i)] - want);
        if (!(d <= largest))
            largest = d;
    }
    return largest;
}

/* Call after the prompt's step. Returns how many tokens are the recorded ones. */
static bool decode(struct real *r, uint32_t prompt, const struct mtr_json *greedy,
                   const struct mtr_json *margin, const struct mtr_json *top, uint32_t *matches,
                   bool *excused, double *largest, struct mtr_error *err)
{
    *matches = 0;
    *excused = false;
    *largest = 0;
    for (uint32_t i = 0; i < greedy->count; i++) {
        double error = top_error(r, &top->items[i]), gap = 0;
        if (r->engine.result.lanes[0].tokens[0] != item(greedy, i)) {
            mtr_json_number(&margin->items[i], &gap);
            *excused = !engine_exact(&r->engine) && gap <= 2 * error;
            return true;
        }
        *largest = error > *largest ? error : *largest;
        ++*matches;
        struct engine_run run = {.start = prompt + i, .count = 1, .output = true};
        if (i + 1 < greedy->count && !engine_step(&r->engine, &run, 1, err))
            return false;
    }
    return true;
}

/* A case of the file, its lists of equal lengths. */
struct recorded {
    struct mtr_str name;
    const struct mtr_json *ids, *nll, *greedy, *margin, *top;
    double last_norm;
};

static bool read_case(const struct mtr_json *c, struct recorded *out, struct mtr_error *err)
{
    *out = (struct recorded){.last_norm = 1};
    if (!mtr_json_opt_str(c, "name", &out->name, err) ||
        !mtr_json_opt_f64(c, "last_logits_norm", 0, INFINITY, &out->last_norm, err) ||
        !(out->ids = array(c, "ids", err)) || !(out->nll = array(c, "prompt_nll", err)) ||
        !(out->greedy = array(c, "greedy", err)) || !(out->margin = array(c, "margin", err)) ||
        !(out->top = array(c, "top", err)))
        return false;
    if (out->margin->count == out->greedy->count && out->top->count == out->greedy->count &&
        out->ids->count && out->nll->count + 1 == out->ids->count)
        return true;
    return mtr_fail(err, MTR_INVALID, "case %.*s: lists of different lengths",
                    MTR_STR_ARG(out->name));
}

static bool run_case(struct real *r, const struct mtr_json *json, struct mtr_error *err)
{
    struct recorded c;
    struct prompt_error prompt;
    double largest;
    uint32_t right = 0, matches;
    bool excused, f32 = engine_exact(&r->engine);
    if (!read_case(json, &c, err))
        return false;
    uint32_t *tokens = calloc(c.ids->count, sizeof *tokens);
    for (uint32_t i = 0; tokens && i < c.ids->count; i++)
        tokens[i] = item(c.ids, i);
    bool ids_ok = check_ids(r, json, c.ids, &right, err);
    bool ok = tokens && prefill(r, tokens, c.ids->count, c.nll, c.last_norm, &prompt, err) &&
              decode(r, c.ids->count, c.greedy, c.margin, c.top, &matches, &excused, &largest, err);
    free(tokens);
    if (!ok)
        return mtr_error_prefix(err, "case %.*s", MTR_STR_ARG(c.name));
    ok = ids_ok && (matches == c.greedy->count || excused) &&
         (!f32 || (prompt.nll <= NLL_TOLERANCE && prompt.norm <= NLL_TOLERANCE));
    printf("%-12.*s %u ids %s, nll within %.1e, norm within %.1e, greedy %u of %u%s, top logits "
           "within %.1e%s\n",
           MTR_STR_ARG(c.name), ids_ok ? c.ids->count : right, ids_ok ? "equal" : "equal, then not",
           prompt.nll, prompt.norm, matches, c.greedy->count,
           excused ? ", then within the margin" : "", largest, ok ? "" : "  FAILED");
    return ok;
}

static void longest_case(const struct mtr_json *cases, uint32_t *longest)
{
    *longest = 0;
    for (uint32_t i = 0; i < cases->count; i++) {
        const struct mtr_json *ids = mtr_json_get(&cases->items[i], "ids");
        const struct mtr_json *greedy = mtr_json_get(&cases->items[i], "greedy");
        uint32_t n = (ids ? ids->count : 0) + (greedy ? greedy->count : 0);
        *longest = n > *longest ? n : *longest;
    }
}

static bool is_wanted(const struct real *r, const struct mtr_json *json)
{
    const struct mtr_json *name = mtr_json_get(json, "name");
    return !r->o->only ||
           (name && name->kind == MTR_JSON_STRING && mtr_str_is(name->text, r->o->only));
}

static bool run_cases(struct real *r, const struct mtr_json *cases, struct mtr_error *err)
{
    uint32_t ran = 0, failed = 0, errors = 0;
    for (uint32_t i = 0; i < cases->count; i++) {
        struct mtr_error why = {0};
        if (!is_wanted(r, &cases->items[i]))
            continue;
        ran++;
        bool ok = run_case(r, &cases->items[i], &why);
        if (!ok && why.code) {
            fprintf(stderr, "%s\n", why.message);
            errors++;
        }
        failed += !ok;
    }
    if (ran == 0)
        return mtr_fail(err, MTR_NOT_FOUND, "no case to run%s%s", r->o->only ? " is called " : "",
                        r->o->only ? r->o->only : "");
    printf("%u of %u cases right\n", ran - failed, ran);
    return failed == 0 ||
           (errors && mtr_fail(err, MTR_INVALID, "%u cases could not be run", errors));
}

static bool open_text(struct real *r, struct mtr_error *err)
{
    if (!r->engine.checkpoint->gguf)
        return mtr_fail(err, MTR_INVALID, "not a GGUF file");
    r->tokenizer = mtr_tokenizer_from_gguf(r->engine.checkpoint->gguf, err);
    r->encoder = r->tokenizer ? mtr_encoder_new(r->tokenizer) : NULL;
    r->last = calloc(r->engine.plan->vocab, sizeof *r->last);
    return r->tokenizer && ((r->encoder && r->last) || mtr_fail(err, MTR_NO_MEMORY, "no memory"));
}

bool check_real(const char *model, const char *json, const struct check_options *o,
                struct mtr_error *err)
{
    struct real r = {.o = o};
    struct mtr_arena arena;
    struct mtr_str text;
    struct engine_options fit = o->engine;
    mtr_arena_init(&arena, 0);
    const struct mtr_json *root = mtr_file_read(&arena, json, JSON_BYTES, &text, err)
                                      ? mtr_json_parse(&arena, text, MTR_JSON_STRICT, err)
                                      : NULL;
    const struct mtr_json *cases = root ? array(root, "cases", err) : NULL;
    bool ok = cases != NULL;
    if (ok) {
        longest_case(cases, &fit.sequence_tokens);
        fit.slots = 1;
        fit.step_tokens = BATCH;
        fit.last_only = true;
        ok = engine_open(&r.engine, model, &fit, err) && open_text(&r, err);
        r.engine.rows[0] = r.last;
        ok = ok && run_cases(&r, cases, err);
    }
    free(r.last);
    mtr_encoder_free(r.encoder);
    mtr_tokenizer_free(r.tokenizer);
    engine_close(&r.engine);
    mtr_arena_free(&arena);
    return ok || mtr_error_prefix(err, "%s", json);
}
