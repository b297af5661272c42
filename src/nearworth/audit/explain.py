"""Why a row is suspected, or not, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from nearworth._common.frames import html_table
from nearworth._common.text import cell, one_line
from nearworth._common.types import FloatVector, IntVector
from nearworth.engine.problem import Problem
from nearworth.engine.value import single_values
from nearworth.estimator import KNNShapley
from nearworth.games.classification import ClassificationGame

EFFECTS = 5  # points helped and hurt that are named


class Neighbour(NamedTuple):
    """A training row near the one explained: its number, its label and how far it is."""

    row: int
    label: Any
    distance: float


class Effect(NamedTuple):
    """What the row explained is worth to another: that one's number and label, and the value."""

    row: int
    label: Any
    value: float


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Everything about one row; `print` it.

    `helped` and `hurt` are the validation points (or other training rows, without a validation set)
    to which the row is worth most and least; `value_by_label` is its value if it had had another
    label, all else unchanged; `why` is what its neighbours say.
    """

    row: int
    label: Any
    suggested: Any
    probability_right: float
    confidence: float
    value: float
    value_by_label: dict[Any, float]
    neighbors: list[Neighbour]
    helped: list[Effect]
    hurt: list[Effect]
    others: str
    why: str
    suggested_range: tuple[float, float] | None = None

    @property
    def sentence(self) -> str:
        """The gist, for a person."""
        kind = "is labelled" if self.suggested_range is None else "has the target"
        gist = (
            f"Row {self.row} {kind} {show(self.label)}: {self.why}. It is worth {self.value:.3g} to"
            f" the {self.others}"
        )
        if self.suggested not in self.value_by_label or self.suggested == self.label:
            return f"{gist}."
        return (
            f"{gist}; as {show(self.suggested)} it would be worth"
            f" {self.value_by_label[self.suggested]:.3g}."
        )

    def _table(self) -> list[tuple[str, Any, str, str]]:
        rows = [
            ("near", n.row, show(n.label), f"distance {n.distance:.4g}") for n in self.neighbors
        ]
        for kind, effects in (("helped", self.helped), ("hurt", self.hurt)):
            rows += [(kind, e.row, show(e.label), f"value {e.value:+.4g}") for e in effects]
        return rows + [
            ("as", "", show(label), f"value {value:+.4g}")
            for label, value in self.value_by_label.items()
        ]

    def _repr_html_(self) -> str:
        return html_table(self._table(), ("", "row", "label", ""), self.sentence)

    def __str__(self) -> str:
        lines = [
            f"{kind:<8}{row!s:<10}{cell(label):<16} {number}"
            for kind, row, label, number in self._table()
        ]
        return "\n".join([self.sentence, "", *lines])


def effects_of(
    estimator: KNNShapley,
    row: int,
    X_val: Any = None,
    y_val: Any = None,
    groups: IntVector | None = None,
) -> tuple[FloatVector, FloatVector]:
    """The value of a row for each validation point, and in all under each label it might have (none
    for regression).

    Exact, in two passes over the validation points: one for the value of the row, one for its
    ranks. With its ranks known, another label changes a sum only: phi = worth(rank) [match] + terms
    that do not depend on the row's own label, and for the soft utility what the counts of the
    classes add.
    """
    problem = estimator.training_set_.problem(
        X_val, y_val, None, estimator.get_params(deep=False), groups
    )
    values = single_values(problem, np.array([row]))[:, 0]
    if not isinstance(problem.game, ClassificationGame):
        return values, np.empty(0)
    only_row = (np.arange(problem.n_train) == row).astype(np.intp)
    alone = replace(problem, labels=only_row, query_labels=np.ones(problem.n_val, dtype=np.intp))
    worth = single_values(alone, np.array([row]))[:, 0] - _added(alone, row)[0]
    if_match, if_other = _added(problem, row)
    matched, queries, weights = worth + if_match, problem.query_labels, problem.weights
    rest = values - np.where(queries == problem.labels[row], matched, if_other)
    under = (
        rest + np.where(queries == label, matched, if_other)
        for label in range(len(estimator.classes_))
    )
    return values, np.array([weights @ value / weights.sum() for value in under])


def _added(problem: Problem, row: int) -> tuple[FloatVector, FloatVector]:
    """What the soft utility adds to the value of the row for each validation point, with its label
    and with another.
    """
    labels, if_match, if_other = problem.labels, np.zeros(problem.n_val), np.zeros(problem.n_val)
    n_labels = int(problem.query_labels.max()) + 1
    counts = np.append(
        np.bincount(np.delete(labels, row), minlength=n_labels), 0
    )  # unseen labels: code -1
    for start, stop, excluded in problem.runs(0, problem.n_val):
        queries, is_other = problem.query_labels[start:stop, None], excluded != row
        matches = counts[queries[:, 0]] - ((labels[excluded] == queries) & is_other).sum(axis=1)
        game, takes_part = problem.game_without(excluded.shape[1]), is_other.all(axis=1)
        if_match[start:stop] = np.where(takes_part, game.added(matches + takes_part)[0], 0.0)
        if_other[start:stop] = np.where(takes_part, game.added(matches)[1], 0.0)
    return if_match, if_other


def plain(label: Any) -> Any:
    """A label as a Python object."""
    return label.item() if isinstance(label, np.generic) else label


def show(label: Any) -> str:
    """A label as text in one line; numbers with four digits that count.

    >>> show(163912.4), show(0.12345), show(1e30), show("cat")
    ('163,900', '0.1235', '1e+30', 'cat')
    """
    if not isinstance(label, float):
        return one_line(label)
    return f"{float(f'{label:.4g}'):,.0f}" if 1e4 <= abs(label) < 1e15 else f"{label:.4g}"
