"""KNNShapley: scikit-learn manners around the engine."""

from __future__ import annotations

import warnings
from dataclasses import replace
from fractions import Fraction
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from nearworth._typing import Aggregate, FloatVector, IntVector, Semivalue, Task, Ties, Utility
from nearworth._validation.fingerprint import fingerprint
from nearworth._validation.parameters import check_parameters, whole_number
from nearworth._validation.targets import check_rows
from nearworth._version import __version__
from nearworth.engine.accumulate import Partial
from nearworth.engine.calibrate import TRIAL_POINTS, TRIAL_QUERIES, with_time
from nearworth.engine.collected import NearestLists
from nearworth.engine.distributed import Job
from nearworth.engine.moments import CHUNK, Moments
from nearworth.engine.nearest import SearcherSource, Source
from nearworth.engine.plan import Plan, check_fits, make_plan
from nearworth.engine.problem import Problem, make_evaluators
from nearworth.engine.progress import reporting
from nearworth.engine.remote import store_at
from nearworth.engine.run import Outcome, Request, run, widened
from nearworth.engine.truncate import TruncatedEvaluator
from nearworth.games.truncation import Tail
from nearworth.neighbors.keys import EuclideanKeys
from nearworth.runs import INTERVAL, LongRun, Summed, begin, origin_of, refuse_searcher, sum_up
from nearworth.searching import Choice, SearchReport, check_request, choose, identity_of, make_source, report_of
from nearworth.training import PRECOMPUTED, Training, budget, make_training
from nearworth.valuation import Parameters, Provenance, Valuation

# What the numbers do not depend on, and so what two valuations to be combined need not share.
NOT_PART_OF_THE_GAME = (
    "max_memory",
    "n_jobs",
    "progress",
    "random_state",
    "standard_errors",
    "search",
    "max_error",
    "tail",
)


class KNNShapley(BaseEstimator):  # type: ignore[misc]
    """What each training point is worth to a K-nearest-neighbour model, exactly.

    Parameters
    ----------
    n_neighbors : int, default=5
        The K of the model; may exceed the number of training points.
    task : {"classification", "regression"}
    utility : {"soft", "original"}
        How a set of training points is scored. "soft" (Wang & Jia 2023) averages the votes that are there;
        "original" (Jia et al. 2019) divides by K even when fewer than K points are present.
    semivalue : {"shapley", "banzhaf", "loo"} or ("beta", a, b)
        How marginal contributions are weighed: Shapley, Banzhaf, leave-one-out, or Beta(a, b)-Shapley.
    metric : str or callable, default="euclidean"
        Any name that scikit-learn's pairwise distances know, a function of two points, or "precomputed".
    metric_params : dict, optional
        Keyword arguments for the metric.
    search : {"exact", "lsh", "faiss", "auto"} or a searcher
        How neighbours are found: every distance, the paper's hash tables, an index (extra `faiss`), whichever is
        cheapest, or an object with fit(X) and search(Q, k). All but "exact" and "auto" need one of the next two.
    n_candidates : int, optional
        K*: how many nearest neighbours are ranked; None for all. Values then carry certified intervals.
    max_error : float, optional
        Instead of K*: the certified error you accept, on the scale of mean values.
    tail : {"local", "minimax", "mean", "paper"}
        What stands for unranked points; without meaning for exact values.
    n_classes : int, optional
        C of the soft classification utility; by default the distinct labels seen in fit.
    ties : {"average", "index"}
        Points at equal distance share (the average over all their orders), or rank by training order.
    aggregate : {"mean", "sum"}
        Values are the mean over the validation points, or the paper's sum.
    standard_errors : bool, default=False
        Also compute the standard error of each value over the validation sample.
    max_memory : int or str, optional
        Working memory in bytes or as text ("2GB" is 2 * 10^9); a quarter of what is free unless given. Under a limit,
        files and memory maps are read in blocks. Searchers have limits of their own.
    n_jobs : int, optional
        Number of threads: None or -1 for all cores that the process may use, -2 for all but one.
    random_state : int, optional
        Seed of searchers and of the sample that judges them. Exact search uses no randomness.
    progress : bool or callable, optional
        A progress bar, or a function called with (done, total); None shows a bar on long runs in a terminal.

    Attributes
    ----------
    classes_ : ndarray
        The distinct labels (classification).
    n_features_in_ : int
    feature_names_in_ : ndarray
        Column names, when X had them.

    Examples
    --------
    >>> import nearworth as nw
    >>> est = nw.KNNShapley(n_neighbors=1).fit([[0.0], [1.0], [2.0]], ["a", "b", "a"])
    >>> est.value([[0.2]], ["a"]).values.round(4)
    array([ 0.6667, -0.3333,  0.1667])
    """

    def __init__(
        self,
        n_neighbors: int = 5,
        task: Task = "classification",
        utility: Utility = "soft",
        semivalue: Semivalue = "shapley",
        metric: Any = "euclidean",
        metric_params: dict[str, Any] | None = None,
        search: Any = "exact",
        n_candidates: int | None = None,
        max_error: float | None = None,
        tail: Tail = "local",
        n_classes: int | None = None,
        ties: Ties = "average",
        aggregate: Aggregate = "mean",
        standard_errors: bool = False,
        max_memory: int | str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: Any = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.task = task
        self.utility = utility
        self.semivalue = semivalue
        self.metric = metric
        self.metric_params = metric_params
        self.search = search
        self.n_candidates = n_candidates
        self.max_error = max_error
        self.tail = tail
        self.n_classes = n_classes
        self.ties = ties
        self.aggregate = aggregate
        self.standard_errors = standard_errors
        self.max_memory = max_memory
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any = None) -> KNNShapley:
        """Check and keep the training set, by reference: do not change the arrays afterwards.

        Parameters
        ----------
        X : array, frame, sparse matrix, path, dataset or None
            One row per training point. The path of a .npy, Parquet, Feather or zarr file (or folder), a pyarrow
            dataset, a zarr or h5py array stay on disk if `max_memory` is given or they are large. With
            metric="precomputed": distances training x training, or None if `value` will only be called with a
            validation set.
        y : array, series, path or name
            One label (classification) or number (regression) per training point; the path of a .npy file with them,
            or the name of a column of X, which then is no feature.
        """
        parameters = self._checked_parameters()
        training = make_training(X, y, parameters)
        if training.classes is not None:
            training.n_classes(self.n_classes)
            self.classes_ = training.classes.labels
        elif hasattr(self, "classes_"):
            del self.classes_
        self._set_feature_names(training)
        self._training = training
        return self

    def value(
        self,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight: Any = None,
        *,
        contributions: Any = None,
        checkpoint: Any = None,
        checkpoint_interval: float = INTERVAL,
        executor: Any = None,
        scratch: Any = None,
        continue_from: Any = None,
    ) -> Valuation:
        """Value every training point on a validation set, or on each other when none is given.

        Parameters
        ----------
        X_val, y_val : like X and y of fit
            The validation set; with metric="precomputed", X_val holds distances validation x training.
            Without both, every training point is in turn the validation point of all the others.
        sample_weight : array, optional
            Weights of the validation points, non-negative.
        contributions : row numbers, mask, slice or "all", optional
            Training points whose value for each single validation point is kept, in `Valuation.contributions`
            of shape (validation points, chosen rows).
        checkpoint : path, optional
            A folder that keeps the work done so far. The same call takes it up again after any interruption, and
            returns at once when everything was done; `Valuation.resumed` says how many validation points were saved.
        checkpoint_interval : float, default=30
            Seconds between two writings of the checkpoint; it is also written when the run ends or is interrupted.
        continue_from : Valuation or Partial, optional
            Add these validation points to those: the result is as if all had been given at once, bit for bit.
        executor : concurrent.futures.Executor or dask.distributed.Client, optional
            Where to work instead of here. Each task uses `n_jobs` threads (1 unless given) and up to `max_memory`.
        scratch : path, optional
            A folder that all workers can read, for training data that live only in memory; by default a temporary one
            of this machine. Memory maps and .npy files are read where they are. Or an address that fsspec understands
            ("s3://..."): the data are put there, files too, and fetched once to each machine.

        Returns
        -------
        Valuation
        """
        problem, parameters = self._problem(X_val, y_val, sample_weight)
        long = LongRun(checkpoint, checkpoint_interval, continue_from, executor=executor, scratch=scratch)
        return self._run(problem, contributions, parameters, long)

    def _value_and_nearest(self, size: int, X_val: Any = None, y_val: Any = None) -> tuple[Valuation, NearestLists]:
        """As `value`, and in the same pass the nearest training points of each validation point."""
        problem, parameters = self._problem(X_val, y_val)
        nearest = NearestLists(problem.n_val, min(size, problem.game.n_players), self.n_neighbors)
        return self._run(problem, None, parameters, LongRun(), nearest), nearest

    def _problem(self, X_val: Any, y_val: Any, sample_weight: Any = None) -> tuple[Problem, dict[str, Any]]:
        """The checked question, and the parameters it was asked with."""
        check_is_fitted(self)
        parameters = self._checked_parameters()
        self._refuse_other_training(parameters)
        if (X_val is None) != (y_val is None):
            missing, given = ("X_val", "y_val") if X_val is None else ("y_val", "X_val")
            raise ValueError(
                f"{given} was given without {missing}. Give both, or neither to value the training set on itself."
            )
        training = self._training
        if X_val is None:
            return training.against_itself(sample_weight, parameters), parameters
        return training.against(X_val, y_val, sample_weight, parameters), parameters

    def partial(self, X_val: Any, y_val: Any, sample_weight: Any = None, *, start: int = 0) -> Partial:
        """Sums over a part of the validation set, to be merged with those of the others: for work split by hand.

        `start` is the number of the part's first point among all validation points, a multiple of 64. Save parts with
        `Partial.save`, merge them with `Partial.merge` or `nearworth merge`; `Valuation.from_partial` makes the values.
        """
        check_is_fitted(self)
        parameters = self._checked_parameters()
        self._refuse_other_training(parameters)
        whole_number(0)("start", start)
        if start % CHUNK:
            raise ValueError(f"start must be a multiple of {CHUNK}, so that parts join; got {start}.")
        problem = self._training.against(X_val, y_val, sample_weight, parameters)
        choice = self._choice(problem.n_val, parameters)
        if choice.searcher is not None:
            refuse_searcher("partial")
        plan = self._plan(problem.n_val, choice)
        evaluators = self._evaluator_maker(problem, plan, choice)
        provenance = self._provenance(problem, parameters)
        return self._sum_up(problem, plan, choice, evaluators, provenance, LongRun(start=int(start))).partial

    def plan(self, n_val: int, *, n_train: int | None = None) -> Plan:
        """How `value` would run on so many validation points: threads, batches, memory and time. Prints itself.

        The time comes from a trial of some tenths of a second with training points as queries; a searcher's is not
        told, but hash tables foretell recall, cost and the quantities of the paper's Theorem 4. `value` follows the
        plan exactly. With `n_train`, the plan is for a training set of that size whose rows are like those of `fit`.
        """
        check_is_fitted(self)
        parameters = self._checked_parameters()
        whole_number(1)("n_val", n_val)
        whole_number(1)("n_train", self._training.n_rows if n_train is None else n_train)
        choice = self._choice(int(n_val), parameters, n_train)
        plan = self._plan(int(n_val), choice, n_train)
        if choice.searcher is None:
            return with_time(plan, self._training.trial(TRIAL_POINTS, TRIAL_QUERIES, parameters))
        if n_train is None and hasattr(choice.searcher, "foretell") and self._training.features is not None:
            told = choice.searcher.foretell(self._training.features.data, choice.n_candidates, int(n_val))
            return replace(plan, foretold=str(told))
        return plan

    def _run(
        self,
        problem: Problem,
        contributions: Any,
        parameters: dict[str, Any],
        long: LongRun,
        nearest: NearestLists | None = None,
    ) -> Valuation:
        choice = self._choice(problem.n_val, parameters)
        if nearest is not None:
            choice = choice.listing(nearest.size)
        plan = self._plan(problem.n_val, choice, kept=long.checkpoint is not None)
        searcher = choice.searcher is not None
        long.check(
            searcher=choice.searcher,
            random_state=self.random_state,
            contributions=contributions is not None,
            leave_out=problem.leave_out,
        )
        chosen = None
        if contributions is not None:
            chosen = check_rows(contributions, "contributions", problem.n_train)
            check_fits(plan, chosen.size, self._budget())
        provenance = self._provenance(problem, parameters)
        if searcher or chosen is not None or nearest is not None:
            return self._run_at_once(problem, plan, choice, chosen, provenance, nearest, long)
        make = self._evaluator_maker(problem, plan, choice)
        summed = self._sum_up(problem, plan, choice, make, provenance, long)
        if long.continue_from is not None:
            sets = "+".join(summed.partial.origin["validation"].values())
            provenance = replace(provenance, n_val=summed.partial.n_points, validation=sets)
        valuation = self._valuation(problem, plan, Outcome(summed.partial.finish()), provenance, make)
        return replace(
            valuation,
            partial=summed.partial,
            resumed=summed.resumed,
            _moments_by_group=None if long.continue_from is not None else valuation._moments_by_group,
        )

    def _run_at_once(
        self,
        problem: Problem,
        plan: Plan,
        choice: Choice,
        chosen: IntVector | None,
        provenance: Provenance,
        nearest: NearestLists | None,
        long: LongRun,
    ) -> Valuation:
        """With single values kept, or neighbours from a searcher: nothing that parts of a run could share."""
        source = None
        if choice.n_candidates is not None:
            source = make_source(problem, plan, choice, self.random_state, nearest)
        found = None if source is None else report_of(source, choice, problem.n_val)
        incomplete = 0 if found is None else found.incomplete
        request = Request(spread=bool(self.standard_errors), chosen=chosen, excess=incomplete > 0)
        make = partial(self._evaluators, problem, plan, source, nearest)
        resumed = 0
        if long.checkpoint is not None:
            assert isinstance(source, SearcherSource)
            outcome, resumed = self._run_kept(problem, plan, choice, source, request, make, provenance, long)
        else:
            with reporting(self.progress, problem.n_val) as report:
                outcome = run(problem, plan, request, make(), report)
        if outcome.excess is not None:
            outcome = replace(outcome, moments=widened(outcome, problem.weights, incomplete))
        if source is not None:
            found = report_of(source, choice, problem.n_val)
        sums = outcome.partial if choice.searcher is None else None
        if sums is not None:
            sums.origin = origin_of(provenance, problem, self._sums(choice), 0)
        valuation = self._valuation(problem, plan, outcome, provenance, make)
        self._warn_of_a_wide_certificate(valuation, found)
        return replace(
            valuation,
            partial=sums,
            contributions=outcome.contributions,
            contribution_rows=chosen,
            resumed=resumed,
            confidence=1.0 if found is None else found.confidence,
            search=found,
        )

    def _run_kept(
        self,
        problem: Problem,
        plan: Plan,
        choice: Choice,
        source: SearcherSource,
        request: Request,
        make: Any,
        provenance: Provenance,
        long: LongRun,
    ) -> tuple[Outcome, int]:
        """A searcher's run with a checkpoint, and how many validation points came from it."""
        sums = self._sums(choice) | {"search": identity_of(source, choice)}
        beginning = begin(long, partial(origin_of, provenance, problem, sums))
        notes = {"failed": source.failed, "excess": np.zeros((2, problem.n_val))}
        make_job = partial(self._job, problem, choice)
        summed = sum_up(problem, plan, request, make, long, beginning, self.progress, make_job, notes)
        outcome = Outcome(summed.partial.finish(), excess=notes["excess"] if request.excess else None)
        return outcome, summed.resumed

    def _warn_of_a_wide_certificate(self, valuation: Valuation, found: SearchReport | None) -> None:
        """A searcher may miss neighbours, which no choice of K* beforehand can make up for."""
        if found is not None and self.max_error is not None and valuation.error_bound > self.max_error:
            warnings.warn(
                f"max_error={self.max_error:g} was asked for, but only {valuation.error_bound:.2g} is certain: "
                f"up to {found.incomplete:,} validation points may lack a neighbour. Use search='exact'.",
                stacklevel=4,
            )

    def _sum_up(
        self, problem: Problem, plan: Plan, choice: Choice, make: Any, provenance: Provenance, long: LongRun
    ) -> Summed:
        beginning = begin(long, partial(origin_of, provenance, problem, self._sums(choice)))
        request = Request(spread=bool(self.standard_errors))
        make_job = partial(self._job, problem, choice)
        return sum_up(problem, plan, request, make, long, beginning, self.progress, make_job)

    def _sums(self, choice: Choice) -> dict[str, Any]:
        """What is summed up, as far as that decides which sums can be added."""
        tail = None if choice.n_candidates is None else self.tail
        return {
            "standard_errors": bool(self.standard_errors),
            "ranked": choice.n_candidates,
            "tail": tail,
            "within": choice.max_error,
        }

    def _job(self, problem: Problem, choice: Choice, folder: str | PathLike[str]) -> Job:
        """What workers elsewhere need, in files of a folder."""
        training, parameters = self._training, self._checked_parameters()
        points = training.features.data if training.features and self.metric != PRECOMPUTED else None
        if problem.leave_out:
            points = problem.queries
        return Job(
            store_at(points, training.labels, folder),
            training.metric,
            training.metric_params,
            training.game_maker(parameters, problem.game.n_players),
            self.ties,
            problem.leave_out,
            bool(self.standard_errors),
            choice.n_candidates,
            self.tail,
            self._planning(choice) | {"n_jobs": 1 if self.n_jobs is None else self.n_jobs},
        )

    def _valuation(
        self, problem: Problem, plan: Plan, outcome: Outcome, provenance: Provenance, make: Any
    ) -> Valuation:
        moments = outcome.moments
        if problem.leave_out and self.ties == "average":
            # Identical points meet the same terms, but not in the same order: let rounding not tell them apart.
            moments = moments.take(self._training.twins(problem.weights))
        if not np.isfinite(moments.total).all():
            raise ValueError("The values overflow 64-bit floats. Rescale the targets or the weights.")
        features = self._training.features
        return Valuation(
            moments,
            provenance,
            backend=features.backend if features else None,
            _moments_by_group=partial(_group_moments, problem, plan, provenance, make)
            if self.standard_errors
            else None,
        )

    def _provenance(self, problem: Problem, parameters: dict[str, Any]) -> Provenance:
        training = self._training
        game = {name: _describe(value) for name, value in parameters.items() if name not in NOT_PART_OF_THE_GAME}
        return Provenance(
            __version__,
            Parameters(game),
            problem.n_train,
            problem.n_val,
            training.n_classes(self.n_classes) if training.classes is not None else None,
            training.fingerprint,
            "self" if problem.leave_out else _validation_fingerprint(problem),
        )

    def _checked_parameters(self) -> dict[str, Any]:
        parameters: dict[str, Any] = self.get_params(deep=False)
        check_parameters(parameters)
        check_request(parameters)
        return parameters

    def _choice(self, n_val: int, parameters: dict[str, Any], n_train: int | None = None) -> Choice:
        """Who finds the neighbours of a problem of this size."""
        training = self._training
        n_rows = training.n_rows if n_train is None else n_train
        euclidean = isinstance(training.keys, EuclideanKeys)
        return choose(parameters, training.game_maker(parameters, n_rows), n_rows, n_val, euclidean)

    def _evaluator_maker(self, problem: Problem, plan: Plan, choice: Choice) -> Any:
        """Makes evaluators when they are needed, which takes a while."""

        def make() -> Any:
            source = None if choice.n_candidates is None else make_source(problem, plan, choice, self.random_state)
            return self._evaluators(problem, plan, source, None)

        return make

    def _evaluators(self, problem: Problem, plan: Plan, source: Source | None, nearest: NearestLists | None) -> Any:
        if source is None:
            return make_evaluators(problem, plan, nearest)
        return partial(TruncatedEvaluator, problem, source, self.tail)

    def _refuse_other_training(self, parameters: dict[str, Any]) -> None:
        for name in ("task", "metric", "metric_params"):
            if _describe(parameters[name]) != _describe(getattr(self._training, name)):
                raise ValueError(f"{name} changed to {parameters[name]!r} after fit. Call fit again.")

    def _plan(
        self, n_val: int, choice: Choice | None = None, n_train: int | None = None, *, kept: bool = False
    ) -> Plan:
        return make_plan(n_train or self._training.n_rows, n_val, kept=kept, **self._planning(choice))

    def _planning(self, choice: Choice | None) -> dict[str, Any]:
        keys = self._training.keys
        return {
            "task": self.task,
            "standard_errors": bool(self.standard_errors),
            "n_jobs": self.n_jobs,
            "max_memory": self._budget(),
            "has_products": keys.has_products,
            "width": keys.width,
            "search": None if choice is None else choice.plan,
            "streamed": keys.streamed,
            "pivots": self._training.pivots,
        }

    def _budget(self) -> int | None:
        return budget({"max_memory": self.max_memory})

    def _set_feature_names(self, training: Training) -> None:
        features = training.features
        self.n_features_in_ = training.n_rows if features is None else features.n_columns
        if features is not None and features.names is not None:
            self.feature_names_in_ = np.array(features.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_training")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = self.metric != "precomputed"
        tags.input_tags.pairwise = self.metric == "precomputed"
        tags.input_tags.allow_nan = self.metric == "nan_euclidean"
        return tags


def knn_shapley(
    X: Any, y: Any, X_val: Any = None, y_val: Any = None, n_neighbors: int = 5, **parameters: Any
) -> FloatVector:
    """Values of all training points as an array: `KNNShapley(...).fit(X, y).value(X_val, y_val).values`.

    Further keywords are those of `KNNShapley`; `sample_weight` weighs the validation points.

    Examples
    --------
    >>> import nearworth as nw
    >>> nw.knn_shapley([[0.0], [1.0], [2.0]], ["a", "b", "a"], [[0.2]], ["a"], n_neighbors=1).round(4)
    array([ 0.6667, -0.3333,  0.1667])
    """
    sample_weight = parameters.pop("sample_weight", None)
    return KNNShapley(n_neighbors, **parameters).fit(X, y).value(X_val, y_val, sample_weight).values


def _group_moments(problem: Problem, plan: Plan, provenance: Provenance, make: Any, groups: IntVector) -> Moments:
    """A second run that sums the values of each group, on data that must still be what they were."""
    if not problem.leave_out and _validation_fingerprint(problem) != provenance.validation:
        raise ValueError("The validation data changed in place since value(); standard errors of totals need them.")
    return run(problem, plan, Request(spread=True, groups=groups), make()).moments


def _validation_fingerprint(problem: Problem) -> str:
    return fingerprint(problem.queries, problem.query_labels, problem.weights)


def _describe(value: Any) -> Any:
    """A parameter as JSON can keep it, the same before and after."""
    if callable(value):
        code = getattr(value, "__code__", None)
        body = fingerprint(code.co_code, code.co_consts, code.co_names)[:8] if code else repr(value)
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}#{body}"
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, tuple | list):
        return [_describe(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _describe(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return fingerprint(value)
    return value.item() if isinstance(value, np.generic) else value
