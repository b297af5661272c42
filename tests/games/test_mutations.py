"""The tests have teeth: a wrong sequence makes the contract fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.definition import check_closed_forms
from nearworth.games import classification, regression

WRONG = {
    "c shifted by a rank": lambda w: replace(w, worth=np.append(w.worth[1:], 0.0)),
    "c not capped at K": lambda w: replace(w, worth=1.0 / np.arange(1, len(w.worth) + 1)),
    "d forgotten": lambda w: replace(w, loss=np.zeros_like(w.loss)),
    "d shifted by a rank": lambda w: replace(w, loss=np.append(0.0, w.loss[:-1])),
    "d with the wrong sign": lambda w: replace(w, loss=-w.loss),
    "one part in a million": lambda w: replace(w, worth=w.worth * (1 + 1e-6)),
}


@pytest.mark.parametrize("mutation", WRONG)
@pytest.mark.parametrize(
    ("module", "sequence", "task"),
    [
        (classification, "rank_weights", "classification"),
        (regression, "rank_weights", "regression"),
        (regression, "pair_weights", "regression"),
    ],
)
def test_a_wrong_sequence_is_noticed(module, sequence, task, mutation, monkeypatch, rng):
    right = getattr(module, sequence)
    check_closed_forms(task, "soft", 5, 2, rng, semivalues=("shapley",))
    monkeypatch.setattr(module, sequence, lambda *args: WRONG[mutation](right(*args)))
    with pytest.raises(AssertionError):
        check_closed_forms(task, "soft", 5, 2, rng, semivalues=("shapley",))


@pytest.mark.parametrize(
    ("module", "task", "part"),
    [(classification, "classification", part) for part in ("own", "other", "empty")]
    + [(regression, "regression", part) for part in ("own", "cross", "others", "pairs", "empty")],
)
def test_a_wrong_correction_is_noticed(module, task, part, monkeypatch, rng):
    name = f"{task}_correction"
    right = getattr(module, name)
    monkeypatch.setattr(
        module,
        name,
        lambda *args: replace(right(*args), **{part: getattr(right(*args), part) * 1.001}),
    )
    with pytest.raises(AssertionError):
        check_closed_forms(task, "soft", 5, 4, rng, semivalues=("shapley",))
