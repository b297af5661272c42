/* What all files of the library share: types, the flat functions' visibility, and rows of any number type.
 *
 * Functions allocate nothing and hold no state: the caller brings every array, with its length. Arrays are checked in
 * Python (src/nearworth/_common/native.py), where every function is declared; lengths are the last arguments there. */
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

/* Squared Euclidean distance from differences, in double precision. Column j goes to sum number j mod 8, and the eight
 * sums are added as a tree: the same bits on every processor, for dense and for sparse rows, of one pair or of many. */
double squared_distance(const double *query, const void *points, int32_t type, int64_t row, int64_t width);

/* The nearest points of query number `number`, nearest first, into `rows` and `keys` (squared distances), each of
 * length `size`; -1 and infinity where there are fewer. `qkeys` may be off by `tolerance` against each other; `order`
 * has the row of each of them (NULL: their own order). `self_row` takes no part (-1: all do). `scratch` has
 * 6 * (size + 1) numbers. */
void nearest_of_query(const int32_t *qkeys, int64_t n_points, int64_t tolerance, const int32_t *order,
                      const double *query, const void *points, int32_t type, int64_t width, int64_t self_row,
                      int64_t number, int64_t size, int64_t least, double *scratch, int32_t *rows, double *keys);

#endif
