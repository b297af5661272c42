"""LabelAudits are made here: of rows, of rows that arrive later, and with suggestions for rows
without a label.

The votes about a new row are those of its nearest audited rows, and of the audited rows that would
have it among their own nearest. The model that the audit fitted says what they mean.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nearworth._common.digits import spelled
from nearworth._common.types import FloatMatrix, FloatVector, IntVector, Task, Utility
from nearworth._common.warnings import warn_user
from nearworth.audit.error_count import count_errors
from nearworth.audit.noise_level import Posterior, fitted_rows, label_posterior, with_more_evidence
from nearworth.audit.noise_model import make_features
from nearworth.audit.predictions import (
    class_answers,
    given_probabilities,
    independence,
    judge,
    most_errors,
    out_of_fold,
    predict_given,
    sharper,
    with_labels_of_copies,
    worthwhile,
)
from nearworth.audit.result import BY_ROW, LabelAudit
from nearworth.audit.target_model import LISTED_FOR_TARGETS, Space, TargetModel, fit_targets
from nearworth.audit.votes import (
    Voters,
    Votes,
    agree,
    exact_copies,
    first_copies,
    joined,
    near_copies,
    vote_evidence,
)
from nearworth.engine.problem import Problem, make_training_set
from nearworth.engine.run import LIST_BYTES, one_blas_thread
from nearworth.engine.value import value, value_and_nearest
from nearworth.estimator import KNNShapley
from nearworth.inputs.features import check_features
from nearworth.inputs.parameters import one_of, parse_bytes
from nearworth.inputs.targets import NUMBER, are_amounts, check_classes, check_targets
from nearworth.neighbors.distances import first_equal
from nearworth.neighbors.searchers import Neighbours
from nearworth.results.valuation import Valuation

if TYPE_CHECKING:
    from nearworth.tables.dataset import Dataset

LISTED, LISTED_PER_NEIGHBOR = (
    100,
    5,
)  # neighbours whose votes count: beyond, weights and errors are small
GRAPH_SHARE = 0.5  # of max_memory: lists of neighbours, and what counting their votes takes
COUNTING_BYTES = 40  # per query and neighbour, while votes are counted
SCALES, WITHIN = (
    (10, 30),
    4,
)  # neighbours whose labels are counted; so many times fewer than a class has rows, if few
Predict = Callable[
    [Any], list[FloatMatrix]
]  # from labels to out-of-sample predictions of several models
SCALED = (
    "euclidean",
    "l2",
    "sqeuclidean",
    "manhattan",
    "l1",
    "cityblock",
    "chebyshev",
    "minkowski",
)
SCALE_NUMBERS, NO_SPREAD = (
    2**20,
    1e-9,
)  # looked at; share of the widest spread below which a column is constant
MOST_SPREAD = 100.0  # times the median spread of the columns, from which on we warn
AT_ONCE = 2**22  # keys of new rows that are looked at together
EVEN, SELDOM = (
    0.5,
    0.01,
)  # how sure outcomes drawn by lot make the quality of one row, at most; see unless_by_lot
PROBABILITY_FLOOR = (
    0.01  # pred_probs are mixed with so much of the class shares: no model is ever that sure
)


def audit_labels(
    X: Any,
    y: Any,
    *,
    n_neighbors: int = 10,
    X_val: Any = None,
    y_val: Any = None,
    task: Task | None = None,
    pred_probs: Any = None,
    predictions: Any = None,
    models: Literal["auto"] | None = None,
    groups: Any = None,
    sources: Any = None,
    metric: Any = "euclidean",
    metric_params: dict[str, Any] | None = None,
    utility: Utility = "soft",
    semivalue: Any = "shapley",
    search: Any = "exact",
    max_error: float | None = None,
    n_jobs: int | None = None,
    max_memory: int | str | None = None,
    progress: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> LabelAudit:
    """Which labels are wrong, what they should be, how sure we are, and why.

    Two kinds of evidence, neither of which knows the row's own label, say how likely each label is:
    what a row's neighbours are labelled, and what the row's label does to others (the part of its
    Shapley value that depends on it). How much each counts, and how many labels of each class are
    wrong, is learnt from the data; `docs/audit.md` has the model, its assumptions and how well it
    does.

    Parameters
    ----------
    X, y : like X and y of `KNNShapley.fit`
        The rows to audit, and their labels (at least two classes) or, with task="regression", their
        targets. A frame and the name of its label column are prepared as on the command line:
        columns of any kind (`TablePreparer`), spellings of one label put together, rows without a
        label left out and given a suggestion (`LabelAudit.unlabelled`). `pred_probs`,
        `predictions`, `groups` and `sources` have an entry for each row still.
    n_neighbors : int, default=10
        K of the valuation and of the votes.
    X_val, y_val : optional
        Rows whose labels you trust. `value` is then the value for predicting these, and their votes
        are evidence too.
    task : {"classification", "regression"}, optional
        Classification unless given; of a frame with its label column, as the column looks.
    pred_probs : array or frame of shape (N, C), optional
        Class probabilities of a model of yours, out of sample (by cross-validation), columns in
        sorted order of the labels, or of a frame with their names: a further kind of evidence about
        each row. They predict given labels, wrong ones included, so the level of noise is learnt
        without them.
    predictions : array of shape (N,), optional
        For task="regression": targets predicted by a model of yours, out of sample: a further kind
        of evidence.
    models : {None, "auto"}, default=None
        "auto" fits a linear model, boosted trees and extra trees out of sample (scikit-learn) and
        reads what they predict like `pred_probs` or `predictions`: better on tables, for seconds to
        minutes of time. On more than 256 columns, where neighbours do as well, and on huge sets it
        does nothing.
    groups : array, optional
        A group for each row (a patient, a speaker, a video): rows of one group do not vote for each
        other, and if most groups have one label, their rows share one vote. Copies, exact or near,
        do both: see `LabelAudit.copies`.
    sources : array, optional
        What each row was made from: texts, names of files. Rows with the same features are then
        called identical, and their different labels a contradiction, only if these are the same
        too. Of a frame, its texts.
    metric, metric_params, n_jobs, max_memory, progress
        As in `KNNShapley`.
    checkpoint : path, optional
        A folder for what is done so far: the same call goes on where it stopped.
    utility, semivalue, search, max_error
        As in `KNNShapley`, and for `value` only, except that a searcher also finds the neighbours
        that vote.

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
    frame, trusted_frame, names = (
        None,
        None,
        list(getattr(pred_probs, "column_names", getattr(pred_probs, "columns", ()))),
    )
    if isinstance(y, str) and metric != "precomputed":
        from nearworth.tables.load import load_frame, load_like  # loads pyarrow

        frame = load_frame(X, y, "X", task)
    if frame is not None:
        trusted = load_like(frame, X_val, y_val, "X_val")
        trusted_frame, X_val, y_val = trusted.dataset, trusted.X, trusted.y
        X, y, task, some = (frame.X_labeled, frame.y, frame.task, frame.has_label)
        texts = frame.texts() if sources is None else sources
        pred_probs, predictions, groups, sources = (
            (
                given if given is None or len(given) != len(some) else np.asarray(given)[some]
            )  # a wrong length is refused
            for given in (pred_probs, predictions, groups, texts)
        )
    estimator = KNNShapley(
        n_neighbors,
        task=task or "classification",
        metric=metric,
        metric_params=metric_params,
        utility=utility,
        semivalue=semivalue,
        search=search,
        max_error=max_error,
        random_state=0,
        n_jobs=n_jobs,
        max_memory=max_memory,
        progress=progress,
    ).fit(X, y)
    if models is not None:
        one_of("auto")("models", models)
    _warn_of_scales(estimator)
    predicted = _check_predictions(estimator, pred_probs, predictions, names)
    classes: Any = estimator.training_set_.classes
    if task is None and classes.kind == NUMBER and are_amounts(classes.labels[classes.codes]):
        raise ValueError(
            f"y holds {len(classes.labels):,} distinct numbers in {len(classes.codes):,} rows,"
            " which look like amounts. Use task='regression', or task='classification' if they are"
            " classes."
        )
    folder = None if checkpoint is None else Path(checkpoint)
    near, group = _neighbourhood(estimator, groups, sources, folder, X_val, y_val)
    predict = _predictor(estimator, group) if models == "auto" else None
    audit = (_audit_targets if task == "regression" else _audit_classes)(near, predicted, predict)
    if frame is None:
        return audit
    if trusted_frame is not None:
        audit = replace(audit, _validation_labelled=trusted_frame.has_label)
    return place_in_frame(audit, frame)


def _audit_classes(
    near: dict[str, Any], predicted: FloatMatrix | None, predict: Predict | None
) -> LabelAudit:
    voters, copies, trusted = near["_voters"], near["copies"], near["_trusted"]
    of_classes = near["_estimator"].training_set_.classes
    codes, labels = of_classes.codes, of_classes.labels
    n_rows, n_classes, priors = len(codes), len(labels), np.bincount(codes) / len(codes)
    if trusted is not None:
        trusted = trusted, of_classes.encode(near["_validation"][1], "y_val", len(trusted.rows))[0]
    theirs, ours = (
        ([] if predicted is None else [predicted]),
        ([] if predict is None else predict(codes)),
    )
    shares, columns = vote_evidence(
        voters,
        codes,
        codes,
        voters,
        lambda start, stop: voters.reverse(codes, stop - start, n_classes, start),
        trusted,
    )
    own, taken = (codes, priors) if columns is None else (columns.given, columns.rows)
    if columns is not None:
        theirs, ours = ([columns.take(p) for p in each] for each in (theirs, ours))
    near_by = max(1, min(SCALES[0], n_rows // (WITHIN * n_classes)))
    sizes = [min(near_by * size // SCALES[0], n_rows - 1) for size in SCALES]
    counts = [voters.label_counts(fitted_rows(n_rows), codes, n_classes, size) for size in sizes]
    with one_blas_thread():  # many small products: threads would only wait for each other
        votes, helped = (
            label_posterior(make_features(shares, squared=shares[2]), own, counts, columns),
            None,
        )
        alone = None if copies is None else independence(votes, codes, copies.identical, columns)
        if copies is not None and alone is None:
            copies = near["copies"] = replace(copies, identical=np.arange(n_rows))
        if (
            copies is not None
        ):  # whose labels a model may have learnt from the other copies: votes stand in
            theirs = [np.where(copies.have_copies[:, None], votes.evidence, p) for p in theirs]
        predictions = theirs + ours
        if predictions:
            mixed = [
                (p + PROBABILITY_FLOOR * taken) / (1.0 + PROBABILITY_FLOOR) for p in predictions
            ]
            helped = with_more_evidence(
                votes, make_features([*shares, *mixed], squared=shares[2]), own, columns
            )
        *judged, most = judge(votes, helped, own, predictions, columns, shares[2])
        votes = replace(votes, calibration=predict_given([votes.evidence], own).fit)
    judged, found = unless_by_lot(votes, own, codes, *judged), helped or votes
    if copies is not None and alone is not None and columns is None:
        judged, found = with_labels_of_copies(judged, found, codes, copies.identical, alone)
    quality, for_lists = judged
    return LabelAudit(
        **class_answers(labels, codes, columns, shares, found, quality),
        n_errors=count_errors(
            votes.right, votes.weights, most, copies and copies.fewest_errors(codes), votes.by_lot
        ),
        classes=labels,
        _for_lists=for_lists,
        _model=votes if trusted is None else None,
        **near,
    )


def unless_by_lot(
    votes: Posterior, codes: IntVector, audited: IntVector, *right: FloatVector
) -> list[FloatVector]:
    """P(right), and the same for lists, which weigh hypotheses more sharply, if outcomes may be
    drawn by lot.

    People err where classes meet, and then votes look as if outcomes were drawn by lot: one row's
    label is not taken for right on that account. A list makes a promise, and does without such
    rows. A label that hardly any row around has was not drawn: with a probability of SELDOM there,
    a lot explains half of such labels; of a class with a smaller share of all rows, in proportion.
    """
    if votes.by_lot == 0.0 or votes.calibration is None:
        return list(right)
    drawn = given_probabilities([votes.evidence], votes.calibration)[np.arange(len(codes)), codes]
    chances = min(votes.by_lot, EVEN), sharper(np.array([votes.by_lot, 1.0 - votes.by_lot]))[0]
    usual = np.minimum(
        1.0, 2.0 * np.bincount(audited, minlength=2)[codes] / len(audited)
    )  # of two classes
    explained = drawn / (drawn + SELDOM * usual)
    lots = [chance * explained for chance in chances]
    return [lot + (1.0 - lot) * p for lot, p in zip(lots, right, strict=True)]


def _audit_targets(
    near: dict[str, Any], predicted: FloatVector | None, predict: Predict | None
) -> LabelAudit:
    voters, training, metric = (
        near["_voters"],
        near["_estimator"].training_set_,
        near["_estimator"].metric,
    )
    trend, targets = (
        metric != "precomputed" and worthwhile(*training.features.data.shape),
        _dense(training.labels),
    )
    columns = _dense(training.features.data) if trend else np.empty((len(targets), 0))

    if predicted is not None and near["copies"] is not None:  # as for classes
        predicted = np.where(near["copies"].have_copies, np.nan, predicted)

    def in_space(space: Space, drawn_in: FloatVector) -> list[FloatVector]:
        given = [] if predicted is None else [space.of(predicted)]
        return given if predict is None else given + predict(drawn_in)

    by_votes = model = fit_targets(voters, targets, columns)
    if predict is not None or predicted is not None:
        model = fit_targets(voters, targets, columns, in_space)
    return LabelAudit(**model.answers, _model=by_votes, **near)


def _predictor(estimator: KNNShapley, groups: IntVector | None) -> Predict | None:
    """From labels to what models fitted here predict for rows they have not seen; None if that is
    of no use.
    """
    training = estimator.training_set_
    if estimator.metric == "precomputed" or training.features is None:
        raise ValueError(
            "models='auto' needs features, and metric='precomputed' has distances only. Leave"
            " models out."
        )
    data, n_classes = (
        training.features.data,
        1 if training.classes is None else len(training.classes.labels),
    )
    keywords: dict[str, Any] = {
        "task": estimator.task,
        "n_jobs": estimator.n_jobs,
        "progress": estimator.progress,
        "groups": groups,
    }
    return (
        partial(out_of_fold, data, **keywords)
        if worthwhile(data.shape[0], data.shape[1], n_classes)
        else None
    )


def _neighbourhood(
    estimator: KNNShapley, groups: Any, sources: Any, folder: Path | None, X_val: Any, y_val: Any
) -> tuple[dict[str, Any], IntVector | None]:
    """What a LabelAudit keeps: values, on each other or on trusted rows, and who votes. And groups
    that may not.
    """
    training, exact, k = estimator.training_set_, estimator.search == "exact", estimator.n_neighbors
    wanted = (
        LISTED_FOR_TARGETS * k if training.classes is None else max(LISTED, LISTED_PER_NEIGHBOR * k)
    )
    named = None if groups is None else check_classes(groups, "groups", training.n_rows).codes
    first, same = np.arange(training.n_rows), None
    if training.features is not None and estimator.metric != "precomputed":
        first = first_copies(training.features.data)
        same = exact_copies(first, training.features.data)
    if sources is not None:
        made_from = check_classes(sources, "sources", training.n_rows).codes
        first = first_equal(first, made_from)
        same = same and replace(same, identical=first_equal(same.group, made_from))
    size = wanted if same is None else -(-wanted * training.n_rows // (int(same.group.max()) + 1))
    if estimator.max_memory is not None:
        room = GRAPH_SHARE * parse_bytes("max_memory", estimator.max_memory)
        size = max(1, min(size, int(room / ((LIST_BYTES + COUNTING_BYTES) * training.n_rows))))
    in_engine = (
        joined(named, same) if exact else None
    )  # an index finds copies too: they are taken out below
    valuation, voters = _value_and_voters(estimator, size, groups=in_engine, folder=folder)
    copies = near_copies(voters.rows, voters.lengths(estimator.metric), same)
    group = joined(named, copies)
    if exact and copies is not None and copies.are_many_beyond(same):
        in_engine, then = group, folder and folder / "without-copies"
        valuation, voters = _value_and_voters(estimator, size, groups=in_engine, folder=then)
    if group is not None:
        points = None if training.features is None else training.features.data
        voters = voters.without_own_group(group, k).measured(training.keys, points, k)
    witness = group if named is not None and agree(named, training.labels) else joined(None, copies)
    if witness is not None:
        voters = voters.with_one_vote_per_group(witness, k)
    trusted = None
    if X_val is not None or y_val is not None:
        in_engine, then = None, folder and folder / "validation"
        valuation, trusted = _value_and_voters(estimator, wanted, X_val, y_val, folder=then)
    found: dict[str, Any] = {"valuation": valuation, "index": valuation.index, "copies": copies}
    found |= {"_groups": in_engine, "_first": first, "_voters": voters, "_trusted": trusted}
    return (
        found
        | {
            "_witness": witness,
            "_estimator": estimator,
            "_validation": (X_val, y_val),
        },
        group,
    )


def _value_and_voters(
    estimator: KNNShapley,
    size: int,
    X_val: Any = None,
    y_val: Any = None,
    *,
    groups: IntVector | None = None,
    folder: Path | None = None,
) -> tuple[Valuation, Voters]:
    """Values of the rows, on each other or on a validation set, and the nearest rows of each point,
    in one pass.
    """
    problem = estimator.training_set_.problem(
        X_val, y_val, None, estimator.get_params(deep=False), groups
    )
    valuation, lists = value_and_nearest(problem, size, folder)
    return valuation, _measured(problem, lists, estimator.n_neighbors)


def _measured(problem: Problem, lists: Neighbours, n_neighbors: int) -> Voters:
    return Voters.of(lists.rows, lists.keys, n_neighbors).measured(
        problem.keys, problem.queries, n_neighbors
    )


def _warn_of_scales(estimator: KNNShapley) -> None:
    """Distances of raw columns are those of the widest column alone."""
    features = estimator.training_set_.features
    if (
        features is None
        or features.is_sparse
        or estimator.metric not in SCALED
        or features.data.shape[1] < 2
    ):
        return
    n_rows = max(2, SCALE_NUMBERS // features.data.shape[1])
    spreads = np.asarray(features.data[:n_rows], dtype=np.float64).std(axis=0)
    widest = int(spreads.argmax())
    varying = spreads[spreads > NO_SPREAD * spreads[widest]]  # others are constant but for rounding
    usual = float(np.median(varying)) if len(varying) else 0.0
    if spreads[widest] > MOST_SPREAD * usual:
        name = (
            f"column {widest}" if features.names is None else f"column {features.names[widest]!r}"
        )
        warn_user(
            f"X: {name} varies {spreads[widest] / usual:,.0f} times as much as the median column,"
            " so that distances hardly see the others. Scale the columns first:"
            " sklearn.preprocessing.StandardScaler().fit_transform(X)."
        )


def _check_predictions(
    estimator: KNNShapley, pred_probs: Any, predictions: Any, names: list[Any]
) -> FloatMatrix | None:
    """The predictions of a model that are given, of the kind that the task has."""
    training = estimator.training_set_
    if training.classes is None:
        if pred_probs is not None:
            raise ValueError(
                "pred_probs are class probabilities, which have no meaning for task='regression'."
            )
        return (
            None
            if predictions is None
            else check_targets(predictions, "predictions", training.n_rows)
        )
    if predictions is not None:
        raise ValueError(
            "predictions are targets, for task='regression'. Give class probabilities, pred_probs."
        )
    labels = training.classes.labels
    if len(labels) < 2:
        only = labels.tolist()[0]
        raise ValueError(
            f"y has one class only ({only!r}): there is no other label to suggest. Give two or"
            " more."
        )
    if pred_probs is None:
        return None
    found = getattr(pred_probs, "shape", None) or np.asarray(pred_probs, dtype=object).shape
    if found != (wanted := (training.n_rows, len(labels))):
        one = found == wanted[:1] and wanted[1] == 2
        both = " If p are those of the second class: np.column_stack([1 - p, p])." if one else ""
        needed = f"one row per row of X and one column per class, {wanted}"
        raise ValueError(f"pred_probs must have {needed}; got shape {found}.{both}")
    probabilities = _dense(check_features(pred_probs, "pred_probs").data)
    classes, named = (
        [_as_name(label) for label in labels.tolist()],
        [_as_name(name) for name in names],
    )
    if sorted(named) == sorted(classes):
        probabilities = probabilities[:, [named.index(name) for name in classes]]
    elif any(isinstance(name, str) for name in names):
        listed = ", ".join(map(repr, labels.tolist()[:5]))
        warn_user(
            "pred_probs: its columns are not named like the classes; they are taken in their"
            f" order: {listed}."
        )
    strange = (probabilities.min(axis=1) < 0) | (np.abs(probabilities.sum(axis=1) - 1.0) > 1e-3)
    if strange.any():
        row = int(np.argmax(strange))
        raise ValueError(
            f"pred_probs must be probabilities that sum to 1 in each row; row {row} does not."
        )
    return probabilities


def _as_name(label: Any) -> str:
    """A label as the name of a column: 2, 2.0, "2" and "2.0" are one."""
    with suppress(ValueError):
        return spelled(str(label))
    return str(label)


def _dense(data: Any) -> FloatMatrix:
    return np.asarray(data.toarray() if hasattr(data, "toarray") else data, dtype=np.float64)


def check_rows(audit: LabelAudit, X_new: Any, y_new: Any) -> LabelAudit:
    estimator, model = audit._estimator, audit._model
    if model is None or estimator.metric == "precomputed":
        raise ValueError(
            "check is for audits with features and without X_val. Audit all rows again."
        )
    exact = {
        **estimator.get_params(deep=False),
        "search": "exact",
        "max_error": None,
        "standard_errors": False,
    }
    (n_new, n_columns), classes = (
        check_features(X_new, "X_new").data.shape,
        estimator.training_set_.classes,
    )
    if n_columns != (n_had := audit._features.data.shape[1]):
        raise ValueError(
            f"X_new has {n_columns} features, but the audited rows have {n_had}. Give the same"
            " columns."
        )
    if classes is None:
        given: Any = check_targets(y_new, "y_new", n_new)
    else:
        given, unseen = classes.encode(y_new, "y_new", n_new)
        if unseen:
            named = ", ".join(map(repr, unseen[:5]))
            raise ValueError(
                f"y_new has labels that no audited row carries ({named}). Audit all rows again."
            )
    problem = estimator.training_set_.problem(X_new, y_new, None, exact)
    k, size = estimator.n_neighbors, audit._voters.rows.shape[1]
    voters = _measured(problem, value_and_nearest(problem, size)[1], k)
    if audit._witness is not None:
        voters = voters.with_one_vote_per_group(audit._witness, k)
    if isinstance(model, TargetModel):
        near = model.ground.near
        total, weight = (voters.weights * near[voters.rows]).sum(axis=1), voters.weights.sum(axis=1)
        for new, by, weights in _reverse(problem, audit, 0, n_new):
            np.add.at(total, new, weights * near[by])
            np.add.at(weight, new, weights)
        answers = model.check(given, voters, total / weight, _dense(problem.queries)).answers
    else:

        def reverse_of(start: int, stop: int) -> Votes:
            shape = stop - start, len(audit.classes)  # type: ignore[arg-type]
            found = Votes(np.zeros(shape), np.zeros(shape, dtype=np.int64))
            for new, by, weights in _reverse(problem, audit, start, stop):
                np.add.at(found.weights, (new, problem.labels[by]), weights)
                np.add.at(found.counts, (new, problem.labels[by]), 1)
            return found

        shares, columns = vote_evidence(voters, given, problem.labels, audit._voters, reverse_of)
        own = given if columns is None else columns.given
        found = model.judge(make_features(shares, squared=shares[2]), own)
        sharp = np.minimum(sharper(found.weights) @ found.right, 1.0)
        quality, for_lists = unless_by_lot(found, own, problem.labels, found.quality, sharp)
        answers = class_answers(audit.classes, given, columns, shares, found, quality) | {
            "_for_lists": for_lists
        }
        against = float((answers["suggested"] != answers["given"]).sum())
        answers["n_errors"] = count_errors(
            found.right, found.weights, most_errors(against, against), none=found.by_lot
        )
    # What new rows are worth for predicting the audited ones, whose labels need not be among the
    # new ones.
    training, audited = make_training_set(X_new, y_new, exact), audit._features.data
    labels = (
        audit.given
        if training.classes is None
        else training.classes.encode(audit.given, "y", len(audit))[0]
    )
    valuation = value(training.problem_of(audited, labels, np.ones(len(audit)), exact))
    without: dict[str, Any] = dict.fromkeys(
        ("copies", "_groups", "_witness", "_model", "_first", "_review")
    )
    return replace(
        audit, valuation=valuation, index=valuation.index, _voters=voters, **without, **answers
    )


def _reverse(
    problem: Problem, audit: LabelAudit, first: int, last: int
) -> Iterator[tuple[IntVector, IntVector, FloatVector]]:
    """Some of the new rows, audited rows that would have them among their nearest, were they added
    alone, and weights.

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


def place_in_frame(audit: LabelAudit, frame: Dataset) -> LabelAudit:
    """The audit of the rows of a frame that have a label, as one of all rows: the others get a
    suggestion.
    """
    if frame.notes:
        warn_user(f"{'; '.join(frame.notes)}.")
    some, n_rows = frame.has_label, frame.n_rows
    index = None if frame.index is None else frame.index[some]
    valuation = replace(audit.valuation, backend=frame.backend, index=index)
    audit = replace(
        audit,
        valuation=valuation,
        notes=tuple(frame.notes),
        index=frame.index,
        _frame=frame,
    )
    if some.all():
        return audit
    suggested, confidence, _ = suggest((audit._audited or audit)._known, frame.X[~some])
    others = dict.fromkeys(BY_ROW, np.nan) | {
        "given": None,
        "suggested": suggested,
        "confidence": confidence,
    }
    arrays: dict[str, Any] = {}
    for name, known in audit.by_row.items():
        arrays[name] = np.empty(
            (n_rows, *known.shape[1:]), dtype=object if name == "given" else known.dtype
        )
        arrays[name][some], arrays[name][~some] = known, others[name]
    return replace(audit, **arrays, copies=audit.copies and audit.copies.among(some))


def suggest(audit: LabelAudit, X: Any) -> tuple[Any, FloatVector, Voters]:
    """Labels for rows that have none, by what the audit says of their nearest rows; how likely they
    are; these rows.

    That is a mean of probabilities. For regression: the median of near targets, NaN.
    """
    training, k = audit._estimator.training_set_, min(audit._estimator.n_neighbors, len(audit))
    parameters = {**audit._estimator.get_params(deep=False), "search": "exact", "max_error": None}
    none = np.zeros(len(X), dtype=training.labels.dtype)
    problem = training.problem_of(X, none, np.ones(len(X)), parameters)
    nearest = _measured(problem, value_and_nearest(problem, k)[1], k)
    rows, probabilities = nearest.rows, audit.label_probabilities
    if probabilities is None or audit.classes is None:
        return (
            np.quantile(audit.given[rows], 0.5, axis=1, method="lower"),
            np.full(len(X), np.nan),
            nearest,
        )
    shares: Any = sum(probabilities[rows[:, i]] for i in range(k)) + 1.0 / len(audit.classes)
    shares /= k + 1  # a few neighbours never make it certain
    return audit.classes[shares.argmax(axis=1)], shares.max(axis=1), nearest
