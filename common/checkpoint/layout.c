/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From a path to a list of files. The order of preference in a folder is that of the transformers
 * library: model.safetensors, then the index, then whatever single file is there; so that a folder
 * with a consolidated copy beside the shards loads the same tensors here as there.
 */
#include "common/checkpoint/layout.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/base/json.h"
#include "common/checkpoint/listing.h"

#define INDEX_NAME "model.safetensors.index.json"

static bool no_memory(struct mtr_error *err)
{
    return mtr_fail(err, MTR_NO_MEMORY, "no memory for a path");
}

static bool one_path(struct mtr_arena *arena, const char *path, struct mtr_layout *out,
                     struct mtr_error *err)
{
    const char **paths = mtr_arena_calloc(arena, 1, sizeof *paths);
    if (!paths || !path)
        return no_memory(err);
    paths[0] = path;
    out->paths = paths;
    out->path_count = 1;
    return true;
}

/* "-00002-of-00004.gguf" at the end of a name: part and count. */
static bool split_name(const char *path, unsigned *part, unsigned *count, size_t *stem)
{
    const size_t tail = sizeof("-00001-of-00002.gguf") - 1;
    size_t len = strlen(path);
    int used = 0;
    if (len <= tail)
        return false;
    *stem = len - tail;
    return sscanf(path + *stem, "-%5u-of-%5u.gguf%n", part, count, &used) == 2 &&
           (size_t)used == tail && *part >= 1 && *part <= *count && *count > 1;
}

static bool gguf_layout(struct mtr_arena *arena, const char *path, struct mtr_layout *out,
                        struct mtr_error *err)
{
    unsigned part, count;
    size_t stem;
    out->kind = MTR_CHECKPOINT_GGUF;
    if (!split_name(path, &part, &count, &stem))
        return one_path(arena, path, out, err);
    if (count > MTR_CHECKPOINT_MAX_FILES)
        return mtr_fail(err, MTR_TOO_LARGE, "%s: a file of %u parts, at most %d are allowed", path,
                        count, MTR_CHECKPOINT_MAX_FILES);
    const char **paths = mtr_arena_calloc(arena, count, sizeof *paths);
    for (unsigned i = 0; paths && i < count; i++)
        paths[i] = mtr_arena_printf(arena, "%.*s-%05u-of-%05u.gguf", (int)stem, path, i + 1, count);
    out->paths = paths;
    out->path_count = count;
    return !mtr_arena_failed(arena) || no_memory(err);
}

static bool sharded_layout(struct mtr_arena *arena, const char *index, struct mtr_layout *out,
                           struct mtr_error *err)
{
    struct mtr_str text;
    out->kind = MTR_CHECKPOINT_SAFETENSORS;
    out->index_path = index;
    if (!mtr_file_read(arena, index, MTR_CHECKPOINT_MAX_TEXT_BYTES, &text, err))
        return false;
    return mtr_shards_parse(arena, text, out, err) || mtr_error_prefix(err, "%s", index);
}

/* What a look through a folder found. */
struct found {
    char *safetensors, *gguf; /* one name of each */
    unsigned safetensors_count, gguf_count, pickle_count;
};

static void look_at(const char *entry, struct found *f)
{
    struct mtr_str name = mtr_str(entry);
    unsigned part, count;
    size_t stem;
    if (mtr_str_ends(name, MTR_STR(".safetensors")) && f->safetensors_count++ == 0)
        f->safetensors = strdup(entry);
    if (mtr_str_ends(name, MTR_STR(".bin")) || mtr_str_ends(name, MTR_STR(".pth")))
        f->pickle_count++;
    if (!mtr_str_ends(name, MTR_STR(".gguf")) || mtr_str_starts(name, MTR_STR("mmproj")))
        return;
    bool later_part = split_name(entry, &part, &count, &stem) && part != 1;
    if (!later_part && f->gguf_count++ == 0)
        f->gguf = strdup(entry);
}

static bool look_through(const char *folder, struct found *f, struct mtr_error *err)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return mtr_fail_errno(err, "%s: can't be listed", folder);
    struct dirent *entry;
    for (unsigned i = 0; i < MTR_LAYOUT_MAX_ENTRIES && (entry = readdir(dir)); i++)
        look_at(entry->d_name, f);
    closedir(dir);
    return true;
}

static bool folder_choice(struct mtr_arena *arena, const char *folder, const struct found *f,
                          struct mtr_layout *out, struct mtr_error *err)
{
    if (f->safetensors_count == 1) {
        out->kind = MTR_CHECKPOINT_SAFETENSORS;
        return one_path(arena, mtr_arena_printf(arena, "%s/%s", folder, f->safetensors), out, err);
    }
    if (f->safetensors_count > 1)
        return mtr_fail(
            err, MTR_INVALID,
            "%s: has %u .safetensors files (%s, ...) but neither model.safetensors nor " INDEX_NAME
            " that says which tensor is where (download unfinished?)",
            folder, f->safetensors_count, f->safetensors);
    if (f->gguf_count == 1) {
        const char *path = mtr_arena_printf(arena, "%s/%s", folder, f->gguf);
        out->folder = out->config_path = NULL;
        return path ? gguf_layout(arena, path, out, err) : no_memory(err);
    }
    if (f->gguf_count > 1)
        return mtr_fail(err, MTR_INVALID, "%s: has %u GGUF files (%s, ...): name the one to open",
                        folder, f->gguf_count, f->gguf);
    if (mtr_file_exists(out->config_path)) {
        out->kind = MTR_CHECKPOINT_CONFIG;
        return true;
    }
    return mtr_fail(err, MTR_NOT_FOUND,
                    "%s: no model here: neither *.safetensors nor *.gguf nor config.json%s", folder,
                    f->pickle_count ? " (PyTorch's *.bin and *.pth files are not read)" : "");
}

/* A link whose target is gone: what an interrupted download leaves in a hub cache. */
static bool dangling(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && stat(path, &st) != 0;
}

static bool folder_layout(struct mtr_arena *arena, const char *folder, struct mtr_layout *out,
                          struct mtr_error *err)
{
    const char *single = mtr_arena_printf(arena, "%s/model.safetensors", folder);
    const char *index = mtr_arena_printf(arena, "%s/" INDEX_NAME, folder);
    out->folder = folder;
    out->config_path = mtr_arena_printf(arena, "%s/config.json", folder);
    if (!single || !index || !out->config_path)
        return no_memory(err);
    if (mtr_file_exists(single)) {
        out->kind = MTR_CHECKPOINT_SAFETENSORS;
        return one_path(arena, single, out, err);
    }
    if (dangling(single) || dangling(index))
        return mtr_fail(err, MTR_NOT_FOUND,
                        "%s: is a link to a file that is not there (download unfinished?)",
                        dangling(single) ? single : index);
    if (mtr_file_exists(index))
        return sharded_layout(arena, index, out, err);
    struct found f = {0};
    bool ok = look_through(folder, &f, err) && folder_choice(arena, folder, &f, out, err);
    free(f.safetensors);
    free(f.gguf);
    return ok;
}

static const char *folder_of(struct mtr_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return ".";
    return slash == path ? "/"
                         : mtr_arena_strdup(arena, (struct mtr_str){path, (size_t)(slash - path)});
}

/* Does the file begin with "GGUF"? Blob stores keep such files under names without a suffix. */
static bool has_gguf_magic(const char *path)
{
    char magic[4] = {0};
    FILE *f = fopen(path, "rbe");
    if (!f)
        return false;
    bool is = fread(magic, 1, sizeof magic, f) == sizeof magic && memcmp(magic, "GGUF", 4) == 0;
    fclose(f);
    return is;
}

static bool file_layout(struct mtr_arena *arena, const char *path, struct mtr_layout *out,
                        struct mtr_error *err)
{
    struct mtr_str name = mtr_str(path);
    if (mtr_str_ends(name, MTR_STR(".gguf")) || has_gguf_magic(path))
        return gguf_layout(arena, path, out, err);
    out->folder = folder_of(arena, path);
    if (!out->folder)
        return no_memory(err);
    if (mtr_str_ends(name, MTR_STR(".json")) && !mtr_str_ends(name, MTR_STR(".index.json"))) {
        out->kind = MTR_CHECKPOINT_CONFIG;
        out->config_path = path;
        return true;
    }
    out->config_path = mtr_arena_printf(arena, "%s/config.json", out->folder);
    if (!out->config_path)
        return no_memory(err);
    if (mtr_str_ends(name, MTR_STR(".safetensors.index.json")))
        return sharded_layout(arena, path, out, err);
    if (mtr_str_ends(name, MTR_STR(".safetensors"))) {
        out->kind = MTR_CHECKPOINT_SAFETENSORS;
        return one_path(arena, path, out, err);
    }
    return mtr_fail(err, MTR_INVALID,
                    "%s: not a model: expected a GGUF file, *.safetensors or config.json", path);
}

bool mtr_layout_find(struct mtr_arena *arena, const char *path, struct mtr_layout *out,
                     struct mtr_error *err)
{
    struct stat st;
    *out = (struct mtr_layout){0};
    if (stat(path, &st) != 0)
        return mtr_fail_errno(err, "%s", path);
    if (S_ISDIR(st.st_mode))
        return folder_layout(arena, path, out, err);
    if (S_ISREG(st.st_mode))
        return file_layout(arena, path, out, err);
    return mtr_fail(err, MTR_INVALID, "%s: neither a file nor a folder", path);
}
