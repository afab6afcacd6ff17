/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One rendering: the state that evaluator, filters and methods share. Internal to jinja/.
 *
 * Functions return false after they filled r->err; the first error wins. Everything allocated comes
 * from r->arena and goes with it.
 */
#ifndef MTR_TEXT_JINJA_RUN_H
#define MTR_TEXT_JINJA_RUN_H

#include "broker/text/jinja/jinja.h"
#include "broker/text/jinja/text.h"
#include "common/base/arena.h"
#include "common/base/error.h"

struct mtr_jn;
struct mtr_jfor;

/*
 * The variables of one call of a function (the template's root, a macro, a recursive loop, ...):
 * a block's names live in the function that it stands in, as in the Python that jinja2 generates.
 */
struct mtr_jact {
    struct mtr_jact *up; /* of the function that this one is defined in */
    struct mtr_jv slots[];
};

/* Texts that were joined last: how many may grow in place at a time. */
#define MTR_JTAILS 4

struct mtr_jr {
    struct mtr_arena *arena;
    struct mtr_error *err;
    const struct mtr_jinja *template;
    const struct mtr_jinja_options *options;
    struct mtr_jinja_limits limits;
    struct mtr_jv *globals; /* [template->name_count] what each name means outside of all scopes */
    struct mtr_jact *act;
    struct mtr_jtext *out;
    struct mtr_jtext tails[MTR_JTAILS];
    struct mtr_jlist list_tail; /* likewise for lists: items, count, and the room */
    uint32_t list_tail_cap;
    uint32_t next_tail;
    struct mtr_jv captured; /* what a filter or set block filters */
    uint64_t steps;         /* left */
    size_t memory;          /* left */
    uint32_t depth;         /* of evaluation, bounds the C stack */
    uint32_t macro_depth;   /* of macros and recursive loops */
    uint32_t value_depth;   /* of values inside values, while they are compared or printed */
    uint32_t line;          /* of what is being evaluated */
    bool failed;
    bool raised; /* by raise_exception: `message` is the template's own */
    struct mtr_jv message;
};

/* Fills the error with "line N: ..." and returns false. Later failures do not overwrite it. */
bool mtr_jfail(struct mtr_jr *r, enum mtr_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The error of using an undefined. */
bool mtr_jfail_undefined(struct mtr_jr *r, const struct mtr_jv *undefined);

/* Charges work: `cost` steps. False when the rendering has had its share. */
bool mtr_jstep(struct mtr_jr *r, uint64_t cost);

void *mtr_jalloc(struct mtr_jr *r, size_t bytes); /* NULL with the error set */

/* Around a recursion over values; enter fails when they are nested too deeply. */
bool mtr_jdeeper(struct mtr_jr *r);
static inline void mtr_jshallower(struct mtr_jr *r)
{
    r->value_depth--;
}

/* ---- iteration: iter.c ---- */

enum mtr_jiter_kind {
    MTR_JI_LIST,    /* list, tuple: forwards */
    MTR_JI_REVERSE, /* list, tuple: backwards */
    MTR_JI_STR,
    MTR_JI_KEYS,
    MTR_JI_VALUES,
    MTR_JI_ITEMS,
    MTR_JI_RANGE,
    MTR_JI_EMPTY,
    MTR_JI_MAP,    /* map(filter) or map(attribute=) */
    MTR_JI_SELECT, /* select, reject, selectattr, rejectattr */
    MTR_JI_UNIQUE,
    MTR_JI_BATCH,
    MTR_JI_SLICE,
    MTR_JI_LAZY_ITEMS, /* the filter items */
    MTR_JI_LOOP_FILTER,
};

struct mtr_jcall;

struct mtr_jiter {
    uint8_t kind;
    bool started;
    bool reject;
    bool by_attr;
    int64_t pos;
    int64_t end;
    struct mtr_jv source; /* what is walked; for lazy ones what was given to the filter */
    struct mtr_jiter *inner;
    struct mtr_jcall *call; /* MAP, SELECT: the arguments of the filter, kept */
    struct mtr_jv extra;    /* MAP: default; UNIQUE: dict of keys seen; BATCH, SLICE: fill_with */
    struct mtr_jv attr;     /* MAP, SELECT, UNIQUE: attribute */
    bool case_sensitive;
    const struct mtr_jfor *loop; /* LOOP_FILTER */
    struct mtr_jact *act;
};

/* iter(v): false with an error when v can't be iterated. An iterator is its own. */
bool mtr_jiter_of(struct mtr_jr *r, const struct mtr_jv *v, struct mtr_jiter **out);
bool mtr_jiterable(const struct mtr_jv *v);
struct mtr_jiter *mtr_jiter_new(struct mtr_jr *r, uint8_t kind, const struct mtr_jv *source);
static inline struct mtr_jv mtr_jiter_value(struct mtr_jiter *it)
{
    return (struct mtr_jv){.kind = MTR_JK_ITER, .iter = it};
}
/* One item; *end is set instead when there is none. */
bool mtr_jnext(struct mtr_jr *r, struct mtr_jiter *it, struct mtr_jv *out, bool *end);
/* All (remaining) items as a new list. */
bool mtr_jcollect(struct mtr_jr *r, const struct mtr_jv *v, struct mtr_jlist **out);
bool mtr_jreversed(struct mtr_jr *r, const struct mtr_jv *v, struct mtr_jv *out);

/* ---- arguments ---- */

struct mtr_jkeyword {
    struct mtr_str name;
    struct mtr_jv value;
};

#define MTR_JINJA_MAX_ARGUMENTS 255

struct mtr_jcall {
    struct mtr_jv *pos;
    uint32_t pos_count;
    struct mtr_jkeyword *kw;
    uint32_t kw_count;
};

/*
 * Spreads a call over parameters. params: "old new count" (names by which they may be given; a name
 * that starts with '/' is positional only). out[n] gets MTR_JK_MISSING for what was not given.
 */
bool mtr_jbind(struct mtr_jr *r, const char *what, const struct mtr_jcall *call, const char *params,
               uint32_t required, struct mtr_jv *out, uint32_t count);

/* An argument as a Python int (index): bool and int; anything else is an error. */
bool mtr_jarg_int(struct mtr_jr *r, const char *what, const struct mtr_jv *v, int64_t *out);
bool mtr_jarg_str(struct mtr_jr *r, const char *what, const struct mtr_jv *v, struct mtr_str *out);

/* ---- the parts ---- */

bool mtr_jeval(struct mtr_jr *r, const struct mtr_jn *n, struct mtr_jv *out);
bool mtr_jcall_value(struct mtr_jr *r, const struct mtr_jv *callee, struct mtr_jcall *call,
                     struct mtr_jv *out);
bool mtr_jcall_macro(struct mtr_jr *r, const struct mtr_jmacro *m, const struct mtr_jcall *call,
                     struct mtr_jv *out);
bool mtr_jcall_loop(struct mtr_jr *r, struct mtr_jloop *loop, const struct mtr_jcall *call,
                    struct mtr_jv *out);
bool mtr_jcall_block(struct mtr_jr *r, const struct mtr_jblock *b, struct mtr_jv *out);
bool mtr_jfilter_passes(struct mtr_jr *r, struct mtr_jiter *it, const struct mtr_jv *item,
                        bool *pass); /* the `if` of a for loop */

bool mtr_jbinary(struct mtr_jr *r, char op, const struct mtr_jv *a, const struct mtr_jv *b,
                 struct mtr_jv *out); /* op: + - * / % 'f' (//) 'p' (**) */
bool mtr_junary(struct mtr_jr *r, char op, const struct mtr_jv *a, struct mtr_jv *out);

/* obj.name and obj[key], with the sandbox's rules. */
bool mtr_jgetattr(struct mtr_jr *r, const struct mtr_jv *obj, struct mtr_str name,
                  struct mtr_jv *out);
bool mtr_jgetitem(struct mtr_jr *r, const struct mtr_jv *obj, const struct mtr_jv *key,
                  struct mtr_jv *out);
bool mtr_jslice(struct mtr_jr *r, const struct mtr_jv *obj, const struct mtr_jv *start,
                const struct mtr_jv *stop, const struct mtr_jv *step, struct mtr_jv *out);

bool mtr_jloop_attr(struct mtr_jr *r, struct mtr_jloop *loop, struct mtr_str name,
                    struct mtr_jv *out, bool *found);
bool mtr_jloop_method(struct mtr_jr *r, struct mtr_jloop *loop, const char *name,
                      const struct mtr_jcall *call, struct mtr_jv *out);
bool mtr_jloop_repr(struct mtr_jr *r, struct mtr_jtext *t, struct mtr_jloop *loop);
bool mtr_jloop_len(struct mtr_jr *r, struct mtr_jloop *loop, int64_t *len);

/* Methods: a table per type. NULL when there is none of that name. */
struct mtr_jmethod_entry {
    const char *name;
    const char *params;
    uint8_t required;
    uint8_t count; /* UINT8_MAX: takes the call as it is, through `raw` */
    bool (*run)(struct mtr_jr *r, const struct mtr_jv *self, const struct mtr_jv *args,
                struct mtr_jv *out);
    bool (*raw)(struct mtr_jr *r, const struct mtr_jv *self, const struct mtr_jcall *call,
                struct mtr_jv *out);
};

#define MTR_JRAW UINT8_MAX

struct mtr_jmethod {
    struct mtr_jv self;
    const struct mtr_jmethod_entry *entry;
};

const struct mtr_jmethod_entry *mtr_jstr_method(struct mtr_str name);
const struct mtr_jmethod_entry *mtr_jother_method(const struct mtr_jv *v, struct mtr_str name);
/* A method name that the sandbox hides because it would change the object. */
bool mtr_jmutates(const struct mtr_jv *v, struct mtr_str name);
bool mtr_jcall_method(struct mtr_jr *r, const struct mtr_jv *self,
                      const struct mtr_jmethod_entry *m, const struct mtr_jcall *call,
                      struct mtr_jv *out);

/* Filters and tests, by name; SIZE_MAX when there is none. */
size_t mtr_jfilter_find(struct mtr_str name);
size_t mtr_jtest_find(struct mtr_str name);
/* call->pos[0] is the value itself. */
bool mtr_jfilter_run(struct mtr_jr *r, size_t filter, const struct mtr_jcall *call,
                     struct mtr_jv *out);
bool mtr_jtest_run(struct mtr_jr *r, size_t test, const struct mtr_jcall *call, bool *out);

struct mtr_jfilter_entry {
    const char *name;
    const char *params; /* the value itself first */
    uint8_t required;
    uint8_t count;
    bool (*run)(struct mtr_jr *r, const struct mtr_jv *args, struct mtr_jv *out);
    bool (*raw)(struct mtr_jr *r, const struct mtr_jcall *call, struct mtr_jv *out);
};

/* Tables of filters, ended by a NULL name. */
const struct mtr_jfilter_entry *mtr_jfilters_text(void);
const struct mtr_jfilter_entry *mtr_jfilters_wrap(void);
const struct mtr_jfilter_entry *mtr_jfilters_pprint(void);
const struct mtr_jfilter_entry *mtr_jfilters_sequence(void);
const struct mtr_jfilter_entry *mtr_jfilters_number(void);
const struct mtr_jfilter_entry *mtr_jfilters_html(void);

/* Lowers a string for comparisons that ignore case; other values stay. */
bool mtr_jignore_case(struct mtr_jr *r, struct mtr_jv *v);
/* environment.getitem along "a.b.0"; attr NONE: the item itself. default_value may be NULL. */
bool mtr_jattr_path(struct mtr_jr *r, const struct mtr_jv *item, const struct mtr_jv *attr,
                    const struct mtr_jv *default_value, struct mtr_jv *out);
/* Stable. keys [count] decide; items are reordered with them. */
bool mtr_jsort(struct mtr_jr *r, struct mtr_jv *keys, struct mtr_jv *items, uint32_t count,
               bool reverse);

/* Global functions. */
bool mtr_jglobal_find(struct mtr_str name, struct mtr_jv *out);
bool mtr_jglobal_call(struct mtr_jr *r, uint8_t function, const struct mtr_jcall *call,
                      struct mtr_jv *out);
const char *mtr_jglobal_name(uint8_t function);
bool mtr_jmake_dict(struct mtr_jr *r, const char *what, const struct mtr_jcall *call,
                    struct mtr_jdict **out);

/* time.strftime in the C locale; %z and %Z are empty, %f is microseconds. */
bool mtr_jstrftime(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *format,
                   const struct mtr_jinja_time *now);

/* Formatting: percent.c, format.c. */
bool mtr_jpercent(struct mtr_jr *r, const struct mtr_jv *format, const struct mtr_jv *args,
                  struct mtr_jv *out);
bool mtr_jformat(struct mtr_jr *r, const struct mtr_jv *format, const struct mtr_jcall *call,
                 struct mtr_jv *out);
bool mtr_jformat_spec(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *v,
                      struct mtr_str spec);

/* float(text), int(text, base) as Python reads them; false without an error when it is no number.
 */
bool mtr_jparse_float(struct mtr_str s, double *out);
bool mtr_jparse_int(struct mtr_jr *r, struct mtr_str s, int base, struct mtr_jv *out, bool *ok);
/* int(d): MTR_JK_INT or BIG; d must be finite. */
bool mtr_jint_of_double(struct mtr_jr *r, double d, struct mtr_jv *out);

/* json.dumps */
struct mtr_jdump {
    bool ensure_ascii;
    bool sort_keys;
    bool indented;
    struct mtr_jv indent; /* the string of one level */
    struct mtr_jv item_separator;
    struct mtr_jv key_separator;
};
bool mtr_jdumps(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jdump *how,
                const struct mtr_jv *v);

#endif
