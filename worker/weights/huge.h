/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Huge pages under a file that is in use.
 *
 * A mapped file comes in pages of 4 KB, and a step that reads all weights misses the TLB once for
 * each; in a virtual machine, where a miss walks two tables, that costs a quarter of the memory's
 * bandwidth. So its content is copied into anonymous huge pages, and these are moved to the very
 * addresses of the file's pages (mremap with MREMAP_FIXED). The kernel holds the address space's
 * lock throughout, so readers on other threads see the same bytes at the same place before, during
 * and after.
 */
#ifndef MTR_WEIGHTS_HUGE_H
#define MTR_WEIGHTS_HUGE_H

#include <stdbool.h>
#include <stdint.h>

#define MTR_HUGE_BYTES ((uintptr_t)2 << 20)

/* Can this machine give huge pages to those who ask? */
bool mtr_huge_available(void);

/* Replaces what of [from, to) is whole huge pages, at most max_bytes from the front. Returns where
 * it stopped: `to` when it is done. The memory must be mapped, readable, and never written again.
 * When memory is out the rest stays as it was, and `to` is returned. */
uintptr_t mtr_huge_replace(uintptr_t from, uintptr_t to, uintptr_t max_bytes);

#endif
