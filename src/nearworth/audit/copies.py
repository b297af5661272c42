"""Rows that are copies of each other, exactly or nearly: they must not vouch for each other's labels.

Identical rows are found whatever their number; a row that went through 32-bit floats is identical to what it was. A
near-copy is far nearer than the density around it explains: with r the distance to the 20th other row and m the
dimension in which distances grow, the chance that a row of smooth data has another one within t * r is about 19 t^m.
The threshold t makes that `CHANCE`, and is never above `NEAREST`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth.neighbors.distances import Converted, blocks, first_duplicates

AROUND = 20  # which neighbour gives the scale of distances around a row
CHANCE, NEAREST = 5e-4, 0.03
# Share of the rows that have near-copies from which on these are left out of values too, at twice the time.
VALUED = 0.01
TINY = 1e-300
MOST_REPEATED = 5.0  # rows per distinct row beyond which equal rows are cells of a coarse table, not copies


@dataclass(frozen=True)
class Copies:
    """`group[i]` is the group of row i; most groups have one row. `threshold` is t, 0 for exact copies only."""

    group: IntVector
    threshold: float = 0.0
    nearness: FloatVector | None = None  # of near-copies: 1 - distance to the nearest row / that to the 20th

    @cached_property
    def groups(self) -> list[IntVector]:
        """The rows of each group of two or more, in the order of their first rows."""
        order = np.argsort(self.group, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(self.group[order])) + 1)
        return sorted((part for part in parts if len(part) > 1), key=lambda part: int(part[0]))

    def among(self, rows: npt.NDArray[np.bool_]) -> Copies:
        """The same groups where these rows are a mask of more rows, the others of which have no copies."""
        every = self.group.max() + 1 + np.arange(len(rows))
        every[rows] = self.group
        return replace(self, group=every)

    def contradictions(self, labels: npt.NDArray[Any]) -> list[IntVector]:
        """Groups whose rows have different labels: at least one of them is wrong."""
        return [rows for rows in self.groups if (labels[rows] != labels[rows[0]]).any()]

    def n_beyond(self, exact: Copies | None) -> int:
        """Rows that have more copies here than there are exact ones."""
        sizes = np.bincount(self.group)[self.group]
        return int((sizes > (1 if exact is None else np.bincount(exact.group)[exact.group])).sum())

    def fewest_errors(self, labels: npt.NDArray[Any]) -> int:
        """How many labels are wrong at least, if copies have one true label."""
        most = (np.unique(labels[rows], return_counts=True)[1].max() for rows in self.contradictions(labels))
        return sum(len(rows) for rows in self.contradictions(labels)) - int(sum(most))


def first_copies(*parts: Any) -> IntVector:
    """For each row of all parts (X, or X and X_val), the number of the first one that is identical.

    A row is also identical to its own rounding to 32 bits, if that is among the rows.
    """
    first = first_duplicates(*parts)
    if any(scipy.sparse.issparse(part) or part.dtype.kind != "f" for part in parts):
        return first
    rounded = [Converted(part, _single) for part in parts]
    pairs = ((part, *block) for part, single in zip(parts, rounded, strict=True) for block in blocks(single))
    is_single = np.concatenate([(part[start : start + len(rows)] == rows).all(axis=1) for part, start, rows in pairs])
    if is_single.all() or not is_single.any():
        return first
    first_rounded = first_duplicates(*rounded)
    return np.where(np.isin(first_rounded, first_rounded[is_single]), first_rounded, first)


def _single(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    with np.errstate(over="ignore"):
        return rows.astype(np.float32)


def exact_copies(first: IntVector) -> Copies | None:
    """Groups of identical rows, from the first row like each; None where there are none, or where rows are coarse."""
    n_distinct = len(np.unique(first))
    if n_distinct == len(first) or n_distinct == 1 or len(first) > MOST_REPEATED * n_distinct:
        return None
    return Copies(np.unique(first, return_inverse=True)[1])


def near_copies(rows: npt.NDArray[np.integer[Any]], distances: FloatMatrix, exact: Copies | None) -> Copies | None:
    """The same with near-copies, from the nearest rows of each row (-1 where there are fewer); None if there are none.

    Exact copies must not be among the nearest.
    """
    n_rows, size = distances.shape
    if size < 2 or (distances < 0).any():  # inner products are no distances
        return exact
    found = np.where(rows >= 0, distances, np.inf)
    scale = around(found)
    threshold = near_threshold(found)
    least = np.minimum(scale[:, None], scale[rows])
    near = (found > 0) & (found <= threshold * least)
    if not near.any():
        return exact
    of_row, number = np.nonzero(near)
    exact_group = np.arange(n_rows) if exact is None else exact.group
    edges = exact_group[of_row], exact_group[rows[of_row, number]]
    joined = connected_components(coo_array((np.ones(len(of_row)), edges), shape=(n_rows, n_rows)), directed=False)[1]
    group = np.unique(joined[exact_group], return_inverse=True)[1]
    nearness = np.where(near.any(axis=1), 1.0 - found[:, 0] / np.maximum(scale, TINY), 0.0)
    return Copies(group, threshold, nearness) if group.any() else exact  # one group of all rows says nothing


def joined(groups: IntVector | None, copies: Copies | None) -> IntVector | None:
    """Groups that were given and groups of copies as one: rows that any of them joins are together."""
    if groups is None or copies is None:
        return groups if copies is None else copies.group
    n_groups = int(groups.max()) + 1
    size = n_groups + int(copies.group.max()) + 1
    edges = coo_array((np.ones(len(groups)), (groups, n_groups + copies.group)), shape=(size, size))
    together = np.unique(connected_components(edges, directed=False)[1][groups], return_inverse=True)[1]
    return together if together.any() else groups  # one group of all rows says nothing


def near_threshold(distances: FloatMatrix) -> float:
    """t, from lists of distances in order (infinity where there are fewer)."""
    return min(NEAREST, float((CHANCE / (AROUND - 1)) ** (1.0 / _dimension(distances))))


def around(distances: FloatMatrix) -> FloatVector:
    """The scale of distances around each row: the distance to the 20th, or the last of fewer."""
    some = distances[:, :AROUND]
    return np.asarray(np.where(np.isfinite(some), some, 0.0).max(axis=1))


def _dimension(distances: FloatMatrix) -> float:
    """The dimension in which distances grow: twice as many neighbours are 2^(1/m) times as far."""
    last = min(AROUND, distances.shape[1])
    with np.errstate(invalid="ignore", divide="ignore"):
        growth = np.log(distances[:, last - 1] / distances[:, (last - 1) // 2])
    growth = growth[np.isfinite(growth)]
    doublings = np.log(last / ((last - 1) // 2 + 1))
    middle = float(np.median(growth)) if len(growth) else 0.0
    return max(1.0, doublings / middle) if middle > 0.0 else 1.0
