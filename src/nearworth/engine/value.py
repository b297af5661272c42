"""The one sequence from a problem to a Valuation: method, plan, run, result.

    method     which neighbours are ranked, and what finds them             plan.choose_method   -> Method
    plan       threads, batches, memory                                     plan.make_plan       -> Plan
    run        here, or on an executor; resumed from a checkpoint if there is one: run.run, cluster.run_on -> Partial
    result     moments, intervals, where they came from                     -> Valuation

The estimator, the audit and its explanations all come through here.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from numbers import Integral
from types import CodeType
from typing import Any

import numpy as np

from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth._common.warnings import warn_user
from nearworth._version import __version__
from nearworth.engine.checkpoint import Checkpoint
from nearworth.engine.cluster import Job, run_on
from nearworth.engine.nearest import KnownSource, SearcherSource, Source
from nearworth.engine.nearest_lists import NearestLists
from nearworth.engine.plan import Method, Plan, check_fits, choose_method, make_plan, planning_facts
from nearworth.engine.problem import PRECOMPUTED, Problem, TrainingSet, budget
from nearworth.engine.run import Evaluator, Request, Span, progress_report, run
from nearworth.engine.storage import store
from nearworth.inputs.features import fingerprint
from nearworth.inputs.parameters import as_generator, is_real
from nearworth.inputs.targets import check_rows
from nearworth.neighbors.searchers import Neighbours, Searcher
from nearworth.results.origin import PARTS, SELF, Origin, ValidationSet, kernel
from nearworth.results.sums import CHUNK, Leaf, Moments, Partial
from nearworth.results.typical_error import TypicalError, estimate_error, sample_sizes
from nearworth.results.valuation import Valuation

CHECKPOINT_INTERVAL = 30.0
# Parameters that the numbers do not depend on: valuations to be combined may differ in them.
IGNORED_WHEN_COMBINED = (
    "max_memory", "n_jobs", "progress", "random_state", "standard_errors", "search", "max_error", "tail",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Options:
    """What else may be asked of a run; see `KNNShapley.value`. `start` is the number of the first validation point."""

    contributions: Any = None
    checkpoint: Any = None
    checkpoint_interval: Any = CHECKPOINT_INTERVAL
    continue_from: Any = None
    executor: Any = None
    scratch: Any = None
    start: int = 0


def value(
    training: TrainingSet, problem: Problem, parameters: Mapping[str, Any], options: Options | None = None
) -> Valuation:
    """The value of every training point."""
    return _ValuationRun(training, problem, parameters, options or Options()).valuation()


def value_and_nearest(
    training: TrainingSet, problem: Problem, parameters: Mapping[str, Any], size: int
) -> tuple[Valuation, Neighbours]:
    """Values, and from the same pass over the keys the `size` nearest training points of each validation point."""
    lists = NearestLists(problem.n_val, min(size, problem.game.n_players), int(parameters["n_neighbors"]))
    return _ValuationRun(training, problem, parameters, Options(), lists).valuation(), lists.found


def single_values(
    training: TrainingSet, problem: Problem, parameters: Mapping[str, Any], rows: IntVector
) -> FloatMatrix:
    """Exact values of some training points for each single validation point, (validation points, rows)."""
    plan = make_plan(problem.n_train, problem.n_val, **planning_facts(training, parameters, Method()))
    return _values_of(problem, plan, Method(), None, rows)


def _values_of(problem: Problem, plan: Plan, method: Method, source: Source | None, rows: IntVector) -> FloatMatrix:
    values = np.empty((problem.n_val, len(rows)))
    request = Request(chosen=rows, contributions=values)
    run(problem, plan.threads, request, method.evaluators(problem, plan, source), Partial())
    return values


def partial_sums(training: TrainingSet, problem: Problem, parameters: Mapping[str, Any], start: int) -> Partial:
    """Sums over these validation points, the first of which is number `start` of all."""
    valuing = _ValuationRun(training, problem, parameters, Options(start=start))
    if valuing.method.searcher is not None:
        _refuse_searcher("partial")
    return valuing.sum_up(Request(spread=valuing.spread))[0]


def method_for(training: TrainingSet, parameters: Mapping[str, Any], n_val: int, n_train: int | None = None) -> Method:
    n_rows = training.n_rows if n_train is None else n_train
    euclidean = training.keys.data is not None
    return choose_method(parameters, partial(training.games(parameters), n_rows), n_rows, n_val, euclidean=euclidean)


class _ValuationRun:
    """One problem on its way to a Valuation."""

    def __init__(
        self,
        training: TrainingSet,
        problem: Problem,
        parameters: Mapping[str, Any],
        options: Options,
        nearest: NearestLists | None = None,
    ) -> None:
        self.training, self.problem, self.parameters, self.options = training, problem, parameters, options
        self.nearest, self.spread = nearest, bool(parameters["standard_errors"])
        self._use(method_for(training, parameters, problem.n_val))
        wanted = parameters["max_error"]
        if parameters["search"] == "auto" and self.method.searcher is not None and wanted is not None:
            typical = self.typical_error
            if typical.interval[1] > wanted:
                del self.source, self.typical_error
                self._use(self.method.without_searcher(float(wanted), f"an index has a typical error of {typical}"))
        self.chosen: IntVector | None = None
        if options.contributions is not None:
            self.chosen = check_rows(options.contributions, "contributions", problem.n_train)
            check_fits(self.plan, self.chosen.size, budget(parameters))
        self.validation = SELF if problem.leave_one_out else self._validation_fingerprint()

    def _use(self, method: Method) -> None:
        problem, options = self.problem, self.options
        self.method = method if self.nearest is None else method.with_lists(self.nearest.size)
        _check_options(options, problem, self.method, self.parameters["random_state"])
        self._facts = planning_facts(self.training, self.parameters, self.method)
        self.plan: Plan = make_plan(
            problem.n_train, problem.n_val, checkpointed=options.checkpoint is not None, **self._facts
        )

    def valuation(self) -> Valuation:
        problem, search_report = self.problem, None if self.source is None else self.source.report()
        incomplete = 0 if search_report is None else search_report.incomplete
        singles = None if self.chosen is None else np.empty((problem.n_val, self.chosen.size))
        excess = None if search_report is None else np.zeros((2, problem.n_val))
        request = Request(
            spread=self.spread,
            chosen=self.chosen,
            contributions=singles,
            excess=excess if incomplete else None,
            nearest=self.nearest,
        )
        summed, resumed = self.sum_up(request, excess)
        moments = summed.finish()
        if incomplete:
            moments = _widened(moments, excess, problem.weights, incomplete)
        if problem.leave_one_out and problem.ties == "average":
            # Identical points meet the same terms, but not in the same order: rounding must not tell them apart.
            moments = moments.take(self.training.first_duplicates(problem))
        if not np.isfinite(moments.total).all():
            raise ValueError("The values overflow 64-bit floats. Rescale the targets or the weights.")
        search_report = None if self.source is None else self.source.report()  # now with the queries it failed on
        features, continued = self.training.features, self.options.continue_from is not None
        valuation = Valuation(
            moments,
            summed.origin,
            contributions=singles,
            contribution_rows=self.chosen,
            backend=features.backend if features else None,
            confidence=1.0 if search_report is None else search_report.confidence,
            search=search_report,
            partial=summed if search_report is None else None,
            resumed=resumed,
            _typical_error=None if continued or moments.ends is None else self._error_estimate(),
            _moments_by_group=self._group_moments if self.spread and not continued else None,
        )
        self._warn_of_a_wide_certificate(valuation)
        if search_report is None:
            self.__dict__.pop("source", None)  # its copies of the training points; made again if they are needed
        return valuation

    def sum_up(self, request: Request, excess: FloatMatrix | None = None) -> tuple[Partial, int]:
        """Sums over the validation points still to come, and how many came from a checkpoint."""
        base, opened, offset = self._beginning()
        with self._checkpoint(base) as checkpoint:
            summed = base if checkpoint is None else checkpoint.partial
            resumed = 0 if checkpoint is None else summed.n_points - base.n_points
            if opened is not None and offset // CHUNK in summed:
                resumed -= opened.n_points  # these came with continue_from
            if checkpoint is not None and excess is not None:
                _attach_notes(summed, {"failed": self.source.failed, "excess": excess})  # type: ignore[union-attr]
            span = Span.of(self.problem.n_val, offset, opened, summed)
            if span.leaves:
                with progress_report(self.parameters["progress"], self.problem.n_val, resumed) as report:
                    self._run(request, summed, span, report, None if checkpoint is None else checkpoint.on_leaf)
        return summed, resumed

    def _checkpoint(self, base: Partial) -> Any:
        options = self.options
        if options.checkpoint is None:
            return nullcontext()
        return Checkpoint(options.checkpoint, base, float(options.checkpoint_interval))

    def _run(self, request: Request, summed: Partial, span: Span, report: Any, on_leaf: Any) -> None:
        if self.options.executor is None:
            run(
                self.problem, self.plan.threads, request, self.evaluators(), summed,
                span=span, report=report, on_leaf=on_leaf,
            )  # fmt: skip
            return
        scratch: Any = nullcontext(self.options.scratch)
        if self.options.scratch is None:
            scratch = tempfile.TemporaryDirectory(prefix="nearworth-", ignore_cleanup_errors=True)
        with scratch as folder:
            job = self._job(folder)
            run_on(self.options.executor, self.problem, job, summed, span=span, report=report, on_leaf=on_leaf)

    def evaluators(self) -> Callable[[], Evaluator]:
        return self.method.evaluators(self.problem, self.plan, self.source)

    @cached_property
    def source(self) -> Source | None:
        """What finds the candidates, if not all neighbours are ranked; building it may take a while."""
        return self.method.source(self.problem, self.plan, self._rng, self.nearest)

    @cached_property
    def _rng(self) -> np.random.Generator:
        return as_generator(self.parameters["random_state"])

    @cached_property
    def typical_error(self) -> TypicalError:
        """Estimated from validation points that are also valued exactly: see results/typical_error.py."""
        problem, method, rng, source = self.problem, self.method, self._rng, self.source
        limit = None if isinstance(source, SearcherSource) else budget(self.parameters)  # searchers have their own
        size, n_rows = sample_sizes(problem.n_val, problem.n_train, limit)
        sources: list[Source | None]
        if isinstance(source, SearcherSource):
            queries, found = source.sample(size, rng)
            some, n_kept = problem.some(queries), source.n_sampled
            sources = [KnownSource(some, source.k, each) for each in found]
        else:
            some, n_kept = problem.some(_draw(rng, problem.n_val, size)), problem.n_val
            sources = [method.source(some, self.plan)]
        rows, facts = _draw(rng, problem.n_train, n_rows), self._facts | {"method": Method(), "max_memory": limit}
        exact = _values_of(some, make_plan(some.n_train, some.n_val, **facts), Method(), None, rows)
        errors = [_values_of(some, self.plan, method, each, rows) for each in sources]
        for each in errors:
            each -= exact
            each *= some.weights[:, None] / problem.weights.sum()
        return estimate_error(errors[0], errors[-1], n_kept, problem.n_val)

    def _error_estimate(self) -> TypicalError | Callable[[], TypicalError]:
        """Now, for what a searcher found; later, if asked for, where every distance is computed."""
        if self.method.searcher is not None:
            return self.typical_error

        def later() -> TypicalError:
            self._check_unchanged()
            return self.typical_error

        return later

    def _beginning(self) -> tuple[Partial, Leaf | None, int]:
        """An empty Partial, or the one to continue; the sums of its open leaf; how many points it holds."""
        base = _base(self.options.continue_from)
        if base is None:
            return Partial(self._origin(self.options.start)), None, self.options.start
        ranges = base.ranges
        if len(ranges) != 1 or ranges[0][0] != 0:
            raise ValueError(f"continue_from must hold all validation points from the first on; it is a {base!r}.")
        offset = ranges[0][1]
        origin = self._origin(offset)
        different = base.origin.differences(origin, PARTS)
        if different:
            raise ValueError(f"continue_from is of another run; it differs in {'; '.join(different)} (there and here).")
        if base.origin.shares_validation(origin):
            raise ValueError("continue_from already holds this validation set; its points would count twice.")
        finished = base.finished()
        finished.origin = base.origin.merge([origin])
        opened = base.unfinished()
        return finished, None if opened is None else opened[1], offset

    def _origin(self, offset: int) -> Origin:
        training, problem, ranked = self.training, self.problem, self.method.n_candidates
        searched = self.method.searcher is not None and self.options.checkpoint is not None
        return Origin(
            version=__version__,
            parameters=self._compared_parameters(),
            n_train=problem.n_train,
            n_classes=training.n_classes(self.parameters["n_classes"]) if training.classes is not None else None,
            training=training.fingerprint,
            validation=(ValidationSet(offset, problem.n_val, self.validation),),
            standard_errors=self.spread,
            ranked=ranked,
            tail=None if ranked is None else self.method.tail,
            search=self.source.identity() if searched else None,  # type: ignore[union-attr]
            weights=fingerprint(problem.weights) if problem.leave_one_out else None,
            kernel=kernel(),
        )

    def _compared_parameters(self) -> dict[str, Any]:
        ignored = {*IGNORED_WHEN_COMBINED} - ({"max_error"} if self.method.max_error is not None else set())
        return {name: describe(value) for name, value in self.parameters.items() if name not in ignored}

    def _validation_fingerprint(self) -> str:
        return fingerprint(self.problem.queries, self.problem.query_labels, self.problem.weights)

    def _group_moments(self, groups: IntVector) -> Moments:
        """A second run that sums the values of each group, on data that must still be what they were."""
        self._check_unchanged()
        request = Request(spread=True, groups=groups)
        return run(self.problem, self.plan.threads, request, self.evaluators(), Partial()).finish()

    def _check_unchanged(self) -> None:
        if not self.problem.leave_one_out and self._validation_fingerprint() != self.validation:
            raise ValueError("The validation data changed in place since value(), which needs them once more.")

    def _job(self, folder: str | os.PathLike[str]) -> Job:
        """What workers elsewhere need, in files of a folder."""
        training, problem, parameters = self.training, self.problem, self.parameters
        points = training.features.data if training.features and training.metric != PRECOMPUTED else None
        if problem.leave_one_out:
            points = problem.queries
        n_jobs = parameters["n_jobs"]
        return Job(
            training=store(points, training.labels, folder),
            metric=training.metric,
            metric_params=training.metric_params,
            games=training.games(parameters),
            ties=problem.ties,
            leave_one_out=problem.leave_one_out,
            spread=self.spread,
            facts=self._facts | {"n_jobs": 1 if n_jobs is None else n_jobs},
        )

    def _warn_of_a_wide_certificate(self, valuation: Valuation) -> None:
        """A searcher may miss neighbours, which no choice of K* beforehand can make up for."""
        wanted = self.parameters["max_error"]
        if valuation.search is not None and wanted is not None and valuation.error_bound > wanted:
            warn_user(
                f"max_error={wanted:g} was asked for, but only {valuation.error_bound:.2g} is certain: "
                f"up to {valuation.search.incomplete:,} validation points may lack a neighbour. The typical error of "
                f"a value is {self.typical_error}. Use search='exact' if that is too much."
            )


def _draw(rng: np.random.Generator, n: int, size: int) -> IntVector:
    return np.sort(rng.choice(n, size, replace=False))


def _check_options(options: Options, problem: Problem, method: Method, random_state: Any) -> None:
    """Refuse what cannot be done, before any work is."""
    for name in ("checkpoint", "scratch"):
        path = getattr(options, name)
        if path is not None and not isinstance(path, str | os.PathLike):
            raise TypeError(f"{name} must be the path of a folder; got {path!r}.")
    if options.executor is not None and not callable(getattr(options.executor, "submit", None)):
        raise TypeError(
            "executor must have submit, as those of concurrent.futures and a Dask Client have; "
            f"got {options.executor!r}."
        )
    interval = options.checkpoint_interval
    if not is_real(interval) or interval < 0:
        raise ValueError(f"checkpoint_interval must be a number of seconds, 0 or more; got {interval!r}.")
    if options.continue_from is not None and not isinstance(options.continue_from, Valuation | Partial):
        raise TypeError(f"continue_from must be a Valuation or a Partial; got {type(options.continue_from).__name__}.")
    if options.continue_from is not None and problem.leave_one_out:
        raise ValueError("continue_from needs X_val and y_val: a training set valued on itself has no more points.")
    for name in ("checkpoint", "continue_from", "executor"):
        if getattr(options, name) is None:
            continue
        if method.searcher is not None and name != "checkpoint":
            _refuse_searcher(name)
        if options.contributions is not None:
            raise ValueError(
                f"{name} keeps sums, not single values: leave contributions=None, or ask for them without {name}."
            )
    if options.checkpoint is not None and method.searcher is not None:
        _refuse_unrepeatable(method.searcher, random_state)


def _base(continue_from: Any) -> Partial | None:
    if not isinstance(continue_from, Valuation):
        return continue_from  # type: ignore[no-any-return]
    if continue_from.partial is None:
        raise ValueError(
            "continue_from: this valuation was loaded, added up or search_report by a searcher and no longer has its "
            "running sums. Keep them with v.partial.save(path) and give continue_from=Partial.load(path)."
        )
    return continue_from.partial


def _widened(moments: Moments, excess: FloatMatrix | None, weights: FloatVector, n_incomplete: int) -> Moments:
    """Widen both ends, assuming that the `n_incomplete` worst validation points lack neighbours."""
    assert moments.ends is not None
    assert excess is not None
    worst = np.sort(excess * weights, axis=1)[:, ::-1][:, :n_incomplete].sum(axis=1)
    return replace(moments, ends=moments.ends + np.array([[-worst[0]], [worst[1]]]))


def _attach_notes(summed: Partial, notes: dict[str, Any]) -> None:
    """Make arrays part of the checkpoint, and fill them from an earlier one."""
    for name, note in notes.items():
        if name in summed.notes:
            note[...] = summed.notes[name]
        summed.notes[name] = note


def _refuse_searcher(name: str) -> None:
    raise ValueError(
        f"{name} needs search='exact': what a searcher finds is judged on a random sample of all validation points, "
        "which parts of a run do not share."
    )


def _refuse_unrepeatable(searcher: Searcher, random_state: Any) -> None:
    """A run can be resumed only if the searcher will find the same again."""
    kind = searcher.name
    if searcher.fingerprint is None:
        raise ValueError(
            f"checkpoint: {kind} has no fingerprint(), so a later run cannot know that it would find the same "
            "neighbours. Give it one (see Searcher), or use search='exact'."
        )
    seeds = {"random_state": random_state, f"random_state of {kind}": searcher.random_state}
    for name, seed in seeds.items():
        if not isinstance(seed, Integral):
            raise ValueError(
                f"checkpoint with a searcher needs a number as {name}, to draw the same sample and find the same "
                f"neighbours again; got {seed!r}."
            )


def describe(value: Any) -> Any:
    """A parameter as JSON can hold it, the same in every process."""
    if callable(value):
        code = getattr(value, "__code__", None)
        body = fingerprint(_contents(code), value.__defaults__, _closure(value))[:8] if code else repr(value)
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}#{body}"
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, tuple | list):
        return [describe(item) for item in value]
    if isinstance(value, dict):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return fingerprint(value)
    return value.item() if isinstance(value, np.generic) else value


def _contents(code: CodeType) -> list[Any]:
    """What a function does, without the addresses that the repr of inner functions holds."""
    constants = [_contents(part) if isinstance(part, CodeType) else repr(part) for part in code.co_consts]
    return [code.co_code, code.co_names, constants]


def _closure(function: Any) -> list[Any]:
    return [describe(cell.cell_contents) for cell in function.__closure__ or ()]
