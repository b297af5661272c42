"""The one sequence from a problem to a Valuation: method, plan, run, result.

The estimator, the audit and its explanations all use it. Validation points are called queries
here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from nearworth._common.memory import free_memory
from nearworth._common.types import FloatMatrix, IntVector
from nearworth._common.warnings import warn_user
from nearworth._version import __version__
from nearworth.engine.checkpoint import checkpointed
from nearworth.engine.evaluators import evaluators_of
from nearworth.engine.plan import Method, Plan, choose_method, make_plan
from nearworth.engine.problem import Problem, budget
from nearworth.engine.run import NearestLists, Request, Span, progress_report, run, run_steps
from nearworth.engine.truncate import CONFIDENCE, SearcherSource, SearchReport, Source
from nearworth.inputs.features import fingerprint
from nearworth.inputs.parameters import as_generator, condition
from nearworth.inputs.targets import check_rows
from nearworth.neighbors.searchers import Neighbours, Searcher
from nearworth.results.sums import (
    SELF,
    Leaf,
    Moments,
    Origin,
    Partial,
    ValidationSet,
    describe,
    tree_of,
)
from nearworth.results.typical_error import TypicalError, estimate_error, sample_sizes
from nearworth.results.valuation import Valuation

CHECKPOINT_INTERVAL = 30.0  # seconds

# Valuations to be combined may differ in these parameters: numbers do not depend on them, or the
# Origin has what they led to.
IGNORED_WHEN_COMBINED = (
    "max_memory",
    "n_jobs",
    "progress",
    "random_state",
    "standard_errors",
    "search",
    "max_error",
    "tail",
)

check_folder = condition(
    lambda path: isinstance(path, str | os.PathLike | None), "the path of a folder"
)


def value(problem: Problem, options: Options | None = None) -> Valuation:
    """The values of all players of a problem."""
    return _ValuationRun(problem, options or Options()).valuation()


def value_and_nearest(
    problem: Problem, size: int, checkpoint: Path | None = None
) -> tuple[Valuation, Neighbours]:
    """Values, and the `size` nearest training points of each query from the same keys."""
    size = min(size, problem.game.n_players)
    n_neighbors = int(problem.parameters["n_neighbors"])
    lists = NearestLists(problem.n_val, size, n_neighbors, checkpoint)
    valuation = _ValuationRun(problem, Options(checkpoint=checkpoint), lists).valuation()
    return valuation, lists.found


def partial_sums(problem: Problem, start: int) -> Partial:
    """Sums over these queries, the first of which is number `start` of all."""
    valuation_run = _ValuationRun(problem, Options(partial=start))
    return valuation_run.sum_up(Request(spread=valuation_run.spread)).summed


def single_values(
    problem: Problem, rows: IntVector, plan: Plan | None = None, source: Source | None = None
) -> FloatMatrix:
    """Values of some training points for each single query.

    Parameters
    ----------
    problem : Problem
    rows : array of shape (R,)
        The training points.
    plan : Plan, optional
        By default that of exact values.
    source : Source, optional
        The nearest points of each query, if the plan ranks only these; by default exact search.

    Returns
    -------
    values : array of shape (Q, R)
    """
    if plan is None:
        plan = make_plan(problem.training, problem.parameters, Method(), problem.n_val)
    values = np.empty((problem.n_val, len(rows)))
    request = Request(chosen=rows, contributions=values)
    run(problem, plan.threads, request, evaluators_of(plan.method, problem, plan, source))
    return values


@dataclass(frozen=True, kw_only=True)
class Options:
    """What else may be asked of a run.

    Attributes
    ----------
    contributions, checkpoint, checkpoint_interval, continue_from, executor, scratch
        As given by the user; see `KNNShapley.value`.
    partial : int or None
        If the queries are a part of all, the number of the first one.
    """

    contributions: Any = None
    checkpoint: Any = None
    checkpoint_interval: Any = CHECKPOINT_INTERVAL
    continue_from: Any = None
    executor: Any = None
    scratch: Any = None
    partial: int | None = None

    def __post_init__(self) -> None:
        check_folder("checkpoint", self.checkpoint)
        check_folder("scratch", self.scratch)
        if self.executor is not None and not callable(getattr(self.executor, "submit", None)):
            raise TypeError(
                f"executor must have submit, as those of concurrent.futures; got {self.executor!r}."
            )
        if not isinstance(self.continue_from, Valuation | Partial | None):
            raise TypeError(
                "continue_from must be a Valuation or a Partial; got"
                f" {type(self.continue_from).__name__}."
            )
        for name in ("checkpoint", "continue_from", "executor"):
            if getattr(self, name) is not None and self.contributions is not None:
                raise ValueError(f"{name} keeps sums, not single values: leave contributions=None.")

    def check(self, problem: Problem, method: Method) -> None:
        """Refuse what cannot be done with this problem by this method, before any work is done."""
        if self.continue_from is not None and problem.leave_one_out:
            raise ValueError(
                "continue_from needs X_val and y_val: a training set valued on itself has no more"
                " points."
            )
        if problem.groups is not None and method.n_candidates is not None:
            raise ValueError(
                f"groups need every neighbour ranked, not {method.n_candidates:,}. Use"
                " search='exact'."
            )
        if method.searcher is not None:
            self._check_searcher(method.searcher, problem.parameters["random_state"])

    def _check_searcher(self, searcher: Searcher, random_state: Any) -> None:
        """Refuse what needs sums that another run can continue, where a searcher has none."""
        for name in ("continue_from", "executor", "partial"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name} needs search='exact': a searcher is judged on a sample of all points."
                )
        if self.checkpoint is None:
            return
        seeds = (random_state, searcher.random_state)
        has_seeds = all(isinstance(seed, Integral) for seed in seeds)
        if searcher.fingerprint is None or not has_seeds:
            raise ValueError(
                "checkpoint: to find the same neighbours again takes fingerprint() of"
                f" {searcher.name} (see Searcher), and numbers as random_state, here and of the"
                f" searcher; got {seeds}."
            )


@dataclass(frozen=True)
class _Sums:
    """Sums over queries, and how many of these came from a checkpoint."""

    summed: Partial
    n_resumed: int


@dataclass(frozen=True)
class _Beginning:
    """Where a run begins.

    Attributes
    ----------
    summed : Partial
        The sums to add to; empty, unless the run continues another one.
    opened : Leaf or None
        The sums of the last leaf of that one, if it is short.
    offset : int
        The number of queries before those of this run.
    """

    summed: Partial
    opened: Leaf | None
    offset: int


class _ValuationRun:
    """One problem on its way to a Valuation.

    Attributes
    ----------
    problem : Problem
    options : Options
    parameters : mapping
        The parameters of the problem.
    nearest : NearestLists or None
        Gets the nearest points of each query.
    spread : bool
        Whether standard errors are wanted.
    method : Method
    plan : Plan
    chosen : array or None
        The training points whose values for each query are wanted.
    source : SearcherSource or None
        The candidates of each query, if they do not come from exact search.
    typical_error : TypicalError or function
        The typical error of approximate values, or what estimates it once it is asked for.
    validation : str
        A hash of the queries, or SELF.
    """

    def __init__(
        self, problem: Problem, options: Options, nearest: NearestLists | None = None
    ) -> None:
        self.problem = problem
        self.options = options
        self.nearest = nearest
        self.parameters = problem.parameters
        self.spread = bool(problem.parameters["standard_errors"])
        if problem.rule is None:
            self._use(self._choose(self.parameters))
        else:
            self._use(Method(rule=problem.rule))
        if self.method.searcher is not None:
            self._evaluate(self.method.searcher)

        if problem.leave_one_out:
            self.validation = SELF
        else:
            groups = [] if problem.groups is None else [problem.groups.of_queries]
            self.validation = fingerprint(
                problem.queries, problem.query_labels, problem.weights, *groups
            )

    def _use(self, method: Method) -> None:
        """Settle on a method, with its plan; refuse what it cannot do."""
        problem = self.problem
        if self.nearest is not None:
            # Lists of the nearest are exact unless a searcher finds them; then it must find enough.
            if method.searcher is None:
                method = Method(reason="the nearest are listed in the same pass")
            elif method.n_candidates is not None:
                n_candidates = max(method.n_candidates, self.nearest.size)
                method = replace(method, n_candidates=n_candidates)
        self.options.check(problem, method)
        self.method = method
        self.plan = make_plan(problem.training, self.parameters, method, problem.n_val)
        self.source: SearcherSource | None = None
        self.typical_error: TypicalError | Callable[[], TypicalError] = self._estimate_error
        rows = self.options.contributions
        self.chosen = None if rows is None else check_rows(rows, "contributions", problem.n_train)
        if self.chosen is not None:
            self._check_memory_of_contributions(self.chosen)

    def _check_memory_of_contributions(self, chosen: IntVector) -> None:
        needed = 8 * self.problem.n_val * chosen.size + self.plan.working_bytes
        allowed = budget(self.parameters) or free_memory()
        if allowed is not None and needed > allowed:
            raise ValueError(
                f"contributions need {needed:,} bytes, but {allowed:,} are left. Choose fewer rows."
            )

    def _evaluate(self, searcher: Searcher) -> None:
        """Build an index and estimate the typical error of values from what it finds.

        With search="auto", an index whose error may exceed `max_error` is given up.
        """
        rng = as_generator(self.parameters["random_state"])
        assert self.method.n_candidates is not None
        self.source = SearcherSource(
            self.problem, searcher, self.method.n_candidates, rng, self.nearest
        )
        error = self._estimate_error(rng)
        self.typical_error = error
        max_error = self.parameters["max_error"]
        if self.parameters["search"] != "auto" or max_error is None:
            return
        _, upper = error.interval
        if upper > max_error:
            exact = self._choose({**self.parameters, "search": "exact"})
            self._use(replace(exact, reason=f"an index has a typical error of {error}"))

    def _choose(self, parameters: Mapping[str, Any]) -> Method:
        problem = self.problem
        return choose_method(problem.training, parameters, problem.n_val, problem.game.n_players)

    def valuation(self) -> Valuation:
        """Run, and make the result."""
        problem = self.problem
        request = self._request()
        sums = self.sum_up(request)
        search = None if self.source is None else self.source.report()
        moments = self._moments(sums.summed, search, request.excess)
        if not np.isfinite(moments.total).all():
            raise ValueError(
                "The values overflow 64-bit floats. Rescale the targets or the weights."
            )

        # Only the sums of continued queries are left, so that nothing can be estimated from them.
        is_continued = self.options.continue_from is not None
        has_typical_error = not is_continued and moments.ends is not None
        has_group_moments = not is_continued and self.spread
        may_lack_neighbours = search is not None and search.incomplete > 0
        features = problem.training.features
        valuation = Valuation(
            moments,
            sums.summed.origin,
            contributions=request.contributions,
            contribution_rows=self.chosen,
            backend=None if features is None else features.backend,
            index=None if features is None else features.index,
            confidence=CONFIDENCE if may_lack_neighbours else 1.0,
            search=search,
            partial=sums.summed if search is None else None,
            resumed=sums.n_resumed,
            _typical_error=self.typical_error if has_typical_error else None,
            _moments_by_group=self._group_moments if has_group_moments else None,
        )
        if search is not None:
            self._warn_if_bound_exceeded(valuation)
        return valuation

    def _request(self) -> Request:
        n_val = self.problem.n_val
        contributions = None if self.chosen is None else np.empty((n_val, self.chosen.size))
        excess = None if self.source is None else np.zeros((2, n_val))
        return Request(
            spread=self.spread,
            chosen=self.chosen,
            contributions=contributions,
            excess=excess,
            nearest=self.nearest,
        )

    def _moments(
        self, summed: Partial, search: SearchReport | None, excess: FloatMatrix | None
    ) -> Moments:
        """The finished sums of all queries.

        `search` and `excess` (see Request) are given if a searcher found the candidates.
        """
        problem = self.problem
        moments = tree_of(summed).finish()
        if search is not None:
            assert moments.ends is not None
            assert excess is not None
            # Neighbors may be missing for so many queries. The intervals are widened as if for
            # the worst of all queries.
            ordered = np.sort(excess * problem.weights, axis=1)[:, ::-1]
            below, above = ordered[:, : search.incomplete].sum(axis=1)
            moments = replace(moments, ends=moments.ends + np.array([[-below], [above]]))

        if problem.leave_one_out and problem.ties == "average" and problem.rule is None:
            # Identical points meet the same terms, but not in the same order. They get the value
            # of the first one, so that rounding does not tell them apart.
            groups = [] if problem.groups is None else [problem.groups.of_training]
            first = problem.training.first_duplicates(problem.labels, problem.weights, *groups)
            moments = moments.take(first)
        return moments

    def _warn_if_bound_exceeded(self, valuation: Valuation) -> None:
        """A searcher may miss neighbors, which no number of candidates can make up for."""
        max_error = self.parameters["max_error"]
        if max_error is not None and valuation.error_bound > max_error:
            warn_user(
                f"max_error={max_error:g} was asked for, but only {valuation.error_bound:.2g} is"
                f" certain. The typical error of a value is {self.typical_error}. Use"
                " search='exact' if that is too much."
            )

    def sum_up(self, request: Request) -> _Sums:
        """Sum over the queries, from where a checkpoint or another run ended."""
        beginning = self._beginning()
        n_val = self.problem.n_val
        if beginning.offset:
            positions = beginning.offset + np.arange(n_val)
            self.problem = replace(self.problem, positions=positions)
        with self._kept_sums(beginning.summed) as (summed, on_leaf):
            # What the searcher failed on belongs to the sums, so that a resumed run knows it.
            if self.source is not None:
                tree_of(summed).attach({"failed": self.source.failed, "excess": request.excess})
            span = Span.of(n_val, summed, beginning.offset, beginning.opened)
            if span.leaves:
                self._run(request, summed, span, on_leaf)
        return _Sums(summed, n_resumed=n_val - span.n_points)

    def _kept_sums(
        self, beginning: Partial
    ) -> AbstractContextManager[tuple[Partial, Callable[[Partial], object]]]:
        """The sums to add to, and what to call after each leaf; with a checkpoint, those of it."""
        if self.options.checkpoint is None:
            return nullcontext((beginning, lambda _partial: None))
        interval = float(self.options.checkpoint_interval)
        return checkpointed(self.options.checkpoint, beginning, interval)

    def _run(
        self, request: Request, summed: Partial, span: Span, on_leaf: Callable[[Partial], object]
    ) -> None:
        """Add the leaves of a span, here or on an executor, and report the progress."""
        problem = self.problem
        executor = self.options.executor
        if executor is None:
            evaluators = evaluators_of(self.method, problem, self.plan, self.source)
            steps = run_steps(problem, self.plan.threads, request, evaluators, summed, span)
        else:
            from nearworth.engine.cluster import run_on

            steps = run_on(executor, problem, self.method, summed, span, self.options.scratch)
        n_done = problem.n_val - span.n_points
        with (
            progress_report(self.parameters["progress"], problem.n_val, n_done) as report,
            closing(steps),
        ):
            for n_finished in steps:
                n_done += n_finished
                if n_finished:
                    report(n_done, problem.n_val)
                on_leaf(summed)

    def _estimate_error(self, rng: np.random.Generator | None = None) -> TypicalError:
        """The typical error, from queries that are also valued exactly.

        See results/typical_error.py.
        """
        problem = self.problem
        if rng is None:
            rng = as_generator(self.parameters["random_state"])
        max_memory = budget(self.parameters) if self.source is None else None
        size, n_rows = sample_sizes(problem.n_val, problem.n_train, max_memory)

        # A searcher has two kinds of queries: those that were searched exactly, to measure its
        # recall, and all others.
        sources: Sequence[Source | None]
        if self.source is None:
            n_searched_exactly = problem.n_val
            queries = np.sort(rng.choice(problem.n_val, size, replace=False))
            sample = problem.some(queries)
            sources = [None]
        else:
            n_searched_exactly = self.source.n_sampled
            sample, sources = self.source.sample(size, rng)
            # A searcher has its own limit of memory.
            sample = replace(sample, parameters={**self.parameters, "max_memory": None})

        rows = np.sort(rng.choice(problem.n_train, n_rows, replace=False))
        exact = single_values(sample, rows)
        shares = sample.weights[:, None] / problem.weights.sum()
        errors = []
        for source in sources:
            values = single_values(sample, rows, self.plan, source)
            errors.append((values - exact) * shares)
        return estimate_error(errors[0], errors[-1], n_searched_exactly, problem.n_val)

    def _group_moments(self, groups: IntVector) -> Moments:
        """The sums of groups of training points with their spread, by a second run."""
        evaluators = evaluators_of(self.method, self.problem, self.plan, self.source)
        request = Request(spread=True, groups=groups)
        return tree_of(run(self.problem, self.plan.threads, request, evaluators)).finish()

    def _beginning(self) -> _Beginning:
        """Where the run begins: with nothing, or where the one to continue has ended."""
        continued = self.options.continue_from
        if continued is None:
            start = self.options.partial or 0
            return _Beginning(Partial(self._origin(start)), opened=None, offset=start)

        partial = continued.partial if isinstance(continued, Valuation) else continued
        if partial is None:
            raise ValueError(
                "continue_from: this valuation has no running sums. Save and load those:"
                " v.partial.save."
            )
        ranges = partial.ranges
        if len(ranges) != 1 or ranges[0][0] != 0:
            raise ValueError(
                "continue_from must hold all validation points from the first on; it is a"
                f" {partial!r}."
            )
        _, offset = ranges[0]
        origin = self._origin(offset)
        merged_origin = partial.origin.merge([origin])
        if partial.origin.shares_validation(origin):
            raise ValueError(
                "continue_from already holds this validation set; its points would count twice."
            )
        closed, opened = tree_of(partial).without_open_leaf()
        return _Beginning(Partial(merged_origin, closed), opened, offset)

    def _origin(self, offset: int) -> Origin:
        """Which data and parameters the sums belong to, after `offset` earlier queries."""
        problem = self.problem
        training = problem.training
        method = self.method

        # A certified error has its own cuts, on which values depend.
        ignored = set(IGNORED_WHEN_COMBINED)
        if method.max_error is not None:
            ignored.remove("max_error")
        compared = dict(self.parameters)
        if problem.groups is not None:
            compared["groups"] = problem.groups.of_training
        if method.rule is not None:
            compared.update(method.rule.identity())
        parameters = {name: describe(compared[name]) for name in compared if name not in ignored}

        n_classes = None
        if training.classes is not None:
            n_classes = training.n_classes(self.parameters["n_classes"])
        search = None
        if self.source is not None and self.options.checkpoint is not None:
            search = self.source.identity()
        return Origin(
            version=__version__,
            parameters=parameters,
            n_train=problem.n_values,
            n_classes=n_classes,
            training=training.fingerprint,
            validation=(ValidationSet(offset, problem.n_val, self.validation),),
            standard_errors=self.spread,
            ranked=method.n_candidates,
            tail=None if method.n_candidates is None else method.tail,
            search=search,
            weights=fingerprint(problem.weights) if problem.leave_one_out else None,
        )
