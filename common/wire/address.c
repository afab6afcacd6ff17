/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "common/wire/address.h"

#include <stdlib.h>
#include <unistd.h>

const char *mtr_default_run_dir(struct mtr_arena *arena, uint32_t port)
{
    const char *base = getenv("XDG_RUNTIME_DIR");
    if (base && base[0])
        return mtr_arena_printf(arena, "%s/metrale-%u", base, port);
    if (geteuid() == 0)
        return mtr_arena_printf(arena, "/run/metrale-%u", port);
    return mtr_arena_printf(arena, "/tmp/metrale-%u-%u", (unsigned)geteuid(), port);
}

const char *mtr_plan_address(struct mtr_arena *arena, const char *run_dir)
{
    return mtr_arena_printf(arena, "ipc://%s/plan.sock", run_dir);
}

const char *mtr_admin_address(struct mtr_arena *arena, const char *run_dir)
{
    return mtr_arena_printf(arena, "ipc://%s/admin.sock", run_dir);
}
