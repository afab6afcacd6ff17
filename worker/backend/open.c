/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A device that is there and does not work is told, not hidden: auto falls back to the host only
 * where there is nothing to fall back from, or nothing in this build that could use it.
 */
#include "worker/backend/open.h"

#include <string.h>

#include "worker/backend/cuda/cuda.h"
#include "worker/backend/host/host.h"

static bool is(const struct mtr_backend_options *o, const char *name)
{
    return strcmp(o->hardware ? o->hardware : "auto", name) == 0;
}

static struct mtr_cuda_options cuda_options(const struct mtr_backend_options *o)
{
    return (struct mtr_cuda_options){.device = o->device,
                                     .hardware = is(o, "auto") ? NULL : o->hardware,
                                     .driver = o->driver,
                                     .threads = o->threads,
                                     .no_overlap = o->no_overlap};
}

/* False with err filled; *host says that it is the CPU. */
static bool choose(const struct mtr_backend_options *o, struct mtr_device_info *info, bool *host,
                   struct mtr_error *note, struct mtr_error *err)
{
    struct mtr_cuda_options cuda = cuda_options(o);
    struct mtr_error why = {0};
    *host = is(o, "host");
    if (*host || mtr_cuda_probe(&cuda, info, &why))
        return true;
    *host = is(o, "auto") && o->device == 0 &&
            (why.code == MTR_NOT_FOUND || why.code == MTR_UNSUPPORTED);
    if (!*host)
        return mtr_fail(err, why.code, "%s", why.message);
    if (note)
        *note = why;
    return true;
}

static struct mtr_backend *open_host(const struct mtr_backend_options *o, struct mtr_error *err)
{
    return mtr_host_backend_create(
        &(struct mtr_host_options){.threads = o->threads, .instruction_set = o->instruction_set},
        err);
}

struct mtr_backend *mtr_backend_open(const struct mtr_backend_options *o, struct mtr_error *note,
                                     struct mtr_error *err)
{
    struct mtr_cuda_options cuda = cuda_options(o);
    struct mtr_device_info info;
    bool host;
    if (!choose(o, &info, &host, note, err))
        return NULL;
    return host ? open_host(o, err) : mtr_cuda_backend_create(&cuda, err);
}

bool mtr_backend_probe(const struct mtr_backend_options *o, struct mtr_device_info *out,
                       struct mtr_error *note, struct mtr_error *err)
{
    bool host;
    if (!choose(o, out, &host, note, err))
        return false;
    if (!host)
        return true;
    struct mtr_backend_options one = *o;
    one.threads = o->threads ? o->threads : 1;
    struct mtr_backend *b = open_host(&one, err);
    if (!b)
        return false;
    bool ok = b->ops->info(b, out, err);
    b->ops->destroy(b);
    return ok;
}
