/* Values of a block of validation points in classification, from quantised keys to sums.
 *
 * Values change only where the status changes along the ranks: from match (the query's label) to other. The rarer status
 * is that of the *pivots*. Points stand in the order of their classes, so matches are one slice.
 *
 *   put_in_cells   qkeys -> cells of 16 bits, by two lines with few cells where nothing matters; counts of both statuses
 *   find_groups    cells in a row that a pivot's tolerance links are a group; where a group holds both statuses the
 *                  order inside it matters, and its points are listed; elsewhere one value for each cell is enough
 *   sort_items     the listed points by qkey
 *   resolve        listed points within tolerance of a pivot: runs of them are ordered by exact distances
 *   scan           far to near, a value for each cell and each listed point
 *   fold           sums: one look-up for each point
 *
 * Exact distances decide wherever qkeys are too close to tell, so order, ties and every bit of the result are those of
 * the exact distances, whatever made the qkeys. With `max_error`, cells from a cut on are not resolved: their points have
 * the values of ties, and counts alone certify the error (certified.c). Two queries are folded at a time, which saves
 * half of the memory traffic; each point still gets its terms in the order of the queries. */
#include "scan.h"

#define SAMPLE 128
#define FINE 0.3f /* share of the cells that lie where matches are, at least */
#define STRETCH 256 /* points whose cells are made at a time */
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
    uint16_t *cell[2];          /* of each point, of two queries: cells of others, of matches, of excluded points */
    double *table[2][2];        /* value of each cell, of two queries, by status; matches stand behind others */
    uint32_t *counts[2];        /* by status and cell; in the same way */
    int32_t *links;             /* by cell: pivots whose tolerance reaches from it to the next */
    uint8_t *mixed;             /* by cell: whether its group holds both statuses, so that order matters */
    uint64_t *items, *spare;    /* near to far once they are sorted */
    int32_t *pivots;            /* which items are pivots, near to far */
    double *value;              /* of each item */
    Run *runs;
    double *distance, *exact;   /* exact distances by row, where wanted; of the wanted rows, then of one run */
    int32_t *rows;              /* the wanted rows */
    uint64_t *wanted;           /* a bit for each row */
    int64_t n_items, n_pivots;  /* of the query at hand */
    int64_t end_mixed;          /* behind the last cell that is mixed */
    int needless;               /* last bits of qkeys by which items are not sorted */
    int64_t n_taken;            /* exact distances, of all queries */
} Scratch;

typedef struct {
    int64_t n, first_match, end_match; /* points, and the slice of matches */
    const int32_t *excluded;           /* positions that take no part: the query itself, rows of its group */
    int64_t n_excluded;
    enum status pivots;
    bool by_index;
    int64_t n_cells;
    int32_t tolerance;
    int64_t cut; /* the first cell that is not resolved */
} Query;

/* What certified values need to know: total[l] is the sum of the worth of the ranks 1..l; see certified.c. */
typedef struct {
    double max_error; /* 0 for exact values */
    int64_t certain;
    const double *total;
} Certificate;

static inline enum status status_of(const Query *query, int64_t position)
{
    /* One comparison: which side of the slice a point is on cannot be predicted. */
    return (uint64_t)(position - query->first_match) < (uint64_t)(query->end_match - query->first_match) ? MATCH : OTHER;
}

/* Two stretches of positions that hold one status; the second may be empty. */
typedef struct {
    int64_t start[2], stop[2];
} Ranges;

static Ranges points_of(const Query *query, enum status status)
{
    Ranges inside = {{query->first_match, 0}, {query->end_match, 0}};
    Ranges outside = {{0, query->end_match}, {query->first_match, query->n}};
    return status == MATCH ? inside : outside;
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
    s->links = take(&memory, n_cells + 2, sizeof(int32_t));
    s->mixed = take(&memory, 2 * n_cells + 1, sizeof(uint8_t));
    s->items = take(&memory, n + 1, sizeof(uint64_t));
    s->spare = take(&memory, n + 1, sizeof(uint64_t));
    s->pivots = take(&memory, n + 1, sizeof(int32_t));
    s->value = take(&memory, n, sizeof(double));
    s->runs = take(&memory, n / 2 + 1, sizeof(Run));
    s->distance = take(&memory, n, sizeof(double));
    s->exact = take(&memory, n, sizeof(double));
    s->rows = take(&memory, n, sizeof(int32_t));
    s->wanted = take(&memory, n / 64 + 1, sizeof(uint64_t));
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

/* Cells are fine as far as matches reach, by a sample, and coarse beyond: order matters only where both statuses are. */
static Map make_map(const int32_t *qkeys, const Query *query, bool certified)
{
    int64_t step = query->n > SAMPLE ? query->n / SAMPLE : 1;
    int32_t nearest = INT32_MAX, farthest = 0, last = 0, second = 0;
    for (int64_t i = step / 2; i < query->n; i += step) {
        nearest = qkeys[i] < nearest ? qkeys[i] : nearest;
        farthest = qkeys[i] > farthest ? qkeys[i] : farthest;
    }
    Ranges pivots = points_of(query, query->pivots);
    for (int r = 0; r < 2; r++)
        for (int64_t i = pivots.start[r]; i < pivots.stop[r]; i += step) {
            second = qkeys[i] > last ? last : qkeys[i] > second ? qkeys[i] : second;
            last = qkeys[i] > last ? qkeys[i] : last;
        }
    float span = farthest - nearest > 64 ? (float)(farthest - nearest) : 64.0f, cells = (float)query->n_cells;
    float low = (float)nearest - 0.05f * span, high = (float)farthest + 0.02f * span;
    float bend = fminf(fmaxf((float)second, low + 0.05f * span), high - 0.02f * span);
    float fine = fmaxf((bend - low) / (high - low), FINE);
    /* Certificates count on points two cells apart to be in the right order. */
    float steepest = certified ? 1.0f / (1.01f * (float)query->tolerance + 200.0f) : 1.0f;
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
static void put_in_cells(const int32_t *qkeys, const Query *query, const Map *map, uint16_t *cell, Scratch *s)
{
    memset(s->counts[OTHER], 0, (size_t)(2 * query->n_cells + 1) * sizeof **s->counts);
    for (int status = 0; status < 2; status++) {
        Ranges points = points_of(query, status);
        for (int r = 0; r < 2; r++)
            count_cells(qkeys, map, points.start[r], points.stop[r], status == MATCH ? query->n_cells : 0, cell, s->counts[OTHER]);
    }
    for (int64_t e = 0; e < query->n_excluded; e++) {
        int64_t i = query->excluded[e];
        s->counts[OTHER][cell[i]]--;
        cell[i] = (uint16_t)(2 * query->n_cells);
    }
}

/* Count, for each cell, the pivots whose tolerance reaches from it into the next. */
static void link_cells(const int32_t *qkeys, const Query *query, const Map *map, const uint16_t *cell, int32_t *links)
{
    memset(links, 0, (size_t)(query->n_cells + 1) * sizeof *links);
    Ranges pivots = points_of(query, query->pivots);
    for (int r = 0; r < 2; r++)
        for (int64_t i = pivots.start[r]; i < pivots.stop[r]; i += STRETCH) {
            uint16_t low[STRETCH], high[STRETCH];
            int64_t count = pivots.stop[r] - i < STRETCH ? pivots.stop[r] - i : STRETCH;
            for (int64_t j = 0; j < count; j++) {
                low[j] = cell_of(map, qkeys[i + j] - query->tolerance);
                high[j] = cell_of(map, qkeys[i + j] + query->tolerance);
            }
            for (int64_t j = 0; j < count; j++)
                if (low[j] != high[j] && cell[i + j] < 2 * query->n_cells) {
                    links[low[j]]++;
                    links[high[j]]--;
                }
        }
    for (int64_t c = 1; c < query->n_cells; c++)
        links[c] += links[c - 1];
}

/* Mark the cells of groups with both statuses; returns how many points they hold. */
static int64_t find_groups(const Query *query, Scratch *s)
{
    const uint32_t *matches = s->counts[MATCH], *others = s->counts[OTHER];
    int64_t listed = 0;
    s->end_mixed = 0;
    if (query->cut > 0)
        s->links[query->cut - 1] = 0; /* what the cut separates is part of the certificate */
    for (int64_t c = 0, end; c < query->cut;) {
        int64_t n_matches = 0, n_others = 0;
        for (end = c; end == c || s->links[end - 1] > 0; end++)
            n_matches += matches[end], n_others += others[end];
        bool mixed = n_matches && n_others;
        listed += mixed ? n_matches + n_others : 0;
        s->end_mixed = mixed ? end : s->end_mixed;
        for (; c < end; c++)
            s->mixed[c] = mixed;
    }
    memset(s->mixed + query->cut, 0, (size_t)(2 * query->n_cells + 1 - query->cut));
    memcpy(s->mixed + query->n_cells, s->mixed, (size_t)query->cut);
    return listed;
}

/* ------------------------------------------------------------------------------------------------------- listed points */

static inline int64_t position_of(uint64_t item) { return (int64_t)(item & UINT32_MAX); }

/* Bits of qkeys that are far below the tolerance, and sorted for nothing. */
static int needless_bits(int32_t tolerance)
{
    int bits = 0;
    while (tolerance >> (bits + 5))
        bits++;
    return bits;
}

/* Whether any of these points may be in a mixed cell. */
static bool any_mixed(const uint16_t *cell, int64_t count, uint16_t n_cells, uint16_t end_mixed)
{
    uint16_t any = 0;
    for (int64_t i = 0; i < count; i++)
        any |= (uint16_t)(cell[i] < n_cells ? cell[i] : cell[i] - n_cells) < end_mixed;
    return any;
}

/* List the points of mixed groups, near to far but for needless bits; and which of them are pivots. */
static void list_items(const int32_t *qkeys, const Query *query, const uint16_t *cell, Scratch *s)
{
    int64_t count = 0;
    for (int64_t start = 0; start < query->n; start += STRETCH) {
        int64_t end = start + STRETCH < query->n ? start + STRETCH : query->n;
        if (!any_mixed(cell + start, end - start, (uint16_t)query->n_cells, (uint16_t)s->end_mixed))
            continue;
        for (int64_t i = start; i < end; i++) {
            s->items[count] = (uint64_t)qkeys[i] << 32 | (uint64_t)i;
            count += s->mixed[cell[i]];
        }
    }
    s->needless = needless_bits(query->tolerance);
    uint64_t *sorted = sort_items(s->items, s->spare, count, 32 + s->needless);
    s->spare = sorted == s->items ? s->spare : s->items;
    s->items = sorted;
    s->n_pivots = 0;
    for (int64_t i = 0; i < count; i++) {
        s->pivots[s->n_pivots] = (int32_t)i;
        s->n_pivots += status_of(query, position_of(sorted[i])) == query->pivots;
    }
}

/* Runs of items that are within tolerance of pivots: what is between two runs is surely before or behind their pivots.
 * Two pivots belong to one run if an item between them is within tolerance of both. Returns the number of runs that hold
 * both statuses. */
static int64_t find_runs(const Query *query, Scratch *s)
{
    const uint64_t *items = s->items;
    int shift = 32 + s->needless;
    uint64_t tolerance = ((uint64_t)query->tolerance >> s->needless) + 1;
    int64_t n_runs = 0;
    Run run = {0, 0, 0};
    for (int64_t k = 0; k < s->n_pivots; k++) {
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
        while (run.end < s->n_items && (items[run.end] >> shift) - qkey <= tolerance)
            run.end++;
    }
    s->runs[n_runs] = run;
    return n_runs + (run.end - run.start > s->n_pivots - run.pivot);
}

static inline void want(uint64_t *wanted, int32_t row) { wanted[row >> 6] |= UINT64_C(1) << (row & 63); }

/* The wanted rows in ascending order, which is how memory is read fastest; nothing is wanted afterwards. */
static int64_t list_wanted(uint64_t *wanted, int64_t n, int32_t *rows)
{
    int64_t count = 0;
    for (int64_t word = 0; word <= n >> 6; word++) {
        for (uint64_t bits = wanted[word]; bits; bits &= bits - 1)
            rows[count++] = (int32_t)(word << 6) + __builtin_ctzll(bits);
        wanted[word] = 0;
    }
    return count;
}

/* Exact distances of all items of some runs, by row. */
static void compute_distances(const Query *query, int64_t n_runs, Source *source, const int32_t *row_of, Scratch *s)
{
    for (int64_t r = 0; r < n_runs; r++)
        for (int64_t i = s->runs[r].start; i < s->runs[r].end; i++)
            want(s->wanted, row_of[position_of(s->items[i])]);
    int64_t count = list_wanted(s->wanted, query->n, s->rows);
    exact_distances(source, s->rows, s->exact, query->n, count);
    for (int64_t k = 0; k < count; k++)
        s->distance[s->rows[k]] = s->exact[k];
    s->n_taken += count;
}

/* Put the items of one run in the order of exact distances, then of rows. */
static void order_run(const Query *query, Run run, const int32_t *row_of, const int32_t *place_of, Scratch *s)
{
    int64_t size = run.end - run.start;
    uint64_t *items = s->items + run.start;
    for (int64_t i = 0; i < size; i++) {
        s->rows[i] = row_of[position_of(items[i])];
        s->exact[i] = s->distance[s->rows[i]];
    }
    sort_pairs(s->exact, s->rows, size);
    for (int64_t i = 0; i < size; i++) {
        bool tied = !query->by_index && i > 0 && s->exact[i] == s->exact[i - 1];
        items[i] = (uint64_t)place_of[s->rows[i]] | (tied ? TIED : 0);
        if (status_of(query, position_of(items[i])) == query->pivots)
            s->pivots[run.pivot++] = (int32_t)(run.start + i);
    }
}

/* Put all items in the order of exact distances, where it matters. */
static void resolve(const Query *query, Source *source, const int32_t *row_of, const int32_t *place_of, Scratch *s)
{
    int64_t n_runs = find_runs(query, s);
    if (n_runs > 0)
        compute_distances(query, n_runs, source, row_of, s);
    for (int64_t r = 0; r < n_runs; r++)
        order_run(query, s->runs[r], row_of, place_of, s);
}

/* ------------------------------------------------------------------------------------------------------------- values */

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
        next_ties(scan, end - first, matches, &of[MATCH], &of[OTHER]);
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
static void scan_items(Scan *scan, const Query *query, int64_t start, int64_t end, Scratch *s)
{
    enum status between = query->pivots == MATCH ? OTHER : MATCH;
    while (s->n_pivots > 0 && s->pivots[s->n_pivots - 1] >= start) {
        int64_t pivot = s->pivots[s->n_pivots - 1], after = pivot + 1;
        while (after < end && s->items[after] & TIED)
            after++;
        scan_alike(scan, between, after, end, s);
        if (after > pivot + 1 || s->items[pivot] & TIED) {
            end = scan_ties(scan, query, after, s);
        } else {
            scan_alike(scan, query->pivots, pivot, after, s);
            end = pivot;
        }
        while (s->n_pivots > 0 && s->pivots[s->n_pivots - 1] >= end)
            s->n_pivots--;
    }
    scan_alike(scan, between, start, end, s);
}

/* Values of the cells that need not be resolved for this error, and where they begin. Returns the certified error. */
static double cut_cells(Scan *scan, Query *query, const Certificate *certificate, double *const table[2], Scratch *s)
{
    double result[2];
    query->cut = certified_cut(s->counts[MATCH], s->counts[OTHER], certificate->total, scan->worth, certificate->max_error,
                               certificate->certain, table[MATCH], table[OTHER], result, query->n_cells, scan->position + 1);
    for (int64_t c = query->cut; c < query->n_cells; c++) {
        scan->position -= s->counts[MATCH][c] + s->counts[OTHER][c];
        table[MATCH][c] += scan->for_match;
        table[OTHER][c] += scan->for_other;
    }
    scan->lost = result[0];
    return result[1];
}

/* Values of all cells and of everything listed, far to near. */
static void scan_cells(Scan *scan, const Query *query, double *const table[2], Scratch *s)
{
    const uint32_t *matches = s->counts[MATCH], *others = s->counts[OTHER];
    int64_t end = s->n_items, start = end;
    table[MATCH][query->n_cells] = 0.0; /* of excluded points */
    for (int64_t c = query->cut - 1; c >= 0; c--) {
        table[MATCH][c] = table[OTHER][c] = 0.0;
        if (s->mixed[c]) { /* its points are listed */
            start -= matches[c] + others[c];
            if (c == 0 || s->links[c - 1] == 0) { /* the first cell of its group */
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

/* Multiply all values by the weight of the query. */
static void weigh(double weight, int64_t n_cells, double *const table[2], Scratch *s)
{
    if (weight == 1.0)
        return;
    for (int64_t c = 0; c < 2 * n_cells; c++)
        table[OTHER][c] *= weight;
    for (int64_t i = 0; i < s->n_items; i++)
        s->value[i] *= weight;
}

/* ------------------------------------------------------------------------------------------------------ one query, sums */

/* Value one query: table[status][cell] and, for listed points, s->value. Returns the certified error. */
static double value_query(const int32_t *qkeys, Query *query, const Certificate *certificate, Source *source,
                          const int32_t *row_of, const int32_t *place_of, Scan *scan, int number, Scratch *s)
{
    bool certified = certificate->max_error > 0.0;
    Map map = make_map(qkeys, query, certified);
    uint16_t *cell = s->cell[number];
    put_in_cells(qkeys, query, &map, cell, s);
    double error = certified ? cut_cells(scan, query, certificate, s->table[number], s) : 0.0;
    link_cells(qkeys, query, &map, cell, s->links);
    s->n_items = find_groups(query, s);
    if (s->n_items) {
        list_items(qkeys, query, cell, s);
        resolve(query, source, row_of, place_of, s);
    }
    scan_cells(scan, query, s->table[number], s);
    return error;
}

/* Add the values of listed points. */
static void fold_listed(double *out, const Scratch *s)
{
    for (int64_t i = 0; i < s->n_items; i++)
        out[position_of(s->items[i])] += s->value[i];
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
 * block. `constants` holds what the utility adds for a match and for another point. Exact
 * distances come from points, from given keys, or from `ask`. With `max_error` above 0 values are certified: `errors` gets
 * the error of each query, `cumulative` holds the sums of worth. Returns how many exact distances were taken, or -1 if
 * `ask` failed. */
EXPORT int64_t classify_block(const int32_t *qkeys, const int32_t *tolerances, const int32_t *labels,
                              const int32_t *excluded, const double *constants, const double *weights,
                              const int64_t *starts, const int32_t *row_of,
                              const int32_t *place_of, const double *worth, const double *loss, const double *cumulative,
                              double max_error, int64_t certain, int32_t by_index, int64_t n_cells, const double *queries,
                              const void *points, int32_t type, const double *given, callback ask,
                              double *total, double *values, double *errors, char *memory, int64_t n_queries, int64_t stride,
                              int64_t n_excluded, int64_t n_starts, int64_t n, int64_t n_ranks, int64_t width, int64_t n_rows, int64_t n_memory)
{
    (void)n_starts, (void)n_ranks, (void)n_rows, (void)n_memory;
    Scratch s;
    Certificate certificate = {max_error, certain, cumulative};
    lay_out(memory + (64 - (uintptr_t)memory % 64) % 64, &s, n, n_cells);
    memset(s.wanted, 0, (size_t)(n / 64 + 1) * sizeof *s.wanted);
    s.n_taken = 0;
    for (int64_t q = 0; q < n_queries; q++) {
        int number = values ? 0 : (int)(q & 1);
        int64_t first = labels[q] < 0 ? 0 : starts[labels[q]], end = labels[q] < 0 ? 0 : starts[labels[q] + 1];
        bool few = 2 * (end - first) <= n; /* matches are the rarer status */
        Query query = {n, first, end, excluded + q * n_excluded, n_excluded, few ? MATCH : OTHER, by_index, n_cells, tolerances[q], n_cells};
        Source source = {points, type, width, queries ? queries + q * width : NULL, given ? given + q * n : NULL, ask, q, false};
        Scan scan = begin_scan(worth, loss, constants[2 * q], constants[2 * q + 1], few, n - n_excluded);
        errors[q] = value_query(qkeys + q * stride, &query, &certificate, &source, row_of, place_of, &scan, number, &s);
        if (source.failed)
            return -1;
        weigh(values ? 1.0 : weights[q], n_cells, s.table[number], &s);
        double *out = values ? memset(values + q * n, 0, (size_t)n * sizeof *values) : total;
        if (number == 1 || values || q + 1 == n_queries)
            fold(out, &s, n, number == 1);
        fold_listed(out, &s);
    }
    return s.n_taken;
}
