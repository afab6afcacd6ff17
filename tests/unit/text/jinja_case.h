/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Rendering a template in a test, with everything freed again. */
#ifndef MTR_TEXT_JINJA_CASE_H
#define MTR_TEXT_JINJA_CASE_H

#include <string.h>

#include "broker/text/jinja/jinja.h"
#include "tests/unit/check_main.h"

struct jinja_case {
    struct mtr_arena arena;
    const struct mtr_jinja *template; /* NULL: it does not compile, see err */
    struct mtr_jinja_options options;
    struct mtr_jinja_result result;
    struct mtr_error err;
    bool ok;
    char text[4096];  /* result.text, cut and terminated */
    char spans[4096]; /* "T" and "u" for every byte of the template and of the user */
};

static inline void case_open(struct jinja_case *c, const char *source)
{
    *c = (struct jinja_case){.options.now = {2026, 3, 5, 14, 7, 9, 42}};
    mtr_arena_init(&c->arena, 0);
    c->template = mtr_jinja_compile(&c->arena, mtr_str(source), &c->err);
}

static inline void case_render(struct jinja_case *c, const char *variables)
{
    ck_assert_msg(c->template != NULL, "%s", c->err.message);
    const struct mtr_json *v = mtr_json_parse(&c->arena, mtr_str(variables), MTR_JSON_STRICT, NULL);
    ck_assert_ptr_nonnull(v);
    c->ok = mtr_jinja_render(c->template, v, &c->options, &c->arena, &c->result, &c->err);
    size_t n = c->result.text.len < sizeof c->text ? c->result.text.len : sizeof c->text - 1;
    if (n)
        memcpy(c->text, c->result.text.ptr, n);
    c->text[n] = '\0';
    for (size_t i = 0; i < c->result.span_count; i++) {
        const struct mtr_jinja_span *s = &c->result.spans[i];
        for (size_t k = s->offset; k < s->offset + s->len && k < n; k++)
            c->spans[k] = s->from_template ? 'T' : 'u';
    }
}

static inline void case_close(struct jinja_case *c)
{
    mtr_arena_free(&c->arena);
}

static inline void expect_text(const char *source, const char *variables, const char *text)
{
    struct jinja_case c;
    case_open(&c, source);
    case_render(&c, variables);
    ck_assert_msg(c.ok, "%s: %s", source, c.err.message);
    ck_assert_str_eq(c.text, text);
    case_close(&c);
}

static inline void expect_compile_error(const char *source, const char *start)
{
    struct jinja_case c;
    case_open(&c, source);
    ck_assert_msg(!c.template, "%s compiles", source);
    ck_assert_msg(strncmp(c.err.message, start, strlen(start)) == 0, "%s: %s", source,
                  c.err.message);
    case_close(&c);
}

static inline void expect_error(const char *source, const char *variables, enum mtr_code code,
                                const char *start)
{
    struct jinja_case c;
    case_open(&c, source);
    case_render(&c, variables);
    ck_assert_msg(!c.ok, "%s renders", source);
    ck_assert_int_eq(c.err.code, code);
    ck_assert_msg(strncmp(c.err.message, start, strlen(start)) == 0, "%s: %s", source,
                  c.err.message);
    case_close(&c);
}

#endif
