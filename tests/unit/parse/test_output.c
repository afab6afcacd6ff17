/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tokens into events: what is text, what is held, where a stop string cuts. */
#include "broker/parse/output.c"

#include <stdio.h>

#include "common/base/file.h"
#include "tests/unit/check_main.h"

#define MAX_EVENTS 64

struct seen {
    enum mtr_event_kind kind;
    char text[64], stop[32];
    size_t len;
    enum mtr_end finish;
    uint32_t tokens, last_id, top_count, offset;
    bool unscored;
};

static struct mtr_arena arena;
static struct mtr_tokenizer *tokenizer;
static struct mtr_encoder *encoder;
static struct mtr_chat_request request;
static struct mtr_output output;
static struct seen seen[MAX_EVENTS];
static size_t count;

static void setup(void)
{
    char path[1024];
    struct mtr_error err = {0};
    struct mtr_str json;
    const char *root = getenv("MTR_SOURCE_ROOT");
    mtr_arena_init(&arena, 0);
    snprintf(path, sizeof path, "%s/tests/data/tiny/tokenizer.json", root ? root : ".");
    ck_assert_msg(mtr_file_read(&arena, path, 1u << 20, &json, &err), "%s", err.message);
    tokenizer = mtr_tokenizer_from_json(json, (struct mtr_str){0}, &err);
    ck_assert_msg(tokenizer != NULL, "%s", err.message);
    encoder = mtr_encoder_new(tokenizer);
    mtr_chat_request_init(&request, &arena);
    count = 0;
}

static void teardown(void)
{
    mtr_output_free(&output);
    mtr_encoder_free(encoder);
    mtr_tokenizer_free(tokenizer);
    mtr_arena_free(&arena);
}

static void note(void *context, const struct mtr_out_event *ev)
{
    ck_assert_uint_lt(count, MAX_EVENTS);
    struct seen *s = &seen[count++];
    *s = (struct seen){
        .kind = ev->kind, .len = ev->text.len, .finish = ev->finish, .tokens = ev->token_count};
    snprintf(s->text, sizeof s->text, "%.*s", (int)ev->text.len, ev->text.ptr ? ev->text.ptr : "");
    snprintf(s->stop, sizeof s->stop, "%.*s", (int)ev->stop.len, ev->stop.ptr ? ev->stop.ptr : "");
    if (ev->token_count) {
        const struct mtr_event_token *t = &ev->tokens[ev->token_count - 1];
        s->last_id = t->id;
        s->top_count = t->top_count;
        s->unscored = t->unscored;
        s->offset = t->text_offset;
    }
}

static void begin(const char *const *stops, uint32_t stop_count)
{
    for (uint32_t i = 0; i < stop_count; i++)
        request.stops[i] = mtr_str(stops[i]);
    request.stop_count = stop_count;
    mtr_output_init(&output, &request, tokenizer, NULL, 3);
}

static void push(uint32_t id)
{
    struct mtr_output_token t = {.id = id};
    ck_assert(mtr_output_push(&output, &t, note, NULL, NULL));
}

/* One token a byte of the text, so that every border is one between tokens. */
static void push_bytes_of(const char *text)
{
    for (const char *c = text; *c; c++) {
        struct mtr_ids ids = {0};
        ck_assert(mtr_encode(encoder, (struct mtr_str){c, 1}, 0, &ids, NULL));
        ck_assert_uint_eq(ids.count, 1);
        push(ids.ids[0]);
        mtr_ids_free(&ids);
    }
}

/* The id of the token that stands for exactly this byte. */
static uint32_t byte_id(uint8_t byte)
{
    for (uint32_t id = 7; id < mtr_tokenizer_size(tokenizer); id++) {
        struct mtr_str bytes = mtr_token_bytes(tokenizer, id);
        if (bytes.len == 1 && (uint8_t)bytes.ptr[0] == byte)
            return id;
    }
    ck_abort_msg("no token for byte %02x", byte);
    return 0;
}

static void finish(enum mtr_end end)
{
    ck_assert(mtr_output_finish(&output, end, note, NULL, NULL));
}

/* All text of all events, and that FINISH comes last and once. */
static const char *all_text(enum mtr_end end, const char *stop)
{
    static char text[1024];
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        ck_assert_int_eq(seen[i].kind == MTR_EVENT_FINISH, i + 1 == count);
        size_t len = strlen(text);
        snprintf(text + len, sizeof text - len, "%s", seen[i].text);
    }
    ck_assert_uint_gt(count, 0);
    ck_assert_int_eq(seen[count - 1].finish, end);
    ck_assert_str_eq(seen[count - 1].stop, stop);
    return text;
}

START_TEST(text_comes_token_by_token)
{
    begin(NULL, 0);
    push_bytes_of("abc");
    ck_assert_uint_eq(count, 3);
    ck_assert_str_eq(seen[1].text, "b");
    finish(MTR_END_LENGTH);
    ck_assert_str_eq(all_text(MTR_END_LENGTH, ""), "abc");
}
END_TEST

START_TEST(a_stop_over_borders)
{
    begin((const char *const[]){"never", "cde"}, 2);
    push_bytes_of("abcd");
    ck_assert_uint_eq(count, 2); /* "cd" is held */
    push_bytes_of("e");
    ck_assert(output.stopped);
    ck_assert_str_eq(all_text(MTR_END_STOP, "cde"), "ab");
    push_bytes_of("more");
    finish(MTR_END_LENGTH);
    ck_assert_str_eq(all_text(MTR_END_STOP, "cde"), "ab"); /* nothing comes any more */
}
END_TEST

START_TEST(what_only_began_is_text)
{
    begin((const char *const[]){"cde"}, 1);
    push_bytes_of("abcdx");
    ck_assert_str_eq(seen[2].text, "cdx");
    push_bytes_of("cd");
    finish(MTR_END_STOP);
    ck_assert_str_eq(all_text(MTR_END_STOP, ""), "abcdxcd");
}
END_TEST

START_TEST(a_stop_that_overlaps_itself)
{
    begin((const char *const[]){"aab"}, 1);
    push_bytes_of("aaaab");
    ck_assert_str_eq(all_text(MTR_END_STOP, "aab"), "aa");
}
END_TEST

START_TEST(the_earliest_stop_wins)
{
    begin((const char *const[]){"llo", "hel"}, 2);
    struct mtr_ids ids = {0};
    ck_assert(mtr_encode(encoder, MTR_STR("say hello"), 0, &ids, NULL));
    for (size_t i = 0; i < ids.count && !output.stopped; i++)
        push(ids.ids[i]);
    mtr_ids_free(&ids);
    ck_assert_str_eq(all_text(MTR_END_STOP, "hel"), "say ");
}
END_TEST

START_TEST(the_stop_may_stay)
{
    request.include_stop = true;
    begin((const char *const[]){"cd"}, 1);
    push_bytes_of("abcdef");
    ck_assert_str_eq(all_text(MTR_END_STOP, "cd"), "abcd");
}
END_TEST

START_TEST(no_half_characters)
{
    begin(NULL, 0);
    push(byte_id(0xe4));
    push(byte_id(0xb8));
    ck_assert_uint_eq(count, 0);
    push(byte_id(0xad));
    ck_assert_uint_eq(count, 1);
    ck_assert_str_eq(seen[0].text, "\u4e2d");
    push(byte_id(0xe4)); /* its rest never comes */
    finish(MTR_END_STOP);
    ck_assert_str_eq(all_text(MTR_END_STOP, ""), "\u4e2d\ufffd");
}
END_TEST

START_TEST(a_limit_inside_a_character)
{
    begin(NULL, 0);
    push_bytes_of("a");
    push(byte_id(0xf0));
    push(byte_id(0x9f));
    finish(MTR_END_LENGTH);
    ck_assert_str_eq(all_text(MTR_END_LENGTH, ""), "a");
}
END_TEST

START_TEST(a_stop_that_ends_inside_a_character_of_several_tokens)
{
    begin((const char *const[]){"\u4e2d"}, 1);
    push_bytes_of("a");
    push(byte_id(0xe4));
    push(byte_id(0xb8));
    push(byte_id(0xad));
    ck_assert_str_eq(all_text(MTR_END_STOP, "\u4e2d"), "a");
}
END_TEST

START_TEST(special_tokens)
{
    begin(NULL, 0);
    push(6); /* <|end|> */
    push_bytes_of("a");
    finish(MTR_END_STOP);
    ck_assert_str_eq(all_text(MTR_END_STOP, ""), "a");
    mtr_output_free(&output);
    count = 0;
    request.skip_special = false;
    begin(NULL, 0);
    push(6);
    finish(MTR_END_STOP);
    ck_assert_str_eq(all_text(MTR_END_STOP, ""), "<|end|>");
}
END_TEST

static void push_scored(uint32_t id, uint32_t tops)
{
    static const uint32_t top_ids[] = {40, 41, 42};
    static const float top_values[] = {-0.5f, -1, -2};
    struct mtr_token_logprobs l = {
        .logprob = -0.5f, .top_count = tops, .top_ids = top_ids, .top_logprobs = top_values};
    struct mtr_output_token t = {.id = id, .scored = true, .logprobs = &l};
    ck_assert(mtr_output_push(&output, &t, note, NULL, NULL));
}

START_TEST(logprobs_come_with_their_text)
{
    request.logprobs = true;
    request.top_logprobs = 2;
    begin((const char *const[]){"xyz"}, 1);
    push_scored(byte_id('a'), 3);
    ck_assert_uint_eq(seen[0].tokens, 1);
    ck_assert_uint_eq(seen[0].top_count, 2); /* as many as asked for */
    push_scored(byte_id('x'), 3);
    ck_assert_uint_eq(count, 1); /* held, and its token with it */
    push_scored(byte_id('b'), 3);
    ck_assert_str_eq(seen[1].text, "xb");
    ck_assert_uint_eq(seen[1].tokens, 2);
    ck_assert_uint_eq(seen[1].offset, 2);
    ck_assert_uint_eq(seen[1].last_id, byte_id('b'));
    push_scored(6, 3); /* no text, but a token: it comes with the end */
    finish(MTR_END_STOP);
    ck_assert_uint_eq(count, 4);
    ck_assert_uint_eq(seen[2].tokens, 1);
    ck_assert_uint_eq(seen[2].len, 0);
}
END_TEST

START_TEST(an_echo_is_not_searched_for_stops)
{
    request.logprobs = request.echo = true;
    begin((const char *const[]){"ab"}, 1);
    struct mtr_output_token t = {.id = byte_id('a'), .prompt = true};
    ck_assert(mtr_output_push(&output, &t, note, NULL, NULL));
    ck_assert(seen[0].unscored && seen[0].tokens == 1);
    t.id = byte_id('b');
    ck_assert(mtr_output_push(&output, &t, note, NULL, NULL));
    ck_assert_uint_eq(count, 2);
    ck_assert(!output.stopped && output.tokens_seen == 0);
    push_bytes_of("ab");
    ck_assert_str_eq(all_text(MTR_END_STOP, "ab"), "ab");
}
END_TEST

/* ---- Through a parser -------------------------------------------------------------------------
 */

static void begin_chat(bool single)
{
    static const struct mtr_json messages = {.kind = MTR_JSON_ARRAY};
    const struct mtr_parse_format *f = mtr_parse_format_find(MTR_STR("hermes"));
    const struct mtr_output_formats formats = {f, f, false};
    request.messages = &messages;
    request.fresh = MTR_STR("request");
    request.single_tool_call = single;
    request.tools =
        mtr_json_parse(&arena, MTR_STR("[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"),
                       MTR_JSON_STRICT, NULL);
    ck_assert(mtr_output_init(&output, &request, tokenizer, &formats, 0));
}

static void kinds_are(const enum mtr_event_kind *kinds, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (i && seen[i].kind == seen[i - 1].kind)
            continue; /* a piece more */
        ck_assert_uint_lt(at, n);
        ck_assert_int_eq(seen[i].kind, kinds[at++]);
    }
    ck_assert_uint_eq(at, n);
}

static const char call_text[] = "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>";

START_TEST(reasoning_and_calls_become_events)
{
    static const enum mtr_event_kind kinds[] = {
        MTR_EVENT_REASONING,      MTR_EVENT_TEXT,     MTR_EVENT_TOOL_BEGIN,
        MTR_EVENT_TOOL_ARGUMENTS, MTR_EVENT_TOOL_END, MTR_EVENT_TOOL_BEGIN,
        MTR_EVENT_TOOL_ARGUMENTS, MTR_EVENT_TOOL_END, MTR_EVENT_FINISH};
    begin_chat(false);
    push_bytes_of("<think>why</think>so");
    push_bytes_of(call_text);
    push_bytes_of(call_text);
    finish(MTR_END_STOP);
    kinds_are(kinds, sizeof kinds / sizeof kinds[0]);
    ck_assert_int_eq(seen[count - 1].finish, MTR_END_TOOLS);
    ck_assert_uint_ge(output.reasoning_tokens, 3);
    ck_assert_uint_le(output.reasoning_tokens, 11);
}
END_TEST

START_TEST(one_call_ends_the_answer_where_no_more_may_be)
{
    static const enum mtr_event_kind kinds[] = {MTR_EVENT_TOOL_BEGIN, MTR_EVENT_TOOL_ARGUMENTS,
                                                MTR_EVENT_TOOL_END, MTR_EVENT_FINISH};
    begin_chat(true);
    push_bytes_of(call_text);
    ck_assert(output.stopped);
    push_bytes_of(call_text);
    kinds_are(kinds, sizeof kinds / sizeof kinds[0]);
    ck_assert_int_eq(seen[count - 1].finish, MTR_END_TOOLS);
}
END_TEST

START_TEST(a_cut_call_is_not_to_be_run)
{
    begin_chat(false);
    push_bytes_of("<tool_call>{\"name\":\"f\",\"arguments\":{\"a");
    finish(MTR_END_LENGTH);
    ck_assert_int_eq(seen[count - 1].finish, MTR_END_LENGTH);
}
END_TEST

MTR_CHECK_MAIN("parse/output")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, text_comes_token_by_token);
    tcase_add_test(tc, a_stop_over_borders);
    tcase_add_test(tc, what_only_began_is_text);
    tcase_add_test(tc, a_stop_that_overlaps_itself);
    tcase_add_test(tc, the_earliest_stop_wins);
    tcase_add_test(tc, the_stop_may_stay);
    tcase_add_test(tc, no_half_characters);
    tcase_add_test(tc, a_limit_inside_a_character);
    tcase_add_test(tc, a_stop_that_ends_inside_a_character_of_several_tokens);
    tcase_add_test(tc, special_tokens);
    tcase_add_test(tc, logprobs_come_with_their_text);
    tcase_add_test(tc, an_echo_is_not_searched_for_stops);
    tcase_add_test(tc, reasoning_and_calls_become_events);
    tcase_add_test(tc, one_call_ends_the_answer_where_no_more_may_be);
    tcase_add_test(tc, a_cut_call_is_not_to_be_run);
}
