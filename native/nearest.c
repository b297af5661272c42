/* The nearest training points of a query, from quantised keys that a valuation makes anyway.
 *
 *   1. bound       the k-th smallest of the minima of some groups of keys: k points are not beyond it
 *   2. candidates  points not beyond the bound by more than the tolerance of the keys: the nearest are among them
 *   3. list        candidates by exact distance in a heap of one more than the list holds
 *
 * Points equally far are in the order of a hash of query and row, which is unrelated to the order of the rows. Where
 * the list has room for only some of the points equally far, it ends before them, unless it would be shorter than `least`.
 * src/nearworth/engine/nearest_lists.py has the same in numpy. */
#include "nearworth.h"

enum { GROUPS = 8, BLOCK = 32, FEW = 512 }; /* groups per neighbour; keys looked at together; neighbours to sort */
static const uint32_t MIX_ROW = 0x9E3779B1u, MIX_QUERY = 0x85EBCA77u;

struct neighbour {
    double key;
    uint32_t hash;
    int32_t row;
};

static int32_t count_up_to(const int32_t *numbers, int64_t n, int32_t limit)
{
    int32_t count = 0;
    for (int64_t i = 0; i < n; i++)
        count += numbers[i] <= limit;
    return count;
}

/* By bisection: each step is one vectorised pass, and no order of the numbers is a bad one. */
static int32_t kth_smallest(const int32_t *numbers, int64_t n, int64_t k)
{
    int32_t least = INT32_MAX, most = INT32_MIN;
    for (int64_t i = 0; i < n; i++) {
        least = numbers[i] < least ? numbers[i] : least;
        most = numbers[i] > most ? numbers[i] : most;
    }
    int64_t low = least, high = most;
    while (low < high) {
        int64_t middle = low + ((high - low) >> 1);
        if (count_up_to(numbers, n, (int32_t)middle) >= k)
            high = middle;
        else
            low = middle + 1;
    }
    return (int32_t)low;
}

static bool any_up_to(const int32_t *numbers, int32_t limit)
{
    int32_t any = 0;
    for (int i = 0; i < BLOCK; i++)
        any |= numbers[i] <= limit;
    return any;
}

static int32_t bound_of_kth(const int32_t *qkeys, int64_t n, int64_t k, int32_t *lowest)
{
    int64_t width = GROUPS * k;
    if (n < 2 * width || k < 1)
        return kth_smallest(qkeys, n, k);
    memcpy(lowest, qkeys, (size_t)width * sizeof *lowest);
    for (int64_t start = width; start + width <= n; start += width) {
        const int32_t *restrict some = qkeys + start;
        for (int64_t i = 0; i < width; i++)
            lowest[i] = some[i] < lowest[i] ? some[i] : lowest[i];
    }
    return kth_smallest(lowest, width, k);
}

static bool is_after(struct neighbour a, struct neighbour b)
{
    return a.key > b.key || (a.key == b.key && a.hash > b.hash);
}

/* Restore a heap, the last one on top, after a change at `at`. */
static void sift_down(struct neighbour *heap, int64_t at, int64_t n)
{
    struct neighbour moved = heap[at];
    for (int64_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        child += child + 1 < n && is_after(heap[child + 1], heap[child]);
        if (!is_after(heap[child], moved))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static void make_heap(struct neighbour *heap, int64_t n)
{
    for (int64_t at = n / 2 - 1; at >= 0; at--)
        sift_down(heap, at, n);
}

/* Keep the first `room` neighbours of all that are offered; returns how many there are. */
static int64_t offer(struct neighbour *heap, int64_t n, int64_t room, struct neighbour offered)
{
    if (n < room) {
        heap[n++] = offered;
        if (n == room)
            make_heap(heap, n);
    } else if (is_after(heap[0], offered)) {
        heap[0] = offered;
        sift_down(heap, 0, n);
    }
    return n;
}

/* Each goes where it belongs: counting those before it is vectorised, and for few faster than any sort. */
static const struct neighbour *sort_few(const struct neighbour *some, int64_t n, struct neighbour *sorted, double *keys)
{
    for (int64_t i = 0; i < n; i++)
        keys[i] = some[i].key;
    for (int64_t i = 0; i < n; i++) {
        int64_t before = 0, equal = 0;
        for (int64_t j = 0; j < n; j++) {
            before += keys[j] < keys[i];
            equal += keys[j] == keys[i];
        }
        for (int64_t j = 0; equal > 1 && j < n; j++)
            before += keys[j] == keys[i] && some[j].hash < some[i].hash;
        sorted[before] = some[i];
    }
    return sorted;
}

static const struct neighbour *sort_many(struct neighbour *heap, int64_t n)
{
    make_heap(heap, n);
    for (int64_t last = n - 1; last > 0; last--) {
        struct neighbour farthest = heap[0];
        heap[0] = heap[last];
        heap[last] = farthest;
        sift_down(heap, 0, last);
    }
    return heap;
}

/* How many of the sorted neighbours are listed; there is one more than the list holds if there are enough. */
static int64_t listed(const struct neighbour *sorted, int64_t n, int64_t size, int64_t least)
{
    if (n <= size || sorted[size].key != sorted[size - 1].key)
        return n < size ? n : size;
    int64_t before = size - 1;
    while (before > 0 && sorted[before - 1].key == sorted[size].key)
        before--;
    return before >= least ? before : size;
}

void nearest_of_query(const int32_t *qkeys, int64_t n_points, int64_t tolerance, const int32_t *order,
                      const double *query, const void *points, int32_t type, int64_t width, int64_t self_row,
                      int64_t number, int64_t size, int64_t least, double *scratch, int32_t *rows, double *keys)
{
    if (size < 1)
        return;
    struct neighbour *heap = (struct neighbour *)scratch;
    int64_t n = 0, room = size + 1, k = room < n_points ? room : n_points;
    int64_t limit = bound_of_kth(qkeys, n_points, k, (int32_t *)(heap + room)) + tolerance;
    int32_t last = limit < INT32_MAX ? (int32_t)limit : INT32_MAX;
    uint32_t mixed = (uint32_t)number * MIX_QUERY;
    for (int64_t start = 0; start < n_points; start += BLOCK) {
        int64_t stop = start + BLOCK < n_points ? start + BLOCK : n_points;
        if (stop - start == BLOCK && !any_up_to(qkeys + start, last))
            continue;
        for (int64_t i = start; i < stop; i++) {
            int32_t row = order ? order[i] : (int32_t)i;
            if (qkeys[i] > last || row == self_row)
                continue;
            double key = squared_distance(query, points, type, row, width);
            n = offer(heap, n, room, (struct neighbour){key, (uint32_t)row * MIX_ROW ^ mixed, row});
        }
    }
    struct neighbour *others = heap + room;
    double *spare = (double *)(others + room);
    const struct neighbour *sorted = n <= FEW ? sort_few(heap, n, others, spare) : sort_many(heap, n);
    n = listed(sorted, n, size, least);
    for (int64_t i = 0; i < size; i++) {
        rows[i] = i < n ? sorted[i].row : -1;
        keys[i] = i < n ? sorted[i].key : INFINITY;
    }
}

/* The lists of some queries, the first of which has the number `first`. */
EXPORT void nearest_lists(const int32_t *qkeys, const int64_t *tolerances, const int32_t *order, const double *queries,
                          const void *points, int32_t type, const int64_t *self_rows, int64_t first, int64_t least,
                          int32_t *rows, double *keys, double *scratch, int64_t n_queries, int64_t n_points,
                          int64_t width, int64_t size)
{
    for (int64_t i = 0; i < n_queries; i++)
        nearest_of_query(qkeys + i * n_points, n_points, tolerances[i], order, queries + i * width, points, type, width,
                         self_rows[i], first + i, size, least, scratch, rows + i * size, keys + i * size);
}
