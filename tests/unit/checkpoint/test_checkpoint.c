/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Whole checkpoints, opened: single, sharded, split, broken; and all of the golden folders. */
#include "common/checkpoint/checkpoint.c"

#include <dirent.h>

#include "tests/unit/check_main.h"
#include "tests/unit/checkpoint/build.h"

static struct mtr_arena arena;
static struct mtr_error err;
static char *folder;
static struct mtr_checkpoint *ck;

static void setup(void)
{
    folder = make_folder();
    mtr_arena_init(&arena, 0);
    memset(&err, 0, sizeof err);
    ck = NULL;
}

static void teardown(void)
{
    mtr_checkpoint_close(ck);
    remove_folder(folder);
    mtr_arena_free(&arena);
}

static bool open_name(const char *name)
{
    mtr_checkpoint_close(ck);
    ck = mtr_checkpoint_open(&arena, name[0] ? in_folder(folder, name) : folder, NULL, &err);
    return ck != NULL;
}

/* One tensor of four bytes that say which. */
static void write_shard(const char *name, const char *tensor, const char *bytes)
{
    struct mtr_buf b = {0}, header = {0};
    mtr_buf_printf(&header, "{\"%s\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
                   tensor);
    put_safetensors(&b, header.data, 0);
    mtr_buf_append(&b, bytes, 4);
    mtr_buf_free(&header);
    write_buf(folder, name, &b);
}

static void write_gguf(const char *name, const char *tensor, unsigned part, unsigned count)
{
    struct mtr_buf b = {0};
    put_head(&b, 3, 1, 2);
    put_key(&b, "split.no", 2), put_uint(&b, part, 2);
    put_key(&b, "split.count", 2), put_uint(&b, count, 2);
    put_tensor(&b, tensor, 2, (uint64_t[]){2, 3}, 0, 0);
    put_padding(&b, 32);
    put_zeros(&b, 24);
    write_buf(folder, name, &b);
}

START_TEST(sharded)
{
    write_text(folder, "config.json", "{}");
    write_text(folder, "model.safetensors.index.json",
               "{\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"m-2.safetensors\"}}");
    write_shard("m-1.safetensors", "a", "aaaa");
    ck_assert(!open_name(""));
    ck_assert_msg(strstr(err.message, "index.json") && strstr(err.message, "m-2.safetensors"), "%s",
                  err.message);
    write_shard("m-2.safetensors", "b", "bbbb");
    ck_assert_msg(open_name(""), "%s", err.message);
    ck_assert(ck->kind == MTR_CHECKPOINT_SAFETENSORS && ck->file_count == 2);
    ck_assert(ck->tensor_count == 2 && ck->tensor_bytes == 8);
    const struct mtr_tensor *b = mtr_checkpoint_find(ck, MTR_STR("b"));
    ck_assert(b && b->file == 1 && memcmp(mtr_checkpoint_data(ck, b), "bbbb", 4) == 0);
    ck_assert_ptr_null(mtr_checkpoint_find(ck, MTR_STR("c")));
    ck_assert_ptr_null(mtr_checkpoint_find(ck, MTR_STR("")));
    write_shard("m-2.safetensors", "c", "cccc");
    ck_assert(!open_name(""));
    ck_assert_msg(strstr(err.message, "1 of 2 tensors") && strstr(err.message, "\"b\""), "%s",
                  err.message);
    write_shard("m-2.safetensors", "a", "AAAA"); /* the index decides between two */
    write_text(folder, "model.safetensors.index.json",
               "{\"weight_map\":{\"a\":\"m-2.safetensors\",\"d\":\"m-1.safetensors\"}}");
    write_shard("m-1.safetensors", "d", "dddd");
    ck_assert_msg(open_name(""), "%s", err.message);
    ck_assert_uint_eq(ck->tensor_count, 2);
}
END_TEST

START_TEST(twice)
{
    struct mtr_buf b = {0};
    put_safetensors(&b,
                    "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                    "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
                    8);
    write_buf(folder, "model.safetensors", &b);
    ck_assert(!open_name(""));
    ck_assert_msg(strstr(err.message, "\"a\" stands there twice"), "%s", err.message);
    write_shard("m-1.safetensors", "a", "aaaa");
    write_shard("m-2.safetensors", "a", "aaaa");
    write_text(folder, "x.safetensors.index.json",
               "{\"weight_map\":{\"b\":\"m-1.safetensors\",\"c\":\"m-2.safetensors\"}}");
    ck_assert(!open_name("x.safetensors.index.json"));
    ck_assert_msg(strstr(err.message, "m-1.safetensors and in "), "%s", err.message);
}
END_TEST

START_TEST(split)
{
    write_gguf("m-00001-of-00002.gguf", "a", 0, 2);
    ck_assert(!open_name(""));
    ck_assert_msg(strstr(err.message, "m-00002-of-00002.gguf"), "%s", err.message);
    write_gguf("m-00002-of-00002.gguf", "b", 1, 2);
    ck_assert_msg(open_name(""), "%s", err.message);
    ck_assert(ck->file_count == 2 && ck->tensor_count == 2 && ck->gguf && !ck->folder);
    const struct mtr_tensor *b = mtr_checkpoint_find(ck, MTR_STR("b"));
    ck_assert(b && b->file == 1 && b->shape[0] == 3 && b->shape[1] == 2);
    write_gguf("m-00002-of-00002.gguf", "b", 0, 2);
    ck_assert(!open_name(""));
    ck_assert_msg(strstr(err.message, "part 1 of 2, its name says 2 of 2"), "%s", err.message);
    write_gguf("part.gguf", "a", 0, 2);
    ck_assert(!open_name("part.gguf"));
    ck_assert_msg(strstr(err.message, "one of 2 parts"), "%s", err.message);
}
END_TEST

START_TEST(broken)
{
    write_text(folder, "empty.gguf", "");
    ck_assert(!open_name("empty.gguf"));
    ck_assert_msg(strstr(err.message, "empty.gguf: the file is empty"), "%s", err.message);
    write_text(folder, "short.gguf", "GGUF");
    ck_assert(!open_name("short.gguf"));
    ck_assert_msg(strstr(err.message, "short.gguf: the file ends at byte 4"), "%s", err.message);
    write_text(folder, "empty.safetensors", "");
    ck_assert(!open_name("empty.safetensors"));
    ck_assert(!open_name("none.gguf"));
    mtr_checkpoint_close(NULL);
}
END_TEST

#define SPARSE_BYTES (1ll << 33) /* what an emulator can still map */

/* A large file that is almost all hole must cost neither time nor memory. */
START_TEST(sparse)
{
    struct mtr_buf b = {0};
    put_head(&b, 3, 1000000, 0);
    write_buf(folder, "big.gguf", &b);
    if (truncate(in_folder(folder, "big.gguf"), SPARSE_BYTES) != 0)
        return; /* a file system without holes */
    ck_assert(!open_name("big.gguf"));
    ck_assert_msg(strstr(err.message, "the name is empty"), "%s", err.message);
    put_head(&b, 3, 0, 1);
    put_kv_array(&b, "x", 8, 1ull << 30);
    write_buf(folder, "big.gguf", &b);
    ck_assert_int_eq(truncate(in_folder(folder, "big.gguf"), SPARSE_BYTES), 0);
    ck_assert(!open_name("big.gguf"));
    put_uint(&b, 99999999, 8);
    mtr_buf_puts(&b, "{");
    write_buf(folder, "big.safetensors", &b);
    ck_assert_int_eq(truncate(in_folder(folder, "big.safetensors"), SPARSE_BYTES), 0);
    ck_assert(!open_name("big.safetensors"));
}
END_TEST

/* Every tensor of every golden folder lies in its file, and its name leads back to it. */
static void open_golden(const char *path)
{
    mtr_checkpoint_close(ck);
    ck = mtr_checkpoint_open(&arena, path, NULL, &err);
    ck_assert_msg(ck, "%s", err.message);
    ck_assert_uint_gt(ck->tensor_count, 10);
    for (uint32_t i = 0; i < ck->tensor_count; i++) {
        const struct mtr_tensor *t = &ck->tensors[i];
        ck_assert_ptr_eq(mtr_checkpoint_find(ck, t->name), t);
        ck_assert_uint_le(t->offset + t->bytes, ck->files[t->file].map.size);
    }
}

START_TEST(golden)
{
    char paths[2048];
    const char *root = shared_path("golden");
    DIR *dir = root ? opendir(root) : NULL;
    if (!dir)
        return;
    struct dirent *entry;
    unsigned opened = 0;
    while ((entry = readdir(dir))) {
        snprintf(paths, sizeof paths, "%s/%s/model.safetensors", root, entry->d_name);
        if (access(paths, R_OK) != 0)
            continue;
        snprintf(paths, sizeof paths, "%s/%s", root, entry->d_name);
        open_golden(paths);
        opened++;
    }
    closedir(dir);
    ck_assert_uint_gt(opened, 10);
}
END_TEST

MTR_CHECK_MAIN("checkpoint/checkpoint")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, sharded);
    tcase_add_test(tc, twice);
    tcase_add_test(tc, split);
    tcase_add_test(tc, broken);
    tcase_add_test(tc, sparse);
    tcase_add_test(tc, golden);
}
