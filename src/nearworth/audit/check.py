"""Rows that arrived later, judged against the audited ones.

The votes about a new row are those of its nearest audited rows, and of the audited rows that would have it among their
own nearest. The model that the audit fitted says what they mean.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nearworth._common.types import IntVector
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
    forward, reverse = voters.forward(audited_codes, n_classes), _reverse(problem, audit._voters, audited_codes, audit)
    shares = all_shares(audit._voters, forward, reverse, priors)
    features = make_features(shares, squared=shares[2])
    found = averaged(model.models, model.hypotheses, model.weights, features, codes)
    best, rows = found.evidence.argmax(axis=1), np.arange(len(codes))
    return replace(
        audit,
        given=training.classes.labels[codes],
        quality=found.quality,
        agreement=shares[0][rows, codes],
        suggested=training.classes.labels[best],
        confidence=found.labels[rows, best],
        n_errors=count_errors(found.right, found.weights, most_errors(float((best != codes).sum()))),
        valuation=_value(audit, X_new, y_new, exact),
        label_probabilities=found.labels,
        copies=None,
        _for_lists=np.minimum(sharper(found.weights) @ found.right, 1.0),
        _groups=None,
        _model=None,
        _audited=audit,
        _first=None,
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


def _reverse(problem: Problem, voters: Voters, codes: IntVector, audit: LabelAudit) -> Votes:
    """Votes of the audited rows that would have a new row among their nearest, were it added alone."""
    assert audit.classes is not None
    n_new, n_classes, k = problem.n_val, len(audit.classes), audit._estimator.n_neighbors
    farthest = np.where(voters.rows >= 0, voters.keys, -np.inf).max(axis=1)
    weights, counts = np.zeros((n_new, n_classes)), np.zeros((n_new, n_classes), dtype=np.int64)
    step = max(1, AT_ONCE // problem.n_train)
    for start in range(0, n_new, step):
        keys = problem.keys(problem.queries[start : start + step])
        new, by = np.nonzero(keys <= farthest)
        for part in range(0, len(new), AT_ONCE // voters.rows.shape[1]):
            some = slice(part, part + AT_ONCE // voters.rows.shape[1])
            ranks = 1 + (voters.keys[by[some]] < keys[new[some], by[some]][:, None]).sum(axis=1)
            np.add.at(weights, (start + new[some], codes[by[some]]), 1.0 / np.maximum(k, ranks))
            np.add.at(counts, (start + new[some], codes[by[some]]), 1)
    return Votes(weights, counts)
