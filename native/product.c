/* Quantised keys of queries and training points from a matrix product, in single or in double
 * precision.
 *
 * A key is |x|^2 - 2 x.t, the squared distance without |t|^2, which changes no rank; points and
 * queries are centered, and the norms are taken from a level, so that no digits are lost. Keys
 * become whole numbers, `qkeys`, by one line for each query: key * scale + offset, cut off at 0 and
 * TOP.
 *
 * Rows are read ROWS at a time in any order, converted and centered in the cache, and used for all
 * queries; so no copy of the training set is needed. Vectors go across the queries: tiles of GROUP
 * rows and a few vectors of queries stay in registers (product_tile.h, compiled for floats and for
 * doubles). Terms are added in blocks of about sqrt(d) columns and the blocks one after the other,
 * so a sum over d columns is off by at most `product_roundings` u |x| |t| (neighbors/quantised.py
 * adds up all errors). This is the only file in which the compiler may contract a * b + c: the
 * bound holds either way, and no value depends on it. */
#include "nearworth.h"

enum {
    ROWS = 48,         /* read at a time */
    GROUP = 6,         /* rows of a tile */
    MAX_COLUMNS = 256, /* converted at a time, and the longest block of a sum */
    QUERY_MULTIPLE =
        16,          /* the most numbers in a vector: queries are filled up to a multiple of it */
    LINE_BYTES = 64, /* of the cache */
};

/* The largest qkey, 2^30: TOP in neighbors/quantised.py. */
#define TOP 1073741824.0f

/* Bytes of a vector, and vectors of queries in a tile. */
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define VECTORS 4
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#define VECTORS 2
#else
#define VECTOR_BYTES 16
#define VECTORS 2
#endif

typedef int32_t four __attribute__((vector_size(16), aligned(4), may_alias));

#ifdef __clang__
#define PICK(A, B, ...) __builtin_shufflevector(A, B, __VA_ARGS__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define PICK(A, B, ...) __builtin_shuffle(A, B, (four){__VA_ARGS__})
#define UNROLLED _Pragma("GCC unroll 8")
#endif

/* Columns of a block: about as many as there are blocks, so that sums are rounded least. */
static int64_t block_size(int64_t width) {
    int64_t size = 16;
    while (size * size < width && size < MAX_COLUMNS)
        size *= 2;
    return size;
}

/* Roundings that a term of a sum over so many columns goes through, at most. */
EXPORT int64_t product_roundings(int64_t width) {
    int64_t size = block_size(width);
    return size + (width + size - 1) / size - 1;
}

/* The number of queries, filled up to whole vectors. */
static int64_t padded(int64_t n_queries) {
    return (n_queries + QUERY_MULTIPLE - 1) / QUERY_MULTIPLE * QUERY_MULTIPLE;
}

/* Numbers of working memory for a block of queries: packed queries, sums and qkeys of ROWS rows,
 * scales and offsets. */
EXPORT int64_t product_space(int64_t n_queries, int64_t width) {
    return padded(n_queries) * (width + 2 * ROWS + 2);
}

/* One product: all listed rows with all queries. The qkey of row number i goes to places[i] of each
 * query, or to i. `stride` is the distance from one query to the next in `qkeys`. */
typedef struct {
    const char *points;
    int32_t type;
    const int32_t *rows, *places;
    const double *centre, *norms, *scales, *offsets;
    int32_t *qkeys;
    int64_t n_rows, n_queries, width, stride;
} Product;

/* A listed row from a column on. */
static const void *find_row(const Product *p, int64_t number, int64_t column) {
    return p->points + (p->rows[number] * p->width + column) * item_size[p->type];
}

/* Prefetches where qkeys of the rows from `first` on will be written, for the queries up to `end`.
 * The processor does not see that coming. */
static void fetch_qkeys(const Product *p, int64_t first, int64_t query, int64_t end) {
    for (; query < end && !p->places; query++)
        for (int64_t i = first; i < first + ROWS && i < p->n_rows; i += LINE_BYTES / 4)
            __builtin_prefetch(p->qkeys + query * p->stride + i, 1);
}

/* Transposes the qkeys of four rows and four queries: from rows of queries to rows of points. */
static inline void transpose(const int32_t *from, int64_t pitch, int32_t *to, int64_t stride) {
    four a = *(const four *)from;
    four b = *(const four *)(from + pitch);
    four c = *(const four *)(from + 2 * pitch);
    four d = *(const four *)(from + 3 * pitch);
    four ab = PICK(a, b, 0, 4, 1, 5);
    four cd = PICK(c, d, 0, 4, 1, 5);
    *(four *)to = PICK(ab, cd, 0, 1, 4, 5);
    *(four *)(to + stride) = PICK(ab, cd, 2, 3, 6, 7);
    ab = PICK(a, b, 2, 6, 3, 7);
    cd = PICK(c, d, 2, 6, 3, 7);
    *(four *)(to + 2 * stride) = PICK(ab, cd, 0, 1, 4, 5);
    *(four *)(to + 3 * stride) = PICK(ab, cd, 2, 3, 6, 7);
}

/* Writes the qkeys of `count` rows from `first` on, which were made row after row. */
static void write_qkeys(const Product *p, const int32_t *made, int64_t first, int64_t count) {
    /* Four by four, unless each qkey has a place of its own. */
    int64_t pitch = padded(p->n_queries);
    int64_t n_rows = p->places ? 0 : count / 4 * 4;
    int64_t n_queries = p->n_queries / 4 * 4;
    for (int64_t q = 0; q < n_queries; q += 4)
        for (int64_t i = 0; i < n_rows; i += 4)
            transpose(made + i * pitch + q, pitch, p->qkeys + q * p->stride + first + i, p->stride);

    /* What is left, one by one. */
    for (int64_t q = 0; q < p->n_queries; q++)
        for (int64_t i = q < n_queries ? n_rows : 0; i < count; i++) {
            int64_t place = p->places ? p->places[first + i] : first + i;
            p->qkeys[q * p->stride + place] = made[i * pitch + q];
        }
}

#define REAL float
#define NAME(WORD) WORD##_single
#include "product_tile.h"
#undef REAL
#undef NAME
#define REAL double
#define NAME(WORD) WORD##_double
#include "product_tile.h"

/* Qkeys of a block of queries with the listed rows. The qkey of row rows[i] goes to places[i] of
 * each query, or to i.
 *
 * `norms` are the squared lengths of all rows minus a level. `factors` are the queries, centered
 * and multiplied by -2. `single` asks for single precision. */
EXPORT void product_qkeys(
    const void *points, int32_t type, const int32_t *rows, const int32_t *places,
    const double *norms, const double *centre, const double *factors, const double *scales,
    const double *offsets, int32_t single, double *space, int32_t *qkeys, int64_t n_points,
    int64_t width, int64_t n_rows, int64_t n_queries, int64_t n_space, int64_t stride
) {
    (void)n_points;
    if (n_space < product_space(n_queries, width) || (!places && n_rows > stride))
        return;
    Product product = {
        .points = points,
        .type = type,
        .rows = rows,
        .places = places,
        .centre = centre,
        .norms = norms,
        .scales = scales,
        .offsets = offsets,
        .qkeys = qkeys,
        .n_rows = n_rows,
        .n_queries = n_queries,
        .width = width,
        .stride = stride,
    };
    if (single)
        multiply_single(&product, factors, (float *)space);
    else
        multiply_double(&product, factors, space);
}
