/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Request bodies of the protocols. What is accepted is within its documented bounds, and an answer
 * to it is JSON; what is refused is a client's error with a body that is JSON.
 */
#include "tests/fuzz/fuzz.h"

#include <math.h>

#include "broker/api/protocol.h"
#include "common/base/utf8.h"

#define ARENA_BYTES (64u << 20)

static void check_json(struct mtr_str text)
{
    struct mtr_arena arena;
    mtr_arena_init(&arena, ARENA_BYTES);
    MTR_FUZZ_CHECK(mtr_json_parse(&arena, text, 0, NULL) != NULL);
    mtr_arena_free(&arena);
}

static void check_refusal(const struct mtr_protocol *p, const struct mtr_error *err)
{
    struct mtr_buf out = {0};
    int status = mtr_http_status(err);
    MTR_FUZZ_CHECK(err->code != MTR_OK && err->message[0]);
    MTR_FUZZ_CHECK(mtr_utf8_valid(mtr_str(err->message)) && mtr_utf8_valid(mtr_str(err->field)));
    MTR_FUZZ_CHECK(err->code == MTR_NO_MEMORY || (status >= 400 && status < 500));
    p->error(err, &out);
    MTR_FUZZ_CHECK(!out.failed);
    check_json(mtr_buf_view(&out));
    mtr_buf_free(&out);
}

static void check_bounds(const struct mtr_chat_request *r)
{
    MTR_FUZZ_CHECK(r->prompt_count >= 1 && r->choices >= 1 && r->choices <= MTR_MAX_CHOICES);
    MTR_FUZZ_CHECK(r->stop_count <= MTR_MAX_STOPS && r->stop_id_count <= MTR_MAX_STOP_IDS);
    MTR_FUZZ_CHECK(r->top_logprobs <= MTR_MAX_TOP_LOGPROBS);
    for (uint32_t i = 0; i < r->stop_count; i++)
        MTR_FUZZ_CHECK(r->stops[i].len >= 1 && r->stops[i].len <= MTR_MAX_STOP_BYTES);
    const struct mtr_sampling *s = &r->sampling;
    MTR_FUZZ_CHECK(s->temperature >= 0 && s->top_p >= 0 && s->top_p <= 1 && s->min_p >= 0);
    MTR_FUZZ_CHECK(isfinite(s->temperature) && isfinite(s->repetition_penalty) &&
                   isfinite(s->presence_penalty) && isfinite(s->frequency_penalty));
    MTR_FUZZ_CHECK(s->bias_count <= MTR_MAX_BIASES);
}

/* Every frame of a stream, or the whole of another answer. */
static void check_answer(struct mtr_str all, bool stream)
{
    size_t at = 0;
    if (!stream) {
        check_json(all);
        return;
    }
    while (at < all.len) {
        size_t end = mtr_str_find(all, MTR_STR("\n\n"), at);
        MTR_FUZZ_CHECK(end != SIZE_MAX);
        struct mtr_str frame = mtr_str_sub(all, at, end - at);
        MTR_FUZZ_CHECK(mtr_str_starts(frame, MTR_STR("data: ")));
        frame = mtr_str_sub(frame, 6, frame.len);
        if (!mtr_str_is(frame, "[DONE]"))
            check_json(frame);
        at = end + 2;
    }
}

static void answer(const struct mtr_protocol *p, const struct mtr_chat_request *r)
{
    struct mtr_answer_head head = {MTR_STR("id0"), r->model, 1700000000};
    struct mtr_usage usage = {3, 0, 2, 0};
    struct mtr_event_token token = {.id = 5, .bytes = MTR_STR("\xe2\x82"), .logprob = -0.5f};
    struct mtr_buf out = {0};
    struct mtr_answer *a = p->answer(r, &head);
    if (!a)
        return;
    a->ops->begin(a, &out);
    for (uint32_t choice = 0; choice < r->choices * r->prompt_count && choice < 4; choice++) {
        struct mtr_out_event text = {.kind = MTR_EVENT_TEXT,
                                     .choice = choice,
                                     .text = MTR_STR("x\"\xe2\x82\xac\n"),
                                     .token_count = r->logprobs,
                                     .tokens = &token};
        struct mtr_out_event end = {
            .kind = MTR_EVENT_FINISH, .choice = choice, .finish = MTR_END_STOP};
        a->ops->event(a, &text, &out);
        a->ops->event(a, &end, &out);
    }
    a->ops->end(a, &usage, &out);
    a->ops->release(a);
    MTR_FUZZ_CHECK(!out.failed);
    if (!a->failed)
        check_answer(mtr_buf_view(&out), r->stream);
    mtr_buf_free(&out);
}

static void run(const struct mtr_protocol *p, struct mtr_str body)
{
    struct mtr_arena arena;
    struct mtr_error err = {0};
    struct mtr_chat_request request;
    mtr_arena_init(&arena, ARENA_BYTES);
    mtr_chat_request_init(&request, &arena);
    const struct mtr_json *v = mtr_json_parse(&arena, body, 0, &err);
    if (!v || !p->parse(&request, v, &err)) {
        check_refusal(p, &err);
    } else {
        check_bounds(&request);
        answer(p, &request);
    }
    mtr_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mtr_str body = {(const char *)data, size};
    run(mtr_openai_chat(), body);
    run(mtr_openai_completions(), body);
    return 0;
}
