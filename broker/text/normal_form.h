/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The normal forms of Unicode (UAX #15): NFC, NFD, NFKC, NFKD.
 *
 * Decompositions and compositions are libutf8proc's. Characters newer than the tokenizers library's
 * tables are left alone as it leaves them (mtr_unicode_unnormalized). Linear in the text, also
 * where a million combining marks follow one another in the wrong order.
 */
#ifndef MTR_TEXT_NORMAL_FORM_H
#define MTR_TEXT_NORMAL_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/text/unicode.h"
#include "common/base/buf.h"
#include "common/base/str.h"

enum mtr_normal_form { MTR_NFC, MTR_NFD, MTR_NFKC, MTR_NFKD };

/* Scratch; zeroed before first use. */
struct mtr_normal_work {
    uint32_t *chars; /* [cap] */
    uint32_t *other;
    size_t count, cap, other_cap;
};

void mtr_normal_work_free(struct mtr_normal_work *w);

/* Whether the form may change valid UTF-8 text at all: a quick look. */
bool mtr_normal_form_needed(const struct mtr_unicode *u, enum mtr_normal_form form,
                            struct mtr_str text);

/* Appends text in the form. False: no memory. */
bool mtr_normal_form(const struct mtr_unicode *u, enum mtr_normal_form form,
                     struct mtr_normal_work *w, struct mtr_str text, struct mtr_buf *out);

#endif
