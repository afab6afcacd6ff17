/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * tokenizer-check: tokenizers against what was recorded of them.
 *
 * tokenizer-check DIR...
 *     tokenizer.json, cases.jsonl and streaming.jsonl in each.
 *
 * tokenizer-check --gguf FILE REAL.json
 *     Texts and ids of a real model.
 *
 * tokenizer-check --time DIR|FILE.gguf TEXT...
 *     MiB a second of processor time, one JSON object.
 *
 * tokenizer-check --shared
 *     Every folder of MTR_SHARED's data/tokenizers.
 *
 * Exit status: 0 all equal, 1 something differs, 2 a file is missing or wrong, 77 nothing to check.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/checkpoint/gguf.h"
#include "tests/check/tokenizer_cases.h"

#define MAX_FILE_BYTES (1u << 30)
#define EXIT_SKIPPED   77

static int complain(const char *what, const struct mtr_error *err)
{
    fprintf(stderr, "tokenizer-check: %s: %s\n", what, err->message);
    return 2;
}

/* The text of DIR/NAME; {NULL, 0} where there is none. */
static struct mtr_str read_in(struct mtr_arena *arena, const char *dir, const char *name)
{
    struct mtr_str text = {NULL, 0};
    char *path = mtr_arena_printf(arena, "%s/%s", dir, name);
    if (path != NULL && mtr_file_exists(path))
        mtr_file_read(arena, path, MAX_FILE_BYTES, &text, NULL);
    return text;
}

static struct mtr_tokenizer *load_dir(struct mtr_arena *arena, const char *dir,
                                      struct mtr_error *err)
{
    struct mtr_str json = read_in(arena, dir, "tokenizer.json");
    if (json.ptr == NULL) {
        mtr_fail(err, MTR_NOT_FOUND, "no tokenizer.json");
        return NULL;
    }
    return mtr_tokenizer_from_json(json, read_in(arena, dir, "tokenizer_config.json"), err);
}

static struct mtr_tokenizer *load_gguf(const char *path, struct mtr_error *err)
{
    struct mtr_arena arena;
    struct mtr_file file;
    struct mtr_gguf gguf;
    struct mtr_tokenizer *t = NULL;
    if (!mtr_file_map(&file, path, err))
        return NULL;
    mtr_arena_init(&arena, 0);
    if (mtr_gguf_parse(&arena, (struct mtr_str){(const char *)file.data, file.size}, &gguf, err))
        t = mtr_tokenizer_from_gguf(&gguf, err);
    mtr_arena_free(&arena);
    mtr_file_unmap(&file);
    return t;
}

/* Processor time, so that a busy machine tells the same as an idle one. */
static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * MTR_NS_PER_S + (uint64_t)t.tv_nsec;
}

static struct mtr_tokenizer *load(struct mtr_arena *arena, const char *path, struct mtr_error *err)
{
    uint64_t start = cpu_ns();
    struct mtr_tokenizer *t =
        mtr_dir_exists(path) ? load_dir(arena, path, err) : load_gguf(path, err);
    uint64_t end = cpu_ns();
    if (t != NULL)
        fprintf(stderr, "%s: %s, loaded in %.1f ms of processor time\n", path,
                mtr_tokenizer_describe(t), (double)(end - start) / MTR_NS_PER_MS);
    return t;
}

/* Cuts the next line off the front of *text. */
static bool next_line(struct mtr_str *text, struct mtr_str *line)
{
    if (text->len == 0)
        return false;
    size_t end = mtr_str_find(*text, MTR_STR("\n"), 0);
    *line = mtr_str_sub(*text, 0, end);
    *text = mtr_str_sub(*text, line->len + 1, SIZE_MAX);
    return true;
}

static int check_dir(const char *dir)
{
    struct mtr_error err = {0};
    struct mtr_arena arena;
    struct mtr_check_counts cases = {0}, streams = {0};
    struct mtr_str line;
    mtr_arena_init(&arena, 0);
    struct mtr_tokenizer *t = load(&arena, dir, &err);
    struct mtr_encoder *e = t != NULL ? mtr_encoder_new(t) : NULL;
    if (e == NULL)
        return complain(dir, &err);
    struct mtr_str text = read_in(&arena, dir, "cases.jsonl");
    while (next_line(&text, &line))
        mtr_check_case(t, e, line, &cases);
    text = read_in(&arena, dir, "streaming.jsonl");
    while (next_line(&text, &line))
        mtr_check_stream(t, line, &streams);
    printf("%s: %zu cases, %zu checks, %zu differ; %zu streams, %zu differ\n", dir, cases.cases,
           cases.checks, cases.failed, streams.cases, streams.failed);
    mtr_encoder_free(e);
    mtr_tokenizer_free(t);
    mtr_arena_free(&arena);
    if (cases.cases + streams.cases == 0)
        return 2;
    return cases.failed + streams.failed > 0;
}

/* The texts of REAL.json: special tokens in them act, and none is added but what add_bos says. */
static int check_real(const char *model, const char *real)
{
    struct mtr_error err = {0};
    struct mtr_arena arena;
    struct mtr_check_counts counts = {0};
    struct mtr_str text = {NULL, 0};
    mtr_arena_init(&arena, 0);
    struct mtr_tokenizer *t = load(&arena, model, &err);
    struct mtr_encoder *e = t != NULL ? mtr_encoder_new(t) : NULL;
    if (e == NULL)
        return complain(model, &err);
    const struct mtr_json *root = NULL;
    if (mtr_file_read(&arena, real, MAX_FILE_BYTES, &text, &err))
        root = mtr_json_parse(&arena, text, MTR_JSON_STRICT, &err);
    if (root == NULL)
        return complain(real, &err);
    const struct mtr_json *cases = mtr_json_get(root, "cases");
    for (uint32_t i = 0; cases != NULL && i < cases->count; i++) {
        struct mtr_ids got = {0};
        struct mtr_str input = mtr_json_get(&cases->items[i], "text")->text;
        const struct mtr_json *want = mtr_json_get(&cases->items[i], "ids");
        counts.cases++;
        bool ok =
            mtr_encode(e, input, MTR_ENCODE_PARSE_SPECIAL | MTR_ENCODE_ADD_SPECIAL, &got, NULL);
        mtr_check_report(&counts, ok && mtr_check_ids(&got, want), "ids", input, &got, want);
        mtr_ids_free(&got);
    }
    printf("%s: %zu texts, %zu differ\n", real, counts.cases, counts.failed);
    mtr_encoder_free(e);
    mtr_tokenizer_free(t);
    mtr_arena_free(&arena);
    return counts.cases == 0 ? 2 : counts.failed > 0;
}

/* The best of some runs, each with a new encoder: an empty cache. */
static double seconds_of(const struct mtr_tokenizer *t, struct mtr_str text, size_t *tokens)
{
    double best = 0;
    for (int run = 0; run < 5; run++) {
        struct mtr_encoder *e = mtr_encoder_new(t);
        struct mtr_ids ids = {0};
        uint64_t start = cpu_ns();
        if (e == NULL || !mtr_encode(e, text, MTR_ENCODE_PARSE_SPECIAL, &ids, NULL))
            exit(2);
        double s = (double)(cpu_ns() - start) / MTR_NS_PER_S;
        best = run == 0 || s < best ? s : best;
        *tokens = ids.count;
        mtr_ids_free(&ids);
        mtr_encoder_free(e);
    }
    return best;
}

static int time_files(const char *model, char **paths, int count)
{
    struct mtr_error err = {0};
    struct mtr_arena arena;
    struct mtr_buf out = {0};
    mtr_arena_init(&arena, 0);
    struct mtr_tokenizer *t = load(&arena, model, &err);
    if (t == NULL)
        return complain(model, &err);
    struct mtr_json_writer w = mtr_json_writer(&out);
    mtr_json_begin_object(&w);
    for (int i = 0; i < count; i++) {
        struct mtr_str text;
        size_t tokens = 0;
        if (!mtr_file_read(&arena, paths[i], MAX_FILE_BYTES, &text, &err))
            return complain(paths[i], &err);
        double s = seconds_of(t, text, &tokens);
        mtr_json_key(&w, paths[i]);
        mtr_json_begin_object(&w);
        mtr_json_key(&w, "bytes");
        mtr_json_put_u64(&w, text.len);
        mtr_json_key(&w, "tokens");
        mtr_json_put_u64(&w, tokens);
        mtr_json_key(&w, "seconds");
        mtr_json_put_f64(&w, s);
        mtr_json_key(&w, "mib_per_s");
        mtr_json_put_f64(&w, (double)text.len / s / (1 << 20));
        mtr_json_end_object(&w);
    }
    mtr_json_end_object(&w);
    printf("%s\n", out.data);
    mtr_buf_free(&out);
    mtr_tokenizer_free(t);
    mtr_arena_free(&arena);
    return 0;
}

static int print_ids(const char *model, const char *path)
{
    struct mtr_error err = {0};
    struct mtr_arena arena;
    struct mtr_str text;
    struct mtr_ids ids = {0};
    mtr_arena_init(&arena, 0);
    struct mtr_tokenizer *t = load(&arena, model, &err);
    struct mtr_encoder *e = t != NULL ? mtr_encoder_new(t) : NULL;
    if (e == NULL)
        return complain(model, &err);
    if (!mtr_file_read(&arena, path, MAX_FILE_BYTES, &text, &err) ||
        !mtr_encode(e, text, MTR_ENCODE_PARSE_SPECIAL, &ids, &err))
        return complain(path, &err);
    for (size_t i = 0; i < ids.count; i++)
        printf("%s%u", i > 0 ? "," : "[", ids.ids[i]);
    printf("%s]\n", ids.count > 0 ? "" : "[");
    mtr_ids_free(&ids);
    mtr_encoder_free(e);
    mtr_tokenizer_free(t);
    mtr_arena_free(&arena);
    return 0;
}

/* Every folder under data/tokenizers of the data that is not ours to commit. */
static int check_shared(void)
{
    const char *shared = getenv("MTR_SHARED"), *source = getenv("MTR_SOURCE_ROOT");
    char root[4096];
    int worst = EXIT_SKIPPED;
    if (shared != NULL)
        snprintf(root, sizeof root, "%s/data/tokenizers", shared);
    else
        snprintf(root, sizeof root, "%s/../shared/data/tokenizers", source ? source : ".");
    DIR *dir = opendir(root);
    for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;) {
        char path[8192];
        snprintf(path, sizeof path, "%s/%s", root, d->d_name);
        if (d->d_name[0] == '.' || !mtr_dir_exists(path))
            continue;
        int status = check_dir(path);
        worst = worst == EXIT_SKIPPED || status > worst ? status : worst;
    }
    if (dir != NULL)
        closedir(dir);
    if (worst == EXIT_SKIPPED)
        printf("skipped: no tokenizers under %s\n", root);
    return worst;
}

int main(int argc, char **argv)
{
    int worst = 0;
    if (argc == 2 && strcmp(argv[1], "--shared") == 0)
        return check_shared();
    if (argc == 4 && strcmp(argv[1], "--gguf") == 0)
        return check_real(argv[2], argv[3]);
    if (argc == 4 && strcmp(argv[1], "--ids") == 0)
        return print_ids(argv[2], argv[3]);
    if (argc >= 4 && strcmp(argv[1], "--time") == 0)
        return time_files(argv[2], argv + 3, argc - 3);
    if (argc < 2 || argv[1][0] == '-') {
        fprintf(stderr, "usage: tokenizer-check DIR... | --shared | --gguf FILE REAL.json |"
                        " --time DIR|FILE.gguf TEXT... | --ids DIR|FILE.gguf TEXT\n");
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        int status = check_dir(argv[i]);
        worst = status > worst ? status : worst;
    }
    return worst;
}
