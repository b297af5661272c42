"""The number of wrong labels, and lists with a limited share of false alarms."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.preprocessing import StandardScaler

import nearworth as nw
from nearworth.audit.error_count import MISCOUNTED, ErrorCount, cautious, count_errors, longest_list


@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 1.0])
def test_interval_of_the_count(share):
    count = count_errors(np.full((1, 1000), 1 - share), np.ones(1), 1.2 * 1000 * share)
    assert 0 <= count.lower <= count.estimate <= count.upper <= 1000
    np.testing.assert_allclose(count.estimate, 1000 * share)


def test_an_estimate_is_not_below_what_is_known():
    count = count_errors(np.full((1, 1000), 0.9), np.ones(1), 110.0, fewest=105)
    assert (count.estimate, count.lower) == (105, 105)
    assert count.upper >= 105


def test_an_estimate_needs_an_upper_end_that_is_near():
    """Thirty labels seem wrong, but three hundred are against their surroundings: who is to
    tell.
    """
    right = np.full((1, 1000), 0.97)
    far, near = (count_errors(right, np.ones(1), most) for most in (300.0, 47.0))
    assert far.estimate is None
    assert (far.lower, far.upper) == (near.lower, 300.0)
    assert near.estimate == pytest.approx(30)
    assert near.upper == 47
    assert count_errors(right, np.ones(1), 5000.0).upper == 1000
    assert count_errors(right, np.ones(1), 3.0).upper > 29.9  # never below what is told


def test_models_that_disagree_widen_the_interval():
    right = np.array([np.full(1000, 0.9), np.full(1000, 0.6)])
    alone = [count_errors(right[[number]], np.ones(1), 390.0) for number in (0, 1)]
    both = count_errors(right, np.array([0.5, 0.5]), 390.0)
    np.testing.assert_allclose(both.estimate, 250)
    # The outer half of the first alone is all that remains of its tail.
    assert alone[0].lower < both.lower < 100 < alone[1].lower


def test_caution_keeps_the_order_and_the_certain(rng):
    right = np.sort(rng.random(50))
    given = np.zeros(50, dtype=int)
    assert (cautious(right, given) > right).all()
    assert (np.diff(cautious(right, given)) > 0).all()
    np.testing.assert_allclose(cautious(np.array([0.0, 1.0]), np.array([0, 0])), [0.0, 1.0])


def test_a_rare_class_is_not_wrong_altogether(rng):
    """Twenty rows with one label, all of which seem wrong: as many wrong ones were to be expected,
    but not for sure.
    """
    given = np.repeat([0, 1], [980, 20])
    right = np.concatenate([rng.uniform(0.9, 1.0, 980), rng.uniform(0.0, 0.05, 20)])
    careful = cautious(right, given)
    # A normal variable with mean 0 and spread s is 0.8 s on the average of its upper half.
    assert careful[given == 1].sum() == pytest.approx(
        0.8 * np.sqrt(19 + (MISCOUNTED * 19) ** 2), rel=0.2
    )
    alone = cautious(right[given == 0], given[given == 0])
    np.testing.assert_allclose(careful[given == 0], alone)


def test_longest_list_from_the_definition(rng):
    right = np.sort(rng.random(200) ** 2)
    for asked in (0.05, 0.2, 0.3):
        for extra in (0.5, 1.0):
            n = longest_list(right, asked, extra)
            expected = max(
                [m for m in range(1, 201) if (right[:m].sum() + extra) / m <= asked], default=0
            )
            assert n == expected
    assert longest_list(right, 1.0, 1.0) == 200
    assert longest_list(right, 0.0, 1.0) == 0


def test_count_prints_itself():
    told = ErrorCount(12.4, 8.0, 1200.0, assumption="pigs fly")
    assert str(told) == "about 12 (at least 8; at most 1,200 if pigs fly)"
    untold = ErrorCount(None, 8.0, 20.0, assumption="pigs fly")
    assert str(untold) == "at least 8; at most 20 if pigs fly"
    assert (
        str(ErrorCount(12.4, 8.0, 20.0, 0.9, "review"))
        == "about 12, 8 to 20 (90% interval, by review)"
    )


def test_caution_survives_rounding():
    np.testing.assert_allclose(cautious(np.array([1 - 1e-16, 1 + 2.3e-16]), np.array([0, 1])), 1.0)
    lonely = cautious(np.array([1e-30]), np.array([0]))
    assert 0.3 < lonely[0] < 0.7  # one row of its class, whatever is thought of it


def test_a_chance_that_nothing_is_wrong():
    right = np.full((1, 1000), 0.8)
    weights = np.ones(1)
    counts = [count_errors(right, weights, 300.0, none=none) for none in (0.0, 0.01, 0.3, 1.0)]
    assert [count.estimate for count in counts[:3]] == pytest.approx([200.0, 198.0, None])
    lower = [count.lower for count in counts]
    assert lower[0] > lower[1] > 80
    assert lower[2:] == [0, 0]  # more than one chance in forty


@pytest.mark.parametrize("n", [16, 24, 40])
@pytest.mark.parametrize("load", [load_iris, load_digits, None])
def test_of_few_rows_the_upper_end_is_honest(n, load):
    """A row sees one of its own label less than others do: among few rows that tells its label, and
    proves nothing.
    """
    for seed in range(4):
        rng = np.random.default_rng(seed)
        if load is None:  # labels by lot: half of them may well be wrong
            y = rng.permutation(np.arange(n) % 2)
            assert nw.audit_labels(rng.normal(size=(n, 3)), y).n_errors.upper > 0.3 * n
            continue
        X, true = load(return_X_y=True)
        rows = rng.permutation(len(true))[:n]
        y = nw.add_label_noise(true[rows], 3 / n, random_state=seed)
        count = nw.audit_labels(StandardScaler().fit_transform(X[rows]), y).n_errors
        assert count.lower <= (y != true[rows]).sum() <= count.upper
        assert count.estimate is None
