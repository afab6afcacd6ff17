/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Strings under construction, and what Python does to strings of characters.
 *
 * A struct mtr_jtext grows in the arena of the rendering and remembers where the provenance of its
 * bytes changes. Every string the language makes goes through one: so provenance survives slicing,
 * trimming, formatting and every filter, at the cost of one entry per change.
 */
#ifndef MTR_TEXT_JINJA_TEXT_H
#define MTR_TEXT_JINJA_TEXT_H

#include "broker/text/jinja/value.h"

struct mtr_jtext {
    char *data;
    uint32_t len;
    uint32_t cap;
    uint32_t *ends; /* where provenance changed so far; the open last run is not in it */
    uint32_t end_count;
    uint32_t end_cap;
    uint8_t first; /* taint of the first run */
    uint8_t taint; /* of the open run */
};

/* All but finish return false when memory or the limit on output bytes is exceeded. */
bool mtr_jtext_put(struct mtr_jr *r, struct mtr_jtext *t, const char *bytes, size_t len,
                   uint8_t taint);
bool mtr_jtext_puts(struct mtr_jr *r, struct mtr_jtext *t, const char *literal); /* trusted */
bool mtr_jtext_char(struct mtr_jr *r, struct mtr_jtext *t, uint32_t cp, uint8_t taint);
bool mtr_jtext_value(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *string);
bool mtr_jtext_slice(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *string,
                     uint32_t from, uint32_t len); /* bytes */
bool mtr_jtext_fill(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *string,
                    int64_t times);
bool mtr_jtext_escape(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *string);
/* The string. flags: 0 or MTR_JF_MARKUP. */
bool mtr_jtext_finish(struct mtr_jr *r, struct mtr_jtext *t, uint8_t flags, struct mtr_jv *out);

/* A text that begins with a, with room for `more` bytes behind it: in place where a was joined
 * lately and nothing stands behind it yet. keep: a finished text may be gone on with like that. */
bool mtr_jtext_resume(struct mtr_jr *r, const struct mtr_jv *a, size_t more, struct mtr_jtext *t);
void mtr_jtext_keep(struct mtr_jr *r, const struct mtr_jtext *t);

/* Provenance of the byte at an offset of a string. */
uint8_t mtr_jtaint_at(const struct mtr_jv *string, uint32_t offset);

/* string[from : from + len] in bytes, keeping markup; shares the bytes. */
bool mtr_jsub(struct mtr_jr *r, const struct mtr_jv *string, uint32_t from, uint32_t len,
              struct mtr_jv *out);
bool mtr_jconcat(struct mtr_jr *r, const struct mtr_jv *a, const struct mtr_jv *b,
                 struct mtr_jv *out); /* no escaping */
/* markupsafe.escape(v): markup stays, anything else is escaped. */
bool mtr_jescape(struct mtr_jr *r, const struct mtr_jv *v, struct mtr_jv *out);

/* ---- characters ---- */

int64_t mtr_jchars(struct mtr_str s);                  /* number of characters */
uint32_t mtr_joffset(struct mtr_str s, int64_t index); /* byte offset of a character */
uint32_t mtr_jdecode(const char *p, uint32_t *cp);     /* of valid UTF-8: bytes */
uint32_t mtr_jdecode_last(struct mtr_str s, uint32_t *cp);

bool mtr_jspace(uint32_t cp); /* str.isspace of one character */
bool mtr_jline_break(uint32_t cp);
bool mtr_jprintable(uint32_t cp);
bool mtr_jalpha(uint32_t cp);
bool mtr_jdecimal(uint32_t cp);
bool mtr_jdigit(uint32_t cp);
bool mtr_jnumeric(uint32_t cp);
bool mtr_jalnum(uint32_t cp);
bool mtr_jword(uint32_t cp); /* \w */
bool mtr_jupper(uint32_t cp);
bool mtr_jlower(uint32_t cp);
bool mtr_jtitlecase(uint32_t cp);
bool mtr_jcased(uint32_t cp);
bool mtr_jident_start(uint32_t cp);
bool mtr_jident_part(uint32_t cp);

enum mtr_jcase {
    MTR_JCASE_UPPER,
    MTR_JCASE_LOWER,
    MTR_JCASE_TITLE,      /* str.title */
    MTR_JCASE_CAPITALIZE, /* str.capitalize */
    MTR_JCASE_SWAP,
    MTR_JCASE_FOLD,
};
bool mtr_jcase(struct mtr_jr *r, const struct mtr_jv *string, enum mtr_jcase how,
               struct mtr_jv *out);

/* str.strip and friends: sides 1 left, 2 right, 3 both; chars NULL: white space. */
bool mtr_jstrip(struct mtr_jr *r, const struct mtr_jv *string, const struct mtr_jv *chars,
                int sides, struct mtr_jv *out);
/* str.replace; count < 0: all. */
bool mtr_jreplace(struct mtr_jr *r, const struct mtr_jv *string, struct mtr_str old,
                  const struct mtr_jv *new, int64_t count, struct mtr_jv *out);
/* str.splitlines; items are appended. */
bool mtr_jsplitlines(struct mtr_jr *r, const struct mtr_jv *string, bool keep, struct mtr_jv *out);
/* str.split(sep, max) for sep NULL or not; right: rsplit. */
bool mtr_jsplit(struct mtr_jr *r, const struct mtr_jv *string, const struct mtr_str *sep,
                int64_t max, bool right, struct mtr_jv *out);

#endif
