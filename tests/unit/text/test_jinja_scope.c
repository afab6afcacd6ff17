/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names: which value one means is decided before anything runs, by rules that templates can tell.
 */
#include "tests/unit/text/jinja_case.h"

START_TEST(blocks_and_loops)
{
    expect_text("{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = i * 5 %}{{ x }} {% endfor %}"
                "{{ x }}",
                "{}", "15 110 1");
    expect_text("{% if true %}{% set x = 1 %}{% endif %}{{ x }}", "{}", "1");
    expect_text("{% with a=1 %}{% set b = a %}{{ b }}{% endwith %}[{{ a }}{{ b }}]", "{}", "1[]");
    expect_text("{% set a = 9 %}{% with a=1, b=a %}{{ a }}{{ b }}{% endwith %}", "{}", "19");
    expect_text("{% for x in [1] %}{% endfor %}[{{ x }}]", "{}", "[]");
    expect_text("{% for x in [1, 2] if x != y %}{{ x }}{% endfor %}", "{\"y\": 2}", "1");
}
END_TEST

/* What a scope sets anywhere is its own from its beginning, even where the variable was given. */
START_TEST(setting_later_hides_earlier)
{
    const char *v = "{\"n\": 5}";
    expect_text("{% for i in [1] %}[{{ n }}]{% endfor %}{% set n = 1 %}{{ n }}", v, "[]1");
    expect_text("{{ n }}{% set n = 1 %}{{ n }}", v, "51");
    expect_text("{% set n = n + 1 %}{{ n }}", v, "6");
    expect_text("{% if false %}{% set n = 1 %}{% endif %}{{ n }}", v, "5");
    expect_text("{% macro m() %}[{{ n }}]{% endmacro %}{{ m() }}{% set n = 1 %}{{ m() }}", v,
                "[][1]");
}
END_TEST

START_TEST(macros)
{
    expect_text("{% macro m(a, b=a, c=2) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} "
                "{{ m(1, c=3) }} [{{ m() }}]",
                "{}", "112 113 [2]");
    expect_text("{% macro m(x) %}{% set x = x + 1 %}{{ x }}{% endmacro %}{% set x = 5 %}"
                "{{ m(1) }}{{ x }}",
                "{}", "25");
    expect_text("{% macro f(n) %}{{ n }}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}"
                "{{ f(3) }}",
                "{}", "3210");
    expect_text("{% macro m() %}{{ caller(7) }}{% endmacro %}{% set a = 1 %}"
                "{% call(b) m() %}{{ a }}{{ b }}{% endcall %}",
                "{}", "17");
    expect_text("{% macro o() %}{% macro i() %}{{ x }}{% endmacro %}{% set x = 3 %}{{ i() }}"
                "{% endmacro %}{{ o() }}",
                "{}", "3");
}
END_TEST

START_TEST(recursion_has_its_own_variables)
{
    expect_text("{% for x in t recursive %}{% set y = x.n %}({{ y }}{{ loop(x.c) if x.c }}{{ y }})"
                "{% endfor %}",
                "{\"t\": [{\"n\": 1, \"c\": [{\"n\": 2}, {\"n\": 3}]}]}", "(1(22)(33)1)");
}
END_TEST

START_TEST(what_can_not_be)
{
    expect_compile_error("{% for loop in x %}{% endfor %}", "line 1: can't assign to the special");
    expect_compile_error("{% for i in x %}{% set loop = 1 %}{% endfor %}", "line 1: can't assign");
    expect_compile_error("\n{% break %}", "line 2: 'break' outside of a loop");
    expect_compile_error("{% for i in x %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}",
                         "line 1: 'continue' outside of a loop");
    expect_compile_error("{% block a %}{% endblock %}\n{% block a %}{% endblock %}",
                         "line 2: block 'a' defined twice");
    expect_compile_error("{% macro m(caller) %}{{ caller() }}{% endmacro %}",
                         "line 1: the argument 'caller' must have a default");
    expect_text("{% if false %}{{ 1|nope }}{% endif %}ok", "{}", "ok");
    expect_compile_error("{% if x %}{% for i in x %}{{ 1|nope }}{% endfor %}{% endif %}",
                         "line 1: no filter named 'nope'");
}
END_TEST

MTR_CHECK_MAIN("text/jinja_scope")
{
    tcase_add_test(tc, blocks_and_loops);
    tcase_add_test(tc, setting_later_hides_earlier);
    tcase_add_test(tc, macros);
    tcase_add_test(tc, recursion_has_its_own_variables);
    tcase_add_test(tc, what_can_not_be);
}
