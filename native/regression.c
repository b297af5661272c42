/* Values of regression: points by rank, then the closed form of `games/regression.py` from far to
 * near, in O(N).
 *
 * The utility is minus a squared error. Over the K nearest, with x the residual y_l - y_test of a
 * point (soft utility) or its target (original), it is a sum of single terms, a sum over pairs, and
 * what coalitions smaller than K add:
 *
 *     soft      -((1/K) sum x)^2
 *                   = -(1/K^2) (sum x^2 + 2 sum of pairs x x')  - small
 *     original  -((1/K) sum x - y_test)^2 + y_test^2
 *                   = -(1/K^2) (sum x (x - shift) + 2 sum of pairs x x')
 *
 * with shift = 2 K y_test, 0 for the soft one. `small` is a polynomial of second degree in x, whose
 * coefficients depend on the query. Ranks are walked block of ties by block of ties. What the
 * farther ranks take away or give is known from two sums. A block of one point, the common case,
 * needs none of the averages over orders inside a block. */
#include "nearworth.h"

enum {
    AHEAD = 16, /* points between a prefetch and its use */
};

/* What is the same for all queries. Arrays are by rank; `per_single` is 1/K, `per_pair` 2/K^2. */
struct game {
    const double *worth, *loss;           /* of single terms */
    const double *pair_worth, *pair_loss; /* of pairs */
    double per_single, per_pair;
};

/* One query.
 *
 *   order                      points by rank
 *   first                      whether a block of ties begins, by rank
 *   x                          see above, by rank
 *   sum_nearer                 the sum of x over all nearer ranks, by rank
 *   n                          number of ranks
 *   shift                      see above
 *   constant, linear, square   constant - x (linear + square x) is -small, and the value of the
 *                              empty coalition
 *   weight                     of the query
 *   sums                       by point: gets weight * value added */
struct ranked {
    const int32_t *order;
    const uint8_t *first;
    double *x, *sum_nearer;
    int64_t n;
    double shift, constant, linear, square;
    double weight, *sums;
};

/* What the ranks behind a point add up to: a nearer point gets given - x per_x of them. */
struct later {
    double per_x, given;
};

/* Makes x, the sums over nearer ranks, and the coefficients of small coalitions.
 *
 * `correction` has own, cross, others, pairs and empty of RegressionCorrection in
 * games/coefficients.py; it is NULL for the original utility. */
static void
gather(struct ranked *r, const double *targets, double query_target, const double *correction) {
    double origin = correction ? query_target : 0.0;
    double total = 0.0;
    double squares = 0.0;
    for (int64_t i = 0; i < r->n; i++) {
        __builtin_prefetch(targets + r->order[i + AHEAD < r->n ? i + AHEAD : i]);
        double x = targets[r->order[i]] - origin;
        r->x[i] = x;
        r->sum_nearer[i] = total;
        total += x;
        squares += x * x;
    }
    if (!correction)
        return;
    double own = correction[0];
    double cross = correction[1];
    double others = correction[2];
    double pairs = correction[3];
    double empty = correction[4];
    r->square = own - 2.0 * cross - others + 2.0 * pairs;
    r->linear = 2.0 * (cross - pairs) * total;
    r->constant =
        empty * query_target * query_target - others * squares - pairs * (total * total - squares);
}

/* Adds the value of the point at a rank to its sum. */
static inline void
add_value(const struct ranked *r, int64_t rank, double x, double given, double per_x) {
    double value = r->constant + given - x * (per_x + r->linear + r->square * x);
    r->sums[r->order[rank]] += r->weight * value;
}

/* The value of the point at rank i, tied with no other. */
static inline struct later
value_one(const struct game *g, const struct ranked *r, int64_t i, struct later later) {
    double x = r->x[i];
    double single = (x - r->shift) * g->per_single;
    double nearer = r->sum_nearer[i] * g->per_pair;
    double worth = g->worth[i];
    double loss = g->loss[i];
    double pair_worth = g->pair_worth[i];
    double pair_loss = g->pair_loss[i];
    add_value(r, i, x, later.given, later.per_x + (single * worth + nearer * pair_worth));
    later.per_x += x * (pair_worth + pair_loss) * g->per_pair;
    later.given += x * (single * loss + nearer * pair_loss);
    return later;
}

/* Sums over the ranks of a block of ties, named as in `games/regression.py`: z is x - shift, c and
 * d are worth and loss, e and f those of pairs, o is the offset of a rank in the block. */
struct block_sums {
    double x, xx, xz;
    double c, d, od;
    double e, oe, f, of, oof;
};

static inline struct block_sums
sum_block(const struct game *g, const struct ranked *r, int64_t start, int64_t end) {
    struct block_sums sums = {0};
    for (int64_t i = start; i < end; i++) {
        double offset = (double)(i - start);
        double pair_worth = g->pair_worth[i];
        double pair_loss = g->pair_loss[i];
        sums.x += r->x[i];
        sums.xx += r->x[i] * r->x[i];
        sums.xz += r->x[i] * (r->x[i] - r->shift);
        sums.c += g->worth[i];
        sums.d += g->loss[i];
        sums.od += offset * g->loss[i];
        sums.e += pair_worth;
        sums.oe += offset * (2.0 * pair_worth + pair_loss);
        sums.f += pair_loss;
        sums.of += offset * pair_loss;
        sums.oof += offset * (offset - 1.0) * pair_loss;
    }
    return sums;
}

/* The values of the tied points at ranks start..end-1. Each sits at each of these ranks equally
 * often, and the others are exchangeable around it. */
static struct later value_block(
    const struct game *g, const struct ranked *r, int64_t start, int64_t end, struct later later
) {
    struct block_sums sums = sum_block(g, r, start, end);
    double nearer = r->sum_nearer[start];
    double size = (double)(end - start);
    double n_others = size - 1.0;
    /* In a block of two there are no pairs of others: their sum is 0, and is divided by 1. */
    double n_other_pairs = size > 2.0 ? n_others * (size - 2.0) : 1.0;
    for (int64_t i = start; i < end; i++) {
        double own = r->x[i];
        double own_z = own * (own - r->shift);
        double others = sums.x - own;
        double mean_other = others / n_others;
        double mean_other_pair = (others * others - (sums.xx - own * own)) / n_other_pairs;
        double single = own_z * sums.c - (sums.xz - own_z) / n_others * sums.od;
        double pair = own * nearer * sums.e + own * mean_other * sums.oe -
                      mean_other * (nearer + own) * sums.of - mean_other_pair * sums.oof;
        double given = later.given - (single * g->per_single + pair * g->per_pair) / size;
        add_value(r, i, own, given, later.per_x);
    }
    double mean_x = sums.x / size;
    double mean_pair = (sums.x * sums.x - sums.xx) / (size * n_others);
    later.per_x += mean_x * (sums.e + sums.f) * g->per_pair;
    later.given += sums.xz / size * sums.d * g->per_single;
    later.given += (mean_x * nearer * sums.f + mean_pair * sums.of) * g->per_pair;
    return later;
}

/* The values of all points, from far to near. */
static void value_ranks(const struct game *game, const struct ranked *ranked) {
    /* Copies, which no store to the sums can change. */
    const struct game g = *game;
    const struct ranked r = *ranked;
    struct later later = {.per_x = 0.0, .given = 0.0};
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
            /* Once the order is known, its working memory is free. */
            .x = (double *)block->items,
            .sum_nearer = (double *)block->spare,
            .shift = block->correction ? 0.0 : 2.0 * votes * target,
            .weight = block->weights[q],
            .sums = block->total,
        };
        gather(&ranked, block->targets, target, block->correction);
        value_ranks(&game, &ranked);
    }
}
