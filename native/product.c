/* Quantised keys of queries and training points from a matrix product, in single or in double precision.
 *
 * A key is |x|^2 - 2 x.t, the squared distance without |t|^2, which changes no rank; points and queries are centred, and
 * the norms are taken from a level, so that no digits are lost. Keys become whole numbers, `qkeys`, by one line for each
 * query: key * scale + offset, cut off at 0 and TOP.
 *
 * Rows are read ROWS at a time in any order, converted and centred in the cache, and used for all queries; so no copy of
 * the training set is needed. Vectors go across the queries: tiles of GROUP rows and a few vectors of queries stay in
 * registers (product_tile.h, compiled for floats and for doubles). Terms are added in blocks of about sqrt(d) columns and
 * the blocks one after the other, so a sum over d columns is off by at most `product_roundings` u |x| |t|
 * (neighbors/quantised.py adds up all errors). This is the only file in which the compiler may contract a * b + c: the
 * bound holds either way, and no value depends on it. */
#include "nearworth.h"

enum {
    ROWS = 48,      /* read at a time */
    GROUP = 6,      /* in a tile */
    COLUMNS = 256,  /* converted at a time, and the longest block of a sum */
    WIDEST = 16,    /* the most numbers in a vector: queries are filled up to a multiple of it */
    LINE = 64,      /* bytes of a cache line */
    FETCHED = 512,  /* bytes of a row that are prefetched; the processor sees the rest coming */
};
#define TOP 1073741824.0f

#if defined(__AVX512F__)
#define BYTES 64 /* of a vector */
#define VECTORS 4 /* in a tile */
#elif defined(__AVX2__)
#define BYTES 32
#define VECTORS 2
#else
#define BYTES 16
#define VECTORS 2
#endif

/* Columns of a block: about as many as there are blocks, so that sums are rounded least. */
static int64_t block_size(int64_t width)
{
    int64_t size = 16;
    while (size * size < width && size < COLUMNS)
        size *= 2;
    return size;
}

/* Roundings that a term of a sum over so many columns goes through, at most. */
EXPORT int64_t product_roundings(int64_t width)
{
    int64_t size = block_size(width);
    return size + (width + size - 1) / size - 1;
}

static int64_t padded(int64_t n_queries) { return (n_queries + WIDEST - 1) / WIDEST * WIDEST; }

/* Numbers of working memory for a block of queries. */
EXPORT int64_t product_space(int64_t n_queries, int64_t width)
{
    return padded(n_queries) * (width + 2 * ROWS + 2);
}

/* One product: all rows listed with all queries. */
typedef struct {
    const char *points;
    int32_t type;
    const int32_t *rows;
    const double *centre, *norms, *scales, *offsets;
    int64_t n_rows, n_points, n_queries, width;
} Product;

/* Rows `first`.. of the list, or fewer than ROWS at its end. */
static int64_t rows_from(const Product *product, int64_t first)
{
    return product->n_rows - first < ROWS ? product->n_rows - first : ROWS;
}

/* A listed row from some column on; a row ahead of it is prefetched. */
static const void *find_row(const Product *p, int64_t number, int64_t column)
{
    int64_t bytes = p->width * item_size[p->type];
    if (column == 0 && number + ROWS < p->n_rows)
        for (int64_t offset = 0; offset < bytes && offset < FETCHED; offset += LINE)
            __builtin_prefetch(p->points + p->rows[number + ROWS] * bytes + offset);
    return p->points + p->rows[number] * bytes + column * item_size[p->type];
}

#define REAL float
#define NAME(WORD) WORD##_single
#include "product_tile.h"
#undef REAL
#undef NAME
#define REAL double
#define NAME(WORD) WORD##_double
#include "product_tile.h"

/* qkeys of a block of queries with some rows: the number of row rows[i], whose squared length minus a level is norms[i],
 * goes to place places[i] of each query. `factors` are queries, centred and multiplied by -2. */
EXPORT void product_qkeys(const void *points, int32_t type, const int32_t *rows, const int32_t *places,
                          const double *norms, const double *centre, const double *factors, const double *scales,
                          const double *offsets, int32_t single, double *space, int32_t *qkeys, int64_t n_points,
                          int64_t width, int64_t n_rows, int64_t n_queries, int64_t n_space, int64_t stride)
{
    if (n_space < product_space(n_queries, width))
        return;
    Product product = {points, type, rows, centre, norms, scales, offsets, n_rows, n_points, n_queries, width};
    if (single)
        multiply_single(&product, factors, places, (float *)space, qkeys, stride);
    else
        multiply_double(&product, factors, places, space, qkeys, stride);
}

/* qkeys of exact keys: (key - low) * scale + MARGIN, between 0 and TOP. Column j goes to place places[j]. */
EXPORT void quantise(const double *keys, const int32_t *places, const double *lows, const double *scales, int32_t *qkeys,
                     int64_t n_queries, int64_t n_columns, int64_t stride)
{
    for (int64_t q = 0; q < n_queries; q++)
        for (int64_t j = 0; j < n_columns; j++) {
            double place = (keys[q * n_columns + j] - lows[q]) * scales[q] + 1048576.0;
            place = place > 0.0 ? place : 0.0;
            qkeys[q * stride + places[j]] = (int32_t)(place < TOP ? place : TOP);
        }
}
