/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which device, and which of the embedded targets runs on it.
 *
 * A cubin runs on the capability it was compiled for (a and f targets no further), PTX on any that
 * is not older. Both are read from the architecture's name: sm_121f is capability 12.1.
 */
#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "worker/backend/cuda/internal.h"

#define MAX_DEVICES 64

static bool fails(const struct mtr_cuda_driver *d, int result, const char *what,
                  struct mtr_error *err)
{
    char text[256];
    if (result == CU_SUCCESS)
        return false;
    mtr_cuda_describe(d, result, text, sizeof text);
    mtr_fail(err, MTR_IO, "%s: %s", what, text);
    return true;
}

static bool read_attributes(const struct mtr_cuda_driver *d, struct mtr_cuda_device *out,
                            struct mtr_error *err)
{
    int integrated = 0;
    const struct {
        int *to;
        enum cu_device_attribute attribute;
    } wanted[] = {{&out->major, CU_CAPABILITY_MAJOR},
                  {&out->minor, CU_CAPABILITY_MINOR},
                  {&out->processors, CU_PROCESSORS},
                  {&out->shared_bytes, CU_SHARED_BYTES},
                  {&integrated, CU_INTEGRATED}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (fails(d, d->device_attribute(wanted[i].to, wanted[i].attribute, out->handle),
                  "reading an attribute of the device", err))
            return false;
    out->integrated = integrated != 0;
    return true;
}

bool mtr_cuda_find_device(const struct mtr_cuda_driver *d, uint32_t ordinal,
                          struct mtr_cuda_device *out, struct mtr_error *err)
{
    int count = 0;
    size_t memory = 0;
    *out = (struct mtr_cuda_device){0};
    if (fails(d, d->device_count(&count), "counting the devices", err))
        return false;
    if (count <= 0)
        return mtr_fail(err, MTR_NOT_FOUND, "there is a CUDA driver, but no device");
    if (ordinal >= (uint32_t)count || ordinal >= MAX_DEVICES)
        return mtr_fail(err, MTR_NOT_FOUND, "there is no device %u; this machine has %d", ordinal,
                        count);
    if (fails(d, d->device_get(&out->handle, (int)ordinal), "opening the device", err) ||
        fails(d, d->device_name(out->name, sizeof out->name - 1, out->handle),
              "reading the device's name", err) ||
        fails(d, d->device_memory(&memory, out->handle), "reading the device's memory", err))
        return false;
    out->memory_bytes = memory;
    return read_attributes(d, out, err);
}

/* Major * 10 + minor of an architecture's name; 0 for none. */
static int capability_of(const char *arch)
{
    int number = 0;
    const char *p = strchr(arch, '_');
    for (p = p ? p + 1 : ""; *p >= '0' && *p <= '9' && number < 10000; p++)
        number = number * 10 + (*p - '0');
    return number;
}

bool mtr_cuda_fits(uint32_t image, const struct mtr_cuda_device *device)
{
    uint32_t count;
    const struct mtr_kernel_image *images = mtr_kernel_images(&count);
    if (image >= count)
        return false;
    int made_for = capability_of(images[image].arch), is = device->major * 10 + device->minor;
    bool ptx = strncmp(images[image].arch, "compute_", 8) == 0;
    return ptx ? made_for <= is : made_for == is;
}

bool mtr_cuda_image_waits(uint32_t image)
{
    uint32_t count;
    const struct mtr_kernel_image *images = mtr_kernel_images(&count);
    return image < count && capability_of(images[image].arch) >= 90;
}

/* All modules of a target are alike: all have PTX, or none has. */
static bool fits(const struct mtr_kernel_target *t, bool ptx, const struct mtr_cuda_device *device)
{
    return t->module_count && mtr_cuda_fits(ptx ? t->modules[0].ptx : t->modules[0].cubin, device);
}

static bool is_common(const struct mtr_kernel_target *t)
{
    return t->model[0] == '*' && t->quant[0] == '*';
}

static void refuse(const struct mtr_cuda_device *device, const char *hardware,
                   struct mtr_error *err)
{
    uint32_t count;
    const struct mtr_kernel_target *targets = mtr_kernel_targets(&count);
    struct mtr_buf names = {0};
    for (uint32_t i = 0; i < count; i++)
        if (is_common(&targets[i]))
            mtr_buf_printf(&names, "%s%s (%s)", names.len ? ", " : "", targets[i].hardware,
                           targets[i].arch);
    mtr_fail(err, MTR_UNSUPPORTED,
             "this build has no kernels%s%s for %s with compute capability %d.%d; it has: %.*s",
             hardware ? " of class " : "", hardware ? hardware : "", device->name, device->major,
             device->minor, names.len ? (int)names.len : 4, names.len ? names.data : "none");
    mtr_buf_free(&names);
}

const struct mtr_kernel_target *mtr_cuda_find_target(const struct mtr_cuda_device *device,
                                                     const char *hardware, struct mtr_error *err)
{
    uint32_t count;
    const struct mtr_kernel_target *targets = mtr_kernel_targets(&count);
    for (int ptx = 0; ptx < 2; ptx++)
        for (uint32_t i = 0; i < count; i++) {
            const struct mtr_kernel_target *t = &targets[i];
            bool named = !hardware || strcmp(t->hardware, hardware) == 0;
            if (named && is_common(t) && fits(t, ptx, device))
                return t;
        }
    refuse(device, hardware, err);
    return NULL;
}

static bool is_leaf(const struct mtr_kernel_target *t, const char *hardware, const char *model,
                    const char *quant)
{
    return strcmp(t->hardware, hardware) == 0 && strcmp(t->model, model) == 0 &&
           strcmp(t->quant, quant) == 0;
}

void mtr_cuda_use_target(struct mtr_backend *b, const char *model, const char *quant)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    uint32_t count;
    const struct mtr_kernel_target *targets = mtr_kernel_targets(&count);
    for (uint32_t i = 0; i < count; i++)
        if (is_leaf(&targets[i], c->target->hardware, model, quant) &&
            (fits(&targets[i], false, &c->device) || fits(&targets[i], true, &c->device)))
            c->target = &targets[i];
}
