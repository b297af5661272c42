"""What predicts the given labels, right or wrong: out-of-fold models, and a bound on the errors and
a second opinion.

A linear model, boosted trees and extra trees predict rows they were not trained on. A row's own
label never enters its own prediction, so predictions are evidence like the votes of neighbours.
Features are standardised once, over all rows, which no label enters; trees do not mind and keep
their precision in 32 bits.

    P(given label g | evidence)   proportional to  exp(a_g + sum_f b_f log p_f(g))

Votes and out-of-sample predictions have learnt the wrong labels with the right ones. Rows that do
not have their most probable label are a bound: if around every row the commonest label is the right
one, no more are wrong, up to chance. The model of wrong labels (`noise_model.py`) says how many are
if errors do not depend on the features. People err where classes meet, and there the plain
prediction ranks better. So the ranking joins both.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_softmax, logit, softmax, xlogy

from nearworth._common.memory import usable_threads
from nearworth._common.types import FloatMatrix, FloatVector, IntVector, Task
from nearworth.audit.error_count import CERTAIN, with_sum
from nearworth.audit.minimum import find_minimum
from nearworth.audit.noise_level import Posterior, fitted_rows
from nearworth.audit.votes import Columns
from nearworth.engine.run import progress_report

FOLDS, SEED = 5, 0
# of every probability: shares of the classes in the fold's training rows, each counted once more
CLASS_SHARE = 0.001
WIDEST = 256  # columns up to which models pay
FEW_CELLS = (
    50_000  # rows x columns x classes below which processes take longer to start than models to fit
)
# rows x columns x classes, about a minute of one core; measured: 2,500,000 take 13 s
MOST_CELLS = 10_000_000

FLOOR = 1e-6  # of probabilities, before their logarithm
SHIFT_SPREAD = 2.0  # shifts a are normal before looking
TINY = 1e-12
SAME = 1e-6  # probabilities that differ by less are equal
# standard deviations of the number of rows against their surroundings, on top of it: the upper end
CHANCE = 2.0
# times as many rows against predictions as against votes, at most, for both to be a bound together
AS_GOOD = 1.25
FEW, MOST = (
    0.25,
    0.4,
)  # share of those rows that are wrong labels to the model: from none to all of its weight
# nats that the model of wrong labels must gain on the plain prediction of given ones to be as
# likely
FEE = 1.0
WITH = 0.6  # of that model's weight with predictions in its evidence, the rest without them
# times the concentration of preferences: where wrong labels prefer classes, only the model sees it
LEANING = 2.0
# nats that all evidence must say about given labels, beyond class shares, for predictions to count
# half
IDLE = 2.0
LEAST_ROWS = 10  # for each class: with fewer, evidence may know labels by heart in part
# nats by which labels of identical rows are likelier as those of different things, to be such
UNLIKE_COPIES = 3.0
SHARPER = 2.0  # power of the weights of levels, for lists with a promise: see decision 19


def worthwhile(n_rows: int, n_features: int, n_classes: int = 1) -> bool:
    """Whether models pay: on tables, which they read better than neighbours do; not on wide
    embeddings or huge sets.
    """
    return (
        n_rows >= 4 * FOLDS
        and n_features <= WIDEST
        and n_rows * n_features * n_classes <= MOST_CELLS
    )


def out_of_fold(
    X: Any,
    y: npt.NDArray[Any],
    task: Task,
    groups: Any = None,
    n_jobs: int | None = None,
    progress: Any = None,
) -> list[npt.NDArray[np.float64]]:
    """Predictions of each model for each row, by models fitted to rows of other folds; the same for
    any `n_jobs`.

    Of codes of classes, probabilities (N, C), none of them zero; folds then have equal shares of
    each class, as far as they can. Of targets, predicted ones (N,). Rows of one group are always in
    the same fold.
    """
    from joblib import Parallel, delayed
    from sklearn.base import clone
    from sklearn.preprocessing import StandardScaler

    y = np.asarray(y)
    n_classes = int(y.max()) + 1 if task == "classification" else 0
    X = StandardScaler().fit_transform(
        np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    )
    models, folds = _models(task), draw_folds(y if n_classes else np.zeros(len(y)), groups)
    predictions = [np.empty((len(y), n_classes) if n_classes else len(y)) for _ in models]
    jobs = [(model, fold) for fold in np.unique(folds) for model in range(len(models))]
    workers = (
        1 if X.size * max(1, n_classes) < FEW_CELLS else min(len(jobs), usable_threads(n_jobs))
    )
    with progress_report(progress, len(jobs), unit="fit") as report:
        results = Parallel(workers, return_as="generator")(
            delayed(_predict)(clone(models[model]), X, y, folds == fold, n_classes)
            for model, fold in jobs
        )
        for done, ((model, fold), predicted) in enumerate(zip(jobs, results, strict=True), start=1):
            predictions[model][folds == fold] = predicted
            report(done, len(jobs))
    return predictions


def _models(task: Task) -> list[Any]:
    """Smaller trees and fewer rounds than scikit-learn's defaults: wrong labels are there to be
    learnt by heart.

    Average precision of the probability of the given label, 15 % wrong, defaults -> these, 2,500
    rows: boosted trees phoneme .683 -> .733, pol .930 -> .954, credit cards .287 -> .342, digits
    (1,000 rows) .990 -> .986 in a third of the time; extra trees .674 -> .770, .918 -> .959, .285
    -> .331, .988 -> .993.
    """
    from sklearn import ensemble, linear_model

    rounds = (
        100 if task == "regression" else 50
    )  # a tenth nearer to the truth on the bike and housing sets
    boosted: Any = {
        "max_iter": rounds,
        "max_leaf_nodes": 15,
        "early_stopping": False,
        "random_state": SEED,
    }
    trees: Any = {"min_samples_leaf": 2, "random_state": SEED}
    if task == "regression":
        boosting, forest = ensemble.HistGradientBoostingRegressor, ensemble.ExtraTreesRegressor
        return [linear_model.Ridge(), boosting(**boosted), forest(**trees)]
    boosting, forest = ensemble.HistGradientBoostingClassifier, ensemble.ExtraTreesClassifier
    return [linear_model.LogisticRegression(), boosting(**boosted), forest(**trees)]


def draw_folds(codes: npt.NDArray[Any], groups: npt.ArrayLike | None) -> IntVector:
    """A fold for each row: classes dealt out in turn, or whole groups in random order, cut into
    equal parts.
    """
    rng, n = np.random.default_rng(SEED), len(codes)
    if groups is None:
        folds = np.empty(n, dtype=np.intp)
        folds[np.lexsort((rng.random(n), codes))] = np.arange(n) % FOLDS
        return folds
    of_row, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)[1:]
    if len(sizes) < 2:
        raise ValueError(
            "groups has one group only: no row is left to learn from. Give two or more."
        )
    order = rng.permutation(len(sizes))
    middles = np.empty(len(sizes))
    middles[order] = np.cumsum(sizes[order]) - sizes[order] / 2
    return np.asarray((middles * FOLDS / n).astype(np.intp)[of_row])


def _predict(model: Any, X: Any, y: npt.NDArray[Any], held_out: Any, n_classes: int) -> Any:
    """What a model fitted to the other rows predicts for the rows held out; on one thread, so that
    sums are the same.

    Fits run in processes, not in threads: scikit-learn resets the filters of warnings, which
    threads share.
    """
    from sklearn.dummy import DummyClassifier, DummyRegressor
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    train = y[~held_out]
    if (train == train[0]).all():  # nothing to learn
        model = DummyClassifier(strategy="prior") if n_classes else DummyRegressor()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X[~held_out], train)
        if n_classes == 0:
            return model.predict(X[held_out])
        found = np.zeros((int(held_out.sum()), n_classes))
        found[:, model.classes_] = model.predict_proba(X[held_out])
    # Mixed with a little of the class shares, so that no class is impossible, not even one the fold
    # had no row of.
    counts = np.bincount(train, minlength=n_classes) + 1.0
    return (1.0 - CLASS_SHARE) * found + CLASS_SHARE * counts / counts.sum()


class GivenLabels(NamedTuple):
    """Probability of each label to be the given one, those of the given labels, which rows have
    another and how many.

    Another than the most probable one; of several such, any may be it. `loss` is minus the
    logarithm of the likelihood, `fit` has the weights and shifts.
    """

    probabilities: FloatMatrix
    of_given: FloatVector
    against: FloatVector
    n_against: float
    loss: float
    fit: FloatVector


def predict_given(
    kinds: list[FloatMatrix], codes: IntVector, part: Any = 1.0, prior: float = 0.0
) -> GivenLabels:
    """Weights and shifts that make the given labels most likely, learnt from some rows and applied
    to all.

    If the last column stands for several labels, the given one is a `part` of it. Weights have a
    density proportional to this power of them before looking: where labels say little, no kind of
    evidence is then left out.
    """
    layers = _centred_logs(kinds)
    n_kinds, n_rows, n_classes = layers.shape
    some = fitted_rows(n_rows)
    fitted, given = layers[:, some], codes[some]

    def loss(at: FloatVector) -> tuple[float, FloatVector]:
        logs, rows = (
            log_softmax(np.tensordot(at[:n_kinds], fitted, 1) + at[n_kinds:], axis=1),
            np.arange(len(given)),
        )
        excess, pull = np.exp(logs), at[n_kinds:] / SHIFT_SPREAD**2
        excess[rows, given] -= 1.0
        weights = np.maximum(at[:n_kinds], SAME)
        slope = np.concatenate(
            [np.tensordot(fitted, excess, 2) - prior / weights, excess.sum(axis=0) + pull]
        )
        return float(
            pull @ at[n_kinds:] / 2.0 - logs[rows, given].sum() - prior * np.log(weights).sum()
        ), slope

    start = np.concatenate([np.full(n_kinds, 1.0 / n_kinds), np.zeros(n_classes)])
    # Never a negative weight: a row sees one label of its class less than others do, which would
    # tell its label.
    lower = np.concatenate([np.zeros(n_kinds), np.full(n_classes, -np.inf)])
    fit, _ = find_minimum(loss, start, lower=lower)
    probabilities = given_probabilities(kinds, fit)
    probabilities[:, -1] *= part
    most = probabilities >= (1.0 - SAME) * probabilities.max(axis=1, keepdims=True)
    rows = np.arange(n_rows)
    against, of_given = 1.0 - most[rows, codes] / most.sum(axis=1), probabilities[rows, codes]
    loss_of_all = -float(np.log(of_given + TINY).sum())
    return GivenLabels(probabilities, of_given, against, float(against.sum()), loss_of_all, fit)


def given_probabilities(kinds: list[FloatMatrix], fit: FloatVector) -> FloatMatrix:
    """Probabilities of given labels, with weights and shifts that were fitted to these rows or
    others.
    """
    return np.asarray(
        softmax(
            np.tensordot(fit[: len(kinds)], _centred_logs(kinds), 1) + fit[len(kinds) :], axis=1
        )
    )


def _centred_logs(kinds: list[FloatMatrix]) -> FloatMatrix:
    layers = np.stack([np.log(np.maximum(kind, FLOOR)) for kind in kinds])
    return np.asarray(layers - layers.mean(axis=2, keepdims=True))


def judge(
    votes: Posterior,
    helped: Posterior | None,
    codes: IntVector,
    predicted: list[FloatMatrix],
    columns: Columns | None,
    share: FloatMatrix,
) -> tuple[FloatVector, FloatVector, float]:
    """P(given label is right), the same with levels weighed more sharply, and a bound on the number
    of errors.

    The model of wrong labels joined with what predicts the given ones. `votes` is that model
    without what other models `predicted`, `helped` with it: the number of errors is that of the
    votes alone, whatever is predicted. `share` has the labels' plain shares of the votes.
    """
    part, several = 1.0 if columns is None else columns.part, votes.labels.shape[1] > 2
    # Where votes say nothing, the model may count them against their labels: a row sees one of its
    # own label less. So it may know given labels by heart, and then its evidence bounds nothing.
    backwards = float(((votes.evidence - votes.evidence.mean(axis=0)) * share).sum()) < 0.0
    evidence = (
        share if backwards or len(codes) < LEAST_ROWS * votes.labels.shape[1] else votes.evidence
    )
    by_votes = everything = predict_given([votes.evidence], codes, part)
    bound = by_votes if evidence is votes.evidence else predict_given([evidence], codes, part)
    against = bound.against
    if helped is not None:
        alone = predict_given(predicted, codes, part, prior=1.0)
        everything = (
            alone if backwards else predict_given([evidence, *predicted], codes, part, prior=1.0)
        )
        fits = [bound, everything, alone]
        against = min(fits, key=lambda fit: fit.n_against).against
        # A wrong label has all of them against it, also those that err, unless they name just that
        # label: of two classes they always do, and predictions much worse than votes may.
        if several and alone.n_against <= AS_GOOD * bound.n_against:
            against = np.min([fit.against for fit in fits], axis=0)
    shares = float((1.0 - votes.quality).sum()) / np.maximum(
        [by_votes.n_against, everything.n_against], 1.0
    )
    weight, beside = np.clip((shares - FEW) / (MOST - FEW), 0.0, 1.0).tolist()
    if several:
        leaning = LEANING * concentration(votes.labels, codes) if columns is None else 0.0
        weight, beside = 1.0, max(beside, min(leaning, 1.0))
    elif (
        helped is not None
    ):  # how likely the model is, if it or the plain prediction is how given labels come about
        better = by_votes.loss + float(
            np.log((votes.evidence * votes.confusion.T[codes]).sum(axis=1) + TINY).sum()
        )
        beside = min(beside, float(expit(better - FEE)))
    given = codes if columns is None else columns.codes
    nats = max(-float(np.log(np.bincount(given)[given] / len(given)).sum()) - everything.loss, 0.0)
    beside, said = (
        (0.0, 1.0) if backwards and helped is not None else (beside, nats / (nats + IDLE))
    )
    found = []
    for weights in (votes.weights, sharper(votes.weights)):
        right = np.minimum(weights @ votes.right, 1.0)
        score = weight * _logit(right) + (1.0 - weight) * _logit(by_votes.of_given)
        if helped is not None:
            model = (1.0 - WITH) * score + WITH * _logit(np.minimum(weights @ helped.right, 1.0))
            # Noise makes given labels hard to predict: their logits are near 0, and would not count
            # beside these.
            plain = _logit(everything.of_given)
            plain = (plain - plain.mean()) * (model.std() / max(float(plain.std()), CERTAIN))
            score += said * (beside * model + (1.0 - beside) * plain - score)
        as_is = helped is None and weight == 1.0
        found.append(right if as_is else with_sum(score, float(right.sum())))
    sure = (
        1.0 if helped is None else everything.probabilities.max(axis=1)
    )  # of the most probable label
    return found[0], found[1], most_errors(float(against.sum()), float((against * sure).sum()))


def independence(
    votes: Posterior, codes: IntVector, identical: IntVector, columns: Columns | None
) -> float | None:
    """How far labels of identical rows were given independently: 0 copied with the rows, 1 each on
    its own.

    None for different things that look alike. The labels of copies differ by noise, as the model
    has it, or at any rate that is the same everywhere; people with the same answers differ as the
    labels around them do.
    """
    size = np.bincount(identical)[identical]
    _, label, same = np.unique(
        identical * (codes.max() + 1) + codes, return_inverse=True, return_counts=True
    )
    if (same[label] == size).all():
        return 0.0
    some, (own, part) = size > 1, (codes, 1.0) if columns is None else (columns.given, columns.part)
    agree = (same[label][some] - 1.0) / (size[some] - 1.0)  # share of the others
    by_noise = np.einsum("ij,ij->i", votes.labels, votes.confusion.T[own])[some]
    chances = [
        by_noise,
        np.full(len(agree), agree.mean()),
        predict_given([votes.evidence], own, part).of_given[some],
    ]
    *copies, others = (float((xlogy(agree, p) + xlogy(1 - agree, 1 - p)).sum()) for p in chances)
    if max(copies) <= others - UNLIKE_COPIES:
        return None
    return float(np.clip((1.0 - agree.mean()) / max(1.0 - by_noise.mean(), TINY), 0.0, 1.0))


def with_labels_of_copies(
    right: list[FloatVector],
    found: Posterior,
    codes: IntVector,
    identical: IntVector,
    independent: float,
) -> tuple[list[FloatVector], Posterior]:
    """P(right), in several versions, and P(label), given that identical rows have one true label.

    Each different label of a group counts once, and equal ones again as far as they were given
    independently.
    """
    rows = np.flatnonzero(np.bincount(identical)[identical] > 1)
    group, given = np.unique(identical[rows], return_inverse=True)[1], codes[rows]
    size, evidence, labels = found.labels.shape[1], found.evidence.copy(), found.labels.copy()
    kinds, kind, n = np.unique(group * size + given, return_inverse=True, return_counts=True)
    of_kind, label = np.divmod(kinds, size)  # by group and given label
    of_given = np.log(np.maximum(found.confusion, TINY)).T
    logs, joint = np.zeros((2, len(rows), size))  # by group and true label
    np.add.at(logs, of_kind, (1.0 + independent * (n - 1))[:, None] * of_given[label])
    labels[rows] = softmax(
        np.log(np.maximum(labels[rows], TINY)) + logs[group] - of_given[given], axis=1
    )
    np.add.at(joint, group, labels[rows])
    contradict = np.bincount(of_kind)[group] > 1
    evidence[rows] = np.where(
        contradict[:, None], joint[group] / np.bincount(group)[group, None], evidence[rows]
    )
    shift, judged = (
        _logit(labels[rows, given]) - _logit(found.labels[rows, given]),
        [each.copy() for each in right],
    )
    for each in judged:
        each[rows] = expit(_logit(each[rows]) + shift)
        highest = np.zeros(len(kinds))
        np.maximum.at(highest, kind, each[rows])
        each[rows] /= np.maximum(1.0, np.bincount(of_kind, highest))[
            group
        ]  # one label at most is right
    return judged, replace(found, evidence=evidence, labels=labels)


def class_answers(
    labels: Any,
    codes: IntVector,
    columns: Columns | None,
    shares: list[FloatMatrix],
    found: Posterior,
    quality: Any,
) -> dict[str, Any]:
    """What a LabelAudit says of rows with these labels, whose probabilities to be right are
    `quality`.
    """
    own, rows = codes if columns is None else columns.given, np.arange(len(codes))
    best, classes = (
        (found.evidence.argmax(axis=1),) * 2 if columns is None else columns.best(found.evidence)
    )
    probabilities = with_quality(found.labels, own, quality)
    answers = {"given": labels[codes], "quality": quality, "agreement": shares[0][rows, own]}
    answers |= {"suggested": labels[classes], "confidence": probabilities[rows, best]}
    return answers | {"_probabilities": probabilities, "_columns": columns}


def with_quality(labels: FloatMatrix, own: IntVector, quality: FloatVector) -> FloatMatrix:
    """P(label) with these probabilities of the given labels; the others share the rest as
    before.
    """
    rows, probabilities = np.arange(len(own)), labels + TINY
    probabilities[rows, own] = 0.0
    probabilities *= ((1.0 - quality) / probabilities.sum(axis=1))[:, None]
    probabilities[rows, own] = quality
    return probabilities


def sharper(weights: FloatVector) -> FloatVector:
    """The weights of levels for lists with a promise."""
    return np.asarray(weights**SHARPER / (weights**SHARPER).sum())


def most_errors(n_against: float, variance: float) -> float:
    """How many labels are wrong at most, if so many rows do not have the most probable label."""
    return n_against + CHANCE * math.sqrt(variance)


def concentration(labels: FloatMatrix, codes: IntVector) -> float:
    """How far wrong labels prefer some classes, from 0 (as frequent as these are) to 1 (each true
    class has its one).

    Kullback-Leibler divergence of expected wrong labels from the class shares, over the logarithm
    of their number.
    """
    n_classes = labels.shape[1]
    expected = np.zeros((n_classes, n_classes))  # true labels in rows
    np.add.at(expected.T, codes, labels)
    np.fill_diagonal(expected, 0.0)
    shares = np.tile(np.bincount(codes, minlength=n_classes) / len(codes), (n_classes, 1))
    np.fill_diagonal(shares, 0.0)
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), CERTAIN)
    total = expected.sum(axis=1, keepdims=True)
    ratios = expected / np.maximum(total, CERTAIN) / np.maximum(shares, CERTAIN)
    logs = np.log(np.where(ratios > 0, ratios, 1.0))
    return float(
        (expected * logs).sum() / max(total.sum(), CERTAIN) / np.log(max(n_classes - 1, 2))
    )


def _logit(probabilities: FloatVector) -> FloatVector:
    return np.asarray(logit(np.clip(probabilities, CERTAIN, 1.0 - CERTAIN)))
