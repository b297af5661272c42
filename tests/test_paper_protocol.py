"""Training and validation rows of the paper's experiment."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nearworth as nw
from helpers.paper_data import paper


def _dataset(name, X, y, X_test=None, y_test=None):
    rest = {"source": "here", "verified": True, "stand_in": None, "balanced": False}
    return paper.PaperDataset(name=name, X=X, y=y, X_test=X_test, y_test=y_test, **rest)


def made_up(rng, n=4_000):
    """A table of three in ten positives, whose first column is the label."""
    y = (rng.random(n) < 0.3).astype(np.int64)
    X = rng.normal(size=(n, 3)) + 2 * y[:, None]
    X[:, 0] = y
    return _dataset("fraud", X, y)


@pytest.mark.parametrize("flip", ["first", "last"])
def test_table_protocol_flips_one_class_and_which_one_is_no_accident(rng, flip):
    dataset = made_up(rng)
    split = paper.make_split(dataset, flip=flip)
    assert (split.X.shape, split.X_val.shape) == ((2_000, 3), (200, 3))
    assert np.flatnonzero(split.flipped).tolist() == list(
        range(200) if flip == "first" else range(1_800, 2_000)
    )
    true = np.where(split.flipped, 1 - split.y, split.y)
    assert np.bincount(true).tolist() == [1_000, 1_000]
    assert (np.diff(true) != 0).sum() == 1  # sorted by class
    (given,) = set(split.y[split.flipped])
    in_validation = np.bincount(split.y_val, minlength=2)
    if in_validation[0] != in_validation[1]:
        assert given == (in_validation.argmin() if flip == "first" else in_validation.argmax())


@pytest.mark.parametrize("protocol", ["table", "released"])
def test_rows_keep_their_labels_and_are_standardised(rng, protocol):
    dataset = made_up(rng)
    split = paper.make_split(dataset, protocol, n_val=300)
    assert len(split.y_val) == 300
    true = np.where(split.flipped, 1 - split.y, split.y)
    np.testing.assert_array_equal(
        split.X[:, 0] > 0, true == 1
    )  # the first column is the label, standardised
    np.testing.assert_array_equal(split.X_val[:, 0] > 0, split.y_val == 1)
    np.testing.assert_allclose(np.abs(split.X[:, 0]), 1, atol=0.1)
    if protocol == "released":
        np.testing.assert_allclose(split.X.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(split.X.std(axis=0), 1, rtol=1e-12)


def test_images_are_equally_many_of_each_class(rng):
    y = rng.integers(0, 10, 6_000)
    y_test = rng.integers(0, 10, 3_000)
    X = rng.integers(0, 256, (6_000, 4), dtype=np.uint8)
    X_test = rng.integers(0, 256, (3_000, 4), dtype=np.uint8)
    split = paper.make_split(_dataset("mnist", X, y, X_test, y_test))
    assert np.bincount(split.y_val).tolist() == [200] * 10
    assert split.X.dtype == np.float32
    assert 0 <= split.X.min() < split.X.max() <= 1
    assert split.flipped.sum() == 200


def test_soft_and_original_differ_by_a_class_constant(rng):
    split = paper.make_split(made_up(rng))
    values = [
        nw.KNNShapley(5, utility=utility)
        .fit(split.X, split.y)
        .value(split.X_val, split.y_val)
        .values
        for utility in ("soft", "original")
    ]
    difference = values[0] - values[1]
    for label in (0, 1):
        assert np.ptp(difference[split.y == label]) < 1e-15
    # The class that is rarer among the validation points loses; in this protocol the flipped rows
    # bear its label.
    in_validation = np.bincount(split.y_val)
    gap = difference[split.y == 1][0] - difference[split.y == 0][0]
    harmonic = 1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5
    expected = (harmonic - 1) / (2_000 - 1) * (in_validation[1] - in_validation[0]) / 200
    assert gap == pytest.approx(expected, abs=1e-15)


def test_balanced_data_is_refused(rng):
    with pytest.raises(ValueError, match="Load it with balance=False"):
        paper.make_split(replace(made_up(rng), balanced=True))
