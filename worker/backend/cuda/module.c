/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Modules are loaded when the first function of each is asked for: a model uses few of the points,
 * but most of the modules. Functions are looked up once and kept.
 */
#include <string.h>

#include "worker/backend/cuda/internal.h"

#define LOG_BYTES 4096 /* of what the driver's compiler says about PTX */

static const struct mtr_kernel_module *find_module(const struct mtr_kernel_target *t,
                                                   const char *name)
{
    for (uint32_t i = 0; i < t->module_count; i++)
        if (strcmp(t->modules[i].name, name) == 0)
            return &t->modules[i];
    return NULL;
}

/* The image for this device: mtr_cuda_find_target saw that one of both fits. */
static uint32_t choose_image(const struct mtr_cuda *c, const struct mtr_kernel_module *m)
{
    return mtr_cuda_fits(m->cubin, &c->device) ? m->cubin : m->ptx;
}

static bool load(struct mtr_cuda *c, const struct mtr_kernel_module *m, struct mtr_cuda_module *out,
                 struct mtr_error *err)
{
    char log[LOG_BYTES] = "";
    int options[] = {CU_JIT_LOG_BUFFER, CU_JIT_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    uint32_t count, index = choose_image(c, m);
    const struct mtr_kernel_image *images = mtr_kernel_images(&count);
    const void *data = mtr_kernel_image_data(index);
    if (!data)
        return mtr_fail(err, MTR_NOT_FOUND, "module %s has no image for %s", m->name,
                        c->device.name);
    out->waits = mtr_cuda_image_waits(index) && !c->no_overlap;
    int result = c->driver.module_load(&out->handle, data, 2, options, values);
    log[strcspn(log, "\n")] = 0;
    if (result != CU_SUCCESS && log[0])
        return mtr_cuda_check(c, result, err, "loading %s for %s (%s)", images[index].source,
                              images[index].arch, log);
    return mtr_cuda_check(c, result, err, "loading %s for %s", images[index].source,
                          images[index].arch);
}

static struct mtr_cuda_module *loaded(struct mtr_cuda *c, const char *name, struct mtr_error *err)
{
    for (struct mtr_cuda_module *m = c->modules; m; m = m->next)
        if (strcmp(m->name, name) == 0)
            return m;
    const struct mtr_kernel_module *source = find_module(c->target, name);
    if (!source) {
        mtr_fail(err, MTR_NOT_FOUND, "class %s has no module %s in this build", c->target->hardware,
                 name);
        return NULL;
    }
    struct mtr_cuda_module *m = mtr_arena_calloc(&c->arena, 1, sizeof *m);
    if (!m) {
        mtr_fail(err, MTR_NO_MEMORY, "no memory for module %s", name);
        return NULL;
    }
    m->name = source->name;
    if (!load(c, source, m, err))
        return NULL;
    m->next = c->modules;
    c->modules = m;
    return m;
}

/* A block may use all the shared memory that the device allows it beside the function's own. */
static bool prepare(struct mtr_cuda *c, struct mtr_kernel *k, struct mtr_error *err)
{
    const struct mtr_cuda_driver *d = &c->driver;
    size_t offset = 0, bytes = 0;
    int fixed = 0;
    if (!mtr_cuda_check(c, d->function_attribute(&fixed, CU_STATIC_SHARED_BYTES, k->function), err,
                        "asking for the shared memory of %s", k->name))
        return false;
    if (fixed < c->device.shared_bytes &&
        !mtr_cuda_check(
            c,
            d->function_set(k->function, CU_DYNAMIC_SHARED_LIMIT, c->device.shared_bytes - fixed),
            err, "allowing %s %d bytes of shared memory", k->name, c->device.shared_bytes - fixed))
        return false;
    if (d->parameter_info && d->parameter_info(k->function, 0, &offset, &bytes) == CU_SUCCESS)
        k->args_bytes = bytes;
    return true;
}

static struct mtr_kernel *find(struct mtr_cuda *c, const char *module, const char *function)
{
    for (struct mtr_kernel *k = c->kernels; k; k = k->next)
        if (strcmp(k->module, module) == 0 && strcmp(k->name, function) == 0)
            return k;
    return NULL;
}

struct mtr_kernel *mtr_cuda_kernel(struct mtr_backend *b, const char *module, const char *function,
                                   struct mtr_error *err)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    struct mtr_kernel *k = find(c, module, function);
    if (k)
        return k;
    if (!mtr_cuda_enter(c, err))
        return NULL;
    struct mtr_cuda_module *m = loaded(c, module, err);
    if (!m)
        return NULL;
    k = mtr_arena_calloc(&c->arena, 1, sizeof *k);
    char *name = mtr_arena_strdup(&c->arena, mtr_str(function));
    if (!k || !name) {
        mtr_fail(err, MTR_NO_MEMORY, "no memory for kernel %s", function);
        return NULL;
    }
    k->module = m->name;
    k->waits = m->waits;
    k->name = name;
    if (!mtr_cuda_check(c, c->driver.module_function(&k->function, m->handle, name), err,
                        "class %s: looking for kernel %s of module %s", c->target->hardware, name,
                        module) ||
        !prepare(c, k, err))
        return NULL;
    k->next = c->kernels;
    c->kernels = k;
    return k;
}

void mtr_cuda_unload(struct mtr_cuda *c)
{
    for (struct mtr_cuda_module *m = c->modules; m; m = m->next)
        c->driver.module_unload(m->handle);
    c->modules = NULL;
    c->kernels = NULL;
}
