"""Rows that arrived later, judged against the audited ones.

The votes about a new row are those of its nearest audited rows, and of the audited rows that would have it among their
own nearest. The model that the audit fitted says what they mean.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nearworth._common.types import FloatMatrix, IntVector
from nearworth.audit.columns import evidence_about
from nearworth.audit.error_count import count_errors
from nearworth.audit.given_labels import most_errors, sharper
from nearworth.audit.noise_level import averaged
from nearworth.audit.noise_model import make_features
from nearworth.audit.votes import Voters, Votes, all_shares
from nearworth.engine.problem import Problem, make_training_set
from nearworth.engine.value import value, value_and_nearest
from nearworth.inputs.features import check_features
from nearworth.results.valuation import Valuation

if TYPE_CHECKING:
    from nearworth.audit.result import LabelAudit

AT_ONCE = 2**22  # keys of new rows that are looked at together


def check_rows(audit: LabelAudit, X_new: Any, y_new: Any) -> LabelAudit:
    estimator, model = audit._estimator, audit._model
    training = estimator.training_set_
    if model is None or training.classes is None or estimator.metric == "precomputed":
        raise ValueError(
            "check is for audits of classes with features and without X_val; this one is another. Audit all rows again."
        )
    exact = {**estimator.get_params(deep=False), "search": "exact", "max_error": None, "standard_errors": False}
    codes = _known_labels(audit, y_new, check_features(X_new, "X_new").data.shape[0])
    problem = training.problem(X_new, y_new, None, exact)
    _, lists = value_and_nearest(problem, audit.n_voters)
    voters, n_classes = Voters.of(lists.rows, lists.keys, estimator.n_neighbors), len(training.classes.labels)
    audited_codes = training.classes.codes
    priors = np.bincount(audited_codes) / len(audited_codes)

    def shares_of(start: int, stop: int) -> list[FloatMatrix]:
        forward = voters.part(start, stop).forward(audited_codes, n_classes)
        reverse = _reverse(problem, slice(start, stop), audit, audited_codes)
        return all_shares(audit._voters, forward, reverse, priors)

    shares, columns = evidence_about(codes, priors, shares_of)
    features = make_features(shares, squared=shares[2])
    own = codes if columns is None else columns.given
    found = averaged(model.models, model.hypotheses, model.weights, features, own)
    best, classes = (found.evidence.argmax(axis=1),) * 2 if columns is None else columns.best(found.evidence)
    rows = np.arange(len(codes))
    return replace(
        audit,
        given=training.classes.labels[codes],
        quality=found.quality,
        agreement=shares[0][rows, own],
        suggested=training.classes.labels[classes],
        confidence=found.labels[rows, best],
        n_errors=count_errors(found.right, found.weights, most_errors(float((best != own).sum()))),
        valuation=_value(audit, X_new, y_new, exact),
        _probabilities=found.labels,
        _columns=columns,
        copies=None,
        _for_lists=np.minimum(sharper(found.weights) @ found.right, 1.0),
        _groups=None,
        _model=None,
        _audited=audit,
        _voters=voters,
        _review=None,
    )


def _value(audit: LabelAudit, X_new: Any, y_new: Any, parameters: dict[str, Any]) -> Valuation:
    """Values of the new rows for predicting the audited ones, whose labels need not be among the new ones."""
    new, audited = make_training_set(X_new, y_new, parameters), audit._estimator.training_set_.features
    assert new.classes is not None
    assert audited is not None
    codes, _ = new.classes.encode(audit.given, "y", len(audit))
    return value(new.problem_of(audited.data, codes, np.ones(len(audit)), parameters))


def _known_labels(audit: LabelAudit, y_new: Any, n_rows: int) -> IntVector:
    classes = audit._estimator.training_set_.classes
    assert classes is not None
    codes, unseen = classes.encode(y_new, "y_new", n_rows)
    if unseen:
        raise ValueError(
            f"y_new has labels that no audited row carries ({', '.join(map(repr, unseen[:5]))}). Audit all rows again."
        )
    return codes


def _reverse(problem: Problem, about: slice, audit: LabelAudit, codes: IntVector) -> Votes:
    """Votes of the audited rows that would have one of some new rows among their nearest, were it added alone."""
    voters, queries = audit._voters, problem.queries[about]
    shape, k = (queries.shape[0], int(codes.max()) + 1), audit._estimator.n_neighbors
    farthest = np.where(voters.rows >= 0, voters.keys, -np.inf).max(axis=1)
    weights, counts = np.zeros(shape), np.zeros(shape, dtype=np.int64)
    step = max(1, AT_ONCE // problem.n_train)
    for start in range(0, queries.shape[0], step):
        keys = problem.keys(queries[start : start + step])
        new, by = np.nonzero(keys <= farthest)
        for part in range(0, len(new), AT_ONCE // voters.rows.shape[1]):
            some = slice(part, part + AT_ONCE // voters.rows.shape[1])
            ranks = 1 + (voters.keys[by[some]] < keys[new[some], by[some]][:, None]).sum(axis=1)
            np.add.at(weights, (start + new[some], codes[by[some]]), 1.0 / np.maximum(k, ranks))
            np.add.at(counts, (start + new[some], codes[by[some]]), 1)
    return Votes(weights, counts)
