/* The product of queries and training points in single precision, and quantised keys from it.
 *
 * A key is |x|^2 - 2 x.t, the squared distance without |t|^2, which changes no rank; points and queries are centred, and
 * the norms are taken from a level, so that no digits are lost. Keys become whole numbers, `qkeys`, by one line for each
 * query: key * scale + offset, cut off at 0 and TOP.
 *
 * Points are packed once, ROWS side by side, column after column; queries in groups of TILE. A tile of ROWS x TILE sums
 * stays in registers. Terms are added in blocks of about sqrt(d) columns and the blocks one after the other, so a sum
 * over d columns is off by at most `product_roundings` u |x| |t| (neighbors/quantised.py adds up all errors). This is
 * the only file in which the compiler may contract a * b + c: the bound holds either way, and no value depends on it. */
#include "nearworth.h"

#define ROWS 32
#define PIECE 64
#if defined(__AVX512F__)
#define LANES 16
#define TILE 8
#elif defined(__AVX2__)
#define LANES 8
#define TILE 3
#else
#define LANES 4
#define TILE 2
#endif
#define VECTORS (ROWS / LANES)
#define TOP 1073741824.0f

typedef float vector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* Columns of a block: about as many as there are blocks, so that sums are rounded least. */
static int64_t block_size(int64_t width)
{
    int64_t size = 16;
    while (size * size < width)
        size *= 2;
    return size;
}

/* Roundings that a term of a sum over so many columns goes through, at most. */
EXPORT int64_t product_roundings(int64_t width)
{
    int64_t size = block_size(width);
    return size + (width + size - 1) / size - 1;
}

/* Numbers in the packed points, and in the packed queries of one block. */
EXPORT int64_t packed_size(int64_t n_rows, int64_t width)
{
    return (n_rows + ROWS - 1) / ROWS * ROWS * width;
}

EXPORT int64_t packed_query_size(int64_t n_queries, int64_t width)
{
    return (n_queries + TILE - 1) / TILE * TILE * width;
}

typedef double eight __attribute__((vector_size(64), aligned(8), may_alias));
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
typedef float eight_floats __attribute__((vector_size(32), aligned(4), may_alias));

/* `count` numbers as doubles. Whole pieces are read as vectors, which compilers would not find by themselves. */
#define READ(CODE, TYPE)                                                                                               \
    case CODE: {                                                                                                       \
        typedef TYPE numbers __attribute__((vector_size(8 * sizeof(TYPE)), aligned(sizeof(TYPE)), may_alias));         \
        const TYPE *from = (const TYPE *)points + start;                                                               \
        if (count == PIECE)                                                                                            \
            for (int j = 0; j < PIECE; j += 8)                                                                         \
                *(eight *)(out + j) = __builtin_convertvector(*(const numbers *)(from + j), eight);                    \
        else                                                                                                           \
            for (int64_t j = 0; j < count; j++)                                                                        \
                out[j] = (double)from[j];                                                                              \
        break;                                                                                                         \
    }

static inline void read_numbers(const void *points, int32_t type, int64_t start, int64_t count, double *out)
{
    switch (type) {
        READ(F4, float)
        READ(F8, double)
        READ(I1, int8_t)
        READ(U1, uint8_t)
        READ(I2, int16_t)
        READ(U2, uint16_t)
        READ(I4, int32_t)
        READ(U4, uint32_t)
        READ(I8, int64_t)
        READ(U8, uint64_t)
    }
}

#if defined(__clang__)
#define SHUFFLE(A, B, ...) __builtin_shufflevector(A, B, __VA_ARGS__)
#else
typedef int32_t places __attribute__((vector_size(16)));
#define SHUFFLE(A, B, ...) __builtin_shuffle(A, B, (places){__VA_ARGS__})
#endif

/* Vectors of four by four numbers, which every processor turns with a few shuffles. */
static void transpose(float rows[ROWS][PIECE], int64_t n_columns, float *packed)
{
    for (int j = 0; j < PIECE; j += 4)
        for (int i = 0; i < ROWS; i += 4) {
            four a = *(four *)&rows[i][j], b = *(four *)&rows[i + 1][j];
            four c = *(four *)&rows[i + 2][j], d = *(four *)&rows[i + 3][j];
            four ab = SHUFFLE(a, b, 0, 4, 1, 5), cd = SHUFFLE(c, d, 0, 4, 1, 5);
            four AB = SHUFFLE(a, b, 2, 6, 3, 7), CD = SHUFFLE(c, d, 2, 6, 3, 7);
            four columns[4] = {
                SHUFFLE(ab, cd, 0, 1, 4, 5), SHUFFLE(ab, cd, 2, 3, 6, 7),
                SHUFFLE(AB, CD, 0, 1, 4, 5), SHUFFLE(AB, CD, 2, 3, 6, 7)};
            for (int k = 0; k < 4 && j + k < n_columns; k++)
                *(four *)(packed + (j + k) * ROWS + i) = columns[k];
        }
}

/* Pack `count` (at most PIECE) columns of one block of ROWS positions; their squares are added to `norms`. */
static void pack_piece(const void *points, int32_t type, const int32_t *order, int64_t n_rows, int64_t width,
                       int64_t column, int64_t count, const double *centre, float *packed, double *norms)
{
    float rows[ROWS][PIECE];
    double middle[PIECE] = {0}, row[PIECE] = {0};
    memcpy(middle, centre + column, (size_t)count * sizeof *centre);
    if (n_rows < ROWS)
        memset(rows, 0, sizeof rows);
    for (int64_t i = 0; i < n_rows; i++) {
        read_numbers(points, type, order[i] * width + column, count, row);
        eight squares = {0};
        for (int j = 0; j < PIECE; j += 8) {
            eight centred = *(eight *)(row + j) - *(eight *)(middle + j);
            *(eight_floats *)(rows[i] + j) = __builtin_convertvector(centred, eight_floats);
            squares += centred * centred;
        }
        norms[i] += ((squares[0] + squares[1]) + (squares[2] + squares[3])) + ((squares[4] + squares[5]) + (squares[6] + squares[7]));
    }
    transpose(rows, count, packed + column * ROWS);
}

/* Pack the blocks of ROWS positions from first to last - 1: position i is the row order[i], minus the centre; `norms`
 * gets its squared length. Positions beyond the last are filled with zeros. */
EXPORT void pack_points(const void *points, int32_t type, const int32_t *order, const double *centre, int64_t first,
                        int64_t last, float *packed, double *norms, int64_t n_points, int64_t width, int64_t n_rows,
                        int64_t n_packed)
{
    (void)n_points, (void)n_packed;
    for (int64_t block = first; block < last; block++) {
        int64_t start = block * ROWS, count = n_rows - start < ROWS ? n_rows - start : ROWS;
        for (int64_t i = 0; i < count; i++)
            norms[start + i] = 0.0;
        for (int64_t column = 0; column < width; column += PIECE)
            pack_piece(points, type, order + start, count, width, column, width - column < PIECE ? width - column : PIECE,
                       centre, packed + start * width, norms + start);
    }
}

/* Pack queries that are already centred and multiplied by -2. */
static void pack_queries(const double *factors, int64_t n_queries, int64_t width, float *packed)
{
    for (int64_t start = 0; start < n_queries; start += TILE, packed += TILE * width)
        for (int64_t q = 0; q < TILE; q++)
            for (int64_t j = 0; j < width; j++)
                packed[j * TILE + q] = start + q < n_queries ? (float)factors[(start + q) * width + j] : 0.0f;
}

/* The sums of one tile, block after block of columns. */
static inline void tile(const float *points, const float *queries, int64_t width, int64_t block,
                        vector sums[TILE][VECTORS])
{
    for (int64_t start = 0; start < width; start += block) {
        int64_t stop = start + block < width ? start + block : width;
        vector some[TILE][VECTORS] = {0};
        for (int64_t j = start; j < stop; j++, points += ROWS, queries += TILE)
#pragma GCC unroll 16
            for (int v = 0; v < VECTORS; v++) {
                vector x = *(const vector *)(points + v * LANES);
#pragma GCC unroll 16
                for (int q = 0; q < TILE; q++)
                    some[q][v] += queries[q] * x;
            }
#pragma GCC unroll 16
        for (int q = 0; q < TILE; q++)
#pragma GCC unroll 16
            for (int v = 0; v < VECTORS; v++)
                sums[q][v] += some[q][v];
    }
}

/* The qkeys of one query with ROWS points: (sum + norm) * scale + offset, between 0 and TOP. */
static inline void quantise_tile(const float *restrict sums, const float *restrict norms, float scale, float offset,
                                 int32_t *restrict qkeys)
{
    for (int i = 0; i < ROWS; i++) {
        float place = (sums[i] + norms[i]) * scale + offset;
        place = place > 0.0f ? place : 0.0f;
        qkeys[i] = (int32_t)(place < TOP ? place : TOP);
    }
}

/* qkeys of a block of queries with all points; a row of qkeys has room for `stride` points, a multiple of ROWS. */
EXPORT void product_qkeys(const float *packed, const float *norms, const double *factors, const float *scales,
                          const float *offsets, float *packed_queries, int32_t *qkeys, int64_t n_packed, int64_t stride,
                          int64_t n_queries, int64_t width, int64_t n_packed_queries)
{
    (void)n_packed, (void)n_packed_queries;
    int64_t block = block_size(width);
    pack_queries(factors, n_queries, width, packed_queries);
    for (int64_t first = 0; first < stride; first += ROWS)
        for (int64_t start = 0; start < n_queries; start += TILE) {
            vector sums[TILE][VECTORS] = {0};
            tile(packed + first * width, packed_queries + start * width, width, block, sums);
            int64_t count = n_queries - start < TILE ? n_queries - start : TILE;
            for (int64_t q = 0; q < count; q++)
                quantise_tile((const float *)sums[q], norms + first, scales[start + q], offsets[start + q],
                              qkeys + (start + q) * stride + first);
        }
}

/* qkeys of a panel of products in double precision, or of exact keys: (product + norm - low) * scale + MARGIN, between 0
 * and TOP. Column j goes to position positions[j]. */
EXPORT void quantise(const double *products, const double *norms, const int32_t *positions, const double *lows,
                     const double *scales, int32_t *qkeys, int64_t n_queries, int64_t n_columns, int64_t stride)
{
    for (int64_t q = 0; q < n_queries; q++)
        for (int64_t j = 0; j < n_columns; j++) {
            double place = (products[q * n_columns + j] + norms[j] - lows[q]) * scales[q] + 1048576.0;
            place = place > 0.0 ? place : 0.0;
            qkeys[q * stride + positions[j]] = (int32_t)(place < TOP ? place : TOP);
        }
}
