/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tests/support/scripted_model.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/hash.h"

#define UNWRITTEN  UINT32_MAX
#define CHUNK_SALT 0x6368756e6bu
#define ROW_SALT   0x726f77u
#define DRAFT_SALT 0x6472616674u
#define TOP_MAX    20
#define MAX_DRAWS  100000 /* for a token that is not banned */

/* What a block holds for a token. */
struct entry {
    uint64_t prefix;
    uint32_t token;
    uint32_t position; /* UNWRITTEN: nothing */
    uint64_t step;     /* that wrote it */
    uint64_t salt;     /* of the kernel that wrote it */
};

struct state {
    uint64_t hash;
    uint32_t position;
};

struct slot {
    uint64_t sequence;
    bool used;
    uint32_t *history; /* [history_from, history_end) are known */
    size_t history_cap;
    uint32_t history_from, history_end;
    uint32_t *tables[MTR_MAX_GROUPS];
    size_t table_caps[MTR_MAX_GROUPS];
    uint32_t table_ends[MTR_MAX_GROUPS];
    struct mtr_sampling sampling; /* without biases */
    struct state state;
};

struct mtr_scripted {
    struct mtr_scripted_config config;
    struct slot *slots;
    struct entry *blocks[MTR_MAX_GROUPS];
    struct state *snapshots;
    uint64_t step;
};

static uint64_t fold(uint64_t a, uint64_t b)
{
    return mtr_mix64(mtr_mix64(a ^ 0x9e3779b97f4a7c15u) + b);
}

static uint64_t prefix_begin(uint32_t adapter)
{
    return fold(1, adapter);
}

static bool contains(const uint32_t *ids, uint32_t count, uint32_t id)
{
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* The model itself: the token at `position`, given everything before it. */
static uint32_t draw(uint32_t vocab, uint64_t prefix, uint64_t state, uint64_t seed,
                     uint32_t position, const uint32_t *banned, uint32_t banned_count,
                     const uint8_t *mask)
{
    uint64_t h = fold(fold(prefix, state), fold(seed, position));
    uint32_t token = 0;
    for (int i = 0; i < MAX_DRAWS; i++) {
        token = (uint32_t)(h % vocab);
        if (!contains(banned, banned_count, token) &&
            (!mask || (mask[token / 8] >> token % 8 & 1) != 0))
            break;
        h = mtr_mix64(h + 1);
    }
    return token;
}

static float logprob_of(uint64_t prefix, uint32_t token)
{
    return -(float)(fold(prefix, token) % 4096) / 256;
}

/* ---- expectations -----------------------------------------------------------------------------
 */

static uint64_t fold_tokens(uint64_t h, const uint32_t *tokens, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        h = fold(h, tokens[i]);
    return h;
}

/* In a recurrent model what attention layers see of output, too, differs from what they see of a
 * prompt with the same tokens. */
static uint64_t row_salt(const struct mtr_scripted_config *c)
{
    return c->recurrent ? ROW_SALT : 0;
}

/* The state behind [from, to), both inside one chunk. */
static uint64_t fold_chunk(uint64_t h, const uint32_t *tokens, uint32_t count)
{
    return fold(h ^ CHUNK_SALT, fold_tokens(count, tokens, count));
}

static uint64_t fold_row(uint64_t h, uint32_t token)
{
    return fold(h ^ ROW_SALT, token);
}

static uint64_t fold_prompt(const struct mtr_scripted_config *c, uint64_t h, const uint32_t *tokens,
                            uint32_t from, uint32_t to)
{
    for (uint32_t end; from < to; from = end) {
        end = (from / c->chunk_tokens + 1) * c->chunk_tokens;
        end = end < to ? end : to;
        h = fold_chunk(h, tokens + from, end - from);
    }
    return h;
}

uint32_t mtr_scripted_expect(const struct mtr_scripted_config *c,
                             const struct mtr_scripted_request *r, uint32_t count, uint32_t *out)
{
    uint64_t prefix = 0, state = 0;
    if (c->group_count > 0)
        prefix = fold_tokens(prefix_begin(r->adapter), r->prompt, r->prompt_count);
    if (c->recurrent)
        state = fold_prompt(c, 0, r->prompt, 0, r->prompt_count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t banned = i < r->min_tokens ? r->stop_count : 0;
        out[i] = draw(c->vocab, prefix, state, r->seed, r->prompt_count + i, r->stop_ids, banned,
                      r->mask);
        if (contains(r->stop_ids, r->stop_count, out[i]))
            return i + 1;
        prefix = c->group_count > 0 ? fold(prefix ^ row_salt(c), out[i]) : 0;
        state = c->recurrent ? fold_row(state, out[i]) : 0;
    }
    return count;
}

float mtr_scripted_score(const struct mtr_scripted_config *c, const struct mtr_scripted_request *r,
                         uint32_t position)
{
    uint64_t prefix = prefix_begin(r->adapter);
    if (c->group_count == 0)
        return logprob_of(0, r->prompt[position]);
    return logprob_of(fold_tokens(prefix, r->prompt, position), r->prompt[position]);
}

/* ---- life -------------------------------------------------------------------------------------
 */

static bool allocate(struct mtr_scripted *m)
{
    const struct mtr_scripted_config *c = &m->config;
    m->slots = calloc(c->slots, sizeof(*m->slots));
    m->snapshots = calloc(c->snapshots + 1ul, sizeof(*m->snapshots));
    bool ok = m->slots && m->snapshots;
    for (uint32_t g = 0; g < c->group_count && ok && c->physical; g++) {
        size_t entries = (size_t)c->group_blocks[g] * c->block_tokens;
        m->blocks[g] = malloc((entries + 1) * sizeof(struct entry));
        ok = m->blocks[g] != NULL;
        for (size_t i = 0; i < entries && ok; i++)
            m->blocks[g][i] = (struct entry){.position = UNWRITTEN};
    }
    return ok;
}

struct mtr_scripted *mtr_scripted_create(const struct mtr_scripted_config *c, struct mtr_error *err)
{
    struct mtr_scripted *m = calloc(1, sizeof(*m));
    if (m)
        m->config = *c;
    if (m && allocate(m))
        return m;
    mtr_scripted_destroy(m);
    mtr_fail(err, MTR_NO_MEMORY, "no memory for a scripted model of %u slots", c->slots);
    return NULL;
}

void mtr_scripted_destroy(struct mtr_scripted *m)
{
    if (!m)
        return;
    for (uint32_t i = 0; m->slots && i < m->config.slots; i++) {
        free(m->slots[i].history);
        for (uint32_t g = 0; g < MTR_MAX_GROUPS; g++)
            free(m->slots[i].tables[g]);
    }
    for (uint32_t g = 0; g < MTR_MAX_GROUPS; g++)
        free(m->blocks[g]);
    free(m->slots);
    free(m->snapshots);
    free(m);
}

/* ---- effects ----------------------------------------------------------------------------------
 */

static bool copy_block(struct mtr_scripted *m, const struct mtr_effect *e, struct mtr_error *err)
{
    const struct mtr_scripted_config *c = &m->config;
    if (e->group >= c->group_count || e->src >= c->group_blocks[e->group] ||
        e->dst >= c->group_blocks[e->group])
        return mtr_fail(err, MTR_INVALID, "copies block %u to %u of group %u", e->src, e->dst,
                        e->group);
    if (c->physical)
        memmove(m->blocks[e->group] + (size_t)e->dst * c->block_tokens,
                m->blocks[e->group] + (size_t)e->src * c->block_tokens,
                c->block_tokens * sizeof(struct entry));
    return true;
}

static bool run_effect(struct mtr_scripted *m, const struct mtr_effect *e, struct mtr_error *err)
{
    const struct mtr_scripted_config *c = &m->config;
    if (e->kind == MTR_COPY_BLOCK)
        return copy_block(m, e, err);
    uint32_t slot = e->kind == MTR_SNAPSHOT_STATE ? e->src : e->dst;
    uint32_t snapshot = e->kind == MTR_SNAPSHOT_STATE ? e->dst : e->src;
    if (!c->recurrent || slot >= c->slots ||
        (e->kind != MTR_ZERO_STATE && snapshot >= c->snapshots))
        return mtr_fail(err, MTR_INVALID, "effect %d with %u and %u", (int)e->kind, e->src, e->dst);
    struct state *state = &m->slots[slot].state;
    switch (e->kind) {
    case MTR_ZERO_STATE:
        *state = (struct state){0};
        return true;
    case MTR_SNAPSHOT_STATE:
        m->snapshots[snapshot] = *state;
        return true;
    case MTR_RESTORE_STATE:
        *state = m->snapshots[snapshot];
        return true;
    default:
        return mtr_fail(err, MTR_INVALID, "effect %d was not expected", (int)e->kind);
    }
}

/* ---- a lane's preparation ---------------------------------------------------------------------
 */

static bool grow_history(struct slot *s, uint32_t end)
{
    void *array = s->history;
    bool ok = mtr_grow(&array, &s->history_cap, end, sizeof(uint32_t));
    s->history = array;
    return ok;
}

static bool open_slot(struct slot *s, const struct mtr_lane *l, struct mtr_error *err)
{
    if (!l->sampling)
        return mtr_fail(err, MTR_INVALID, "opens a slot without sampling parameters");
    s->used = true;
    s->sequence = l->sequence;
    s->sampling = *l->sampling;
    s->sampling.bias_count = 0;
    for (uint32_t g = 0; g < MTR_MAX_GROUPS; g++)
        s->table_ends[g] = 0;
    s->history_from = l->history_count ? 0 : l->start;
    s->history_end = l->start;
    if (!grow_history(s, l->start + l->count + 1))
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for history");
    for (uint32_t i = 0; i < l->history_count; i++)
        s->history[i] = l->history[i];
    bool penalties = s->sampling.repetition_penalty != 1 || s->sampling.presence_penalty != 0 ||
                     s->sampling.frequency_penalty != 0;
    if (penalties && s->history_from != 0)
        return mtr_fail(err, MTR_INVALID, "penalties without the history they are about");
    return true;
}

static bool change_tables(const struct mtr_scripted *m, struct slot *s, const struct mtr_lane *l,
                          struct mtr_error *err)
{
    for (uint32_t i = 0; i < l->table_count; i++) {
        const struct mtr_table_change *t = &l->tables[i];
        if (t->group >= m->config.group_count)
            return mtr_fail(err, MTR_INVALID, "changes a table of group %u", t->group);
        void *array = s->tables[t->group];
        if (!mtr_grow(&array, &s->table_caps[t->group], t->first + t->count, sizeof(uint32_t)))
            return mtr_fail(err, MTR_NO_MEMORY, "no memory for a table");
        s->tables[t->group] = array;
        if (t->first > s->table_ends[t->group] && m->config.windows[t->group] == 0)
            return mtr_fail(err, MTR_INVALID, "leaves a gap in the table of group %u", t->group);
        for (uint32_t b = 0; b < t->count; b++) {
            if (t->blocks[b] >= m->config.group_blocks[t->group])
                return mtr_fail(err, MTR_INVALID, "block %u of group %u", t->blocks[b], t->group);
            s->tables[t->group][t->first + b] = t->blocks[b];
        }
        if (t->first + t->count > s->table_ends[t->group])
            s->table_ends[t->group] = t->first + t->count;
    }
    return true;
}

/* Puts the lane's tokens into the history, or finds that they stand there. */
static bool place_tokens(struct slot *s, const struct mtr_lane *l, struct mtr_error *err)
{
    uint32_t end = l->start + l->count;
    if (!grow_history(s, end + 1))
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for history");
    if (!l->tokens)
        return (l->start >= s->history_from && end <= s->history_end) ||
               mtr_fail(err, MTR_INVALID, "refers to tokens [%u, %u) of a history of [%u, %u)",
                        l->start, end, s->history_from, s->history_end);
    if (l->start > s->history_end)
        return mtr_fail(err, MTR_INVALID, "tokens at %u behind a history of %u", l->start,
                        s->history_end);
    memcpy(s->history + l->start, l->tokens, l->count * sizeof(uint32_t));
    s->history_end = end;
    return true;
}

static struct entry *entry_at(const struct mtr_scripted *m, const struct slot *s, uint32_t group,
                              uint32_t position)
{
    uint32_t bt = m->config.block_tokens;
    if (position / bt >= s->table_ends[group])
        return NULL;
    return &m->blocks[group][(size_t)s->tables[group][position / bt] * bt + position % bt];
}

/* ---- a lane's rows ----------------------------------------------------------------------------
 */

/* The hash behind the token at `position`, as it stands in the cache. */
static bool read_prefix(const struct mtr_scripted *m, const struct slot *s, uint32_t group,
                        const struct mtr_lane *l, uint64_t *prefix, struct mtr_error *err)
{
    *prefix = prefix_begin(l->adapter);
    if (l->start == 0)
        return true;
    const struct entry *e = entry_at(m, s, group, l->start - 1);
    if (!e || e->position != l->start - 1)
        return mtr_fail(err, MTR_INVALID, "group %u has no entry for position %u", group,
                        l->start - 1);
    *prefix = e->prefix;
    return true;
}

static bool write_rows(struct mtr_scripted *m, const struct slot *s, uint32_t group,
                       const struct mtr_lane *l, struct mtr_error *err)
{
    uint64_t prefix;
    if (!read_prefix(m, s, group, l, &prefix, err))
        return false;
    for (uint32_t i = 0; i < l->count; i++) {
        struct entry *e = entry_at(m, s, group, l->start + i);
        if (!e)
            return mtr_fail(err, MTR_INVALID, "group %u has no block for position %u", group,
                            l->start + i);
        uint64_t salt = l->start < s->sampling.output_start ? 0 : row_salt(&m->config);
        prefix = fold(prefix ^ salt, s->history[l->start + i]);
        *e = (struct entry){prefix, s->history[l->start + i], l->start + i, m->step, salt};
    }
    return true;
}

/* Every entry that the lane's rows see. */
static bool check_rows(const struct mtr_scripted *m, const struct slot *s, uint32_t group,
                       const struct mtr_lane *l, struct mtr_error *err)
{
    uint32_t window = m->config.windows[group];
    uint32_t from = window > 0 && l->start >= window ? l->start - window + 1 : 0;
    uint64_t prefix = 0;
    for (uint32_t p = from; p < l->start + l->count; p++) {
        const struct entry *e = entry_at(m, s, group, p);
        if (!e || e->position != p)
            return mtr_fail(err, MTR_INVALID, "group %u: position %u reads %s (%u)", group, p,
                            e ? "another position" : "no block", e ? e->position : 0);
        if (p < l->start && e->step >= m->step)
            return mtr_fail(err, MTR_INVALID, "group %u: position %u is of this very step", group,
                            p);
        if (p > from && e->prefix != fold(prefix ^ e->salt, e->token))
            return mtr_fail(err, MTR_INVALID, "group %u: position %u is of other tokens", group, p);
        if (e->salt != (p < s->sampling.output_start ? 0 : row_salt(&m->config)))
            return mtr_fail(err, MTR_INVALID, "group %u: position %u is of the other kernel", group,
                            p);
        if (p >= s->history_from && e->token != s->history[p])
            return mtr_fail(err, MTR_INVALID, "group %u: position %u has token %u, expected %u",
                            group, p, e->token, s->history[p]);
        prefix = e->prefix;
    }
    return true;
}

static bool run_state(struct mtr_scripted *m, struct slot *s, const struct mtr_lane *l,
                      struct mtr_error *err)
{
    const struct mtr_scripted_config *c = &m->config;
    if (s->state.position != l->start)
        return mtr_fail(err, MTR_INVALID, "a state of position %u, expected %u", s->state.position,
                        l->start);
    uint32_t end = l->start + l->count;
    if (l->start >= s->sampling.output_start) {
        for (uint32_t p = l->start; p < end; p++)
            s->state.hash = fold_row(s->state.hash, s->history[p]);
    } else {
        if (l->start % c->chunk_tokens != 0 || end > s->sampling.output_start ||
            (end % c->chunk_tokens != 0 && end != s->sampling.output_start))
            return mtr_fail(err, MTR_INVALID, "cuts a chunk: [%u, %u) of a prompt of %u", l->start,
                            end, s->sampling.output_start);
        s->state.hash = fold_prompt(c, s->state.hash, s->history, l->start, end);
    }
    s->state.position = end;
    return true;
}

static bool run_rows(struct mtr_scripted *m, struct slot *s, const struct mtr_lane *l,
                     struct mtr_error *err)
{
    for (uint32_t g = 0; g < m->config.group_count && m->config.physical; g++)
        if (!write_rows(m, s, g, l, err) || (m->config.deep && !check_rows(m, s, g, l, err)))
            return false;
    return !m->config.recurrent || !m->config.physical || run_state(m, s, l, err);
}

/* ---- samples ----------------------------------------------------------------------------------
 */

static uint64_t prefix_behind(const struct mtr_scripted *m, const struct slot *s, uint32_t position)
{
    if (!m->config.physical || m->config.group_count == 0)
        return 0;
    return entry_at(m, s, 0, position)->prefix;
}

static uint32_t sample(const struct mtr_scripted *m, const struct slot *s, const struct mtr_lane *l,
                       uint32_t row)
{
    const struct mtr_scripted_config *c = &m->config;
    uint32_t position = l->start + row + 1;
    if (c->recorded)
        return c->recorded[(position - s->sampling.output_start) % c->recorded_count];
    uint32_t output = row - (l->count - l->outputs);
    const uint8_t *mask = l->mask ? l->mask + (size_t)output * (l->mask_bytes / l->outputs) : NULL;
    uint64_t state = c->recurrent && c->physical ? s->state.hash : 0;
    return draw(c->vocab, prefix_behind(m, s, position - 1), state, s->sampling.seed, position,
                l->banned, l->banned_count, mask);
}

/* Guesses for the tokens behind the newest: what the model will draw, but for some. */
static bool propose(const struct mtr_scripted *m, struct mtr_arena *arena, const struct slot *s,
                    struct mtr_lane_result *r)
{
    uint32_t last = s->history_end - 1;
    uint64_t prefix = prefix_behind(m, s, last - 1);
    uint64_t h = fold(prefix, DRAFT_SALT);
    r->draft_count = (uint32_t)(h % (m->config.max_drafts + 1));
    uint32_t *drafts = mtr_arena_calloc(arena, r->draft_count + 1ul, sizeof(uint32_t));
    if (!drafts)
        return false;
    prefix = fold(prefix, s->history[last]);
    for (uint32_t i = 0; i < r->draft_count; i++) {
        drafts[i] = draw(m->config.vocab, prefix, 0, s->sampling.seed, last + 1 + i, NULL, 0, NULL);
        if (fold(h, i) % 3 == 0)
            drafts[i] = (drafts[i] + 1) % m->config.vocab;
        prefix = fold(prefix, drafts[i]);
    }
    r->drafts = drafts;
    return true;
}

static bool fill_logprobs(struct mtr_arena *arena, uint64_t prefix, uint32_t token, uint32_t top,
                          struct mtr_token_logprobs *to)
{
    top = top < TOP_MAX ? top : TOP_MAX;
    uint32_t *ids = mtr_arena_calloc(arena, top + 1ul, sizeof(*ids));
    float *values = mtr_arena_calloc(arena, top + 1ul, sizeof(*values));
    if (!ids || !values)
        return false;
    for (uint32_t i = 0; i < top; i++) {
        ids[i] = i == 0 ? token : (token + i) % 7;
        values[i] = logprob_of(prefix, token) - (float)i;
    }
    *to = (struct mtr_token_logprobs){logprob_of(prefix, token), 0, top, ids, values};
    return true;
}

/* Samples rows until a draft differs. */
static bool sample_rows(const struct mtr_scripted *m, struct mtr_arena *arena, struct slot *s,
                        const struct mtr_lane *l, struct mtr_lane_result *r)
{
    uint32_t *tokens = mtr_arena_calloc(arena, l->outputs, sizeof(*tokens));
    struct mtr_token_logprobs *probs = mtr_arena_calloc(arena, l->outputs, sizeof(*probs));
    if (!tokens || !probs)
        return false;
    for (uint32_t row = l->count - l->outputs; row < l->count; row++) {
        uint32_t token = sample(m, s, l, row), at = r->token_count++;
        tokens[at] = token;
        if (s->sampling.logprobs > 0 &&
            !fill_logprobs(arena, prefix_behind(m, s, l->start + row), token,
                           s->sampling.logprobs - 1, &probs[r->logprob_count++]))
            return false;
        if (row + 1 == l->count || l->drafts == 0 || s->history[l->start + row + 1] != token)
            break;
    }
    r->tokens = tokens;
    r->logprobs = probs;
    r->accepted = r->token_count - 1;
    s->history_end = l->start + l->count - l->outputs + r->token_count + 1;
    s->history[s->history_end - 1] = tokens[r->token_count - 1];
    return true;
}

static bool score_rows(const struct mtr_scripted *m, struct mtr_arena *arena, const struct slot *s,
                       const struct mtr_lane *l, struct mtr_lane_result *r)
{
    r->score_count = l->count - 1;
    struct mtr_token_logprobs *scores = mtr_arena_calloc(arena, l->count, sizeof(*scores));
    for (uint32_t i = 0; i < r->score_count && scores; i++)
        if (!fill_logprobs(arena, prefix_behind(m, s, l->start + i), s->history[l->start + i + 1],
                           0, &scores[i]))
            return false;
    r->scores = scores;
    return scores != NULL;
}

static bool answer(struct mtr_scripted *m, struct mtr_arena *arena, struct slot *s,
                   const struct mtr_lane *l, struct mtr_lane_result *r, struct mtr_error *err)
{
    r->sequence = l->sequence;
    bool ok = (l->outputs == 0 || sample_rows(m, arena, s, l, r)) &&
              (!l->score || score_rows(m, arena, s, l, r)) &&
              (l->outputs == 0 || m->config.max_drafts == 0 || propose(m, arena, s, r));
    return ok || mtr_fail(err, MTR_NO_MEMORY, "no memory for a result");
}

/* ---- the step ---------------------------------------------------------------------------------
 */

static bool run_lane(struct mtr_scripted *m, struct mtr_arena *arena, const struct mtr_lane *l,
                     struct mtr_step_result *result, struct mtr_lane_result *results,
                     struct mtr_error *err)
{
    if (l->slot >= m->config.slots)
        return mtr_fail(err, MTR_INVALID, "slot %u of %u", l->slot, m->config.slots);
    struct slot *s = &m->slots[l->slot];
    if (l->open && !open_slot(s, l, err))
        return false;
    if (!s->used || s->sequence != l->sequence)
        return mtr_fail(err, MTR_INVALID, "slot %u is not its own", l->slot);
    if (!change_tables(m, s, l, err) || !place_tokens(s, l, err) || !run_rows(m, s, l, err))
        return false;
    return (l->outputs == 0 && !l->score) ||
           answer(m, arena, s, l, &results[result->lane_count++], err);
}

bool mtr_scripted_step(struct mtr_scripted *m, struct mtr_arena *arena,
                       const struct mtr_step_plan *plan, struct mtr_step_result *result,
                       struct mtr_error *err)
{
    struct mtr_lane_result *results =
        mtr_arena_calloc(arena, plan->lane_count + 1ul, sizeof(*results));
    *result = (struct mtr_step_result){.step = plan->step, .lanes = results};
    if (!results)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for a result");
    if (plan->step != ++m->step)
        return mtr_fail(err, MTR_INVALID, "step %llu, expected %llu",
                        (unsigned long long)plan->step, (unsigned long long)m->step);
    for (uint32_t i = 0; i < plan->effect_count; i++)
        if (!run_effect(m, &plan->effects[i], err))
            return mtr_error_prefix(err, "step %llu: effect %u", (unsigned long long)plan->step, i);
    for (uint32_t i = 0; i < plan->lane_count; i++)
        if (!run_lane(m, arena, &plan->lanes[i], result, results, err))
            return mtr_error_prefix(err, "step %llu: lane %u (sequence %llu)",
                                    (unsigned long long)plan->step, i,
                                    (unsigned long long)plan->lanes[i].sequence);
    return true;
}
