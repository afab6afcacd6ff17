/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Statements. A body is parsed until a tag that ends it; which tags those are is passed down, so
 * that an unexpected {% endif %} is found where it stands.
 */
#include "broker/text/jinja/parse.h"

#include <stdarg.h>
#include <stdio.h>

#include "broker/text/jinja/jinja.h"

/* ---- what both halves use ---- */

void *mtr_jp_alloc(struct mtr_jparser *p, size_t bytes)
{
    void *m = mtr_arena_calloc(p->arena, 1, bytes ? bytes : 1);
    if (!m)
        mtr_fail(p->err, MTR_NO_MEMORY, "no memory for a template");
    return m;
}

struct mtr_jn *mtr_jp_node(struct mtr_jparser *p, enum mtr_jn_kind kind, uint32_t line)
{
    struct mtr_jn *n = mtr_jp_alloc(p, sizeof *n);
    if (n) {
        n->kind = (uint8_t)kind;
        n->line = line;
        n->height = 1;
    }
    return n;
}

bool mtr_jp_push(struct mtr_jparser *p, struct mtr_jnode_list *l, struct mtr_jn *n)
{
    if (!n)
        return false;
    if (l->count == l->cap) {
        uint32_t cap = l->cap ? 2 * l->cap : 4;
        struct mtr_jn **grown = mtr_jp_alloc(p, cap * sizeof *grown);
        if (!grown)
            return false;
        if (l->count)
            memcpy(grown, l->items, l->count * sizeof *grown);
        l->items = grown;
        l->cap = cap;
    }
    l->items[l->count++] = n;
    return true;
}

bool mtr_jp_fail(struct mtr_jparser *p, uint32_t line, const char *format, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    return mtr_fail(p->err, MTR_INVALID, "line %u: %s", line, text);
}

bool mtr_jp_is_op(const struct mtr_jparser *p, char op)
{
    return p->tok->kind == MTR_JT_OPERATOR && p->tok->op == op;
}

bool mtr_jp_is_name(const struct mtr_jparser *p, const char *name)
{
    return p->tok->kind == MTR_JT_NAME && mtr_str_is(p->tok->text, name);
}

bool mtr_jp_skip_op(struct mtr_jparser *p, char op)
{
    bool is = mtr_jp_is_op(p, op);
    p->tok += is;
    return is;
}

bool mtr_jp_skip_name(struct mtr_jparser *p, const char *name)
{
    bool is = mtr_jp_is_name(p, name);
    p->tok += is;
    return is;
}

const char *mtr_jp_describe(const struct mtr_jtok *t)
{
    static const char *const names[] = {
        [MTR_JT_EOF] = "end of template", [MTR_JT_DATA] = "template text",
        [MTR_JT_VARIABLE_BEGIN] = "'{{'", [MTR_JT_VARIABLE_END] = "'}}'",
        [MTR_JT_BLOCK_BEGIN] = "'{%'",    [MTR_JT_BLOCK_END] = "'%}'",
        [MTR_JT_NAME] = "a name",         [MTR_JT_STRING] = "a string",
        [MTR_JT_INTEGER] = "a number",    [MTR_JT_BIG_INTEGER] = "a number",
        [MTR_JT_FLOAT] = "a number",      [MTR_JT_OPERATOR] = "an operator",
    };
    return names[t->kind];
}

bool mtr_jp_expect_op(struct mtr_jparser *p, char op)
{
    if (mtr_jp_skip_op(p, op))
        return true;
    return mtr_jp_fail(p, p->tok->line, "expected '%c', got %s", op, mtr_jp_describe(p->tok));
}

bool mtr_jp_expect_name(struct mtr_jparser *p, const char *name)
{
    if (mtr_jp_skip_name(p, name))
        return true;
    return mtr_jp_fail(p, p->tok->line, "expected '%s', got %s", name, mtr_jp_describe(p->tok));
}

struct mtr_jtok *mtr_jp_expect(struct mtr_jparser *p, uint8_t kind)
{
    if (p->tok->kind == kind)
        return p->tok++;
    struct mtr_jtok wanted = {.kind = kind};
    mtr_jp_fail(p, p->tok->line, "expected %s, got %s", mtr_jp_describe(&wanted),
                mtr_jp_describe(p->tok));
    return NULL;
}

/* ---- bodies ---- */

/* Up to four tags that end a body; NULL at the end of the template. */
struct ends {
    const char *const *names;
    const char *tag; /* the statement that waits for them */
    uint32_t line;
};

static struct mtr_jn *parse_statement(struct mtr_jparser *p, const struct ends *ends);

static bool at_end_tag(const struct mtr_jparser *p, const struct ends *ends)
{
    for (const char *const *n = ends ? ends->names : NULL; n && *n; n++) {
        if (mtr_jp_is_name(p, *n))
            return true;
    }
    return false;
}

static bool parse_output(struct mtr_jparser *p, struct mtr_jnode_list *body,
                         struct mtr_jnode_list *output)
{
    struct mtr_jn *n;
    if (p->tok->kind == MTR_JT_DATA) {
        if (!(n = mtr_jp_node(p, MTR_JN_CONST, p->tok->line)))
            return false;
        n->constant = mtr_jstr((p->tok++)->text, MTR_JTRUSTED);
    } else {
        p->tok++;
        n = mtr_jp_tuple(p, 0, NULL);
        if (!n || !mtr_jp_expect(p, MTR_JT_VARIABLE_END))
            return false;
    }
    if (!output->count) {
        struct mtr_jn *out = mtr_jp_node(p, MTR_JN_OUTPUT, n->line);
        if (!mtr_jp_push(p, body, out))
            return false;
    }
    if (!mtr_jp_push(p, output, n))
        return false;
    body->items[body->count - 1]->list = mtr_jp_nodes(output);
    return true;
}

/* Text and statements up to an end tag, whose name is then the current token. */
static bool parse_body(struct mtr_jparser *p, const struct ends *ends, struct mtr_jnodes *out)
{
    struct mtr_jnode_list body = {0}, output = {0};
    for (;;) {
        switch (p->tok->kind) {
        case MTR_JT_EOF:
            *out = mtr_jp_nodes(&body);
            if (!ends)
                return true;
            return mtr_jp_fail(p, p->tok->line,
                               "unexpected end of template: '%s' of line %u is not closed",
                               ends->tag, ends->line);
        case MTR_JT_DATA:
        case MTR_JT_VARIABLE_BEGIN:
            if (!parse_output(p, &body, &output))
                return false;
            break;
        default:
            output = (struct mtr_jnode_list){0};
            p->tok++; /* {% */
            if (at_end_tag(p, ends)) {
                *out = mtr_jp_nodes(&body);
                return true;
            }
            if (!mtr_jp_push(p, &body, parse_statement(p, ends)) ||
                !mtr_jp_expect(p, MTR_JT_BLOCK_END))
                return false;
        }
    }
}

/* ": %}" and a body. */
static bool parse_block_body(struct mtr_jparser *p, const char *tag, uint32_t line,
                             const char *const *names, struct mtr_jnodes *out)
{
    struct ends ends = {names, tag, line};
    mtr_jp_skip_op(p, ':');
    return mtr_jp_expect(p, MTR_JT_BLOCK_END) && parse_body(p, &ends, out);
}

/* As above with a single end tag, which is skipped. */
static bool parse_until(struct mtr_jparser *p, const char *tag, uint32_t line, const char *end,
                        struct mtr_jnodes *out)
{
    const char *const names[] = {end, NULL};
    if (!parse_block_body(p, tag, line, names, out))
        return false;
    p->tok++;
    return true;
}

/* ---- statements; p->tok is behind the tag's name, which stood on `line` ---- */

static struct mtr_jn *parse_set(struct mtr_jparser *p, uint32_t line)
{
    struct mtr_jn *target = mtr_jp_target(p, NULL, true, MTR_JCTX_STORE);
    if (!target)
        return NULL;
    if (mtr_jp_skip_op(p, '=')) {
        struct mtr_jn *n = mtr_jp_node(p, MTR_JN_SET, line);
        if (!n || !(n->set.value = mtr_jp_tuple(p, 0, NULL)))
            return NULL;
        n->set.target = target;
        return n;
    }
    struct mtr_jn *n = mtr_jp_node(p, MTR_JN_SET_BLOCK, line);
    if (!n)
        return NULL;
    n->set_block.target = target;
    if (mtr_jp_is_op(p, '|') && !(n->set_block.filter = mtr_jp_filters(p, NULL, false)))
        return NULL;
    return parse_until(p, "set", line, "endset", &n->set_block.body) ? n : NULL;
}

static struct mtr_jn *parse_for(struct mtr_jparser *p, uint32_t line)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    struct mtr_jn *n = mtr_jp_node(p, MTR_JN_FOR, line);
    struct mtr_jfor *f = n ? mtr_jp_alloc(p, sizeof *f) : NULL;
    if (!f)
        return NULL;
    n->loop = f;
    const struct mtr_jtok *target = p->tok;
    if (!(f->target = mtr_jp_target(p, "in", false, MTR_JCTX_STORE)) ||
        !mtr_jp_expect_name(p, "in") || !(f->iter = mtr_jp_tuple(p, MTR_JP_NO_COND, "recursive")))
        return NULL;
    if (mtr_jp_skip_name(p, "if")) {
        if (!(f->test = mtr_jp_expression(p, true)))
            return NULL;
        struct mtr_jparser again = *p;
        again.tok = (struct mtr_jtok *)target;
        if (!(f->test_target = mtr_jp_target(&again, "in", false, MTR_JCTX_STORE)))
            return NULL;
    }
    f->recursive = mtr_jp_skip_name(p, "recursive");
    if (!parse_block_body(p, "for", line, ends, &f->body))
        return NULL;
    bool has_else = mtr_jp_is_name(p, "else");
    p->tok++;
    if (has_else && !parse_until(p, "for", line, "endfor", &f->otherwise))
        return NULL;
    return n;
}

static struct mtr_jn *parse_if(struct mtr_jparser *p, uint32_t line)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct mtr_jn *first = NULL;
    struct mtr_jnode_list elifs = {0};
    for (;;) {
        struct mtr_jn *n = mtr_jp_node(p, MTR_JN_IF, p->tok->line);
        if (!n || !(n->cond_stmt.test = mtr_jp_tuple(p, MTR_JP_NO_COND, NULL)) ||
            !parse_block_body(p, "if", line, ends, &n->cond_stmt.body))
            return NULL;
        if (!first)
            first = n;
        else if (!mtr_jp_push(p, &elifs, n))
            return NULL;
        if (mtr_jp_skip_name(p, "elif"))
            continue;
        bool has_else = mtr_jp_is_name(p, "else");
        p->tok++;
        if (has_else && !parse_until(p, "if", line, "endif", &first->cond_stmt.otherwise))
            return NULL;
        first->cond_stmt.elifs = mtr_jp_nodes(&elifs);
        return first;
    }
}

static struct mtr_jn *parse_with(struct mtr_jparser *p, uint32_t line)
{
    struct mtr_jn *n = mtr_jp_node(p, MTR_JN_WITH, line);
    struct mtr_jnode_list targets = {0}, values = {0};
    while (n && p->tok->kind != MTR_JT_BLOCK_END) {
        if (targets.count && !mtr_jp_expect_op(p, ','))
            return NULL;
        if (!mtr_jp_push(p, &targets, mtr_jp_target(p, NULL, false, MTR_JCTX_PARAM)) ||
            !mtr_jp_expect_op(p, '=') || !mtr_jp_push(p, &values, mtr_jp_expression(p, true)))
            return NULL;
    }
    if (!n)
        return NULL;
    n->with.targets = mtr_jp_nodes(&targets);
    n->with.values = mtr_jp_nodes(&values);
    return parse_until(p, "with", line, "endwith", &n->with.body) ? n : NULL;
}

static struct mtr_jn *parse_autoescape(struct mtr_jparser *p, uint32_t line)
{
    struct mtr_jn *n = mtr_jp_node(p, MTR_JN_SCOPE, line);
    struct mtr_jn *on = n ? mtr_jp_expression(p, true) : NULL;
    if (!on)
        return NULL;
    if (on->kind != MTR_JN_CONST || mtr_jtruth(&on->constant)) {
        mtr_jp_fail(p, line, "automatic escaping can't be switched on here");
        return NULL;
    }
    return parse_until(p, "autoescape", line, "endautoescape", &n->with.body) ? n : NULL;
}

static bool only_white_space(const struct mtr_jnodes *body)
{
    for (uint32_t i = 0; i < body->count; i++) {
        const struct mtr_jn *n = body->items[i];
        if (n->kind != MTR_JN_OUTPUT)
            return false;
        for (uint32_t k = 0; k < n->list.count; k++) {
            const struct mtr_jn *c = n->list.items[k];
            if (c->kind != MTR_JN_CONST || !mtr_jis_str(&c->constant) ||
                strspn(c->constant.text, " \t\n\v\f\r") < c->constant.len)
                return false;
        }
    }
    return true;
}

static struct mtr_jn *parse_block(struct mtr_jparser *p, uint32_t line)
{
    struct mtr_jn *n = mtr_jp_node(p, MTR_JN_BLOCK, line);
    struct mtr_jblock_def *d = n ? mtr_jp_alloc(p, sizeof *d) : NULL;
    const struct mtr_jtok *name = d ? mtr_jp_expect(p, MTR_JT_NAME) : NULL;
    if (!name)
        return NULL;
    n->block.def = d;
    d->name = name->text;
    d->scoped = mtr_jp_skip_name(p, "scoped");
    d->required = mtr_jp_skip_name(p, "required");
    if (!parse_until(p, "block", line, "endblock", &d->body))
        return NULL;
    if (d->required && !only_white_space(&d->body)) {
        mtr_jp_fail(p, line, "a required block may hold only comments and white space");
        return NULL;
    }
    if (p->tok->kind == MTR_JT_NAME && mtr_str_equal(p->tok->text, d->name))
        p->tok++;
    return n;
}

/* "(a, b=1)" */
static bool parse_signature(struct mtr_jparser *p, struct mtr_jmacro_def *d)
{
    struct mtr_jnode_list args = {0}, defaults = {0};
    if (!mtr_jp_expect_op(p, '('))
        return false;
    while (!mtr_jp_is_op(p, ')')) {
        if (args.count && !mtr_jp_expect_op(p, ','))
            return false;
        struct mtr_jn *arg = mtr_jp_target_name(p, MTR_JCTX_PARAM);
        if (!mtr_jp_push(p, &args, arg))
            return false;
        for (uint32_t i = 0; i + 1 < args.count; i++) {
            if (mtr_str_equal(args.items[i]->name.id, arg->name.id))
                return mtr_jp_fail(p, arg->line, "two arguments named %.*s",
                                   MTR_STR_ARG(arg->name.id));
        }
        if (mtr_jp_skip_op(p, '=')) {
            if (!mtr_jp_push(p, &defaults, mtr_jp_expression(p, true)))
                return false;
        } else if (defaults.count) {
            return mtr_jp_fail(p, arg->line, "an argument without default after one with");
        }
    }
    p->tok++;
    if (args.count > 250)
        return mtr_jp_fail(p, p->tok->line, "more than 250 arguments");
    d->args = args.items;
    d->arg_count = args.count;
    d->defaults = defaults.items;
    d->default_count = defaults.count;
    return true;
}

static struct mtr_jn *parse_macro(struct mtr_jparser *p, uint32_t line)
{
    struct mtr_jn *n = mtr_jp_node(p, MTR_JN_MACRO, line);
    struct mtr_jmacro_def *d = n ? mtr_jp_alloc(p, sizeof *d) : NULL;
    if (!d || !(n->macro.target = mtr_jp_target_name(p, MTR_JCTX_STORE)) || !parse_signature(p, d))
        return NULL;
    n->macro.def = d;
    d->name = n->macro.target->name.id;
    return parse_until(p, "macro", line, "endmacro", &d->body) ? n : NULL;
}

static struct mtr_jn *parse_call_block(struct mtr_jparser *p, uint32_t line)
{
    struct mtr_jn *n = mtr_jp_node(p, MTR_JN_CALL_BLOCK, line);
    struct mtr_jmacro_def *d = n ? mtr_jp_alloc(p, sizeof *d) : NULL;
    if (!d || (mtr_jp_is_op(p, '(') && !parse_signature(p, d)))
        return NULL;
    n->macro.def = d;
    if (!(n->macro.call = mtr_jp_expression(p, true)))
        return NULL;
    if (n->macro.call->kind != MTR_JN_CALL) {
        mtr_jp_fail(p, line, "expected a call");
        return NULL;
    }
    return parse_until(p, "call", line, "endcall", &d->body) ? n : NULL;
}

static struct mtr_jn *parse_generation(struct mtr_jparser *p, uint32_t line)
{
    struct mtr_jn *n = mtr_jp_node(p, MTR_JN_GENERATION, line);
    struct mtr_jmacro_def *d = n ? mtr_jp_alloc(p, sizeof *d) : NULL;
    if (!d)
        return NULL;
    n->macro.def = d;
    return parse_until(p, "generation", line, "endgeneration", &d->body) ? n : NULL;
}

static struct mtr_jn *parse_filter_block(struct mtr_jparser *p, uint32_t line)
{
    struct mtr_jn *n = mtr_jp_node(p, MTR_JN_FILTER_BLOCK, line);
    if (!n || !(n->filter_block.filter = mtr_jp_filters(p, NULL, true)))
        return NULL;
    return parse_until(p, "filter", line, "endfilter", &n->filter_block.body) ? n : NULL;
}

static struct mtr_jn *parse_print(struct mtr_jparser *p, uint32_t line)
{
    struct mtr_jn *n = mtr_jp_node(p, MTR_JN_OUTPUT, line);
    struct mtr_jnode_list l = {0};
    while (n && p->tok->kind != MTR_JT_BLOCK_END) {
        if (l.count && !mtr_jp_expect_op(p, ','))
            return NULL;
        if (!mtr_jp_push(p, &l, mtr_jp_expression(p, true)))
            return NULL;
    }
    if (n)
        n->list = mtr_jp_nodes(&l);
    return n;
}

/* ---- what needs other templates: parsed, and refused when it is reached ---- */

static bool skip_context(struct mtr_jparser *p)
{
    if (!mtr_jp_is_name(p, "with") && !mtr_jp_is_name(p, "without"))
        return false;
    if (p->tok[1].kind != MTR_JT_NAME || !mtr_str_is(p->tok[1].text, "context"))
        return false;
    p->tok += 2;
    return true;
}

static struct mtr_jn *refused(struct mtr_jparser *p, const char *tag, uint32_t line)
{
    struct mtr_jn *n = mtr_jp_node(p, MTR_JN_REFUSED, line);
    if (!n || !(n->refused.template = mtr_jp_expression(p, true)))
        return NULL;
    n->refused.tag = tag;
    return n;
}

static struct mtr_jn *parse_extends(struct mtr_jparser *p, uint32_t line)
{
    return refused(p, "extends", line);
}

static struct mtr_jn *parse_include(struct mtr_jparser *p, uint32_t line)
{
    struct mtr_jn *n = refused(p, "include", line);
    if (n && mtr_jp_is_name(p, "ignore") && p->tok[1].kind == MTR_JT_NAME &&
        mtr_str_is(p->tok[1].text, "missing"))
        p->tok += 2;
    if (n)
        skip_context(p);
    return n;
}

static struct mtr_jn *parse_import(struct mtr_jparser *p, uint32_t line)
{
    struct mtr_jn *n = refused(p, "import", line);
    struct mtr_jnode_list names = {0};
    if (!n || !mtr_jp_expect_name(p, "as") ||
        !mtr_jp_push(p, &names, mtr_jp_target_name(p, MTR_JCTX_STORE)))
        return NULL;
    n->refused.names = mtr_jp_nodes(&names);
    skip_context(p);
    return n;
}

static struct mtr_jn *parse_from(struct mtr_jparser *p, uint32_t line)
{
    struct mtr_jn *n = refused(p, "from", line);
    struct mtr_jnode_list names = {0};
    if (!n || !mtr_jp_expect_name(p, "import"))
        return NULL;
    do {
        if (skip_context(p))
            break;
        struct mtr_jn *name = mtr_jp_target_name(p, MTR_JCTX_STORE);
        if (!name)
            return NULL;
        if (name->name.id.ptr[0] == '_') {
            mtr_jp_fail(p, line, "names that start with an underscore can't be imported");
            return NULL;
        }
        if (mtr_jp_skip_name(p, "as"))
            name = mtr_jp_target_name(p, MTR_JCTX_STORE);
        if (!mtr_jp_push(p, &names, name))
            return NULL;
        if (skip_context(p))
            break;
    } while (mtr_jp_skip_op(p, ','));
    n->refused.names = mtr_jp_nodes(&names);
    return n;
}

static struct mtr_jn *parse_break(struct mtr_jparser *p, uint32_t line)
{
    return mtr_jp_node(p, MTR_JN_BREAK, line);
}

static struct mtr_jn *parse_continue(struct mtr_jparser *p, uint32_t line)
{
    return mtr_jp_node(p, MTR_JN_CONTINUE, line);
}

static struct mtr_jn *unknown_tag(struct mtr_jparser *p, const struct mtr_jtok *t,
                                  const struct ends *ends)
{
    if (ends)
        mtr_jp_fail(p, t->line, "unknown tag '%.*s' (inside '%s' of line %u, which waits for '%s')",
                    MTR_STR_ARG(t->text), ends->tag, ends->line, ends->names[0]);
    else
        mtr_jp_fail(p, t->line, "unknown tag '%.*s'", MTR_STR_ARG(t->text));
    return NULL;
}

static struct mtr_jn *parse_statement(struct mtr_jparser *p, const struct ends *ends)
{
    static const struct {
        const char *tag;
        struct mtr_jn *(*parse)(struct mtr_jparser *p, uint32_t line);
    } tags[] = {
        {"if", parse_if},           {"for", parse_for},
        {"set", parse_set},         {"macro", parse_macro},
        {"call", parse_call_block}, {"filter", parse_filter_block},
        {"with", parse_with},       {"generation", parse_generation},
        {"break", parse_break},     {"continue", parse_continue},
        {"print", parse_print},     {"autoescape", parse_autoescape},
        {"block", parse_block},     {"extends", parse_extends},
        {"include", parse_include}, {"import", parse_import},
        {"from", parse_from},
    };
    const struct mtr_jtok *t = mtr_jp_expect(p, MTR_JT_NAME);
    if (!t)
        return NULL;
    if (p->nesting >= MTR_JINJA_MAX_NESTING) {
        mtr_jp_fail(p, t->line, "statements are nested deeper than %d", MTR_JINJA_MAX_NESTING);
        return NULL;
    }
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        if (!mtr_str_is(t->text, tags[i].tag))
            continue;
        p->nesting++;
        struct mtr_jn *n = tags[i].parse(p, t->line);
        p->nesting--;
        return n;
    }
    return unknown_tag(p, t, ends);
}

bool mtr_jparse(struct mtr_arena *arena, struct mtr_str source, struct mtr_jinja *t,
                struct mtr_error *err)
{
    struct mtr_jparser p = {.arena = arena, .err = err};
    return mtr_jlex(arena, source, &p.tok, err) && parse_body(&p, NULL, &t->body);
}
