/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The part of the CUDA driver API that this project uses, found at run time.
 *
 * libcuda.so.1 belongs to the driver and not to a program: it is opened by dlopen, so that the same
 * binary runs where there is none. The declarations are our own, of the functions' 64-bit versions
 * (driver 12.0 and later), so that the backend is compiled everywhere. Results are CUresult, 0 for
 * success; device addresses are 64-bit numbers; handles are pointers to what only the driver knows.
 *
 * Source: CUDA Driver API reference manual.
 */
#ifndef MTR_CUDA_DRIVER_H
#define MTR_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

struct cu_context;
struct cu_module;
struct cu_function;
struct cu_stream;
struct cu_event;
struct cu_graph;
struct cu_graph_exec;

enum cu_result {
    CU_SUCCESS = 0,
    CU_ERROR_OUT_OF_MEMORY = 2,
    CU_ERROR_NO_DEVICE = 100,
    CU_ERROR_INVALID_DEVICE = 101,
    CU_ERROR_NOT_FOUND = 500,
    CU_ERROR_NOT_READY = 600,
};

enum cu_device_attribute {
    CU_PROCESSORS = 16,
    CU_INTEGRATED = 18,
    CU_CAPABILITY_MAJOR = 75,
    CU_CAPABILITY_MINOR = 76,
    CU_SHARED_BYTES = 97, /* of a block that asks for more than usual */
};

enum cu_function_attribute { CU_STATIC_SHARED_BYTES = 1, CU_DYNAMIC_SHARED_LIMIT = 8 };

enum cu_jit_option { CU_JIT_LOG_BUFFER = 5, CU_JIT_LOG_BYTES = 6 };

/* How a kernel is launched (CUlaunchConfig), and what else is asked for (CUlaunchAttribute). */
struct cu_launch_attribute {
    int id, padding;
    union {
        char bytes[64];
        int allowed;
    } value;
};

struct cu_launch {
    unsigned grid[3], block[3];
    unsigned shared_bytes;
    struct cu_stream *stream;
    struct cu_launch_attribute *attributes;
    unsigned attribute_count;
};

enum cu_launch_attribute_id { CU_PROGRAMMATIC_STREAM_SERIALIZATION = 6 };

/* Of cuTensorMapEncodeTiled. */
enum cu_tensor_map {
    CU_TENSOR_BF16 = 9,
    CU_TENSOR_INTERLEAVE_NONE = 0,
    CU_TENSOR_SWIZZLE_128B = 3,
    CU_TENSOR_L2_256B = 3,
    CU_TENSOR_OUTSIDE_ZERO = 0,
};

#define CU_STREAM_NON_BLOCKING  1u /* does not wait for the legacy stream 0 */
#define CU_CAPTURE_THREAD_LOCAL 1  /* other threads may allocate while this one captures */

/* X(result's name in this table, symbol, arguments) */
#define MTR_CUDA_FUNCTIONS(X)                                                                      \
    X(error_name, cuGetErrorName, (int, const char **))                                            \
    X(error_string, cuGetErrorString, (int, const char **))                                        \
    X(init, cuInit, (unsigned))                                                                    \
    X(driver_version, cuDriverGetVersion, (int *))                                                 \
    X(device_count, cuDeviceGetCount, (int *))                                                     \
    X(device_get, cuDeviceGet, (int *, int))                                                       \
    X(device_name, cuDeviceGetName, (char *, int, int))                                            \
    X(device_attribute, cuDeviceGetAttribute, (int *, int, int))                                   \
    X(device_memory, cuDeviceTotalMem_v2, (size_t *, int))                                         \
    X(context_retain, cuDevicePrimaryCtxRetain, (struct cu_context **, int))                       \
    X(context_release, cuDevicePrimaryCtxRelease_v2, (int))                                        \
    X(context_set, cuCtxSetCurrent, (struct cu_context *))                                         \
    X(memory_info, cuMemGetInfo_v2, (size_t *, size_t *))                                          \
    X(memory_alloc, cuMemAlloc_v2, (uint64_t *, size_t))                                           \
    X(memory_free, cuMemFree_v2, (uint64_t))                                                       \
    X(host_alloc, cuMemHostAlloc, (void **, size_t, unsigned))                                     \
    X(host_free, cuMemFreeHost, (void *))                                                          \
    X(upload, cuMemcpyHtoDAsync_v2, (uint64_t, const void *, size_t, struct cu_stream *))          \
    X(download, cuMemcpyDtoHAsync_v2, (void *, uint64_t, size_t, struct cu_stream *))              \
    X(copy, cuMemcpyDtoDAsync_v2, (uint64_t, uint64_t, size_t, struct cu_stream *))                \
    X(fill, cuMemsetD8Async, (uint64_t, unsigned char, size_t, struct cu_stream *))                \
    X(module_load, cuModuleLoadDataEx,                                                             \
      (struct cu_module **, const void *, unsigned, int *, void **))                               \
    X(module_unload, cuModuleUnload, (struct cu_module *))                                         \
    X(module_function, cuModuleGetFunction,                                                        \
      (struct cu_function **, struct cu_module *, const char *))                                   \
    X(function_attribute, cuFuncGetAttribute, (int *, int, struct cu_function *))                  \
    X(function_set, cuFuncSetAttribute, (struct cu_function *, int, int))                          \
    X(launch, cuLaunchKernelEx,                                                                    \
      (const struct cu_launch *, struct cu_function *, void **, void **))                          \
    X(tensor_map, cuTensorMapEncodeTiled,                                                          \
      (void *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *,        \
       const uint32_t *, int, int, int, int))                                                      \
    X(stream_create, cuStreamCreate, (struct cu_stream **, unsigned))                              \
    X(stream_destroy, cuStreamDestroy_v2, (struct cu_stream *))                                    \
    X(stream_synchronize, cuStreamSynchronize, (struct cu_stream *))                               \
    X(stream_wait_event, cuStreamWaitEvent, (struct cu_stream *, struct cu_event *, unsigned))     \
    X(event_create, cuEventCreate, (struct cu_event **, unsigned))                                 \
    X(event_destroy, cuEventDestroy_v2, (struct cu_event *))                                       \
    X(event_record, cuEventRecord, (struct cu_event *, struct cu_stream *))                        \
    X(event_synchronize, cuEventSynchronize, (struct cu_event *))                                  \
    X(event_query, cuEventQuery, (struct cu_event *))                                              \
    X(event_elapsed, cuEventElapsedTime, (float *, struct cu_event *, struct cu_event *))          \
    X(capture_begin, cuStreamBeginCapture_v2, (struct cu_stream *, int))                           \
    X(capture_end, cuStreamEndCapture, (struct cu_stream *, struct cu_graph **))                   \
    X(graph_instantiate, cuGraphInstantiateWithFlags,                                              \
      (struct cu_graph_exec **, struct cu_graph *, unsigned long long))                            \
    X(graph_destroy, cuGraphDestroy, (struct cu_graph *))                                          \
    X(graph_upload, cuGraphUpload, (struct cu_graph_exec *, struct cu_stream *))                   \
    X(graph_launch, cuGraphLaunch, (struct cu_graph_exec *, struct cu_stream *))                   \
    X(graph_exec_destroy, cuGraphExecDestroy, (struct cu_graph_exec *))

#define MTR_CUDA_DECLARE(name, symbol, arguments) int(*name) arguments;

struct mtr_cuda_driver {
    void *handle;
    int version; /* 13000 for CUDA 13.0 */
    MTR_CUDA_FUNCTIONS(MTR_CUDA_DECLARE)
    /* From driver 12.4 on, else NULL: offset and size of a kernel's parameter. */
    int (*parameter_info)(struct cu_function *, size_t, size_t *, size_t *);
};

/* Opens the driver and initializes it. path: NULL for the system's. MTR_NOT_FOUND when there is
 * no driver or no device, MTR_UNSUPPORTED for a driver that is too old. */
bool mtr_cuda_open(struct mtr_cuda_driver *d, const char *path, struct mtr_error *err);
void mtr_cuda_close(struct mtr_cuda_driver *d);

/* "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)" */
void mtr_cuda_describe(const struct mtr_cuda_driver *d, int result, char *text, size_t bytes);

/* The context is dead after this result: nothing in it can be used any more, by anyone. */
bool mtr_cuda_is_sticky(int result);

#endif
