/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* /proc and the control group's files, line by line. */
#include "worker/backend/host/machine.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#define MAX_LINES                                                                                  \
    4096 /* of /proc/cpuinfo; the line looked for is in the first processor's part                 \
          */

/* Copies what fits. */
static void put(char *out, size_t bytes, const char *text)
{
    size_t length = strnlen(text, bytes - 1);
    memcpy(out, text, length);
    out[length] = '\0';
}

/* The value after "key...:" in a file of such lines; false when there is none. */
static bool find_line(const char *path, const char *key, char *out, size_t bytes)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    char line[512];
    bool found = false;
    for (int i = 0; !found && i < MAX_LINES && fgets(line, sizeof line, f); i++) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, key, strlen(key)) != 0)
            continue;
        char *value = colon + 1 + strspn(colon + 1, " \t");
        value[strcspn(value, "\n")] = '\0';
        put(out, bytes, value);
        found = true;
    }
    fclose(f);
    return found;
}

void mtr_machine_name(char *out, size_t bytes)
{
    struct utsname u;
    if (find_line("/proc/cpuinfo", "model name", out, bytes))
        return;
    put(out, bytes, uname(&u) == 0 ? u.machine : "unknown processor");
}

static uint64_t meminfo(const char *key)
{
    char value[64];
    unsigned long long kib = 0;
    if (find_line("/proc/meminfo", key, value, sizeof value))
        sscanf(value, "%llu", &kib);
    return (uint64_t)kib * 1024;
}

/* A number in a file of its own; UINT64_MAX for none ("max"). */
static uint64_t number_in(const char *path)
{
    unsigned long long n = 0;
    FILE *f = fopen(path, "re");
    if (!f)
        return UINT64_MAX;
    int got = fscanf(f, "%llu", &n);
    fclose(f);
    return got == 1 ? (uint64_t)n : UINT64_MAX;
}

void mtr_machine_memory(uint64_t *total, uint64_t *available)
{
    *total = meminfo("MemTotal");
    *available = meminfo("MemAvailable");
    uint64_t limit = number_in("/sys/fs/cgroup/memory.max");
    uint64_t used = number_in("/sys/fs/cgroup/memory.current");
    if (limit == UINT64_MAX || used == UINT64_MAX)
        return;
    uint64_t left = limit > used ? limit - used : 0;
    *total = limit < *total ? limit : *total;
    *available = left < *available ? left : *available;
}
