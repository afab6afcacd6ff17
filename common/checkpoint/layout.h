/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which files make a checkpoint: what stands in the folder, and what model.safetensors.index.json
 * says. Private to the room.
 */
#ifndef MTR_CHECKPOINT_LAYOUT_H
#define MTR_CHECKPOINT_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/checkpoint/checkpoint.h"

#define MTR_LAYOUT_MAX_ENTRIES 65536 /* directory entries looked at */

struct mtr_shard {
    struct mtr_str tensor;
    uint32_t path; /* index into paths */
};

struct mtr_layout {
    enum mtr_checkpoint_kind kind;
    const char *folder;       /* of the texts; NULL for GGUF */
    const char *config_path;  /* NULL for GGUF; there may be no such file */
    const char *const *paths; /* [path_count] files with tensors, in order */
    uint32_t path_count;
    const char *index_path;         /* of the index, or NULL */
    const struct mtr_shard *shards; /* [shard_count] the index, sorted by tensor */
    uint32_t shard_count;
};

/* path: an existing file or folder. */
bool mtr_layout_find(struct mtr_arena *arena, const char *path, struct mtr_layout *out,
                     struct mtr_error *err);

/* The index's entry of a tensor, or NULL. */
const struct mtr_shard *mtr_layout_shard(const struct mtr_layout *l, struct mtr_str tensor);

/* shards.c: fills paths and shards from the text of an index. */
bool mtr_shards_parse(struct mtr_arena *arena, struct mtr_str text, struct mtr_layout *l,
                      struct mtr_error *err);

#endif
