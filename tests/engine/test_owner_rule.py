"""Owners as players in the engine: against the definition, and everywhere a run may go."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import nearworth as nw
from helpers.definition import UTILITIES, defined_values, utility_function, utility_of_owners
from nearworth._common import native
from nearworth.engine.owner_rules import owner_rule
from nearworth.engine.value import partial_sums


def defined_owner_values(
    X, y, owners, Q, q, *, k, utility, semivalue, ties, groups=None, query_groups=None, itself=False
):
    """Values of owners by the definition, the mean over queries, shape (n_owners,).

    With `itself`, the queries are the training rows and none votes for itself. With `groups`, no
    row votes for a query of its own group.
    """
    names = list(dict.fromkeys(owners))
    codes = [names.index(owner) for owner in owners]
    total = np.zeros(len(names))
    for number, (point, label) in enumerate(zip(Q, q, strict=True)):
        distances = ((X - point) ** 2).sum(axis=1).tolist()
        game = utility_function(
            "classification", utility, distances, y.tolist(), label, k, len(set(y)), ties
        )
        allowed = [i for i in range(len(y)) if not (itself and i == number)]
        if groups is not None:
            allowed = [i for i in allowed if groups[i] != query_groups[number]]
        rows_of_owner = [[i for i in allowed if codes[i] == code] for code in range(len(names))]

        def game_of_owners(members, rows_of_owner=rows_of_owner, game=game):
            rows = [row for owner in members for row in rows_of_owner[owner]]
            return game(tuple(sorted(rows)))

        total += defined_values(game_of_owners, len(names), semivalue)
    return total / len(q)


def make(rng, n, n_owners, n_classes=3):
    """Coordinates on a grid, so that there are ties across owners and duplicates."""
    X = rng.integers(0, 3, (n, 2)).astype(float) + 1000.0
    y = np.append(np.arange(n_classes), rng.integers(0, n_classes, n - n_classes))
    return X, y, rng.choice([f"o{i}" for i in range(n_owners)], n)


def totals(owners):
    """The value of each owner, shape (n_owners,)."""
    return np.array([value.total for value in owners.values()])


@pytest.fixture(params=["compiled", "numpy"])
def form(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr(native, "library", lambda: None)
    elif not native.available():
        pytest.skip("there is no compiled library")
    return request.param


@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.parametrize("ties", ["average", "index"])
def test_values_agree_with_the_definition(rng, form, utility, ties):
    for _ in range(3):
        X, y, owners = make(rng, 10, int(rng.integers(1, 6)))
        Q = rng.integers(0, 3, (3, 2)) + 1000.0
        q = rng.integers(0, 3, 3)
        k = int(rng.integers(1, 7))
        for semivalue in ("shapley", "banzhaf", "loo", ("beta", 4, 1), "composite"):
            game = {"k": k, "utility": utility, "semivalue": semivalue, "ties": ties}
            est = nw.KNNShapley(k, utility=utility, semivalue=semivalue, ties=ties).fit(X, y)
            expected = defined_owner_values(X, y, owners, Q, q, **game)
            np.testing.assert_allclose(
                totals(est.value_owners(owners, Q, q)), expected, rtol=0, atol=1e-12
            )


@pytest.mark.parametrize("utility", UTILITIES)
def test_a_training_set_valued_on_itself_with_and_without_groups(rng, form, utility):
    for _ in range(4):
        X, y, owners = make(rng, 9, 3)
        groups = rng.integers(0, 3, 9)
        k = int(rng.integers(1, 5))
        game = {
            "k": k,
            "utility": utility,
            "semivalue": "shapley",
            "ties": "average",
            "itself": True,
        }
        est = nw.KNNShapley(k, utility=utility).fit(X, y)
        np.testing.assert_allclose(
            totals(est.value_owners(owners)),
            defined_owner_values(X, y, owners, X, y, **game),
            rtol=0,
            atol=1e-12,
        )
        expected = defined_owner_values(
            X, y, owners, X, y, groups=groups, query_groups=groups, **game
        )
        np.testing.assert_allclose(
            totals(est.value_owners(owners, groups=groups)), expected, rtol=0, atol=1e-12
        )


def defined_values_of_counts(points, y, owners, n_neighbors, semivalue):
    """Values of owners for one query at 0 with label 1, in exact fractions of counts of rows."""
    n_owners = int(owners.max()) + 1
    blocks = []
    for point in np.unique(points):
        tied = points == point
        matches = owners[tied & (y == 1)]
        blocks.append(
            (
                np.bincount(owners[tied], minlength=n_owners),
                np.bincount(matches, minlength=n_owners),
            )
        )
    return defined_values(utility_of_owners(blocks, n_neighbors), n_owners, semivalue)


@pytest.mark.parametrize("n_points", [1, 3])
@pytest.mark.parametrize("first_rows", [[1], [149], [75], [1, 75], [1, 2, 3]])
def test_many_tied_rows_for_every_number_of_neighbours(rng, form, n_points, first_rows):
    """Owners have 1 row to nearly all rows, and K is 1 to all rows.

    No probability may vanish because the first term of its recursion does.
    """
    n = 150
    owners = np.searchsorted(first_rows, np.arange(n), side="right")
    points = rng.integers(0, n_points, n).astype(float)
    y = rng.integers(0, 2, n)
    semivalues = ("shapley", "banzhaf", "loo", ("beta", 4, 1))
    for k, semivalue in zip((1, n // 2, n - 1, n), semivalues, strict=True):
        est = nw.KNNShapley(k, utility="original", semivalue=semivalue).fit(points[:, None], y)
        values = est.value_owners(owners, [[0.0]], [1])
        expected = defined_values_of_counts(points, y, owners, k, semivalue)
        by_code = [values[owner].total for owner in range(len(values))]
        np.testing.assert_allclose(by_code, expected, rtol=0, atol=1e-13, err_msg=f"K = {k}")


def test_thousands_of_tied_rows(rng, form):
    """More than twice as many rows as there are moments to average over."""
    n = 3000
    owners = (rng.random(n) < 0.9).astype(int)
    y = rng.integers(0, 2, n)
    values = (
        nw.KNNShapley(3, utility="original")
        .fit(np.zeros((n, 1)), y)
        .value_owners(owners, [[0.0]], [1])
    )
    expected = defined_values_of_counts(np.zeros(n), y, owners, 3, "shapley")
    np.testing.assert_allclose([values[0].total, values[1].total], expected, rtol=0, atol=1e-12)


def test_one_row_per_owner_is_the_plain_formula(rng):
    X = rng.normal(size=(40, 3))
    y = rng.integers(0, 2, 40)
    for k in (1, 4, 50):
        est = nw.KNNShapley(k).fit(X, y)
        rows = est.value(X[:7] + 0.1, y[:7])
        owners = est.value_owners(np.arange(40), X[:7] + 0.1, y[:7])
        np.testing.assert_allclose(totals(owners), rows.values, rtol=0, atol=1e-13)


def test_efficiency_symmetry_and_copies(rng):
    X = rng.normal(size=(60, 2))
    y = rng.integers(0, 2, 60)
    Q = rng.normal(size=(30, 2))
    q = rng.integers(0, 2, 30)
    owners = np.repeat(["a", "b", "c"], 20)
    est = nw.KNNShapley(3).fit(X, y)
    total = totals(est.value_owners(owners, Q, q)).sum()
    assert np.isclose(total, est.value(Q, q).values.sum(), atol=1e-13)

    # An owner with the rows of another one has its value.
    twins = nw.KNNShapley(3).fit(np.vstack([X, X[:20]]), np.append(y, y[:20]))
    both = twins.value_owners(np.append(owners, ["d"] * 20), Q, q)
    assert np.isclose(both["a"].total, both["d"].total, atol=1e-13)

    # K copies are all that count.
    def totals_with_copies(n_copies):
        X_copied = np.vstack([X, *[X[:20]] * n_copies])
        y_copied = np.append(y, np.tile(y[:20], n_copies))
        owners_copied = np.append(owners, ["a"] * (20 * n_copies))
        est = nw.KNNShapley(3).fit(X_copied, y_copied)
        return totals(est.value_owners(owners_copied, Q, q))

    np.testing.assert_allclose(totals_with_copies(9), totals_with_copies(2), rtol=0, atol=1e-13)


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan", "precomputed"])
def test_compiled_and_numpy_forms_agree_for_any_metric(rng, monkeypatch, metric):
    X = rng.normal(size=(300, 4))
    y = rng.integers(0, 3, 300)
    owners = rng.integers(0, 12, 300)
    X[100:150] = X[:50]  # ties across owners
    Q = rng.normal(size=(20, 4))
    q = rng.integers(0, 3, 20)
    if metric == "precomputed":
        D = np.abs(Q[:, None] - X[None]).sum(axis=2)
        est = nw.KNNShapley(4, metric=metric, standard_errors=True).fit(None, y)
        Q = D
    else:
        est = nw.KNNShapley(4, metric=metric, standard_errors=True).fit(X, y)
    compiled = est.value_owners(owners, Q, q)
    with monkeypatch.context() as patch:
        patch.setattr(native, "library", lambda: None)
        plain = est.value_owners(owners, Q, q)
    for a, b in zip(compiled.values(), plain.values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13)


def test_standard_errors_are_those_of_single_validation_points(rng):
    X = rng.normal(size=(200, 3))
    y = rng.integers(0, 2, 200)
    owners = rng.integers(0, 5, 200)
    Q = rng.normal(size=(9, 3))
    q = rng.integers(0, 2, 9)
    w = rng.random(9)
    est = nw.KNNShapley(3, standard_errors=True).fit(X, y)
    values = est.value_owners(owners, Q, q, w)
    single = np.array(
        [totals(est.value_owners(owners, Q[i : i + 1], q[i : i + 1])) for i in range(9)]
    )
    mean = w @ single / w.sum()
    expected = np.sqrt(9 / 8 * (w[:, None] ** 2 * (single - mean) ** 2).sum(axis=0)) / w.sum()
    np.testing.assert_allclose(totals(values), mean, atol=1e-14)
    np.testing.assert_allclose(
        [value.standard_error for value in values.values()], expected, atol=1e-14
    )


def test_threads_memory_checkpoints_and_executors_give_the_same_bits(rng, tmp_path):
    X = rng.normal(size=(500, 5))
    y = rng.integers(0, 3, 500)
    owners = rng.integers(0, 20, 500)
    Q = rng.normal(size=(200, 5))
    q = rng.integers(0, 3, 200)
    here = totals(nw.KNNShapley(5, n_jobs=1).fit(X, y).value_owners(owners, Q, q))
    est = nw.KNNShapley(5, n_jobs=2, max_memory="3MB").fit(X, y)
    np.testing.assert_array_equal(totals(est.value_owners(owners, Q, q)), here)
    for _ in range(2):
        np.testing.assert_array_equal(
            totals(est.value_owners(owners, Q, q, checkpoint=tmp_path / "c")), here
        )
    with pytest.raises(ValueError, match="checkpoint"):
        est.value_owners(owners[::-1], Q, q, checkpoint=tmp_path / "c")
    with ThreadPoolExecutor(2) as executor:
        np.testing.assert_array_equal(
            totals(est.value_owners(owners, Q, q, executor=executor)), here
        )
    done = []
    nw.KNNShapley(5, progress=lambda a, b: done.append((a, b))).fit(X, y).value_owners(owners, Q, q)
    assert done[-1] == (200, 200)


def test_a_given_error_takes_fewer_nodes(rng):
    X = rng.normal(size=(400, 3))
    y = rng.integers(0, 2, 400)
    owners = rng.permutation(400) % 200
    Q = rng.normal(size=(3, 3))
    q = rng.integers(0, 2, 3)
    exact = nw.KNNShapley(4).fit(X, y).value_owners(owners, Q, q)
    rough = nw.KNNShapley(4, max_error=1e-3).fit(X, y).value_owners(owners, Q, q)
    assert np.abs(totals(exact) - totals(rough)).max() <= 1e-3
    assert "error below" in rough.how
    assert "error below" in exact.how


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"task": "regression"}, "classification"),
        ({"n_candidates": 5}, "n_candidates"),
        ({"semivalue": ("sizes", 0, 5)}, "sizes"),
        ({"search": "lsh", "max_error": 0.1}, "search='exact'"),
    ],
)
def test_what_cannot_be_exact_is_refused(rng, parameters, message):
    X = rng.normal(size=(20, 2))
    y = rng.integers(0, 2, 20)
    with pytest.raises(ValueError, match=message):
        nw.KNNShapley(3, **parameters).fit(X, y).value_owners(np.arange(20) % 3, X, y)


def test_more_neighbours_than_rows_cost_nothing(rng):
    X, y, owners = make(rng, 12, 4)
    for utility in UTILITIES:
        values = totals(
            nw.KNNShapley(10**6, utility=utility).fit(X, y).value_owners(owners, X[:2], y[:2])
        )
        game = {"k": 10**6, "utility": utility, "semivalue": "shapley", "ties": "average"}
        np.testing.assert_allclose(
            values, defined_owner_values(X, y, owners, X[:2], y[:2], **game), rtol=0, atol=1e-12
        )


def test_wrong_owners_are_refused(rng):
    X = rng.normal(size=(20, 2))
    y = rng.integers(0, 2, 20)
    with pytest.raises(ValueError, match="19 entries for 20 rows"):
        nw.KNNShapley(3).fit(X, y).value_owners(np.arange(19), X, y)
    with pytest.raises(TypeError, match="unexpected keyword argument .contributions"):
        nw.KNNShapley(3).fit(X, y).value_owners(np.arange(20), X, y, contributions="all")
    with pytest.raises(ValueError, match="missing"):
        nw.KNNShapley(3).fit(X, y).value_owners(["a", None] * 10, X, y)


def test_random_orders_are_unbiased_with_honest_standard_errors(rng):
    """The standard errors of sampled values cover validation rows and orders."""
    X = rng.normal(size=(120, 3))
    y = rng.integers(0, 3, 120)
    Q = rng.normal(size=(200, 3))
    q = rng.integers(0, 3, 200)
    owners = rng.integers(0, 12, 120)
    exact = nw.KNNShapley(3).fit(X, y).value_owners(owners, Q, q)
    sampled = nw.KNNShapley(3, random_state=0).fit(X, y).value_owners(owners, Q, q, n_orders=8)
    errors = np.array([value.standard_error for value in sampled.values()])
    assert (np.abs(totals(sampled) - totals(exact)) < 4 * errors).all()
    assert "8 random orders" in sampled.how
    assert "not exact" in sampled.how
    again = (
        nw.KNNShapley(3, random_state=0, n_jobs=1).fit(X, y).value_owners(owners, Q, q, n_orders=8)
    )
    assert totals(again).tolist() == totals(sampled).tolist()
    # Every order shares out the whole.
    assert totals(sampled).sum() == pytest.approx(totals(exact).sum(), abs=1e-12)


def test_equal_validation_rows_get_orders_of_their_own(rng):
    """The standard error takes them for independent: with the same orders for all it would be 0."""
    X = rng.normal(size=(60, 2))
    y = rng.integers(0, 3, 60)
    owners = rng.integers(0, 12, 60)
    Q = np.repeat([[0.1, 0.2]], 200, axis=0)
    q = np.zeros(200, dtype=int)
    est = nw.KNNShapley(3).fit(X, y)
    exact = est.value_owners(owners, Q, q)
    sampled = est.value_owners(owners, Q, q, n_orders=2)
    errors = np.array([value.standard_error for value in sampled.values()])
    assert (np.abs(totals(sampled) - totals(exact)) < 4 * errors).all()


def test_random_orders_are_the_same_in_any_part_of_a_run(rng, tmp_path):
    X = rng.normal(size=(60, 2))
    y = rng.integers(0, 3, 60)
    owners = rng.integers(0, 12, 60)
    # 200: four leaves.
    Q = np.repeat(rng.normal(size=(50, 2)), 4, axis=0)
    q = np.repeat(rng.integers(0, 3, 50), 4)
    est = nw.KNNShapley(3, random_state=5, n_jobs=1).fit(X, y)
    for rows in ((Q, q), (None, None)):
        here = list(est.value_owners(owners, *rows, n_orders=2).values())
        other = nw.KNNShapley(3, random_state=5, n_jobs=2, max_memory="3MB").fit(X, y)
        assert list(other.value_owners(owners, *rows, n_orders=2).values()) == here
        folder = tmp_path / ("itself" if rows[0] is None else "queries")
        for _ in range(2):
            assert (
                list(est.value_owners(owners, *rows, n_orders=2, checkpoint=folder).values())
                == here
            )
        with ThreadPoolExecutor(2) as executor:
            assert (
                list(est.value_owners(owners, *rows, n_orders=2, executor=executor).values())
                == here
            )
        other = nw.KNNShapley(3, random_state=6).fit(X, y)
        assert list(other.value_owners(owners, *rows, n_orders=2).values()) != here


def test_orders_go_by_the_position_in_the_whole_run(rng):
    """Sums over two parts of the validation rows are those of one run.

    A part of a part keeps its positions.
    """
    X = rng.normal(size=(30, 2))
    y = rng.integers(0, 3, 30)
    owners = rng.integers(0, 6, 30)
    Q = np.repeat([[0.1, 0.2]], 128, axis=0)
    q = np.zeros(128, dtype=int)
    est = nw.KNNShapley(3).fit(X, y)
    rule = owner_rule(owners, 6, est.get_params(), n_orders=1)

    def part(start, stop):
        problem = est.training_set_.problem(Q[start:stop], q[start:stop], None, est.get_params())
        return replace(problem, rule=rule)

    parts = partial_sums(part(0, 64), 0), partial_sums(part(64, 128), 64)
    whole = partial_sums(part(0, 128), 0)
    merged = nw.Valuation.from_partial(parts[0].merge(parts[1]))
    np.testing.assert_array_equal(merged.values, nw.Valuation.from_partial(whole).values)

    some = part(0, 128).some(np.array([1, 4, 70]))
    assert [some.position(query) for query in range(3)] == [1, 4, 70]
    assert some.some(np.array([2, 0])).position(0) == 70


def test_very_many_owners_are_sampled_and_it_is_said(rng, monkeypatch):
    monkeypatch.setattr("nearworth.engine.owner_rules.MAX_EXACT_OWNERS", 20)
    X = rng.normal(size=(60, 2))
    y = rng.integers(0, 2, 60)
    est = nw.KNNShapley(3, utility="original").fit(X, y)
    with pytest.warns(UserWarning, match="30 owners are too many for exact values"):
        owners = est.value_owners(np.arange(60) % 30)
    with pytest.warns(UserWarning, match="too many"):
        assert "exactly" not in str(est.plan(9, owner_of_row=np.arange(60) % 30))
    assert all(each.standard_error > 0 for each in owners.values())
    with pytest.raises(ValueError, match="analyst=True needs"):
        owners.payments(100, analyst=True)
    with pytest.raises(ValueError, match="random orders needs semivalue='shapley'"):
        nw.KNNShapley(3, semivalue="banzhaf").fit(X, y).value_owners(np.arange(60) % 30, n_orders=4)
    with pytest.raises(ValueError, match="n_orders must be 1 or more"):
        est.value_owners(np.arange(60) % 5, n_orders=0)


def test_the_plan_of_owners(rng):
    X = rng.normal(size=(500, 3))
    y = rng.integers(0, 3, 500)
    plan = nw.KNNShapley(3).fit(X, y).plan(1000, owner_of_row=np.arange(500) % 40)
    assert "40 owners as players" in str(plan)
    assert plan.seconds > 0
    assert plan.working_bytes > 0
