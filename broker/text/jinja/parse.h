/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the two halves of the parser share: statements (parse.c), expressions (parse_expr.c).
 * Internal to jinja/. Functions return NULL or false after they filled p->err.
 */
#ifndef MTR_TEXT_JINJA_PARSE_H
#define MTR_TEXT_JINJA_PARSE_H

#include "broker/text/jinja/ast.h"
#include "broker/text/jinja/lexer.h"

struct mtr_jparser {
    struct mtr_arena *arena;
    struct mtr_error *err;
    struct mtr_jtok *tok; /* the current token */
    uint32_t nesting;     /* of statements */
    uint32_t recursion;   /* of expressions */
};

/* A list under construction. */
struct mtr_jnode_list {
    struct mtr_jn **items;
    uint32_t count;
    uint32_t cap;
};

void *mtr_jp_alloc(struct mtr_jparser *p, size_t bytes); /* cleared; NULL with the error set */
struct mtr_jn *mtr_jp_node(struct mtr_jparser *p, enum mtr_jn_kind kind, uint32_t line);
bool mtr_jp_push(struct mtr_jparser *p, struct mtr_jnode_list *l, struct mtr_jn *n);
static inline struct mtr_jnodes mtr_jp_nodes(const struct mtr_jnode_list *l)
{
    return (struct mtr_jnodes){l->items, l->count};
}

bool mtr_jp_fail(struct mtr_jparser *p, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool mtr_jp_is_op(const struct mtr_jparser *p, char op);
bool mtr_jp_is_name(const struct mtr_jparser *p, const char *name);
bool mtr_jp_skip_op(struct mtr_jparser *p, char op);
bool mtr_jp_skip_name(struct mtr_jparser *p, const char *name);
bool mtr_jp_expect_op(struct mtr_jparser *p, char op);
bool mtr_jp_expect_name(struct mtr_jparser *p, const char *name);
struct mtr_jtok *mtr_jp_expect(struct mtr_jparser *p, uint8_t kind); /* and moves on */
const char *mtr_jp_describe(const struct mtr_jtok *t);

struct mtr_jn *mtr_jp_expression(struct mtr_jparser *p, bool with_cond);
/* Flags of mtr_jp_tuple. */
enum { MTR_JP_NO_COND = 1, MTR_JP_PARENS = 2 };
/* until: a name that ends the tuple besides the usual ("in", "recursive"), or NULL. */
struct mtr_jn *mtr_jp_tuple(struct mtr_jparser *p, unsigned flags, const char *until);
/* Something to assign to; `namespaces`: ns.attr too. ctx: MTR_JCTX_STORE or MTR_JCTX_PARAM. */
struct mtr_jn *mtr_jp_target(struct mtr_jparser *p, const char *until, bool namespaces,
                             uint8_t ctx);
struct mtr_jn *mtr_jp_target_name(struct mtr_jparser *p, uint8_t ctx);
/* A name or a literal. */
struct mtr_jn *mtr_jp_primary(struct mtr_jparser *p, bool namespaces);
/* What follows an operand: . [] () for the first, | is () for the second. NULL stays NULL. */
struct mtr_jn *mtr_jp_postfix(struct mtr_jparser *p, struct mtr_jn *n);
struct mtr_jn *mtr_jp_filter_expr(struct mtr_jparser *p, struct mtr_jn *n);
/* Sets the height of a node over its child (may be NULL) and refuses what is too high. */
bool mtr_jp_over(struct mtr_jparser *p, struct mtr_jn *n, const struct mtr_jn *child);
struct mtr_jn *mtr_jp_binary(struct mtr_jparser *p, enum mtr_jn_kind kind, char op, uint32_t line,
                             struct mtr_jn *left, struct mtr_jn *right);
/* "|name(...)", any number; start_inline: the first without its bar. value NULL: what a block
 * prints. */
struct mtr_jn *mtr_jp_filters(struct mtr_jparser *p, struct mtr_jn *value, bool start_inline);

#endif
