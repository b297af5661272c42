"""Wrong parameters: what is wrong and what to do, said before anything else happens."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nearworth as nw
from nearworth.inputs.parameters import as_generator, parse_bytes

X = np.arange(12.0).reshape(6, 2)
Y = np.array([0, 1, 0, 1, 0, 1])
X_VAL = X[:2] + 0.25
Y_VAL = Y[:2]


PARAMETERS = [
    ({"n_neighbors": 0}, "n_neighbors must be 1 or more (and a 64-bit number); got 0"),
    ({"n_neighbors": -3}, "n_neighbors must be 1 or more (and a 64-bit number); got -3"),
    ({"n_neighbors": 2.5}, "n_neighbors must be a whole number, 1 or more; got 2.5"),
    ({"n_neighbors": True}, "n_neighbors must be a whole number, 1 or more; got True"),
    ({"n_neighbors": "5"}, "n_neighbors must be a whole number"),
    ({"n_neighbors": None}, "n_neighbors must be a whole number"),
    (
        {"task": "clasification"},
        "task='clasification' is not known. Did you mean 'classification'?",
    ),
    ({"task": 3}, "task must be one of 'classification', 'regression'; got 3"),
    ({"utility": "softlabel"}, "utility='softlabel' is not known. Did you mean 'soft'?"),
    ({"semivalue": "shapely"}, "semivalue='shapely' is not known. Did you mean 'shapley'?"),
    ({"semivalue": "beta"}, 'must be ("beta", a, b) with positive numbers'),
    ({"semivalue": ("beta", 1)}, 'must be ("beta", a, b)'),
    ({"semivalue": ("beta", 0, 1)}, "with positive numbers"),
    ({"semivalue": ("beta", 1, float("inf"))}, "with positive numbers"),
    ({"semivalue": 7}, "semivalue must be one of"),
    ({"semivalue": np.array([1, 2, 3])}, "semivalue must be one of"),
    ({"semivalue": ("beta", 1e308, 1)}, "with positive numbers (1e-100 to 1e100)"),
    ({"n_neighbors": 10**400}, "n_neighbors must be 1 or more (and a 64-bit number)"),
    ({"max_error": 10**400}, "max_error must be a positive number or None"),
    ({"metric": "euclidian"}, "metric='euclidian' is not known. Did you mean 'euclidean'?"),
    ({"metric": 2}, "metric must be the name of a metric or a function"),
    ({"metric_params": {"p": 3}}, "has no meaning for metric='euclidean'"),
    ({"metric_params": 3}, "metric_params must be a dict"),
    ({"search": "exat"}, "search='exat' is not known. Did you mean 'exact'?"),
    ({"search": 1}, "search must be a name or an object with fit(X) and search(Q, k)"),
    ({"search": "lsh"}, "search='lsh' needs n_candidates or max_error"),
    ({"search": "faiss"}, "search='faiss' needs n_candidates or max_error"),
    ({"n_candidates": 0}, "n_candidates must be 1 or more"),
    ({"max_error": 0}, "max_error must be a positive number or None; got 0"),
    ({"max_error": float("nan")}, "max_error must be a positive number"),
    ({"tail": "papers"}, "tail='papers' is not known. Did you mean 'paper'?"),
    ({"n_classes": 1}, "n_classes=1 is smaller than the 2 distinct labels in y"),
    ({"n_classes": 2.0}, "n_classes must be a whole number"),
    ({"ties": "mean"}, "ties='mean' is not known. Use one of 'average', 'index'"),
    ({"aggregate": "average"}, "aggregate='average' is not known"),
    ({"aggregate": "means"}, "Did you mean 'mean'?"),
    ({"standard_errors": "yes"}, "standard_errors must be True or False"),
    (
        {"max_memory": "lots"},
        "max_memory must be a positive number of bytes or a size such as '2GB'",
    ),
    ({"max_memory": -5}, "max_memory must be a positive number of bytes"),
    ({"max_memory": 1.5}, "max_memory must be a positive number of bytes"),
    ({"n_jobs": 0}, "n_jobs must be a number of threads, -1 or None for all usable cores; got 0"),
    ({"n_jobs": 1.0}, "n_jobs must be a number of threads"),
    ({"random_state": -1}, "random_state must be a whole number from 0"),
    ({"progress": 3}, "progress must be True, False, None or a function"),
]


@pytest.mark.parametrize(("parameters", "message"), PARAMETERS, ids=lambda p: str(p)[:40])
def test_parameters(parameters, message):
    est = nw.KNNShapley(**parameters)  # scikit-learn: the constructor only stores
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        est.fit(X, Y)


READ_BY_VALUE = [(p, m) for p, m in PARAMETERS if not p.keys() & {"metric", "metric_params"}]


@pytest.mark.parametrize(("parameters", "message"), READ_BY_VALUE, ids=lambda p: str(p)[:40])
def test_parameters_changed_after_fit_are_checked_again(parameters, message):
    est = nw.KNNShapley().fit(X, Y).set_params(**parameters)
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        est.value(X_VAL, Y_VAL)


@pytest.mark.parametrize(
    "parameters", [{"metric": "cosine"}, {"task": "regression"}, {"metric_params": {"p": 1}}]
)
def test_what_fit_depends_on_cannot_change_after_it(parameters):
    est = (
        nw.KNNShapley(metric="minkowski", metric_params={"p": 3}).fit(X, Y).set_params(**parameters)
    )
    with pytest.raises(ValueError, match=r"changed to .* after fit. Call fit again"):
        est.value(X_VAL, Y_VAL)


def test_how_far_to_search_is_said_once():
    with pytest.raises(ValueError, match="both given"):
        nw.KNNShapley(n_candidates=5, max_error=0.1).fit(X, Y)


def test_contributions_that_would_not_fit_are_refused_before_the_work():
    done = []
    est = nw.KNNShapley(max_memory=40_000, progress=lambda *step: done.append(step)).fit(X, Y)
    with pytest.raises(ValueError, match=r"contributions need \d\d,\d+ bytes"):
        est.value(np.tile(X_VAL, (500, 1)), np.tile(Y_VAL, 500), contributions="all")
    assert done == []


def test_too_little_memory_says_how_much_is_needed():
    with pytest.raises(
        ValueError,
        match=r"max_memory=100 bytes is too little for 6 training points: .* needs [\d,]+",
    ):
        nw.KNNShapley(max_memory=100).fit(X, Y).value(X_VAL, Y_VAL)


@pytest.mark.parametrize("n_val", [0, -1, 2.5, True, "x", None])
def test_plan_for_a_strange_number_of_points(n_val):
    with pytest.raises((ValueError, TypeError), match="n_val must be"):
        nw.KNNShapley().fit(X, Y).plan(n_val)


def test_long_values_are_cut_short_in_messages():
    with pytest.raises(
        TypeError, match=r"metric_params must be .*; got ndarray of shape \(40, 3\)\.$"
    ):
        nw.KNNShapley(metric_params=np.zeros((40, 3))).fit(X, Y)
    with pytest.raises(TypeError, match=r"progress must be .*; got \[0, 1, .*\.\.\.\]\.$") as error:
        nw.KNNShapley(progress=list(range(10_000))).fit(X, Y)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("2GB", 2 * 10**9),
        ("2GiB", 2**31),
        (" 1.5 kb ", 1_500),
        ("7", 7),
        ("12B", 12),
        (300, 300),
        (np.int64(5), 5),
    ],
)
def test_sizes(text, count):
    assert parse_bytes("max_memory", text) == count


@pytest.mark.parametrize("text", ["0.1B", "0GB", "-1", "2 parsecs", 0])
def test_sizes_below_a_byte_are_refused(text):
    with pytest.raises(ValueError, match="max_memory must be a positive number of bytes"):
        parse_bytes("max_memory", text)


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1, np.int64(3)])
def test_seeds_give_the_generators_of_numpy(seed):
    np.testing.assert_array_equal(
        as_generator(seed).random(5), np.random.default_rng(seed).random(5)
    )


def test_generators_and_states_move_on():
    rng = np.random.default_rng(1)
    assert as_generator(rng) is rng
    state = np.random.RandomState(1)
    assert as_generator(state).random() != as_generator(state).random()
    assert (
        as_generator(np.random.RandomState(1)).random()
        == as_generator(np.random.RandomState(1)).random()
    )
    assert as_generator(None).random() != as_generator(None).random()
    with pytest.raises(ValueError, match="random_state must be a whole number"):
        as_generator("seed")
