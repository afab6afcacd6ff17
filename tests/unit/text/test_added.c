/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Cutting added tokens out, and whom special ones obey. */
#include "broker/text/added.c"

#include <stdio.h>

#include "tests/unit/check_main.h"

struct fixture {
    struct mtr_unicode u;
    struct mtr_added a;
    struct mtr_sections out;
};

static void set_up(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    ck_assert(mtr_unicode_init(&f->u));
}

static void tear_down(struct fixture *f)
{
    mtr_unicode_free(&f->u);
    mtr_added_free(&f->a);
    free(f->out.items);
}

static void add(struct fixture *f, const char *text, struct mtr_added_token t)
{
    ck_assert(mtr_added_put(&f->a, mtr_str(text), t));
}

/* Sections as "text|<id>|text": tokens with what they swallowed. */
static void cuts(struct fixture *f, const char *text, struct mtr_trust trust, const char *want)
{
    char got[512] = "";
    size_t n = 0;
    f->out.count = 0;
    ck_assert(mtr_added_cut(&f->a, &f->u, mtr_str(text), &trust, &f->out));
    for (size_t i = 0; i < f->out.count; i++) {
        struct mtr_section s = f->out.items[i];
        if (s.id == MTR_TOKEN_NONE)
            n += (size_t)snprintf(got + n, sizeof got - n, "%.*s|", (int)(s.end - s.start),
                                  text + s.start);
        else
            n += (size_t)snprintf(got + n, sizeof got - n, "<%u:%zu>|", s.id, s.end - s.start);
    }
    ck_assert_msg(strcmp(got, want) == 0, "%s: got %s, want %s", text, got, want);
}

static const struct mtr_trust all = {.all = true};

START_TEST(longest_and_leftmost)
{
    struct fixture f;
    set_up(&f);
    add(&f, "ab", (struct mtr_added_token){.id = 1});
    add(&f, "abcd", (struct mtr_added_token){.id = 2});
    add(&f, "bc", (struct mtr_added_token){.id = 3});
    add(&f, "x", (struct mtr_added_token){.id = 4});
    cuts(&f, "abc", all, "<1:2>|c|");
    cuts(&f, "zabcdz", all, "z|<2:4>|z|");
    cuts(&f, "bcab", all, "<3:2>|<1:2>|");
    cuts(&f, "xx", all, "<4:1>|<4:1>|");
    cuts(&f, "none", all, "none|");
    cuts(&f, "", all, "");
    tear_down(&f);
}
END_TEST

START_TEST(white_space_and_words)
{
    struct fixture f;
    set_up(&f);
    add(&f, "<l>", (struct mtr_added_token){.id = 1, .lstrip = true});
    add(&f, "<r>", (struct mtr_added_token){.id = 2, .rstrip = true});
    add(&f, "word", (struct mtr_added_token){.id = 3, .single_word = true});
    cuts(&f, "a \xe3\x80\x80<l> b", all, "a|<1:7>| b|");
    cuts(&f, "a <r> \n b", all, "a |<2:6>|b|");
    cuts(&f, "<r>  <l>", all, "<2:5>|<1:3>|");
    cuts(&f, "word words sword (word)", all, "<3:4>| words sword (|<3:4>|)|");
    cuts(&f, "\xc3\xa9word word", all, "\xc3\xa9word |<3:4>|");
    tear_down(&f);
}
END_TEST

START_TEST(special_tokens_act_where_trusted)
{
    struct fixture f;
    set_up(&f);
    add(&f, "<s>", (struct mtr_added_token){.id = 1, .special = true});
    add(&f, "tool", (struct mtr_added_token){.id = 2});
    cuts(&f, "a<s>tool", all, "a|<1:3>|<2:4>|");
    cuts(&f, "a<s>tool", (struct mtr_trust){0}, "a<s>|<2:4>|");
    struct mtr_text_span spans[] = {{4, true}, {0, false}, {8, false}, {4, true}};
    struct mtr_trust trust = {.spans = spans, .count = 4};
    cuts(&f, "a<s>b<s><s>c<s>d", trust, "a|<1:3>|b<s><s>c|<1:3>|d|");
    struct mtr_text_span halves[] = {{2, true}, {1, true}, {3, false}, {1, true}};
    struct mtr_trust half = {.spans = halves, .count = 4};
    cuts(&f, "<s><s>x", half, "<1:3>|<s>x|"); /* two trusted spans make one */
    struct mtr_text_span edge[] = {{2, false}, {4, true}};
    struct mtr_trust crossing = {.spans = edge, .count = 2};
    cuts(&f, "<s><s>", crossing, "<s>|<1:3>|"); /* the first reaches into user text */
    tear_down(&f);
}
END_TEST

START_TEST(a_crossing_token_hides_nothing)
{
    struct fixture f;
    set_up(&f);
    add(&f, "<a><b>", (struct mtr_added_token){.id = 1, .special = true});
    add(&f, "<b>", (struct mtr_added_token){.id = 2, .special = true});
    struct mtr_text_span spans[] = {{3, false}, {3, true}};
    struct mtr_trust trust = {.spans = spans, .count = 2};
    cuts(&f, "<a><b>", trust, "<a>|<2:3>|");
    tear_down(&f);
}
END_TEST

START_TEST(a_text_said_twice)
{
    struct fixture f;
    set_up(&f);
    add(&f, "x", (struct mtr_added_token){.id = 1});
    add(&f, "x", (struct mtr_added_token){.id = 2});
    ck_assert_uint_eq(f.a.count, 1);
    cuts(&f, "x", all, "<2:1>|");
    tear_down(&f);
}
END_TEST

MTR_CHECK_MAIN("text/added")
{
    tcase_add_test(tc, longest_and_leftmost);
    tcase_add_test(tc, white_space_and_words);
    tcase_add_test(tc, special_tokens_act_where_trusted);
    tcase_add_test(tc, a_crossing_token_hides_nothing);
    tcase_add_test(tc, a_text_said_twice);
}
