/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Strings and lists that grow in place must not show in those that they grew from. */
#include <stdio.h>

#include "tests/unit/text/jinja_case.h"

START_TEST(branches_of_one_text)
{
    expect_text("{% set a = x + 'b' %}{% set c = a + '1' %}{% set d = a + '2' %}"
                "{% set e = c ~ '3' %}{% set f = c ~ '4' %}{{ [a, c, d, e, f] }}",
                "{\"x\": \"a\"}", "['ab', 'ab1', 'ab2', 'ab13', 'ab14']");
    expect_text("{% set a = x + 'b' %}{% set a = a + a %}{% set b = a + a %}{{ a }} {{ b }}",
                "{\"x\": \"a\"}", "abab abababab");
    expect_text("{% set a = [1] + [2] %}{% set b = a + [3] %}{% set c = a + [4] %}"
                "{% set d = b + b %}{% set e = b + [5] %}{{ a }}{{ b }}{{ c }}{{ d }}{{ e }}",
                "{}", "[1, 2][1, 2, 3][1, 2, 4][1, 2, 3, 1, 2, 3][1, 2, 3, 5]");
    expect_text("{% set a = [1] + [2] %}{% set b = a + [0] %}{{ b|sort }}{{ b }}{{ a }}"
                "{{ (a + [7])|reverse|list }}",
                "{}", "[0, 1, 2][1, 2, 0][1, 2][7, 2, 1]");
}
END_TEST

START_TEST(provenance_of_branches)
{
    struct jinja_case c;
    case_open(&c, "{% set a = '<' + x %}{% set b = a + '>' %}{% set c = a + x %}{{ b }}{{ c }}"
                  "{{ a }}{{ b[1:] }}{{ c[:2] ~ b }}");
    case_render(&c, "{\"x\": \"uv\"}");
    ck_assert_str_eq(c.text, "<uv><uvuv<uvuv><u<uv>");
    ck_assert_str_eq(c.spans, "TuuTTuuuuTuuuuTTuTuuT");
    case_close(&c);
}
END_TEST

/* A text of n parts takes memory that goes with n, not with its square. */
START_TEST(growth_is_linear)
{
    static const char *const ways[] = {"ns.s + 'ab' + x", "ns.s ~ 'ab' ~ x"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct jinja_case c;
        char source[256];
        snprintf(source, sizeof source,
                 "{%% set ns = namespace(s='') %%}{%% for i in range(50000) %%}"
                 "{%% set ns.s = %s %%}{%% endfor %%}{{ ns.s|length }}",
                 ways[i]);
        case_open(&c, source);
        c.options.limits.memory_bytes = 64u << 20;
        case_render(&c, "{\"x\": \"c\"}");
        ck_assert_msg(c.ok, "%s", c.err.message);
        ck_assert_str_eq(c.text, "150000");
        case_close(&c);
    }
    expect_text("{% set ns = namespace(l=[]) %}{% for i in range(50000) %}"
                "{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.l|length }}{{ ns.l[49999] }}",
                "{}", "5000049999");
}
END_TEST

/* Byte offsets and characters. */
START_TEST(characters)
{
    const char *v = "{\"s\": \"a\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80z\"}";
    expect_text("{{ s|length }}{{ s[0] }}{{ s[-1] }}{{ s[3] }}{{ s[-4] }}", v,
                "5az\xf0\x9f\x98\x80\xc3\xa9");
    expect_text("[{{ s[5] }}{{ s[-6] }}]{{ s[1:3] }}{{ s[::-2] }}{{ s.find('z') }}", v,
                "[]\xc3\xa9\xe4\xb8\xadz\xe4\xb8\xad"
                "a4");
    expect_text("{{ s.center(9, '\xc2\xb7') }}", v,
                "\xc2\xb7\xc2\xb7"
                "a\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80z\xc2\xb7\xc2\xb7");
    expect_text(
        "{{ '\xc3\x9f\xc7\x86\xef\xac\x81'.upper() }} {{ '\xce\x91\xce\xa3 \xce\xa3'.lower() }}",
        "{}",
        "SS\xc7\x84"
        "FI \xce\xb1\xcf\x82 \xcf\x83");
    expect_text("{{ ['\xc2\xa0\xe2\x80\x8b\xc3\xa9'] }}", "{}", "['\\xa0\\u200b\xc3\xa9']");
}
END_TEST

MTR_CHECK_MAIN("text/jinja_text")
{
    tcase_add_test(tc, branches_of_one_text);
    tcase_add_test(tc, provenance_of_branches);
    tcase_add_test(tc, growth_is_linear);
    tcase_add_test(tc, characters);
}
