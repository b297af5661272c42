"""The estimator against the definition, from raw points to values."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearworth as nw
from helpers.definition import SEMIVALUES, UTILITIES, utility_function

TASKS = ("classification", "regression")


def squared_distances(X, x):
    """Exactly, as whole numbers."""
    return [sum((int(a) - int(b)) ** 2 for a, b in zip(row, x, strict=True)) for row in X]


def mean_utility(task, utility, X, y, X_val, y_val, weights, k, n_classes, ties):
    """Utility of a set of training points on a weighted validation set, exactly."""
    games = [
        utility_function(task, utility, squared_distances(X, x), y, t, k, n_classes, ties)
        for x, t in zip(X_val, y_val, strict=True)
    ]
    shares = [Fraction(w) / sum(map(Fraction, weights)) for w in weights]
    return lambda subset: sum(
        share * game(subset) for share, game in zip(shares, games, strict=True)
    )


def small_problem(task, rng, n, n_val, spread):
    X = rng.integers(0, spread, (n, 2))
    X_val = rng.integers(0, spread, (n_val, 2))
    if task == "classification":
        return X, rng.integers(0, 3, n).tolist(), X_val, rng.integers(0, 3, n_val).tolist()
    return (
        X,
        (rng.integers(-8, 9, n) / 4).tolist(),
        X_val,
        (rng.integers(-8, 9, n_val) / 4).tolist(),
    )


@pytest.mark.filterwarnings("ignore:y_val has .* labels? that no training point carries")
@pytest.mark.parametrize("semivalue", SEMIVALUES)
@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("ties", ["average", "index"])
def test_weighted_validation_set(task, utility, semivalue, ties, rng):
    for spread, k in ((2, 1), (2, 3), (3, 4), (50, 2), (50, 9)):
        X, y, X_val, y_val = small_problem(task, rng, 6, 3, spread)
        weights = [1, 0, 2.5]
        n_classes = 4
        game = mean_utility(task, utility, X, y, X_val, y_val, weights, k, n_classes, ties)
        expected = nw.exact_shapley(game, 6, semivalue=semivalue).astype(float)
        values = nw.knn_shapley(
            X,
            y,
            X_val,
            y_val,
            n_neighbors=k,
            task=task,
            utility=utility,
            semivalue=semivalue,
            ties=ties,
            n_classes=n_classes,
            sample_weight=weights,
        )
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("semivalue", SEMIVALUES)
@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("ties", ["average", "index"])
def test_self_valuation(task, utility, semivalue, ties, rng):
    """Without a validation set: each point predicted from all but itself, by brute force over the
    summed game.
    """
    for n, spread, k in ((2, 3, 1), (3, 1, 1), (3, 2, 5), (6, 2, 3), (6, 50, 2)):
        X, y, _, _ = small_problem(task, rng, n, 1, spread)
        n_classes = len(set(y))
        games = [
            utility_function(task, utility, squared_distances(X, X[t]), y, y[t], k, n_classes, ties)
            for t in range(n)
        ]

        def total(subset, n=n, games=games):
            return sum(games[t](tuple(i for i in subset if i != t)) for t in range(n)) / Fraction(n)

        expected = nw.exact_shapley(total, n, semivalue=semivalue).astype(float)
        est = nw.KNNShapley(k, task=task, utility=utility, semivalue=semivalue, ties=ties).fit(X, y)
        np.testing.assert_allclose(est.value().values, expected, rtol=0, atol=1e-12)


@settings(max_examples=60)
@given(data=st.data(), task=st.sampled_from(TASKS), utility=st.sampled_from(UTILITIES))
def test_any_small_data(data, task, utility):
    """Hypothesis looks for data, ties, weights and K that break it."""
    n = data.draw(st.integers(1, 5))
    n_val = data.draw(st.integers(1, 3))
    coordinate = st.integers(-3, 3)
    X = data.draw(st.lists(st.lists(coordinate, min_size=1, max_size=1), min_size=n, max_size=n))
    X_val = data.draw(
        st.lists(st.lists(coordinate, min_size=1, max_size=1), min_size=n_val, max_size=n_val)
    )
    label = (
        st.integers(0, 2) if task == "classification" else st.integers(-20, 20).map(lambda v: v / 8)
    )
    y = data.draw(st.lists(label, min_size=n, max_size=n))
    y_val = data.draw(st.lists(st.sampled_from(y), min_size=n_val, max_size=n_val))
    weights = data.draw(st.lists(st.integers(1, 4), min_size=n_val, max_size=n_val))
    k = data.draw(st.integers(1, n + 3))
    semivalue = data.draw(st.sampled_from(SEMIVALUES))
    n_classes = len(set(y))
    game = mean_utility(task, utility, X, y, X_val, y_val, weights, k, n_classes, "average")
    expected = nw.exact_shapley(game, n, semivalue=semivalue).astype(float)
    values = nw.knn_shapley(
        X,
        y,
        X_val,
        y_val,
        n_neighbors=k,
        task=task,
        utility=utility,
        semivalue=semivalue,
        sample_weight=weights,
    )
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 0.5, 0.0, 3.0]])
@pytest.mark.parametrize("aggregate", ["mean", "sum"])
@pytest.mark.parametrize("task", TASKS)
def test_standard_errors_and_contributions_by_their_definition(task, aggregate, weights, rng):
    X, y, X_val, y_val = small_problem(task, rng, 7, 5, 9)
    y_val = rng.choice(y, 5).tolist()
    one_by_one = np.array(
        [
            nw.knn_shapley(X, y, [x], [t], n_neighbors=2, task=task)
            for x, t in zip(X_val, y_val, strict=True)
        ]
    )
    w = np.ones(5) if weights is None else np.array(weights)
    est = nw.KNNShapley(2, task=task, aggregate=aggregate, standard_errors=True).fit(X, y)
    v = est.value(X_val, y_val, weights, contributions=[6, 0, 3])
    mean = w @ one_by_one / w.sum()
    n = np.count_nonzero(w)  # a point of weight 0 is as if it were not there
    errors = np.sqrt(n / (n - 1) * (w**2 @ (one_by_one - mean) ** 2)) / w.sum()
    scale = w.sum() if aggregate == "sum" else 1.0
    np.testing.assert_allclose(v.values, scale * mean, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(v.standard_errors, scale * errors, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(v.contributions, one_by_one[:, [6, 0, 3]])
    assert v.contribution_rows.tolist() == [6, 0, 3]

    owners = np.array(["x", "y", "x", "z", "x", "y", "z"])
    by_owner = v.sum_by(owners)
    for owner in "xyz":
        single = one_by_one[:, owners == owner].sum(axis=1)
        total = w @ single / w.sum()
        error = np.sqrt(n / (n - 1) * (w**2 @ (single - total) ** 2)) / w.sum()
        assert by_owner[owner].total == pytest.approx(scale * total, rel=1e-12, abs=1e-15)
        assert by_owner[owner].standard_error == pytest.approx(scale * error, rel=1e-12, abs=1e-15)
        if v.values.sum() == 0:  # shares of nothing are no shares
            assert np.isnan(by_owner[owner].share)
        else:
            assert by_owner[owner].share * v.values.sum() == pytest.approx(
                by_owner[owner].total, rel=1e-12, abs=1e-18
            )
        assert by_owner[owner].n_rows == (owners == owner).sum()


def test_standard_errors_of_equal_terms_are_exactly_zero_and_of_one_point_unknown():
    est = nw.KNNShapley(1, standard_errors=True).fit([[0], [1]], [0, 1])
    assert est.value([[0]] * 7, [0] * 7).standard_errors.tolist() == [0.0, 0.0]
    assert np.isnan(est.value([[0]], [0]).standard_errors).all()


def test_self_contributions_leave_the_point_itself_out(rng):
    X = rng.normal(size=(30, 2))
    y = rng.integers(0, 2, 30)
    v = nw.KNNShapley(3).fit(X, y).value(contributions="all")
    assert v.contributions.shape == (30, 30)
    assert (np.diag(v.contributions) == 0).all()
    np.testing.assert_allclose(v.contributions.mean(axis=0), v.values, rtol=1e-12, atol=1e-16)
    keep = np.arange(30) != 4
    without = nw.knn_shapley(X[keep], y[keep], X[4:5], y[4:5], n_neighbors=3)
    np.testing.assert_allclose(v.contributions[4, keep], without, rtol=1e-12, atol=1e-16)


def test_a_validation_label_unseen_in_training_matches_nothing_and_warns_once(recwarn):
    values = nw.knn_shapley(
        [[0], [1], [2]], ["a", "b", "a"], [[0], [1], [0]], ["zebra", "a", "zebra"], n_neighbors=2
    )
    assert [str(w.message) for w in recwarn] == [
        "y_val has 2 labels that no training point carries ('zebra'); they match nothing."
    ]
    assert recwarn[0].filename == __file__
    distances = [[0, 1, 2], [1, 0, 1], [0, 1, 2]]
    games = [
        utility_function("classification", "soft", d, ["a", "b", "a"], t, 2, 2)
        for d, t in zip(distances, ["zebra", "a", "zebra"], strict=True)
    ]
    expected = nw.exact_shapley(lambda s: sum(g(s) for g in games) / Fraction(3), 3).astype(float)
    np.testing.assert_allclose(values, expected, atol=1e-15)


def test_one_point_one_class():
    assert nw.knn_shapley([[3.0]], ["only"], [[5.0]], ["only"], n_neighbors=5).tolist() == [
        0.0
    ]  # 1 - 1/C with C = 1
    assert nw.knn_shapley(
        [[3.0]], ["only"], [[5.0]], ["only"], n_neighbors=5, n_classes=2
    ).tolist() == [0.5]
    assert nw.knn_shapley(
        [[3.0]], ["only"], [[5.0]], ["only"], n_neighbors=5, utility="original"
    ).tolist() == [0.2]


@pytest.mark.parametrize("k", [np.uint8(16), np.int8(5), np.int32(50_000), np.int64(3)])
@pytest.mark.parametrize("utility", UTILITIES)
def test_numpy_integers_as_k(k, utility, rng):
    X = rng.normal(size=(300, 1))
    y = rng.normal(size=300)
    values = nw.knn_shapley(X, y, [[0.0]], [1.0], n_neighbors=k, task="regression", utility=utility)
    np.testing.assert_array_equal(
        values,
        nw.knn_shapley(
            X, y, [[0.0]], [1.0], n_neighbors=int(k), task="regression", utility=utility
        ),
    )


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_distances_in_any_layout(rng, task):
    y = rng.integers(0, 3, 30)
    distances = rng.random((8, 30))
    est = nw.KNNShapley(3, task, metric="precomputed").fit(None, y)
    expected = est.value(distances, y[:8]).values
    for layout in (
        np.asfortranarray(distances),
        np.repeat(distances, 2, axis=1)[:, ::2],
        distances[::-1][::-1],
    ):
        np.testing.assert_array_equal(est.value(layout, y[:8]).values, expected)
