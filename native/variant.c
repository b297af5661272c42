/* What Python must know of the library before it calls anything else. */
#include "nearworth.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>

/* leaf 1, ecx */
enum { FMA = 1 << 12, XGETBV = 1 << 27, AVX = 1 << 28 };
/* leaf 7, ebx; */
enum { BMI = 1 << 3, AVX2 = 1 << 5, BMI2 = 1 << 8, F = 1 << 16, DQ = 1 << 17, BW = 1 << 30 };
/* the last four belong to AVX-512 */
static const uint32_t VL = 1u << 31;
/* registers that the system saves when it switches tasks; else they must not be used */
enum { YMM = 0x6, ZMM = 0xe6 };

static bool has(uint32_t word, uint32_t bits) {
    return (word & bits) == bits;
}

/* The best variant that this processor can run: baseline, avx2, avx512. Python asks the baseline.
 * __builtin_cpu_supports says the same, but not every compiler has the library behind it. */
EXPORT int32_t instruction_set(void) {
    uint32_t a, b, c, d, saved, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, FMA | XGETBV | AVX))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    if (!has(saved, YMM) || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !has(b, BMI | AVX2 | BMI2))
        return 0;
    return has(b, F | DQ | BW | VL) && has(saved, ZMM) ? 2 : 1;
}
#else
EXPORT int32_t instruction_set(void) {
    return 0;
}
#endif

/* Checksum of the declarations in native.py for which the library was compiled (hatch_build.py has
 * it). */
EXPORT uint32_t declarations(void) {
    return DECLARATIONS;
}
