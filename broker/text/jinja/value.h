/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Values of the template language: Python's, as far as a template can tell.
 *
 * A value is 16 bytes and is copied freely. What it points to lives in the arena of the rendering
 * (or of the template, for constants) and does not change after it was made: the sandbox forbids
 * it. Only iterators, namespaces, cyclers, joiners and loop variables have state.
 *
 * Provenance. Every string knows where its bytes come from: MTR_JTRUSTED (the template, or a
 * variable of the server) or MTR_JTAINTED (what a client sent). A string of one provenance carries
 * it in `taint`; a string of both is MTR_JF_MIXED and points to a struct mtr_jmixed with the places
 * where it changes. All new strings are made through struct mtr_jtext, which keeps the runs.
 *
 * JSON containers are turned into lists and dicts when they are first looked into (MTR_JK_JSON is
 * such a container that nobody has touched); so items must be read through mtr_jlist_at() and
 * mtr_jdict_value().
 */
#ifndef MTR_TEXT_JINJA_VALUE_H
#define MTR_TEXT_JINJA_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/json.h"
#include "common/base/str.h"

struct mtr_jr; /* a rendering: run.h */

enum mtr_jkind {
    MTR_JK_MISSING, /* an argument that was not given, a name that was never set; never a result */
    MTR_JK_UNDEFINED,
    MTR_JK_NONE,
    MTR_JK_BOOL,
    MTR_JK_INT,
    MTR_JK_BIG, /* an integer beyond 64 bits: its digits, `len` of them at `text` */
    MTR_JK_FLOAT,
    MTR_JK_STR,
    MTR_JK_LIST,
    MTR_JK_TUPLE,
    MTR_JK_DICT,
    MTR_JK_VIEW, /* dict.keys(), .values(), .items(): `sub` says which */
    MTR_JK_RANGE,
    MTR_JK_ITER, /* generators and other iterators that can be walked once */
    MTR_JK_NAMESPACE,
    MTR_JK_MACRO,
    MTR_JK_LOOP,
    MTR_JK_CYCLER,
    MTR_JK_JOINER,
    MTR_JK_FUNCTION, /* a global function; `sub` is its number in the table of globals.c */
    MTR_JK_METHOD,   /* a method with its object */
    MTR_JK_BLOCKS,   /* the name `self` */
    MTR_JK_BLOCK,    /* one block of it */
    MTR_JK_JSON,
};

enum mtr_jtaint { MTR_JTRUSTED = 0, MTR_JTAINTED = 1 };

enum mtr_jflags {
    MTR_JF_MARKUP =
        1, /* a string that `safe` or `escape` made: sums with it escape the other side */
    MTR_JF_MIXED = 2,  /* a string of more than one provenance: `mixed`, not `text` */
    MTR_JF_GROUP = 4,  /* a tuple made by groupby: has .grouper and .list */
    MTR_JF_UNSAFE = 8, /* an undefined that stands for a forbidden attribute */
};

enum mtr_jview { MTR_JVIEW_KEYS, MTR_JVIEW_VALUES, MTR_JVIEW_ITEMS };

struct mtr_jv {
    uint8_t kind;  /* enum mtr_jkind */
    uint8_t taint; /* enum mtr_jtaint: of a string, number or JSON container */
    uint8_t flags;
    uint8_t sub;  /* VIEW, FUNCTION; JSON: which trusted paths lead through it, see run.h */
    uint32_t len; /* STR, BIG, UNDEFINED: bytes */
    union {
        bool boolean;
        int64_t integer;
        double real;
        const char *text; /* STR (not MIXED), BIG; UNDEFINED: what was looked for */
        const struct mtr_jmixed *mixed;
        struct mtr_jlist *list; /* LIST, TUPLE */
        struct mtr_jdict *dict; /* DICT, VIEW, NAMESPACE */
        const struct mtr_jrange *range;
        struct mtr_jiter *iter;
        const struct mtr_jmacro *macro;
        struct mtr_jloop *loop;
        struct mtr_jcycler *cycler;
        struct mtr_jjoiner *joiner;
        const struct mtr_jmethod *method;
        const struct mtr_jblock *block;
        const struct mtr_json *json;
        const void *pointer;
    };
};

/* Provenance changes at each of changes[0..count); the array may be shared with longer strings. */
struct mtr_jmixed {
    const char *text;
    const uint32_t *changes;
    uint32_t count; /* >= 1 */
    uint8_t first;  /* taint of the first run; it alternates from there */
};

struct mtr_jlist {
    struct mtr_jv *items; /* [count]; read through mtr_jlist_at() */
    uint32_t count;
};

/* In order of insertion. Beyond MTR_JDICT_SMALL members there is an index by hash. */
struct mtr_jdict {
    struct mtr_jv *keys;
    struct mtr_jv *values; /* read through mtr_jdict_value() */
    uint32_t count;
    uint32_t cap;
    uint32_t *index; /* [index_size], position + 1 or 0; open addressing */
    uint32_t index_size;
};

#define MTR_JDICT_SMALL 8

struct mtr_jrange {
    int64_t start;
    int64_t stop;
    int64_t step;
    int64_t count;
};

struct mtr_jcycler {
    struct mtr_jv items; /* a tuple */
    uint32_t pos;
};

struct mtr_jjoiner {
    struct mtr_jv sep;
    bool used;
};

/* ---- making values; those with `r` allocate and return false (error set) when memory is out ----
 */

static inline struct mtr_jv mtr_jnone(void)
{
    return (struct mtr_jv){.kind = MTR_JK_NONE};
}

static inline struct mtr_jv mtr_jbool(bool b)
{
    return (struct mtr_jv){.kind = MTR_JK_BOOL, .boolean = b};
}

static inline struct mtr_jv mtr_jint(int64_t i)
{
    return (struct mtr_jv){.kind = MTR_JK_INT, .integer = i};
}

static inline struct mtr_jv mtr_jfloat(double d)
{
    return (struct mtr_jv){.kind = MTR_JK_FLOAT, .real = d};
}

/* what was looked for, for the error message when it is used; lives as long as the value. */
static inline struct mtr_jv mtr_jundefined(struct mtr_str what)
{
    return (struct mtr_jv){.kind = MTR_JK_UNDEFINED, .len = (uint32_t)what.len, .text = what.ptr};
}

/* A string over bytes that somebody else keeps. */
static inline struct mtr_jv mtr_jstr(struct mtr_str s, uint8_t taint)
{
    return (struct mtr_jv){
        .kind = MTR_JK_STR, .taint = taint, .len = (uint32_t)s.len, .text = s.ptr};
}

static inline struct mtr_jv mtr_jcstr(const char *literal)
{
    return mtr_jstr(mtr_str(literal), MTR_JTRUSTED);
}

static inline struct mtr_str mtr_jbytes(const struct mtr_jv *v)
{
    return (struct mtr_str){v->flags & MTR_JF_MIXED ? v->mixed->text : v->text, v->len};
}

static inline bool mtr_jis_str(const struct mtr_jv *v)
{
    return v->kind == MTR_JK_STR;
}

static inline bool mtr_jis_markup(const struct mtr_jv *v)
{
    return v->kind == MTR_JK_STR && (v->flags & MTR_JF_MARKUP);
}

/* int or bool, as isinstance(v, int) says; MTR_JK_BIG not. */
static inline bool mtr_jis_int(const struct mtr_jv *v)
{
    return v->kind == MTR_JK_INT || v->kind == MTR_JK_BOOL;
}

static inline int64_t mtr_jas_int(const struct mtr_jv *v)
{
    return v->kind == MTR_JK_BOOL ? v->boolean : v->integer;
}

static inline bool mtr_jis_number(const struct mtr_jv *v)
{
    return mtr_jis_int(v) || v->kind == MTR_JK_BIG || v->kind == MTR_JK_FLOAT;
}

double mtr_jas_double(const struct mtr_jv *v); /* of a number */

/* An empty list or tuple with room for count items; the caller fills items and count. */
struct mtr_jlist *mtr_jlist_new(struct mtr_jr *r, uint32_t count);
bool mtr_jlist_push(struct mtr_jr *r, struct mtr_jlist *l, uint32_t *cap, struct mtr_jv item);
struct mtr_jdict *mtr_jdict_new(struct mtr_jr *r, uint32_t count);
/* Keeps the place of a key that is there. Fails on a key that can't be hashed. */
bool mtr_jdict_put(struct mtr_jr *r, struct mtr_jdict *d, struct mtr_jv key, struct mtr_jv value);

static inline struct mtr_jv mtr_jlist_value(struct mtr_jlist *l)
{
    return (struct mtr_jv){.kind = MTR_JK_LIST, .list = l};
}

static inline struct mtr_jv mtr_jtuple_value(struct mtr_jlist *l)
{
    return (struct mtr_jv){.kind = MTR_JK_TUPLE, .list = l};
}

static inline struct mtr_jv mtr_jdict_value_of(struct mtr_jdict *d)
{
    return (struct mtr_jv){.kind = MTR_JK_DICT, .dict = d};
}

bool mtr_jpair(struct mtr_jr *r, struct mtr_jv a, struct mtr_jv b, struct mtr_jv *out);

/* A JSON value as a value of the language; trusted: bits of the trusted paths that lead through. */
struct mtr_jv mtr_jfrom_json(const struct mtr_json *j, uint8_t taint, uint8_t trusted);
bool mtr_jforce(struct mtr_jr *r, struct mtr_jv *v); /* MTR_JK_JSON becomes LIST or DICT in place */

/* ---- reading ---- */

bool mtr_jlist_at(struct mtr_jr *r, struct mtr_jlist *l, uint32_t i, struct mtr_jv *out);
bool mtr_jdict_value(struct mtr_jr *r, struct mtr_jdict *d, uint32_t i, struct mtr_jv *out);
/* Position of a key, or UINT32_MAX; false (with error) when the key can't be hashed. */
bool mtr_jdict_find(struct mtr_jr *r, const struct mtr_jdict *d, const struct mtr_jv *key,
                    uint32_t *position);
uint32_t mtr_jdict_find_str(const struct mtr_jdict *d, struct mtr_str key);

bool mtr_jtruth(const struct mtr_jv *v);
/* len(v); false without an error when v has no length. */
bool mtr_jlen(const struct mtr_jv *v, int64_t *len);
bool mtr_jequal(struct mtr_jr *r, const struct mtr_jv *a, const struct mtr_jv *b, bool *out);
/* a < b, Python's TypeError as an error. */
bool mtr_jless(struct mtr_jr *r, const struct mtr_jv *a, const struct mtr_jv *b, bool *out);
/* op: '<', '>', 'l' (<=), 'g' (>=). */
bool mtr_jorder(struct mtr_jr *r, char op, const struct mtr_jv *a, const struct mtr_jv *b,
                bool *out);
/* item in container. */
bool mtr_jcontains(struct mtr_jr *r, const struct mtr_jv *container, const struct mtr_jv *item,
                   bool *out);
bool mtr_jsame(const struct mtr_jv *a, const struct mtr_jv *b); /* Python's `is` */
/* 'str', 'int', ...: for messages. */
const char *mtr_jtype_name(const struct mtr_jv *v);

/* ---- printing: repr.c, number.c, tojson.c ---- */

struct mtr_jtext;
bool mtr_jput_str(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *v);  /* str(v) */
bool mtr_jput_repr(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *v); /* repr(v) */
bool mtr_jto_str(struct mtr_jr *r, const struct mtr_jv *v, struct mtr_jv *out);
/* soft_str: keeps markup. */
bool mtr_jsoft_str(struct mtr_jr *r, const struct mtr_jv *v, struct mtr_jv *out);
#define MTR_JFLOAT_BYTES 32
size_t mtr_jfloat_repr(double d, char out[MTR_JFLOAT_BYTES]);

#endif
