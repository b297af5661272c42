"""What one row does to each validation point, and its value under every label it might have had."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nearworth._common.types import FloatVector, IntVector
from nearworth.engine.problem import Problem
from nearworth.engine.value import single_values
from nearworth.estimator import KNNShapley
from nearworth.games.classification import ClassificationGame


@dataclass(frozen=True)
class Effects:
    """Value of one row for each validation point, and in all under each label (empty for regression)."""

    on_others: FloatVector
    under: FloatVector


def effects_of(estimator: KNNShapley, row: int, X_val: Any = None, y_val: Any = None) -> Effects:
    """Exactly, in two passes over the validation points: one for the value of the row, one for its ranks.

    With its ranks known, another label changes the sum only: phi = worth(rank) [match] + terms that do not depend on
    the row's own label, and for the soft utility what the counts of the classes add.
    """
    parameters = estimator.get_params(deep=False)
    problem = estimator.training_set_.problem(X_val, y_val, None, parameters)
    if not isinstance(problem.game, ClassificationGame):
        return Effects(_effects(estimator, problem, row), np.empty(0))
    soft = parameters["utility"] == "soft"
    votes = min(estimator.n_neighbors, problem.game.n_players) if soft else estimator.n_neighbors
    n_classes = len(estimator.classes_)
    plain = ClassificationGame(problem.game.n_players, votes, n_classes, "original", estimator.semivalue)
    linear = _effects(estimator, replace(problem, game=plain), row)
    mine = np.zeros(problem.n_train, dtype=np.intp)
    mine[row] = 1
    alone = replace(problem, game=plain, labels=mine, query_labels=np.ones(problem.n_val, dtype=np.intp))
    worth = _effects(estimator, alone, row)
    given = int(problem.labels[row])
    rest = linear - worth * (problem.query_labels == given)
    under = [rest + worth * (problem.query_labels == c) + _added(problem, row, c) for c in range(n_classes)]
    total = problem.weights.sum()
    return Effects(under[given], np.array([problem.weights @ effect / total for effect in under]))


def _effects(estimator: KNNShapley, problem: Problem, row: int) -> FloatVector:
    return single_values(estimator.training_set_, problem, estimator.get_params(deep=False), np.array([row]))[:, 0]


def _added(problem: Problem, row: int, label: int) -> FloatVector:
    """What the soft utility adds to the value of the row, if that were its label, for each validation point."""
    assert isinstance(problem.game, ClassificationGame)
    labels = problem.labels.copy()
    labels[row] = label
    matches = _matches(labels, problem.query_labels, problem.leave_one_out)
    of_match, of_other = problem.game.added(matches)
    added = np.where(problem.query_labels == label, of_match, of_other)
    if problem.leave_one_out:
        added[row] = 0.0  # it takes no part in its own game
    return np.asarray(added, dtype=np.float64)


def _matches(labels: IntVector, query_labels: IntVector, leave_one_out: bool) -> FloatVector:
    counts = np.bincount(labels, minlength=max(int(query_labels.max()) + 1, 1)).astype(np.float64)
    matches = np.where(query_labels >= 0, counts[query_labels], 0.0)
    return matches - 1.0 if leave_one_out else matches
