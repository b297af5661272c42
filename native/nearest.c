/* The nearest training points of each query, from the qkeys that a valuation makes anyway.
 *
 *   1. bound       the k-th smallest of the minima of some groups of qkeys: k points are not beyond
 *                  it
 *   2. candidates  points not beyond the bound by more than the tolerance: the nearest are among
 *                  them
 *   3. list        candidates in the order of their exact keys
 *
 * For games in which only near points count: their rows, how many there are, and sums of their
 * values.
 *
 * Points equally far are in the order of a hash of query and row, which is unrelated to the order
 * of the rows. Where the list has room for only some of them, it ends before them, unless it would
 * be shorter than `least`. */
#include "nearworth.h"

/* Marks of a point: outside of the radius, or within it with the label of the query or another. */
enum { OUTSIDE, MATCH, OTHER };

enum {
    GROUPS_PER_NEIGHBOR = 8, /* groups whose minima are taken, for each of k neighbors */
    BLOCK = 32,              /* qkeys looked at together */
    STRETCH = 1024,          /* points whose sums stay in the cache for all queries */
};

/* Large odd numbers: products with them, modulo 2^32, look random. ROW_UNMULTIPLIER undoes the
 * product with ROW_MULTIPLIER. engine/run.py has the same. */
static const uint32_t ROW_MULTIPLIER = 0x9E3779B1u;
static const uint32_t ROW_UNMULTIPLIER = 0x0E8B2F51u;
static const uint32_t QUERY_MULTIPLIER = 0x85EBCA77u;
static const uint32_t SIGN_BIT = 0x80000000u;

/* The k-th smallest number, by bisection: each step is one vectorized pass, and no order of the
 * numbers is a bad one. */
static int64_t kth_smallest(const int32_t *numbers, int64_t n, int64_t k) {
    int32_t low = INT32_MAX;
    int32_t high = INT32_MIN;
    for (int64_t i = 0; i < n; i++) {
        low = numbers[i] < low ? numbers[i] : low;
        high = numbers[i] > high ? numbers[i] : high;
    }
    while (low < high) {
        int32_t middle = (int32_t)(((int64_t)low + high) >> 1);
        int32_t count = 0;
        for (int64_t i = 0; i < n; i++)
            count += numbers[i] <= middle;
        low = count >= k ? low : middle + 1;
        high = count >= k ? middle : high;
    }
    return low;
}

int64_t bound_of_kth(const int32_t *qkeys, int64_t n, int64_t k, int32_t *lowest) {
    /* Groups of fewer than two points have no other minima. */
    int64_t n_groups = GROUPS_PER_NEIGHBOR * k;
    if (n < 2 * n_groups || n == 0)
        return kth_smallest(qkeys, n, k);

    /* Every n_groups-th point belongs to the same group; points behind the last whole turn to
     * none. */
    memcpy(lowest, qkeys, (size_t)n_groups * sizeof *lowest);
    for (int64_t start = n_groups; start + n_groups <= n; start += n_groups)
        for (int64_t i = 0; i < n_groups; i++)
            lowest[i] = qkeys[start + i] < lowest[i] ? qkeys[start + i] : lowest[i];
    return kth_smallest(lowest, n_groups, k);
}

/* Whether any of BLOCK numbers is in a range. */
static bool any_between(const int32_t *numbers, int32_t low, int32_t high) {
    int32_t any = 0;
    for (int i = 0; i < BLOCK; i++)
        any |= (numbers[i] >= low) & (numbers[i] <= high);
    return any;
}

/* Whether a position is in a short list. */
static bool is_in(int64_t position, const int32_t *list, int64_t size) {
    bool is_listed = false;
    for (int64_t i = 0; i < size; i++)
        is_listed |= list[i] == position;
    return is_listed;
}

int64_t list_between(
    const int32_t *qkeys, int64_t n, int64_t from, int64_t to, const int32_t *excluded,
    int64_t n_excluded, const int32_t *row_of, int32_t *rows
) {
    int32_t low = from > INT32_MIN ? (int32_t)from : INT32_MIN;
    int32_t high = to < INT32_MAX ? (int32_t)to : INT32_MAX;
    int64_t count = 0;
    for (int64_t start = 0; start < n; start += BLOCK) {
        int64_t stop = start + BLOCK < n ? start + BLOCK : n;
        /* Most blocks have no such point. */
        if (stop - start == BLOCK && !any_between(qkeys + start, low, high))
            continue;
        for (int64_t i = start; i < stop; i++)
            if (qkeys[i] >= low && qkeys[i] <= high && !is_in(i, excluded, n_excluded))
                rows[count++] = row_of ? row_of[i] : (int32_t)i;
    }
    return count;
}

/* Sorts the candidates by key and hash. Returns how many belong to the list. */
static int64_t cut_list(double *keys, int32_t *hashes, int64_t count, int64_t size, int64_t least) {
    sort_pairs(keys, hashes, count);
    if (count <= size)
        return count;
    int64_t n_nearer = size;
    while (n_nearer > 0 && keys[n_nearer - 1] == keys[size])
        n_nearer--;
    return n_nearer >= least ? n_nearer : size;
}

/* The arguments of nearest_lists, which are declared in native.py. */
typedef struct {
    const int32_t *qkeys;      /* [query][position], rows of `stride` numbers */
    const int32_t *tolerances; /* of qkeys, by query */
    const int32_t *excluded;   /* [query][i]: positions that take no part */
    const int32_t *row_of;     /* by position */
    const double *queries;     /* where exact keys come from: see Source in nearworth.h */
    const void *points;
    int32_t type;
    const double *given;
    callback ask;
    int64_t first;  /* the number of the first query, which is hashed */
    int32_t hashed; /* points equally far are in the order of a hash, else in that of their rows */
    int64_t least;  /* a list that would be shorter without part of a tie takes that part */
    int32_t *rows;  /* [query][rank], -1 behind the end of a list */
    double *keys;   /* [query][rank], infinity behind the end */
    int32_t *near;  /* scratch */
    double *exact;  /* scratch */
    int64_t n_queries, stride, n_excluded, n, width, n_points, size;
} NearestLists;

/* Lists the nearest points of each query. */
EXPORT void nearest_lists(const NearestLists *lists) {
    int64_t n = lists->n, size = lists->size, n_excluded = lists->n_excluded;
    int32_t *near = lists->near;
    double *exact = lists->exact;
    Source source = {lists->queries, lists->points, lists->type,     lists->given,
                     lists->ask,     lists->width,  lists->n_points, n};
    uint32_t multiplier = lists->hashed ? ROW_MULTIPLIER : 1;
    uint32_t unmultiplier = lists->hashed ? ROW_UNMULTIPLIER : 1;
    /* Excluded points may be among the nearest. */
    int64_t n_wanted = size + (n_excluded ? n_excluded : 1);
    for (int64_t q = 0; q < lists->n_queries; q++) {
        const int32_t *qkeys = lists->qkeys + q * lists->stride;
        int32_t *rows = lists->rows + q * size;
        double *keys = lists->keys + q * size;
        int64_t bound = bound_of_kth(qkeys, n, n_wanted < n ? n_wanted : n, near);
        int64_t count = list_between(
            qkeys, n, INT32_MIN, bound + lists->tolerances[q], lists->excluded + q * n_excluded,
            n_excluded, lists->row_of, near
        );
        if (!exact_keys(&source, q, near, exact, count))
            return;

        /* Rows become hashes, and listed hashes become rows again. Pairs are sorted by signed
         * numbers; with the other sign bit, these have the order of the hashes. */
        uint32_t query_hash =
            lists->hashed ? (uint32_t)(lists->first + q) * QUERY_MULTIPLIER ^ SIGN_BIT : 0;
        for (int64_t i = 0; i < count; i++)
            near[i] = (int32_t)((uint32_t)near[i] * multiplier ^ query_hash);
        int64_t n_listed = cut_list(exact, near, count, size, lists->least);
        for (int64_t i = 0; i < n_listed; i++) {
            rows[i] = (int32_t)(((uint32_t)near[i] ^ query_hash) * unmultiplier);
            keys[i] = exact[i];
        }
        for (int64_t i = n_listed; i < size; i++) {
            rows[i] = -1;
            keys[i] = INFINITY;
        }
    }
}

/* The arguments of mark_votes, which are declared in native.py. */
typedef struct {
    const int32_t *qkeys;    /* [query][point] */
    const int32_t *sure;     /* by query: points with smaller qkeys are within the radius */
    const int32_t *possible; /* by query: points with larger qkeys are not */
    const int32_t *excluded; /* [query][i]: points that take no part */
    const int32_t *labels;   /* of the points */
    const int32_t *of_query; /* labels of the queries */
    const double *queries;   /* where exact keys come from: see Source in nearworth.h */
    const void *points;
    int32_t type;
    const double *given;
    callback ask;
    double largest;  /* the largest exact key within the radius */
    int32_t *near;   /* scratch */
    double *exact;   /* scratch */
    uint8_t *marks;  /* [query][point]: OUTSIDE, MATCH or OTHER */
    int64_t *counts; /* [query][2]: points within the radius, matches among them */
    int64_t n_queries, n, n_excluded, width, n_points;
} MarkVotes;

/* Marks the points within the radius of each query, and counts them. */
EXPORT void mark_votes(const MarkVotes *block) {
    int64_t n = block->n;
    const int32_t *labels = block->labels;
    int32_t *near = block->near;
    double *exact = block->exact;
    Source source = {block->queries, block->points, block->type,     block->given,
                     block->ask,     block->width,  block->n_points, n};
    for (int64_t q = 0; q < block->n_queries; q++) {
        const int32_t *qkeys = block->qkeys + q * n;
        const int32_t *excluded = block->excluded + q * block->n_excluded;
        uint8_t *marks = block->marks + q * n;
        int32_t limit = block->sure[q];
        int32_t label = block->of_query[q];
        int64_t n_open = list_between(qkeys, n, limit, block->possible[q], NULL, 0, NULL, near);
        if (!exact_keys(&source, q, near, exact, n_open))
            return;

        /* Without branches, so that it is vectorized. */
        int32_t n_votes = 0;
        int32_t n_matches = 0;
        for (int64_t i = 0; i < n; i++) {
            int32_t is_inside = qkeys[i] < limit;
            int32_t is_match = is_inside & (labels[i] == label);
            n_votes += is_inside;
            n_matches += is_match;
            marks[i] = (uint8_t)(2 * is_inside - is_match);
        }

        for (int64_t i = 0; i < n_open; i++)
            if (exact[i] <= block->largest) {
                bool is_match = labels[near[i]] == label;
                n_votes++;
                n_matches += is_match;
                marks[near[i]] = is_match ? MATCH : OTHER;
            }

        for (int64_t i = 0; i < block->n_excluded; i++) {
            uint8_t *mark = marks + excluded[i];
            n_votes -= *mark != OUTSIDE;
            n_matches -= *mark == MATCH;
            *mark = OUTSIDE;
        }
        block->counts[2 * q] = n_votes;
        block->counts[2 * q + 1] = n_matches;
    }
}

/* Adds the values of marked points to their sums. `worth` has two numbers for each query: the value
 * of a match and that of another point. */
EXPORT void add_votes(
    const uint8_t *marks, const double *worth, double *restrict total, int64_t n_queries, int64_t n
) {
    for (int64_t start = 0, end; start < n; start = end) {
        end = start + STRETCH < n ? start + STRETCH : n;
        for (int64_t q = 0; q < n_queries; q++) {
            const uint8_t *own_marks = marks + q * n;
            double of_match = worth[2 * q];
            double of_other = worth[2 * q + 1];
            for (int64_t i = start; i < end; i++) {
                double of_inside = own_marks[i] == MATCH ? of_match : of_other;
                total[i] += own_marks[i] == OUTSIDE ? 0.0 : of_inside;
            }
        }
    }
}
