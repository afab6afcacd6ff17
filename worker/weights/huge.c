/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Source and target of the move are aligned alike, so that the kernel moves whole entries of the
 * upper page table and the pages stay huge.
 */
#include "worker/weights/huge.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

bool mtr_huge_available(void)
{
    char text[128] = "";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    if (!f)
        return false;
    bool read = fgets(text, sizeof text, f) != NULL;
    fclose(f);
    return read && !strstr(text, "[never]");
}

/* `bytes` of anonymous memory at a multiple of a huge page, or NULL. */
static void *huge_memory(uintptr_t bytes)
{
    uintptr_t room = bytes + MTR_HUGE_BYTES;
    void *all = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    uintptr_t begin = (uintptr_t)all, at = (begin + MTR_HUGE_BYTES - 1) & ~(MTR_HUGE_BYTES - 1);
    if (at > begin)
        munmap(all, at - begin);
    if (begin + room > at + bytes)
        munmap((void *)(at + bytes), begin + room - at - bytes);
    if (madvise((void *)at, bytes, MADV_HUGEPAGE) == 0)
        return (void *)at;
    munmap((void *)at, bytes);
    return NULL;
}

uintptr_t mtr_huge_replace(uintptr_t from, uintptr_t to, uintptr_t max_bytes)
{
    uintptr_t at = (from + MTR_HUGE_BYTES - 1) & ~(MTR_HUGE_BYTES - 1);
    uintptr_t end = to & ~(MTR_HUGE_BYTES - 1);
    if (at >= end)
        return to;
    uintptr_t bytes = end - at < max_bytes ? end - at : max_bytes & ~(MTR_HUGE_BYTES - 1);
    void *copy = bytes ? huge_memory(bytes) : NULL;
    if (!copy)
        return to;
    memcpy(copy, (const void *)at, bytes);
    if (mprotect(copy, bytes, PROT_READ) != 0 ||
        mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)at) == MAP_FAILED) {
        munmap(copy, bytes);
        return to;
    }
    return at + bytes < end ? at + bytes : to;
}
