/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What can follow an operand: .name, [subscript], (arguments), |filter and `is` test.
 */
#include "broker/text/jinja/parse.h"

static struct mtr_jn *parse_subscript_part(struct mtr_jparser *p, bool *slice)
{
    uint32_t line = p->tok->line;
    struct mtr_jn *parts[3] = {0};
    unsigned part = 0;
    *slice = false;
    for (;;) {
        if (part < 2 && mtr_jp_skip_op(p, ':')) {
            *slice = true;
            part++;
            continue;
        }
        if (part && (mtr_jp_is_op(p, ']') || mtr_jp_is_op(p, ',')))
            break;
        if (parts[part]) {
            mtr_jp_fail(p, line, "unexpected %s in a subscript", mtr_jp_describe(p->tok));
            return NULL;
        }
        if (!(parts[part] = mtr_jp_expression(p, true)))
            return NULL;
        if (part == 0 && !mtr_jp_is_op(p, ':'))
            return parts[0];
    }
    struct mtr_jn *n = mtr_jp_node(p, MTR_JN_SLICE, line);
    if (!n || !mtr_jp_over(p, n, parts[0]) || !mtr_jp_over(p, n, parts[1]) ||
        !mtr_jp_over(p, n, parts[2]))
        return NULL;
    n->slice.start = parts[0];
    n->slice.stop = parts[1];
    n->slice.step = parts[2];
    return n;
}

static struct mtr_jn *item_of(struct mtr_jparser *p, uint32_t line, struct mtr_jn *object,
                              struct mtr_jn *key)
{
    struct mtr_jn *n = key ? mtr_jp_node(p, MTR_JN_GETITEM, line) : NULL;
    if (!n || !mtr_jp_over(p, n, object) || !mtr_jp_over(p, n, key))
        return NULL;
    n->getitem.object = object;
    n->getitem.key = key;
    return n;
}

static struct mtr_jn *parse_subscript(struct mtr_jparser *p, struct mtr_jn *object)
{
    uint32_t line = (p->tok++)->line; /* '[' */
    struct mtr_jnode_list l = {0};
    bool slice = false;
    while (!mtr_jp_is_op(p, ']')) {
        if (l.count && !mtr_jp_expect_op(p, ','))
            return NULL;
        bool is_slice;
        if (!mtr_jp_push(p, &l, parse_subscript_part(p, &is_slice)))
            return NULL;
        slice |= is_slice;
    }
    p->tok++;
    if (l.count == 1)
        return item_of(p, line, object, l.items[0]);
    if (slice) {
        mtr_jp_fail(p, line, "a slice among several subscripts");
        return NULL;
    }
    struct mtr_jn *key = mtr_jp_node(p, MTR_JN_TUPLE, line);
    if (!key)
        return NULL;
    for (uint32_t i = 0; i < l.count; i++) {
        if (!mtr_jp_over(p, key, l.items[i]))
            return NULL;
    }
    key->list = mtr_jp_nodes(&l);
    return item_of(p, line, object, key);
}

static struct mtr_jn *parse_dot(struct mtr_jparser *p, struct mtr_jn *object)
{
    uint32_t line = (p->tok++)->line; /* '.' */
    const struct mtr_jtok *t = p->tok;
    if (t->kind == MTR_JT_NAME) {
        p->tok++;
        struct mtr_jn *n = mtr_jp_node(p, MTR_JN_GETATTR, line);
        if (!n || !mtr_jp_over(p, n, object))
            return NULL;
        n->getattr.object = object;
        n->getattr.name = t->text;
        return n;
    }
    if (t->kind != MTR_JT_INTEGER) {
        mtr_jp_fail(p, t->line, "expected a name or a number after '.'");
        return NULL;
    }
    p->tok++;
    struct mtr_jn *key = mtr_jp_node(p, MTR_JN_CONST, t->line);
    if (!key)
        return NULL;
    key->constant = mtr_jint(t->integer);
    return item_of(p, line, object, key);
}

static bool push_keyword(struct mtr_jparser *p, struct mtr_jargs *a, uint32_t *cap,
                         struct mtr_str name, struct mtr_jn *value)
{
    for (uint32_t i = 0; i < a->kw_count; i++) {
        if (mtr_str_equal(a->kw[i].name, name))
            return mtr_jp_fail(p, value->line, "keyword argument repeated: %.*s",
                               MTR_STR_ARG(name));
    }
    if (a->kw_count == *cap) {
        *cap = *cap ? 2 * *cap : 4;
        struct mtr_jkwarg *grown = mtr_jp_alloc(p, *cap * sizeof *grown);
        if (!grown)
            return false;
        if (a->kw_count)
            memcpy(grown, a->kw, a->kw_count * sizeof *grown);
        a->kw = grown;
    }
    a->kw[a->kw_count++] = (struct mtr_jkwarg){name, value};
    return true;
}

/* One argument of a call. */
static bool parse_arg(struct mtr_jparser *p, struct mtr_jargs *a, struct mtr_jnode_list *pos,
                      uint32_t *kw_cap, struct mtr_jn **parsed)
{
    const char *wrong = "line %u: invalid syntax for a function call";
    if (mtr_jp_skip_op(p, '*')) {
        if (a->star || a->star_star)
            return mtr_fail(p->err, MTR_INVALID, wrong, p->tok->line);
        *parsed = a->star = mtr_jp_expression(p, true);
        return a->star;
    }
    if (mtr_jp_skip_op(p, MTR_JOP_POW)) {
        if (a->star_star)
            return mtr_fail(p->err, MTR_INVALID, wrong, p->tok->line);
        *parsed = a->star_star = mtr_jp_expression(p, true);
        return a->star_star;
    }
    const struct mtr_jtok *t = p->tok;
    if (t->kind == MTR_JT_NAME && t[1].kind == MTR_JT_OPERATOR && t[1].op == '=') {
        if (a->star_star)
            return mtr_fail(p->err, MTR_INVALID, wrong, t->line);
        p->tok += 2;
        *parsed = mtr_jp_expression(p, true);
        return *parsed && push_keyword(p, a, kw_cap, t->text, *parsed);
    }
    if (a->star || a->star_star || a->kw_count)
        return mtr_fail(p->err, MTR_INVALID, wrong, t->line);
    *parsed = mtr_jp_expression(p, true);
    return mtr_jp_push(p, pos, *parsed);
}

/* "(...)"; the heights of the arguments go to n. */
static struct mtr_jargs *parse_args(struct mtr_jparser *p, struct mtr_jn *n)
{
    struct mtr_jargs *a = mtr_jp_alloc(p, sizeof *a);
    struct mtr_jnode_list pos = {0};
    uint32_t kw_cap = 0;
    if (!a || !mtr_jp_expect_op(p, '('))
        return NULL;
    bool comma = false;
    while (!mtr_jp_is_op(p, ')')) {
        if (comma) {
            if (!mtr_jp_expect_op(p, ','))
                return NULL;
            if (mtr_jp_is_op(p, ')'))
                break;
        }
        struct mtr_jn *parsed = NULL;
        if (!parse_arg(p, a, &pos, &kw_cap, &parsed) || !mtr_jp_over(p, n, parsed))
            return NULL;
        comma = true;
    }
    p->tok++;
    a->pos = mtr_jp_nodes(&pos);
    return a;
}

static struct mtr_jn *parse_call(struct mtr_jparser *p, struct mtr_jn *callee)
{
    struct mtr_jn *n = mtr_jp_node(p, MTR_JN_CALL, p->tok->line);
    if (!n || !mtr_jp_over(p, n, callee))
        return NULL;
    n->call.callee = callee;
    n->call.args = parse_args(p, n);
    return n->call.args ? n : NULL;
}

struct mtr_jn *mtr_jp_postfix(struct mtr_jparser *p, struct mtr_jn *n)
{
    while (n) {
        if (mtr_jp_is_op(p, '.'))
            n = parse_dot(p, n);
        else if (mtr_jp_is_op(p, '['))
            n = parse_subscript(p, n);
        else if (mtr_jp_is_op(p, '('))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* "name" or "name.name" of a filter or test. */
static bool parse_dotted_name(struct mtr_jparser *p, struct mtr_str *name)
{
    struct mtr_jtok *t = mtr_jp_expect(p, MTR_JT_NAME);
    if (!t)
        return false;
    *name = t->text;
    while (mtr_jp_skip_op(p, '.')) {
        if (!(t = mtr_jp_expect(p, MTR_JT_NAME)))
            return false;
        *name = mtr_str(
            mtr_arena_printf(p->arena, "%.*s.%.*s", MTR_STR_ARG(*name), MTR_STR_ARG(t->text)));
        if (!name->ptr)
            return mtr_fail(p->err, MTR_NO_MEMORY, "no memory for a template");
    }
    return true;
}

/* "|name(...)", any number; start_inline: the first without its bar. */
struct mtr_jn *mtr_jp_filters(struct mtr_jparser *p, struct mtr_jn *value, bool start_inline)
{
    while (mtr_jp_is_op(p, '|') || start_inline) {
        if (!start_inline)
            p->tok++;
        struct mtr_jn *n = mtr_jp_node(p, MTR_JN_FILTER, p->tok->line);
        if (!n || !parse_dotted_name(p, &n->filter.name) || !mtr_jp_over(p, n, value))
            return NULL;
        n->filter.value = value;
        n->filter.args =
            mtr_jp_is_op(p, '(') ? parse_args(p, n) : mtr_jp_alloc(p, sizeof *n->filter.args);
        if (!n->filter.args)
            return NULL;
        start_inline = false;
        value = n;
    }
    return value;
}

/* Whether an argument without parentheses follows a test: "is divisibleby 3". */
static bool at_bare_argument(const struct mtr_jparser *p)
{
    const struct mtr_jtok *t = p->tok;
    if (t->kind == MTR_JT_NAME)
        return !mtr_jp_is_name(p, "else") && !mtr_jp_is_name(p, "or") && !mtr_jp_is_name(p, "and");
    return t->kind == MTR_JT_STRING || t->kind == MTR_JT_INTEGER || t->kind == MTR_JT_BIG_INTEGER ||
           t->kind == MTR_JT_FLOAT || mtr_jp_is_op(p, '[') || mtr_jp_is_op(p, '{');
}

static struct mtr_jn *parse_test(struct mtr_jparser *p, struct mtr_jn *value)
{
    uint32_t line = (p->tok++)->line; /* is */
    bool negated = mtr_jp_skip_name(p, "not");
    struct mtr_jn *n = mtr_jp_node(p, MTR_JN_TEST, line);
    if (!n || !parse_dotted_name(p, &n->filter.name) || !mtr_jp_over(p, n, value))
        return NULL;
    n->filter.value = value;
    if (mtr_jp_is_op(p, '(')) {
        n->filter.args = parse_args(p, n);
        if (!n->filter.args)
            return NULL;
    } else {
        n->filter.args = mtr_jp_alloc(p, sizeof *n->filter.args);
        if (!n->filter.args)
            return NULL;
        if (at_bare_argument(p)) {
            if (mtr_jp_is_name(p, "is")) {
                mtr_jp_fail(p, line, "tests can't be chained with is");
                return NULL;
            }
            struct mtr_jnode_list l = {0};
            struct mtr_jn *arg = mtr_jp_postfix(p, mtr_jp_primary(p, false));
            if (!mtr_jp_push(p, &l, arg) || !mtr_jp_over(p, n, arg))
                return NULL;
            n->filter.args->pos = mtr_jp_nodes(&l);
        }
    }
    return negated ? mtr_jp_binary(p, MTR_JN_NOT, '!', line, n, NULL) : n;
}

struct mtr_jn *mtr_jp_filter_expr(struct mtr_jparser *p, struct mtr_jn *n)
{
    while (n) {
        if (mtr_jp_is_op(p, '|'))
            n = mtr_jp_filters(p, n, false);
        else if (mtr_jp_is_name(p, "is"))
            n = parse_test(p, n);
        else if (mtr_jp_is_op(p, '('))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}
