/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Character properties from runs.
 *
 * The general categories of Unicode change some 4,000 times along the code points. The runs are
 * painted block by block (256 characters); a block of one value, and there are thousands of those
 * (Han, Hangul, unassigned), is stored once per value.
 */
#include "broker/text/unicode.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <utf8proc.h>

#define MAX_BLOCKS 1024 /* distinct ones; Unicode 16 has about 250 */

static bool is_space(uint32_t cp)
{
    return (cp >= 9 && cp <= 13) || cp == ' ' || cp == 0x85 || cp == 0xa0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 || cp == 0x202f ||
           cp == 0x205f || cp == 0x3000;
}

/* Alphabetic, marks, decimal digits, connectors and joiners; categories say nearly all. */
static bool is_word(uint32_t cp, uint8_t category)
{
    uint32_t mask =
        MTR_MASK_L | MTR_MASK_M | MTR_MASK(MTR_ND) | MTR_MASK(MTR_NL) | MTR_MASK(MTR_PC);
    return (MTR_MASK(category) & mask) != 0 || cp == 0x200c || cp == 0x200d ||
           (cp >= 0x24b6 && cp <= 0x24e9) || (cp >= 0x1f130 && cp <= 0x1f149) ||
           (cp >= 0x1f150 && cp <= 0x1f169) || (cp >= 0x1f170 && cp <= 0x1f189);
}

/* The run that holds cp: the last whose first code point is not above it. */
static size_t find_run(const uint32_t *runs, size_t count, int shift, uint32_t cp)
{
    size_t low = 0, high = count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (runs[middle] >> shift <= cp)
            low = middle;
        else
            high = middle;
    }
    return low;
}

bool mtr_unicode_unnormalized(uint32_t cp)
{
    size_t count;
    const uint32_t *runs = mtr_unicode_unnormalized_runs(&count);
    return (runs[find_run(runs, count, 1, cp)] & 1) != 0;
}

/* Whether form C decomposes cp for good: what it decomposes to composes to something else. */
static bool is_excluded(uint32_t cp)
{
    utf8proc_int32_t parts[8];
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)cp, parts, 8,
                                                 UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, NULL);
    if (n < 1 || n > 8)
        return true;
    n = utf8proc_normalize_utf32(parts, n, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    return n != 1 || parts[0] != (utf8proc_int32_t)cp;
}

/* Whether form C may change cp or move it, or join it to the character before. */
static bool is_active(uint32_t cp)
{
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)cp);
    if (cp >= 0xac00 && cp <= 0xd7a3)
        return false;
    bool second = p->comb_index >= 0x8000 && p->comb_index != UINT16_MAX;
    bool jamo = (cp >= 0x1161 && cp <= 0x1175) || (cp >= 0x11a8 && cp <= 0x11c2);
    bool canonical = p->decomp_seqindex != UINT16_MAX && p->decomp_type == 0;
    return (p->combining_class != 0 || second || jamo || (canonical && is_excluded(cp))) &&
           !mtr_unicode_unnormalized(cp);
}

static uint8_t properties_of(uint32_t cp, uint8_t category)
{
    return (uint8_t)(category | (is_space(cp) ? MTR_CHAR_SPACE : 0) |
                     (is_word(cp, category) ? MTR_CHAR_WORD : 0) |
                     (is_active(cp) ? MTR_CHAR_ACTIVE : 0));
}

/* Paints the block's 256 characters from the runs; *run is the one that holds its first. */
static void paint(uint8_t block[256], uint32_t first, const uint32_t *runs, size_t count,
                  size_t *run)
{
    for (uint32_t i = 0; i < 256; i++) {
        while (*run + 1 < count && runs[*run + 1] >> 5 <= first + i)
            (*run)++;
        block[i] = properties_of(first + i, runs[*run] & 31);
    }
}

/* The index of a block like this one, if it is uniform and known; else -1. */
static int find_block(const uint8_t block[256], const int16_t uniform[256])
{
    return memcmp(block, block + 1, 255) == 0 ? uniform[block[0]] : -1;
}

/* Planes without a single assigned character need not be looked at one by one. */
static bool whole_block(uint32_t first, const uint32_t *runs, size_t count, size_t run)
{
    bool one_run = run + 1 == count || runs[run + 1] >> 5 >= first + 256;
    return one_run && first >= 0x3400 && !(first >= 0xac00 && first < 0xd800) &&
           !(first >= 0xf900 && first < 0xfb00) && !(first >= 0x2f800 && first < 0x2fb00);
}

bool mtr_unicode_init(struct mtr_unicode *u)
{
    size_t count, run = 0;
    const uint32_t *runs = mtr_unicode_category_runs(&count);
    int16_t uniform[256];
    memset(uniform, -1, sizeof uniform);
    u->block_count = 0;
    u->blocks = malloc(MAX_BLOCKS * sizeof *u->blocks);
    if (u->blocks == NULL)
        return false;
    for (uint32_t b = 0; b < MTR_UNICODE_BLOCKS; b++) {
        uint8_t *block = u->blocks[u->block_count];
        while (run + 1 < count && runs[run + 1] >> 5 <= b << 8)
            run++;
        if (whole_block(b << 8, runs, count, run))
            memset(block, properties_of(b << 8, runs[run] & 31), 256);
        else
            paint(block, b << 8, runs, count, &run);
        int known = find_block(block, uniform);
        u->stage[b] = (uint16_t)(known >= 0 ? (size_t)known : u->block_count);
        if (known >= 0)
            continue;
        if (memcmp(block, block + 1, 255) == 0)
            uniform[block[0]] = (int16_t)u->block_count;
        if (++u->block_count == MAX_BLOCKS)
            return mtr_unicode_free(u), false;
    }
    return true;
}

void mtr_unicode_free(struct mtr_unicode *u)
{
    free(u->blocks);
    u->blocks = NULL;
}

/* ------------------------------------------------------------------------------------ by name */

static const struct {
    const char *name;
    uint32_t mask;
} category_names[] = {
    {"L", MTR_MASK_L},        {"M", MTR_MASK_M},           {"N", MTR_MASK_N},
    {"P", MTR_MASK_P},        {"S", MTR_MASK_S},           {"Z", MTR_MASK_Z},
    {"C", MTR_MASK_C},        {"Letter", MTR_MASK_L},      {"Mark", MTR_MASK_M},
    {"Number", MTR_MASK_N},   {"Punctuation", MTR_MASK_P}, {"Punct", MTR_MASK_P},
    {"Symbol", MTR_MASK_S},   {"Separator", MTR_MASK_Z},   {"Other", MTR_MASK_C},
    {"Lu", MTR_MASK(MTR_LU)}, {"Ll", MTR_MASK(MTR_LL)},    {"Lt", MTR_MASK(MTR_LT)},
    {"Lm", MTR_MASK(MTR_LM)}, {"Lo", MTR_MASK(MTR_LO)},    {"Mn", MTR_MASK(MTR_MN)},
    {"Mc", MTR_MASK(MTR_MC)}, {"Me", MTR_MASK(MTR_ME)},    {"Nd", MTR_MASK(MTR_ND)},
    {"Nl", MTR_MASK(MTR_NL)}, {"No", MTR_MASK(MTR_NO)},    {"Pc", MTR_MASK(MTR_PC)},
    {"Pd", MTR_MASK(MTR_PD)}, {"Ps", MTR_MASK(MTR_PS)},    {"Pe", MTR_MASK(MTR_PE)},
    {"Pi", MTR_MASK(MTR_PI)}, {"Pf", MTR_MASK(MTR_PF)},    {"Po", MTR_MASK(MTR_PO)},
    {"Sm", MTR_MASK(MTR_SM)}, {"Sc", MTR_MASK(MTR_SC)},    {"Sk", MTR_MASK(MTR_SK)},
    {"So", MTR_MASK(MTR_SO)}, {"Zs", MTR_MASK(MTR_ZS)},    {"Zl", MTR_MASK(MTR_ZL)},
    {"Zp", MTR_MASK(MTR_ZP)}, {"Cc", MTR_MASK(MTR_CC)},    {"Cf", MTR_MASK(MTR_CF)},
    {"Co", MTR_MASK(MTR_CO)}, {"Cn", MTR_MASK(MTR_CN)},
};

static bool same_name(const char *known, const char *name, size_t len)
{
    return strlen(known) == len && strncasecmp(known, name, len) == 0;
}

uint32_t mtr_unicode_category_mask(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof category_names / sizeof category_names[0]; i++)
        if (same_name(category_names[i].name, name, len))
            return category_names[i].mask;
    return 0;
}

uint8_t mtr_unicode_script_id(const char *name, size_t len)
{
    size_t count;
    const char *const *names = mtr_unicode_script_names(&count);
    for (size_t i = 1; i < count; i++)
        if (same_name(names[i], name, len))
            return (uint8_t)i;
    return 0;
}

uint8_t mtr_unicode_script(uint32_t cp)
{
    size_t count;
    const uint32_t *runs = mtr_unicode_script_runs(&count);
    return (uint8_t)runs[find_run(runs, count, 8, cp)];
}

uint8_t mtr_unicode_old_script(uint32_t cp)
{
    size_t count;
    const uint32_t *runs = mtr_unicode_unscripted_runs(&count);
    return runs[find_run(runs, count, 1, cp)] & 1 ? 0 : mtr_unicode_script(cp);
}

/* --------------------------------------------------------------------------------------- case */

int mtr_unicode_lower(uint32_t cp, uint32_t out[2])
{
    if (cp < 0x80) {
        out[0] = cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
        return 1;
    }
    if (cp == 0x130) { /* the one letter whose lower case is longer */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    size_t count;
    const struct mtr_unicode_lower_range *more = mtr_unicode_lower_more(&count);
    for (size_t i = 0; i < count; i++) {
        if (cp >= more[i].first && cp <= more[i].last) {
            out[0] = cp + (uint32_t)more[i].difference;
            return 1;
        }
    }
    out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
    return 1;
}

uint32_t mtr_unicode_upper(uint32_t cp)
{
    return (uint32_t)utf8proc_toupper((utf8proc_int32_t)cp);
}
