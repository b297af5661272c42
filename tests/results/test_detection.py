"""Rules: values in, suspects out."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

import nearworth as nw
from nearworth.results.detection import detect, two_means

RULES = ("ranking", "cluster", "lower-cluster")


def lower_cluster_by_definition(values):
    """The best of all ways to make two clusters, in exact fractions; of equally good ones the
    smallest lower one.
    """
    exact = [Fraction(value) for value in values]

    def spread(part):
        mean = sum(part) / len(part)
        return sum((x - mean) ** 2 for x in part)

    found = []
    rows = range(len(exact))
    for size in range(1, len(exact)):
        for lower in combinations(rows, size):
            upper = [exact[i] for i in rows if i not in lower]
            part = [exact[i] for i in lower]
            if sum(part) / size <= sum(upper) / len(upper):
                found.append((spread(part) + spread(upper), size, lower))
    _, _, lower = min(found)
    return set(lower), sum(exact[i] for i in lower) / len(lower)


@pytest.mark.parametrize("kind", ["ties", "floats", "outlier"])
def test_clusters_are_the_best_of_all_partitions(kind, rng):
    for _ in range(25):
        n = int(rng.integers(2, 9))
        values = rng.integers(0, 5, n).astype(float) if kind == "ties" else rng.normal(size=n)
        if kind == "outlier":
            values[0] -= 1e6
        if len(set(values)) == 1:
            continue
        lower, centre = lower_cluster_by_definition(values)
        assert set(detect(values, "lower-cluster").indices) == lower
        flagged = {i for i, value in enumerate(values) if Fraction(value) < centre}
        found = detect(values, "cluster")
        assert found.threshold == pytest.approx(float(centre), rel=1e-12, abs=1e-12)
        if kind == "ties":  # sums of small whole numbers are exact
            assert set(found.indices) == flagged


def test_clusters_beat_every_split(rng):
    values = np.concatenate([rng.normal(size=300), rng.normal(-3, 0.5, size=40)])
    ordered = np.sort(values)
    errors = [k * ordered[:k].var() + (340 - k) * ordered[k:].var() for k in range(1, 340)]
    best = int(np.argmin(errors)) + 1
    assert len(detect(values, "lower-cluster")) == best
    assert two_means(values)[:2] == pytest.approx((ordered[:best].mean(), ordered[best:].mean()))


def test_of_equally_good_splits_the_one_that_flags_fewer():
    for scale in (1.0, 0.1, 1e-7, 3e200):  # 0.1, 0.2, 0.3 are not equally far apart in binary
        values = np.array([1, 2, 3]) * scale
        assert detect(values, "lower-cluster").indices.tolist() == [0]
    for shift in (0.7, 1.1, 10.1):  # nor are these, and rounding would prefer the other split
        assert detect(shift + np.arange(5) * 0.1, "lower-cluster").indices.tolist() == [0, 1]


def test_order_scale_and_shift_do_not_matter(rng):
    values = rng.integers(-500, 500, 400) / 64
    order = rng.permutation(400)
    for rule in RULES:
        mask = detect(values, rule).mask
        np.testing.assert_array_equal(detect(values[order], rule).mask, mask[order])
        np.testing.assert_array_equal(detect(values * 2.0**-40, rule).mask, mask)
        np.testing.assert_array_equal(detect(values + 2.0**20, rule).mask, mask)


def test_ranking_is_the_papers(rng):
    for n in (1, 9, 10, 11, 1198, 2000):
        values = rng.normal(size=n)
        np.testing.assert_array_equal(detect(values).mask, values < np.sort(values)[int(0.1 * n)])
        assert len(detect(values, "ranking", fraction=0.1)) == n // 10
    assert len(detect(np.arange(100.0), "ranking", fraction=0.29)) == 29  # though 0.29 * 100 < 29
    assert len(detect(np.arange(100.0), fraction=0)) == 0
    assert len(detect(np.arange(100.0), fraction=1)) == 100


def test_ties_with_the_threshold_are_never_flagged():
    values = np.array([0.0, 1.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    found = detect(
        values, "ranking", fraction=0.3
    )  # three asked for; the third ties with the threshold
    assert (found.threshold, found.indices.tolist()) == (1.0, [0])
    found = detect([-1.0, 0.0, 1.0, 100.0], "cluster")  # the middle one is the lower centre itself
    assert (found.threshold, found.indices.tolist()) == (0.0, [0])


def test_the_threshold_is_the_whole_story(rng):
    for _ in range(30):
        values = rng.choice(rng.normal(size=6), size=int(rng.integers(1, 40)))
        for rule in RULES:
            found = detect(values, rule)
            np.testing.assert_array_equal(found.mask, values < found.threshold)


def test_neighbouring_floats_are_told_apart():
    one = np.nextafter(1.0, 2.0)
    assert detect([1.0, one, 1.0], "lower-cluster").indices.tolist() == [0, 2]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("values", [[0.1] * 3, [0.1], [-3.0] * 7, [0.0, -0.0]])
def test_equal_values_give_no_reason_to_suspect_any(rule, values):
    found = detect(values, rule)
    assert len(found) == 0
    assert found.threshold == values[0]


def test_two_rows():
    assert detect([2.0, 1.0], "lower-cluster").indices.tolist() == [1]
    assert len(detect([2.0, 1.0], "cluster")) == 0  # a single row is its own centre
    assert detect([2.0, 1.0], "ranking", fraction=0.5).indices.tolist() == [1]
    assert (
        len(detect([0.1, 0.1, 0.1, 5.0], "cluster")) == 0
    )  # three times 0.1 has a rounded mean above 0.1


def test_valuation_detects(rng):
    v = nw.KNNShapley(3).fit(rng.normal(size=(90, 2)), rng.integers(0, 2, 90)).value()
    for rule in RULES:
        found = v.detect(rule)
        assert isinstance(found, nw.Detection)
        assert found.rule == rule
        np.testing.assert_array_equal(found.mask, detect(v.values, rule).mask)
        assert set(v.bottom(len(found))) == set(found.indices)
    assert len(v.detect("ranking", fraction=0.2)) == 18


def test_how_it_looks():
    found = detect([3.0, 1.0, 2.0, 5.0], "ranking", fraction=0.5)
    assert repr(found) == "Detection('ranking'): 2 of 4 rows flagged, value below 3"
    assert repr(detect([3.0, 1.0, 2.0], "cluster")).startswith("Detection('cluster'): 0 of 3 rows")
    again = pickle.loads(pickle.dumps(found))
    assert again.indices.tolist() == [1, 2]


def test_rules_are_checked():
    with pytest.raises(ValueError, match="Did you mean 'ranking'"):
        detect([1.0], "rankin")


def test_bad_fractions():
    for fraction in (-0.1, 1.1, math.nan, "half", True):
        with pytest.raises(ValueError, match="fraction must be a number from 0 to 1"):
            detect([1.0, 2.0], fraction=fraction)
    with pytest.raises(ValueError, match="no meaning for rule='cluster'"):
        detect([1.0, 2.0], "cluster", fraction=0.1)
    with pytest.raises(TypeError, match="rule must be one of"):
        detect([1.0], 3)
