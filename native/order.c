/* All points of a query in the order of their exact keys, by counting instead of comparing.
 *
 * A key becomes a cell: the leading CELL_BITS of the difference between its bits and those of the smallest key. The map
 * is monotone, and cells are spaced as the logarithm is, so neither a far point nor a distance of zero leaves the rest
 * without cells. Points are sorted by cell, a digit at a time from the last to the first (counting sort is stable, so
 * equal cells stay in the order of their rows). Points that share a cell are then compared by their keys: by insertion
 * if they are few, else by merging, so that no data, tied or concentrated, cost more than N log N.
 *
 * An item is a cell in the upper and a point in the lower half of 64 bits. */
#include "nearworth.h"

#define DIGIT_BITS 9
#define DIGITS 3
#define VALUES (1u << DIGIT_BITS)
#define CELL_BITS (DIGIT_BITS * DIGITS)
#define FEW 16

/* A whole number that compares as the key does; both zeros have the same. */
static inline uint64_t sortable(double key)
{
    uint64_t bits;
    key += 0.0;
    memcpy(&bits, &key, sizeof bits);
    return bits ^ ((uint64_t)-(int64_t)(bits >> 63) | UINT64_C(1) << 63);
}

/* The map from keys to cells. */
struct cells {
    uint64_t low;
    int shift;
};

static inline uint64_t cell_of(struct cells cells, double key)
{
    return (sortable(key) - cells.low) >> cells.shift;
}

static struct cells make_cells(const double *keys, int64_t n, int64_t excluded)
{
    uint64_t low = UINT64_MAX, high = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = sortable(keys[i]);
        low = i != excluded && bits < low ? bits : low;
        high = i != excluded && bits > high ? bits : high;
    }
    struct cells cells = {low, 0};
    while ((high - low) >> cells.shift >> CELL_BITS)
        cells.shift++;
    return cells;
}

/* Where the items with each value of each digit begin, if they are sorted by that digit. */
static void count_digits(struct cells cells, const double *keys, int64_t n, int64_t excluded,
                         uint32_t starts[DIGITS][VALUES])
{
    memset(starts, 0, sizeof(uint32_t) * DIGITS * VALUES);
    for (int64_t i = 0; i < n; i++) {
        uint64_t cell = cell_of(cells, keys[i]);
        for (int digit = 0; digit < DIGITS; digit++)
            starts[digit][cell >> (DIGIT_BITS * digit) & (VALUES - 1)] += i != excluded;
    }
    for (int digit = 0; digit < DIGITS; digit++)
        for (uint32_t value = 0, start = 0, count; value < VALUES; value++, start += count) {
            count = starts[digit][value];
            starts[digit][value] = start;
        }
}

/* Items sorted by their last digit. */
static void first_pass(struct cells cells, const double *keys, int64_t n, int64_t excluded, uint32_t *starts,
                       uint64_t *sorted)
{
    for (int64_t i = 0; i < n; i++)
        if (i != excluded) {
            uint64_t cell = cell_of(cells, keys[i]);
            sorted[starts[cell & (VALUES - 1)]++] = cell << 32 | (uint64_t)i;
        }
}

/* Items sorted by another digit, in the order they had where it is the same. */
static void next_pass(const uint64_t *items, int64_t n, int digit, uint32_t *starts, uint64_t *sorted)
{
    int shift = 32 + DIGIT_BITS * digit;
    for (int64_t i = 0; i < n; i++)
        sorted[starts[items[i] >> shift & (VALUES - 1)]++] = items[i];
}

static inline bool is_before(const double *keys, int32_t a, int32_t b)
{
    return keys[a] < keys[b] || (keys[a] == keys[b] && a < b);
}

static void insert(const double *keys, int32_t *points, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        int32_t point = points[i];
        int64_t k = i;
        for (; k > 0 && is_before(keys, point, points[k - 1]); k--)
            points[k] = points[k - 1];
        points[k] = point;
    }
}

/* Merge two sorted neighbours; nothing is to be done where the second begins after the end of the first. */
static void merge(const double *keys, int32_t *points, int64_t middle, int64_t n, int32_t *spare)
{
    if (!is_before(keys, points[middle], points[middle - 1]))
        return;
    memcpy(spare, points, (size_t)middle * sizeof *points);
    int64_t left = 0, right = middle;
    for (int64_t k = 0; left < middle; k++)
        points[k] = right < n && is_before(keys, points[right], spare[left]) ? points[right++] : spare[left++];
}

/* Points by key, then by row. */
static void sort_points(const double *keys, int32_t *points, int64_t n, int32_t *spare)
{
    for (int64_t start = 0; start < n; start += FEW)
        insert(keys, points + start, n - start < FEW ? n - start : FEW);
    for (int64_t size = FEW; size < n; size *= 2)
        for (int64_t start = 0; start + size < n; start += 2 * size)
            merge(keys, points + start, size, n - start < 2 * size ? n - start : 2 * size, spare);
}

/* Order the points of the cell that begins at rank `start` by their keys, and find ties; returns where it ends. */
static int64_t order_cell(const double *keys, const uint64_t *items, int64_t start, int64_t n, bool by_index,
                          int32_t *spare, int32_t *order, uint8_t *first)
{
    int64_t end = start + 2;
    while (end < n && items[end] >> 32 == items[start] >> 32)
        end++;
    sort_points(keys, order + start, end - start, spare);
    for (int64_t i = start + 1; i < end; i++)
        first[i] = by_index || keys[order[i]] != keys[order[i - 1]];
    return end;
}

void order_points(const double *keys, int64_t n, int64_t excluded, bool by_index, uint64_t *items, uint64_t *spare,
                     int32_t *order, uint8_t *first)
{
    uint32_t starts[DIGITS][VALUES];
    int64_t m = n - (excluded >= 0);
    struct cells cells = make_cells(keys, n, excluded);
    count_digits(cells, keys, n, excluded, starts);
    first_pass(cells, keys, n, excluded, starts[0], items);
    next_pass(items, m, 1, starts[1], spare);
    next_pass(spare, m, 2, starts[2], items);
    memset(first, 1, (size_t)m);
    for (int64_t i = 0; i < m; i++)
        order[i] = (int32_t)items[i];
    for (int64_t i = 1; i < m; i++)
        if (items[i] >> 32 == items[i - 1] >> 32)
            i = order_cell(keys, items, i - 1, m, by_index, (int32_t *)spare, order, first);
}
