"""The compiled loops of classification: a slot for every training point, a value for every slot. No policy in here.

Values change only where the match status changes along the ranks. So only the rarer of the two statuses is
sorted: its F points are the *pivots*. Every other point only needs to know between which two pivots it falls.

    quantise_panel     keys -> whole numbers of 30 bits ("qkeys")                            one pass over N
    sort_pivots        pivots by cell (the leading bits of the qkey), then by qkey            F
    flag_cells         cells with a pivot inside or within tolerance: order matters there     F
    assign_by_cell     other points: the slot of their cell; lists those in flagged cells     one pass over N
    assign_by_key      those: the slot of their own qkey; lists those within tolerance        few
    request_distances  the pivots whose exact distances are needed to resolve these           fewer
    resolve            slots by exact distances; ties get slots of their own                  fewer
    tabulate           from far to near, one value per slot                                   F

`begin_row` runs everything before exact distances are needed, `end_row` the rest; `whole_row` does both where the
distances can be computed here. The value of training point i is then table[slot[i]].

Keys from a matrix product carry rounding errors, and quantising rounds once more. A point within `tolerance` of a
pivot is resolved by exact distances, so order, ties and every bit of the result are those of the exact distances,
whatever produced the keys. Errors are larger for near points, hence two tolerances: the second holds from a border on.

Slot 0..F: strictly between pivots. F+1..2F+1: tied with the pivots that begin at slot - F - 1.
2F+2..3F+1: pivot number slot - 2F - 2 itself. 3F+2: the query itself, which takes no part.
"""

# Kernels take arrays of several types and are typed by numba when first called.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearworth._common.compile import compiled

# Finite keys quantise to MARGIN .. TOP - MARGIN and a tolerance is at most MARGIN / 2. Infinite keys are clipped to 0
# and TOP, so they are ambiguous only among themselves.
TOP, MARGIN = 2**30, 2**20
FLAG = 2**30  # set in the slot of a cell that holds a pivot or is within tolerance of one
# In the passes over N, indices are unsigned: numba then skips the test for negative ones.
ONE = np.uint64(1)
UNIT = 2.0**-53
FEW = 24  # pairs up to which plain insertion is the fastest sort


class Tolerance(NamedTuple):
    """How far apart two qkeys must be for their order to be certain: `near` below the qkey `border`, then `far`."""

    near: Any
    far: Any
    border: Any


@compiled
def some_rows(query, points, rows, out):
    """Squared distances in the order of native/distances.c: eight sums, then the tree."""
    width = points.shape[1]
    whole = width - width % 8
    for k in range(rows.shape[0]):
        row = np.uint64(rows[k])
        a = b = c = d = e = f = g = h = 0.0
        for j in range(0, whole, 8):
            a += (points[row, j] - query[j]) ** 2
            b += (points[row, j + 1] - query[j + 1]) ** 2
            c += (points[row, j + 2] - query[j + 2]) ** 2
            d += (points[row, j + 3] - query[j + 3]) ** 2
            e += (points[row, j + 4] - query[j + 4]) ** 2
            f += (points[row, j + 5] - query[j + 5]) ** 2
            g += (points[row, j + 6] - query[j + 6]) ** 2
            h += (points[row, j + 7] - query[j + 7]) ** 2
        for j in range(whole, width):
            term, lane = (points[row, j] - query[j]) ** 2, j - whole
            a += term if lane == 0 else 0.0
            b += term if lane == 1 else 0.0
            c += term if lane == 2 else 0.0
            d += term if lane == 3 else 0.0
            e += term if lane == 4 else 0.0
            f += term if lane == 5 else 0.0
            g += term if lane == 6 else 0.0
        out[k] = ((a + b) + (c + d)) + ((e + f) + (g + h))


@compiled
def sort_pairs(values, points):
    """Sort both by (value, point) in place: insertion over shrinking gaps, plain insertion for a few."""
    size = values.shape[0]
    gap = 1
    while size > FEW and 9 * gap < 4 * size:
        gap = (9 * gap) // 4 + 1
    while True:
        for j in range(gap, size):
            value, point, k = values[j], points[j], j
            while k >= gap and (values[k - gap] > value or (values[k - gap] == value and points[k - gap] > point)):
                values[k], points[k] = values[k - gap], points[k - gap]
                k -= gap
            values[k], points[k] = value, point
        if gap == 1:
            return
        gap = max(1, (4 * gap) // 9)


@compiled
def fill(array, start, stop, value):
    """array[start:stop] = value, which takes numba ten times as long to compile."""
    for i in range(start, stop):
        array[i] = value


@compiled
def finite_range(keys):
    """Lowest and highest finite key, or zeros."""
    low, high = np.inf, -np.inf
    for i in range(keys.shape[0]):
        if np.isfinite(keys[i]):
            low, high = min(low, keys[i]), max(high, keys[i])
    return (low, high) if low <= high else (0.0, 0.0)


@compiled
def quantum(low, high, tolerance, far_tolerance, border):
    """The factor from keys (between `low` and `high` if finite) to qkeys, and the tolerances and border as qkeys.

    From a key to its qkey there are three roundings of numbers not above |low| + |high| (add the norm, subtract,
    scale), one of a number up to TOP and one to a whole number: `extra` covers them for both of two keys.
    """
    extra = 4.0 * UNIT * (abs(low) + abs(high))
    scale = (TOP - 2 * MARGIN) / (high - low) if high > low else np.inf
    scale = (
        min(scale, 0.25 * MARGIN / (tolerance + extra)) if tolerance + extra > 0 else (scale if scale < np.inf else 1.0)
    )
    scale = min(scale, 1e290)  # keys all but equal: one qkey for all, all ambiguous
    extra = np.ceil(2.0 * extra * scale) + 2.0
    near, far = np.int64(tolerance * scale + extra), np.int64(far_tolerance * scale + extra)
    edge = np.int64(min(max((border - low) * scale + MARGIN + 2.0 * near, 0.0), 2.0 * TOP - 1.0))
    return scale, Tolerance(near, far, edge)


@compiled
def quantise_panel(products, norms, lows, scales, start, qkeys, lowest, highest):
    """Quantise keys (products plus norms) of the points from `start` on; updates the range of each query."""
    for q in range(products.shape[0]):
        lowest[q], highest[q] = _quantise(
            products[q], norms[start:], lows[q], scales[q], qkeys[q, start:], np.int32(lowest[q]), np.int32(highest[q])
        )


@compiled
def _quantise(products, norms, low, scale, qkeys, lowest, highest):
    for i in range(products.shape[0]):
        value = (np.float64(products[i]) + norms[i] - low) * scale + MARGIN
        value = value if value > 0.0 else 0.0
        whole = np.int32(value if value < TOP else TOP)
        qkeys[i] = whole
        lowest, highest = min(lowest, whole), max(highest, whole)
    return lowest, highest


@compiled
def within_tolerance(qkey, distance, scale, tolerance):
    """Whether a qkey deviates from its exact distance by less than 3/8 of the tolerance (1/2 is what it may).

    `scale` is the factor from distances to qkeys, NaN where they cannot be compared.
    """
    allowed = 0.375 * (tolerance.near if qkey < tolerance.border else tolerance.far)
    return not abs(distance * scale + MARGIN - qkey) > allowed


@compiled
def all_within_tolerance(qkeys, points, distances, scale, tolerance):
    """The same for some points."""
    accurate = True
    for k in range(points.shape[0]):
        accurate &= within_tolerance(qkeys[points[k]], distances[k], scale, tolerance)
    return accurate


@compiled
def sort_pivots(qkeys, pivots, self_index, lowest, shift, n_cells, scratch):
    """Order the pivots by qkey and record where each cell ends; returns their number and the fullest cell's size.

    Pivots, and the query itself, then get a qkey beyond all cells, so later passes need not recognise them.
    """
    cells, order, ranked = scratch.cells, scratch.order, scratch.ranked
    fill(cells, 0, n_cells + 2, 0)
    fullest, beyond = 0, np.int32(lowest + (n_cells << shift))
    if self_index >= 0:
        qkeys[self_index] = beyond
    for j in range(pivots.shape[0]):
        cell = np.uint64((qkeys[np.uint64(pivots[j])] - lowest) >> shift) + ONE
        cells[cell] += 1
        fullest = max(fullest, cells[cell])
    cells[n_cells + 1] = count = 0
    for cell in range(1, n_cells + 1):
        size, cells[cell] = cells[cell], count
        count += size
    for j in range(pivots.shape[0]):
        point = np.uint64(pivots[j])
        value = qkeys[point]
        cell = np.uint64((value - lowest) >> shift) + ONE
        slot = np.uint64(cells[cell])
        cells[cell] += 1
        if value != beyond:
            order[slot], ranked[slot + ONE], qkeys[point] = point, value, beyond
    ranked[0], ranked[count + 1] = -(2**30), 2**31 - 1
    cells[n_cells + 1] = count + 1
    _sort_cells(count, n_cells, fullest, scratch)
    return count, fullest


@compiled
def _sort_cells(count, n_cells, fullest, scratch):
    cells, order, ranked = scratch.cells, scratch.order, scratch.ranked
    if fullest <= FEW:  # cells are in order already, so no pivot moves farther than a cell
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
def flag_cells(count, lowest, shift, n_cells, tolerance, scratch):
    """Flag the cells within tolerance of a pivot, and link pivots within tolerance of each other into chains."""
    cells, ranked, chain, chain_end = scratch.cells, scratch.ranked, scratch.chain, scratch.chain_end
    done = 0
    for j in range(count):
        value = np.int64(ranked[j + 1])
        close = tolerance.near if value < tolerance.border + tolerance.near else tolerance.far
        first = max((max(value - close, lowest) - lowest) >> shift, done)
        done = min(((value + close - lowest) >> shift) + 1, n_cells)
        for cell in range(first, done):
            cells[np.uint64(cell) + ONE] |= FLAG
        close = tolerance.near if ranked[j] < tolerance.border else tolerance.far
        chain[j] = chain[j - 1] if j > 0 and value <= ranked[j] + 2 * close else j
        chain_end[chain[j]] = j + 1
    chain[count] = count


@compiled
def assign_by_cell(qkeys, lowest, shift, scratch):
    """Give every point the slot of its cell and count it there; list those in flagged cells."""
    slot, cells = scratch.slot, scratch.cells
    between, ambiguous = scratch.between, scratch.ambiguous
    listed = np.uint64(0)
    for i in range(qkeys.shape[0]):
        found = cells[np.uint64((qkeys[i] - lowest) >> shift) + ONE]
        slot[i] = found
        between[np.uint64(found & (FLAG - 1))] += 1
        ambiguous[listed] = i
        listed += np.uint64(found >> 30)
    return np.int64(listed)


@compiled
def assign_by_key(qkeys, listed, lowest, shift, by_halves, tolerance, scratch):
    """Give the listed points the slot of their own qkey; those within tolerance of a pivot stay on the list."""
    slot, cells, ranked = scratch.slot, scratch.cells, scratch.ranked
    between, ambiguous = scratch.between, scratch.ambiguous
    listed_still = np.uint64(0)
    for k in range(listed):
        i = np.uint64(ambiguous[np.uint64(k)])
        value = qkeys[i]
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
        slot[i] = p
        between[p] += 1
        close = tolerance.near if value < tolerance.border else tolerance.far
        ambiguous[listed_still] = i
        listed_still += np.uint64((ranked[p + ONE] <= value + close) | (ranked[p] >= value - close))
    return np.int64(listed_still)


@compiled
def ambiguous_chain(qkeys, point, tolerance, scratch):
    """First pivot of the chain that a listed point is within tolerance of."""
    p, value = scratch.slot[point], qkeys[point]
    close = tolerance.near if value < tolerance.border else tolerance.far
    return scratch.chain[p - 1 if scratch.ranked[p] >= value - close else p]


@compiled
def request_distances(qkeys, others, count, tolerance, scratch):
    """Append the pivots of the chains concerned to the list; returns its length and how many chains are `requested`."""
    ambiguous, exact, order = scratch.ambiguous, scratch.exact, scratch.order
    fill(exact, 0, count, np.nan)
    wanted, n_chains = others, 0
    for k in range(others):
        first = ambiguous_chain(qkeys, ambiguous[k], tolerance, scratch)
        if np.isnan(exact[first]):
            scratch.requested[n_chains] = first
            n_chains += 1
            for j in range(first, scratch.chain_end[first]):
                exact[j] = 0.0
                ambiguous[wanted] = order[j]
                wanted += 1
    return wanted, n_chains


@compiled
def resolve(qkeys, distances, scale, others, n_chains, count, tolerance, by_index, self_index, scratch):
    """Order chains and assign ambiguous points by exact distances; then give the pivots their slots.

    Returns whether any point is tied with a pivot, and whether all qkeys seen are `within_tolerance`.
    """
    slot, order, exact, chain_end = scratch.slot, scratch.order, scratch.exact, scratch.chain_end
    between, tied, ambiguous = scratch.between, scratch.tied, scratch.ambiguous
    k, any_tied, accurate = others, False, True
    for requested in range(n_chains):
        first = scratch.requested[requested]
        end = chain_end[first]
        for j in range(first, end):
            exact[j] = distances[k]
            k += 1
        sort_pairs(exact[first:end], order[first:end])
    for k in range(others):
        i, distance = ambiguous[k], distances[k]
        accurate &= within_tolerance(qkeys[i], distance, scale, tolerance)
        low = ambiguous_chain(qkeys, i, tolerance, scratch)
        end = chain_end[low]
        high = end
        while low < high:
            middle = (low + high) // 2
            if exact[middle] < distance or (by_index and exact[middle] == distance and order[middle] < i):
                low = middle + 1
            else:
                high = middle
        between[slot[i]] -= 1
        if not by_index and low < end and exact[low] == distance:
            tied[low] += 1
            any_tied = True
            slot[i] = count + 1 + low
        else:
            between[low] += 1
            slot[i] = low
    for j in range(count):
        slot[np.uint64(order[j])] = 2 * count + 2 + j
    if self_index >= 0:
        slot[self_index] = 3 * count + 2
    return any_tied, accurate


@compiled
def tie_block(lost, position, size, matches, worth, loss):
    """Values of a match and of a non-match in a block of ties that ends at `position`, and what it adds to `lost`."""
    start = position - size
    total = inner = 0.0
    for rank in range(start + 1, position + 1):
        total += worth[rank]
        inner += (rank - 1 - start) * loss[rank]
    inner /= size * (size - 1.0)
    of_match = total / size - (matches - 1) * inner - lost
    return of_match, -matches * inner - lost, matches / size * (worth[start] - worth[position])


@compiled
def tabulate_matches(count, n_players, worth, loss, for_match, for_other, between, table):
    """`tabulate` where the pivots match and no other point is tied with one: the usual case, and the short one."""
    lost, position, shared = 0.0, np.uint64(n_players), 0.0
    table[count] = for_other
    position -= np.uint64(between[count])
    fresh = True
    for j in range(count - 1, -1, -1):
        shared = worth[position] - lost + for_match if fresh else shared
        table[2 * count + 2 + j] = shared
        lost += loss[position]
        table[j] = for_other - lost
        position -= np.uint64(between[j] + 1)
        fresh = between[j] > 0
    table[3 * count + 2] = 0.0


@compiled
def tabulate(count, n_players, pivots_match, by_index, worth, loss, for_match, for_other, scratch):
    """Fill the table of values by slot; `for_match` and `for_other` are the constants that the utility adds.

    From far to near, `lost` is what a point there loses to the matches beyond it. A match at the end of a run of
    matches has worth - lost; the whole run shares that value.
    """
    exact, chain, between, tied, table = scratch.exact, scratch.chain, scratch.between, scratch.tied, scratch.table
    lost, position, shared = 0.0, n_players, 0.0
    j = count
    while True:
        others = between[j]
        end, position = position, position - others
        table[j] = for_other - lost
        if not pivots_match:
            table[j] = worth[end] - lost + for_match
            lost += worth[position] - worth[end]
        if j == 0:
            break
        first = j - 1
        while not by_index and chain[first] < first and exact[first - 1] == exact[j - 1]:  # NaN equals nothing
            first -= 1
        pivots, together = j - first, tied[first]
        if together > 0:
            size = pivots + together
            of_match, of_other, added = tie_block(
                lost, position, size, pivots if pivots_match else together, worth, loss
            )
            of_match, of_other, lost = of_match + for_match, of_other + for_other, lost + added
            fill(table, 2 * count + 2 + first, 2 * count + 2 + j, of_match if pivots_match else of_other)
            table[count + 1 + first] = of_other if pivots_match else of_match
            shared, position = np.nan, position - size
        elif pivots_match:
            fresh = others > 0 or j == count or np.isnan(shared)
            shared = worth[position] - lost + for_match if fresh else shared
            for pivot in range(first, j):
                table[2 * count + 2 + pivot] = shared
                lost += loss[position]
                position -= 1
        else:
            for pivot in range(first, j):
                table[2 * count + 2 + pivot] = for_other - lost
            position -= pivots
        j = first
    table[3 * count + 2] = 0.0


@compiled
def begin_row(qkeys, lowest, highest, tolerance, pivots, self_index, scratch):
    """Everything before exact distances; overwrites the qkeys, which lie between the lowest and the highest.

    Returns the number of pivots, of other points and of all points that need exact distances, and of chains.
    """
    shift = 0
    while ((highest - lowest) >> shift) + 4 > scratch.cells.shape[0]:
        shift += 1
    n_cells = ((highest - lowest) >> shift) + 1
    count, fullest = sort_pivots(qkeys, pivots, self_index, lowest, shift, n_cells, scratch)
    fill(scratch.between, 0, count + 2, 0)
    fill(scratch.tied, 0, count + 1, 0)
    flag_cells(count, lowest, shift, n_cells, tolerance, scratch)
    listed = assign_by_cell(qkeys, lowest, shift, scratch)
    others = assign_by_key(qkeys, listed, lowest, shift, fullest > FEW, tolerance, scratch)
    wanted, n_chains = request_distances(qkeys, others, count, tolerance, scratch)
    return count, others, wanted, n_chains


@compiled
def end_row(
    qkeys, distances, scale, count, others, n_chains, tolerance, pivots_match, self_index, by_index,
    worth, loss, for_match, for_other, scratch,
):  # fmt: skip
    """Everything after exact distances: values by slot in the table, valid if the qkeys were accurate (returned)."""
    any_tied, accurate = resolve(
        qkeys, distances, scale, others, n_chains, count, tolerance, by_index, self_index, scratch
    )
    n_players = scratch.slot.shape[0] - (self_index >= 0)
    if pivots_match and not any_tied:
        tabulate_matches(count, n_players, worth, loss, for_match, for_other, scratch.between, scratch.table)
    else:
        tabulate(count, n_players, pivots_match, by_index, worth, loss, for_match, for_other, scratch)
    return accurate


@compiled
def whole_row(
    qkeys, lowest, highest, tolerance, scale, pivots, pivots_match, self_index, by_index,
    query, points, checked, distances, worth, loss, for_match, for_other, scratch,
):  # fmt: skip
    """`begin_row` and `end_row` in one call, for squared Euclidean distances between a query and points in memory.

    Returns how many distances were needed, and whether the qkeys were accurate.
    """
    some_rows(query, points, checked, distances)
    accurate = all_within_tolerance(qkeys, checked, distances, scale, tolerance)
    count, others, wanted, n_chains = begin_row(qkeys, lowest, highest, tolerance, pivots, self_index, scratch)
    some_rows(query, points, scratch.ambiguous[:wanted], distances)
    accurate &= end_row(
        qkeys, distances, scale, count, others, n_chains, tolerance, pivots_match, self_index, by_index,
        worth, loss, for_match, for_other, scratch,
    )  # fmt: skip
    return wanted, accurate
