"""The compiled loops of classification that find every point's place, blind to policy.

Values change only where the match status changes along the ranks. So only the rarer of the two statuses is
sorted, its F points are the *pivots*, and every other point only needs to know between which two it falls.

    mark_panel    keys of some points as whole numbers of 30 bits                       one pass over N
    sort_pivots   pivots by cell (the leading bits of the mark), then by mark           F
    flag_cells    cells with a pivot inside or within reach: order matters there        F
    place_cells   others: the place of their cell; a list of those in flagged cells     one pass over N
    place_flagged those: the place by their own mark; a list of who is too close        few
    ask           the pivots whose exact distances are needed for that                  fewer
    settle        places of those by exact distances; tied ones apart                   fewer
    tables.py     from far to near one value per place; total[i] += w * table[place[i]]

Keys may be off by some rounding (a matrix product), and marks round them once more. Whoever lies within `reach` of a
pivot is settled by exact distances, so the order, the ties and with them every bit of the result are those of the
exact distances, whatever produced the keys. Errors of keys are larger for near points, hence two reaches: the second
one holds from a border on.

A place is 0..F for strictly between pivots; F+1..2F+1 for tied with the pivots that begin at place - F - 1;
2F+2..3F+1 for pivot place - 2F - 2 itself; 3F+2 for no player at all.
"""

# Kernels take arrays of several types and are typed by numba when first called.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearworth._common.compile import compiled
from nearworth.engine.tables import fill, tabulate, tabulate_matches
from nearworth.neighbors.distances import FEW, some_rows, sort_pairs

# Marks of finite keys lie between MARGIN and TOP - MARGIN, and a reach is never more than MARGIN / 2, so that infinite
# keys, whose marks are cut off at 0 and TOP, are in doubt with each other only.
TOP, MARGIN = 2**30, 2**20
FLAG = 2**30  # set in the place of a cell where marks alone do not tell
# In the passes over N, indices are unsigned: numba then need not ask whether they count from the end.
ONE = np.uint64(1)
UNIT = 2.0**-53


class Scratch(NamedTuple):
    """Working arrays of one thread for rows of N keys with up to F pivots."""

    place: npt.NDArray[np.int32]  # N: the place of each point
    cells: npt.NDArray[np.int32]  # cells + 3: cells[c + 1] is the place of cell c, cells[c] its first pivot
    order: npt.NDArray[np.int32]  # F: pivots by rank
    ranked: npt.NDArray[np.int32]  # F + 2: their marks between two that are out of reach
    exact: npt.NDArray[np.float64]  # F: their exact distances where wanted, else NaN
    chain: npt.NDArray[np.int32]  # F + 1: first pivot of each pivot's chain of doubt
    between: npt.NDArray[np.int32]  # F + 2: others between pivots; at the end, those who take no part
    tied: npt.NDArray[np.int32]  # F + 1: others tied with the pivots that begin here
    asked: npt.NDArray[np.int32]  # F: first pivots of the chains whose exact distances are wanted
    doubtful: npt.NDArray[np.int32]  # N + F + 1: points whose exact distance is wanted
    table: npt.NDArray[np.float64]  # 3F + 3: value of each place


class Reach(NamedTuple):
    """How far two marks must be apart to be surely in the right order: `near` before the mark `border`, then `far`."""

    near: Any
    far: Any
    border: Any


def make_scratch(n_train: int, most_pivots: int) -> Scratch:
    """Arrays for rows of so many points and pivots."""
    n, f = n_train, most_pivots
    n_cells = min(1 << 20, max(64, 1 << (8 * f).bit_length()))
    place, cells, order, chain, between, tied, asked, doubtful = (
        np.empty(size, dtype=np.int32) for size in (n, n_cells + 3, f, f + 1, f + 2, f + 1, f, n + f + 1)
    )
    ranked, exact, table = np.empty(f + 2, dtype=np.int32), np.empty(f), np.empty(3 * f + 3)
    return Scratch(place, cells, order, ranked, exact, chain, between, tied, asked, doubtful, table)


@compiled
def finite_range(keys):
    """Lowest and highest finite key, or zeros."""
    low, high = np.inf, -np.inf
    for i in range(keys.shape[0]):
        if np.isfinite(keys[i]):
            low, high = min(low, keys[i]), max(high, keys[i])
    return (low, high) if low <= high else (0.0, 0.0)


@compiled
def mark_scale(low, high, reach, far_reach, border):
    """By what to multiply keys that lie, if finite, between `low` and `high`; and the other three in marks.

    From a key to its mark there are three roundings of numbers not above |low| + |high| (add the norm, subtract,
    scale), one of a number up to TOP and one to a whole number: `extra` covers them for both of two keys.
    """
    extra = 4.0 * UNIT * (abs(low) + abs(high))
    scale = (TOP - 2 * MARGIN) / (high - low) if high > low else np.inf
    scale = min(scale, 0.25 * MARGIN / (reach + extra)) if reach + extra > 0 else (scale if scale < np.inf else 1.0)
    scale = min(scale, 1e290)  # keys all but equal: one mark for all, all in doubt
    extra = np.ceil(2.0 * extra * scale) + 2.0
    near, far = np.int64(reach * scale + extra), np.int64(far_reach * scale + extra)
    edge = np.int64(min(max((border - low) * scale + MARGIN + 2.0 * near, 0.0), 2.0 * TOP - 1.0))
    return scale, Reach(near, far, edge)


@compiled
def mark_panel(products, norms, lows, scales, start, marks, lowest, highest):
    """Whole numbers in the order of the keys (products plus norms), of the points from `start` on.

    Keeps the range of each query.
    """
    for q in range(products.shape[0]):
        lowest[q], highest[q] = _mark(
            products[q], norms[start:], lows[q], scales[q], marks[q, start:], np.int32(lowest[q]), np.int32(highest[q])
        )


@compiled
def _mark(products, norms, low, scale, marks, lowest, highest):
    for i in range(products.shape[0]):
        value = (np.float64(products[i]) + norms[i] - low) * scale + MARGIN
        value = value if value > 0.0 else 0.0
        whole = np.int32(value if value < TOP else TOP)
        marks[i] = whole
        lowest, highest = min(lowest, whole), max(highest, whole)
    return lowest, highest


@compiled
def as_promised(mark, distance, scale, reach):
    """Whether a mark is no farther off than half its reach, with a quarter to spare.

    `scale` takes distances to marks; NaN where there is nothing to look for.
    """
    allowed = 0.375 * (reach.near if mark < reach.border else reach.far)
    return not abs(distance * scale + MARGIN - mark) > allowed


@compiled
def all_as_promised(marks, points, distances, scale, reach):
    """The same of some points."""
    kept = True
    for k in range(points.shape[0]):
        kept &= as_promised(marks[points[k]], distances[k], scale, reach)
    return kept


@compiled
def sort_pivots(marks, pivots, left_out, lowest, shift, n_cells, scratch):
    """Order the pivots by mark and note where each cell ends; returns how many there are and the fullest cell's size.

    Pivots, and the point left out, then get a mark beyond all cells: nobody need ask again who they are.
    """
    cells, order, ranked = scratch.cells, scratch.order, scratch.ranked
    fill(cells, 0, n_cells + 2, 0)
    fullest, nowhere = 0, np.int32(lowest + (n_cells << shift))
    if left_out >= 0:
        marks[left_out] = nowhere
    for j in range(pivots.shape[0]):
        cell = np.uint64((marks[np.uint64(pivots[j])] - lowest) >> shift) + ONE
        cells[cell] += 1
        fullest = max(fullest, cells[cell])
    cells[n_cells + 1] = count = 0
    for cell in range(1, n_cells + 1):
        size, cells[cell] = cells[cell], count
        count += size
    for j in range(pivots.shape[0]):
        point = np.uint64(pivots[j])
        value = marks[point]
        cell = np.uint64((value - lowest) >> shift) + ONE
        place = np.uint64(cells[cell])
        cells[cell] += 1
        if value != nowhere:
            order[place], ranked[place + ONE], marks[point] = point, value, nowhere
    ranked[0], ranked[count + 1] = -(2**30), 2**31 - 1
    cells[n_cells + 1] = count + 1
    _sort_cells(count, n_cells, fullest, scratch)
    return count, fullest


@compiled
def _sort_cells(count, n_cells, fullest, scratch):
    cells, order, ranked = scratch.cells, scratch.order, scratch.ranked
    if fullest <= FEW:  # cells are in order already, so nobody moves farther than a cell
        _insert(ranked[1 : count + 1], order[:count])
        return
    for cell in range(n_cells):
        start, end = cells[cell], cells[cell + 1]
        if end - start > 1:
            sort_pairs(ranked[start + 1 : end + 1], order[start:end])


@compiled
def _insert(values, points):
    """Plain insertion of values that are nearly in order, their points along with them."""
    for j in range(1, values.shape[0]):
        value, point, k = values[j], points[j], j
        while k > 0 and values[k - 1] > value:
            values[k], points[k] = values[k - 1], points[k - 1]
            k -= 1
        values[k], points[k] = value, point


@compiled
def flag_cells(count, lowest, shift, n_cells, reach, scratch):
    """Flag the cells within reach of a pivot, and link pivots whose own order is in doubt into chains."""
    cells, ranked, chain = scratch.cells, scratch.ranked, scratch.chain
    done = 0
    for j in range(count):
        value = np.int64(ranked[j + 1])
        close = reach.near if value < reach.border + reach.near else reach.far
        first = max((max(value - close, lowest) - lowest) >> shift, done)
        done = min(((value + close - lowest) >> shift) + 1, n_cells)
        for cell in range(first, done):
            cells[np.uint64(cell) + ONE] |= FLAG
        close = reach.near if ranked[j] < reach.border else reach.far
        chain[j] = chain[j - 1] if j > 0 and value <= ranked[j] + 2 * close else j
    chain[count] = count


@compiled
def place_cells(marks, lowest, shift, scratch):
    """Give every point the place of its cell and count it there; list those in flagged cells."""
    place, cells = scratch.place, scratch.cells
    between, doubtful = scratch.between, scratch.doubtful
    listed = np.uint64(0)
    for i in range(marks.shape[0]):
        found = cells[np.uint64((marks[i] - lowest) >> shift) + ONE]
        place[i] = found
        between[np.uint64(found & (FLAG - 1))] += 1
        doubtful[listed] = i
        listed += np.uint64(found >> 30)
    return np.int64(listed)


@compiled
def place_flagged(marks, listed, lowest, shift, by_halves, reach, scratch):
    """Place the listed points by their own marks; keep on the list those within reach of a pivot."""
    place, cells, ranked = scratch.place, scratch.cells, scratch.ranked
    between, doubtful = scratch.between, scratch.doubtful
    kept = np.uint64(0)
    for k in range(listed):
        i = np.uint64(doubtful[np.uint64(k)])
        value = marks[i]
        cell = np.uint64((value - lowest) >> shift)
        p, end = np.uint64(cells[cell] & (FLAG - 1)), np.uint64(cells[cell + ONE] & (FLAG - 1))
        between[end] -= 1
        if by_halves:
            while p < end:
                middle = (p + end) >> ONE
                if ranked[middle + ONE] < value:
                    p = middle + ONE
                else:
                    end = middle
        p += np.uint64(ranked[p + ONE] < value)  # nearly always enough, and nothing to predict
        p += np.uint64(ranked[p + ONE] < value)
        while ranked[p + ONE] < value:
            p += ONE
        place[i] = p
        between[p] += 1
        close = reach.near if value < reach.border else reach.far
        doubtful[kept] = i
        kept += np.uint64((ranked[p + ONE] <= value + close) | (ranked[p] >= value - close))
    return np.int64(kept)


@compiled
def chain_end(chain, first):
    """One past the last pivot of the chain that begins at `first`."""
    end = first + 1
    while chain[end] == first:
        end += 1
    return end


@compiled
def chain_in_doubt(marks, point, reach, scratch):
    """First pivot of the chain that a point on the list is too close to."""
    p, value = scratch.place[point], marks[point]
    close = reach.near if value < reach.border else reach.far
    return scratch.chain[p - 1 if scratch.ranked[p] >= value - close else p]


@compiled
def ask(marks, others, count, reach, scratch):
    """Append the pivots of the chains in doubt to the list; returns its length and how many chains are in `asked`."""
    doubtful, exact, chain, order = scratch.doubtful, scratch.exact, scratch.chain, scratch.order
    fill(exact, 0, count, np.nan)
    wanted, n_asked = others, 0
    for k in range(others):
        first = chain_in_doubt(marks, doubtful[k], reach, scratch)
        if np.isnan(exact[first]):
            scratch.asked[n_asked] = first
            n_asked += 1
            for j in range(first, chain_end(chain, first)):
                exact[j] = 0.0
                doubtful[wanted] = order[j]
                wanted += 1
    return wanted, n_asked


@compiled
def settle(marks, distances, scale, others, n_asked, count, reach, by_index, left_out, scratch):
    """Put right, by exact distances, the order of chains and the places of others in doubt; then place the pivots.

    Returns whether anybody is tied with a pivot, and whether all marks seen are `as_promised`.
    """
    place, order, exact, chain = scratch.place, scratch.order, scratch.exact, scratch.chain
    between, tied, doubtful = scratch.between, scratch.tied, scratch.doubtful
    k, any_tied, kept = others, False, True
    for asked in range(n_asked):
        first = scratch.asked[asked]
        end = chain_end(chain, first)
        for j in range(first, end):
            exact[j] = distances[k]
            k += 1
        sort_pairs(exact[first:end], order[first:end])
    for k in range(others):
        i, distance = doubtful[k], distances[k]
        kept &= as_promised(marks[i], distance, scale, reach)
        low = chain_in_doubt(marks, i, reach, scratch)
        end = chain_end(chain, low)
        high = end
        while low < high:
            middle = (low + high) // 2
            if exact[middle] < distance or (by_index and exact[middle] == distance and order[middle] < i):
                low = middle + 1
            else:
                high = middle
        between[place[i]] -= 1
        if not by_index and low < end and exact[low] == distance:
            tied[low] += 1
            any_tied = True
            place[i] = count + 1 + low
        else:
            between[low] += 1
            place[i] = low
    for j in range(count):
        place[np.uint64(order[j])] = 2 * count + 2 + j
    if left_out >= 0:
        place[left_out] = 3 * count + 2
    return any_tied, kept


@compiled
def begin_row(marks, lowest, highest, reach, pivots, left_out, scratch):
    """Everything before exact distances, from marks (which change) that lie between the lowest and the highest.

    Returns the number of pivots, how many others and points in all want exact distances, and how many chains.
    """
    shift = 0
    while ((highest - lowest) >> shift) + 4 > scratch.cells.shape[0]:
        shift += 1
    n_cells = ((highest - lowest) >> shift) + 1
    count, fullest = sort_pivots(marks, pivots, left_out, lowest, shift, n_cells, scratch)
    fill(scratch.between, 0, count + 2, 0)
    fill(scratch.tied, 0, count + 1, 0)
    flag_cells(count, lowest, shift, n_cells, reach, scratch)
    listed = place_cells(marks, lowest, shift, scratch)
    others = place_flagged(marks, listed, lowest, shift, fullest > FEW, reach, scratch)
    wanted, n_asked = ask(marks, others, count, reach, scratch)
    return count, others, wanted, n_asked


@compiled
def end_row(
    marks, distances, scale, count, others, n_asked, reach, pivots_match, left_out, by_index,
    worth, loss, for_match, for_other, scratch,
):  # fmt: skip
    """Everything after them: the table then holds the values by place, if the marks kept their promise (returned)."""
    any_tied, kept = settle(marks, distances, scale, others, n_asked, count, reach, by_index, left_out, scratch)
    n_players = scratch.place.shape[0] - (left_out >= 0)
    if pivots_match and not any_tied:
        tabulate_matches(count, n_players, worth, loss, for_match, for_other, scratch.between, scratch.table)
    else:
        tabulate(count, n_players, pivots_match, by_index, worth, loss, for_match, for_other, scratch)
    return kept


@compiled
def whole_row(
    marks, lowest, highest, reach, scale, pivots, pivots_match, left_out, by_index,
    query, points, watched, distances, worth, loss, for_match, for_other, scratch,
):  # fmt: skip
    """Begin and end of a row whose exact distances are those between a query and the points, in one go.

    Returns how many of them were needed, and whether marks kept their promise.
    """
    some_rows(query, points, watched, distances)
    kept = all_as_promised(marks, watched, distances, scale, reach)
    count, others, wanted, n_asked = begin_row(marks, lowest, highest, reach, pivots, left_out, scratch)
    some_rows(query, points, scratch.doubtful[:wanted], distances)
    kept &= end_row(
        marks, distances, scale, count, others, n_asked, reach, pivots_match, left_out, by_index,
        worth, loss, for_match, for_other, scratch,
    )  # fmt: skip
    return wanted, kept
