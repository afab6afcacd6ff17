/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The table of formats, and what their blocks are worth.
 *
 * Scales are f16, little-endian, and stand first except in q6_K. Products are rounded in the order
 * written here (the build forbids contraction to fused multiply-add), which makes the values equal
 * to the published ones bit for bit.
 */
#include "common/numeric/format.h"

#include "common/numeric/numeric.h"

static float f16_at(const uint8_t *p)
{
    return mtr_f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

static void from_f32(const void *in, float *out, size_t blocks)
{
    memcpy(out, in, blocks * sizeof *out);
}

static void from_f16(const void *in, float *out, size_t blocks)
{
    for (size_t i = 0; i < blocks; i++)
        out[i] = f16_at((const uint8_t *)in + 2 * i);
}

static void from_bf16(const void *in, float *out, size_t blocks)
{
    const uint8_t *p = in;
    for (size_t i = 0; i < blocks; i++, p += 2)
        out[i] = mtr_bf16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

/* q4_0: d f16, 16 bytes of nibbles; element i is the low, i + 16 the high nibble of byte i. */
static void from_q4_0(const void *in, float *out, size_t blocks)
{
    const uint8_t *p = in;
    for (size_t b = 0; b < blocks; b++, p += 18, out += 32) {
        float d = f16_at(p);
        for (int i = 0; i < 16; i++) {
            out[i] = d * (float)((p[2 + i] & 15) - 8);
            out[i + 16] = d * (float)((p[2 + i] >> 4) - 8);
        }
    }
}

/* q4_1: d, m f16, nibbles as q4_0, unsigned: d * q + m. */
static void from_q4_1(const void *in, float *out, size_t blocks)
{
    const uint8_t *p = in;
    for (size_t b = 0; b < blocks; b++, p += 20, out += 32) {
        float d = f16_at(p), m = f16_at(p + 2);
        for (int i = 0; i < 16; i++) {
            out[i] = d * (float)(p[4 + i] & 15) + m;
            out[i + 16] = d * (float)(p[4 + i] >> 4) + m;
        }
    }
}

/* Five-bit quants: nibbles as q4_0, and bit i of the 32-bit word `high` is bit 4 of element i. */
static int quant5(const uint8_t *high, const uint8_t *nibbles, int i)
{
    int low = i < 16 ? nibbles[i] & 15 : nibbles[i - 16] >> 4;
    return low | (high[i >> 3] >> (i & 7) & 1) << 4;
}

/* q5_0: d f16, high bits [4], nibbles [16]. */
static void from_q5_0(const void *in, float *out, size_t blocks)
{
    const uint8_t *p = in;
    for (size_t b = 0; b < blocks; b++, p += 22, out += 32) {
        float d = f16_at(p);
        for (int i = 0; i < 32; i++)
            out[i] = d * (float)(quant5(p + 2, p + 6, i) - 16);
    }
}

/* q5_1: d, m f16, high bits [4], nibbles [16]. */
static void from_q5_1(const void *in, float *out, size_t blocks)
{
    const uint8_t *p = in;
    for (size_t b = 0; b < blocks; b++, p += 24, out += 32) {
        float d = f16_at(p), m = f16_at(p + 2);
        for (int i = 0; i < 32; i++)
            out[i] = d * (float)quant5(p + 4, p + 8, i) + m;
    }
}

/* q8_0: d f16, i8 [32]. */
static void from_q8_0(const void *in, float *out, size_t blocks)
{
    const uint8_t *p = in;
    for (size_t b = 0; b < blocks; b++, p += 34, out += 32) {
        float d = f16_at(p);
        for (int i = 0; i < 32; i++)
            out[i] = d * (float)(int8_t)p[2 + i];
    }
}

/*
 * q4_K and q5_K: d, dmin f16; 12 bytes with eight 6-bit scales and eight 6-bit minimums; then the
 * quants. Sub-block j of 32 elements is worth d * scale[j] * q - dmin * min[j]. In the 12 bytes,
 * the first four of each stand in the low six bits of bytes 0..3 and 4..7; of the others,
 * bytes 8..11 hold the low four bits (scale low nibble, minimum high nibble) and the top two bits
 * of bytes 0..7 the high two.
 */
static void scale_min(const uint8_t *packed, int j, int *scale, int *min)
{
    if (j < 4) {
        *scale = packed[j] & 63;
        *min = packed[j + 4] & 63;
    } else {
        *scale = (packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4;
        *min = packed[j + 4] >> 4 | (packed[j] >> 6) << 4;
    }
}

/* high [32] holds bit 4 of element e of sub-block j as bit j of byte e, or is NULL. Nibbles: each
 * run of 32 bytes holds sub-block 2k in its low and 2k + 1 in its high nibbles. */
static void from_k(const uint8_t *p, const uint8_t *high, const uint8_t *nibbles, float *out)
{
    float d = f16_at(p), dmin = f16_at(p + 2);
    for (int j = 0; j < 8; j++, out += 32) {
        int scale, min;
        scale_min(p + 4, j, &scale, &min);
        float ds = d * (float)scale, dm = dmin * (float)min;
        const uint8_t *run = nibbles + (j >> 1) * 32;
        for (int e = 0; e < 32; e++) {
            int q = j & 1 ? run[e] >> 4 : run[e] & 15;
            if (high)
                q |= (high[e] >> j & 1) << 4;
            out[e] = ds * (float)q - dm;
        }
    }
}

static void from_q4_k(const void *in, float *out, size_t blocks)
{
    const uint8_t *p = in;
    for (size_t b = 0; b < blocks; b++, p += 144, out += 256)
        from_k(p, NULL, p + 16, out);
}

static void from_q5_k(const void *in, float *out, size_t blocks)
{
    const uint8_t *p = in;
    for (size_t b = 0; b < blocks; b++, p += 176, out += 256)
        from_k(p, p + 16, p + 48, out);
}

/*
 * q6_K: low nibbles [128], high pairs of bits [64], i8 scales [16], d f16. The two halves of 128
 * elements stand apart; in each, run k of 32 elements takes low nibbles (k < 2) or high nibbles of
 * bytes 32 * (k & 1), and bits 2k of the 32 high bytes. 16 elements share a scale.
 */
static void from_q6_k(const void *in, float *out, size_t blocks)
{
    const uint8_t *p = in;
    for (size_t b = 0; b < blocks; b++, p += 210) {
        float d = f16_at(p + 208);
        for (int run = 0; run < 8; run++, out += 32) {
            int half = run >> 2, k = run & 3;
            const uint8_t *low = p + half * 64 + (k & 1) * 32;
            const uint8_t *high = p + 128 + half * 32;
            for (int e = 0; e < 32; e++) {
                int nibble = k < 2 ? low[e] & 15 : low[e] >> 4;
                int q = (nibble | (high[e] >> 2 * k & 3) << 4) - 32;
                out[e] = d * (float)(int8_t)p[192 + run * 2 + (e >> 4)] * (float)q;
            }
        }
    }
}

static const struct mtr_format_info table[MTR_FORMAT_COUNT] = {
    [MTR_F32] = {"f32", 1, 4, true, from_f32},
    [MTR_F16] = {"f16", 1, 2, true, from_f16},
    [MTR_BF16] = {"bf16", 1, 2, true, from_bf16},
    [MTR_E4M3] = {"e4m3", 1, 1, true, NULL},
    [MTR_E5M2] = {"e5m2", 1, 1, true, NULL},
    [MTR_E2M1] = {"e2m1", 2, 1, true, NULL},
    [MTR_I8] = {"i8", 1, 1, false, NULL},
    [MTR_I32] = {"i32", 1, 4, false, NULL},
    [MTR_I64] = {"i64", 1, 8, false, NULL},
    [MTR_U8] = {"u8", 1, 1, false, NULL},
    [MTR_BOOL] = {"bool", 1, 1, false, NULL},
    [MTR_Q4_0] = {"q4_0", 32, 18, true, from_q4_0},
    [MTR_Q4_1] = {"q4_1", 32, 20, true, from_q4_1},
    [MTR_Q5_0] = {"q5_0", 32, 22, true, from_q5_0},
    [MTR_Q5_1] = {"q5_1", 32, 24, true, from_q5_1},
    [MTR_Q8_0] = {"q8_0", 32, 34, true, from_q8_0},
    [MTR_Q4_K] = {"q4_k", 256, 144, true, from_q4_k},
    [MTR_Q5_K] = {"q5_k", 256, 176, true, from_q5_k},
    [MTR_Q6_K] = {"q6_k", 256, 210, true, from_q6_k},
};

const struct mtr_format_info *mtr_format_info(enum mtr_format f)
{
    return &table[f];
}

bool mtr_format_parse(struct mtr_str name, enum mtr_format *out)
{
    for (int f = 0; f < MTR_FORMAT_COUNT; f++)
        if (mtr_str_is(name, table[f].name)) {
            *out = (enum mtr_format)f;
            return true;
        }
    return false;
}

bool mtr_format_row_bytes(enum mtr_format f, uint64_t elements, uint64_t *bytes)
{
    const struct mtr_format_info *info = &table[f];
    return elements % info->block_elements == 0 &&
           !__builtin_mul_overflow(elements / info->block_elements, info->block_bytes, bytes);
}
