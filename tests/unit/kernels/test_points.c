/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a class's KERNEL_FAMILIES.toml promises is in the compiled kernels. */
#include <string.h>

#include "common/circuit/rules.h"
#include "kernels/images/images.h"
#include "tests/unit/check_main.h"

static const struct mtr_kernel_target *common_target(const char *hardware)
{
    uint32_t count;
    const struct mtr_kernel_target *targets = mtr_kernel_targets(&count);
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(targets[i].hardware, hardware) == 0 && targets[i].model[0] == '*')
            return &targets[i];
    return NULL;
}

static bool has_function(const struct mtr_kernel_image *image, const char *name)
{
    for (uint32_t i = 0; i < image->function_count; i++)
        if (strcmp(image->functions[i].name, name) == 0)
            return true;
    return false;
}

static bool has(const struct mtr_kernel_target *t, const char *module, const char *function)
{
    uint32_t count;
    const struct mtr_kernel_image *images = mtr_kernel_images(&count);
    for (uint32_t m = 0; m < t->module_count; m++)
        if (strcmp(t->modules[m].name, module) == 0)
            return has_function(&images[t->modules[m].cubin], function);
    return false;
}

static void check_point(const struct mtr_kernel_target *t, const char *module,
                        const struct mtr_point *p)
{
    for (uint32_t s = 0; s < p->shape_count; s++)
        ck_assert_msg(has(t, module, p->shapes[s].function), "class %s has no %s in module %s",
                      t->hardware, p->shapes[s].function, module);
    ck_assert_msg(!p->repack || has(t, "repack", p->repack), "class %s has no repack kernel %s",
                  t->hardware, p->repack);
}

START_TEST(every_point_has_its_functions)
{
    uint32_t count, checked = 0;
    const struct mtr_hardware *classes = mtr_hardware_classes(&count);
    for (uint32_t c = 0; c < count; c++) {
        const struct mtr_kernel_target *t = common_target(classes[c].name);
        for (uint32_t f = 0; t && f < classes[c].family_count; f++)
            for (uint32_t p = 0; p < classes[c].families[f].point_count; p++, checked++)
                check_point(t, classes[c].families[f].name, &classes[c].families[f].points[p]);
    }
    mtr_kernel_targets(&count);
    ck_assert(count == 0 || checked > 0);
}
END_TEST

MTR_CHECK_MAIN("kernels/points")
{
    tcase_add_test(tc, every_point_has_its_functions);
}
