"""The one sequence from a problem to a Valuation, for estimator, audit and explanations: method,
plan, run, result.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
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
from nearworth.engine.plan import Method, Plan, choose_method, make_plan
from nearworth.engine.problem import Problem, budget
from nearworth.engine.run import NearestLists, Request, Span, progress_report, run, run_steps
from nearworth.engine.truncate import CONFIDENCE, SearcherSource, Source
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

CHECKPOINT_INTERVAL = 30.0
# Valuations to be combined may differ in these: numbers do not depend on them, or Origin has what
# they led to.
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
    return _ValuationRun(problem, options or Options()).valuation()


def value_and_nearest(
    problem: Problem, size: int, checkpoint: Path | None = None
) -> tuple[Valuation, Neighbours]:
    """Values, and from the same pass over the keys the `size` nearest training points of each
    validation point.
    """
    size, n_neighbors = min(size, problem.game.n_players), int(problem.parameters["n_neighbors"])
    lists = NearestLists(problem.n_val, size, n_neighbors, checkpoint)
    return _ValuationRun(problem, Options(checkpoint=checkpoint), lists).valuation(), lists.found


def partial_sums(problem: Problem, start: int) -> Partial:
    """Sums over these validation points, the first of which is number `start` of all."""
    part = _ValuationRun(problem, Options(partial=start))
    return part.sum_up(Request(spread=part.spread))[0]


def single_values(
    problem: Problem, rows: IntVector, plan: Plan | None = None, source: Source | None = None
) -> FloatMatrix:
    """Values of some training points for each single validation point, (validation points, rows);
    exact by default.
    """
    plan = plan or make_plan(problem.training, problem.parameters, Method(), problem.n_val)
    values = np.empty((problem.n_val, len(rows)))
    request = Request(chosen=rows, contributions=values)
    run(problem, plan.threads, request, plan.method.evaluators(problem, plan, source))
    return values


@dataclass(frozen=True, kw_only=True)
class Options:
    """What else may be asked of a run; see `KNNShapley.value`. `partial` is the number of a part's
    first point.
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
        if (searcher := method.searcher) is None:
            return
        for name in ("continue_from", "executor", "partial"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name} needs search='exact': a searcher is judged on a sample of all points."
                )
        seeds = problem.parameters["random_state"], searcher.random_state
        repeatable = searcher.fingerprint is not None and all(
            isinstance(seed, Integral) for seed in seeds
        )
        if self.checkpoint is not None and not repeatable:
            known = f"fingerprint() of {searcher.name} (see Searcher), and numbers as random_state"
            needed = f"to find the same neighbours again takes {known}, here and of the searcher"
            raise ValueError(f"checkpoint: {needed}; got {seeds}.")


class _ValuationRun:
    """One problem on its way to a Valuation."""

    def __init__(
        self, problem: Problem, options: Options, nearest: NearestLists | None = None
    ) -> None:
        self.problem, self.options, self.nearest = problem, options, nearest
        self.parameters, self.spread = (
            problem.parameters,
            bool(problem.parameters["standard_errors"]),
        )
        self._use(
            self._choose(self.parameters) if problem.rule is None else Method(rule=problem.rule)
        )
        if self.method.searcher is not None:
            self._evaluate(self.method.searcher)
        groups = [] if problem.groups is None else [problem.groups.of_queries]
        data = (problem.queries, problem.query_labels, problem.weights, *groups)
        self.validation = SELF if problem.leave_one_out else fingerprint(*data)

    def _use(self, method: Method) -> None:
        problem, rows, self.method = self.problem, self.options.contributions, method
        if self.nearest is not None and method.searcher is None:
            self.method = Method(reason="the nearest are listed in the same pass")
        elif self.nearest is not None and method.n_candidates is not None:
            self.method = replace(method, n_candidates=max(method.n_candidates, self.nearest.size))
        self.options.check(problem, self.method)
        self.plan = make_plan(problem.training, self.parameters, self.method, problem.n_val)
        self.source: SearcherSource | None = None  # of candidates, if not exact search
        self.typical_error: TypicalError | Callable[[], TypicalError] = self._estimate_error
        self.chosen = None if rows is None else check_rows(rows, "contributions", problem.n_train)
        if self.chosen is not None:
            needed = 8 * problem.n_val * self.chosen.size + self.plan.working_bytes
            allowed = budget(self.parameters) or free_memory()
            if allowed is not None and needed > allowed:
                raise ValueError(
                    f"contributions need {needed:,} bytes, but {allowed:,} are left. Choose fewer"
                    " rows."
                )

    def _evaluate(self, searcher: Searcher) -> None:
        """Build the index and estimate its typical error, which "auto" does not let exceed
        `max_error`.
        """
        rng, wanted = as_generator(self.parameters["random_state"]), self.parameters["max_error"]
        assert self.method.n_candidates is not None
        self.source = SearcherSource(
            self.problem, searcher, self.method.n_candidates, rng, self.nearest
        )
        self.typical_error = error = self._estimate_error(rng)
        if (
            self.parameters["search"] == "auto"
            and wanted is not None
            and error.interval[1] > wanted
        ):
            exact = self._choose({**self.parameters, "search": "exact"})
            self._use(replace(exact, reason=f"an index has a typical error of {error}"))

    def _choose(self, parameters: Mapping[str, Any]) -> Method:
        return choose_method(
            self.problem.training, parameters, self.problem.n_val, self.problem.game.n_players
        )

    def valuation(self) -> Valuation:
        problem, training = self.problem, self.problem.training
        request = Request(
            spread=self.spread,
            chosen=self.chosen,
            nearest=self.nearest,
            contributions=(
                None if self.chosen is None else np.empty((problem.n_val, self.chosen.size))
            ),
            excess=None if self.source is None else np.zeros((2, problem.n_val)),
        )
        summed, resumed = self.sum_up(request)
        moments, search_report = (
            tree_of(summed).finish(),
            None if self.source is None else self.source.report(),
        )
        if search_report is not None:
            assert moments.ends is not None
            assert request.excess is not None
            # Wider at both ends, as if the worst of these validation points lacked neighbours.
            ordered = np.sort(request.excess * problem.weights, axis=1)[:, ::-1]
            below, above = ordered[:, : search_report.incomplete].sum(axis=1)
            moments = replace(moments, ends=moments.ends + np.array([[-below], [above]]))
        if problem.leave_one_out and problem.ties == "average" and problem.rule is None:
            # Identical points meet the same terms, but not in the same order: rounding must not
            # tell them apart.
            groups = [] if problem.groups is None else [problem.groups.of_training]
            moments = moments.take(
                training.first_duplicates(problem.labels, problem.weights, *groups)
            )
        if not np.isfinite(moments.total).all():
            raise ValueError(
                "The values overflow 64-bit floats. Rescale the targets or the weights."
            )
        continued = self.options.continue_from is not None
        valuation = Valuation(
            moments,
            summed.origin,
            contributions=request.contributions,
            contribution_rows=self.chosen,
            backend=training.features.backend if training.features else None,
            index=training.features.index if training.features else None,
            confidence=(
                CONFIDENCE if search_report is not None and search_report.incomplete else 1.0
            ),
            search=search_report,
            partial=summed if search_report is None else None,
            resumed=resumed,
            _typical_error=None if continued or moments.ends is None else self.typical_error,
            _moments_by_group=self._group_moments if self.spread and not continued else None,
        )
        wanted = self.parameters["max_error"]
        if search_report is not None and wanted is not None and valuation.error_bound > wanted:
            # A searcher may miss neighbours, which no choice of K* beforehand can make up for.
            typical = (
                f"The typical error of a value is {self.typical_error}. Use search='exact' if that"
                " is too much."
            )
            warn_user(
                f"max_error={wanted:g} was asked for, but only {valuation.error_bound:.2g} is"
                f" certain. {typical}"
            )
        return valuation

    def sum_up(self, request: Request) -> tuple[Partial, int]:
        """Sums over the validation points, and how many of these came from a checkpoint."""
        base, opened, offset = self._beginning()
        if offset:
            positions = offset + np.arange(self.problem.n_val)
            self.problem = replace(self.problem, positions=positions)
        folder, sums = self.options.checkpoint, nullcontext((base, lambda _partial: None))
        if folder is not None:
            sums = checkpointed(folder, base, float(self.options.checkpoint_interval))  # type: ignore[assignment]
        with sums as (summed, on_leaf):
            if self.source is not None:  # what it failed on goes into the checkpoint too
                tree_of(summed).attach({"failed": self.source.failed, "excess": request.excess})
            span = Span.of(self.problem.n_val, summed, offset, opened)
            if span.leaves:
                self._run(request, summed, span, on_leaf)
        return summed, self.problem.n_val - span.n_points

    def _run(
        self, request: Request, summed: Partial, span: Span, on_leaf: Callable[[Partial], object]
    ) -> None:
        """Add what is still to come, here or on an executor, and say how far it is."""
        problem, options, done = self.problem, self.options, self.problem.n_val - span.n_points
        if options.executor is None:
            evaluators = self.method.evaluators(problem, self.plan, self.source)
            steps = run_steps(problem, self.plan.threads, request, evaluators, summed, span)
        else:
            from nearworth.engine.cluster import run_on

            steps = run_on(options.executor, problem, self.method, summed, span, options.scratch)
        with (
            progress_report(self.parameters["progress"], problem.n_val, done) as report,
            closing(steps),
        ):
            for finished in steps:
                done += finished
                if finished:
                    report(done, problem.n_val)
                on_leaf(summed)

    def _estimate_error(self, rng: np.random.Generator | None = None) -> TypicalError:
        """From validation points that are also valued exactly: see results/typical_error.py."""
        problem, source, rng = (
            self.problem,
            self.source,
            rng or as_generator(self.parameters["random_state"]),
        )
        size, n_rows = sample_sizes(
            problem.n_val, problem.n_train, None if source else budget(self.parameters)
        )
        sources: Sequence[Source | None] = [None]
        if source is None:
            n_kept, some = (
                problem.n_val,
                problem.some(np.sort(rng.choice(problem.n_val, size, replace=False))),
            )
        else:
            n_kept, (some, sources) = source.n_sampled, source.sample(size, rng)
            some = replace(
                some, parameters={**self.parameters, "max_memory": None}
            )  # searchers have their own limits
        rows = np.sort(rng.choice(problem.n_train, n_rows, replace=False))
        exact, shares = single_values(some, rows), some.weights[:, None] / problem.weights.sum()
        errors = [(single_values(some, rows, self.plan, each) - exact) * shares for each in sources]
        return estimate_error(errors[0], errors[-1], n_kept, problem.n_val)

    def _group_moments(self, groups: IntVector) -> Moments:
        """A second run, which sums the values of each group."""
        evaluators = self.method.evaluators(self.problem, self.plan, self.source)
        request = Request(spread=True, groups=groups)
        return tree_of(run(self.problem, self.plan.threads, request, evaluators)).finish()

    def _beginning(self) -> tuple[Partial, Leaf | None, int]:
        """An empty Partial, or the one to continue; the sums of its open leaf; how many points it
        holds.
        """
        base = self.options.continue_from
        if base is None:
            start = self.options.partial or 0
            return Partial(self._origin(start)), None, start
        base = base.partial if isinstance(base, Valuation) else base
        if base is None:
            raise ValueError(
                "continue_from: this valuation has no running sums. Save and load those:"
                " v.partial.save."
            )
        ranges = base.ranges
        if len(ranges) != 1 or ranges[0][0] != 0:
            raise ValueError(
                "continue_from must hold all validation points from the first on; it is a"
                f" {base!r}."
            )
        offset = ranges[0][1]
        origin = self._origin(offset)
        merged = base.origin.merge([origin])
        if base.origin.shares_validation(origin):
            raise ValueError(
                "continue_from already holds this validation set; its points would count twice."
            )
        closed, opened = tree_of(base).without_open_leaf()
        return Partial(merged, closed), opened, offset

    def _origin(self, offset: int) -> Origin:
        problem, training, method = self.problem, self.problem.training, self.method
        ignored = {*IGNORED_WHEN_COMBINED} - (
            {"max_error"} if method.max_error is not None else set()
        )
        searched = self.source if self.options.checkpoint is not None else None
        groups = {} if problem.groups is None else {"groups": problem.groups.of_training}
        compared = {**self.parameters, **groups, **(method.rule.identity() if method.rule else {})}
        return Origin(
            version=__version__,
            parameters={
                name: describe(each) for name, each in compared.items() if name not in ignored
            },
            n_train=problem.n_values,
            n_classes=(
                training.n_classes(self.parameters["n_classes"])
                if training.classes is not None
                else None
            ),
            training=training.fingerprint,
            validation=(ValidationSet(offset, problem.n_val, self.validation),),
            standard_errors=self.spread,
            ranked=method.n_candidates,
            tail=None if method.n_candidates is None else method.tail,
            search=None if searched is None else searched.identity(),
            weights=fingerprint(problem.weights) if problem.leave_one_out else None,
        )
