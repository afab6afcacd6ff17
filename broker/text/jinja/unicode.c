/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What Python knows about characters (str.isspace, str.upper, ...), from utf8proc's tables and the
 * full case mappings of Unicode's SpecialCasing.txt that utf8proc's simple ones lack.
 */
#include "broker/text/jinja/run.h"

#include <utf8proc.h>

/* ---- classes ---- */

bool mtr_jspace(uint32_t cp)
{
    if (cp < 0x80)
        return cp == ' ' || (cp >= 0x09 && cp <= 0x0d) || (cp >= 0x1c && cp <= 0x1f);
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

bool mtr_jline_break(uint32_t cp)
{
    return (cp >= 0x0a && cp <= 0x0d) || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 || cp == 0x2028 ||
           cp == 0x2029;
}

static utf8proc_category_t category(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp);
}

bool mtr_jprintable(uint32_t cp)
{
    if (cp < 0x7f)
        return cp >= 0x20;
    switch (category(cp)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return false;
    default:
        return true;
    }
}

bool mtr_jalpha(uint32_t cp)
{
    switch (category(cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return true;
    default:
        return false;
    }
}

bool mtr_jdecimal(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_ND;
}

bool mtr_jdigit(uint32_t cp)
{
    static const struct {
        uint32_t first, last;
    } others[] = {{0xb2, 0xb3},       {0xb9, 0xb9},       {0x1369, 0x1371},   {0x19da, 0x19da},
                  {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
                  {0x2474, 0x247c},   {0x2488, 0x2490},   {0x24ea, 0x24ea},   {0x24f5, 0x24fd},
                  {0x24ff, 0x24ff},   {0x2776, 0x277e},   {0x2780, 0x2788},   {0x278a, 0x2792},
                  {0x10a40, 0x10a43}, {0x10e60, 0x10e68}, {0x11052, 0x1105a}, {0x1f100, 0x1f10a}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (cp >= others[i].first && cp <= others[i].last)
            return true;
    }
    return mtr_jdecimal(cp);
}

/* CJK ideographs that are numerals are numeric as well. */
bool mtr_jnumeric(uint32_t cp)
{
    static const uint16_t han[] = {0x4e00, 0x4e03, 0x4e07, 0x4e09, 0x4e5d, 0x4e8c,
                                   0x4e94, 0x4ebf, 0x516b, 0x516d, 0x5341, 0x5343,
                                   0x56db, 0x767e, 0x842c, 0x96f6, 0x3007};
    for (size_t i = 0; i < sizeof han / sizeof *han; i++) {
        if (cp == han[i])
            return true;
    }
    utf8proc_category_t c = category(cp);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool mtr_jalnum(uint32_t cp)
{
    return mtr_jalpha(cp) || mtr_jnumeric(cp);
}

bool mtr_jword(uint32_t cp)
{
    if (cp < 0x80)
        return (cp >= '0' && cp <= '9') || cp == '_' || ((cp | 0x20) >= 'a' && (cp | 0x20) <= 'z');
    return mtr_jalnum(cp);
}

/* Upper and lower case beyond the categories: Other_Uppercase and Other_Lowercase. */
bool mtr_jupper(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_LU || (cp >= 0x2160 && cp <= 0x216f) ||
           (cp >= 0x24b6 && cp <= 0x24cf) || (cp >= 0x1f130 && cp <= 0x1f149) ||
           (cp >= 0x1f150 && cp <= 0x1f169) || (cp >= 0x1f170 && cp <= 0x1f189);
}

bool mtr_jlower(uint32_t cp)
{
    static const struct {
        uint32_t first, last;
    } others[] = {{0xaa, 0xaa},     {0xba, 0xba},     {0x2b0, 0x2b8},   {0x2c0, 0x2c1},
                  {0x2e0, 0x2e4},   {0x345, 0x345},   {0x37a, 0x37a},   {0x1d2c, 0x1d6a},
                  {0x1d78, 0x1d78}, {0x1d9b, 0x1dbf}, {0x2071, 0x2071}, {0x207f, 0x207f},
                  {0x2090, 0x209c}, {0x2170, 0x217f}, {0x24d0, 0x24e9}, {0x2c7c, 0x2c7d},
                  {0xa69c, 0xa69d}, {0xa770, 0xa770}, {0xa7f8, 0xa7f9}, {0xab5c, 0xab5f}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (cp >= others[i].first && cp <= others[i].last)
            return true;
    }
    return category(cp) == UTF8PROC_CATEGORY_LL;
}

bool mtr_jtitlecase(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_LT;
}

bool mtr_jcased(uint32_t cp)
{
    return mtr_jupper(cp) || mtr_jlower(cp) || mtr_jtitlecase(cp);
}

bool mtr_jident_start(uint32_t cp)
{
    if (cp < 0x80)
        return cp == '_' || ((cp | 0x20) >= 'a' && (cp | 0x20) <= 'z');
    return mtr_jalpha(cp) || category(cp) == UTF8PROC_CATEGORY_NL;
}

bool mtr_jident_part(uint32_t cp)
{
    if (mtr_jident_start(cp) || (cp >= '0' && cp <= '9'))
        return true;
    if (cp < 0x80)
        return false;
    switch (category(cp)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return cp == 0xb7;
    }
}

/* ---- case mappings of more than one character ---- */

struct special {
    uint32_t cp;
    uint32_t upper[3];
    uint32_t title[3];
};

/* Unconditional entries of SpecialCasing.txt, without the Greek ones with iota (greek_special). */
static const struct special specials[] = {
    {0xdf, {'S', 'S'}, {'S', 's'}},
    {0x149, {0x2bc, 'N'}, {0x2bc, 'N'}},
    {0x1f0, {'J', 0x30c}, {'J', 0x30c}},
    {0x390, {0x399, 0x308, 0x301}, {0x399, 0x308, 0x301}},
    {0x3b0, {0x3a5, 0x308, 0x301}, {0x3a5, 0x308, 0x301}},
    {0x587, {0x535, 0x552}, {0x535, 0x582}},
    {0x1e96, {'H', 0x331}, {'H', 0x331}},
    {0x1e97, {'T', 0x308}, {'T', 0x308}},
    {0x1e98, {'W', 0x30a}, {'W', 0x30a}},
    {0x1e99, {'Y', 0x30a}, {'Y', 0x30a}},
    {0x1e9a, {'A', 0x2be}, {'A', 0x2be}},
    {0x1f50, {0x3a5, 0x313}, {0x3a5, 0x313}},
    {0x1f52, {0x3a5, 0x313, 0x300}, {0x3a5, 0x313, 0x300}},
    {0x1f54, {0x3a5, 0x313, 0x301}, {0x3a5, 0x313, 0x301}},
    {0x1f56, {0x3a5, 0x313, 0x342}, {0x3a5, 0x313, 0x342}},
    {0x1fb2, {0x1fba, 0x399}, {0x1fba, 0x345}},
    {0x1fb3, {0x391, 0x399}, {0x1fbc}},
    {0x1fb4, {0x386, 0x399}, {0x386, 0x345}},
    {0x1fb6, {0x391, 0x342}, {0x391, 0x342}},
    {0x1fb7, {0x391, 0x342, 0x399}, {0x391, 0x342, 0x345}},
    {0x1fbc, {0x391, 0x399}, {0x1fbc}},
    {0x1fc2, {0x1fca, 0x399}, {0x1fca, 0x345}},
    {0x1fc3, {0x397, 0x399}, {0x1fcc}},
    {0x1fc4, {0x389, 0x399}, {0x389, 0x345}},
    {0x1fc6, {0x397, 0x342}, {0x397, 0x342}},
    {0x1fc7, {0x397, 0x342, 0x399}, {0x397, 0x342, 0x345}},
    {0x1fcc, {0x397, 0x399}, {0x1fcc}},
    {0x1fd2, {0x399, 0x308, 0x300}, {0x399, 0x308, 0x300}},
    {0x1fd3, {0x399, 0x308, 0x301}, {0x399, 0x308, 0x301}},
    {0x1fd6, {0x399, 0x342}, {0x399, 0x342}},
    {0x1fd7, {0x399, 0x308, 0x342}, {0x399, 0x308, 0x342}},
    {0x1fe2, {0x3a5, 0x308, 0x300}, {0x3a5, 0x308, 0x300}},
    {0x1fe3, {0x3a5, 0x308, 0x301}, {0x3a5, 0x308, 0x301}},
    {0x1fe4, {0x3a1, 0x313}, {0x3a1, 0x313}},
    {0x1fe6, {0x3a5, 0x342}, {0x3a5, 0x342}},
    {0x1fe7, {0x3a5, 0x308, 0x342}, {0x3a5, 0x308, 0x342}},
    {0x1ff2, {0x1ffa, 0x399}, {0x1ffa, 0x345}},
    {0x1ff3, {0x3a9, 0x399}, {0x1ffc}},
    {0x1ff4, {0x38f, 0x399}, {0x38f, 0x345}},
    {0x1ff6, {0x3a9, 0x342}, {0x3a9, 0x342}},
    {0x1ff7, {0x3a9, 0x342, 0x399}, {0x3a9, 0x342, 0x345}},
    {0x1ffc, {0x3a9, 0x399}, {0x1ffc}},
    {0xfb00, {'F', 'F'}, {'F', 'f'}},
    {0xfb01, {'F', 'I'}, {'F', 'i'}},
    {0xfb02, {'F', 'L'}, {'F', 'l'}},
    {0xfb03, {'F', 'F', 'I'}, {'F', 'f', 'i'}},
    {0xfb04, {'F', 'F', 'L'}, {'F', 'f', 'l'}},
    {0xfb05, {'S', 'T'}, {'S', 't'}},
    {0xfb06, {'S', 'T'}, {'S', 't'}},
    {0xfb13, {0x544, 0x546}, {0x544, 0x576}},
    {0xfb14, {0x544, 0x535}, {0x544, 0x565}},
    {0xfb15, {0x544, 0x53b}, {0x544, 0x56b}},
    {0xfb16, {0x54e, 0x546}, {0x54e, 0x576}},
    {0xfb17, {0x544, 0x53d}, {0x544, 0x56d}},
};

/* Greek letters with iota below, U+1F80 to U+1FAF: eight small, eight capital, three times. */
static unsigned greek_special(uint32_t cp, bool title, uint32_t out[3])
{
    static const uint32_t bases[] = {0x1f08, 0x1f28, 0x1f68};
    if (cp < 0x1f80 || cp > 0x1faf)
        return 0;
    out[0] = title ? (cp | 8) : bases[(cp - 0x1f80) / 16] + (cp & 7);
    out[1] = 0x399;
    return title ? 1 : 2;
}

/* Full upper or title mapping. */
static unsigned raise(uint32_t cp, bool title, uint32_t out[3])
{
    if (cp < 0x80) {
        out[0] = cp >= 'a' && cp <= 'z' ? cp - 32 : cp;
        return 1;
    }
    unsigned n = greek_special(cp, title, out);
    if (n)
        return n;
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        if (specials[i].cp != cp)
            continue;
        const uint32_t *to = title ? specials[i].title : specials[i].upper;
        for (n = 0; n < 3 && to[n]; n++)
            out[n] = to[n];
        return n;
    }
    out[0] = (uint32_t)(title ? utf8proc_totitle((utf8proc_int32_t)cp)
                              : utf8proc_toupper((utf8proc_int32_t)cp));
    return 1;
}

static bool case_ignorable(uint32_t cp)
{
    switch (category(cp)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
        return true;
    default:
        return cp == '\'' || cp == '.' || cp == ':' || cp == 0xb7 || cp == 0x387 || cp == 0x2018 ||
               cp == 0x2019 || cp == 0x2024 || cp == 0x2027;
    }
}

/* Sigma ends a word: a cased character stands before, none after, ignorable ones aside. */
static bool final_sigma(struct mtr_str s, size_t at)
{
    uint32_t cp = 0;
    size_t before = at, after = at + 2;
    bool cased = false;
    while (before > 0) {
        before -= mtr_jdecode_last((struct mtr_str){s.ptr, before}, &cp);
        if (!case_ignorable(cp)) {
            cased = mtr_jcased(cp);
            break;
        }
    }
    if (!cased)
        return false;
    while (after < s.len) {
        after += mtr_jdecode(s.ptr + after, &cp);
        if (!case_ignorable(cp))
            return !mtr_jcased(cp);
    }
    return true;
}

static unsigned lower(struct mtr_str s, size_t at, uint32_t cp, uint32_t out[3])
{
    if (cp < 0x80) {
        out[0] = cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
        return 1;
    }
    if (cp == 0x130) {
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    if (cp == 0x3a3)
        out[0] = final_sigma(s, at) ? 0x3c2 : 0x3c3;
    else
        out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
    return 1;
}

static unsigned fold(uint32_t cp, uint32_t out[3])
{
    utf8proc_int32_t to[4];
    int boundary = 0;
    utf8proc_ssize_t n =
        utf8proc_decompose_char((utf8proc_int32_t)cp, to, 4, UTF8PROC_CASEFOLD, &boundary);
    if (n < 1 || n > 3) {
        out[0] = cp;
        return 1;
    }
    for (utf8proc_ssize_t i = 0; i < n; i++)
        out[i] = (uint32_t)to[i];
    return (unsigned)n;
}

bool mtr_jcase(struct mtr_jr *r, const struct mtr_jv *string, enum mtr_jcase how,
               struct mtr_jv *out)
{
    struct mtr_str s = mtr_jbytes(string);
    struct mtr_jtext t = {0};
    bool word = false; /* the character before was cased */
    if (!mtr_jstep(r, 1 + s.len / 16))
        return false;
    for (size_t at = 0; at < s.len;) {
        uint32_t cp, to[3];
        uint32_t bytes = mtr_jdecode(s.ptr + at, &cp);
        unsigned n;
        if (how == MTR_JCASE_UPPER)
            n = raise(cp, false, to);
        else if (how == MTR_JCASE_FOLD)
            n = fold(cp, to);
        else if (how == MTR_JCASE_SWAP)
            n = mtr_jupper(cp)   ? lower(s, at, cp, to)
                : mtr_jlower(cp) ? raise(cp, false, to)
                                 : (to[0] = cp, 1u);
        else if ((how == MTR_JCASE_TITLE && !word) || (how == MTR_JCASE_CAPITALIZE && at == 0))
            n = raise(cp, true, to);
        else
            n = lower(s, at, cp, to);
        uint8_t taint = mtr_jtaint_at(string, (uint32_t)at);
        for (unsigned i = 0; i < n; i++) {
            if (!mtr_jtext_char(r, &t, to[i], taint))
                return false;
        }
        word = how == MTR_JCASE_TITLE && mtr_jcased(cp);
        at += bytes;
    }
    return mtr_jtext_finish(r, &t, string->flags & MTR_JF_MARKUP, out);
}
