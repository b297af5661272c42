"""Long runs: taken up from a checkpoint or from a finished valuation, here or on an executor."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy.typing as npt

from nearworth._validation.fingerprint import fingerprint
from nearworth._validation.parameters import is_real
from nearworth.engine.accumulate import Partial
from nearworth.engine.checkpoint import Checkpoint
from nearworth.engine.distributed import Job, run_on
from nearworth.engine.moments import CHUNK, Leaf
from nearworth.engine.origins import differences, kernel, merge_origins
from nearworth.engine.plan import Plan
from nearworth.engine.problem import Problem
from nearworth.engine.progress import reporting
from nearworth.engine.run import Evaluators, Request, Span, run_span
from nearworth.valuation import Provenance, Valuation

INTERVAL = 30.0


@dataclass(frozen=True)
class LongRun:
    """What `value` was asked beyond values: where to keep the work, where to do it, what to go on from."""

    checkpoint: Any = None
    interval: Any = INTERVAL
    continue_from: Any = None
    start: int = 0
    executor: Any = None
    scratch: Any = None

    def check(self, *, searcher: Any, random_state: Any, contributions: bool, leave_out: bool) -> None:
        """Refuse what cannot be done, before any work is."""
        if self.checkpoint is not None and not isinstance(self.checkpoint, str | os.PathLike):
            raise TypeError(f"checkpoint must be the path of a folder; got {self.checkpoint!r}.")
        if self.executor is not None and not callable(getattr(self.executor, "submit", None)):
            raise TypeError(
                "executor must have submit, as those of concurrent.futures and a Dask Client have; "
                f"got {self.executor!r}."
            )
        if self.scratch is not None and not isinstance(self.scratch, str | os.PathLike):
            raise TypeError(f"scratch must be the path of a folder; got {self.scratch!r}.")
        if not is_real(self.interval) or self.interval < 0:
            raise ValueError(f"checkpoint_interval must be a number of seconds, 0 or more; got {self.interval!r}.")
        if self.continue_from is not None and not isinstance(self.continue_from, Valuation | Partial):
            raise TypeError(f"continue_from must be a Valuation or a Partial; got {type(self.continue_from).__name__}.")
        if self.continue_from is not None and leave_out:
            raise ValueError("continue_from needs X_val and y_val: a training set valued on itself has no more points.")
        for name in self._used:
            if searcher is not None and name != "checkpoint":
                refuse_searcher(name)
            if contributions:
                raise ValueError(
                    f"{name} keeps sums, not single values: leave contributions=None, or ask for them without {name}."
                )

        if self.checkpoint is not None and searcher is not None:
            _refuse_unrepeatable(searcher, random_state)

    @property
    def _used(self) -> list[str]:
        given = {"checkpoint": self.checkpoint, "continue_from": self.continue_from, "executor": self.executor}
        return [name for name, value in given.items() if value is not None]

    def base(self) -> Partial | None:
        """The sums to go on from."""
        if isinstance(self.continue_from, Valuation):
            if self.continue_from.partial is None:
                raise ValueError(
                    "continue_from: this valuation was loaded, added up or found by a searcher and no longer has its "
                    "running sums. Keep them with v.partial.save(path) and give continue_from=Partial.load(path)."
                )
            return self.continue_from.partial
        return self.continue_from  # type: ignore[no-any-return]


def refuse_searcher(name: str) -> None:
    """Say why parts of a run need exact search."""
    raise ValueError(
        f"{name} needs search='exact': what a searcher finds is judged on a random sample of all validation points, "
        "which parts of a run do not share."
    )


def _refuse_unrepeatable(searcher: Any, random_state: Any) -> None:
    """A run can be taken up only if the searcher will find the same again."""
    kind = type(searcher).__name__
    if not callable(getattr(searcher, "fingerprint", None)):
        raise ValueError(
            f"checkpoint: {kind} has no fingerprint(), so a later run cannot know that it would find the same "
            "neighbours. Give it one (see Searcher), or use search='exact'."
        )
    seeds = {"random_state": random_state, f"random_state of {kind}": getattr(searcher, "random_state", 0)}
    for name, seed in seeds.items():
        if not isinstance(seed, Integral):
            raise ValueError(
                f"checkpoint with a searcher needs a number as {name}, to draw the same sample and find the same "
                f"neighbours again; got {seed!r}."
            )


@dataclass(frozen=True)
class Beginning:
    """What is there before the first validation point of this run: finished leaves, an open one, how many points."""

    partial: Partial
    opened: Leaf | None
    offset: int


@dataclass(frozen=True)
class Summed:
    """The sums of a run, and how many validation points came from a checkpoint."""

    partial: Partial
    resumed: int


def origin_of(provenance: Provenance, problem: Problem, sums: Mapping[str, Any], offset: int) -> dict[str, Any]:
    """Where sums come from, as files keep it; `sums` says what was summed up."""
    return {
        "version": provenance.version,
        "parameters": dict(provenance.parameters),
        "sums": dict(sums),
        "n_train": provenance.n_train,
        "n_classes": provenance.n_classes,
        "training": provenance.training,
        "validation": {str(offset): provenance.validation},
        "weights": fingerprint(problem.weights) if problem.leave_out else None,
        "kernel": kernel(),
    }


def begin(long: LongRun, origin_at: Callable[[int], dict[str, Any]]) -> Beginning:
    """An empty part, or what a run goes on from."""
    base = long.base()
    if base is None:
        return Beginning(Partial(origin_at(long.start)), None, long.start)
    ranges = base.ranges
    if len(ranges) != 1 or ranges[0][0] != 0:
        raise ValueError(f"continue_from must hold all validation points from the first on; it is a {base!r}.")
    offset = ranges[0][1]
    origin = origin_at(offset)
    different = differences(base.origin, origin)
    if different:
        raise ValueError(f"continue_from is of another run; it differs in {'; '.join(different)} (there and here).")
    if origin["validation"][str(offset)] in base.origin["validation"].values():
        raise ValueError("continue_from already holds this validation set; its points would count twice.")
    partial = base.finished()
    partial.origin = merge_origins([base.origin, origin])
    opened = base.unfinished()
    return Beginning(partial, None if opened is None else opened[1], offset)


def sum_up(
    problem: Problem,
    plan: Plan,
    request: Request,
    make_evaluators: Callable[[], Evaluators],
    long: LongRun,
    beginning: Beginning,
    progress: Any,
    make_job: Callable[[str | os.PathLike[str]], Job],
    notes: Mapping[str, npt.NDArray[Any]] | None = None,
) -> Summed:
    """Sum the values over the validation points still to come; `make_job` puts what workers need in a folder.

    `notes` are arrays that the run fills, point by point; a checkpoint keeps them and fills them again.
    """
    kept: Any = nullcontext()
    if long.checkpoint is not None:
        kept = Checkpoint(long.checkpoint, beginning.partial, float(long.interval))
    with kept as checkpoint:
        partial = beginning.partial if checkpoint is None else checkpoint.partial
        resumed = partial.n_points - beginning.partial.n_points if checkpoint is not None else 0
        _take_notes(partial, notes or {})
        span = Span.of(problem.n_val, beginning.offset, beginning.opened, partial)
        if span.leaves:
            with reporting(progress, problem.n_val, resumed) as report:
                listener = None if checkpoint is None else checkpoint.heard
                if long.executor is None:
                    run_span(problem, plan, request, make_evaluators(), span, partial, report, listener)
                else:
                    with _scratch(long.scratch) as folder:
                        run_on(long.executor, problem, make_job(folder), span, partial, report, listener)
    if resumed and beginning.opened is not None and beginning.offset // CHUNK in partial:
        resumed -= beginning.opened.n_points
    return Summed(partial, resumed)


def _take_notes(partial: Partial, notes: Mapping[str, npt.NDArray[Any]]) -> None:
    for name, note in notes.items():
        if name in partial.notes:
            note[...] = partial.notes[name]
        partial.notes[name] = note


def _scratch(given: Any) -> AbstractContextManager[Any]:
    """The user's folder, which stays, or one of our own."""
    if given is not None:
        return nullcontext(given)
    return tempfile.TemporaryDirectory(prefix="nearworth-", ignore_cleanup_errors=True)
