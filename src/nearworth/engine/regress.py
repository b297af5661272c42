"""The compiled loops of regression: one query, its training points in rank order, from far to near.

The same formulas as `games/regression.py`, block of tied ranks by block, in O(N) and without temporaries.
"""

# Kernels take arrays of several types and are typed by numba when first called.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from nearworth._common.compile import compiled


@compiled
def squared_sum_row(x, first, worth, loss, pair_worth, pair_loss, votes, linear, squared):
    """Values, by rank, of the games (1/K) sum x and ((1/K) sum x)^2 over the K nearest.

    `first[l]` says whether a block of tied ranks begins at rank l; `worth` and `loss` are c and d, `pair_worth` and
    `pair_loss` e and f. The results go to `linear` and `squared`.
    """
    n = x.shape[0]
    before = np.empty(n + 1)
    before[0] = 0.0
    for i in range(n):
        before[i + 1] = before[i] + x[i]
    later_x = later_xx = later_pair = evicted = 0.0
    end = n
    while end > 0:
        start = end - 1
        while not first[start]:
            start -= 1
        size, nearer = end - start, before[start]
        sum_x = sum_xx = 0.0
        c = d = dd = e = oe = f = of = oof = ef = 0.0
        for i in range(start, end):
            offset = i - start
            sum_x += x[i]
            sum_xx += x[i] * x[i]
            c += worth[i]
            d += loss[i]
            dd += offset * loss[i]
            e += pair_worth[i]
            ef += pair_worth[i] + pair_loss[i]
            oe += offset * (2.0 * pair_worth[i] + pair_loss[i])
            f += pair_loss[i]
            of += offset * pair_loss[i]
            oof += offset * (offset - 1.0) * pair_loss[i]
        rest, rest_pairs = max(size - 1.0, 1.0), max((size - 1.0) * (size - 2.0), 1.0)
        for i in range(start, end):
            v = x[i]
            other = (sum_x - v) / rest
            other_square = (sum_xx - v * v) / rest
            other_pair = ((sum_x - v) ** 2 - (sum_xx - v * v)) / rest_pairs
            linear[i] = (v * c - other * dd) / size - later_x
            single = (v * v * c - other_square * dd) / size - later_xx
            inside = v * other * oe - other * (nearer + v) * of - other_pair * oof
            pair = v * later_pair - evicted + (v * nearer * e + inside) / size
            squared[i] = single / votes + pair * (2.0 / (votes * votes))
        later_x += sum_x / size * d
        later_xx += sum_xx / size * d
        later_pair += sum_x / size * ef
        pair_mean = (sum_x * sum_x - sum_xx) / max(size * (size - 1.0), 1.0)
        evicted += sum_x / size * nearer * f + pair_mean * of
        end = start


@compiled
def soft_row(z, target, squared, own, cross, others, pairs, empty, values):
    """Values of the soft utility by rank, from those of the squared sum of residuals z."""
    total = squares = 0.0
    for i in range(z.shape[0]):
        total += z[i]
        squares += z[i] * z[i]
    for i in range(z.shape[0]):
        rest, rest_squares = total - z[i], squares - z[i] * z[i]
        small = own * z[i] * z[i] + 2.0 * cross * z[i] * rest + others * rest_squares
        small += pairs * (rest * rest - rest_squares)
        values[i] = empty * target * target - squared[i] - small


@compiled
def scatter(order, ranked, values):
    """From rank order to point order; points that are not ranked get nothing."""
    values[:] = 0.0
    for i in range(order.shape[0]):
        values[order[i]] = ranked[i]
