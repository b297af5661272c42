"""`typical_error` of valuations, against the error that they really have."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import nearworth as nw
from nearworth.engine import plan, truncate
from nearworth.engine.evaluators import evaluators_of
from nearworth.engine.run import Request, run
from nearworth.results import typical_error

N = 200
N_VAL = 400


def points(rng, n):
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + rng.normal(size=n) > 0).astype(int) + (rng.random(n) < 0.1)


class Dropping:
    """Exact search that loses a share of all neighbours at random, always the same ones of the same
    query.
    """

    def __init__(self, on_fail="partial", share=0.2):
        self.on_fail = on_fail
        self.share = share

    def fit(self, X):
        self.X = np.asarray(X)
        return self

    def search(self, Q, k):
        far = ((np.asarray(Q)[:, None] - self.X) ** 2).sum(axis=2)
        far[(np.cos(far * 1e6) * 1e6) % 1.0 < self.share] = np.inf
        rows = np.argsort(far, axis=1)[:, :k]
        far = np.take_along_axis(far, rows, axis=1)
        return np.where(np.isfinite(far), rows, -1), far


def root_mean_square(v, exact):
    return np.sqrt(((v.values - exact.values) ** 2).mean())


@pytest.mark.parametrize("question", ["validation set", "weights", "itself", "sum"])
@pytest.mark.parametrize(
    "more",
    [{}, {"utility": "original", "ties": "index"}, {"semivalue": ("beta", 4, 1), "tail": "paper"}],
)
@pytest.mark.parametrize("search", ["exact", "searcher"])
def test_where_all_are_valued_exactly_it_is_the_error(rng, monkeypatch, question, more, search):
    monkeypatch.setattr(typical_error, "MAX_POINTS", N_VAL)
    monkeypatch.setattr(truncate, "SAMPLE_SIZE", N_VAL)
    X, y = points(rng, N)
    asked = () if question == "itself" else points(rng, N_VAL)
    asked += (rng.uniform(0, 3, N_VAL),) if question == "weights" else ()
    given = more | {"aggregate": "sum" if question == "sum" else "mean"}
    exact = nw.KNNShapley(4, **{k: given[k] for k in given if k != "tail"}).fit(X, y).value(*asked)
    searcher = "exact" if search == "exact" else Dropping()
    v = (
        nw.KNNShapley(4, n_candidates=15, search=searcher, random_state=0, **given)
        .fit(X, y)
        .value(*asked)
    )
    assert v.typical_error > 1e-6
    np.testing.assert_allclose(v.typical_error, root_mean_square(v, exact), rtol=1e-9)
    np.testing.assert_allclose(v.typical_error_interval, v.typical_error, rtol=1e-9)


@pytest.mark.parametrize("parameters", [{}, {"task": "regression"}, {"n_candidates": 15}])
@pytest.mark.parametrize("compiled", [False, True])
def test_some_of_all_validation_points(rng, monkeypatch, parameters, compiled):
    """Each still takes no part in its own game."""
    if not compiled:
        monkeypatch.setattr(plan.native, "available", lambda: False)
    X, y = points(rng, N)
    est = nw.KNNShapley(4, **parameters).fit(X, y)
    rows = np.arange(N)
    some = np.array([3, 150, 151, 7])
    problem = est.training_set_.problem(None, None, None, est.get_params()).some(some)
    planned = est.plan(N)
    values = np.empty((len(some), N))
    evaluators = evaluators_of(planned.method, problem, planned)
    run(problem, 1, Request(chosen=rows, contributions=values), evaluators)
    expected = est.value(contributions=rows).contributions[some]
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("itself", "on_fail", "share"),
    [(False, "partial", 0.2), (True, "partial", 0.9), (False, "exact", 0.87)],
)
def test_without_bias_and_with_an_interval_that_covers(monkeypatch, itself, on_fail, share):
    monkeypatch.setattr(truncate, "SAMPLE_SIZE", 80)
    monkeypatch.setattr(typical_error, "MAX_POINTS", 64)
    rng = np.random.default_rng(3)
    X, y = points(rng, N)
    asked = () if itself else (*points(rng, N_VAL), rng.uniform(0, 2, N_VAL))
    exact = nw.KNNShapley(4).fit(X, y).value(*asked)
    errors = []
    covered = []
    for seed in range(25):
        search = Dropping(on_fail, share)
        v = (
            nw.KNNShapley(4, n_candidates=25, search=search, random_state=seed)
            .fit(X, y)
            .value(*asked)
        )
        truth = root_mean_square(v, exact)
        low, high = v.typical_error_interval
        errors.append(v.typical_error**2 - truth**2)
        covered.append(low <= truth <= high)
    assert abs(np.mean(errors)) <= 3 * np.std(errors) / np.sqrt(len(errors))
    assert np.mean(covered) >= 0.8


def test_exact_values_have_none(rng):
    X, y = points(rng, N)
    for parameters in (
        {},
        {"n_candidates": N},
        {"task": "regression"},
        {"task": "regression", "max_error": 0.1},
    ):
        v = nw.KNNShapley(4, **parameters).fit(X, y).value()
        assert (v.typical_error, v.typical_error_interval) == (0.0, (0.0, 0.0))
        assert v.describe_error() == ""


@pytest.mark.parametrize("aggregate", ["mean", "sum"])
def test_saved_pickled_and_added_up(rng, tmp_path, aggregate):
    X, y = points(rng, N)
    est = nw.KNNShapley(4, n_candidates=15, aggregate=aggregate).fit(X, y)
    one, other = (est.value(*points(rng, n)) for n in (50, 150))
    one.save(tmp_path / "v.npz")
    for lost in (
        nw.Valuation.load(tmp_path / "v.npz"),
        pickle.loads(pickle.dumps(one)),
        one + other,
    ):
        assert lost.typical_error is None
        assert lost.typical_error_interval is None
        assert "certain to within" in lost.describe_error()
    assert one.typical_error > 0
    one.save(tmp_path / "v.npz")
    for kept in (nw.Valuation.load(tmp_path / "v.npz"), pickle.loads(pickle.dumps(one))):
        np.testing.assert_allclose(kept.typical_error, one.typical_error, rtol=1e-14)
        np.testing.assert_allclose(
            kept.typical_error_interval, one.typical_error_interval, rtol=1e-14
        )
    assert (one + other).typical_error is None


def test_continued_values_do_not_know_it(rng):
    X, y = points(rng, N)
    est = nw.KNNShapley(4, n_candidates=15).fit(X, y)
    v = est.value(*points(rng, 50), continue_from=est.value(*points(rng, 30)))
    assert v.typical_error is None


def test_other_metrics_and_little_memory(rng):
    X, y = points(rng, N)
    asked = points(rng, 50)
    exact = nw.KNNShapley(4, metric="manhattan").fit(X, y).value(*asked)
    v = nw.KNNShapley(4, metric="manhattan", n_candidates=15).fit(X, y).value(*asked)
    np.testing.assert_allclose(v.typical_error, root_mean_square(v, exact), rtol=1e-9)
    few = nw.KNNShapley(
        4, metric="manhattan", n_candidates=15, max_memory=200_000, random_state=0
    ).fit(X, y)
    assert v.typical_error / 3 < few.value(*asked).typical_error < v.typical_error * 3


def test_the_summary_the_plan_and_the_warning_tell(rng):
    X, y = points(rng, N)
    asked = points(rng, N_VAL)
    est = nw.KNNShapley(4, max_error=0.05, search=Dropping(), random_state=0).fit(X, y)
    with pytest.warns(
        UserWarning, match=r"is certain. The typical error of a value is [\de.-]+ \(95% interval "
    ):
        v = est.value(*asked)
    assert f"typically   {v.typical_error:.2g} (95% interval" in str(v)
    assert f"; their typical error is {v.typical_error:.2g} (95% interval" in v.describe_error()
    assert "typical error from 256 validation points valued exactly during the run" in str(
        est.plan(N_VAL)
    )
    est = nw.KNNShapley(4, n_candidates=15).fit(X, y)
    assert "typical error from 50 validation points valued exactly when asked for" in str(
        est.plan(50)
    )
    v = est.value(*asked)
    assert "typical" not in str(v)
    assert v.typical_error > 0
    assert "typically" in str(v)


@pytest.mark.parametrize("n_val", [1, 2, 3])
@pytest.mark.parametrize("search", ["exact", "searcher"])
def test_one_or_two_validation_points(rng, n_val, search):
    X, y = points(rng, N)
    Q, q = points(rng, n_val)
    exact = nw.KNNShapley(4).fit(X, y).value(Q, q)
    searcher = "exact" if search == "exact" else Dropping()
    v = nw.KNNShapley(4, n_candidates=15, search=searcher, random_state=0).fit(X, y).value(Q, q)
    assert v.typical_error == pytest.approx(root_mean_square(v, exact), rel=1e-9)
    assert v.typical_error_interval == (v.typical_error, v.typical_error)


@pytest.mark.filterwarnings("ignore:max_error=.* but only")
@pytest.mark.parametrize(("share", "used"), [(0.0, True), (0.98, False)])
def test_automatic_search_uses_an_index_if_its_typical_error_allows(rng, monkeypatch, share, used):
    index = Dropping("partial", share)
    monkeypatch.setattr(plan, "MIN_INDEX_POINTS", 100)
    monkeypatch.setattr(plan, "MIN_INDEX_QUERIES", 100)
    monkeypatch.setattr(plan, "find_spec", lambda name: name)
    monkeypatch.setattr(
        plan,
        "searcher_of",
        lambda search, _: plan.as_searcher(index) if search == "faiss" else None,
    )
    X, y = points(rng, N)
    asked = points(rng, N_VAL)
    parameters = {
        "semivalue": "banzhaf",
        "max_error": 1e-3,
        "random_state": 0,
    }  # certain from few neighbours
    v = nw.KNNShapley(4, search="auto", **parameters).fit(X, y).value(*asked)
    assert (v.search is not None) == used
    if used:
        assert v.typical_error_interval[1] <= 1e-3
    else:
        np.testing.assert_array_equal(
            v.values, nw.KNNShapley(4, **parameters).fit(X, y).value(*asked).values
        )
        assert v.error_bound <= 1e-3
        assert v.typical_error < 1e-4  # not that of the index
