/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From what a user calls a model to a path.
 *
 * A name that exists as a file or folder is that. Otherwise `org/name[@revision]` (or an old id
 * without org) is looked for in the Hugging Face cache layout
 *
 *   CACHE/models--org--name/refs/main            holds the revision's commit id
 *   CACHE/models--org--name/snapshots/COMMIT/    links into ../../blobs
 *
 * where CACHE is the first of these that is set: the given folder, $HF_HUB_CACHE,
 * $HUGGINGFACE_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub,
 * ~/.cache/huggingface/hub. The revision (default "main") is a ref or a commit id.
 */
#ifndef MTR_CHECKPOINT_LOCATE_H
#define MTR_CHECKPOINT_LOCATE_H

#include <stdbool.h>

#include "common/base/arena.h"
#include "common/base/error.h"

#define MTR_HUB_MAX_NAME_BYTES 96 /* of org and of name, each */

/* Sets *path (in the arena) to the file or folder; *name to what people call it: the hub id without
 * revision, or the last component of the path. MTR_NOT_FOUND says where was looked, and which
 * revisions the cache has if only the revision is missing. */
bool mtr_locate(struct mtr_arena *arena, const char *model, const char *cache_dir,
                const char **path, const char **name, struct mtr_error *err);

/* As a split of "org/name[@revision]": false when `model` is not of that form. For completion and
 * messages. revision is "main" when absent. */
bool mtr_hub_id_split(struct mtr_arena *arena, const char *model, const char **id,
                      const char **revision);

#endif
