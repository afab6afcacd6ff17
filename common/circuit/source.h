/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An open checkpoint as the compiler sees it. The only place where the two meet.
 */
#ifndef MTR_CIRCUIT_SOURCE_H
#define MTR_CIRCUIT_SOURCE_H

#include "common/checkpoint/checkpoint.h"
#include "common/circuit/compile.h"
#include "common/config/config.h"

/* Both must outlive the plan: names of tensors are copied, nothing else is. */
struct mtr_model_source mtr_model_source_of(const struct mtr_checkpoint *ck,
                                            const struct mtr_config *config);

#endif
