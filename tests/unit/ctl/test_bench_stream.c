/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ctl/bench_stream.c"

#include "tests/unit/check_main.h"

#define CHAT(text) "data: {\"choices\":[{\"delta\":{\"content\":\"" text "\"}}]}\n\n"
#define FINISH     "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
#define USAGE                                                                                      \
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4,"                \
    "\"prompt_tokens_details\":{\"cached_tokens\":5}}}\n\n"
#define DONE "data: [DONE]\n\n"

static struct mtr_bench_sample m;
static struct mtr_bench_gaps gaps;
static struct mtr_bench_stream s;

static void setup(void)
{
    m = (struct mtr_bench_sample){0};
    gaps.count = 0;
    mtr_bench_stream_begin(&s, &m, &gaps);
}

static void teardown(void)
{
    mtr_bench_stream_free(&s);
    free(gaps.ns);
    gaps = (struct mtr_bench_gaps){0};
}

static void again(void)
{
    mtr_bench_stream_free(&s);
    setup();
}

static bool feed(const char *text, uint64_t now)
{
    return mtr_bench_stream_feed(&s, mtr_str(text), now);
}

START_TEST(pieces_have_times)
{
    ck_assert(feed(
        "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n", 50));
    ck_assert_uint_eq(m.pieces, 0);
    ck_assert(feed(CHAT("a"), 100) && feed(CHAT("b"), 130) && feed(CHAT("c"), 200));
    ck_assert(feed(FINISH USAGE DONE, 300));
    mtr_bench_stream_end(&s);
    ck_assert_str_eq(m.error, "");
    ck_assert(m.first_ns == 100 && m.last_ns == 200 && m.pieces == 3);
    ck_assert(gaps.count == 2 && gaps.ns[0] == 30 && gaps.ns[1] == 70);
    ck_assert(m.has_usage && m.prompt_tokens == 9 && m.output_tokens == 4 && m.cached_tokens == 5);
}
END_TEST

/* The same in every cut, with each kind of line end. */
START_TEST(cuts_do_not_matter)
{
    static const char *const ends[] = {"\n", "\r", "\r\n"};
    for (int e = 0; e < 3; e++) {
        struct mtr_buf text = {0};
        for (const char *c = ": hello\n\nid: 3\n" CHAT("a") CHAT("b\\n") USAGE DONE; *c; c++)
            mtr_buf_puts(&text, *c == '\n' ? ends[e] : (char[]){*c, '\0'});
        for (size_t cut = 1; cut <= text.len; cut++) {
            again();
            for (size_t i = 0; i < text.len; i += cut)
                ck_assert(mtr_bench_stream_feed(&s, mtr_str_sub(mtr_buf_view(&text), i, cut), i));
            mtr_bench_stream_end(&s);
            ck_assert_msg(!m.error[0] && m.pieces == 2 && m.output_tokens == 4, "%d, %zu: %s", e,
                          cut, m.error);
        }
        mtr_buf_free(&text);
    }
}
END_TEST

START_TEST(events_of_many_lines_and_no_space)
{
    ck_assert(feed(
        "data:{\"choices\":\ndata:[{\"text\":\"x\",\ndata: \"finish_reason\":\"stop\"}]}\n\n", 5));
    mtr_bench_stream_end(&s);
    ck_assert(!m.error[0] && m.pieces == 1 && !m.has_usage);
}
END_TEST

START_TEST(every_kind_of_text_counts)
{
    ck_assert(feed("data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"x\"}}]}\n\n", 1));
    ck_assert(feed("data: {\"choices\":[{\"delta\":{\"reasoning\":\"x\"}}]}\n\n", 2));
    ck_assert(feed("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{}]}}]}\n\n", 3));
    ck_assert(feed("data: {\"choices\":[{\"text\":\"x\"}]}\n\n", 4));
    ck_assert(feed("data: {\"choices\":[{\"delta\":null}],\"usage\":null,\"error\":null}\n\n", 5));
    ck_assert(feed("data: {}\n\ndata: {\"choices\":{}}\n\n", 6));
    ck_assert_uint_eq(m.pieces, 4);
}
END_TEST

START_TEST(an_answer_without_text_has_an_end)
{
    ck_assert(feed(FINISH, 70));
    ck_assert(m.pieces == 0 && m.first_ns == 70 && m.last_ns == 70 && !gaps.count);
}
END_TEST

START_TEST(what_is_no_answer)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "ended early"},
        {"<html>not found</html>", "no event stream"},
        {CHAT("a"), "ended early"},
        {"data: [DONE]", "ended early"}, /* an event that is not finished is none */
        {"data: {\"choices\":\n\n", "no JSON object"},
        {"data: 5\n\n", "no JSON object"},
        {"data: {\"error\":{\"message\":\"worker lost\\n\"}}\n\n", "in the stream: worker lost "},
        {"data: {\"usage\":{\"completion_tokens\":-1}}\n\n", "no count of tokens: completion_"},
        {"data: {\"usage\":{\"prompt_tokens\":9223372036854775807}}\n\n", "no count of tokens"},
        {"data: {\"error\":\"gone\"}\n\n", "in the stream: gone"},
        {"data: {\"error\":{}}\n\n", "error in the stream"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        again();
        feed(cases[i].text, 1);
        mtr_bench_stream_end(&s);
        ck_assert_msg(strstr(m.error, cases[i].says) != NULL, "case %zu: '%s'", i, m.error);
    }
}
END_TEST

START_TEST(an_event_has_a_size)
{
    char piece[4096];
    memset(piece, 'x', sizeof piece);
    bool ok = feed("data: ", 1);
    for (int i = 0; ok && i < 1000; i++)
        ok = mtr_bench_stream_feed(&s, (struct mtr_str){piece, sizeof piece}, 1);
    ck_assert(!ok && strstr(m.error, "larger than 1 MiB"));
    again();
    ok = true;
    for (int i = 0; ok && i < 1000; i++) /* many lines of one event */
        ok = feed("data: ", 1) && mtr_bench_stream_feed(&s, (struct mtr_str){piece, 4096}, 1) &&
             feed("\n", 1);
    ck_assert(!ok && strstr(m.error, "larger than 1 MiB"));
}
END_TEST

START_TEST(http_errors)
{
    static const struct {
        const char *body, *says;
    } cases[] = {{"{\"error\":{\"message\":\"no key\"}}", "status 401: no key"},
                 {"{\"message\":\"no\"}", "status 401: no"},
                 {"<html>", "status 401: <html>"},
                 {"", "status 401"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        again();
        mtr_bench_http_error(&m, 401, mtr_str(cases[i].body));
        ck_assert_str_eq(m.error, cases[i].says);
    }
}
END_TEST

MTR_CHECK_MAIN("ctl/bench_stream")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, pieces_have_times);
    tcase_add_test(tc, cuts_do_not_matter);
    tcase_add_test(tc, events_of_many_lines_and_no_space);
    tcase_add_test(tc, every_kind_of_text_counts);
    tcase_add_test(tc, an_answer_without_text_has_an_end);
    tcase_add_test(tc, what_is_no_answer);
    tcase_add_test(tc, an_event_has_a_size);
    tcase_add_test(tc, http_errors);
}
