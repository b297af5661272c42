"""audit_labels: parameters in, calls out."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from nearworth._common.types import FloatMatrix, FloatVector, Task, Utility
from nearworth.audit.error_count import count_errors
from nearworth.audit.models import out_of_fold, worthwhile
from nearworth.audit.noise_level import fitted_rows, label_posterior
from nearworth.audit.noise_model import make_features
from nearworth.audit.result import LabelAudit
from nearworth.audit.target_model import LISTED as LISTED_FOR_TARGETS
from nearworth.audit.target_model import Predict, Space, fit_targets
from nearworth.audit.votes import Voters, vote_shares
from nearworth.engine.nearest_lists import BYTES
from nearworth.engine.run import one_blas_thread
from nearworth.engine.value import value_and_nearest
from nearworth.estimator import KNNShapley
from nearworth.inputs.features import check_features
from nearworth.inputs.parameters import one_of, parse_bytes
from nearworth.inputs.targets import check_targets
from nearworth.results.valuation import Valuation

LISTED, LISTED_PER_NEIGHBOR = 100, 5  # neighbours whose votes count: beyond, weights and errors are small
GRAPH_SHARE = 0.5  # of max_memory: lists of neighbours, and what counting their votes takes
COUNTING_BYTES = 40  # per query and neighbour, while votes are counted
SCALES, WITHIN = (10, 30), 4  # neighbours whose labels are counted; so many times fewer than a class has rows, if few
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
    predictions: Any = None,
    models: Literal["auto"] | None = None,
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
    predictions : array of shape (N,), optional
        For task="regression": targets predicted by a model of yours, out of sample: a further kind of evidence.
    models : {"auto"}, optional
        Fit a linear model, boosted trees and extra trees, and take what they predict for rows they have not seen as
        evidence too. Seconds for some thousands of rows; where models do not pay (more than 256 columns, millions of
        numbers) none are fitted.
    metric, metric_params, n_jobs, max_memory, progress
        As in `KNNShapley`.
    utility, semivalue, search, max_error
        As in `KNNShapley`, and for `value` only, except that a searcher also finds the neighbours that vote.

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
    estimator = KNNShapley(
        n_neighbors, task=task, metric=metric, metric_params=metric_params,
        utility=utility, semivalue=semivalue, search=search, max_error=max_error, random_state=0,
        n_jobs=n_jobs, max_memory=max_memory, progress=progress,
    ).fit(X, y)  # fmt: skip
    with_models = _use_models(models, estimator)
    if task == "classification":
        if predictions is not None:
            raise ValueError(
                "predictions are targets, for task='regression' only. Give class probabilities, pred_probs."
            )
        if models is not None:
            raise ValueError("models='auto' is for task='regression' only.")
        return _audit_classes(estimator, X_val, y_val, pred_probs)
    if pred_probs is not None:
        raise ValueError("pred_probs are class probabilities, which have no meaning for task='regression'.")
    return _audit_targets(estimator, X_val, y_val, predictions, with_models)


def _audit_classes(estimator: KNNShapley, X_val: Any, y_val: Any, pred_probs: Any) -> LabelAudit:
    training = estimator.training_set_
    assert training.classes is not None
    codes, labels = training.classes.codes, training.classes.labels
    n_rows, n_classes = len(codes), len(labels)
    if n_classes < 2:
        raise ValueError(
            f"y has one class only ({labels.tolist()[0]!r}): there is no other label to suggest. Give two or more."
        )
    priors = np.bincount(codes) / n_rows
    probabilities = None if pred_probs is None else _check_probabilities(pred_probs, n_rows, n_classes)
    size = max(LISTED, LISTED_PER_NEIGHBOR * estimator.n_neighbors)
    valuation, voters = _value_and_voters(estimator, _affordable(estimator, size))
    forward, reverse = voters.forward(codes, n_classes), voters.reverse(codes, n_rows, n_classes)
    equal = voters.with_equal_weights(forward.counts) + voters.with_equal_weights(reverse.counts)
    kinds = (forward.weights, reverse.weights, forward.weights + reverse.weights, equal)
    shares = [vote_shares(votes, priors) for votes in kinds]
    if X_val is not None or y_val is not None:
        valuation, trusted = _value_and_voters(estimator, size, X_val, y_val)
        val_codes, _ = training.classes.encode(y_val, "y_val", len(trusted.rows))
        shares.append(vote_shares(trusted.reverse(val_codes, n_rows, n_classes).weights, priors))
    if probabilities is not None:
        shares.append((probabilities + PROBABILITY_FLOOR * priors) / (1.0 + PROBABILITY_FLOOR))
    some = fitted_rows(n_rows)
    counts = [voters.label_counts(some, codes, n_classes, scale) for scale in _scales(n_rows, n_classes)]
    with one_blas_thread():  # many small products: threads would only wait for each other
        posterior = label_posterior(make_features(shares, squared=shares[2]), codes, counts)
    best, rows = posterior.evidence.argmax(axis=1), np.arange(n_rows)
    return LabelAudit(
        given=labels[codes],
        quality=posterior.quality,
        agreement=shares[0][rows, codes],
        suggested=labels[best],
        confidence=posterior.labels[rows, best],
        n_errors=count_errors(posterior.right, posterior.weights),
        valuation=valuation,
        classes=labels,
        label_probabilities=posterior.labels,
        _voters=voters,
        _estimator=estimator,
        _validation=(X_val, y_val),
    )


def _audit_targets(estimator: KNNShapley, X_val: Any, y_val: Any, predictions: Any, with_models: bool) -> LabelAudit:
    targets = np.asarray(estimator.training_set_.labels, dtype=np.float64)
    given = None if predictions is None else check_targets(predictions, "predictions", len(targets))
    size = _affordable(estimator, LISTED_FOR_TARGETS * estimator.n_neighbors)
    valuation, voters = _value_and_voters(estimator, size)
    if X_val is not None or y_val is not None:
        valuation = estimator.value(X_val, y_val)
    model = fit_targets(voters, targets, _predict(estimator, given, with_models))
    return LabelAudit(
        given=targets,
        quality=model.right,
        agreement=model.agreement,
        suggested=model.suggested,
        confidence=np.full(len(targets), 0.9),
        n_errors=model.n_errors,
        valuation=valuation,
        suggested_range=model.ranges,
        _voters=voters,
        _estimator=estimator,
        _validation=(X_val, y_val),
    )


def _predict(estimator: KNNShapley, given: FloatVector | None, with_models: bool) -> Predict | None:
    """What models say about targets, in the space and within the bounds that these are looked at."""
    if given is None and not with_models:
        return None

    def predict(space: Space, near: FloatVector) -> list[FloatVector]:
        found = [] if given is None else [space.of(given)]
        if with_models:
            X, n_jobs, progress = _feature_matrix(estimator), estimator.n_jobs, estimator.progress
            found += out_of_fold(X, near, task="regression", n_jobs=n_jobs, progress=progress)
        return found

    return predict


def _use_models(models: Any, estimator: KNNShapley, n_classes: int = 1) -> bool:
    """Whether models are asked for and pay."""
    if models is None:
        return False
    one_of("auto")("models", models)
    if estimator.metric == "precomputed":
        raise ValueError("models='auto' needs features, and metric='precomputed' has distances only. Leave models out.")
    n_rows, n_columns = _feature_matrix(estimator).shape
    return worthwhile(n_rows, n_columns, n_classes)


def _feature_matrix(estimator: KNNShapley) -> Any:
    features = estimator.training_set_.features
    assert features is not None
    return features.data


def _value_and_voters(
    estimator: KNNShapley, size: int, X_val: Any = None, y_val: Any = None
) -> tuple[Valuation, Voters]:
    """Values of the rows, on each other or on a validation set, and the nearest rows of each point, in one pass."""
    training, parameters = estimator.training_set_, estimator.get_params(deep=False)
    problem = training.problem(X_val, y_val, None, parameters)
    valuation, lists = value_and_nearest(training, problem, parameters, size)
    return valuation, Voters.of(lists.rows, lists.keys, estimator.n_neighbors)


def _affordable(estimator: KNNShapley, size: int) -> int:
    """How many neighbours of each row fit in max_memory."""
    if estimator.max_memory is None:
        return size
    room = GRAPH_SHARE * parse_bytes("max_memory", estimator.max_memory)
    return max(1, min(size, int(room / ((BYTES + COUNTING_BYTES) * estimator.training_set_.n_rows))))


def _scales(n_rows: int, n_classes: int) -> list[int]:
    """Numbers of neighbours among which labels are counted."""
    near = max(1, min(SCALES[0], n_rows // (WITHIN * n_classes)))
    return [min(near * size // SCALES[0], n_rows - 1) for size in SCALES]


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
