/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a broker and all ranks must have alike before a model is served, as "name=value" entries of
 * Ready.
 *
 * Both sides write the entries from their own facts: the broker from what it ordered, a worker from
 * what it is and has made of the order. A list is compared as a whole, so that one message names
 * everything that differs.
 */
#ifndef MTR_WIRE_AGREEMENT_H
#define MTR_WIRE_AGREEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

#define MTR_AGREEMENT_ENTRIES     16
#define MTR_AGREEMENT_ENTRY_BYTES 128 /* with the NUL */

struct mtr_agreement {
    uint32_t count;
    char entries[MTR_AGREEMENT_ENTRIES][MTR_AGREEMENT_ENTRY_BYTES];
};

struct mtr_agreement_facts {
    const char *build, *hardware, *precision, *cache_format;
    const uint8_t *plan_digest; /* [32] */
    uint32_t block_tokens, max_slots, max_step_tokens, max_step_outputs, max_sequence_tokens;
    uint32_t world_size;
};

void mtr_agreement_make(struct mtr_agreement *a, const struct mtr_agreement_facts *facts);

/* From a message. False (MTR_INVALID): too many entries, one too long or without a name. */
bool mtr_agreement_read(struct mtr_agreement *a, char *const *entries, size_t count,
                        struct mtr_error *err);

/* False (MTR_INVALID): they differ, and err names every entry that does, as far as it has room;
 * missing ones too. mine and theirs say whose they are: "the broker", "rank 1". */
bool mtr_agreement_compare(const struct mtr_agreement *a, const char *mine,
                           const struct mtr_agreement *b, const char *theirs,
                           struct mtr_error *err);

#endif
