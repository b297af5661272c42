"""The closed forms against the definition, exhaustively for small N."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from helpers.definition import (
    SEMIVALUES,
    UTILITIES,
    check_closed_forms,
    defined_values,
    rank_space_values,
    utility_function,
)

TASKS = ("classification", "regression")
SMALL = [(n, k) for n in range(1, 7) for k in range(1, n + 4)]
LARGER = [(n, k) for n in (7, 8) for k in range(1, n + 4)]


@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("n", "k"), SMALL)
def test_every_tie_pattern(task, utility, n, k, rng):
    assert check_closed_forms(task, utility, n, k, rng) >= len(SEMIVALUES)


@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("n", "k"), LARGER)
def test_larger_sets(task, utility, n, k, rng):
    assert check_closed_forms(task, utility, n, k, rng, max_patterns=4) == 4 * len(SEMIVALUES)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("utility", UTILITIES)
def test_every_label_sequence(utility, n_classes):
    """All matches and non-matches for N up to 5, without ties: what Theorems 1 and 2 are about."""
    for n in range(1, 6):
        for k, labels in product(range(1, n + 4), product((0, 1), repeat=n)):
            data = (list(range(n)), list(labels), 1, k, n_classes)
            expected = defined_values(
                utility_function("classification", utility, *data), n, "shapley"
            )
            found = rank_space_values("classification", utility, *data, "shapley")
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14, err_msg=str(data))


@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.parametrize("task", TASKS)
def test_a_batch_is_its_queries_one_by_one(task, utility, rng):
    from nearworth.games.classification import ClassificationGame
    from nearworth.games.regression import RegressionGame
    from nearworth.games.ties import TieBlocks

    game = (
        ClassificationGame(40, 3, 3, utility)
        if task == "classification"
        else RegressionGame(40, 3, utility)
    )
    labels = rng.integers(0, 3, (6, 40)).astype(float)
    label = rng.integers(0, 3, 6).astype(float)
    first = rng.random((6, 40)) < 0.5
    first[:, 0] = True
    together = game.values(labels, label, TieBlocks(first))
    for q in range(6):
        alone = game.values(labels[q : q + 1], label[q : q + 1], TieBlocks(first[q : q + 1]))
        np.testing.assert_array_equal(together[q], alone[0])
