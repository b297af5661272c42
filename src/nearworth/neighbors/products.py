"""Rough distances of all points from one matrix product, with a promise how far they may be off.

|x - t|^2 = |x|^2 - 2 x.t + |t|^2, and |t|^2 changes no rank. The product is made in 32 bits of centred data, or in 64
bits of the data as they are. Nobody relies on the result beyond its `reach`: two points closer than that are compared
by exact distances (`engine/kernels.py`), so neither the precision nor the order of summation inside the BLAS shows in
any value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearworth._typing import FloatMatrix, FloatVector, IntVector
from nearworth.neighbors.distances import distances_to, squared_distances

UNIT_32, UNIT_64 = 2.0**-24, 2.0**-53
# Errors are told in units of (rounding unit) (|x| + |t|)^2, with the longest |x| for all. In 64 bits 2d + 16 covers
# the worst case. In 32 bits that would put nearly everybody in doubt, so the errors are measured on a sample, where
# they are largest, and multiplied; and every query measures them again on a few points.
SAFETY_32, LEAST_32, LEAST_FAR_32 = 4.0, 0.5, 0.25  # the least ones times sqrt(d)
FAR = 0.5  # share of |t|^2 + (median |x|^2) from which a squared distance counts as far
LARGEST_32, SMALLEST_32, LARGEST_64 = 1e15, 1e-12, 1e90
SAMPLE, WATCHED = 512, 16


class RoughRow(NamedTuple):
    """What one query has.

    `products` (N,), to which the norms are to be added to make keys; `reach`, how far two keys must be apart to be
    surely in the right order; `far_reach`, the same for keys beyond `border`; and `kept`, whether that promise holds
    for the points watched.
    """

    products: npt.NDArray[Any]
    norms: npt.NDArray[Any]
    reach: float
    far_reach: float
    border: float
    kept: bool


class Products:
    """Knows the training points; makes rough distances of batches of queries, narrow (32 bits) or wide (64)."""

    def __init__(self, points: npt.NDArray[Any]) -> None:
        self._points = points
        self._centre, norms = _centre_and_norms(points)
        self._longest = float(np.sqrt(norms.max()))
        self._level = float(np.median(norms))  # norms around zero round less
        self._norms = norms - self._level
        self._error, self._far_error = self._errors_32(norms)
        self.can_be_narrow = bool(np.isfinite(self._error))
        if self.can_be_narrow:
            self._narrow_norms = self._norms.astype(np.float32)
            self._narrow = np.empty(points.shape, dtype=np.float32)
            for start in range(0, len(points), self._step):
                self._narrow[start : start + self._step] = points[start : start + self._step] - self._centre
        self._watched = np.linspace(0, len(points) - 1, WATCHED).astype(np.intp)

    def __call__(
        self, queries: FloatMatrix, *, narrow: bool, buffer: npt.NDArray[Any] | None = None
    ) -> Iterator[RoughRow]:
        """Rough distances of a batch of queries; `buffer` (64-bit, at least as large) is used again and again."""
        centred = queries - self._centre
        lengths = np.sqrt((centred * centred).sum(axis=1))
        if not narrow:
            error = (2.0 * queries.shape[1] + 16.0) * UNIT_64
            reach = 2.0 * error * (self._longest + lengths + np.sqrt(self._centre @ self._centre)) ** 2
            ordinary = np.abs(queries).max(axis=1) < LARGEST_64
            products = self._multiply(-2.0 * centred, self._points, buffer)
            for row, r, kept in zip(products, reach.tolist(), ordinary.tolist(), strict=True):
                yield RoughRow(row, self._norms, r, r, 0.0, kept)
            return
        with np.errstate(over="ignore", invalid="ignore"):  # far too long queries do not keep the promise
            products = self._multiply((-2.0 * centred).astype(np.float32), self._narrow, buffer)
        unit = (self._longest + lengths) ** 2
        border = FAR * (lengths**2 + self._level) - lengths**2 - self._level
        rough = products[:, self._watched].astype(np.float64) + self._norms[self._watched]
        right = squared_distances(np.ascontiguousarray(queries), self._points[self._watched])
        promised = np.where(rough < border[:, None], self._error, self._far_error) * unit[:, None]
        kept = (np.abs(rough + self._level + lengths[:, None] ** 2 - right) <= promised).all(axis=1)
        kept &= lengths < LARGEST_32
        limits = (2.0 * self._error * unit, 2.0 * self._far_error * unit, border, kept)
        for row, *limit in zip(products, *(limit.tolist() for limit in limits), strict=True):
            yield RoughRow(row, self._narrow_norms, *limit)

    def distances(self, query: FloatVector, rows: IntVector) -> FloatVector:
        """Exact distances of one query to the points of some rows."""
        return distances_to(query, self._points, rows)

    @property
    def _step(self) -> int:
        return rows_at_a_time(self._points.shape[1])

    def _multiply(
        self, queries: npt.NDArray[Any], points: npt.NDArray[Any], buffer: npt.NDArray[Any] | None
    ) -> npt.NDArray[Any]:
        size = len(queries) * len(points)
        space = np.empty(size) if buffer is None else buffer
        products = space.view(queries.dtype)[:size].reshape(len(queries), len(points))
        for start in range(0, len(points), self._step):
            rows = points[start : start + self._step].astype(queries.dtype, copy=False)
            np.matmul(queries, rows.T, out=products[:, start : start + self._step])
        return products

    def _errors_32(self, norms: FloatVector) -> tuple[float, float]:
        """Relative errors of 32-bit products, of all points and of far ones.

        From pairs of sampled points, each with itself, and the longest ones: near points have the largest errors,
        because their products are the largest.
        """
        if not SMALLEST_32 < self._longest < LARGEST_32:
            return np.inf, np.inf
        spread = np.linspace(0, len(norms) - 1, min(SAMPLE, len(norms))).astype(np.intp)
        longest = np.argpartition(norms, -16)[-16:] if len(norms) > 16 else spread
        some = np.asarray(self._points[np.concatenate([spread, longest])], dtype=np.float64) - self._centre
        queries = np.concatenate([some[::16], some[-16:]])
        # Queries need not be as round as the training data (codes, counts): shake the sampled ones.
        queries = queries + 1e-3 * np.random.default_rng(0).normal(size=queries.shape) * self._longest
        squares = (some * some).sum(axis=1) - self._level
        rough = (-2.0 * queries).astype(np.float32) @ some.astype(np.float32).T + squares.astype(np.float32)
        right = squares - 2.0 * queries @ some.T
        lengths = np.sqrt((queries * queries).sum(axis=1, keepdims=True))
        errors = np.abs(rough - right) / (self._longest + lengths) ** 2
        far = right >= FAR * (lengths**2 + self._level) - lengths**2 - self._level
        worst, worst_far = errors.max(), errors[far].max(initial=0.0)
        unit = UNIT_32 * np.sqrt(queries.shape[1])
        return max(SAFETY_32 * worst, LEAST_32 * unit), max(SAFETY_32 * worst_far, LEAST_FAR_32 * unit)


def rows_at_a_time(width: int) -> int:
    """Training points per product: enough to be efficient, few enough that a converted copy of them stays small."""
    return max(16, min(2048, 2**18 // width))


def _centre_and_norms(points: npt.NDArray[Any]) -> tuple[FloatVector, FloatVector]:
    """Mean of the points and squared lengths around it, some rows at a time."""
    step = rows_at_a_time(points.shape[1])
    centre = np.zeros(points.shape[1])
    for start in range(0, len(points), step):
        centre += points[start : start + step].sum(axis=0, dtype=np.float64) / len(points)
    norms = np.empty(len(points))
    for start in range(0, len(points), step):
        rows = points[start : start + step] - centre
        norms[start : start + step] = np.einsum("ij,ij->i", rows, rows)
    return centre, norms
