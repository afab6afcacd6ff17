/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which files make a checkpoint. */
#include "common/checkpoint/layout.c"

#include "tests/unit/check_main.h"
#include "tests/unit/checkpoint/build.h"

static struct mtr_arena arena;
static struct mtr_error err;
static char *folder;
static struct mtr_layout l;

static void setup(void)
{
    folder = make_folder();
    mtr_arena_init(&arena, 0);
    memset(&err, 0, sizeof err);
}

static void teardown(void)
{
    remove_folder(folder);
    mtr_arena_free(&arena);
}

static bool find(const char *name)
{
    return mtr_layout_find(&arena, name[0] ? in_folder(folder, name) : folder, &l, &err);
}

static const char *path(uint32_t i)
{
    return l.paths[i] + strlen(folder) + 1;
}

START_TEST(preference)
{
    ck_assert(!find(""));
    ck_assert_msg(strstr(err.message, "no model here"), "%s", err.message);
    write_text(folder, "pytorch_model.bin", "x");
    ck_assert(!find("") && strstr(err.message, "are not read"));
    write_text(folder, "config.json", "{}");
    ck_assert(find("") && l.kind == MTR_CHECKPOINT_CONFIG && l.path_count == 0);
    write_text(folder, "mmproj-f16.gguf", "x");
    write_text(folder, "b.gguf", "x");
    ck_assert(find("") && l.kind == MTR_CHECKPOINT_GGUF && !strcmp(path(0), "b.gguf"));
    ck_assert(!l.folder && !l.config_path);
    write_text(folder, "c.gguf", "x");
    ck_assert(!find("") && strstr(err.message, "2 GGUF files"));
    write_text(folder, "other.safetensors", "x");
    ck_assert(find("") && l.kind == MTR_CHECKPOINT_SAFETENSORS);
    ck_assert_str_eq(path(0), "other.safetensors");
    write_text(folder, "second.safetensors", "x");
    ck_assert(!find("") && strstr(err.message, "2 .safetensors files"));
    write_text(folder, "model.safetensors.index.json",
               "{\"weight_map\":{\"a\":\"other.safetensors\"}}");
    ck_assert(find("") && l.index_path && l.path_count == 1 && l.shard_count == 1);
    write_text(folder, "model.safetensors", "x");
    ck_assert(find("") && !l.index_path && !strcmp(path(0), "model.safetensors"));
    ck_assert_str_eq(l.config_path, in_folder(folder, "config.json"));
}
END_TEST

START_TEST(files)
{
    write_text(folder, "a.safetensors", "x");
    write_text(folder, "c.json", "{}");
    write_text(folder, "blob", "GGUF....");
    write_text(folder, "notes.txt", "hello");
    write_text(folder, "x.safetensors.index.json", "{\"weight_map\":{\"a\":\"a.safetensors\"}}");
    ck_assert(find("a.safetensors") && l.kind == MTR_CHECKPOINT_SAFETENSORS);
    ck_assert_str_eq(l.folder, folder);
    ck_assert(find("c.json") && l.kind == MTR_CHECKPOINT_CONFIG);
    ck_assert_str_eq(l.config_path, in_folder(folder, "c.json"));
    ck_assert(find("blob") && l.kind == MTR_CHECKPOINT_GGUF);
    ck_assert(find("x.safetensors.index.json") && l.shard_count == 1);
    ck_assert(!find("notes.txt") && strstr(err.message, "not a model"));
    ck_assert(!find("absent"));
    ck_assert(!mtr_layout_find(&arena, "/dev/null", &l, &err));
    ck_assert_msg(strstr(err.message, "neither a file nor a folder"), "%s", err.message);
}
END_TEST

START_TEST(split)
{
    static const char *const names[] = {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
                                        "m-00003-of-00003.gguf"};
    for (int i = 0; i < 3; i++)
        write_text(folder, names[i], "GGUF");
    ck_assert_msg(find(""), "%s", err.message);
    ck_assert_uint_eq(l.path_count, 3);
    ck_assert(find(names[1]) && l.path_count == 3); /* any part stands for all */
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_str_eq(path(i), names[i]);
    write_text(folder, "m-00001-of-99999.gguf", "GGUF");
    ck_assert(!find("m-00001-of-99999.gguf") && strstr(err.message, "99999 parts"));
    write_text(folder, "m-00000-of-00002.gguf", "GGUF"); /* no part of anything: a plain name */
    ck_assert(find("m-00000-of-00002.gguf") && l.path_count == 1);
}
END_TEST

START_TEST(interrupted)
{
    ck_assert_int_eq(symlink("../../blobs/abc", in_folder(folder, "model.safetensors")), 0);
    ck_assert(!find(""));
    ck_assert_msg(strstr(err.message, "download unfinished"), "%s", err.message);
}
END_TEST

MTR_CHECK_MAIN("checkpoint/layout")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, preference);
    tcase_add_test(tc, files);
    tcase_add_test(tc, split);
    tcase_add_test(tc, interrupted);
}
