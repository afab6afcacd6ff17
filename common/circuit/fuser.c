/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Matching. A pattern's first node is tried at every uncovered node; its others are searched for
 * in the WINDOW nodes behind, with backtracking, while edge variables are bound. Readers of each
 * edge stand in one array with offsets, so that "who reads this" is a short loop.
 */
#include "common/circuit/fuser.h"

#include <string.h>

#define WINDOW 48 /* nodes that a pattern may span */

struct fuser {
    const struct mtr_instance *in;
    const struct mtr_hardware *hardware;
    enum mtr_format cache;
    enum mtr_mode mode;
    bool *covered;        /* [nodes] */
    uint32_t *first_read; /* [edges + 1] into reads */
    uint16_t *reads;      /* nodes, by edge */
    struct mtr_group *groups;
    uint32_t group_count;
};

struct match {
    const struct mtr_fusion_rule *rule;
    struct mtr_group g;
    bool bound[MTR_RULE_VARS];
};

const struct mtr_family *mtr_family_find(const struct mtr_hardware *hardware, const char *name)
{
    for (uint32_t i = 0; i < hardware->family_count; i++)
        if (strcmp(hardware->families[i].name, name) == 0)
            return &hardware->families[i];
    return NULL;
}

/* The point for formats, whatever it can't do otherwise. */
static const struct mtr_point *find_point(const struct mtr_family *family, const char *function,
                                          enum mtr_format weight, enum mtr_scaling scaling,
                                          enum mtr_format cache)
{
    for (uint32_t i = 0; i < family->point_count; i++) {
        const struct mtr_point *p = &family->points[i];
        if (p->by_default && p->weight == weight && p->scaling == scaling && p->cache == cache &&
            mtr_point_is(p, function))
            return p;
    }
    return NULL;
}

bool mtr_kernel_format(const struct mtr_family *family, const char *function,
                       const struct mtr_instance_weight *weight, enum mtr_format *out)
{
    enum mtr_format own = weight->format;
    bool plain = own == MTR_F32 || own == MTR_F16 || own == MTR_BF16;
    *out = own;
    if (find_point(family, function, own, weight->scaling, MTR_FORMAT_COUNT))
        return true;
    *out = MTR_F32;
    if (plain && find_point(family, function, MTR_F32, MTR_SCALING_NONE, MTR_FORMAT_COUNT))
        return true;
    *out = MTR_BF16;
    return weight->scaling == MTR_SCALING_NONE && mtr_format_info(own)->dequantize &&
           find_point(family, function, MTR_BF16, MTR_SCALING_NONE, MTR_FORMAT_COUNT);
}

static bool index_reads(struct mtr_arena *arena, struct fuser *f)
{
    const struct mtr_instance *in = f->in;
    uint32_t total = 0;
    f->first_read = mtr_arena_calloc(arena, in->edge_count + 2, sizeof *f->first_read);
    if (!f->first_read)
        return false;
    for (uint32_t n = 0; n < in->node_count; n++)
        for (uint32_t i = 0; i < in->nodes[n].in_count; i++)
            if (in->nodes[n].in[i] != MTR_NONE) {
                f->first_read[in->nodes[n].in[i] + 2]++;
                total++;
            }
    for (uint32_t e = 2; e < in->edge_count + 2; e++)
        f->first_read[e] += f->first_read[e - 1];
    f->reads = mtr_arena_calloc(arena, total + 1, sizeof *f->reads);
    if (!f->reads)
        return false;
    for (uint32_t n = 0; n < in->node_count; n++)
        for (uint32_t i = 0; i < in->nodes[n].in_count; i++)
            if (in->nodes[n].in[i] != MTR_NONE)
                f->reads[f->first_read[in->nodes[n].in[i] + 1]++] = (uint16_t)n;
    return true;
}

static bool bind_edge(struct match *m, uint8_t var, uint16_t edge)
{
    if (m->bound[var])
        return m->g.edges[var] == edge;
    m->bound[var] = true;
    m->g.edges[var] = edge;
    return edge != MTR_NONE;
}

static bool fits(struct match *m, const struct mtr_pattern_node *p, const struct mtr_node *n)
{
    if (n->op != p->op || n->in_count != p->in_count || n->out_count != p->out_count)
        return false;
    if (p->role && (!n->role || strcmp(p->role, n->role) != 0))
        return false;
    for (uint32_t i = 0; i < p->in_count; i++)
        if (!bind_edge(m, p->in[i], n->in[i]))
            return false;
    for (uint32_t i = 0; i < p->out_count; i++)
        if (!bind_edge(m, p->out[i], n->out[i]))
            return false;
    return true;
}

static bool in_group(const struct match *m, uint16_t node)
{
    for (uint32_t i = 0; i < m->rule->node_count; i++)
        if (m->g.nodes[i] == node)
            return true;
    return false;
}

static bool is_in(const struct mtr_fusion_rule *r, uint8_t var)
{
    for (uint32_t i = 0; i < r->in_count; i++)
        if (r->in[i] == var)
            return true;
    return false;
}

static bool is_out(const struct mtr_fusion_rule *r, uint8_t var)
{
    for (uint32_t i = 0; i < r->out_count; i++)
        if (r->out[i] == var)
            return true;
    return false;
}

/* Edges made inside: read inside only, or an output that is read after the last node only. */
static bool made_edges_good(const struct fuser *f, const struct match *m)
{
    const struct mtr_fusion_rule *r = m->rule;
    for (uint32_t n = 0; n < r->node_count; n++)
        for (uint32_t i = 0; i < r->nodes[n].out_count; i++) {
            uint8_t var = r->nodes[n].out[i];
            uint16_t e = m->g.edges[var];
            bool out = is_out(r, var);
            if (!out && e == f->in->logits)
                return false;
            for (uint32_t k = f->first_read[e]; k < f->first_read[e + 1]; k++)
                if (!in_group(m, f->reads[k]) && (!out || f->reads[k] < m->g.last))
                    return false;
        }
    return true;
}

static bool aliases_good(const struct fuser *f, const struct match *m)
{
    const struct mtr_fusion_rule *r = m->rule;
    for (uint32_t o = 0; o < r->out_count; o++) {
        if (r->alias[o] == 0xff)
            continue;
        uint16_t from = m->g.edges[r->alias[o]], to = m->g.edges[r->out[o]];
        const struct mtr_edge *a = &f->in->edges[from], *b = &f->in->edges[to];
        if (a->rows != b->rows || a->cols != b->cols || a->format != b->format)
            return false;
        for (uint32_t k = f->first_read[from]; k < f->first_read[from + 1]; k++)
            if (!in_group(m, f->reads[k]) && f->reads[k] >= m->g.last)
                return false;
    }
    return true;
}

/* Numbers of the same name agree; the launch has room for all. */
static bool params_good(const struct fuser *f, const struct match *m)
{
    struct mtr_launch_param have[MTR_LAUNCH_PARAMS];
    uint32_t count = 0, room = MTR_LAUNCH_PARAMS - m->rule->set_count;
    for (uint32_t n = 0; n < m->rule->node_count; n++) {
        const struct mtr_node *node = &f->in->nodes[m->g.nodes[n]];
        for (uint32_t i = 0; i < node->param_count; i++) {
            uint32_t k = 0;
            while (k < count && have[k].name != node->params[i].name)
                k++;
            if (k < count && have[k].value != node->params[i].value)
                return false;
            if (k == count && count == room)
                return false;
            if (k == count)
                have[count++] = node->params[i];
        }
    }
    return true;
}

/* The one format of the matrices that the launch reads, MTR_FORMAT_COUNT when there is none, and
 * their one kind of scales; false when they differ or the family can't read them. */
static bool matrix_format(const struct fuser *f, const struct match *m, enum mtr_format *out,
                          enum mtr_scaling *scaling)
{
    *out = MTR_FORMAT_COUNT;
    *scaling = MTR_SCALING_NONE;
    for (uint32_t n = 0; n < m->rule->node_count; n++) {
        const struct mtr_node *node = &f->in->nodes[m->g.nodes[n]];
        for (uint32_t i = 0; i < node->weight_count; i++) {
            enum mtr_format format;
            if (node->weights[i] == MTR_NONE || f->in->weights[node->weights[i]].vector)
                continue;
            const struct mtr_instance_weight *w = &f->in->weights[node->weights[i]];
            if (!mtr_kernel_format(m->g.family, m->rule->function, w, &format))
                return false;
            if (*out != MTR_FORMAT_COUNT && (*out != format || *scaling != w->scaling))
                return false;
            *out = format;
            *scaling = w->scaling;
        }
    }
    return true;
}

static bool reads_cache(const struct match *m, const struct fuser *f)
{
    for (uint32_t n = 0; n < m->rule->node_count; n++)
        if (f->in->nodes[m->g.nodes[n]].cache != MTR_NONE)
            return true;
    return false;
}

static double node_number(const struct mtr_node *n, enum mtr_param name, double absent)
{
    for (uint32_t i = 0; i < n->param_count; i++)
        if (n->params[i].name == name)
            return n->params[i].value;
    return absent;
}

/* Which bound of the point the node exceeds, or NULL. *have and *most for people. */
static const char *exceeded(const struct fuser *f, const struct mtr_point *p,
                            const struct mtr_node *n, uint64_t *have, uint64_t *most)
{
    double dim = node_number(n, MTR_P_HEAD_DIM, 0);
    double kv = node_number(n, MTR_P_KV_HEADS, 1);
    *have = (uint64_t)dim;
    *most = p->max_head_dim;
    if (p->max_head_dim && dim > p->max_head_dim)
        return "columns of a head";
    *have = (uint64_t)(node_number(n, MTR_P_HEADS, 0) / kv);
    *most = p->max_group;
    if (p->max_group && *have > *most)
        return "query heads of one key/value head";
    *most = p->max_k;
    for (uint32_t i = 0; p->max_k && i < n->weight_count; i++) {
        *have = n->weights[i] == MTR_NONE ? 0 : f->in->weights[n->weights[i]].cols;
        if (*have > *most)
            return "columns of a matrix";
    }
    return NULL;
}

static bool within_bounds(const struct fuser *f, const struct match *m)
{
    uint64_t have, most;
    for (uint32_t n = 0; n < m->rule->node_count; n++)
        if (exceeded(f, m->g.point, &f->in->nodes[m->g.nodes[n]], &have, &most))
            return false;
    return true;
}

static bool find_kernel(const struct fuser *f, struct match *m)
{
    enum mtr_format weight;
    enum mtr_scaling scaling;
    m->g.family = mtr_family_find(f->hardware, m->rule->family);
    if (!m->g.family || !matrix_format(f, m, &weight, &scaling))
        return false;
    m->g.point = find_point(m->g.family, m->rule->function, weight, scaling,
                            reads_cache(m, f) ? f->cache : MTR_FORMAT_COUNT);
    return m->g.point && within_bounds(f, m);
}

/* Inputs must come from outside. */
static bool inputs_good(const struct match *m)
{
    const struct mtr_fusion_rule *r = m->rule;
    for (uint32_t n = 0; n < r->node_count; n++)
        for (uint32_t i = 0; i < r->nodes[n].out_count; i++)
            if (is_in(r, r->nodes[n].out[i]))
                return false;
    return true;
}

static bool accept(const struct fuser *f, struct match *m)
{
    m->g.last = 0;
    for (uint32_t i = 0; i < m->rule->node_count; i++)
        if (m->g.nodes[i] > m->g.last)
            m->g.last = m->g.nodes[i];
    return inputs_good(m) && made_edges_good(f, m) && aliases_good(f, m) && params_good(f, m) &&
           find_kernel(f, m);
}

/* Matches the pattern's nodes from `at` on; recursion is as deep as the pattern. */
static bool match_rest(const struct fuser *f, struct match *m, uint32_t at)
{
    if (at == m->rule->node_count)
        return accept(f, m);
    uint32_t first = m->g.nodes[0], end = first + WINDOW;
    if (end > f->in->node_count)
        end = f->in->node_count;
    for (uint32_t n = first + 1; n < end; n++) {
        struct match next = *m;
        if (f->covered[n] || in_group(m, (uint16_t)n) ||
            !fits(&next, &m->rule->nodes[at], &f->in->nodes[n]))
            continue;
        next.g.nodes[at] = (uint16_t)n;
        if (match_rest(f, &next, at + 1)) {
            *m = next;
            return true;
        }
    }
    return false;
}

static void try_rule(struct fuser *f, const struct mtr_fusion_rule *rule, uint32_t node)
{
    struct match m = {.rule = rule, .g = {.rule = rule}};
    if (f->covered[node] || !fits(&m, &rule->nodes[0], &f->in->nodes[node]))
        return;
    memset(m.g.nodes, 0xff, sizeof m.g.nodes);
    m.g.nodes[0] = (uint16_t)node;
    if (!match_rest(f, &m, 1))
        return;
    for (uint32_t i = 0; i < rule->node_count; i++)
        f->covered[m.g.nodes[i]] = true;
    f->groups[f->group_count++] = m.g;
}

/* Puts groups where their last nodes stand. */
static void order(struct fuser *f, uint32_t *slots)
{
    struct mtr_group *sorted = f->groups + f->in->node_count; /* the second half */
    for (uint32_t i = 0; i < f->group_count; i++)
        slots[f->groups[i].last] = i + 1;
    for (uint32_t n = 0, k = 0; n < f->in->node_count; n++)
        if (slots[n])
            sorted[k++] = f->groups[slots[n] - 1];
    memcpy(f->groups, sorted, f->group_count * sizeof *sorted);
}

/* The first point of the class that bears the operation's name. */
static const struct mtr_point *any_point(const struct mtr_hardware *h, const char *op)
{
    for (uint32_t i = 0; i < h->family_count; i++)
        for (uint32_t k = 0; k < h->families[i].point_count; k++)
            if (mtr_point_is(&h->families[i].points[k], op))
                return &h->families[i].points[k];
    return NULL;
}

/* A matrix of the node that the operation's own family can't read, or NULL. */
static const struct mtr_instance_weight *unreadable(const struct fuser *f, const struct mtr_node *n)
{
    const char *op = mtr_op_info(n->op)->name;
    const struct mtr_family *family = mtr_family_find(f->hardware, op);
    for (uint32_t i = 0; family && i < n->weight_count; i++) {
        const struct mtr_instance_weight *w =
            n->weights[i] == MTR_NONE ? NULL : &f->in->weights[n->weights[i]];
        enum mtr_format format;
        if (w && !w->vector && !mtr_kernel_format(family, op, w, &format))
            return w;
    }
    return NULL;
}

/* Why nothing covers a node, for people. */
static bool uncovered(const struct fuser *f, const struct mtr_node *n, struct mtr_error *err)
{
    const char *op = mtr_op_info(n->op)->name, *class = f->hardware->name;
    const struct mtr_instance_weight *w = unreadable(f, n);
    const struct mtr_point *p = any_point(f->hardware, op);
    uint64_t have, most;
    if (w)
        return mtr_fail(err, MTR_UNSUPPORTED,
                        "class %s has no kernel point of %s for %s weights with scales by %s (%s)",
                        class, op, mtr_format_info(w->format)->name, mtr_scaling_name(w->scaling),
                        w->name);
    const char *bound = p ? exceeded(f, p, n, &have, &most) : NULL;
    if (bound)
        return mtr_fail(err, MTR_UNSUPPORTED,
                        "class %s computes %s for up to %llu %s, not %llu (%s)", class, op,
                        (unsigned long long)most, bound, (unsigned long long)have, n->name);
    return mtr_fail(err, MTR_UNSUPPORTED, "class %s has no rule for the operation %s of %s", class,
                    op, n->name);
}

/* Every edge is made before it is read, and nobody reads memory that was taken over. */
static bool check_order(const struct fuser *f, uint32_t *made, struct mtr_error *err)
{
    for (uint32_t g = 0; g < f->group_count; g++) {
        const struct mtr_group *group = &f->groups[g];
        const struct mtr_fusion_rule *r = group->rule;
        for (uint32_t i = 0; i < r->in_count; i++)
            if (made[group->edges[r->in[i]]] != 1)
                return mtr_fail(err, MTR_INTERNAL, "rule %s reads %s, which is not there", r->name,
                                f->in->edges[group->edges[r->in[i]]].name);
        for (uint32_t o = 0; o < r->out_count; o++) {
            uint16_t from = r->alias[o] == 0xff ? MTR_NONE : group->edges[r->alias[o]];
            if (from != MTR_NONE && made[from] != 1)
                return mtr_fail(err, MTR_INTERNAL,
                                "rule %s takes the memory of %s, which is not there", r->name,
                                f->in->edges[from].name);
            if (from != MTR_NONE)
                made[from] = 2;
            made[group->edges[r->out[o]]] = 1;
        }
    }
    return true;
}

bool mtr_fuse(struct mtr_arena *arena, const struct mtr_instance *in,
              const struct mtr_hardware *hardware, enum mtr_format cache, enum mtr_mode mode,
              struct mtr_cover *out, struct mtr_error *err)
{
    struct fuser f = {.in = in, .hardware = hardware, .cache = cache, .mode = mode};
    f.covered = mtr_arena_calloc(arena, in->node_count + 1, sizeof *f.covered);
    f.groups = mtr_arena_calloc(arena, 2 * (size_t)in->node_count + 1, sizeof *f.groups);
    uint32_t *slots = mtr_arena_calloc(arena, in->node_count + 1, sizeof *slots);
    uint32_t *made = mtr_arena_calloc(arena, in->edge_count + 1, sizeof *made);
    if (!f.covered || !f.groups || !slots || !made || !index_reads(arena, &f))
        return mtr_fail(err, MTR_NO_MEMORY, "no memory to fuse %u nodes", in->node_count);
    for (uint32_t i = 0; i < hardware->rule_count; i++)
        if (hardware->rules[i].modes & 1u << mode)
            for (uint32_t n = 0; n < in->node_count; n++)
                try_rule(&f, &hardware->rules[i], n);
    for (uint32_t n = 0; n < in->node_count; n++)
        if (!f.covered[n])
            return uncovered(&f, &in->nodes[n], err);
    order(&f, slots);
    *out = (struct mtr_cover){f.group_count, f.groups};
    return check_order(&f, made, err);
}
