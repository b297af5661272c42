"""Labels made wrong on purpose."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import nearworth as nw

KINDS = ("uniform", "pair", "class-dependent")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fraction", [0, 0.05, 0.2, 0.4])
def test_exactly_so_many_labels_change_and_all_are_wrong(kind, fraction, rng):
    y = rng.integers(0, 4, 500)
    kept = y.copy()
    noisy = nw.add_label_noise(y, fraction, kind, random_state=3)
    assert (noisy != y).sum() == round(fraction * 500)
    assert set(noisy) <= set(y)
    assert noisy.dtype == y.dtype
    np.testing.assert_array_equal(y, kept)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "y",
    [
        np.array(["cat", "horse", "ox", "cat", "ox", "horse"]),
        np.array(["cat", "horse", "ox", "cat", "ox", "horse"], dtype=object),
        np.array([True, False, True, False, True, False]),
        np.array([3.0, 7.0, 3.0, 7.0, 3.0, 9.0]),
        np.array([0, 255, 0, 255, 7, 7], dtype=np.uint8),
    ],
    ids=lambda y: str(y.dtype),
)
def test_any_labels(kind, y):
    noisy = nw.add_label_noise(y, 0.5, kind, random_state=0)
    assert noisy.dtype == y.dtype
    assert (noisy != y).sum() == (
        len(y) // 2 if kind != "class-dependent" else sum(np.bincount(codes(y)) // 2)
    )
    assert set(noisy.tolist()) <= set(y.tolist())


def codes(y):
    return np.unique(y, return_inverse=True)[1]


def test_lists_and_series():
    y = ["a", "b", "c"] * 10
    for given in (y, tuple(y), pd.Series(y), pl.Series(y), pd.Series(y, dtype="category")):
        noisy = nw.add_label_noise(given, 0.3, random_state=0)
        assert sum(np.asarray(noisy) != np.array(y)) == 9


def test_uniform_prefers_no_class(rng):
    y = np.repeat([0, 1, 2], 20_000)
    noisy = nw.add_label_noise(y, 0.3, random_state=rng)
    table = np.array([[((y == a) & (noisy == b)).sum() for b in range(3)] for a in range(3)])
    off = table[~np.eye(3, dtype=bool)]
    assert np.abs(off - 3_000).max() < 6 * np.sqrt(3_000)


def test_pair_turns_each_class_into_the_next(rng):
    y = rng.permutation(np.repeat([2, 5, 9], 50))
    noisy = nw.add_label_noise(y, 1.0, "pair", random_state=0)
    np.testing.assert_array_equal(noisy, np.select([y == 2, y == 5, y == 9], [5, 9, 2]))


def test_class_dependent_is_unequal_but_spares_half_of_every_class(rng):
    y = rng.permutation(np.repeat(np.arange(5), [400, 300, 200, 99, 1]))
    unequal = []
    for seed in range(20):
        noisy = nw.add_label_noise(y, 0.25, "class-dependent", random_state=seed)
        share = np.array([(noisy[y == label] != label).mean() for label in range(5)])
        assert (share <= 0.5).all()
        unequal.append(np.ptp(share[:3]))
        given = np.bincount(noisy[(y == 0) & (noisy != 0)], minlength=5)[1:]
        unequal.append(np.ptp(given) / max(given.sum(), 1))
    assert np.median(unequal) > 0.15


def test_class_dependent_stops_at_half_of_every_class():
    y = np.array([0, 0, 0, 1, 1, 1, 2])
    noisy = nw.add_label_noise(y, 0.5, "class-dependent", random_state=0)
    assert [(noisy[y == label] != label).sum() for label in range(3)] == [1, 1, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_seeds(kind, rng):
    y = rng.integers(0, 3, 200)

    def made(state):
        return nw.add_label_noise(y, 0.2, kind, state)

    np.testing.assert_array_equal(made(5), made(5))
    assert (made(5) != made(6)).any()
    np.testing.assert_array_equal(made(np.random.default_rng(5)), made(5))
    legacy = np.random.RandomState(5)
    first = made(legacy)
    np.testing.assert_array_equal(first, made(np.random.RandomState(5)))
    assert (made(legacy) != first).any()
    assert made(None).shape == y.shape


def test_bad_arguments():
    y = [0, 1, 0, 1]
    with pytest.raises(ValueError, match="Did you mean 'uniform'"):
        nw.add_label_noise(y, 0.1, "unifrom")
    with pytest.raises(ValueError, match="fraction must be a number from 0 to 1 for kind='pair'"):
        nw.add_label_noise(y, 10, "pair")
    with pytest.raises(ValueError, match=r"from 0 to 0\.5 for kind='class-dependent'"):
        nw.add_label_noise(y, 0.6, "class-dependent")
    with pytest.raises(ValueError, match="one class only, 7"):
        nw.add_label_noise([7] * 10, 0.1)
    assert nw.add_label_noise([7] * 10, 0).tolist() == [7] * 10
    with pytest.raises(ValueError, match="y has NaN or infinity at row 1"):
        nw.add_label_noise([0.0, np.nan], 0.1)
    with pytest.raises(ValueError, match="random_state"):
        nw.add_label_noise(y, 0.1, random_state="seven")
