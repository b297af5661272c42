/* Locality-sensitive hashing: the points that share a bucket with a query in any hash table, each once, by exact distance.
 * neighbors/lsh.py makes the tables and finds the buckets: places first..end-1 of a table, for each query. */
#include "nearworth.h"

/* Sorts the k nearest pairs to the front, without the others, as the upper halves of distances tell: their bits are in
 * the order of their sizes. Returns how many pairs are left, k or a few more. */
static int64_t sort_nearest(double *distances, int32_t *points, int32_t *halves, int64_t count, int64_t k)
{
    int64_t left = 0;
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, distances + i, sizeof bits);
        halves[i] = (int32_t)(bits >> 32 & INT32_MAX);
    }
    int64_t limit = bound_of_kth(halves, count, k < count ? k : count, NULL);
    for (int64_t i = 0; i < count; i++) {
        distances[left] = distances[i], points[left] = points[i];
        left += halves[i] <= limit;
    }
    sort_pairs(distances, points, left);
    return left;
}

/* `seen` says which query saw a point last, at first -1; places of `indices` and `squares` without a point stay as they are. */
EXPORT void nearest_colliding(const double *queries, const void *points, int32_t type, const int32_t *rows,
                              const int64_t *first, const int64_t *end, int32_t *seen, int32_t *candidates, int32_t *halves,
                              double *distances, int64_t *indices, double *squares, int64_t n_queries, int64_t width,
                              int64_t n, int64_t n_tables, int64_t k)
{
    for (int64_t q = 0; q < n_queries; q++) {
        int64_t count = 0;
        for (int64_t table = 0; table < n_tables; table++)
            for (int64_t i = first[table * n_queries + q]; i < end[table * n_queries + q]; i++) {
                int32_t row = rows[table * n + i];
                if (seen[row] != q)
                    candidates[count++] = row;
                seen[row] = (int32_t)q;
            }
        sum_rows(queries + q * width, points, type, candidates, false, distances, width, n, count);
        count = sort_nearest(distances, candidates, halves, count, k);
        for (int64_t i = 0; i < (k < count ? k : count); i++)
            indices[q * k + i] = candidates[i], squares[q * k + i] = distances[i];
    }
}
