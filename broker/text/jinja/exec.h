/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What statements and expressions share. Internal to jinja/.
 */
#ifndef MTR_TEXT_JINJA_EXEC_H
#define MTR_TEXT_JINJA_EXEC_H

#include "broker/text/jinja/macro.h"

enum mtr_jflow {
    MTR_JFLOW_FAILED,
    MTR_JFLOW_NEXT,
    MTR_JFLOW_BREAK,
    MTR_JFLOW_CONTINUE,
};

enum mtr_jflow mtr_jexec_all(struct mtr_jr *r, const struct mtr_jnodes *nodes);
/* What a scope does with its slots when it is entered and left. */
void mtr_jscope_enter(struct mtr_jr *r, const struct mtr_jscope_code *c);
void mtr_jscope_leave(struct mtr_jr *r, const struct mtr_jscope_code *c);
bool mtr_jassign(struct mtr_jr *r, const struct mtr_jn *target, const struct mtr_jv *value);
struct mtr_jv *mtr_jplace(struct mtr_jr *r, const struct mtr_jplace *p);
/* All slots MISSING; NULL with the error set. */
struct mtr_jact *mtr_jact_new(struct mtr_jr *r, struct mtr_jact *up, uint32_t slots);
bool mtr_jeval_call(struct mtr_jr *r, const struct mtr_jn *n, const struct mtr_jv *caller,
                    struct mtr_jv *out);
/* The rounds of a loop with its variables in r->act. */
enum mtr_jflow mtr_jrun_loop(struct mtr_jr *r, const struct mtr_jfor *f, const struct mtr_jv *items,
                             struct mtr_jact *home, int64_t depth0);
bool mtr_jmacro_value(struct mtr_jr *r, const struct mtr_jmacro_def *d, struct mtr_jv *out);
/* Runs a function's body into r->out, with its variables in act. */
bool mtr_jrun_body(struct mtr_jr *r, struct mtr_jact *act, const struct mtr_jscope_code *scope,
                   const struct mtr_jnodes *body);

/* Counts the depth of evaluation. */
static inline bool mtr_jenter(struct mtr_jr *r)
{
    if (++r->depth <= MTR_JINJA_MAX_DEPTH)
        return true;
    return mtr_jfail(r, MTR_TOO_LARGE, "evaluation nested deeper than %d", MTR_JINJA_MAX_DEPTH);
}

#endif
