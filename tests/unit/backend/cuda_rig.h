/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A test's hold on the scripted CUDA driver.
 */
#ifndef MTR_BACKEND_CUDA_RIG_H
#define MTR_BACKEND_CUDA_RIG_H

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/backend/cuda/cuda.h"

struct cuda_rig {
    void *handle;
    char path[4096];
    void (*reset)(void);
    void (*capability)(int, int);
    void (*script)(const char *, unsigned, int);
    void (*parameter)(size_t);
    const char *(*log)(void);
};

static inline void cuda_rig_find(const struct cuda_rig *r, const char *symbol, void *slot)
{
    void *address = dlsym(r->handle, symbol);
    ck_assert_msg(address != NULL, "%s has no %s", r->path, symbol);
    memcpy(slot, &address, sizeof address);
}

static inline struct cuda_rig cuda_rig_open(void)
{
    struct cuda_rig r = {0};
    const char *build = getenv("MTR_BUILD_ROOT");
    snprintf(r.path, sizeof r.path, "%s/tests/support/fake_cuda.so", build ? build : ".");
    r.handle = dlopen(r.path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(r.handle != NULL, "%s", dlerror());
    cuda_rig_find(&r, "fake_cuda_reset", &r.reset);
    cuda_rig_find(&r, "fake_cuda_capability", &r.capability);
    cuda_rig_find(&r, "fake_cuda_fail", &r.script);
    cuda_rig_find(&r, "fake_cuda_parameter", &r.parameter);
    cuda_rig_find(&r, "fake_cuda_log", &r.log);
    r.reset();
    return r;
}

static inline struct mtr_backend *cuda_rig_backend(const struct cuda_rig *r)
{
    struct mtr_error err = {0};
    struct mtr_cuda_options o = {.driver = r->path, .threads = 2};
    struct mtr_backend *b = mtr_cuda_backend_create(&o, &err);
    ck_assert_msg(b != NULL, "%s", err.message);
    return b;
}

static inline void cuda_rig_close(struct cuda_rig *r)
{
    dlclose(r->handle);
}

#endif
