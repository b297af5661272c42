"""Values of candidate rows given rows that are always there.

With r candidates and a owned rows nearer, a row counts if fewer than K - a of the r are present (docs/mathematics.md):

    W(a, r)   (1/K) P(fewer than K - a of r candidates are present)             what a candidate's vote is worth there
    W(a, r - 1) - W(a, r)         what a nearer candidate takes from a candidate there
    W(a, r - 1) - W(a + 1, r - 1)     what it takes from an owned row there, which needs no luck to be present

Nothing counts from a = K on: only candidates nearer than the K-th owned row are worth anything.
"""

from __future__ import annotations

from math import comb

import numpy as np

from nearworth._common.types import BoolVector, FloatMatrix, FloatVector, IntMatrix, IntVector, Semivalue, Utility
from nearworth.games.coefficients import Presence, rank_weights, size_distribution, sum_after


class OwnedGame:
    """Everything about the numbers of candidates and owned rows, K, the utility and the semivalue."""

    def __init__(
        self, n_candidates: int, n_owned: int, *, n_neighbors: int, n_classes: int, utility: Utility,
        semivalue: Semivalue,
    ) -> None:  # fmt: skip
        soft = utility == "soft"
        k = min(n_neighbors, n_candidates + n_owned)  # all rows are among the K nearest if they are no more
        presence = Presence.of(semivalue)
        self._worth = np.zeros((k + 1, n_candidates + 1))
        for a in range(k):
            votes = (k - a) / (k if soft else n_neighbors)
            self._worth[a, :n_candidates] = votes * rank_weights(presence, n_candidates, k - a).worth
        before = np.pad(self._worth, ((0, 0), (1, 0)))[:, :-1]  # with one candidate less nearer
        self._to_candidate = before - self._worth
        self._to_owned = before - np.pad(before, ((0, 1), (0, 0)))[1:]
        self._to_candidate[:, 0] = self._to_owned[:, 0] = 0.0
        self.n_neighbors, self._added = k, np.zeros(4)
        if soft and n_owned < k:
            self._added = _correction(size_distribution(presence, n_candidates - 1), n_owned, k)
            self._added[3] /= n_classes

    def added(self, n_matches: int, n_owned_matches: int) -> tuple[float, float]:
        """What small coalitions add to the value of a matching candidate and of another one."""
        own, other, owned, empty = self._added.tolist()
        of_other = other * n_matches + owned * n_owned_matches - empty
        return of_other + (own - other), of_other

    def values(self, is_owned: BoolVector, gains: FloatVector, first: BoolVector) -> FloatVector:
        """Values of the game (1/K) * (sum of gains over the K nearest), rows in rank order; 0 for owned ones."""
        before: IntVector = np.cumsum(is_owned) - is_owned
        owned, nearer = np.minimum(before, self.n_neighbors), np.arange(len(gains)) - before
        if first.all():
            table = np.where(is_owned, self._to_owned[owned, nearer], self._to_candidate[owned, nearer])
            return np.where(is_owned, 0.0, gains * self._worth[owned, nearer] - sum_after(gains * table))
        values, lost = np.zeros(len(gains)), 0.0
        starts = np.flatnonzero(first).tolist()
        for start, stop in zip(starts[::-1], [*starts[1:], len(gains)][::-1], strict=True):
            block, a, r = slice(start, stop), int(owned[start]), int(nearer[start])
            values[block], lost = self._tied(is_owned[block], gains[block], a, r, lost)
        return values

    def _tied(self, is_owned: BoolVector, gains: FloatVector, a: int, r: int, lost: float) -> tuple[FloatVector, float]:
        """A block in random order: the others before a row are any of them, with their number uniform."""
        n_owned, n_candidates = int(is_owned.sum()), int((~is_owned).sum())
        from_owned, from_candidates = gains[is_owned].sum(), gains[~is_owned].sum()
        values, after = np.zeros(len(gains)), lost
        if n_candidates:
            law, y, z = _others(n_owned, n_candidates - 1, self.n_neighbors - a)
            loss = law * self._to_candidate[a + y, r + z]
            inner = (loss * z).sum() / max(n_candidates - 1, 1)
            after += from_candidates * loss.sum()
            # A tied candidate is among the z before another one with probability z / (n - 1).
            values = gains * (law * self._worth[a + y, r + z]).sum() - (from_candidates - gains) * inner - lost
        if n_owned:
            law, y, z = _others(n_owned - 1, n_candidates, self.n_neighbors - a)
            loss = law * self._to_owned[a + y, r + z]
            after += from_owned * loss.sum()
            values = values - from_owned * (loss * z).sum() / max(n_candidates, 1)
        return np.where(is_owned, 0.0, values), after


def _others(n_owned: int, n_candidates: int, most_owned: int) -> tuple[FloatMatrix, IntMatrix, IntMatrix]:
    """P(y owned rows and z candidates come before a row), all at random; y no more than counts."""
    y, z = np.meshgrid(np.arange(min(n_owned + 1, max(most_owned, 1))), np.arange(n_candidates + 1), indexing="ij")
    n = n_owned + n_candidates
    ways = [comb(n_owned, i) * comb(n_candidates, j) / comb(n, i + j) for i, j in zip(y.flat, z.flat, strict=True)]
    return np.array(ways).reshape(y.shape) / (n + 1), y, z


def _correction(sizes: FloatVector, n_owned: int, k: int) -> FloatVector:
    """Coalitions of s < k rows vote with weight 1/s: factors of an own match, of other ones, of owned ones; empty."""
    n_candidates = len(sizes)
    s = n_owned + np.arange(n_candidates + 1)
    more = np.where((s > 0) & (s < k), 1.0 / np.maximum(s, 1) - 1.0 / k, 0.0)
    joined = sizes * np.diff(more)
    other = joined @ np.arange(n_candidates) / max(n_candidates - 1, 1)
    return np.array([sizes @ more[1:], other, joined.sum(), sizes[0] * (n_owned == 0)])
