"""The loop over validation points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from nearworth._typing import FloatMatrix, IntVector
from nearworth.engine.accumulate import CHUNK, Moments, Partial
from nearworth.engine.plan import Plan
from nearworth.engine.problem import Problem

Report = Callable[[int, int], object]


@dataclass(frozen=True)
class Outcome:
    """Moments of the values over all validation points, and the single values that were asked for."""

    moments: Moments
    contributions: FloatMatrix | None = None


def run(
    problem: Problem, plan: Plan, *, spread: bool = False, chosen: IntVector | None = None, report: Report | None = None
) -> Outcome:
    """Sum the values over the validation points; keep those of the `chosen` training points one by one."""
    partial = Partial()
    kept = None if chosen is None else np.empty((problem.n_val, chosen.size))
    for leaf, start in enumerate(range(0, problem.n_val, CHUNK)):
        moments: Moments | None = None
        for a, b in _batches(start, min(start + CHUNK, problem.n_val), plan.batch):
            values, weights = problem.values(a, b), problem.weights[a:b]
            moments = (
                Moments.of(values, weights, spread=spread) if moments is None else moments.followed_by(values, weights)
            )
            if kept is not None:
                kept[a:b] = values[:, chosen]
            if report is not None:
                report(b, problem.n_val)
        assert moments is not None
        partial.add(leaf, moments)
    return Outcome(partial.finish(), kept)


def run_by_group(problem: Problem, plan: Plan, groups: IntVector, n_groups: int) -> Moments:
    """Moments of the summed values of groups of training points, one group each."""
    partial = Partial()
    for leaf, start in enumerate(range(0, problem.n_val, CHUNK)):
        stop = min(start + CHUNK, problem.n_val)
        sums = np.empty((stop - start, n_groups))
        for a, b in _batches(start, stop, plan.batch):
            for row, values in enumerate(problem.values(a, b), start=a - start):
                sums[row] = np.bincount(groups, weights=values, minlength=n_groups)
        partial.add(leaf, Moments.of(sums, problem.weights[start:stop], spread=True))
    return partial.finish()


def _batches(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    for a in range(start, stop, size):
        yield a, min(a + size, stop)
