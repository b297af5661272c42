/* The product for one type of numbers, REAL. Included by product.c once for each. */
#define LANES ((int)(BYTES / sizeof(REAL)))
typedef REAL NAME(vector) __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias));

/* Queries side by side: vector after vector, each column after column. */
static void NAME(pack_queries)(const Product *p, const double *factors, REAL *packed) {
    for (int64_t q = 0; q < padded(p->n_queries); q++)
        for (int64_t j = 0; j < p->width; j++)
            packed[(q / LANES * p->width + j) * LANES + q % LANES] =
                q < p->n_queries ? (REAL)factors[q * p->width + j] : (REAL)0;
}

/* Some columns of a listed row, centred; zeros behind the end of the list. Rows of floats have a
 * centre of floats: then their difference is rounded once, in single precision as well. */
static void NAME(read_centred)(
    const Product *p, int64_t number, int64_t column, int64_t count, REAL *restrict out
) {
    const double *restrict centre = p->centre + column;
    const void *numbers = number < p->n_rows ? find_row(p, number, column) : NULL;
    double converted[COLUMNS];
    if (!numbers) {
        memset(out, 0, (size_t)count * sizeof *out);
    } else if (p->type == F4) {
        for (int64_t j = 0; j < count; j++)
            out[j] = (REAL)((const float *)numbers)[j] - (REAL)centre[j];
    } else {
        const double *restrict row = p->type == F8 ? numbers : converted;
        if (p->type != F8)
            read_numbers(numbers, p->type, count, converted);
        for (int64_t j = 0; j < count; j++)
            out[j] = (REAL)(row[j] - centre[j]);
    }
}

/* Add one block of columns of GROUP rows and `count` vectors of queries to their sums. */
static inline __attribute__((always_inline)) void NAME(add_block)(
    const REAL *points, int64_t row, const REAL *queries, int64_t width, int64_t columns, int count,
    REAL *sums, int64_t pitch
) {
    NAME(vector) some[GROUP][VECTORS] = {0};
    for (int64_t j = 0; j < columns; j++) {
        NAME(vector) query[VECTORS];
        UNROLLED
        for (int v = 0; v < count; v++)
            query[v] = *(const NAME(vector) *)(queries + (v * width + j) * LANES);
        UNROLLED
        for (int r = 0; r < GROUP; r++)
            UNROLLED
        for (int v = 0; v < count; v++)
            some[r][v] += points[r * row + j] * query[v];
    }
    UNROLLED
    for (int r = 0; r < GROUP; r++)
        UNROLLED
    for (int v = 0; v < count; v++)
        *(NAME(vector) *)(sums + r * pitch + v * LANES) += some[r][v];
}

/* Add up to COLUMNS columns of ROWS rows from `first` on and all queries to their sums. */
static void NAME(add_columns)(
    const Product *p, int64_t first, const REAL *points, const REAL *queries, int64_t columns,
    REAL *sums
) {
    int64_t pitch = padded(p->n_queries), block = block_size(p->width);
    for (int g = 0; g < ROWS; g += GROUP) {
        fetch_qkeys(p, first, g * p->n_queries / ROWS, (g + GROUP) * p->n_queries / ROWS);
        for (int64_t v = 0, count; v < pitch / LANES; v += count) {
            count = pitch / LANES - v >= VECTORS ? VECTORS : 1;
            for (int64_t start = 0; start < columns; start += block) {
                const REAL *x = points + g * columns + start,
                           *t = queries + (v * p->width + start) * LANES;
                int64_t some = columns - start < block ? columns - start : block;
                if (count == VECTORS)
                    NAME(add_block)(
                        x, columns, t, p->width, some, VECTORS, sums + g * pitch + v * LANES, pitch
                    );
                else
                    NAME(add_block)(
                        x, columns, t, p->width, some, 1, sums + g * pitch + v * LANES, pitch
                    );
            }
        }
    }
}

/* The sums of one row become qkeys. */
static void NAME(quantise)(
    const REAL *restrict sums, REAL norm, const REAL *restrict scales, const REAL *restrict offsets,
    int64_t count, int32_t *restrict out
) {
    for (int64_t q = 0; q < count; q++) {
        REAL place = (sums[q] + norm) * scales[q] + offsets[q];
        place = place > 0 ? place : 0;
        out[q] = (int32_t)(place < (REAL)TOP ? place : (REAL)TOP);
    }
}

static void NAME(multiply)(const Product *p, const double *factors, REAL *space) {
    int64_t pitch = padded(p->n_queries);
    REAL points[ROWS * COLUMNS], *queries = space, *sums = space + pitch * p->width;
    REAL *scales = sums + ROWS * pitch, *offsets = scales + pitch;
    int32_t *made = (int32_t *)(offsets + pitch);
    NAME(pack_queries)(p, factors, queries);
    for (int64_t q = 0; q < pitch; q++) {
        scales[q] = q < p->n_queries ? (REAL)p->scales[q] : 0;
        offsets[q] = q < p->n_queries ? (REAL)p->offsets[q] : 0;
    }
    for (int64_t first = 0; first < p->n_rows; first += ROWS) {
        memset(sums, 0, (size_t)(ROWS * pitch) * sizeof *sums);
        for (int64_t start = 0; start < p->width; start += COLUMNS) {
            int64_t columns = p->width - start < COLUMNS ? p->width - start : COLUMNS;
            for (int64_t i = 0; i < ROWS; i++)
                NAME(read_centred)(p, first + i, start, columns, points + i * columns);
            NAME(add_columns)(p, first, points, queries + start * LANES, columns, sums);
        }
        int64_t count = p->n_rows - first < ROWS ? p->n_rows - first : ROWS;
        for (int64_t i = 0; i < count; i++)
            NAME(quantise)(
                sums + i * pitch, (REAL)p->norms[p->rows[first + i]], scales, offsets, pitch,
                made + i * pitch
            );
        write_qkeys(p, made, first, count);
    }
}
#undef LANES
