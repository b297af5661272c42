/* All points of a query in the order of their exact keys, by counting instead of comparing.
 *
 * A key becomes a cell: the leading bits of the difference between its bits and those of the smallest key. This map is
 * monotone, and as bits count exponents it is nearly logarithmic: neither one far point nor a distance of zero leaves the
 * others without cells. Points are sorted by cell, a digit at a time from the last to the first; each pass keeps the
 * order of equal digits. Few points share a cell, and only these are compared, by key and then by row.
 * Points whose key is NaN take no part. */
#include "nearworth.h"

#define DIGIT_BITS 9
#define DIGITS 3
#define VALUES (1u << DIGIT_BITS)

/* The map from keys to cells. */
struct cells {
    uint64_t low;
    int shift;
};

/* A whole number that compares as the key does; both zeros have the same. */
static inline uint64_t sortable(double key)
{
    uint64_t bits;
    key += 0.0;
    memcpy(&bits, &key, sizeof bits);
    return bits ^ (bits >> 63 ? UINT64_MAX : UINT64_C(1) << 63);
}

static inline uint64_t cell_of(struct cells cells, double key)
{
    return (sortable(key) - cells.low) >> cells.shift;
}

static struct cells make_cells(const double *keys, int64_t n)
{
    uint64_t low = UINT64_MAX, high = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = sortable(keys[i]);
        low = !isnan(keys[i]) && bits < low ? bits : low;
        high = !isnan(keys[i]) && bits > high ? bits : high;
    }
    struct cells cells = {low, 0};
    while ((high - low) >> cells.shift >> (DIGIT_BITS * DIGITS))
        cells.shift++;
    return cells;
}

/* Where the points with each value of each digit begin, once they are sorted by that digit. */
static void count_digits(struct cells cells, const double *keys, int64_t n, uint32_t starts[DIGITS][VALUES])
{
    memset(starts, 0, sizeof(uint32_t) * DIGITS * VALUES);
    for (int64_t i = 0; i < n; i++) {
        uint64_t cell = cell_of(cells, keys[i]);
        for (int digit = 0; digit < DIGITS && !isnan(keys[i]); digit++)
            starts[digit][cell >> (DIGIT_BITS * digit) & (VALUES - 1)]++;
    }
    for (int digit = 0; digit < DIGITS; digit++)
        for (uint32_t value = 0, start = 0, count; value < VALUES; value++, start += count) {
            count = starts[digit][value];
            starts[digit][value] = start;
        }
}

/* The first pass: items, each a cell and below it a point, by the last digit; returns how many there are. */
static int64_t make_items(struct cells cells, const double *keys, int64_t n, uint32_t *starts, uint64_t *sorted)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        if (!isnan(keys[i])) {
            uint64_t cell = cell_of(cells, keys[i]);
            sorted[starts[cell & (VALUES - 1)]++] = cell << 32 | (uint64_t)i;
            count++;
        }
    return count;
}

static void sort_by_digit(const uint64_t *items, int64_t n, int digit, uint32_t *starts, uint64_t *sorted)
{
    for (int64_t i = 0; i < n; i++)
        sorted[starts[items[i] >> (32 + DIGIT_BITS * digit) & (VALUES - 1)]++] = items[i];
}

/* Order the points of the cell that begins at rank `start`, and find ties; returns where the cell ends. */
static int64_t order_cell(const double *keys, const uint64_t *items, int64_t start, int64_t n, bool by_index,
                          double *few, int32_t *order, uint8_t *first)
{
    int64_t end = start;
    for (; end < n && items[end] >> 32 == items[start] >> 32; end++)
        few[end - start] = keys[order[end]];
    sort_pairs(few, order + start, end - start);
    for (int64_t i = start + 1; i < end; i++)
        first[i] = by_index || few[i - start] != few[i - start - 1];
    return end;
}

int64_t order_points(const double *keys, int64_t n, bool by_index, uint64_t *items, uint64_t *spare, int32_t *order,
                     uint8_t *first)
{
    uint32_t starts[DIGITS][VALUES];
    struct cells cells = make_cells(keys, n);
    count_digits(cells, keys, n, starts);
    int64_t m = make_items(cells, keys, n, starts[0], items);
    sort_by_digit(items, m, 1, starts[1], spare);
    sort_by_digit(spare, m, 2, starts[2], items);
    memset(first, 1, (size_t)n);
    for (int64_t i = 0; i < m; i++)
        order[i] = (int32_t)items[i];
    for (int64_t i = 1; i < m; i++)
        if (items[i] >> 32 == items[i - 1] >> 32)
            i = order_cell(keys, items, i - 1, m, by_index, (double *)spare, order, first);
    return m;
}
