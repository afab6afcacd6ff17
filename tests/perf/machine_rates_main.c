/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* machine-rates [--threads N]: what this machine can do at most, as one JSON object. */
#include <stdio.h>

#include "common/base/flags.h"
#include "tests/perf/machine_rates.h"
#include "worker/backend/host/host.h"

int main(int argc, char **argv)
{
    struct mtr_host_options options = {0};
    const struct mtr_flag flags[] = {
        {"threads", MTR_FLAG_U32, &options.threads, "N", "threads; 0: one for each core", 0, 1024},
    };
    struct mtr_error err = {0};
    size_t positionals;
    struct mtr_backend *b = NULL;
    if (mtr_flags_parse(flags, 1, argc, argv, NULL, 0, &positionals, &err))
        b = mtr_host_backend_create(&options, &err);
    if (!b) {
        fprintf(stderr, "machine-rates: %s\n", err.message);
        return 1;
    }
    struct mtr_machine_rates r = mtr_measure_machine(b);
    printf("{\"read_gb_per_s\": %.2f, \"fma_gflop_per_s\": %.1f}\n", r.read_gb_per_s,
           r.fma_gflop_per_s);
    b->ops->destroy(b);
    return 0;
}
