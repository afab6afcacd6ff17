/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Macros, blocks and loop variables as values. Internal to jinja/.
 */
#ifndef MTR_TEXT_JINJA_MACRO_H
#define MTR_TEXT_JINJA_MACRO_H

#include "broker/text/jinja/ast.h"
#include "broker/text/jinja/run.h"

struct mtr_jmacro {
    const struct mtr_jmacro_def *def;
    struct mtr_jact *act; /* where it was defined */
};

struct mtr_jblock {
    const struct mtr_jblock_def *def;
};

/* The `loop` of one run of a for loop. It looks ahead only when it is asked to. */
struct mtr_jloop {
    struct mtr_jv iterable;
    struct mtr_jiter *iter;
    const struct mtr_jfor *def;
    struct mtr_jact *act; /* where the loop stands: a recursive call starts there */
    int64_t index0;
    int64_t length; /* -1: not asked for yet */
    int64_t depth0;
    struct mtr_jv current;
    struct mtr_jv before;
    struct mtr_jv after;   /* MISSING: nothing was read ahead */
    struct mtr_jv changed; /* a tuple, or MISSING */
};

struct mtr_jloop *mtr_jloop_new(struct mtr_jr *r, const struct mtr_jfor *def,
                                const struct mtr_jv *iterable, struct mtr_jact *home,
                                int64_t depth0);
bool mtr_jloop_next(struct mtr_jr *r, struct mtr_jloop *l, struct mtr_jv *item, bool *end);

#endif
