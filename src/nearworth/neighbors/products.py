"""Rough distances of all points from one matrix product, with a promise how far they may be off.

|x - t|^2 = |x|^2 - 2 x.t + |t|^2, and |t|^2 changes no rank. The data are centred first; the product is made in 32 bits
where that tells neighbours apart often enough, else in 64. Nobody relies on the result beyond its `reach`: two
points closer than that are compared by exact distances (`engine/kernels.py`), so neither the precision nor the order of
summation inside the BLAS shows in any value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._typing import FloatMatrix, FloatVector, IntVector
from nearworth.neighbors.distances import distances_to

UNIT_32, UNIT_64 = 2.0**-24, 2.0**-53
# Errors of rough distances are told in units of (rounding unit) (|x| + |t|)^2, with the longest |x| for all. In 64 bits
# 2d + 16 covers the worst case. In 32 bits that would put nearly everybody in doubt, so the errors are measured on a
# sample, where they are largest, and multiplied; and every query checks a few points again.
SAFETY_32, LEAST_32 = 3.0, 3.0
ROWS = 2048  # training points per product
SAMPLE, WATCHED = 512, 16
LARGEST_32, SMALLEST_32 = 1e15, 1e-12


class Rough:
    """What one batch of queries has: products (Q, N) to which the norms are to be added, and the reach of each."""

    def __init__(self, products: npt.NDArray[Any], norms: npt.NDArray[Any], reach: FloatVector) -> None:
        self.products = products
        self.norms = norms
        self.reach = reach


class Products:
    """Knows the training points; makes rough distances of batches of queries."""

    def __init__(self, points: npt.NDArray[Any]) -> None:
        self._points = points
        self._centre, norms = _centre_and_norms(points)
        self._longest = float(np.sqrt(norms.max()))
        self._level = float(np.median(norms))  # norms around zero round less
        self._error = self._error_32(norms)
        self.dtype: Any = np.float32
        if not self._narrow_is_enough(norms):
            self.dtype, self._error = np.float64, (2.0 * points.shape[1] + 16.0) * UNIT_64
        self.norms = (norms - self._level).astype(self.dtype)
        self._rows = (points - self._centre).astype(self.dtype, copy=False)

    def __call__(self, queries: FloatMatrix) -> Rough:
        """Rough distances of a batch of queries."""
        centred = queries - self._centre
        products = np.empty((len(queries), len(self._points)), dtype=self.dtype)
        doubled = (-2.0 * centred).astype(self.dtype)
        for start in range(0, len(self._points), ROWS):
            np.matmul(doubled, self._rows[start : start + ROWS].T, out=products[:, start : start + ROWS])
        return Rough(products, self.norms, self._reach(centred))

    def distances_from(self, query: FloatVector) -> Callable[[IntVector], FloatVector]:
        """Exact distances of one query to the points of some rows."""
        return lambda rows: distances_to(query, self._points, rows)

    def keeps_its_promise(self, query: FloatVector, products: npt.NDArray[Any]) -> bool:
        """Are the errors of some points what they should be? In 64 bits that is proved, in 32 it is measured."""
        if self.dtype == np.float64:
            return True
        centred = query - self._centre
        some = np.linspace(0, len(self._points) - 1, WATCHED).astype(np.intp)
        rough = products[some].astype(np.float64) + self.norms[some] + (centred @ centred + self._level)
        error = np.abs(rough - distances_to(query, self._points, some)).max()
        return bool(error <= self._error * (self._longest + np.sqrt(centred @ centred)) ** 2)

    def _reach(self, centred: FloatMatrix) -> FloatVector:
        """Twice the largest possible error: two keys farther apart than that are in the right order."""
        lengths = np.sqrt((centred * centred).sum(axis=1))
        return np.asarray(2.0 * self._error * (self._longest + lengths) ** 2)

    def _error_32(self, norms: FloatVector) -> float:
        """Relative error of 32-bit products, from pairs of sampled points, each with itself, and the longest ones."""
        if not SMALLEST_32 < self._longest < LARGEST_32:
            return np.inf
        spread = np.linspace(0, len(norms) - 1, min(SAMPLE, len(norms))).astype(np.intp)
        longest = np.argpartition(norms, -16)[-16:] if len(norms) > 16 else spread
        some = np.asarray(self._points[np.concatenate([spread, longest])], dtype=np.float64) - self._centre
        queries = np.concatenate([some[::16], some[-16:]])
        narrow = some.astype(np.float32)
        rough = (-2.0 * queries).astype(np.float32) @ narrow.T
        rough += ((some * some).sum(axis=1) - self._level).astype(np.float32)
        right = (some * some).sum(axis=1) - self._level - 2.0 * queries @ some.T
        lengths = np.sqrt((queries * queries).sum(axis=1, keepdims=True))
        worst = (np.abs(rough - right) / (self._longest + lengths) ** 2).max()
        return float(max(SAFETY_32 * worst, LEAST_32 * UNIT_32))

    def _narrow_is_enough(self, norms: FloatVector) -> bool:
        """Would 32 bits leave few points in doubt? Asked of some training points as queries."""
        if not np.isfinite(self._error):
            return False
        step = max(1, len(norms) // SAMPLE)
        sample = np.asarray(self._points[::step][:SAMPLE], dtype=np.float64) - self._centre
        keys = (sample * sample).sum(axis=1) - 2.0 * sample[:8] @ sample.T
        density = len(norms) / (2.5 * np.median(keys.std(axis=1)) + 1e-300)
        typical = 2.0 * self._error * (self._longest + np.sqrt(np.median(norms))) ** 2
        return bool(typical * density < 1.0)


def _centre_and_norms(points: npt.NDArray[Any]) -> tuple[FloatVector, FloatVector]:
    """Mean of the points and squared lengths around it, some rows at a time."""
    centre = np.zeros(points.shape[1])
    for start in range(0, len(points), ROWS):
        centre += points[start : start + ROWS].sum(axis=0, dtype=np.float64) / len(points)
    norms = np.empty(len(points))
    for start in range(0, len(points), ROWS):
        rows = points[start : start + ROWS] - centre
        norms[start : start + ROWS] = np.einsum("ij,ij->i", rows, rows)
    return centre, norms
