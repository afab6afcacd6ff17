/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "broker/text/jinja/lexer.c"

#include "tests/unit/check_main.h"

/* The tokens as text: D"..." N:name S"..." I:1 F:1.5 o(op) and the tags themselves. */
static void expect_tokens(const char *source, const char *want)
{
    static const char *const tags[] = {[MTR_JT_VARIABLE_BEGIN] = "{{",
                                       [MTR_JT_VARIABLE_END] = "}}",
                                       [MTR_JT_BLOCK_BEGIN] = "{%",
                                       [MTR_JT_BLOCK_END] = "%}"};
    struct mtr_arena arena;
    struct mtr_error err;
    struct mtr_jtok *t;
    struct mtr_buf got = {0};
    mtr_arena_init(&arena, 0);
    ck_assert_msg(mtr_jlex(&arena, mtr_str(source), &t, &err), "%s: %s", source, err.message);
    for (; t->kind != MTR_JT_EOF; t++) {
        if (got.len)
            mtr_buf_puts(&got, " ");
        switch (t->kind) {
        case MTR_JT_DATA:
        case MTR_JT_STRING:
            mtr_buf_printf(&got, "%c\"%.*s\"", t->kind == MTR_JT_DATA ? 'D' : 'S',
                           MTR_STR_ARG(t->text));
            break;
        case MTR_JT_NAME:
        case MTR_JT_BIG_INTEGER:
            mtr_buf_printf(&got, "%c:%.*s", t->kind == MTR_JT_NAME ? 'N' : 'B',
                           MTR_STR_ARG(t->text));
            break;
        case MTR_JT_INTEGER:
            mtr_buf_printf(&got, "I:%lld", (long long)t->integer);
            break;
        case MTR_JT_FLOAT:
            mtr_buf_printf(&got, "F:%g", t->real);
            break;
        case MTR_JT_OPERATOR:
            mtr_buf_printf(&got, "o(%c)", t->op);
            break;
        default:
            mtr_buf_puts(&got, tags[t->kind]);
        }
    }
    ck_assert_msg(mtr_str_is(mtr_buf_view(&got), want), "%s\n got  %s\n want %s", source,
                  got.data ? got.data : "", want);
    mtr_buf_free(&got);
    mtr_arena_free(&arena);
}

static void expect_wrong(const char *source, const char *message)
{
    struct mtr_arena arena;
    struct mtr_error err;
    struct mtr_jtok *t;
    mtr_arena_init(&arena, 0);
    ck_assert_msg(!mtr_jlex(&arena, mtr_str(source), &t, &err), "%s", source);
    ck_assert_str_eq(err.message, message);
    mtr_arena_free(&arena);
}

START_TEST(tokens)
{
    expect_tokens("", "");
    expect_tokens("a{b}", "D\"a{b}\"");
    expect_tokens("{{ a.b[1]|c('x') }}",
                  "{{ N:a o(.) N:b o([) I:1 o(]) o(|) N:c o(() S\"x\" o()) }}");
    expect_tokens("{{ {'a': {}} }}", "{{ o({) S\"a\" o(:) o({) o(}) o(}) }}");
    expect_tokens("{{ 1 // 2 ** 3 != 4 <= 5 >= 6 == 7 }}",
                  "{{ I:1 o(f) I:2 o(p) I:3 o(n) I:4 o(l) I:5 o(g) I:6 o(e) I:7 }}");
    expect_tokens("{{ \xc3\xa9_1 }}", "{{ N:\xc3\xa9_1 }}");
}
END_TEST

START_TEST(numbers)
{
    expect_tokens("{{ 1_000 0x1F 0b101 0o17 00 1.5 1e3 1_0.5_0 2.e }}",
                  "{{ I:1000 I:31 I:5 I:15 I:0 F:1.5 F:1000 F:10.5 I:2 o(.) N:e }}");
    expect_tokens("{{ 9223372036854775807 9223372036854775808 }}",
                  "{{ I:9223372036854775807 B:9223372036854775808 }}");
    expect_tokens("{{ a.1.2 }}", "{{ N:a o(.) I:1 o(.) I:2 }}");
    expect_tokens("{{ 012 }}", "{{ I:0 I:12 }}");
    expect_tokens("{{ 1__0 }}", "{{ I:1 N:__0 }}");
}
END_TEST

START_TEST(strings)
{
    expect_tokens("{{ 'a\\n\\t\\x41\\u00e9\\101\\\\\\'' }}", "{{ S\"a\n\tA\xc3\xa9"
                                                             "A\\'\" }}");
    expect_tokens("{{ \"\\d\\q\" }}", "{{ S\"\\d\\q\" }}");
    expect_tokens("{{ 'a\\\nb' }}", "{{ S\"ab\" }}");
    expect_tokens("{{ '\\\xc3\xa9' }}", "{{ S\"\\xe9\" }}"); /* a quirk of Python's decoder */
    expect_tokens("{{ '}}' }}", "{{ S\"}}\" }}");
}
END_TEST

START_TEST(white_space)
{
    expect_tokens("a {%- b -%} c", "D\"a\" {% N:b %} D\"c\"");
    expect_tokens("a\n  {% b %}\n c", "D\"a\n\" {% N:b %} D\" c\"");
    expect_tokens("a\n  {%+ b +%}\n c", "D\"a\n  \" {% N:b %} D\"\n c\"");
    expect_tokens("a\n  {{ b }}\n c", "D\"a\n  \" {{ N:b }} D\"\n c\"");
    expect_tokens("  {# x #}\nb", "D\"b\"");
    expect_tokens("a {#- x -#} b", "D\"a\" D\"b\"");
    expect_tokens("{% raw %} {{ x }} {% endraw %}y", "D\" {{ x }} \" D\"y\"");
    expect_tokens("a {%- raw -%} x {%- endraw -%} b", "D\"a\" D\"x\" D\"b\"");
    expect_tokens("a\r\nb\rc\n\n", "D\"a\nb\nc\n\"");
    expect_tokens("\xe3\x80\x80{%- a %}", "{% N:a %}"); /* an ideographic space */
}
END_TEST

START_TEST(what_is_wrong)
{
    expect_wrong("\n{{ 'a }}", "line 2: a string is not closed");
    expect_wrong("{# a", "line 1: Missing end of comment tag");
    expect_wrong("\n\n{% raw %} a", "line 3: Missing end of raw directive");
    expect_wrong("{{ (] }}", "line 1: unexpected ']'");
    expect_wrong("{{ ) }}", "line 1: unexpected ')'");
    expect_wrong("{{\n @ }}", "line 2: unexpected character at byte 4");
    expect_wrong("{{ '\\xZZ' }}", "line 1: a \\x, \\u or \\U escape that is no character");
    expect_wrong("{{ '\\ud800' }}", "line 1: a \\x, \\u or \\U escape that is no character");
}
END_TEST

MTR_CHECK_MAIN("text/jinja_lexer")
{
    tcase_add_test(tc, tokens);
    tcase_add_test(tc, numbers);
    tcase_add_test(tc, strings);
    tcase_add_test(tc, white_space);
    tcase_add_test(tc, what_is_wrong);
}
