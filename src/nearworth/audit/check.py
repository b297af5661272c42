"""Rows that arrived later, judged against the audited ones, and rows of a frame that have no label.

The votes about a new row are those of its nearest audited rows, and of the audited rows that would have it among their
own nearest. The model that the audit fitted says what they mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth._common.warnings import warn_user
from nearworth.audit.error_count import count_errors
from nearworth.audit.noise_level import Posterior
from nearworth.audit.noise_model import make_features
from nearworth.audit.predictions import class_answers, most_errors, sharper
from nearworth.audit.result import BY_ROW, LabelAudit
from nearworth.audit.target_model import TargetModel
from nearworth.audit.votes import Voters, Votes, all_shares, evidence_about
from nearworth.engine.problem import Problem, make_training_set
from nearworth.engine.value import value, value_and_nearest
from nearworth.inputs.features import check_features
from nearworth.inputs.targets import check_targets
from nearworth.neighbors.searchers import Neighbours
from nearworth.results.valuation import Valuation

if TYPE_CHECKING:
    from nearworth.tables.prepare import LabelledFrame

AT_ONCE = 2**22  # keys of new rows that are looked at together


def check_rows(audit: LabelAudit, X_new: Any, y_new: Any) -> LabelAudit:
    estimator, model = audit._estimator, audit._model
    if model is None or estimator.metric == "precomputed":
        raise ValueError("check is for audits with features and without X_val. Audit all rows again.")
    exact = {**estimator.get_params(deep=False), "search": "exact", "max_error": None, "standard_errors": False}
    n_new, classes = check_features(X_new, "X_new").data.shape[0], estimator.training_set_.classes
    if classes is None:
        given = check_targets(y_new, "y_new", n_new)
    else:
        given, unseen = classes.encode(y_new, "y_new", n_new)
        if unseen:
            named = ", ".join(map(repr, unseen[:5]))
            raise ValueError(f"y_new has labels that no audited row carries ({named}). Audit all rows again.")
    problem = estimator.training_set_.problem(X_new, y_new, None, exact)
    _, lists = value_and_nearest(problem, audit._voters.rows.shape[1])
    voters = Voters.of(lists.rows, lists.keys, estimator.n_neighbors)
    if isinstance(model, TargetModel):
        answers = _judge_targets(audit, model, problem, voters, given)
    else:
        answers = _judge_classes(audit, model, problem, voters, given)
    valuation = _value(audit, X_new, y_new, exact)
    without = dict.fromkeys(("copies", "_groups", "_model", "_first", "_review"))
    return replace(audit, valuation=valuation, index=valuation.index, _voters=voters, **without, **answers)


def _judge_classes(
    audit: LabelAudit, model: Posterior, problem: Problem, voters: Voters, codes: IntVector
) -> dict[str, Any]:
    assert audit.classes is not None
    audited = problem.labels
    priors = np.bincount(audited) / len(audited)

    def shares_of(start: int, stop: int) -> list[FloatMatrix]:
        forward = voters.part(start, stop).forward(audited, len(priors))
        reverse = Votes(np.zeros(forward.weights.shape), np.zeros(forward.counts.shape, dtype=np.int64))
        for new, by, weights in _reverse(problem, start, stop, audit):
            np.add.at(reverse.weights, (new, audited[by]), weights)
            np.add.at(reverse.counts, (new, audited[by]), 1)
        return all_shares(audit._voters, forward, reverse, priors)

    shares, columns = evidence_about(codes, priors, shares_of)
    own = codes if columns is None else columns.given
    found = model.judge(make_features(shares, squared=shares[2]), own)
    answers = class_answers(audit.classes, codes, columns, shares, found, found.quality)
    n_against = float((answers["suggested"] != answers["given"]).sum())
    return answers | {
        "n_errors": count_errors(found.right, found.weights, most_errors(n_against)),
        "_for_lists": np.minimum(sharper(found.weights) @ found.right, 1.0),
    }


def _judge_targets(
    audit: LabelAudit, model: TargetModel, problem: Problem, voters: Voters, targets: FloatVector
) -> dict[str, Any]:
    near = model.ground.near
    total, weight = (voters.weights * near[voters.rows]).sum(axis=1), voters.weights.sum(axis=1)
    for new, by, weights in _reverse(problem, 0, len(targets), audit):
        np.add.at(total, new, weights * near[by])
        np.add.at(weight, new, weights)
    return model.check(targets, voters, total / weight).answers


def _value(audit: LabelAudit, X_new: Any, y_new: Any, parameters: dict[str, Any]) -> Valuation:
    """Values of the new rows for predicting the audited ones, whose labels need not be among the new ones."""
    new, audited = make_training_set(X_new, y_new, parameters), audit._estimator.training_set_.features
    assert audited is not None
    labels = audit.given if new.classes is None else new.classes.encode(audit.given, "y", len(audit))[0]
    return value(new.problem_of(audited.data, labels, np.ones(len(audit)), parameters))


def _reverse(
    problem: Problem, first: int, last: int, audit: LabelAudit
) -> Iterator[tuple[IntVector, IntVector, FloatVector]]:
    """Some of the new rows, audited rows that would have them among their nearest, were they added alone, and weights.

    New rows are counted from the first.
    """
    voters, k = audit._voters, audit._estimator.n_neighbors
    farthest = np.where(voters.rows >= 0, voters.keys, -np.inf).max(axis=1)
    step, size = max(1, AT_ONCE // problem.n_train), max(1, AT_ONCE // voters.rows.shape[1])
    for start in range(first, last, step):
        keys = problem.keys(problem.queries[start : min(start + step, last)])
        new, by = np.nonzero(keys <= farthest)
        for part in range(0, len(new), size):
            some = slice(part, part + size)
            ranks = 1 + (voters.keys[by[some]] < keys[new[some], by[some]][:, None]).sum(axis=1)
            yield start - first + new[some], by[some], 1.0 / np.maximum(k, ranks)


def place_in_frame(audit: LabelAudit, frame: LabelledFrame) -> LabelAudit:
    """The audit of the rows of a frame that have a label, as one of all rows: the others get a suggestion."""
    if frame.target.remarks:
        warn_user(f"{'; '.join(frame.target.remarks)}.")
    some, n_rows = frame.labelled, len(frame.labelled)
    index = None if frame.index is None else frame.index[some]
    valuation = replace(audit.valuation, backend=frame.backend, index=index)
    audit = replace(audit, valuation=valuation, notes=tuple(frame.target.remarks), index=frame.index, _frame=frame)
    if some.all():
        return audit
    suggested, confidence, _ = suggest((audit._audited or audit)._known, frame.X[~some])
    others = dict.fromkeys(BY_ROW, np.nan) | {"given": None, "suggested": suggested, "confidence": confidence}
    arrays: dict[str, Any] = {}
    for name, known in audit.by_row.items():
        arrays[name] = np.empty((n_rows, *known.shape[1:]), dtype=object if name == "given" else known.dtype)
        arrays[name][some], arrays[name][~some] = known, others[name]
    return replace(audit, **arrays, copies=audit.copies and audit.copies.among(some))


def suggest(audit: LabelAudit, X: Any) -> tuple[Any, FloatVector, Neighbours]:
    """Labels for rows that have none, by what the audit says of their nearest rows; how likely they are; these rows.

    That is a mean of probabilities. For regression: the median of near targets, NaN.
    """
    training, k = audit._estimator.training_set_, min(audit._estimator.n_neighbors, len(audit))
    parameters = {**audit._estimator.get_params(deep=False), "search": "exact", "max_error": None}
    none = np.zeros(len(X), dtype=training.labels.dtype)
    nearest = value_and_nearest(training.problem_of(X, none, np.ones(len(X)), parameters), k)[1]
    rows, probabilities = nearest.rows, audit.label_probabilities
    if probabilities is None or audit.classes is None:
        return np.quantile(audit.given[rows], 0.5, axis=1, method="lower"), np.full(len(X), np.nan), nearest
    shares = sum(probabilities[rows[:, i]] for i in range(k)) + 1.0 / len(audit.classes)
    shares /= k + 1  # a few neighbours never make it certain
    return audit.classes[shares.argmax(axis=1)], shares.max(axis=1), nearest
