/* Distances and inner products pair by pair, in double precision and in one fixed order of
 * summation.
 *
 * Column j of a pair is added to sum number j mod 8, and the eight sums are added as a tree. Eight
 * sums keep the vector units of any processor busy, and because their order is fixed all results
 * agree to the bit: of one pair, of chosen rows or of all pairs, of dense or sparse rows, of any
 * variant of this library and of the numpy forms.
 *
 *     dense rows     four side by side, the vectors along the columns; some columns at a time,
 *                    converted once for many queries; chosen rows ahead are prefetched
 *     sparse rows    two sorted lists of columns are merged
 *
 * `product` is a constant wherever sums are made: inner products instead of squared distances. */
#include "nearworth.h"

#if defined(__AVX512F__)
#define SIDE 8 /* numbers in a vector register */
#elif defined(__AVX__)
#define SIDE 4
#else
#define SIDE 2
#endif
#define INLINE static inline __attribute__((always_inline))

enum {
    LANES = 8,               /* sums of a pair */
    PARTS = LANES / SIDE,    /* vectors of these sums */
    FOUR = 4,                /* rows side by side */
    AHEAD = 12,              /* rows between a prefetch and its use */
    LINE_BYTES = 64,         /* of the cache */
    MAX_FETCHED_BYTES = 512, /* of a row; the processor sees the others coming */
    MAX_COLUMNS = 256,       /* converted at a time */
    MAX_QUERIES = 64,        /* for which rows are converted once */
};

typedef double side __attribute__((vector_size(SIDE * sizeof(double)), aligned(8), may_alias));

/* The sum of eight numbers. */
#define TREE(S) (((S[0] + S[1]) + (S[2] + S[3])) + ((S[4] + S[5]) + (S[6] + S[7])))
#define ADD_TERM(SUM, X, T, PRODUCT) ((SUM) + ((PRODUCT) ? (X) * (T) : ((X) - (T)) * ((X) - (T))))

/* Adds some columns of one query and four rows to eight sums for each row. */
INLINE void add_columns(
    const double *query, const double *const rows[FOUR], int64_t n_columns, bool product,
    double sums[FOUR][LANES]
) {
    side s[FOUR][PARTS];
    memcpy(s, sums, sizeof s);
    int64_t n_whole = n_columns - n_columns % LANES;
    for (int64_t j = 0; j < n_whole; j += LANES)
        for (int part = 0; part < PARTS; part++) {
            side t = *(const side *)(query + j + part * SIDE);
            for (int r = 0; r < FOUR; r++) {
                side x = *(const side *)(rows[r] + j + part * SIDE);
                s[r][part] = ADD_TERM(s[r][part], x, t, product);
            }
        }
    memcpy(sums, s, sizeof s);
    for (int r = 0; r < FOUR; r++)
        for (int64_t j = n_whole; j < n_columns; j++)
            sums[r][j - n_whole] = ADD_TERM(sums[r][j - n_whole], rows[r][j], query[j], product);
}

/* Writes the sums of up to MAX_QUERIES queries with up to four rows.
 *
 * `offsets` are the places of four rows in `points`, in bytes; the first `count` of them are
 * wanted. `pitch` is the distance from one query to the next in `out`. */
static void sum_four(
    const double *queries, const char *points, int32_t type, const int64_t *offsets, bool product,
    double *out, int64_t n_queries, int64_t width, int64_t count, int64_t pitch
) {
    double sums[MAX_QUERIES][FOUR][LANES];
    double converted[FOUR][MAX_COLUMNS];
    memset(sums, 0, (size_t)n_queries * sizeof *sums);
    for (int64_t start = 0; start < width; start += MAX_COLUMNS) {
        int64_t n_columns = width - start < MAX_COLUMNS ? width - start : MAX_COLUMNS;
        const double *rows[FOUR];
        for (int r = 0; r < FOUR; r++) {
            const char *row = points + offsets[r] + start * item_size[type];
            rows[r] = type == F8 ? (const double *)row : converted[r];
            if (type != F8)
                read_numbers(row, type, n_columns, converted[r]);
        }
        for (int64_t q = 0; q < n_queries; q++)
            if (product)
                add_columns(queries + q * width + start, rows, n_columns, true, sums[q]);
            else
                add_columns(queries + q * width + start, rows, n_columns, false, sums[q]);
    }
    for (int64_t q = 0; q < n_queries; q++)
        for (int64_t r = 0; r < count; r++)
            out[q * pitch + r] = TREE(sums[q][r]);
}

/* The place of row rows[i] in bytes. Row 0 stands in for rows that do not exist. */
INLINE int64_t row_offset(const int32_t *rows, int64_t i, int64_t n, int64_t row_bytes) {
    return rows[i] < 0 || rows[i] >= n ? 0 : rows[i] * row_bytes;
}

void sum_rows(
    const double *query, const char *points, int32_t type, const int32_t *rows, bool product,
    double *out, int64_t width, int64_t n, int64_t k
) {
    int64_t row_bytes = width * item_size[type];
    int64_t fetched_bytes = row_bytes < MAX_FETCHED_BYTES ? row_bytes : MAX_FETCHED_BYTES;
    for (int64_t i = 0; i < k; i += FOUR) {
        /* Behind the last row, it is taken again. */
        int64_t offsets[FOUR];
        for (int64_t r = i; r < i + FOUR; r++) {
            offsets[r - i] = row_offset(rows, r < k ? r : k - 1, n, row_bytes);
            for (int64_t byte = 0; r + AHEAD < k && byte < fetched_bytes; byte += LINE_BYTES)
                __builtin_prefetch(points + row_offset(rows, r + AHEAD, n, row_bytes) + byte);
        }
        int64_t count = k - i < FOUR ? k - i : FOUR;
        sum_four(query, points, type, offsets, product, out + i, 1, width, count, 0);
    }
    for (int64_t i = 0; i < k; i++)
        out[i] = rows[i] < 0 || rows[i] >= n ? INFINITY : out[i];
}

bool exact_keys(const Source *s, int64_t query, const int32_t *rows, double *out, int64_t k) {
    if (s->points)
        sum_rows(
            s->queries + query * s->width, s->points, s->type, rows, false, out, s->width,
            s->n_points, k
        );
    for (int64_t i = 0; s->given && i < k; i++)
        out[i] = s->given[query * s->n_given + rows[i]];
    return s->points || s->given || s->ask(query, k, rows, out) == 0;
}

/* Each query with k rows of its own list. */
EXPORT void listed_pairs(
    const double *queries, const void *points, int32_t type, const int32_t *rows, int32_t product,
    double *out, int64_t n_queries, int64_t width, int64_t n, int64_t k
) {
    for (int64_t q = 0; q < n_queries; q++)
        sum_rows(
            queries + q * width, points, type, rows + q * k, product, out + q * k, width, n, k
        );
}

/* All queries with all m points. They are columns first..first+m-1 of `out`, which has n of
 * them. */
EXPORT void all_pairs(
    const double *queries, const void *points, int32_t type, int64_t first, int32_t product,
    double *out, int64_t n_queries, int64_t width, int64_t m, int64_t n
) {
    int64_t row_bytes = width * item_size[type];
    if (first < 0 || first > n - m)
        return;
    for (int64_t q = 0; q < n_queries; q += MAX_QUERIES)
        for (int64_t i = 0; i < m; i += FOUR) {
            int64_t count = m - i < FOUR ? m - i : FOUR;
            int64_t offsets[FOUR];
            for (int64_t r = 0; r < FOUR; r++)
                offsets[r] = (r < count ? i + r : i) * row_bytes;
            sum_four(
                queries + q * width, points, type, offsets, product, out + q * n + first + i,
                n_queries - q < MAX_QUERIES ? n_queries - q : MAX_QUERIES, width, count, n
            );
        }
}

/* The sum of |difference|^power of two sparse rows, given by n and m sorted columns with their
 * values.
 *
 * Squares go to eight sums, as those of dense rows do. Absolute differences are added in the order
 * of the columns, as scipy adds those of dense rows. Which row has the next column cannot be
 * predicted, so nothing branches on it. */
INLINE double merge(
    const int32_t *q_column, const double *q_value, int64_t n, const int32_t *x_column,
    const double *x_value, int64_t m, int32_t power
) {
    double sums[LANES] = {0};
    for (int64_t i = 0, j = 0; i < n || j < m;) {
        int32_t next_q = i < n ? q_column[i] : INT32_MAX;
        int32_t next_x = j < m ? x_column[j] : INT32_MAX;
        int32_t column = next_q < next_x ? next_q : next_x;
        double difference =
            (next_q == column ? q_value[i] : 0.0) - (next_x == column ? x_value[j] : 0.0);
        sums[power == 2 ? column % LANES : 0] +=
            power == 2 ? difference * difference : fabs(difference);
        i += next_q == column;
        j += next_x == column;
    }
    return TREE(sums);
}

/* All queries with all points, both sparse: row a of the queries has the entries
 * q_start[a] .. q_start[a+1] - 1. `power` is a constant where rows are merged. */
EXPORT void sparse_distances(
    double *out, const int64_t *q_start, const int32_t *q_column, const double *q_value,
    const int64_t *x_start, const int32_t *x_column, const double *x_value, int32_t power,
    int64_t n_queries, int64_t n, int64_t q_size, int64_t x_size
) {
    (void)q_size;
    (void)x_size;
    for (int64_t a = 0; a < n_queries; a++)
        for (int64_t b = 0; b < n; b++) {
            int64_t i = q_start[a];
            int64_t j = x_start[b];
            int64_t q_count = q_start[a + 1] - i;
            int64_t x_count = x_start[b + 1] - j;
            double *distance = out + a * n + b;
            if (power == 2)
                *distance = merge(
                    q_column + i, q_value + i, q_count, x_column + j, x_value + j, x_count, 2
                );
            else
                *distance = merge(
                    q_column + i, q_value + i, q_count, x_column + j, x_value + j, x_count, 1
                );
        }
}
