/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How a number of GGUF metadata is encoded. Private to the room.
 */
#ifndef MTR_CHECKPOINT_GGUF_VALUE_H
#define MTR_CHECKPOINT_GGUF_VALUE_H

#include <stdint.h>

#include "common/checkpoint/gguf.h"

/* Bytes of a value of the type: 0 for STRING and ARRAY. */
unsigned mtr_gguf_type_bytes(enum mtr_gguf_type type);

/* Little-endian, 1 to 8 bytes. */
static inline uint64_t mtr_gguf_word(const void *p, unsigned bytes)
{
    const uint8_t *b = p;
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes; i++)
        v |= (uint64_t)b[i] << 8 * i;
    return v;
}

/* Sets kv->u, kv->i or kv->f from the encoded number at p; BOOL gives kv->u, unchecked. */
void mtr_gguf_decode(enum mtr_gguf_type type, const void *p, struct mtr_gguf_kv *kv);

#endif
