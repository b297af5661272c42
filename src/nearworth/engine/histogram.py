"""The compiled loops of classification within an error: points by cell, few of them ever ordered (Theorem H).

Exact distances to a few sampled points lay out a grid of cells. Every point falls into one, by its mark (see `kernels`)
or, where that is too close to a border, by its exact distance. A cell may stay as it is if all its points have one
status, or if it holds no more than the rule allows at its rank. The points of the others are *listed* and ordered, by
their marks where these tell and by exact distances where not. So cells, order and ties are those of the exact
distances, whatever produced the marks.

    lay_out       the grid                                                           sample
    locate        the cell of every point and the size of each; who is at a border   two passes over N
    relocate      those by their exact distances                                     few
    count_pivots  in each cell                                                       F
    judge_cells   which are too wide                                                 cells
    list_points   the points of those, by cell and mark                              a look at N, then few
    ask           for exact distances where marks leave their order in doubt         few
    order_chains  those by exact distances, into ties                                fewer
    bucket_tables.py   from far to near values by cell or listed point, and the error

Pivots are the rarer status. A place is 0..C-1 for the others of a cell, C..2C-1 for its pivots, then one for each
listed point, and the last one of the table for no player at all.
"""

# Kernels take arrays of several types and are typed by numba when first called.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearworth._compile import compiled
from nearworth.engine.bucket_tables import pivots_among, tabulate
from nearworth.engine.kernels import MARGIN, TOP, all_as_promised, as_promised, sort_pairs
from nearworth.engine.tables import fill
from nearworth.neighbors.distances import some_rows

CLOSE = 2**30  # set in the place of a point that is too close to a border
BELOW, ABOVE = 0.5, 0.25  # how far the grid goes beyond the sampled distances, as a share of their range
NEAR, COARSE = 10, 8  # cells are fine as far as a tenth of the sample, then so many times as wide
FUZZ = 2.0**-40  # of a cell: the rounding of positions


class Grid(NamedTuple):
    """Cells of equal width in distance, up to cell `bend`; COARSE times as wide from there on.

    What is nearer than the first cell belongs to it, what is farther than the last one to that.
    """

    begin: Any
    width: Any
    bend: Any
    count: Any


class Buckets(NamedTuple):
    """Working arrays of one thread."""

    place: npt.NDArray[np.int32]  # N
    sizes: npt.NDArray[np.int32]  # C: points of each cell, negative if they are listed
    hits: npt.NDArray[np.int32]  # C: its pivots
    ends: npt.NDArray[np.int32]  # C: where in the list its points end
    listed: npt.NDArray[np.int32]  # N: points of cells that are too wide, in order
    ranked: npt.NDArray[np.int32]  # N: their marks
    group: npt.NDArray[np.int32]  # N: the first of the listed points that each one is, or may be, tied with
    exact: npt.NDArray[np.float64]  # N: their exact distances where wanted, else NaN
    wanted: npt.NDArray[np.int32]  # N + 1: points whose exact distances are
    table: npt.NDArray[np.float64]  # 2C + N + 1: value of each place


def make_buckets(n_train: int, n_cells: int) -> Buckets:
    """Arrays for rows of so many points."""
    n, c = n_train, n_cells
    place, sizes, hits, ends, listed, ranked, group, wanted = (
        np.empty(length, dtype=np.int32) for length in (n, c, c, c, n, n, n, n + 1)
    )
    table = np.zeros(2 * c + n + 1)
    return Buckets(place, sizes, hits, ends, listed, ranked, group, np.empty(n), wanted, table)


@compiled
def lay_out(distances, points, left_out, n_cells, buckets):
    """A grid around sampled distances; of no width if these are all the same, or none is finite."""
    found, size = buckets.exact, 0
    for k in range(points.shape[0]):
        if points[k] != left_out and np.isfinite(distances[k]):
            found[size] = distances[k]
            size += 1
    sort_pairs(found[:size], buckets.wanted[:size])  # the points do not matter here
    if size == 0 or found[0] == found[size - 1]:
        return Grid(0.0, 0.0, 0.0, 1)
    low, span = found[0], found[size - 1] - found[0]
    fine = n_cells / (1.0 + BELOW + ABOVE)
    bend = np.floor(fine * ((found[size // NEAR] - low) / span + BELOW))
    return Grid(low - BELOW * span, span / fine, bend, np.int64(bend + (n_cells - bend) / COARSE) + 1)


@compiled
def cell_of(distance, grid):
    """The cell of an exact distance."""
    if grid.width == 0.0:
        return 0
    position = (distance - grid.begin) / grid.width
    position = min(position, grid.bend + (position - grid.bend) / COARSE)
    return np.int64(min(max(position, 0.0), grid.count - 1.0))


@compiled
def locate(marks, lowest, highest, line, reach, grid, buckets):
    """The cell of every point by its mark; those that may be in another one go to `wanted`.

    Returns how many. A mark is off by at most half its reach. Marks of infinite keys say nothing at all.
    """
    place, wanted, sizes = buckets.place, buckets.wanted, buckets.sizes
    per_mark = 1.0 / (grid.width * line.slope) if grid.width * line.slope > 0.0 else np.inf
    first = (grid.begin - line.origin) * line.slope + MARGIN
    margin = (0.5 * max(reach.near, reach.far) + 2.0) * per_mark
    fill(sizes, 0, grid.count, 0)
    if not (margin < 0.25 and abs(first) < 2.0 * TOP) or lowest < MARGIN or highest > TOP - MARGIN:
        for i in range(marks.shape[0]):
            place[i], wanted[i] = 0, i
        sizes[0] = marks.shape[0]
        return marks.shape[0]
    mark_cells(marks, first, per_mark, margin, grid, place)
    found, cells = np.uint64(0), CLOSE - 1
    for i in range(marks.shape[0]):
        wanted[found] = i
        found += np.uint64(place[i] >> 30)
        sizes[np.uint64(place[i] & cells)] += 1
    return np.int64(found)


@compiled
def mark_cells(marks, first, per_mark, margin, grid, place):
    """The cells alone, with a flag: a loop that takes many points at a time."""
    bend, last, coarse = grid.bend, grid.count - margin, 1.0 / COARSE
    for i in range(marks.shape[0]):
        position = (marks[i] - first) * per_mark
        close = margin if position < bend + 1.0 else margin * coarse + FUZZ
        position = min(position, bend + (position - bend) * coarse)
        position = min(max(position, margin), last)
        cell = np.int32(position)
        away = position - cell
        place[i] = cell | (CLOSE if (away < close) | (away > 1.0 - close) else 0)


@compiled
def relocate(marks, distances, found, scale, reach, grid, buckets):
    """The cells of points in `wanted` by their exact distances; returns whether marks were `as_promised`."""
    place, wanted, sizes, kept = buckets.place, buckets.wanted, buckets.sizes, True
    for k in range(found):
        i = np.uint64(wanted[k])
        sizes[place[i] & (CLOSE - 1)] -= 1
        place[i] = cell_of(distances[k], grid)
        sizes[place[i]] += 1
        kept &= as_promised(marks[i], distances[k], scale, reach)
    return kept


@compiled
def count_pivots(pivots, left_out, n_cells, buckets):
    """How many pivots each cell has; they then have places of their own, and who is left out has none."""
    place, sizes, hits = buckets.place, buckets.sizes, buckets.hits
    fill(hits, 0, n_cells, 0)
    if left_out >= 0:
        sizes[place[left_out]] -= 1
    for j in range(pivots.shape[0]):
        i = np.uint64(pivots[j])
        hits[np.uint64(place[i])] += pivots[j] != left_out
        place[i] += n_cells
    if left_out >= 0:
        place[left_out] = buckets.table.shape[0] - 1


@compiled
def judge_cells(n_cells, theta, prefix, buckets):
    """Find the cells that are too wide (see `games.buckets.BucketRule`); those of one status never are.

    Returns how many points they have, and the last of them.
    """
    sizes, cell_hits, ends = buckets.sizes, buckets.hits, buckets.ends
    listed, last, after = 0, -1, 0
    for cell in range(n_cells):
        size, hits = np.int64(sizes[cell]), cell_hits[cell]
        ends[cell] = listed
        if 0 < hits < size and not (after >= prefix and size - 1 <= theta * after * after):
            sizes[cell] = -size
            listed += size
            last = cell
        after += size
    return listed, last


@compiled
def list_points(marks, n_cells, last, buckets):
    """List the points of cells that are too wide, by mark."""
    place, sizes, ends, listed, ranked = buckets.place, buckets.sizes, buckets.ends, buckets.listed, buckets.ranked
    near, found = buckets.wanted, np.uint64(0)
    for i in range(place.shape[0]):
        cell = place[i] - n_cells if place[i] >= n_cells else place[i]
        near[found] = i
        found += np.uint64(cell <= last)
    for j in range(np.int64(found)):
        i = np.uint64(near[j])
        cell = np.uint64(place[i] - n_cells if place[i] >= n_cells else place[i])
        if sizes[cell] < 0:
            k = ends[cell]
            listed[k], ranked[k] = i, marks[i]
            ends[cell] = k + 1
    begin = 0
    for cell in range(last + 1):
        end = ends[cell]
        if end - begin > 1:
            sort_pairs(ranked[begin:end], listed[begin:end])
        begin = end


@compiled
def ask(n_cells, last, reach, buckets):
    """Find the listed points whose order is in doubt, in chains; returns how many exact distances are wanted.

    The order of points of one status does not matter.
    """
    listed, ranked, group, exact = buckets.listed, buckets.ranked, buckets.group, buckets.exact
    place, ends, asked = buckets.place, buckets.ends, buckets.wanted
    wanted = k = 0
    for cell in range(last + 1):
        while k < ends[cell]:
            first, hits, close = k, 0, True
            while close:
                group[k], exact[k] = k, np.nan
                hits += place[listed[k]] >= n_cells
                reached = ranked[k] + (reach.near if ranked[k] < reach.border else reach.far)
                k += 1
                close = k < ends[cell] and ranked[k] <= reached
            if 0 < hits < k - first:
                for j in range(first, k):
                    group[j], exact[j] = first, 0.0
                    asked[wanted] = listed[j]
                    wanted += 1
    return wanted


@compiled
def order_chains(marks, distances, wanted, scale, reach, n_cells, by_index, buckets):
    """Order the chains by exact distances; a group is then a tie of both statuses, everybody else stands alone.

    Returns whether marks were `as_promised`.
    """
    place, listed, group, exact = buckets.place, buckets.listed, buckets.group, buckets.exact
    kept, j, k = True, 0, 0
    while j < wanted:
        while np.isnan(exact[k]):
            k += 1
        first = k
        while j < wanted and not np.isnan(exact[k]) and group[k] == first:
            exact[k] = distances[j]
            kept &= as_promised(marks[listed[k]], distances[j], scale, reach)
            j, k = j + 1, k + 1
        sort_pairs(exact[first:k], listed[first:k])
        tie = first
        for i in range(first + 1, k + 1):
            if i == k or by_index or exact[i] != exact[tie]:
                hits = pivots_among(tie, i, n_cells, place, listed)
                for t in range(tie, i):
                    group[t] = tie if 0 < hits < i - tie else t
                tie = i
    return kept


@compiled
def begin_row(marks, found, distances, scale, reach, grid, pivots, left_out, theta, prefix, buckets):
    """From the points that `locate` found, and their distances, to those whose order is in doubt.

    Returns how many are listed, how many are in doubt, and whether marks kept their promise.
    """
    n_cells, wanted = grid.count, 0
    kept = relocate(marks, distances, found, scale, reach, grid, buckets)
    count_pivots(pivots, left_out, n_cells, buckets)
    n_listed, last = judge_cells(n_cells, theta, prefix, buckets)
    if n_listed > 0:
        list_points(marks, n_cells, last, buckets)
        wanted = ask(n_cells, last, reach, buckets)
    return n_listed, wanted, kept


@compiled
def end_row(
    marks, distances, scale, reach, n_cells, n_listed, wanted, pivots_match, left_out, by_index,
    k_nearest, theta, prefix, for_match, for_other, buckets,
):  # fmt: skip
    """Everything after; returns by how much any value may be wrong, and whether marks kept their promise."""
    kept = order_chains(marks, distances, wanted, scale, reach, n_cells, by_index, buckets)
    n_players = marks.shape[0] - (left_out >= 0)
    worst = tabulate(
        n_cells, n_listed, n_players, pivots_match, for_match, for_other, k_nearest, theta, prefix, buckets
    )
    return worst, kept


@compiled
def whole_row(
    marks, lowest, highest, reach, scale, line, pivots, pivots_match, left_out, by_index, n_cells,
    k_nearest, theta, prefix, query, points, sample, distances, for_match, for_other, buckets,
):  # fmt: skip
    """All of a row whose exact distances are those between a query and the points.

    Returns how many of them were needed, by how much any value may be wrong, and whether marks kept their promise.
    """
    some_rows(query, points, sample, distances)
    kept = all_as_promised(marks, sample, distances, scale, reach)
    grid = lay_out(distances, sample, left_out, n_cells, buckets)
    found = locate(marks, lowest, highest, line, reach, grid, buckets)
    some_rows(query, points, buckets.wanted[:found], distances)
    n_listed, wanted, still = begin_row(
        marks, found, distances, scale, reach, grid, pivots, left_out, theta, prefix, buckets
    )
    some_rows(query, points, buckets.wanted[:wanted], distances)
    worst, too = end_row(
        marks, distances, scale, reach, grid.count, n_listed, wanted, pivots_match, left_out, by_index,
        k_nearest, theta, prefix, for_match, for_other, buckets,
    )  # fmt: skip
    return found + wanted, worst, kept & still & too
