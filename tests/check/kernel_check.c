/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * kernel-check: does every kernel of a class compute what its host twin does, and the same bytes
 * however a step is cut?
 *
 * Each point of the class's families is run on random arguments: against the host twin (relative
 * error of each row), and against itself in every shape, under larger grids, with fewer rows beside
 * a row, with rows cut into other lanes. One JSON object a line. Exit status: 0 all right, 1
 * something differs, 2 something could not be run, 77 there is no such device.
 */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "common/circuit/fuser.h"
#include "common/circuit/rules.h"
#include "tests/check/kernel_cases.h"
#include "tests/check/kernel_dummy.h"
#include "tests/check/kernel_sample.h"
#include "tests/check/kernel_times.h"

#define TOLERANCE 5e-3
#define SEEDS     3
#define SKIPPED   77

static const char help[] =
    "Usage: kernel-check [--class NAME] [--only FUNCTION] [--seeds N] [--time]\n"
    "\n"
    "  --class NAME     hardware class that is checked against the host class (host)\n"
    "  --only FUNCTION  only points whose function begins with this\n"
    "  --seeds N        random contents of each case (3)\n"
    "  --time           time the points on a model's shapes instead\n";

static const struct option options[] = {
    {"class", required_argument, NULL, 'c'}, {"only", required_argument, NULL, 'o'},
    {"seeds", required_argument, NULL, 's'}, {"time", no_argument, NULL, 't'},
    {"help", no_argument, NULL, '?'},        {NULL, 0, NULL, 0},
};

static const struct rig_variant plain = {.name = "as it is", .shape = -1};

static const struct rig_variant variants[] = {
    {.name = "larger grid", .shape = -1, .extra = 23},
    {.name = "one row", .shape = -1, .rows = 1},
    {.name = "five rows", .shape = -1, .rows = 5},
    {.name = "lanes of one row", .shape = -1, .lanes = RIG_SINGLE},
    {.name = "lanes of one row, not split", .shape = -1, .lanes = RIG_SINGLE, .processors = 1},
    {.name = "lanes of one row, larger grid", .shape = -1, .lanes = RIG_SINGLE, .extra = 5},
    {.name = "lanes of one row, split", .shape = -1, .lanes = RIG_SINGLE, .processors = 5000},
    {.name = "two lanes", .shape = -1, .lanes = RIG_HALVES},
};

struct verdict {
    double error;      /* worst relative error of a row */
    char fault[160];   /* "", or what is wrong */
    uint32_t variants; /* that gave the same bytes */
};

static void blame(struct verdict *v, const char *variant, const char *what, uint32_t row)
{
    if (!v->fault[0])
        snprintf(v->fault, sizeof v->fault, "%s: %s in row %u", variant, what, row);
}

/* NaN in the same places, and a small distance. */
static void compare_rows(const struct rig_part *want, const struct rig_part *have, double tolerance,
                         struct verdict *out)
{
    for (uint32_t row = 0; row < want->rows; row++) {
        const float *a = want->values + (size_t)row * want->cols;
        const float *b = have->values + (size_t)row * want->cols;
        double distance = 0, size = 0;
        for (uint32_t i = 0; i < want->cols; i++) {
            if (isnan(a[i]) != isnan(b[i])) {
                blame(out, plain.name, isnan(a[i]) ? "written outside" : "not a number", row);
                continue;
            }
            double d = isnan(a[i]) ? 0 : (double)b[i] - (double)a[i];
            distance += d * d;
            size += isnan(a[i]) ? 0 : (double)a[i] * (double)a[i];
        }
        double error = distance > 0 ? sqrt(distance / (size > 0 ? size : 1e-30)) : 0;
        out->error = error > out->error ? error : out->error;
        if (!(error <= tolerance))
            blame(out, plain.name, "too far from the host", row);
    }
}

static void compare_bytes(const struct rig_part *want, const struct rig_part *have,
                          const char *variant, struct verdict *out)
{
    for (uint32_t row = 0; row < have->valid; row++)
        if (memcmp(want->bytes + row * want->row_bytes, have->bytes + row * want->row_bytes,
                   want->row_bytes) != 0)
            blame(out, variant, "other bytes", row);
    for (uint32_t row = have->valid; row < have->rows && have->poisoned; row++)
        for (uint32_t i = 0; i < have->cols; i++)
            if (!isnan(have->values[(size_t)row * have->cols + i]))
                blame(out, variant, "written outside", row);
}

static void try_variant(struct rig *r, const struct rig_variant *v, const struct rig_result *base,
                        struct verdict *out)
{
    struct rig_result have;
    rig_run(r, RIG_SUBJECT, v, &have);
    bool whole_cache = !(r->cache_is_output && v->rows);
    for (uint32_t i = 0; i < have.count && !r->err.code; i++)
        if (have.parts[i].valid < have.parts[i].rows || whole_cache)
            compare_bytes(&base->parts[i], &have.parts[i], v->name, out);
    out->variants += !r->err.code;
    rig_result_free(&have);
}

static void try_variants(struct rig *r, const struct mtr_point *p, bool attention,
                         const struct rig_result *base, struct verdict *out)
{
    struct rig_variant shape = {.name = "another shape"};
    for (; !attention && shape.shape < (int)p->shape_count && !r->err.code; shape.shape++)
        if (p->shape_count > 1)
            try_variant(r, &shape, base, out);
    for (size_t i = 0; i < sizeof variants / sizeof *variants && !r->err.code; i++)
        if (variants[i].rows <= r->rows)
            try_variant(r, &variants[i], base, out);
}

static void run_seed(struct rig *r, const struct mtr_family *f, const struct mtr_point *p,
                     const struct kernel_case *c, uint64_t seed, struct verdict *out)
{
    struct rig_result want = {.count = 0}, have = {.count = 0};
    rig_begin(r, f, p, seed, c->sequences, kernel_case_sequences(c));
    c->build(r, c);
    rig_run(r, RIG_HOST, &plain, &want);
    rig_run(r, RIG_SUBJECT, &plain, &have);
    for (uint32_t i = 0; i < have.count && !r->err.code; i++)
        compare_rows(&want.parts[i], &have.parts[i], TOLERANCE, out);
    if (!r->err.code)
        try_variants(r, p, strcmp(f->name, "attention") == 0, &have, out);
    rig_result_free(&want);
    rig_result_free(&have);
    rig_end(r);
}

/* Returns an exit status. */
static int run_case(struct rig *r, const struct mtr_family *f, const struct mtr_point *p,
                    const struct kernel_case *c, uint32_t seeds)
{
    struct verdict v = {0};
    char name[200];
    kernel_case_name(c, name, sizeof name);
    for (uint32_t seed = 1; seed <= seeds && !r->err.code; seed++)
        run_seed(r, f, p, c, seed, &v);
    if (r->err.code) {
        fprintf(stderr, "kernel-check: %s, %s: %s\n", p->function, name, r->err.message);
        return 2;
    }
    printf("{\"kernel\":\"%s\",\"case\":\"%s\",\"error\":%.2e,\"variants\":%u,\"ok\":%s%s%s%s}\n",
           p->function, name, v.error, v.variants, v.fault[0] ? "false" : "true",
           v.fault[0] ? ",\"fault\":\"" : "", v.fault, v.fault[0] ? "\"" : "");
    fflush(stdout);
    return v.fault[0] ? 1 : 0;
}

/* Is there a class beside the host's that has the point? Those that the host alone has are held by
 * their unit tests, and may lack a case here. */
static bool device_computes(const struct mtr_family *f, const struct mtr_point *p)
{
    uint32_t count;
    const struct mtr_hardware *classes = mtr_hardware_classes(&count);
    for (uint32_t i = 0; i < count; i++) {
        const struct mtr_family *twin = mtr_family_find(&classes[i], f->name);
        for (uint32_t j = 0; twin && j < twin->point_count; j++)
            if (strcmp(classes[i].name, "host") != 0 &&
                strcmp(twin->points[j].function, p->function) == 0)
                return true;
    }
    return false;
}

static int run_point(struct rig *r, const struct mtr_family *f, const struct mtr_point *p,
                     uint32_t seeds)
{
    uint32_t count, tried = 0;
    int status = 0;
    const struct kernel_case *cases = kernel_cases(&count);
    for (uint32_t i = 0; i < count; i++) {
        if (!kernel_case_fits(&cases[i], f, p))
            continue;
        int one = run_case(r, f, p, &cases[i], seeds);
        status = one > status ? one : status;
        tried++;
        if (r->sides[RIG_SUBJECT].backend->lost)
            return 2;
        r->err = (struct mtr_error){0};
    }
    if (tried)
        return status;
    fprintf(stderr, "kernel-check: there is no case for %s\n", p->function);
    return device_computes(f, p) ? 2 : 0;
}

static int run_all(struct rig *r, const char *only, uint32_t seeds)
{
    const struct mtr_hardware *h = r->sides[RIG_SUBJECT].hardware;
    int status = 0;
    for (uint32_t i = 0; i < h->family_count; i++)
        for (uint32_t j = 0; j < h->families[i].point_count; j++) {
            const struct mtr_point *p = &h->families[i].points[j];
            if (only && strncmp(p->function, only, strlen(only)) != 0)
                continue;
            int one = run_point(r, &h->families[i], p, seeds);
            status = one > status ? one : status;
            if (r->sides[RIG_SUBJECT].backend->lost)
                return 2;
        }
    int sampled = kernel_sample(r, only, seeds);
    status = sampled > status ? sampled : status;
    r->err = (struct mtr_error){0};
    int made = only && strncmp("dummy", only, strlen(only)) != 0 ? 0 : kernel_dummy(r);
    return made > status ? made : status;
}

int main(int argc, char **argv)
{
    const char *hardware = "host", *only = NULL;
    uint64_t seeds = SEEDS;
    bool timing = false;
    for (int id; (id = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (id == 'c')
            hardware = optarg;
        else if (id == 'o')
            only = optarg;
        else if (id == 't')
            timing = true;
        else if (id != 's' || !mtr_str_to_u64(mtr_str(optarg), &seeds) || seeds == 0)
            return fputs(help, stderr), 2;
    }
    struct mtr_error err = {0};
    struct rig *r = calloc(1, sizeof *r);
    if (!r)
        return 2;
    int status = 2;
    if (rig_open(r, hardware, &err))
        status = timing ? kernel_times(r, only) : run_all(r, only, (uint32_t)seeds);
    else
        fprintf(stderr, "kernel-check: %s\n", err.message);
    if (err.code == MTR_NOT_FOUND)
        status = SKIPPED;
    rig_close(r);
    free(r);
    return status;
}
