/* Values of owners as players: `games/owner_game.py` in compiled loops, from the qkeys of a block
 * of queries.
 *
 *   1. candidates   the K nearest rows of each owner are among those not beyond its K-th qkey by
 *   more than the tolerance 2. order        exact keys of these 3. blocks       of ties, near to
 *   far. For a matching row of owner a: the law of the nearer rows of the others, as a product of
 *   factors; without one factor it tells what that owner's presence takes away
 *
 * Owners outside of the block with equally many nearer rows are one factor: a power, from the table
 * of binomial probabilities, whose first entry is the law of no rows. Laws are arrays of
 * [rows][nodes]. */
#include "nearworth.h"

/* Owners that act alike: the factor of all of them and of all but one, in powers of `step`. tail[j]
 * is the probability that one of them, if present, has j or more rows before the row in
 * question. */
typedef struct {
    const double *all, *but_one;
    int64_t step;
    double *tail, loss;
} Factor;

typedef struct {
    int64_t k, n_owners, n_nodes, size;   /* size: numbers of a law */
    const double *t, *weights, *binomial; /* binomial: [m owners][j present][node] */
    /* of each owner: rows nearer than the block, rows in it, its factor */
    int32_t *nearer, *tied, *factor_of;
    double *matches, *values; /* of each owner: matches in the block; its value */
    double *before, *after, *next, *rest, *tails, *laws; /* scratch */
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

/* A moment at which a row may come among the rows tied with it: the share x of these that comes
 * before it on average, 1 - x, which would lose its digits in a difference, and the weight of the
 * moment in a mean over all. */
typedef struct {
    double before, after, weight;
} Moment;

static const Moment FIRST = {0.0, 1.0, 1.0};
static const double NEGLIGIBLE = 1e-30;   /* beside the largest term of a law */
static const double NODES_PER_ROOT = 5.0; /* with 4, the error begins to show */

/* Probabilities of 0..length-1 successes among n, each with the probability `moment.before`.
 *
 * They are computed outwards from the most likely number, and their sum is 1. The probability of no
 * success may be too small for a double, so that a law that began there would be all zeros. */
static void successes(double *law, int64_t n, Moment moment, int64_t length) {
    double odds = moment.before / moment.after, sum = 1.0, term = 1.0;
    int64_t mode = (int64_t)((double)(n + 1) * moment.before);
    mode = mode < n ? mode : n;
    memset(law, 0, (size_t)length * sizeof *law);
    if (mode < length)
        law[mode] = 1.0;
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

/* How many moments are averaged over for so many tied rows; see count_moments in
 * games/owner_game.py. */
static int64_t count_moments(int64_t n_rows) {
    int64_t exact = (n_rows + 1) / 2, enough = (int64_t)ceil(NODES_PER_ROOT * sqrt((double)n_rows));
    return exact < enough ? exact : enough;
}

/* Moment i of n: a node of Gauss-Legendre quadrature over [0, 1], by Newton's method for the angle.
 *
 * The Legendre polynomials P_0, P_1, ... at cos(angle) are sums of their differences, which lose no
 * digits where the cosine is almost 1. The nodes are symmetric, so that an angle is at most 90
 * degrees. */
static Moment moment_of_ties(int64_t i, int64_t n) {
    int64_t mirrored = n - 1 - i, nearest = i < mirrored ? i : mirrored;
    double angle = 3.141592653589793 * ((double)nearest + 0.75) / ((double)n + 0.5), slope = 1.0;
    for (int step = 0; step < 8; step++) {
        double sine = sin(0.5 * angle), one_minus_cosine = 2.0 * sine * sine;
        double polynomial = 1.0, difference = 0.0;
        for (int64_t j = 0; j < n; j++) {
            difference =
                (double)j * difference - (double)(2 * j + 1) * one_minus_cosine * polynomial;
            difference /= (double)(j + 1);
            polynomial += difference;
        }
        slope = (double)n * (difference - one_minus_cosine * polynomial) / sin(angle);
        angle -= polynomial / slope;
    }
    double sine = sin(0.5 * angle), cosine = cos(0.5 * angle), weight = 1.0 / (slope * slope);
    double small = sine * sine, large = cosine * cosine;
    return i <= mirrored ? (Moment){small, large, weight} : (Moment){large, small, weight};
}

/* Factor number n, of `alike` owners with so many nearer rows, or of one that has rows in the block
 * too, at a moment. */
static void make_factor(
    const Game *g, int64_t n, int64_t alike, int64_t nearer, int64_t tied, Moment moment,
    int64_t length
) {
    double *tail = g->tails + n * (g->k + 1), *all = g->laws + n * g->size, more = 1.0;
    memset(tail, 0, (size_t)(g->k + 1) * sizeof *tail);
    if (nearer < length)
        successes(tail + nearer, tied, moment, length - nearer);
    for (int64_t i = 0; tied && i < length * g->n_nodes; i++)
        all[i] =
            g->t[i % g->n_nodes] * tail[i / g->n_nodes] + (i < g->n_nodes ? 1.0 - g->t[i] : 0.0);
    for (int64_t j = 0; j <= length; j++) { /* the law becomes its tail */
        double here = tail[j];
        tail[j] = more;
        more -= here;
    }
    const double *power = g->binomial + alike * g->size;
    g->factors[n] = (Factor){tied ? all : power, power - g->size, tied ? 1 : nearer, tail, 0.0};
}

/* Makes the factors of all owners but this one; returns how many there are. */
static int64_t make_factors(const Game *g, int64_t owner, Moment moment, int64_t length) {
    int64_t n = 0;
    for (int64_t c = 1; c <= g->k; c++) {
        int64_t alike = 0;
        for (int64_t o = 0; o < g->n_owners; o++)
            if (g->nearer[o] == c && !g->tied[o])
                g->factor_of[o] = (int32_t)n, alike++;
        if (alike)
            make_factor(g, n++, alike, c, 0, moment, length);
    }
    for (int64_t o = 0; o < g->n_owners; o++)
        if (g->tied[o] && o != owner) {
            make_factor(g, n, 1, g->nearer[o], g->tied[o], moment, length);
            g->factor_of[o] = (int32_t)n++;
        } else if (!g->nearer[o] || o == owner)
            g->factor_of[o] = -1;
    return n;
}

/* What the presence of one owner of a factor takes away, given the law of the rows of the owners of
 * all others. */
static double loss_of(const Game *g, const Factor *f, int64_t length) {
    double total = 0.0;
    multiply(g->next, g->rest, f->but_one, f->step, length, g->n_nodes);
    for (int64_t k = 0; k < length; k++)
        for (int64_t node = 0; node < g->n_nodes && f->tail[length - k] != 0.0; node++)
            total += g->next[k * g->n_nodes + node] * f->tail[length - k] * g->weights[node] *
                     g->t[node];
    return total;
}

/* Adds what rows of `owner` at a moment among their ties give and take; `gain` is what they count
 * together. */
static void add_rows(const Game *g, int64_t owner, Moment moment, double gain) {
    int64_t length = g->k - g->nearer[owner], size = g->size, n_nodes = g->n_nodes;
    int64_t n = make_factors(g, owner, moment, length);
    double total = 0.0, *own = g->tails + n * (g->k + 1);
    successes(own, g->tied[owner] - 1, moment, length);
    for (int64_t i = 0; i < length * n_nodes; i++)
        g->before[i] = own[i / n_nodes];
    memcpy(g->after, g->binomial, (size_t)size * sizeof *g->after);
    for (int64_t f = 0; f < n; f++)
        multiply(
            g->before + (f + 1) * size, g->before + f * size, g->factors[f].all, g->factors[f].step,
            length, n_nodes
        );
    for (int64_t i = 0; i < length * n_nodes; i++)
        total += g->before[n * size + i] * g->weights[i % n_nodes];
    for (int64_t f = n - 1; f >= 0; f--) {
        multiply(g->rest, g->before + f * size, g->after, 1, length, n_nodes);
        g->factors[f].loss = loss_of(g, g->factors + f, length);
        multiply(g->next, g->after, g->factors[f].all, g->factors[f].step, length, n_nodes);
        memcpy(g->after, g->next, (size_t)(length * n_nodes) * sizeof *g->after);
    }
    g->values[owner] += gain * total;
    for (int64_t o = 0; o < g->n_owners; o++)
        if (g->factor_of[o] >= 0)
            g->values[o] -= gain * g->factors[g->factor_of[o]].loss;
}

/* A block of n_rows tied rows, counted in `tied` and `matches`, averaged over the moments at which
 * one of them may come. Rows of a single owner may come in any order: one after the other, each
 * with its share of the matches. */
static void add_block(const Game *g, int64_t n_rows, int64_t owner) {
    int64_t alone = g->tied[owner] == n_rows, n_moments = count_moments(n_rows);
    for (int64_t i = 0; alone && i < n_rows && g->nearer[owner] < g->k; i++, g->nearer[owner]++) {
        g->tied[owner] = 1;
        if (g->matches[owner] != 0.0)
            add_rows(g, owner, FIRST, g->matches[owner] / (double)n_rows);
    }
    for (int64_t i = 0; !alone && i < n_moments; i++) {
        Moment moment = moment_of_ties(i, n_moments);
        for (int64_t o = 0; o < g->n_owners; o++)
            if (g->matches[o] != 0.0 && g->nearer[o] < g->k)
                add_rows(g, o, moment, g->matches[o] * moment.weight);
    }
    for (int64_t o = 0; o < g->n_owners; o++) {
        int64_t after = (int64_t)g->nearer[o] + (alone ? 0 : g->tied[o]);
        g->nearer[o] = (int32_t)(after < g->k ? after : g->k);
        g->tied[o] = 0, g->matches[o] = 0.0;
    }
}

/* Numbers of scratch that value_owners needs. */
EXPORT int64_t owners_space(int64_t k, int64_t n_owners, int64_t n_nodes) {
    int64_t factors = k + n_owners + 1;
    return (2 * factors + 3) * k * n_nodes + factors * (k + 1) + n_owners +
           factors * (int64_t)(sizeof(Factor) / 8) + 2 * n_owners;
}

/* Lists candidates of one query in `near`; returns how many there are. Their qkeys tell; excluded
 * ones are overwritten. */
static int64_t list_candidates(
    const Game *g, int32_t *qkeys, int64_t tolerance, const int32_t *excluded, int64_t n_excluded,
    const int64_t *starts, const int32_t *row_of, int32_t *near
) {
    int64_t count = 0;
    for (int64_t i = 0; i < n_excluded; i++)
        qkeys[excluded[i]] = INT32_MAX;
    for (int64_t o = 0; o < g->n_owners; o++) {
        int64_t first = starts[o], rows = starts[o + 1] - first;
        int64_t limit =
            bound_of_kth(qkeys + first, rows, g->k < rows ? g->k : rows, near + count) + tolerance;
        limit = limit < INT32_MAX ? limit : INT32_MAX - 1; /* without excluded ones */
        count += list_between(
            qkeys + first, rows, INT32_MIN, limit, NULL, 0, row_of + first, near + count
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

/* The game of one query, with its arrays in `space`. */
static Game make_game(const ValueOwners *block) {
    int64_t k = block->k, n_owners = block->n_owners, n_nodes = block->n_nodes;
    int64_t factors = k + n_owners + 1, size = k * n_nodes;
    Game g = {
        .k = k,
        .n_owners = n_owners,
        .n_nodes = n_nodes,
        .size = size,
        .t = block->t,
        .weights = block->weights,
        .binomial = block->binomial,
    };
    g.before = block->space;
    g.laws = g.before + factors * size;
    g.after = g.laws + factors * size;
    g.next = g.after + size;
    g.rest = g.next + size;
    g.tails = g.rest + size;
    g.matches = g.tails + factors * (k + 1);
    g.factors = (Factor *)(g.matches + n_owners);
    g.nearer = (int32_t *)(g.factors + factors);
    g.tied = g.nearer + n_owners;
    g.factor_of = g.tied + n_owners;
    return g;
}

/* Values of all owners for a block of queries. */
EXPORT void value_owners(const ValueOwners *block) {
    int64_t n_owners = block->n_owners, n_excluded = block->n_excluded;
    int32_t *near = block->near;
    double *exact = block->exact;
    double vote = 1.0 / (double)block->k;
    Source source = {block->queries, block->points, block->type,     block->given,
                     block->ask,     block->width,  block->n_points, block->n};
    if (block->n_space < owners_space(block->k, n_owners, block->n_nodes))
        return;
    Game g = make_game(block);
    for (int64_t q = 0; q < block->n_queries; q++) {
        int64_t count = list_candidates(
            &g, block->qkeys + q * block->stride, block->tolerances[q],
            block->excluded + q * n_excluded, n_excluded, block->starts, block->row_of, near
        );
        if (!exact_keys(&source, q, near, exact, count))
            return;
        sort_pairs(exact, near, count);
        g.values = block->values + q * n_owners;
        memset(g.values, 0, (size_t)n_owners * sizeof *g.values);
        memset(g.matches, 0, (size_t)n_owners * sizeof *g.matches);
        memset(g.nearer, 0, (size_t)n_owners * sizeof *g.nearer);
        memset(g.tied, 0, (size_t)n_owners * sizeof *g.tied);
        for (int64_t i = 0, start = 0; i < count; i++) {
            int32_t owner = block->owner_of[near[i]];
            g.tied[owner]++;
            g.matches[owner] += block->class_of[near[i]] == block->labels[q] ? vote : 0.0;
            if (block->by_index || i + 1 == count || exact[i + 1] != exact[i]) {
                add_block(&g, i + 1 - start, owner);
                start = i + 1;
            }
        }
    }
}
