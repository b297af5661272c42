"""The compiled loops of classification after every point has its place: values by place, and their sums."""

# Kernels take arrays of several types and are typed by numba when first called.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from nearworth._common.compile import compiled


@compiled
def fill(array, start, stop, value):
    """array[start:stop] = value, which takes numba ten times as long to compile."""
    for i in range(start, stop):
        array[i] = value


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
def tabulate_matches(count, n_players, worth, loss, for_match, for_other, between, table):
    """`tabulate` where the pivots match and nobody is tied with one: the usual case, and the short one."""
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
