/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sim [--first SEED] [--seeds COUNT] [--seconds LIMIT]   runs many seeds, stops at the first
 * failure sim SEED                                               runs one and prints what happens
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/str.h"
#include "tests/sim/sim.h"

struct options {
    uint64_t first, seeds, seconds;
    bool trace;
};

static bool parse(int argc, char **argv, struct options *o)
{
    *o = (struct options){.first = 1, .seeds = 1000, .seconds = 3600};
    if (argc == 2 && mtr_str_to_u64(mtr_str(argv[1]), &o->first)) {
        o->seeds = 1;
        o->trace = true;
        return true;
    }
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t *to = strcmp(argv[i], "--first") == 0     ? &o->first
                       : strcmp(argv[i], "--seeds") == 0   ? &o->seeds
                       : strcmp(argv[i], "--seconds") == 0 ? &o->seconds
                                                           : NULL;
        if (!to || !mtr_str_to_u64(mtr_str(argv[i + 1]), to))
            return false;
    }
    return argc % 2 == 1;
}

/* Everything that can happen must have happened. */
static bool covered(const struct mtr_sim_totals *t)
{
    const struct {
        const char *name;
        uint64_t count;
    } rows[] = {
        {"steps", t->steps},         {"finished", t->finished},       {"stopped", t->stopped},
        {"cancelled", t->cancelled}, {"expired", t->expired},         {"refused", t->refused},
        {"losses", t->losses},       {"preemptions", t->preemptions}, {"hit_tokens", t->hit_tokens},
        {"copies", t->copies},       {"restores", t->restores},       {"snapshots", t->snapshots},
        {"accepted", t->accepted},   {"scored", t->scored},           {"replayed", t->replayed},
    };
    bool all = true;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        printf("%12" PRIu64 " %s\n", rows[i].count, rows[i].name);
        all &= rows[i].count > 0;
    }
    return all;
}

int main(int argc, char **argv)
{
    struct options o;
    struct mtr_sim_totals totals = {0};
    time_t begin = time(NULL);
    if (!parse(argc, argv, &o)) {
        fprintf(stderr, "usage: sim SEED | sim [--first SEED] [--seeds N] [--seconds N]\n");
        return 2;
    }
    uint64_t seed = o.first;
    for (; seed < o.first + o.seeds && (uint64_t)(time(NULL) - begin) < o.seconds; seed++) {
        struct mtr_error err = {0};
        if (!mtr_sim_run(seed, o.trace, &totals, &err)) {
            fprintf(stderr, "seed %" PRIu64 ": %s\n", seed, err.message);
            return 1;
        }
    }
    printf("%12" PRIu64 " seeds\n", seed - o.first);
    bool all = covered(&totals);
    if (!all && !o.trace)
        fprintf(stderr, "something never happened: too few seeds, or a broken simulation\n");
    return all || o.trace ? 0 : 1;
}
