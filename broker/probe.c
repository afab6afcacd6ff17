/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "broker/probe.h"

#include "common/base/json.h"
#include "common/base/program.h"

#define LIMIT_MS 30000 /* a driver that wakes many devices takes seconds */

static bool text(struct mtr_arena *arena, const struct mtr_json *o, const char *key, bool needed,
                 const char **out, struct mtr_error *err)
{
    struct mtr_str s = {0};
    if (!mtr_json_opt_str(o, key, &s, err))
        return false;
    *out = s.len ? mtr_arena_strdup(arena, s) : NULL;
    return *out || !needed || mtr_fail(err, MTR_IO, "the worker's probe says no %s", key);
}

bool mtr_probe_read(struct mtr_arena *arena, struct mtr_str line, struct mtr_probe *out,
                    struct mtr_error *err)
{
    const struct mtr_json *o = mtr_json_parse(arena, line, MTR_JSON_STRICT, err);
    return o && text(arena, o, "hardware", true, &out->hardware, err) &&
           text(arena, o, "device", true, &out->device, err) &&
           text(arena, o, "note", false, &out->note, err);
}

bool mtr_probe_worker(struct mtr_arena *arena, const char *hardware, uint32_t device,
                      struct mtr_probe *out, struct mtr_error *err)
{
    struct mtr_str line;
    const char *program = mtr_program_find(arena, "metrale-worker", err);
    const char *number = mtr_arena_printf(arena, "%u", device);
    char *const arguments[] = {(char *)program,
                               (char *)"--probe",
                               (char *)"--hardware",
                               (char *)hardware,
                               (char *)"--device",
                               (char *)number,
                               NULL};
    return program && mtr_program_ask(arena, arguments, LIMIT_MS, &line, err) &&
           mtr_probe_read(arena, line, out, err);
}
