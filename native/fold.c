/* Sums over validation points: the value of training point i is table[slot[i]], added with the weight of the query.
 *
 * No sum depends on another, so compilers may add as many at a time as they like: the order of additions to each sum is
 * that of the calls. A slot outside the table is an error of the caller. */
#include "nearworth.h"

EXPORT void fold(double *restrict total, const double *restrict table, const int32_t *restrict slot, double weight,
                 int64_t n, int64_t size)
{
    (void)size;
    for (int64_t i = 0; i < n; i++)
        total[i] += weight * table[slot[i]];
}

/* The same with the sums of w^2 (phi - shift) and w^2 (phi - shift)^2; the first query of a leaf sets the shift. */
EXPORT void fold_with_spread(double *restrict total, double *restrict shift, double *restrict first,
                             double *restrict second, const double *restrict table, const int32_t *restrict slot,
                             double weight, int32_t fresh, int64_t n, int64_t size)
{
    double square = weight * weight;
    (void)size;
    for (int64_t i = 0; fresh && i < n; i++)
        shift[i] = table[slot[i]];
    for (int64_t i = 0; i < n; i++) {
        double value = table[slot[i]], away = value - shift[i];
        total[i] += weight * value;
        first[i] += square * away;
        second[i] += square * away * away;
    }
}
