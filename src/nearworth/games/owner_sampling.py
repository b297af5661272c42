"""Values of very many owners as players, from random orders in which they arrive.

In an order, an owner gains what it adds to those before it; the mean over all orders is the Shapley value. A row votes
from the arrival of its owner until K nearer rows have arrived: its owner gains the vote, and the owner of the K-th of
these rows loses it. Few rows ever vote, so that an order takes one look at the arrivals of all rows.
"""

from __future__ import annotations

from bisect import insort

import numpy as np

from nearworth._common.types import BoolVector, FloatVector, IntVector

FIRST_ROWS = 64  # looked at together; then twice as many each time


def sampled_values(
    owners: IntVector, gains: FloatVector, first: BoolVector, *, n_owners: int, n_neighbors: int,
    n_classes: int | None, n_orders: int, rng: np.random.Generator,
) -> FloatVector:  # fmt: skip
    """Unbiased values: rows by rank, `first` begins blocks of ties, `n_classes` of the soft utility or None."""
    values, blocks, tied = np.zeros(n_owners), np.cumsum(first), not first.all()
    n_rows, n_matches = np.bincount(owners, minlength=n_owners), np.bincount(owners, gains, n_owners).astype(float)
    for _ in range(n_orders):
        arrivals = rng.random(n_owners)
        ranked = np.lexsort((rng.random(len(owners)), blocks)) if tied else slice(None)
        _add_votes(values, owners[ranked], gains[ranked] / n_neighbors, arrivals, n_neighbors)
        if n_classes is not None:
            _add_small(values, n_rows, n_matches, arrivals, n_neighbors, n_classes)
    return values / n_orders


def _add_votes(values: FloatVector, owners: IntVector, votes: FloatVector, arrivals: FloatVector, k: int) -> None:
    times, start, size = arrivals[owners], 0, max(FIRST_ROWS, 2 * k)
    earliest: list[tuple[float, int]] = []  # arrivals and owners of the K rows so far that come first
    while start < len(owners):
        part = times[start : start + size]
        some = np.arange(len(part)) if len(earliest) < k else np.flatnonzero(part < earliest[-1][0])
        for row in (start + some).tolist():
            time, owner = float(times[row]), int(owners[row])
            if len(earliest) == k:
                if time >= earliest[-1][0]:
                    continue
                values[earliest.pop()[1]] -= votes[row]
            values[owner] += votes[row]
            insort(earliest, (time, owner))
        start, size = start + size, 2 * size


def _add_small(
    values: FloatVector, n_rows: IntVector, n_matches: FloatVector, arrivals: FloatVector, k: int, n_classes: int
) -> None:
    """What the soft utility adds while fewer than K rows are there: these divide by their number, none is a guess."""
    there = np.flatnonzero(n_rows)
    earliest = there[np.argpartition(arrivals[there], min(k, len(there)) - 1)[:k]]
    rows, matches, before = 0, 0.0, 1.0 / n_classes
    for owner in earliest[np.argsort(arrivals[earliest])].tolist():
        rows, matches = rows + int(n_rows[owner]), matches + float(n_matches[owner])
        after = matches * (1.0 / rows - 1.0 / k) if rows < k else 0.0
        values[owner] += after - before
        before = after
        if rows >= k:
            return
