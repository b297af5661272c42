/* Where a query may be cut, and the values beyond: Theorem H of docs/mathematics.md with tolerance
 * 1.
 *
 * Given are the matches and the other points in each cell, near to far. Points are in the right
 * order if their cells are more than one apart. From far to near, every cell takes the values of a
 * tie, and the largest error of any point is known as if the next cell were the last resolved one.
 * The scan stops where that error would exceed what is asked for: everything nearer is to be
 * resolved. The error depends on counts alone, so no point is resolved in vain and no query is done
 * twice. tests/helpers/cells.py has the same in numpy.
 *
 * worth[l] is c_l for ranks 0..N+1 (worth[0] = worth[1], worth[N+1] is read, not used), total[l] =
 * c_1 + ... + c_l. */
#include "nearworth.h"

enum {
    AHEAD = 8, /* cells between a prefetch of their ranks and its use */
};

/* Cell boundaries around the cut, by their place in the arrays of `Window`: one cell in front of
 * the cut, the cut itself, and one to three cells behind it. */
enum { FRONT, HERE, NEXT, SECOND, THIRD, N_BOUNDARIES };

/* What is known at the boundaries around the cut.
 *
 *   n_matches   matches before a boundary
 *   n_points    all points before it
 *   max_taken   what matches behind it take from a nearer point at most: P of the theorem
 *   min_taken   and at least: B of the theorem
 *   lost        what matches behind the cut take from a point before it, if cells are ties */
typedef struct {
    int64_t n_matches[N_BOUNDARIES], n_points[N_BOUNDARIES];
    double max_taken[N_BOUNDARIES], min_taken[N_BOUNDARIES];
    double lost;
} Window;

static inline double larger(double a, double b) {
    return a > b ? a : b;
}

/* Matches before one boundary and other points before another. */
static inline int64_t mixed(const Window *w, int of_matches, int of_others) {
    return w->n_matches[of_matches] + w->n_points[of_others] - w->n_matches[of_others];
}

/* Moves the cut one cell nearer. The cell in front of it then has `n_points` points, among them
 * `n_matches` matches. */
static inline void advance(Window *w, int64_t n_matches, int64_t n_points, const double *worth) {
    for (int i = THIRD; i > FRONT; i--) {
        w->n_matches[i] = w->n_matches[i - 1];
        w->n_points[i] = w->n_points[i - 1];
        w->max_taken[i] = w->max_taken[i - 1];
        w->min_taken[i] = w->min_taken[i - 1];
    }
    w->n_matches[FRONT] -= n_matches;
    w->n_points[FRONT] -= n_points;
    w->max_taken[HERE] =
        w->max_taken[NEXT] + worth[mixed(w, HERE, FRONT)] - worth[mixed(w, NEXT, FRONT)];
    w->min_taken[HERE] =
        w->min_taken[NEXT] + worth[mixed(w, HERE, SECOND)] - worth[mixed(w, NEXT, SECOND)];
}

/* Writes the values of a match and of another point in the cell behind the cut, as a tie, and adds
 * to what nearer points lose. It has no branches, because statuses of small cells cannot be
 * predicted. */
static inline void value_cell(
    Window *w, const double *worth, const double *total, double *of_match, double *of_other
) {
    int64_t start = w->n_points[HERE];
    int64_t end = w->n_points[NEXT];
    double n = (double)(end - start);
    double n_matches = (double)(w->n_matches[NEXT] - w->n_matches[HERE]);
    double last_worth = worth[end];

    /* An empty cell, or one of a single point, divides by 1. */
    double n_others = larger(n - 1.0, 1.0);
    double per_pair = 1.0 / (larger(n, 1.0) * n_others);
    double beyond = (total[end] - total[start] - n * last_worth) * per_pair;
    *of_match = last_worth - w->lost + (n - n_matches) * beyond;
    *of_other = -w->lost - n_matches * beyond;
    w->lost += n_matches * n_others * per_pair * (worth[start] - last_worth);
}

/* The largest error of a point of the cell behind the cut, whose values are given. */
static inline double
error_inside(const Window *w, const double *worth, double match_value, double other_value) {
    double first_worth = worth[w->n_points[FRONT] + 1];

    /* A match is worth between `lowest` and `highest`. */
    double lowest = worth[mixed(w, THIRD, SECOND)] - w->max_taken[THIRD];
    double highest = first_worth - worth[mixed(w, FRONT, NEXT) + 1] + worth[mixed(w, HERE, NEXT)] -
                     w->min_taken[HERE];
    double of_match = larger(highest - match_value, match_value - lowest);

    /* Another point loses at most `max_loss`. */
    double max_loss = first_worth - worth[mixed(w, NEXT, FRONT) + 1] + w->max_taken[NEXT];
    double of_other = larger(other_value + max_loss, -w->min_taken[SECOND] - other_value);

    int64_t n_matches = w->n_matches[NEXT] - w->n_matches[HERE];
    int64_t n_points = w->n_points[NEXT] - w->n_points[HERE];
    return larger(n_matches > 0 ? of_match : 0.0, n_points > n_matches ? of_other : 0.0);
}

/* The largest error of a resolved point, if this is the cut. */
static inline double error_before(const Window *w, const double *worth) {
    int64_t front = w->n_points[FRONT];
    int64_t here = w->n_points[HERE];
    int64_t next = w->n_points[NEXT];
    int64_t n_matches = w->n_matches[HERE] - w->n_matches[FRONT];
    bool has_match = n_matches > 0;
    bool has_other = here - front > n_matches;

    /* Points of the last resolved cell may be behind points of the next one. */
    double pushed = worth[front] - worth[here] - worth[front + next - here] + worth[next];
    double lost = w->lost - (has_other ? w->min_taken[NEXT] : w->min_taken[HERE]);
    double kept = worth[here] - w->lost;
    kept -= has_match ? worth[mixed(w, SECOND, NEXT)] - w->max_taken[SECOND]
                      : worth[mixed(w, NEXT, HERE)] - w->max_taken[NEXT];
    return here == 0 ? 0.0
                     : larger(lost + (has_match ? pushed : 0.0), kept + (has_other ? pushed : 0.0));
}

EXPORT int64_t certified_cut(
    const uint32_t *matches, const uint32_t *others, const double *total, const double *worth,
    double max_error, int64_t certain, double *of_match, double *of_other, double *result,
    int64_t n_cells, int64_t n_ranks
) {
    int64_t n_matches = 0;
    int64_t n_points = 0;
    for (int64_t cell = 0; cell < n_cells; cell++) {
        n_matches += matches[cell];
        n_points += (int64_t)matches[cell] + others[cell];
    }

    /* At first the cut is behind all cells. */
    Window window = {.lost = 0.0};
    for (int i = FRONT; i <= THIRD; i++) {
        window.n_matches[i] = n_matches;
        window.n_points[i] = n_points;
    }
    if (n_cells > 0) {
        window.n_matches[FRONT] -= matches[n_cells - 1];
        window.n_points[FRONT] -= (int64_t)matches[n_cells - 1] + others[n_cells - 1];
    }
    int64_t cut = n_cells;
    double max_error_inside = 0.0;
    result[0] = 0.0;
    result[1] = 0.0;

    int64_t fetched = n_cells;
    int64_t fetched_rank = n_points;
    while (cut > 0) {
        for (; fetched > 0 && fetched > cut - AHEAD; fetched--) {
            fetched_rank -= (int64_t)matches[fetched - 1] + others[fetched - 1];
            __builtin_prefetch(worth + fetched_rank);
            __builtin_prefetch(total + fetched_rank);
        }

        int64_t cell = cut - 1;
        int64_t matches_in_front = cell > 0 ? matches[cell - 1] : 0;
        int64_t points_in_front = cell > 0 ? matches_in_front + others[cell - 1] : 0;
        advance(&window, matches_in_front, points_in_front, worth);
        value_cell(&window, worth, total, of_match + cell, of_other + cell);
        max_error_inside =
            larger(max_error_inside, error_inside(&window, worth, of_match[cell], of_other[cell]));
        double error = larger(max_error_inside, error_before(&window, worth));

        /* An error that is no number is too large as well. */
        if (!(error <= max_error) || window.n_points[FRONT] < certain)
            break;
        result[0] = window.lost;
        result[1] = error;
        cut = cell;
    }
    return n_points == n_ranks - 1 ? cut : -1;
}
