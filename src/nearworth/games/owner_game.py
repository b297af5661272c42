"""Values of owners as players: who owns all of its rows brings all of them or none.

Every other owner is present independently with probability t, and t has the law of the semivalue. The expected marginal
contribution of an owner, given t, is a polynomial in t of degree below the number M of owners, so that a few Gauss
nodes integrate it: `presence_nodes`. For one validation point and one node (docs/mathematics.md):

    a row counts if its owner a is present and fewer than K - n_a nearer rows of the others are, where n_o is the number
    of rows of owner o that are nearer. These have the law prod over o of (1 - t) + t z^{n_o}, cut at z^K.
    What its owner gains by it is the probability of that; what another owner o loses, given that a is present, is the
    probability that the row counts without the rows of o and does not with them.

Only the K nearest rows of each owner matter. Tied rows come at random times x in [0, 1]: of b tied rows of an owner
Bin(b, x) come before a row at time x, and Gauss nodes integrate over x. All terms of the laws are positive; nothing
cancels. Coalitions with fewer than K rows in all score otherwise in the soft utility: `SmallCoalitions`.

`native/owners.c` does the same as `owner_values` for rows of equal standing together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from nearworth._common.types import BoolVector, FloatMatrix, FloatVector, IntVector
from nearworth.games.coefficients import Presence, size_distribution

QUADRATURE_ERROR = 1e-13
FEW_LAWS, FEW_TABLES = 256, 4  # kept for later queries
Law = TypeVar("Law")


@dataclass(frozen=True, eq=False)
class Nodes:
    """Probabilities t of presence and their weights; no value of `n_owners` owners is off by more than `error`."""

    n_owners: int
    t: FloatVector
    weights: FloatVector
    error: float

    @classmethod
    def of(cls, presence: Presence, n_owners: int, max_error: float = QUADRATURE_ERROR) -> Nodes:
        """As few as keep the error below `max_error`; ceil(M/2) have none but rounding.

        The expected marginal contribution is a mean of marginal contributions, which are between -1 and 1, under the
        law of the number of the others that are present. So the error is at most that of this law, in absolute sum.
        """
        if presence.fixed is not None:
            return cls(n_owners, np.array([presence.fixed]), np.ones(1), 0.0)
        sizes, enough, count = size_distribution(presence, n_owners - 1), (n_owners + 1) // 2 + 1, 8
        while True:
            t, weights = _gauss(presence, min(count, enough))
            laws = np.array([size_distribution(Presence(fixed=each), n_owners - 1) for each in t.tolist()])
            error = float(np.abs(weights @ laws - sizes).sum())
            if error <= max_error or count >= enough:
                return cls(n_owners, t, weights, error if count < enough else 0.0)
            count += max(1, count // 4)

    def binomial(self, size: int) -> npt.NDArray[np.float64]:
        """P(j of m owners are present), m = 0..M, j = 0..size-1, for each node: (M + 1, size, nodes)."""
        table = np.zeros((self.n_owners + 1, size, len(self.t)))
        table[0, 0] = 1.0
        for before, now in zip(table, table[1:], strict=False):
            now[:] = (1.0 - self.t) * before
            now[1:] += self.t * before[:-1]
        return table


def _gauss(presence: Presence, count: int) -> tuple[FloatVector, FloatVector]:
    """Nodes and weights of the law Beta(present, absent) scaled to its mass, from its orthogonal polynomials."""
    a, b, j = presence.absent - 1.0, presence.present - 1.0, np.arange(1.0, count)
    twice = 2.0 * j + a + b
    middle = np.concatenate([[(b - a) / (a + b + 2.0)], (b - a) * (b + a) / (twice * (twice + 2.0))])
    # Where a + b = -1, one factor of the first entry is 0 above and below.
    ratio = np.concatenate([[1.0], (j + a + b)[1:] / (twice - 1.0)[1:]])[: len(j)]
    beside = 4.0 * j * (j + a) * (j + b) * ratio / (twice**2 * (twice + 1.0))
    x, vectors = np.linalg.eigh(np.diag(middle) + np.diag(np.sqrt(beside), 1) + np.diag(np.sqrt(beside), -1))
    return np.clip((x + 1.0) / 2.0, 0.0, 1.0), presence.mass * vectors[0] ** 2


def all_but_one(law: Law, factors: Sequence[Any], multiply: Callable[[Law, Any], Law]) -> Iterator[Law]:
    """The law times all factors but one, for each in turn, by halves: n log n products and no division."""
    if len(factors) < 2:
        yield from [law] * len(factors)
        return
    half = len(factors) // 2
    left, right = factors[:half], factors[half:]
    yield from all_but_one(reduce(multiply, right, law), left, multiply)
    yield from all_but_one(reduce(multiply, left, law), right, multiply)


def owner_values(
    owners: IntVector, gains: FloatVector, first: BoolVector, n_neighbors: int, nodes: Nodes
) -> FloatVector:
    """Values of the game (1/K) * (sum of gains over the K nearest); rows by rank, `first` begins blocks of ties."""
    values, nearer = np.zeros(nodes.n_owners), np.zeros(nodes.n_owners, dtype=np.intp)
    for block in np.split(np.arange(len(owners)), np.flatnonzero(first)[1:]):
        tied = np.bincount(owners[block], minlength=nodes.n_owners)
        gained = np.bincount(owners[block], weights=gains[block], minlength=nodes.n_owners) / n_neighbors
        times = _gauss(Presence(), (len(block) + 1) // 2)
        for owner in np.flatnonzero((gained != 0.0) & (nearer < n_neighbors)):
            for x, weight in zip(*times, strict=True):
                values += gained[owner] * weight * _shares(int(owner), nearer, tied, x, n_neighbors, nodes)
        nearer += tied
        if (nearer >= n_neighbors).all():
            break
    return values


def _shares(owner: int, nearer: IntVector, tied: IntVector, x: float, n_neighbors: int, nodes: Nodes) -> FloatVector:
    """What each owner gains (its own) or loses (the others) by a row of `owner` at time x among its ties."""
    length, t = n_neighbors - int(nearer[owner]), nodes.t
    others = np.flatnonzero((nearer + tied > 0) & (np.arange(len(nearer)) != owner))
    rows = np.zeros((len(others), length))  # law of the rows of each, if present, before this one
    for law, n_nearer, n_tied in zip(rows, nearer[others], tied[others], strict=True):
        some = size_distribution(Presence(fixed=x), int(n_tied))[: max(length - n_nearer, 0)]
        law[n_nearer : n_nearer + len(some)] = some

    def multiply(law: FloatMatrix, one: FloatVector) -> FloatMatrix:
        product = (1.0 - t) * law
        for j in np.flatnonzero(one):
            product[j:] += t * one[j] * law[: length - j]
        return product

    before = np.zeros((length, len(t)))
    own = size_distribution(Presence(fixed=x), int(tied[owner]) - 1)[:length]
    before[: len(own)] = own[:, None]
    shares = np.zeros(len(nearer))
    shares[owner] = reduce(multiply, rows, before).sum(axis=0) @ nodes.weights
    for other, one, law in zip(others, rows, all_but_one(before, list(rows), multiply), strict=True):
        pushed_out = 1.0 - np.cumsum(one)[::-1]  # after j others: K - j or more rows come before this one
        shares[other] = -(pushed_out @ law) @ (nodes.weights * t)
    return shares


class SmallCoalitions:
    """What the soft utility adds: coalitions with fewer than K rows divide by their number, and none is a guess."""

    def __init__(self, n_neighbors: int, n_classes: int, nodes: Nodes) -> None:
        self._k, self._n_classes, self._nodes = n_neighbors, n_classes, nodes
        self._of_counts, self._binomial = lru_cache(FEW_LAWS)(self._of_owners), lru_cache(FEW_TABLES)(nodes.binomial)

    def __call__(self, n_rows: IntVector, n_matches: IntVector) -> FloatVector:
        """By owner, from the rows and matches of each."""
        large = n_rows >= self._k
        counts = np.stack([np.where(large, self._k, n_rows), np.where(large, 0, n_matches)], axis=1)
        return np.asarray(self._of_counts(counts.astype(np.int64).tobytes()))

    def _of_owners(self, counts: bytes) -> FloatVector:
        owners = np.frombuffer(counts, dtype=np.int64).reshape(-1, 2)
        kinds, kind_of, sizes = np.unique(owners, axis=0, return_inverse=True, return_counts=True)
        described = [(*kind, size) for kind, size in zip(kinds.tolist(), sizes.tolist(), strict=True)]
        return np.asarray(self._added(described)[kind_of.ravel()])

    def _added(self, kinds: Sequence[tuple[int, int, int]]) -> FloatVector:
        """For an owner of each kind: (rows, matches, number of such owners)."""
        rows_of_small = sum(n_rows * size for n_rows, _, size in kinds if n_rows < self._k)
        k, weights = min(self._k, rows_of_small + 1), self._nodes.weights  # no small coalition has more rows
        binomial, score = self._binomial(k), np.zeros((k, k))  # the score by rows and matches
        score[1:] = np.outer(1.0 / np.arange(1, k) - 1.0 / self._k, np.arange(k))
        score[0] = 1.0 / self._n_classes

        def join(law: FloatMatrix, kind: tuple[int, int, int]) -> FloatMatrix:
            n_rows, n_matches, size = kind
            if n_rows == 0:
                return law
            product: FloatMatrix = binomial[size, 0] * law
            for j in range(1, (k - 1) // n_rows + 1):
                r, m = j * n_rows, j * n_matches
                product[r:, m:] += binomial[size, j] * law[: k - r, : k - m]
            return product

        nothing = np.zeros((k, k, len(weights)))
        nothing[0, 0] = 1.0
        added = []
        for (n_rows, n_matches, size), others in zip(kinds, all_but_one(nothing, kinds, join), strict=True):
            law = join(others, (n_rows, n_matches, size - 1)) @ weights
            more = score[n_rows:, n_matches:]
            added.append((law[: more.shape[0], : more.shape[1]] * more).sum() - (law * score).sum())
        return np.array(added)
