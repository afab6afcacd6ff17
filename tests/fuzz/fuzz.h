/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a fuzz target defines. It must return 0 for any input, leak nothing and leave no state
 * behind. A broken promise of the code under test (a value that does not survive a round trip, say)
 * is reported with MTR_FUZZ_CHECK, which ends the process.
 */
#ifndef MTR_FUZZ_FUZZ_H
#define MTR_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MTR_FUZZ_CHECK(condition)                                                                  \
    ((condition) ? (void)0                                                                         \
                 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), abort()))

#endif
