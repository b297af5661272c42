"""Rows of one group never vote for each other: against the definition, and everywhere a run may
go.
"""

from __future__ import annotations

import numpy as np
import pytest

import nearworth as nw
from helpers.definition import SEMIVALUES, UTILITIES, defined_values, utility_function
from nearworth._common import native

TASKS = ("classification", "regression")


def of_definition(X, y, groups, Q, q, query_groups, *, k, task, utility, semivalue, ties, itself):
    """Mean over queries of the values in the game of all training rows outside of the query's
    group.
    """
    total = np.zeros(len(y))
    for number, (point, label, group) in enumerate(zip(Q, q, query_groups, strict=True)):
        rows = np.flatnonzero((groups != group) & ((np.arange(len(y)) != number) | (not itself)))
        distances = ((X[rows] - point) ** 2).sum(axis=1)
        game = utility_function(
            task, utility, distances, y[rows], label, k, len(np.unique(y)), ties
        )
        total[rows] += defined_values(game, len(rows), semivalue)
    return total / len(Q)


def make(rng, n, task, n_groups):
    X = rng.integers(0, 4, (n, 2)).astype(float)  # ties and copies
    y = rng.integers(0, 3, n) if task == "classification" else rng.integers(-3, 4, n).astype(float)
    return X, y, rng.integers(0, n_groups, n)


@pytest.mark.parametrize("native_code", [True, False])
@pytest.mark.parametrize("ties", ["average", "index"])
@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.parametrize("task", TASKS)
def test_self_valuation_leaves_out_the_whole_group(
    task, utility, ties, native_code, rng, monkeypatch
):
    if not native_code:
        monkeypatch.setattr(native, "library", lambda: None)
    for semivalue in SEMIVALUES[:4]:
        for k in (1, 2, 9):
            X, y, groups = make(rng, 7, task, 3)
            groups[:2] = 0, 1  # two groups at least, or nothing predicts anything
            est = nw.KNNShapley(k, task, utility, semivalue, ties=ties).fit(X, y)
            game = {"k": k, "task": task, "utility": utility, "semivalue": semivalue, "ties": ties}
            expected = of_definition(X, y, groups, X, y, groups, itself=True, **game)
            np.testing.assert_allclose(
                est.value(groups=groups).values, expected, rtol=0, atol=1e-12
            )


@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.parametrize("task", TASKS)
def test_validation_rows_of_a_group_are_not_predicted_by_it(task, utility, rng):
    for k in (1, 3):
        X, y, groups = make(rng, 6, task, 3)
        groups[:2] = 0, 1
        Q, q, query_groups = make(rng, 5, task, 5)  # groups 3 and 4 have no training row
        est = nw.KNNShapley(k, task, utility).fit(X, y)
        game = {"k": k, "task": task, "utility": utility, "semivalue": "shapley", "ties": "average"}
        if task == "classification":
            q = np.where(np.isin(q, y), q, y[0])
        expected = of_definition(X, y, groups, Q, q, query_groups, itself=False, **game)
        found = est.value(Q, q, groups=(groups, query_groups)).values
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("task", TASKS)
def test_groups_of_one_are_plain_self_valuation(task, rng):
    X, y, _ = make(rng, 300, task, 1)
    est = nw.KNNShapley(5, task, standard_errors=True).fit(X, y)
    plain = est.value()
    grouped = est.value(groups=[f"row {i}" for i in range(300)])
    # Not to the bit: copies share one sum only where they meet the same games.
    np.testing.assert_allclose(plain.values, grouped.values, rtol=0, atol=1e-15)
    np.testing.assert_allclose(plain.standard_errors, grouped.standard_errors, rtol=0, atol=1e-15)


@pytest.mark.filterwarnings("ignore:X_val. .*training rows too")
def test_large_groups_as_by_hand(rng):
    """Sizes at which products and cells are used, against one game per group."""
    n = 3000
    k = 5
    X = rng.normal(size=(n, 8))
    X[1::7] = X[::7][: len(X[1::7])]  # copies
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 1)
    groups = rng.integers(0, 40, n)
    expected = np.zeros(n)
    for group in range(40):
        inside = groups == group
        part = nw.KNNShapley(k, aggregate="sum", n_classes=3).fit(X[~inside], y[~inside])
        expected[~inside] += part.value(X[inside], y[inside]).values / n
    est = nw.KNNShapley(k).fit(X, y)
    found = est.value(groups=groups)
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-14)
    again = nw.KNNShapley(k, n_jobs=1, max_memory="20MB").fit(X, y).value(groups=groups)
    np.testing.assert_array_equal(found.values, again.values)
    certified = nw.KNNShapley(k, max_error=0.1 / n).fit(X, y).value(groups=groups)
    assert np.abs(certified.values - expected).max() <= certified.error_bound + 1e-13


def test_contributions_add_up(rng):
    X, y, groups = make(rng, 80, "classification", 9)
    v = nw.KNNShapley(3).fit(X, y).value(groups=groups, contributions="all")
    np.testing.assert_allclose(v.contributions.mean(axis=0), v.values, rtol=0, atol=1e-14)
    assert (v.contributions[groups[:, None] == groups] == 0).all()


def test_copies_in_other_groups_keep_their_own_values():
    """Identical rows have equal values only if they meet the same games."""
    X = [[0.0], [0.0], [1.0], [2.0]]
    y = ["a", "a", "b", "a"]
    v = nw.KNNShapley(1).fit(X, y).value(groups=["g", "h", "g", "h"])
    expected = of_definition(
        np.array(X),
        np.array(y),
        np.array(list("ghgh")),
        np.array(X),
        y,
        np.array(list("ghgh")),
        k=1,
        task="classification",
        utility="soft",
        semivalue="shapley",
        ties="average",
        itself=True,
    )
    np.testing.assert_allclose(v.values, expected, rtol=0, atol=1e-14)
    assert v.values[0] != v.values[1]


def test_checkpoints_and_executors_give_the_same_bits(rng, tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    X, y, groups = make(rng, 400, "classification", 30)
    est = nw.KNNShapley(4).fit(X, y)
    here = est.value(groups=groups).values
    np.testing.assert_array_equal(est.value(groups=groups, checkpoint=tmp_path / "c").values, here)
    assert est.value(groups=groups, checkpoint=tmp_path / "c").resumed == 400
    with pytest.raises(ValueError, match="checkpoint"):
        est.value(groups=groups[::-1], checkpoint=tmp_path / "c")
    with ThreadPoolExecutor(2) as executor:
        np.testing.assert_array_equal(est.value(groups=groups, executor=executor).values, here)
        sets = X[:100], y[:100]
        there = est.value(*sets, groups=(groups, groups[:100]), executor=executor).values
    np.testing.assert_array_equal(est.value(*sets, groups=(groups, groups[:100])).values, there)


def test_bad_groups_are_refused(rng):
    X, y, groups = make(rng, 20, "classification", 4)
    est = nw.KNNShapley(3).fit(X, y)
    with pytest.raises(ValueError, match="groups has 19 entries for 20 rows"):
        est.value(groups=groups[:19])
    with pytest.raises(ValueError, match="one group"):
        est.value(groups=np.zeros(20))
    with pytest.raises(
        ValueError, match="groups of the training rows and groups of the validation rows"
    ):
        est.value(X, y, groups=groups)
    with pytest.raises(ValueError, match="groups.*every neighbour"):
        nw.KNNShapley(3, n_candidates=5).fit(X, y).value(groups=groups)
