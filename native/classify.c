/* Values of a block of validation points in classification, from quantised keys to sums.
 *
 * Values change only where the status changes along the ranks: from match (the query's label) to other. The rarer status
 * is that of the *pivots*. Points stand in the order of their classes, so matches are one slice.
 *
 *   put_in_cells   qkeys -> cells of 16 bits, by two lines with few cells where nothing matters; counts of both statuses.
 *                  No cell is narrower than the tolerance, so points two cells apart are in the right order
 *   find_mixed     where two neighbouring cells hold both statuses their order matters, and their points are listed;
 *                  elsewhere one value for each cell is enough
 *   list_items     the listed points, sorted by qkey
 *   resolve        listed points within tolerance of a pivot: runs of them are ordered by exact distances
 *   scan           far to near, a value for each cell and each listed point
 *   fold           sums: one look-up for each point
 *
 * Exact distances decide wherever qkeys are too close to tell, so order, ties and every bit of the result are those of
 * the exact distances, whatever made the qkeys. With `max_error`, cells from a cut on are not resolved: their points have
 * the values of ties, and counts alone certify the error (certified.c). Two queries are folded at a time, which saves
 * half of the memory traffic; each point still gets its terms in the order of the queries. */
#include "nearworth.h"

#define SAMPLE 128
#define FINE 0.3f /* share of the cells that lie where matches are, at least */
#define STRETCH 256 /* points looked at together */
#define TIED (UINT64_C(1) << 63) /* in an item as far as the one before */

enum status { MATCH, OTHER };

/* The map from qkeys to cells: the lower of two lines. */
typedef struct {
    float slope1, offset1, slope2, offset2, top;
} Map;

/* Listed points whose order qkeys leave open: items start..end-1, and the number of the first pivot among them. */
typedef struct {
    int64_t start, end, pivot;
} Run;

/* Working arrays of one thread. An item is a listed point: its qkey, and in the lower half its position. */
typedef struct {
    uint16_t *cell[2];       /* of each point, of two queries: cells of others, of matches, of excluded points */
    double *table[2][2];     /* value of each cell, of two queries, by status; matches stand behind others */
    uint32_t *counts[2];     /* by status and cell; in the same way */
    uint8_t *mixed;          /* by cell: whether its points are listed; in the same way */
    uint64_t *items, *spare; /* near to far once they are sorted */
    int32_t *pivots;         /* which items are pivots, near to far */
    double *value;           /* of each item */
    Run *runs;
    int32_t *rows;           /* of the items of all runs, with their exact distances */
    double *exact;
} Scratch;

typedef struct {
    const int32_t *qkeys, *excluded; /* excluded: positions that take no part, the query itself or rows of its group */
    int64_t n, n_excluded, first_match, end_match; /* points, and the slice of matches */
    enum status pivots;
    bool by_index;
    int32_t tolerance;
    int64_t n_cells, cut, end_mixed, n_items, n_pivots; /* cut: the first cell that is not resolved; end_mixed: behind the last mixed */
    int needless; /* last bits of qkeys by which items are not sorted */
} Query;

static inline enum status status_of(const Query *query, int64_t position)
{
    /* One comparison: which side of the slice a point is on cannot be predicted. */
    return (uint64_t)(position - query->first_match) < (uint64_t)(query->end_match - query->first_match) ? MATCH : OTHER;
}

/* ---------------------------------------------------------------------------------------------------- scratch memory */

static void *take(char **memory, int64_t count, int64_t size)
{
    void *start = *memory;
    *memory += (count * size + 63) / 64 * 64;
    return start;
}

static int64_t lay_out(char *memory, Scratch *s, int64_t n, int64_t n_cells)
{
    char *start = memory;
    for (int i = 0; i < 2; i++) {
        s->cell[i] = take(&memory, n + 64, sizeof(uint16_t));
        s->table[i][OTHER] = take(&memory, 2 * n_cells + 1, sizeof(double));
        s->table[i][MATCH] = s->table[i][OTHER] + n_cells;
    }
    s->counts[OTHER] = take(&memory, 2 * n_cells + 1, sizeof(uint32_t));
    s->counts[MATCH] = s->counts[OTHER] + n_cells;
    s->mixed = take(&memory, 2 * n_cells + 1, sizeof(uint8_t));
    s->items = take(&memory, n + 1, sizeof(uint64_t));
    s->spare = take(&memory, n + 1, sizeof(uint64_t));
    s->pivots = take(&memory, n + 1, sizeof(int32_t));
    s->value = take(&memory, n, sizeof(double));
    s->runs = take(&memory, n / 2 + 1, sizeof(Run));
    s->rows = take(&memory, n, sizeof(int32_t));
    s->exact = take(&memory, n, sizeof(double));
    return memory - start;
}

/* Bytes of the working arrays for n points. */
EXPORT int64_t classify_scratch(int64_t n, int64_t n_cells)
{
    Scratch scratch;
    return lay_out((char *)64, &scratch, n, n_cells) + 64;
}

/* ------------------------------------------------------------------------------------------------------------- cells */

static inline uint16_t cell_of(const Map *map, int32_t qkey)
{
    float key = (float)qkey, a = key * map->slope1 + map->offset1, b = key * map->slope2 + map->offset2;
    float place = a < b ? a : b;
    place = place > 0.0f ? place : 0.0f;
    return (uint16_t)(int32_t)(place < map->top ? place : map->top);
}

/* Cells are fine as far as pivots reach, by a sample, and coarse beyond: order matters only where both statuses are. */
static Map make_map(const Query *query)
{
    int64_t step = query->n > SAMPLE ? query->n / SAMPLE : 1;
    int32_t nearest = INT32_MAX, farthest = 0, last = 0, second = 0;
    for (int64_t i = step / 2; i < query->n; i += step) {
        int32_t qkey = query->qkeys[i], of_pivot = status_of(query, i) == query->pivots ? qkey : 0;
        nearest = qkey < nearest ? qkey : nearest;
        farthest = qkey > farthest ? qkey : farthest;
        second = of_pivot > last ? last : of_pivot > second ? of_pivot : second;
        last = of_pivot > last ? of_pivot : last;
    }
    float span = farthest - nearest > 64 ? (float)(farthest - nearest) : 64.0f, cells = (float)query->n_cells;
    float low = (float)nearest - 0.05f * span, high = (float)farthest + 0.02f * span;
    float bend = fminf(fmaxf((float)second, low + 0.05f * span), high - 0.02f * span);
    float fine = fmaxf((bend - low) / (high - low), FINE);
    float steepest = 1.0f / (1.01f * (float)query->tolerance + 200.0f); /* 200 covers roundings to single precision */
    Map map;
    map.slope1 = fminf(fine * cells / (bend - low), steepest);
    map.offset1 = -map.slope1 * low;
    map.slope2 = fminf((1.0f - fine) * cells / (high - bend), steepest);
    map.offset2 = (map.slope1 - map.slope2) * bend + map.offset1;
    map.top = cells - 1.0f;
    return map;
}

static void count_cells(const int32_t *qkeys, const Map *map, int64_t start, int64_t stop, int64_t before, uint16_t *cell,
                        uint32_t *counts)
{
    for (; start < stop; start += STRETCH) {
        int64_t end = start + STRETCH < stop ? start + STRETCH : stop;
        for (int64_t i = start; i < end; i++)
            cell[i] = (uint16_t)(cell_of(map, qkeys[i]) + before);
        for (int64_t i = start; i < end; i++)
            counts[cell[i]]++;
    }
}

/* Excluded points go to a cell of their own behind the last, which counts for nothing and has the value 0. */
static void put_in_cells(const Query *query, uint16_t *cell, uint32_t *counts)
{
    Map map = make_map(query);
    memset(counts, 0, (size_t)(2 * query->n_cells + 1) * sizeof *counts);
    count_cells(query->qkeys, &map, 0, query->first_match, 0, cell, counts);
    count_cells(query->qkeys, &map, query->first_match, query->end_match, query->n_cells, cell, counts);
    count_cells(query->qkeys, &map, query->end_match, query->n, 0, cell, counts);
    for (int64_t e = 0; e < query->n_excluded; e++) {
        counts[cell[query->excluded[e]]]--;
        cell[query->excluded[e]] = (uint16_t)(2 * query->n_cells);
    }
}

/* Mark cells that are mixed, alone or with a neighbour; what the cut separates is part of the certificate. */
static void find_mixed(Query *query, Scratch *s)
{
    const uint32_t *matches = s->counts[MATCH], *others = s->counts[OTHER];
    uint8_t *pair = s->mixed + query->n_cells; /* by cell: whether it and the next hold both statuses */
    uint32_t listed = 0;
    memset(s->mixed, 0, (size_t)(2 * query->n_cells + 1));
    for (int64_t c = 0; c + 1 < query->cut; c++)
        pair[c] = ((matches[c] | matches[c + 1]) != 0) & ((others[c] | others[c + 1]) != 0);
    if (query->cut > 0)
        s->mixed[0] = pair[0] | (matches[0] && others[0]);
    for (int64_t c = 1; c < query->cut; c++)
        s->mixed[c] = pair[c - 1] | pair[c];
    for (int64_t c = 0; c < query->cut; c++)
        listed += s->mixed[c] ? matches[c] + others[c] : 0;
    for (query->end_mixed = query->cut; query->end_mixed > 0 && !s->mixed[query->end_mixed - 1];)
        query->end_mixed--;
    query->n_items = listed;
    memcpy(pair, s->mixed, (size_t)query->cut);
}

/* ------------------------------------------------------------------------------------------------------- listed points */

static inline int64_t position_of(uint64_t item) { return (int64_t)(item & UINT32_MAX); }

/* Whether any of these points may be in a mixed cell. */
static bool any_mixed(const uint16_t *cell, int64_t count, uint16_t n_cells, uint16_t end_mixed)
{
    uint16_t any = 0;
    for (int64_t i = 0; i < count; i++)
        any |= (uint16_t)(cell[i] < n_cells ? cell[i] : cell[i] - n_cells) < end_mixed;
    return any;
}

/* List the points of mixed cells, near to far but for bits of qkeys that are far below the tolerance. */
static void list_items(Query *query, const uint16_t *cell, Scratch *s)
{
    int64_t count = 0;
    for (int64_t start = 0; start < query->n; start += STRETCH) {
        int64_t end = start + STRETCH < query->n ? start + STRETCH : query->n;
        if (!any_mixed(cell + start, end - start, (uint16_t)query->n_cells, (uint16_t)query->end_mixed))
            continue;
        for (int64_t i = start; i < end; i++) {
            s->items[count] = (uint64_t)query->qkeys[i] << 32 | (uint64_t)i;
            count += s->mixed[cell[i]];
        }
    }
    for (query->needless = 0; query->tolerance >> (query->needless + 4);)
        query->needless++;
    uint64_t *sorted = sort_items(s->items, s->spare, count, 32 + query->needless);
    s->spare = sorted == s->items ? s->spare : s->items;
    s->items = sorted;
    for (int64_t i = 0; i < count; i++) {
        s->pivots[query->n_pivots] = (int32_t)i;
        query->n_pivots += status_of(query, position_of(sorted[i])) == query->pivots;
    }
}

/* Runs of items that are within tolerance of pivots: what is between two runs is surely before or behind their pivots.
 * Two pivots belong to one run if an item between them is within tolerance of both. Returns the number of runs that hold
 * both statuses. */
static int64_t find_runs(const Query *query, Scratch *s)
{
    const uint64_t *items = s->items;
    int shift = 32 + query->needless;
    uint64_t tolerance = ((uint64_t)query->tolerance >> query->needless) + 1;
    int64_t n_runs = 0;
    Run run = {0, 0, 0};
    for (int64_t k = 0; k < query->n_pivots; k++) {
        int64_t i = s->pivots[k], start = i;
        uint64_t qkey = items[i] >> shift;
        while (start > run.end && qkey - (items[start - 1] >> shift) <= tolerance)
            start--;
        if (i >= run.end && !(start == run.end && start > 0 && qkey - (items[start - 1] >> shift) <= tolerance)) {
            s->runs[n_runs] = run;
            n_runs += run.end - run.start > k - run.pivot;
            run.start = start, run.end = i + 1, run.pivot = k;
        }
        run.end = run.end > i ? run.end : i + 1;
        while (run.end < query->n_items && (items[run.end] >> shift) - qkey <= tolerance)
            run.end++;
    }
    s->runs[n_runs] = run;
    return n_runs + (run.end - run.start > query->n_pivots - run.pivot);
}

/* Put the items of one run in the order of exact distances, then of rows. */
static void order_run(const Query *query, Run run, const int32_t *place_of, int32_t *rows, double *exact, Scratch *s)
{
    sort_pairs(exact, rows, run.end - run.start);
    for (int64_t i = run.start; i < run.end; i++, rows++, exact++) {
        bool tied = !query->by_index && i > run.start && exact[0] == exact[-1];
        s->items[i] = (uint64_t)place_of[*rows] | (tied ? TIED : 0);
        if (status_of(query, place_of[*rows]) == query->pivots)
            s->pivots[run.pivot++] = (int32_t)i;
    }
}

/* Put all items in the order of exact distances, where it matters; returns how many distances were taken. */
static int64_t resolve(const Query *query, Source *source, const int32_t *row_of, const int32_t *place_of, Scratch *s)
{
    int64_t n_runs = find_runs(query, s), count = 0, done = 0;
    for (int64_t r = 0; r < n_runs; r++)
        for (int64_t i = s->runs[r].start; i < s->runs[r].end; i++)
            s->rows[count++] = row_of[position_of(s->items[i])];
    if (count > 0)
        exact_distances(source, s->rows, s->exact, query->n, count);
    for (int64_t r = 0; r < n_runs; done += s->runs[r].end - s->runs[r].start, r++)
        order_run(query, s->runs[r], place_of, s->rows + done, s->exact + done, s);
    return count;
}

/* ------------------------------------------------------------------------------------------------------------- values */

/* Values along the ranks, from the farthest point to the nearest. A match at the end of a run of matches is worth
 * worth[rank] - lost, and the whole run shares that value; a point that does not match has -lost. `lost` is what a point
 * loses to the matches beyond it: loss[rank] for each of them. Where matches are the rarer status they are added one by
 * one; else a run adds the difference of its ends. So every bit depends on the order of the points alone, not on how they
 * were found. Ranks count from 1; worth[0] = worth[1]. */
typedef struct {
    const double *worth, *loss;
    double for_match, for_other; /* constants that the utility adds */
    bool one_by_one;             /* matches are the rarer status */
    int64_t position;            /* the rank of the farthest point not seen yet */
    double lost, shared;         /* `shared`: the value of the run of matches under way */
    int64_t run_end;             /* its last rank; 0 if none is under way */
} Scan;

static inline void end_run(Scan *scan)
{
    if (scan->run_end && !scan->one_by_one)
        scan->lost += scan->worth[scan->position] - scan->worth[scan->run_end];
    scan->run_end = 0;
}

/* The value of the next `count` points, all of them matches. */
static inline double next_matches(Scan *scan, int64_t count)
{
    if (!scan->run_end) {
        scan->run_end = scan->position;
        scan->shared = scan->worth[scan->position] - scan->lost + scan->for_match;
    }
    if (scan->one_by_one)
        for (int64_t i = 0; i < count; i++)
            scan->lost += scan->loss[scan->position - i];
    scan->position -= count;
    return scan->shared;
}

/* The value of the next `count` points, none of them a match. */
static inline double next_others(Scan *scan, int64_t count)
{
    end_run(scan);
    scan->position -= count;
    return scan->for_other - scan->lost;
}

/* Values of a match and of another point among the next `size` points, which are tied and of both statuses. */
static inline void next_ties(Scan *scan, int64_t size, int64_t matches, double of[2])
{
    end_run(scan);
    int64_t start = scan->position - size;
    double total = 0.0, inner = 0.0, count = (double)size, share = (double)matches;
    for (int64_t rank = start + 1; rank <= scan->position; rank++) {
        total += scan->worth[rank];
        inner += (double)(rank - 1 - start) * scan->loss[rank];
    }
    inner /= count * (count - 1.0);
    of[MATCH] = total / count - (share - 1.0) * inner - scan->lost + scan->for_match;
    of[OTHER] = -share * inner - scan->lost + scan->for_other;
    scan->lost += share / count * (scan->worth[start] - scan->worth[scan->position]);
    scan->position = start;
}

static inline double next_points(Scan *scan, enum status status, int64_t count)
{
    return status == MATCH ? next_matches(scan, count) : next_others(scan, count);
}

/* Values of tied items up to end-1, of either status or both; returns the first of them. */
static int64_t scan_ties(Scan *scan, const Query *query, int64_t end, Scratch *s)
{
    int64_t first = end, matches = 0;
    do
        matches += status_of(query, position_of(s->items[--first])) == MATCH;
    while (s->items[first] & TIED);
    double of[2];
    if (matches == 0 || matches == end - first)
        of[MATCH] = of[OTHER] = next_points(scan, matches ? MATCH : OTHER, end - first);
    else
        next_ties(scan, end - first, matches, of);
    for (int64_t i = first; i < end; i++)
        s->value[i] = of[status_of(query, position_of(s->items[i]))];
    return first;
}

/* The value of items that all have one status. */
static void scan_alike(Scan *scan, enum status status, int64_t start, int64_t end, Scratch *s)
{
    if (start == end)
        return;
    double value = next_points(scan, status, end - start);
    for (int64_t i = start; i < end; i++)
        s->value[i] = value;
}

/* Values of the items start..end-1, far to near, from pivot to pivot: points between two pivots have one value. */
static void scan_items(Scan *scan, Query *query, int64_t start, int64_t end, Scratch *s)
{
    enum status between = query->pivots == MATCH ? OTHER : MATCH;
    while (query->n_pivots > 0 && s->pivots[query->n_pivots - 1] >= start) {
        int64_t pivot = s->pivots[query->n_pivots - 1], after = pivot + 1;
        while (after < end && s->items[after] & TIED)
            after++;
        scan_alike(scan, between, after, end, s);
        if (after > pivot + 1 || s->items[pivot] & TIED) {
            end = scan_ties(scan, query, after, s);
        } else {
            scan_alike(scan, query->pivots, pivot, after, s);
            end = pivot;
        }
        while (query->n_pivots > 0 && s->pivots[query->n_pivots - 1] >= end)
            query->n_pivots--;
    }
    scan_alike(scan, between, start, end, s);
}

/* Values of all cells before the cut and of everything listed, far to near. */
static void scan_cells(Scan *scan, Query *query, double *const table[2], Scratch *s)
{
    const uint32_t *matches = s->counts[MATCH], *others = s->counts[OTHER];
    int64_t end = query->n_items, start = end;
    table[MATCH][query->n_cells] = 0.0; /* of excluded points */
    for (int64_t c = query->cut - 1; c >= 0; c--) {
        table[MATCH][c] = table[OTHER][c] = 0.0;
        if (s->mixed[c]) { /* its points are listed, and may have changed places with those of mixed neighbours */
            start -= matches[c] + others[c];
            if (c == 0 || !s->mixed[c - 1]) {
                scan_items(scan, query, start, end, s);
                end = start;
            }
        } else if (matches[c]) {
            table[MATCH][c] = next_matches(scan, matches[c]);
        } else if (others[c]) {
            table[OTHER][c] = next_others(scan, others[c]);
        }
    }
}

/* ------------------------------------------------------------------------------------------------------ one query, sums */

/* Values of the cells that need not be resolved for this error, and where they begin. Returns the certified error. */
static double cut_cells(Scan *scan, Query *query, double max_error, int64_t certain, const double *total,
                        double *const table[2], const Scratch *s)
{
    double result[2];
    query->cut = certified_cut(s->counts[MATCH], s->counts[OTHER], total, scan->worth, max_error, certain, table[MATCH],
                               table[OTHER], result, query->n_cells, scan->position + 1);
    for (int64_t c = query->cut; c < query->n_cells; c++) {
        scan->position -= s->counts[MATCH][c] + s->counts[OTHER][c];
        table[MATCH][c] += scan->for_match;
        table[OTHER][c] += scan->for_other;
    }
    scan->lost = result[0];
    return result[1];
}

/* Look-ups are faster one by one than as gathered vectors. */
#if defined(__GNUC__) && !defined(__clang__)
#define ONE_BY_ONE __attribute__((optimize("no-tree-vectorize")))
#else
#define ONE_BY_ONE
#endif

/* Add the table of one query, or those of two, of the first before the second. */
ONE_BY_ONE static void fold(double *restrict out, const Scratch *s, int64_t n, bool two)
{
    const uint16_t *restrict cell0 = s->cell[0], *restrict cell1 = s->cell[1];
    const double *table0 = s->table[0][OTHER], *table1 = s->table[1][OTHER];
    if (two)
        for (int64_t i = 0; i < n; i++)
            out[i] = (out[i] + table0[cell0[i]]) + table1[cell1[i]];
    else
        for (int64_t i = 0; i < n; i++)
            out[i] += table0[cell0[i]];
}

/* A block of queries. `total` gets weight * value added, query after query; or `values`, where given, each query's values.
 * Points stand in the order of their classes: class c holds the positions starts[c] to starts[c + 1] - 1, row_of gives
 * the row of a position and place_of the position of a row. Labels are classes, or -1 if no training point has them.
 * A row of `excluded` has the positions that take no part in the game of a query, equally many for all queries of a
 * block. `constants` holds what the utility adds for a match and for another point. Exact distances come from points,
 * from given keys, or from `ask`. With `max_error` above 0 values are certified: `errors` gets the error of each query,
 * `cumulative` holds the sums of worth. Returns how many exact distances were taken, or -1 if `ask` failed. */
EXPORT int64_t classify_block(const int32_t *qkeys, const int32_t *tolerances, const int32_t *labels,
                              const int32_t *excluded, const double *constants, const double *weights,
                              const int64_t *starts, const int32_t *row_of, const int32_t *place_of, const double *worth,
                              const double *loss, const double *cumulative, double max_error, int64_t certain,
                              int32_t by_index, int64_t n_cells, const double *queries, const void *points, int32_t type,
                              const double *given, callback ask, double *total, double *values, double *errors,
                              char *memory, int64_t n_queries, int64_t stride, int64_t n_excluded, int64_t n_starts,
                              int64_t n, int64_t n_ranks, int64_t width, int64_t n_rows, int64_t n_memory)
{
    (void)n_starts, (void)n_ranks, (void)n_rows, (void)n_memory;
    Scratch s;
    int64_t taken = 0;
    lay_out(memory + (64 - (uintptr_t)memory % 64) % 64, &s, n, n_cells);
    for (int64_t q = 0; q < n_queries; q++) {
        int number = values ? 0 : (int)(q & 1);
        double *const *table = s.table[number], *out = values ? memset(values + q * n, 0, (size_t)n * sizeof *values) : total;
        int64_t first = labels[q] < 0 ? 0 : starts[labels[q]], end = labels[q] < 0 ? 0 : starts[labels[q] + 1];
        bool few = 2 * (end - first) <= n; /* matches are the rarer status */
        Query query = {qkeys + q * stride, excluded + q * n_excluded, n, n_excluded, first, end, few ? MATCH : OTHER, by_index,
                       tolerances[q], n_cells, .cut = n_cells};
        Source source = {points, type, width, queries ? queries + q * width : NULL, given ? given + q * n : NULL, ask, q, false};
        Scan scan = {worth, loss, constants[2 * q], constants[2 * q + 1], few, .position = n - n_excluded};
        put_in_cells(&query, s.cell[number], s.counts[OTHER]);
        errors[q] = max_error > 0.0 ? cut_cells(&scan, &query, max_error, certain, cumulative, table, &s) : 0.0;
        find_mixed(&query, &s);
        if (query.n_items) {
            list_items(&query, s.cell[number], &s);
            taken += resolve(&query, &source, row_of, place_of, &s);
        }
        if (source.failed)
            return -1;
        scan_cells(&scan, &query, table, &s);
        double weight = values ? 1.0 : weights[q];
        for (int64_t c = 0; c < 2 * n_cells; c++)
            table[OTHER][c] *= weight;
        if (number == 1 || values || q + 1 == n_queries)
            fold(out, &s, n, number == 1);
        for (int64_t i = 0; i < query.n_items; i++)
            out[position_of(s.items[i])] += weight * s.value[i];
    }
    return taken;
}
