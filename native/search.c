/* Locality-sensitive hashing: the points that share a bucket with a query in any hash table, each once, by exact distance.
 * neighbors/lsh.py makes the hashes; those of each table are sorted. */
#include "nearworth.h"

/* The first of n sorted hashes that is not smaller. */
static int64_t first_not_below(const uint64_t *hashes, int64_t n, uint64_t hash)
{
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (hashes[middle] < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Points in the buckets of query number q, each once; `seen` says which query saw a point last. */
static int64_t collect(int64_t q, const uint64_t *codes, const uint64_t *hashes, const int32_t *rows, int32_t *seen,
                       int32_t *candidates, int64_t n_queries, int64_t n_tables, int64_t n)
{
    int64_t count = 0;
    for (int64_t table = 0; table < n_tables; table++) {
        const uint64_t *sorted = hashes + table * n, code = codes[table * n_queries + q];
        for (int64_t at = first_not_below(sorted, n, code); at < n && sorted[at] == code; at++) {
            int32_t row = rows[table * n + at];
            if (seen[row] != q) {
                seen[row] = (int32_t)q;
                candidates[count++] = row;
            }
        }
    }
    return count;
}

/* `seen` begins with -1 for all points; places of `indices` and `squares` without a point stay as they are. */
EXPORT void nearest_colliding(const double *queries, const uint64_t *codes, const void *points, int32_t type,
                              const uint64_t *hashes, const int32_t *rows, int32_t *seen, int32_t *candidates,
                              double *distances, int64_t *indices, double *squares, int64_t n_queries, int64_t width,
                              int64_t n_tables, int64_t n, int64_t k)
{
    for (int64_t q = 0; q < n_queries; q++) {
        int64_t count = collect(q, codes, hashes, rows, seen, candidates, n_queries, n_tables, n);
        sum_rows(queries + q * width, points, type, candidates, false, distances, width, n, count);
        int64_t found = k < count ? k : count;
        if (found < count)
            select_nearest(distances, candidates, count, found);
        sort_pairs(distances, candidates, found);
        for (int64_t i = 0; i < found; i++)
            indices[q * k + i] = candidates[i], squares[q * k + i] = distances[i];
    }
}
