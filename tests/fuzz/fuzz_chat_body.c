/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Bodies of all generating protocols. The first byte chooses the protocol. A body is refused with
 * a message and a 4xx, or becomes a request within the limits, whose answer is JSON whatever the
 * model says: the bytes of the body itself are played as its output.
 */
#include "tests/fuzz/fuzz.h"

#include "broker/api/protocol.h"

#define ARENA_BYTES (256u << 20)

static bool is_json(struct mtr_str text)
{
    struct mtr_arena arena;
    mtr_arena_init(&arena, ARENA_BYTES);
    bool ok = mtr_json_parse(&arena, text, MTR_JSON_STRICT, NULL) != NULL;
    mtr_arena_free(&arena);
    return ok;
}

/* Each frame is "data: JSON" or "event: NAME" and that; OpenAI's older protocols end by [DONE]. */
static void check_stream(struct mtr_str out, bool names)
{
    bool done = false;
    for (size_t at = 0; at < out.len;) {
        size_t end = mtr_str_find(out, MTR_STR("\n\n"), at);
        MTR_FUZZ_CHECK(end != SIZE_MAX && !done);
        struct mtr_str frame = mtr_str_sub(out, at, end - at);
        size_t data = names ? mtr_str_find(frame, MTR_STR("\n"), 0) + 1 : 0;
        MTR_FUZZ_CHECK(!names || mtr_str_starts(frame, MTR_STR("event: ")));
        frame = mtr_str_sub(frame, data, SIZE_MAX);
        MTR_FUZZ_CHECK(mtr_str_starts(frame, MTR_STR("data: ")));
        frame = mtr_str_sub(frame, 6, SIZE_MAX);
        done = !names && mtr_str_is(frame, "[DONE]");
        MTR_FUZZ_CHECK(done || is_json(frame));
        at = end + 2;
    }
    MTR_FUZZ_CHECK(done || names);
}

static const struct {
    const struct mtr_protocol *(*get)(void);
    bool names; /* its frames have events' names */
} protocols[] = {{mtr_openai_completions, false},
                 {mtr_openai_chat, false},
                 {mtr_anthropic_messages, true},
                 {mtr_openai_responses, true}};

static void play(const struct mtr_protocol *p, bool names, const struct mtr_chat_request *r,
                 struct mtr_str text)
{
    struct mtr_answer_head head = {MTR_STR("id"), mtr_str_sub(text, 0, 40), 1700000000};
    struct mtr_usage usage = {3, 2, 1, 0};
    struct mtr_buf out = {0};
    const struct mtr_event_top top = {7, mtr_str_sub(text, 0, 5), -1.5f};
    const struct mtr_event_token token = {
        .id = 7, .bytes = mtr_str_sub(text, 0, 3), .logprob = -1.5f, .top_count = 1, .top = &top};
    struct mtr_answer *a = p->answer(r, &head);
    MTR_FUZZ_CHECK(a != NULL);
    a->ops->begin(a, &out);
    for (uint32_t c = 0; c < r->prompt_count * r->choices; c++) {
        struct mtr_out_event piece = {
            .kind = MTR_EVENT_TEXT, .choice = c, .text = text, .token_count = 1, .tokens = &token};
        struct mtr_out_event end = {
            .kind = MTR_EVENT_FINISH, .choice = c, .finish = MTR_END_LENGTH};
        struct mtr_out_event thought = {
            .kind = MTR_EVENT_REASONING, .choice = c, .text = mtr_str_sub(text, 0, 9)};
        a->ops->event(a, &thought, &out);
        a->ops->event(a, &piece, &out);
        a->ops->event(a, &end, &out);
    }
    a->ops->end(a, &usage, &out);
    a->ops->release(a);
    MTR_FUZZ_CHECK(!out.failed && !a->failed);
    if (r->stream)
        check_stream(mtr_buf_view(&out), names);
    else
        MTR_FUZZ_CHECK(is_json(mtr_buf_view(&out)));
    mtr_buf_free(&out);
}

static void check_refusal(const struct mtr_protocol *p, bool names, const struct mtr_error *err)
{
    struct mtr_buf out = {0};
    int status = mtr_http_status(err);
    MTR_FUZZ_CHECK(err->code != MTR_OK && err->message[0]);
    MTR_FUZZ_CHECK((status >= 400 && status < 500) || err->code == MTR_NO_MEMORY);
    p->error(err, &out);
    MTR_FUZZ_CHECK(is_json(mtr_buf_view(&out)));
    mtr_buf_clear(&out);
    p->stream_error(err, &out);
    check_stream(mtr_buf_view(&out), names);
    mtr_buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t which = data[0] % (sizeof protocols / sizeof protocols[0]);
    const struct mtr_protocol *p = protocols[which].get();
    bool names = protocols[which].names;
    struct mtr_str text = {(const char *)data + 1, size - 1};
    struct mtr_error err = {0};
    struct mtr_chat_request r;
    struct mtr_arena arena;
    mtr_arena_init(&arena, ARENA_BYTES);
    mtr_chat_request_init(&r, &arena);
    const struct mtr_json *body = mtr_json_parse(&arena, text, MTR_JSON_STRICT, &err);
    if (body && p->parse(&r, body, &err)) {
        MTR_FUZZ_CHECK(r.prompt_count && r.choices && r.choices <= MTR_MAX_CHOICES);
        MTR_FUZZ_CHECK(r.prompt_count * r.choices <= MTR_MAX_CHOICES);
        MTR_FUZZ_CHECK(r.stop_count <= MTR_MAX_STOPS && r.top_logprobs <= MTR_MAX_TOP_LOGPROBS);
        play(p, names, &r, text);
    } else {
        check_refusal(p, names, &err);
    }
    mtr_arena_free(&arena);
    return 0;
}
