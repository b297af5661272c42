/* Distances pair by pair, in double precision and in one fixed order of summation. */
#include "nearworth.h"

typedef double eight __attribute__((vector_size(64)));

static double tree(eight s)
{
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

/* One function for each type of rows. */
#define DISTANCE(NAME, TYPE)                                                                                           \
    static double NAME(const double *restrict query, const TYPE *restrict row, int64_t width)                          \
    {                                                                                                                  \
        typedef TYPE numbers __attribute__((vector_size(8 * sizeof(TYPE))));                                           \
        eight sum = {0}, x, t;                                                                                         \
        numbers some;                                                                                                  \
        int64_t j = 0;                                                                                                 \
        for (; j + 8 <= width; j += 8) {                                                                               \
            memcpy(&some, row + j, sizeof some);                                                                       \
            memcpy(&t, query + j, sizeof t);                                                                           \
            x = __builtin_convertvector(some, eight) - t;                                                              \
            sum += x * x;                                                                                              \
        }                                                                                                              \
        for (int lane = 0; j < width; j++, lane++)                                                                     \
            sum[lane] += ((double)row[j] - query[j]) * ((double)row[j] - query[j]);                                    \
        return tree(sum);                                                                                              \
    }

DISTANCE(distance_f4, float)
DISTANCE(distance_f8, double)
DISTANCE(distance_i1, int8_t)
DISTANCE(distance_u1, uint8_t)
DISTANCE(distance_i2, int16_t)
DISTANCE(distance_u2, uint16_t)
DISTANCE(distance_i4, int32_t)
DISTANCE(distance_u4, uint32_t)
DISTANCE(distance_i8, int64_t)
DISTANCE(distance_u8, uint64_t)

double squared_distance(const double *query, const void *points, int32_t type, int64_t row, int64_t width)
{
    int64_t start = row * width;
    switch (type) {
    case F4: return distance_f4(query, (const float *)points + start, width);
    case F8: return distance_f8(query, (const double *)points + start, width);
    case I1: return distance_i1(query, (const int8_t *)points + start, width);
    case U1: return distance_u1(query, (const uint8_t *)points + start, width);
    case I2: return distance_i2(query, (const int16_t *)points + start, width);
    case U2: return distance_u2(query, (const uint16_t *)points + start, width);
    case I4: return distance_i4(query, (const int32_t *)points + start, width);
    case U4: return distance_u4(query, (const uint32_t *)points + start, width);
    case I8: return distance_i8(query, (const int64_t *)points + start, width);
    default: return distance_u8(query, (const uint64_t *)points + start, width);
    }
}
