/* Values of regression: points by rank, then the closed form of `games/regression.py` from far to
 * near, in O(N).
 *
 * The utility is minus a squared error. Over the K nearest, with x the residual y_l - y_test of a
 * point (soft utility) or its target (original), it is a sum of single terms, a sum over pairs, and
 * what coalitions smaller than K add:
 *
 *     soft        -((1/K) sum x)^2                      = -(1/K^2) (sum x^2             + 2 sum of
 *                 pairs x x')  - small
 *     original    -((1/K) sum x - y_test)^2 + y_test^2  = -(1/K^2) (sum x (x - shift)   + 2 sum of
 *                 pairs x x')
 *
 * with shift = 2 K y_test, 0 for the soft one. `small` is a polynomial of second degree in x, of
 * which the query gives the coefficients. Ranks are walked block of ties by block of ties; what the
 * farther ranks take away or give is known from two sums. A block of one point, the common case,
 * needs none of the averages over orders inside a block. */
#include "nearworth.h"

#define AHEAD 16

/* What is the same for all queries. By rank: worth and loss of single points and of pairs. */
struct game {
    const double *worth, *loss, *pair_worth, *pair_loss;
    double per_single, per_pair;
};

/* One query. By rank: x, and its sum over the nearer ranks. */
struct ranked {
    const int32_t *order;
    const uint8_t *first;
    double *x, *before;
    int64_t n;
    /* constant - x (linear + square x): -small, and the empty coalition */
    double shift, constant, linear, square;
    double weight, *sums; /* by point: += weight * value */
};

/* What the farther ranks add up to: what they give to nearer points that have x, and what they give
 * to all. */
struct later {
    double per_x, given;
};

/* `correction`: own, cross, others, pairs, empty (RegressionCorrection in
 * games/coefficients.py). */
static void
gather(struct ranked *r, const double *targets, double target, const double *correction) {
    double from = correction ? target : 0.0, total = 0.0, squares = 0.0;
    for (int64_t i = 0; i < r->n; i++) {
        __builtin_prefetch(targets + r->order[i + AHEAD < r->n ? i + AHEAD : i]);
        double x = targets[r->order[i]] - from;
        r->x[i] = x;
        r->before[i] = total;
        total += x;
        squares += x * x;
    }
    if (!correction)
        return;
    double own = correction[0], cross = correction[1], others = correction[2],
           pairs = correction[3];
    r->square = own - 2.0 * cross - others + 2.0 * pairs;
    r->linear = 2.0 * (cross - pairs) * total;
    r->constant =
        correction[4] * target * target - others * squares - pairs * (total * total - squares);
}

static inline void
give(const struct ranked *r, int64_t rank, double x, double given, double per_x) {
    double value = r->constant + given - x * (per_x + r->linear + r->square * x);
    r->sums[r->order[rank]] += r->weight * value;
}

/* The value of the point at rank i, tied with no other. */
static inline struct later
value_one(const struct game *g, const struct ranked *r, int64_t i, struct later later) {
    double x = r->x[i], single = (x - r->shift) * g->per_single,
           nearer = r->before[i] * g->per_pair;
    double worth = g->worth[i], loss = g->loss[i], pair_worth = g->pair_worth[i],
           pair_loss = g->pair_loss[i];
    give(r, i, x, later.given, later.per_x + (single * worth + nearer * pair_worth));
    later.per_x += x * (pair_worth + pair_loss) * g->per_pair;
    later.given += x * (single * loss + nearer * pair_loss);
    return later;
}

/* The values of the tied points at ranks start..end-1: each sits at each of these ranks equally
 * often, the others exchangeable around it. Sums over ranks are named as in `games/regression.py`:
 * c and d are worth and loss, e and f those of pairs, o the offset of a rank in the block. */
static struct later value_block(
    const struct game *g, const struct ranked *r, int64_t start, int64_t end, struct later later
) {
    double size = (double)(end - start), nearer = r->before[start], x = 0.0, xx = 0.0, xz = 0.0;
    double c = 0.0, d = 0.0, od = 0.0, e = 0.0, oe = 0.0, f = 0.0, of = 0.0, oof = 0.0;
    for (int64_t i = start; i < end; i++) {
        double offset = (double)(i - start), pair_worth = g->pair_worth[i],
               pair_loss = g->pair_loss[i];
        x += r->x[i];
        xx += r->x[i] * r->x[i];
        xz += r->x[i] * (r->x[i] - r->shift);
        c += g->worth[i];
        d += g->loss[i];
        od += offset * g->loss[i];
        e += pair_worth;
        oe += offset * (2.0 * pair_worth + pair_loss);
        f += pair_loss;
        of += offset * pair_loss;
        oof += offset * (offset - 1.0) * pair_loss;
    }
    double rest = size - 1.0, rest_pairs = size > 2.0 ? rest * (size - 2.0) : 1.0;
    for (int64_t i = start; i < end; i++) {
        double own = r->x[i], own_z = own * (own - r->shift), other_x = x - own,
               other = other_x / rest;
        double other_pair = (other_x * other_x - (xx - own * own)) / rest_pairs;
        double single = own_z * c - (xz - own_z) / rest * od;
        double pair =
            own * nearer * e + own * other * oe - other * (nearer + own) * of - other_pair * oof;
        give(
            r, i, own, later.given - (single * g->per_single + pair * g->per_pair) / size,
            later.per_x
        );
    }
    later.per_x += x / size * (e + f) * g->per_pair;
    later.given += xz / size * d * g->per_single;
    later.given += (x / size * nearer * f + (x * x - xx) / (size * rest) * of) * g->per_pair;
    return later;
}

/* From far to near. */
static void value_ranks(const struct game *game, const struct ranked *ranked) {
    const struct game g = *game; /* copies, which no store to the sums can change */
    const struct ranked r = *ranked;
    struct later later = {0.0, 0.0};
    for (int64_t end = r.n, start; end > 0; end = start) {
        start = end - 1;
        __builtin_prefetch(r.sums + r.order[start < AHEAD ? 0 : start - AHEAD], 1);
        if (r.first[start]) {
            later = value_one(&g, &r, start, later);
            continue;
        }
        while (!r.first[start])
            start--;
        later = value_block(game, ranked, start, end, later);
    }
}

/* The arguments of value_regression, which are declared in native.py. */
typedef struct {
    const double *keys;          /* exact, [query][point]; NaN: the point takes no part */
    const double *targets;       /* of the points */
    const double *query_targets; /* of the queries */
    const double *weights;       /* of the queries in the sums */
    int32_t by_index;            /* ties are broken by the number of the point */
    const double *worth;         /* by rank, for single points */
    const double *loss;          /* by rank, for single points */
    const double *pair_worth;    /* by rank, for pairs */
    const double *pair_loss;     /* by rank, for pairs */
    double votes;                /* that a prediction averages */
    const double *correction;    /* 5 numbers of the soft utility, see `gather`; else NULL */
    double *total;               /* by point: gets weight * value added, query after query */
    uint64_t *items;             /* scratch */
    uint64_t *spare;             /* scratch */
    int32_t *order;              /* points of the last query by rank */
    uint8_t *first;              /* whether a block of ties begins at each of its ranks */
    int64_t n_queries, n, n_players;
} ValueRegression;

/* Values of a block of queries, which have equally many players. */
EXPORT void value_regression(const ValueRegression *block) {
    double votes = block->votes;
    struct game game = {
        .worth = block->worth,
        .loss = block->loss,
        .pair_worth = block->pair_worth,
        .pair_loss = block->pair_loss,
        .per_single = 1.0 / votes,
        .per_pair = 2.0 / (votes * votes),
    };
    for (int64_t q = 0; q < block->n_queries; q++) {
        double target = block->query_targets[q];
        int64_t n_present = order_points(
            block->keys + q * block->n, block->n, block->by_index, block->items, block->spare,
            block->order, block->first
        );
        struct ranked ranked = {
            .order = block->order,
            .first = block->first,
            .n = n_present < block->n_players ? n_present : block->n_players,
            /* The scratch is no longer needed for the order. */
            .x = (double *)block->items,
            .before = (double *)block->spare,
            .shift = block->correction ? 0.0 : 2.0 * votes * target,
            .weight = block->weights[q],
            .sums = block->total,
        };
        gather(&ranked, block->targets, target, block->correction);
        value_ranks(&game, &ranked);
    }
}
