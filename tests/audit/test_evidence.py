"""Votes from the definition, and values under other labels by changing them."""

from __future__ import annotations

import numpy as np
import pytest

import nearworth as nw
from nearworth.audit.evidence import Neighbours, rank_weights, vote_shares
from nearworth.audit.relabelling import effects_of


def test_votes_from_the_definition(rng):
    n, size, n_classes, k = 12, 5, 3, 2
    points = np.array([rng.permutation(n)[:size] for _ in range(n)]).astype(np.int32)
    points[3, 3:] = -1
    keys = np.sort(rng.random((n, size)), axis=1)
    codes = rng.integers(0, n_classes, n)
    neighbours = Neighbours.of(points, keys, k)
    forward, reverse = np.zeros((n, n_classes)), np.zeros((n, n_classes))
    for query in range(n):
        for rank, point in enumerate(points[query], start=1):
            if point >= 0:
                forward[query, codes[point]] += 1 / max(k, rank)
                reverse[point, codes[query]] += 1 / max(k, rank)
    np.testing.assert_allclose(neighbours.forward(codes, n_classes), forward)
    np.testing.assert_allclose(neighbours.reverse(codes, n, n_classes), reverse)


def test_unknown_labels_vote_for_nobody():
    neighbours = Neighbours.of(np.array([[0], [1]], dtype=np.int32), np.zeros((2, 1)), 1)
    assert neighbours.reverse(np.array([-1, 1]), 2, 2).tolist() == [[0, 0], [0, 1]]


def test_equals_share_their_weights():
    weights = rank_weights(np.array([[0.0, 1.0, 1.0, 2.0], [0.0, 0.0, 0.0, 0.0]]), 1)
    np.testing.assert_allclose(weights[0], [1, (1 / 2 + 1 / 3) / 2, (1 / 2 + 1 / 3) / 2, 1 / 4])
    np.testing.assert_allclose(weights[1], (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)


def test_shares_sum_to_one_and_no_votes_are_the_prior():
    priors = np.array([0.2, 0.8])
    shares = vote_shares(np.array([[0.0, 0.0], [5.0, 1.0]]), priors)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_allclose(shares[0], priors)


@pytest.mark.parametrize("utility", ["soft", "original"])
@pytest.mark.parametrize("with_validation", [False, True])
@pytest.mark.parametrize("k", [1, 3, 40])
def test_value_under_other_labels(rng, k, with_validation, utility):
    """What the model says if the label really is changed."""
    X = rng.integers(0, 4, (25, 2)).astype(float)  # ties and duplicates
    y = rng.integers(0, 3, 25)
    y[:6] = 0, 0, 1, 1, 2, 2
    validation = (rng.integers(0, 4, (8, 2)).astype(float), rng.integers(0, 3, 8)) if with_validation else (None, None)
    estimator = nw.KNNShapley(k, utility=utility, n_classes=3).fit(X, y)
    for row in (0, 7):
        effects = effects_of(estimator, row, *validation)
        for label in range(3):
            changed = y.copy()
            changed[row] = label
            values = nw.KNNShapley(k, utility=utility, n_classes=3).fit(X, changed).value(*validation).values
            np.testing.assert_allclose(effects.under[label], values[row], atol=1e-12)
        single = estimator.value(*validation, contributions=[row]).contributions[:, 0]
        np.testing.assert_allclose(effects.on_others, single, atol=1e-12)


def test_explanation_names_those_helped_and_hurt(rng):
    X = np.concatenate([rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + 8])
    y = np.repeat(["left", "right"], 20)
    y[0] = "right"
    audit = nw.audit_labels(X, y, n_neighbors=4)
    why = audit.explain(0)
    assert why.suggested == "left"
    assert all(neighbour.label == "left" for neighbour in why.neighbours)
    assert all(np.diff([neighbour.distance for neighbour in why.neighbours]) >= 0)
    assert {effect.label for effect in why.hurt} == {"left"}
    assert why.value_under["left"] > 0 > why.value_under["right"]
    np.testing.assert_allclose(why.value_under["right"], why.value, atol=1e-12)
    assert "labelled 'right'" in why.sentence
    assert "'left'" in str(why)
    i, j = 0, why.neighbours[0].row
    np.testing.assert_allclose(why.neighbours[0].distance, np.linalg.norm(X[i] - X[j]))
