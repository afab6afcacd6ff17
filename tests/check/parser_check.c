/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * parser-check: reasoning and tool-call parsers against recorded outputs of models.
 *
 * parser-check [--seeds N] [--verbose] FILE...
 *     A case a line: {"id", "format", "tools", "prompt_tail", "reasoning", "output", "finish",
 *     "expect": {"reasoning", "content", "tool_calls": [{"name", "arguments", "arguments_text"}],
 *     "finish_reason"}}. Each output is read whole, byte by byte, and cut at random places N times
 *     (20); all must give what is expected. "format" names tool and reasoning parser together.
 *
 * parser-check --shared [FILE...]
 *     Also every *.jsonl of MTR_SHARED's data/parsers.
 *
 * parser-check --time FILE...
 *     Nanoseconds of processor time a token of four bytes, one JSON object.
 *
 * Exit status: 0 all equal, 1 something differs, 2 a file is missing or wrong, 77 nothing to check.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "broker/parse/parser.h"
#include "common/base/file.h"
#include "common/base/hash.h"

#define MAX_FILE_BYTES (1u << 30)
#define MAX_CALLS      256
#define EXIT_SKIPPED   77

struct call {
    struct mtr_buf name, arguments;
};

struct answer {
    struct mtr_buf text[2]; /* content, reasoning */
    struct call calls[MAX_CALLS];
    uint32_t call_count;
    bool open; /* a call is */
    const char *fault;
};

struct check {
    uint32_t cases, failed, seeds;
    bool verbose;
};

/* ---- Running ----------------------------------------------------------------------------------
 */

static void take(void *context, enum mtr_piece_kind kind, struct mtr_str text)
{
    struct answer *a = context;
    struct call *c = a->call_count ? &a->calls[a->call_count - 1] : NULL;
    switch (kind) {
    case MTR_PIECE_CONTENT:
    case MTR_PIECE_REASONING:
        mtr_buf_str(&a->text[kind == MTR_PIECE_REASONING], text);
        if (text.len == 0)
            a->fault = "an empty piece of text";
        if (a->open)
            a->fault = "text inside a call";
        break;
    case MTR_PIECE_CALL:
        if (a->call_count == MAX_CALLS)
            return;
        if (a->open || text.len == 0)
            a->fault = "a call inside a call, or one without a name";
        mtr_buf_str(&a->calls[a->call_count++].name, text);
        a->open = true;
        break;
    case MTR_PIECE_ARGUMENTS:
        if (!a->open)
            a->fault = "arguments of no call";
        else
            mtr_buf_str(&c->arguments, text);
        break;
    case MTR_PIECE_CALL_END:
        if (!a->open)
            a->fault = "an end of no call";
        a->open = false;
        break;
    }
}

static void clear(struct answer *a)
{
    for (int i = 0; i < 2; i++)
        mtr_buf_free(&a->text[i]);
    for (uint32_t i = 0; i < a->call_count; i++) {
        mtr_buf_free(&a->calls[i].name);
        mtr_buf_free(&a->calls[i].arguments);
    }
    *a = (struct answer){0};
}

/* Pieces of at most `most` bytes, of random length if seed is set. */
static bool feed(const struct mtr_parser_setup *setup, struct mtr_str output, size_t most,
                 uint64_t seed)
{
    struct mtr_parser *p = mtr_parser_new(setup);
    bool ok = p != NULL;
    for (size_t at = 0; ok && at < output.len;) {
        size_t len = most;
        if (seed)
            len = 1 + (seed = mtr_mix64(seed + at)) % most;
        struct mtr_str piece = mtr_str_sub(output, at, len);
        ok = mtr_parser_text(p, piece);
        at += piece.len;
    }
    ok = ok && mtr_parser_finish(p);
    mtr_parser_free(p);
    return ok;
}

/* ---- Comparing --------------------------------------------------------------------------------
 */

static bool same_value(const struct mtr_json *a, const struct mtr_json *b);

static bool same_members(const struct mtr_json *a, const struct mtr_json *b)
{
    for (uint32_t i = 0; i < a->count; i++) {
        bool found = false;
        for (uint32_t k = 0; k < b->count && !found; k++)
            found = mtr_str_equal(a->members[i].key, b->members[k].key) &&
                    same_value(&a->members[i].value, &b->members[k].value);
        if (!found)
            return false;
    }
    return true;
}

static bool is_number(const struct mtr_json *v)
{
    return v->kind == MTR_JSON_INT || v->kind == MTR_JSON_REAL;
}

static bool same_value(const struct mtr_json *a, const struct mtr_json *b)
{
    double x, y;
    if (is_number(a) && is_number(b))
        return mtr_str_equal(a->text, b->text) ||
               (!(a->kind == MTR_JSON_INT && a->big) && mtr_json_number(a, &x) &&
                mtr_json_number(b, &y) && x == y);
    if (a->kind != b->kind || a->count != b->count)
        return false;
    switch (a->kind) {
    case MTR_JSON_BOOL:
        return a->boolean == b->boolean;
    case MTR_JSON_STRING:
        return mtr_str_equal(a->text, b->text);
    case MTR_JSON_OBJECT:
        return same_members(a, b);
    case MTR_JSON_ARRAY:
        for (uint32_t i = 0; i < a->count; i++)
            if (!same_value(&a->items[i], &b->items[i]))
                return false;
        return true;
    default:
        return true;
    }
}

static struct mtr_str text_of(const struct mtr_json *v)
{
    return v && v->kind == MTR_JSON_STRING ? v->text : (struct mtr_str){0};
}

static const char *wrong_call(const struct call *c, const struct mtr_json *expected)
{
    struct mtr_arena arena;
    struct mtr_error err = {0};
    const char *wrong = NULL;
    mtr_arena_init(&arena, 0);
    const struct mtr_json *got =
        mtr_json_parse(&arena, mtr_buf_view(&c->arguments), MTR_JSON_STRICT, &err);
    const struct mtr_json *exact = mtr_json_get(expected, "arguments_text");
    if (!mtr_str_equal(mtr_buf_view(&c->name), text_of(mtr_json_get(expected, "name"))))
        wrong = "name";
    else if (!got)
        wrong = "arguments, not JSON";
    else if (!same_value(got, mtr_json_get(expected, "arguments")))
        wrong = "arguments";
    else if (exact && !mtr_str_equal(mtr_buf_view(&c->arguments), exact->text))
        wrong = "arguments_text";
    mtr_arena_free(&arena);
    return wrong;
}

static const char *wrong_part(const struct answer *a, const struct mtr_json *c)
{
    const struct mtr_json *expect = mtr_json_get(c, "expect");
    const struct mtr_json *calls = mtr_json_get(expect, "tool_calls");
    uint32_t count = calls && calls->kind == MTR_JSON_ARRAY ? calls->count : 0;
    bool length = mtr_str_is(text_of(mtr_json_get(c, "finish")), "length");
    const char *finish = length ? "length" : a->call_count ? "tool_calls" : "stop";
    if (a->fault)
        return a->fault;
    if (a->open)
        return "a call that never ends";
    if (!mtr_str_equal(mtr_buf_view(&a->text[0]), text_of(mtr_json_get(expect, "content"))))
        return "content";
    if (!mtr_str_equal(mtr_buf_view(&a->text[1]), text_of(mtr_json_get(expect, "reasoning"))))
        return "reasoning";
    if (a->call_count != count)
        return "number of calls";
    for (uint32_t i = 0; i < count; i++) {
        const char *wrong = wrong_call(&a->calls[i], &calls->items[i]);
        if (wrong)
            return wrong;
    }
    return mtr_str_is(text_of(mtr_json_get(expect, "finish_reason")), finish) ? NULL
                                                                              : "finish_reason";
}

static void show(const struct answer *a, const struct mtr_json *c)
{
    struct mtr_buf out = {0};
    struct mtr_json_writer w = mtr_json_writer(&out);
    mtr_json_put_value(&w, mtr_json_get(c, "output"));
    printf("    output    %.2000s\n", out.data);
    mtr_buf_clear(&out);
    w = mtr_json_writer(&out);
    mtr_json_put_value(&w, mtr_json_get(c, "expect"));
    printf("    expect    %.2000s\n", out.data);
    for (int i = 0; i < 2; i++) {
        mtr_buf_clear(&out);
        mtr_json_escape(&out, mtr_buf_view(&a->text[i]));
        printf("    %s %.2000s\n", i ? "reasoning" : "content  ", out.data);
    }
    for (uint32_t i = 0; i < a->call_count; i++)
        printf("    call      %s %s\n", a->calls[i].name.data,
               a->calls[i].arguments.len ? a->calls[i].arguments.data : "");
    mtr_buf_free(&out);
}

/* ---- Cases ------------------------------------------------------------------------------------
 */

static bool setup_of(const struct mtr_json *c, struct mtr_parser_setup *s, struct answer *a)
{
    const struct mtr_json *reasoning = mtr_json_get(c, "reasoning");
    const struct mtr_parse_format *f = mtr_parse_format_find(text_of(mtr_json_get(c, "format")));
    *s = (struct mtr_parser_setup){
        .tools = f,
        .reasoning =
            reasoning && reasoning->kind == MTR_JSON_BOOL && !reasoning->boolean ? NULL : f,
        .declared = mtr_json_get(c, "tools"),
        .prompt_tail = text_of(mtr_json_get(c, "prompt_tail")),
        .piece = take,
        .context = a,
    };
    return f != NULL;
}

static void check_case(struct check *check, const struct mtr_json *c)
{
    static struct answer a;
    struct mtr_parser_setup setup;
    struct mtr_str output = text_of(mtr_json_get(c, "output"));
    struct mtr_str id = text_of(mtr_json_get(c, "id"));
    check->cases++;
    if (!setup_of(c, &setup, &a)) {
        printf("%.*s: there is no such format\n", MTR_STR_ARG(id));
        check->failed++;
        return;
    }
    for (uint32_t i = 0; i < check->seeds + 2; i++) {
        bool ok = feed(&setup, output,
                       i == 0   ? output.len + 1
                       : i == 1 ? 1
                                : 1 + i % 24,
                       i > 1 ? i : 0);
        const char *wrong = ok ? wrong_part(&a, c) : "out of memory";
        if (wrong) {
            check->failed++;
            printf("%.*s: %s differs, %s\n", MTR_STR_ARG(id), wrong,
                   i == 0   ? "read whole"
                   : i == 1 ? "read byte by byte"
                            : "cut at random");
            if (check->verbose)
                show(&a, c);
        }
        clear(&a);
        if (wrong)
            return;
    }
}

static const struct mtr_json *next_case(struct mtr_arena *arena, struct mtr_str text, size_t *at,
                                        struct mtr_error *err)
{
    size_t end = mtr_str_find(text, MTR_STR("\n"), *at);
    if (end == SIZE_MAX)
        end = text.len;
    struct mtr_str line = mtr_str_sub(text, *at, end - *at);
    *at = end + 1;
    return line.len ? mtr_json_parse(arena, line, MTR_JSON_STRICT, err) : NULL;
}

static bool check_file(struct check *check, const char *path)
{
    struct mtr_arena arena;
    struct mtr_error err = {0};
    struct mtr_str text;
    uint32_t cases = check->cases, failed = check->failed;
    mtr_arena_init(&arena, 0);
    bool ok = mtr_file_read(&arena, path, MAX_FILE_BYTES, &text, &err);
    for (size_t at = 0; ok && at < text.len;) {
        const struct mtr_json *c = next_case(&arena, text, &at, &err);
        ok = err.code == MTR_OK;
        if (c)
            check_case(check, c);
    }
    if (!ok)
        fprintf(stderr, "parser-check: %s: %s\n", path, err.message);
    else
        printf("%s: %u cases, %u differ\n", path, check->cases - cases, check->failed - failed);
    mtr_arena_free(&arena);
    return ok;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Every *.jsonl of the folder; false where there is no folder. */
static bool check_folder(struct check *check, const char *folder)
{
    char *names[256];
    size_t count = 0;
    bool ok = true;
    DIR *dir = opendir(folder);
    if (!dir)
        return false;
    for (struct dirent *e; (e = readdir(dir)) != NULL && count < 256;)
        if (mtr_str_ends(mtr_str(e->d_name), MTR_STR(".jsonl")))
            names[count++] = strdup(e->d_name);
    closedir(dir);
    qsort(names, count, sizeof names[0], by_name);
    for (size_t i = 0; i < count; i++) {
        struct mtr_buf path = {0};
        mtr_buf_printf(&path, "%s/%s", folder, names[i]);
        ok = check_file(check, path.data) && ok;
        mtr_buf_free(&path);
        free(names[i]);
    }
    return ok;
}

/* ---- Time -------------------------------------------------------------------------------------
 */

static void nothing(void *context, enum mtr_piece_kind kind, struct mtr_str text)
{
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int time_files(int count, char **files)
{
    struct mtr_arena arena;
    struct mtr_error err = {0};
    uint64_t ns = 0, tokens = 0;
    mtr_arena_init(&arena, 0);
    for (int i = 0; i < count; i++) {
        struct mtr_str text;
        if (!mtr_file_read(&arena, files[i], MAX_FILE_BYTES, &text, &err))
            return 2;
        for (size_t at = 0; at < text.len;) {
            struct mtr_parser_setup setup;
            const struct mtr_json *c = next_case(&arena, text, &at, &err);
            if (!c || !setup_of(c, &setup, NULL))
                continue;
            setup.piece = nothing;
            struct mtr_str output = text_of(mtr_json_get(c, "output"));
            uint64_t begin = cpu_ns();
            for (int k = 0; k < 20; k++)
                feed(&setup, output, 4, 0);
            ns += cpu_ns() - begin;
            tokens += 20 * ((output.len + 3) / 4);
        }
    }
    printf("{\"ns_per_token\": %.1f, \"tokens\": %llu}\n", tokens ? (double)ns / (double)tokens : 0,
           (unsigned long long)tokens);
    mtr_arena_free(&arena);
    return 0;
}

int main(int argc, char **argv)
{
    struct check check = {.seeds = 20};
    bool shared = false, ok = true;
    int i = 1;
    if (argc > 2 && strcmp(argv[1], "--time") == 0)
        return time_files(argc - 2, argv + 2);
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--shared") == 0)
            shared = true;
        else if (strcmp(argv[i], "--verbose") == 0)
            check.verbose = true;
        else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc)
            check.seeds = (uint32_t)strtoul(argv[++i], NULL, 10);
    }
    for (; i < argc; i++)
        ok = check_file(&check, argv[i]) && ok;
    const char *root = getenv("MTR_SHARED");
    if (shared && root) {
        struct mtr_buf folder = {0};
        mtr_buf_printf(&folder, "%s/data/parsers", root);
        check_folder(&check, folder.data);
        mtr_buf_free(&folder);
    }
    printf("%u cases, %u differ\n", check.cases, check.failed);
    if (!ok)
        return 2;
    return check.failed ? 1 : check.cases ? 0 : EXIT_SKIPPED;
}
