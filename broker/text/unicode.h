/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a character is: general category, white space, script, case, normal form.
 *
 * The tables are those that the tokenizers library decides by (see scripts/make_unicode_tables.py),
 * because a letter more or less changes a model's ids. They are stored as runs and unfolded once
 * per tokenizer into a two-stage table with one byte of properties a character:
 *
 *   bits 0-4  enum mtr_category
 *   bit 5     White_Space
 *   bit 6     word character (letters, marks, digits, connectors): \w of regular expressions
 *   bit 7     not inert in normal form C: may be changed, moved, or joined to what stands before
 *
 * so that a set of characters defined by properties is a bitmap of 256 bits.
 */
#ifndef MTR_TEXT_UNICODE_H
#define MTR_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mtr_category { /* in the order of the tables */
                    MTR_CN,
                    MTR_LU,
                    MTR_LL,
                    MTR_LT,
                    MTR_LM,
                    MTR_LO,
                    MTR_MN,
                    MTR_MC,
                    MTR_ME,
                    MTR_ND,
                    MTR_NL,
                    MTR_NO,
                    MTR_PC,
                    MTR_PD,
                    MTR_PS,
                    MTR_PE,
                    MTR_PI,
                    MTR_PF,
                    MTR_PO,
                    MTR_SM,
                    MTR_SC,
                    MTR_SK,
                    MTR_SO,
                    MTR_ZS,
                    MTR_ZL,
                    MTR_ZP,
                    MTR_CC,
                    MTR_CF,
                    MTR_CO,
                    MTR_CS,
                    MTR_CATEGORY_COUNT,
};

#define MTR_CHAR_CATEGORY 0x1fu
#define MTR_CHAR_SPACE    0x20u
#define MTR_CHAR_WORD     0x40u
#define MTR_CHAR_ACTIVE   0x80u

/* Masks of categories, one bit each. */
#define MTR_MASK(category) (1u << (category))
#define MTR_MASK_L         0x0000003eu
#define MTR_MASK_M         0x000001c0u
#define MTR_MASK_N         0x00000e00u
#define MTR_MASK_P         0x0007f000u
#define MTR_MASK_S         0x00780000u
#define MTR_MASK_Z         0x03800000u
#define MTR_MASK_C         0x3c000001u

#define MTR_UNICODE_BLOCKS  0x1100 /* of 256 characters */
#define MTR_UNICODE_SCALARS 0x110000

struct mtr_unicode {
    uint16_t stage[MTR_UNICODE_BLOCKS]; /* index of each block's properties */
    uint8_t (*blocks)[256];             /* [block_count] */
    size_t block_count;
};

/* Unfolds the tables, some 100 KB. False: no memory. */
bool mtr_unicode_init(struct mtr_unicode *u);
void mtr_unicode_free(struct mtr_unicode *u);

/* cp < MTR_UNICODE_SCALARS */
static inline uint8_t mtr_unicode_properties(const struct mtr_unicode *u, uint32_t cp)
{
    return u->blocks[u->stage[cp >> 8]][cp & 255];
}

static inline uint32_t mtr_unicode_mask(const struct mtr_unicode *u, uint32_t cp)
{
    return MTR_MASK(mtr_unicode_properties(u, cp) & MTR_CHAR_CATEGORY);
}

/* The mask of "Lu", "L", "Letter", ...; 0: no such category. Case does not matter. */
uint32_t mtr_unicode_category_mask(const char *name, size_t len);

/* The number of a script in the tables ("Han", "hiragana"); 0: no such script. */
uint8_t mtr_unicode_script_id(const char *name, size_t len);

/* By search through the runs: for the rare callers. */
uint8_t mtr_unicode_script(uint32_t cp);

/* The same for the pre-tokenizer that cuts by script, whose table is older: 0 for what it lacks. */
uint8_t mtr_unicode_old_script(uint32_t cp);

/* True for characters that are left as they are by every normal form: newer than the measure. */
bool mtr_unicode_unnormalized(uint32_t cp);

/* Lower case, up to two characters ("İ" becomes "i̇"); returns how many were written. */
int mtr_unicode_lower(uint32_t cp, uint32_t out[2]);

/* Simple upper case of one character, for matching without case. */
uint32_t mtr_unicode_upper(uint32_t cp);

/* The generated tables. */
struct mtr_unicode_lower_range {
    uint32_t first, last;
    int32_t difference;
};

const uint32_t *mtr_unicode_category_runs(size_t *count);     /* first << 5 | category */
const uint32_t *mtr_unicode_script_runs(size_t *count);       /* first << 8 | script */
const uint32_t *mtr_unicode_unnormalized_runs(size_t *count); /* first << 1 | unknown */
const uint32_t *mtr_unicode_unscripted_runs(size_t *count);   /* first << 1 | unknown */
const char *const *mtr_unicode_script_names(size_t *count);
const struct mtr_unicode_lower_range *mtr_unicode_lower_more(size_t *count);

/*
 * UTF-8 that is known to be valid (the tokenizer makes it so before all else): decoding without
 * checks. Returns the length of the character at s.
 */
static inline int mtr_utf8_next(const char *s, uint32_t *cp)
{
    const unsigned char *p = (const unsigned char *)s;
    if (p[0] < 0x80) {
        *cp = p[0];
        return 1;
    }
    if (p[0] < 0xe0) {
        *cp = (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
        return 2;
    }
    if (p[0] < 0xf0) {
        *cp = (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
        return 3;
    }
    *cp = (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3f) << 12 |
          (uint32_t)(p[2] & 0x3f) << 6 | (p[3] & 0x3f);
    return 4;
}

static inline int mtr_utf8_length(char first)
{
    unsigned char c = (unsigned char)first;
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

/* The start of the character that ends before at (at > 0). */
static inline size_t mtr_utf8_back(const char *s, size_t at)
{
    do
        at--;
    while (at > 0 && ((unsigned char)s[at] & 0xc0) == 0x80);
    return at;
}

#endif
