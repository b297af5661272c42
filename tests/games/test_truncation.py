"""Truncated classification: intervals against every label order, estimators against their
definitions.
"""

from __future__ import annotations

from collections import namedtuple
from itertools import product

import numpy as np
import pytest

from helpers.definition import SEMIVALUES, UTILITIES, defined_values, paper_bound, utility_function
from nearworth.games import truncation
from nearworth.games.classification import ClassificationGame
from nearworth.games.ties import TieBlocks
from nearworth.games.truncation import FarRanks, candidates_for_error

Interval = namedtuple("Interval", ["value", "lower", "upper"])
TruncatedRows = namedtuple("TruncatedRows", ["near", "far_match", "far_other"])

TAILS = ("local", "minimax", "mean", "paper")
EXACT = {"rtol": 0, "atol": 1e-13}


class TruncatedClassification(truncation.TruncatedClassification):
    """The same with names for what `rows` gives."""

    def rows(self, *arguments):
        return TruncatedRows(*(Interval(*ends) for ends in super().rows(*arguments)))


def sequences(n):
    """All label sequences; the first k columns take their 2^k values in blocks."""
    return np.array(list(product((0, 1), repeat=n)), dtype=np.intp).reshape(2**n, n)


def exact_values(game, matches, first=None):
    first = np.ones(matches.shape, dtype=bool) if first is None else first
    return game.values(matches, np.ones(len(matches), dtype=np.intp), TieBlocks(first))


def by_knowledge(game, k):
    """For all that can be known (near labels, far matches): rows to ask for, and the values of all
    label orders.
    """
    n = game.n_players
    labels = sequences(n)
    values = exact_values(game, labels).reshape(2**k, -1, n)
    far = sequences(n - k)
    for f in range(n - k + 1):
        chosen = far.sum(axis=1) == f
        near = sequences(k)
        yield near, near.sum(axis=1) + f, values[:, chosen], far[chosen] == 1


def distances(row):
    """Largest distance from each value to the ends of its interval."""
    return (np.maximum(x.upper - x.value, x.value - x.lower) for x in row)


def query(rows, q):
    """One query of a batch."""
    return TruncatedRows(*(Interval(*(x[q] for x in interval)) for interval in rows))


def single(truncated, matches, first, n_matches):
    """One query alone."""
    return query(
        truncated.rows(
            matches[None], None if first is None else first[None], np.array([n_matches])
        ),
        0,
    )


@pytest.mark.parametrize("semivalue", SEMIVALUES)
@pytest.mark.parametrize("utility", UTILITIES)
def test_intervals_are_exactly_the_range_over_all_orders(utility, semivalue, rng):
    """Valid and sharp for near points, far matches and far others; and the mean is the mean.

    Every N, K, K* up to N = 5, and some up to N = 8.
    """
    for n in range(1, 9):
        cases = list(product(range(1, n + 3), range(n + 1)))
        for n_neighbors, k in cases if n < 6 else rng.permutation(cases)[:5].tolist():
            game = ClassificationGame(n, n_neighbors, 3, utility, semivalue)
            for near, n_matches, values, far in by_knowledge(game, k):
                row = TruncatedClassification(game, "mean").rows(near, None, n_matches)
                np.testing.assert_allclose(row.near.lower, values[:, :, :k].min(axis=1), **EXACT)
                np.testing.assert_allclose(row.near.upper, values[:, :, :k].max(axis=1), **EXACT)
                np.testing.assert_allclose(row.near.value, values[:, :, :k].mean(axis=1), **EXACT)
                for which, found in ((far, row.far_match), (~far, row.far_other)):
                    if which.any():
                        points = values[:, :, k:][:, which]
                        np.testing.assert_allclose(found.lower, points.min(axis=1), **EXACT)
                        np.testing.assert_allclose(found.upper, points.max(axis=1), **EXACT)
                        np.testing.assert_allclose(found.value, points.mean(axis=1), **EXACT)


@pytest.mark.parametrize("semivalue", ["shapley", "banzhaf", ("beta", 4, 1)])
@pytest.mark.parametrize("utility", UTILITIES)
def test_intervals_hold_for_the_definition(utility, semivalue, rng):
    """The same with nothing from the closed forms: utilities, 2^n subsets, fractions. N = 8, one
    order per case.
    """
    n = 8
    for n_neighbors, k in ((2, 3), (3, 2), (5, 5), (9, 4)):
        labels = rng.integers(0, 2, n)
        utility_of = utility_function(
            "classification", utility, list(range(n)), labels.tolist(), 1, n_neighbors, 2
        )
        truth = defined_values(utility_of, n, semivalue)
        game = ClassificationGame(n, n_neighbors, 2, utility, semivalue)
        row = single(TruncatedClassification(game), labels[:k] == 1, None, int(labels.sum()))
        assert (row.near.lower - 1e-12 <= truth[:k]).all()
        assert (truth[:k] <= row.near.upper + 1e-12).all()
        for point in range(k, n):
            interval = row.far_match if labels[point] else row.far_other
            assert interval.lower - 1e-12 <= truth[point] <= interval.upper + 1e-12


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("utility", UTILITIES)
def test_ties_near_and_far(utility, tail, rng):
    """Tied near points are averaged; far ones may be tied as they like. Cut before or after any
    block.
    """
    n = 12
    for _ in range(40):
        semivalue = SEMIVALUES[rng.integers(len(SEMIVALUES))]
        game = ClassificationGame(n, int(rng.integers(1, n + 3)), 3, utility, semivalue)
        first = rng.random((1, n)) < rng.random()
        first[0, 0] = True
        labels = rng.integers(0, 2, (1, n))
        truth = exact_values(game, labels, first)[0]
        for k in (*np.flatnonzero(first), n):
            row = single(
                TruncatedClassification(game, tail), labels[0, :k] == 1, first[0, :k], labels.sum()
            )
            assert (row.near.lower - 1e-12 <= truth[:k]).all()
            assert (truth[:k] <= row.near.upper + 1e-12).all()
            for point in range(k, n):
                interval = row.far_match if labels[0, point] else row.far_other
                assert interval.lower - 1e-12 <= truth[point] <= interval.upper + 1e-12


@pytest.mark.parametrize("tail", TAILS)
def test_order_inside_ties_is_nothing(tail, rng):
    """Blocks of eight, one of them cut by the window that the local tail looks at: shuffled,
    nothing changes.
    """
    truncated = TruncatedClassification(ClassificationGame(200, 5, 3), tail)
    first = np.arange(40)[None] % 8 == 0
    for _ in range(5):
        labels = rng.random((1, 40)) < 0.5
        shuffled = np.lexsort([rng.random(40), np.cumsum(first)])
        one = single(truncated, labels[0], first[0], 100)
        two = single(truncated, labels[0, shuffled], first[0], 100)
        np.testing.assert_allclose(one.near.value[shuffled], two.near.value, rtol=0, atol=1e-15)
        assert one.far_match.value == pytest.approx(two.far_match.value, abs=1e-15)


@pytest.mark.parametrize(("cells", "tolerance"), [(256, 1e-3), (truncation.CELLS, 0.1)])
def test_the_rate_curve_is_found_again(cells, tolerance, monkeypatch):
    """Log-odds linear in log rank: the local rate and the number of far matches bring the whole
    curve back.

    The step function converges to it; as coarse as it is used, it may be wrong by a few per cent.
    """
    monkeypatch.setattr(truncation, "CELLS", cells)
    n = 5000
    k = 40
    rank = np.arange(k + 1, n + 1)
    for start, slope in ((2.0, -0.8), (5.0, -1.5), (-1.0, 0.4), (0.5, 0.0), (-3.0, -0.5)):
        for semivalue in ("shapley", "banzhaf", ("beta", 4, 1)):
            game = ClassificationGame(n, 15, 2, "original", semivalue)
            rates = 1 / (1 + np.exp(-(start + slope * np.log(rank / k))))
            local = np.full(
                (1, 10**5), 1 / (1 + np.exp(-start))
            )  # of so many that the prior is nothing
            curve = truncation.RateCurve(FarRanks(game.weights), k)
            lost, match, other = curve.expected(local, np.array([rates.sum()]))
            loss = game.weights.loss[k:]
            worth = game.weights.worth[k:]
            behind = np.append(np.cumsum((loss * rates)[::-1])[::-1][1:], 0.0)
            assert lost[0] == pytest.approx(loss @ rates, rel=tolerance)
            assert match[0] == pytest.approx(rates @ (worth - behind) / rates.sum(), rel=tolerance)
            assert other[0] == pytest.approx(
                -(1 - rates) @ behind / (1 - rates).sum(), rel=tolerance
            )


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("utility", UTILITIES)
def test_everything_ranked_is_exact(utility, tail, rng):
    for n, n_neighbors in ((1, 1), (1, 4), (2, 1), (9, 3), (9, 12)):
        game = ClassificationGame(n, n_neighbors, 2, utility)
        labels = rng.integers(0, 2, (5, n))
        row = TruncatedClassification(game, tail).rows(labels, None, labels.sum(axis=1))
        np.testing.assert_allclose(row.near.value, exact_values(game, labels), **EXACT)
        np.testing.assert_array_equal(row.near.lower, row.near.value)
        np.testing.assert_array_equal(row.near.upper, row.near.value)


@pytest.mark.parametrize("tail", ["local", "minimax", "mean"])
@pytest.mark.parametrize("semivalue", SEMIVALUES)
def test_a_pure_far_side_is_exact(tail, semivalue, rng):
    n = 60
    k = 7
    game = ClassificationGame(n, 4, 2, "soft", semivalue)
    near = rng.integers(0, 2, (4, k))
    labels = np.concatenate([near, np.tile([[0], [1], [0], [1]], n - k)], axis=1)
    row = TruncatedClassification(game, tail).rows(near, None, labels.sum(axis=1))
    truth = exact_values(game, labels)
    np.testing.assert_allclose(row.near.value, truth[:, :k], rtol=0, atol=1e-15)
    np.testing.assert_array_equal(row.near.lower, row.near.value)
    np.testing.assert_array_equal(row.near.upper, row.near.value)
    for q, interval in enumerate((row.far_other, row.far_match, row.far_other, row.far_match)):
        assert interval.lower[q] == interval.value[q] == interval.upper[q]
        np.testing.assert_allclose(truth[q, k:], interval.value[q], rtol=0, atol=1e-15)


@pytest.mark.parametrize("semivalue", ["shapley", "banzhaf", ("beta", 4, 1)])
@pytest.mark.parametrize("tail", TAILS)
def test_adversarial_orders_attain_the_ends(tail, semivalue):
    """Far matches where the losses are largest or smallest, N = 2000."""
    n = 2000
    k = 30
    f = 700
    game = ClassificationGame(n, 20, 2, "soft", semivalue)
    by_loss = k + np.argsort(game.weights.loss[k:], kind="stable")
    truncated = TruncatedClassification(game, tail)
    for far, end in ((by_loss[:f], "upper"), (by_loss[-f:], "lower")):
        labels = np.zeros((1, n), dtype=np.intp)
        labels[0, :k:3] = 1
        labels[0, far] = 1
        row = truncated.rows(labels[:, :k], None, labels.sum(axis=1))
        np.testing.assert_allclose(
            exact_values(game, labels)[:, :k], getattr(row.near, end), rtol=0, atol=1e-14
        )


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.parametrize("semivalue", ["shapley", "banzhaf", ("beta", 16, 1)])
def test_worst_error_is_never_exceeded(semivalue, utility, tail):
    """Over all label sequences; and for minimax and the paper's estimator it is reached."""
    for n in range(1, 7):
        labels = sequences(n)
        for n_neighbors, k in product((1, 2, n, n + 2), range(n + 1)):
            game = ClassificationGame(n, n_neighbors, 3, utility, semivalue)
            row = TruncatedClassification(game, tail).rows(labels[:, :k], None, labels.sum(axis=1))
            near, match, other = distances(row)
            far = labels[:, k:]
            found = max(
                near.max() if k else 0.0,
                match.max(initial=0.0, where=far.any(axis=1)),
                other.max(initial=0.0, where=~far.all(axis=1)),
            )
            worst = TruncatedClassification(game, tail).worst_error(k)
            assert found <= worst + 1e-14
            if tail in ("minimax", "paper"):
                assert found == pytest.approx(worst, abs=1e-14)


def as_printed(labels, n_neighbors, n_classes, k):
    """Theorem 3, step by step as the paper has it; N >= max(2, K), K* < N."""
    n = labels.shape[-1]
    values = np.full(n, (1 / 2 - 1 / n_classes) / n)
    for i in range(k - 1, 0, -1):
        bracket = (
            sum(1 / j for j in range(1, n_neighbors + 1))
            + (min(i, n_neighbors) * (n - 1) / i - n_neighbors) / n_neighbors
        )
        values[i - 1] = values[i] + (labels[i - 1] - labels[i]) / (n - 1) * bracket
    return values


def test_the_papers_estimator_and_bound(rng):
    """Values as printed, errors never above the bound, and the bound attained by some labels."""
    for n in range(2, 8):
        labels = sequences(n)
        for n_neighbors, k, n_classes in product(range(1, n + 1), range(1, n), (2, 10)):
            game = ClassificationGame(n, n_neighbors, n_classes)
            row = TruncatedClassification(game, "paper").rows(
                labels[:, :k], None, labels.sum(axis=1)
            )
            far = np.where(
                labels[:, k:] == 1, row.far_match.value[:, None], row.far_other.value[:, None]
            )
            found = np.concatenate([row.near.value, far], axis=1)
            for q in rng.integers(0, len(labels), 3):
                np.testing.assert_allclose(
                    found[q], as_printed(labels[q], n_neighbors, n_classes, k), **EXACT
                )
            error = np.abs(found - exact_values(game, labels)).max()
            assert error == pytest.approx(paper_bound(n, n_neighbors, k), abs=1e-14)


def test_the_paper_with_the_original_utility_is_zero_beyond():
    game = ClassificationGame(50, 5, 2, "original")
    row = single(TruncatedClassification(game, "paper"), np.ones(10, dtype=bool), None, 30)
    assert row.far_match.value == row.far_other.value == row.near.value[-1] == 0
    assert TruncatedClassification(game, "paper").worst_error(10) == pytest.approx(1 / 10)


@pytest.mark.parametrize("n_neighbors", [1, 5, 10])
@pytest.mark.parametrize("n", [50, 1000, 10**5])
def test_twice_as_tight_as_the_paper(n, n_neighbors):
    game = ClassificationGame(n, n_neighbors, 2)
    for k in (20, 45, 100, 999, 10**4):
        if n_neighbors <= k < n:
            assert paper_bound(n, n_neighbors, k) >= 2 * TruncatedClassification(
                game, "minimax"
            ).worst_error(k)


@pytest.mark.parametrize("semivalue", SEMIVALUES)
@pytest.mark.parametrize("tail", TAILS)
def test_candidates_are_the_fewest_that_do(semivalue, tail):
    for n, n_neighbors in ((1, 1), (3, 5), (40, 1), (40, 6)):
        game = ClassificationGame(n, n_neighbors, 2, "soft", semivalue)
        errors = np.array(
            [TruncatedClassification(game, tail).worst_error(k) for k in range(1, n + 1)]
        )
        for max_error in (0.0, 1e-9, 1e-3, 0.02, 0.1, 1.0):
            assert candidates_for_error(game, max_error, tail) == 1 + np.argmax(errors <= max_error)


def test_banzhaf_needs_sixty():
    """K = 5: 1e-12 from 60 neighbours, whatever the tail and however many points there are."""
    game = ClassificationGame(10**5, 5, 2, "soft", "banzhaf")
    for tail in TAILS:
        assert candidates_for_error(game, 1e-12, tail) <= 60


@pytest.mark.parametrize("tail", TAILS)
def test_a_batch_is_its_queries_one_by_one(tail, rng):
    game = ClassificationGame(3000, 5, 4)
    truncated = TruncatedClassification(game, tail)
    matches = rng.random((17, 101)) < rng.random((17, 1))
    first = rng.random((17, 101)) < 0.7
    first[:, 0] = True
    n_matches = matches.sum(axis=1) + rng.integers(0, 2900, 17)
    together = truncated.rows(matches, first, n_matches)
    for q in range(17):
        alone = single(truncated, matches[q], first[q], n_matches[q])
        expected = query(together, q)
        np.testing.assert_array_equal(alone.near.value, expected.near.value)
        np.testing.assert_array_equal(alone.near.lower, expected.near.lower)
        assert (alone.far_match, alone.far_other) == (expected.far_match, expected.far_other)


def test_local_sees_what_lies_behind(rng):
    """Match rates that fall with the rank: the local tail beats the paper's and the mean at the
    near points.
    """
    n = 5000
    k = 100
    queries = 60
    game = ClassificationGame(n, 5, 2)
    share = np.log(np.arange(1, n + 1)) / np.log(n)
    rates = 0.95 - (0.95 - rng.uniform(0.05, 0.4, (queries, 1))) * share**3
    labels = (rng.random((queries, n)) < rates).astype(np.intp)
    truth = exact_values(game, labels)[:, :k]
    errors = {
        tail: np.abs(
            TruncatedClassification(game, tail)
            .rows(labels[:, :k], None, labels.sum(axis=1))
            .near.value
            - truth
        ).mean()
        for tail in TAILS
    }
    assert errors["local"] < errors["mean"] / 2
    assert errors["local"] < errors["paper"] / 2


def test_values_lie_in_their_intervals(rng):
    for tail in ("local", "minimax", "mean"):
        for n, k in ((2, 1), (3, 0), (50, 1), (2000, 1000), (2000, 3)):
            semivalue = SEMIVALUES[rng.integers(len(SEMIVALUES))]
            game = ClassificationGame(n, int(rng.integers(1, 9)), 2, "soft", semivalue)
            near = rng.random((30, k)) < 0.5
            row = TruncatedClassification(game, tail).rows(
                near, None, near.sum(axis=1) + rng.integers(0, n - k + 1, 30)
            )
            for interval in row:
                assert (interval.lower <= interval.value).all()
                assert (interval.value <= interval.upper).all()


def test_counts_that_cannot_be_are_refused():
    game = ClassificationGame(10, 3, 2)
    with pytest.raises(AssertionError, match="n_matches"):
        single(TruncatedClassification(game), np.ones(4, dtype=bool), None, 3)
    with pytest.raises(AssertionError, match="n_matches"):
        single(TruncatedClassification(game), np.zeros(4, dtype=bool), None, 7)
