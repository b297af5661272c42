/* Distances and inner products pair by pair, in double precision and in one fixed order of summation.
 *
 * Column j of a pair is added to sum number j mod 8, and the eight sums are added as a tree. Eight sums keep the vector
 * units of any processor busy, and because their order is fixed all results agree to the bit: of one pair, of chosen
 * rows or of all pairs, of dense or sparse rows, of any variant of this library and of the numpy forms.
 *
 *     chosen rows    four rows side by side, the vectors along the columns; rows ahead are prefetched
 *     all pairs      rows of a panel are transposed in the first cache, the vectors across the rows: eight sums for
 *                    SIDE rows at once, so that adding them as a tree costs next to nothing
 *     sparse rows    two sorted lists of columns are merged
 */
#include "nearworth.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#define SIDE 8 /* numbers in a vector register */
#define WIDEN(FLOATS) _mm512_cvtps_pd(_mm256_loadu_ps(FLOATS))
#elif defined(__AVX__)
#include <immintrin.h>
#define SIDE 4
#define WIDEN(FLOATS) _mm256_cvtps_pd(_mm_loadu_ps(FLOATS))
#else
#define SIDE 2
#define WIDEN(FLOATS) ((side){(FLOATS)[0], (FLOATS)[1]})
#endif
#define INLINE static inline __attribute__((always_inline))

enum {
    LANES = 8,
    PARTS = LANES / SIDE,
    FOUR = 4,            /* rows side by side */
    AHEAD = 12,          /* rows between a prefetch and its use */
    LINE = 64,           /* bytes of a cache line */
    FETCHED = 512,       /* bytes of a row that are prefetched; the processor sees the rest coming */
    COLUMNS = 256,       /* of a panel with very long rows */
    PANEL = 2048 / SIDE, /* vectors in a panel: 16 kB */
    GROUPS = 32,         /* of SIDE rows in a panel, at most */
    QUERIES = 64,        /* that a panel serves */
};

typedef double side __attribute__((vector_size(SIDE * sizeof(double))));
enum term { DISTANCE, PRODUCT };

#define TYPES(DO)                                                                                                      \
    DO(F8, double)                                                                                                     \
    DO(F4, float)                                                                                                      \
    DO(I1, int8_t)                                                                                                     \
    DO(U1, uint8_t)                                                                                                    \
    DO(I2, int16_t)                                                                                                    \
    DO(U2, uint16_t)                                                                                                   \
    DO(I4, int32_t)                                                                                                    \
    DO(U4, uint32_t)                                                                                                   \
    DO(I8, int64_t)                                                                                                    \
    DO(U8, uint64_t)

static const int64_t item_size[] = {4, 8, 1, 1, 2, 2, 4, 4, 8, 8};

INLINE double tree(const double *s)
{
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

INLINE side spread(double number)
{
    return number - (side){0}; /* minus, because plus would turn -0.0 into 0.0 and so be computed */
}

INLINE side add_terms(side sum, side x, side t, enum term term)
{
    side difference = x - t;
    return term == PRODUCT ? sum + x * t : sum + difference * difference;
}

INLINE double add_term(double sum, double x, double t, enum term term)
{
    double difference = x - t;
    return term == PRODUCT ? sum + x * t : sum + difference * difference;
}

/* SIDE numbers as doubles. Compilers find the instruction for doubles, but not that for floats. */
#define LOAD(NAME, TYPE)                                                                                               \
    INLINE side load_##NAME(const TYPE *numbers)                                                                       \
    {                                                                                                                  \
        double wide[SIDE];                                                                                             \
        side loaded;                                                                                                   \
        for (int i = 0; i < SIDE; i++)                                                                                 \
            wide[i] = (double)numbers[i];                                                                              \
        memcpy(&loaded, wide, sizeof loaded);                                                                          \
        return loaded;                                                                                                 \
    }
TYPES(LOAD)
#define load_F4(FLOATS) WIDEN(FLOATS)

/* For each type of rows: sums of `count` rows side by side, and SIDE rows transposed into a panel. */
#define ROWS(NAME, TYPE)                                                                                               \
    INLINE void sum_##NAME(const double *query, const char *const *rows, int count, int64_t width, enum term term,     \
                           double *out)                                                                                \
    {                                                                                                                  \
        side s[FOUR][PARTS];                                                                                           \
        double sums[FOUR][LANES];                                                                                      \
        memset(s, 0, sizeof s);                                                                                        \
        int64_t whole = width - (width & (LANES - 1));                                                                 \
        for (int64_t j = 0; j < whole; j += LANES)                                                                     \
            for (int part = 0; part < PARTS; part++) {                                                                 \
                int64_t column = j + part * SIDE;                                                                      \
                side t = load_F8((const double *)query + column);                                                      \
                for (int r = 0; r < count; r++)                                                                        \
                    s[r][part] = add_terms(s[r][part], load_##NAME((const TYPE *)rows[r] + column), t, term);          \
            }                                                                                                          \
        memcpy(sums, s, sizeof sums);                                                                                  \
        if (whole < width)                                                                                             \
            for (int r = 0; r < count; r++)                                                                            \
                for (int64_t j = whole; j < width; j++)                                                                \
                    sums[r][j - whole] = add_term(sums[r][j - whole], ((const TYPE *)rows[r])[j], query[j], term);     \
        for (int r = 0; r < count; r++)                                                                                \
            out[r] = tree(sums[r]);                                                                                    \
    }                                                                                                                  \
                                                                                                                       \
    static void transpose_##NAME(const void *points, int64_t first, int64_t count, int64_t width, int64_t start,       \
                                 int64_t columns, side *panel)                                                         \
    {                                                                                                                  \
        for (int64_t p = 0; p < SIDE; p++) { /* where rows are missing, the last one is repeated */                    \
            const TYPE *row = (const TYPE *)points + (first + (p < count ? p : count - 1)) * width + start;            \
            for (int64_t j = 0; j < columns; j++)                                                                      \
                panel[j][p] = (double)row[j];                                                                          \
        }                                                                                                              \
    }

TYPES(ROWS)

double squared_distance(const double *query, const void *points, int32_t type, int64_t row, int64_t width)
{
    double distance = 0.0;
    const char *start = (const char *)points + row * width * item_size[type];
#define ONE(NAME, TYPE)                                                                                                \
    case NAME: sum_##NAME(query, &start, 1, width, DISTANCE, &distance); break;
    switch (type) { TYPES(ONE) }
    return distance;
}

static void transpose(const void *points, int32_t type, int64_t first, int64_t count, int64_t width, int64_t start,
                      int64_t columns, side *panel)
{
#define CASE_TRANSPOSE(NAME, TYPE)                                                                                     \
    case NAME: transpose_##NAME(points, first, count, width, start, columns, panel); break;
    switch (type) { TYPES(CASE_TRANSPOSE) }
}

INLINE int64_t row_offset(int64_t row, int64_t n, int64_t bytes)
{
    return row < 0 || row >= n ? 0 : row * bytes;
}

/* The sums of one query with chosen rows, four side by side; with rows 0..k-1 where `rows` is NULL. Infinity for rows
 * outside 0..n-1, which stand for points that were not found. */
#define SUM_ROWS(NAME, TYPE)                                                                                           \
    INLINE void sum_rows_##NAME(const double *query, const char *points, const int32_t *rows, enum term term,          \
                                double *out, int64_t width, int64_t n, int64_t k)                                      \
    {                                                                                                                  \
        int64_t bytes = width * (int64_t)sizeof(TYPE), fetched = bytes < FETCHED ? bytes : FETCHED;                    \
        for (int64_t i = 0; i < k; i += FOUR) {                                                                        \
            const char *x[FOUR];                                                                                       \
            int count = k - i < FOUR ? (int)(k - i) : FOUR;                                                            \
            for (int r = 0; r < count; r++) {                                                                          \
                x[r] = points + (rows ? row_offset(rows[i + r], n, bytes) : (i + r) * bytes);                          \
                if (rows && i + r + AHEAD < k)                                                                         \
                    for (int64_t offset = 0; offset < fetched; offset += LINE)                                         \
                        __builtin_prefetch(points + row_offset(rows[i + r + AHEAD], n, bytes) + offset);               \
            }                                                                                                          \
            if (count == FOUR)                                                                                         \
                sum_##NAME(query, x, FOUR, width, term, out + i);                                                      \
            else                                                                                                       \
                for (int r = 0; r < count; r++)                                                                        \
                    sum_##NAME(query, x + r, 1, width, term, out + i + r);                                             \
            for (int r = 0; rows && r < count; r++)                                                                    \
                if (rows[i + r] < 0 || rows[i + r] >= n)                                                               \
                    out[i + r] = INFINITY;                                                                             \
        }                                                                                                              \
    }
TYPES(SUM_ROWS)

static void sum_rows(const double *query, const void *points, int32_t type, const int32_t *rows, enum term term,
                     double *out, int64_t width, int64_t n, int64_t k)
{
#define CASE_ROWS(NAME, TYPE)                                                                                          \
    case NAME:                                                                                                         \
        if (term == PRODUCT)                                                                                           \
            sum_rows_##NAME(query, points, rows, PRODUCT, out, width, n, k);                                           \
        else if (rows)                                                                                                 \
            sum_rows_##NAME(query, points, rows, DISTANCE, out, width, n, k);                                          \
        else                                                                                                           \
            sum_rows_##NAME(query, points, NULL, DISTANCE, out, width, n, k);                                          \
        break;
    switch (type) { TYPES(CASE_ROWS) }
}

EXPORT void rows_distances(const double *query, const void *points, int32_t type, const int32_t *rows, double *out,
                           int64_t width, int64_t n, int64_t k)
{
    sum_rows(query, points, type, rows, DISTANCE, out, width, n, k);
}

EXPORT void rows_products(const double *query, const void *points, int32_t type, const int32_t *rows, double *out,
                          int64_t width, int64_t n, int64_t k)
{
    sum_rows(query, points, type, rows, PRODUCT, out, width, n, k);
}

EXPORT void lists_distances(const double *queries, const void *points, int32_t type, const int32_t *rows, double *out,
                            int64_t n_queries, int64_t width, int64_t n, int64_t k)
{
    for (int64_t q = 0; q < n_queries; q++)
        sum_rows(queries + q * width, points, type, rows + q * k, DISTANCE, out + q * k, width, n, k);
}

/* Add some columns of one query and SIDE rows to eight sums, which stay in registers: hence no lane is a variable. */
INLINE void add_columns(const double *query, const side *panel, int64_t columns, enum term term, side *s)
{
    int64_t j = 0;
    for (; j + LANES <= columns; j += LANES)
        for (int lane = 0; lane < LANES; lane++)
            s[lane] = add_terms(s[lane], panel[j + lane], spread(query[j + lane]), term);
    for (int lane = 0; lane < LANES; lane++)
        if (j + lane < columns)
            s[lane] = add_terms(s[lane], panel[j + lane], spread(query[j + lane]), term);
}

INLINE void write_sums(const side *s, int64_t count, double *out)
{
    side total = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
    if (count >= SIDE)
        memcpy(out, &total, sizeof total);
    else
        memcpy(out, &total, (size_t)count * sizeof(double));
}

/* Rows so long that no panel holds SIDE of them: some columns at a time, with the sums of all queries kept. */
INLINE void sum_long_rows(const double *queries, const void *points, int32_t type, int64_t first, int64_t count,
                          enum term term, double *out, int64_t n_queries, int64_t width, int64_t n)
{
    side panel[COLUMNS], s[QUERIES][LANES];
    memset(s, 0, sizeof s);
    for (int64_t start = 0; start < width; start += COLUMNS) {
        int64_t columns = width - start < COLUMNS ? width - start : COLUMNS;
        transpose(points, type, first, count, width, start, columns, panel);
        for (int64_t q = 0; q < n_queries; q++) {
            side sums[LANES];
            memcpy(sums, s[q], sizeof sums);
            add_columns(queries + q * width + start, panel, columns, term, sums);
            memcpy(s[q], sums, sizeof sums);
        }
    }
    for (int64_t q = 0; q < n_queries; q++)
        write_sums(s[q], count, out + q * n + first);
}

/* Up to GROUPS times SIDE rows in one panel. */
INLINE void sum_short_rows(const double *queries, const void *points, int32_t type, int64_t first, int64_t count,
                           enum term term, double *out, int64_t n_queries, int64_t width, int64_t n)
{
    side panel[PANEL];
    for (int64_t p = 0; p < count; p += SIDE)
        transpose(points, type, first + p, count - p, width, 0, width, panel + p / SIDE * width);
    for (int64_t q = 0; q < n_queries; q++)
        for (int64_t p = 0; p < count; p += SIDE) {
            side s[LANES] = {{0}};
            add_columns(queries + q * width, panel + p / SIDE * width, width, term, s);
            write_sums(s, count - p, out + q * n + first + p);
        }
}

INLINE void sum_all(const double *queries, const void *points, int32_t type, enum term term, double *out,
                    int64_t n_queries, int64_t width, int64_t m, int64_t n)
{
    bool is_long = width > COLUMNS;
    int64_t groups = is_long ? 1 : width * GROUPS <= PANEL ? GROUPS : PANEL / width, step = groups * SIDE;
    for (int64_t a = 0; a < n_queries; a += QUERIES) {
        int64_t some = n_queries - a < QUERIES ? n_queries - a : QUERIES;
        const double *from = queries + a * width;
        for (int64_t first = 0; first < m; first += step) {
            int64_t count = m - first < step ? m - first : step;
            if (some < FOUR) /* too few to pay for a transposed panel */
                for (int64_t q = 0; q < some; q++)
                    sum_rows(from + q * width, (const char *)points + first * width * item_size[type], type, NULL,
                             term, out + (a + q) * n + first, width, count, count);
            else if (is_long)
                sum_long_rows(from, points, type, first, count, term, out + a * n, some, width, n);
            else
                sum_short_rows(from, points, type, first, count, term, out + a * n, some, width, n);
        }
    }
}

/* Columns first..first+m-1 of `out`, which has n of them. */
EXPORT void all_distances(const double *queries, const void *points, int32_t type, int64_t first, double *out,
                          int64_t n_queries, int64_t width, int64_t m, int64_t n)
{
    if (first >= 0 && first <= n - m)
        sum_all(queries, points, type, DISTANCE, out + first, n_queries, width, m, n);
}

EXPORT void all_products(const double *queries, const void *points, int32_t type, int64_t first, double *out,
                         int64_t n_queries, int64_t width, int64_t m, int64_t n)
{
    if (first >= 0 && first <= n - m)
        sum_all(queries, points, type, PRODUCT, out + first, n_queries, width, m, n);
}

/* One sparse row: `count` sorted columns and their values. */
struct sparse_row {
    const int32_t *column;
    const double *value;
    int64_t count;
};

/* The sum of |difference|^power. Squares go to eight sums, as those of dense rows do; absolute differences are added in
 * the order of the columns, as scipy adds those of dense rows. */
static double merge(struct sparse_row q, struct sparse_row x, int32_t power)
{
    double sums[LANES] = {0};
    int64_t i = 0, j = 0;
    while (i < q.count || j < x.count) {
        int64_t left = i < q.count ? q.column[i] : INT64_MAX, right = j < x.count ? x.column[j] : INT64_MAX;
        double difference = (left <= right ? q.value[i] : 0.0) - (right <= left ? x.value[j] : 0.0);
        int64_t column = left < right ? left : right;
        i += left == column;
        j += right == column;
        if (power == 2)
            sums[column % LANES] += difference * difference;
        else
            sums[0] += fabs(difference);
    }
    return tree(sums);
}

EXPORT void sparse_distances(double *out, const int64_t *q_start, const int32_t *q_column, const double *q_value,
                             const int64_t *x_start, const int32_t *x_column, const double *x_value, int32_t power,
                             int64_t n_queries, int64_t n, int64_t q_size, int64_t x_size)
{
    (void)q_size, (void)x_size;
    for (int64_t a = 0; a < n_queries; a++) {
        struct sparse_row q = {q_column + q_start[a], q_value + q_start[a], q_start[a + 1] - q_start[a]};
        for (int64_t b = 0; b < n; b++) {
            struct sparse_row x = {x_column + x_start[b], x_value + x_start[b], x_start[b + 1] - x_start[b]};
            out[a * n + b] = merge(q, x, power);
        }
    }
}
