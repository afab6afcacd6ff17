/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The table of host kernels and the choice of an instruction set. Which variants a build has is
 * told by MTR_HAVE_NEON, MTR_HAVE_AVX2 and MTR_HAVE_AVX512; the portable one is always there.
 */
#ifdef MTR_HAVE_AVX2
#include <cpuid.h>
#endif

#include "kernels/host/functions.h"
#include "kernels/host/host_kernel.h"

typedef void kernel(const void *args, const struct mtr_host_block *block);

#define DECLARE_PORTABLE(module, function) kernel mtr_portable_##function;
#define DECLARE_NEON(module, function)     kernel mtr_neon_##function;
#define DECLARE_AVX2(module, function)     kernel mtr_avx2_##function;
#define DECLARE_AVX512(module, function)   kernel mtr_avx512_##function;

MTR_HOST_FUNCTIONS(DECLARE_PORTABLE)
#define PORTABLE(function) [MTR_ISA_PORTABLE] = mtr_portable_##function,
#ifdef MTR_HAVE_NEON
MTR_HOST_FUNCTIONS(DECLARE_NEON)
#define NEON(function) [MTR_ISA_NEON] = mtr_neon_##function,
#else
#define NEON(function)
#endif
#ifdef MTR_HAVE_AVX2
MTR_HOST_FUNCTIONS(DECLARE_AVX2)
#define AVX2(function) [MTR_ISA_AVX2] = mtr_avx2_##function,
#else
#define AVX2(function)
#endif
#ifdef MTR_HAVE_AVX512
MTR_HOST_FUNCTIONS(DECLARE_AVX512)
#define AVX512(function) [MTR_ISA_AVX512] = mtr_avx512_##function,
#else
#define AVX512(function)
#endif

#define ENTRY(module, function)                                                                    \
    {#module, #function, {PORTABLE(function) NEON(function) AVX2(function) AVX512(function)}},

static const struct mtr_host_entry entries[] = {MTR_HOST_FUNCTIONS(ENTRY)};

const struct mtr_host_entry *mtr_host_kernels(size_t *count)
{
    *count = sizeof entries / sizeof *entries;
    return entries;
}

#ifdef MTR_HAVE_AVX2
/* clang 14 does not know the name "f16c". */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

bool mtr_host_isa_available(enum mtr_isa isa)
{
    switch (isa) {
    case MTR_ISA_PORTABLE:
        return true;
    case MTR_ISA_NEON:
#ifdef MTR_HAVE_NEON
        return true; /* part of the aarch64 base */
#else
        return false;
#endif
    case MTR_ISA_AVX2:
#ifdef MTR_HAVE_AVX2
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
#else
        return false;
#endif
    case MTR_ISA_AVX512:
#ifdef MTR_HAVE_AVX512
        return mtr_host_isa_available(MTR_ISA_AVX2) && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
#else
        return false;
#endif
    case MTR_ISA_COUNT:
        break;
    }
    return false;
}

enum mtr_isa mtr_host_best_isa(void)
{
    for (int isa = MTR_ISA_COUNT - 1; isa > MTR_ISA_PORTABLE; isa--)
        if (mtr_host_isa_available((enum mtr_isa)isa))
            return (enum mtr_isa)isa;
    return MTR_ISA_PORTABLE;
}

const char *mtr_isa_name(enum mtr_isa isa)
{
    static const char *const names[MTR_ISA_COUNT] = {"portable", "neon", "avx2", "avx512"};
    return isa < MTR_ISA_COUNT ? names[isa] : "unknown";
}

mtr_host_function mtr_host_variant(const struct mtr_host_entry *entry, enum mtr_isa isa)
{
    while (isa > MTR_ISA_PORTABLE && !entry->variants[isa])
        isa = (enum mtr_isa)(isa - 1);
    return entry->variants[isa];
}
