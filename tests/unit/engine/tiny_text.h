/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The tiny model's tokenizer, for tests that need one. */
#ifndef MTR_UNIT_ENGINE_TINY_TEXT_H
#define MTR_UNIT_ENGINE_TINY_TEXT_H

#include <stdio.h>

#include "broker/text/tokenizer.h"
#include "common/base/file.h"
#include "tests/unit/check_main.h"

static inline struct mtr_tokenizer *tiny_tokenizer(struct mtr_arena *arena)
{
    char path[1024];
    struct mtr_error err = {0};
    struct mtr_str json;
    const char *root = getenv("MTR_SOURCE_ROOT");
    snprintf(path, sizeof path, "%s/tests/data/tiny/tokenizer.json", root ? root : ".");
    ck_assert_msg(mtr_file_read(arena, path, 1u << 20, &json, &err), "%s", err.message);
    struct mtr_tokenizer *t = mtr_tokenizer_from_json(json, (struct mtr_str){0}, &err);
    ck_assert_msg(t != NULL, "%s", err.message);
    return t;
}

#endif
