"""KNNShapley: a scikit-learn estimator around the engine. Parameters in, calls out.

It has the manners of one without inheriting them: loading scikit-learn takes 1.3 s of CPU, a small
valuation 2 ms.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cache, partial
from typing import Any

import numpy as np

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
from nearworth.results.owners import OwnerValues, of_totals
from nearworth.results.sums import CHUNK, Partial, describe
from nearworth.results.valuation import Valuation

FEW_LEAKS, LEAKED_SHARE = 20, 0.25  # validation rows that may be training rows too


@dataclass(eq=False, repr=False)
class KNNShapley:
    """What each training point is worth to a K-nearest-neighbour model, exactly.

    Parameters
    ----------
    n_neighbors : int, default=5
        The K of the model; may exceed the number of training points.
    task : {"classification", "regression"}
    utility : {"soft", "original"}
        How a set of training points is scored. "soft" (Wang & Jia 2023) averages the votes that are
        there; "original" (Jia et al. 2019) divides by K even when fewer than K points are present.
    semivalue : {"shapley", "banzhaf", "loo", "composite"}, ("beta", a, b) or ("sizes", low, high)
        How marginal contributions are weighed: Shapley, Banzhaf, leave-one-out, Beta(a, b)-Shapley;
        the share of data in a game with one analyst who must be there ("composite"; the rest is the
        analyst's); or coalitions of `low` to `high` others, each size equally likely (high=None:
        all others; classification only).
    metric : str or callable, default="euclidean"
        Any name that scikit-learn's pairwise distances know, a function of two points, or
        "precomputed".
    metric_params : dict, optional
        Keyword arguments for the metric.
    search : {"exact", "lsh", "faiss", "auto"} or a searcher
        How neighbours are found: every distance, the paper's hash tables, an index (extra `faiss`),
        whichever is cheapest, or an object with fit(X) and search(Q, k). All but "exact" and "auto"
        need one of the next two. "auto" takes an index only if its typical error (see
        `Valuation.typical_error`) is not above max_error.
    n_candidates : int, optional
        K*: how many nearest neighbours are ranked; None for all. Values then carry certified
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
    weights : callable or "distance", optional
        A vote counts weights(distances), not normalised; "distance" is 1 / (1 + distance).
    privacy : (epsilon, delta), optional
        With a radius: normal noise on what a value tells about other rows, so that the value of a
        row may be told to its owner (differential privacy). Leave `random_state` out, but for
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
    metric: Any = "euclidean"
    metric_params: dict[str, Any] | None = None
    search: Any = "exact"
    n_candidates: int | None = None
    max_error: float | None = None
    tail: Tail = "local"
    n_classes: int | None = None
    ties: Ties = "average"
    aggregate: Aggregate = "mean"
    standard_errors: bool = False
    max_memory: int | str | None = None
    n_jobs: int | None = None
    random_state: Any = None
    progress: Any = None
    radius: float | None = None
    weights: Any = None
    privacy: tuple[float, float] | None = None

    def fit(self, X: Any, y: Any = None) -> KNNShapley:
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
        """
        training = make_training_set(X, y, self._checked_parameters())
        features = training.features
        for name in ("classes_", "feature_names_in_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        if training.classes is not None:
            training.n_classes(self.n_classes)
            self.classes_ = training.classes.labels
        if features is not None and features.names:
            self.feature_names_in_ = np.array(features.names, dtype=object)
        self.n_features_in_ = training.n_rows if features is None else features.data.shape[1]
        self.training_set_ = training
        return self

    def value(
        self,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        owned: Any = None,
        contributions: Any = None,
        checkpoint: Any = None,
        checkpoint_interval: float = CHECKPOINT_INTERVAL,
        executor: Any = None,
        scratch: Any = None,
        continue_from: Any = None,
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
            Training rows that are always there: the values are those of the other rows given them,
            what a batch is worth to one who has these already. Owned rows have the value 0.
        contributions : row numbers, mask, slice or "all", optional
            Training points whose value for each single validation point is kept, in
            `Valuation.contributions` of shape (validation points, chosen rows).
        checkpoint : path, optional
            A folder that keeps the work done so far. The same call takes it up again after any
            interruption, and returns at once when everything was done; `Valuation.resumed` says how
            many validation points were saved.
        checkpoint_interval : float, default=30
            Seconds between two writings of the checkpoint; it is also written when the run ends or
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
        if self.privacy is not None and (
            problem.leave_one_out or groups is not None or continue_from is not None
        ):
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
        owner_of_row: Any,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        n_orders: int | None = None,
        **options: Any,
    ) -> OwnerValues:
        """Value the owners of the training rows as players: each brings all of its rows or none of
        them.

        Unlike sums of row values (`Valuation.sum_by`), these gain next to nothing by copies of
        one's rows. `aggregate`, `standard_errors` and the other parameters apply; with `max_error`,
        fewer nodes integrate over the presence of the others, within this error (1e-13 unless
        given). Regression, searchers and other games are refused. More than 5,000 owners are valued
        by random orders, with standard errors, and a warning says so.

        Parameters
        ----------
        owner_of_row : array or series
            The owner of each training row, any label.
        X_val, y_val, sample_weight, groups : as in `value`
        n_orders : int, optional
            Instead of exactly, by so many random orders of the owners for each validation point
            (Shapley values only). Standard errors, which are always computed then, include what
            that costs in precision.
        **options : checkpoint, checkpoint_interval, executor, scratch
            As in `value`.
        """
        parameters = self._fitted_parameters()
        if unknown := options.keys() - {"checkpoint", "checkpoint_interval", "executor", "scratch"}:
            raise TypeError(f"value_owners takes no {min(unknown)}.")
        labels, codes = check_owners(owner_of_row, self.training_set_.n_rows, "owner_of_row")
        rule = owner_rule(codes, len(labels), parameters, n_orders)
        parameters["max_error"] = None
        parameters["standard_errors"] = bool(parameters["standard_errors"] or not rule.is_exact)
        problem = self.training_set_.problem(X_val, y_val, sample_weight, parameters, groups)
        if self.semivalue != "composite":
            self._warn_of_leaks(problem)
        made = value(replace(problem, rule=rule), Options(**options))
        again = replace(self, semivalue="composite")
        again.training_set_ = self.training_set_
        composite = cache(
            partial(again.value_owners, owner_of_row, X_val, y_val, sample_weight, groups=groups)
        )
        about = {"how": str(rule), "origin": made.origin}
        about["composite"] = composite if self.semivalue == "shapley" and rule.is_exact else None
        return of_totals(
            labels, codes, np.stack([made.values] * 3), made.standard_errors, made.backend, **about
        )

    def _warn_of_leaks(self, problem: Problem) -> None:
        points, queries = (
            self.training_set_.features and self.training_set_.features.data,
            problem.queries,
        )
        in_memory = type(points) is type(queries) is np.ndarray and self.max_memory is None
        if (
            not in_memory
            or self.metric == "precomputed"
            or problem.leave_one_out
            or problem.groups is not None
        ):
            return
        if (n := count_copied(points, queries)) > max(FEW_LEAKS, LEAKED_SHARE * len(queries)):
            advice = (
                "Leave them out, or value the training set on itself with value(); nearworth.scan"
                " lists them."
            )
            warn_user(
                f"X_val: {n:,} of {len(queries):,} rows are training rows too, which falsifies"
                f" values. {advice}"
            )

    def partial(
        self, X_val: Any, y_val: Any, sample_weight: Any = None, *, start: int = 0
    ) -> Partial:
        """Sums over a part of the validation set, to be merged with those of the others: for work
        split by hand.

        `start` is the number of the part's first point among all validation points, a multiple of
        64. Save parts with `Partial.save`, merge them with `Partial.merge` or `nearworth merge`;
        `Valuation.from_partial` makes the values.
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

    def plan(self, n_val: int, *, n_train: int | None = None, owner_of_row: Any = None) -> Plan:
        """How `value` would run on so many validation points: threads, batches, memory and time.
        Prints itself.

        The time comes from a trial of some tenths of a second with training points as queries. For
        a searcher it is not known; hash tables predict recall, cost and the quantities of the
        paper's Theorem 4 instead. `value` follows the plan exactly. With `n_train`, the plan is for
        a training set of that size whose rows are like those of `fit`. With `owner_of_row` it is
        that of `value_owners`.
        """
        parameters, training = self._fitted_parameters(), self.training_set_
        whole_number(1)("n_val", n_val)
        whole_number(1, or_none=True)("n_train", n_train)
        if owner_of_row is not None:
            labels, codes = check_owners(owner_of_row, training.n_rows, "owner_of_row")
            rule = owner_rule(codes, len(labels), parameters)
            plan = make_plan(
                training, parameters | {"max_error": None}, Method(rule=rule), int(n_val)
            )
            return plan.with_time(replace(training.trial(parameters, training.n_rows), rule=rule))
        method = choose_method(training, parameters, int(n_val), n_train)
        plan = make_plan(training, parameters, method, int(n_val), n_train)
        if method.searcher is None:
            return plan.with_time(training.trial(parameters))
        if n_train is not None or training.features is None or method.n_candidates is None:
            return plan
        prediction = method.searcher.predict(
            training.features.data, method.n_candidates, int(n_val)
        )
        return plan if prediction is None else replace(plan, prediction=str(prediction))

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 (scikit-learn passes it)
        """Parameters by name."""
        return {name: getattr(self, name) for name in sorted(each.name for each in fields(self))}

    def set_params(self, **parameters: Any) -> KNNShapley:
        """Change parameters."""
        for name, given in parameters.items():
            if name not in self.get_params():
                raise ValueError(
                    f"Invalid parameter {name!r}. {did_you_mean(name, list(self.get_params()))}"
                )
            setattr(self, name, given)
        return self

    def __repr__(self) -> str:
        usual = {each.name: repr(each.default) for each in fields(self)}
        changed = [
            f"{name}={here!r}"
            for name, here in self.get_params().items()
            if repr(here) != usual[name]
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _checked_parameters(self) -> dict[str, Any]:
        parameters = self.get_params()
        for name, check in PARAMETERS.items():
            check(name, parameters[name])
        check_search_parameters(parameters)
        return parameters

    def _fitted_parameters(self) -> dict[str, Any]:
        """The parameters as they are now; those that shaped the training set must not have changed
        since fit.
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
    X: Any, y: Any, X_val: Any = None, y_val: Any = None, n_neighbors: int = 5, **parameters: Any
) -> FloatVector:
    """Values of all training points as an array: `KNNShapley(...).fit(X, y).value(X_val,
    y_val).values`.

    Further keywords are those of `KNNShapley`; `sample_weight` weighs the validation points.

    Examples
    --------
    >>> import nearworth as nw
    >>> X, y = [[0.0], [1.0], [2.0]], ["a", "b", "a"]
    >>> nw.knn_shapley(X, y, [[0.2]], ["a"], n_neighbors=1).round(4)
    array([ 0.6667, -0.3333,  0.1667])
    """
    sample_weight = parameters.pop("sample_weight", None)
    return KNNShapley(n_neighbors, **parameters).fit(X, y).value(X_val, y_val, sample_weight).values
