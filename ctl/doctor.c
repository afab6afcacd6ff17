/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What this machine has for the server, what is missing, and the remedy.
 *
 * A line a finding. Three verdicts: ok, note (works without), stop (a launch can't succeed). The
 * exit status is not 0 if anything stops a launch.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/json.h"
#include "common/base/program.h"
#include "ctl/ctl.h"
#include "kernels/images/images.h"

#define MAX_FINDINGS  128
#define MIN_MEMORY_MB 512
#define MAX_GIDS      256

enum verdict { OK, NOTE, STOP };

struct finding {
    enum verdict verdict;
    const char *what;
    const char *found;
    const char *remedy; /* or NULL */
};

struct doctor {
    struct mtr_arena arena;
    struct finding findings[MAX_FINDINGS];
    size_t count;
};

static void find(struct doctor *d, enum verdict verdict, const char *what, const char *remedy,
                 const char *found)
{
    if (d->count < MAX_FINDINGS)
        d->findings[d->count++] = (struct finding){verdict, what, found ? found : "?", remedy};
}

/* ---- Processor and memory ---------------------------------------------------------------------
 */

/* The value behind "key" in a /proc file of "key : value" lines, first occurrence. */
static const char *proc_value(struct doctor *d, const char *path, const char *key)
{
    FILE *f = fopen(path, "r");
    char line[8192];
    const char *value = NULL;
    while (f && !value && fgets(line, sizeof line, f)) {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        char *colon = strchr(line, ':');
        if (!colon)
            continue;
        colon += strspn(colon, ": \t");
        colon[strcspn(colon, "\n")] = '\0';
        value = mtr_arena_strdup(&d->arena, mtr_str(colon));
    }
    if (f)
        fclose(f);
    return value;
}

static void check_processor(struct doctor *d)
{
    struct utsname u;
    uname(&u);
    const char *model = proc_value(d, "/proc/cpuinfo", "model name");
    const char *flags = proc_value(d, "/proc/cpuinfo", "flags");
    const char *isa = NULL;
    if (strcmp(u.machine, "aarch64") == 0)
        isa = "NEON";
    else if (flags && strstr(flags, " avx512vl"))
        isa = "AVX-512";
    else if (flags && strstr(flags, " avx2") && strstr(flags, " fma"))
        isa = "AVX2";
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    find(d, isa ? OK : NOTE, "processor",
         isa ? NULL : "the host kernels will be slow on this processor",
         mtr_arena_printf(&d->arena, "%s, %ld cores, %s kernels", model ? model : u.machine, cores,
                          isa ? isa : "portable C"));
}

/* 0 where the system does not say. */
static uint64_t memory_kb(struct doctor *d, const char *name)
{
    const char *value = proc_value(d, "/proc/meminfo", name);
    uint64_t kb = 0;
    if (value)
        mtr_str_to_u64(mtr_str_sub(mtr_str(value), 0, strspn(value, "0123456789")), &kb);
    return kb;
}

static void check_memory(struct doctor *d)
{
    uint64_t available = memory_kb(d, "MemAvailable"), total = memory_kb(d, "MemTotal");
    bool enough = available / 1024 >= MIN_MEMORY_MB;
    find(d, enough ? OK : STOP, "memory", enough ? NULL : "free some memory",
         mtr_arena_printf(&d->arena, "%.1f of %.1f GB available", (double)available * 1024 / 1e9,
                          (double)total * 1024 / 1e9));
}

static void check_limits(struct doctor *d)
{
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    bool few = files.rlim_max < 1024;
    find(d, few ? NOTE : OK, "open files", few ? "raise the hard limit (ulimit -Hn)" : NULL,
         mtr_arena_printf(&d->arena, "up to %llu", (unsigned long long)files.rlim_max));
}

/* ---- NVIDIA driver ----------------------------------------------------------------------------
 */

typedef int (*cu_init)(unsigned);
typedef int (*cu_count)(int *);
typedef int (*cu_version)(int *);
typedef int (*cu_name)(char *, int, int);
typedef int (*cu_memory)(size_t *, int);
typedef int (*cu_attribute)(int *, int, int);

#define CU_MAJOR 75 /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR */
#define CU_MINOR 76

static void check_devices(struct doctor *d, void *driver)
{
    cu_init init = (cu_init)dlsym(driver, "cuInit");
    cu_count count = (cu_count)dlsym(driver, "cuDeviceGetCount");
    cu_version version = (cu_version)dlsym(driver, "cuDriverGetVersion");
    cu_name name = (cu_name)dlsym(driver, "cuDeviceGetName");
    cu_memory memory = (cu_memory)dlsym(driver, "cuDeviceTotalMem_v2");
    cu_attribute attribute = (cu_attribute)dlsym(driver, "cuDeviceGetAttribute");
    int n = 0, v = 0;
    if (!init || !count || !version || !name || !memory || !attribute) {
        find(d, NOTE, "NVIDIA driver", "install a current driver", "libcuda.so.1 lacks functions");
        return;
    }
    int status = init(0);
    if (status != 0 || count(&n) != 0 || n == 0) {
        find(d, NOTE, "NVIDIA devices", "without one the CPU computes (class host)",
             mtr_arena_printf(&d->arena, "none (cuInit says %d)", status));
        return;
    }
    version(&v);
    find(d, OK, "NVIDIA driver", NULL,
         mtr_arena_printf(&d->arena, "CUDA %d.%d", v / 1000, v % 1000 / 10));
    for (int i = 0; i < n; i++) {
        char text[128] = "?";
        size_t bytes = 0;
        int major = 0, minor = 0;
        name(text, sizeof text - 1, i);
        memory(&bytes, i);
        attribute(&major, CU_MAJOR, i);
        attribute(&minor, CU_MINOR, i);
        find(d, OK, mtr_arena_printf(&d->arena, "device %d", i), NULL,
             mtr_arena_printf(&d->arena, "%s, sm_%d%d, %.1f GB", text, major, minor,
                              (double)bytes / 1e9));
    }
}

static void check_kernels(struct doctor *d)
{
    uint32_t count;
    const struct mtr_kernel_target *targets = mtr_kernel_targets(&count);
    struct mtr_buf names = {0};
    for (uint32_t i = 0; i < count; i++)
        if (targets[i].model[0] == '*')
            mtr_buf_printf(&names, "%s%s (%s)", names.len ? ", " : "", targets[i].hardware,
                           targets[i].arch);
    find(d, names.len ? OK : NOTE, "CUDA kernels",
         names.len ? NULL : "build where there is an nvcc",
         names.len ? mtr_arena_strdup(&d->arena, mtr_buf_view(&names)) : "none in this build");
    mtr_buf_free(&names);
}

static void check_driver(struct doctor *d)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver) {
        find(d, NOTE, "NVIDIA driver", "without one the CPU computes (class host)",
             "not installed");
        return;
    }
    check_devices(d, driver);
    dlclose(driver);
}

/* ---- RDMA -------------------------------------------------------------------------------------
 */

/* RoCE v2 over IPv4 is the GID that NCCL needs: ::ffff:a.b.c.d with type 2. */
static bool is_ipv4_gid(const union ibv_gid *gid)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(gid->raw, prefix, sizeof prefix) == 0;
}

static const char *port_gids(struct doctor *d, struct ibv_context *context, uint8_t port, int count)
{
    struct mtr_buf text = {0};
    for (int i = 0; i < count && i < MAX_GIDS; i++) {
        struct ibv_gid_entry e;
        if (ibv_query_gid_ex(context, port, (uint32_t)i, &e, 0) != 0)
            continue;
        const char *kind = e.gid_type == IBV_GID_TYPE_ROCE_V2   ? "RoCE v2"
                           : e.gid_type == IBV_GID_TYPE_ROCE_V1 ? "RoCE v1"
                                                                : "IB";
        mtr_buf_printf(&text, "%sgid %d %s", text.len ? ", " : "", i, kind);
        if (is_ipv4_gid(&e.gid))
            mtr_buf_printf(&text, " %u.%u.%u.%u", e.gid.raw[12], e.gid.raw[13], e.gid.raw[14],
                           e.gid.raw[15]);
    }
    const char *out = mtr_arena_strdup(&d->arena, mtr_buf_view(&text));
    mtr_buf_free(&text);
    return out;
}

static void check_hca(struct doctor *d, struct ibv_device *device)
{
    struct ibv_context *context = ibv_open_device(device);
    struct ibv_device_attr attr;
    const char *what = mtr_arena_printf(&d->arena, "HCA %s", ibv_get_device_name(device));
    if (!context || ibv_query_device(context, &attr) != 0) {
        find(d, NOTE, what, "check rdma-core and permissions of /dev/infiniband",
             "can't be opened");
        if (context)
            ibv_close_device(context);
        return;
    }
    for (uint8_t port = 1; port <= attr.phys_port_cnt; port++) {
        struct ibv_port_attr p;
        if (ibv_query_port(context, port, &p) != 0)
            continue;
        bool active = p.state == IBV_PORT_ACTIVE;
        find(d, active ? OK : NOTE, what, active ? NULL : "connect the cable, bring the link up",
             mtr_arena_printf(&d->arena, "port %u %s, %s", port, active ? "active" : "down",
                              port_gids(d, context, port, p.gid_tbl_len)));
    }
    ibv_close_device(context);
}

static void check_hcas(struct doctor *d)
{
    int n = 0;
    struct ibv_device **list = ibv_get_device_list(&n);
    if (!list || n == 0)
        find(d, NOTE, "HCAs", "not needed: this version has one worker a model", "none");
    for (int i = 0; list && i < n; i++)
        check_hca(d, list[i]);
    if (list)
        ibv_free_device_list(list);
}

/* ---- Own parts --------------------------------------------------------------------------------
 */

static void check_programs(struct doctor *d)
{
    static const char *const names[] = {"metrale-broker", "metrale-worker"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct mtr_error error = {0};
        const char *path = mtr_program_find(&d->arena, names[i], &error);
        find(d, path ? OK : STOP, names[i], path ? NULL : "install the programs side by side",
             path ? path : mtr_arena_strdup(&d->arena, mtr_str(error.message)));
    }
}

static void check_shared_memory(struct doctor *d)
{
    struct statvfs v;
    bool ok = statvfs("/dev/shm", &v) == 0 && access("/dev/shm", W_OK) == 0;
    find(d, ok ? OK : NOTE, "/dev/shm", ok ? NULL : "mount it (NCCL needs it between ranks)",
         ok ? mtr_arena_printf(&d->arena, "%.1f GB free",
                               (double)v.f_bavail * (double)v.f_frsize / 1e9)
            : "not writable");
}

/* ---- Report -----------------------------------------------------------------------------------
 */

static const char *const verdict_names[] = {"ok", "note", "stop"};

static void print_text(const struct doctor *d)
{
    for (size_t i = 0; i < d->count; i++) {
        const struct finding *f = &d->findings[i];
        printf("%-4s  %-18s %s\n", verdict_names[f->verdict], f->what, f->found);
        if (f->remedy)
            printf("      %-18s %s\n", "", f->remedy);
    }
}

static void print_json(const struct doctor *d)
{
    struct mtr_buf out = {0};
    struct mtr_json_writer w = mtr_json_writer(&out);
    mtr_json_begin_array(&w);
    for (size_t i = 0; i < d->count; i++) {
        const struct finding *f = &d->findings[i];
        mtr_json_begin_object(&w);
        mtr_json_key(&w, "verdict");
        mtr_json_put_cstr(&w, verdict_names[f->verdict]);
        mtr_json_key(&w, "what");
        mtr_json_put_cstr(&w, f->what);
        mtr_json_key(&w, "found");
        mtr_json_put_cstr(&w, f->found);
        mtr_json_key(&w, "remedy");
        if (f->remedy)
            mtr_json_put_cstr(&w, f->remedy);
        else
            mtr_json_put_null(&w);
        mtr_json_end_object(&w);
    }
    mtr_json_end_array(&w);
    printf("%.*s\n", (int)out.len, out.data);
    mtr_buf_free(&out);
}

int mtr_ctl_doctor(int argc, char **argv)
{
    struct doctor d = {.count = 0};
    bool help = false, json = false, stops = false;
    struct mtr_flag flags[] = {
        {"json", MTR_FLAG_BOOL, &json, NULL, "print JSON", 0, 0, NULL},
        {"help", MTR_FLAG_BOOL, &help, NULL, "print this", 0, 0, NULL},
    };
    struct mtr_error error = {0};
    size_t positionals;
    if (!mtr_flags_parse(flags, 2, argc, argv, NULL, 0, &positionals, &error))
        return mtr_ctl_error(argv[0], &error);
    if (help)
        return mtr_ctl_help(argv[0], flags, 2);
    mtr_arena_init(&d.arena, 1u << 22);
    check_processor(&d);
    check_memory(&d);
    check_limits(&d);
    check_shared_memory(&d);
    check_driver(&d);
    check_kernels(&d);
    check_hcas(&d);
    check_programs(&d);
    (json ? print_json : print_text)(&d);
    for (size_t i = 0; i < d.count; i++)
        stops |= d.findings[i].verdict == STOP;
    mtr_arena_free(&d.arena);
    return stops ? MTR_EXIT_FAILED : 0;
}
