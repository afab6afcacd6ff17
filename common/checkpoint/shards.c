/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * model.safetensors.index.json: {"metadata": {...}, "weight_map": {tensor: file}}.
 *
 * File names come from outside and become paths, so only plain names of .safetensors files in the
 * same folder are taken. Sorting the names gives the set of files, sorting the tensors gives the
 * look-up; neither depends on what the file says for its cost.
 */
#include "common/checkpoint/layout.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/json.h"
#include "common/checkpoint/listing.h"

#define SCRATCH_BYTES ((size_t)512 << 20)

static bool shard_name_ok(struct mtr_str s)
{
    return s.len <= 255 && mtr_str_ends(s, MTR_STR(".safetensors")) && s.ptr[0] != '.' &&
           !memchr(s.ptr, '/', s.len) && !memchr(s.ptr, '\\', s.len) && !memchr(s.ptr, 0, s.len);
}

static int order_of_names(const void *a, const void *b)
{
    return mtr_str_order(*(const struct mtr_str *)a, *(const struct mtr_str *)b);
}

static int order_of_tensors(const void *a, const void *b)
{
    return mtr_str_order(((const struct mtr_shard *)a)->tensor,
                         ((const struct mtr_shard *)b)->tensor);
}

/* Checks the members and collects their file names, each once, sorted, into files. */
static bool collect_files(const struct mtr_json *map, struct mtr_str *files, uint32_t *count,
                          struct mtr_error *err)
{
    char a[MTR_QUOTED_BYTES], b[MTR_QUOTED_BYTES];
    for (uint32_t i = 0; i < map->count; i++) {
        const struct mtr_json_member *m = &map->members[i];
        if (!mtr_name_check(m->key, 1024, err))
            return mtr_error_prefix(err, "weight_map: %s", mtr_quoted(m->key, a));
        if (m->value.kind != MTR_JSON_STRING)
            return mtr_fail(err, MTR_INVALID, "weight_map: %s is %s, expected a file name",
                            mtr_quoted(m->key, a), mtr_json_kind_name(&m->value));
        if (!shard_name_ok(m->value.text))
            return mtr_fail(err, MTR_INVALID,
                            "weight_map: %s is in %s, which is no .safetensors file of this folder",
                            mtr_quoted(m->key, a), mtr_quoted(m->value.text, b));
        files[i] = m->value.text;
    }
    qsort(files, map->count, sizeof *files, order_of_names);
    *count = 0;
    for (uint32_t i = 0; i < map->count; i++)
        if (*count == 0 || !mtr_str_equal(files[*count - 1], files[i]))
            files[(*count)++] = files[i];
    if (*count > MTR_CHECKPOINT_MAX_FILES)
        return mtr_fail(err, MTR_TOO_LARGE, "%" PRIu32 " files, at most %d are allowed", *count,
                        MTR_CHECKPOINT_MAX_FILES);
    return true;
}

static bool fill_paths(struct mtr_arena *arena, const struct mtr_str *files, uint32_t count,
                       struct mtr_layout *l)
{
    const char **paths = mtr_arena_calloc(arena, count, sizeof *paths);
    for (uint32_t i = 0; paths && i < count; i++)
        paths[i] = mtr_arena_printf(arena, "%s/%.*s", l->folder, MTR_STR_ARG(files[i]));
    l->paths = paths;
    l->path_count = count;
    return !mtr_arena_failed(arena);
}

static bool fill_shards(struct mtr_arena *arena, const struct mtr_json *map,
                        const struct mtr_str *files, struct mtr_layout *l, struct mtr_error *err)
{
    char quoted[MTR_QUOTED_BYTES];
    struct mtr_shard *shards = mtr_arena_calloc(arena, map->count, sizeof *shards);
    if (!shards)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for the index");
    for (uint32_t i = 0; i < map->count; i++) {
        const struct mtr_json_member *m = &map->members[i];
        const struct mtr_str *file =
            bsearch(&m->value.text, files, l->path_count, sizeof *files, order_of_names);
        shards[i] = (struct mtr_shard){mtr_arena_str(arena, m->key), (uint32_t)(file - files)};
        if (!shards[i].tensor.ptr)
            return mtr_fail(err, MTR_NO_MEMORY, "no memory for the index");
    }
    qsort(shards, map->count, sizeof *shards, order_of_tensors);
    for (uint32_t i = 1; i < map->count; i++)
        if (mtr_str_equal(shards[i].tensor, shards[i - 1].tensor))
            return mtr_fail(err, MTR_INVALID, "weight_map: %s stands there twice",
                            mtr_quoted(shards[i].tensor, quoted));
    l->shards = shards;
    l->shard_count = map->count;
    return true;
}

static bool parse(struct mtr_arena *arena, struct mtr_arena *scratch, struct mtr_str text,
                  struct mtr_layout *l, struct mtr_error *err)
{
    uint32_t count = 0;
    const struct mtr_json *root = mtr_json_parse(scratch, text, MTR_JSON_STRICT, err);
    if (!root)
        return false;
    const struct mtr_json *map = mtr_json_get(root, "weight_map");
    if (!map || map->kind != MTR_JSON_OBJECT || map->count == 0)
        return mtr_fail(err, MTR_INVALID, "weight_map is %s, expected an object with tensors",
                        !map              ? "missing"
                        : map->count == 0 ? "empty"
                                          : mtr_json_kind_name(map));
    if (map->count > MTR_CHECKPOINT_MAX_TENSORS)
        return mtr_fail(err, MTR_TOO_LARGE, "%" PRIu32 " tensors, at most %d are allowed",
                        map->count, MTR_CHECKPOINT_MAX_TENSORS);
    struct mtr_str *files = mtr_arena_calloc(scratch, map->count, sizeof *files);
    if (!files)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for the index");
    if (!collect_files(map, files, &count, err))
        return false;
    if (!fill_paths(arena, files, count, l))
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for the paths of %" PRIu32 " files", count);
    return fill_shards(arena, map, files, l, err);
}

bool mtr_shards_parse(struct mtr_arena *arena, struct mtr_str text, struct mtr_layout *l,
                      struct mtr_error *err)
{
    struct mtr_arena scratch;
    mtr_arena_init(&scratch, SCRATCH_BYTES);
    bool ok = parse(arena, &scratch, text, l, err);
    mtr_arena_free(&scratch);
    return ok;
}

const struct mtr_shard *mtr_layout_shard(const struct mtr_layout *l, struct mtr_str tensor)
{
    struct mtr_shard key = {tensor, 0};
    return l->shard_count ? bsearch(&key, l->shards, l->shard_count, sizeof key, order_of_tensors)
                          : NULL;
}
