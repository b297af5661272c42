/* The nearest points of a query: among the keys of a matrix product, and among the points of its hash buckets.
 *
 *     sift              one panel of approximate keys after the other: a list per query holds all points that may be
 *                       among the k nearest. A full list is cut: what lies beyond its k-th key by more than keys can be
 *                       off drops out, and that limit keeps nearly all later points from being listed.
 *     fold_hashes       the hashes of a point in one table as one number
 *     nearest_colliding the points that share a bucket with the query in any hash table, each once, by exact distance
 *
 * Lists are pairs of a key and a point, ordered by key and then by point. */
#include "nearworth.h"

#define LARGEST_CODE 0x1p40F

enum {
    STRETCH = 128, /* keys that are skipped at once if none of them is near */
};

/* The list of one query: `room` places for keys and points, `count` of them taken, -1 once it is given up. */
struct list {
    double *keys, limit, error;
    int32_t *points;
    int64_t count, room, k;
};

/* Drop from a full list what is beyond its k-th key by more than the error; give it up if it stays nearly full. */
static void cut(struct list *list)
{
    select_nearest(list->keys, list->points, list->count, list->k);
    list->limit = list->keys[list->k - 1] + list->error;
    int64_t kept = list->k;
    for (int64_t i = list->k; i < list->count; i++) {
        list->keys[kept] = list->keys[i], list->points[kept] = list->points[i];
        kept += list->keys[i] <= list->limit;
    }
    list->count = 4 * kept > 3 * list->room ? -1 : kept;
}

static void offer(struct list *list, double key, int64_t point)
{
    if (!(key <= list->limit))
        return;
    if (list->count == list->room)
        cut(list);
    if (list->count >= 0) {
        list->keys[list->count] = key;
        list->points[list->count++] = (int32_t)point;
    }
}

/* Counting, instead of stopping at the first near key, is what compilers turn into a few wide instructions. */
#define SIFT_ROW(NAME, TYPE)                                                                                           \
    static void sift_row_##NAME(struct list *list, const TYPE *products, const double *norms, int64_t start,           \
                                int64_t m)                                                                             \
    {                                                                                                                  \
        for (int64_t first = 0; first < m && list->count >= 0; first += STRETCH) {                                     \
            int64_t end = m - first < STRETCH ? m : first + STRETCH, near = 0;                                         \
            double limit = list->limit;                                                                                \
            for (int64_t i = first; i < end; i++)                                                                      \
                near += (double)products[i] + norms[i] <= limit;                                                       \
            for (int64_t i = first; near && i < end && list->count >= 0; i++)                                          \
                offer(list, (double)products[i] + norms[i], start + i);                                                \
        }                                                                                                              \
    }
SIFT_ROW(f4, float)
SIFT_ROW(f8, double)

/* A panel of products of all queries with the points from `start` on; a key is a product plus the point's norm. */
EXPORT void sift(const void *panel, int32_t type, const double *norms, int64_t start, int64_t k, const double *error,
                 double *limits, double *keys, int32_t *points, int64_t *counts, int64_t n_queries, int64_t m,
                 int64_t n, int64_t room)
{
    if (start < 0 || start > n - m || k < 1 || k > room)
        return;
    for (int64_t q = 0; q < n_queries; q++) {
        struct list list = {.keys = keys + q * room, .points = points + q * room, .limit = limits[q],
                            .error = error[q], .count = counts[q], .room = room, .k = k};
        if (type == F4)
            sift_row_f4(&list, (const float *)panel + q * m, norms + start, start, m);
        else if (type == F8)
            sift_row_f8(&list, (const double *)panel + q * m, norms + start, start, m);
        limits[q] = list.limit, counts[q] = list.count;
    }
}

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
