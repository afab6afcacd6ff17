/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The alphabet is computed: the bytes that need a stand-in are 00-20, 7F-A0 and AD.
 */
#include "broker/text/byte_alphabet.h"

#include "common/base/utf8.h"

uint32_t mtr_byte_to_char(uint8_t byte)
{
    if (byte <= 0x20)
        return 0x100u + byte;
    if (byte >= 0x7f && byte <= 0xa0)
        return 0x121u + (byte - 0x7fu);
    return byte == 0xad ? 0x143u : byte;
}

int mtr_char_to_byte(uint32_t cp)
{
    if (cp < 0x100)
        return mtr_byte_to_char((uint8_t)cp) == cp ? (int)cp : -1;
    if (cp <= 0x120)
        return (int)(cp - 0x100);
    if (cp <= 0x142)
        return (int)(cp - 0x121 + 0x7f);
    return cp == 0x143 ? 0xad : -1;
}

bool mtr_bytes_to_alphabet(struct mtr_str bytes, struct mtr_buf *out)
{
    if (!mtr_buf_reserve(out, bytes.len * 2))
        return false;
    for (size_t i = 0; i < bytes.len; i++) {
        char c[4];
        mtr_buf_append(out, c, (size_t)mtr_utf8_encode(mtr_byte_to_char((uint8_t)bytes.ptr[i]), c));
    }
    return !out->failed;
}

bool mtr_alphabet_to_bytes(struct mtr_str text, struct mtr_buf *out)
{
    size_t start = out->len;
    for (size_t at = 0; at < text.len;) {
        uint32_t cp;
        int n = mtr_utf8_decode(text.ptr + at, text.len - at, &cp);
        int byte = n > 0 ? mtr_char_to_byte(cp) : -1;
        if (byte < 0 || !mtr_buf_byte(out, (uint8_t)byte)) {
            out->len = start;
            return false;
        }
        at += (size_t)n;
    }
    return true;
}
