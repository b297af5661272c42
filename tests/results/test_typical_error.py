"""The estimate of the mean square error, against its definition: every sample that can be drawn."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from nearworth.results.typical_error import MAX_ENTRIES, TypicalError, estimate_error, sample_sizes


@pytest.mark.parametrize(
    ("n_all", "n_kept", "size"), [(7, 4, 3), (7, 5, 5), (6, 6, 3), (6, 6, 6), (7, 3, 3)]
)
def test_the_mean_over_all_samples_is_the_mean_square(rng, n_all, n_kept, size):
    kept, found = rng.normal(size=(2, n_all, 4)) + 0.5
    if n_kept == n_all:
        found = kept
    estimates = []
    truth = []
    for inside in combinations(range(n_all), n_kept):
        outside = np.setdiff1d(range(n_all), inside)
        error = kept[list(inside)].sum(axis=0) + found[outside].sum(axis=0)
        for some in combinations(inside, size):
            estimate = estimate_error(kept[list(some)], found[list(some)], n_kept, n_all)
            estimates.append(estimate.square)
            truth.append((error**2).mean())
    np.testing.assert_allclose(np.mean(estimates), np.mean(truth), rtol=1e-12)
    if size == n_all:
        np.testing.assert_allclose(estimates, truth, rtol=1e-12)
        assert estimate.margin == 0.0


def truncation(rng, n_all, n_rows):
    """The same error for all, with noise; nothing is missed."""
    errors = rng.normal(size=n_rows) + rng.normal(size=(n_all, n_rows))
    return errors, errors


def misses(rng, n_all, n_rows):
    """A third of the validation points miss two rows, and shift all others a little."""
    found = np.zeros((n_all, n_rows))
    for query in np.flatnonzero(rng.random(n_all) < 1 / 3):
        found[query] = -0.02
        found[query, rng.choice(n_rows, 2, replace=False)] = rng.exponential(2.0, 2)
    return np.zeros_like(found), found


def both(rng, n_all, n_rows):
    near = truncation(rng, n_all, n_rows)[0]
    found = misses(rng, n_all, n_rows)[1]
    return near, near + found


@pytest.mark.parametrize("kind", [truncation, misses, both])
@pytest.mark.parametrize(("n_all", "size"), [(300, 200), (2_000, 200), (2_000, 64)])
def test_the_interval_covers(kind, n_all, size):
    rng = np.random.default_rng(5)
    kept, found = (each * rng.uniform(0, 2, (n_all, 1)) / n_all for each in kind(rng, n_all, 500))
    n_kept = n_all if kind is truncation else 200
    covered = []
    differences = []
    for _ in range(100):
        order = rng.permutation(n_all)
        truth = ((kept[order[:n_kept]].sum(axis=0) + found[order[n_kept:]].sum(axis=0)) ** 2).mean()
        estimate = estimate_error(kept[order[:size]], found[order[:size]], n_kept, n_all)
        low, high = estimate.interval
        covered.append(low**2 <= truth <= high**2)
        differences.append(estimate.square - truth)
    assert np.mean(covered) >= (0.8 if size == 64 else 0.9)  # 64 points do not show every rare miss
    assert abs(np.mean(differences)) <= 3.5 * np.std(differences) / np.sqrt(len(differences))


@pytest.mark.parametrize("n_all", [1, 2, 3])
def test_all_points_leave_nothing_to_estimate(rng, n_all):
    """The jackknife needs three points. One or two are all there are, and known exactly."""
    kept = rng.normal(size=(n_all, 4))
    assert estimate_error(kept, kept, n_all, n_all) == ((kept.sum(axis=0) ** 2).mean(), 0.0)


def test_no_error():
    assert estimate_error(*np.zeros((2, 9, 5)), 10, 20) == (0.0, 0.0)


def test_a_small_estimate_may_be_negative():
    estimate = TypicalError(-1.0, 5.0)
    assert (estimate.root, estimate.interval) == (0.0, (0.0, 2.0))


@pytest.mark.parametrize(
    ("n_val", "n_train", "memory", "expected"),
    [
        (10, 1_000, None, (10, 1_000)),
        (9_000, 1_000, None, (256, 1_000)),
        (9_000, 10**5, None, (83, 10**5)),
        (9_000, 10**7, None, (64, MAX_ENTRIES // 64)),
        (9_000, 10**5, 64 * 64 * 500, (64, 500)),
        (9_000, 10**5, 1, (64, 1)),
    ],
)
def test_sample_sizes(n_val, n_train, memory, expected):
    assert sample_sizes(n_val, n_train, memory) == expected
