"""Rows given rows that are always there: against the definition, and everywhere a run may go."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nearworth as nw
from helpers.definition import SEMIVALUES, UTILITIES, defined_values, utility_function


def defined_values_given_owned(X, y, owned, Q, q, *, k, utility, semivalue, ties):
    """Values by the definition if the rows `owned` are in every coalition, shape (n,).

    The values are means over queries. Those of owned rows are 0.
    """
    candidates = np.flatnonzero(~owned).tolist()
    always = np.flatnonzero(owned).tolist()
    total = np.zeros(len(y))
    for point, label in zip(Q, q, strict=True):
        distances = ((X - point) ** 2).sum(axis=1).tolist()
        game = utility_function(
            "classification", utility, distances, y.tolist(), label, k, len(set(y)), ties
        )

        def game_of_candidates(members, game=game):
            rows = [candidates[member] for member in members]
            return game(tuple(sorted([*always, *rows])))

        total[candidates] += defined_values(game_of_candidates, len(candidates), semivalue)
    return total / len(q)


@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.parametrize("ties", ["average", "index"])
def test_values_agree_with_the_definition(rng, utility, ties):
    for _ in range(10):
        n = 8
        n_owned = int(rng.integers(0, 8))
        X = rng.integers(0, 3, (n, 2)).astype(float)
        y = np.append([0, 1, 2], rng.integers(0, 3, n - 3))
        owned = rng.permutation(np.arange(n) < n_owned)
        Q = rng.integers(0, 3, (2, 2))
        q = rng.integers(0, 3, 2)
        k = int(rng.integers(1, 11))
        for semivalue in (*SEMIVALUES, "composite", ("sizes", 0, 2)):
            if semivalue == ("sizes", 0, 2) and n_owned > 7:
                continue
            game = {"utility": utility, "semivalue": semivalue, "ties": ties}
            est = nw.KNNShapley(k, **game).fit(X, y)
            np.testing.assert_allclose(
                est.value(Q, q, owned=owned).values,
                defined_values_given_owned(X, y, owned, Q, q, k=k, **game),
                rtol=0,
                atol=1e-12,
                err_msg=f"{semivalue} {k} {owned} {X} {y}",
            )


def test_nothing_owned_is_the_plain_value_and_nothing_beyond_the_kth_owned_row_counts(rng):
    X = rng.normal(size=(50, 2))
    y = rng.integers(0, 2, 50)
    Q = rng.normal(size=(5, 2))
    q = rng.integers(0, 2, 5)
    est = nw.KNNShapley(3).fit(X, y)
    np.testing.assert_allclose(
        est.value(Q, q, owned=np.zeros(50, bool)).values, est.value(Q, q).values, atol=1e-14
    )
    owned = rng.random(50) < 0.5
    for point, label in zip(Q, q, strict=True):
        values = est.value(point[None], [label], owned=owned).values
        distances = ((X - point) ** 2).sum(axis=1)
        assert (values[distances > np.sort(distances[owned])[2]] == 0).all()
        assert (values[owned] == 0).all()


@pytest.mark.parametrize("decimals", [0, 6])
def test_searching_by_products_gives_the_same(rng, monkeypatch, decimals):
    """With many ties on a grid, and with none."""
    X = (rng.normal(size=(4000, 3)) * 3).round(decimals)
    y = rng.integers(0, 3, 4000)
    Q = (rng.normal(size=(40, 3)) * 3).round(decimals)
    q = rng.integers(0, 3, 40)
    owned = rng.random(4000) < 0.9
    est = nw.KNNShapley(5, standard_errors=True).fit(X, y)
    searched = est.value(Q, q, owned=owned)
    monkeypatch.setattr("nearworth.engine.plan.MIN_PRODUCT_POINTS", 10**9)
    plain = est.value(Q, q, owned=owned)
    np.testing.assert_array_equal(searched.values, plain.values)
    np.testing.assert_array_equal(searched.standard_errors, plain.standard_errors)
    np.testing.assert_allclose(
        nw.KNNShapley(5).fit(X, y).value(Q, q, owned=owned).values, plain.values, atol=1e-15
    )


def test_what_a_batch_brings_adds_up(rng):
    """Efficiency: the utility of all rows minus that of the owned ones."""
    X = rng.normal(size=(60, 2))
    y = rng.integers(0, 2, 60)
    Q = rng.normal(size=(20, 2))
    q = rng.integers(0, 2, 60)[:20]
    owned = np.arange(60) < 40
    gain = nw.KNNShapley(3, n_classes=2).fit(X, y).value(Q, q, owned=owned).values.sum()
    before = nw.KNNShapley(3, n_classes=2).fit(X[owned], y[owned]).value(Q, q).values.sum()
    assert np.isclose(
        before + gain, nw.KNNShapley(3, n_classes=2).fit(X, y).value(Q, q).values.sum(), atol=1e-13
    )


def test_checkpoints_and_executors(rng, tmp_path):
    X = rng.normal(size=(300, 4))
    y = rng.integers(0, 3, 300)
    Q = rng.normal(size=(150, 4))
    q = rng.integers(0, 3, 150)
    owned = rng.random(300) < 0.7
    est = nw.KNNShapley(4).fit(X, y)
    here = est.value(Q, q, owned=owned)
    assert here.n_val == 150
    for _ in range(2):
        np.testing.assert_array_equal(
            est.value(Q, q, owned=owned, checkpoint=tmp_path / "c").values, here.values
        )
    with ThreadPoolExecutor(2) as executor:
        np.testing.assert_array_equal(
            est.value(Q, q, owned=owned, executor=executor).values, here.values
        )
    with pytest.raises(ValueError, match="owned"):
        est.value(Q, q, continue_from=here)


def test_what_is_refused(rng):
    X = rng.normal(size=(20, 2))
    y = rng.integers(0, 2, 20)
    est = nw.KNNShapley(3).fit(X, y)
    for owned in (np.ones(19, bool), np.arange(20), ["a"] * 20):
        with pytest.raises(ValueError, match="owned must be a mask"):
            est.value(X, y, owned=owned)
    with pytest.raises(ValueError, match="all training rows are owned"):
        est.value(X, y, owned=np.ones(20, bool))
    with pytest.raises(ValueError, match="owned needs.* X_val"):
        est.value(owned=y == 1)
    with pytest.raises(ValueError, match="n_candidates"):
        nw.KNNShapley(3, n_candidates=5).fit(X, y).value(X, y, owned=y == 1)
    with pytest.raises(ValueError, match="classification"):
        nw.KNNShapley(3, task="regression").fit(X, y).value(X, y, owned=y == 1)


def test_coalitions_larger_than_all_candidates_are_refused(rng):
    est = nw.KNNShapley(2, semivalue=("sizes", 3, 8)).fit(
        rng.normal(size=(9, 2)), rng.integers(0, 2, 9)
    )
    with pytest.raises(ValueError, match="needs that many others; there are 2"):
        est.value([[0.0, 0.0]], [1], owned=np.arange(9) > 2)
