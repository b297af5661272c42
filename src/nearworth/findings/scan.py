"""scan: everything one pass over the neighbours tells about a data set."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from nearworth.audit.audit import audit_labels
from nearworth.audit.result import LabelAudit
from nearworth.findings.copied import find_conflicts, find_duplicates, find_leakage
from nearworth.findings.finding import Finding
from nearworth.findings.imbalance import find_imbalance
from nearworth.findings.outliers import find_outliers


def scan(X: Any, y: Any, X_val: Any = None, y_val: Any = None, groups: Any = None, **audit: Any) -> Scan:
    """Wrong labels, duplicates, contradictions, outliers, leaks and imbalance, from one pass over all pairs.

    Parameters
    ----------
    X, y : like X and y of `audit_labels`
    X_val, y_val : optional
        A validation set: values are those for predicting it, and rows that are also in the training set are found.
    groups : array, optional
        A group for each row (a patient, a source): rows of one group do not vote for each other, and it is said if
        one group makes the score.
    **audit
        Further parameters of `audit_labels`: n_neighbors, task, metric, models, n_jobs, ...

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
    return Scan(
        labels=labels,
        duplicates=duplicates,
        conflicts=find_conflicts(labels, duplicates),
        outliers=find_outliers(labels),
        leakage=find_leakage(labels),
        imbalance=find_imbalance(labels, groups),
    )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
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
        names = ("duplicates", "conflicts", "outliers", "leakage", "imbalance")
        return {name: getattr(self, name) for name in names}

    def summary(self) -> str:
        """What was found, a line for each kind."""
        return "\n".join(f"{name}: {what!r}." for name, what in {"labels": self.labels, **self.findings()}.items())

    def report(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write the page of `LabelAudit.report`, with a tab for each kind of finding; the options are the same."""
        self.labels.report(path, findings=self.findings(), **options)

    def __repr__(self) -> str:
        return self.summary()
