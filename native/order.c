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
    CELL_BITS = 27,          /* of the number of a cell */
    SHORT_DIGIT = 8,         /* bits of a digit */
    LONG_DIGIT = 12,         /* bits of a digit of many items */
    MIN_LONG_ITEMS = 4096,   /* items from which on long digits pay */
    MAX_INSERTED_PAIRS = 24, /* pairs up to which plain insertion is the fastest sort */
};

/* Sorts by the `bits` bits from `shift` on; equal items keep their order. */
static void sort_by_digit(const uint64_t *items, uint64_t *sorted, int64_t n, int shift, int bits) {
    uint32_t n_values = 1u << bits;
    uint32_t mask = n_values - 1;

    /* At first the items of each value, then the place of the first one. */
    uint32_t places[1 << LONG_DIGIT];
    memset(places, 0, n_values * sizeof *places);
    for (int64_t i = 0; i < n; i++)
        places[items[i] >> shift & mask]++;
    uint32_t start = 0;
    for (uint32_t value = 0; value < n_values; value++) {
        uint32_t count = places[value];
        places[value] = start;
        start += count;
    }

    for (int64_t i = 0; i < n; i++)
        sorted[places[items[i] >> shift & mask]++] = items[i];
}

uint64_t *sort_items(uint64_t *items, uint64_t *spare, int64_t n, int shift) {
    /* Leading bits in which all items agree need no digit. */
    uint64_t differing = 0;
    for (int64_t i = 1; i < n; i++)
        differing |= items[i] ^ items[0];
    int total_bits = differing >> shift ? 64 - shift - __builtin_clzll(differing) : 0;
    int max_bits = n < MIN_LONG_ITEMS ? SHORT_DIGIT : LONG_DIGIT;
    int n_digits = (total_bits + max_bits - 1) / max_bits;
    int bits = n_digits ? (total_bits + n_digits - 1) / n_digits : 0;
    for (; n_digits > 0; n_digits--) {
        sort_by_digit(items, spare, n, shift, bits);
        uint64_t *sorted = spare;
        spare = items;
        items = sorted;
        shift += bits;
    }
    return items;
}

static inline bool is_before(double key, int32_t point, double other_key, int32_t other_point) {
    return key < other_key || (key == other_key && point < other_point);
}

/* Insertion over shrinking gaps; plain insertion for few pairs. */
void sort_pairs(double *keys, int32_t *points, int64_t size) {
    int64_t gap = 1;
    while (size > MAX_INSERTED_PAIRS && 9 * gap < 4 * size)
        gap = 9 * gap / 4 + 1;
    for (;; gap = gap > 2 ? 4 * gap / 9 : 1) {
        for (int64_t j = gap; j < size; j++) {
            double key = keys[j];
            int32_t point = points[j];
            int64_t i = j;
            for (; i >= gap && is_before(key, point, keys[i - gap], points[i - gap]); i -= gap) {
                keys[i] = keys[i - gap];
                points[i] = points[i - gap];
            }
            keys[i] = key;
            points[i] = point;
        }
        if (gap == 1)
            return;
    }
}

/* A whole number that compares as the key does. Both zeros have the same. */
static inline uint64_t sortable(double key) {
    uint64_t bits;
    key += 0.0;
    memcpy(&bits, &key, sizeof bits);
    return bits ^ (bits >> 63 ? UINT64_MAX : UINT64_C(1) << 63);
}

/* Orders the points of the cell that begins at rank `start`, and finds ties. Returns where the cell
 * ends. `cell_keys` has room for n keys. */
static int64_t order_cell(
    const double *keys, const uint64_t *items, int64_t start, int64_t n, bool by_index,
    double *cell_keys, int32_t *order, uint8_t *first
) {
    int64_t end = start;
    for (; end < n && items[end] >> 32 == items[start] >> 32; end++)
        cell_keys[end - start] = keys[order[end]];
    sort_pairs(cell_keys, order + start, end - start);
    for (int64_t i = start + 1; i < end; i++)
        first[i] = by_index || cell_keys[i - start] != cell_keys[i - start - 1];
    return end;
}

int64_t order_points(
    const double *keys, int64_t n, bool by_index, uint64_t *items, uint64_t *spare, int32_t *order,
    uint8_t *first
) {
    /* Cells divide the range of all keys that are numbers. */
    uint64_t low = UINT64_MAX;
    uint64_t high = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = sortable(keys[i]);
        low = !isnan(keys[i]) && bits < low ? bits : low;
        high = !isnan(keys[i]) && bits > high ? bits : high;
    }
    int shift = 0;
    while ((high - low) >> shift >> CELL_BITS)
        shift++;

    /* An item has a cell in its upper half and the point in its lower half. */
    int64_t n_items = 0;
    for (int64_t i = 0; i < n; i++) {
        items[n_items] = (sortable(keys[i]) - low) >> shift << 32 | (uint64_t)i;
        n_items += !isnan(keys[i]);
    }
    uint64_t *sorted = sort_items(items, spare, n_items, 32);

    double *cell_keys = (double *)(sorted == items ? spare : items);
    for (int64_t i = 0; i < n_items; i++) {
        order[i] = (int32_t)sorted[i];
        first[i] = 1;
    }
    for (int64_t i = 1; i < n_items; i++)
        if (sorted[i] >> 32 == sorted[i - 1] >> 32)
            i = order_cell(keys, sorted, i - 1, n_items, by_index, cell_keys, order, first);
    return n_items;
}
