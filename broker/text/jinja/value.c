/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Lists and dicts, and how JSON becomes them.
 *
 * Dicts keep their members in two arrays in order of insertion; a dict of more than a few members
 * has an index beside them, a table of positions by hash with linear probing. Keys that compare
 * equal (1, 1.0, True) hash alike.
 */
#include "broker/text/jinja/run.h"

#include <math.h>

#include "common/base/hash.h"

/* ---- lists ---- */

struct mtr_jlist *mtr_jlist_new(struct mtr_jr *r, uint32_t count)
{
    struct mtr_jlist *l = mtr_jalloc(r, sizeof *l + count * sizeof(struct mtr_jv));
    if (l)
        *l = (struct mtr_jlist){.items = (struct mtr_jv *)(void *)(l + 1)};
    return l;
}

bool mtr_jlist_push(struct mtr_jr *r, struct mtr_jlist *l, uint32_t *cap, struct mtr_jv item)
{
    if (l->count == *cap) {
        if (*cap > UINT32_MAX / 64)
            return mtr_jfail(r, MTR_TOO_LARGE, "a list of more than %u items", *cap);
        uint32_t grown_cap = *cap ? 2 * *cap : 8;
        struct mtr_jv *grown = mtr_jalloc(r, grown_cap * sizeof *grown);
        if (!grown)
            return false;
        if (l->count)
            memcpy(grown, l->items, l->count * sizeof *grown);
        l->items = grown;
        *cap = grown_cap;
    }
    l->items[l->count++] = item;
    return true;
}

bool mtr_jlist_at(struct mtr_jr *r, struct mtr_jlist *l, uint32_t i, struct mtr_jv *out)
{
    if (l->items[i].kind == MTR_JK_JSON && !mtr_jforce(r, &l->items[i]))
        return false;
    *out = l->items[i];
    return true;
}

bool mtr_jpair(struct mtr_jr *r, struct mtr_jv a, struct mtr_jv b, struct mtr_jv *out)
{
    struct mtr_jlist *l = mtr_jlist_new(r, 2);
    if (!l)
        return false;
    l->items[0] = a;
    l->items[1] = b;
    l->count = 2;
    *out = mtr_jtuple_value(l);
    return true;
}

/* ---- dicts ---- */

static bool hash_value(struct mtr_jr *r, const struct mtr_jv *v, uint64_t *h);

static bool hash_tuple(struct mtr_jr *r, const struct mtr_jv *v, uint64_t *h)
{
    *h = 0x7475706c65;
    if (!mtr_jdeeper(r))
        return false;
    for (uint32_t i = 0; i < v->list->count; i++) {
        struct mtr_jv item;
        uint64_t one;
        if (!mtr_jlist_at(r, v->list, i, &item) || !hash_value(r, &item, &one))
            return false;
        *h = mtr_mix64(*h * 31 + one);
    }
    mtr_jshallower(r);
    return true;
}

static bool hash_value(struct mtr_jr *r, const struct mtr_jv *v, uint64_t *h)
{
    switch (v->kind) {
    case MTR_JK_STR:
        *h = mtr_hash64(mtr_jbytes(v).ptr, v->len, 0);
        return true;
    case MTR_JK_FLOAT:
        *h = v->real == floor(v->real) && fabs(v->real) < 9e18
                 ? mtr_mix64((uint64_t)(int64_t)v->real)
                 : mtr_hash64(&v->real, sizeof v->real, 0);
        return true;
    case MTR_JK_BOOL:
    case MTR_JK_INT:
        *h = mtr_mix64((uint64_t)mtr_jas_int(v));
        return true;
    case MTR_JK_BIG:
        *h = mtr_hash64(v->text, v->len, 1);
        return true;
    case MTR_JK_NONE:
    case MTR_JK_UNDEFINED:
        *h = v->kind;
        return true;
    case MTR_JK_TUPLE:
        return hash_tuple(r, v, h);
    case MTR_JK_LIST:
    case MTR_JK_DICT:
    case MTR_JK_JSON:
    case MTR_JK_VIEW:
        return mtr_jfail(r, MTR_INVALID, "unhashable type: '%s'", mtr_jtype_name(v));
    default:
        *h = mtr_mix64((uint64_t)(uintptr_t)v->pointer);
        return true;
    }
}

struct mtr_jdict *mtr_jdict_new(struct mtr_jr *r, uint32_t count)
{
    struct mtr_jdict *d = mtr_jalloc(r, sizeof *d + 2 * (size_t)count * sizeof(struct mtr_jv));
    if (!d)
        return NULL;
    *d = (struct mtr_jdict){.keys = (struct mtr_jv *)(void *)(d + 1), .cap = count};
    d->values = d->keys + count;
    return d;
}

/* Keys that hash alike on purpose cost steps, and so can't take long. */
static bool index_add(struct mtr_jr *r, struct mtr_jdict *d, uint64_t h, uint32_t position)
{
    uint32_t at = (uint32_t)h & (d->index_size - 1);
    for (; d->index[at]; at = (at + 1) & (d->index_size - 1)) {
        if (!mtr_jstep(r, 1))
            return false;
    }
    d->index[at] = position + 1;
    return true;
}

/* Makes or renews the index so that it is at most half full. */
static bool index_grow(struct mtr_jr *r, struct mtr_jdict *d)
{
    uint32_t size = d->index_size ? 2 * d->index_size : 32;
    while (size < 2 * d->cap)
        size *= 2;
    d->index = mtr_jalloc(r, size * sizeof *d->index);
    if (!d->index)
        return false;
    memset(d->index, 0, size * sizeof *d->index);
    d->index_size = size;
    for (uint32_t i = 0; i < d->count; i++) {
        uint64_t h;
        if (!hash_value(r, &d->keys[i], &h) || !index_add(r, d, h, i))
            return false;
    }
    return true;
}

static bool keys_equal(struct mtr_jr *r, const struct mtr_jv *a, const struct mtr_jv *b, bool *eq)
{
    if (a->kind == MTR_JK_STR && b->kind == MTR_JK_STR) {
        *eq = mtr_str_equal(mtr_jbytes(a), mtr_jbytes(b));
        return true;
    }
    return mtr_jequal(r, a, b, eq);
}

static bool find_hashed(struct mtr_jr *r, const struct mtr_jdict *d, const struct mtr_jv *key,
                        uint64_t h, uint32_t *position)
{
    bool eq = false;
    *position = UINT32_MAX;
    if (!d->index) {
        for (uint32_t i = 0; i < d->count; i++) {
            if (!keys_equal(r, &d->keys[i], key, &eq))
                return false;
            if (eq) {
                *position = i;
                return true;
            }
        }
        return true;
    }
    for (uint32_t at = (uint32_t)h & (d->index_size - 1); d->index[at];
         at = (at + 1) & (d->index_size - 1)) {
        uint32_t i = d->index[at] - 1;
        if (!mtr_jstep(r, 1) || !keys_equal(r, &d->keys[i], key, &eq))
            return false;
        if (eq) {
            *position = i;
            return true;
        }
    }
    return true;
}

bool mtr_jdict_find(struct mtr_jr *r, const struct mtr_jdict *d, const struct mtr_jv *key,
                    uint32_t *position)
{
    uint64_t h;
    return hash_value(r, key, &h) && find_hashed(r, d, key, h, position);
}

uint32_t mtr_jdict_find_str(const struct mtr_jdict *d, struct mtr_str key)
{
    if (d->index) {
        uint32_t at = (uint32_t)mtr_hash64(key.ptr, key.len, 0) & (d->index_size - 1);
        for (; d->index[at]; at = (at + 1) & (d->index_size - 1)) {
            const struct mtr_jv *k = &d->keys[d->index[at] - 1];
            if (k->kind == MTR_JK_STR && mtr_str_equal(mtr_jbytes(k), key))
                return d->index[at] - 1;
        }
        return UINT32_MAX;
    }
    for (uint32_t i = 0; i < d->count; i++) {
        const struct mtr_jv *k = &d->keys[i];
        if (k->kind == MTR_JK_STR && k->len == key.len &&
            (key.len == 0 || memcmp(mtr_jbytes(k).ptr, key.ptr, key.len) == 0))
            return i;
    }
    return UINT32_MAX;
}

bool mtr_jdict_put(struct mtr_jr *r, struct mtr_jdict *d, struct mtr_jv key, struct mtr_jv value)
{
    uint64_t h;
    uint32_t at;
    if (!hash_value(r, &key, &h) || !find_hashed(r, d, &key, h, &at))
        return false;
    if (at != UINT32_MAX) {
        d->values[at] = value;
        return true;
    }
    if (d->count == d->cap) {
        struct mtr_jdict *grown = mtr_jdict_new(r, d->cap ? 2 * d->cap : 4);
        if (!grown)
            return false;
        if (d->count) {
            memcpy(grown->keys, d->keys, d->count * sizeof *d->keys);
            memcpy(grown->values, d->values, d->count * sizeof *d->values);
        }
        d->keys = grown->keys;
        d->values = grown->values;
        d->cap = grown->cap;
    }
    d->keys[d->count] = key;
    d->values[d->count++] = value;
    if (d->count > MTR_JDICT_SMALL && 2 * d->count > d->index_size)
        return index_grow(r, d);
    return !d->index || index_add(r, d, h, d->count - 1);
}

bool mtr_jdict_value(struct mtr_jr *r, struct mtr_jdict *d, uint32_t i, struct mtr_jv *out)
{
    if (d->values[i].kind == MTR_JK_JSON && !mtr_jforce(r, &d->values[i]))
        return false;
    *out = d->values[i];
    return true;
}

/* ---- from JSON ---- */

struct mtr_jv mtr_jfrom_json(const struct mtr_json *j, uint8_t taint, uint8_t trusted)
{
    struct mtr_jv v = {.kind = MTR_JK_NONE, .taint = taint};
    switch (j->kind) {
    case MTR_JSON_NULL:
        break;
    case MTR_JSON_BOOL:
        v.kind = MTR_JK_BOOL;
        v.boolean = j->boolean;
        break;
    case MTR_JSON_INT:
        v.kind = j->big ? MTR_JK_BIG : MTR_JK_INT;
        if (j->big) {
            v.text = j->text.ptr;
            v.len = (uint32_t)j->text.len;
        } else {
            v.integer = j->integer;
        }
        break;
    case MTR_JSON_REAL:
        v.kind = MTR_JK_FLOAT;
        v.real = j->real;
        break;
    case MTR_JSON_STRING:
        v.kind = MTR_JK_STR;
        v.text = j->text.ptr;
        v.len = (uint32_t)j->text.len;
        break;
    case MTR_JSON_ARRAY:
    case MTR_JSON_OBJECT:
        v.kind = MTR_JK_JSON;
        v.sub = trusted;
        v.json = j;
        break;
    }
    return v;
}

/* Text that can hold no special token by itself. */
static bool plain_word(const struct mtr_json *j)
{
    bool plain = j->kind == MTR_JSON_STRING && j->text.len > 0;
    for (size_t i = 0; plain && i < j->text.len; i++) {
        char c = j->text.ptr[i];
        plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' ||
                c == '-';
    }
    return plain;
}

/* Which trusted paths ("messages[].role") out of `bits` end in this key. */
static bool key_trusted(const struct mtr_jr *r, uint8_t bits, struct mtr_str key)
{
    unsigned path = 0;
    for (size_t i = 0; bits && i < r->options->trusted_count; i++) {
        const char *dot = strstr(r->options->trusted[i], "[].");
        if (!dot)
            continue;
        if (path < MTR_JINJA_MAX_TRUSTED_PATHS && bits >> path & 1 && mtr_str_is(key, dot + 3))
            return true;
        path++;
    }
    return false;
}

static bool force_object(struct mtr_jr *r, struct mtr_jv *v)
{
    const struct mtr_json *j = v->json;
    struct mtr_jdict *d = mtr_jdict_new(r, j->count);
    if (!d)
        return false;
    for (uint32_t i = 0; i < j->count; i++) {
        const struct mtr_json_member *m = &j->members[i];
        bool plain = v->sub && key_trusted(r, v->sub, m->key) && plain_word(&m->value);
        uint8_t taint = plain ? MTR_JTRUSTED : v->taint;
        if (!mtr_jdict_put(r, d, mtr_jstr(m->key, v->taint), mtr_jfrom_json(&m->value, taint, 0)))
            return false;
    }
    v->kind = MTR_JK_DICT;
    v->dict = d;
    return true;
}

bool mtr_jforce(struct mtr_jr *r, struct mtr_jv *v)
{
    const struct mtr_json *j = v->json;
    if (!mtr_jstep(r, 1 + j->count / 4))
        return false;
    if (j->kind == MTR_JSON_OBJECT)
        return force_object(r, v);
    struct mtr_jlist *l = mtr_jlist_new(r, j->count);
    if (!l)
        return false;
    for (uint32_t i = 0; i < j->count; i++)
        l->items[i] = mtr_jfrom_json(&j->items[i], v->taint, v->sub);
    l->count = j->count;
    v->kind = MTR_JK_LIST;
    v->list = l;
    return true;
}
