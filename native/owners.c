/* Values of owners as players: `games/owner_game.py` in compiled loops, from the qkeys of a block
 * of queries.
 *
 *   1. candidates  the K nearest rows of each owner are among those not beyond its K-th qkey by
 *                  more than the tolerance
 *   2. order       exact keys of these
 *   3. blocks      of ties, near to far. For a matching row of owner a: the law of the nearer rows
 *                  of the others, as a product of factors. Without one factor it is what that
 *                  owner's presence takes away
 *
 * Owners outside of the block with equally many nearer rows are one factor: a power, from the table
 * of binomial probabilities, whose first entry is the law of no rows. Laws are arrays of
 * [rows][nodes]. */
#include "nearworth.h"

/* Owners that act alike.
 *
 *   all      the law of the nearer rows of all of them
 *   but_one  of all but one
 *   step     nearer rows of each: laws have the powers 0, step, 2 step, ...
 *   tail     tail[j] is the probability that one of them, if present, has j or more rows before
 *            the row in question
 *   loss     what the presence of one of them takes away from the row in question */
typedef struct {
    const double *all, *but_one;
    int64_t step;
    double *tail, loss;
} Factor;

/* One query, and working memory.
 *
 *   k, n_owners, n_nodes   n_nodes: of the integral over the probability t of being present
 *   size                   numbers of a law
 *   t, weights             by node
 *   binomial               probabilities [m owners][j present][node]
 *   n_nearer, n_tied       of each owner: rows nearer than the block, rows in it
 *   factor_of              of each owner: the number of its factor, or -1
 *   matches                of each owner: matches in the block, each 1/K
 *   values                 of each owner: its value */
typedef struct {
    int64_t k, n_owners, n_nodes, size;
    const double *t, *weights, *binomial;
    int32_t *n_nearer, *n_tied, *factor_of;
    double *matches, *values;
    double *before, *after, *product, *others, *tails, *laws;
    Factor *factors;
} Game;

/* out = a * b, all cut at `length`; b has the powers 0, step, 2 step, ... */
static void multiply(
    double *restrict out, const double *restrict a, const double *restrict b, int64_t step,
    int64_t length, int64_t n_nodes
) {
    memset(out, 0, (size_t)(length * n_nodes) * sizeof *out);
    for (int64_t j = 0; j * step < length; j++)
        for (int64_t k = 0; k + j * step < length; k++)
            for (int64_t node = 0; node < n_nodes; node++)
                out[(k + j * step) * n_nodes + node] +=
                    a[k * n_nodes + node] * b[j * n_nodes + node];
}

/* A moment at which a row may come among the rows tied with it.
 *
 *   before  the share x of these that comes before it on average
 *   after   1 - x, which would lose its digits in a difference
 *   weight  of the moment in a mean over all moments */
typedef struct {
    double before, after, weight;
} Moment;

static const Moment FIRST = {.before = 0.0, .after = 1.0, .weight = 1.0};

/* A term of a law is left out from this share of its largest term on. */
static const double NEGLIGIBLE = 1e-30;

/* Moments for each square root of the number of tied rows; with 4, the error begins to show. */
static const double NODES_PER_ROOT = 5.0;

enum {
    NEWTON_STEPS = 8, /* for a node of the quadrature */
};

/* Probabilities of 0..length-1 successes among n, each with the probability `moment.before`.
 *
 * They are computed outwards from the most likely number, and their sum is 1. The probability of no
 * success may be too small for a double, so that a law that began there would be all zeros. */
static void successes(double *law, int64_t n, Moment moment, int64_t length) {
    double odds = moment.before / moment.after;
    int64_t mode = (int64_t)((double)(n + 1) * moment.before);
    mode = mode < n ? mode : n;
    memset(law, 0, (size_t)length * sizeof *law);
    if (mode < length)
        law[mode] = 1.0;

    double sum = 1.0;
    double term = 1.0;
    for (int64_t j = mode + 1; j <= n && term > NEGLIGIBLE; j++) {
        term *= (double)(n - j + 1) / (double)j * odds;
        sum += term;
        if (j < length)
            law[j] = term;
    }
    term = 1.0;
    for (int64_t j = mode - 1; j >= 0 && term > NEGLIGIBLE; j--) {
        term *= (double)(j + 1) / (double)(n - j) / odds;
        sum += term;
        if (j < length)
            law[j] = term;
    }
    for (int64_t j = 0; j < length; j++)
        law[j] /= sum;
}

/* How many moments are averaged over for n_rows tied rows; see count_moments in
 * games/owner_game.py. */
static int64_t count_moments(int64_t n_rows) {
    int64_t n_exact = (n_rows + 1) / 2;
    int64_t n_enough = (int64_t)ceil(NODES_PER_ROOT * sqrt((double)n_rows));
    return n_exact < n_enough ? n_exact : n_enough;
}

/* Moment i of n: a node of Gauss-Legendre quadrature over [0, 1], by Newton's method for the angle.
 *
 * The Legendre polynomials P_0, P_1, ... at cos(angle) are sums of their differences, which lose no
 * digits where the cosine is almost 1. The nodes are symmetric, so that an angle is at most 90
 * degrees. */
static Moment moment_of_ties(int64_t i, int64_t n) {
    int64_t mirrored = n - 1 - i;
    int64_t nearest_end = i < mirrored ? i : mirrored;
    double angle = 3.141592653589793 * ((double)nearest_end + 0.75) / ((double)n + 0.5);
    double slope = 1.0;
    for (int step = 0; step < NEWTON_STEPS; step++) {
        double half_sine = sin(0.5 * angle);
        double one_minus_cosine = 2.0 * half_sine * half_sine;
        double polynomial = 1.0;
        double difference = 0.0;
        for (int64_t j = 0; j < n; j++) {
            difference =
                (double)j * difference - (double)(2 * j + 1) * one_minus_cosine * polynomial;
            difference /= (double)(j + 1);
            polynomial += difference;
        }
        slope = (double)n * (difference - one_minus_cosine * polynomial) / sin(angle);
        angle -= polynomial / slope;
    }
    double half_sine = sin(0.5 * angle);
    double half_cosine = cos(0.5 * angle);
    double small = half_sine * half_sine;
    double large = half_cosine * half_cosine;
    double weight = 1.0 / (slope * slope);
    if (i <= mirrored)
        return (Moment){.before = small, .after = large, .weight = weight};
    return (Moment){.before = large, .after = small, .weight = weight};
}

/* Makes factor number n at a moment: of `n_alike` owners with n_nearer nearer rows, or of one that
 * has n_tied rows in the block too. */
static void make_factor(
    const Game *g, int64_t n, int64_t n_alike, int64_t n_nearer, int64_t n_tied, Moment moment,
    int64_t length
) {
    /* The law of the rows of one owner that is present. */
    double *tail = g->tails + n * (g->k + 1);
    memset(tail, 0, (size_t)(g->k + 1) * sizeof *tail);
    if (n_nearer < length)
        successes(tail + n_nearer, n_tied, moment, length - n_nearer);

    /* It is present with the probability t. */
    double *all = g->laws + n * g->size;
    for (int64_t i = 0; n_tied && i < length * g->n_nodes; i++)
        all[i] =
            g->t[i % g->n_nodes] * tail[i / g->n_nodes] + (i < g->n_nodes ? 1.0 - g->t[i] : 0.0);

    /* The law becomes its tail. */
    double probability = 1.0;
    for (int64_t j = 0; j <= length; j++) {
        double here = tail[j];
        tail[j] = probability;
        probability -= here;
    }
    const double *power = g->binomial + n_alike * g->size;
    g->factors[n] = (Factor){
        .all = n_tied ? all : power,
        .but_one = power - g->size,
        .step = n_tied ? 1 : n_nearer,
        .tail = tail,
        .loss = 0.0,
    };
}

/* Makes the factors of all owners but this one. Returns how many there are. */
static int64_t make_factors(const Game *g, int64_t owner, Moment moment, int64_t length) {
    int64_t n = 0;
    for (int64_t n_nearer = 1; n_nearer <= g->k; n_nearer++) {
        int64_t n_alike = 0;
        for (int64_t o = 0; o < g->n_owners; o++)
            if (g->n_nearer[o] == n_nearer && !g->n_tied[o]) {
                g->factor_of[o] = (int32_t)n;
                n_alike++;
            }
        if (n_alike)
            make_factor(g, n++, n_alike, n_nearer, 0, moment, length);
    }
    for (int64_t o = 0; o < g->n_owners; o++)
        if (g->n_tied[o] && o != owner) {
            make_factor(g, n, 1, g->n_nearer[o], g->n_tied[o], moment, length);
            g->factor_of[o] = (int32_t)n++;
        } else if (!g->n_nearer[o] || o == owner) {
            g->factor_of[o] = -1;
        }
    return n;
}

/* What the presence of one owner of a factor takes away. g->others has the law of the rows of the
 * owners of all other factors. */
static double loss_of(const Game *g, const Factor *f, int64_t length) {
    double total = 0.0;
    multiply(g->product, g->others, f->but_one, f->step, length, g->n_nodes);
    for (int64_t k = 0; k < length; k++)
        for (int64_t node = 0; node < g->n_nodes && f->tail[length - k] != 0.0; node++)
            total += g->product[k * g->n_nodes + node] * f->tail[length - k] * g->weights[node] *
                     g->t[node];
    return total;
}

/* Adds what rows of `owner` give and take at a moment among their ties. `gain` is what they count
 * together, times the weight of the moment. */
static void add_rows(const Game *g, int64_t owner, Moment moment, double gain) {
    int64_t length = g->k - g->n_nearer[owner];
    int64_t size = g->size;
    int64_t n_nodes = g->n_nodes;
    int64_t n_factors = make_factors(g, owner, moment, length);

    /* Law number f of `before` is the product of the owner's other rows and the factors before
     * f. */
    double *own = g->tails + n_factors * (g->k + 1);
    successes(own, g->n_tied[owner] - 1, moment, length);
    for (int64_t i = 0; i < length * n_nodes; i++)
        g->before[i] = own[i / n_nodes];
    memcpy(g->after, g->binomial, (size_t)size * sizeof *g->after);
    for (int64_t f = 0; f < n_factors; f++)
        multiply(
            g->before + (f + 1) * size, g->before + f * size, g->factors[f].all, g->factors[f].step,
            length, n_nodes
        );
    double total = 0.0;
    for (int64_t i = 0; i < length * n_nodes; i++)
        total += g->before[n_factors * size + i] * g->weights[i % n_nodes];

    /* `after` is the product of the factors behind f. */
    for (int64_t f = n_factors - 1; f >= 0; f--) {
        Factor *factor = g->factors + f;
        multiply(g->others, g->before + f * size, g->after, 1, length, n_nodes);
        factor->loss = loss_of(g, factor, length);
        multiply(g->product, g->after, factor->all, factor->step, length, n_nodes);
        memcpy(g->after, g->product, (size_t)(length * n_nodes) * sizeof *g->after);
    }
    g->values[owner] += gain * total;
    for (int64_t o = 0; o < g->n_owners; o++)
        if (g->factor_of[o] >= 0)
            g->values[o] -= gain * g->factors[g->factor_of[o]].loss;
}

/* Rows of a single owner may come in any order: one after the other, each with its share of the
 * matches. */
static void add_block_of_one(const Game *g, int64_t n_rows, int64_t owner) {
    for (int64_t i = 0; i < n_rows && g->n_nearer[owner] < g->k; i++, g->n_nearer[owner]++) {
        g->n_tied[owner] = 1;
        if (g->matches[owner] != 0.0)
            add_rows(g, owner, FIRST, g->matches[owner] / (double)n_rows);
    }
}

/* Rows of several owners are averaged over the moments at which one of them may come. */
static void add_block_of_many(const Game *g, int64_t n_rows) {
    int64_t n_moments = count_moments(n_rows);
    for (int64_t i = 0; i < n_moments; i++) {
        Moment moment = moment_of_ties(i, n_moments);
        for (int64_t o = 0; o < g->n_owners; o++)
            if (g->matches[o] != 0.0 && g->n_nearer[o] < g->k)
                add_rows(g, o, moment, g->matches[o] * moment.weight);
    }
}

/* Adds a block of n_rows tied rows, counted in `n_tied` and `matches`, and counts them as nearer
 * rows. `owner` is the owner of one of them. */
static void add_block(const Game *g, int64_t n_rows, int64_t owner) {
    bool has_one_owner = g->n_tied[owner] == n_rows;
    if (has_one_owner)
        add_block_of_one(g, n_rows, owner);
    else
        add_block_of_many(g, n_rows);
    for (int64_t o = 0; o < g->n_owners; o++) {
        /* Rows of a single owner have been counted one after the other. */
        int64_t n_nearer = (int64_t)g->n_nearer[o] + (has_one_owner ? 0 : g->n_tied[o]);
        g->n_nearer[o] = (int32_t)(n_nearer < g->k ? n_nearer : g->k);
        g->n_tied[o] = 0;
        g->matches[o] = 0.0;
    }
}

/* Numbers of scratch that value_owners needs. */
EXPORT int64_t owners_space(int64_t k, int64_t n_owners, int64_t n_nodes) {
    int64_t max_factors = k + n_owners + 1;
    int64_t factor_numbers = (int64_t)(sizeof(Factor) / 8);
    return (2 * max_factors + 3) * k * n_nodes + max_factors * (k + 1) + n_owners +
           max_factors * factor_numbers + 2 * n_owners;
}

/* Cuts the scratch into the arrays of a game. */
static void take_scratch(Game *g, double *space) {
    int64_t max_factors = g->k + g->n_owners + 1;
    g->before = space;
    g->laws = g->before + max_factors * g->size;
    g->after = g->laws + max_factors * g->size;
    g->product = g->after + g->size;
    g->others = g->product + g->size;
    g->tails = g->others + g->size;
    g->matches = g->tails + max_factors * (g->k + 1);
    g->factors = (Factor *)(g->matches + g->n_owners);
    g->n_nearer = (int32_t *)(g->factors + max_factors);
    g->n_tied = g->n_nearer + g->n_owners;
    g->factor_of = g->n_tied + g->n_owners;
}

/* Lists candidates of one query in `near`. Returns how many there are. Their qkeys tell; those of
 * excluded positions are overwritten. */
static int64_t list_candidates(
    const Game *g, int32_t *qkeys, int64_t tolerance, const int32_t *excluded, int64_t n_excluded,
    const int64_t *starts, const int32_t *row_of, int32_t *near
) {
    for (int64_t i = 0; i < n_excluded; i++)
        qkeys[excluded[i]] = INT32_MAX;
    int64_t count = 0;
    for (int64_t o = 0; o < g->n_owners; o++) {
        int64_t first = starts[o];
        int64_t n_rows = starts[o + 1] - first;
        int64_t k = g->k < n_rows ? g->k : n_rows;
        int64_t limit = bound_of_kth(qkeys + first, n_rows, k, near + count) + tolerance;
        /* Excluded positions are beyond any limit. */
        limit = limit < INT32_MAX ? limit : INT32_MAX - 1;
        count += list_between(
            qkeys + first, n_rows, INT32_MIN, limit, NULL, 0, row_of + first, near + count
        );
    }
    return count;
}

/* The arguments of value_owners, which are declared in native.py. Points stand in the order of their
 * owners: a position is a number in this order, a row one in the order of the caller. */
typedef struct {
    int32_t *qkeys; /* [query][position], rows of `stride` numbers; excluded ones are overwritten */
    const int32_t *tolerances; /* of qkeys, by query */
    const int32_t *labels;     /* of the queries */
    const int32_t *excluded;   /* [query][i]: positions that take no part */
    const int64_t *starts;     /* owner o has the positions starts[o] .. starts[o + 1] - 1 */
    const int32_t *row_of;     /* by position */
    const int32_t *owner_of;   /* by row */
    const int32_t *class_of;   /* by row */
    const double *queries;     /* where exact keys come from: see Source in nearworth.h */
    const void *points;
    int32_t type;
    const double *given;
    callback ask;
    int32_t by_index;       /* ties are broken by row */
    int64_t k;              /* neighbours that vote */
    const double *t;        /* nodes: probabilities that an owner is present */
    const double *weights;  /* of the nodes */
    const double *binomial; /* [m owners][j present][node] */
    double *values;         /* [query][owner], without what the soft utility adds */
    int32_t *near;          /* scratch */
    double *exact;          /* scratch */
    double *space;          /* owners_space(k, n_owners, n_nodes) numbers */
    int64_t n_queries, stride, n_excluded, n, width, n_points, n_nodes, n_owners, n_space;
} ValueOwners;

/* Values of all owners for one query, given its candidates by exact key. */
static void value_query(
    Game *g, const int32_t *near, const double *exact, int64_t count, const int32_t *owner_of,
    const int32_t *class_of, int32_t label, bool by_index, double *values
) {
    g->values = memset(values, 0, (size_t)g->n_owners * sizeof *values);
    memset(g->matches, 0, (size_t)g->n_owners * sizeof *g->matches);
    /* n_tied is behind n_nearer. */
    memset(g->n_nearer, 0, 2 * (size_t)g->n_owners * sizeof *g->n_nearer);
    for (int64_t i = 0, start = 0; i < count; i++) {
        int32_t owner = owner_of[near[i]];
        g->n_tied[owner]++;
        g->matches[owner] += class_of[near[i]] == label ? 1.0 / (double)g->k : 0.0;
        if (by_index || i + 1 == count || exact[i + 1] != exact[i]) {
            add_block(g, i + 1 - start, owner);
            start = i + 1;
        }
    }
}

/* Values of all owners for a block of queries. */
EXPORT void value_owners(const ValueOwners *block) {
    int64_t n_owners = block->n_owners;
    int64_t n_excluded = block->n_excluded;
    int32_t *near = block->near;
    double *exact = block->exact;
    if (block->n_space < owners_space(block->k, n_owners, block->n_nodes))
        return;
    Source source = {block->queries, block->points, block->type,     block->given,
                     block->ask,     block->width,  block->n_points, block->n};
    Game game = {
        .k = block->k,
        .n_owners = n_owners,
        .n_nodes = block->n_nodes,
        .size = block->k * block->n_nodes,
        .t = block->t,
        .weights = block->weights,
        .binomial = block->binomial,
    };
    take_scratch(&game, block->space);
    for (int64_t q = 0; q < block->n_queries; q++) {
        int64_t count = list_candidates(
            &game, block->qkeys + q * block->stride, block->tolerances[q],
            block->excluded + q * n_excluded, n_excluded, block->starts, block->row_of, near
        );
        if (!exact_keys(&source, q, near, exact, count))
            return;
        sort_pairs(exact, near, count);
        value_query(
            &game, near, exact, count, block->owner_of, block->class_of, block->labels[q],
            block->by_index, block->values + q * n_owners
        );
    }
}
