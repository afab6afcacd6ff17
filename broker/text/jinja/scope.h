/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which names a scope knows, and where their values live. Internal to jinja/.
 *
 * The rules are those of jinja2's identifier tracking, because templates can tell: a scope is
 * looked through as a whole before any of it runs. A name that is set anywhere in it is the scope's
 * own from its beginning, starting as the outer scope's value where there is one; a name that is
 * only read belongs to the outermost scope that reads it and is resolved when that scope is
 * entered. `if` is no scope, but what only its branches set starts as what the name means outside.
 */
#ifndef MTR_TEXT_JINJA_SCOPE_H
#define MTR_TEXT_JINJA_SCOPE_H

#include "broker/text/jinja/ast.h"

/* A function of the generated program: root, macro, recursive loop, loop filter, block. */
struct mtr_jfunc {
    struct mtr_jfunc *up;
    uint32_t depth;
    uint32_t slots;
};

struct mtr_jident;
struct mtr_jstate;

struct mtr_jscope {
    struct mtr_jscope *parent;
    struct mtr_jfunc *func;
    struct mtr_jidents *ids; /* shared with copies made for the branches of an if */
    struct mtr_jstate *states;
    uint32_t state_count;
};

struct mtr_jresolver {
    struct mtr_arena *arena;
    struct mtr_error *err;
    struct mtr_jinja *t;
    uint32_t name_cap;
    bool no_memory;
};

struct mtr_jscope *mtr_jscope_new(struct mtr_jresolver *v, struct mtr_jscope *parent,
                                  struct mtr_jfunc *func);
void mtr_jscope_load(struct mtr_jresolver *v, struct mtr_jscope *s, struct mtr_str name);
void mtr_jscope_store(struct mtr_jresolver *v, struct mtr_jscope *s, struct mtr_str name);
/* Returns the slot. */
uint32_t mtr_jscope_param(struct mtr_jresolver *v, struct mtr_jscope *s, struct mtr_str name);

/* Looks through nodes on behalf of the scope that they stand in. */
void mtr_jscope_look(struct mtr_jresolver *v, struct mtr_jscope *s, const struct mtr_jn *n);
void mtr_jscope_look_all(struct mtr_jresolver *v, struct mtr_jscope *s,
                         const struct mtr_jnodes *nodes);
/* A target whose names the scope gets from outside (a loop's). */
void mtr_jscope_look_params(struct mtr_jresolver *v, struct mtr_jscope *s, const struct mtr_jn *n);

/* Where a name's value lives, seen from func; false when the scope does not know it. */
bool mtr_jscope_place(struct mtr_jscope *s, const struct mtr_jfunc *func, struct mtr_str name,
                      struct mtr_jplace *out);
/* The number of a name among those that are resolved outside of all scopes. */
uint32_t mtr_jscope_global(struct mtr_jresolver *v, struct mtr_str name);
struct mtr_jscope_code mtr_jscope_code(struct mtr_jresolver *v, const struct mtr_jscope *s);

/* Of the names given (at most 3, NULL ends), which are read in the nodes without being set before:
 * a bit each. */
unsigned mtr_jundeclared(const struct mtr_jnodes *nodes, const char *const names[3]);

#endif
