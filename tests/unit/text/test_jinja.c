/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What recorded cases can't say: limits, lines of errors, and the accounts of a rendering. */
#include "tests/unit/text/jinja_case.h"

START_TEST(errors_name_the_line)
{
    expect_compile_error("a\n{{ 1 +\n }}", "line 3: ");
    expect_compile_error("{% if x %}\n\n{% endfor %}", "line 3: unknown tag 'endfor'");
    expect_compile_error("\n{% if x %}\n", "line 2: unexpected end of template: 'if' of line 2");
    expect_compile_error("\n\n{{ x|nope }}", "line 3: no filter named 'nope'");
    expect_compile_error("\xff", "line 1: the template is not valid UTF-8");
    expect_error("{{ 1 }}\n\n{{ x.y }}", "{}", MTR_INVALID, "line 3: 'x' is undefined");
    expect_error("{% macro m() %}\n{{ 1/0 }}{% endmacro %}\n\n{{ m() }}", "{}", MTR_INVALID,
                 "line 2: division by zero");
}
END_TEST

START_TEST(raise_exception_speaks_for_itself)
{
    struct jinja_case c;
    case_open(&c, "{{ raise_exception('Roles must alternate: ' ~ r) }}");
    case_render(&c, "{\"r\": \"u\xc3\xa9\"}");
    ck_assert(!c.ok && c.result.raised);
    ck_assert_int_eq(c.err.code, MTR_INVALID);
    ck_assert_str_eq(c.err.message, "Roles must alternate: u\xc3\xa9");
    ck_assert(mtr_str_is(c.result.message, c.err.message));
    case_close(&c);

    /* An error of 512 bytes can't hold every message; the result can. */
    case_open(&c, "{{ raise_exception('ab' * 1000) }}");
    case_render(&c, "{}");
    ck_assert(c.result.raised);
    ck_assert_uint_eq(c.result.message.len, 2000);
    case_close(&c);

    case_open(&c, "{{ none + 1 }}");
    case_render(&c, "{}");
    ck_assert(!c.ok && !c.result.raised);
    case_close(&c);
}
END_TEST

static void limited(const char *source, struct mtr_jinja_limits limits, enum mtr_code code)
{
    struct jinja_case c;
    case_open(&c, source);
    c.options.limits = limits;
    case_render(&c, "{}");
    ck_assert_msg(!c.ok, "%s renders", source);
    ck_assert_msg(c.err.code == code, "%s: %s", source, c.err.message);
    case_close(&c);
}

START_TEST(nothing_runs_away)
{
    struct mtr_jinja_limits few_steps = {.steps = 100000}, small = {.output_bytes = 1000},
                            little = {.memory_bytes = 1 << 20}, none = {0};
    const char *loop = "{% for i in range(1000) %}{% for k in range(1000) %}{% endfor %}"
                       "{% endfor %}";
    limited(loop, few_steps, MTR_TOO_LARGE);
    limited("{% for i in range(1000) %}ab{% endfor %}", small, MTR_TOO_LARGE);
    limited("{{ 'ab' * 501 }}", small, MTR_TOO_LARGE);
    limited("{{ 'x'.center(1001) }}", small, MTR_TOO_LARGE);
    limited("{{ '%1001d' % 1 }}", small, MTR_TOO_LARGE);
    limited("{{ [0] * 100000 }}", little, MTR_TOO_LARGE);
    limited("{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}"
            "{% endfor %}",
            none, MTR_TOO_LARGE);
    limited("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", none, MTR_INVALID);
    limited("{% set ns = namespace(x=[]) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}"
            "{% endfor %}{{ ns.x }}",
            none, MTR_TOO_LARGE);
    limited("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}", none, MTR_TOO_LARGE);
    limited("{% set ns = namespace(x=[1]) %}{% for i in range(1000) %}"
            "{% set ns.x = ns.x|map('upper') %}{% endfor %}{{ ns.x|list }}",
            none, MTR_TOO_LARGE);
    limited("{{ range(100001) }}", none, MTR_INVALID);
}
END_TEST

static void repeated(char *out, const char *a, unsigned n, const char *b, unsigned m)
{
    *out = '\0';
    size_t len = 0;
    for (unsigned i = 0; i < n; i++, len += strlen(a))
        memcpy(out + len, a, strlen(a) + 1);
    for (unsigned i = 0; i < m; i++, len += strlen(b))
        memcpy(out + len, b, strlen(b) + 1);
}

/* Its names lie in the frame around it; called from another block they would be anything. */
START_TEST(a_scoped_block_is_not_called_from_elsewhere)
{
    struct jinja_case c;
    expect_text("{% set n = 1 %}{% block b scoped %}{{ n }}{% endblock %}", "{}", "1");
    case_open(&c, "{% block a %}{{ self.b() }}{% endblock %}{% set n = 1 %}"
                  "{% block b scoped %}{{ n }}{% endblock %}");
    case_render(&c, "{}");
    ck_assert(!c.ok);
    ck_assert_int_eq(c.err.code, MTR_UNSUPPORTED);
    case_close(&c);
}
END_TEST

START_TEST(nesting_is_bounded)
{
    static char source[400000];
    static const struct {
        const char *before, *after;
    } deep[] = {{"{% if x %}", "{% endif %}"},
                {"{{ (", ")"},
                {"{{ [", "]"},
                {"{{ -", "1 }}"},
                {"{{ not ", "1"},
                {"{{ x|upper", ""},
                {"{{ 1+", ""},
                {"{{ x.y", ""},
                {"{{ x if ", "1"},
                {"{{ f(", ")"},
                {"{{ {1:", "}"},
                {"{{ x is in ", "y"}};
    for (size_t i = 0; i < sizeof deep / sizeof *deep; i++) {
        struct jinja_case c;
        const char *inner =
            strncmp(deep[i].before, "{{ ", 3) == 0 ? deep[i].before + 3 : deep[i].before;
        repeated(source + 3, inner, 5000, deep[i].after, 5000);
        memcpy(source, inner == deep[i].before ? "   " : "{{ ", 3);
        case_open(&c, source);
        ck_assert_msg(!c.template, "%s compiles", deep[i].before);
        ck_assert(c.err.code == MTR_INVALID);
        case_close(&c);
    }
}
END_TEST

START_TEST(the_arena_may_be_small)
{
    struct mtr_arena arena;
    struct mtr_error err;
    struct mtr_jinja_result result;
    struct jinja_case c;
    case_open(&c, "{% for i in range(10000) %}{{ i ~ 'abc' }}{% endfor %}");
    mtr_arena_init(&arena, 1 << 16);
    ck_assert(!mtr_jinja_render(c.template, NULL, NULL, &arena, &result, &err));
    ck_assert_int_eq(err.code, MTR_NO_MEMORY);
    mtr_arena_free(&arena);
    case_close(&c);
}
END_TEST

START_TEST(variables_in_use_are_known)
{
    struct jinja_case c;
    case_open(&c, "{% set a = tools %}{{ a }}{% for m in messages %}{{ m.x }}{% endfor %}");
    ck_assert(mtr_jinja_uses(c.template, MTR_STR("tools")));
    ck_assert(mtr_jinja_uses(c.template, MTR_STR("messages")));
    ck_assert(!mtr_jinja_uses(c.template, MTR_STR("m")));
    ck_assert(!mtr_jinja_uses(c.template, MTR_STR("a")));
    ck_assert(!mtr_jinja_uses(c.template, MTR_STR("documents")));
    case_close(&c);
}
END_TEST

START_TEST(rendering_leaves_nothing_behind)
{
    struct jinja_case c;
    case_open(&c, "{% set ns = namespace(n=0) %}{% for m in l %}{% set ns.n = ns.n + m %}"
                  "{% endfor %}{{ ns.n }}{{ x }}");
    for (int i = 0; i < 3; i++) {
        case_render(&c, i == 1 ? "{\"l\": [1, 2], \"x\": 9}" : "{\"l\": [5]}");
        ck_assert_str_eq(c.text, i == 1 ? "39" : "5");
    }
    case_close(&c);
}
END_TEST

MTR_CHECK_MAIN("text/jinja")
{
    tcase_add_test(tc, errors_name_the_line);
    tcase_add_test(tc, raise_exception_speaks_for_itself);
    tcase_add_test(tc, nothing_runs_away);
    tcase_add_test(tc, a_scoped_block_is_not_called_from_elsewhere);
    tcase_add_test(tc, nesting_is_bounded);
    tcase_add_test(tc, the_arena_may_be_small);
    tcase_add_test(tc, variables_in_use_are_known);
    tcase_add_test(tc, rendering_leaves_nothing_behind);
}
