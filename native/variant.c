/* What Python must know of the library before it calls anything else. */
#include "nearworth.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#define X86 1
#endif

/* Checksum of the declarations in native.py for which the library was compiled (hatch_build.py has it). */
EXPORT uint32_t declarations(void)
{
    return DECLARATIONS;
}

#ifdef X86
static bool has(uint32_t word, uint32_t bits)
{
    return (word & bits) == bits;
}

/* The registers that the operating system saves when it switches tasks; without that they must not be used. */
static uint32_t saved_registers(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* __builtin_cpu_supports says the same, but not every compiler has the library behind it. */
static int32_t best_on_x86(void)
{
    enum { FMA = 1 << 12, XGETBV = 1 << 27, AVX = 1 << 28 }; /* leaf 1, ecx */
    enum { BMI = 1 << 3, AVX2 = 1 << 5, BMI2 = 1 << 8 };     /* leaf 7, ebx */
    enum { AVX512F = 1 << 16, AVX512DQ = 1 << 17, AVX512BW = 1 << 30 };
    const uint32_t AVX512VL = 1u << 31;
    enum { YMM = 0x6, ZMM = 0xe6 };
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, FMA | XGETBV | AVX) || !has(saved_registers(), YMM))
        return 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !has(b, BMI | AVX2 | BMI2))
        return 0;
    return has(b, AVX512F | AVX512DQ | AVX512BW | AVX512VL) && has(saved_registers(), ZMM) ? 2 : 1;
}
#endif

/* The best variant that this processor can run: baseline, avx2, avx512. Python asks the baseline. */
EXPORT int32_t instruction_set(void)
{
#ifdef X86
    return best_on_x86();
#else
    return 0;
#endif
}
