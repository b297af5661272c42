"""Rows with owners: values of owners as players, who bring all of their rows or none, and of rows
given owned ones.

Every other owner is present independently with probability t, and t has the law of the semivalue.
The expected marginal contribution of an owner, given t, is a polynomial in t of degree below the
number M of owners, so that a few Gauss nodes integrate it: `Nodes`. For one validation point and
one node (docs/mathematics.md):

    a row counts if its owner a is present and fewer than K - n_a nearer rows of the others are,
    where n_o is the number of rows of owner o that are nearer. These have the law prod over o of (1
    - t) + t z^{n_o}, cut at z^K. What its owner gains by it is the probability of that; what
    another owner o loses, given that a is present, is the probability that the row counts without
    the rows of o and does not with them.

Only the K nearest rows of each owner matter. Tied rows come at random times x in [0, 1]: of b tied
rows of an owner Bin(b, x) come before a row at time x, and Gauss nodes integrate over x. All terms
of the laws are positive; nothing cancels. Coalitions with fewer than K rows in all score otherwise
in the soft utility: `SmallCoalitions`.

`native/owners.c` does the same as `owner_values` for rows of equal standing together. Very many
owners arrive in random orders instead: the mean over all orders of what each adds to those before
it is the Shapley value (`sampled_values`). The other game, of candidate rows given rows that one
already has, is `OwnedGame`.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from math import ceil, sqrt
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from nearworth._common.types import (
    BoolVector,
    FloatMatrix,
    FloatVector,
    IntVector,
    Semivalue,
    Utility,
)
from nearworth.games.coefficients import Presence, rank_weights, size_distribution, sum_after

QUADRATURE_ERROR = 1e-13
NODES_PER_ROOT = 5.0  # of the number of tied rows; with 4, the error begins to show
FEW_LAWS, FEW_TABLES = 256, 4  # kept for later queries
FIRST_ROWS = 64  # of a random order, looked at together; then twice as many each time
Law = TypeVar("Law")


@dataclass(frozen=True, eq=False)
class Nodes:
    """Probabilities t of presence and their weights; no value of `n_owners` owners is off by more
    than `error`.
    """

    n_owners: int
    t: FloatVector
    weights: FloatVector
    error: float

    @classmethod
    def of(cls, presence: Presence, n_owners: int, max_error: float = QUADRATURE_ERROR) -> Nodes:
        """As few as keep the error below `max_error`; ceil(M/2) have none but rounding."""
        if presence.fixed is not None:
            return cls(n_owners, np.array([presence.fixed]), np.ones(1), 0.0)
        sizes, enough, count = size_distribution(presence, n_owners - 1), (n_owners + 1) // 2 + 1, 8
        while True:
            t, weights = _gauss(presence, min(count, enough))
            laws = np.array(
                [size_distribution(Presence(fixed=each), n_owners - 1) for each in t.tolist()]
            )
            # An expected marginal contribution is a mean of numbers between -1 and 1 under the law
            # of how many others are there. So its error is at most that of this law, in absolute
            # sum.
            error = float(np.abs(weights @ laws - sizes).sum())
            if error <= max_error or count >= enough:
                return cls(n_owners, t, weights, error if count < enough else 0.0)
            count += max(1, count // 4)

    def binomial(self, size: int) -> npt.NDArray[np.float64]:
        """P(j of m owners are present), m = 0..M, j = 0..size-1, for each node: (M + 1, size,
        nodes).
        """
        table = np.zeros((self.n_owners + 1, size, len(self.t)))
        table[0, 0] = 1.0
        for before, now in zip(table, table[1:], strict=False):
            now[:] = (1.0 - self.t) * before
            now[1:] += self.t * before[:-1]
        return table


def _gauss(presence: Presence, count: int) -> tuple[FloatVector, FloatVector]:
    """Nodes and weights of the law Beta(present, absent) scaled to its mass, from its orthogonal
    polynomials.
    """
    a, b, j = presence.absent - 1.0, presence.present - 1.0, np.arange(1.0, count)
    twice = 2.0 * j + a + b
    middle = np.concatenate(
        [[(b - a) / (a + b + 2.0)], (b - a) * (b + a) / (twice * (twice + 2.0))]
    )
    # Where a + b = -1, one factor of the first entry is 0 above and below.
    ratio = np.concatenate([[1.0], (j + a + b)[1:] / (twice - 1.0)[1:]])[: len(j)]
    beside = 4.0 * j * (j + a) * (j + b) * ratio / (twice**2 * (twice + 1.0))
    x, vectors = np.linalg.eigh(
        np.diag(middle) + np.diag(np.sqrt(beside), 1) + np.diag(np.sqrt(beside), -1)
    )
    return np.clip((x + 1.0) / 2.0, 0.0, 1.0), presence.mass * vectors[0] ** 2


def all_but_one(
    law: Law, factors: Sequence[Any], multiply: Callable[[Law, Any], Law]
) -> Iterator[Law]:
    """The law times all factors but one, for each in turn, by halves: n log n products and no
    division.
    """
    if len(factors) < 2:
        yield from [law] * len(factors)
        return
    half = len(factors) // 2
    left, right = factors[:half], factors[half:]
    yield from all_but_one(reduce(multiply, right, law), left, multiply)
    yield from all_but_one(reduce(multiply, left, law), right, multiply)


def owner_values(
    owners: IntVector, gains: FloatVector, first: BoolVector, k: int, nodes: Nodes
) -> FloatVector:
    """Values of the game (1/K) * (sum of gains over the K nearest); rows by rank, `first` begins
    blocks of ties.
    """
    values, nearer = np.zeros(nodes.n_owners), np.zeros(nodes.n_owners, dtype=np.intp)
    for block in np.split(np.arange(len(owners)), np.flatnonzero(first)[1:]):
        tied = np.bincount(owners[block], minlength=nodes.n_owners)
        gained = np.bincount(owners[block], weights=gains[block], minlength=nodes.n_owners) / k
        times = _gauss(Presence(), count_moments(len(block)))
        for owner in np.flatnonzero((gained != 0.0) & (nearer < k)):
            for x, weight in zip(*times, strict=True):
                values += gained[owner] * weight * _shares(int(owner), nearer, tied, x, k, nodes)
        nearer += tied
        if (nearer >= k).all():
            break
    return values


def count_moments(n_rows: int) -> int:
    """How many nodes integrate over the moment at which one of so many tied rows comes.

    Half as many as rows have no error but rounding. With sin^2(angle / 2) for the moment, the
    probability that so many rows come before is a peak in the angle, about one over the root of
    their number wide. Nodes are almost evenly spaced in the angle, so that a multiple of the root
    has no error either.
    """
    return min((n_rows + 1) // 2, ceil(NODES_PER_ROOT * sqrt(n_rows)))


def _shares(
    owner: int, nearer: IntVector, tied: IntVector, x: float, n_neighbors: int, nodes: Nodes
) -> FloatVector:
    """What each owner gains (its own) or loses (the others) by a row of `owner` at time x among its
    ties.
    """
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
    for other, one, law in zip(
        others, rows, all_but_one(before, list(rows), multiply), strict=True
    ):
        pushed_out = (
            1.0 - np.cumsum(one)[::-1]
        )  # after j others: K - j or more rows come before this one
        shares[other] = -(pushed_out @ law) @ (nodes.weights * t)
    return shares


class SmallCoalitions:
    """What the soft utility adds: coalitions with fewer than K rows divide by their number, and
    none is a guess.
    """

    def __init__(self, n_neighbors: int, n_classes: int, nodes: Nodes) -> None:
        self._k, self._n_classes, self._nodes = n_neighbors, n_classes, nodes
        self._of_counts, self._binomial = (
            lru_cache(FEW_LAWS)(self._of_owners),
            lru_cache(FEW_TABLES)(nodes.binomial),
        )

    def __call__(self, n_rows: IntVector, n_matches: IntVector) -> FloatVector:
        """By owner, from the rows and matches of each."""
        large = n_rows >= self._k
        counts = np.stack([np.where(large, self._k, n_rows), np.where(large, 0, n_matches)], axis=1)
        return np.asarray(self._of_counts(counts.astype(np.int64).tobytes()))

    def _of_owners(self, counts: bytes) -> FloatVector:
        owners = np.frombuffer(counts, dtype=np.int64).reshape(-1, 2)
        kinds, kind_of, sizes = np.unique(owners, axis=0, return_inverse=True, return_counts=True)
        return np.asarray(self._added(np.column_stack([kinds, sizes]).tolist())[kind_of.ravel()])

    def _added(self, kinds: Sequence[tuple[int, int, int]]) -> FloatVector:
        """For an owner of each kind: (rows, matches, number of such owners)."""
        rows_of_small = sum(n_rows * size for n_rows, _, size in kinds if n_rows < self._k)
        k, weights = (
            min(self._k, rows_of_small + 1),
            self._nodes.weights,
        )  # no small coalition has more rows
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
        for (n_rows, n_matches, size), others in zip(
            kinds, all_but_one(nothing, kinds, join), strict=True
        ):
            law = join(others, (n_rows, n_matches, size - 1)) @ weights
            more = score[n_rows:, n_matches:]
            added.append((law[: more.shape[0], : more.shape[1]] * more).sum() - (law * score).sum())
        return np.array(added)


def sampled_values(
    owners: IntVector,
    gains: FloatVector,
    first: BoolVector,
    *,
    n_owners: int,
    n_neighbors: int,
    n_classes: int | None,
    n_orders: int,
    rng: np.random.Generator,
) -> FloatVector:
    """Unbiased values from random orders: rows by rank, `first` begins blocks of ties; `n_classes`
    if soft, or None.
    """
    values, blocks, tied = np.zeros(n_owners), np.cumsum(first), not first.all()
    n_rows, n_matches = (
        np.bincount(owners, minlength=n_owners),
        np.bincount(owners, gains, n_owners).astype(float),
    )
    for _ in range(n_orders):
        arrivals = rng.random(n_owners)
        ranked = np.lexsort((rng.random(len(owners)), blocks)) if tied else slice(None)
        add_votes(values, owners[ranked], gains[ranked] / n_neighbors, arrivals, n_neighbors)
        if n_classes is not None:
            add_small(values, n_rows, n_matches, arrivals, n_neighbors, n_classes)
    return values / n_orders


def add_votes(
    values: FloatVector, owners: IntVector, votes: FloatVector, arrivals: FloatVector, k: int
) -> None:
    """A row votes from the arrival of its owner until K nearer rows have arrived; the owner of the
    K-th loses it.
    """
    times, start, size = arrivals[owners], 0, max(FIRST_ROWS, 2 * k)
    earliest: list[
        tuple[float, int]
    ] = []  # arrivals and owners of the K rows so far that come first
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


def add_small(
    values: FloatVector,
    n_rows: IntVector,
    n_matches: FloatVector,
    arrivals: FloatVector,
    k: int,
    n_classes: int,
) -> None:
    """What the soft utility adds while fewer than K rows are there: these divide by their number,
    none is a guess.
    """
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


class OwnedGame:
    """Values of candidate rows given owned rows, which are always there.

    With r candidates and a owned rows nearer, a row counts if fewer than K - a of the r are
    present:

        W(a, r)   (1/K) P(fewer than K - a of r candidates are present)         what a candidate's
        vote is worth there W(a, r - 1) - W(a, r)         what a nearer candidate takes from a
        candidate there W(a, r - 1) - W(a + 1, r - 1)     what it takes from an owned row there,
        which needs no luck to be present

    Nothing counts from a = K on: only candidates nearer than the K-th owned row are worth anything.
    """

    def __init__(
        self,
        n_candidates: int,
        n_owned: int,
        *,
        n_neighbors: int,
        n_classes: int,
        utility: Utility,
        semivalue: Semivalue,
    ) -> None:
        soft = utility == "soft"
        k = min(
            n_neighbors, n_candidates + n_owned
        )  # all rows are among the K nearest if they are no more
        presence = Presence.of(semivalue)
        self._worth = np.zeros((k + 1, n_candidates + 1))
        for a in range(k):
            votes = (k - a) / (k if soft else n_neighbors)
            self._worth[a, :n_candidates] = (
                votes * rank_weights(presence, n_candidates, k - a).worth
            )
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
        """Values of the game (1/K) * (sum of gains over the K nearest), rows in rank order; 0 for
        owned ones.
        """
        before: IntVector = np.cumsum(is_owned) - is_owned
        owned, nearer = np.minimum(before, self.n_neighbors), np.arange(len(gains)) - before
        if first.all():
            table = np.where(
                is_owned, self._to_owned[owned, nearer], self._to_candidate[owned, nearer]
            )
            return np.where(
                is_owned, 0.0, gains * self._worth[owned, nearer] - sum_after(gains * table)
            )

        starts = np.flatnonzero(first)
        sizes = np.diff(starts, append=len(gains))
        of_candidates = self._votes_of_candidates(owned, nearer, starts, sizes)
        of_owned = _Votes.zeros(len(starts))
        n_owned = np.add.reduceat(is_owned, starts, dtype=np.intp)
        # Nothing counts after K owned rows, so that at most K blocks with owned rows remain.
        for block in np.flatnonzero((n_owned > 0) & (owned[starts] < self.n_neighbors)).tolist():
            counts = int(n_owned[block]), int(sizes[block] - n_owned[block])
            at = int(owned[starts[block]]), int(nearer[starts[block]])
            of_candidates.put(block, self._candidate_among_owned(*counts, *at))
            of_owned.put(block, self._owned_among_candidates(*counts, *at))

        gained = np.add.reduceat(np.where(is_owned, 0.0, gains), starts)
        gained_by_owned = np.add.reduceat(np.where(is_owned, gains, 0.0), starts)
        lost_later = sum_after(
            gained * of_candidates.to_nearer + gained_by_owned * of_owned.to_nearer
        )
        block_of = np.repeat(np.arange(len(starts)), sizes)
        values = gains * of_candidates.worth[block_of]
        values -= (gained[block_of] - gains) * of_candidates.to_tied[block_of]
        values -= lost_later[block_of]
        values -= (gained_by_owned * of_owned.to_tied)[block_of]
        return np.where(is_owned, 0.0, values)

    def _votes_of_candidates(
        self, owned: IntVector, nearer: IntVector, starts: IntVector, sizes: IntVector
    ) -> _Votes:
        """Of candidates in blocks without owned rows: each number of the others comes before one
        equally often.
        """
        law = np.repeat(1.0 / sizes, sizes)
        n_before = np.arange(len(nearer)) - np.repeat(starts, sizes)
        taken = law * self._to_candidate[owned, nearer]
        return _Votes(
            worth=np.add.reduceat(law * self._worth[owned, nearer], starts),
            to_nearer=np.add.reduceat(taken, starts),
            to_tied=np.add.reduceat(taken * n_before, starts) / np.maximum(sizes - 1, 1),
        )

    def _candidate_among_owned(
        self, n_owned: int, n_candidates: int, a: int, r: int
    ) -> tuple[float, float, float]:
        """Votes of a candidate in one block, with a owned rows and r candidates nearer."""
        worth = to_nearer = to_tied = 0.0
        if n_candidates == 0:
            return worth, to_nearer, to_tied
        n_others = n_candidates - 1
        ranks, n_before = slice(r, r + n_candidates), np.arange(n_candidates)
        for y, law in _laws_of_before(n_owned, n_others, self.n_neighbors - a):
            taken = law * self._to_candidate[a + y, ranks]
            worth += float((law * self._worth[a + y, ranks]).sum())
            to_nearer += float(taken.sum())
            to_tied += float((taken * n_before).sum()) / max(n_others, 1)
        return worth, to_nearer, to_tied

    def _owned_among_candidates(
        self, n_owned: int, n_candidates: int, a: int, r: int
    ) -> tuple[float, float, float]:
        """Votes of an owned row in one block, with a owned rows and r candidates nearer."""
        to_nearer = to_tied = 0.0
        ranks, n_before = slice(r, r + n_candidates + 1), np.arange(n_candidates + 1)
        for y, law in _laws_of_before(n_owned - 1, n_candidates, self.n_neighbors - a):
            taken = law * self._to_owned[a + y, ranks]
            to_nearer += float(taken.sum())
            to_tied += float((taken * n_before).sum()) / max(n_candidates, 1)
        return 0.0, to_nearer, to_tied


@dataclass(frozen=True, eq=False)
class _Votes:
    """Votes of matching rows in each block, as means over the orders of its tied rows.

    A vote is worth something to its row, and takes something from each nearer candidate and from
    each tied one.
    """

    worth: FloatVector
    to_nearer: FloatVector
    to_tied: FloatVector

    @classmethod
    def zeros(cls, n_blocks: int) -> _Votes:
        return cls(np.zeros(n_blocks), np.zeros(n_blocks), np.zeros(n_blocks))

    def put(self, block: int, votes: tuple[float, float, float]) -> None:
        self.worth[block], self.to_nearer[block], self.to_tied[block] = votes


def _laws_of_before(
    n_owned: int, n_candidates: int, most_owned: int
) -> Iterator[tuple[int, FloatVector]]:
    """P(y owned rows and z candidates come before a row tied with them), for each y below
    `most_owned`, by z.

    Each y is as likely as any other. Given y, the row comes at a moment with the law Beta(y + 1,
    n_owned - y + 1), and each candidate comes before it independently.
    """
    for y in range(min(n_owned + 1, most_owned)):
        moment = Presence(present=y + 1.0, absent=n_owned - y + 1.0)
        yield y, size_distribution(moment, n_candidates) / (n_owned + 1.0)


def _correction(sizes: FloatVector, n_owned: int, k: int) -> FloatVector:
    """Coalitions of s < k rows vote with weight 1/s: factors of an own match, of other ones, of
    owned ones; empty.
    """
    n_candidates = len(sizes)
    s = n_owned + np.arange(n_candidates + 1)
    more = np.where((s > 0) & (s < k), 1.0 / np.maximum(s, 1) - 1.0 / k, 0.0)
    joined = sizes * np.diff(more)
    other = joined @ np.arange(n_candidates) / max(n_candidates - 1, 1)
    return np.array([sizes @ more[1:], other, joined.sum(), sizes[0] * (n_owned == 0)])
