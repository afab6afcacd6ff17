/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Chat completions that were made with "store": true.
 *
 * An object's body is the completion as its client got it (a streamed one: as it would have got
 * it), with its metadata; extra has the request's messages.
 */
#include <stdio.h>

#include "broker/api/build.h"
#include "broker/api/stored.h"

#define MAX_SCANNED 10000 /* completions that one listing with filters looks at */

bool mtr_stored_chat_keep(const struct mtr_chat_request *r, const struct mtr_answer_head *head,
                          struct mtr_str whole, struct mtr_error *err)
{
    char id[80];
    snprintf(id, sizeof id, "chatcmpl-%.*s", MTR_STR_ARG(head->id));
    struct mtr_buf body = {0}, extra = {0};
    struct mtr_json_writer w = mtr_json_writer(&extra);
    mtr_json_put_value(&w, r->messages);
    mtr_buf_str(&body, mtr_str_sub(whole, 0, whole.len - 1)); /* but for the closing brace */
    mtr_buf_puts(&body, ",\"metadata\":");
    w = mtr_json_writer(&body);
    if (r->metadata)
        mtr_json_put_value(&w, r->metadata);
    else
        mtr_buf_puts(&body, "{}");
    mtr_buf_byte(&body, '}');
    struct mtr_store_batch *batch = body.failed || extra.failed ? NULL : mtr_store_batch(r->store);
    mtr_batch_put(batch, &(struct mtr_store_object){.kind = MTR_STORED_CHAT,
                                                    .id = mtr_str(id),
                                                    .owner = r->owner,
                                                    .created = head->created,
                                                    .body = mtr_buf_view(&body),
                                                    .extra = mtr_buf_view(&extra)});
    mtr_buf_free(&body);
    mtr_buf_free(&extra);
    return mtr_store_write(r->store, batch, err);
}

static bool get(struct mtr_call *c, struct mtr_store_object *o, struct mtr_error *err)
{
    return mtr_store_get(c->store, c->arena, MTR_STORED_CHAT, c->parts[0], c->owner, o, err);
}

bool mtr_stored_chat_get(struct mtr_call *c, struct mtr_error *err)
{
    struct mtr_store_object o;
    return get(c, &o, err) && mtr_buf_str(c->out, o.body);
}

bool mtr_stored_chat_update(struct mtr_call *c, struct mtr_error *err)
{
    struct mtr_store_object o;
    struct mtr_str metadata;
    if (!get(c, &o, err) || !mtr_body_metadata(c, &metadata, err))
        return false;
    o.body =
        mtr_json_with(c->arena, o.body, "metadata", metadata.ptr ? metadata : MTR_STR("{}"), err);
    if (!o.body.ptr)
        return false;
    struct mtr_store_batch *batch = mtr_store_batch(c->store);
    mtr_batch_put(batch, &o);
    return mtr_store_write(c->store, batch, err) && mtr_buf_str(c->out, o.body);
}

bool mtr_stored_chat_delete(struct mtr_call *c, struct mtr_error *err)
{
    struct mtr_store_object o;
    if (!get(c, &o, err))
        return false;
    struct mtr_store_batch *batch = mtr_store_batch(c->store);
    mtr_batch_delete(batch, MTR_STORED_CHAT, o.id, c->owner);
    mtr_put_deleted(c->out, o.id, "chat.completion.deleted");
    return mtr_store_write(c->store, batch, err);
}

/* Each message as it was asked, with an id of its own. */
bool mtr_stored_chat_messages(struct mtr_call *c, struct mtr_error *err)
{
    struct mtr_store_object o;
    struct mtr_store_page page;
    struct mtr_list_writer l;
    if (!get(c, &o, err) || !mtr_query_page(c, false, &page, err))
        return false;
    const struct mtr_json *messages = mtr_json_parse(c->arena, o.extra, MTR_JSON_STRICT, err);
    if (!messages)
        return false;
    bool behind = !page.after.ptr;
    uint32_t given = 0;
    mtr_list_begin(&l, c->out);
    for (uint32_t i = 0; i < messages->count; i++) {
        uint32_t k = page.descending ? messages->count - 1 - i : i;
        char *id = mtr_arena_printf(c->arena, "%.*s-%u", MTR_STR_ARG(o.id), k);
        struct mtr_str text = mtr_json_text(c->arena, &messages->items[k]);
        char *value = id ? mtr_arena_printf(c->arena, "\"%s\"", id) : NULL;
        if (behind && given == page.limit) {
            page.has_more = true;
            break;
        }
        if (behind) {
            text = value && text.ptr ? mtr_json_with(c->arena, text, "id", mtr_str(value), err)
                                     : (struct mtr_str){0};
            if (!text.ptr)
                return false;
            mtr_list_entry(&l, mtr_str(id), text);
            given++;
        }
        behind = behind || mtr_str_is(page.after, id ? id : "");
    }
    mtr_list_end(&l, page.has_more);
    return behind ||
           mtr_fail_field(err, MTR_NOT_FOUND, "after", "there is no message '%.*s'",
                          (int)(page.after.len < 80 ? page.after.len : 80), page.after.ptr);
}

/* metadata[key]=value in the query, as clients write it. */
static bool matches(const struct mtr_call *c, const struct mtr_json *completion)
{
    struct mtr_str model = mtr_query_get(c, "model");
    const struct mtr_json *own = mtr_json_get(completion, "model");
    const struct mtr_json *metadata = mtr_json_get(completion, "metadata");
    if (model.ptr && (!own || !mtr_str_equal(own->text, model)))
        return false;
    for (size_t at = 0; at < c->query.len;) {
        size_t end = mtr_str_find(c->query, MTR_STR("&"), at);
        end = end == SIZE_MAX ? c->query.len : end;
        struct mtr_call one = *c;
        one.query = mtr_str_sub(c->query, at, end - at);
        at = end + 1;
        for (uint32_t i = 0; metadata && i < metadata->count; i++) {
            char *name =
                mtr_arena_printf(c->arena, "metadata[%.*s]", MTR_STR_ARG(metadata->members[i].key));
            struct mtr_str wanted = name ? mtr_query_get(&one, name) : (struct mtr_str){0};
            if (wanted.ptr && !mtr_str_equal(wanted, metadata->members[i].value.text))
                return false;
        }
    }
    return true;
}

/* Every metadata[...] of the query names a member that is there. */
static bool has_all_metadata(const struct mtr_call *c, const struct mtr_json *completion)
{
    const struct mtr_json *metadata = mtr_json_get(completion, "metadata");
    uint32_t wanted = 0, found = 0;
    for (size_t at = 0; at < c->query.len;) {
        size_t end = mtr_str_find(c->query, MTR_STR("&"), at);
        end = end == SIZE_MAX ? c->query.len : end;
        struct mtr_str pair = mtr_str_sub(c->query, at, end - at);
        wanted += mtr_str_starts(pair, MTR_STR("metadata[")) ||
                  mtr_str_starts(pair, MTR_STR("metadata%5B")) ||
                  mtr_str_starts(pair, MTR_STR("metadata%5b"));
        at = end + 1;
    }
    for (uint32_t i = 0; metadata && i < metadata->count; i++) {
        char *name =
            mtr_arena_printf(c->arena, "metadata[%.*s]", MTR_STR_ARG(metadata->members[i].key));
        found += name && mtr_query_get(c, name).ptr;
    }
    return found >= wanted;
}

bool mtr_stored_chat_list(struct mtr_call *c, struct mtr_error *err)
{
    struct mtr_store_page page;
    struct mtr_store_object *objects;
    struct mtr_list_writer l;
    if (!mtr_query_page(c, false, &page, err))
        return false;
    uint32_t limit = page.limit, given = 0;
    page.limit = MAX_SCANNED;
    if (!mtr_store_objects(c->store, c->arena, MTR_STORED_CHAT, c->owner, &page, &objects, err))
        return false;
    mtr_list_begin(&l, c->out);
    for (uint32_t i = 0; i < page.count; i++) {
        const struct mtr_json *v = mtr_json_parse(c->arena, objects[i].body, MTR_JSON_STRICT, err);
        if (!v)
            return false;
        if (!matches(c, v) || !has_all_metadata(c, v))
            continue;
        if (given++ == limit) {
            page.has_more = true;
            break;
        }
        mtr_list_entry(&l, objects[i].id, objects[i].body);
    }
    mtr_list_end(&l, page.has_more);
    return true;
}
