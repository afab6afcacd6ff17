/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sets of characters: range lists while they are built, block bitmaps afterwards.
 */
#include "broker/text/charset.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"

#define LAST_SCALAR (MTR_UNICODE_SCALARS - 1)

void mtr_ranges_free(struct mtr_ranges *r)
{
    free(r->items);
    memset(r, 0, sizeof *r);
}

void mtr_ranges_add(struct mtr_ranges *r, uint32_t first, uint32_t last)
{
    if (r->failed ||
        !mtr_grow((void **)&r->items, &r->cap, r->count + 1, sizeof(struct mtr_range))) {
        r->failed = true;
        return;
    }
    r->items[r->count++] = (struct mtr_range){first, last};
}

void mtr_ranges_add_categories(struct mtr_ranges *r, uint32_t mask)
{
    size_t count;
    const uint32_t *runs = mtr_unicode_category_runs(&count);
    for (size_t i = 0; i < count; i++) {
        uint32_t end = i + 1 < count ? runs[i + 1] >> 5 : MTR_UNICODE_SCALARS;
        if (MTR_MASK(runs[i] & 31) & mask)
            mtr_ranges_add(r, runs[i] >> 5, end - 1);
    }
}

void mtr_ranges_add_script(struct mtr_ranges *r, uint8_t script)
{
    size_t count;
    const uint32_t *runs = mtr_unicode_script_runs(&count);
    for (size_t i = 0; i < count; i++) {
        uint32_t end = i + 1 < count ? runs[i + 1] >> 8 : MTR_UNICODE_SCALARS;
        if ((runs[i] & 255) == script)
            mtr_ranges_add(r, runs[i] >> 8, end - 1);
    }
}

static void add_table(struct mtr_ranges *r, const struct mtr_range *table, size_t count)
{
    for (size_t i = 0; i < count; i++)
        mtr_ranges_add(r, table[i].first, table[i].last);
}

void mtr_ranges_add_space(struct mtr_ranges *r)
{
    static const struct mtr_range table[] = {
        {9, 13},          {' ', ' '},       {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
        {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000},
    };
    add_table(r, table, sizeof table / sizeof table[0]);
}

void mtr_ranges_add_word(struct mtr_ranges *r)
{
    mtr_ranges_add_categories(r, MTR_MASK_L | MTR_MASK_M | MTR_MASK(MTR_ND) | MTR_MASK(MTR_NL) |
                                     MTR_MASK(MTR_PC));
    static const struct mtr_range table[] = {
        {0x24b6, 0x24e9},
        {0x1f130, 0x1f149},
        {0x1f150, 0x1f169},
        {0x1f170, 0x1f189},
    };
    add_table(r, table, sizeof table / sizeof table[0]);
}

void mtr_ranges_add_all(struct mtr_ranges *r, const struct mtr_ranges *other)
{
    for (size_t i = 0; i < other->count; i++)
        mtr_ranges_add(r, other->items[i].first, other->items[i].last);
    r->failed |= other->failed;
}

/* Letters that fold to ASCII letters from outside: matched by them without case, and the reverse.
 */
static const struct {
    uint32_t ascii, other;
} ascii_folds[] = {{'s', 0x17f}, {'k', 0x212a}};

static void fold_one(struct mtr_ranges *r, uint32_t cp)
{
    uint32_t lower[2];
    uint32_t upper = mtr_unicode_upper(cp);
    if (mtr_unicode_lower(cp, lower) == 1 && lower[0] != cp)
        mtr_ranges_add(r, lower[0], lower[0]);
    if (upper != cp)
        mtr_ranges_add(r, upper, upper);
    for (size_t i = 0; i < sizeof ascii_folds / sizeof ascii_folds[0]; i++) {
        if ((cp | 32) == ascii_folds[i].ascii)
            mtr_ranges_add(r, ascii_folds[i].other, ascii_folds[i].other);
        if (cp == ascii_folds[i].other)
            mtr_ranges_add(r, ascii_folds[i].ascii, ascii_folds[i].ascii);
    }
}

#define LAST_CASED 0x1e943u /* no letter above has a case */

void mtr_ranges_fold(struct mtr_ranges *r)
{
    size_t count = r->count;
    for (size_t i = 0; i < count; i++) {
        struct mtr_range item = r->items[i];
        for (uint32_t cp = item.first; cp <= item.last && cp <= LAST_CASED && !r->failed; cp++)
            fold_one(r, cp);
    }
    mtr_ranges_normalize(r);
}

static int by_first(const void *a, const void *b)
{
    const struct mtr_range *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

void mtr_ranges_normalize(struct mtr_ranges *r)
{
    if (r->count == 0)
        return;
    qsort(r->items, r->count, sizeof *r->items, by_first);
    size_t n = 0;
    for (size_t i = 1; i < r->count; i++) {
        if (r->items[i].first > r->items[n].last + 1)
            r->items[++n] = r->items[i];
        else if (r->items[i].last > r->items[n].last)
            r->items[n].last = r->items[i].last;
    }
    r->count = n + 1;
}

void mtr_ranges_complement(struct mtr_ranges *r)
{
    struct mtr_ranges out = {.failed = r->failed};
    uint32_t next = 0;
    mtr_ranges_normalize(r);
    for (size_t i = 0; i < r->count; i++) {
        if (r->items[i].first > next)
            mtr_ranges_add(&out, next, r->items[i].first - 1);
        next = r->items[i].last + 1;
    }
    if (next <= LAST_SCALAR)
        mtr_ranges_add(&out, next, LAST_SCALAR);
    mtr_ranges_free(r);
    *r = out;
}

void mtr_ranges_intersect(struct mtr_ranges *r, struct mtr_ranges *other)
{
    struct mtr_ranges out = {.failed = r->failed || other->failed};
    mtr_ranges_normalize(r);
    mtr_ranges_normalize(other);
    for (size_t i = 0, j = 0; i < r->count && j < other->count;) {
        struct mtr_range a = r->items[i], b = other->items[j];
        uint32_t first = a.first > b.first ? a.first : b.first;
        uint32_t last = a.last < b.last ? a.last : b.last;
        if (first <= last)
            mtr_ranges_add(&out, first, last);
        if (a.last < b.last)
            i++;
        else
            j++;
    }
    mtr_ranges_free(r);
    *r = out;
}

/* Sets the bits of the block that lie in range. */
static void paint(uint64_t block[4], uint32_t base, struct mtr_range range)
{
    uint32_t first = range.first > base ? range.first - base : 0;
    uint32_t last = range.last - base < 255 ? range.last - base : 255;
    for (uint32_t i = first; i <= last; i++)
        block[i >> 6] |= 1ull << (i & 63);
}

/* The block's bits from the ranges; *at is the first range that ends in or behind it. */
static void fill_block(uint64_t block[4], uint32_t base, const struct mtr_ranges *r, size_t *at)
{
    memset(block, 0, 32);
    while (*at < r->count && r->items[*at].last < base)
        (*at)++;
    for (size_t i = *at; i < r->count && r->items[i].first <= base + 255; i++) {
        if (r->items[i].first <= base && r->items[i].last >= base + 255)
            memset(block, 0xff, 32);
        else
            paint(block, base, r->items[i]);
    }
}

bool mtr_charset_init(struct mtr_charset *s, struct mtr_ranges *ranges)
{
    memset(s, 0, sizeof *s);
    if (ranges->failed)
        return false;
    mtr_ranges_normalize(ranges);
    size_t cap = 0, at = 0;
    for (uint32_t b = 0; b < MTR_UNICODE_BLOCKS; b++) {
        if (!mtr_grow((void **)&s->blocks, &cap, s->block_count + 3, 32))
            return mtr_charset_free(s), false;
        if (b == 0) {
            memset(s->blocks[0], 0, 32);
            memset(s->blocks[1], 0xff, 32);
            s->block_count = 2;
        }
        uint64_t *block = s->blocks[s->block_count];
        fill_block(block, b << 8, ranges, &at);
        if (b == 0)
            memcpy(s->ascii, block, sizeof s->ascii);
        if (memcmp(block, s->blocks[0], 32) == 0)
            s->stage[b] = 0;
        else if (memcmp(block, s->blocks[1], 32) == 0)
            s->stage[b] = 1;
        else
            s->stage[b] = (uint16_t)s->block_count++;
    }
    return true;
}

void mtr_charset_free(struct mtr_charset *s)
{
    free(s->blocks);
    s->blocks = NULL;
}

size_t mtr_charset_run(const struct mtr_charset *s, const char *text, size_t len, size_t max)
{
    size_t at = 0;
    while (at < len && max > 0) {
        uint32_t cp = (unsigned char)text[at];
        int n = 1;
        if (cp >= 128)
            n = mtr_utf8_next(text + at, &cp);
        if (!mtr_charset_has(s, cp))
            break;
        at += (size_t)n;
        max--;
    }
    return at;
}
