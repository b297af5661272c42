"""What an audit found, in the one form that commands and report read: the only place that knows a LabelAudit inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nearworth._common.types import FloatVector, IntVector
from nearworth.results.detection import DEFAULT_FRACTION

ISSUE = 0.5  # a label is called an issue when it is more likely wrong than right


@dataclass(frozen=True)
class Findings:
    """One entry per row, and the suspects, worst first."""

    given: Any
    suggested: Any
    confidence: FloatVector
    quality: FloatVector
    value: FloatVector
    agreement: FloatVector
    suspects: IntVector
    rule: str
    n_errors: tuple[float, float, float] | None
    ranges: Any  # (N, 2) for regression, else None
    nearest: Callable[[int], list[Any]]  # of (row, label, distance), nearest first
    error_bound: float = 0.0  # of the values, certified
    selection: Selection | None = None  # how the suspects were chosen, where that is known
    n_voters: int = 0  # neighbours whose votes make up the agreement

    @property
    def threshold(self) -> float | None:
        """The quality that rows are listed below; where no rule sets it, that of the best suspect."""
        if self.selection is not None and not self.selection.asked():
            return ISSUE
        return float(self.quality[self.suspects].max()) if len(self.suspects) else None

    def why_none(self) -> str:
        """Why nothing is listed where something would be without --max-fdr; else nothing."""
        if len(self.suspects) or self.selection is None or self.selection.max_fdr is None:
            return ""
        others = int((self.quality < ISSUE).sum())
        listed = f"{others:,} {'row is' if others == 1 else 'rows are'} listed" if others else "none is listed either"
        return (
            f"No list can promise at most {100 * self.selection.max_fdr:.3g} % false alarms here; "
            f"without --max-fdr {listed}."
        )

    def why(self, row: int) -> str:
        """The gist, for a person, from the neighbours alone: it costs nothing and so can be told of every suspect."""
        doubt = 1 - self.quality[row]
        wrong = f"wrong with a probability of {'more than 99%' if doubt > 0.99 else f'about {doubt:.0%}'}"
        if self.ranges is not None:
            low, high = self.ranges[row]
            return f"rows like it are mostly between {low:.4g} and {high:.4g}; {wrong}"
        near = [neighbour[1] for neighbour in self.nearest(row)]
        given, suggested = self.given[row], self.suggested[row]
        same, others = sum(bool(n == given) for n in near), sum(bool(n == suggested) for n in near)
        there = f"{others} are {_show(suggested)}, " if suggested != given else ""
        return f"of its {len(near)} nearest rows {there}{same} {'is' if same == 1 else 'are'} {_show(given)}; {wrong}"


class Selection(NamedTuple):
    """Which rows are listed; the audit's own choice when nothing is said."""

    rule: str | None = None
    fraction: float | None = None
    max_fdr: float | None = None

    def asked(self) -> dict[str, Any]:
        """What was said."""
        return {name: value for name, value in self._asdict().items() if value is not None}

    def as_keywords(self) -> dict[str, Any]:
        """The same as `LabelAudit.suspects` takes it, which calls "ranking" by its fraction."""
        if self.rule == "ranking":
            return {"fraction": DEFAULT_FRACTION if self.fraction is None else self.fraction}
        return self.asked()

    def describe(self) -> str:
        """The same in words."""
        return (
            ", ".join(f"{name.replace('_', '-')} {value}" for name, value in self.asked().items())
            or "more likely wrong than right"
        )


def findings_of(result: Any, selection: Selection = Selection()) -> Findings:  # noqa: B008
    """From a LabelAudit to what commands and report read."""
    count = result.n_errors
    return Findings(
        given=result.given,
        suggested=result.suggested,
        confidence=result.confidence,
        quality=result.quality,
        value=result.value,
        agreement=result.agreement,
        suspects=np.asarray(result.suspects(**selection.as_keywords()), dtype=np.intp),
        rule=selection.describe(),
        n_errors=(float(count.estimate), float(count.lower), float(count.upper)),
        ranges=result.suggested_range,
        nearest=result._nearest,
        error_bound=float(result.valuation.error_bound),
        selection=selection,
        n_voters=result._neighbours.points.shape[1],
    )


def _show(label: Any) -> str:
    return f"{label:.4g}" if isinstance(label, float) else str(label)
