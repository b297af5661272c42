/* Training rows of any number type, read as doubles: the only file that knows the types one by
 * one. */
#include "nearworth.h"

/* In the order of `enum row_type`. */
const int64_t item_size[] = {4, 8, 1, 1, 2, 2, 4, 4, 8, 8};

#define READ(CODE, TYPE)                                                                           \
    case CODE:                                                                                     \
        for (int64_t j = 0; j < count; j++)                                                        \
            out[j] = (double)((const TYPE *)numbers)[j];                                           \
        break;

void read_numbers(const void *numbers, int32_t type, int64_t count, double *restrict out) {
    switch (type) {
        READ(F4, float)
        READ(F8, double)
        READ(I1, int8_t)
        READ(U1, uint8_t)
        READ(I2, int16_t)
        READ(U2, uint16_t)
        READ(I4, int32_t)
        READ(U4, uint32_t)
        READ(I8, int64_t)
        READ(U8, uint64_t)
    }
}
