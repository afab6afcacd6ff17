/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Prompts of random words.
 *
 * Words are common ones of four to six letters, which most vocabularies hold as one token each. How
 * many words make a prompt of so many tokens depends on tokenizer and chat template; both are
 * measured by two short requests, through whose counts a line is drawn.
 */
#include <math.h>

#include "common/base/philox.h"
#include "ctl/bench.h"

#define MAX_WORDS    (1u << 21)
#define NUMBER_WORDS 4

static const char words_list[][8] = {
    "apple",  "river",  "stone",  "light",  "house",  "table",  "green",  "water",
    "north",  "south",  "paper",  "glass",  "metal",  "cloud",  "storm",  "field",
    "forest", "bridge", "market", "winter", "summer", "spring", "garden", "window",
    "silver", "golden", "orange", "yellow", "purple", "simple", "single", "double",
    "middle", "little", "large",  "small",  "quick",  "quiet",  "heavy",  "sharp",
    "smooth", "round",  "square", "circle", "number", "letter", "word",   "story",
    "music",  "dance",  "voice",  "sound",  "horse",  "tiger",  "eagle",  "whale",
    "mouse",  "sheep",  "bread",  "sugar",  "salt",   "coffee", "lemon",  "honey",
};
#define WORD_COUNT (sizeof words_list / sizeof words_list[0])

struct mtr_bench_fit mtr_bench_fit(uint32_t words_a, uint64_t tokens_a, uint32_t words_b,
                                   uint64_t tokens_b)
{
    struct mtr_bench_fit fit = {.base = 0, .per_word = 1};
    if (words_b <= words_a || tokens_b <= tokens_a)
        return fit;
    fit.per_word = (double)(tokens_b - tokens_a) / (words_b - words_a);
    fit.base = (double)tokens_a - fit.per_word * words_a;
    return fit;
}

uint32_t mtr_bench_words_for(struct mtr_bench_fit fit, uint32_t tokens)
{
    double words = round((tokens - fit.base) / fit.per_word);
    return words < 1 ? 1 : words > MAX_WORDS ? MAX_WORDS : (uint32_t)words;
}

/* The words in front say the number, six bits each, so that two prompts part there for certain. */
void mtr_bench_prompt(struct mtr_buf *out, uint64_t seed, uint64_t number, uint32_t words)
{
    uint32_t random[4];
    mtr_philox(seed, 0, 0, random);
    uint64_t code = number + random[0];
    for (uint32_t i = 0; i < words; i++) {
        mtr_philox(seed, number, i + 1, random);
        uint64_t pick = i < NUMBER_WORDS ? code >> (6 * i) : random[0];
        mtr_buf_printf(out, "%s%s", i ? " " : "", words_list[pick % WORD_COUNT]);
    }
}
