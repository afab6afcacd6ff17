/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The real CUDA driver with an accident in it: after some launches of graphs a kernel is launched
 * that traps, so that the context dies as it does when a kernel of ours is wrong. For tests of
 * recovery on a device; it takes the place of libcuda.so.1 and passes all other calls on.
 *
 *   TRAP_CUDA_DRIVER=PATH   the real driver's absolute path
 *   TRAP_CUDA_AFTER=N       launches of graphs before the accident
 *   TRAP_CUDA_ONCE=PATH     made when it happens; a process that finds it is left alone
 *
 * All arguments of the driver's functions are integers or pointers, at most 12: passing 14 on as
 * long moves all registers and stack slots that they can be in (System V and Arm 64-bit ABIs).
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/backend/cuda/driver.h"

#define PARAMETERS                                                                                 \
    long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k,        \
        long l, long m, long n
#define ARGUMENTS a, b, c, d, e, f, g, h, i, j, k, l, m, n

typedef int (*any_function)(PARAMETERS);

static const char kernel[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                             ".visible .entry accident()\n{\n    trap;\n}\n";

static struct {
    void *driver;
    unsigned launches;
} trap;

static void *real(const char *symbol)
{
    const char *path = getenv("TRAP_CUDA_DRIVER");
    if (!trap.driver)
        trap.driver = dlopen(path ? path : "", RTLD_NOW | RTLD_LOCAL);
    void *found = trap.driver ? dlsym(trap.driver, symbol) : NULL;
    if (!found)
        fprintf(stderr, "trap_cuda: no %s in %s\n", symbol, path ? path : "(no TRAP_CUDA_DRIVER)");
    return found;
}

static int pass_on(const char *symbol, PARAMETERS)
{
    void *address = real(symbol);
    any_function function;
    memcpy(&function, &address, sizeof function);
    return function ? function(ARGUMENTS) : 999;
}

static long number_of(const void *p)
{
    return (long)(intptr_t)p;
}

/* Its error is found by whoever waits for the stream. */
static void have_accident(long stream)
{
    void *module = NULL, *function = NULL;
    struct cu_launch launch = {
        .grid = {1, 1, 1}, .block = {1, 1, 1}, .stream = (struct cu_stream *)(intptr_t)stream};
    const char *once = getenv("TRAP_CUDA_ONCE");
    if (once)
        close(open(once, O_CREAT | O_WRONLY, 0600));
    int status = pass_on("cuModuleLoadDataEx", number_of(&module), number_of(kernel), 0, 0, 0, 0, 0,
                         0, 0, 0, 0, 0, 0, 0);
    if (!status)
        status = pass_on("cuModuleGetFunction", number_of(&function), number_of(module),
                         number_of("accident"), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    if (!status)
        status = pass_on("cuLaunchKernelEx", number_of(&launch), number_of(function), 0, 0, 0, 0, 0,
                         0, 0, 0, 0, 0, 0, 0);
    fprintf(stderr, "trap_cuda: an accident (%d)\n", status);
}

static bool is_time(void)
{
    const char *after = getenv("TRAP_CUDA_AFTER"), *once = getenv("TRAP_CUDA_ONCE");
    return after && ++trap.launches == strtoul(after, NULL, 10) &&
           (!once || access(once, F_OK) != 0);
}

static void before(const char *symbol, long second)
{
    if (strcmp(symbol, "cuGraphLaunch") == 0 && is_time())
        have_accident(second);
}

#define DEFINE(name, symbol, arguments)                                                            \
    int symbol(PARAMETERS);                                                                        \
    int symbol(PARAMETERS)                                                                         \
    {                                                                                              \
        before(#symbol, b);                                                                        \
        return pass_on(#symbol, ARGUMENTS);                                                        \
    }
MTR_CUDA_FUNCTIONS(DEFINE)
