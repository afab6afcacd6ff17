/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The router's choice: for each token the top_k experts of the highest scores, the best first, of
 * equal scores the one of the lower number; and each one's share.
 *
 *   score   softmax over all logits, sigmoid, or sqrt(softplus(logit))
 *   choice  by score + bias; with groups, experts stand in that many equal groups, of which the
 *           top_groups are open whose two best choices sum highest (DeepSeek-V3, section 2.1.2)
 *   share   the score; divided by the sum of the chosen ones where `renormalize` is set (0 where
 *           all are 0); times multiplier
 *
 * A token's experts are different ones below `experts`, whatever its logits are. Grid: rows.
 */
#ifndef MTR_ARGS_ROUTE_H
#define MTR_ARGS_ROUTE_H

#include "kernels/args/step.h"

#define MTR_ROUTE_MAX_EXPERTS 4096

struct mtr_route_args {
    const struct mtr_step_view *step;
    const float *logits; /* [tokens, experts] */
    const float *bias;   /* [experts], or NULL */
    int32_t *chosen;     /* [tokens, top_k] */
    float *shares;       /* [tokens, top_k] */
    uint32_t experts, top_k;
    uint32_t scoring; /* enum mtr_scoring */
    uint32_t renormalize;
    uint32_t groups, top_groups; /* 1, 1: none */
    float multiplier;
};

#endif
