/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tests/support/mock_device.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/host/host_kernel.h"

static mtr_host_function find(const char *module, const char *function)
{
    size_t count;
    const struct mtr_host_entry *entries = mtr_host_kernels(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(entries[i].module, module) == 0 && strcmp(entries[i].function, function) == 0)
            return mtr_host_variant(&entries[i], mtr_host_best_isa());
    ck_abort_msg("the host class has no %s", function);
    return NULL;
}

void mock_device_run(void *context, const struct mtr_mock_call *launch)
{
    mtr_host_function run = find(launch->module, launch->function);
    void *scratch = aligned_alloc(64, MTR_HOST_SCRATCH_BYTES);
    ck_assert_ptr_nonnull(scratch);
    uint32_t count = launch->grid[0] * launch->grid[1] * launch->grid[2];
    for (uint32_t i = 0; i < count; i++) {
        struct mtr_host_block block = {.x = i % launch->grid[0],
                                       .y = i / launch->grid[0] % launch->grid[1],
                                       .z = i / launch->grid[0] / launch->grid[1],
                                       .grid_x = launch->grid[0],
                                       .grid_y = launch->grid[1],
                                       .grid_z = launch->grid[2],
                                       .scratch = scratch};
        run(launch->args, &block);
    }
    free(scratch);
}

struct mtr_backend *mock_device_create(bool graphs)
{
    struct mtr_backend *b = mtr_mock_backend_create();
    ck_assert_ptr_nonnull(b);
    mtr_mock_be(b, false, graphs);
    mtr_mock_on_launch(b, mock_device_run, NULL);
    mtr_mock_defer(b, true);
    return b;
}
