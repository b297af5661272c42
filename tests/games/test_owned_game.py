"""Values given owned rows, in rank space: ties against definitions by counts, in exact
fractions.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb, prod

import numpy as np
import pytest

from nearworth.games.coefficients import Presence, size_distribution
from nearworth.games.owner_game import OwnedGame


def values_of_blocks(blocks, k, semivalue):
    """For each block of (candidates, their matches, owned rows, their matches), near to far: the
    value of a matching candidate and of another one, original utility.

    The coalitions of one size are all alike but for how many of their candidates are in each block.
    """
    values = []
    for block in range(len(blocks)):
        values.append([])
        for own in (1, 0):
            others = [
                (c - (b == block), m - own * (b == block)) for b, (c, m, _, _) in enumerate(blocks)
            ]
            n_others = sum(c for c, _ in others)
            sizes = size_distribution(Presence.of(semivalue), n_others)
            value = Fraction(0)
            for counts in product(*(range(c + 1) for c, _ in others)):
                ways = prod(comb(c, count) for (c, _), count in zip(others, counts, strict=True))
                share = Fraction(ways, comb(n_others, sum(counts))) * Fraction(
                    float(sizes[sum(counts)])
                )
                matches = [
                    Fraction(m * count, c or 1)
                    for (c, m), count in zip(others, counts, strict=True)
                ]
                before = votes(blocks, counts, matches, k)
                counts = list(counts)
                matches = list(matches)
                counts[block] += 1
                matches[block] += own
                value += share * (votes(blocks, counts, matches, k) - before)
            values[-1].append(float(value))
    return values


def votes(blocks, counts, matches, k):
    """(1/K) times the expected matches among the K nearest of owned rows and of so many candidates
    of each block.
    """
    free = k
    total = Fraction(0)
    for (_, _, owned, owned_matches), count, n_matches in zip(blocks, counts, matches, strict=True):
        n = owned + count
        if n:
            total += Fraction(min(free, n), n) * (owned_matches + n_matches)
        free -= min(free, n)
    return total / k


def found_in_blocks(blocks, k, semivalue):
    """The same by the game, which must give equal rows equal values."""
    is_owned = []
    gains = []
    first = []
    for c, m, o, n in blocks:
        is_owned += [False] * c + [True] * o
        gains += [1.0] * m + [0.0] * (c - m) + [1.0] * n + [0.0] * (o - n)
        first += ([True] + [False] * (c + o - 1))[: c + o]
    is_owned = np.array(is_owned)
    gains = np.array(gains)
    n_owned = int(is_owned.sum())
    about = {"n_neighbors": k, "n_classes": 2, "utility": "original", "semivalue": semivalue}
    game = OwnedGame(len(gains) - n_owned, n_owned, **about)
    return is_owned, gains, game.values(is_owned, gains, np.array(first))


def check(blocks, k, semivalue):
    is_owned, gains, values = found_in_blocks(blocks, k, semivalue)
    assert (values[is_owned] == 0.0).all()
    block_of = np.repeat(np.arange(len(blocks)), [c + o for c, _, o, _ in blocks])
    for block, expected in enumerate(values_of_blocks(blocks, k, semivalue)):
        for gain, value in zip((1.0, 0.0), expected, strict=True):
            rows = (block_of == block) & ~is_owned & (gains == gain)
            np.testing.assert_allclose(
                values[rows], value, rtol=0, atol=1e-13, err_msg=f"{blocks} {k} {semivalue}"
            )


@pytest.mark.parametrize("semivalue", ["shapley", "banzhaf", "loo", ("beta", 4, 1)])
def test_blocks_of_ties_agree_with_the_definition_by_counts(rng, semivalue):
    """Blocks without owned rows, of owned rows alone, of both, and single rows; K from 1 to all
    rows.
    """
    for _ in range(4):
        blocks = []
        for _ in range(int(rng.integers(1, 4))):
            c = int(rng.choice([0, 1, 3, 5]))
            o = int(rng.choice([0, 0, 1, 3, 6]))
            blocks.append((c, int(rng.integers(0, c + 1)), o, int(rng.integers(0, o + 1))))
        blocks.append((5, 2, 2, 1))
        n = sum(c + o for c, _, o, _ in blocks)
        for k in {1, 2, n // 2, n - 1, n, n + 3}:
            check([block for block in blocks if block[0] + block[2]], k, semivalue)


@pytest.mark.parametrize("n_owned", [0, 1, 150, 299])
@pytest.mark.parametrize("k", [1, 5, 150, 299, 300])
def test_a_set_that_is_tied_as_a_whole(n_owned, k):
    c = 300 - n_owned
    check([(c, (c + 1) // 2, n_owned, n_owned // 3)], k, "shapley")


@pytest.mark.parametrize("k", [1, 5, 40])
def test_a_hundred_thousand_tied_rows(k):
    """K/n of a matching vote counts among n rows, owned ones included: the marginal contributions
    are a short sum.
    """
    n_candidates = 60_000
    n_matches = 20_000
    n_owned = 40_000
    n_owned_matches = 30_000
    is_owned, gains, values = found_in_blocks(
        [(n_candidates, n_matches, n_owned, n_owned_matches)], k, "shapley"
    )
    present = np.arange(n_candidates, dtype=np.float64)
    n = n_owned + present
    for own in (1.0, 0.0):
        matches = n_owned_matches + present * (n_matches - own) / (n_candidates - 1)
        expected = ((n * own - matches) / (n * (n + 1.0))).mean()
        rows = ~is_owned & (gains == own)
        np.testing.assert_allclose(values[rows], expected, rtol=1e-9, atol=0)
