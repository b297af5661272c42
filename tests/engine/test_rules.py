"""Votes within a radius, votes with weights by distance, and values with noise for privacy."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

import nearworth as nw
from helpers.definition import SEMIVALUES, UTILITIES, defined_values, nearest_sets
from nearworth._common import native
from nearworth.engine.rules import RadiusRule
from nearworth.neighbors.keys import make_keys


def inverse(distances):
    return 1.0 / (1.0 + distances)


def radius_game(distances, labels, label, *, radius, n_classes):
    """The share of right labels among the rows of a subset within the radius."""

    def utility(subset):
        votes = [int(labels[i] == label) for i in subset if distances[i] <= radius]
        if not votes:
            return Fraction(1, n_classes)
        return Fraction(sum(votes), len(votes))

    return utility


def weighted_game(distances, labels, label, *, k, utility, n_classes, ties):
    """The mean weight of right labels, over all ways to choose the nearest rows of a subset.

    Weights are the exact fractions that floats are.
    """
    weights = [Fraction(weight) for weight in inverse(np.array(distances))]

    def score(nearest):
        right = sum((weights[i] for i in nearest if labels[i] == label), Fraction())
        return right / (k if utility == "original" else len(nearest))

    def utility_of(subset):
        if not subset and utility == "soft":
            return Fraction(1, n_classes)
        choices = nearest_sets(subset, distances, k, ties)
        return sum(score(nearest) for nearest in choices) / len(choices)

    return utility_of


def test_radius_agrees_with_the_definition(rng):
    for _ in range(8):
        X = rng.integers(0, 4, (8, 2)).astype(float)
        y = np.append([0, 1, 2], rng.integers(0, 3, 5))
        Q = rng.integers(0, 4, (3, 2))
        q = rng.integers(0, 3, 3)
        radius = float(rng.choice([0.5, 1, 2, 9]))
        for semivalue in (*SEMIVALUES, "composite"):
            expected = np.zeros(8)
            for point, label in zip(Q, q, strict=True):
                distances = np.sqrt(((X - point) ** 2).sum(axis=1))
                game = radius_game(distances, y, label, radius=radius, n_classes=3)
                expected += defined_values(game, 8, semivalue) / 3
            found = nw.KNNShapley(radius=radius, semivalue=semivalue).fit(X, y).value(Q, q).values
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_radius_is_the_formula_of_the_paper(rng):
    """Wang et al. 2023: u/n + (H_n - 1)(n u - T)/(n (n - 1)) - 1/(C n) for the n points within."""
    X = rng.normal(size=(100, 2))
    y = rng.integers(0, 2, 100)
    values = nw.KNNShapley(radius=1.0).fit(X, y).value([[0.0, 0.0]], [1]).values
    inside = np.sqrt((X**2).sum(axis=1)) <= 1.0
    u = (y == 1).astype(float)
    n = inside.sum()
    total = u[inside].sum()
    harmonic = (1.0 / np.arange(1, n + 1)).sum()
    expected = np.where(
        inside, u / n + (harmonic - 1) * (n * u - total) / (n * (n - 1)) - 1 / (2 * n), 0.0
    )
    np.testing.assert_allclose(values, expected, atol=1e-14)


@pytest.mark.parametrize(
    "metric", ["euclidean", "sqeuclidean", "cosine", "manhattan", "precomputed"]
)
def test_any_metric_and_large_sets(rng, metric):
    """Above 128 rows Euclidean distances go through a matrix product; grid points lie on the
    radius.
    """
    X = rng.integers(-3, 4, (600, 3)).astype(float)
    y = rng.integers(0, 3, 600)
    X[~X.any(axis=1)] = 1.0
    Q = rng.integers(1, 4, (30, 3)).astype(float)
    q = rng.integers(0, 3, 30)
    radius = {"cosine": 0.2}.get(metric, 3.0)
    from sklearn.metrics import pairwise_distances

    D = pairwise_distances(Q, X, "manhattan" if metric == "precomputed" else metric)
    given = nw.KNNShapley(radius=radius, metric="precomputed").fit(None, y)
    if metric == "precomputed":
        inside = radius >= D
        assert (given.value(D, q).values[~inside.any(axis=0)] == 0).all()
        return
    near = np.abs(D - radius) < 1e-9  # rounding must not decide
    D[near] = radius
    found = (
        nw.KNNShapley(radius=radius + 1e-12, metric=metric, standard_errors=True)
        .fit(X, y)
        .value(Q, q)
    )
    np.testing.assert_allclose(found.values, given.value(D, q).values, rtol=0, atol=1e-14)
    alone = nw.KNNShapley(radius=radius + 1e-12, metric=metric).fit(X, y).value(Q, q)
    np.testing.assert_allclose(alone.values, found.values, rtol=0, atol=1e-15)


def test_a_point_on_the_radius_is_within_it(rng):
    X = rng.integers(-9, 10, (500, 2)).astype(float) + 1000.0
    y = rng.integers(0, 2, 500)
    Q = np.full((10, 2), 1000.0)
    values = nw.KNNShapley(radius=5.0).fit(X, y).value(Q, np.ones(10)).values
    assert ((values != 0) == (((X - 1000.0) ** 2).sum(axis=1) <= 25.0)).all()


def private(**parameters):
    pytest.importorskip(
        "dp_accounting", reason="dp-accounting is not installed: pip install 'nearworth[privacy]'"
    )
    return nw.KNNShapley(radius=2.0, n_classes=3, privacy=(1.0, 1e-5), **parameters)


def test_private_values_are_those_of_counts_with_noise(rng, monkeypatch):
    """The values of the definition, with noise on the numbers of other voters and of matches among
    them.
    """
    X = rng.normal(size=(60, 2))
    y = rng.integers(0, 3, 60)
    Q = rng.normal(size=(4, 2))
    q = rng.integers(0, 3, 4)
    plain = nw.KNNShapley(radius=2.0, n_classes=3).fit(X, y).value(Q, q)
    with monkeypatch.context() as patched:
        patched.setattr("nearworth.engine.plan.privacy_noise", lambda *_: 1e-9)
        almost = private(random_state=0).fit(X, y).value(Q, q)
    np.testing.assert_allclose(almost.values, plain.values, atol=1e-8)
    assert "normal noise" in str(private(random_state=0).fit(X, y).plan(4))
    drawn = [private(random_state=seed).fit(X, y).value(Q, q).values for seed in range(3)]
    assert all(not np.allclose(values, plain.values, atol=1e-3) for values in drawn)
    assert not np.allclose(drawn[0], drawn[1])
    outside = (((Q[:, None] - X) ** 2).sum(axis=2) > 4.0).all(axis=0)
    assert (drawn[0][outside] == 0).all()


def test_noise_is_what_the_analytic_gaussian_mechanism_needs():
    """Balle & Wang 2018 give the least deviation in closed form; a row moves 2 counts of each of 50
    queries by one.
    """
    from scipy.special import ndtr

    from nearworth.engine.rules import privacy_noise

    pytest.importorskip(
        "dp_accounting", reason="dp-accounting is not installed: pip install 'nearworth[privacy]'"
    )
    for epsilon, delta in ((1.0, 1e-5), (0.5, 1e-6)):
        noise = privacy_noise((epsilon, delta), 50) / np.sqrt(2 * 50)
        spent = ndtr(0.5 / noise - epsilon * noise) - np.exp(epsilon) * ndtr(
            -0.5 / noise - epsilon * noise
        )
        assert delta * 0.99 < spent <= delta * 1.001


def test_a_row_gets_the_same_noise_in_any_part_of_a_run(rng, tmp_path):
    X = rng.normal(size=(300, 2))
    y = rng.integers(0, 3, 300)
    Q = rng.normal(size=(130, 2))
    q = rng.integers(0, 3, 130)
    est = private(random_state=3).fit(X, y)
    whole = est.value(Q, q).values
    np.testing.assert_array_equal(
        private(random_state=3, n_jobs=1).fit(X, y).value(Q, q).values, whole
    )
    with ThreadPoolExecutor(2) as executor:
        np.testing.assert_array_equal(
            est.value(Q, q, executor=executor, scratch=tmp_path).values, whole
        )
    fresh = private().fit(X, y)
    assert not np.array_equal(
        fresh.value(Q, q).values, fresh.value(Q, q).values
    )  # without a seed, a secret one


def test_noise_is_not_used_twice_with_one_seed(rng):
    """The difference of two runs with the same noise would tell the counts of other rows
    exactly.
    """
    X = rng.normal(size=(60, 2))
    y = rng.integers(0, 3, 60)
    Q = rng.normal(size=(9, 2))
    q = rng.integers(0, 3, 9)
    X[-1] = 1e6  # within no radius: the counts are the same without it
    y[-1] = y[0]
    with_it, without = (
        private(random_state=1).fit(X[:n], y[:n]).value(Q, q).values for n in (60, 59)
    )
    assert not np.allclose(with_it[:59], without)
    seeds = [private(random_state=1).fit(X, y).plan(n_val).method.rule.seed for n_val in (8, 9, 9)]
    assert (
        seeds[0] != seeds[1] == seeds[2]
    )  # other deviations, which would be multiples of the same noise


def test_equal_validation_rows_have_noise_of_their_own():
    """With the same noise, their values would be equal and standard errors would not see it."""
    est = private(random_state=1).fit([[0.0]] * 20, np.zeros(20, dtype=int))
    kept = est.value([[0.0], [0.0]], [0, 0], contributions=[0]).contributions
    assert kept[0, 0] != kept[1, 0]


def test_points_with_equal_checksums_have_noise_of_their_own():
    """CRC-32 is the same for these two points; with the same noise, the difference of their counts
    would be exact.
    """
    one = 36.63447
    other = 5.7315941
    est = private(random_state=1).fit([[one], [other]] * 20, np.zeros(40, dtype=int))
    kept = est.value([[one], [other]], [0, 0], contributions=[0, 1]).contributions
    assert kept[0, 0] != kept[1, 1]


def test_what_privacy_cannot_have(rng):
    est = private().fit(rng.normal(size=(9, 2)), rng.integers(0, 3, 9))
    with pytest.raises(ValueError, match="all validation rows at once"):
        est.value()
    with pytest.raises(ValueError, match="no privacy"):
        est.partial(rng.normal(size=(3, 2)), [0, 1, 2])


@pytest.mark.skipif(not native.available(), reason="needs compiled code")
def test_rows_certainly_within_the_radius_need_no_exact_distance(rng, monkeypatch):
    """Of 3,000 rows half are within; exact distances are computed for the few between two
    limits.
    """
    X = rng.normal(size=(3000, 8))
    y = rng.integers(0, 2, 3000)
    n_open = []
    limits = RadiusRule.limits

    def counted(self, problem, block):
        sure, possible = limits(self, problem, block)
        n_open.append(
            np.count_nonzero((block.qkeys >= sure[:, None]) & (block.qkeys <= possible[:, None]))
        )
        return sure, possible

    monkeypatch.setattr(RadiusRule, "limits", counted)
    est = nw.KNNShapley(radius=4.0).fit(X, y)
    found = est.value(X[:20] + 0.01, y[:20]).values
    assert n_open
    assert sum(n_open) < 0.05 * 20 * 3000
    distances = np.sqrt(((X[:20, None] + 0.01 - X) ** 2).sum(axis=2))
    precomputed = (
        nw.KNNShapley(radius=4.0, metric="precomputed").fit(None, y).value(distances, y[:20])
    )
    np.testing.assert_allclose(found, precomputed.values, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    "tiny", [1.0, 1e-160]
)  # with tiny numbers, exact keys are scaled and come from a function
@pytest.mark.parametrize("radius", [2.0, 1e200])
def test_sums_of_blocks_are_those_of_single_queries(rng, tiny, radius):
    """To the bit, with weights, groups and queries beyond what products serve for."""
    X = rng.normal(size=(700, 3))
    y = rng.integers(0, 3, 700)
    groups = rng.integers(0, 60, 700)
    X[0] *= tiny
    Q = X[:150] + 0.1
    q = rng.integers(0, 3, 150)
    Q[[3, 77]] = 1e95
    for arguments in (
        {"X_val": Q, "y_val": q, "sample_weight": rng.random(150)},
        {"sample_weight": rng.random(700)},
        {"groups": groups},
    ):
        sums, single = (
            nw.KNNShapley(radius=radius, standard_errors=each).fit(X, y).value(**arguments).values
            for each in (False, True)
        )
        np.testing.assert_array_equal(sums, single)
        assert sums.any()


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "nan_euclidean"])
def test_the_largest_key_within_a_radius(rng, metric):
    """Its distance is not above the radius, and that of the next larger float is."""
    X = rng.normal(size=(5, 2))
    for points in (X, X * 1e-170):
        for radius in (5e-324, 1e-300, 1e-200, 1e-120, 0.1, 3.0, 1e120):
            keys, largest = make_keys(points, metric, None).within(radius)
            near = np.array([[largest, math.nextafter(largest, math.inf)]])
            inside, beyond = keys.as_distances(near, points[:1])[0].tolist()
            assert inside <= radius
            assert beyond > radius or (
                beyond == radius < 1e-292
            )  # distances so small are rounded once more


def test_rows_at_the_edge_of_a_radius_are_told_apart(rng):
    """Far more closely than products in single precision can: by exact distances."""
    X = rng.normal(size=(2000, 8))
    y = rng.integers(0, 2, 2000)
    radius = 4.0
    X[:1000] *= radius / np.linalg.norm(X[:1000], axis=1, keepdims=True)
    X[:500] *= 1 - 1e-9
    X[500:1000] *= 1 + 1e-9
    Q = np.zeros((10, 8))
    found = nw.KNNShapley(radius=radius).fit(X, y).value(Q, np.zeros(10, dtype=int)).values
    assert (found[:500] != 0).all()
    assert (found[500:1000] == 0).all()


def test_radius_without_a_validation_set_groups_checkpoints_and_executors(rng, tmp_path):
    X = rng.normal(size=(200, 2))
    y = rng.integers(0, 2, 200)
    groups = rng.integers(0, 40, 200)
    est = nw.KNNShapley(radius=0.7).fit(X, y)
    D = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    for given in (None, groups):
        alone = np.arange(200) if given is None else given
        total = np.zeros(200)
        for i in range(200):
            rows = np.flatnonzero(alone != alone[i])
            total[rows] += (
                nw.KNNShapley(radius=0.7, metric="precomputed")
                .fit(None, y[rows])
                .value(D[i : i + 1, rows], y[i : i + 1])
                .values
            )
        np.testing.assert_allclose(est.value(groups=given).values, total / 200, atol=1e-14)
    Q = X + 0.1
    here = est.value(Q, y).values
    np.testing.assert_array_equal(est.value(Q, y, checkpoint=tmp_path / "c").values, here)
    with ThreadPoolExecutor(2) as executor:
        np.testing.assert_array_equal(est.value(Q, y, executor=executor).values, here)
    assert "within 0.7" in str(est.plan(100))


@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.parametrize("ties", ["average", "index"])
def test_weights_agree_with_the_definition(rng, utility, ties):
    for _ in range(5):
        X = rng.integers(0, 3, (7, 2)).astype(float)
        y = np.append([0, 1, 2], rng.integers(0, 3, 4))
        Q = rng.integers(0, 3, (2, 2))
        q = rng.integers(0, 3, 2)
        k = int(rng.integers(1, 9))
        for semivalue in ("shapley", "banzhaf", ("beta", 4, 1), ("sizes", 1, 4)):
            expected = np.zeros(7)
            for point, label in zip(Q, q, strict=True):
                distances = np.sqrt(((X - point) ** 2).sum(axis=1)).tolist()
                game = weighted_game(
                    distances, y, label, k=k, utility=utility, n_classes=3, ties=ties
                )
                expected += defined_values(game, 7, semivalue) / 2
            for weights in ("inverse", inverse):
                est = nw.KNNShapley(
                    k, utility=utility, ties=ties, semivalue=semivalue, weights=weights
                )
                np.testing.assert_allclose(
                    est.fit(X, y).value(Q, q).values, expected, rtol=0, atol=1e-12
                )


def test_equal_weights_are_the_plain_value(rng):
    X = rng.normal(size=(50, 3))
    y = rng.integers(0, 3, 50)
    for parameters in ({}, {"utility": "original"}, {"metric": "cosine"}):
        weighted = nw.KNNShapley(3, weights=np.ones_like, **parameters).fit(X, y)
        np.testing.assert_allclose(
            weighted.value().values,
            nw.KNNShapley(3, **parameters).fit(X, y).value().values,
            atol=1e-14,
        )


@pytest.mark.parametrize(
    "numbers",
    [np.array([[3, 4], [1, 0], [-2, 1]]), np.array([[0.3, 0.41], [1.0, 0.07], [-0.2, 0.1]])],
)
def test_distances_of_cosine_keys(numbers):
    from sklearn.metrics import pairwise_distances

    for metric in ("cosine", "correlation"):
        if metric == "correlation":
            numbers = np.column_stack([numbers, numbers[:, ::-1], numbers[:, 0] ** 2])
        keys = make_keys(numbers, metric, None)
        distances = keys.as_distances(keys(numbers), numbers)
        np.testing.assert_allclose(
            distances, pairwise_distances(numbers, metric=metric), atol=1e-10
        )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"radius": 1.0, "weights": "inverse"}, "weights=None"),
        ({"radius": 1.0, "task": "regression"}, "radius needs task"),
        ({"radius": 1.0, "utility": "original"}, "radius needs utility"),
        ({"radius": 1.0, "n_candidates": 3}, "radius needs n_candidates=None"),
        ({"radius": 1.0, "semivalue": ("sizes", 0, 3)}, "another semivalue"),
        ({"weights": "inverse", "max_error": 0.1}, "weights needs max_error=None"),
        ({"weights": "uniform"}, "weights must be a function"),
        ({"radius": -1.0}, "radius must be a positive number"),
        ({"privacy": (1.0, 1e-5)}, "privacy needs a radius"),
        ({"privacy": (1.0, 1e-5), "radius": 1.0}, "and n_classes"),
        ({"privacy": (1.0, 2.0), "radius": 1.0}, "privacy must be None or"),
        ({"privacy": (1e6, 1e-5), "radius": 1.0}, "at most 20"),
        ({"radius": 1.0, "metric": "inner_product"}, "no distances"),
        ({"weights": lambda d: d[:1]}, "one finite number for each"),
        ({"weights": lambda d: d / 0}, "one finite number for each"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_refused(rng, parameters, message):
    X = rng.normal(size=(9, 2))
    y = rng.integers(0, 2, 9)
    with pytest.raises((ValueError, TypeError), match=message):
        nw.KNNShapley(**parameters).fit(X, y).value(X, y)
