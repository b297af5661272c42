"""The minimum of a smooth loss, as exactly as its slope is known.

A line search compares losses, and a loss of 100 has 14 digits. Where the loss is flat, it
cannot tell points apart that differ in the seventh digit. The point where such a search stops
depends on the last bit of every sum, and sums differ between processors. Newton's method
needs no losses: it goes on from there until the slope is nothing but rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize

from nearworth._common.types import BoolVector, FloatVector

# Of the loss, relative. Newton's method does the rest.
SEARCH_PRECISION = 1e-10
MOST_SEARCH_STEPS = 300
# Each step leaves about this part of the slope.
SOLVER_PRECISION = 1e-4
MOST_NEWTON_STEPS = 10
# A slope below this is none. Curvatures are 0.01 and more, by the widest prior.
NO_SLOPE = 1e-10
PARTS_OF_STEP = (1.0, 0.3, 0.1, 0.03)
MOST_SOLVER_STEPS = 100
# How far apart two slopes are taken that tell the curvature: well above their rounding.
DIFFERENCE = 1e-6

Loss = Callable[..., tuple[float, FloatVector]]
Slope = Callable[[FloatVector], FloatVector]


def find_minimum(
    loss: Loss, start: FloatVector, args: tuple[Any, ...] = (), lower: FloatVector | None = None
) -> tuple[FloatVector, float]:
    """Where a loss is least and how much it is there.

    Parameters
    ----------
    loss : function
        The loss and its slope at a point, followed by `args`.
    start : FloatVector
        Where the search begins.
    lower : FloatVector, optional
        The least that each number may be.
    """
    bounds = None if lower is None else [(least, None) for least in lower]
    options = {"maxiter": MOST_SEARCH_STEPS, "ftol": SEARCH_PRECISION}
    found = minimize(loss, start, args, "L-BFGS-B", jac=True, bounds=bounds, options=options)
    lowest = np.full(len(start), -np.inf) if lower is None else lower

    def slope(at: FloatVector) -> FloatVector:
        return loss(at, *args)[1]

    at = _without_slope(slope, np.asarray(found.x), lowest)
    return at, loss(at, *args)[0]


def _without_slope(slope: Slope, at: FloatVector, lowest: FloatVector) -> FloatVector:
    """The minimum near a point, by Newton's method; numbers at their lowest stay there."""
    slope_here = slope(at)
    for _ in range(MOST_NEWTON_STEPS):
        is_free = (at > lowest) | (slope_here < 0.0)
        size_here = float(np.linalg.norm(slope_here[is_free]))
        if size_here < NO_SLOPE:
            return at
        step = _newton_step(slope, at, slope_here, is_free)
        # Far from the minimum a whole step may lead too far.
        for part in PARTS_OF_STEP:
            after = np.maximum(at + part * step, lowest)
            slope_after = slope(after)
            stays_free = (after > lowest) | (slope_after < 0.0)
            if np.linalg.norm(slope_after[stays_free]) < size_here:
                break
        else:
            return at
        at = after
        slope_here = slope_after
    return at


def _newton_step(
    slope: Slope,
    at: FloatVector,
    slope_here: FloatVector,
    is_free: BoolVector,
) -> FloatVector:
    """The step after which a quadratic loss has no slope, by conjugate gradients."""
    step = np.zeros(len(at))
    residual = np.where(is_free, -slope_here, 0.0)
    direction = residual.copy()
    square = float(residual @ residual)
    enough = SOLVER_PRECISION**2 * square
    for _ in range(MOST_SOLVER_STEPS):
        if square <= enough:
            break
        length = DIFFERENCE / float(np.linalg.norm(direction))
        bent = (slope(at + length * direction) - slope_here) / length
        bent = np.where(is_free, bent, 0.0)
        curvature = float(direction @ bent)
        # Not a minimum along this direction: what is known so far must do.
        if not curvature > 0.0:
            break
        step += square / curvature * direction
        residual -= square / curvature * bent
        square_before = square
        square = float(residual @ residual)
        direction = residual + square / square_before * direction
    return step
