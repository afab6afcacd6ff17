/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Conversations: rows of items that responses read and add to.
 */
#include "broker/api/fields.h"
#include "broker/api/responses.h"

#define MAX_NEW_ITEMS 20 /* at once */

static bool find(struct mtr_call *c, struct mtr_store_object *o, struct mtr_error *err)
{
    return mtr_conversation_find(c->store, c->arena, c->owner, c->parts[0], o, err);
}

static struct mtr_items new_items(const struct mtr_call *c)
{
    return (struct mtr_items){.arena = c->arena,
                              .store = c->store,
                              .owner = c->owner,
                              .fresh = c->fresh,
                              .array = {.arena = c->arena}};
}

/* The body's items, made whole. */
static bool read_items(const struct mtr_call *c, const struct mtr_json *v, struct mtr_items *items,
                       struct mtr_error *err)
{
    *items = new_items(c);
    if (!v || v->kind == MTR_JSON_NULL)
        return true;
    if (v->kind != MTR_JSON_ARRAY)
        return mtr_fail_field(err, MTR_INVALID, "items", "'items' must be an array, not %s",
                              mtr_json_kind_name(v));
    if (v->count > MAX_NEW_ITEMS)
        return mtr_fail_field(err, MTR_TOO_LARGE, "items",
                              "'items' has %u entries, at most %d are allowed at once", v->count,
                              MAX_NEW_ITEMS);
    return mtr_items_add(items, v, "items", err);
}

static bool check_fields(const struct mtr_call *c, const char *const *known, size_t count,
                         struct mtr_error *err)
{
    for (uint32_t i = 0; c->body && i < c->body->count; i++) {
        struct mtr_str key = c->body->members[i].key;
        bool found = false;
        for (size_t k = 0; k < count; k++)
            found |= mtr_str_is(key, known[k]);
        if (!found)
            return mtr_fail_field(err, MTR_INVALID, "body", "unknown field '%.*s'",
                                  (int)(key.len < 40 ? key.len : 40), key.ptr);
    }
    return true;
}

bool mtr_conversation_create(struct mtr_call *c, struct mtr_error *err)
{
    static const char *const fields[] = {"items", "metadata"};
    const struct mtr_json *metadata = mtr_json_get(c->body, "metadata");
    struct mtr_items items;
    struct mtr_str text = MTR_STR("{}");
    char *id = mtr_arena_printf(c->arena, "conv_%.*s", MTR_STR_ARG(c->fresh));
    if (!check_fields(c, fields, 2, err) ||
        !read_items(c, mtr_json_get(c->body, "items"), &items, err))
        return false;
    if (metadata && metadata->kind != MTR_JSON_NULL) {
        if (!mtr_metadata_check(metadata, err))
            return false;
        text = mtr_json_text(c->arena, metadata);
    }
    char *body = mtr_arena_printf(c->arena,
                                  "{\"id\":\"%s\",\"object\":\"conversation\",\"created_at\":%lld,"
                                  "\"metadata\":%.*s}",
                                  id ? id : "", (long long)c->now, MTR_STR_ARG(text));
    if (!id || !body || !text.ptr)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory making a conversation");
    struct mtr_store_batch *batch = mtr_store_batch(c->store);
    mtr_batch_put(batch, &(struct mtr_store_object){.kind = MTR_STORED_CONVERSATION,
                                                    .id = mtr_str(id),
                                                    .owner = c->owner,
                                                    .created = c->now,
                                                    .body = mtr_str(body)});
    mtr_items_keep(batch, c->arena, &items.array, mtr_str(id), MTR_LIST_CONVERSATION, c->owner);
    return mtr_store_write(c->store, batch, err) && mtr_buf_puts(c->out, body);
}

bool mtr_conversation_get(struct mtr_call *c, struct mtr_error *err)
{
    struct mtr_store_object o;
    return find(c, &o, err) && mtr_buf_str(c->out, o.body);
}

bool mtr_conversation_update(struct mtr_call *c, struct mtr_error *err)
{
    struct mtr_store_object o;
    struct mtr_str metadata;
    if (!find(c, &o, err) || !mtr_body_metadata(c, &metadata, err))
        return false;
    o.body =
        mtr_json_with(c->arena, o.body, "metadata", metadata.ptr ? metadata : MTR_STR("{}"), err);
    if (!o.body.ptr)
        return false;
    struct mtr_store_batch *batch = mtr_store_batch(c->store);
    mtr_batch_put(batch, &o);
    return mtr_store_write(c->store, batch, err) && mtr_buf_str(c->out, o.body);
}

bool mtr_conversation_delete(struct mtr_call *c, struct mtr_error *err)
{
    struct mtr_store_object o;
    if (!find(c, &o, err))
        return false;
    struct mtr_store_batch *batch = mtr_store_batch(c->store);
    mtr_batch_delete(batch, MTR_STORED_CONVERSATION, o.id, c->owner);
    mtr_put_deleted(c->out, o.id, "conversation.deleted");
    return mtr_store_write(c->store, batch, err);
}

bool mtr_conversation_items(struct mtr_call *c, struct mtr_error *err)
{
    struct mtr_store_object o;
    struct mtr_store_page page;
    struct mtr_store_item *items;
    struct mtr_list_writer l;
    if (!find(c, &o, err) || !mtr_query_page(c, true, &page, err) ||
        !mtr_store_items(c->store, c->arena, o.id, MTR_LIST_CONVERSATION, c->owner, &page, &items,
                         err))
        return false;
    mtr_list_begin(&l, c->out);
    for (uint32_t i = 0; i < page.count; i++)
        mtr_list_entry(&l, items[i].id, items[i].body);
    mtr_list_end(&l, page.has_more);
    return true;
}

bool mtr_conversation_add_items(struct mtr_call *c, struct mtr_error *err)
{
    static const char *const fields[] = {"items"};
    struct mtr_store_object o;
    struct mtr_items items;
    struct mtr_list_writer l;
    const struct mtr_json *v = mtr_json_get(c->body, "items");
    if (!find(c, &o, err) || !check_fields(c, fields, 1, err))
        return false;
    if (!v || v->kind == MTR_JSON_NULL)
        return mtr_fail_field(err, MTR_INVALID, "items", "the body has no 'items'");
    if (!read_items(c, v, &items, err))
        return false;
    struct mtr_store_batch *batch = mtr_store_batch(c->store);
    mtr_items_keep(batch, c->arena, &items.array, o.id, MTR_LIST_CONVERSATION, c->owner);
    mtr_list_begin(&l, c->out);
    for (uint32_t i = 0; i < items.array.count; i++)
        mtr_list_entry(&l, mtr_json_get(&items.array.items[i], "id")->text,
                       mtr_json_text(c->arena, &items.array.items[i]));
    mtr_list_end(&l, false);
    return mtr_store_write(c->store, batch, err);
}

bool mtr_conversation_item(struct mtr_call *c, struct mtr_error *err)
{
    struct mtr_store_object o;
    struct mtr_store_item item;
    return find(c, &o, err) &&
           mtr_store_item(c->store, c->arena, o.id, c->parts[1], c->owner, &item, err) &&
           mtr_buf_str(c->out, item.body);
}

/* Answers with the conversation that is left. */
bool mtr_conversation_delete_item(struct mtr_call *c, struct mtr_error *err)
{
    struct mtr_store_object o;
    struct mtr_store_item item;
    if (!find(c, &o, err) ||
        !mtr_store_item(c->store, c->arena, o.id, c->parts[1], c->owner, &item, err))
        return false;
    struct mtr_store_batch *batch = mtr_store_batch(c->store);
    mtr_batch_delete_item(batch, o.id, item.id, c->owner);
    return mtr_store_write(c->store, batch, err) && mtr_buf_str(c->out, o.body);
}
