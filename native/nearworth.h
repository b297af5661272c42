/* What all files of the library share: types, the flat functions' visibility, and rows of any
 * number type.
 *
 * Functions allocate nothing and hold no state: the caller brings every array, with its length.
 * Arrays are checked in Python (src/nearworth/_common/native.py), where every function is declared;
 * lengths are the last arguments there. */
#ifndef NEARWORTH_H
#define NEARWORTH_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* Types of training rows, by the codes of native.py. */
enum row_type { F4, F8, I1, U1, I2, U2, I4, U4, I8, U8 };

/* Bytes of a number, by type. */
extern const int64_t item_size[];

/* Reads `count` numbers of any type as doubles. */
void read_numbers(const void *numbers, int32_t type, int64_t count, double *restrict out);

/* A Python function that writes one number for each of the rows. Any result but 0 means that it
 * raised an exception: return at once, and native.py raises it again. */
typedef int32_t (*callback)(int64_t query, int64_t n_rows, const int32_t *rows, double *out);

/* Squared Euclidean distances from differences, or inner products, of a query with k chosen of n
 * rows of `width` numbers (distances.c). Infinity for rows outside 0..n-1, which stand for points
 * that were not found. */
void sum_rows(
    const double *query, const char *points, int32_t type, const int32_t *rows, bool product,
    double *out, int64_t width, int64_t n, int64_t k
);

/* Where the exact keys of a block of queries come from: points in memory, a row of given keys for
 * each query, or a function of the caller. */
typedef struct {
    const double *queries;
    const void *points;
    int32_t type;
    const double *given;
    callback ask;
    int64_t width, n_points;
    int64_t n_given; /* given keys of a query */
} Source;

/* Exact keys of one query and k chosen rows; returns whether they could be had. */
bool exact_keys(const Source *source, int64_t query, const int32_t *rows, double *out, int64_t k);

/* Sorts items by their bits from `shift` on; equal items keep their order. Returns where the sorted
 * items are: `items` or `spare`. */
uint64_t *sort_items(uint64_t *items, uint64_t *spare, int64_t n, int shift);

/* Sorts pairs in place by key, then by point. */
void sort_pairs(double *keys, int32_t *points, int64_t size);

/* A qkey that at least k of n points are not beyond. `lowest` has room for n numbers. */
int64_t bound_of_kth(const int32_t *qkeys, int64_t n, int64_t k, int32_t *lowest);

/* Lists the rows of the points whose qkeys are in a range, except excluded positions. Returns how
 * many there are. Without row_of, positions are listed. */
int64_t list_between(
    const int32_t *qkeys, int64_t n, int64_t from, int64_t to, const int32_t *excluded,
    int64_t n_excluded, const int32_t *row_of, int32_t *rows
);

/* Orders the points of a query by exact key, then by row, without those whose key is NaN. Returns
 * how many there are. `first` marks where a block of ties begins: at every rank if ties are broken
 * by index. All arrays have n entries. */
int64_t order_points(
    const double *keys, int64_t n, bool by_index, uint64_t *items, uint64_t *spare, int32_t *order,
    uint8_t *first
);

/* The nearest cut that certifies `max_error`: the number of cells, near to far, that are to be
 * resolved. It is -1 if the cells do not hold N points.
 *
 * From the cut on, of_match and of_other get the values of the points of each cell, without what
 * the soft utility adds. result[0] is what every resolved point loses to points behind the cut,
 * result[1] the largest error of any point.
 *
 * At least `certain` points come before the cell in front of the cut: the index of the largest loss
 * d, so that losses do not increase behind it. See certified.c for the tables. */
EXPORT int64_t certified_cut(
    const uint32_t *matches, const uint32_t *others, const double *total, const double *worth,
    double max_error, int64_t certain, double *of_match, double *of_other, double *result,
    int64_t n_cells, int64_t n_ranks
);

#endif
