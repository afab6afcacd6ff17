/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the tests of protocols share: a request parsed from text, an answer as text. */
#ifndef MTR_UNIT_API_API_SUPPORT_H
#define MTR_UNIT_API_API_SUPPORT_H

#include <stdio.h>
#include <string.h>

#include "broker/api/protocol.h"
#include "tests/unit/check_main.h"

static struct mtr_arena arena;
static struct mtr_error err;
static struct mtr_chat_request request;
static struct mtr_buf out;

static void setup(void)
{
    mtr_arena_init(&arena, 0);
    memset(&err, 0, sizeof err);
    mtr_chat_request_init(&request, &arena);
}

static void teardown(void)
{
    mtr_arena_free(&arena);
    mtr_buf_free(&out);
}

/* Parses with a fresh request. */
static inline bool parse(const struct mtr_protocol *p, const char *body)
{
    memset(&err, 0, sizeof err);
    mtr_chat_request_init(&request, &arena);
    const struct mtr_json *v = mtr_json_parse(&arena, mtr_str(body), 0, &err);
    ck_assert_msg(v != NULL, "not JSON: %s", body);
    return p->parse(&request, v, &err);
}

static inline void refused(const struct mtr_protocol *p, const char *body, const char *field)
{
    ck_assert_msg(!parse(p, body), "accepted: %s", body);
    ck_assert_msg(strcmp(err.field, field) == 0, "%s names '%s', not '%s': %s", body, err.field,
                  field, err.message);
    int status = mtr_http_status(&err);
    ck_assert_msg(status >= 400 && status < 500, "%s gives %d", body, status);
}

/* Plays events through an answer writer; the result stands in out. */
static inline void play(const struct mtr_protocol *p, const struct mtr_out_event *events,
                        size_t count, const struct mtr_usage *usage)
{
    struct mtr_answer_head head = {MTR_STR("id0"), MTR_STR("the-model"), 1700000000};
    struct mtr_answer *a = p->answer(&request, &head);
    mtr_buf_clear(&out);
    a->ops->begin(a, &out);
    for (size_t i = 0; i < count; i++)
        a->ops->event(a, &events[i], &out);
    a->ops->end(a, usage, &out);
    a->ops->release(a);
    ck_assert(!a->failed && !out.failed);
}

static inline const struct mtr_json *answer(void)
{
    const struct mtr_json *v = mtr_json_parse(&arena, mtr_buf_view(&out), 0, &err);
    ck_assert_msg(v != NULL, "the answer is not JSON: %s", err.message);
    return v;
}

static inline struct mtr_str text_at(const struct mtr_json *v, const char *path)
{
    const struct mtr_json *t = mtr_json_path(v, path);
    ck_assert_msg(t && t->kind == MTR_JSON_STRING, "%s is no string", path);
    return t->text;
}

/* The frames of a stream, parsed one by one; NULL at [DONE]. */
static inline const struct mtr_json *next_frame(size_t *at)
{
    struct mtr_str all = mtr_buf_view(&out);
    size_t end = mtr_str_find(all, MTR_STR("\n\n"), *at);
    ck_assert(end != SIZE_MAX);
    struct mtr_str frame = mtr_str_sub(all, *at, end - *at);
    *at = end + 2;
    ck_assert(mtr_str_starts(frame, MTR_STR("data: ")));
    frame = mtr_str_sub(frame, 6, frame.len);
    if (mtr_str_is(frame, "[DONE]"))
        return NULL;
    const struct mtr_json *v = mtr_json_parse(&arena, frame, 0, &err);
    ck_assert_msg(v != NULL, "a frame is not JSON: %s", err.message);
    return v;
}

#endif
