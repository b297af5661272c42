/* The product for one type of numbers, REAL: included by product.c once for floats and once for
 * doubles. Names get the type by NAME. */
#define LANES ((int)(VECTOR_BYTES / sizeof(REAL)))
typedef REAL NAME(vector)
    __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(REAL)), may_alias));

/* Queries side by side: one vector of queries after the other, each column after column. */
static void NAME(pack_queries)(const Product *p, const double *factors, REAL *packed) {
    for (int64_t q = 0; q < padded(p->n_queries); q++)
        for (int64_t j = 0; j < p->width; j++)
            packed[(q / LANES * p->width + j) * LANES + q % LANES] =
                q < p->n_queries ? (REAL)factors[q * p->width + j] : (REAL)0;
}

/* Some columns of a listed row, centered; zeros behind the end of the list.
 *
 * Rows of floats have a center of floats. Their difference is then rounded once, in single
 * precision as well. */
static void NAME(read_centered)(
    const Product *p, int64_t number, int64_t column, int64_t count, REAL *restrict out
) {
    const double *restrict center = p->centre + column;
    const void *numbers = number < p->n_rows ? find_row(p, number, column) : NULL;
    double converted[MAX_COLUMNS];
    if (!numbers) {
        memset(out, 0, (size_t)count * sizeof *out);
    } else if (p->type == F4) {
        for (int64_t j = 0; j < count; j++)
            out[j] = (REAL)((const float *)numbers)[j] - (REAL)center[j];
    } else {
        const double *restrict row = p->type == F8 ? numbers : converted;
        if (p->type != F8)
            read_numbers(numbers, p->type, count, converted);
        for (int64_t j = 0; j < count; j++)
            out[j] = (REAL)(row[j] - center[j]);
    }
}

/* Adds one block of columns of GROUP rows and `count` vectors of queries to their sums.
 *
 * `row_pitch` is the distance from one row to the next in `points`, `pitch` in `sums`. `width` is
 * the distance in columns from one vector of queries to the next. */
static inline __attribute__((always_inline)) void NAME(add_block)(
    const REAL *points, int64_t row_pitch, const REAL *queries, int64_t width, int64_t n_columns,
    int count, REAL *sums, int64_t pitch
) {
    NAME(vector) tile[GROUP][VECTORS] = {0};
    for (int64_t j = 0; j < n_columns; j++) {
        NAME(vector) query[VECTORS];
        UNROLLED
        for (int v = 0; v < count; v++)
            query[v] = *(const NAME(vector) *)(queries + (v * width + j) * LANES);
        UNROLLED
        for (int r = 0; r < GROUP; r++)
            UNROLLED
        for (int v = 0; v < count; v++)
            tile[r][v] += points[r * row_pitch + j] * query[v];
    }
    UNROLLED
    for (int r = 0; r < GROUP; r++)
        UNROLLED
    for (int v = 0; v < count; v++)
        *(NAME(vector) *)(sums + r * pitch + v * LANES) += tile[r][v];
}

/* Adds up to MAX_COLUMNS columns of ROWS rows from `first` on and all queries to their sums. */
static void NAME(add_columns)(
    const Product *p, int64_t first, const REAL *points, const REAL *queries, int64_t n_columns,
    REAL *sums
) {
    int64_t pitch = padded(p->n_queries);
    int64_t n_vectors = pitch / LANES;
    int64_t block = block_size(p->width);
    for (int g = 0; g < ROWS; g += GROUP) {
        /* Each group of rows fetches for its share of the queries. */
        fetch_qkeys(p, first, g * p->n_queries / ROWS, (g + GROUP) * p->n_queries / ROWS);
        for (int64_t v = 0, count; v < n_vectors; v += count) {
            /* The number of vectors is a constant in each call, so that a tile is in registers. */
            count = n_vectors - v >= VECTORS ? VECTORS : 1;
            REAL *tile_sums = sums + g * pitch + v * LANES;
            for (int64_t start = 0; start < n_columns; start += block) {
                const REAL *x = points + g * n_columns + start;
                const REAL *t = queries + (v * p->width + start) * LANES;
                int64_t size = n_columns - start < block ? n_columns - start : block;
                if (count == VECTORS)
                    NAME(add_block)(x, n_columns, t, p->width, size, VECTORS, tile_sums, pitch);
                else
                    NAME(add_block)(x, n_columns, t, p->width, size, 1, tile_sums, pitch);
            }
        }
    }
}

/* The sums of one row with all queries become qkeys. */
static void NAME(quantise)(
    const REAL *restrict sums, REAL norm, const REAL *restrict scales, const REAL *restrict offsets,
    int64_t count, int32_t *restrict out
) {
    for (int64_t q = 0; q < count; q++) {
        REAL qkey = (sums[q] + norm) * scales[q] + offsets[q];
        qkey = qkey > 0 ? qkey : 0;
        out[q] = (int32_t)(qkey < (REAL)TOP ? qkey : (REAL)TOP);
    }
}

/* The whole product. `space` has room for product_space numbers. */
static void NAME(multiply)(const Product *p, const double *factors, REAL *space) {
    int64_t pitch = padded(p->n_queries);
    REAL points[ROWS * MAX_COLUMNS];
    REAL *queries = space;
    REAL *sums = space + pitch * p->width;
    REAL *scales = sums + ROWS * pitch;
    REAL *offsets = scales + pitch;
    int32_t *made = (int32_t *)(offsets + pitch);
    NAME(pack_queries)(p, factors, queries);
    for (int64_t q = 0; q < pitch; q++) {
        scales[q] = q < p->n_queries ? (REAL)p->scales[q] : 0;
        offsets[q] = q < p->n_queries ? (REAL)p->offsets[q] : 0;
    }
    for (int64_t first = 0; first < p->n_rows; first += ROWS) {
        memset(sums, 0, (size_t)(ROWS * pitch) * sizeof *sums);
        for (int64_t start = 0; start < p->width; start += MAX_COLUMNS) {
            int64_t n_columns = p->width - start < MAX_COLUMNS ? p->width - start : MAX_COLUMNS;
            for (int64_t i = 0; i < ROWS; i++)
                NAME(read_centered)(p, first + i, start, n_columns, points + i * n_columns);
            NAME(add_columns)(p, first, points, queries + start * LANES, n_columns, sums);
        }
        int64_t count = p->n_rows - first < ROWS ? p->n_rows - first : ROWS;
        for (int64_t i = 0; i < count; i++) {
            REAL norm = (REAL)p->norms[p->rows[first + i]];
            NAME(quantise)(sums + i * pitch, norm, scales, offsets, pitch, made + i * pitch);
        }
        write_qkeys(p, made, first, count);
    }
}
#undef LANES
