/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reading a launch. Parameters are a short list, not a struct with a field for every family: a
 * launch has at most a dozen, and a new family must not grow all others.
 */
#include "common/circuit/plan.h"

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
