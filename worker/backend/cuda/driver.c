/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One list names the functions; the table, its symbols and the look-ups are made of it.
 */
#include "worker/backend/cuda/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_LIBRARY "libcuda.so.1"
#define MIN_VERSION     12000

/* Sorted by number, as the manual lists them. */
static const short sticky_results[] = {
    4,   /* the driver is shutting down */
    214, /* uncorrectable ECC error */
    220, /* uncorrectable NVLink error */
    226, /* contained error */
    700, /* illegal address */
    702, /* launch timeout */
    709, /* context is destroyed */
    710, /* device-side assert */
    714, /* hardware stack error */
    715, /* illegal instruction */
    716, /* misaligned address */
    717, /* invalid address space */
    718, /* invalid program counter */
    719, /* launch failed */
    721, /* tensor memory leak */
    810, /* the MPS client was terminated */
    911, /* external device */
    999, /* unknown */
};

bool mtr_cuda_is_sticky(int result)
{
    for (size_t i = 0; i < sizeof sticky_results / sizeof *sticky_results; i++)
        if (sticky_results[i] == result)
            return true;
    return false;
}

void mtr_cuda_describe(const struct mtr_cuda_driver *d, int result, char *text, size_t bytes)
{
    const char *name = NULL, *words = NULL;
    if (d->error_name(result, &name) != CU_SUCCESS || !name)
        snprintf(text, bytes, "CUDA error %d", result);
    else if (d->error_string(result, &words) != CU_SUCCESS || !words)
        snprintf(text, bytes, "%s", name);
    else
        snprintf(text, bytes, "%s (%s)", name, words);
}

/* A function's address fits into its pointer: POSIX has dlsym for this. */
static bool find(void *library, const char *symbol, void *slot, struct mtr_error *err)
{
    void *address = dlsym(library, symbol);
    memcpy(slot, &address, sizeof address);
    return address ||
           mtr_fail(err, MTR_UNSUPPORTED,
                    "the CUDA driver has no %s; a driver for CUDA 12 or later is needed", symbol);
}

static bool find_all(struct mtr_cuda_driver *d, struct mtr_error *err)
{
#define FIND(name, symbol, arguments) {#symbol, offsetof(struct mtr_cuda_driver, name)},
    static const struct {
        const char *symbol;
        size_t offset;
    } functions[] = {MTR_CUDA_FUNCTIONS(FIND)};
#undef FIND
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!find(d->handle, functions[i].symbol, (char *)d + functions[i].offset, err))
            return false;
    find(d->handle, "cuFuncGetParamInfo", &d->parameter_info, NULL);
    return true;
}

static bool start(struct mtr_cuda_driver *d, struct mtr_error *err)
{
    char text[256];
    int result = d->init(0);
    if (result != CU_SUCCESS) {
        mtr_cuda_describe(d, result, text, sizeof text);
        return mtr_fail(err, result == CU_ERROR_NO_DEVICE ? MTR_NOT_FOUND : MTR_IO,
                        "the CUDA driver does not start: %s", text);
    }
    result = d->driver_version(&d->version);
    if (result != CU_SUCCESS) {
        mtr_cuda_describe(d, result, text, sizeof text);
        return mtr_fail(err, MTR_IO, "the CUDA driver does not tell its version: %s", text);
    }
    if (d->version < MIN_VERSION)
        return mtr_fail(err, MTR_UNSUPPORTED, "the driver is for CUDA %d.%d; 12.0 is needed",
                        d->version / 1000, d->version % 1000 / 10);
    return true;
}

/* A driver has threads and handlers of its own: once started it stays. */
bool mtr_cuda_open(struct mtr_cuda_driver *d, const char *path, struct mtr_error *err)
{
    *d = (struct mtr_cuda_driver){0};
    d->handle = dlopen(path ? path : DEFAULT_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!d->handle)
        return mtr_fail(err, MTR_NOT_FOUND, "there is no CUDA driver: %s", dlerror());
    if (find_all(d, err) && start(d, err))
        return true;
    mtr_cuda_close(d);
    return false;
}

void mtr_cuda_close(struct mtr_cuda_driver *d)
{
    if (d->handle)
        dlclose(d->handle);
    *d = (struct mtr_cuda_driver){0};
}
