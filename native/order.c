/* Sorting: points of a query by key, by counting where they are many and by comparing where they
 * are few.
 *
 *     sort_items       items with a whole number in their upper half, a digit at a time from the
 *                      last to the first
 *     sort_pairs       few pairs of a key and a point, in place
 *     order_points     all points of a query in the order of their exact keys
 *
 * For order_points a key becomes a cell: the leading bits of the difference between its bits and
 * those of the smallest key. This map is monotone, and as bits count exponents it is nearly
 * logarithmic: neither one far point nor a distance of zero leaves the others without cells. Few
 * points share a cell, and only these are compared, by key and then by row. Points whose key is NaN
 * take no part. */
#include "nearworth.h"

enum {
    CELL_BITS = 27,
    MANY = 4096, /* items from which on long digits pay */
    SHORT = 8,
    LONG = 12, /* bits of a digit */
    FEW = 24,  /* pairs up to which plain insertion is the fastest sort */
};

static void sort_by_digit(const uint64_t *items, uint64_t *sorted, int64_t n, int shift, int bits) {
    uint32_t starts[1 << LONG], values = 1u << bits, start = 0;
    memset(starts, 0, values * sizeof *starts);
    for (int64_t i = 0; i < n; i++)
        starts[items[i] >> shift & (values - 1)]++;
    for (uint32_t value = 0, count; value < values; value++, start += count) {
        count = starts[value];
        starts[value] = start;
    }
    for (int64_t i = 0; i < n; i++)
        sorted[starts[items[i] >> shift & (values - 1)]++] = items[i];
}

uint64_t *sort_items(uint64_t *items, uint64_t *spare, int64_t n, int shift) {
    uint64_t differ = 0;
    for (int64_t i = 1; i < n; i++)
        differ |= items[i] ^ items[0];
    int total = differ >> shift ? 64 - shift - __builtin_clzll(differ) : 0,
        most = n < MANY ? SHORT : LONG;
    int digits = (total + most - 1) / most, bits = digits ? (total + digits - 1) / digits : 0;
    for (; digits > 0; digits--, shift += bits) {
        sort_by_digit(items, spare, n, shift, bits);
        uint64_t *sorted = spare;
        spare = items;
        items = sorted;
    }
    return items;
}

static inline bool before(double a, int32_t point_a, double b, int32_t point_b) {
    return a < b || (a == b && point_a < point_b);
}

/* Insertion over shrinking gaps, plain insertion for a few. */
void sort_pairs(double *keys, int32_t *points, int64_t size) {
    int64_t gap = 1;
    while (size > FEW && 9 * gap < 4 * size)
        gap = 9 * gap / 4 + 1;
    for (;; gap = gap > 2 ? 4 * gap / 9 : 1) {
        for (int64_t j = gap; j < size; j++) {
            double key = keys[j];
            int32_t point = points[j];
            int64_t i = j;
            for (; i >= gap && before(key, point, keys[i - gap], points[i - gap]); i -= gap)
                keys[i] = keys[i - gap], points[i] = points[i - gap];
            keys[i] = key, points[i] = point;
        }
        if (gap == 1)
            return;
    }
}

/* A whole number that compares as the key does; both zeros have the same. */
static inline uint64_t sortable(double key) {
    uint64_t bits;
    key += 0.0;
    memcpy(&bits, &key, sizeof bits);
    return bits ^ (bits >> 63 ? UINT64_MAX : UINT64_C(1) << 63);
}

/* Order the points of the cell that begins at rank `start`, and find ties; returns where the cell
 * ends. */
static int64_t order_cell(
    const double *keys, const uint64_t *items, int64_t start, int64_t n, bool by_index, double *few,
    int32_t *order, uint8_t *first
) {
    int64_t end = start;
    for (; end < n && items[end] >> 32 == items[start] >> 32; end++)
        few[end - start] = keys[order[end]];
    sort_pairs(few, order + start, end - start);
    for (int64_t i = start + 1; i < end; i++)
        first[i] = by_index || few[i - start] != few[i - start - 1];
    return end;
}

int64_t order_points(
    const double *keys, int64_t n, bool by_index, uint64_t *items, uint64_t *spare, int32_t *order,
    uint8_t *first
) {
    int64_t m = 0;
    uint64_t low = UINT64_MAX, high = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = sortable(keys[i]);
        low = !isnan(keys[i]) && bits < low ? bits : low;
        high = !isnan(keys[i]) && bits > high ? bits : high;
    }
    int shift = 0;
    while ((high - low) >> shift >> CELL_BITS)
        shift++;
    for (int64_t i = 0; i < n; i++) {
        items[m] = (sortable(keys[i]) - low) >> shift << 32 | (uint64_t)i;
        m += !isnan(keys[i]);
    }
    uint64_t *sorted = sort_items(items, spare, m, 32);
    double *few = (double *)(sorted == items ? spare : items);
    for (int64_t i = 0; i < m; i++)
        order[i] = (int32_t)sorted[i], first[i] = 1;
    for (int64_t i = 1; i < m; i++)
        if (sorted[i] >> 32 == sorted[i - 1] >> 32)
            i = order_cell(keys, sorted, i - 1, m, by_index, few, order, first);
    return m;
}
