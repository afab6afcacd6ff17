/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * metralectl kernels: the CUDA kernels that are compiled into this build's worker.
 */
#include "kernels/images/images.h"

#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"

static const struct mtr_kernel_image *image_of(const struct mtr_kernel_module *m)
{
    uint32_t count;
    return &mtr_kernel_images(&count)[m->cubin];
}

static bool is_common(const struct mtr_kernel_target *t)
{
    return t->model[0] == '*';
}

/* "hopper", or "hopper/qwen3-8b/nvfp4" for a leaf. */
static const char *name_of(const struct mtr_kernel_target *t, char *out, size_t bytes)
{
    if (is_common(t))
        snprintf(out, bytes, "%s", t->hardware);
    else
        snprintf(out, bytes, "%s/%s/%s", t->hardware, t->model, t->quant);
    return out;
}

static uint64_t bytes_of(const struct mtr_kernel_target *t, bool ptx)
{
    uint32_t count;
    const struct mtr_kernel_image *images = mtr_kernel_images(&count);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < t->module_count; i++) {
        uint32_t image = ptx ? t->modules[i].ptx : t->modules[i].cubin;
        bytes += image < count ? images[image].bytes : 0;
    }
    return bytes;
}

static void list(void)
{
    uint32_t count, functions;
    const struct mtr_kernel_target *targets = mtr_kernel_targets(&count);
    char name[128];
    printf("%-28s %-9s %7s %9s %10s %10s  %s\n", "target", "arch", "modules", "functions",
           "cubin KiB", "PTX KiB", "closure");
    for (uint32_t i = 0; i < count; i++) {
        const struct mtr_kernel_target *t = &targets[i];
        functions = 0;
        for (uint32_t m = 0; m < t->module_count; m++)
            functions += image_of(&t->modules[m])->function_count;
        printf("%-28s %-9s %7u %9u %10llu %10llu  %.16s\n", name_of(t, name, sizeof name), t->arch,
               t->module_count, functions, (unsigned long long)bytes_of(t, false) / 1024,
               (unsigned long long)bytes_of(t, true) / 1024, t->closure);
    }
}

static void show_module(const struct mtr_kernel_module *m)
{
    uint32_t count;
    const struct mtr_kernel_image *images = mtr_kernel_images(&count), *image = image_of(m);
    printf("\n%s: %s for %s, %llu bytes", m->name, image->source, image->arch,
           (unsigned long long)image->bytes);
    if (m->ptx < count)
        printf("; PTX for %s, %llu bytes", images[m->ptx].arch,
               (unsigned long long)images[m->ptx].bytes);
    printf("\n  %-36s %9s %13s %13s\n", "function", "registers", "static shared", "spilled bytes");
    for (uint32_t i = 0; i < image->function_count; i++) {
        const struct mtr_kernel_function *f = &image->functions[i];
        printf("  %-36s %9u %13u %13u\n", f->name, f->registers, f->shared_bytes, f->spill_bytes);
    }
}

static bool show(const struct mtr_kernel_target *t, const char *module, struct mtr_error *err)
{
    bool found = false;
    char name[128];
    printf("%s, %s, closure %s\n", name_of(t, name, sizeof name), t->arch, t->closure);
    for (uint32_t i = 0; i < t->module_count; i++)
        if (!module || strcmp(t->modules[i].name, module) == 0) {
            show_module(&t->modules[i]);
            found = true;
        }
    return found || mtr_fail(err, MTR_NOT_FOUND, "%s has no module %s", name, module);
}

/* What each module is compiled from, as one hash: equal ones are equal code. */
static void closure(const struct mtr_kernel_target *t)
{
    printf("%s  %s\n", t->closure, t->hardware);
    for (uint32_t i = 0; i < t->module_count; i++) {
        const struct mtr_kernel_image *image = image_of(&t->modules[i]);
        printf("%s  %s %s\n", image->closure, image->source, image->arch);
    }
}

static const struct mtr_kernel_target *find(const char *wanted, struct mtr_error *err)
{
    uint32_t count;
    const struct mtr_kernel_target *targets = mtr_kernel_targets(&count);
    struct mtr_buf names = {0};
    char name[128];
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(name_of(&targets[i], name, sizeof name), wanted) == 0) {
            mtr_buf_free(&names);
            return &targets[i];
        }
        mtr_buf_printf(&names, "%s%s", i ? ", " : "", name);
    }
    mtr_fail(err, MTR_NOT_FOUND, "this build has no target %s; it has: %.*s", wanted,
             names.len ? (int)names.len : 4, names.len ? names.data : "none");
    mtr_buf_free(&names);
    return NULL;
}

static bool answer(const char *const words[3], struct mtr_error *err)
{
    uint32_t count;
    mtr_kernel_targets(&count);
    if (!words[0])
        return mtr_fail(err, MTR_INVALID, "list, show or closure?");
    bool is_show = strcmp(words[0], "show") == 0;
    if (!is_show && strcmp(words[0], "list") != 0 && strcmp(words[0], "closure") != 0)
        return mtr_fail(err, MTR_INVALID, "list, show or closure? Not '%s'", words[0]);
    if (count == 0)
        return mtr_fail(err, MTR_NOT_FOUND,
                        "this build has no CUDA kernels: it was made without nvcc");
    if (strcmp(words[0], "list") == 0)
        return list(), true;
    if (!words[1])
        return mtr_fail(err, MTR_INVALID, "%s of which target? 'kernels list' names them",
                        words[0]);
    const struct mtr_kernel_target *t = find(words[1], err);
    if (!t)
        return false;
    if (is_show)
        return show(t, words[2], err);
    return closure(t), true;
}

int mtr_ctl_kernels(int argc, char **argv)
{
    bool help = false;
    struct mtr_flag flags[] = {{"help", MTR_FLAG_BOOL, &help, NULL, "print this"}};
    const char *words[3] = {0};
    struct mtr_error error = {0};
    size_t n;
    if (!mtr_flags_parse(flags, 1, argc, argv, words, 3, &n, &error))
        return mtr_ctl_error(argv[0], &error);
    if (help)
        return mtr_ctl_help(argv[0], flags, 1);
    return answer(words, &error) ? 0 : mtr_ctl_error(argv[0], &error);
}
