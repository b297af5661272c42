"""The compiled loops of classification within an error, after every point has its cell or its place in the list.

worth, total_worth   of ranks, for the Shapley value
in_mean              values of points that are tied, or in some order that nobody asked for
in_any_order         how far these may be off then
tabulate             from far to near values by cell or listed point, and by how much any may be wrong
"""

# Kernels take arrays of several types and are typed by numba when first called.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

import numpy as np

from nearworth._compile import compiled
from nearworth.engine.tables import fill

FIRST = 1024  # ranks added up one by one, if they must be
SHARE = 0.25  # of the width that the rule allows, to which cells that may stay are taken together


@compiled
def worth(rank, k):
    """What a match at this rank is worth, the Shapley value of K neighbours being shared out; at rank 0 as at 1."""
    return 1.0 / max(rank, k)


@compiled
def total_worth(start, position, k):
    """Of ranks start+1..position together."""
    flat = min(max(k - start, 0), position - start)
    total, rank = flat * worth(start, k), start + flat
    while rank < min(position, FIRST):
        rank += 1
        total += 1.0 / rank
    if rank < position:  # harmonic numbers differ by a logarithm and what is left of it, beyond FIRST to 17 digits
        a, b = 1.0 / rank, 1.0 / position
        total += np.log1p((position - rank) * a) + (b - a) * (0.5 - (b + a) * (1.0 / 12.0 - (b * b + a * a) / 120.0))
    return total


@compiled
def in_mean(start, position, matches, k):
    """Of tied ranks start+1..position: a match, another, and what nearer points lose to them; but for later losses."""
    size, total, farthest = position - start, total_worth(start, position, k), worth(position, k)
    inner = (total - size * farthest) / (size * (size - 1.0))  # what a match behind takes, in the mean
    lost = matches / size * (worth(start, k) - farthest)
    return total / size - (matches - 1) * inner, -matches * inner, lost


@compiled
def in_any_order(start, position, match, other, matches):
    """How far the mean may be off if these ranks are in some order: for themselves, and for nearer points (Theorem H).

    Rank j must be worth 1/j, so start >= K.
    """
    size, after, farthest = position - start, start + 1.0, 1.0 / position
    highest = 1.0 / after - 1.0 / (position - matches + 1) + farthest
    lowest = 1.0 / (after + matches) - 1.0 / after
    fewer = min(matches, size - matches)
    inside = max(max(highest - match, match - farthest), max(other - lowest, -other))
    return inside, fewer * (size - fewer) / (np.float64(start) * position * (start + fewer))


@compiled
def tabulate(n_cells, n_listed, n_players, pivots_match, for_match, for_other, k_nearest, theta, prefix, buckets):
    """Fill the table; returns by how much any value may be wrong at most."""
    place, listed, group, table = buckets.place, buckets.listed, buckets.group, buckets.table
    sizes, cell_hits = buckets.sizes, buckets.hits
    lost = later = worst = 0.0
    position, k, cell = n_players, n_listed, n_cells
    left = 0  # of a listed cell
    while position > 0:
        first, below = k, cell
        if left > 0 or sizes[cell - 1] < 0:
            left = left if left > 0 else -sizes[cell - 1]
            first, hits = previous_run(k, left, n_cells, place, listed, group)
            size = k - first
            left -= size
            below = cell if left > 0 else cell - 1
        else:
            below, size, hits = previous_cells(cell, position, theta, prefix, sizes, cell_hits)
        matches, start = hits if pivots_match else size - hits, position - size
        match = other = added = inside = before = 0.0
        if matches == size:
            match = worth(position, k_nearest)
            added = worth(start, k_nearest) - match
        elif matches > 0:
            match, other, added = in_mean(start, position, matches, k_nearest)
            if first == k:
                inside, before = in_any_order(start, position, match, other, matches)
        match, other = match + for_match - lost, other + for_other - lost
        of_pivot, of_other = (match, other) if pivots_match else (other, match)
        if first < k:
            note_listed(first, k, n_cells, of_pivot, of_other, place, listed, table)
        else:
            fill(table, below, cell, of_other)
            fill(table, n_cells + below, n_cells + cell, of_pivot)
        worst, later, lost = max(worst, inside + later), later + before, lost + added
        position, k, cell = start, first, below
    return worst


@compiled
def previous_cells(stop, position, theta, prefix, sizes, cell_hits):
    """Where the cells begin that end before `stop` and may go together, with their points and pivots; at least one."""
    first = stop - 1
    size, hits = sizes[first], cell_hits[first]
    while first > 0 and sizes[first - 1] >= 0:
        together = size + sizes[first - 1]
        start = np.float64(position - together)
        both = size > 0 and sizes[first - 1] > 0
        if both and (start < prefix or together - 1 > SHARE * theta * start * start):
            break
        first -= 1
        size, hits = together, hits + cell_hits[first]
    return first, size, hits


@compiled
def previous_run(stop, most, n_cells, place, listed, group):
    """Where the run begins that ends before `stop`, and its pivots: a tie of both statuses, or as many as have one."""
    first = np.int64(group[stop - 1])
    if first < stop - 1:
        return first, pivots_among(first, stop, n_cells, place, listed)
    status = place[listed[first]] >= n_cells
    while stop - first < most and group[first - 1] == first - 1 and (place[listed[first - 1]] >= n_cells) == status:
        first -= 1
    return first, (stop - first if status else 0)


@compiled
def pivots_among(first, stop, n_cells, place, listed):
    """How many of some listed points are pivots."""
    hits = 0
    for k in range(first, stop):
        hits += place[listed[k]] >= n_cells
    return hits


@compiled
def note_listed(first, stop, n_cells, of_pivot, of_other, place, listed, table):
    """Give listed points places of their own, and these their values."""
    for k in range(first, stop):
        i = np.uint64(listed[k])
        table[2 * n_cells + k] = of_pivot if place[i] >= n_cells else of_other
        place[i] = 2 * n_cells + k
