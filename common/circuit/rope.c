/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A scaling is a row of a table: which numbers it must have, which it may have, and a function
 * that turns the plain frequencies into its own. Arithmetic is double, the result float.
 */
#include "common/circuit/rope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PI 3.14159265358979323846

struct numbers {
    double theta, factor, low, high, original, beta_fast, beta_slow;
    bool truncate;
    uint32_t pairs;
};

static double linear(const struct numbers *n, uint32_t i, double f)
{
    return f / n->factor;
}

/* Long waves are stretched, short ones kept, those between blended. */
static double llama3(const struct numbers *n, uint32_t i, double f)
{
    double wave = 2 * PI / f;
    if (wave > n->original / n->low)
        return f / n->factor;
    if (wave < n->original / n->high)
        return f;
    double keep = (n->original / wave - n->low) / (n->high - n->low);
    return (1 - keep) * f / n->factor + keep * f;
}

/* The pair that turns `turns` times within the original context. */
static double yarn_pair(const struct numbers *n, double turns)
{
    return n->pairs * log(n->original / (turns * 2 * PI)) / log(n->theta);
}

static double yarn(const struct numbers *n, uint32_t i, double f)
{
    double first = yarn_pair(n, n->beta_fast), last = yarn_pair(n, n->beta_slow);
    if (n->truncate) {
        first = floor(first);
        last = ceil(last);
    }
    first = fmax(first, 0);
    last = fmin(last, 2.0 * n->pairs - 1);
    if (first == last)
        last += 0.001;
    double stretch = fmin(fmax((i - first) / (last - first), 0), 1);
    return f / n->factor * stretch + f * (1 - stretch);
}

struct scaling {
    const char *name;
    const char *needs; /* words */
    const char *takes;
    double (*apply)(const struct numbers *n, uint32_t i, double f);
};

static const struct scaling scalings[] = {
    {"default", "", "", NULL},
    {"linear", "factor", "original", linear},
    {"llama3", "factor low high original", "", llama3},
    {"yarn", "factor", "original attention beta_fast beta_slow mscale mscale_all truncate", yarn},
};

static const char *const scaled[] = {"factor",    "low",       "high",   "original",   "attention",
                                     "beta_fast", "beta_slow", "mscale", "mscale_all", "truncate"};

static double get(const struct mtr_symbols *s, const char *prefix, const char *name, double absent)
{
    char full[64];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return mtr_symbol_get(s, full, absent);
}

static bool has(const struct mtr_symbols *s, const char *prefix, const char *name)
{
    return !isnan(get(s, prefix, name, NAN));
}

static bool listed(const char *words, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = strstr(words, word); at; at = strstr(at + 1, word))
        if ((at == words || at[-1] == ' ') && (at[len] == 0 || at[len] == ' '))
            return true;
    return false;
}

static const struct scaling *scaling_of(const struct mtr_symbols *s, const char *prefix)
{
    double type = get(s, prefix, "type", 0);
    return type >= 0 && type < sizeof scalings / sizeof *scalings ? &scalings[(int)type] : NULL;
}

/* YaRN's temperature, as a factor on both cosines and sines. */
static double mscale(double factor, double m)
{
    return factor <= 1 ? 1 : 0.1 * m * log(factor) + 1;
}

static double attention_factor(const struct mtr_symbols *s, const char *prefix)
{
    double factor = get(s, prefix, "factor", 1);
    double m = get(s, prefix, "mscale", 0), all = get(s, prefix, "mscale_all", 0);
    if (has(s, prefix, "attention"))
        return get(s, prefix, "attention", 1);
    return m != 0 && all != 0 ? mscale(factor, m) / mscale(factor, all) : mscale(factor, 1);
}

/* Of attention logits: mscale_all_dim squared, since both queries and keys have it. */
static double sharpness(const struct mtr_symbols *s, const char *prefix)
{
    double all = get(s, prefix, "mscale_all", 0), m = mscale(get(s, prefix, "factor", 1), all);
    return all != 0 ? m * m : 1;
}

static bool check_numbers(const struct mtr_symbols *s, const char *prefix,
                          const struct scaling *kind, struct mtr_error *err)
{
    for (size_t i = 0; i < sizeof scaled / sizeof *scaled; i++) {
        bool needed = listed(kind->needs, scaled[i]);
        if (needed && !has(s, prefix, scaled[i]))
            return mtr_fail(err, MTR_INVALID, "rotary scaling \"%s\" lacks its %s", kind->name,
                            scaled[i]);
        if (!needed && !listed(kind->takes, scaled[i]) && has(s, prefix, scaled[i]))
            return mtr_fail(err, MTR_INVALID, "rotary scaling \"%s\" has no %s", kind->name,
                            scaled[i]);
    }
    return true;
}

bool mtr_rope_prepare(struct mtr_symbols *s, const char *prefix, struct mtr_error *err)
{
    const struct scaling *kind = scaling_of(s, prefix);
    if (!kind)
        return mtr_fail(err, MTR_UNSUPPORTED,
                        "this scaling of rotary frequencies is not computed here");
    if (!check_numbers(s, prefix, kind, err))
        return false;
    if (kind->apply == llama3 && !(get(s, prefix, "high", 0) > get(s, prefix, "low", 0)))
        return mtr_fail(err, MTR_INVALID, "high_freq_factor must be above low_freq_factor");
    char full[64];
    snprintf(full, sizeof full, "%sscale", prefix);
    if (!mtr_symbol_set(s, full, kind->apply == yarn ? attention_factor(s, prefix) : 1))
        return mtr_fail(err, MTR_INTERNAL, "no symbol %s", full);
    snprintf(full, sizeof full, "%ssharpness", prefix);
    mtr_symbol_set(s, full, sharpness(s, prefix));
    return true;
}

const float *mtr_rope_frequencies(struct mtr_arena *arena, const struct mtr_symbols *s,
                                  const char *prefix, uint32_t pairs)
{
    const struct scaling *kind = scaling_of(s, prefix);
    struct numbers n = {
        .theta = get(s, prefix, "theta", 10000),
        .factor = get(s, prefix, "factor", 1),
        .low = get(s, prefix, "low", 1),
        .high = get(s, prefix, "high", 4),
        .original = get(s, prefix, "original", mtr_symbol_get(s, "context", 1)),
        .beta_fast = get(s, prefix, "beta_fast", 32),
        .beta_slow = get(s, prefix, "beta_slow", 1),
        .truncate = get(s, prefix, "truncate", 1) != 0,
        .pairs = pairs,
    };
    float *out = mtr_arena_calloc(arena, pairs, sizeof *out);
    for (uint32_t i = 0; out && kind && i < pairs; i++) {
        double f = pow(n.theta, -(double)i / pairs);
        out[i] = (float)(kind->apply ? kind->apply(&n, i, f) : f);
    }
    return out;
}
