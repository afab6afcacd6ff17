/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The map is asked for whole grapheme clusters of fewer than six bytes first and then character by
 * character, and answers with the shortest entry that begins the question: this is not what
 * SentencePiece does, but what the tokenizers library does, and its ids are the measure.
 *
 * A unit of the trie: bit 31 and the low byte are the label; bit 8 says that a value hangs on it;
 * the offset to the children is in bits 10-30, times 256 if bit 9 is set. A value is a unit without
 * bit 31.
 */
#include "broker/text/charsmap.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "broker/text/unicode.h"

#define MAX_CLUSTER_BYTES 5
#define MAX_MAP_BYTES     (64u << 20)

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static bool decode_base64(struct mtr_str s, struct mtr_buf *out)
{
    uint32_t bits = 0;
    int count = 0;
    for (size_t i = 0; i < s.len; i++) {
        int v = base64_value(s.ptr[i]);
        if (v < 0)
            return s.ptr[i] == '=' && s.len - i <= 2;
        bits = bits << 6 | (uint32_t)v;
        count += 6;
        if (count < 8)
            continue;
        count -= 8;
        if (!mtr_buf_byte(out, (uint8_t)(bits >> count)))
            return false;
    }
    return true;
}

static bool split_map(struct mtr_charsmap *m, struct mtr_str raw, struct mtr_error *err)
{
    uint32_t size = 0;
    if (raw.len >= 4)
        memcpy(&size, raw.ptr, 4);
    if (raw.len < 4 || size % 4 != 0 || size > raw.len - 4)
        return mtr_fail(err, MTR_INVALID, "precompiled_charsmap: a trie of %u bytes in %zu bytes",
                        size, raw.len);
    m->units = malloc(size + 4);
    if (m->units == NULL ||
        !mtr_buf_append(&m->replacements, raw.ptr + 4 + size, raw.len - 4 - size))
        return mtr_fail(err, MTR_NO_MEMORY, "precompiled_charsmap: out of memory");
    memcpy(m->units, raw.ptr + 4, size);
    m->unit_count = size / 4;
    return true;
}

bool mtr_charsmap_init(struct mtr_charsmap *m, struct mtr_str base64, struct mtr_error *err)
{
    struct mtr_buf raw = {.limit_bytes = MAX_MAP_BYTES};
    memset(m, 0, sizeof *m);
    bool ok = decode_base64(base64, &raw);
    if (!ok)
        mtr_fail(err, MTR_INVALID, "precompiled_charsmap: not base64, or more than %u bytes",
                 MAX_MAP_BYTES);
    ok = ok && split_map(m, mtr_buf_view(&raw), err);
    mtr_buf_free(&raw);
    if (!ok)
        mtr_charsmap_free(m);
    return ok;
}

void mtr_charsmap_free(struct mtr_charsmap *m)
{
    free(m->units);
    mtr_buf_free(&m->replacements);
    memset(m, 0, sizeof *m);
}

static size_t children_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6);
}

/* The value of the shortest entry that begins s. */
static bool look_up(const struct mtr_charsmap *m, struct mtr_str s, size_t *value)
{
    size_t node = 0;
    if (m->unit_count == 0)
        return false;
    node ^= children_of(m->units[0]);
    for (size_t i = 0; i < s.len; i++) {
        uint8_t byte = (uint8_t)s.ptr[i];
        node ^= byte;
        if (byte == 0 || node >= m->unit_count || (m->units[node] & 0x800000ffu) != byte)
            return false;
        uint32_t unit = m->units[node];
        node ^= children_of(unit);
        if (unit >> 8 & 1) {
            *value = node < m->unit_count ? m->units[node] & 0x7fffffffu : SIZE_MAX;
            return *value < m->replacements.len;
        }
    }
    return false;
}

/* Appends what stands for s; false: nothing does. */
static bool replace(const struct mtr_charsmap *m, struct mtr_str s, struct mtr_buf *out)
{
    size_t value;
    if (!look_up(m, s, &value))
        return false;
    const char *text = m->replacements.data + value;
    mtr_buf_append(out, text, strnlen(text, m->replacements.len - value));
    return true;
}

/* The end of the grapheme cluster that begins at from. */
static size_t cluster_end(struct mtr_str text, size_t from)
{
    uint32_t left, right;
    utf8proc_int32_t state = 0;
    size_t at = from + (size_t)mtr_utf8_next(text.ptr + from, &left);
    while (at < text.len) {
        size_t n = (size_t)mtr_utf8_next(text.ptr + at, &right);
        if (utf8proc_grapheme_break_stateful((int32_t)left, (int32_t)right, &state))
            break;
        left = right;
        at += n;
    }
    return at;
}

bool mtr_charsmap_apply(const struct mtr_charsmap *m, struct mtr_str text, struct mtr_buf *out)
{
    for (size_t at = 0; at < text.len && !out->failed;) {
        size_t end = cluster_end(text, at);
        if (end - at <= MAX_CLUSTER_BYTES && replace(m, mtr_str_sub(text, at, end - at), out)) {
            at = end;
            continue;
        }
        while (at < end) {
            struct mtr_str one = mtr_str_sub(text, at, (size_t)mtr_utf8_length(text.ptr[at]));
            if (!replace(m, one, out))
                mtr_buf_str(out, one);
            at += one.len;
        }
    }
    return !out->failed;
}
