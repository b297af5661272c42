"""The contract of searchers: what an answer may be, and the members that an object may lack."""

from __future__ import annotations

import numpy as np
import pytest

import nearworth as nw
from helpers.exact_searcher import ExactSearcher
from nearworth.neighbors.searchers import Neighbours, Searcher, as_searcher, check_answer

GOOD = np.array([[4, 2, 0], [1, 3, -1]]), np.array([[0.0, 0.0, 2.5], [1.0, 1.5, np.inf]])


class ShinyIndex:
    """A searcher of another class."""


def check(indices, distances, n_queries=2):
    return check_answer(indices, distances, 5, 3, n_queries=n_queries, searcher=ShinyIndex())


def test_a_good_answer_passes():
    indices, distances = check(GOOD[0].astype(np.int32), GOOD[1].astype(np.float32))
    np.testing.assert_array_equal(indices, GOOD[0])
    np.testing.assert_array_equal(distances, GOOD[1])
    assert indices.dtype == np.intp
    assert distances.dtype == np.float64


def test_whatever_stands_beside_missing_neighbours_becomes_infinity():
    distances = GOOD[1].copy()
    distances[1, 2] = np.nan
    assert check(GOOD[0], distances)[1][1, 2] == np.inf


def changed(place, index=None, distance=None):
    indices = GOOD[0].copy()
    distances = GOOD[1].copy()
    if index is not None:
        indices[place] = index
    if distance is not None:
        distances[place] = distance
    return indices, distances


WRONG = {
    "shape": (*(a[:, :2] for a in GOOD),),
    "instead of \\(2, 3\\)": (GOOD[0], GOOD[1][:, :2]),
    "whole numbers": (GOOD[0].astype(float), GOOD[1]),
    "real numbers": (GOOD[0], GOOD[1].astype(complex)),
    "outside 0..4": changed((0, 1), index=5),
    "outside 0\\.\\.4, for query 0": changed((0, 1), index=-2),
    "after -1": changed((0, 1), index=-1),
    "not finite": changed((0, 2), distance=np.nan),
    "finite": changed((0, 2), distance=np.inf),
    "farther point before": changed((0, 1), distance=3.0),
    "twice": changed((0, 1), index=4),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_answers_are_refused_by_name(what):
    with pytest.raises(ValueError, match=f"ShinyIndex.search returned .*{what}"):
        check(*WRONG[what])


def test_number_of_rows_is_checked():
    with pytest.raises(ValueError, match=r"\(2, 3\) instead of \(7, 3\)"):
        check(*GOOD, n_queries=7)


def neighbours():
    return Neighbours(
        np.array([[5, 6, 7], [1, 0, 2], [3, 4, -1]]),
        np.array([[0, 1, 1], [0, 0, 3], [1, 2, np.inf]]),
    )


def test_without_one_point_each():
    found, far = neighbours().without(np.array([5, 0, 9]))
    assert found.tolist() == [[6, 7], [1, 2], [3, 4]]
    assert far.tolist() == [[1, 1], [0, 3], [1, 2]]


def test_sizes_and_blocks_of_ties():
    found = neighbours()
    assert found.sizes.tolist() == [3, 3, 2]
    assert found.starts("average").tolist() == [
        [True, True, False],
        [True, False, True],
        [True, True, True],
    ]
    assert found.starts("index").all()


def test_the_first_and_other_widths():
    found = neighbours()
    cut = found.first(np.array([1, 3, 0]))
    assert cut.rows.tolist() == [[5, -1, -1], [1, 0, 2], [-1, -1, -1]]
    assert np.isinf(cut.keys[cut.rows < 0]).all()
    assert found.resized(1).rows.tolist() == [[5], [1], [3]]
    wide = found.resized(4)
    assert wide.rows[:, 3].tolist() == [-1, -1, -1]
    assert np.isinf(wide.keys[:, 3]).all()


class Plain:
    """What the contract requires, and nothing else."""

    def fit(self, X):
        self._exact = ExactSearcher().fit(X)
        return self

    def search(self, Q, k):
        return self._exact.search(Q, k)


class Rich(Plain):
    on_fail = "partial"
    random_state = 7

    def prepare(self, k, queries=None):
        self.tuning = f"for {k}"

    def fingerprint(self):
        return "the same"

    def predict(self, X, k, n_queries):
        return f"{k} of {len(X)} for {n_queries}"


def test_members_that_are_lacking_have_defaults(rng):
    X = rng.normal(size=(20, 2))
    searcher = as_searcher(Plain())
    searcher.fit(X)
    assert searcher.prepare(3, X) is None
    assert searcher.predict(X, 3, 5) is None
    assert (searcher.name, searcher.on_fail, searcher.random_state) == ("Plain", "exact", 0)
    assert searcher.tuning is None
    assert searcher.fingerprint is None
    assert searcher.search_numbered(np.arange(4, 6), X[4:6], 1)[0].tolist() == [[4], [5]]


def test_members_that_are_there_are_used(rng):
    searcher = as_searcher(Rich())
    searcher.prepare(3, None)
    assert (searcher.name, searcher.on_fail, searcher.random_state) == ("Rich", "partial", 7)
    assert searcher.tuning == "for 3"
    assert searcher.fingerprint() == "the same"
    assert searcher.predict(np.ones((9, 1)), 3, 5) == "3 of 9 for 5"


def test_ours_have_all_members():
    for searcher in (ExactSearcher(), nw.LSHSearch(), nw.GraphSearch([[0]], [[1.0]])):
        assert isinstance(searcher, Searcher)
        assert as_searcher(searcher) is searcher


def test_a_plan_prints_what_a_searcher_predicts(rng):
    X = rng.normal(size=(50, 2))
    y = np.arange(50) % 2
    plan = nw.KNNShapley(3, search=Rich(), n_candidates=7).fit(X, y).plan(12)
    assert "found by Rich" in str(plan)
    assert "7 of 50 for 12" in str(plan)
    assert "None" not in str(nw.KNNShapley(3, search=Plain(), n_candidates=7).fit(X, y).plan(12))
