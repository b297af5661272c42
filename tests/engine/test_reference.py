"""The reading path of the engine has the bits of the compiled code, whatever the data."""

from __future__ import annotations

import numpy as np
import pytest

import nearworth as nw
from nearworth._common import native
from nearworth.engine.reference import ranked_values
from nearworth.games.classification import ClassificationGame
from nearworth.games.ties import TieBlocks

SEMIVALUES = ["shapley", "banzhaf", "loo", "composite", ("beta", 4, 1), ("beta", 1, 4)]

# Distances between queries and rows, shape (Q, N).
DISTANCES = {
    "all different": lambda rng, shape: rng.random(shape),
    "many ties": lambda rng, shape: rng.integers(0, 1 + shape[1] // 4, shape).astype(float),
    "large ties": lambda rng, shape: rng.integers(0, 3, shape).astype(float),
    "all equal": lambda _, shape: np.full(shape, 7.0),
    "one float apart": lambda rng, shape: 1.0 + 2.0**-52 * rng.integers(0, 40, shape),
    "huge range": lambda rng, shape: np.exp(rng.uniform(-300.0, 300.0, shape)),
}
# Classes of n rows.
LABELS = {
    "one class": lambda _, n: np.zeros(n, dtype=int),
    "two classes": lambda rng, n: rng.permutation(np.arange(n) % 2),
    "ten classes": lambda rng, n: rng.integers(0, 10, n),
    "rare class": lambda rng, n: (rng.random(n) < 0.05).astype(int),
    "separated": lambda _, n: np.arange(n) // max(1, n // 3),
}


@pytest.fixture
def same_bits(monkeypatch):
    """Value twice, with compiled code and with the reference, and compare the bits."""
    if not native.available():
        pytest.skip("there is no compiled code to compare with")

    def same_bits(estimator, *arguments, **options):
        compiled = estimator.value(*arguments, **options)
        with monkeypatch.context() as patch:
            patch.setattr(native, "library", lambda: None)
            reference = estimator.value(*arguments, **options)
        assert reference.values.tobytes() == compiled.values.tobytes()
        if compiled.standard_errors is not None:
            assert reference.standard_errors.tobytes() == compiled.standard_errors.tobytes()

    return same_bits


def fitted(D, y, k=5, **parameters):
    return nw.KNNShapley(k, metric="precomputed", **parameters).fit(D, y)


@pytest.mark.filterwarnings("ignore:y_val has")
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("distances", DISTANCES)
def test_same_bits_on_hostile_data(distances, labels, rng, same_bits):
    """K below and beyond N, one row, both treatments of ties, labels that no row has."""
    for n in (1, 2, 3, 10, 65, 300, 2_000):
        D = DISTANCES[distances](rng, (9, n))
        y = LABELS[labels](rng, n)
        y_val = rng.choice([*y, 10**6], 9)
        for ties in ("average", "index"):
            for k in (1, 5, 400):
                same_bits(fitted(None, y, k, ties=ties), D, y_val)


@pytest.mark.parametrize("semivalue", SEMIVALUES)
@pytest.mark.parametrize("utility", ["soft", "original"])
@pytest.mark.parametrize("ties", ["average", "index"])
def test_same_bits_in_every_game(ties, utility, semivalue, rng, same_bits):
    game = {"utility": utility, "semivalue": semivalue, "ties": ties}
    for distances in ("all different", "many ties"):
        for labels in ("two classes", "ten classes"):
            D, y = DISTANCES[distances](rng, (20, 300)), LABELS[labels](rng, 300)
            weights = rng.random(20)
            same_bits(fitted(None, y, **game), D, rng.choice(y, 20), sample_weight=weights)


def test_same_bits_for_coalitions_of_some_sizes(rng, same_bits):
    D, y = DISTANCES["many ties"](rng, (20, 300)), LABELS["two classes"](rng, 300)
    same_bits(fitted(None, y, semivalue=("sizes", 10, 200)), D, rng.choice(y, 20))


@pytest.mark.parametrize("distances", ["all different", "many ties", "all equal"])
@pytest.mark.parametrize("n", [2, 7, 64, 301])
def test_same_bits_when_rows_take_no_part(n, distances, rng, same_bits):
    """Each row against all others, and against those of other groups, with standard errors."""
    D, y = DISTANCES[distances](rng, (n, n)), LABELS["two classes"](rng, n)
    estimator = fitted(D, y, standard_errors=True)
    same_bits(estimator)
    same_bits(estimator, groups=np.arange(n) // 2 if n > 2 else np.arange(n))


@pytest.mark.parametrize("matches_are_rare", [False, True])
@pytest.mark.parametrize("utility", ["soft", "original"])
@pytest.mark.parametrize("n", [1, 2, 9, 500])
def test_agrees_with_the_formula_for_batches(n, utility, matches_are_rare, rng):
    u = rng.random(n) < 0.4
    is_first = rng.random(n) < 0.5
    is_first[0] = True
    game = ClassificationGame(n, 3, 4, utility)
    values = ranked_values(u, is_first, game, matches_are_rare=matches_are_rare)
    expected = game.gain_values(u[None].astype(float), TieBlocks(is_first[None]))[0]
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-15)
