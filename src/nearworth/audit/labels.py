"""The way in: data to audit, audit out."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearworth._common.types import FloatMatrix, Task, Utility
from nearworth.audit.errors import ErrorCount, count_errors
from nearworth.audit.evidence import Neighbours, vote_shares
from nearworth.audit.levels import believe, fitted_rows
from nearworth.audit.noise import make_features
from nearworth.audit.residuals import LISTED as RESIDUAL_LISTED
from nearworth.audit.residuals import fit_targets
from nearworth.audit.result import LabelAudit
from nearworth.engine.nearest_lists import BYTES
from nearworth.engine.value import value_and_nearest
from nearworth.estimator import KNNShapley
from nearworth.inputs.features import check_features
from nearworth.inputs.parameters import one_of, parse_bytes, whole_number

LISTED, LISTED_PER_NEIGHBOR = 100, 5  # neighbours whose votes count: beyond, weights and errors are small
GRAPH_SHARE = 0.5  # of max_memory: lists of neighbours, and what counting their votes takes
COUNTING_BYTES = 40  # per query and neighbour, while votes are counted
MISCOUNT = 4.0  # so many times too large or small a count of wrong targets may be: tails of right ones look alike
SCALES, WITHIN = (10, 30), 4  # neighbours whose votes are counted; so many times fewer than a class has rows, if few
PROBABILITY_FLOOR = 0.01  # pred_probs are mixed with so much of the class shares: no model is ever that sure


def audit_labels(
    X: Any,
    y: Any,
    n_neighbors: int = 10,
    X_val: Any = None,
    y_val: Any = None,
    *,
    task: Task = "classification",
    pred_probs: Any = None,
    metric: Any = "euclidean",
    metric_params: dict[str, Any] | None = None,
    utility: Utility = "soft",
    semivalue: Any = "shapley",
    search: Any = "exact",
    max_error: float | None = None,
    n_jobs: int | None = None,
    max_memory: int | str | None = None,
    progress: Any = None,
) -> LabelAudit:
    """Which labels are wrong, what they should be, how sure we are, and why.

    Two kinds of evidence, neither of which knows the row's own label, say how likely each label is: what a row's
    neighbours are labelled, and what the row's label does to others (the part of its Shapley value that depends on it).
    How much each counts, and how many labels of each class are wrong, is learnt from the data; `docs/audit.md` has the
    model, its assumptions and how well it does.

    Parameters
    ----------
    X, y : like X and y of `KNNShapley.fit`
        The rows to audit, and their labels (at least two classes) or, with task="regression", their targets.
    n_neighbors : int, default=10
        K of the valuation and of the votes.
    X_val, y_val : optional
        Rows whose labels you trust. `value` is then the value for predicting these, and their votes are evidence too.
    task : {"classification", "regression"}
    pred_probs : array or frame of shape (N, C), optional
        Class probabilities of a model of yours, out of sample (by cross-validation), columns in sorted order of the
        labels: a further kind of evidence.
    metric, metric_params, n_jobs, max_memory, progress
        As in `KNNShapley`.
    utility, semivalue, search, max_error
        As in `KNNShapley`, and for `value` only, except that a searcher also finds the neighbours who vote.

    Returns
    -------
    LabelAudit

    Examples
    --------
    >>> import nearworth as nw
    >>> X = [[0.0], [0.1], [0.2], [0.3], [0.4], [5.0], [5.1], [5.2], [5.3], [5.4]]
    >>> audit = nw.audit_labels(X, list("aaaabbbbbb"), n_neighbors=3)
    >>> audit.suspects(fraction=0.1)
    array([4])
    """
    one_of("classification", "regression")("task", task)
    whole_number(1)("n_neighbors", n_neighbors)
    if pred_probs is not None and task == "regression":
        raise ValueError("pred_probs are class probabilities, which have no meaning for task='regression'.")
    estimator = KNNShapley(
        n_neighbors, task=task, metric=metric, metric_params=metric_params,
        utility=utility, semivalue=semivalue, search=search, max_error=max_error, random_state=0,
        n_jobs=n_jobs, max_memory=max_memory, progress=progress,
    ).fit(X, y)  # fmt: skip
    if task == "regression":
        return _audit_targets(estimator, X_val, y_val)
    return _audit_classes(estimator, X_val, y_val, pred_probs)


def _audit_classes(estimator: KNNShapley, X_val: Any, y_val: Any, pred_probs: Any) -> LabelAudit:
    training = estimator.training_set_
    assert training.classes is not None
    codes, labels = training.classes.codes, training.classes.labels
    if len(labels) < 2:
        raise ValueError(
            f"y has one class only ({labels.tolist()[0]!r}): there is no other label to suggest. Give two or more."
        )
    priors = np.bincount(codes) / len(codes)
    given = None if pred_probs is None else _check_probabilities(pred_probs, len(codes), len(labels))
    valuation, neighbours = _value_and_neighbours(estimator)
    forward = neighbours.forward(codes, len(labels))
    reverse = neighbours.reverse(codes, len(codes), len(labels))
    flat = neighbours.levelled()
    alike = flat.forward(codes, len(labels)) + flat.reverse(codes, len(codes), len(labels))
    shares = [vote_shares(votes, priors) for votes in (forward, reverse, forward + reverse, alike)]
    if X_val is not None or y_val is not None:
        valuation, trusted = _validation_votes(estimator, X_val, y_val)
        shares.append(vote_shares(trusted, priors))
    if given is not None:
        shares.append((given + PROBABILITY_FLOOR * priors) / (1.0 + PROBABILITY_FLOOR))
    some = fitted_rows(len(codes))
    votes = [neighbours.heads(some, codes, len(labels), size) for size in _scales(len(codes), len(labels))]
    belief = believe(make_features(shares, bent=shares[2]), codes, votes)
    best, rows = belief.evidence.argmax(axis=1), np.arange(len(codes))
    return LabelAudit(
        given=labels[codes],
        quality=belief.quality,
        agreement=shares[0][rows, codes],
        suggested=labels[best],
        confidence=belief.labels[rows, best],
        n_errors=count_errors(belief.right, belief.weights),
        valuation=valuation,
        classes=labels,
        label_probabilities=belief.labels,
        _neighbours=neighbours,
        _estimator=estimator,
        _features=training.features,
        _validation=(X_val, y_val),
    )


def _scales(n_rows: int, n_classes: int) -> list[int]:
    """Numbers of neighbours within which votes are compared from row to row."""
    near = max(1, min(SCALES[0], n_rows // (WITHIN * n_classes)))
    return [min(near * size // SCALES[0], n_rows - 1) for size in SCALES]


def _audit_targets(estimator: KNNShapley, X_val: Any, y_val: Any) -> LabelAudit:
    targets = np.asarray(estimator.training_set_.labels, dtype=np.float64)
    valuation, neighbours = _value_and_neighbours(estimator, RESIDUAL_LISTED * estimator.n_neighbors)
    if X_val is not None or y_val is not None:
        valuation = estimator.value(X_val, y_val)
    model = fit_targets(neighbours, targets)
    wrong = float((1.0 - model.right).sum())
    n_errors = ErrorCount(wrong, wrong / MISCOUNT, min(float(len(targets)), 1.0 + wrong * MISCOUNT))
    return LabelAudit(
        given=targets,
        quality=model.right,
        agreement=model.agreement,
        suggested=model.suggested,
        confidence=np.full(len(targets), 0.9),
        n_errors=n_errors,
        valuation=valuation,
        suggested_range=model.ranges,
        _neighbours=neighbours,
        _estimator=estimator,
        _features=estimator.training_set_.features,
        _validation=(X_val, y_val),
    )


def _value_and_neighbours(estimator: KNNShapley, wanted: int | None = None) -> tuple[Any, Neighbours]:
    """Values of the rows on each other, and the neighbours of each, in one pass."""
    size = wanted or max(LISTED, LISTED_PER_NEIGHBOR * estimator.n_neighbors)
    if estimator.max_memory is not None:
        room = GRAPH_SHARE * parse_bytes("max_memory", estimator.max_memory)
        size = max(1, min(size, int(room / ((BYTES + COUNTING_BYTES) * estimator.training_set_.n_rows))))
    valuation, lists = _value_and_nearest(estimator, size)
    return valuation, Neighbours.of(lists.points, lists.keys, estimator.n_neighbors)


def _value_and_nearest(estimator: KNNShapley, size: int, X_val: Any = None, y_val: Any = None) -> Any:
    parameters, training = estimator.get_params(deep=False), estimator.training_set_
    return value_and_nearest(training, training.problem(X_val, y_val, None, parameters), parameters, size)


def _validation_votes(estimator: KNNShapley, X_val: Any, y_val: Any) -> tuple[Any, FloatMatrix]:
    """Values on the validation set, and what its labels say about each training row."""
    size = max(LISTED, LISTED_PER_NEIGHBOR * estimator.n_neighbors)
    valuation, lists = _value_and_nearest(estimator, size, X_val, y_val)
    training = estimator.training_set_
    assert training.classes is not None
    codes, _ = training.classes.encode(y_val, "y_val", len(lists.points))
    neighbours = Neighbours.of(lists.points, lists.keys, estimator.n_neighbors)
    return valuation, neighbours.reverse(codes, training.n_rows, len(training.classes.labels))


def _check_probabilities(pred_probs: Any, n_rows: int, n_classes: int) -> FloatMatrix:
    data = check_features(pred_probs, "pred_probs").data
    probabilities = np.asarray(data.toarray() if hasattr(data, "toarray") else data, dtype=np.float64)
    if probabilities.shape != (n_rows, n_classes):
        raise ValueError(
            f"pred_probs must have one row per row of X and one column per class, {(n_rows, n_classes)}; "
            f"got shape {probabilities.shape}."
        )
    strange = (probabilities.min(axis=1) < 0) | (np.abs(probabilities.sum(axis=1) - 1.0) > 1e-3)
    if strange.any():
        row = int(np.argmax(strange))
        raise ValueError(f"pred_probs must be probabilities that sum to 1 in each row; row {row} does not.")
    return probabilities
