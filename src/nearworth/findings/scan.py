"""scan: everything one pass over the neighbours tells about a data set."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from nearworth.audit.audit import audit_labels
from nearworth.audit.result import LabelAudit
from nearworth.findings.finding import (
    Finding,
    find_conflicts,
    find_duplicates,
    find_imbalance,
    find_leakage,
    find_outliers,
)


def scan(X: Any, y: Any, X_val: Any = None, y_val: Any = None, groups: Any = None, **audit: Any) -> Scan:
    """Wrong labels, duplicates, contradictions, outliers, leaks and imbalance, from one pass over all pairs.

    With a validation set, values are those for predicting it, and rows that are also in the training set are found.
    Rows of one of the `groups` (a patient, a source) do not vote for each other, and it is said if one group makes the
    score. Further parameters are those of `audit_labels`: n_neighbors, task, metric, models, n_jobs, ...

    Examples
    --------
    >>> import numpy as np, nearworth as nw
    >>> X = np.random.default_rng(0).normal(size=(200, 5))
    >>> found = nw.scan(np.concatenate([X, X[:2]]), np.repeat([0, 1], 101))
    >>> [group.tolist() for group in found.duplicates.groups]
    [[0, 200], [1, 201]]
    """
    labels = audit_labels(X, y, X_val=X_val, y_val=y_val, groups=groups, **audit)
    duplicates = find_duplicates(labels)
    found = find_conflicts(labels, duplicates), find_outliers(labels), find_leakage(labels)
    return Scan(labels, duplicates, *found, find_imbalance(labels, groups))


@dataclass(frozen=True, eq=False, repr=False)
class Scan:
    """What a scan found: `labels` is a LabelAudit, the others have rows or groups, scores and to_frame()."""

    labels: LabelAudit
    duplicates: Finding
    conflicts: Finding
    outliers: Finding
    leakage: Finding
    imbalance: Finding

    def findings(self) -> dict[str, Finding]:
        """The findings beside the labels, by name."""
        return {name: what for name, what in vars(self).items() if name != "labels"}

    def summary(self) -> str:
        """What was found, a line for each kind."""
        return "\n".join(f"{name}: {what!r}." for name, what in vars(self).items())

    def report(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write the page of `LabelAudit.report`, with a tab for each kind of finding; the options are the same."""
        self.labels.report(path, findings=self.findings(), **options)

    __repr__ = summary
