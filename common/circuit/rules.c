/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Looking things up in the generated tables.
 */
#include "common/circuit/rules.h"

#include <string.h>

#include "common/circuit/circuit.h"

static const char *const tag_names[MTR_TAG_COUNT] = {"reference", "bit_identical", "differs"};

const char *mtr_tag_name(enum mtr_tag tag)
{
    return (unsigned)tag < MTR_TAG_COUNT ? tag_names[tag] : "?";
}

bool mtr_point_is(const struct mtr_point *p, const char *base)
{
    const char *const policies[] = {
        p->weight == MTR_FORMAT_COUNT ? NULL : mtr_format_info(p->weight)->name,
        p->scaling == MTR_SCALING_NONE ? NULL : mtr_scaling_name(p->scaling),
        p->cache == MTR_FORMAT_COUNT ? NULL : mtr_format_info(p->cache)->name,
    };
    size_t len = strlen(base);
    if (strncmp(p->function, base, len) != 0)
        return false;
    const char *rest = p->function + len;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        const char *name = policies[i];
        if (!name)
            continue;
        if (*rest != '_' || strncmp(rest + 1, name, strlen(name)) != 0)
            return false;
        rest += 1 + strlen(name);
    }
    return *rest == 0;
}

const struct mtr_hardware *mtr_hardware_find(const char *name)
{
    uint32_t count;
    const struct mtr_hardware *all = mtr_hardware_classes(&count);
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(all[i].name, name) == 0)
            return &all[i];
    return NULL;
}

const struct mtr_device *mtr_device_find(const char *name)
{
    uint32_t count;
    const struct mtr_device *all = mtr_devices(&count);
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(all[i].name, name) == 0)
            return &all[i];
    return NULL;
}

const struct mtr_circuit *mtr_circuit_find(const char *name)
{
    uint32_t count;
    const struct mtr_circuit *all = mtr_circuits(&count);
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(all[i].name, name) == 0)
            return &all[i];
    return NULL;
}
