/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Expressions, by recursive descent, one function a level of precedence:
 *
 *   x if c else y  <  or  <  and  <  not  <  comparisons, in  <  + -  <  ~  <  * / // %  <  **
 *   <  unary + -  <  . [] ()  and  | is
 *
 * Filters and tests bind to the operand before them, so that -1|abs is (-1)|abs, and -x.y is
 * -(x.y).
 * ** is left-associative and the operand of a unary minus is a whole one, as jinja2 has it.
 */
#include "broker/text/jinja/parse.h"

#include "broker/text/jinja/jinja.h"

#define MAX_RECURSION 180 /* functions of a level of precedence: some ten frames each */

static struct mtr_jn *parse_or(struct mtr_jparser *p);
static struct mtr_jn *parse_unary(struct mtr_jparser *p, bool with_filter);

/* Sets the height of a node over the child and refuses what is too high. */
bool mtr_jp_over(struct mtr_jparser *p, struct mtr_jn *n, const struct mtr_jn *child)
{
    if (!child)
        return true;
    if (child->height >= n->height)
        n->height = (uint16_t)(child->height + 1);
    if (n->height <= MTR_JINJA_MAX_HEIGHT)
        return true;
    return mtr_jp_fail(p, n->line, "an expression is nested deeper than %d", MTR_JINJA_MAX_HEIGHT);
}

struct mtr_jn *mtr_jp_binary(struct mtr_jparser *p, enum mtr_jn_kind kind, char op, uint32_t line,
                             struct mtr_jn *left, struct mtr_jn *right)
{
    struct mtr_jn *n = left ? mtr_jp_node(p, kind, line) : NULL;
    if (!n || !mtr_jp_over(p, n, left) || !mtr_jp_over(p, n, right))
        return NULL;
    n->binary.left = left;
    n->binary.right = right;
    n->binary.op = op;
    return n;
}

/* ---- conditions ---- */

static struct mtr_jn *parse_cond(struct mtr_jparser *p)
{
    uint32_t line = p->tok->line;
    struct mtr_jn *value = parse_or(p);
    while (value && mtr_jp_skip_name(p, "if")) {
        struct mtr_jn *n = mtr_jp_node(p, MTR_JN_COND, line);
        if (!n || !(n->cond.test = parse_or(p)))
            return NULL;
        n->cond.yes = value;
        if (mtr_jp_skip_name(p, "else") && !(n->cond.no = mtr_jp_expression(p, true)))
            return NULL;
        if (!mtr_jp_over(p, n, value) || !mtr_jp_over(p, n, n->cond.test) ||
            !mtr_jp_over(p, n, n->cond.no))
            return NULL;
        value = n;
        line = p->tok->line;
    }
    return value;
}

struct mtr_jn *mtr_jp_expression(struct mtr_jparser *p, bool with_cond)
{
    if (p->recursion >= MAX_RECURSION) {
        mtr_jp_fail(p, p->tok->line, "an expression is nested deeper than %d", MAX_RECURSION);
        return NULL;
    }
    p->recursion++;
    struct mtr_jn *n = with_cond ? parse_cond(p) : parse_or(p);
    p->recursion--;
    return n;
}

static struct mtr_jn *parse_compare(struct mtr_jparser *p);

static struct mtr_jn *parse_not(struct mtr_jparser *p)
{
    uint32_t line = p->tok->line;
    uint32_t nots = 0;
    while (mtr_jp_skip_name(p, "not"))
        nots++;
    struct mtr_jn *n = parse_compare(p);
    while (n && nots--)
        n = mtr_jp_binary(p, MTR_JN_NOT, '!', line, n, NULL);
    return n;
}

static struct mtr_jn *parse_and(struct mtr_jparser *p)
{
    uint32_t line = p->tok->line;
    struct mtr_jn *left = parse_not(p);
    while (left && mtr_jp_skip_name(p, "and")) {
        struct mtr_jn *right = parse_not(p);
        left = right ? mtr_jp_binary(p, MTR_JN_AND, '&', line, left, right) : NULL;
        line = p->tok->line;
    }
    return left;
}

static struct mtr_jn *parse_or(struct mtr_jparser *p)
{
    uint32_t line = p->tok->line;
    struct mtr_jn *left = parse_and(p);
    while (left && mtr_jp_skip_name(p, "or")) {
        struct mtr_jn *right = parse_and(p);
        left = right ? mtr_jp_binary(p, MTR_JN_OR, '|', line, left, right) : NULL;
        line = p->tok->line;
    }
    return left;
}

/* ---- comparisons and arithmetic ---- */

static struct mtr_jn *parse_sum(struct mtr_jparser *p);

/* The comparison operator here, which is skipped, or '\0'. */
static char compare_op(struct mtr_jparser *p)
{
    const struct mtr_jtok *t = p->tok;
    if (t->kind == MTR_JT_OPERATOR && t->op && strchr("enlg<>", t->op)) {
        p->tok++;
        return t->op;
    }
    if (mtr_jp_skip_name(p, "in"))
        return 'i';
    if (mtr_jp_is_name(p, "not") && t[1].kind == MTR_JT_NAME && mtr_str_is(t[1].text, "in")) {
        p->tok += 2;
        return 'I';
    }
    return '\0';
}

static struct mtr_jn *parse_compare(struct mtr_jparser *p)
{
    uint32_t line = p->tok->line;
    struct mtr_jn *first = parse_sum(p);
    char op = first ? compare_op(p) : '\0';
    if (!op)
        return first;
    struct mtr_jn *n = mtr_jp_node(p, MTR_JN_COMPARE, line);
    if (!n || !mtr_jp_over(p, n, first))
        return NULL;
    n->compare.first = first;
    uint32_t cap = 0;
    for (; op; op = compare_op(p)) {
        struct mtr_jn *value = parse_sum(p);
        if (!value || !mtr_jp_over(p, n, value))
            return NULL;
        if (n->compare.count == cap) {
            cap = cap ? 2 * cap : 1;
            struct mtr_joperand *grown = mtr_jp_alloc(p, cap * sizeof *grown);
            if (!grown)
                return NULL;
            if (n->compare.count)
                memcpy(grown, n->compare.ops, n->compare.count * sizeof *grown);
            n->compare.ops = grown;
        }
        n->compare.ops[n->compare.count++] = (struct mtr_joperand){op, value};
    }
    return n;
}

static struct mtr_jn *parse_pow(struct mtr_jparser *p)
{
    uint32_t line = p->tok->line;
    struct mtr_jn *left = parse_unary(p, true);
    while (left && mtr_jp_skip_op(p, MTR_JOP_POW)) {
        struct mtr_jn *right = parse_unary(p, true);
        left = right ? mtr_jp_binary(p, MTR_JN_BINARY, MTR_JOP_POW, line, left, right) : NULL;
        line = p->tok->line;
    }
    return left;
}

/* Left-associative operators out of `ops` over operands of the next level. */
static struct mtr_jn *parse_chain(struct mtr_jparser *p, const char *ops,
                                  struct mtr_jn *(*operand)(struct mtr_jparser *p))
{
    uint32_t line = p->tok->line;
    struct mtr_jn *left = operand(p);
    while (left && p->tok->kind == MTR_JT_OPERATOR && strchr(ops, p->tok->op)) {
        char op = (p->tok++)->op;
        struct mtr_jn *right = operand(p);
        left = right ? mtr_jp_binary(p, MTR_JN_BINARY, op, line, left, right) : NULL;
        line = p->tok->line;
    }
    return left;
}

static struct mtr_jn *parse_product(struct mtr_jparser *p)
{
    return parse_chain(p, "*/f%", parse_pow);
}

static struct mtr_jn *parse_concat(struct mtr_jparser *p)
{
    uint32_t line = p->tok->line;
    struct mtr_jn *first = parse_product(p);
    if (!first || !mtr_jp_is_op(p, '~'))
        return first;
    struct mtr_jn *n = mtr_jp_node(p, MTR_JN_CONCAT, line);
    struct mtr_jnode_list l = {0};
    if (!n || !mtr_jp_over(p, n, first) || !mtr_jp_push(p, &l, first))
        return NULL;
    while (mtr_jp_skip_op(p, '~')) {
        struct mtr_jn *next = parse_product(p);
        if (!next || !mtr_jp_over(p, n, next) || !mtr_jp_push(p, &l, next))
            return NULL;
    }
    n->list = mtr_jp_nodes(&l);
    return n;
}

static struct mtr_jn *parse_sum(struct mtr_jparser *p)
{
    return parse_chain(p, "+-", parse_concat);
}

/* ---- operands ---- */

static struct mtr_jn *parse_unary(struct mtr_jparser *p, bool with_filter)
{
    uint32_t line = p->tok->line;
    struct mtr_jn *n;
    if (mtr_jp_is_op(p, '-') || mtr_jp_is_op(p, '+')) {
        char op = (p->tok++)->op;
        if (++p->recursion > MAX_RECURSION) {
            mtr_jp_fail(p, line, "an expression is nested deeper than %d", MAX_RECURSION);
            return NULL;
        }
        n = parse_unary(p, false);
        p->recursion--;
        n = mtr_jp_binary(p, MTR_JN_UNARY, op, line, n, NULL);
    } else {
        n = mtr_jp_primary(p, false);
    }
    n = mtr_jp_postfix(p, n);
    return with_filter ? mtr_jp_filter_expr(p, n) : n;
}

static struct mtr_jn *constant(struct mtr_jparser *p, uint32_t line, struct mtr_jv v)
{
    struct mtr_jn *n = mtr_jp_node(p, MTR_JN_CONST, line);
    if (n)
        n->constant = v;
    return n;
}

static bool constant_name(struct mtr_str s, struct mtr_jv *v)
{
    bool yes = mtr_str_is(s, "true") || mtr_str_is(s, "True");
    if (yes || mtr_str_is(s, "false") || mtr_str_is(s, "False")) {
        *v = mtr_jbool(yes);
        return true;
    }
    *v = mtr_jnone();
    return mtr_str_is(s, "none") || mtr_str_is(s, "None");
}

static struct mtr_jn *parse_name(struct mtr_jparser *p, bool namespaces)
{
    const struct mtr_jtok *t = p->tok++;
    struct mtr_jv v;
    if (constant_name(t->text, &v))
        return constant(p, t->line, v);
    bool ns = namespaces && mtr_jp_skip_op(p, '.');
    struct mtr_jn *n = mtr_jp_node(p, ns ? MTR_JN_NSREF : MTR_JN_NAME, t->line);
    if (!n)
        return NULL;
    n->name.id = t->text;
    if (ns) {
        const struct mtr_jtok *attr = mtr_jp_expect(p, MTR_JT_NAME);
        if (!attr)
            return NULL;
        n->name.attr = attr->text;
    }
    return n;
}

/* Neighbouring strings are one. */
static struct mtr_jn *parse_string(struct mtr_jparser *p)
{
    uint32_t line = p->tok->line;
    struct mtr_str s = (p->tok++)->text;
    if (p->tok->kind == MTR_JT_STRING) {
        const struct mtr_jtok *end = p->tok;
        size_t len = s.len;
        for (; end->kind == MTR_JT_STRING; end++)
            len += end->text.len;
        char *out = mtr_jp_alloc(p, len + 1);
        if (!out)
            return NULL;
        size_t at = s.len;
        memcpy(out, s.ptr, s.len);
        for (; p->tok < end; p->tok++) {
            memcpy(out + at, p->tok->text.ptr, p->tok->text.len);
            at += p->tok->text.len;
        }
        s = (struct mtr_str){out, len};
    }
    return constant(p, line, mtr_jstr(s, MTR_JTRUSTED));
}

static struct mtr_jn *parse_items(struct mtr_jparser *p, bool dict)
{
    struct mtr_jn *n = mtr_jp_node(p, dict ? MTR_JN_DICT : MTR_JN_LIST, p->tok->line);
    char close = dict ? '}' : ']';
    struct mtr_jnode_list l = {0};
    p->tok++;
    while (n && !mtr_jp_is_op(p, close)) {
        if (l.count && !mtr_jp_expect_op(p, ','))
            return NULL;
        if (mtr_jp_is_op(p, close))
            break;
        struct mtr_jn *item = mtr_jp_expression(p, true);
        if (!mtr_jp_push(p, &l, item) || !mtr_jp_over(p, n, item))
            return NULL;
        if (!dict)
            continue;
        if (!mtr_jp_expect_op(p, ':'))
            return NULL;
        item = mtr_jp_expression(p, true);
        if (!mtr_jp_push(p, &l, item) || !mtr_jp_over(p, n, item))
            return NULL;
    }
    p->tok++;
    if (n)
        n->list = mtr_jp_nodes(&l);
    return n;
}

struct mtr_jn *mtr_jp_primary(struct mtr_jparser *p, bool namespaces)
{
    const struct mtr_jtok *t = p->tok;
    switch (t->kind) {
    case MTR_JT_NAME:
        return parse_name(p, namespaces);
    case MTR_JT_STRING:
        return parse_string(p);
    case MTR_JT_INTEGER:
        p->tok++;
        return constant(p, t->line, mtr_jint(t->integer));
    case MTR_JT_BIG_INTEGER: {
        p->tok++;
        struct mtr_jv big = mtr_jstr(t->text, MTR_JTRUSTED);
        big.kind = MTR_JK_BIG;
        return constant(p, t->line, big);
    }
    case MTR_JT_FLOAT:
        p->tok++;
        return constant(p, t->line, mtr_jfloat(t->real));
    default:
        break;
    }
    if (mtr_jp_is_op(p, '[') || mtr_jp_is_op(p, '{'))
        return parse_items(p, t->op == '{');
    if (!mtr_jp_skip_op(p, '(')) {
        mtr_jp_fail(p, t->line, "unexpected %s", mtr_jp_describe(t));
        return NULL;
    }
    if (p->recursion >= MAX_RECURSION) {
        mtr_jp_fail(p, t->line, "an expression is nested deeper than %d", MAX_RECURSION);
        return NULL;
    }
    p->recursion++;
    struct mtr_jn *n = mtr_jp_tuple(p, MTR_JP_PARENS, NULL);
    p->recursion--;
    return n && mtr_jp_expect_op(p, ')') ? n : NULL;
}

static bool at_tuple_end(const struct mtr_jparser *p, const char *until)
{
    return p->tok->kind == MTR_JT_VARIABLE_END || p->tok->kind == MTR_JT_BLOCK_END ||
           mtr_jp_is_op(p, ')') || (until && mtr_jp_is_name(p, until));
}

/* An expression, or several with commas between them: a tuple. */
static struct mtr_jn *parse_tuple_of(struct mtr_jparser *p, const char *until, bool parens,
                                     struct mtr_jn *(*item)(struct mtr_jparser *p))
{
    struct mtr_jnode_list l = {0};
    bool is_tuple = false;
    for (;;) {
        if (l.count && !mtr_jp_expect_op(p, ','))
            return NULL;
        if (at_tuple_end(p, until))
            break;
        if (!mtr_jp_push(p, &l, item(p)))
            return NULL;
        if (!mtr_jp_is_op(p, ','))
            break;
        is_tuple = true;
    }
    if (!is_tuple && l.count)
        return l.items[0];
    if (!is_tuple && !parens) {
        mtr_jp_fail(p, p->tok->line, "Expected an expression, got %s", mtr_jp_describe(p->tok));
        return NULL;
    }
    struct mtr_jn *n = mtr_jp_node(p, MTR_JN_TUPLE, p->tok->line);
    if (!n)
        return NULL;
    for (uint32_t i = 0; i < l.count; i++) {
        if (!mtr_jp_over(p, n, l.items[i]))
            return NULL;
    }
    n->list = mtr_jp_nodes(&l);
    return n;
}

static struct mtr_jn *item_with_cond(struct mtr_jparser *p)
{
    return mtr_jp_expression(p, true);
}

static struct mtr_jn *item_without_cond(struct mtr_jparser *p)
{
    return mtr_jp_expression(p, false);
}

static struct mtr_jn *item_primary(struct mtr_jparser *p)
{
    return mtr_jp_primary(p, false);
}

static struct mtr_jn *item_primary_or_namespace(struct mtr_jparser *p)
{
    return mtr_jp_primary(p, true);
}

struct mtr_jn *mtr_jp_tuple(struct mtr_jparser *p, unsigned flags, const char *until)
{
    return parse_tuple_of(p, until, flags & MTR_JP_PARENS,
                          flags & MTR_JP_NO_COND ? item_without_cond : item_with_cond);
}

/* ---- targets of assignments ---- */

static bool set_ctx(struct mtr_jparser *p, struct mtr_jn *n, uint8_t ctx)
{
    switch (n->kind) {
    case MTR_JN_NAME:
        n->ctx = ctx;
        return true;
    case MTR_JN_NSREF:
        return true;
    case MTR_JN_TUPLE:
        for (uint32_t i = 0; i < n->list.count; i++) {
            if (!set_ctx(p, n->list.items[i], ctx))
                return false;
        }
        return true;
    default:
        return mtr_jp_fail(p, n->line, "can't assign to this expression");
    }
}

struct mtr_jn *mtr_jp_target(struct mtr_jparser *p, const char *until, bool namespaces, uint8_t ctx)
{
    struct mtr_jn *n =
        parse_tuple_of(p, until, false, namespaces ? item_primary_or_namespace : item_primary);
    return n && set_ctx(p, n, ctx) ? n : NULL;
}

struct mtr_jn *mtr_jp_target_name(struct mtr_jparser *p, uint8_t ctx)
{
    const struct mtr_jtok *t = mtr_jp_expect(p, MTR_JT_NAME);
    struct mtr_jv v;
    if (!t)
        return NULL;
    if (constant_name(t->text, &v)) {
        mtr_jp_fail(p, t->line, "can't assign to '%.*s'", MTR_STR_ARG(t->text));
        return NULL;
    }
    struct mtr_jn *n = mtr_jp_node(p, MTR_JN_NAME, t->line);
    if (!n)
        return NULL;
    n->name.id = t->text;
    n->ctx = ctx;
    return n;
}
