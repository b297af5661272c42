/* Locality-sensitive hashing: the hashes of points, and the nearest points of a query among those in its buckets.
 *
 *     fold_hashes       the hashes of a point in one table as one number
 *     nearest_colliding the points that share a bucket with the query in any hash table, each once, by exact distance */
#include "nearworth.h"

#define LARGEST_CODE 0x1p40F

/* Far out, numbers get too coarse for codes (or are none): one bucket for all of it. */
#define FOLD_HASH(NAME, TYPE, FLOOR)                                                                                   \
    static void fold_hash_##NAME(const TYPE *products, TYPE offset, uint64_t factor, uint64_t *out, int64_t count)     \
    {                                                                                                                  \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            TYPE code = FLOOR(products[i] + offset);                                                                   \
            code = code > -LARGEST_CODE && code < LARGEST_CODE ? code : LARGEST_CODE;                                  \
            out[i] += (uint64_t)(int64_t)code * factor;                                                                \
        }                                                                                                              \
    }
FOLD_HASH(f4, float, floorf)
FOLD_HASH(f8, double, floor)

/* Adds to columns start.. of `out`, (tables, n), from products (tables, hashes, points of a panel). */
EXPORT void fold_hashes(const void *products, int32_t type, const void *offsets, int32_t same_type,
                        const uint64_t *factors, int64_t start, uint64_t *out, int64_t n_tables, int64_t n_hashes,
                        int64_t panel, int64_t n)
{
    if (type != same_type || start < 0 || start > n)
        return;
    int64_t count = n - start < panel ? n - start : panel;
    for (int64_t hash = 0; hash < n_tables * n_hashes; hash++) {
        uint64_t *codes = out + hash / n_hashes * n + start;
        if (type == F4)
            fold_hash_f4((const float *)products + hash * panel, ((const float *)offsets)[hash], factors[hash], codes,
                         count);
        else if (type == F8)
            fold_hash_f8((const double *)products + hash * panel, ((const double *)offsets)[hash], factors[hash],
                         codes, count);
    }
}

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
        rows_distances(queries + q * width, points, type, candidates, distances, width, n, count);
        int64_t found = k < count ? k : count;
        if (found < count)
            select_nearest(distances, candidates, count, found);
        sort_pairs(distances, candidates, found);
        for (int64_t i = 0; i < found; i++)
            indices[q * k + i] = candidates[i], squares[q * k + i] = distances[i];
    }
}
