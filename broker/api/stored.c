/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What all calls about kept things share: queries, lists, metadata.
 */
#include "broker/api/stored.h"

#include "broker/api/build.h"
#include "broker/api/fields.h"

#define DEFAULT_LIMIT 20
#define MAX_LIMIT     100

/* ---- Queries ----------------------------------------------------------------------------------
 */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* %41 and + as forms write them. What is no escape stands for itself. */
static struct mtr_str decode(struct mtr_arena *arena, struct mtr_str s)
{
    char *to = mtr_arena_alloc(arena, s.len + 1);
    size_t len = 0;
    if (!to)
        return (struct mtr_str){0};
    for (size_t i = 0; i < s.len; i++) {
        bool escape = s.ptr[i] == '%' && i + 2 < s.len && hex_digit(s.ptr[i + 1]) >= 0 &&
                      hex_digit(s.ptr[i + 2]) >= 0;
        if (escape) {
            to[len++] = (char)(hex_digit(s.ptr[i + 1]) << 4 | hex_digit(s.ptr[i + 2]));
            i += 2;
        } else {
            to[len++] = s.ptr[i] == '+' ? ' ' : s.ptr[i];
        }
    }
    to[len] = 0;
    return (struct mtr_str){to, len};
}

struct mtr_str mtr_query_get(const struct mtr_call *c, const char *name)
{
    for (size_t at = 0; at < c->query.len;) {
        size_t end = mtr_str_find(c->query, MTR_STR("&"), at);
        struct mtr_str pair =
            mtr_str_sub(c->query, at, (end == SIZE_MAX ? c->query.len : end) - at);
        size_t equals = mtr_str_find(pair, MTR_STR("="), 0);
        struct mtr_str key = mtr_str_sub(pair, 0, equals == SIZE_MAX ? pair.len : equals);
        if (mtr_str_is(decode(c->arena, key), name))
            return decode(c->arena, mtr_str_sub(pair, key.len + 1, pair.len));
        at = end == SIZE_MAX ? c->query.len : end + 1;
    }
    return (struct mtr_str){0};
}

bool mtr_query_page(const struct mtr_call *c, bool default_descending, struct mtr_store_page *page,
                    struct mtr_error *err)
{
    struct mtr_str limit = mtr_query_get(c, "limit"), order = mtr_query_get(c, "order");
    uint64_t n = DEFAULT_LIMIT;
    *page = (struct mtr_store_page){.after = mtr_query_get(c, "after")};
    if (limit.ptr && (!mtr_str_to_u64(limit, &n) || n < 1 || n > MAX_LIMIT))
        return mtr_fail_field(err, MTR_INVALID, "limit", "'limit' must be from 1 to %d", MAX_LIMIT);
    if (order.ptr && !mtr_str_is(order, "asc") && !mtr_str_is(order, "desc"))
        return mtr_fail_field(err, MTR_INVALID, "order", "'order' must be asc or desc");
    page->limit = (uint32_t)n;
    page->descending = order.ptr ? mtr_str_is(order, "desc") : default_descending;
    return true;
}

/* ---- Answers ----------------------------------------------------------------------------------
 */

void mtr_list_begin(struct mtr_list_writer *l, struct mtr_buf *out)
{
    *l = (struct mtr_list_writer){.w = mtr_json_writer(out)};
    mtr_json_begin_object(&l->w);
    mtr_json_key(&l->w, "object");
    mtr_json_put_cstr(&l->w, "list");
    mtr_json_key(&l->w, "data");
    mtr_json_begin_array(&l->w);
}

void mtr_list_entry(struct mtr_list_writer *l, struct mtr_str id, struct mtr_str body)
{
    mtr_json_put_raw(&l->w, body);
    if (!l->first.ptr)
        l->first = id;
    l->last = id;
}

static void put_id(struct mtr_json_writer *w, const char *key, struct mtr_str id)
{
    mtr_json_key(w, key);
    if (id.ptr)
        mtr_json_put_str(w, id);
    else
        mtr_json_put_null(w);
}

void mtr_list_end(struct mtr_list_writer *l, bool has_more)
{
    mtr_json_end_array(&l->w);
    put_id(&l->w, "first_id", l->first);
    put_id(&l->w, "last_id", l->last);
    mtr_json_key(&l->w, "has_more");
    mtr_json_put_bool(&l->w, has_more);
    mtr_json_end_object(&l->w);
}

void mtr_put_deleted(struct mtr_buf *out, struct mtr_str id, const char *object)
{
    struct mtr_json_writer w = mtr_json_writer(out);
    mtr_json_begin_object(&w);
    mtr_json_key(&w, "id");
    mtr_json_put_str(&w, id);
    mtr_json_key(&w, "object");
    mtr_json_put_cstr(&w, object);
    mtr_json_key(&w, "deleted");
    mtr_json_put_bool(&w, true);
    mtr_json_end_object(&w);
}

/* ---- Metadata ---------------------------------------------------------------------------------
 */

bool mtr_body_metadata(const struct mtr_call *c, struct mtr_str *out, struct mtr_error *err)
{
    const struct mtr_json *v = mtr_json_get(c->body, "metadata");
    *out = (struct mtr_str){0};
    for (uint32_t i = 0; c->body && i < c->body->count; i++)
        if (!mtr_str_is(c->body->members[i].key, "metadata"))
            return mtr_fail_field(err, MTR_INVALID, "metadata",
                                  "only 'metadata' of this can be changed");
    if (!v)
        return mtr_fail_field(err, MTR_INVALID, "metadata", "the body has no 'metadata'");
    if (v->kind == MTR_JSON_NULL)
        return true;
    if (!mtr_metadata_check(v, err))
        return false;
    *out = mtr_json_text(c->arena, v);
    return out->ptr || mtr_fail(err, MTR_NO_MEMORY, "out of memory reading 'metadata'");
}

struct mtr_str mtr_json_with(struct mtr_arena *arena, struct mtr_str object, const char *key,
                             struct mtr_str value, struct mtr_error *err)
{
    const struct mtr_json *v = mtr_json_parse(arena, object, MTR_JSON_STRICT, err);
    struct mtr_buf text = {0};
    if (!v)
        return (struct mtr_str){0};
    struct mtr_json_writer w = mtr_json_writer(&text);
    mtr_json_begin_object(&w);
    for (uint32_t i = 0; i < v->count; i++) {
        if (mtr_str_is(v->members[i].key, key))
            continue;
        mtr_json_key_str(&w, v->members[i].key);
        mtr_json_put_value(&w, &v->members[i].value);
    }
    mtr_json_key(&w, key);
    mtr_json_put_raw(&w, value);
    mtr_json_end_object(&w);
    struct mtr_str copy =
        text.failed ? (struct mtr_str){0} : mtr_arena_str(arena, mtr_buf_view(&text));
    mtr_buf_free(&text);
    if (!copy.ptr)
        mtr_fail(err, MTR_NO_MEMORY, "out of memory");
    return copy;
}
