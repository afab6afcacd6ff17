/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the host backend tells about this machine. */
#ifndef MTR_BACKEND_HOST_MACHINE_H
#define MTR_BACKEND_HOST_MACHINE_H

#include <stddef.h>
#include <stdint.h>

/* The processor's name ("AMD EPYC 9654"), or the architecture's where the system has none. */
void mtr_machine_name(char *out, size_t bytes);

/* Memory in bytes: of the machine, and what can be taken without swapping; bounded by the limit of
 * this process's control group where there is one. */
void mtr_machine_memory(uint64_t *total, uint64_t *available);

#endif
