/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The syntax tree of a template, and the compiled template around it. Internal to jinja/.
 *
 * parse.c makes the tree; scope.c then decides for every name in which slot of which function its
 * value lives, and lists for every scope what to do with its slots when it is entered. After that
 * the tree does not change.
 */
#ifndef MTR_TEXT_JINJA_AST_H
#define MTR_TEXT_JINJA_AST_H

#include "broker/text/jinja/value.h"
#include "common/base/arena.h"
#include "common/base/error.h"

enum mtr_jn_kind {
    /* expressions */
    MTR_JN_CONST,
    MTR_JN_NAME,
    MTR_JN_NSREF, /* ns.attr as a target */
    MTR_JN_TUPLE,
    MTR_JN_LIST,
    MTR_JN_DICT, /* items: key, value, key, value, ... */
    MTR_JN_COND,
    MTR_JN_OR,
    MTR_JN_AND,
    MTR_JN_NOT,
    MTR_JN_COMPARE,
    MTR_JN_BINARY,
    MTR_JN_UNARY,
    MTR_JN_CONCAT,
    MTR_JN_GETATTR,
    MTR_JN_GETITEM,
    MTR_JN_SLICE, /* only inside GETITEM */
    MTR_JN_CALL,
    MTR_JN_FILTER,
    MTR_JN_TEST,
    /* statements */
    MTR_JN_OUTPUT,
    MTR_JN_IF,
    MTR_JN_FOR,
    MTR_JN_SET,
    MTR_JN_SET_BLOCK,
    MTR_JN_MACRO,
    MTR_JN_CALL_BLOCK,
    MTR_JN_GENERATION,
    MTR_JN_FILTER_BLOCK,
    MTR_JN_WITH,
    MTR_JN_SCOPE, /* {% autoescape false %} */
    MTR_JN_BLOCK,
    MTR_JN_BREAK,
    MTR_JN_CONTINUE,
    MTR_JN_REFUSED, /* include, import, from, extends */
};

enum mtr_jctx { MTR_JCTX_LOAD, MTR_JCTX_STORE, MTR_JCTX_PARAM };

struct mtr_jn;

struct mtr_jnodes {
    struct mtr_jn **items;
    uint32_t count;
};

/* Where a variable lives: `hops` functions out, then the slot. */
struct mtr_jplace {
    uint32_t slot;
    uint16_t hops;
};

enum mtr_jload {
    MTR_JLOAD_PARAMETER, /* somebody else fills it */
    MTR_JLOAD_RESOLVE,   /* from the variables of the rendering: `global` */
    MTR_JLOAD_ALIAS,     /* from an outer scope: `from` */
    MTR_JLOAD_UNDEFINED,
};

struct mtr_jload_entry {
    uint8_t action;
    uint32_t slot; /* of the function that the scope belongs to */
    uint32_t global;
    struct mtr_jplace from;
};

/* What entering a scope does. */
struct mtr_jscope_code {
    struct mtr_jload_entry *loads;
    uint32_t count;
};

struct mtr_jkwarg {
    struct mtr_str name;
    struct mtr_jn *value;
};

struct mtr_jargs {
    struct mtr_jnodes pos;
    struct mtr_jkwarg *kw;
    uint32_t kw_count;
    struct mtr_jn *star;      /* *args or NULL */
    struct mtr_jn *star_star; /* **kwargs or NULL */
};

struct mtr_joperand {
    char op; /* e n l g < > i (in) I (not in) */
    struct mtr_jn *value;
};

/* A macro or the body of a call block: a function with its own variables. */
struct mtr_jmacro_def {
    struct mtr_str name;  /* ptr NULL: anonymous */
    struct mtr_jn **args; /* [arg_count] NAMEs */
    uint32_t arg_count;
    struct mtr_jn **defaults; /* of the last default_count arguments */
    uint32_t default_count;
    struct mtr_jnodes body;
    struct mtr_jscope_code scope;
    uint32_t slot_count;
    uint32_t caller_slot; /* UINT32_MAX: the body does not ask for it */
    uint32_t kwargs_slot;
    uint32_t varargs_slot;
    bool explicit_caller; /* "caller" is a parameter */
};

struct mtr_jblock_def {
    struct mtr_str name;
    struct mtr_jnodes body;
    struct mtr_jscope_code scope;
    uint32_t slot_count;
    uint32_t self_slot; /* UINT32_MAX: not used */
    uint32_t super_slot;
    bool scoped;
    bool required;
};

struct mtr_jn {
    uint8_t kind;
    uint8_t ctx;     /* NAME */
    uint16_t height; /* of the expression, bounded */
    uint32_t line;
    union {
        struct mtr_jv constant;
        struct {
            struct mtr_str id;
            struct mtr_str attr; /* NSREF */
            struct mtr_jplace place;
            uint32_t export; /* STORE at top level: number of the global that follows, + 1 */
        } name;
        struct mtr_jnodes list; /* TUPLE, LIST, DICT, CONCAT, OUTPUT */
        struct {
            struct mtr_jn *test, *yes, *no; /* no: NULL for undefined */
        } cond;
        struct {
            struct mtr_jn *left, *right; /* right: NULL in UNARY, NOT */
            char op;
        } binary; /* OR, AND, NOT, BINARY, UNARY */
        struct {
            struct mtr_jn *first;
            struct mtr_joperand *ops;
            uint32_t count;
        } compare;
        struct {
            struct mtr_jn *object;
            struct mtr_str name;
        } getattr;
        struct {
            struct mtr_jn *object, *key;
        } getitem;
        struct {
            struct mtr_jn *start, *stop, *step;
        } slice;
        struct {
            struct mtr_jn *callee;
            struct mtr_jargs *args;
        } call;
        struct {
            struct mtr_jn *value; /* NULL: the text of a filter or set block */
            struct mtr_str name;
            struct mtr_jargs *args;
            size_t index; /* of the filter or test; SIZE_MAX: unknown, an error when it runs */
        } filter;
        struct {
            struct mtr_jn *test;
            struct mtr_jnodes body, elifs, otherwise; /* elifs: IF nodes */
        } cond_stmt;
        struct mtr_jfor *loop;
        struct {
            struct mtr_jn *target, *value;
        } set;
        struct {
            struct mtr_jn *target, *filter; /* filter: innermost has value NULL; or NULL */
            struct mtr_jnodes body;
            struct mtr_jscope_code scope;
        } set_block;
        struct {
            struct mtr_jn *target; /* MACRO: NAME that is stored */
            struct mtr_jn *call;   /* CALL_BLOCK */
            struct mtr_jmacro_def *def;
        } macro;
        struct {
            struct mtr_jn *filter;
            struct mtr_jnodes body;
            struct mtr_jscope_code scope;
        } filter_block;
        struct {
            struct mtr_jnodes targets, values, body; /* SCOPE: body alone */
            struct mtr_jscope_code scope;
        } with;
        struct {
            struct mtr_jblock_def *def;
            struct mtr_jplace *outer; /* unused unless scoped */
        } block;
        struct {
            const char *tag;
            struct mtr_jn *template;
            struct mtr_jnodes names; /* NAMEs that an import would store */
        } refused;
    };
};

struct mtr_jfor {
    struct mtr_jn *target;
    struct mtr_jn *iter;
    struct mtr_jn *test;        /* or NULL */
    struct mtr_jn *test_target; /* the target again, with the places of the filter's function */
    struct mtr_jnodes body;
    struct mtr_jnodes otherwise;
    struct mtr_jscope_code scope;
    struct mtr_jscope_code else_scope;
    struct mtr_jscope_code test_scope;
    uint32_t test_slots;
    uint32_t loop_slot;  /* UINT32_MAX: nobody asks for `loop` */
    uint32_t slot_count; /* recursive: of its function */
    bool recursive;
};

struct mtr_jname {
    struct mtr_str text;
    bool read; /* some scope asks for it */
};

struct mtr_jinja {
    struct mtr_jnodes body;
    struct mtr_jscope_code scope;
    uint32_t slot_count;
    uint32_t self_slot;
    struct mtr_jname *names; /* [name_count] resolved outside of all scopes */
    uint32_t name_count;
    struct mtr_jblock_def **blocks;
    uint32_t block_count;
};

/* parse.c: the tree, without places. */
bool mtr_jparse(struct mtr_arena *arena, struct mtr_str source, struct mtr_jinja *t,
                struct mtr_error *err);
/* scope.c: the places, and the checks that jinja2 makes when it generates code. */
bool mtr_jresolve(struct mtr_arena *arena, struct mtr_jinja *t, struct mtr_error *err);

#endif
