"""Rows that are there more than once: among themselves, with different labels, and in the validation set too."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearworth._common.types import IntVector
from nearworth.audit.copies import Copies, around, first_copies, near_threshold
from nearworth.audit.result import LabelAudit
from nearworth.findings.finding import Finding, counted, joined, shares
from nearworth.inputs.features import check_features

TINY = 1e-300


def find_duplicates(audit: LabelAudit) -> Finding:
    """Identical rows, however many, and near-copies; the scores are 1 for identical rows."""
    first = audit._first
    assert first is not None
    copies = audit.copies or Copies(np.unique(first, return_inverse=True)[1])  # audits pass over coarse tables
    groups, rows, exact = copies.groups, joined(copies.groups), np.bincount(first)[first] > 1
    extra = joined([np.delete(group, int(np.argmax(audit.value[group]))) for group in groups])
    says = f"{counted(len(rows), 'row')} in {counted(len(groups), 'group')} of copies, {int(exact.sum()):,} identical"
    if copies.threshold:
        says += f", the others within {copies.threshold:.2g} of the distance to the 20th row"
    if groups:
        says += f"; all but one of each group draw {shares(audit.value)[extra].sum():.1%} of payments by value"
    scores = np.where(exact, 1.0, 0.0 if copies.nearness is None else copies.nearness)
    more = {"exact": exact, "label": audit.given, "value": audit.value, "extra": np.isin(np.arange(len(audit)), extra)}
    columns = {name: column[rows] for name, column in more.items()}
    return Finding(rows=rows, scores=scores, says=says, groups=groups, columns=columns)


def find_conflicts(audit: LabelAudit, duplicates: Finding) -> Finding:
    """Copies with different labels; the score is the share of the other copies that have another label."""
    given, scores, groups = audit.given, np.zeros(len(audit)), []
    for group in duplicates.groups or [] if audit.classes is not None else []:
        scores[group] = (given[group][:, None] != given[group]).sum(axis=1) / (len(group) - 1)
        groups += [group] if scores[group].any() else []
    says = f"{counted(len(groups), 'group')} of copies with different labels, at least one of which is wrong"
    columns = {"label": given[joined(groups)]}
    return Finding(rows=joined(groups), scores=scores, says=says, groups=groups, columns=columns)


def find_leakage(audit: LabelAudit) -> Finding:
    """Validation rows with a copy in the training set; `columns` name the training rows."""
    trusted, metric, n_train = audit._trusted, audit._estimator.metric, len(audit)
    if trusted is None:
        return Finding(rows=np.zeros(0, dtype=np.intp), scores=np.zeros(0), says="no validation set was given")
    distances, nearest = trusted.distances(metric), trusted.rows[:, 0].astype(np.intp)
    first = np.arange(n_train + len(nearest))
    if metric != "precomputed":
        first = first_copies(audit._features.data, check_features(audit._validation[0], "X_val").data)
    exact = first[n_train:] < n_train
    among_rows = audit._voters.distances(metric)
    scale, threshold = np.minimum(around(distances), around(among_rows)[nearest]), near_threshold(among_rows)
    nearness = np.clip(1.0 - distances[:, 0] / np.maximum(scale, TINY), 0.0, 1.0)
    found = exact | ((nearness >= 1.0 - threshold) & (scale > 0) & (distances[:, 0] >= 0))
    rows = np.flatnonzero(found)
    training_rows = np.where(exact, first[n_train:], nearest)[rows]
    says = f"{counted(len(rows), 'validation row')} with a copy in the training set, {int(exact.sum()):,} identical"
    says += _what_leaks_make(audit, found, training_rows) if len(rows) else ""
    columns = {"training_row": training_rows, "exact": exact[rows]}
    return Finding(rows=rows, scores=np.where(exact, 1.0, nearness), says=says, columns=columns)


def _what_leaks_make(audit: LabelAudit, found: npt.NDArray[np.bool_], training_rows: IntVector) -> str:
    """How good the K nearest rows predict validation rows with and without them, and what their copies are worth."""
    says = f"; their copies have {shares(audit.value)[np.unique(training_rows)].sum():.1%} of the value"
    if audit.classes is None or audit._trusted is None:
        return says
    near = audit._trusted.rows[:, : audit._estimator.n_neighbors]
    right = ((audit.given[near] == np.asarray(audit._validation[1])[:, None]) & (near >= 0)).mean(axis=1)
    without = f", {right[~found].mean():.3f} without such rows" if not found.all() else ""
    return f"{says}; neighbours carry the right label in {right.mean():.3f} of all cases{without}"
