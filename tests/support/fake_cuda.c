/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Every function writes its line, then does what the script says or the little that it can.
 */
#include "tests/support/fake_cuda.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/args/sample.h"
#include "worker/backend/cuda/driver.h"

#define LOG_BYTES    65536
#define MAX_FAILURES 8
#define MAX_SAMPLES  4 /* launches of that kernel in one graph */
#define KEPT         1024
#define MEMORY_BYTES ((size_t)8 << 30)
#define SHARED_BYTES 232448

struct cu_context {
    int device;
};

struct cu_module {
    char kind; /* 'c'ubin or 'p'tx */
};

struct cu_function {
    char name[64];
};

struct cu_stream {
    bool capturing;
};

struct cu_event {
    unsigned turn; /* of the clock, when it was recorded */
};

struct cu_graph {
    unsigned launches;
    unsigned sample_count;
    struct mtr_sample_args samples[MAX_SAMPLES];
};

struct cu_graph_exec {
    struct cu_graph graph;
};

struct failure {
    char symbol[48];
    unsigned good;
    int result;
};

static struct {
    char log[LOG_BYTES];
    size_t used;
    struct failure failures[MAX_FAILURES];
    size_t failure_count, parameter_bytes, allocated_bytes;
    int major, minor, devices;
    unsigned turn;
    struct cu_graph captured;
    struct cu_context context;
    const char *once; /* the file that says that something failed */
    bool ready;
} fake;

/* Read by a leak checker alone. */
void *fake_kept[KEPT];
size_t fake_kept_count;

#define DECLARE(name, symbol, arguments) int symbol arguments;
MTR_CUDA_FUNCTIONS(DECLARE)
int cuFuncGetParamInfo(struct cu_function *f, size_t index, size_t *offset, size_t *bytes);

static void script_from_environment(void)
{
    const char *script = getenv("FAKE_CUDA_FAIL"), *once = getenv("FAKE_CUDA_ONCE");
    struct failure *f = &fake.failures[0];
    fake.once = once;
    if (script && (!once || access(once, F_OK) != 0) &&
        sscanf(script, "%47[^:]:%u:%d", f->symbol, &f->good, &f->result) == 3)
        fake.failure_count = 1;
}

void fake_cuda_reset(void)
{
    const char *capability = getenv("FAKE_CUDA_CAPABILITY"), *devices = getenv("FAKE_CUDA_DEVICES");
    memset(&fake, 0, sizeof fake);
    fake.ready = true;
    fake.major = 9;
    fake.devices = devices ? (int)strtol(devices, NULL, 10) : 1;
    if (capability)
        sscanf(capability, "%d.%d", &fake.major, &fake.minor);
    script_from_environment();
}

void fake_cuda_capability(int major, int minor)
{
    fake.major = major;
    fake.minor = minor;
}

void fake_cuda_fail(const char *symbol, unsigned good, int result)
{
    struct failure *f = &fake.failures[fake.failure_count++ % MAX_FAILURES];
    *f = (struct failure){.good = good, .result = result};
    snprintf(f->symbol, sizeof f->symbol, "%s", symbol);
}

void fake_cuda_parameter(size_t bytes)
{
    fake.parameter_bytes = bytes;
}

const char *fake_cuda_log(void)
{
    return fake.log;
}

static void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(fake.log + fake.used, LOG_BYTES - fake.used, format, args);
    va_end(args);
    if (n > 0 && fake.used + (size_t)n < LOG_BYTES)
        fake.used += (size_t)n;
}

static int scripted(const char *symbol)
{
    if (!fake.ready)
        fake_cuda_reset();
    for (size_t i = 0; i < fake.failure_count && i < MAX_FAILURES; i++) {
        struct failure *f = &fake.failures[i];
        if (strcmp(f->symbol, symbol) != 0)
            continue;
        if (!f->good && fake.once && *fake.once)
            close(open(fake.once, O_CREAT | O_WRONLY, 0600));
        if (!f->good)
            return f->result;
        f->good--;
    }
    return CU_SUCCESS;
}

/* Writes a call down; its scripted result. */
#define CALL(...) (say("%s", __func__), say("" __VA_ARGS__), say("\n"), scripted(__func__))

/* What a lost context held is nobody's to free, and no leak. */
static void *keep(void *p)
{
    fake_kept[fake_kept_count++ % KEPT] = p;
    return p;
}

int cuGetErrorName(int result, const char **name)
{
    static const struct {
        int result;
        const char *name;
    } names[] = {{2, "CUDA_ERROR_OUT_OF_MEMORY"},
                 {100, "CUDA_ERROR_NO_DEVICE"},
                 {218, "CUDA_ERROR_INVALID_PTX"},
                 {500, "CUDA_ERROR_NOT_FOUND"},
                 {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                 {719, "CUDA_ERROR_LAUNCH_FAILED"},
                 {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].result == result) {
            *name = names[i].name;
            return CU_SUCCESS;
        }
    return 1;
}

int cuGetErrorString(int result, const char **words)
{
    *words = "as scripted";
    return CU_SUCCESS;
}

int cuInit(unsigned flags)
{
    int result = CALL();
    return result ? result : fake.devices ? CU_SUCCESS : CU_ERROR_NO_DEVICE;
}

int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return CALL();
}

int cuDeviceGetCount(int *count)
{
    *count = fake.devices;
    return CALL();
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return CALL(" %d", ordinal);
}

int cuDeviceGetName(char *name, int bytes, int device)
{
    snprintf(name, (size_t)bytes, "Scripted GPU %d", device);
    return CALL();
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    *value = attribute == CU_PROCESSORS         ? 132
             : attribute == CU_CAPABILITY_MAJOR ? fake.major
             : attribute == CU_CAPABILITY_MINOR ? fake.minor
             : attribute == CU_SHARED_BYTES     ? SHARED_BYTES
                                                : 0;
    return scripted(__func__);
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    *bytes = MEMORY_BYTES;
    return CALL();
}

int cuDevicePrimaryCtxRetain(struct cu_context **context, int device)
{
    *context = &fake.context;
    return CALL(" %d", device);
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    return CALL(" %d", device);
}

int cuCtxSetCurrent(struct cu_context *context)
{
    return CALL();
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    *total = MEMORY_BYTES;
    *free_bytes = MEMORY_BYTES - fake.allocated_bytes;
    return scripted(__func__);
}

/* The size stands before the memory, so that freeing can count it. */
static void *take(size_t bytes)
{
    size_t *block = keep(aligned_alloc(256, (bytes + 511) / 256 * 256));
    if (!block)
        return NULL;
    memset(block, 0, bytes + 256); /* what kernels would have written is zero */
    *block = bytes;
    fake.allocated_bytes += bytes;
    return (char *)block + 256;
}

static void give_back(void *p)
{
    size_t *block = (size_t *)(void *)((char *)p - 256);
    fake.allocated_bytes -= *block;
    free(block);
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
    int result = CALL(" %zu", bytes);
    void *p = result ? NULL : bytes > MEMORY_BYTES ? NULL : take(bytes);
    *address = (uint64_t)(uintptr_t)p;
    return result ? result : p ? CU_SUCCESS : CU_ERROR_OUT_OF_MEMORY;
}

int cuMemFree_v2(uint64_t address)
{
    int result = CALL();
    if (!result)
        give_back((void *)(uintptr_t)address);
    return result;
}

int cuMemHostAlloc(void **p, size_t bytes, unsigned flags)
{
    int result = CALL(" %zu", bytes);
    *p = result ? NULL : malloc(bytes);
    return result;
}

int cuMemFreeHost(void *p)
{
    int result = CALL();
    if (!result)
        free(p);
    return result;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, struct cu_stream *s)
{
    int result = CALL(" %zu", bytes);
    if (!result)
        memcpy((void *)(uintptr_t)to, from, bytes);
    return result;
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, struct cu_stream *s)
{
    int result = CALL(" %zu", bytes);
    if (!result)
        memcpy(to, (const void *)(uintptr_t)from, bytes);
    return result;
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, struct cu_stream *s)
{
    int result = CALL(" %zu", bytes);
    if (!result)
        memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return result;
}

int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, struct cu_stream *s)
{
    int result = CALL(" %zu", bytes);
    if (!result)
        memset((void *)(uintptr_t)to, value, bytes);
    return result;
}

/* A compiler that fails says why. */
int cuModuleLoadDataEx(struct cu_module **module, const void *image, unsigned count, int *options,
                       void **values)
{
    bool elf = memcmp(image, "\177ELF", 4) == 0;
    int result = CALL(" %s", elf ? "cubin" : "ptx");
    if (result && count && options[0] == CU_JIT_LOG_BUFFER)
        snprintf(values[0], 32, "ptxas said no\nat length");
    *module = result ? NULL : keep(calloc(1, sizeof **module));
    return result;
}

int cuModuleUnload(struct cu_module *module)
{
    free(module);
    return CALL();
}

/* Functions live as long as the driver: a few a test. */
int cuModuleGetFunction(struct cu_function **f, struct cu_module *module, const char *name)
{
    static struct cu_function functions[64];
    static size_t count;
    int result = CALL(" %s", name);
    *f = &functions[count++ % 64];
    snprintf((*f)->name, sizeof(*f)->name, "%s", name);
    return result;
}

int cuFuncGetAttribute(int *value, int attribute, struct cu_function *f)
{
    *value = 1024;
    return scripted(__func__);
}

int cuFuncSetAttribute(struct cu_function *f, int attribute, int value)
{
    return CALL(" %s %d %d", f->name, attribute, value);
}

int cuFuncGetParamInfo(struct cu_function *f, size_t index, size_t *offset, size_t *bytes)
{
    *offset = 0;
    *bytes = fake.parameter_bytes;
    return fake.parameter_bytes ? CU_SUCCESS : 1;
}

static int32_t token_before(const struct mtr_step_view *step, int32_t row)
{
    int32_t id = step->token_ids[row];
    return id < 0 ? step->last_tokens[-1 - id] : id;
}

static void sample(const struct mtr_sample_args *a)
{
    const struct mtr_step_view *step = a->step;
    for (uint32_t r = 0; r < step->outputs; r++) {
        int32_t row = step->output_rows[r];
        uint32_t mixed =
            (uint32_t)step->positions[row] * 31 + (uint32_t)token_before(step, row) * 7;
        a->tokens[r] = (int32_t)(a->vocab / 4 + mixed % (a->vocab / 2));
    }
    for (uint32_t r = 0; r < step->outputs; r++)
        a->last_tokens[step->lane_slots[step->token_lanes[step->output_rows[r]]]] = a->tokens[r];
}

static bool samples(const struct cu_function *f)
{
    return strcmp(f->name, "argmax") == 0 || strcmp(f->name, "sample") == 0;
}

static void compute(const struct cu_function *f, const struct mtr_sample_args *args, bool capturing)
{
    struct cu_graph *g = &fake.captured;
    g->launches += capturing;
    if (samples(f) && capturing && g->sample_count < MAX_SAMPLES)
        g->samples[g->sample_count++] = *args;
    else if (samples(f) && !capturing)
        sample(args);
}

int cuLaunchKernelEx(const struct cu_launch *l, struct cu_function *f, void **parameters,
                     void **extra)
{
    compute(f, parameters[0], l->stream->capturing);
    return CALL(" %s %ux%ux%u %ux%ux%u %u arg %u%s", f->name, l->grid[0], l->grid[1], l->grid[2],
                l->block[0], l->block[1], l->block[2], l->shared_bytes,
                *(const unsigned *)parameters[0], l->attribute_count ? " early" : "");
}

int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *size,
                           const uint64_t *stride, const uint32_t *box, const uint32_t *step,
                           int interleave, int swizzle, int promotion, int outside)
{
    memset(map, 0x5a, 128);
    return CALL(" %u [%u %u] by %u", (unsigned)stride[0], (unsigned)size[1], (unsigned)size[0],
                box[1]);
}

int cuStreamCreate(struct cu_stream **s, unsigned flags)
{
    int result = CALL(" %u", flags);
    *s = result ? NULL : keep(calloc(1, sizeof **s));
    return result;
}

int cuStreamDestroy_v2(struct cu_stream *s)
{
    free(s);
    return CALL();
}

int cuStreamSynchronize(struct cu_stream *s)
{
    return CALL();
}

int cuStreamWaitEvent(struct cu_stream *s, struct cu_event *e, unsigned flags)
{
    return CALL();
}

int cuEventCreate(struct cu_event **e, unsigned flags)
{
    int result = CALL();
    *e = result ? NULL : calloc(1, sizeof **e);
    return result;
}

int cuEventDestroy_v2(struct cu_event *e)
{
    free(e);
    return CALL();
}

int cuEventRecord(struct cu_event *e, struct cu_stream *s)
{
    e->turn = ++fake.turn;
    return CALL();
}

int cuEventSynchronize(struct cu_event *e)
{
    return CALL();
}

int cuEventQuery(struct cu_event *e)
{
    return CALL();
}

/* Each record is a millisecond after the one before. */
int cuEventElapsedTime(float *ms, struct cu_event *from, struct cu_event *to)
{
    *ms = (float)(to->turn - from->turn);
    return CALL();
}

int cuStreamBeginCapture_v2(struct cu_stream *s, int mode)
{
    int result = CALL(" %d", mode);
    s->capturing = !result;
    fake.captured = (struct cu_graph){0};
    return result;
}

int cuStreamEndCapture(struct cu_stream *s, struct cu_graph **graph)
{
    int result = CALL();
    s->capturing = false;
    *graph = result ? NULL : calloc(1, sizeof **graph);
    if (*graph)
        **graph = fake.captured;
    return result;
}

int cuGraphInstantiateWithFlags(struct cu_graph_exec **exec, struct cu_graph *graph,
                                unsigned long long flags)
{
    int result = CALL(" %u", graph->launches);
    *exec = result ? NULL : calloc(1, sizeof **exec);
    if (*exec)
        (*exec)->graph = *graph;
    return result;
}

int cuGraphDestroy(struct cu_graph *graph)
{
    free(graph);
    return CALL();
}

int cuGraphUpload(struct cu_graph_exec *exec, struct cu_stream *s)
{
    return CALL();
}

int cuGraphLaunch(struct cu_graph_exec *exec, struct cu_stream *s)
{
    int result = CALL(" %u", exec->graph.launches);
    for (unsigned i = 0; !result && i < exec->graph.sample_count; i++)
        sample(&exec->graph.samples[i]);
    return result;
}

int cuGraphExecDestroy(struct cu_graph_exec *exec)
{
    free(exec);
    return CALL();
}
