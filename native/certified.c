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

enum { AHEAD = 8 }; /* cells between a prefetch of their ranks and its use */

/* What is known around the cut at hand, by its distance in cells from -1 to 3, the first entry
 * being -1: the numbers of matches and of all points before it, and what matches behind it take at
 * most and at least (P and B of the theorem). `lost` is what they take from a point before the cut
 * if cells are ties. */
typedef struct {
    int64_t matches[5], ranks[5];
    double most[5], least[5], lost;
} Around;

enum { FRONT, HERE, NEXT, SECOND, THIRD };

static inline double larger(double a, double b) {
    return a > b ? a : b;
}

/* Matches before one cut and other points before another. */
static inline int64_t mixed(const Around *s, int of_matches, int of_others) {
    return s->matches[of_matches] + s->ranks[of_others] - s->matches[of_others];
}

/* Moves the cut one cell nearer; then `matches` of `points` are in the cell in front of it. */
static inline void advance(Around *s, int64_t matches, int64_t points, const double *worth) {
    for (int i = THIRD; i > FRONT; i--) {
        s->matches[i] = s->matches[i - 1], s->ranks[i] = s->ranks[i - 1];
        s->most[i] = s->most[i - 1], s->least[i] = s->least[i - 1];
    }
    s->matches[FRONT] -= matches;
    s->ranks[FRONT] -= points;
    s->most[HERE] = s->most[NEXT] + worth[mixed(s, HERE, FRONT)] - worth[mixed(s, NEXT, FRONT)];
    s->least[HERE] = s->least[NEXT] + worth[mixed(s, HERE, SECOND)] - worth[mixed(s, NEXT, SECOND)];
}

/* Values of a match and of another point in the cell behind the cut, as a tie; adds to what nearer
 * points lose. Without branches, because statuses of small cells cannot be predicted. */
static inline void
tie(Around *s, const double *worth, const double *total, double *match, double *other) {
    int64_t start = s->ranks[HERE], end = s->ranks[NEXT];
    double n = (double)(end - start), matches = (double)(s->matches[NEXT] - s->matches[HERE]),
           last = worth[end];
    double one_less = larger(n - 1.0, 1.0), each = 1.0 / (larger(n, 1.0) * one_less);
    double beyond = (total[end] - total[start] - n * last) * each;
    *match = last - s->lost + (n - matches) * beyond;
    *other = -s->lost - matches * beyond;
    s->lost += matches * one_less * each * (worth[start] - last);
}

/* The largest error of a point of the cell behind the cut, whose values are given. */
static inline double
error_inside(const Around *s, const double *worth, double match, double other) {
    double first = worth[s->ranks[FRONT] + 1];
    double lowest = worth[mixed(s, THIRD, SECOND)] - s->most[THIRD];
    double highest =
        first - worth[mixed(s, FRONT, NEXT) + 1] + worth[mixed(s, HERE, NEXT)] - s->least[HERE];
    double loss = first - worth[mixed(s, NEXT, FRONT) + 1] + s->most[NEXT];
    double of_match = larger(highest - match, match - lowest),
           of_other = larger(other + loss, -s->least[SECOND] - other);
    int64_t matches = s->matches[NEXT] - s->matches[HERE], points = s->ranks[NEXT] - s->ranks[HERE];
    return larger(matches > 0 ? of_match : 0.0, points > matches ? of_other : 0.0);
}

/* The largest error of a resolved point, if this is the cut. */
static inline double error_before(const Around *s, const double *worth) {
    int64_t matches = s->matches[HERE] - s->matches[FRONT], front = s->ranks[FRONT],
            here = s->ranks[HERE], next = s->ranks[NEXT];
    bool match_near = matches > 0, other_near = here - front > matches;
    double pushed = worth[front] - worth[here] - worth[front + next - here] + worth[next];
    double lost = s->lost - (other_near ? s->least[NEXT] : s->least[HERE]);
    double kept = worth[here] - s->lost;
    kept -= match_near ? worth[mixed(s, SECOND, NEXT)] - s->most[SECOND]
                       : worth[mixed(s, NEXT, HERE)] - s->most[NEXT];
    return here == 0
               ? 0.0
               : larger(lost + (match_near ? pushed : 0.0), kept + (other_near ? pushed : 0.0));
}

EXPORT int64_t certified_cut(
    const uint32_t *matches, const uint32_t *others, const double *total, const double *worth,
    double max_error, int64_t certain, double *of_match, double *of_other, double *result,
    int64_t n_cells, int64_t n_ranks
) {
    int64_t n_matches = 0, n_points = 0, cut = n_cells, fetched = n_cells;
    for (int64_t cell = 0; cell < n_cells; cell++)
        n_matches += matches[cell], n_points += (int64_t)matches[cell] + others[cell];
    Around around = {.lost = 0.0}, *s = &around;
    for (int i = FRONT; i <= THIRD; i++)
        s->matches[i] = n_matches, s->ranks[i] = n_points;
    if (n_cells > 0)
        s->matches[FRONT] -= matches[n_cells - 1],
            s->ranks[FRONT] -= (int64_t)matches[n_cells - 1] + others[n_cells - 1];
    int64_t rank = n_points;
    double largest = 0.0;
    result[0] = result[1] = 0.0;
    while (cut > 0) {
        int64_t cell = cut - 1, front = cell > 0 ? matches[cell - 1] : 0;
        for (; fetched > 0 && fetched > cut - AHEAD; fetched--) {
            rank -= (int64_t)matches[fetched - 1] + others[fetched - 1];
            __builtin_prefetch(worth + rank);
            __builtin_prefetch(total + rank);
        }
        advance(s, front, cell > 0 ? front + others[cell - 1] : 0, worth);
        tie(s, worth, total, of_match + cell, of_other + cell);
        largest = larger(largest, error_inside(s, worth, of_match[cell], of_other[cell]));
        double error = larger(largest, error_before(s, worth));
        if (!(error <= max_error) || s->ranks[FRONT] < certain)
            break;
        result[0] = s->lost;
        result[1] = error;
        cut = cell;
    }
    return n_points == n_ranks - 1 ? cut : -1;
}
