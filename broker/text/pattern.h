/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a normalizer replaces and a pre-tokenizer splits at: a string, a regular expression, or any
 * character of a set.
 */
#ifndef MTR_TEXT_PATTERN_H
#define MTR_TEXT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "broker/text/charset.h"
#include "broker/text/regex.h"
#include "common/base/error.h"
#include "common/base/json.h"
#include "common/base/str.h"

struct mtr_pattern { /* one of the three; all empty: never found */
    char *string;    /* [string_len] on the heap */
    size_t string_len;
    struct mtr_regex *regex;
    struct mtr_charset *set; /* on the heap: each character is a match of its own */
};

/* From {"String": ..} or {"Regex": ..}, the member "pattern" of owner. */
bool mtr_pattern_from_json(struct mtr_pattern *p, const struct mtr_json *owner,
                           struct mtr_error *err);
bool mtr_pattern_from_string(struct mtr_pattern *p, struct mtr_str string, struct mtr_error *err);
bool mtr_pattern_from_regex(struct mtr_pattern *p, struct mtr_str regex, struct mtr_error *err);
bool mtr_pattern_from_ranges(struct mtr_pattern *p, struct mtr_ranges *set /* freed */,
                             struct mtr_error *err);
void mtr_pattern_free(struct mtr_pattern *p);

/*
 * The first match at or after from that is not empty, or (empties) may be. Call mtr_regex_begin(s,
 * text.len) before the first call on a text. False: none, or s->failed.
 */
bool mtr_pattern_next(const struct mtr_pattern *p, struct mtr_regex_scanner *s, struct mtr_str text,
                      size_t from, bool empties, size_t *start, size_t *end);

/* The failure that goes with s->failed. Returns false. */
bool mtr_pattern_gave_up(struct mtr_error *err);

#endif
