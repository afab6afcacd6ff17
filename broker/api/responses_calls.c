/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kept responses: looked up, deleted, cancelled, and what their input was.
 */
#include "broker/api/responses.h"

static bool get(struct mtr_call *c, struct mtr_store_object *o, struct mtr_error *err)
{
    return mtr_store_get(c->store, c->arena, MTR_STORED_RESPONSE, c->parts[0], c->owner, o, err);
}

static bool refuse_stream(const struct mtr_call *c, struct mtr_error *err)
{
    if (mtr_query_get(c, "starting_after").ptr)
        return mtr_fail_field(err, MTR_UNSUPPORTED, "starting_after",
                              "'starting_after' is not supported here: it needs 'stream'");
    return !mtr_str_is(mtr_query_get(c, "stream"), "true") ||
           mtr_fail_field(err, MTR_UNSUPPORTED, "stream",
                          "'stream' is not supported here: events of a kept response are not kept");
}

bool mtr_response_get(struct mtr_call *c, struct mtr_error *err)
{
    struct mtr_store_object o;
    return refuse_stream(c, err) && get(c, &o, err) && mtr_buf_str(c->out, o.body);
}

bool mtr_response_delete(struct mtr_call *c, struct mtr_error *err)
{
    struct mtr_store_object o;
    if (!get(c, &o, err))
        return false;
    if (o.unfinished)
        c->cancel(c->context, o.id);
    struct mtr_store_batch *batch = mtr_store_batch(c->store);
    mtr_batch_delete(batch, MTR_STORED_RESPONSE, o.id, c->owner);
    mtr_put_deleted(c->out, o.id, "response");
    return mtr_store_write(c->store, batch, err);
}

/* What has ended already stays as it is. */
bool mtr_response_cancel(struct mtr_call *c, struct mtr_error *err)
{
    struct mtr_store_object o;
    if (!get(c, &o, err))
        return false;
    const struct mtr_json *v = mtr_json_parse(c->arena, o.body, MTR_JSON_STRICT, err);
    const struct mtr_json *background = mtr_json_get(v, "background");
    if (!v)
        return false;
    if (!background || background->kind != MTR_JSON_BOOL || !background->boolean)
        return mtr_fail(err, MTR_INVALID,
                        "only a response that was made with 'background' can be cancelled");
    if (o.unfinished) {
        struct mtr_store_batch *batch = mtr_store_batch(c->store);
        c->cancel(c->context, o.id);
        o.body = mtr_json_with(c->arena, o.body, "status", MTR_STR("\"cancelled\""), err);
        o.unfinished = false;
        mtr_batch_finish(batch, &o);
        if (!mtr_store_write(c->store, o.body.ptr ? batch : NULL, err) || !get(c, &o, err))
            return false;
    }
    return mtr_buf_str(c->out, o.body);
}

bool mtr_response_input_items(struct mtr_call *c, struct mtr_error *err)
{
    struct mtr_store_object o;
    struct mtr_store_page page;
    struct mtr_store_item *items;
    struct mtr_list_writer l;
    if (!get(c, &o, err) || !mtr_query_page(c, true, &page, err) ||
        !mtr_store_items(c->store, c->arena, o.id, MTR_LIST_INPUT, c->owner, &page, &items, err))
        return false;
    mtr_list_begin(&l, c->out);
    for (uint32_t i = 0; i < page.count; i++)
        mtr_list_entry(&l, items[i].id, items[i].body);
    mtr_list_end(&l, page.has_more);
    return true;
}
