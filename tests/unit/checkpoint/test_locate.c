/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Paths and hub ids. */
#include "common/checkpoint/locate.c"

#include "tests/unit/check_main.h"
#include "tests/unit/checkpoint/build.h"

static struct mtr_arena arena;
static struct mtr_error err;
static char *folder;
static const char *path, *name;

static void setup(void)
{
    folder = make_folder();
    mtr_arena_init(&arena, 0);
    memset(&err, 0, sizeof err);
    write_text(folder, "models--org--name/snapshots/abc123/config.json", "{}");
    write_text(folder, "models--org--name/snapshots/def456/config.json", "{}");
    write_text(folder, "models--org--name/refs/main", "abc123\n");
    write_text(folder, "models--org--name/refs/pr/1", "def456");
    write_text(folder, "models--org--name/refs/evil", "../../../../etc");
    write_text(folder, "models--org--name/refs/gone", "999");
    write_text(folder, "models--gpt2/refs/main", "1");
    write_text(folder, "models--gpt2/snapshots/1/config.json", "{}");
    write_text(folder, "models--org--bare/snapshots/777/config.json", "{}");
}

static void teardown(void)
{
    remove_folder(folder);
    mtr_arena_free(&arena);
}

static bool locate(const char *model)
{
    return mtr_locate(&arena, model, folder, &path, &name, &err);
}

static const char *tail(void)
{
    return path + strlen(folder) + 1;
}

START_TEST(ids)
{
    ck_assert_msg(locate("org/name"), "%s", err.message);
    ck_assert_str_eq(tail(), "models--org--name/snapshots/abc123");
    ck_assert_str_eq(name, "org/name");
    ck_assert(locate("org/name@pr/1") && !strcmp(tail(), "models--org--name/snapshots/def456"));
    ck_assert_str_eq(name, "org/name");
    ck_assert(locate("org/name@def456") && !strcmp(tail(), "models--org--name/snapshots/def456"));
    ck_assert(locate("gpt2") && !strcmp(tail(), "models--gpt2/snapshots/1"));
}
END_TEST

START_TEST(missing)
{
    static const struct {
        const char *model, *words;
    } cases[] = {
        {"org/other", "nor in the model cache"},
        {"org/name@v9", "no revision \"v9\"; it has "},
        {"org/name@gone", "no revision \"gone\""},
        {"org/bare", "no revision \"main\"; it has 777"},
        {"org/name@evil", "does not hold the name of a snapshot"},
        {"org/name@../main", "no such file"},
        {"org/../name", "no such file"},
        {"/no/such", "no such file"},
        {"./nothing.gguf", "no such file"},
        {"a/b/c", "no such file"},
        {"org/name@", "no such file"},
        {"", "no such file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_msg(!locate(cases[i].model), "%s", cases[i].model);
        ck_assert_msg(strstr(err.message, cases[i].words), "%s: %s", cases[i].model, err.message);
    }
}
END_TEST

START_TEST(environment)
{
    static const char *const variables[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME",
                                            "XDG_CACHE_HOME", "HOME"};
    for (size_t i = 0; i < 5; i++)
        unsetenv(variables[i]);
    ck_assert(!mtr_locate(&arena, "org/name", NULL, &path, &name, &err));
    ck_assert_msg(strstr(err.message, "HF_HUB_CACHE"), "%s", err.message);
    setenv("HOME", "/h", 1);
    ck_assert_str_eq(default_cache(&arena), "/h/.cache/huggingface/hub");
    setenv("XDG_CACHE_HOME", "/x", 1);
    ck_assert_str_eq(default_cache(&arena), "/x/huggingface/hub");
    setenv("HF_HOME", "/f", 1);
    ck_assert_str_eq(default_cache(&arena), "/f/hub");
    setenv("HF_HUB_CACHE", folder, 1);
    ck_assert(mtr_locate(&arena, "org/name", NULL, &path, &name, &err));
}
END_TEST

START_TEST(paths)
{
    write_text(folder, "Model.Q4.gguf", "x");
    write_text(folder, "dir/x.json", "x");
    ck_assert(locate(in_folder(folder, "Model.Q4.gguf")) && !strcmp(name, "Model.Q4"));
    ck_assert(locate(in_folder(folder, "dir")) && !strcmp(name, "dir"));
    ck_assert(locate(in_folder(folder, "dir/")) && !strcmp(name, "dir"));
    ck_assert(locate(in_folder(folder, "dir/../dir/.")) && !strcmp(name, "dir"));
    ck_assert(locate(in_folder(folder, "models--org--name/snapshots/abc123")));
    ck_assert_str_eq(name, "org/name");
    ck_assert(locate(in_folder(folder, "models--gpt2/snapshots/1")) && !strcmp(name, "gpt2"));
}
END_TEST

MTR_CHECK_MAIN("checkpoint/locate")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, ids);
    tcase_add_test(tc, missing);
    tcase_add_test(tc, environment);
    tcase_add_test(tc, paths);
}
