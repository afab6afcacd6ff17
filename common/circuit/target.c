/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A match has a rank: 4 for the type, 2 for the size, 1 for a name that it knows. Names only break
 * ties: whoever lists some is not kept from other checkpoints of the same type and size, since a
 * folder can be called anything.
 */
#include "common/circuit/target.h"

#include <ctype.h>
#include <string.h>

enum { RANK_NAME = 1, RANK_SIZE = 2, RANK_TYPE = 4 };

static bool holds(struct mtr_str text, const char *word)
{
    size_t n = strlen(word);
    for (size_t at = 0; at + n <= text.len; at++) {
        size_t same = 0;
        while (same < n && tolower((unsigned char)text.ptr[at + same]) == word[same])
            same++;
        if (same == n)
            return true;
    }
    return false;
}

/* -1: it is for another checkpoint. */
static int rank_of(const struct mtr_target_match *m, const struct mtr_target_subject *s)
{
    int rank = 0;
    if (m->model_type && !mtr_str_equal(mtr_str(m->model_type), s->model_type))
        return -1;
    if (m->hidden_size && m->hidden_size != s->hidden_size)
        return -1;
    rank += m->model_type ? RANK_TYPE : 0;
    rank += m->hidden_size ? RANK_SIZE : 0;
    for (uint32_t i = 0; i < m->name_count; i++)
        if (holds(s->name, m->names[i]))
            return rank + RANK_NAME;
    return rank;
}

static int best_rank(const struct mtr_target_model *m, const struct mtr_target_subject *s)
{
    int best = -1;
    for (uint32_t i = 0; i < m->match_count; i++) {
        int rank = rank_of(&m->matches[i], s);
        best = rank > best ? rank : best;
    }
    return best;
}

bool mtr_target_choose(const struct mtr_target_model *models, uint32_t count,
                       const struct mtr_target_subject *s, const struct mtr_target_model **out,
                       struct mtr_error *err)
{
    const struct mtr_target_model *tied = NULL;
    int best = -1;
    *out = NULL;
    for (uint32_t i = 0; i < count; i++) {
        int rank = strcmp(models[i].hardware, s->hardware) == 0 ? best_rank(&models[i], s) : -1;
        if (rank < 0 || rank < best)
            continue;
        tied = rank == best ? *out : NULL;
        *out = &models[i];
        best = rank;
    }
    return !tied || mtr_fail(err, MTR_INVALID,
                             "%.*s is as much %s as %s for class %s: their MODEL.toml must tell "
                             "them apart",
                             MTR_STR_ARG(s->name), tied->model, (*out)->model, s->hardware);
}

const char *mtr_target_quant(const struct mtr_plan *plan)
{
    double elements[MTR_FORMAT_COUNT] = {0};
    uint32_t best = MTR_BF16;
    for (uint32_t i = 0; i < plan->weight_count; i++)
        if (plan->weights[i].rows > 1 && !plan->weights[i].tied)
            elements[plan->weights[i].format] +=
                (double)plan->weights[i].rows * (double)plan->weights[i].cols;
    for (uint32_t f = 0; f < MTR_FORMAT_COUNT; f++)
        if (elements[f] > elements[best])
            best = f;
    return mtr_format_info((enum mtr_format)best)->name;
}
