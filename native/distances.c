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
 *
 * `product` is a constant wherever sums are made: inner products instead of squared distances. */
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
    PANEL = 2048 / SIDE, /* vectors in a panel: 16 kB */
    COLUMNS = 256,       /* of a panel with very long rows */
    GROUPS = 32,         /* of SIDE rows in a panel, at most */
    QUERIES = 64,        /* that a panel serves */
};

typedef double side __attribute__((vector_size(SIDE * sizeof(double))));

#define TYPES(DO)                                                                                                      \
    DO(F8, double) DO(F4, float) DO(I1, int8_t) DO(U1, uint8_t) DO(I2, int16_t) DO(U2, uint16_t) DO(I4, int32_t)       \
    DO(U4, uint32_t) DO(I8, int64_t) DO(U8, uint64_t)

/* Of eight numbers or of eight vectors. */
#define TREE(S) (((S[0] + S[1]) + (S[2] + S[3])) + ((S[4] + S[5]) + (S[6] + S[7])))
#define ADD_TERM(SUM, X, T, PRODUCT) ((SUM) + ((PRODUCT) ? (X) * (T) : ((X) - (T)) * ((X) - (T))))

/* SIDE numbers as doubles. Compilers find the instruction for doubles, but not that for floats. */
#define LOAD(NAME, TYPE)                                                                                               \
    INLINE side load_##NAME(const TYPE *numbers)                                                                       \
    {                                                                                                                  \
        side loaded;                                                                                                   \
        double wide[SIDE];                                                                                             \
        for (int i = 0; i < SIDE; i++)                                                                                 \
            wide[i] = (double)numbers[i];                                                                              \
        memcpy(&loaded, wide, sizeof loaded);                                                                          \
        return loaded;                                                                                                 \
    }
TYPES(LOAD)
#define load_F4(FLOATS) WIDEN(FLOATS)

/* For each type of rows: the sums of one to four rows, and SIDE rows (the last one repeated where some are missing)
 * transposed into a panel. */
#define SUM(NAME, TYPE)                                                                                                \
    INLINE void sum_##NAME(const double *query, const char *const *rows, int count, int64_t width, bool product,       \
                           double *out)                                                                                \
    {                                                                                                                  \
        side s[FOUR][PARTS];                                                                                           \
        double sums[FOUR][LANES];                                                                                      \
        memset(s, 0, sizeof s);                                                                                        \
        int64_t whole = width - (width & (LANES - 1));                                                                 \
        for (int64_t j = 0; j < whole; j += LANES)                                                                     \
            for (int part = 0; part < PARTS; part++) {                                                                 \
                int64_t column = j + part * SIDE;                                                                      \
                side t = load_F8(query + column);                                                                      \
                for (int r = 0; r < count; r++) {                                                                      \
                    side x = load_##NAME((const TYPE *)rows[r] + column);                                              \
                    s[r][part] = ADD_TERM(s[r][part], x, t, product);                                                  \
                }                                                                                                      \
            }                                                                                                          \
        memcpy(sums, s, sizeof sums);                                                                                  \
        for (int r = 0; r < count; r++) {                                                                              \
            for (int64_t j = whole; j < width; j++) {                                                                  \
                double x = (double)((const TYPE *)rows[r])[j];                                                         \
                sums[r][j - whole] = ADD_TERM(sums[r][j - whole], x, query[j], product);                               \
            }                                                                                                          \
            out[r] = TREE(sums[r]);                                                                                    \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    static void sum_four_##NAME(const double *query, const char *const *rows, int64_t width, bool product, double *out)\
    {                                                                                                                  \
        if (product)                                                                                                   \
            sum_##NAME(query, rows, FOUR, width, true, out);                                                           \
        else                                                                                                           \
            sum_##NAME(query, rows, FOUR, width, false, out);                                                          \
    }                                                                                                                  \
                                                                                                                       \
    static void transpose_##NAME(const char *points, int64_t count, int64_t width, int64_t start, int64_t columns,     \
                                 side *panel)                                                                          \
    {                                                                                                                  \
        for (int64_t p = 0; p < SIDE; p++) {                                                                           \
            const TYPE *row = (const TYPE *)points + (p < count ? p : count - 1) * width + start;                      \
            for (int64_t j = 0; j < columns; j++)                                                                      \
                panel[j][p] = (double)row[j];                                                                          \
        }                                                                                                              \
    }
TYPES(SUM)

static void transpose(const char *points, int32_t type, int64_t count, int64_t width, int64_t start, int64_t columns,
                      side *panel)
{
#define CASE_TRANSPOSE(NAME, TYPE)                                                                                     \
    case NAME: transpose_##NAME(points, count, width, start, columns, panel); break;
    switch (type) { TYPES(CASE_TRANSPOSE) }
}

static void sum_four(const double *query, const char *const *rows, int32_t type, int64_t width, bool product,
                     double *out)
{
#define CASE_FOUR(NAME, TYPE)                                                                                          \
    case NAME: sum_four_##NAME(query, rows, width, product, out); break;
    switch (type) { TYPES(CASE_FOUR) }
}

INLINE int64_t row_offset(const int32_t *rows, int64_t i, int64_t n, int64_t bytes)
{
    int64_t row = rows ? rows[i] : i;
    return row < 0 || row >= n ? 0 : row * bytes;
}

/* The sums of one query with k chosen rows, or with the first k where `rows` is NULL. Infinity for rows outside 0..n-1,
 * which stand for points that were not found. */
static void sum_rows(const double *query, const char *points, int32_t type, const int32_t *rows, bool product,
                     double *out, int64_t width, int64_t n, int64_t k)
{
    int64_t bytes = width * item_size[type], fetched = bytes < FETCHED ? bytes : FETCHED;
    for (int64_t i = 0; i < k; i += FOUR) {
        const char *x[FOUR];
        double few[FOUR];
        for (int64_t r = i; r < i + FOUR; r++) {
            x[r - i] = points + row_offset(rows, r < k ? r : k - 1, n, bytes);
            for (int64_t offset = 0; rows && r + AHEAD < k && offset < fetched; offset += LINE)
                __builtin_prefetch(points + row_offset(rows, r + AHEAD, n, bytes) + offset);
        }
        sum_four(query, x, type, width, product, k - i < FOUR ? few : out + i);
        if (k - i < FOUR)
            memcpy(out + i, few, (size_t)(k - i) * sizeof(double));
    }
    for (int64_t i = 0; rows && i < k; i++)
        out[i] = rows[i] < 0 || rows[i] >= n ? INFINITY : out[i];
}

EXPORT void rows_distances(const double *query, const void *points, int32_t type, const int32_t *rows, double *out,
                           int64_t width, int64_t n, int64_t k)
{
    sum_rows(query, points, type, rows, false, out, width, n, k);
}

void exact_distances(Source *source, const int32_t *rows, double *out, int64_t n, int64_t k)
{
    if (source->points)
        rows_distances(source->query, source->points, source->type, rows, out, source->width, n, k);
    else if (source->given)
        for (int64_t i = 0; i < k; i++)
            out[i] = source->given[rows[i]];
    else if (source->ask(source->number, k, rows, out))
        source->failed = true;
}

/* A list of rows for each query. */
EXPORT void listed_pairs(const double *queries, const void *points, int32_t type, const int32_t *rows, int32_t product,
                         double *out, int64_t n_queries, int64_t width, int64_t n, int64_t k)
{
    for (int64_t q = 0; q < n_queries; q++)
        sum_rows(queries + q * width, points, type, rows + q * k, product, out + q * k, width, n, k);
}

/* Add some columns of one query and SIDE rows to eight sums, which stay in registers: hence no lane is a variable. */
INLINE void add_columns(const double *query, const side *panel, int64_t columns, bool product, side *s)
{
    int64_t j = 0;
    for (; j + LANES <= columns; j += LANES)
        for (int lane = 0; lane < LANES; lane++)
            s[lane] = ADD_TERM(s[lane], panel[j + lane], query[j + lane], product);
    for (int lane = 0; lane < LANES; lane++)
        if (j + lane < columns)
            s[lane] = ADD_TERM(s[lane], panel[j + lane], query[j + lane], product);
}

/* All queries with the rows of one panel. It holds SIDE rows, if these are so long that they come some columns at a
 * time and sums are kept; else it holds a multiple of SIDE rows, and `columns` is the width. */
INLINE void sum_panel(const double *queries, const char *points, int32_t type, int64_t count, int64_t columns,
                      bool product, double *out, int64_t n_queries, int64_t width, int64_t n)
{
    side panel[PANEL], kept[QUERIES][LANES];
    for (int64_t start = 0; start == 0 || start < width; start += columns) {
        int64_t some = width - start < columns ? width - start : columns;
        for (int64_t p = 0; p < count; p += SIDE)
            transpose(points + p * width * item_size[type], type, count - p, width, start, some,
                      panel + p / SIDE * some);
        for (int64_t q = 0; q < n_queries; q++)
            for (int64_t p = 0; p < count; p += SIDE) {
                side s[LANES] = {{0}};
                if (start > 0)
                    memcpy(s, kept[q], sizeof s);
                add_columns(queries + q * width + start, panel + p / SIDE * some, some, product, s);
                side total = TREE(s);
                if (start + some < width)
                    memcpy(kept[q], s, sizeof s);
                else if (count - p >= SIDE)
                    memcpy(out + q * n + p, &total, sizeof total);
                else
                    memcpy(out + q * n + p, &total, (size_t)(count - p) * sizeof(double));
            }
    }
}

/* Columns first..first+m-1 of `out`, which has n of them. */
EXPORT void all_pairs(const double *queries, const void *points, int32_t type, int64_t first, int32_t product,
                      double *out, int64_t n_queries, int64_t width, int64_t m, int64_t n)
{
    if (first < 0 || first > n - m)
        return;
    bool is_long = width > COLUMNS;
    int64_t groups = is_long ? 1 : width * GROUPS <= PANEL ? GROUPS : PANEL / width, step = groups * SIDE;
    int64_t columns = is_long || width == 0 ? COLUMNS : width;
    for (int64_t a = 0; a < n_queries; a += QUERIES) {
        int64_t some = n_queries - a < QUERIES ? n_queries - a : QUERIES;
        const double *t = queries + a * width;
        for (int64_t i = 0; i < m; i += step) {
            int64_t count = m - i < step ? m - i : step;
            const char *x = (const char *)points + i * width * item_size[type];
            double *sums = out + a * n + first + i;
            if (some < FOUR) /* too few to pay for a transposed panel */
                for (int64_t q = 0; q < some; q++)
                    sum_rows(t + q * width, x, type, NULL, product, sums + q * n, width, count, count);
            else if (product)
                sum_panel(t, x, type, count, columns, true, sums, some, width, n);
            else
                sum_panel(t, x, type, count, columns, false, sums, some, width, n);
        }
    }
}

/* One sparse row: `count` sorted columns and their values. */
struct sparse_row {
    const int32_t *column;
    const double *value;
    int64_t count;
};

INLINE void add_difference(double *sums, int32_t column, double difference, int32_t power)
{
    if (power == 2)
        sums[column % LANES] += difference * difference;
    else
        sums[0] += fabs(difference);
}

/* The sum of |difference|^power. Squares go to eight sums, as those of dense rows do; absolute differences are added in
 * the order of the columns, as scipy adds those of dense rows. */
INLINE double merge(struct sparse_row q, struct sparse_row x, int32_t power)
{
    double sums[LANES] = {0};
    int64_t i = 0, j = 0;
    while (i < q.count && j < x.count) { /* whose turn it is cannot be predicted, so nothing here branches on it */
        int32_t left = q.column[i], right = x.column[j];
        double of_query = q.value[i], of_point = x.value[j];
        double difference = (left <= right ? of_query : 0.0) - (right <= left ? of_point : 0.0);
        add_difference(sums, left < right ? left : right, difference, power);
        i += left <= right;
        j += right <= left;
    }
    for (; i < q.count; i++)
        add_difference(sums, q.column[i], q.value[i], power);
    for (; j < x.count; j++)
        add_difference(sums, x.column[j], x.value[j], power);
    return TREE(sums);
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
            out[a * n + b] = power == 2 ? merge(q, x, 2) : merge(q, x, 1);
        }
    }
}
