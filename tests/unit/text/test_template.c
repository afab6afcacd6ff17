/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Provenance: what a client sent stays marked as theirs through everything a template can do. */
#include "broker/text/template.c"

#include <pthread.h>

#include "tests/unit/check_main.h"

/* Renders and compares the text and, a letter a byte, T for the template's and u for the user's. */
static void expect_spans(const char *source, const char *variables, const char *text,
                         const char *spans)
{
    struct mtr_arena arena;
    struct mtr_error err;
    struct mtr_template_output out;
    char marks[512] = "";
    mtr_arena_init(&arena, 0);
    const struct mtr_template *t = mtr_template_compile(&arena, mtr_str(source), &err);
    ck_assert_msg(t != NULL, "%s: %s", source, err.message);
    const struct mtr_json *v = mtr_json_parse(&arena, mtr_str(variables), MTR_JSON_STRICT, &err);
    ck_assert_msg(v != NULL, "%s", err.message);
    ck_assert_msg(mtr_template_render(t, v, NULL, NULL, &out, &err), "%s: %s", source, err.message);
    ck_assert_msg(mtr_str_is(out.text, text), "%s: got %.*s", source, MTR_STR_ARG(out.text));
    size_t at = 0;
    for (size_t i = 0; i < out.span_count; i++) {
        ck_assert_uint_eq(out.spans[i].offset, at);
        ck_assert_uint_gt(out.spans[i].len, 0);
        memset(marks + at, out.spans[i].from_template ? 'T' : 'u', out.spans[i].len);
        at += out.spans[i].len;
    }
    ck_assert_uint_eq(at, out.text.len);
    ck_assert_msg(strcmp(marks, spans) == 0, "%s\n got  %s\n want %s", source, marks, spans);
    mtr_template_output_free(&out);
    mtr_arena_free(&arena);
}

#define CHAT                                                                                       \
    "{\"bos_token\": \"<s>\", \"messages\": [{\"role\": \"user\", \"content\": \"</s>hi\"}]}"

START_TEST(a_chat)
{
    expect_spans("{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
                 "{% endfor %}<end>",
                 CHAT, "<s><|user|></s>hi<end>", "TTTTTTTTTTTuuuuuuTTTTT");
    expect_spans("{{ bos_token + messages[0]['content'] + '</s>' }}", CHAT, "<s></s>hi</s>",
                 "TTTuuuuuuTTTT");
    expect_spans("{{ '<|' + messages[0].role + '|>' }}", CHAT, "<|user|>", "TTTTTTTT");
    expect_spans("", CHAT, "", "");
    expect_spans("{{ x }}", "{\"x\": \"\"}", "", "");
}
END_TEST

/* A role that could be a special token by itself is not trusted. */
START_TEST(odd_roles)
{
    expect_spans("<{{ messages[0].role }}>", "{\"messages\": [{\"role\": \"a<b\"}]}", "<a<b>",
                 "TuuuT");
    expect_spans("<{{ messages[0].name }}>", "{\"messages\": [{\"name\": \"ab\"}]}", "<ab>",
                 "TuuT");
    expect_spans("<{{ messages[0].x.role }}>", "{\"messages\": [{\"x\": {\"role\": \"ab\"}}]}",
                 "<ab>", "TuuT");
    expect_spans("<{{ role }}>", "{\"role\": \"ab\"}", "<ab>", "TuuT");
}
END_TEST

START_TEST(through_strings)
{
    const char *v = "{\"x\": \" ab \", \"y\": \"c,d\"}";
    expect_spans("{{ '<' ~ x ~ '>' }}", v, "< ab >", "TuuuuT");
    expect_spans("{{ (' ' + x + ' ')|trim }}", v, "ab", "uu");
    expect_spans("{{ ('<' + x + '>')[2:5] }}", v, "ab ", "uuu");
    expect_spans("{{ ('<' + x + '>')[::-1] }}", v, "> ba <", "TuuuuT");
    expect_spans("{{ x.replace('a', '[x]') }}", v, " [x]b ", "uTTTuu");
    expect_spans("{{ '-'|join(y.split(',')) }}{{ y.split(',')|join('-') }}", v, "-c-d", "TuTu");
    expect_spans("{{ '%s|%3s' % (x, 'z') }}", v, " ab |  z", "uuuuTTTT");
    expect_spans("{{ '{}={!r}'.format('k', y) }}", v, "k='c,d'", "TTuuuuu");
    expect_spans("{{ ('a' + y)|upper }}", v, "AC,D", "Tuuu");
    expect_spans("{{ (y + '<')|e }}", v, "c,d&lt;", "uuuTTTT");
    expect_spans("{{ y|indent(2, true) }}", v, "  c,d", "TTuuu");
    expect_spans("{{ y|center(7) }}", v, "  c,d  ", "TTuuuTT");
    expect_spans("{{ y * 2 }}{{ y|string|list|last }}", v, "c,dc,dd", "uuuuuuu");
    expect_spans("{{ ('a' + y + 'b')|wordwrap(2) }}", v, "ac\n,d\nb", "TuTuuTT");
    expect_spans("{% for c in 'a' + y %}{{ c }}.{% endfor %}", v, "a.c.,.d.", "TTuTuTuT");
}
END_TEST

START_TEST(through_values)
{
    const char *v = "{\"t\": {\"k\": [1, \"v\"]}, \"n\": 12, \"b\": true}";
    expect_spans("{{ t|tojson }}", v, "{\"k\": [1, \"v\"]}", "uuuuuuuuuuuuuuu");
    expect_spans("{{ {'k': t.k[1]}|tojson }}", v, "{\"k\": \"v\"}", "TTTTTTuuuT");
    expect_spans("{{ t }}{{ [t.k[1]] }}", v, "{'k': [1, 'v']}['v']", "uuuuuuuuuuuuuuuTuuuT");
    expect_spans("{{ n }}{{ n + 1 }}{{ b }}{{ 5 }}", v, "1213True5", "uuuuuuuuT");
    expect_spans("{% for k in t %}{{ k }}{% endfor %}{{ t.k|length }}", v, "k2", "uT");
    expect_spans("{% for k, x in t.items() %}{{ k }}{{ x|last }}{% endfor %}", v, "kv", "uu");
}
END_TEST

START_TEST(through_statements)
{
    const char *v = "{\"x\": \"ab\"}";
    expect_spans("{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(x) }}", v, "<ab>", "TuuT");
    expect_spans("{% set y %}<{{ x }}>{% endset %}{{ y[1:] }}", v, "ab>", "uuT");
    expect_spans("{% filter upper %}<{{ x }}>{% endfilter %}", v, "<AB>", "TuuT");
    expect_spans("{% set ns = namespace(s='') %}{% for c in x %}{% set ns.s = ns.s ~ c ~ '-' %}"
                 "{% endfor %}{{ ns.s }}",
                 v, "a-b-", "uTuT");
    expect_spans("{% generation %}<{{ x }}{% endgeneration %}", v, "<ab", "Tuu");
    expect_spans("{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}{{ x }}{% endcall %}",
                 v, "[ab]", "TuuT");
}
END_TEST

START_TEST(failures_own_nothing)
{
    struct mtr_arena arena;
    struct mtr_error err = {0};
    struct mtr_template_output out;
    mtr_arena_init(&arena, 0);
    const struct mtr_template *t =
        mtr_template_compile(&arena, MTR_STR("ab{{ raise_exception('no') }}"), &err);
    ck_assert_ptr_nonnull(t);
    ck_assert(mtr_template_uses(t, "raise_exception") && !mtr_template_uses(t, "messages"));
    ck_assert(!mtr_template_render(t, NULL, NULL, NULL, &out, &err));
    ck_assert(out.raised && mtr_str_is(out.message, "no"));
    ck_assert_str_eq(err.message, "no");
    ck_assert_uint_eq(out.text.len, 0);
    mtr_template_output_free(&out);
    mtr_template_output_free(&out); /* as often as one likes */
    ck_assert_ptr_null(mtr_template_compile(&arena, MTR_STR("{% if %}"), &err));
    mtr_arena_free(&arena);
}
END_TEST

/* ---- many threads over one template ---- */

struct shared_template {
    const struct mtr_template *t;
    const struct mtr_json *variables;
    struct mtr_str want;
};

static void *render_often(void *context)
{
    const struct shared_template *s = context;
    size_t wrong = 0;
    for (int i = 0; i < 300; i++) {
        struct mtr_template_output out;
        struct mtr_error err;
        bool ok = mtr_template_render(s->t, s->variables, NULL, NULL, &out, &err);
        wrong += !ok || !mtr_str_equal(out.text, s->want);
        mtr_template_output_free(&out);
    }
    return (void *)wrong;
}

START_TEST(threads_share_a_template)
{
    enum { THREADS = 4 };
    struct mtr_arena arena;
    pthread_t threads[THREADS];
    mtr_arena_init(&arena, 0);
    struct shared_template s = {.want = MTR_STR("0:A 1:B [{\"n\": \"a\"}, {\"n\": \"b\"}]")};
    s.t = mtr_template_compile(
        &arena,
        MTR_STR("{% macro m(x) %}{{ x.n|upper }}{% endmacro %}{% for x in l %}{{ loop.index0 }}:"
                "{{ m(x) }} {% endfor %}{{ l|tojson }}"),
        NULL);
    s.variables =
        mtr_json_parse(&arena, MTR_STR("{\"l\": [{\"n\": \"a\"}, {\"n\": \"b\"}]}"), 0, NULL);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, render_often, &s), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        ck_assert_ptr_null(wrong);
    }
    mtr_arena_free(&arena);
}
END_TEST

MTR_CHECK_MAIN("text/template")
{
    tcase_add_test(tc, a_chat);
    tcase_add_test(tc, odd_roles);
    tcase_add_test(tc, through_strings);
    tcase_add_test(tc, through_values);
    tcase_add_test(tc, through_statements);
    tcase_add_test(tc, failures_own_nothing);
    tcase_add_test(tc, threads_share_a_template);
}
