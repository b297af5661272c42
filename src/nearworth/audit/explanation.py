"""Why a row is suspected, or not, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nearworth._common.types import FloatVector

SHOWN = 5


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


@dataclass(frozen=True)
class Explanation:
    """Everything about one row; `print` it.

    `helped` and `hurt` are the validation points (or other training rows, without a validation set) to which the row
    is worth most and least; `value_under` is its value if it had had another label, all else unchanged.
    """

    row: int
    label: Any
    suggested: Any
    probability_right: float
    confidence: float
    value: float
    value_under: dict[Any, float]
    neighbours: list[Neighbour]
    helped: list[Effect]
    hurt: list[Effect]
    others: str
    suggested_range: tuple[float, float] | None = None

    @property
    def sentence(self) -> str:
        """The gist, for a person."""
        parts = [self._neighbourhood(), self._consequence(), self._verdict()]
        return " ".join(part for part in parts if part)

    def _neighbourhood(self) -> str:
        near = len(self.neighbours)
        if self.suggested_range is not None:
            low, high = self.suggested_range
            return (
                f"Row {self.row} has the target {_show(self.label)}; rows like it suggest {_show(self.suggested)}, "
                f"mostly between {_show(low)} and {_show(high)}."
            )
        same = sum(neighbour.label == self.label for neighbour in self.neighbours)
        text = f"Row {self.row} is labelled {_show(self.label)}, as are {same} of its {near} nearest neighbours"
        if self.suggested == self.label:
            return text + "."
        others = sum(neighbour.label == self.suggested for neighbour in self.neighbours)
        return f"{text}; {others} are {_show(self.suggested)}."

    def _consequence(self) -> str:
        if self.suggested not in self.value_under or self.suggested == self.label:
            return f"Its value is {self.value:.3g}, which {'hurts' if self.value < 0 else 'helps'} the {self.others}."
        return (
            f"As {_show(self.label)} it is worth {self.value:.3g} to the {self.others}; as {_show(self.suggested)} "
            f"it would be worth {self.value_under[self.suggested]:.3g}."
        )

    def _verdict(self) -> str:
        kind = "label" if self.suggested_range is None else "target"
        return f"The {kind} is wrong with a probability of about {1 - self.probability_right:.0%}."

    def __str__(self) -> str:
        lines = [self.sentence, "", "nearest neighbours"]
        lines += [f"  row {n.row:<8} {_show(n.label):<16} distance {n.distance:.4g}" for n in self.neighbours]
        for title, effects in (("helped most", self.helped), ("hurt most", self.hurt)):
            lines.append(f"{title} ({self.others})" if effects else f"{title}: none")
            lines += [f"  row {e.row:<8} {_show(e.label):<16} value {e.value:+.4g}" for e in effects]
        if self.value_under:
            lines.append("value under each label")
            lines += [
                f"  {_show(label):<21} {value:+.4g}{'   (given)' * bool(label == self.label)}"
                for label, value in sorted(self.value_under.items(), key=lambda item: -item[1])
            ]
        return "\n".join(lines)


def extremes(on_others: FloatVector, labels: Any) -> tuple[list[Effect], list[Effect]]:
    """Whom a row helps and hurts most."""
    order = np.argsort(on_others, kind="stable")
    low, high = order[:SHOWN], order[::-1][:SHOWN]

    def effects(rows: Any) -> list[Effect]:
        return [Effect(int(r), plain(labels[r]), float(on_others[r])) for r in rows]

    return (
        [effect for effect in effects(high) if effect.value > 0],
        [effect for effect in effects(low) if effect.value < 0],
    )


def plain(label: Any) -> Any:
    """A label as Python has it."""
    return label.item() if isinstance(label, np.generic) else label


def _show(label: Any) -> str:
    return f"{label:.4g}" if isinstance(label, float) else repr(label) if isinstance(label, str) else str(label)
