/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The main of a fuzz target without libFuzzer: it feeds the seeds of a folder, then mutations of
 * them.
 *
 *   fuzz_NAME FOLDER [COUNT [ONLY]]
 *
 * Mutation i is a pure function of i and the seeds, so a run repeats itself. When the target dies,
 * the number of the mutation is printed; with ONLY, that one alone is run and written to
 * fuzz-input.
 */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/philox.h"

#define DEFAULT_MUTATIONS 20000
#define MAX_SEEDS         512
#define MAX_SEED_BYTES    (1u << 20)
#define MAX_EDITS         6

static struct mtr_str seeds[MAX_SEEDS];
static size_t seed_count;
static volatile uint32_t current; /* what the signal handler prints */

static void print_current(int signal_number)
{
    char text[48] = "fuzz: died in mutation            \n";
    uint32_t n = current;
    for (int i = 33; i > 23; i--, n /= 10)
        text[i] = (char)('0' + n % 10);
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        _exit(3);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool load_seeds(struct mtr_arena *arena, const char *folder)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, by_name);
    for (int i = 0; i < count; i++) {
        char *path = mtr_arena_printf(arena, "%s/%s", folder, entries[i]->d_name);
        if (seed_count < MAX_SEEDS && mtr_file_exists(path) &&
            mtr_file_read(arena, path, MAX_SEED_BYTES, &seeds[seed_count], NULL))
            seed_count++;
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return seed_count > 0;
}

/* One edit of text [*len] with room for cap bytes. */
static void edit(char *text, size_t *len, size_t cap, const uint32_t r[4])
{
    static const char telling[] = {0,   '"',  '\\', '{',        '}',        '[',        ']', ',',
                                   ':', '\n', '%',  (char)0x7f, (char)0x80, (char)0xff, 1,   '0'};
    size_t at = *len ? r[1] % *len : 0;
    struct mtr_str other = seeds[r[2] % seed_count];
    size_t from = other.len ? r[3] % other.len : 0;
    size_t run = r[1] >> 8 & 15;
    switch (*len ? r[0] % 7 : 6) {
    case 0: /* a bit */
        text[at] ^= (char)(1 << (r[2] & 7));
        break;
    case 1: /* a byte that means something somewhere */
        text[at] = telling[r[2] % sizeof telling];
        break;
    case 2: /* a word of a number: small, large or negative */
        for (size_t i = at; i < *len && i < at + 8; i++)
            text[i] = (char)(r[2] & 1 ? 0xff : i == at ? (int)(r[3] & 0xff) : 0);
        break;
    case 3: /* an end */
        *len = at;
        break;
    case 4: /* a hole */
        run = run > *len - at ? *len - at : run;
        memmove(text + at, text + at + run, *len - at - run);
        *len -= run;
        break;
    case 5: /* a run said twice */
        run = run > *len - at ? *len - at : run;
        run = run > cap - *len ? cap - *len : run;
        memmove(text + at + run, text + at, *len - at);
        *len += run;
        break;
    default: /* the rest of another seed */
        run = other.len - from > cap - at ? cap - at : other.len - from;
        memcpy(text + at, other.ptr + from, run);
        *len = at + run;
        break;
    }
}

/* The caller frees it. Exactly as large as the input, so that a sanitizer sees its end. */
static char *mutate(uint32_t i, size_t *len)
{
    uint32_t r[4];
    mtr_philox(1, i, 0, r);
    struct mtr_str seed = seeds[r[0] % seed_count];
    size_t cap = seed.len + 256;
    char *text = malloc(cap);
    if (!text)
        return NULL;
    memcpy(text, seed.ptr, seed.len);
    *len = seed.len;
    for (uint32_t n = 0; n < 1 + r[1] % MAX_EDITS; n++) {
        uint32_t e[4];
        mtr_philox(1, i, n + 1, e);
        edit(text, len, cap, e);
    }
    char *exact = malloc(*len ? *len : 1);
    if (exact)
        memcpy(exact, text, *len);
    free(text);
    return exact;
}

static bool run_mutation(uint32_t i, bool keep)
{
    size_t len = 0;
    char *text = mutate(i, &len);
    if (!text)
        return false;
    current = i;
    FILE *f = keep ? fopen("fuzz-input", "wb") : NULL;
    if (f) {
        fwrite(text, 1, len, f);
        fclose(f);
    }
    LLVMFuzzerTestOneInput((const uint8_t *)text, len);
    free(text);
    return true;
}

int main(int argc, char **argv)
{
    struct mtr_arena arena;
    uint64_t count = DEFAULT_MUTATIONS, only = 0;
    mtr_arena_init(&arena, 0);
    if (argc < 2 || !load_seeds(&arena, argv[1]) ||
        (argc > 2 && !mtr_str_to_u64(mtr_str(argv[2]), &count)) ||
        (argc > 3 && !mtr_str_to_u64(mtr_str(argv[3]), &only))) {
        fprintf(stderr, "usage: %s FOLDER [COUNT [ONLY]], with seeds in FOLDER\n", argv[0]);
        return 2;
    }
    signal(SIGABRT, print_current);
    signal(SIGSEGV, print_current);
    for (size_t i = 0; i < seed_count; i++)
        LLVMFuzzerTestOneInput((const uint8_t *)seeds[i].ptr, seeds[i].len);
    bool ok = true;
    for (uint32_t i = argc > 3 ? (uint32_t)only : 0; ok && i < count; i++) {
        ok = run_mutation(i, argc > 3);
        if (argc > 3)
            break;
    }
    printf("%zu seeds, %llu mutations\n", seed_count, (unsigned long long)count);
    mtr_arena_free(&arena);
    return ok ? 0 : 1;
}
