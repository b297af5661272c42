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
    problem: Problem,
    plan: Plan,
    *,
    spread: bool = False,
    chosen: IntVector | None = None,
    groups: IntVector | None = None,
    report: Report | None = None,
) -> Outcome:
    """Sum the values over the validation points.

    `chosen` training points have their values kept one by one; `groups` (a code per training point) asks for the
    sums of groups instead of single points.
    """
    partial = Partial()
    kept = None if chosen is None else np.empty((problem.n_val, chosen.size))
    for leaf, start in enumerate(range(0, problem.n_val, CHUNK)):
        moments: Moments | None = None
        for a, b in _batches(start, min(start + CHUNK, problem.n_val), plan.batch):
            values, weights = problem.values(a, b), problem.weights[a:b]
            if kept is not None:
                kept[a:b] = values[:, chosen]
            if groups is not None:
                values = np.array([np.bincount(groups, weights=row) for row in values])
            moments = (
                Moments.of(values, weights, spread=spread) if moments is None else moments.followed_by(values, weights)
            )
            if report is not None:
                report(b, problem.n_val)
        assert moments is not None
        partial.add(leaf, moments)
    return Outcome(partial.finish(), kept)


def _batches(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    for a in range(start, stop, size):
        yield a, min(a + size, stop)
