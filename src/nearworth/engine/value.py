"""One valuation, from a checked question to its result: choose, plan, sum up, finish.

choose     how many neighbours are ranked, and who finds them        searching.choose -> Choice
plan       threads, batches, memory                                  engine.plan.make_plan -> Plan
sum up     here or on an executor, from a checkpoint if there is one  engine.run, engine.distributed -> Partial
finish     moments, intervals, where they came from                   -> Valuation
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from numbers import Integral
from typing import Any

import numpy as np

from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth._version import __version__
from nearworth.engine.checkpoint import Checkpoint
from nearworth.engine.cluster import Job, run_on
from nearworth.engine.method import Choice, choose, make_source
from nearworth.engine.nearest import Source
from nearworth.engine.nearest_lists import NearestLists
from nearworth.engine.plan import Plan, check_fits, make_plan
from nearworth.engine.problem import Problem, make_evaluators
from nearworth.engine.progress import reporting
from nearworth.engine.remote import store_at
from nearworth.engine.run import Evaluators, Request, Span, run
from nearworth.engine.training import PRECOMPUTED, Training, budget
from nearworth.engine.truncate import TruncatedEvaluator
from nearworth.inputs.fingerprint import fingerprint
from nearworth.inputs.parameters import is_real
from nearworth.inputs.targets import check_rows
from nearworth.neighbors.keys import EuclideanKeys
from nearworth.results.moments import CHUNK, Leaf, Moments
from nearworth.results.origins import differences, kernel, merge_origins
from nearworth.results.partial import Partial
from nearworth.results.valuation import Parameters, Provenance, Valuation

INTERVAL = 30.0
# What the numbers do not depend on, and so what two valuations to be combined need not share.
NOT_PART_OF_THE_GAME = (
    "max_memory", "n_jobs", "progress", "random_state", "standard_errors", "search", "max_error", "tail",
)  # fmt: skip


def choice_of(training: Training, parameters: Mapping[str, Any], n_val: int, n_train: int | None = None) -> Choice:
    """Who finds the neighbours of a problem of this size."""
    n_rows = training.n_rows if n_train is None else n_train
    euclidean = isinstance(training.keys, EuclideanKeys)
    return choose(parameters, training.game_maker(parameters, n_rows), n_rows, n_val, euclidean)


def plan_of(
    training: Training, parameters: Mapping[str, Any], n_val: int, choice: Choice | None, n_train: int | None = None,
    *, kept: bool = False,
) -> Plan:  # fmt: skip
    """How such a problem will run."""
    return make_plan(n_train or training.n_rows, n_val, kept=kept, **_planning(training, parameters, choice))


def _planning(training: Training, parameters: Mapping[str, Any], choice: Choice | None) -> dict[str, Any]:
    keys = training.keys
    return {
        "task": parameters["task"],
        "standard_errors": bool(parameters["standard_errors"]),
        "n_jobs": parameters["n_jobs"],
        "max_memory": budget(parameters),
        "has_products": keys.has_products,
        "width": keys.width,
        "search": None if choice is None else choice.plan,
        "streamed": keys.streamed,
        "pivots": training.pivots,
    }


@dataclass
class Run:
    """A question, the parameters it is asked with, and what else is wanted of it."""

    training: Training
    problem: Problem
    parameters: Mapping[str, Any]
    contributions: Any = None
    nearest: NearestLists | None = None
    checkpoint: Any = None
    interval: Any = INTERVAL
    continue_from: Any = None
    executor: Any = None
    scratch: Any = None
    start: int = 0

    def __post_init__(self) -> None:
        n_val = self.problem.n_val
        self.choice = choice_of(self.training, self.parameters, n_val)
        if self.nearest is not None:
            self.choice = self.choice.listing(self.nearest.size)
        kept = self.checkpoint is not None
        self.plan = plan_of(self.training, self.parameters, n_val, self.choice, kept=kept)
        self._check()
        self.chosen: IntVector | None = None
        if self.contributions is not None:
            self.chosen = check_rows(self.contributions, "contributions", self.problem.n_train)
            check_fits(self.plan, self.chosen.size, budget(self.parameters))
        self.provenance = self._provenance()

    def valuation(self) -> Valuation:
        """Sum up and finish."""
        problem, searched = self.problem, self.choice.searcher is not None
        incomplete = self._report.incomplete if searched else 0
        singles = None if self.chosen is None else np.empty((problem.n_val, self.chosen.size))
        excess = np.zeros((2, problem.n_val)) if searched else None
        request = Request(
            self._spread, chosen=self.chosen, contributions=singles, excess=excess if incomplete else None
        )
        summed, resumed = self.sum_up(request, excess)
        moments = summed.finish()
        if incomplete:
            moments = _widened(moments, excess, problem.weights, incomplete)
        if problem.leave_out and problem.ties == "average":
            # Identical points meet the same terms, but not in the same order: let rounding not tell them apart.
            moments = moments.take(self.training.twins(problem.weights))
        if not np.isfinite(moments.total).all():
            raise ValueError("The values overflow 64-bit floats. Rescale the targets or the weights.")
        goes_on, features = self.continue_from is not None, self.training.features
        found = self._report if searched else None
        provenance = self.provenance
        if goes_on:
            sets = "+".join(summed.origin["validation"].values())
            provenance = replace(provenance, n_val=summed.n_points, validation=sets)
        valuation = Valuation(
            moments,
            provenance,
            singles,
            self.chosen,
            features.backend if features else None,
            confidence=1.0 if found is None else found.confidence,
            search=found,
            partial=None if searched else summed,
            resumed=resumed,
            _moments_by_group=self._group_moments if self._spread and not goes_on else None,
        )
        self._warn_of_a_wide_certificate(valuation)
        return valuation

    def sum_up(self, request: Request | None = None, excess: FloatMatrix | None = None) -> tuple[Partial, int]:
        """Sums over the validation points still to come, and how many came from a checkpoint."""
        request = request or Request(self._spread)
        base, opened, offset = self._beginning()
        kept: Any = nullcontext()
        if self.checkpoint is not None:
            kept = Checkpoint(self.checkpoint, base, float(self.interval))
        with kept as checkpoint:
            summed = base if checkpoint is None else checkpoint.partial
            resumed = summed.n_points - base.n_points if checkpoint is not None else 0
            if checkpoint is not None and excess is not None:
                _take_notes(summed, {"failed": self.source.failed, "excess": excess})  # type: ignore[union-attr]
            span = Span.of(self.problem.n_val, offset, opened, summed)
            if span.leaves:
                with reporting(self.parameters["progress"], self.problem.n_val, resumed) as report:
                    self._work(request, summed, span, report, None if checkpoint is None else checkpoint.heard)
        if resumed and opened is not None and offset // CHUNK in summed:
            resumed -= opened.n_points
        return summed, resumed

    def _work(self, request: Request, summed: Partial, span: Span, report: Any, listener: Any) -> None:
        if self.executor is None:
            run(self.problem, self.plan, request, self.evaluators(), summed, span, report, listener)
            return
        own = tempfile.TemporaryDirectory(prefix="nearworth-", ignore_cleanup_errors=True)
        with nullcontext(self.scratch) if self.scratch is not None else own as folder:
            run_on(self.executor, self.problem, self._job(folder), span, summed, report, listener)

    def evaluators(self) -> Evaluators:
        """A maker of evaluators, one for each thread."""
        if self.source is None:
            return make_evaluators(self.problem, self.plan, self.nearest)
        return partial(TruncatedEvaluator, self.problem, self.source, self.parameters["tail"])

    @cached_property
    def source(self) -> Source | None:
        """Who finds the nearest points, if not all are ranked; made when it is needed, which takes a while."""
        if self.choice.n_candidates is None:
            return None
        return make_source(self.problem, self.plan, self.choice, self.parameters["random_state"], self.nearest)

    @property
    def _report(self) -> Any:
        assert self.source is not None
        return self.source.report()

    @property
    def _spread(self) -> bool:
        return bool(self.parameters["standard_errors"])

    def _beginning(self) -> tuple[Partial, Leaf | None, int]:
        """An empty part, or what the run goes on from; the sums of an open leaf; how many points came before."""
        base = self._base()
        if base is None:
            return Partial(self._origin(self.start)), None, self.start
        ranges = base.ranges
        if len(ranges) != 1 or ranges[0][0] != 0:
            raise ValueError(f"continue_from must hold all validation points from the first on; it is a {base!r}.")
        offset = ranges[0][1]
        origin = self._origin(offset)
        different = differences(base.origin, origin)
        if different:
            raise ValueError(f"continue_from is of another run; it differs in {'; '.join(different)} (there and here).")
        if origin["validation"][str(offset)] in base.origin["validation"].values():
            raise ValueError("continue_from already holds this validation set; its points would count twice.")
        finished = base.finished()
        finished.origin = merge_origins([base.origin, origin])
        opened = base.unfinished()
        return finished, None if opened is None else opened[1], offset

    def _base(self) -> Partial | None:
        if isinstance(self.continue_from, Valuation):
            if self.continue_from.partial is None:
                raise ValueError(
                    "continue_from: this valuation was loaded, added up or found by a searcher and no longer has its "
                    "running sums. Keep them with v.partial.save(path) and give continue_from=Partial.load(path)."
                )
            return self.continue_from.partial
        return self.continue_from  # type: ignore[no-any-return]

    def _origin(self, offset: int) -> dict[str, Any]:
        """Where sums come from, as files keep it."""
        made, ranked = self.provenance, self.choice.n_candidates
        sums: dict[str, Any] = {
            "standard_errors": self._spread,
            "ranked": ranked,
            "tail": None if ranked is None else self.parameters["tail"],
        }
        if self.choice.searcher is not None and self.checkpoint is not None:
            sums["search"] = self.source.identity()  # type: ignore[union-attr]
        return {
            "version": made.version,
            "parameters": dict(made.parameters),
            "sums": sums,
            "n_train": made.n_train,
            "n_classes": made.n_classes,
            "training": made.training,
            "validation": {str(offset): made.validation},
            "weights": fingerprint(self.problem.weights) if self.problem.leave_out else None,
            "kernel": kernel(),
        }

    def _provenance(self) -> Provenance:
        training, problem = self.training, self.problem
        game = {name: describe(value) for name, value in self.parameters.items() if name not in NOT_PART_OF_THE_GAME}
        n_classes = training.n_classes(self.parameters["n_classes"]) if training.classes is not None else None
        validation = "self" if problem.leave_out else self._validation_fingerprint()
        return Provenance(
            __version__, Parameters(game), problem.n_train, problem.n_val, n_classes, training.fingerprint, validation
        )

    def _validation_fingerprint(self) -> str:
        return fingerprint(self.problem.queries, self.problem.query_labels, self.problem.weights)

    def _group_moments(self, groups: IntVector) -> Moments:
        """A second run that sums the values of each group, on data that must still be what they were."""
        if not self.problem.leave_out and self._validation_fingerprint() != self.provenance.validation:
            raise ValueError("The validation data changed in place since value(); standard errors of totals need them.")
        return run(self.problem, self.plan, Request(True, groups), self.evaluators(), Partial()).finish()

    def _job(self, folder: str | os.PathLike[str]) -> Job:
        """What workers elsewhere need, in files of a folder."""
        training, problem, parameters = self.training, self.problem, self.parameters
        points = training.features.data if training.features and training.metric != PRECOMPUTED else None
        if problem.leave_out:
            points = problem.queries
        return Job(
            store_at(points, training.labels, folder),
            training.metric,
            training.metric_params,
            training.game_maker(parameters, problem.game.n_players),
            problem.ties,
            problem.leave_out,
            self._spread,
            self.choice.n_candidates,
            parameters["tail"],
            _planning(training, parameters, self.choice)
            | {"n_jobs": 1 if parameters["n_jobs"] is None else parameters["n_jobs"]},
        )

    def _check(self) -> None:
        """Refuse what cannot be done, before any work is."""
        for name in ("checkpoint", "scratch"):
            if getattr(self, name) is not None and not isinstance(getattr(self, name), str | os.PathLike):
                raise TypeError(f"{name} must be the path of a folder; got {getattr(self, name)!r}.")
        if self.executor is not None and not callable(getattr(self.executor, "submit", None)):
            raise TypeError(
                "executor must have submit, as those of concurrent.futures and a Dask Client have; "
                f"got {self.executor!r}."
            )
        if not is_real(self.interval) or self.interval < 0:
            raise ValueError(f"checkpoint_interval must be a number of seconds, 0 or more; got {self.interval!r}.")
        if self.continue_from is not None and not isinstance(self.continue_from, Valuation | Partial):
            raise TypeError(f"continue_from must be a Valuation or a Partial; got {type(self.continue_from).__name__}.")
        if self.continue_from is not None and self.problem.leave_out:
            raise ValueError("continue_from needs X_val and y_val: a training set valued on itself has no more points.")
        for name in ("checkpoint", "continue_from", "executor"):
            if getattr(self, name) is None:
                continue
            if self.choice.searcher is not None and name != "checkpoint":
                refuse_searcher(name)
            if self.contributions is not None:
                raise ValueError(
                    f"{name} keeps sums, not single values: leave contributions=None, or ask for them without {name}."
                )
        if self.checkpoint is not None and self.choice.searcher is not None:
            _refuse_unrepeatable(self.choice.searcher, self.parameters["random_state"])

    def _warn_of_a_wide_certificate(self, valuation: Valuation) -> None:
        """A searcher may miss neighbours, which no choice of K* beforehand can make up for."""
        wanted = self.parameters["max_error"]
        if valuation.search is not None and wanted is not None and valuation.error_bound > wanted:
            warnings.warn(
                f"max_error={wanted:g} was asked for, but only {valuation.error_bound:.2g} is certain: "
                f"up to {valuation.search.incomplete:,} validation points may lack a neighbour. Use search='exact'.",
                stacklevel=4,
            )


def _widened(moments: Moments, excess: FloatMatrix | None, weights: FloatVector, n_incomplete: int) -> Moments:
    """The sums with wider ends: any so many validation points may know nothing, the worst ones for each end."""
    assert moments.ends is not None
    assert excess is not None
    worst = np.sort(excess * weights, axis=1)[:, ::-1][:, :n_incomplete].sum(axis=1)
    return replace(moments, ends=moments.ends + np.array([[-worst[0]], [worst[1]]]))


def _take_notes(summed: Partial, notes: dict[str, Any]) -> None:
    for name, note in notes.items():
        if name in summed.notes:
            note[...] = summed.notes[name]
        summed.notes[name] = note


def refuse_searcher(name: str) -> None:
    """Say why parts of a run need exact search."""
    raise ValueError(
        f"{name} needs search='exact': what a searcher finds is judged on a random sample of all validation points, "
        "which parts of a run do not share."
    )


def _refuse_unrepeatable(searcher: Any, random_state: Any) -> None:
    """A run can be taken up only if the searcher will find the same again."""
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
    """A parameter as JSON can keep it, the same before and after."""
    if callable(value):
        code = getattr(value, "__code__", None)
        body = fingerprint(code.co_code, code.co_consts, code.co_names)[:8] if code else repr(value)
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
