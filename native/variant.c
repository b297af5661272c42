/* What Python must know of the library before it calls anything else. */
#include "nearworth.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>

/* Bits of cpuid, leaf 1, register ecx. */
enum { FMA = 1 << 12, XGETBV = 1 << 27, AVX = 1 << 28 };

/* Bits of leaf 7, register ebx. F, DQ, BW and VL belong to AVX-512. */
enum { BMI = 1 << 3, AVX2 = 1 << 5, BMI2 = 1 << 8, F = 1 << 16, DQ = 1 << 17, BW = 1 << 30 };
static const uint32_t VL = 1u << 31;

/* Bits of xgetbv: registers that the system saves when it switches tasks. Others must not be
 * used. */
enum { YMM = 0x6, ZMM = 0xe6 };

enum { BASELINE_VARIANT, AVX2_VARIANT, AVX512_VARIANT };

static bool has(uint32_t word, uint32_t bits) {
    return (word & bits) == bits;
}

/* The best variant that this processor can run: baseline, avx2, avx512. Python asks the baseline.
 * __builtin_cpu_supports says the same, but not every compiler has the library behind it. */
EXPORT int32_t instruction_set(void) {
    uint32_t a, b, c, d, saved, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, FMA | XGETBV | AVX))
        return BASELINE_VARIANT;
    __asm__ volatile("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    if (!has(saved, YMM))
        return BASELINE_VARIANT;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !has(b, BMI | AVX2 | BMI2))
        return BASELINE_VARIANT;
    if (!has(b, F | DQ | BW | VL) || !has(saved, ZMM))
        return AVX2_VARIANT;
    return AVX512_VARIANT;
}
#else
EXPORT int32_t instruction_set(void) {
    return 0;
}
#endif

/* Checksum of the declarations in native.py for which the library was compiled. hatch_build.py
 * passes it to the compiler. */
EXPORT uint32_t declarations(void) {
    return DECLARATIONS;
}
