/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Finding the folder of a model. What a ref file says is not trusted to be a plain name: a revision
 * becomes part of a path only after every byte of it was looked at.
 */
#include "common/checkpoint/locate.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/str.h"

#define MAX_REF_BYTES 256
#define MAX_REVISION  128 /* bytes of a revision that a user may write */
#define MAX_SHOWN     4   /* snapshots named in a message */
#define MAX_DIRECTORY 4096

static bool no_memory(struct mtr_error *err)
{
    return mtr_fail(err, MTR_NO_MEMORY, "no memory for a path");
}

/* Letters, digits, '.', '_', '-'; neither empty nor beginning with '.', and no "..". */
static bool plain_name(struct mtr_str s)
{
    if (s.len == 0 || s.ptr[0] == '.' || mtr_str_find(s, MTR_STR(".."), 0) != SIZE_MAX)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!alnum && c != '.' && c != '_' && c != '-')
            return false;
    }
    return true;
}

/* Plain names joined by '/': "refs/pr/1". */
static bool plain_path(struct mtr_str s)
{
    size_t from = 0;
    if (s.len > MAX_REVISION)
        return false;
    for (size_t i = 0; i <= s.len; i++) {
        if (i < s.len && s.ptr[i] != '/')
            continue;
        if (!plain_name(mtr_str_sub(s, from, i - from)))
            return false;
        from = i + 1;
    }
    return true;
}

bool mtr_hub_id_split(struct mtr_arena *arena, const char *model, const char **id,
                      const char **revision)
{
    struct mtr_str all = mtr_str(model), org = {0}, name = all, rev = MTR_STR("main");
    const char *at = strchr(model, '@');
    if (at) {
        name = mtr_str_sub(all, 0, (size_t)(at - model));
        rev = mtr_str(at + 1);
    }
    const char *slash = memchr(name.ptr, '/', name.len);
    struct mtr_str whole = name;
    if (slash) {
        org = mtr_str_sub(name, 0, (size_t)(slash - model));
        name = mtr_str_sub(name, org.len + 1, name.len);
    }
    if ((slash && !plain_name(org)) || !plain_name(name) || !plain_path(rev) ||
        org.len > MTR_HUB_MAX_NAME_BYTES || name.len > MTR_HUB_MAX_NAME_BYTES)
        return false;
    *id = mtr_arena_strdup(arena, whole);
    *revision = mtr_arena_strdup(arena, rev);
    return *id && *revision;
}

/* The cache folder by environment, or NULL when there is not even a home. */
static const char *default_cache(struct mtr_arena *arena)
{
    static const struct {
        const char *variable, *below;
    } places[] = {
        {"HF_HUB_CACHE", ""},
        {"HUGGINGFACE_HUB_CACHE", ""},
        {"HF_HOME", "/hub"},
        {"XDG_CACHE_HOME", "/huggingface/hub"},
        {"HOME", "/.cache/huggingface/hub"},
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const char *value = getenv(places[i].variable);
        if (value && value[0])
            return mtr_arena_printf(arena, "%s%s", value, places[i].below);
    }
    return NULL;
}

/* "models--org--name" for "org/name". */
static const char *repo_folder(struct mtr_arena *arena, const char *cache, const char *id)
{
    const char *slash = strchr(id, '/');
    if (!slash)
        return mtr_arena_printf(arena, "%s/models--%s", cache, id);
    return mtr_arena_printf(arena, "%s/models--%.*s--%s", cache, (int)(slash - id), id, slash + 1);
}

/* Sets *commit to what refs/REVISION holds, or leaves it alone when there is no such ref. */
static bool read_ref(struct mtr_arena *arena, const char *repo, const char *revision,
                     const char **commit, struct mtr_error *err)
{
    const char *path = mtr_arena_printf(arena, "%s/refs/%s", repo, revision);
    struct mtr_str text;
    if (!path)
        return no_memory(err);
    if (!mtr_file_exists(path))
        return true;
    if (!mtr_file_read(arena, path, MAX_REF_BYTES, &text, err))
        return false;
    while (text.len > 0 && strchr(" \r\n\t", text.ptr[text.len - 1]))
        text.len--;
    if (!plain_name(text))
        return mtr_fail(err, MTR_INVALID, "%s does not hold the name of a snapshot", path);
    *commit = mtr_arena_strdup(arena, text);
    return *commit || no_memory(err);
}

/* " (it has abc, def)": what a user could have asked for. */
static void list_snapshots(const char *repo, struct mtr_arena *arena, struct mtr_buf *out)
{
    const char *path = mtr_arena_printf(arena, "%s/snapshots", repo);
    DIR *dir = path ? opendir(path) : NULL;
    unsigned shown = 0;
    for (unsigned i = 0; dir && i < MAX_DIRECTORY; i++) {
        struct dirent *entry = readdir(dir);
        if (!entry)
            break;
        if (!plain_name(mtr_str(entry->d_name)))
            continue;
        if (shown < MAX_SHOWN)
            mtr_buf_printf(out, "%s%s", shown ? ", " : "; it has ", entry->d_name);
        shown++;
    }
    if (shown > MAX_SHOWN)
        mtr_buf_printf(out, " and %u more", shown - MAX_SHOWN);
    if (dir)
        closedir(dir);
}

static bool no_revision(struct mtr_arena *arena, const char *repo, const char *id,
                        const char *revision, struct mtr_error *err)
{
    struct mtr_buf have = {0};
    list_snapshots(repo, arena, &have);
    mtr_fail(err, MTR_NOT_FOUND, "%s: the cache %s has no revision \"%s\"%s", id, repo, revision,
             have.data ? have.data : "; it has none");
    mtr_buf_free(&have);
    return false;
}

static bool locate_in_cache(struct mtr_arena *arena, const char *cache, const char *id,
                            const char *revision, const char **path, struct mtr_error *err)
{
    const char *repo = repo_folder(arena, cache, id), *commit = NULL;
    if (!repo)
        return no_memory(err);
    if (!mtr_dir_exists(repo))
        return mtr_fail(err, MTR_NOT_FOUND,
                        "%s is neither a file or folder nor in the model cache %s", id, cache);
    if (!read_ref(arena, repo, revision, &commit, err))
        return mtr_error_prefix(err, "%s", id);
    if (!commit && !strchr(revision, '/'))
        commit = revision;
    if (commit) {
        *path = mtr_arena_printf(arena, "%s/snapshots/%s", repo, commit);
        if (!*path)
            return no_memory(err);
        if (mtr_dir_exists(*path))
            return true;
    }
    return no_revision(arena, repo, id, revision, err);
}

/* The hub id that a path into a cache belongs to ("/c/models--org--name/snapshots/abc"), or NULL.
 */
static const char *id_of_snapshot(struct mtr_arena *arena, struct mtr_str path)
{
    size_t tail = mtr_str_find(path, MTR_STR("/snapshots/"), 0);
    size_t head = mtr_str_find(path, MTR_STR("/models--"), 0);
    if (tail == SIZE_MAX || head == SIZE_MAX || head + 9 >= tail)
        return NULL;
    struct mtr_str repo = mtr_str_sub(path, head + 9, tail - head - 9);
    if (memchr(repo.ptr, '/', repo.len))
        return NULL;
    size_t dashes = mtr_str_find(repo, MTR_STR("--"), 0);
    if (dashes == SIZE_MAX)
        return mtr_arena_strdup(arena, repo);
    return mtr_arena_printf(arena, "%.*s/%.*s", (int)dashes, repo.ptr, (int)(repo.len - dashes - 2),
                            repo.ptr + dashes + 2);
}

/* "model" for "/a/model/", "/a/model.gguf" and "." when that is it. */
static const char *name_of_path(struct mtr_arena *arena, const char *path, bool folder)
{
    static const char *const suffixes[] = {".gguf", ".safetensors", ".json"};
    char *real = realpath(path, NULL);
    struct mtr_str name = mtr_str(folder && real ? real : path);
    const char *id = id_of_snapshot(arena, mtr_str(path));
    if (!id && folder)
        id = id_of_snapshot(arena, name);
    if (!id) {
        const char *slash = memrchr(name.ptr, '/', name.len);
        if (slash && slash[1])
            name = mtr_str(slash + 1);
        for (size_t i = 0; !folder && i < sizeof suffixes / sizeof suffixes[0]; i++)
            if (mtr_str_ends(name, mtr_str(suffixes[i])) && name.len > strlen(suffixes[i]))
                name.len -= strlen(suffixes[i]);
        id = mtr_arena_strdup(arena, name);
    }
    free(real);
    return id;
}

bool mtr_locate(struct mtr_arena *arena, const char *model, const char *cache_dir,
                const char **path, const char **name, struct mtr_error *err)
{
    const char *id, *revision;
    bool folder = mtr_dir_exists(model);
    if (folder || access(model, F_OK) == 0) {
        *path = mtr_arena_strdup(arena, mtr_str(model));
        *name = name_of_path(arena, model, folder);
        return (*path && *name) || no_memory(err);
    }
    if (!mtr_hub_id_split(arena, model, &id, &revision))
        return mtr_fail(err, MTR_NOT_FOUND, "%s: no such file or folder", model);
    const char *cache = cache_dir ? cache_dir : default_cache(arena);
    if (!cache)
        return mtr_fail(err, MTR_NOT_FOUND,
                        "%s is no file or folder, and no cache folder is known (set HF_HUB_CACHE)",
                        id);
    *name = id;
    return locate_in_cache(arena, cache, id, revision, path, err);
}
