"""The compiled loops of classification, blind to policy.

Values change only where the match status changes along the ranks. So only the rarer of the two statuses is
sorted, its F points are the *pivots*, and every other point only needs to know between which two it falls.

    span, mark    keys of one query as whole numbers, the pivots spread over 30 bits    one pass over N
    sort_pivots   pivots by cell (the leading bits of the mark), then by mark           F
    locate        others: how many pivots are nearer, and who is too close to call      one pass over N
    doubts        whose exact distance is needed for that                               few
    settle        places of those by exact distances; tied ones apart                   few
    tabulate      from far to near: one value per gap, tie block and pivot              F
    fold          total[i] += w * table[place[i]]                                       one pass over N

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

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearworth._compile import compiled

FEW = 24  # pivots in a cell or chain up to which plain insertion is best
# Marks: pivots lie between MARGIN and TOP - MARGIN, and a reach is never more than MARGIN / 2, so that points beyond
# the pivots, whose marks are cut off at 0 and TOP, are in doubt exactly if they should be.
TOP, MARGIN = 2**30, 2**20
# In the passes over N, indices are unsigned: numba then need not ask whether they count from the end.
ONE = np.uint64(1)


class Scratch(NamedTuple):
    """Working arrays of one thread for rows of N keys with up to F pivots."""

    marks: npt.NDArray[np.int32]  # N: keys as whole numbers
    place: npt.NDArray[np.int32]  # N: the place of each point
    starts: npt.NDArray[np.int32]  # cells + 1: first pivot of each cell
    order: npt.NDArray[np.int32]  # F: pivots by rank
    ranked: npt.NDArray[np.int32]  # F + 2: their marks between two that are out of reach
    exact: npt.NDArray[np.float64]  # F: their exact distances where wanted, else NaN
    chain: npt.NDArray[np.int32]  # F + 1: first pivot of each pivot's chain of doubt
    between: npt.NDArray[np.int32]  # F + 1: others between pivots
    tied: npt.NDArray[np.int32]  # F + 1: others tied with the pivots that begin here
    asked: npt.NDArray[np.int32]  # F: first pivots of the chains whose exact distances are wanted
    doubtful: npt.NDArray[np.int32]  # N + F + 1: points whose exact distance is wanted
    table: npt.NDArray[np.float64]  # 3F + 3: value of each place


def make_scratch(n_train: int, most_pivots: int) -> Scratch:
    """Arrays for rows of so many points and pivots."""
    n, f = n_train, most_pivots
    n_cells = min(1 << 17, max(64, 1 << (5 * f).bit_length()))
    marks, place, starts, order, chain, between, tied, asked, doubtful = (
        np.empty(size, dtype=np.int32) for size in (n, n, n_cells + 1, f, f + 1, f + 1, f + 1, f, n + f + 1)
    )
    ranked, exact, table = np.empty(f + 2, dtype=np.int32), np.empty(f), np.empty(3 * f + 3)
    return Scratch(marks, place, starts, order, ranked, exact, chain, between, tied, asked, doubtful, table)


@compiled
def fill(array, start, stop, value):
    """array[start:stop] = value, which takes numba ten times as long to compile."""
    for i in range(start, stop):
        array[i] = value


@compiled
def span(keys, norms, pivots):
    """Lowest and highest finite key of the pivots."""
    low, high = np.inf, -np.inf
    for j in range(pivots.shape[0]):
        key = np.float64(keys[pivots[j]] + norms[pivots[j]])
        if np.isfinite(key):
            low, high = min(low, key), max(high, key)
    return (low, high) if low <= high else (0.0, 0.0)


@compiled
def mark(keys, norms, low, scale, margin, top, marks):
    """Whole numbers in the order of the keys (products plus norms)."""
    zero = low - low
    for i in range(keys.shape[0]):
        value = (keys[i] + norms[i] - low) * scale + margin
        value = value if value > zero else zero
        marks[i] = np.int32(value if value < top else top)


@compiled
def sort_pivots(pivots, shift, scratch):
    """Order the pivots by (mark, index) and note where each cell begins; returns the size of the fullest cell."""
    marks, starts, order, ranked = scratch.marks, scratch.starts, scratch.order, scratch.ranked
    n_cells, count = starts.shape[0] - 1, pivots.shape[0]
    fill(starts, 0, n_cells + 1, 0)
    fullest = 0
    for j in range(count):
        cell = np.uint64(marks[np.uint64(pivots[j])] >> shift) + ONE
        starts[cell] += 1
        fullest = max(fullest, starts[cell])
    for cell in range(n_cells):
        starts[cell + 1] += starts[cell]
    for j in range(count):
        point = np.uint64(pivots[j])
        cell = np.uint64(marks[point] >> shift)
        place = np.uint64(starts[cell])
        starts[cell] += 1
        order[place], ranked[place + ONE] = point, marks[point]
    for cell in range(n_cells - 1, 0, -1):
        starts[cell] = starts[cell - 1]
    starts[0] = 0
    ranked[0], ranked[count + 1] = -(2**30), 2**31 - 1
    if fullest <= FEW:  # cells are in order already, so nobody moves farther than a cell
        _insert(ranked[1 : count + 1], order[:count])
        return fullest
    for cell in range(n_cells):
        if starts[cell + 1] - starts[cell] > 1:
            sort_pairs(ranked[starts[cell] + 1 : starts[cell + 1] + 1], order[starts[cell] : starts[cell + 1]])
    return fullest


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
def locate(shift, reach, far_reach, border, scratch):
    """Place every point among the pivots, walking inside its cell; list those within reach of a pivot."""
    marks, place, starts, ranked = scratch.marks, scratch.place, scratch.starts, scratch.ranked
    between, doubtful = scratch.between, scratch.doubtful
    listed = np.uint64(0)
    for i in range(marks.shape[0]):
        value = marks[i]
        p = np.uint64(starts[np.uint64(value >> shift)])
        p += np.uint64(ranked[p + ONE] < value)
        while ranked[p + ONE] < value:
            p += ONE
        place[i] = p
        between[p] += 1
        doubtful[listed] = i
        close = reach if value < border else far_reach
        listed += np.uint64((ranked[p + ONE] <= value + close) | (ranked[p] >= value - close))
    return np.int64(listed)


@compiled
def locate_by_halves(shift, reach, far_reach, border, scratch):
    """The same by bisection, for data whose cells are full."""
    marks, place, starts, ranked = scratch.marks, scratch.place, scratch.starts, scratch.ranked
    between, doubtful = scratch.between, scratch.doubtful
    listed = 0
    for i in range(marks.shape[0]):
        value, cell = marks[i], marks[i] >> shift
        p, end = starts[cell], starts[cell + 1]
        while p < end:
            middle = (p + end) // 2
            if ranked[middle + 1] < value:
                p = middle + 1
            else:
                end = middle
        place[i] = p
        between[p] += 1
        doubtful[listed] = i
        close = reach if value < border else far_reach
        listed += (ranked[p + 1] <= value + close) | (ranked[p] >= value - close)
    return listed


@compiled
def link_chains(count, reach, far_reach, border, scratch):
    """Pivots so close to each other that their order is in doubt form a chain; note its first pivot for each."""
    ranked, chain = scratch.ranked, scratch.chain
    for j in range(count):
        close = reach if ranked[j] < border else far_reach
        chain[j] = chain[j - 1] if j > 0 and ranked[j + 1] <= ranked[j] + 2 * close else j
    chain[count] = count


@compiled
def chain_end(chain, first):
    """One past the last pivot of the chain that begins at `first`."""
    end = first + 1
    while chain[end] == first:
        end += 1
    return end


@compiled
def chain_in_doubt(point, count, reach, far_reach, border, scratch):
    """First pivot of the chain that a point is too close to, or -1."""
    ranked, chain, p, value = scratch.ranked, scratch.chain, scratch.place[point], scratch.marks[point]
    close = reach if value < border else far_reach
    if p > 0 and ranked[p] >= value - close:
        return chain[p - 1]
    if p < count and ranked[p + 1] <= value + close:
        return chain[p]
    return -1


@compiled
def doubts(codes, label, pivots_match, left_out, count, listed, reach, far_reach, border, scratch):
    """Keep, of the listed points, the others in doubt; append the pivots of their chains.

    Returns how many others and points in all are now in `doubtful`, and how many chains in `asked`.
    """
    doubtful, exact, chain, order = scratch.doubtful, scratch.exact, scratch.chain, scratch.order
    link_chains(count, reach, far_reach, border, scratch)
    fill(exact, 0, count, np.nan)
    others = n_asked = 0
    for k in range(listed):
        i = doubtful[k]
        if (codes[i] == label) != pivots_match and i != left_out:
            first = chain_in_doubt(i, count, reach, far_reach, border, scratch)
            if first >= 0:
                doubtful[others] = i
                others += 1
                if np.isnan(exact[first]):
                    exact[first] = 0.0
                    scratch.asked[n_asked] = first
                    n_asked += 1
    wanted = others
    for k in range(n_asked):
        first = scratch.asked[k]
        for j in range(first, chain_end(chain, first)):
            doubtful[wanted] = order[j]
            wanted += 1
    return others, wanted, n_asked


@compiled
def settle(distances, others, n_asked, count, reach, far_reach, border, by_index, left_out, scratch):
    """Put right, by exact distances, the order of chains and the places of others in doubt; then place the pivots."""
    place, order, exact, chain = scratch.place, scratch.order, scratch.exact, scratch.chain
    between, tied, doubtful = scratch.between, scratch.tied, scratch.doubtful
    _count_only_others(count, left_out, scratch)
    k = others
    for asked in range(n_asked):
        first = scratch.asked[asked]
        end = chain_end(chain, first)
        for j in range(first, end):
            exact[j] = distances[k]
            k += 1
        sort_pairs(exact[first:end], order[first:end])
    for k in range(others):
        i, distance = doubtful[k], distances[k]
        low = chain_in_doubt(i, count, reach, far_reach, border, scratch)
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
            place[i] = count + 1 + low
        else:
            between[low] += 1
            place[i] = low
    for j in range(count):
        place[np.uint64(order[j])] = 2 * count + 2 + j
    if left_out >= 0:
        place[left_out] = 3 * count + 2


@compiled
def _count_only_others(count, left_out, scratch):
    """Take the pivots, which were located like everybody, and the point left out from the counts between pivots."""
    first = 0
    for j in range(count):
        first = j if scratch.ranked[j + 1] != scratch.ranked[j] else first
        scratch.between[first] -= 1
    if left_out >= 0:
        scratch.between[scratch.place[left_out]] -= 1


@compiled
def tie_block(lost, position, size, matches, worth, loss):
    """Values of a match and of another in a block of tied ranks that ends at `position`, and what it adds to `lost`."""
    start = position - size
    total = inner = 0.0
    for rank in range(start + 1, position + 1):
        total += worth[rank]
        inner += (rank - 1 - start) * loss[rank]
    inner /= size * (size - 1.0)
    of_match = total / size - (matches - 1) * inner - lost
    return of_match, -matches * inner - lost, matches / size * (worth[start] - worth[position])


@compiled
def tabulate(count, n_players, pivots_match, by_index, worth, loss, for_match, for_other, scratch):
    """Fill the table of values by place; `for_match` and `for_other` are what the utility adds to each status.

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
def prepare_row(keys, norms, pivots, reach, far_reach, border, scratch):
    """Everything up to the doubts.

    `reach` is how far two keys must be apart to be surely in the right order, `far_reach` the same from the key
    `border` on. Returns how many points are listed as doubtful, and the three in marks.
    """
    low, high = span(keys, norms, pivots)
    count, shift = pivots.shape[0], 0
    while (TOP >> shift) + 2 > scratch.starts.shape[0]:
        shift += 1
    # Rounding on the way from a key to its mark, in the type of the keys, widens the reach.
    rounding = np.finfo(keys.dtype).eps
    extra = rounding * (abs(low) + abs(high))
    scale = (TOP - 2 * MARGIN) / (high - low) if high > low else np.inf
    scale = min(scale, 0.25 * MARGIN / (reach + extra)) if reach + extra > 0 else (scale if scale < np.inf else 1.0)
    scale = min(scale, 1e30 if keys.itemsize == 4 else 1e290)  # keys all but equal: one mark for all, all in doubt
    limits = np.empty(4, dtype=keys.dtype)
    limits[0], limits[1], limits[2], limits[3] = low, scale, MARGIN, TOP
    mark(keys, norms, limits[0], limits[1], limits[2], limits[3], scratch.marks)
    extra = np.ceil(extra * scale + 2.0 * rounding * TOP) + 1.0
    near, far = np.int64(reach * scale + extra), np.int64(far_reach * scale + extra)
    edge = np.int64(min(max((border - low) * scale + MARGIN + 2.0 * near, 0.0), 2.0 * TOP - 1.0))
    fullest = sort_pivots(pivots, shift, scratch)
    fill(scratch.between, 0, count + 1, 0)
    fill(scratch.tied, 0, count + 1, 0)
    find = fullest > FEW
    listed = locate_by_halves(shift, near, far, edge, scratch) if find else locate(shift, near, far, edge, scratch)
    return listed, near, far, edge


@compiled
def begin_row(keys, norms, codes, label, pivots, pivots_match, left_out, reach, far_reach, border, scratch):
    """Everything before exact distances.

    Returns how many others and points in all want theirs, how many chains, and the reaches and border in marks.
    """
    listed, near, far, edge = prepare_row(keys, norms, pivots, reach, far_reach, border, scratch)
    count = pivots.shape[0]
    others, wanted, n_asked = doubts(codes, label, pivots_match, left_out, count, listed, near, far, edge, scratch)
    return others, wanted, n_asked, (near, far, edge)


@compiled
def end_row(
    distances,
    others,
    n_asked,
    marks,
    count,
    pivots_match,
    left_out,
    by_index,
    worth,
    loss,
    for_match,
    for_other,
    scratch,
):
    """Everything after them: the table then holds the values by place."""
    near, far, edge = marks
    settle(distances, others, n_asked, count, near, far, edge, by_index, left_out, scratch)
    n_players = scratch.place.shape[0] - (left_out >= 0)
    tabulate(count, n_players, pivots_match, by_index, worth, loss, for_match, for_other, scratch)


@compiled
def fold(total, table, place, weight):
    """Add one query's values, by place, to the running sums of all points."""
    for i in range(total.shape[0]):
        total[i] += weight * table[np.uint64(place[i])]


@compiled
def fold_with_spread(total, shift, first, second, table, place, weight, fresh):
    """The same with sums of w^2 (phi - shift) and w^2 (phi - shift)^2; the first query of a leaf sets the shift."""
    square = weight * weight
    for i in range(total.shape[0]):
        value = table[np.uint64(place[i])]
        total[i] += weight * value
        if fresh:
            shift[i] = value
        away = value - shift[i]
        first[i] += square * away
        second[i] += square * away * away
