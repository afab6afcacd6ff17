/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Renders recorded cases of chat templates and compares.
 *
 *   template-check [--show N] [--only TEXT] [--time] [--shared] DIR...
 *
 * DIR holds *.jinja and cases.jsonl. Each line of that is an object: id, template (a file of DIR)
 * or source (the template itself), now (ISO time without zone), inputs (the variables, which hold
 * the special tokens of SPECIALS.json already) and either expected (the text) or error {raised,
 * message}. Texts must be equal to the byte, and so must messages where `raised` is true; other
 * failures must fail.
 *
 * --shared adds data/templates of the folder MTR_SHARED, where there is one.
 *
 * Prints counts per DIR and the first differences; exit status 1 if there were any, 2 if a DIR
 * can't be read or no case was found (of which the id holds TEXT, with --only).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/text/template.h"
#include "common/base/clock.h"
#include "common/base/file.h"

#define MAX_TEMPLATES      4096
#define MAX_TEMPLATE_BYTES (16u << 20)
#define EXIT_SKIPPED       77

struct options {
    unsigned show; /* differences to print */
    const char *only;
    bool time;
};

struct loaded {
    char *name;
    const struct mtr_template *t; /* NULL: does not compile */
    struct mtr_error err;
};

struct check {
    const struct options *o;
    const char *dir;
    struct mtr_arena arena; /* templates */
    struct loaded templates[MAX_TEMPLATES];
    size_t template_count;
    unsigned passed, failed;
    uint64_t compile_ns, compile_max_ns, render_ns, render_max_ns;
};

static const struct loaded *load(struct check *c, struct mtr_str name, struct mtr_error *err)
{
    for (size_t i = 0; i < c->template_count; i++) {
        if (mtr_str_is(name, c->templates[i].name))
            return &c->templates[i];
    }
    struct mtr_str source;
    struct mtr_clock clock = mtr_clock_monotonic();
    if (c->template_count == MAX_TEMPLATES) {
        mtr_fail(err, MTR_TOO_LARGE, "more than %d templates", MAX_TEMPLATES);
        return NULL;
    }
    struct loaded *l = &c->templates[c->template_count];
    char *path = mtr_arena_printf(&c->arena, "%s/%.*s", c->dir, MTR_STR_ARG(name));
    *l = (struct loaded){.name = mtr_arena_strdup(&c->arena, name)};
    if (!path || !l->name || !mtr_file_read(&c->arena, path, MAX_TEMPLATE_BYTES, &source, err))
        return NULL;
    uint64_t start = mtr_now_ns(&clock);
    l->t = mtr_template_compile(&c->arena, source, &l->err);
    uint64_t took = mtr_now_ns(&clock) - start;
    c->compile_ns += took;
    if (took > c->compile_max_ns)
        c->compile_max_ns = took;
    c->template_count++;
    return l;
}

static struct mtr_jinja_time parse_time(const struct mtr_json *v)
{
    struct mtr_jinja_time t = {0};
    char text[64] = "";
    if (v && v->kind == MTR_JSON_STRING)
        snprintf(text, sizeof text, "%.*s", MTR_STR_ARG(v->text));
    sscanf(text, "%d-%d-%dT%d:%d:%d.%6d", &t.year, &t.month, &t.day, &t.hour, &t.minute, &t.second,
           &t.microsecond);
    return t;
}

static void show(struct check *c, struct mtr_str id, const char *what, struct mtr_str got,
                 struct mtr_str want)
{
    size_t same = 0;
    if (c->failed > c->o->show)
        return;
    while (same < got.len && same < want.len && got.ptr[same] == want.ptr[same])
        same++;
    size_t from = same > 40 ? same - 40 : 0;
    struct mtr_str g = mtr_str_sub(got, from, 160), w = mtr_str_sub(want, from, 160);
    printf("%s/%.*s: %s, first at byte %zu\n  got  ...%.*s\n  want ...%.*s\n", c->dir,
           MTR_STR_ARG(id), what, same, MTR_STR_ARG(g), MTR_STR_ARG(w));
}

/* Spans must cover the text without gaps and alternate. */
static bool spans_ok(const struct mtr_template_output *out)
{
    size_t at = 0;
    for (size_t i = 0; i < out->span_count; i++) {
        const struct mtr_jinja_span *s = &out->spans[i];
        if (s->offset != at || s->len == 0)
            return false;
        if (i && s->from_template == out->spans[i - 1].from_template)
            return false;
        at += s->len;
    }
    return at == out->text.len;
}

static bool judge(struct check *c, struct mtr_str id, const struct mtr_json *line, bool ok,
                  const struct mtr_template_output *out, const struct mtr_error *err)
{
    const struct mtr_json *expected = mtr_json_get(line, "expected");
    const struct mtr_json *raised = mtr_json_path(line, "error.raised");
    const struct mtr_json *message = mtr_json_path(line, "error.message");
    if (expected) {
        if (!ok) {
            show(c, id, "failed", mtr_str(err->message), expected->text);
            return false;
        }
        if (!spans_ok(out)) {
            show(c, id, "spans are wrong", out->text, expected->text);
            return false;
        }
        if (mtr_str_equal(out->text, expected->text))
            return true;
        show(c, id, "text differs", out->text, expected->text);
        return false;
    }
    struct mtr_str want = message ? message->text : MTR_STR("");
    if (ok) {
        show(c, id, "should have failed", out->text, want);
        return false;
    }
    if (!raised || !raised->boolean || (out->raised && mtr_str_equal(out->message, want)))
        return true;
    show(c, id, "message differs", out->raised ? out->message : mtr_str(err->message), want);
    return false;
}

/* A template that is written in the case; it lives as long as the case's arena. */
static const struct loaded *compile_source(struct mtr_arena *arena, struct mtr_str source,
                                           struct loaded *l)
{
    l->t = mtr_template_compile(arena, source, &l->err);
    return l;
}

static bool run_case(struct check *c, struct mtr_arena *arena, const struct mtr_json *line,
                     struct mtr_error *err)
{
    const struct mtr_json *id = mtr_json_get(line, "id"), *name = mtr_json_get(line, "template");
    const struct mtr_json *source = mtr_json_get(line, "source");
    const struct mtr_json *inputs = mtr_json_get(line, "inputs");
    const struct mtr_json *which = source ? source : name;
    struct loaded local = {0};
    if (!id || id->kind != MTR_JSON_STRING || !which || which->kind != MTR_JSON_STRING || !inputs ||
        inputs->kind != MTR_JSON_OBJECT)
        return mtr_fail(err, MTR_INVALID, "a case without id, template or inputs");
    if (c->o->only && mtr_str_find(id->text, mtr_str(c->o->only), 0) == SIZE_MAX)
        return true;
    const struct loaded *l =
        source ? compile_source(arena, source->text, &local) : load(c, name->text, err);
    if (!l)
        return false;
    struct mtr_template_output out = {0};
    struct mtr_error failure = l->err;
    struct mtr_jinja_time now = parse_time(mtr_json_get(line, "now"));
    struct mtr_clock clock = mtr_clock_monotonic();
    uint64_t start = mtr_now_ns(&clock);
    bool ok = l->t && mtr_template_render(l->t, inputs, &now, NULL, &out, &failure);
    uint64_t took = mtr_now_ns(&clock) - start;
    c->render_ns += took;
    if (took > c->render_max_ns)
        c->render_max_ns = took;
    c->failed++; /* so that show() counts this one */
    if (judge(c, id->text, line, ok, &out, &failure)) {
        c->failed--;
        c->passed++;
    }
    mtr_template_output_free(&out);
    return true;
}

static bool run_lines(struct check *c, struct mtr_str text, struct mtr_error *err)
{
    unsigned number = 0;
    while (text.len) {
        size_t end = mtr_str_find(text, MTR_STR("\n"), 0);
        struct mtr_str line = mtr_str_sub(text, 0, end);
        struct mtr_arena arena;
        number++;
        mtr_arena_init(&arena, 0);
        const struct mtr_json *v =
            line.len ? mtr_json_parse(&arena, line, MTR_JSON_NONFINITE, err) : NULL;
        bool ok = !line.len || (v && run_case(c, &arena, v, err));
        mtr_arena_free(&arena);
        if (!ok)
            return mtr_error_prefix(err, "cases.jsonl line %u", number);
        text = mtr_str_sub(text, line.len + 1, text.len);
    }
    return true;
}

static void report(const struct check *c)
{
    unsigned all = c->passed + c->failed;
    printf("%s: %u passed, %u failed\n", c->dir, c->passed, c->failed);
    if (c->o->time && c->template_count && all)
        printf("%s: compile %.0f us on average, %.0f at most; render %.0f us on average, %.0f at "
               "most\n",
               c->dir, (double)c->compile_ns / 1e3 / (double)c->template_count,
               (double)c->compile_max_ns / 1e3, (double)c->render_ns / 1e3 / all,
               (double)c->render_max_ns / 1e3);
}

/* Adds the quantity of cases that ran to *cases. */
static int run_dir(const struct options *o, const char *dir, unsigned *cases)
{
    struct mtr_error err;
    struct mtr_file file = {.fd = -1};
    struct check *c = calloc(1, sizeof *c);
    if (!c)
        return 2;
    c->o = o;
    c->dir = dir;
    mtr_arena_init(&c->arena, 0);
    char *path = mtr_arena_printf(&c->arena, "%s/cases.jsonl", dir);
    bool ok = path && mtr_file_map(&file, path, &err) &&
              run_lines(c, (struct mtr_str){(const char *)file.data, file.size}, &err);
    if (ok && !o->only && c->passed + c->failed == 0)
        ok = mtr_fail(&err, MTR_NOT_FOUND, "cases.jsonl holds no case");
    if (ok)
        report(c);
    else
        fprintf(stderr, "template-check: %s: %s\n", dir, err.message);
    int status = !ok ? 2 : c->failed ? 1 : 0;
    *cases += c->passed + c->failed;
    mtr_file_unmap(&file);
    mtr_arena_free(&c->arena);
    free(c);
    return status;
}

/* The recorded cases that are not ours to commit; fine where they are missing. */
static int run_shared(const struct options *o, unsigned *cases)
{
    const char *shared = getenv("MTR_SHARED"), *source = getenv("MTR_SOURCE_ROOT");
    char dir[4096];
    if (shared)
        snprintf(dir, sizeof dir, "%s/data/templates", shared);
    else
        snprintf(dir, sizeof dir, "%s/../shared/data/templates", source ? source : ".");
    if (mtr_dir_exists(dir))
        return run_dir(o, dir, cases);
    printf("skipped: no templates in %s\n", dir);
    return EXIT_SKIPPED;
}

/* The worse of two; something that ran is worse than nothing. */
static int worse(int a, int b)
{
    if (a == EXIT_SKIPPED || b == EXIT_SKIPPED)
        return a == EXIT_SKIPPED ? b : a;
    return a > b ? a : b;
}

static int usage(void)
{
    fputs("usage: template-check [--show N] [--only TEXT] [--time] [--shared] DIR...\n", stderr);
    return 2;
}

int main(int argc, char **argv)
{
    struct options o = {.show = 10};
    int status = EXIT_SKIPPED, i = 1;
    unsigned cases = 0;
    bool shared = false;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--time") == 0)
            o.time = true;
        else if (strcmp(argv[i], "--shared") == 0)
            shared = true;
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            o.only = argv[++i];
        else if (strcmp(argv[i], "--show") == 0 && i + 1 < argc)
            o.show = (unsigned)strtoul(argv[++i], NULL, 10);
        else
            return usage();
    }
    if (i == argc && !shared)
        return usage();
    for (; i < argc; i++)
        status = worse(status, run_dir(&o, argv[i], &cases));
    if (shared)
        status = worse(status, run_shared(&o, &cases));
    if (status == EXIT_SKIPPED || status == 2 || cases)
        return status;
    fprintf(stderr, "template-check: no case has an id with '%s'\n", o.only);
    return 2;
}
