"""Values within an error from points by cell: against exact values, Theorem H, and themselves along other ways."""

import numpy as np
import pytest

import nearworth as nw
from nearworth.engine import bucket_tables
from nearworth.engine.classify import Members
from nearworth.engine.plan import SearchPlan, make_plan
from nearworth.engine.problem import ClassificationEvaluator, Problem
from nearworth.games.buckets import BucketedClassification
from nearworth.games.classification import ClassificationGame
from nearworth.neighbors.keys import make_keys


def a_problem(
    X, y, X_val, y_val, *, n_neighbors=3, metric="euclidean", utility="soft", ties="average", leave_out=False
):
    game = ClassificationGame(len(X) - leave_out, n_neighbors, int(y.max()) + 1, utility)
    return Problem(make_keys(X, metric, None), game, y, X_val, y_val, np.ones(len(y_val)), ties, leave_out)


def rows_of(problem, max_error, *, products=None):
    """Values of each query, and by how much they may be wrong."""
    made = None if products is None else problem.keys.products(narrow=products == "narrow")
    evaluator = ClassificationEvaluator(problem, Members(problem.labels), made, max_error=max_error)
    found = [(table[place], evaluator.slack) for table, place in evaluator.places(0, problem.n_val)]
    return np.array([values for values, _ in found]), np.array([slack for _, slack in found])


def points(rng, n, width, kind):
    X = rng.normal(size=(n, width))
    if kind == "ties":
        return np.round(X)
    if kind == "duplicates":
        return X[rng.integers(0, max(1, n // 3), n)]
    if kind == "outlier":
        X[0] = 1e6
    return X + 1e4 * (kind == "far from the origin")


KINDS = ("plain", "ties", "duplicates", "outlier", "far from the origin")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("utility", ["soft", "original"])
def test_values_lie_within_their_slack_of_the_exact_ones(rng, kind, utility):
    some_slack = False
    for n in (1, 2, 5, 9, 40, 700):
        for max_error in (1e-9, 3.0 / n**2, 0.3 / n, 0.3):
            X = points(rng, n, 3, kind)
            y = rng.integers(0, 3, n)
            y_val = rng.integers(-1, int(y.max()) + 1, 6)  # -1 matches nothing
            problem = a_problem(
                X, y, points(rng, 6, 3, kind), y_val, n_neighbors=int(rng.integers(1, 12)), utility=utility
            )
            exact, none = rows_of(problem, 0.0)
            values, slack = rows_of(problem, max_error)
            assert (none == 0.0).all()
            assert (slack <= max_error).all()
            assert (np.abs(values - exact).max(axis=1) <= slack + 1e-14).all()
            some_slack |= bool(slack.any())
    assert some_slack or kind == "outlier"


@pytest.mark.parametrize("ties", ["average", "index"])
@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine"])
def test_left_out_points_and_ties(rng, ties, metric):
    X = np.round(rng.normal(size=(300, 2)) * 3) + 0.5
    y = rng.integers(0, 2, 300)
    problem = a_problem(X, y, X, y, metric=metric, ties=ties, leave_out=True)
    exact, _ = rows_of(problem, 0.0)
    for max_error in (1e-12, 1e-4, 1e-2):
        values, slack = rows_of(problem, max_error)
        assert (np.diag(values) == 0.0).all()
        assert (np.abs(values - exact).max(axis=1) <= slack + 1e-14).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_way_to_the_distances_does_not_show(rng, kind):
    X, X_val = points(rng, 3000, 5, kind), points(rng, 20, 5, kind)
    problem = a_problem(X, rng.integers(0, 4, 3000), X_val, rng.integers(0, 4, 20))
    values, slack = rows_of(problem, 1e-5)
    for products in ("narrow", "wide"):
        again, same = rows_of(problem, 1e-5, products=products)
        np.testing.assert_array_equal(again, values)
        np.testing.assert_array_equal(same, slack)


def test_infinite_distances_are_ties(rng):
    D = rng.random(size=(4, 60))
    D[:, ::3] = np.inf
    y, y_val = rng.integers(0, 2, 60), rng.integers(0, 2, 4)
    problem = a_problem(np.zeros((60, 1)), y, D, y_val)
    problem = Problem(make_keys(None, "precomputed", None), problem.game, y, D, y_val, np.ones(4), "average")
    exact, _ = rows_of(problem, 0.0)
    values, slack = rows_of(problem, 1e-3)
    assert (np.abs(values - exact).max(axis=1) <= slack + 1e-14).all()


def test_a_mean_over_orders_and_its_errors_are_those_of_theorem_h(rng):
    for _ in range(50):
        k = int(rng.integers(1, 6))
        sizes = np.array([k + int(rng.integers(0, 3)), int(rng.integers(2, 2000)), int(rng.integers(0, 5))])
        matches = np.array([0, int(rng.integers(1, sizes[1])), 0])
        game = ClassificationGame(int(sizes.sum()), k, 2, "original")
        rows = BucketedClassification(game).rows(sizes[None], matches[None])
        start, position = int(sizes[0]), int(sizes[0] + sizes[1])
        match, other, lost = bucket_tables.in_mean(start, position, int(matches[1]), k)
        inside, before = bucket_tables.in_any_order(start, position, match, other, int(matches[1]))
        expected = rows.match.value[0, 1], rows.other.value[0, 1], -rows.other.value[0, 0]
        np.testing.assert_allclose((match, other, lost), expected, atol=1e-14, rtol=1e-12)
        ends = [
            (row.value[0, 1] - row.lower[0, 1], row.upper[0, 1] - row.value[0, 1]) for row in (rows.match, rows.other)
        ]
        np.testing.assert_allclose(inside, np.max(ends), atol=1e-14, rtol=1e-10)
        nearer = rows.other.value[0, 0] - rows.other.lower[0, 0], rows.other.upper[0, 0] - rows.other.value[0, 0]
        np.testing.assert_allclose(before, max(nearer), atol=1e-14, rtol=1e-10)


def test_worth_of_many_ranks_is_a_sum(rng):
    for _ in range(30):
        k, start = int(rng.integers(1, 3000)), int(rng.integers(0, 5000))
        stop = start + int(rng.integers(1, 4000))
        expected = np.sum([1.0 / max(j, k) for j in range(start + 1, stop + 1)])
        np.testing.assert_allclose(bucket_tables.total_worth(start, stop, k), expected, rtol=3e-14)


def data_set(rng, n=31_000):
    X, y = rng.normal(size=(n, 6)), rng.integers(0, 4, n)
    return X, np.where(X[:, 0] > 0.5, 0, y), rng.normal(size=(130, 6)), rng.integers(0, 4, 130)


def test_the_estimator_chooses_buckets_and_says_so(rng):
    X, y, X_val, y_val = data_set(rng)
    est = nw.KNNShapley(max_error=1e-5, standard_errors=True).fit(X, y)
    assert "by bucket" in str(est.plan(130))
    exact = nw.KNNShapley(standard_errors=True).fit(X, y).value(X_val, y_val)
    v = est.value(X_val, y_val)
    assert 0.0 < v.error_bound <= 1e-5
    assert v.confidence == 1.0
    assert (v.lower <= exact.values).all()
    assert (exact.values <= v.upper).all()
    np.testing.assert_allclose(v.standard_errors, exact.standard_errors, atol=1e-5)


def test_parts_checkpoints_and_budgets_leave_no_trace(rng, tmp_path):
    X, y, X_val, y_val = data_set(rng)
    est = nw.KNNShapley(max_error=1e-5, n_jobs=2).fit(X, y)
    v = est.value(X_val, y_val)
    first = est.value(X_val[:70], y_val[:70])
    ways = [
        est.value(X_val, y_val, checkpoint=tmp_path / "run"),
        est.value(X_val[70:], y_val[70:], continue_from=first),
        nw.KNNShapley(max_error=1e-5, n_jobs=1, max_memory="12MB").fit(X, y).value(X_val, y_val),
        nw.Valuation.from_partial(
            est.partial(X_val[:64], y_val[:64]).merge(est.partial(X_val[64:], y_val[64:], start=64))
        ),
    ]
    for other in ways:
        np.testing.assert_array_equal(other.values, v.values)
        np.testing.assert_array_equal(other.lower, v.lower)
        np.testing.assert_array_equal(other.upper, v.upper)


def test_exact_and_bucketed_sums_do_not_mix(rng):
    X, y, X_val, y_val = data_set(rng)
    first = nw.KNNShapley(max_error=1e-5).fit(X, y).value(X_val, y_val)
    with pytest.raises(ValueError, match="within"):
        nw.KNNShapley(max_error=2e-5).fit(X, y).value(X_val, y_val, continue_from=first)


def test_plans_print_the_way():
    plan = make_plan(
        50_000, 10, "classification", standard_errors=False, n_jobs=1, max_memory=None,
        search=SearchPlan(None, None, "an error of 1e-05 is certain", 1e-5),
    )  # fmt: skip
    assert "far neighbours ranked by bucket: an error of 1e-05 is certain" in str(plan)
    assert "exactly" not in str(plan)


@pytest.mark.parametrize("size", [1e-320, 1e-160, 1e140, 1e300])
def test_keys_of_any_size(rng, size):
    D = rng.random(size=(3, 80)) * size
    y, y_val = rng.integers(0, 2, 80), rng.integers(0, 2, 3)
    game = ClassificationGame(80, 2, 2)
    problem = Problem(make_keys(None, "precomputed", None), game, y, D, y_val, np.ones(3), "average")
    exact, _ = rows_of(problem, 0.0)
    values, slack = rows_of(problem, 1e-2)
    assert slack.any()
    assert (np.abs(values - exact).max(axis=1) <= slack + 1e-14).all()
