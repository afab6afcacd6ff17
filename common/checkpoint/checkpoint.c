/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Opening a checkpoint: find its files, map each, read its header, join the lists, sort the names.
 *
 * What a file may hold is checked where it is read (gguf.c, safetensors.c); what only the whole can
 * show is checked here: a name that stands in two places, parts that do not belong together, an
 * index that promises what no shard has.
 */
#include "common/checkpoint/checkpoint.h"

#include <inttypes.h>

#include "common/checkpoint/gguf.h"
#include "common/checkpoint/layout.h"
#include "common/checkpoint/listing.h"
#include "common/checkpoint/locate.h"
#include "common/checkpoint/safetensors.h"

/* The tensors of one file before they are joined. */
struct part {
    struct mtr_tensor *tensors;
    uint32_t count;
};

struct opening {
    struct mtr_arena *arena;
    struct mtr_checkpoint *ck;
    struct mtr_checkpoint_file *files; /* those of ck, writable */
    struct mtr_layout layout;
    struct part *parts; /* [layout.path_count] */
};

void mtr_checkpoint_close(struct mtr_checkpoint *ck)
{
    if (!ck)
        return;
    for (uint32_t i = 0; i < ck->file_count; i++) {
        struct mtr_file map = ck->files[i].map;
        mtr_file_unmap(&map);
    }
    ck->file_count = 0;
    ck->files = NULL;
}

/* Parts of a split file number themselves. */
static bool check_split(const struct mtr_gguf *g, uint32_t index, uint32_t count,
                        struct mtr_error *err)
{
    int64_t no = index, parts = count;
    if (!mtr_gguf_opt_i64(g, "split.no", 0, MTR_CHECKPOINT_MAX_FILES, &no, err) ||
        !mtr_gguf_opt_i64(g, "split.count", 0, MTR_CHECKPOINT_MAX_FILES, &parts, err))
        return false;
    if (parts == 0)
        parts = 1;
    if (parts != count && count == 1)
        return mtr_fail(err, MTR_INVALID,
                        "is one of %" PRId64 " parts; their names must end in -00001-of-%05" PRId64
                        ".gguf and so on",
                        parts, parts);
    if (parts != count || no != index)
        return mtr_fail(err, MTR_INVALID,
                        "says that it is part %" PRId64 " of %" PRId64 ", its name says %" PRIu32
                        " of %" PRIu32,
                        no + 1, parts, index + 1, count);
    return true;
}

static bool read_gguf(struct opening *o, uint32_t i, struct mtr_str bytes, struct mtr_error *err)
{
    struct mtr_gguf *g = mtr_arena_calloc(o->arena, 1, sizeof *g);
    if (!g)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory");
    if (!mtr_gguf_parse(o->arena, bytes, g, err) || !check_split(g, i, o->layout.path_count, err))
        return false;
    if (i == 0)
        o->ck->gguf = g;
    o->parts[i] = (struct part){g->tensors, g->tensor_count};
    return true;
}

/* Keeps those that the index does not place elsewhere. */
static uint32_t keep_own(const struct mtr_layout *l, uint32_t file, struct mtr_tensor *t,
                         uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct mtr_shard *shard = mtr_layout_shard(l, t[i].name);
        if (!shard || shard->path == file)
            t[kept++] = t[i];
    }
    return kept;
}

static bool read_safetensors(struct opening *o, uint32_t i, struct mtr_str bytes,
                             struct mtr_error *err)
{
    struct mtr_safetensors s;
    if (!mtr_safetensors_parse(o->arena, bytes, &s, err))
        return false;
    o->parts[i] = (struct part){s.tensors, keep_own(&o->layout, i, s.tensors, s.tensor_count)};
    return true;
}

static bool read_file(struct opening *o, uint32_t i, struct mtr_error *err)
{
    struct mtr_checkpoint_file *f = &o->files[i];
    f->path = o->layout.paths[i];
    if (!mtr_file_map(&f->map, f->path, err))
        return o->layout.index_path ? mtr_error_prefix(err, "%s", o->layout.index_path) : false;
    o->ck->file_count = i + 1; /* from here on close() unmaps it */
    struct mtr_str bytes = {(const char *)f->map.data, f->map.size};
    bool ok = bytes.len == 0 ? mtr_fail(err, MTR_INVALID, "the file is empty")
              : o->layout.kind == MTR_CHECKPOINT_GGUF ? read_gguf(o, i, bytes, err)
                                                      : read_safetensors(o, i, bytes, err);
    return ok || mtr_error_prefix(err, "%s", f->path);
}

static bool join_parts(struct opening *o, struct mtr_error *err)
{
    struct mtr_checkpoint *ck = o->ck;
    uint64_t total = 0;
    for (uint32_t i = 0; i < ck->file_count; i++)
        total += o->parts[i].count;
    if (total > MTR_CHECKPOINT_MAX_TENSORS)
        return mtr_fail(err, MTR_TOO_LARGE, "%s: %" PRIu64 " tensors, at most %d are allowed",
                        ck->path, total, MTR_CHECKPOINT_MAX_TENSORS);
    struct mtr_tensor *all = mtr_arena_calloc(o->arena, total + 1, sizeof *all);
    if (!all)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for %" PRIu64 " tensors", total);
    for (uint32_t i = 0; i < ck->file_count; i++)
        for (uint32_t k = 0; k < o->parts[i].count; k++) {
            struct mtr_tensor *t = &all[ck->tensor_count++];
            *t = o->parts[i].tensors[k];
            t->file = i;
            ck->tensor_bytes += t->bytes; /* fits: the bytes of a file's tensors do not overlap */
        }
    ck->tensors = all;
    return true;
}

static bool index_names(struct opening *o, struct mtr_error *err)
{
    struct mtr_checkpoint *ck = o->ck;
    char quoted[MTR_QUOTED_BYTES];
    ck->by_name = mtr_listing_sort(o->arena, ck->tensors, ck->tensor_count);
    if (!ck->by_name)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for %" PRIu32 " names", ck->tensor_count);
    for (uint32_t i = 1; i < ck->tensor_count; i++) {
        const struct mtr_tensor *a = &ck->tensors[ck->by_name[i - 1]];
        const struct mtr_tensor *b = &ck->tensors[ck->by_name[i]];
        if (!mtr_str_equal(a->name, b->name))
            continue;
        if (a->file == b->file)
            return mtr_fail(err, MTR_INVALID, "%s: tensor %s stands there twice",
                            ck->files[a->file].path, mtr_quoted(a->name, quoted));
        return mtr_fail(err, MTR_INVALID, "tensor %s stands in %s and in %s",
                        mtr_quoted(a->name, quoted), ck->files[a->file].path,
                        ck->files[b->file].path);
    }
    return true;
}

/* Every tensor of the index must be where it says. */
static bool check_index(const struct opening *o, struct mtr_error *err)
{
    const struct mtr_layout *l = &o->layout;
    const struct mtr_shard *first = NULL;
    char quoted[MTR_QUOTED_BYTES];
    uint32_t missing = 0;
    for (uint32_t i = 0; i < l->shard_count; i++)
        if (!mtr_checkpoint_find(o->ck, l->shards[i].tensor) && missing++ == 0)
            first = &l->shards[i];
    if (missing == 0)
        return true;
    return mtr_fail(err, MTR_INVALID,
                    "%s: %" PRIu32 " of %" PRIu32
                    " tensors are not where it says; the first is %s, "
                    "which %s does not have",
                    l->index_path, missing, l->shard_count, mtr_quoted(first->tensor, quoted),
                    l->paths[first->path]);
}

static bool open_files(struct opening *o, struct mtr_error *err)
{
    uint32_t count = o->layout.path_count;
    o->files = mtr_arena_calloc(o->arena, count + 1u, sizeof *o->files);
    o->parts = mtr_arena_calloc(o->arena, count + 1u, sizeof *o->parts);
    if (!o->files || !o->parts)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for %" PRIu32 " files", count);
    o->ck->files = o->files;
    for (uint32_t i = 0; i < count; i++)
        if (!read_file(o, i, err))
            return false;
    return join_parts(o, err) && index_names(o, err) && check_index(o, err);
}

struct mtr_checkpoint *mtr_checkpoint_open(struct mtr_arena *arena, const char *model,
                                           const struct mtr_checkpoint_options *options,
                                           struct mtr_error *err)
{
    struct opening o = {.arena = arena};
    struct mtr_checkpoint *ck = o.ck = mtr_arena_calloc(arena, 1, sizeof *ck);
    if (!ck) {
        mtr_fail(err, MTR_NO_MEMORY, "no memory for a checkpoint");
        return NULL;
    }
    const char *cache_dir = options ? options->cache_dir : NULL;
    if (!mtr_locate(arena, model, cache_dir, &ck->path, &ck->name, err) ||
        !mtr_layout_find(arena, ck->path, &o.layout, err))
        return NULL;
    ck->kind = o.layout.kind;
    ck->folder = o.layout.folder;
    ck->config_path = o.layout.config_path;
    if (!open_files(&o, err)) {
        mtr_checkpoint_close(ck);
        return NULL;
    }
    return ck;
}

const struct mtr_tensor *mtr_checkpoint_find(const struct mtr_checkpoint *ck, struct mtr_str name)
{
    uint32_t low = 0, high = ck->tensor_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct mtr_tensor *t = &ck->tensors[ck->by_name[middle]];
        int c = mtr_str_order(t->name, name);
        if (c == 0)
            return t;
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const void *mtr_checkpoint_data(const struct mtr_checkpoint *ck, const struct mtr_tensor *t)
{
    return ck->files[t->file].map.data + t->offset;
}
