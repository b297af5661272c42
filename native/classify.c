/* Values of a block of validation points in classification, from quantised keys to sums.
 *
 * Values change only where the status changes along the ranks: from match (the query's label) to other. The rarer status
 * is that of the *pivots*. Points stand in the order of their classes, so matches are one slice.
 *
 *   put_in_cells   qkeys -> cells of 16 bits, by two lines with few cells where nothing matters; counts of both statuses
 *   find_groups    cells in a row that a pivot's tolerance links are a group; where a group holds both statuses the
 *                  order inside it matters, and its points are listed; elsewhere one value for each cell is enough
 *   list_pivots    the pivots of such groups by qkey, each group closed by a sentinel
 *   list_others    the other points of such groups: the pivot they come before (their gap)
 *   resolve        others within tolerance of a pivot: exact distances of them and of the chain of pivots around
 *   scan           far to near, a value for each cell, gap, tie and pivot
 *   fold           sums: one look-up for each point
 *
 * Exact distances decide wherever qkeys are too close to tell, so order, ties and every bit of the result are those of
 * the exact distances, whatever made the qkeys. With `max_error`, cells from a cut on are not resolved: their points have
 * the values of ties, and counts alone certify the error (certified.c). Two queries are folded at a time, which saves
 * half of the memory traffic; each point still gets its terms in the order of the queries. */
#include "scan.h"

#define SENTINEL INT32_MAX
#define TIED UINT32_C(0x80000000) /* in the slot of a point that is tied with pivots */
#define FEW 24 /* pairs up to which plain insertion is the fastest sort */
#define SAMPLE 128
#define FINE 0.3f /* share of the cells that lie where matches are, at least */
#define STRETCH 256 /* points whose cells are made at a time */

/* Where exact distances come from: points in memory, a row of given keys, or a function of the caller. */
typedef struct {
    const void *points;
    int32_t type;
    int64_t width;
    const double *query, *given;
    callback ask;
    int64_t number;
    const int32_t *row_of; /* the row of each position */
    bool failed;
} Source;

/* The map from qkeys to cells: the lower of two lines. */
typedef struct {
    float slope1, offset1, slope2, offset2, top;
} Map;

/* Working arrays of one thread. Positions of the list of pivots count from 1; a gap has the number of the pivot after
 * it. */
typedef struct {
    uint16_t *cell[2];                    /* the cell of each point, of two queries */
    double *table[2][2];                  /* value of each cell, of two queries: of matches, of others */
    uint32_t *pivots, *others, *first;    /* by cell: counts, and the first listed pivot */
    int32_t *links;                       /* by cell: pivots whose tolerance reaches from it to the next */
    uint8_t *mixed;                       /* by cell: whether its group holds both statuses, so that order matters */
    int32_t *ranked;                      /* listed pivots: qkeys */
    uint32_t *order, *chain, *chain_end;  /* their positions; the first pivot of their chain; one past its last */
    uint32_t *between, *tied, *requested; /* others in the gap; others tied with the pivots that begin here; chains */
    double *exact, *gap, *tie, *pivot;    /* exact distances of pivots (NaN: not asked for); values */
    uint32_t *listed, *slot, *ambiguous;  /* listed others: position, gap (or tie); those to resolve */
    double *distance, *space;             /* exact distances by row, where wanted */
    int32_t *rows;                        /* the wanted rows */
    uint64_t *wanted;                     /* a bit for each row */
} Scratch;

typedef struct {
    int64_t n, first_match, end_match; /* points, and the slice of matches */
    const int32_t *excluded;           /* positions that take no part: the query itself, rows of its group */
    int64_t n_excluded;
    bool pivots_match, by_index;
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

/* Two stretches of positions that hold one status; the second may be empty. */
typedef struct {
    int64_t start[2], stop[2];
} Ranges;

static Ranges inside(const Query *query)
{
    Ranges ranges = {{query->first_match, 0}, {query->end_match, 0}};
    return ranges;
}

static Ranges outside(const Query *query)
{
    Ranges ranges = {{0, query->end_match}, {query->first_match, query->n}};
    return ranges;
}

static Ranges pivots_of(const Query *query) { return query->pivots_match ? inside(query) : outside(query); }
static Ranges others_of(const Query *query) { return query->pivots_match ? outside(query) : inside(query); }

/* ---------------------------------------------------------------------------------------------------- scratch memory */

static void *take(char **memory, int64_t count, int64_t size)
{
    void *start = *memory;
    *memory += (count * size + 63) / 64 * 64;
    return start;
}

static int64_t lay_out(char *memory, Scratch *s, int64_t n, int64_t most_pivots, int64_t n_cells)
{
    char *start = memory;
    int64_t listed = 2 * most_pivots + 4, cells = n_cells + 2;
    for (int q = 0; q < 2; q++) {
        s->cell[q] = take(&memory, n + 64, sizeof(uint16_t));
        for (int status = 0; status < 2; status++)
            s->table[q][status] = take(&memory, cells, sizeof(double));
    }
    s->pivots = take(&memory, cells, sizeof(uint32_t));
    s->others = take(&memory, cells, sizeof(uint32_t));
    s->first = take(&memory, cells, sizeof(uint32_t));
    s->links = take(&memory, cells, sizeof(int32_t));
    s->mixed = take(&memory, cells, sizeof(uint8_t));
    s->ranked = take(&memory, listed, sizeof(int32_t));
    s->order = take(&memory, listed, sizeof(uint32_t));
    s->chain = take(&memory, listed, sizeof(uint32_t));
    s->chain_end = take(&memory, listed, sizeof(uint32_t));
    s->between = take(&memory, listed, sizeof(uint32_t));
    s->tied = take(&memory, listed, sizeof(uint32_t));
    s->requested = take(&memory, listed, sizeof(uint32_t));
    s->exact = take(&memory, listed, sizeof(double));
    s->gap = take(&memory, listed, sizeof(double));
    s->tie = take(&memory, listed, sizeof(double));
    s->pivot = take(&memory, listed, sizeof(double));
    s->listed = take(&memory, n + 1, sizeof(uint32_t));
    s->slot = take(&memory, n + 1, sizeof(uint32_t));
    s->ambiguous = take(&memory, n + 1, sizeof(uint32_t));
    s->distance = take(&memory, n, sizeof(double));
    s->space = take(&memory, n, sizeof(double));
    s->rows = take(&memory, n, sizeof(int32_t));
    s->wanted = take(&memory, n / 64 + 1, sizeof(uint64_t));
    return memory - start;
}

/* Bytes of the working arrays for n points of which at most so many are pivots. */
EXPORT int64_t classify_scratch(int64_t n, int64_t most_pivots, int64_t n_cells)
{
    Scratch scratch;
    return lay_out((char *)64, &scratch, n, most_pivots, n_cells) + 64;
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
    Ranges pivots = pivots_of(query);
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

static void count_cells(const int32_t *qkeys, const Map *map, int64_t start, int64_t stop, uint16_t *cell, uint32_t *counts)
{
    for (; start < stop; start += STRETCH) {
        int64_t end = start + STRETCH < stop ? start + STRETCH : stop;
        for (int64_t i = start; i < end; i++)
            cell[i] = cell_of(map, qkeys[i]);
        for (int64_t i = start; i < end; i++)
            counts[cell[i]]++;
    }
}

/* Excluded points go to a cell of their own behind the last, which counts for nothing and has the value 0. */
static void put_in_cells(const int32_t *qkeys, const Query *query, const Map *map, uint16_t *cell, Scratch *s)
{
    memset(s->pivots, 0, (size_t)(query->n_cells + 1) * sizeof *s->pivots);
    memset(s->others, 0, (size_t)(query->n_cells + 1) * sizeof *s->others);
    Ranges pivots = pivots_of(query), others = others_of(query);
    for (int r = 0; r < 2; r++) {
        count_cells(qkeys, map, pivots.start[r], pivots.stop[r], cell, s->pivots);
        count_cells(qkeys, map, others.start[r], others.stop[r], cell, s->others);
    }
    for (int64_t e = 0; e < query->n_excluded; e++) {
        int64_t i = query->excluded[e];
        bool matches = i >= query->first_match && i < query->end_match;
        (matches == query->pivots_match ? s->pivots : s->others)[cell[i]]--;
        cell[i] = (uint16_t)query->n_cells;
    }
}

/* Count, for each cell, the pivots whose tolerance reaches from it into the next. */
static void link_cells(const int32_t *qkeys, const Query *query, const Map *map, const uint16_t *cell, int32_t *links)
{
    memset(links, 0, (size_t)(query->n_cells + 1) * sizeof *links);
    Ranges pivots = pivots_of(query);
    for (int r = 0; r < 2; r++)
        for (int64_t i = pivots.start[r]; i < pivots.stop[r]; i += STRETCH) {
            uint16_t low[STRETCH], high[STRETCH];
            int64_t count = pivots.stop[r] - i < STRETCH ? pivots.stop[r] - i : STRETCH;
            for (int64_t j = 0; j < count; j++) {
                low[j] = cell_of(map, qkeys[i + j] - query->tolerance);
                high[j] = cell_of(map, qkeys[i + j] + query->tolerance);
            }
            for (int64_t j = 0; j < count; j++)
                if (low[j] != high[j] && cell[i + j] < query->n_cells) {
                    links[low[j]]++;
                    links[high[j]]--;
                }
        }
    for (int64_t c = 1; c < query->n_cells; c++)
        links[c] += links[c - 1];
}

/* Give the cells of groups with both statuses their part of the list of pivots; returns where the list ends. */
static uint32_t find_groups(const Query *query, Scratch *s)
{
    uint32_t place = 1;
    s->ranked[0] = SENTINEL;
    if (query->cut > 0)
        s->links[query->cut - 1] = 0; /* what the cut separates is part of the certificate */
    for (int64_t c = 0; c < query->cut;) {
        int64_t end = c + 1;
        uint32_t pivots = s->pivots[c], others = s->others[c];
        for (; s->links[end - 1] > 0; end++) {
            pivots += s->pivots[end];
            others += s->others[end];
        }
        uint32_t mixed = pivots && others, start = place;
        for (; c < end; c++) {
            s->mixed[c] = (uint8_t)mixed;
            s->first[c] = start;
            start += s->pivots[c];
        }
        place += mixed ? pivots + 1 : 0; /* nothing to predict: without a group, the last sentinel is written again */
        s->ranked[place - 1] = SENTINEL;
    }
    memset(s->mixed + query->cut, 0, (size_t)(query->n_cells + 1 - query->cut));
    return place;
}

/* -------------------------------------------------------------------------------------------------- pivots and others */

/* Sort by (value, row) in place: insertion over shrinking gaps, plain insertion for a few. */
#define SORT_PAIRS(NAME, TYPE)                                                                                         \
    static void NAME(TYPE *values, uint32_t *points, int64_t count, const int32_t *row_of)                             \
    {                                                                                                                  \
        int64_t gap = 1;                                                                                               \
        while (count > FEW && 9 * gap < 4 * count)                                                                     \
            gap = 9 * gap / 4 + 1;                                                                                     \
        for (;; gap = 4 * gap / 9 > 1 ? 4 * gap / 9 : 1) {                                                             \
            for (int64_t j = gap; j < count; j++) {                                                                    \
                TYPE value = values[j];                                                                                \
                uint32_t point = points[j];                                                                            \
                int64_t k = j;                                                                                         \
                for (; k >= gap; k -= gap) {                                                                           \
                    TYPE other = values[k - gap];                                                                      \
                    if (other < value || (other == value && row_of[points[k - gap]] < row_of[point]))                  \
                        break;                                                                                         \
                    values[k] = other;                                                                                 \
                    points[k] = points[k - gap];                                                                       \
                }                                                                                                      \
                values[k] = value;                                                                                     \
                points[k] = point;                                                                                     \
            }                                                                                                          \
            if (gap == 1)                                                                                              \
                return;                                                                                                \
        }                                                                                                              \
    }

SORT_PAIRS(sort_qkeys, int32_t)
SORT_PAIRS(sort_distances, double)

/* The points of one status in mixed groups; returns how many. */
static int64_t list_mixed(Ranges ranges, const uint16_t *cell, const uint8_t *mixed, uint32_t *listed)
{
    uint64_t count = 0;
    for (int r = 0; r < 2; r++)
        for (int64_t i = ranges.start[r]; i < ranges.stop[r]; i++) {
            listed[count] = (uint32_t)i;
            count += mixed[cell[i]];
        }
    return (int64_t)count;
}

/* List the pivots of mixed groups by qkey; returns how many are in the fullest cell. */
static uint32_t list_pivots(const int32_t *qkeys, const Query *query, const uint16_t *cell, const int32_t *row_of, Scratch *s)
{
    int64_t count = list_mixed(pivots_of(query), cell, s->mixed, s->listed);
    for (int64_t k = 0; k < count; k++) {
        uint32_t i = s->listed[k], place = s->first[cell[i]]++;
        s->ranked[place] = qkeys[i];
        s->order[place] = i;
    }
    uint32_t fullest = 0;
    for (int64_t c = 0; c < query->cut; c++) {
        uint32_t size = s->mixed[c] ? s->pivots[c] : 0, start = s->first[c] -= size;
        fullest = size > fullest ? size : fullest;
        if (size > 1)
            sort_qkeys(s->ranked + start, s->order + start, size, row_of);
    }
    return fullest;
}

static inline uint32_t close_to(int32_t a, int32_t b, int32_t tolerance)
{
    return (uint32_t)a - (uint32_t)b <= (uint32_t)tolerance; /* a >= b; a sentinel is close to nothing */
}

/* The first of the pivots from `start` to `end` whose qkey is not smaller, or `end`; by halves as long as they are many. */
static uint32_t halve(const int32_t *ranked, uint32_t start, uint32_t end, int32_t qkey)
{
    while (end - start > FEW) {
        uint32_t middle = start + (end - start) / 2;
        if (ranked[middle] < qkey)
            start = middle + 1;
        else
            end = middle;
    }
    return start;
}

/* List the other points of mixed groups with their gaps; returns how many, and how many are within tolerance of a pivot. */
static int64_t list_others(const int32_t *qkeys, const Query *query, const uint16_t *cell, bool crowded, Scratch *s,
                           int64_t *n_ambiguous)
{
    int64_t count = list_mixed(others_of(query), cell, s->mixed, s->listed);
    uint64_t unsure = 0;
    for (int64_t k = 0; k < count; k++) {
        uint32_t i = s->listed[k], gap = s->first[cell[i]];
        int32_t qkey = qkeys[i];
        if (crowded)
            gap = halve(s->ranked, gap, gap + s->pivots[cell[i]], qkey);
        gap += s->ranked[gap] < qkey; /* nearly always enough, and nothing to predict; a sentinel stops at the end */
        gap += s->ranked[gap] < qkey;
        while (s->ranked[gap] < qkey)
            gap++;
        s->slot[k] = gap;
        s->between[gap]++;
        s->ambiguous[unsure] = (uint32_t)k;
        unsure += close_to(s->ranked[gap], qkey, query->tolerance) | close_to(qkey, s->ranked[gap - 1], query->tolerance);
    }
    *n_ambiguous = (int64_t)unsure;
    return count;
}

/* ---------------------------------------------------------------------------------------------------- exact distances */

/* Exact distances of some rows, each in its own place. `space` has room for as many. */
static void exact_distances(Source *source, const int32_t *rows, int64_t n, int64_t count, double *space, double *distance)
{
    if (source->points)
        rows_distances(source->query, source->points, source->type, rows, space, source->width, n, count);
    else if (source->given)
        for (int64_t k = 0; k < count; k++)
            space[k] = source->given[rows[k]];
    else if (source->ask(source->number, count, rows, space))
        source->failed = true;
    for (int64_t k = 0; k < count; k++)
        distance[rows[k]] = space[k];
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

/* Link pivots within twice the tolerance of each other into chains: a point between them may belong to either side. */
static void link_chains(uint32_t end, int32_t tolerance, Scratch *s)
{
    for (uint32_t j = 1; j < end; j++) {
        bool linked = j > 1 && s->ranked[j] != SENTINEL && s->ranked[j - 1] != SENTINEL
            && (int64_t)s->ranked[j] - s->ranked[j - 1] <= 2 * (int64_t)tolerance;
        s->chain[j] = linked ? s->chain[j - 1] : j;
        s->chain_end[s->chain[j]] = j + 1;
        s->exact[j] = NAN;
    }
}

/* The chain that a listed point is within tolerance of. */
static inline uint32_t chain_near(const Query *query, const Scratch *s, uint32_t gap, int32_t qkey)
{
    return s->chain[close_to(s->ranked[gap], qkey, query->tolerance) ? gap : gap - 1];
}

/* Exact distances of the ambiguous others and of all pivots of the chains they are close to; these are put in order.
 * Returns how many. */
static int64_t compute_distances(const int32_t *qkeys, const Query *query, int64_t n_ambiguous, Source *source, Scratch *s)
{
    int64_t n_chains = 0;
    for (int64_t k = 0; k < n_ambiguous; k++) {
        uint32_t i = s->listed[s->ambiguous[k]], chain = chain_near(query, s, s->slot[s->ambiguous[k]], qkeys[i]);
        want(s->wanted, source->row_of[i]);
        if (isnan(s->exact[chain])) {
            s->requested[n_chains++] = chain;
            s->exact[chain] = 0.0;
            for (uint32_t j = chain; j < s->chain_end[chain]; j++)
                want(s->wanted, source->row_of[s->order[j]]);
        }
    }
    int64_t count = list_wanted(s->wanted, query->n, s->rows);
    exact_distances(source, s->rows, query->n, count, s->space, s->distance);
    for (int64_t k = 0; k < n_chains; k++) {
        uint32_t start = s->requested[k], end = s->chain_end[start];
        for (uint32_t j = start; j < end; j++)
            s->exact[j] = s->distance[source->row_of[s->order[j]]];
        sort_distances(s->exact + start, s->order + start, end - start, source->row_of);
    }
    return count;
}

/* The gap of a point at this exact distance in a chain: the first pivot that does not come before it. */
static uint32_t gap_in_chain(const Query *query, const Source *source, const Scratch *s, uint32_t chain, uint32_t position, double distance)
{
    uint32_t low = chain, high = s->chain_end[chain];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        bool before = s->exact[middle] < distance
            || (query->by_index && s->exact[middle] == distance && source->row_of[s->order[middle]] < source->row_of[position]);
        if (before)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Put the ambiguous others into the right gap, or tie them with pivots. Returns how many exact distances that took. */
static int64_t resolve(const int32_t *qkeys, const Query *query, uint32_t end, int64_t n_ambiguous, Source *source, Scratch *s)
{
    if (!n_ambiguous)
        return 0;
    link_chains(end, query->tolerance, s);
    int64_t taken = compute_distances(qkeys, query, n_ambiguous, source, s);
    for (int64_t k = 0; k < n_ambiguous && !source->failed; k++) {
        uint32_t number = s->ambiguous[k], i = s->listed[number], old = s->slot[number];
        uint32_t chain = chain_near(query, s, old, qkeys[i]);
        double distance = s->distance[source->row_of[i]];
        uint32_t gap = gap_in_chain(query, source, s, chain, i, distance);
        s->between[old]--;
        if (!query->by_index && gap < s->chain_end[chain] && s->exact[gap] == distance) {
            s->tied[gap]++;
            s->slot[number] = gap | TIED;
        } else {
            s->between[gap]++;
            s->slot[number] = gap;
        }
    }
    return taken;
}

/* ------------------------------------------------------------------------------------------------------------- values */

static inline double next_points(Scan *scan, bool match, int64_t count)
{
    return match ? next_matches(scan, count) : next_others(scan, count);
}

/* Values of a group of listed pivots, from the sentinel at `place` down; returns the place of the sentinel before. */
static uint32_t scan_group(Scan *scan, const Query *query, uint32_t place, bool any_ties, Scratch *s)
{
    bool match = query->pivots_match;
    for (;;) {
        if (s->between[place])
            s->gap[place] = next_points(scan, !match, s->between[place]);
        if (s->ranked[place - 1] == SENTINEL)
            return place - 1;
        uint32_t first = place - 1;
        if (any_ties) /* pivots of one exact distance; NaN equals nothing */
            while (s->ranked[first - 1] != SENTINEL && s->chain[first - 1] == s->chain[place - 1]
                   && s->exact[first - 1] == s->exact[place - 1])
                first--;
        uint32_t tied = any_ties ? s->tied[first] : 0;
        if (tied) {
            int64_t pivots = place - first, size = pivots + tied;
            double of_match, of_other;
            next_ties(scan, size, match ? pivots : tied, &of_match, &of_other);
            s->tie[first] = match ? of_other : of_match;
            for (uint32_t j = first; j < place; j++)
                s->pivot[j] = match ? of_match : of_other;
        } else {
            double value = next_points(scan, match, place - first);
            for (uint32_t j = first; j < place; j++)
                s->pivot[j] = value;
        }
        place = first;
    }
}

/* Values of the cells that need not be resolved for this error, and where they begin. Returns the certified error. */
static double cut_cells(Scan *scan, Query *query, const Certificate *certificate, double *const table[2], Scratch *s)
{
    const uint32_t *matches = query->pivots_match ? s->pivots : s->others, *others = query->pivots_match ? s->others : s->pivots;
    double result[2];
    query->cut = certified_cut(matches, others, certificate->total, scan->worth, certificate->max_error, certificate->certain,
                               table[0], table[1], result, query->n_cells, scan->position + 1);
    for (int64_t c = query->cut; c < query->n_cells; c++) {
        scan->position -= matches[c] + others[c];
        table[0][c] += scan->for_match;
        table[1][c] += scan->for_other;
    }
    scan->lost = result[0];
    return result[1];
}

/* Values of all cells and of everything listed, far to near. */
static void scan_cells(Scan *scan, const Query *query, uint32_t end, bool any_ties, double *const table[2], Scratch *s)
{
    uint32_t place = end - 1; /* the sentinel of the last group */
    bool match = query->pivots_match;
    double *of_pivots = table[match ? 0 : 1], *of_others = table[match ? 1 : 0];
    of_pivots[query->n_cells] = of_others[query->n_cells] = 0.0;
    for (int64_t c = query->cut - 1; c >= 0; c--) {
        if (s->mixed[c]) { /* its points are listed */
            of_pivots[c] = of_others[c] = 0.0;
            if (s->links[c] == 0) /* the last cell of its group */
                place = scan_group(scan, query, place, any_ties, s);
        } else if (s->pivots[c]) {
            of_pivots[c] = next_points(scan, match, s->pivots[c]);
        } else if (s->others[c]) {
            of_others[c] = next_points(scan, !match, s->others[c]);
        }
    }
}

/* Multiply all values by the weight of the query. */
static void weigh(double weight, int64_t n_cells, uint32_t end, double *const table[2], Scratch *s)
{
    if (weight == 1.0)
        return;
    for (int64_t c = 0; c <= n_cells; c++) {
        table[0][c] *= weight;
        table[1][c] *= weight;
    }
    for (uint32_t j = 1; j < end; j++) {
        s->gap[j] *= weight;
        s->tie[j] *= weight;
        s->pivot[j] *= weight;
    }
}

/* ------------------------------------------------------------------------------------------------------ one query, sums */

typedef struct {
    uint32_t end;     /* of the list of pivots */
    int64_t n_listed; /* others */
} Lists;

/* Value one query: table[status][cell] and, for listed points, gap, tie and pivot. Returns how many exact distances it
 * took; the error goes to *error. */
static int64_t value_query(const int32_t *qkeys, Query *query, const Certificate *certificate, Source *source, Scan *scan,
                           int number, double *error, Scratch *s, Lists *lists)
{
    bool certified = certificate->max_error > 0.0;
    Map map = make_map(qkeys, query, certified);
    uint16_t *cell = s->cell[number];
    int64_t n_ambiguous = 0, taken = 0;
    put_in_cells(qkeys, query, &map, cell, s);
    *error = certified ? cut_cells(scan, query, certificate, s->table[number], s) : 0.0;
    link_cells(qkeys, query, &map, cell, s->links);
    lists->end = find_groups(query, s);
    lists->n_listed = 0;
    if (lists->end > 1) {
        memset(s->between, 0, lists->end * sizeof *s->between);
        memset(s->tied, 0, lists->end * sizeof *s->tied);
        bool crowded = list_pivots(qkeys, query, cell, source->row_of, s) > FEW;
        lists->n_listed = list_others(qkeys, query, cell, crowded, s, &n_ambiguous);
        taken = resolve(qkeys, query, lists->end, n_ambiguous, source, s);
    }
    scan_cells(scan, query, lists->end, n_ambiguous > 0 && !query->by_index, s->table[number], s);
    return taken;
}

/* Add the values of listed points, or set them. */
static void fold_listed(double *out, const Lists *lists, const Scratch *s, bool set)
{
    for (int64_t k = 0; k < lists->n_listed; k++) {
        uint32_t slot = s->slot[k], i = s->listed[k];
        double value = slot & TIED ? s->tie[slot & ~TIED] : s->gap[slot];
        out[i] = set ? value : out[i] + value;
    }
    for (uint32_t j = 1; j < lists->end; j++)
        if (s->ranked[j] != SENTINEL)
            out[s->order[j]] = set ? s->pivot[j] : out[s->order[j]] + s->pivot[j];
}

static int by_size(int64_t *edges)
{
    for (int a = 1; a < 5; a++)
        for (int b = a; b > 0 && edges[b - 1] > edges[b]; b--) {
            int64_t edge = edges[b];
            edges[b] = edges[b - 1];
            edges[b - 1] = edge;
        }
    return 5;
}

static const double *table_at(const Query *query, double *const table[2], int64_t position)
{
    return table[position >= query->first_match && position < query->end_match ? 0 : 1];
}

/* Look-ups are faster one by one than as gathered vectors. */
#if defined(__GNUC__) && !defined(__clang__)
#define ONE_BY_ONE __attribute__((optimize("no-tree-vectorize")))
#else
#define ONE_BY_ONE
#endif

/* Add the tables of two queries, of the first before the second. */
ONE_BY_ONE static void fold_two(double *restrict out, const Query *queries, const Scratch *s)
{
    int64_t edges[6] = {0, queries[0].first_match, queries[0].end_match, queries[1].first_match, queries[1].end_match, queries[0].n};
    const uint16_t *restrict cell0 = s->cell[0], *restrict cell1 = s->cell[1];
    int count = by_size(edges);
    for (int e = 0; e < count; e++) {
        const double *table0 = table_at(queries, s->table[0], edges[e]), *table1 = table_at(queries + 1, s->table[1], edges[e]);
        for (int64_t i = edges[e]; i < edges[e + 1]; i++)
            out[i] = (out[i] + table0[cell0[i]]) + table1[cell1[i]];
    }
}

/* Add the table of one query, or set it. */
static void fold_one(double *restrict out, const Query *query, const Scratch *s, int number, bool set)
{
    int64_t edges[4] = {0, query->first_match, query->end_match, query->n};
    const uint16_t *restrict cell = s->cell[number];
    for (int e = 0; e < 3; e++) {
        const double *table = table_at(query, s->table[number], edges[e]);
        for (int64_t i = edges[e]; i < edges[e + 1]; i++)
            out[i] = set ? table[cell[i]] : out[i] + table[cell[i]];
    }
}

/* A block of queries. `total` gets weight * value added, query after query; or `values`, where given, each query's values.
 * Points stand in the order of their classes: class c holds the positions starts[c] to starts[c + 1] - 1, and row_of gives
 * the row of a position. Labels are classes, or -1 if no training point has them. A row of `excluded`
 * has the positions that take no part in the game of a query, equally many for all queries of a block.
 * `constants` holds what the utility adds for a match and for another point. Exact distances come from points, from given
 * keys, or from `ask`. With `max_error` above 0 values are certified: `errors` gets the error of each query, `cumulative`
 * holds the sums of worth. Returns how many exact distances were taken, or -1 if `ask` failed. */
EXPORT int64_t classify_block(const int32_t *qkeys, const int32_t *tolerances, const int32_t *labels,
                              const int32_t *excluded, const double *constants, const double *weights,
                              const int64_t *starts, const int32_t *row_of, const double *worth, const double *loss,
                              const double *cumulative, double max_error, int64_t certain, int32_t by_index,
                              int64_t most_pivots, int64_t n_cells, const double *queries, const void *points, int32_t type,
                              const double *given, callback ask, double *total, double *values, double *errors,
                              char *memory, int64_t n_queries, int64_t stride, int64_t n_excluded, int64_t n_starts,
                              int64_t n, int64_t n_ranks, int64_t width, int64_t n_rows, int64_t n_memory)
{
    (void)n_starts, (void)n_ranks, (void)n_rows, (void)n_memory;
    Scratch s;
    Query pair[2];
    Lists lists;
    Certificate certificate = {max_error, certain, cumulative};
    int64_t taken = 0;
    lay_out(memory + (64 - (uintptr_t)memory % 64) % 64, &s, n, most_pivots, n_cells);
    memset(s.wanted, 0, (size_t)(n / 64 + 1) * sizeof *s.wanted);
    for (int64_t q = 0; q < n_queries; q++) {
        int number = values ? 0 : (int)(q & 1);
        int64_t first = labels[q] < 0 ? 0 : starts[labels[q]], end = labels[q] < 0 ? 0 : starts[labels[q] + 1];
        Query query = {n, first, end, excluded + q * n_excluded, n_excluded, 2 * (end - first) <= n, by_index, n_cells, tolerances[q], n_cells};
        Source source = {points, type, width, queries ? queries + q * width : NULL, given ? given + q * n : NULL, ask, q, row_of, false};
        Scan scan = begin_scan(worth, loss, constants[2 * q], constants[2 * q + 1], query.pivots_match, n - n_excluded);
        taken += value_query(qkeys + q * stride, &query, &certificate, &source, &scan, number, errors + q, &s, &lists);
        pair[number] = query;
        if (source.failed)
            return -1;
        weigh(values ? 1.0 : weights[q], n_cells, lists.end, s.table[number], &s);
        if (values) {
            fold_one(values + q * n, &query, &s, 0, true);
            fold_listed(values + q * n, &lists, &s, true);
        } else if (number == 0) {
            fold_listed(total, &lists, &s, false);
            if (q + 1 == n_queries)
                fold_one(total, &query, &s, 0, false);
        } else {
            fold_two(total, pair, &s);
            fold_listed(total, &lists, &s, false);
        }
    }
    return taken;
}
