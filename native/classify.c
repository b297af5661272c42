/* Values of a block of validation points in classification, from quantised keys to sums. The
 * formula is in src/nearworth/engine/reference.py; here it is made fast.
 *
 * Values change only where the status changes along the ranks: from match (the query's label) to
 * other. The rarer status is that of the *pivots*. Points stand in the order of their classes, so
 * matches are one slice.
 *
 *   put_in_cells   qkeys -> cells of 16 bits, by two lines with few cells where nothing matters;
 *                  counts of both statuses. No cell is narrower than the tolerance, so points two
 *                  cells apart are in the right order
 *   find_mixed     where two neighbouring cells hold both statuses their order matters; elsewhere
 *                  one value for each cell is enough
 *   make_gaps      the pivots of mixed cells, sorted by qkey, and the gaps between them; each run
 *                  of mixed cells begins and ends with a gap. All points of a cell without a pivot
 *                  within tolerance are in one gap, and again one value is enough
 *   find_gaps      the gap of every point of the other cells: a look at the next pivots. The few
 *                  that are within tolerance of one, or have not found their gap yet, are left open
 *   resolve        open points, and pivots within tolerance of them, in the order of their exact
 *                  distances
 *   scan           far to near, a value for each cell, each gap and each of its pivots
 *   fold           sums: one look-up for each point
 *
 * Exact distances decide wherever qkeys are too close to tell, so order, ties and every bit of the
 * result are those of the exact distances, whatever made the qkeys. With `max_error`, cells from a
 * cut on are not resolved: their points have the values of ties, and counts alone certify the error
 * (certified.c). Two queries are folded at a time, which saves half of the memory traffic. Each
 * point still gets its terms in the order of the queries. */
#include "nearworth.h"

/* Points of a query that show how far its pivots reach. */
#define SAMPLE_POINTS 128
/* Of the cells in use, this share lies where pivots are. */
#define MIN_SHARE_OF_FINE_CELLS 0.3f
/* Of the cells that there may be, this share is in use. */
#define MIN_SHARE_OF_CELLS 0.5f
/* The range of qkeys that cells divide. */
#define MIN_SPAN 64.0f
/* What is added to the range of the sample, as shares of it. */
#define MARGIN_BELOW 0.05f
#define MARGIN_ABOVE 0.02f
/* How far `find_cell` may be off, in qkeys. */
#define ROUNDING_OF_CELLS 200.0f
/* Points that are looked at together. */
enum { STRETCH = 256 };

enum status { OTHER, MATCH };

/* The map from qkeys to cells: the lower of two lines. */
typedef struct {
    float slope1, offset1, slope2, offset2, top;
} Map;

/* A gap: the qkeys of the pivots in front of it and behind it, the points in it, and the position
 * of the pivot behind it, -1 at the end of a run of mixed cells. In one place, because a look into
 * memory is what finding a gap costs. */
typedef struct {
    int32_t lower, upper;
    uint32_t count;
    int32_t behind;
} Gap;

/* Points whose order qkeys leave open: the pivots behind the gaps first..end-1, and the open points
 * start..stop-1. */
typedef struct {
    int64_t first, end, start, stop;
} Run;

/* Points equally far, of both statuses: so many pivots, the first of them behind this gap, and so
 * many others. */
typedef struct {
    int64_t gap, n_pivots, n_others;
} Tie;

/* Working arrays of one thread. An item is a point: its qkey, and in the lower half its
 * position. */
typedef struct {
    /* of each point, of two queries: cells of others, of matches, of excluded points */
    uint16_t *cell[2];
    double *table[2]; /* value of each cell, of two queries, in the same way */
    uint32_t *counts; /* by cell; in the same way */
    /* by cell of both statuses: whether it is mixed, alone or with a neighbour */
    uint8_t *mixed;
    /* by cell, in the same way as the cells of points: whether its points are to be listed */
    uint8_t *wanted;
    int32_t *gap_of; /* by mixed cell: the gap in front of its first pivot */
    /* mixed cells without a pivot within tolerance: all of their points are in one gap */
    int32_t *whole;
    Gap *gaps;
    int32_t *listed;          /* positions of points near pivots */
    int32_t *entry;           /* by position, where listed: the gap, or behind the gaps a tie */
    uint64_t *items, *spare;  /* being sorted: pivots, open points */
    double *value, *of_pivot; /* by gap, and then by tie; of the pivot behind each gap */
    Run *runs;
    Tie *ties;
    int32_t *rows; /* of the points of all runs, with their exact distances */
    double *exact;
} Scratch;

/* One query. The upper half is known from the start. */
typedef struct {
    const int32_t *qkeys;     /* by position */
    const int32_t *excluded;  /* positions that take no part: the query itself, rows of its group */
    int64_t n, n_excluded;    /* points in all, and of them those that take no part */
    int64_t first[2], end[2]; /* by status: a slice that holds its points. Matches are one slice */
    enum status pivots;       /* the rarer status */
    enum status others;       /* the other one */
    bool by_index;            /* ties are broken by row */
    int32_t tolerance;        /* points whose qkeys differ by more are in the right order */
    int64_t n_cells;          /* at first the most that there may be, then those in use */

    Map map;
    int64_t cut;                             /* the first cell that is not resolved */
    int64_t end_mixed;                       /* behind the last mixed cell */
    int64_t n_listed;                        /* points near pivots */
    int64_t n_gaps, n_open, n_ties, n_whole; /* entries of these arrays of Scratch */
} Query;

static inline enum status status_of(const Query *query, int64_t position) {
    /* One comparison: which side of the slice a point is on cannot be predicted. */
    return (uint64_t)(position - query->first[MATCH]) <
                   (uint64_t)(query->end[MATCH] - query->first[MATCH])
               ? MATCH
               : OTHER;
}

static inline int64_t position_of(uint64_t item) {
    return (int64_t)(item & UINT32_MAX);
}
static inline int32_t qkey_of(uint64_t item) {
    return (int32_t)(item >> 32);
}

/* ------------------------------------------------------------------------------------------------
 * scratch memory */

static void *take(char **memory, int64_t count, int64_t size) {
    void *start = *memory;
    *memory += (count * size + 63) / 64 * 64;
    return start;
}

/* At most half of the points are pivots; each run of mixed cells, at most one in two cells, has a
 * gap more than pivots. */
static int64_t lay_out(char *memory, Scratch *s, int64_t n, int64_t n_cells) {
    char *start = memory;
    int64_t pivots = n / 2 + 1, gaps = pivots + n_cells / 2 + 1;
    for (int i = 0; i < 2; i++) {
        s->cell[i] = take(&memory, n + 64, sizeof(uint16_t));
        s->table[i] = take(&memory, 2 * n_cells + 1, sizeof(double));
    }
    s->counts = take(&memory, 2 * n_cells + 1, sizeof(uint32_t));
    s->mixed = take(&memory, n_cells, sizeof(uint8_t));
    s->wanted = take(&memory, 2 * n_cells + 1, sizeof(uint8_t));
    s->gap_of = take(&memory, n_cells + 1, sizeof(int32_t));
    s->whole = take(&memory, n_cells + 1, sizeof(int32_t));
    s->gaps = take(&memory, gaps, sizeof(Gap));
    s->listed = take(&memory, n, sizeof(int32_t));
    s->entry = take(&memory, n, sizeof(int32_t));
    s->items = take(&memory, n + 1, sizeof(uint64_t));
    s->spare = take(&memory, n + 1, sizeof(uint64_t));
    s->value = take(&memory, gaps + pivots, sizeof(double));
    s->of_pivot = take(&memory, gaps, sizeof(double));
    s->runs = take(&memory, pivots, sizeof(Run));
    s->ties = take(&memory, pivots, sizeof(Tie));
    s->rows = take(&memory, n, sizeof(int32_t));
    s->exact = take(&memory, n, sizeof(double));
    return memory - start;
}

/* Bytes of the working arrays for n points. */
EXPORT int64_t classify_scratch(int64_t n, int64_t n_cells) {
    Scratch scratch;
    return lay_out((char *)64, &scratch, n, n_cells) + 64;
}

/* ------------------------------------------------------------------------------------------------
 * cells */

static inline int32_t find_cell(const Map *map, int32_t qkey) {
    float key = (float)qkey, a = key * map->slope1 + map->offset1,
          b = key * map->slope2 + map->offset2;
    float place = a < b ? a : b;
    place = place > 0.0f ? place : 0.0f;
    return (int32_t)(place < map->top ? place : map->top);
}

/* The range of the qkeys of a sample of points, and how far the pivots among them reach. */
typedef struct {
    int32_t nearest, farthest;
    int32_t last_pivot, second_last_pivot; /* 0 if there is none */
} Reach;

/* Looks at SAMPLE_POINTS points at equal steps. */
static Reach sample_reach(const Query *query) {
    Reach reach = {.nearest = INT32_MAX};
    int64_t step = query->n > SAMPLE_POINTS ? query->n / SAMPLE_POINTS : 1;
    for (int64_t i = step / 2; i < query->n; i += step) {
        int32_t qkey = query->qkeys[i];
        if (qkey < reach.nearest)
            reach.nearest = qkey;
        if (qkey > reach.farthest)
            reach.farthest = qkey;
        if (status_of(query, i) != query->pivots)
            continue;
        if (qkey > reach.last_pivot) {
            reach.second_last_pivot = reach.last_pivot;
            reach.last_pivot = qkey;
        } else if (qkey > reach.second_last_pivot) {
            reach.second_last_pivot = qkey;
        }
    }
    return reach;
}

/* Makes the map from qkeys to cells: two lines that meet in a bend. Order matters only where both
 * statuses are, so cells are fine in front of the bend, as far as pivots reach, and coarse
 * behind it. */
static void make_map(Query *query) {
    Reach reach = sample_reach(query);

    /* The sample misses the ends of the range, so a margin is added. Points beyond it fall into the
     * first or the last cell. Equal qkeys still need a range to divide. */
    float span = (float)(reach.farthest - reach.nearest);
    if (span < MIN_SPAN)
        span = MIN_SPAN;
    float low = (float)reach.nearest - MARGIN_BELOW * span;
    float high = (float)reach.farthest + MARGIN_ABOVE * span;

    /* The second last pivot, because one outlier would make all cells coarse. Both lines need a
     * part of the range, or their slopes would be infinite. */
    float first_bend = low + MARGIN_BELOW * span;
    float last_bend = high - MARGIN_ABOVE * span;
    float bend = fminf(fmaxf((float)reach.second_last_pivot, first_bend), last_bend);

    /* Only cells in front of the bend can be mixed: where it is near, fewer cells do. */
    float share_in_front = (bend - low) / (high - low);
    float share_of_fine = fmaxf(share_in_front, MIN_SHARE_OF_FINE_CELLS);
    query->n_cells = (int64_t)((float)query->n_cells * fmaxf(share_in_front, MIN_SHARE_OF_CELLS));
    query->cut = query->n_cells; /* all cells are resolved, unless values are certified */
    float n_cells = (float)query->n_cells;

    /* No cell is narrower than the tolerance, so points two cells apart are in the right order. The
     * rest covers the rounding of `find_cell`, which is in single precision. */
    float narrowest = 1.01f * (float)query->tolerance + ROUNDING_OF_CELLS;
    float steepest = 1.0f / narrowest;

    Map *map = &query->map;
    map->slope1 = fminf(share_of_fine * n_cells / (bend - low), steepest);
    map->offset1 = -map->slope1 * low;
    map->slope2 = fminf((1.0f - share_of_fine) * n_cells / (high - bend), steepest);
    map->offset2 = (map->slope1 - map->slope2) * bend + map->offset1; /* the lines meet there */
    map->top = n_cells - 1.0f;
}

static void count_cells(
    const Query *query, int64_t start, int64_t stop, enum status status, uint16_t *cell,
    uint32_t *counts
) {
    const Map map = query->map;
    int64_t before = status * query->n_cells;
    for (; start < stop; start += STRETCH) {
        int64_t end = start + STRETCH < stop ? start + STRETCH : stop;
        for (int64_t i = start; i < end; i++)
            cell[i] = (uint16_t)(find_cell(&map, query->qkeys[i]) + before);
        for (int64_t i = start; i < end; i++)
            counts[cell[i]]++;
    }
}

/* Excluded points go to a cell of their own behind the last, which counts for nothing and has the
 * value 0. */
static void put_in_cells(Query *query, uint16_t *cell, uint32_t *counts) {
    make_map(query);
    memset(counts, 0, (size_t)(2 * query->n_cells + 1) * sizeof *counts);
    count_cells(query, 0, query->first[MATCH], OTHER, cell, counts);
    count_cells(query, query->first[MATCH], query->end[MATCH], MATCH, cell, counts);
    count_cells(query, query->end[MATCH], query->n, OTHER, cell, counts);
    for (int64_t e = 0; e < query->n_excluded; e++) {
        counts[cell[query->excluded[e]]]--;
        cell[query->excluded[e]] = (uint16_t)(2 * query->n_cells);
    }
}

/* Mark cells that are mixed, alone or with a neighbour; what the cut separates is part of the
 * certificate. */
static void find_mixed(Query *query, Scratch *s) {
    const uint32_t *others = s->counts, *matches = s->counts + query->n_cells;
    uint8_t *has = s->wanted; /* by cell: a bit for each status */
    for (int64_t c = 0; c < query->cut; c++)
        has[c] = (uint8_t)((others[c] > 0) | (matches[c] > 0) << 1);
    has[query->cut] = 0;
    for (int64_t c = 0; c < query->cut; c++)
        s->mixed[c] = (has[c] | has[c + 1]) == 3;
    for (int64_t c = query->cut - 1; c > 0; c--)
        s->mixed[c] |= (has[c] | has[c - 1]) == 3;
    for (query->end_mixed = query->cut; query->end_mixed > 0 && !s->mixed[query->end_mixed - 1];)
        query->end_mixed--;
}

/* ------------------------------------------------------------------------------------------------
 * pivots and gaps */

/* Whether any of these cells is one of the `count` from `first` on. */
static bool any_from(const uint16_t *cell, int64_t n, uint16_t first, uint16_t count) {
    uint16_t any = 0;
    for (int64_t i = 0; i < n; i++)
        any |= (uint16_t)(cell[i] - first) < count;
    return any;
}

/* List wanted points of a status among STRETCH of them from position `start` on; returns how many
 * are listed. */
static inline int64_t list_points(
    const Query *query, enum status status, const uint16_t *cell, int64_t start, uint64_t *items,
    const Scratch *s
) {
    int64_t count = 0, first = status * query->n_cells, end = query->end[status];
    end = start + STRETCH < end ? start + STRETCH : end;
    if (!any_from(cell + start, end - start, (uint16_t)first, (uint16_t)query->end_mixed))
        return 0;
    for (int64_t i = start; i < end; i++) {
        items[count] = (uint64_t)query->qkeys[i] << 32 | (uint64_t)i;
        count += s->wanted[cell[i]];
    }
    return count;
}

static void sort_by_qkey(Scratch *s, int64_t count) {
    uint64_t *sorted = sort_items(s->items, s->spare, count, 32);
    s->spare = sorted == s->items ? s->spare : s->items;
    s->items = sorted;
}

/* Gaps first..end between the given pivots, which are all of a run of mixed cells. */
static void make_run(const uint64_t *pivots, int64_t first, int64_t end, Scratch *s) {
    int32_t lower = INT32_MIN;
    for (int64_t gap = first; gap < end; gap++, pivots++) {
        s->gaps[gap] = (Gap){lower, qkey_of(*pivots), 0, (int32_t)position_of(*pivots)};
        lower = qkey_of(*pivots);
    }
    s->gaps[end] = (Gap){lower, INT32_MAX, 0, -1};
}

/* List the pivots of mixed cells, near to far; returns how many there are. */
static int64_t list_pivots(const Query *query, const uint16_t *cell, Scratch *s) {
    int64_t count = 0;
    memset(s->wanted, 0, (size_t)(2 * query->n_cells + 1));
    memcpy(s->wanted + query->pivots * query->n_cells, s->mixed, (size_t)query->end_mixed);
    for (int64_t start = query->first[query->pivots]; start < query->end[query->pivots];
         start += STRETCH)
        count += list_points(query, query->pivots, cell, start, s->items + count, s);
    sort_by_qkey(s, count);
    memset(s->wanted + query->pivots * query->n_cells, 0, (size_t)query->end_mixed);
    return count;
}

/* Want the other points of mixed cells that may be within tolerance of a pivot. */
static void want_near(
    const Query *query, int64_t n_pivots, const uint32_t *of_pivots, uint8_t *near, const Scratch *s
) {
    const Map map = query->map;
    for (int64_t start = 0; start < n_pivots; start += STRETCH) {
        uint16_t first[STRETCH], last[STRETCH];
        int64_t count = n_pivots - start < STRETCH ? n_pivots - start : STRETCH;
        for (int64_t i = 0; i < count; i++) {
            first[i] = (uint16_t)find_cell(&map, qkey_of(s->items[start + i]) - query->tolerance);
            last[i] = (uint16_t)find_cell(&map, qkey_of(s->items[start + i]) + query->tolerance);
        }
        for (int64_t i = 0; i < count; i++)
            near[first[i]] = near[last[i]] = 1;
    }
    for (int64_t c = 0; c < query->end_mixed; c++)
        near[c] = (near[c] | (of_pivots[c] > 0)) & s->mixed[c];
    memset(near + query->end_mixed, 0, (size_t)(query->n_cells - query->end_mixed));
}

/* The gaps between the pivots of mixed cells, by cell; and what other cells have in them. */
static void make_gaps(Query *query, const uint16_t *cell, Scratch *s) {
    const uint32_t *of_pivots = s->counts + query->pivots * query->n_cells;
    const uint32_t *of_others = s->counts + query->others * query->n_cells;
    uint8_t *near = s->wanted + query->others * query->n_cells;
    int64_t first = 0, gap = 0;
    want_near(query, list_pivots(query, cell, s), of_pivots, near, s);
    const uint64_t *pivots = s->items;
    for (int64_t c = 0; c < query->end_mixed; c++) {
        if (!s->mixed[c])
            continue;
        s->gap_of[c] = (int32_t)gap;
        s->whole[query->n_whole] = (int32_t)c;
        query->n_whole += !near[c];
        gap += of_pivots[c];
        if (c + 1 == query->end_mixed || !s->mixed[c + 1]) {
            make_run(pivots, first, gap, s);
            pivots += gap - first;
            first = ++gap;
        }
    }
    for (int64_t i = 0; i < query->n_whole; i++)
        s->gaps[s->gap_of[s->whole[i]]].count += of_others[s->whole[i]];
    query->n_gaps = gap;
}

/* The gaps of some points. Two steps over the pivots of a cell are enough for most. Short loops
 * keep many look-ups under way. */
static inline void
look_up(Query *query, const uint64_t *items, int64_t count, const uint16_t *cell, Scratch *s) {
    int32_t gap_of[STRETCH]; /* of each item */
    int32_t *listed = s->listed + query->n_listed;
    int64_t tolerance = query->tolerance, n_open = query->n_open;
    int64_t first_cell = query->others * query->n_cells;
    for (int64_t i = 0; i < count; i++)
        gap_of[i] = s->gap_of[cell[position_of(items[i])] - first_cell];
    for (int64_t i = 0; i < count; i++)
        gap_of[i] += s->gaps[gap_of[i]].upper < qkey_of(items[i]);
    for (int64_t i = 0; i < count; i++)
        gap_of[i] += s->gaps[gap_of[i]].upper < qkey_of(items[i]);
    for (int64_t i = 0; i < count; i++) {
        Gap *gap = s->gaps + gap_of[i];
        int64_t qkey = qkey_of(items[i]), position = position_of(items[i]);
        bool open = (gap->lower + tolerance >= qkey) | (gap->upper - tolerance <= qkey);
        s->items[n_open] = items[i];
        n_open += open;
        gap->count += !open;
        s->entry[position] = gap_of[i];
        listed[i] = (int32_t)position;
    }
    query->n_open = n_open;
    query->n_listed += count;
}

/* The gaps of the points near pivots. */
static void find_gaps(Query *query, const uint16_t *cell, Scratch *s) {
    uint64_t items[STRETCH];
    for (int64_t start = query->first[query->others]; start < query->end[query->others];
         start += STRETCH)
        look_up(query, items, list_points(query, query->others, cell, start, items, s), cell, s);
}

/* ------------------------------------------------------------------------------------------------
 * ambiguous points */

/* Sorts open points into their gaps; those within tolerance of pivots are collected in runs. Two
 * points belong to one run if a pivot is within tolerance of both. From point to point pivots are
 * looked at once. Returns the number of runs. */
static int64_t find_runs(Query *query, Scratch *s) {
    int64_t n_runs = 0, ambiguous = 0, tolerance = query->tolerance;
    int64_t low = 0, high = -1; /* the gaps within tolerance of a point */
    Run run = {0, 0, 0, 0};
    for (int64_t i = 0; i < query->n_open; i++) {
        int64_t position = position_of(s->items[i]), qkey = qkey_of(s->items[i]);
        int64_t gap = s->entry[position];
        if (gap <= high)
            gap = low;
        while (s->gaps[gap].lower >= qkey - tolerance)
            gap--;
        while (s->gaps[gap].upper < qkey - tolerance)
            gap++;
        low = gap;
        high = high > low ? high : low;
        while (s->gaps[high].upper <= qkey + tolerance)
            high++;
        if (low == high) {
            s->entry[position] = (int32_t)gap;
            s->gaps[gap].count++;
            continue;
        }
        s->items[ambiguous++] = s->items[i];
        if (low >= run.end) {
            run = (Run){low, high, ambiguous - 1, ambiguous};
            n_runs++;
        }
        run.end = high;
        run.stop = ambiguous;
        s->runs[n_runs - 1] = run;
    }
    return n_runs;
}

/* Puts the points of one run, given by `rows` and `exact`, in the order of exact distances, then of
 * rows. Blocks of both statuses become ties, unless these are broken by row. */
static void order_run(
    Query *query, Run run, const int32_t *place_of, int32_t *rows, double *exact, Scratch *s
) {
    int64_t size = run.end - run.first + run.stop - run.start, gap = run.first;
    sort_pairs(exact, rows, size);
    for (int64_t start = 0, end; start < size; start = end) {
        int64_t n_pivots = 0, before = gap;
        for (end = start;
             end == start || (end < size && exact[end] == exact[start] && !query->by_index); end++)
            n_pivots += status_of(query, place_of[rows[end]]) == query->pivots;
        bool tied = n_pivots > 0 && n_pivots < end - start;
        for (int64_t i = start; i < end; i++) {
            int32_t position = place_of[rows[i]];
            if (status_of(query, position) == query->pivots) {
                s->gaps[gap++].behind = position;
            } else {
                s->entry[position] = (int32_t)(tied ? query->n_gaps + query->n_ties : gap);
                s->gaps[gap].count += !tied;
            }
        }
        if (tied)
            s->ties[query->n_ties++] = (Tie){before, n_pivots, end - start - n_pivots};
    }
}

/* Puts open points in the order of exact distances, where it matters. Returns how many distances
 * were computed, or -1 if a function of the caller failed. */
static int64_t resolve(
    Query *query, const Source *source, int64_t number, const int32_t *row_of,
    const int32_t *place_of, Scratch *s
) {
    sort_by_qkey(s, query->n_open);
    int64_t n_runs = find_runs(query, s), count = 0, done = 0;
    for (Run *run = s->runs; run < s->runs + n_runs; run++) {
        for (int64_t gap = run->first; gap < run->end; gap++)
            s->rows[count++] = row_of[s->gaps[gap].behind];
        for (int64_t i = run->start; i < run->stop; i++)
            s->rows[count++] = row_of[position_of(s->items[i])];
    }
    if (count > 0 && !exact_keys(source, number, s->rows, s->exact, count))
        return -1;
    for (Run *run = s->runs; run < s->runs + n_runs; run++) {
        order_run(query, *run, place_of, s->rows + done, s->exact + done, s);
        done += run->end - run->first + run->stop - run->start;
    }
    return count;
}

/* ------------------------------------------------------------------------------------------------
 * values */

/* Values along the ranks, from the farthest point to the nearest: the formula of
 * engine/reference.py, whose R is `lost` here.
 *
 * A match at the end of a run of matches has the value worth[rank] - lost, and the whole run shares
 * it. A point that does not match has -lost. What nearer points lose to a match is loss[rank].
 * Where matches are the rarer status they are added one by one. Else a run adds the difference of
 * its ends. So every bit depends on the order of the points alone, not on how they were found.
 * Ranks count from 1, and worth[0] = worth[1]. */
typedef struct {
    const double *worth, *loss;  /* by rank */
    double for_match, for_other; /* constants that the utility adds */
    bool one_by_one;             /* matches are the rarer status */
    int64_t position;            /* the rank of the farthest point not seen yet */
    double lost;                 /* what all nearer points lose to the matches seen */
    double shared;               /* the value of the run of matches under way */
    int64_t run_end;             /* its last rank; 0 if none is under way */
} Scan;

/* The current run of matches has no more members. */

static inline void end_run(Scan *scan) {
    if (scan->run_end && !scan->one_by_one)
        scan->lost += scan->worth[scan->position] - scan->worth[scan->run_end];
    scan->run_end = 0;
}

/* The value of the next `count` points, all of one status. */
static inline double next_points(Scan *scan, enum status status, int64_t count) {
    if (status == OTHER)
        end_run(scan);
    else if (!scan->run_end) {
        scan->run_end = scan->position;
        scan->shared = scan->worth[scan->position] - scan->lost + scan->for_match;
    }
    for (int64_t i = 0; status == MATCH && scan->one_by_one && i < count; i++)
        scan->lost += scan->loss[scan->position - i];
    scan->position -= count;
    return status == MATCH ? scan->shared : scan->for_other - scan->lost;
}

/* Values of a match and of another point among the next `size` points, which are tied and of both
 * statuses: S, D, F and n are those of engine/reference.py. */
static inline void next_ties(Scan *scan, int64_t size, int64_t n_matches, double value_of[2]) {
    end_run(scan);
    int64_t start = scan->position - size;
    double S = 0.0, D = 0.0, n = (double)size, F = (double)n_matches;
    for (int64_t rank = start + 1; rank <= scan->position; rank++) {
        S += scan->worth[rank];
        D += (double)(rank - 1 - start) * scan->loss[rank];
    }
    double taken = D / (n * (n - 1.0)); /* by each of the other matches */
    value_of[MATCH] = S / n - (F - 1.0) * taken - scan->lost + scan->for_match;
    value_of[OTHER] = -F * taken - scan->lost + scan->for_other;
    scan->lost += F / n * (scan->worth[start] - scan->worth[scan->position]);
    scan->position = start;
}

/* Values of the gaps and pivots of a run of mixed cells, far to near, from the gap in front of
 * `end`; returns the first gap. */
static int64_t scan_gaps(Scan *scan, Query *query, int64_t end, Scratch *s) {
    for (int64_t gap = end - 1;; gap--) {
        uint32_t count = s->gaps[gap].count;
        s->value[gap] = count ? next_points(scan, query->others, count) : 0.0;
        if (s->gaps[gap].lower == INT32_MIN)
            return gap;
        Tie tie = query->n_ties ? s->ties[query->n_ties - 1] : (Tie){0, 0, 0};
        if (tie.gap + tie.n_pivots != gap) {
            s->of_pivot[gap - 1] = next_points(scan, query->pivots, 1);
            continue;
        }
        double value_of[2];
        int64_t n_matches = query->pivots == MATCH ? tie.n_pivots : tie.n_others;
        next_ties(scan, tie.n_pivots + tie.n_others, n_matches, value_of);
        query->n_ties--;
        s->value[query->n_gaps + query->n_ties] = value_of[query->others];
        for (int64_t pivot = tie.gap; pivot < gap; pivot++)
            s->of_pivot[pivot] = value_of[query->pivots];
        gap = tie.gap + 1;
    }
}

/* Values of all cells before the cut and of everything listed, far to near. */
static void scan_cells(Scan *scan, Query *query, double *table, Scratch *s) {
    int64_t gap = query->n_gaps, n_cells = query->n_cells;
    table[2 * n_cells] = 0.0; /* of excluded points */
    for (int64_t c = query->cut - 1; c >= 0; c--) {
        enum status status = s->counts[n_cells + c] ? MATCH : OTHER;
        uint32_t count = s->counts[status * n_cells + c];
        table[c] = table[n_cells + c] = 0.0;
        if (s->mixed[c]) { /* its points are listed, with those of mixed neighbours */
            if (c == 0 || !s->mixed[c - 1])
                gap = scan_gaps(scan, query, gap, s);
        } else if (count) {
            table[status * n_cells + c] = next_points(scan, status, count);
        }
    }
    for (int64_t i = 0; i < query->n_whole; i++)
        table[query->others * n_cells + s->whole[i]] = s->value[s->gap_of[s->whole[i]]];
}

/* ------------------------------------------------------------------------------------------------
 * one query, sums */

/* Cuts off the cells that need not be resolved for this error, and gives them their values: entries
 * of `table` from the cut on. Returns the certified error. */
static double cut_cells(
    Scan *scan, Query *query, double max_error, int64_t certain, const double *total, double *table,
    const Scratch *s
) {
    double result[2], *of_other = table, *of_match = table + query->n_cells;
    const uint32_t *others = s->counts, *matches = s->counts + query->n_cells;
    query->cut = certified_cut(
        matches, others, total, scan->worth, max_error, certain, of_match, of_other, result,
        query->n_cells, scan->position + 1
    );
    for (int64_t c = query->cut; c < query->n_cells; c++) {
        scan->position -= matches[c] + others[c];
        of_match[c] += scan->for_match;
        of_other[c] += scan->for_other;
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

/* Adds the table of one query, or those of two: to each point that of the first query before that
 * of the second. */
ONE_BY_ONE static void fold(double *restrict out, const Scratch *s, int64_t n, bool two) {
    const uint16_t *restrict cell0 = s->cell[0], *restrict cell1 = s->cell[1];
    const double *table0 = s->table[0], *table1 = s->table[1];
    if (two)
        for (int64_t i = 0; i < n; i++)
            out[i] = (out[i] + table0[cell0[i]]) + table1[cell1[i]];
    else
        for (int64_t i = 0; i < n; i++)
            out[i] += table0[cell0[i]];
}

/* Adds the values of listed points and of pivots, whose cells have the value 0 in the table. */
static void fold_listed(double *restrict out, double weight, const Query *query, const Scratch *s) {
    for (int64_t i = 0; i < query->n_listed; i++)
        out[s->listed[i]] += weight * s->value[s->entry[s->listed[i]]];
    for (int64_t gap = 0; gap < query->n_gaps; gap++)
        if (s->gaps[gap].behind >= 0)
            out[s->gaps[gap].behind] += weight * s->of_pivot[gap];
}

/* The arguments of classify_block, which are declared in native.py. Points stand in the order of
 * their classes: a position is a number in this order, a row one in the order of the caller. */
typedef struct {
    const int32_t *qkeys;      /* [query][position], rows of `stride` numbers */
    const int32_t *tolerances; /* of qkeys, by query */
    const int32_t *labels;     /* classes of the queries; -1 if no training point has the label */
    const int32_t *excluded;   /* [query][i]: positions that take no part in its game */
    const double *constants;   /* [query][2]: what the utility adds for a match, another point */
    const double *weights;     /* of the queries in the sums */
    const int64_t *starts;     /* class c has the positions starts[c] .. starts[c + 1] - 1 */
    const int32_t *row_of;     /* by position */
    const int32_t *place_of;   /* by row: its position */
    const double *worth;       /* by rank, from 0 to N + 1; see Scan */
    const double *loss;        /* by rank, from 0 to N */
    const double *cumulative;  /* by rank, from 0 to N: the sums of worth */
    double max_error;          /* above 0: certified values, cut off where this error allows */
    int64_t certain;           /* ranks that are never cut off: the rank of the largest loss */
    int32_t by_index;          /* ties are broken by row */
    int64_t n_cells;           /* of a query, at most */
    const double *queries;     /* where exact distances come from: see Source in nearworth.h */
    const void *points;
    int32_t type;
    const double *given;
    callback ask;
    double *total;  /* by position: gets weight * value added, query after query */
    double *errors; /* of certified values, by query */
    char *memory;   /* classify_scratch(n, n_cells) bytes */
    int64_t n_queries, stride, n_excluded, n_starts, n, n_ranks, width, n_rows, n_memory;
} ClassifyBlock;

/* What query `q` of a block needs, before its points are in cells. */
static Query begin_query(const ClassifyBlock *block, int64_t q) {
    int32_t label = block->labels[q];
    int64_t first = label < 0 ? 0 : block->starts[label];
    int64_t end = label < 0 ? 0 : block->starts[label + 1];
    bool matches_are_rarer = 2 * (end - first) <= block->n;
    return (Query){
        .qkeys = block->qkeys + q * block->stride,
        .excluded = block->excluded + q * block->n_excluded,
        .n = block->n,
        .n_excluded = block->n_excluded,
        .first = {[OTHER] = 0, [MATCH] = first},
        .end = {[OTHER] = block->n, [MATCH] = end},
        .pivots = matches_are_rarer ? MATCH : OTHER,
        .others = matches_are_rarer ? OTHER : MATCH,
        .by_index = block->by_index,
        .tolerance = block->tolerances[q],
        .n_cells = block->n_cells,
    };
}

/* Adds the values of a block of queries to `total`. Returns how many exact distances were computed,
 * or -1 if `ask` failed. */
EXPORT int64_t classify_block(const ClassifyBlock *block) {
    int64_t n = block->n, n_queries = block->n_queries, n_exact = 0;
    Source source = {block->queries, block->points, block->type,   block->given,
                     block->ask,     block->width,  block->n_rows, n};
    Scratch s;
    /* Every array begins at a line of the cache. */
    char *memory = block->memory + (64 - (uintptr_t)block->memory % 64) % 64;
    lay_out(memory, &s, n, block->n_cells);
    for (int64_t q = 0; q < n_queries; q++) {
        int side = (int)(q & 1);
        uint16_t *cell = s.cell[side];
        double *table = s.table[side];
        Query query = begin_query(block, q);
        Scan scan = {
            .worth = block->worth,
            .loss = block->loss,
            .for_match = block->constants[2 * q],
            .for_other = block->constants[2 * q + 1],
            .one_by_one = query.pivots == MATCH,
            .position = n - block->n_excluded,
        };

        put_in_cells(&query, cell, s.counts);
        block->errors[q] = 0.0;
        if (block->max_error > 0.0)
            block->errors[q] = cut_cells(
                &scan, &query, block->max_error, block->certain, block->cumulative, table, &s
            );
        find_mixed(&query, &s);
        make_gaps(&query, cell, &s);
        find_gaps(&query, cell, &s);
        int64_t count = resolve(&query, &source, q, block->row_of, block->place_of, &s);
        if (count < 0)
            return -1;
        n_exact += count;
        scan_cells(&scan, &query, table, &s);

        double weight = block->weights[q];
        for (int64_t c = 0; c < 2 * query.n_cells; c++)
            table[c] *= weight;
        /* Two queries at a time save half of the memory traffic. */
        if (side == 1 || q + 1 == n_queries)
            fold(block->total, &s, n, side == 1);
        fold_listed(block->total, weight, &query, &s);
    }
    return n_exact;
}
