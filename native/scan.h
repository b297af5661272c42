/* Values along the ranks, from the farthest point to the nearest.
 *
 * A match at the end of a run of matches is worth worth[rank] - lost, and the whole run shares that value; a point that
 * does not match has -lost. `lost` is what a point loses to the matches beyond it: loss[rank] for each of them. Where
 * matches are the rarer status they are added one by one; else a run adds the difference of its ends. So every bit
 * depends on the order of the points alone, not on how they were found. Ranks count from 1; worth[0] = worth[1]. */
#ifndef SCAN_H
#define SCAN_H

#include "nearworth.h"

typedef struct {
    const double *worth, *loss;
    double for_match, for_other; /* constants that the utility adds */
    bool one_by_one;             /* matches are the rarer status */
    int64_t position;            /* the rank of the farthest point not seen yet */
    double lost, shared;         /* `shared`: the value of the run of matches under way */
    int64_t run_end;             /* its last rank; 0 if none is under way */
} Scan;

static inline void end_run(Scan *scan)
{
    if (scan->run_end && !scan->one_by_one)
        scan->lost += scan->worth[scan->position] - scan->worth[scan->run_end];
    scan->run_end = 0;
}

/* The value of the next `count` points, all of them matches. */
static inline double next_matches(Scan *scan, int64_t count)
{
    if (!scan->run_end) {
        scan->run_end = scan->position;
        scan->shared = scan->worth[scan->position] - scan->lost + scan->for_match;
    }
    if (scan->one_by_one)
        for (int64_t i = 0; i < count; i++)
            scan->lost += scan->loss[scan->position - i];
    scan->position -= count;
    return scan->shared;
}

/* The value of the next `count` points, none of them a match. */
static inline double next_others(Scan *scan, int64_t count)
{
    end_run(scan);
    scan->position -= count;
    return scan->for_other - scan->lost;
}

/* Values of a match and of another point among the next `size` points, which are tied and of both statuses. */
static inline void next_ties(Scan *scan, int64_t size, int64_t matches, double *of_match, double *of_other)
{
    end_run(scan);
    int64_t start = scan->position - size;
    double total = 0.0, inner = 0.0, count = (double)size, share = (double)matches;
    for (int64_t rank = start + 1; rank <= scan->position; rank++) {
        total += scan->worth[rank];
        inner += (double)(rank - 1 - start) * scan->loss[rank];
    }
    inner /= count * (count - 1.0);
    *of_match = total / count - (share - 1.0) * inner - scan->lost + scan->for_match;
    *of_other = -share * inner - scan->lost + scan->for_other;
    scan->lost += share / count * (scan->worth[start] - scan->worth[scan->position]);
    scan->position = start;
}

#endif
