"""What an audit found, in the one form that commands and report read. The only place that knows how audits are made."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nearworth._typing import FloatVector, IntVector


class Neighbour(NamedTuple):
    """A row that speaks for or against a label."""

    row: int
    label: Any
    distance: float


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
    why: Callable[[int], str]
    neighbours: Callable[[int], list[Neighbour]]

    @property
    def threshold(self) -> float | None:
        """The quality of the best suspect: rows below or at it are listed."""
        return float(self.quality[self.suspects].max()) if len(self.suspects) else None


class Selection(NamedTuple):
    """Which rows are listed; the audit's own choice when nothing is said."""

    rule: str | None = None
    fraction: float | None = None
    max_fdr: float | None = None

    def asked(self) -> dict[str, Any]:
        """What was said."""
        return {name: value for name, value in self._asdict().items() if value is not None}

    def describe(self) -> str:
        """The same in words."""
        return ", ".join(f"{name.replace('_', '-')} {value}" for name, value in self.asked().items()) or "default rule"


def audit(X: Any, y: Any, X_val: Any, y_val: Any, selection: Selection, parameters: dict[str, Any]) -> Findings:
    """Audit the labels and list suspects."""
    try:
        from nearworth import audit_labels  # type: ignore[attr-defined]
    except ImportError:
        from nearworth._stand_in import audit_labels
    known = inspect.signature(audit_labels).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in known.values()):
        refused = [name for name in parameters if name not in known]
        if refused:
            raise ValueError(f"--{refused[0].replace('_', '-')} has no meaning for an audit of labels; leave it out.")
    result = audit_labels(X, y, X_val=X_val, y_val=y_val, **parameters)
    return findings_of(result, y, selection)


def findings_of(result: Any, given: Any, selection: Selection) -> Findings:
    """From a LabelAudit to what commands and report read."""
    suspects = np.asarray(result.suspects(**selection.asked()), dtype=np.intp)
    count = result.n_errors
    return Findings(
        given=given,
        suggested=result.suggested,
        confidence=np.asarray(result.confidence, dtype=np.float64),
        quality=np.asarray(result.quality, dtype=np.float64),
        value=np.asarray(result.value, dtype=np.float64),
        agreement=np.asarray(result.agreement, dtype=np.float64),
        suspects=suspects,
        rule=selection.describe(),
        n_errors=None if count is None else (float(count.estimate), float(count.lower), float(count.upper)),
        why=lambda row: str(result.explain(row).sentence),
        neighbours=lambda row: [Neighbour(*n) for n in result.explain(row).neighbours],
    )
