"""Models as witnesses: what a linear model, boosted trees and extra trees predict for rows they were not trained on.

A row's own label never enters its own prediction, so predictions are evidence like the votes of neighbours. Features
are standardised once, over all rows, which no label enters; trees do not mind and keep their precision in 32 bits.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.memory import usable_threads
from nearworth._common.types import IntVector, Task
from nearworth.engine.run import progress_report

FOLDS, SEED = 5, 0
FLOOR = 0.001  # of every probability: the shares of the classes in the fold's training rows, each counted once more
WIDEST = 256  # columns up to which models pay
FEW_CELLS = 50_000  # rows x columns x classes below which processes take longer to start than models to fit
MOST_CELLS = 10_000_000  # rows x columns x classes, about a minute of one core; measured: 2,500,000 take 13 s


def worthwhile(n_rows: int, n_features: int, n_classes: int = 1) -> bool:
    """Whether models pay: on tables, which they read better than neighbours do; not on wide embeddings or huge sets."""
    return n_rows >= 4 * FOLDS and n_features <= WIDEST and n_rows * n_features * n_classes <= MOST_CELLS


def out_of_fold(
    X: Any,
    y: npt.NDArray[Any],
    *,
    task: Task,
    groups: npt.ArrayLike | None = None,
    n_jobs: int | None = None,
    progress: Any = None,
) -> list[npt.NDArray[np.float64]]:
    """Predictions of each model for each row, by models fitted to rows of other folds; the same for any `n_jobs`.

    Of codes of classes, probabilities (N, C), none of them zero; folds then have equal shares of each class, as far
    as they can. Of targets, predicted ones (N,). Rows of one group are always in the same fold.
    """
    from joblib import Parallel, delayed
    from sklearn.base import clone
    from sklearn.preprocessing import StandardScaler

    y = np.asarray(y)
    n_classes = int(y.max()) + 1 if task == "classification" else 0
    X = StandardScaler().fit_transform(np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64))
    models, folds = _models(task), _folds(y if n_classes else np.zeros(len(y)), groups)
    predictions = [np.empty((len(y), n_classes) if n_classes else len(y)) for _ in models]
    jobs = [(model, fold) for fold in np.unique(folds) for model in range(len(models))]
    workers = 1 if X.size * max(1, n_classes) < FEW_CELLS else min(len(jobs), usable_threads(n_jobs))
    with progress_report(progress, len(jobs), unit="fit") as report:
        results = Parallel(workers, return_as="generator")(
            delayed(_predict)(clone(models[model]), X, y, folds == fold, n_classes) for model, fold in jobs
        )
        for done, ((model, fold), predicted) in enumerate(zip(jobs, results, strict=True), start=1):
            predictions[model][folds == fold] = predicted
            report(done, len(jobs))
    return predictions


def _models(task: Task) -> list[Any]:
    """Smaller trees and fewer rounds than scikit-learn's defaults: wrong labels are there to be learnt by heart.

    Average precision of the probability of the given label, 15 % wrong, defaults -> these, 2,500 rows: boosted trees
    phoneme .683 -> .733, pol .930 -> .954, credit cards .287 -> .342, digits (1,000 rows) .990 -> .986 in a third of
    the time; extra trees .674 -> .770, .918 -> .959, .285 -> .331, .988 -> .993.
    """
    from sklearn.ensemble import (
        ExtraTreesClassifier,
        ExtraTreesRegressor,
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
    )
    from sklearn.linear_model import LogisticRegression, Ridge

    rounds = 100 if task == "regression" else 50  # a tenth nearer to the truth on the bike and housing sets
    boosted: Any = {"max_iter": rounds, "max_leaf_nodes": 15, "early_stopping": False, "random_state": SEED}
    trees: Any = {"min_samples_leaf": 2, "random_state": SEED}
    if task == "regression":
        return [Ridge(), HistGradientBoostingRegressor(**boosted), ExtraTreesRegressor(**trees)]
    return [LogisticRegression(), HistGradientBoostingClassifier(**boosted), ExtraTreesClassifier(**trees)]


def _folds(codes: npt.NDArray[Any], groups: npt.ArrayLike | None) -> IntVector:
    """A fold for each row: classes dealt out in turn, or whole groups in random order, cut into equal parts."""
    rng, n = np.random.default_rng(SEED), len(codes)
    if groups is None:
        folds = np.empty(n, dtype=np.intp)
        folds[np.lexsort((rng.random(n), codes))] = np.arange(n) % FOLDS
        return folds
    of_row, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)[1:]
    if len(sizes) < 2:
        raise ValueError("groups has one group only: no row is left to learn from. Give two or more.")
    order = rng.permutation(len(sizes))
    middles = np.empty(len(sizes))
    middles[order] = np.cumsum(sizes[order]) - sizes[order] / 2
    return np.asarray((middles * FOLDS / n).astype(np.intp)[of_row])


def _predict(model: Any, X: Any, y: npt.NDArray[Any], held_out: Any, n_classes: int) -> Any:
    """What a model fitted to the other rows predicts for the rows held out; on one thread, so that sums are the same.

    Fits run in processes, not in threads: scikit-learn resets the filters of warnings, which threads share.
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
    # Mixed with a little of the class shares, so that no class is impossible, not even one the fold had no row of.
    counts = np.bincount(train, minlength=n_classes) + 1.0
    return (1.0 - FLOOR) * found + FLOOR * counts / counts.sum()
