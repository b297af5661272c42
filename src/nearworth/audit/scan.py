"""scan: everything one pass over the neighbours tells about a data set, a Finding of each kind.

Nothing here looks at pairs of rows again: lists, values and copies are those of the audit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from nearworth._common.frames import make_frame
from nearworth._common.text import one_line
from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth.audit.audit import audit_labels
from nearworth.audit.result import LabelAudit
from nearworth.audit.votes import Copies, around, disagreeing, first_copies, near_threshold
from nearworth.inputs.features import check_features, row_chunks
from nearworth.inputs.targets import check_classes
from nearworth.tables import number_of

ANGLES_OF, LEAST_COLUMNS = 30, 6  # neighbours; in fewer dimensions angles say little
EXPECTED = 0.05  # usual rows that are called outliers, in all
FEWEST_ROWS, NOT_NEAR = 30, 0.75
FAR, MIDDLE, NORMAL_FAR = 0.9, 0.5, 1.2815515655446004  # quantiles; the standard normal's at FAR
LEAST_SLOPE = 0.05  # of logarithms: rows on a grid are all equally far
TINY = 1e-12
FEWEST = (
    2  # times K rows of a class, below which rows of other classes have most votes on its labels
)
MOST_OF_SCORE = 0.5  # of the groups' positive values, in a group with a smaller share of the rows


def scan(
    X: Any, y: Any, *, X_val: Any = None, y_val: Any = None, groups: Any = None, **audit: Any
) -> Scan:
    """Wrong labels, duplicates, contradictions, outliers, leaks and imbalance, from one pass over
    all pairs.

    With a validation set, values are those for predicting it, and rows that are also in the
    training set are found. Rows of one of the `groups` (a patient, a source) do not vote for each
    other, and it is said if one group makes the score. Further parameters are those of
    `audit_labels`: n_neighbors, task, metric, models, n_jobs, ...

    Examples
    --------
    >>> import numpy as np, nearworth as nw
    >>> X = np.random.default_rng(0).normal(size=(200, 5))
    >>> found = nw.scan(np.concatenate([X, X[:2]]), np.repeat([0, 1], 101))
    >>> [group.tolist() for group in found.duplicates.groups]
    [[0, 200], [1, 201]]
    """
    labels = audit_labels(X, y, X_val=X_val, y_val=y_val, groups=groups, **audit)
    known, groups = labels._known, None if groups is None else np.asarray(groups)[labels._rows]
    duplicates = find_duplicates(known)
    found = (
        find_conflicts(known, duplicates.groups or []),
        find_outliers(known),
        find_leakage(known),
    )
    return Scan(
        labels,
        *(_in_all(labels, each) for each in (duplicates, *found, find_imbalance(known, groups))),
    )


def _in_all(audit: LabelAudit, found: Finding) -> Finding:
    """A finding about the rows that have a label, numbered among all rows, which have NaN for a
    score.
    """
    rows, columns = audit._rows, found.columns
    if "training_row" in columns:
        found = replace(found, columns={**columns, "training_row": rows[columns["training_row"]]})
        return _in_validation_frame(audit, found)
    groups = None if found.groups is None else [rows[group] for group in found.groups]
    return replace(found, rows=rows[found.rows], scores=audit._spread(found.scores), groups=groups)


def _in_validation_frame(audit: LabelAudit, found: Finding) -> Finding:
    """A finding about the validation rows that have a label, numbered among all rows of the
    validation frame.
    """
    has_label = audit._validation_labelled
    if has_label is None:
        return found
    scores = np.full(len(has_label), np.nan)
    scores[has_label] = found.scores
    return replace(found, rows=np.flatnonzero(has_label)[found.rows], scores=scores)


@dataclass(frozen=True, eq=False, repr=False)
class Scan:
    """What a scan found: `labels` is a LabelAudit, the others have rows or groups, scores and
    to_frame().
    """

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
        return "\n".join(
            f"{name}: {said}." for name, what in vars(self).items() if (said := repr(what))
        )

    def report(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write the page of `LabelAudit.report`, with a tab for each kind of finding; the options
        are the same.
        """
        self.labels.report(path, findings=self.findings(), **options)

    __repr__ = summary


@dataclass(frozen=True, eq=False, repr=False)
class Finding:
    """What a scan found of one kind; `summary` has it in words, with the threshold that it rests
    on.
    """

    rows: IntVector  # the row numbers found, the clearest first, or group by group
    # of every row of the data (of validation rows, for leakage): higher is more of it
    scores: FloatVector
    summary: str
    groups: list[IntVector] | None = None
    columns: Mapping[str, Any] = field(
        default_factory=dict
    )  # more about the rows found, for `to_frame`

    def __len__(self) -> int:
        return len(self.rows)

    def to_frame(self, backend: str | None = None) -> Any:
        """One line per row found: row, score, group (where there are groups), and what else is
        known.
        """
        columns = {"row": self.rows, "score": self.scores[self.rows]}
        if self.groups is not None:
            columns["group"] = np.repeat(
                np.arange(len(self.groups)), [len(group) for group in self.groups]
            )
        return make_frame({**columns, **self.columns}, backend)

    def __repr__(self) -> str:
        return self.summary


def find_duplicates(audit: LabelAudit) -> Finding:
    """Identical rows, however many, and near-copies; the scores are 1 for identical rows."""
    first = audit._first
    assert first is not None
    copies = audit.copies or Copies(
        np.unique(first, return_inverse=True)[1], identical=first
    )  # coarse tables too
    groups, rows, exact = copies.groups, joined(copies.groups), np.bincount(first)[first] > 1
    extra = joined([np.delete(group, int(np.argmax(audit.value[group]))) for group in groups])
    kind = f"of copies, {exact[rows].sum():,} identical"
    if audit.copies is None and groups:
        kind = "of identical rows, about as many as chance makes where values are few"
    says = f"{number_of('row', len(rows))} in {number_of('group', len(groups))} {kind}"
    if copies.threshold:
        says += f", the others within {copies.threshold:.2g} of the distance to the 20th row"
    if groups:
        says += (
            f"; all but one of each group draw {payments(audit.value)[extra].sum():.1%} of payments"
            " by value"
        )
    scores = np.where(exact, 1.0, 0.0 if copies.nearness is None else copies.nearness)
    more = {
        "exact": exact,
        "label": audit.given,
        "value": audit.value,
        "extra": np.isin(np.arange(len(audit)), extra),
    }
    return Finding(
        rows, scores, says, groups, {name: column[rows] for name, column in more.items()}
    )


def find_conflicts(audit: LabelAudit, copies: list[IntVector]) -> Finding:
    """Copies with different labels; the score is the share of the other copies that have another
    label.
    """
    given, scores = audit.given, np.zeros(len(audit))
    groups = [] if audit.classes is None else disagreeing(copies, given)
    sure = np.concatenate([np.zeros(0, dtype=np.intp), *audit.contradictions])
    n_sure = sum(bool(np.isin(group, sure).any()) for group in groups)
    for group in groups:
        scores[group] = (given[group][:, None] != given[group]).sum(axis=1) / (len(group) - 1)
    alike = "identical rows" if audit.copies is None else "copies"
    says = f"{number_of('group', len(groups))} of {alike} with different labels"
    if n_sure:
        says += (
            f"; in {n_sure:,} of them identical rows have different labels, at least one of which"
            " is wrong"
        )
    elif groups:
        says += "; these may differ for a reason, and no label need be wrong"
    return Finding(joined(groups), scores, says, groups, {"label": given[joined(groups)]})


def find_leakage(audit: LabelAudit) -> Finding:
    """Validation rows with a copy in the training set; `columns` name the training rows."""
    trusted, metric, n_train = audit._trusted, audit._estimator.metric, len(audit)
    if trusted is None:
        return Finding(
            joined([]),
            np.zeros(0),
            "no validation set was given",
            columns={"training_row": joined([])},
        )
    distances, nearest = trusted.lengths(metric), trusted.rows[:, 0].astype(np.intp)
    first = np.arange(n_train + len(nearest))
    if metric != "precomputed":
        first = first_copies(
            audit._features.data, check_features(audit._validation[0], "X_val").data
        )
    exact = first[n_train:] < n_train
    among_rows = audit._voters.lengths(metric)
    scale, threshold = (
        np.minimum(around(distances), around(among_rows)[nearest]),
        near_threshold(among_rows),
    )
    nearness = np.clip(1.0 - distances[:, 0] / np.maximum(scale, 1e-300), 0.0, 1.0)
    found = exact | ((nearness >= 1.0 - threshold) & (scale > 0) & (distances[:, 0] >= 0))
    rows = np.flatnonzero(found)
    training_rows = np.where(exact, first[n_train:], nearest)[rows]
    says = (
        f"{number_of('validation row', len(rows))} with a copy in the training set, {exact.sum():,}"
        " identical"
    )
    if len(rows):
        says += (
            f"; their copies have {payments(audit.value)[np.unique(training_rows)].sum():.1%} of"
            " the value"
        )
    if len(rows) and audit.classes is not None:
        near = trusted.rows[:, : audit._estimator.n_neighbors]
        right = (
            (audit.given[near] == np.asarray(audit._validation[1])[:, None]) & (near >= 0)
        ).mean(axis=1)
        without = f", {right[~found].mean():.3f} without such rows" if not found.all() else ""
        says += f"; neighbours carry the right label in {right.mean():.3f} of all cases{without}"
    columns = {"training_row": training_rows, "exact": exact[rows]}
    return Finding(rows, np.where(exact, 1.0, nearness), says, columns=columns)


def find_outliers(audit: LabelAudit) -> Finding:
    """Rows far from all others, by their distance to others or by their direction as seen from the
    centre.

    A score is -log10 of the share of usual rows that would be as far from others. How far usual
    rows may be comes from the rows between the middle and the farthest tenth: their logarithms of
    distance continue as an exponential tail, their angles as a normal one. Seen from the centre,
    rows around it lie in all directions: those nearer to others than three quarters of the rows are
    no outliers whatever their angles.
    """
    voters, metric, k = audit._voters, audit._estimator.metric, audit._estimator.n_neighbors
    distances = voters.lengths(metric)
    present = voters.rows[:, : distances.shape[1]] >= 0
    limit = np.log10(2 * len(audit) / EXPECTED)
    if (
        len(audit) < FEWEST_ROWS or (distances[present] < 0).any()
    ):  # inner products are no distances
        scores, is_far = np.zeros(len(audit)), np.zeros(len(audit), dtype=bool)
    else:
        nearest = np.where(present, distances, 0.0)[:, :k].sum(axis=1) / np.maximum(
            present[:, :k].sum(axis=1), 1
        )
        logs = np.log(
            np.maximum(nearest, max(TINY * float(np.median(nearest)), np.finfo(float).tiny))
        )
        middle, far = np.quantile(logs, [MIDDLE, FAR])
        slope = max((far - middle) / np.log((1 - MIDDLE) / (1 - FAR)), LEAST_SLOPE)
        scores = -np.log10(1 - FAR) + (logs - far) / slope / np.log(10)
        features = audit._features
        if (
            metric in ("euclidean", "l2")
            and features.data.shape[1] >= LEAST_COLUMNS
            and not features.is_sparse
        ):
            near = voters.rows[:, :ANGLES_OF]
            squares = np.maximum(
                voters.keys[:, :ANGLES_OF], 0.0
            )  # keys of squares that vanish are negative
            scores = np.maximum(scores, _angle_scores(features.data, near, squares))
        scores, is_far = np.maximum(scores, 0.0), logs >= np.quantile(logs, NOT_NEAR)
    rows = np.argsort(-scores, kind="stable")
    rows = rows[(scores[rows] > limit) & is_far[rows]]
    says = (
        f"{number_of('row', len(rows))} so far from all others that one usual row in"
        f" {10**limit:,.0f} would be"
    )
    return Finding(rows, scores, says)


def _angle_scores(X: Any, near: npt.NDArray[np.int32], squares: FloatMatrix) -> FloatVector:
    """By 1 - cosine between each row and its nearest, seen from the mean row: by the law of
    cosines, from distances.
    """
    centre = sum(chunk.sum(axis=0, dtype=np.float64) for _, chunk in row_chunks(X)) / X.shape[0]
    norms = np.concatenate([np.linalg.norm(chunk - centre, axis=1) for _, chunk in row_chunks(X)])
    own, others = norms[:, None], norms[near]
    least = TINY * max(float(norms.max()), np.finfo(float).tiny)
    with np.errstate(invalid="ignore"):
        cosines = (squares - (own - others) ** 2) / np.maximum(2 * own * others, least**2)
    found = np.where(
        (near >= 0) & (own > least) & (others > least), np.clip(cosines, 0.0, 2.0), 0.0
    )
    angles = found.sum(axis=1) / np.maximum((near >= 0).sum(axis=1), 1)
    middle, far = np.quantile(angles, [MIDDLE, FAR])
    spread = max((far - middle) / NORMAL_FAR, TINY)
    return np.asarray(-log_ndtr((middle - angles) / spread) / np.log(10))


def find_imbalance(audit: LabelAudit, groups: Any) -> Finding:
    """Small classes, the smallest first, then the group that makes most of the score; scores are
    those of classes.
    """
    scores, found, says = np.zeros(len(audit)), dict[str, IntVector](), []
    if audit.classes is not None:
        k, (labels, codes) = (
            audit._estimator.n_neighbors,
            np.unique(audit.given, return_inverse=True),
        )
        counts = np.bincount(codes)
        scores = np.maximum(0.0, 1.0 - counts / (FEWEST * k))[codes]
        order = np.argsort(counts, kind="stable")
        found |= {
            f"class {one_line(labels[c])}": np.flatnonzero(codes == c)
            for c in order
            if counts[c] < FEWEST * k
        }
        says.append(
            f"classes with fewer than {FEWEST * k} rows: {len(found)}, with {k} or fewer:"
            f" {(counts <= k).sum()}"
        )
    if groups is not None:
        named = check_classes(groups, "groups", len(audit))
        made = payments(np.bincount(named.codes, audit.value).astype(np.float64))
        rows, name = (
            np.flatnonzero(named.codes == made.argmax()),
            f"group {one_line(named.labels[made.argmax()])}",
        )
        if made.max() > max(MOST_OF_SCORE, of_rows := len(rows) / len(audit)):
            found[name] = rows
            says.append(
                f"{name} makes {made.max():.0%} of the score with {of_rows:.0%} of the rows"
            )
    members = list(found.values())
    which = np.repeat([*found], [len(rows) for rows in members]).astype(str)
    return Finding(joined(members), scores, "; ".join(says), members, {"of": which})


def joined(groups: list[IntVector]) -> IntVector:
    """The rows of all groups, group by group."""
    return np.concatenate([np.zeros(0, dtype=np.intp), *groups]).astype(np.intp)


def payments(values: FloatVector) -> FloatVector:
    """The share of each row in payments by value, nothing for values below 0."""
    paid = np.maximum(values, 0.0)
    return np.asarray(paid / max(float(paid.sum()), np.finfo(float).tiny))
