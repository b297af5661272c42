"""KNNShapley: a scikit-learn estimator around the engine.

It behaves like one without inheriting from BaseEstimator: loading scikit-learn takes 1.3 s of CPU
time, a small valuation 2 ms.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from nearworth._common.types import Aggregate, FloatVector, Semivalue, Task, Ties, Utility
from nearworth._common.warnings import warn_user
from nearworth.engine.owner_rules import owner_rule
from nearworth.engine.plan import Method, Plan, check_search_parameters, choose_method, make_plan
from nearworth.engine.problem import Problem, make_training_set
from nearworth.engine.rules import OwnedRule
from nearworth.engine.value import CHECKPOINT_INTERVAL, Options, partial_sums, value
from nearworth.games.truncation import Tail
from nearworth.inputs.parameters import PARAMETERS, did_you_mean, whole_number
from nearworth.inputs.targets import check_owners
from nearworth.neighbors.distances import count_copied
from nearworth.results.owners import OwnerValues, owner_values_from_totals
from nearworth.results.sums import CHUNK, Partial, describe
from nearworth.results.valuation import Valuation

if TYPE_CHECKING:
    from scipy.sparse import sparray, spmatrix

    from nearworth.neighbors.searchers import Searcher

# Validation rows that may be training rows too before there is a warning: this number of them, and
# this share.
MAX_LEAKED_ROWS = 20
MAX_LEAKED_SHARE = 0.25

FilePath: TypeAlias = str | os.PathLike[str]
# Arrays, frames and lists, sparse matrices, and paths of files. Frames, series and arrays of other
# libraries are ArrayLike because they have __array__.
Data: TypeAlias = "npt.ArrayLike | sparray | spmatrix | FilePath"
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None


class Cluster(Protocol):
    """What runs tasks elsewhere, such as dask.distributed.Client."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run function(*args, **kwargs), and return a future."""


@dataclass(eq=False, repr=False)
class KNNShapley:
    """Exact values of training points for a K-nearest-neighbor model.

    Parameters
    ----------
    n_neighbors : int, default=5
        The K of the model; may exceed the number of training points.
    task : {"classification", "regression"}
    utility : {"soft", "original"}
        How a set of training points is scored. "soft" (Wang & Jia 2023) averages the votes that
        are present. "original" (Jia et al. 2019) divides by K even when fewer than K are.
    semivalue : {"shapley", "banzhaf", "loo", "composite"}, ("beta", a, b) or ("sizes", low, high)
        How marginal contributions are weighted: Shapley, Banzhaf, leave-one-out or
        Beta(a, b)-Shapley; the share of data in a game with one analyst who must be there
        ("composite"; the remainder is the analyst's); or coalitions of `low` to `high` others,
        each size equally likely (high=None: all others; classification only).
    metric : str or callable, default="euclidean"
        Any name that scikit-learn's pairwise distances know, a function of two points, or
        "precomputed".
    metric_params : dict, optional
        Keyword arguments for the metric.
    search : {"exact", "lsh", "faiss", "auto"} or a searcher
        How neighbors are found: every distance, the paper's hash tables, an index (extra `faiss`),
        whichever is cheapest, or an object with fit(X) and search(Q, k). All but "exact" and "auto"
        need one of the next two. "auto" takes an index only if its typical error (see
        `Valuation.typical_error`) is not above max_error.
    n_candidates : int, optional
        K*: how many nearest neighbors are ranked; None for all. Values then carry certified
        intervals.
    max_error : float, optional
        Instead of K*: the certified error you accept, on the scale of mean values.
    tail : {"local", "minimax", "mean", "paper"}
        What stands for unranked points; without meaning for exact values.
    n_classes : int, optional
        C of the soft classification utility; by default the distinct labels seen in fit.
    ties : {"average", "index"}
        Points at equal distance share (the average over all their orders), or rank by training
        order.
    aggregate : {"mean", "sum"}
        Values are the mean over the validation points, or the paper's sum.
    standard_errors : bool, default=False
        Also compute the standard error of each value over the validation sample.
    max_memory : int or str, optional
        Working memory in bytes or as text ("2GB" is 2 * 10^9); a quarter of what is free unless
        given. Under a limit, files and memory maps are read in blocks. Searchers have limits of
        their own.
    n_jobs : int, optional
        Number of threads: None or -1 for all cores that the process may use, -2 for all but one.
    random_state : int, optional
        Seed of searchers and of the sample that evaluates them. Exact search uses no randomness.
    progress : bool or callable, optional
        A progress bar, or a function called with (done, total); None shows a bar on long runs in a
        terminal.
    radius : float, optional
        Every row within this distance votes, instead of the K nearest (threshold KNN-Shapley). A
        row exactly at the radius votes. Soft utility only; `n_neighbors` has no meaning then.
    weights : callable or "inverse", optional
        A vote counts weights(distances), not normalized; "inverse" is 1 / (1 + distance).
    privacy : (epsilon, delta), optional
        With a radius: normal noise on what a value tells about other rows, so that the value of a
        row may be told to its owner (differential privacy). Leave `random_state` out except in
        tests. Needs X_val, n_classes and the extra `privacy`.

    Attributes
    ----------
    classes_ : ndarray
        The distinct labels (classification).
    n_features_in_ : int
    training_set_ : TrainingSet
        The checked training data.
    feature_names_in_ : ndarray
        Column names, when X had them.

    Examples
    --------
    >>> import nearworth as nw
    >>> est = nw.KNNShapley(n_neighbors=1).fit([[0.0], [1.0], [2.0]], ["a", "b", "a"])
    >>> est.value([[0.2]], ["a"]).values.round(4)
    array([ 0.6667, -0.3333,  0.1667])
    """

    n_neighbors: int = 5
    task: Task = "classification"
    utility: Utility = "soft"
    semivalue: Semivalue = "shapley"
    metric: str | Callable[[FloatVector, FloatVector], float] = "euclidean"
    metric_params: dict[str, Any] | None = None
    search: str | Searcher = "exact"
    n_candidates: int | None = None
    max_error: float | None = None
    tail: Tail = "local"
    n_classes: int | None = None
    ties: Ties = "average"
    aggregate: Aggregate = "mean"
    standard_errors: bool = False
    max_memory: int | str | None = None
    n_jobs: int | None = None
    random_state: RandomState = None
    progress: bool | Callable[[int, int], object] | None = None
    radius: float | None = None
    weights: Callable[[FloatVector], npt.ArrayLike] | Literal["inverse"] | None = None
    privacy: tuple[float, float] | None = None

    def fit(self, X: Data | None, y: Data | None = None) -> KNNShapley:
        """Check and keep the training set, by reference: do not change the arrays afterwards.

        Parameters
        ----------
        X : array, frame, sparse matrix, path, dataset or None
            One row per training point. The path of a .npy, Parquet, Feather or zarr file (or
            folder), a pyarrow dataset, a zarr or h5py array stay on disk if `max_memory` is given
            or they are large. With metric="precomputed": distances training x training, or None if
            `value` will only be called with a validation set.
        y : array, series, path or name
            One label (classification) or number (regression) per training point; the path of a .npy
            file with them, or the name of a column of X, which then is no feature.

        Returns
        -------
        KNNShapley
            The estimator itself.
        """
        training = make_training_set(X, y, self._checked_parameters())
        # An earlier fit may have set attributes that this one does not.
        for name in ("classes_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        if training.classes is not None:
            # Refuses an `n_classes` below the number of labels.
            training.n_classes(self.n_classes)
            self.classes_ = training.classes.labels
        features = training.features
        if features is None:
            self.n_features_in_ = training.n_rows
        else:
            self.n_features_in_ = features.data.shape[1]
            if features.names:
                self.feature_names_in_ = np.array(features.names, dtype=object)
        self.training_set_ = training
        return self

    def value(
        self,
        X_val: Data | None = None,
        y_val: Data | None = None,
        sample_weight: npt.ArrayLike | None = None,
        *,
        groups: npt.ArrayLike | tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
        owned: npt.ArrayLike | None = None,
        contributions: npt.ArrayLike | slice | None = None,
        checkpoint: FilePath | None = None,
        checkpoint_interval: float = CHECKPOINT_INTERVAL,
        executor: Executor | Cluster | None = None,
        scratch: FilePath | None = None,
        continue_from: Valuation | Partial | None = None,
    ) -> Valuation:
        """Value every training point on a validation set, or on each other when none is given.

        Parameters
        ----------
        X_val, y_val : like X and y of fit
            The validation set; with metric="precomputed", X_val holds distances validation x
            training. Without both, every training point is in turn the validation point of all the
            others.
        sample_weight : array, optional
            Weights of the validation points, non-negative.
        groups : array or pair of arrays, optional
            A group for each row (a patient, a speaker, a video): rows of one group never vote for
            each other. With a validation set, the groups of the training rows and those of the
            validation rows.
        owned : mask, optional
            Training rows that are always present. The values are the added value of the other rows
            for someone who has these already. Owned rows have the value 0.
        contributions : row numbers, mask, slice or "all", optional
            Training points whose value for each single validation point is kept, in
            `Valuation.contributions` of shape (validation points, chosen rows).
        checkpoint : path, optional
            A folder that keeps the work done so far. The same call resumes it after any
            interruption, and returns at once when everything was done. `Valuation.resumed` is the
            number of validation points that were saved.
        checkpoint_interval : float, default=30
            Seconds between two writings of the checkpoint. It is also written when the run ends or
            is interrupted.
        continue_from : Valuation or Partial, optional
            Add these validation points to those: the result is as if all had been given at once,
            bit for bit.
        executor : concurrent.futures.Executor or dask.distributed.Client, optional
            Where to work instead of here. Each task uses `n_jobs` threads (1 unless given) and up
            to `max_memory`.
        scratch : path, optional
            A folder that all workers can read, for training data that live only in memory; by
            default a temporary one of this machine. Memory maps and .npy files are read where they
            are.

        Returns
        -------
        Valuation
        """
        parameters = self._fitted_parameters()
        problem = self.training_set_.problem(X_val, y_val, sample_weight, parameters, groups)
        has_all_rows = not problem.leave_one_out and groups is None and continue_from is None
        if self.privacy is not None and not has_all_rows:
            raise ValueError(
                "privacy needs all validation rows at once: X_val and y_val, no groups, no"
                " continue_from."
            )
        if owned is not None:
            problem = replace(problem, rule=OwnedRule.of(owned, problem))
        self._warn_of_leaks(problem)
        options = Options(
            contributions=contributions,
            checkpoint=checkpoint,
            checkpoint_interval=checkpoint_interval,
            continue_from=continue_from,
            executor=executor,
            scratch=scratch,
        )
        return value(problem, options)

    def value_owners(
        self,
        owner_of_row: npt.ArrayLike,
        X_val: Data | None = None,
        y_val: Data | None = None,
        sample_weight: npt.ArrayLike | None = None,
        *,
        groups: npt.ArrayLike | tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
        n_orders: int | None = None,
        checkpoint: FilePath | None = None,
        checkpoint_interval: float = CHECKPOINT_INTERVAL,
        executor: Executor | Cluster | None = None,
        scratch: FilePath | None = None,
    ) -> OwnerValues:
        """Value the owners of the training rows as players: each brings all of its rows or none.

        Unlike sums of row values (`Valuation.sum_by`), these gain next to nothing by copies of
        one's rows. `aggregate`, `standard_errors` and the other parameters apply. With `max_error`,
        fewer nodes integrate over the presence of the others, within this error (1e-13 unless
        given). Regression, searchers and other games are refused. More than 5,000 owners are valued
        by random orders, with standard errors, and with a warning.

        Parameters
        ----------
        owner_of_row : array or series
            The owner of each training row, any label.
        X_val, y_val, sample_weight, groups
            As in `value`.
        n_orders : int, optional
            Number of random owner orderings for each validation point, which makes values
            approximate (Shapley values only). Standard errors are then always computed, and include
            this approximation.
        checkpoint, checkpoint_interval, executor, scratch
            As in `value`.

        Returns
        -------
        OwnerValues
        """
        parameters = self._fitted_parameters()
        labels, codes = check_owners(owner_of_row, self.training_set_.n_rows, "owner_of_row")
        rule = owner_rule(codes, len(labels), parameters, n_orders)
        # The rule has this error already. To the engine, `max_error` would mean truncation.
        parameters["max_error"] = None
        parameters["standard_errors"] = bool(parameters["standard_errors"] or not rule.is_exact)
        problem = self.training_set_.problem(X_val, y_val, sample_weight, parameters, groups)
        # `payments(analyst=True)` runs the composite game after values that gave this warning.
        if self.semivalue != "composite":
            self._warn_of_leaks(problem)
        options = Options(
            checkpoint=checkpoint,
            checkpoint_interval=checkpoint_interval,
            executor=executor,
            scratch=scratch,
        )
        valuation = value(replace(problem, rule=rule), options)

        composite = None
        if self.semivalue == "shapley" and rule.is_exact:
            estimator = replace(self, semivalue="composite")
            estimator.training_set_ = self.training_set_
            validation = (X_val, y_val, sample_weight)
            composite = cache(
                partial(estimator.value_owners, owner_of_row, *validation, groups=groups)
            )
        return owner_values_from_totals(
            labels,
            codes,
            # Values of owners have no ends of their own.
            np.stack([valuation.values] * 3),
            valuation.standard_errors,
            backend=valuation.backend,
            how=str(rule),
            origin=valuation.origin,
            composite=composite,
        )

    def _warn_of_leaks(self, problem: Problem) -> None:
        """Warn if many validation rows are training rows too. Looks at arrays in memory only."""
        features = self.training_set_.features
        if features is None or self.metric == "precomputed" or self.max_memory is not None:
            return
        if problem.leave_one_out or problem.groups is not None:
            return
        points = features.data
        queries = problem.queries
        # Neither a subclass, such as a memory map, nor a sparse matrix.
        if type(points) is not np.ndarray or type(queries) is not np.ndarray:
            return
        n_leaked = count_copied(points, queries)
        if n_leaked <= max(MAX_LEAKED_ROWS, MAX_LEAKED_SHARE * len(queries)):
            return
        advice = (
            "Leave them out, or value the training set on itself with value(); nearworth.scan"
            " lists them."
        )
        warn_user(
            f"X_val: {n_leaked:,} of {len(queries):,} rows are training rows too, which falsifies"
            f" values. {advice}"
        )

    def partial(
        self,
        X_val: Data,
        y_val: Data,
        sample_weight: npt.ArrayLike | None = None,
        *,
        start: int = 0,
    ) -> Partial:
        """Sum over a part of the validation set, for work that you split by hand.

        Save parts with `Partial.save`, and merge them with `Partial.merge` or `nearworth merge`.
        `Valuation.from_partial` makes the values.

        Parameters
        ----------
        X_val, y_val, sample_weight
            The part of the validation set, as in `value`.
        start : int, default=0
            The number of the part's first point among all validation points, a multiple of 64.

        Returns
        -------
        Partial
        """
        parameters = self._fitted_parameters()
        whole_number(0)("start", start)
        if start % CHUNK:
            raise ValueError(
                f"start must be a multiple of {CHUNK}, so that parts join; got {start}."
            )
        if X_val is None or y_val is None or self.privacy is not None:
            raise ValueError(
                "partial needs X_val and y_val, the part of the validation set to sum over; no"
                " privacy."
            )
        problem = self.training_set_.problem(X_val, y_val, sample_weight, parameters)
        return partial_sums(problem, int(start))

    def plan(
        self,
        n_val: int,
        *,
        n_train: int | None = None,
        owner_of_row: npt.ArrayLike | None = None,
    ) -> Plan:
        """Predict threads, batches, memory and time of a run of `value`, which follows the plan.

        The time comes from a trial of some tenths of a second with training points as queries. It
        is not known for a searcher. Hash tables predict recall, cost and the quantities of the
        paper's Theorem 4 instead.

        Parameters
        ----------
        n_val : int
            Number of validation points.
        n_train : int, optional
            Plan for a training set of this size, with rows like those of `fit`.
        owner_of_row : array or series, optional
            Plan a run of `value_owners` instead.

        Returns
        -------
        Plan
            It prints as a table.
        """
        parameters = self._fitted_parameters()
        training = self.training_set_
        whole_number(1)("n_val", n_val)
        whole_number(1, or_none=True)("n_train", n_train)
        n_val = int(n_val)
        if owner_of_row is not None:
            return self._plan_owners(n_val, owner_of_row, parameters)
        method = choose_method(training, parameters, n_val, n_train)
        plan = make_plan(training, parameters, method, n_val, n_train)
        if method.searcher is None:
            return plan.with_time(training.trial(parameters))
        if n_train is not None or training.features is None or method.n_candidates is None:
            return plan
        prediction = method.searcher.predict(training.features.data, method.n_candidates, n_val)
        if prediction is None:
            return plan
        return replace(plan, prediction=str(prediction))

    def _plan_owners(
        self, n_val: int, owner_of_row: npt.ArrayLike, parameters: dict[str, Any]
    ) -> Plan:
        """The plan of a run of `value_owners`."""
        training = self.training_set_
        labels, codes = check_owners(owner_of_row, training.n_rows, "owner_of_row")
        rule = owner_rule(codes, len(labels), parameters)
        plan = make_plan(training, parameters | {"max_error": None}, Method(rule=rule), n_val)
        return plan.with_time(replace(training.trial(parameters, training.n_rows), rule=rule))

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 (scikit-learn passes it)
        """Parameters by name."""
        names = sorted(field.name for field in fields(self))
        return {name: getattr(self, name) for name in names}

    def set_params(self, **parameters: Any) -> KNNShapley:
        """Change parameters."""
        names = list(self.get_params())
        for name, parameter in parameters.items():
            if name not in names:
                raise ValueError(f"Invalid parameter {name!r}. {did_you_mean(name, names)}")
            setattr(self, name, parameter)
        return self

    def __repr__(self) -> str:
        defaults = {field.name: repr(field.default) for field in fields(self)}
        changed = [
            f"{name}={parameter!r}"
            for name, parameter in self.get_params().items()
            if repr(parameter) != defaults[name]
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _checked_parameters(self) -> dict[str, Any]:
        """The parameters by name. Raises TypeError or ValueError for one that is wrong."""
        parameters = self.get_params()
        for name, check in PARAMETERS.items():
            check(name, parameters[name])
        check_search_parameters(parameters)
        return parameters

    def _fitted_parameters(self) -> dict[str, Any]:
        """The parameters as they are now.

        Those that shaped the training set must not have changed since `fit`.
        """
        if not hasattr(self, "training_set_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(
                "This KNNShapley is not fitted yet. Call fit with a training set first."
            )
        parameters = self._checked_parameters()
        for name in ("task", "metric", "metric_params"):
            if describe(parameters[name]) != describe(getattr(self.training_set_, name)):
                raise ValueError(
                    f"{name} changed to {parameters[name]!r} after fit. Call fit again."
                )
        return parameters

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        tags = BaseEstimator.__sklearn_tags__(self)
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags


def knn_shapley(
    X: Data | None,
    y: Data | None,
    X_val: Data | None = None,
    y_val: Data | None = None,
    *,
    n_neighbors: int = 5,
    sample_weight: npt.ArrayLike | None = None,
    **parameters: Any,
) -> FloatVector:
    """Values of all training points as an array.

    It is short for `KNNShapley(...).fit(X, y).value(X_val, y_val).values`.

    Parameters
    ----------
    X, y : array, frame or any input of `KNNShapley.fit`
        The training set.
    X_val, y_val : like X and y, optional
        The validation set. Without it, every training point is in turn the validation point of all
        the others.
    n_neighbors : int, default=5
        The K of the model.
    sample_weight : array, optional
        Weights of the validation points, non-negative.
    **parameters
        Further parameters of `KNNShapley`.

    Returns
    -------
    ndarray of shape (N,)

    Examples
    --------
    >>> import nearworth as nw
    >>> X, y = [[0.0], [1.0], [2.0]], ["a", "b", "a"]
    >>> nw.knn_shapley(X, y, [[0.2]], ["a"], n_neighbors=1).round(4)
    array([ 0.6667, -0.3333,  0.1667])
    """
    estimator = KNNShapley(n_neighbors, **parameters).fit(X, y)
    return estimator.value(X_val, y_val, sample_weight).values
