/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A byte-level vocabulary of 256 bytes, a few merges and special tokens, as a GGUF file would state
 * it.
 *
 * Ids: 0..255 bytes, 256 "he", 257 "ll", 258 "hell", 259 "hello", 260 " w", 261 "\xe4\xb8",
 * 262 "\xe4\xb8\xad", 263 <s>, 264 </s>, 265 <|im_end|>, 266 [tool] (user defined).
 */
#ifndef MTR_UNIT_TEXT_TINY_SOURCE_H
#define MTR_UNIT_TEXT_TINY_SOURCE_H

#include <string.h>

#include "broker/text/byte_alphabet.h"
#include "broker/text/tokenizer.h"
#include "tests/unit/check_main.h"

#define TINY_BYTES  256
#define TINY_MADE   7
#define TINY_TOKENS 267

struct tiny {
    struct mtr_buf names; /* all names behind one another */
    struct mtr_str tokens[TINY_TOKENS];
    struct mtr_str merges[TINY_MADE];
    uint8_t types[TINY_TOKENS];
    struct mtr_vocab_source source;
};

static const char *const tiny_merges[TINY_MADE][2] = {
    {"h", "e"}, {"l", "l"},       {"he", "ll"},         {"hell", "o"},
    {" ", "w"}, {"\xe4", "\xb8"}, {"\xe4\xb8", "\xad"},
};
static const char *const tiny_special[] = {"<s>", "</s>", "<|im_end|>", "[tool]"};

static struct mtr_str tiny_name(struct tiny *t, const char *bytes, size_t len)
{
    size_t start = t->names.len;
    ck_assert(mtr_bytes_to_alphabet((struct mtr_str){bytes, len}, &t->names));
    return mtr_str_sub(mtr_buf_view(&t->names), start, SIZE_MAX);
}

static void tiny_init(struct tiny *t)
{
    memset(t, 0, sizeof *t);
    ck_assert(mtr_buf_reserve(&t->names, 8192)); /* slices of it must not move */
    for (int b = 0; b < TINY_BYTES; b++) {
        char byte = (char)b;
        t->tokens[b] = tiny_name(t, &byte, 1);
        t->types[b] = MTR_TOKEN_NORMAL;
    }
    for (int i = 0; i < TINY_MADE; i++) {
        const char *l = tiny_merges[i][0], *r = tiny_merges[i][1];
        struct mtr_str left = tiny_name(t, l, strlen(l));
        mtr_buf_puts(&t->names, " ");
        struct mtr_str right = tiny_name(t, r, strlen(r));
        t->merges[i] = (struct mtr_str){left.ptr, left.len + 1 + right.len};
        size_t start = t->names.len;
        mtr_buf_str(&t->names, left);
        mtr_buf_str(&t->names, right);
        t->tokens[TINY_BYTES + i] = mtr_str_sub(mtr_buf_view(&t->names), start, SIZE_MAX);
        t->types[TINY_BYTES + i] = MTR_TOKEN_NORMAL;
    }
    for (int i = 0; i < 4; i++) {
        t->tokens[TINY_BYTES + TINY_MADE + i] = mtr_str(tiny_special[i]);
        t->types[TINY_BYTES + TINY_MADE + i] = i < 3 ? MTR_TOKEN_CONTROL : MTR_TOKEN_USER_DEFINED;
    }
    t->source = (struct mtr_vocab_source){
        .model = MTR_VOCAB_BPE,
        .pre = MTR_STR("gpt-2"),
        .token_count = TINY_TOKENS,
        .tokens = t->tokens,
        .types = t->types,
        .merge_count = TINY_MADE,
        .merges = t->merges,
        .bos = 263,
        .eos = 264,
        .eot = MTR_TOKEN_NONE,
        .eom = MTR_TOKEN_NONE,
        .unknown = MTR_TOKEN_NONE,
        .pad = MTR_TOKEN_NONE,
        .add_bos = true,
    };
}

static void tiny_free(struct tiny *t)
{
    mtr_buf_free(&t->names);
}

#endif
