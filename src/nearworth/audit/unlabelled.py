"""Rows without a label: they take no part in an audit, get a suggestion, and keep their places among the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nearworth._common.types import FloatVector
from nearworth._common.warnings import warn_user
from nearworth.audit.result import BY_ROW, LabelAudit
from nearworth.engine.value import value_and_nearest

if TYPE_CHECKING:
    from nearworth.tables.prepare import LabelledFrame


def place_in_frame(audit: LabelAudit, frame: LabelledFrame) -> LabelAudit:
    """The audit of the rows of a frame that have a label, as one of all rows: the others get a suggestion."""
    if frame.target.remarks:
        warn_user(f"{'; '.join(frame.target.remarks)}.")
    some, n_rows = frame.labelled, len(frame.labelled)
    index = None if frame.index is None else frame.index[some]
    valuation = replace(audit.valuation, backend=frame.backend, index=index)
    audit = replace(audit, valuation=valuation, notes=tuple(frame.target.remarks), _index=frame.index, _frame=frame)
    if some.all():
        return audit
    suggested, confidence = suggest((audit._audited or audit)._known, frame.X[~some])
    others = dict.fromkeys(BY_ROW, np.nan) | {"given": None, "suggested": suggested, "confidence": confidence}
    arrays: dict[str, Any] = {}
    for name, known in audit.by_row.items():
        arrays[name] = np.empty((n_rows, *known.shape[1:]), dtype=object if name == "given" else known.dtype)
        arrays[name][some], arrays[name][~some] = known, others[name]
    return replace(audit, **arrays, copies=audit.copies and audit.copies.among(some))


def suggest(audit: LabelAudit, X: Any) -> tuple[Any, FloatVector]:
    """Labels for rows that have none, by what the audit says of their nearest rows, and how likely they are right.

    That is a mean of probabilities. For regression: the median of near targets, NaN.
    """
    training, k = audit._estimator.training_set_, min(audit._estimator.n_neighbors, len(audit))
    parameters = {**audit._estimator.get_params(deep=False), "search": "exact", "max_error": None}
    none = np.zeros(len(X), dtype=training.labels.dtype)
    rows = value_and_nearest(training.problem_of(X, none, np.ones(len(X)), parameters), k)[1].rows
    probabilities = audit.label_probabilities
    if probabilities is None or audit.classes is None:
        return np.quantile(audit.given[rows], 0.5, axis=1, method="lower"), np.full(len(X), np.nan)
    shares = sum(probabilities[rows[:, i]] for i in range(k)) + 1.0 / len(audit.classes)
    shares /= k + 1  # a few neighbours never make it certain
    return audit.classes[shares.argmax(axis=1)], shares.max(axis=1)
