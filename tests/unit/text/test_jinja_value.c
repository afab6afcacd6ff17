/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Containers, beyond what small recorded cases reach. */
#include <stdio.h>

#include "tests/unit/text/jinja_case.h"

/* Objects with an index, and with keys that come twice: the last value at the first place. */
START_TEST(objects_of_many_keys)
{
    static char json[200000];
    static char want[4096];
    size_t n = (size_t)snprintf(json, sizeof json, "{\"d\": {");
    for (int i = 0; i < 5000; i++)
        n += (size_t)snprintf(json + n, sizeof json - n, "%s\"k%d\": %d", i ? ", " : "", i % 4000,
                              i);
    snprintf(json + n, sizeof json - n, "}}");
    snprintf(want, sizeof want, "4000 4000 3999 k0 k3999 True False");
    expect_text("{{ d|length }} {{ d.k0 }} {{ d['k3999'] }} {{ d|first }} {{ d|list|last }} "
                "{{ 'k17' in d }} {{ 'k4000' in d }}",
                json, want);
}
END_TEST

START_TEST(keys_of_all_kinds)
{
    expect_text("{% set d = {1: 'a', 1.0: 'b', true: 'c', '1': 'd', (1, 2): 'e', none: 'f'} %}"
                "{{ d }} {{ d[1] }}{{ d[(1, 2)] }}{{ d[none] }}",
                "{}", "{1: 'c', '1': 'd', (1, 2): 'e', None: 'f'} cef");
    expect_error("{{ {[1]: 2} }}", "{}", MTR_INVALID, "line 1: unhashable type: 'list'");
    expect_error("{{ d.get([]) }}", "{\"d\": {}}", MTR_INVALID, "line 1: unhashable type");
}
END_TEST

START_TEST(order_of_everything)
{
    expect_text("{{ [1, 2] < [1, 3] }} {{ 'Z' < 'a' }} {{ 1 == 1.0 == true }} {{ x < 1e19 }} "
                "{{ x > y }} {{ [x, y]|sort == [y, x] }} {{ {'a': [1]} == {'a': [1.0]} }}",
                "{\"x\": 9999999999999999999, \"y\": -9999999999999999999}",
                "True True True True True True True");
    expect_error("{{ 1 < 'a' }}", "{}", MTR_INVALID,
                 "line 1: '<' not supported between instances of 'int' and 'str'");
    expect_error("{{ [1, 'a']|sort }}", "{}", MTR_INVALID, "line 1: '<' not supported");
    expect_error("{{ {} <= {} }}", "{}", MTR_INVALID, "line 1: '<=' not supported");
}
END_TEST

/* A generator runs as far as it is asked, and once. */
START_TEST(generators_are_lazy)
{
    expect_text("{% set g = [1, 0]|map('nope') %}fine", "{}", "fine");
    expect_error("{{ [1]|map('nope')|list }}", "{}", MTR_INVALID, "line 1: no filter named 'nope'");
    expect_text("{% set g = [1, 2, 3]|select('odd') %}{{ g|list }}{{ g|list }}", "{}", "[1, 3][]");
    expect_text("{% set ns = namespace(last=0) %}{% for x in [1, 1, 2] if x != ns.last %}{{ x }}"
                "{% set ns.last = x %}{% endfor %}",
                "{}", "12");
    expect_text("{{ (['a', 'b']|map('upper'))|first }}{{ []|first is defined }}", "{}", "AFalse");
}
END_TEST

START_TEST(big_sorts_are_stable)
{
    static char json[120000];
    size_t n = (size_t)snprintf(json, sizeof json, "{\"l\": [");
    for (int i = 0; i < 3000; i++)
        n += (size_t)snprintf(json + n, sizeof json - n, "%s{\"k\": %d, \"i\": %d}", i ? ", " : "",
                              i * 7919 % 10, i);
    snprintf(json + n, sizeof json - n, "]}");
    const char *check = "{%% set ns = namespace(ok=true, k=%s, i=-1) %%}"
                        "{%% for x in l|sort(attribute='k'%s) %%}"
                        "{%% if x.k == ns.k and x.i < ns.i or x.k %s ns.k %%}"
                        "{%% set ns.ok = false %%}{%% endif %%}"
                        "{%% set ns.k = x.k %%}{%% set ns.i = x.i %%}{%% endfor %%}{{ ns.ok }}";
    char source[1024];
    snprintf(source, sizeof source, check, "0", "", "<");
    expect_text(source, json, "True");
    snprintf(source, sizeof source, check, "9", ", reverse=true", ">");
    expect_text(source, json, "True");
}
END_TEST

MTR_CHECK_MAIN("text/jinja_value")
{
    tcase_add_test(tc, objects_of_many_keys);
    tcase_add_test(tc, keys_of_all_kinds);
    tcase_add_test(tc, order_of_everything);
    tcase_add_test(tc, generators_are_lazy);
    tcase_add_test(tc, big_sorts_are_stable);
}
