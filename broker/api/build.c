/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Arrays and objects that grow by doubling; the old space stays in the arena, which is at most as
 * much again.
 */
#include "broker/api/build.h"

#define FIRST_CAP 8

/* Room for one more of `size` bytes; the elements move. */
static bool grow(struct mtr_arena *arena, void **items, uint32_t count, uint32_t *cap, size_t size)
{
    if (count < *cap)
        return true;
    uint32_t wanted = *cap ? *cap * 2 : FIRST_CAP;
    void *more = mtr_arena_calloc(arena, wanted, size);
    if (!more)
        return false;
    if (count)
        memcpy(more, *items, count * size);
    *items = more;
    *cap = wanted;
    return true;
}

void mtr_array_add(struct mtr_array *a, struct mtr_json v)
{
    if (grow(a->arena, (void **)&a->items, a->count, &a->cap, sizeof *a->items))
        a->items[a->count++] = v;
}

void mtr_object_add(struct mtr_object *o, const char *key, struct mtr_json v)
{
    if (grow(o->arena, (void **)&o->members, o->count, &o->cap, sizeof *o->members))
        o->members[o->count++] = (struct mtr_json_member){mtr_str(key), v};
}

void mtr_object_add_str(struct mtr_object *o, const char *key, struct mtr_str s)
{
    mtr_object_add(o, key, mtr_string_value(s));
}

struct mtr_json mtr_array_value(const struct mtr_array *a)
{
    return (struct mtr_json){.kind = MTR_JSON_ARRAY, .count = a->count, .items = a->items};
}

struct mtr_json mtr_object_value(const struct mtr_object *o)
{
    return (struct mtr_json){.kind = MTR_JSON_OBJECT, .count = o->count, .members = o->members};
}

struct mtr_json mtr_string_value(struct mtr_str s)
{
    return (struct mtr_json){.kind = MTR_JSON_STRING, .text = s};
}

struct mtr_json mtr_text_part(struct mtr_arena *arena, struct mtr_str text)
{
    struct mtr_object part = {.arena = arena};
    mtr_object_add_str(&part, "type", MTR_STR("text"));
    mtr_object_add_str(&part, "text", text);
    return mtr_object_value(&part);
}

struct mtr_str mtr_json_text(struct mtr_arena *arena, const struct mtr_json *v)
{
    struct mtr_buf text = {0};
    struct mtr_json_writer w = mtr_json_writer(&text);
    mtr_json_put_value(&w, v);
    struct mtr_str copy =
        text.failed ? (struct mtr_str){0} : mtr_arena_str(arena, mtr_buf_view(&text));
    mtr_buf_free(&text);
    return copy;
}

bool mtr_json_is_type(const struct mtr_json *v, const char *type)
{
    const struct mtr_json *t = mtr_json_get(v, "type");
    return t && t->kind == MTR_JSON_STRING && mtr_str_is(t->text, type);
}

const struct mtr_json *mtr_need_string(const struct mtr_json *v, const char *key, const char *where,
                                       struct mtr_error *err)
{
    const struct mtr_json *s = mtr_json_get(v, key);
    if (s && s->kind == MTR_JSON_STRING)
        return s;
    mtr_fail_field(err, MTR_INVALID, where, "%s.%s must be a string", where, key);
    return NULL;
}

static bool check_member(const struct mtr_json_member *m, const struct mtr_member *members,
                         size_t count, const char *where, struct mtr_error *err)
{
    int len = (int)(m->key.len < 40 ? m->key.len : 40);
    for (size_t i = 0; i < count; i++) {
        unsigned kinds = members[i].kinds;
        if (!mtr_str_is(m->key, members[i].name))
            continue;
        if (!kinds || m->value.kind == MTR_JSON_NULL || (kinds & 1u << m->value.kind))
            return true;
        return mtr_fail_field(err, MTR_INVALID, where, "%s.%.*s can't be %s", where, len,
                              m->key.ptr, mtr_json_kind_name(&m->value));
    }
    return mtr_fail_field(err, MTR_INVALID, where, "unknown field '%s.%.*s'", where, len,
                          m->key.ptr ? m->key.ptr : "");
}

bool mtr_check_members(const struct mtr_json *object, const struct mtr_member *members,
                       size_t count, const char *where, struct mtr_error *err)
{
    if (object->kind != MTR_JSON_OBJECT)
        return mtr_fail_field(err, MTR_INVALID, where, "%s must be an object, not %s", where,
                              mtr_json_kind_name(object));
    for (uint32_t i = 0; i < object->count; i++)
        if (!check_member(&object->members[i], members, count, where, err))
            return false;
    return true;
}
