/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The runs kept on disk: one JSON object a line, appended under a lock.
 *
 * A line is whole or it is not there: when a write fails half-way, the file is cut back. What a
 * crash or an editor left behind is stepped over when the file is read, and counted.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "ctl/bench.h"

const char *mtr_bench_history_path(struct mtr_arena *arena, struct mtr_error *err)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    const char *path = NULL;
    if (state && state[0] == '/') /* a relative one is to be ignored, says the specification */
        path = mtr_arena_printf(arena, "%s/metrale/bench.jsonl", state);
    else if (home && home[0] == '/')
        path = mtr_arena_printf(arena, "%s/.local/state/metrale/bench.jsonl", home);
    if (!path)
        mtr_fail(err, MTR_NOT_FOUND, "no place for the history: set HOME or XDG_STATE_HOME");
    return path;
}

static bool make_folders(const char *path, struct mtr_error *err)
{
    struct mtr_buf folder = {0};
    bool ok = true;
    for (const char *c = path + 1; ok && *c; c++) {
        if (*c != '/')
            continue;
        mtr_buf_clear(&folder);
        ok = mtr_buf_append(&folder, path, (size_t)(c - path)) &&
             (mkdir(folder.data, 0700) == 0 || errno == EEXIST || mtr_dir_exists(folder.data));
    }
    if (!ok)
        mtr_fail_errno(err, "can't make the folder of %s", path);
    mtr_buf_free(&folder);
    return ok;
}

/* A newline first where the file's last line has none. */
static bool append(int fd, struct mtr_str line)
{
    struct mtr_buf bytes = {0};
    char last = '\n';
    off_t end = lseek(fd, 0, SEEK_END);
    if (end > 0 && pread(fd, &last, 1, end - 1) != 1)
        return false;
    if (last != '\n')
        mtr_buf_byte(&bytes, '\n');
    mtr_buf_str(&bytes, line);
    mtr_buf_byte(&bytes, '\n');
    bool ok =
        end >= 0 && !bytes.failed && pwrite(fd, bytes.data, bytes.len, end) == (ssize_t)bytes.len;
    if (!ok && end >= 0 && ftruncate(fd, end) != 0)
        ok = false; /* the reader steps over what is left */
    mtr_buf_free(&bytes);
    return ok;
}

bool mtr_bench_history_add(const char *path, struct mtr_str line, struct mtr_error *err)
{
    if (!make_folders(path, err))
        return false;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && flock(fd, LOCK_EX) == 0 && append(fd, line);
    if (!ok)
        mtr_fail_errno(err, "can't write the history %s", path);
    if (fd >= 0)
        close(fd);
    return ok;
}

/* ---- Reading ----------------------------------------------------------------------------------
 */

static bool is_run(const struct mtr_json *v)
{
    const struct mtr_json *id = mtr_json_get(v, "id"), *bench = mtr_json_get(v, "benchmark");
    const struct mtr_json *results = mtr_json_get(v, "results");
    return id && id->kind == MTR_JSON_STRING && bench && bench->kind == MTR_JSON_STRING &&
           results && results->kind == MTR_JSON_ARRAY;
}

static uint32_t count_lines(struct mtr_str text)
{
    uint32_t n = 1;
    for (size_t i = 0; i < text.len; i++)
        n += text.ptr[i] == '\n';
    return n;
}

bool mtr_bench_history_read(struct mtr_arena *arena, const char *path,
                            struct mtr_bench_history *out, struct mtr_error *err)
{
    struct mtr_str text = {0};
    *out = (struct mtr_bench_history){0};
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return true;
    if (!mtr_file_exists(path))
        return mtr_fail(err, MTR_IO, "the history %s is no readable file", path);
    if (!mtr_file_read(arena, path, MTR_BENCH_HISTORY_BYTES, &text, err))
        return false;
    out->runs = mtr_arena_calloc(arena, count_lines(text), sizeof(struct mtr_json *));
    if (!out->runs)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory for the history %s", path);
    for (size_t from = 0, to; from < text.len; from = to + 1) {
        to = mtr_str_find(text, MTR_STR("\n"), from);
        to = to > text.len ? text.len : to;
        struct mtr_str line = mtr_str_sub(text, from, to - from);
        const struct mtr_json *v = mtr_json_parse(arena, line, MTR_JSON_STRICT, NULL);
        if (is_run(v))
            out->runs[out->count++] = v;
        else if (line.len)
            out->damaged++;
    }
    return true;
}
