/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reading a launch, and the names of a weight. Parameters are a short list, not a struct with a
 * field for every family: a launch has at most a dozen, and a new family must not grow all others.
 */
#include "common/circuit/plan.h"

#include <stdio.h>
#include <string.h>

double mtr_launch_real(const struct mtr_launch *l, enum mtr_param name, double absent)
{
    for (uint32_t i = 0; i < l->param_count; i++)
        if (l->params[i].name == name)
            return l->params[i].value;
    return absent;
}

uint32_t mtr_launch_u32(const struct mtr_launch *l, enum mtr_param name, uint32_t absent)
{
    return (uint32_t)mtr_launch_real(l, name, absent);
}

uint32_t mtr_weight_tensors(const struct mtr_plan_weight *w)
{
    return w->apart ? w->stack : 1;
}

struct mtr_str mtr_weight_tensor(const struct mtr_plan_weight *w, uint32_t expert,
                                 char room[MTR_WEIGHT_NAME_BYTES])
{
    const char *mark = w->apart ? strstr(w->name, "{e}") : NULL;
    if (!mark)
        return mtr_str(w->name);
    snprintf(room, MTR_WEIGHT_NAME_BYTES, "%.*s%u%s", (int)(mark - w->name), w->name, expert,
             mark + strlen("{e}"));
    return mtr_str(room);
}
