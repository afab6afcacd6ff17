/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The names of \p{..} and [:..:].
 */
#include <string.h>
#include <strings.h>

#include "broker/text/regex_program.h"

static void add_upper(struct mtr_ranges *out)
{
    mtr_ranges_add_categories(out, MTR_MASK(MTR_LU));
    mtr_ranges_add(out, 0x2160, 0x216f); /* Roman numerals, circled and squared letters */
    mtr_ranges_add(out, 0x24b6, 0x24cf);
    mtr_ranges_add(out, 0x1f130, 0x1f149);
    mtr_ranges_add(out, 0x1f150, 0x1f169);
    mtr_ranges_add(out, 0x1f170, 0x1f189);
}

static void add_blank(struct mtr_ranges *out)
{
    mtr_ranges_add_categories(out, MTR_MASK(MTR_ZS));
    mtr_ranges_add(out, '\t', '\t');
}

static void add_hex(struct mtr_ranges *out)
{
    mtr_ranges_add(out, '0', '9');
    mtr_ranges_add(out, 'A', 'F');
    mtr_ranges_add(out, 'a', 'f');
}

static void add_digit(struct mtr_ranges *out)
{
    mtr_ranges_add_categories(out, MTR_MASK(MTR_ND));
}

static void add_control(struct mtr_ranges *out)
{
    mtr_ranges_add_categories(out, MTR_MASK(MTR_CC));
}

static void add_ascii(struct mtr_ranges *out)
{
    mtr_ranges_add(out, 0, 127);
}

static void add_any(struct mtr_ranges *out)
{
    mtr_ranges_add(out, 0, MTR_UNICODE_SCALARS - 1);
}

/* In brackets, punctuation takes in the symbols; as a property it does not. */
static void add_marks(struct mtr_ranges *out)
{
    mtr_ranges_add_categories(out, MTR_MASK_P | MTR_MASK_S);
}

/* Names without regard to case. Those that need more than general categories (alpha, lower, graph)
 * are not known. */
static const struct {
    const char *name;
    void (*add)(struct mtr_ranges *out);
    bool bracket; /* [:name:] only, and before all other meanings */
} named_sets[] = {
    {"punct", add_marks, true},
    {"space", mtr_ranges_add_space, false},
    {"white_space", mtr_ranges_add_space, false},
    {"word", mtr_ranges_add_word, false},
    {"digit", add_digit, false},
    {"upper", add_upper, false},
    {"blank", add_blank, false},
    {"xdigit", add_hex, false},
    {"cntrl", add_control, false},
    {"ascii", add_ascii, false},
    {"any", add_any, false},
};

bool mtr_regex_named_set(struct mtr_ranges *out, const char *name, size_t len, bool bracket)
{
    for (size_t i = 0; i < sizeof named_sets / sizeof named_sets[0]; i++) {
        if (strlen(named_sets[i].name) == len && strncasecmp(named_sets[i].name, name, len) == 0 &&
            (bracket || !named_sets[i].bracket)) {
            named_sets[i].add(out);
            return true;
        }
    }
    uint32_t mask = bracket ? 0 : mtr_unicode_category_mask(name, len);
    uint8_t script = bracket ? 0 : mtr_unicode_script_id(name, len);
    if (mask != 0)
        mtr_ranges_add_categories(out, mask);
    else if (script != 0)
        mtr_ranges_add_script(out, script);
    return mask != 0 || script != 0;
}
