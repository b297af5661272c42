/* What Python must know of the library before it calls anything else. */
#include "nearworth.h"

/* Checksum of the declarations in native.py for which the library was compiled (hatch_build.py has it). */
EXPORT uint32_t declarations(void)
{
    return DECLARATIONS;
}

/* The best variant that this processor can run: baseline, avx2, avx512. Called in the baseline. The answer includes
 * whether the operating system saves the wide registers. */
EXPORT int32_t instruction_set(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi")
        || !__builtin_cpu_supports("bmi2"))
        return 0;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq")
        || !__builtin_cpu_supports("avx512vl"))
        return 1;
    return 2;
#else
    return 0;
#endif
}
