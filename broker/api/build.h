/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * JSON values made in an arena, piece by piece.
 *
 * Protocols say the same things in different shapes. One that is not OpenAI's chat is turned into
 * it as a value, and read by what reads chat, so that messages, tools and reasoning have one
 * meaning. What is added is not copied: it must live as long as the arena. When memory runs out the
 * arena remembers; look at mtr_arena_failed() once at the end.
 */
#ifndef MTR_API_BUILD_H
#define MTR_API_BUILD_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/json.h"

struct mtr_array {
    struct mtr_arena *arena;
    struct mtr_json *items; /* [count] */
    uint32_t count, cap;
};

struct mtr_object {
    struct mtr_arena *arena;
    struct mtr_json_member *members; /* [count] */
    uint32_t count, cap;
};

void mtr_array_add(struct mtr_array *a, struct mtr_json v);
void mtr_object_add(struct mtr_object *o, const char *key, struct mtr_json v);
void mtr_object_add_str(struct mtr_object *o, const char *key, struct mtr_str s);

struct mtr_json mtr_array_value(const struct mtr_array *a);
struct mtr_json mtr_object_value(const struct mtr_object *o);
struct mtr_json mtr_string_value(struct mtr_str s);

/* {"type": "text", "text": text} */
struct mtr_json mtr_text_part(struct mtr_arena *arena, struct mtr_str text);

/* Whether v is an object whose "type" is that. */
bool mtr_json_is_type(const struct mtr_json *v, const char *type);

/* v's member of that name, a string; or NULL and an error about "where.key". */
const struct mtr_json *mtr_need_string(const struct mtr_json *v, const char *key, const char *where,
                                       struct mtr_error *err);

/* What an object may hold. Null may stand for every member. */
struct mtr_member {
    const char *name;
    unsigned kinds; /* MTR_IS(...) of those it may be, or'ed; 0: any */
};

#define MTR_IS(kind) (1u << MTR_JSON_##kind)

/* Refuses members that are not in the list, or of another kind, by "where.name". */
bool mtr_check_members(const struct mtr_json *object, const struct mtr_member *members,
                       size_t count, const char *where, struct mtr_error *err);

#define MTR_CHECK_MEMBERS(object, members, where, err)                                             \
    mtr_check_members(object, members, sizeof(members) / sizeof((members)[0]), where, err)

/* A copy of v on the heap of the arena, as its JSON text. {NULL, 0} when memory is out. */
struct mtr_str mtr_json_text(struct mtr_arena *arena, const struct mtr_json *v);

#endif
