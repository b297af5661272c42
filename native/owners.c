/* Values of owners as players: `games/owner_game.py` in compiled loops, from the qkeys of a block of queries.
 *
 *   1. candidates   the K nearest rows of each owner are among those not beyond its K-th qkey by more than the tolerance
 *   2. order        exact keys of these
 *   3. blocks       of ties, near to far. For a matching row of owner a: the law of the nearer rows of the others, as a
 *                   product of factors; without one factor it tells what that owner's presence takes away
 *
 * Owners outside of the block with equally many nearer rows are one factor: a power, from the table of binomial
 * probabilities, whose first entry is the law of no rows. Laws are arrays of [rows][nodes]. */
#include "nearworth.h"

/* Owners that act alike: the factor of all of them and of all but one, in powers of `step`. tail[j] is the probability
 * that one of them, if present, has j or more rows before the row in question. */
typedef struct {
    const double *all, *but_one;
    int64_t step;
    double *tail, loss;
} Factor;

typedef struct {
    int64_t k, n_owners, n_nodes, size;   /* size: numbers of a law */
    const double *t, *weights, *binomial; /* binomial: [m owners][j present][node] */
    int32_t *nearer, *tied, *factor_of;   /* of each owner: rows nearer than the block, rows in it, its factor */
    double *matches, *values;             /* of each owner: matches in the block; its value */
    double *before, *after, *next, *rest, *tails, *laws; /* scratch */
    Factor *factors;
} Game;

/* out = a * b, all cut at `length`; b has the powers 0, step, 2 step, ... */
static void multiply(double *restrict out, const double *restrict a, const double *restrict b, int64_t step,
                     int64_t length, int64_t n_nodes)
{
    memset(out, 0, (size_t)(length * n_nodes) * sizeof *out);
    for (int64_t j = 0; j * step < length; j++)
        for (int64_t k = 0; k + j * step < length; k++)
            for (int64_t node = 0; node < n_nodes; node++)
                out[(k + j * step) * n_nodes + node] += a[k * n_nodes + node] * b[j * n_nodes + node];
}

/* Probabilities of 0..length-1 successes among n, each with probability x < 1. */
static void successes(double *law, int64_t n, double x, int64_t length)
{
    double none = 1.0, base = 1.0 - x;
    for (int64_t power = n; power; power >>= 1, base *= base)
        none *= power & 1 ? base : 1.0;
    for (int64_t j = 0; j < length; j++) {
        law[j] = j <= n ? none : 0.0;
        none *= (double)(n - j) / (double)(j + 1) * (x / (1.0 - x));
    }
}

/* Node i of n of Gauss-Legendre quadrature over [0, 1], and its weight, by Newton's method. */
static double legendre(int64_t i, int64_t n, double *weight)
{
    double z = cos(3.141592653589793 * ((double)i + 0.75) / ((double)n + 0.5)), slope = 1.0;
    for (int step = 0; step < 8; step++) {
        double before = 0.0, now = 1.0;
        for (int64_t j = 0; j < n; j++) {
            double next = ((double)(2 * j + 1) * z * now - (double)j * before) / (double)(j + 1);
            before = now, now = next;
        }
        slope = (double)n * (z * now - before) / (z * z - 1.0);
        z -= now / slope;
    }
    *weight = 1.0 / ((1.0 - z * z) * slope * slope);
    return 0.5 * (1.0 - z);
}

/* Factor number n, of `alike` owners with so many nearer rows, or of one that has rows in the block too, at time x. */
static void make_factor(const Game *g, int64_t n, int64_t alike, int64_t nearer, int64_t tied, double x, int64_t length)
{
    double *tail = g->tails + n * (g->k + 1), *all = g->laws + n * g->size, more = 1.0;
    memset(tail, 0, (size_t)(g->k + 1) * sizeof *tail);
    if (nearer < length)
        successes(tail + nearer, tied, x, length - nearer);
    for (int64_t i = 0; tied && i < length * g->n_nodes; i++)
        all[i] = g->t[i % g->n_nodes] * tail[i / g->n_nodes] + (i < g->n_nodes ? 1.0 - g->t[i] : 0.0);
    for (int64_t j = 0; j <= length; j++) { /* the law becomes its tail */
        double here = tail[j];
        tail[j] = more;
        more -= here;
    }
    const double *power = g->binomial + alike * g->size;
    g->factors[n] = (Factor){tied ? all : power, power - g->size, tied ? 1 : nearer, tail, 0.0};
}

/* Makes the factors of all owners but this one; returns how many there are. */
static int64_t make_factors(const Game *g, int64_t owner, double x, int64_t length)
{
    int64_t n = 0;
    for (int64_t c = 1; c <= g->k; c++) {
        int64_t alike = 0;
        for (int64_t o = 0; o < g->n_owners; o++)
            if (g->nearer[o] == c && !g->tied[o])
                g->factor_of[o] = (int32_t)n, alike++;
        if (alike)
            make_factor(g, n++, alike, c, 0, x, length);
    }
    for (int64_t o = 0; o < g->n_owners; o++)
        if (g->tied[o] && o != owner) {
            make_factor(g, n, 1, g->nearer[o], g->tied[o], x, length);
            g->factor_of[o] = (int32_t)n++;
        } else if (!g->nearer[o] || o == owner)
            g->factor_of[o] = -1;
    return n;
}

/* What the presence of one owner of a factor takes away, given the law of the rows of the owners of all others. */
static double loss_of(const Game *g, const Factor *f, int64_t length)
{
    double total = 0.0;
    multiply(g->next, g->rest, f->but_one, f->step, length, g->n_nodes);
    for (int64_t k = 0; k < length; k++)
        for (int64_t node = 0; node < g->n_nodes && f->tail[length - k] != 0.0; node++)
            total += g->next[k * g->n_nodes + node] * f->tail[length - k] * g->weights[node] * g->t[node];
    return total;
}

/* Adds what rows of `owner` at time x among their ties give and take; `gain` is what they count together. */
static void add_rows(const Game *g, int64_t owner, double x, double gain)
{
    int64_t length = g->k - g->nearer[owner], size = g->size, n_nodes = g->n_nodes, n = make_factors(g, owner, x, length);
    double total = 0.0, *own = g->tails + n * (g->k + 1);
    successes(own, g->tied[owner] - 1, x, length);
    for (int64_t i = 0; i < length * n_nodes; i++)
        g->before[i] = own[i / n_nodes];
    memcpy(g->after, g->binomial, (size_t)size * sizeof *g->after);
    for (int64_t f = 0; f < n; f++)
        multiply(g->before + (f + 1) * size, g->before + f * size, g->factors[f].all, g->factors[f].step, length, n_nodes);
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

/* A block of n_rows tied rows, counted in `tied` and `matches`; times are nodes over which ties are averaged. Rows of a
 * single owner may come in any order: one after the other, each with its share of the matches. */
static void add_block(const Game *g, int64_t n_rows, int64_t owner)
{
    int64_t alone = g->tied[owner] == n_rows, n_times = (n_rows + 1) / 2;
    for (int64_t i = 0; alone && i < n_rows && g->nearer[owner] < g->k; i++, g->nearer[owner]++) {
        g->tied[owner] = 1;
        if (g->matches[owner] != 0.0)
            add_rows(g, owner, 0.0, g->matches[owner] / (double)n_rows);
    }
    for (int64_t i = 0; !alone && i < n_times; i++) {
        double weight, x = legendre(i, n_times, &weight);
        for (int64_t o = 0; o < g->n_owners; o++)
            if (g->matches[o] != 0.0 && g->nearer[o] < g->k)
                add_rows(g, o, x, g->matches[o] * weight);
    }
    for (int64_t o = 0; o < g->n_owners; o++) {
        int64_t after = (int64_t)g->nearer[o] + (alone ? 0 : g->tied[o]);
        g->nearer[o] = (int32_t)(after < g->k ? after : g->k);
        g->tied[o] = 0, g->matches[o] = 0.0;
    }
}

/* Numbers of scratch that value_owners needs. */
EXPORT int64_t owners_space(int64_t k, int64_t n_owners, int64_t n_nodes)
{
    int64_t factors = k + n_owners + 1;
    return (2 * factors + 3) * k * n_nodes + factors * (k + 1) + n_owners + factors * (int64_t)(sizeof(Factor) / 8) + 2 * n_owners;
}

/* Lists candidates of one query in `near`; returns how many there are. Their qkeys tell; excluded ones are overwritten. */
static int64_t list_candidates(const Game *g, int32_t *qkeys, int64_t tolerance, const int32_t *excluded, int64_t n_excluded,
                               const int64_t *starts, const int32_t *row_of, int32_t *near)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n_excluded; i++)
        qkeys[excluded[i]] = INT32_MAX;
    for (int64_t o = 0; o < g->n_owners; o++) {
        int64_t first = starts[o], rows = starts[o + 1] - first;
        int64_t limit = bound_of_kth(qkeys + first, rows, g->k < rows ? g->k : rows, near + count) + tolerance;
        limit = limit < INT32_MAX ? limit : INT32_MAX - 1; /* without excluded ones */
        count += list_between(qkeys + first, rows, INT32_MIN, limit, NULL, 0, row_of + first, near + count);
    }
    return count;
}

/* Values of all owners for a block of queries, without what the soft utility adds. Positions starts[o] .. starts[o+1] - 1
 * are those of owner o; qkeys of excluded positions are overwritten. Exact keys come from points, given keys or `ask`. */
EXPORT void value_owners(int32_t *qkeys, const int32_t *tolerances, const int32_t *labels, const int32_t *excluded,
                         const int64_t *starts, const int32_t *row_of, const int32_t *owner_of, const int32_t *class_of,
                         const double *queries, const void *points, int32_t type, const double *given, callback ask,
                         int32_t by_index, int64_t k, const double *t, const double *weights, const double *binomial,
                         double *values, int32_t *near, double *exact, double *space, int64_t n_queries, int64_t stride,
                         int64_t n_excluded, int64_t n, int64_t width, int64_t n_points, int64_t n_nodes,
                         int64_t n_owners, int64_t n_space)
{
    Source source = {queries, points, type, given, ask, width, n_points, n};
    int64_t factors = k + n_owners + 1;
    Game g = {k, n_owners, n_nodes, k * n_nodes, t, weights, binomial, .before = space};
    g.laws = g.before + factors * g.size, g.after = g.laws + factors * g.size, g.next = g.after + g.size;
    g.rest = g.next + g.size, g.tails = g.rest + g.size, g.matches = g.tails + factors * (k + 1);
    g.factors = (Factor *)(g.matches + n_owners), g.nearer = (int32_t *)(g.factors + factors);
    g.tied = g.nearer + n_owners, g.factor_of = g.tied + n_owners;
    for (int64_t q = 0; q < n_queries && n_space >= owners_space(k, n_owners, n_nodes); q++) {
        int64_t count = list_candidates(&g, qkeys + q * stride, tolerances[q], excluded + q * n_excluded, n_excluded, starts,
                                        row_of, near);
        if (!exact_keys(&source, q, near, exact, count))
            return;
        sort_pairs(exact, near, count);
        g.values = memset(values + q * n_owners, 0, (size_t)n_owners * sizeof *values);
        memset(g.matches, 0, (size_t)n_owners * sizeof *g.matches);
        memset(g.nearer, 0, 2 * (size_t)n_owners * sizeof *g.nearer);
        for (int64_t i = 0, start = 0; i < count; i++) {
            int32_t owner = owner_of[near[i]];
            g.tied[owner]++;
            g.matches[owner] += class_of[near[i]] == labels[q] ? 1.0 / (double)k : 0.0;
            if (by_index || i + 1 == count || exact[i + 1] != exact[i]) {
                add_block(&g, i + 1 - start, owner);
                start = i + 1;
            }
        }
    }
}
