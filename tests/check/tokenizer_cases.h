/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Recorded cases of a tokenizer: cases.jsonl and streaming.jsonl, one JSON object a line.
 *
 * cases.jsonl: text, ids, ids_special, ids_as_text, decoded, decoded_special, decoded_skipped.
 * streaming.jsonl: ids, prefixes, chunks, chunk_error.
 */
#ifndef MTR_CHECK_TOKENIZER_CASES_H
#define MTR_CHECK_TOKENIZER_CASES_H

#include <stddef.h>

#include "broker/text/tokenizer.h"
#include "common/base/json.h"

#define MTR_CHECK_SHOWN 5 /* differences printed in full */

struct mtr_check_counts {
    size_t cases, checks, failed, shown;
};

/* One line each; differences are counted, and the first of them printed. */
void mtr_check_case(const struct mtr_tokenizer *t, struct mtr_encoder *e, struct mtr_str line,
                    struct mtr_check_counts *counts);
void mtr_check_stream(const struct mtr_tokenizer *t, struct mtr_str line,
                      struct mtr_check_counts *counts);

/* Compares ids with a JSON array of them; false: they differ. */
bool mtr_check_ids(const struct mtr_ids *got, const struct mtr_json *want);

/* Counts a check; prints what and both sides if it failed. */
void mtr_check_report(struct mtr_check_counts *counts, bool ok, const char *what,
                      struct mtr_str text, const struct mtr_ids *got, const struct mtr_json *want);

#endif
