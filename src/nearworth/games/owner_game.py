"""Rows with owners: values of owners as players, and values of rows given owned ones.

An owner brings all rows or none. Every other owner is present independently with probability t, and
t has the law of the semivalue. The expected marginal contribution of an owner, given t, is a
polynomial in t of degree below the number M of owners, so that a few Gauss nodes integrate it:
`Nodes`. For one validation point and one node (docs/mathematics.md):

    a row counts if its owner a is present and fewer than K - n_a nearer rows of the others are,
    where n_o is the number of rows of owner o that are nearer. These have the law
    prod over o of (1 - t) + t z^{n_o}, cut at z^K. What its owner gains by it is the probability of
    that. What another owner o loses, given that a is present, is the probability that the row
    counts without the rows of o and does not with them.

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

# Largest error of a value by the nodes, unless another is asked for.
QUADRATURE_ERROR = 1e-13
# Number of nodes for the root of the number of tied rows; with 4, the error begins to show.
NODES_PER_ROOT = 5.0
# Nodes that are tried first.
FIRST_NODES = 8
# Laws of small coalitions, and tables of binomials, that are kept for later queries.
MAX_LAWS = 256
MAX_TABLES = 4
# Rows of a random order that are looked at together first; then twice as many each time.
FIRST_ROWS = 64

Law = TypeVar("Law")


@dataclass(frozen=True, eq=False)
class Nodes:
    """Probabilities of presence and their weights, which integrate over the law of t.

    Attributes
    ----------
    n_owners : int
    t, weights : arrays of shape (nodes,)
    error : float
        No value of `n_owners` owners is off by more than this.
    """

    n_owners: int
    t: FloatVector
    weights: FloatVector
    error: float

    @classmethod
    def of(cls, presence: Presence, n_owners: int, max_error: float = QUADRATURE_ERROR) -> Nodes:
        """As few nodes as keep the error below `max_error`.

        ceil(M/2) nodes have no error but rounding.
        """
        if presence.fixed is not None:
            return cls(n_owners, np.array([presence.fixed]), np.ones(1), 0.0)
        sizes = size_distribution(presence, n_owners - 1)
        enough = (n_owners + 1) // 2 + 1
        count = FIRST_NODES
        while True:
            t, weights = _gauss(presence, min(count, enough))
            laws = [size_distribution(Presence(fixed=node), n_owners - 1) for node in t.tolist()]
            # An expected marginal contribution is a mean of numbers between -1 and 1 under the law
            # of how many others are there. So its error is at most that of this law, in absolute
            # sum.
            error = float(np.abs(weights @ np.array(laws) - sizes).sum())
            if error <= max_error or count >= enough:
                return cls(n_owners, t, weights, error if count < enough else 0.0)
            count += max(1, count // 4)

    def binomial(self, size: int) -> npt.NDArray[np.float64]:
        """P(j of m owners are present), m = 0..M, j = 0..size-1, for each node.

        The shape is (M + 1, size, nodes).
        """
        table = np.zeros((self.n_owners + 1, size, len(self.t)))
        table[0, 0] = 1.0
        for previous, current in zip(table, table[1:], strict=False):
            current[:] = (1.0 - self.t) * previous
            current[1:] += self.t * previous[:-1]
        return table


def _gauss(presence: Presence, count: int) -> tuple[FloatVector, FloatVector]:
    """Nodes and weights of the law Beta(present, absent) scaled to its mass.

    They are the eigenvalues and the first entries of the eigenvectors of the matrix of the
    orthogonal polynomials, which is symmetric and tridiagonal.
    """
    a = presence.absent - 1.0
    b = presence.present - 1.0
    j = np.arange(1.0, count)
    twice = 2.0 * j + a + b
    first = (b - a) / (a + b + 2.0)
    diagonal = np.concatenate([[first], (b - a) * (b + a) / (twice * (twice + 2.0))])
    # Where a + b = -1, one factor of the first entry is 0 above and below.
    ratio = np.concatenate([[1.0], (j + a + b)[1:] / (twice - 1.0)[1:]])[: len(j)]
    squares = 4.0 * j * (j + a) * (j + b) * ratio / (twice**2 * (twice + 1.0))
    off_diagonal = np.sqrt(squares)
    x, vectors = np.linalg.eigh(
        np.diag(diagonal) + np.diag(off_diagonal, 1) + np.diag(off_diagonal, -1)
    )
    return np.clip((x + 1.0) / 2.0, 0.0, 1.0), presence.mass * vectors[0] ** 2


def all_but_one(
    law: Law, factors: Sequence[Any], multiply: Callable[[Law, Any], Law]
) -> Iterator[Law]:
    """The law times all factors but one, for each in turn.

    By halves, that takes n log n products and no division.
    """
    if len(factors) < 2:
        yield from [law] * len(factors)
        return
    half = len(factors) // 2
    left = factors[:half]
    right = factors[half:]
    yield from all_but_one(reduce(multiply, right, law), left, multiply)
    yield from all_but_one(reduce(multiply, left, law), right, multiply)


def owner_values(
    owners: IntVector, gains: FloatVector, first: BoolVector, k: int, nodes: Nodes
) -> FloatVector:
    """Values of owners in the game (1/K) * (sum of gains over the K nearest).

    Parameters
    ----------
    owners, gains : arrays of shape (N,)
        The owner and the gain of the row at each rank.
    first : array of shape (N,)
        Whether a block of ties begins at a rank.
    k : int
    nodes : Nodes

    Returns
    -------
    array of shape (n_owners,)
    """
    values = np.zeros(nodes.n_owners)
    n_nearer = np.zeros(nodes.n_owners, dtype=np.intp)
    for block in np.split(np.arange(len(owners)), np.flatnonzero(first)[1:]):
        n_tied = np.bincount(owners[block], minlength=nodes.n_owners)
        votes = np.bincount(owners[block], weights=gains[block], minlength=nodes.n_owners) / k
        times, weights = _gauss(Presence(), count_moments(len(block)))
        for owner in np.flatnonzero((votes != 0.0) & (n_nearer < k)):
            for x, weight in zip(times, weights, strict=True):
                shares = _shares(int(owner), n_nearer, n_tied, x, k, nodes)
                values += votes[owner] * weight * shares
        n_nearer += n_tied
        if (n_nearer >= k).all():
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
    """What each owner gains or loses by a row of `owner` at time x among its ties.

    Its own owner gains, the others lose. `nearer` and `tied` are the numbers of nearer and of tied
    rows of each owner.
    """
    t = nodes.t
    length = n_neighbors - int(nearer[owner])
    others = np.flatnonzero((nearer + tied > 0) & (np.arange(len(nearer)) != owner))
    # The law of how many rows of each come before this one, if that owner is present.
    laws = np.zeros((len(others), length))
    for law, n_nearer, n_tied in zip(laws, nearer[others], tied[others], strict=True):
        n_free = max(length - n_nearer, 0)
        tied_law = size_distribution(Presence(fixed=x), int(n_tied))[:n_free]
        law[n_nearer : n_nearer + len(tied_law)] = tied_law

    def multiply(product: FloatMatrix, factor: FloatVector) -> FloatMatrix:
        """The law of how many rows come before, with those of one more owner."""
        joint = (1.0 - t) * product
        for j in np.flatnonzero(factor):
            joint[j:] += t * factor[j] * product[: length - j]
        return joint

    before = np.zeros((length, len(t)))
    own_law = size_distribution(Presence(fixed=x), int(tied[owner]) - 1)[:length]
    before[: len(own_law)] = own_law[:, None]
    shares = np.zeros(len(nearer))
    shares[owner] = reduce(multiply, laws, before).sum(axis=0) @ nodes.weights
    without = all_but_one(before, list(laws), multiply)
    for other, law, product in zip(others, laws, without, strict=True):
        # After j rows of the others, K - j or more of this owner push the row out.
        pushed_out = 1.0 - np.cumsum(law)[::-1]
        shares[other] = -(pushed_out @ product) @ (nodes.weights * t)
    return shares


class SmallCoalitions:
    """What the soft utility adds to the values of owners.

    Coalitions with fewer than K rows divide by their number, and a coalition without rows guesses.
    """

    def __init__(self, n_neighbors: int, n_classes: int, nodes: Nodes) -> None:
        self._k = n_neighbors
        self._n_classes = n_classes
        self._nodes = nodes
        self._of_counts = lru_cache(MAX_LAWS)(self._of_owners)
        self._binomial = lru_cache(MAX_TABLES)(nodes.binomial)

    def __call__(self, n_rows: IntVector, n_matches: IntVector) -> FloatVector:
        """By owner, from the rows and matches of each."""
        # An owner with K rows or more is in no small coalition, so that the matches do not matter.
        is_large = n_rows >= self._k
        rows = np.where(is_large, self._k, n_rows)
        matches = np.where(is_large, 0, n_matches)
        counts = np.stack([rows, matches], axis=1)
        return np.asarray(self._of_counts(counts.astype(np.int64).tobytes()))

    def _of_owners(self, counts: bytes) -> FloatVector:
        owners = np.frombuffer(counts, dtype=np.int64).reshape(-1, 2)
        kinds, kind_of, sizes = np.unique(owners, axis=0, return_inverse=True, return_counts=True)
        by_kind = self._added(np.column_stack([kinds, sizes]).tolist())
        return np.asarray(by_kind[kind_of.ravel()])

    def _added(self, kinds: Sequence[tuple[int, int, int]]) -> FloatVector:
        """For an owner of each kind: (rows, matches, number of such owners)."""
        n_small_rows = sum(n_rows * size for n_rows, _, size in kinds if n_rows < self._k)
        # No small coalition has more rows.
        k = min(self._k, n_small_rows + 1)
        weights = self._nodes.weights
        binomial = self._binomial(k)
        # The score of a coalition by its rows and matches.
        score = np.zeros((k, k))
        score[1:] = np.outer(1.0 / np.arange(1, k) - 1.0 / self._k, np.arange(k))
        score[0] = 1.0 / self._n_classes

        def join(law: FloatMatrix, kind: tuple[int, int, int]) -> FloatMatrix:
            """The law of rows and matches, with the owners of one more kind."""
            n_rows, n_matches, size = kind
            if n_rows == 0:
                return law
            product: FloatMatrix = binomial[size, 0] * law
            for j in range(1, (k - 1) // n_rows + 1):
                r = j * n_rows
                m = j * n_matches
                product[r:, m:] += binomial[size, j] * law[: k - r, : k - m]
            return product

        empty = np.zeros((k, k, len(weights)))
        empty[0, 0] = 1.0
        added = []
        without = all_but_one(empty, kinds, join)
        for (n_rows, n_matches, size), others in zip(kinds, without, strict=True):
            law = join(others, (n_rows, n_matches, size - 1)) @ weights
            joined_score = score[n_rows:, n_matches:]
            joined_law = law[: joined_score.shape[0], : joined_score.shape[1]]
            added.append((joined_law * joined_score).sum() - (law * score).sum())
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
    """Unbiased values of owners from random orders.

    Parameters
    ----------
    owners, gains : arrays of shape (N,)
        The owner and the gain of the row at each rank.
    first : array of shape (N,)
        Whether a block of ties begins at a rank.
    n_owners, n_neighbors, n_orders : int
    n_classes : int or None
        None for the original utility.
    rng : Generator

    Returns
    -------
    array of shape (n_owners,)
    """
    values = np.zeros(n_owners)
    blocks = np.cumsum(first)
    has_ties = not first.all()
    n_rows = np.bincount(owners, minlength=n_owners)
    n_matches = np.bincount(owners, gains, n_owners).astype(float)
    for _ in range(n_orders):
        arrivals = rng.random(n_owners)
        # Tied rows stand in a new random order each time.
        ranked: IntVector | slice = slice(None)
        if has_ties:
            ranked = np.lexsort((rng.random(len(owners)), blocks))
        add_votes(values, owners[ranked], gains[ranked] / n_neighbors, arrivals, n_neighbors)
        if n_classes is not None:
            add_small(values, n_rows, n_matches, arrivals, n_neighbors, n_classes)
    return values / n_orders


def add_votes(
    values: FloatVector, owners: IntVector, votes: FloatVector, arrivals: FloatVector, k: int
) -> None:
    """Add the votes of rows in one order of arrivals to the values of their owners.

    A row votes from the arrival of its owner until K nearer rows have arrived. The owner of the
    K-th loses the vote. The mean over random orders is the Shapley value of the owners.

    Parameters
    ----------
    values : array of shape (n_owners,)
        Written to.
    owners, votes : arrays of shape (N,)
        By rank.
    arrivals : array of shape (n_owners,)
        Times.
    k : int
    """
    times = arrivals[owners]
    start = 0
    size = max(FIRST_ROWS, 2 * k)
    # Arrivals and owners of the K rows so far that come first.
    earliest: list[tuple[float, int]] = []
    while start < len(owners):
        block = times[start : start + size]
        # Once K rows have come, few later ones come before the last of them. Blocks double, so that
        # one comparison leaves out more and more rows.
        if len(earliest) < k:
            offsets = np.arange(len(block))
        else:
            offsets = np.flatnonzero(block < earliest[-1][0])
        for row in (start + offsets).tolist():
            time = float(times[row])
            owner = int(owners[row])
            if len(earliest) == k:
                if time >= earliest[-1][0]:
                    continue
                _, last_owner = earliest.pop()
                values[last_owner] -= votes[row]
            values[owner] += votes[row]
            insort(earliest, (time, owner))
        start += size
        size *= 2


def add_small(
    values: FloatVector,
    n_rows: IntVector,
    n_matches: FloatVector,
    arrivals: FloatVector,
    k: int,
    n_classes: int,
) -> None:
    """Add what the soft utility adds while fewer than K rows have arrived.

    These divide by their number, and without rows the classifier guesses.
    """
    owners = np.flatnonzero(n_rows)
    kth = min(k, len(owners)) - 1
    earliest = owners[np.argpartition(arrivals[owners], kth)[:k]]
    rows = 0
    matches = 0.0
    before = 1.0 / n_classes
    for owner in earliest[np.argsort(arrivals[earliest])].tolist():
        rows += int(n_rows[owner])
        matches += float(n_matches[owner])
        after = matches * (1.0 / rows - 1.0 / k) if rows < k else 0.0
        values[owner] += after - before
        before = after
        if rows >= k:
            return


class OwnedGame:
    """Values of candidate rows given owned rows, which are always there.

    With r candidates and a owned rows nearer, a row counts if fewer than K - a of the r are
    present:

        W(a, r)                         (1/K) P(fewer than K - a of r candidates are present): the
                                        value of a candidate's vote there
        W(a, r - 1) - W(a, r)           what a nearer candidate takes from a candidate there
        W(a, r - 1) - W(a + 1, r - 1)   what it takes from an owned row there, which is always
                                        present

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
        is_soft = utility == "soft"
        # All rows are among the K nearest if they are no more.
        k = min(n_neighbors, n_candidates + n_owned)
        presence = Presence.of(semivalue)
        self.n_neighbors = k

        # Indexed by the owned rows a and the candidates r that are nearer.
        self._worth = np.zeros((k + 1, n_candidates + 1))
        for a in range(k):
            votes = (k - a) / (k if is_soft else n_neighbors)
            worth = rank_weights(presence, n_candidates, k - a).worth
            self._worth[a, :n_candidates] = votes * worth
        # With one candidate less nearer.
        before = np.pad(self._worth, ((0, 0), (1, 0)))[:, :-1]
        self._to_candidate = before - self._worth
        self._to_owned = before - np.pad(before, ((0, 1), (0, 0)))[1:]
        self._to_candidate[:, 0] = 0.0
        self._to_owned[:, 0] = 0.0

        self._added = np.zeros(4)
        if is_soft and n_owned < k:
            self._added = _correction(size_distribution(presence, n_candidates - 1), n_owned, k)
            self._added[3] /= n_classes

    def added(self, n_matches: int, n_owned_matches: int) -> tuple[float, float]:
        """What small coalitions add to the value of a matching candidate and of another one."""
        own, other, owned, empty = self._added.tolist()
        to_other = other * n_matches + owned * n_owned_matches - empty
        return to_other + (own - other), to_other

    def values(self, is_owned: BoolVector, gains: FloatVector, first: BoolVector) -> FloatVector:
        """Values of the game (1/K) * (sum of gains over the K nearest); 0 for owned rows.

        Parameters
        ----------
        is_owned, gains : arrays of shape (N,)
            Of the row at each rank.
        first : array of shape (N,)
            Whether a block of ties begins at a rank.
        """
        n_owned_before: IntVector = np.cumsum(is_owned) - is_owned
        owned = np.minimum(n_owned_before, self.n_neighbors)
        nearer = np.arange(len(gains)) - n_owned_before
        if first.all():
            to_candidate = self._to_candidate[owned, nearer]
            losses = gains * np.where(is_owned, self._to_owned[owned, nearer], to_candidate)
            values = gains * self._worth[owned, nearer] - sum_after(losses)
            return np.where(is_owned, 0.0, values)

        starts = np.flatnonzero(first)
        sizes = np.diff(starts, append=len(gains))
        of_candidates = self._votes_of_candidates(owned, nearer, starts, sizes)
        of_owned = _Votes.zeros(len(starts))
        n_owned = np.add.reduceat(is_owned, starts, dtype=np.intp)
        # Nothing counts after K owned rows, so that at most K blocks with owned rows remain.
        for block in np.flatnonzero((n_owned > 0) & (owned[starts] < self.n_neighbors)).tolist():
            start = starts[block]
            counts = (int(n_owned[block]), int(sizes[block] - n_owned[block]))
            position = (int(owned[start]), int(nearer[start]))
            of_candidates.put(block, self._candidate_among_owned(*counts, *position))
            of_owned.put(block, self._owned_among_candidates(*counts, *position))

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
        """Votes of candidates in blocks without owned rows.

        Each number of the others in its block comes before a candidate equally often.
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
        ranks = slice(r, r + n_candidates)
        n_before = np.arange(n_candidates)
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
        ranks = slice(r, r + n_candidates + 1)
        n_before = np.arange(n_candidates + 1)
        for y, law in _laws_of_before(n_owned - 1, n_candidates, self.n_neighbors - a):
            taken = law * self._to_owned[a + y, ranks]
            to_nearer += float(taken.sum())
            to_tied += float((taken * n_before).sum()) / max(n_candidates, 1)
        return 0.0, to_nearer, to_tied


@dataclass(frozen=True, eq=False)
class _Votes:
    """Votes of matching rows in each block, as means over the orders of its tied rows.

    Attributes
    ----------
    worth : array of shape (blocks,)
        What a vote adds to the value of its row.
    to_nearer, to_tied : arrays of shape (blocks,)
        What it takes from each nearer candidate, and from each tied one.
    """

    worth: FloatVector
    to_nearer: FloatVector
    to_tied: FloatVector

    @classmethod
    def zeros(cls, n_blocks: int) -> _Votes:
        return cls(np.zeros(n_blocks), np.zeros(n_blocks), np.zeros(n_blocks))

    def put(self, block: int, votes: tuple[float, float, float]) -> None:
        """Set worth, loss of nearer and loss of tied candidates of one block."""
        self.worth[block], self.to_nearer[block], self.to_tied[block] = votes


def _laws_of_before(
    n_owned: int, n_candidates: int, max_owned: int
) -> Iterator[tuple[int, FloatVector]]:
    """P(y owned rows and z candidates come before a row tied with them), for each y below
    `max_owned`, by z.

    Each y is as likely as any other. Given y, the row comes at a moment with the law Beta(y + 1,
    n_owned - y + 1), and each candidate comes before it independently.
    """
    for y in range(min(n_owned + 1, max_owned)):
        moment = Presence(present=y + 1.0, absent=n_owned - y + 1.0)
        yield y, size_distribution(moment, n_candidates) / (n_owned + 1.0)


def _correction(sizes: FloatVector, n_owned: int, k: int) -> FloatVector:
    """What coalitions of s < k rows add, because they vote with weight 1/s.

    Returns
    -------
    array of shape (4,)
        Factors of an own match, of matches of other candidates and of owned matches, and what a
        coalition without rows has.
    """
    n_candidates = len(sizes)
    s = n_owned + np.arange(n_candidates + 1)
    more = np.where((s > 0) & (s < k), 1.0 / np.maximum(s, 1) - 1.0 / k, 0.0)
    joined = sizes * np.diff(more)
    other = joined @ np.arange(n_candidates) / max(n_candidates - 1, 1)
    return np.array([sizes @ more[1:], other, joined.sum(), sizes[0] * (n_owned == 0)])
