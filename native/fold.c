/* Sums over validation points with their spread.
 *
 * No sum depends on another, so compilers may add as many at a time as they like: the order of additions to each sum is
 * that of the calls. */
#include "nearworth.h"

/* Add w phi, w^2 (phi - shift) and w^2 (phi - shift)^2 of one query; the first query of a leaf sets the shift. */
EXPORT void add_with_spread(double *restrict total, double *restrict shift, double *restrict first,
                            double *restrict second, const double *restrict values, double weight, int32_t fresh, int64_t n)
{
    double square = weight * weight;
    if (fresh)
        memcpy(shift, values, (size_t)n * sizeof *shift);
    for (int64_t i = 0; i < n; i++) {
        double away = values[i] - shift[i];
        total[i] += weight * values[i];
        first[i] += square * away;
        second[i] += square * away * away;
    }
}
