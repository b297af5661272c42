"""Where every coefficient sequence is made, from the law of who else is present.

The formulas are derived in docs/mathematics.md and decision 001. With ranks l = 1..N by distance:

    c_l   (1/K) P(fewer than K of the l-1 nearer points are present): the value of a vote at rank l
    d_l   c_{l-1} - c_l: what point l loses to a nearer one
    e_l, f_l    the same for a pair: c and d of K-1 neighbors under the size-biased law, one rank
                later
    p_j   P(j of the others are present), for coalitions smaller than K

A sequence is built outwards from its largest term by ratios and normalized by a sum of positive
terms. Nothing overflows, nothing cancels, and what underflows is negligible.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from nearworth._common.types import FloatVector, Semivalue

# Corrections that are kept, because radius games ask for every count.
MAX_CORRECTIONS = 2**14


@dataclass(frozen=True)
class Presence:
    """The law of t, the probability with which each point is present independently.

    Attributes
    ----------
    present, absent : float
        The law is Beta(present, absent), unless one of the next two is given.
    fixed : float or None
        The one value of t.
    mass : float
        What all weights add up to.
    sizes : (first, last) or None
        Instead of a law of t: the number of the others that are present is uniform between these.
        A last one of None is the number of the others.
    """

    present: float = 1.0
    absent: float = 1.0
    fixed: float | None = None
    mass: float = 1.0
    sizes: tuple[int, int | None] | None = None

    @classmethod
    def of(cls, semivalue: Semivalue) -> Presence:
        """The law behind a semivalue's public name."""
        if semivalue == "shapley":
            return cls()
        if semivalue == "banzhaf":
            return cls(fixed=0.5)
        if semivalue == "loo":
            return cls(fixed=1.0)
        if semivalue == "composite":
            # An analyst must be present too, which has the probability t.
            return cls(present=2.0, mass=0.5)
        name, a, b = semivalue
        if name == "sizes":
            return cls(sizes=(int(a), None if b is None else int(b)))
        return cls(present=float(b or 0), absent=float(a))

    @property
    def mean(self) -> float:
        """Probability that one given point is present."""
        return self.present / (self.present + self.absent) if self.fixed is None else self.fixed

    def size_biased(self) -> Presence:
        """The law of t given that one point is present."""
        if self.fixed is not None:
            return self
        return Presence(present=self.present + 1.0, absent=self.absent)

    def next_is_absent(self, present: int, absent: FloatVector) -> FloatVector:
        """Probability that one more point is absent, after so many present and absent ones."""
        if self.fixed is not None:
            return np.full(absent.shape, 1.0 - self.fixed)
        return (self.absent + absent) / (self.absent + self.present + present + absent)


@dataclass(frozen=True)
class RankWeights:
    """The sequences c (`worth`) and d (`loss`) over ranks.

    Index 0 is rank 1, and the losses start with 0 there.
    """

    worth: FloatVector
    loss: FloatVector


def size_distribution(presence: Presence, n_others: int) -> FloatVector:
    """p_j, j = 0..n_others: the probability that j of the others are present, times the mass."""
    if presence.sizes is not None:
        low, last = presence.sizes
        high = n_others if last is None else min(last, n_others)
        size = np.arange(n_others + 1)
        return np.asarray((size >= low) * (size <= high) / max(high - low + 1, 1))
    if presence.fixed == 1.0:
        certain = np.zeros(n_others + 1)
        certain[-1] = 1.0
        return certain
    j = np.arange(n_others, dtype=np.float64)
    if presence.fixed is not None:
        ratios = (n_others - j) / (j + 1.0) * (presence.fixed / (1.0 - presence.fixed))
    else:
        # The last factor counts up from zero, so that a tiny `absent` is not lost in it.
        ratios = ((n_others - j) * (presence.present + j)) / (
            (j + 1.0) * (presence.absent + (n_others - j - 1.0))
        )
    return presence.mass * _distribution_from_ratios(ratios)


def rank_weights(presence: Presence, n_players: int, n_neighbors: int) -> RankWeights:
    """The sequences c and d for N players and K neighbors.

    They are all zero for K = 0, where nobody votes.
    """
    n = n_players
    k = n_neighbors
    if k == 0:
        return RankWeights(np.zeros(n), np.zeros(n))
    worth = np.full(n, 1.0 / k)
    loss = np.zeros(n)
    if n > k:
        if presence.sizes is not None:
            tail = _tail_of_sizes
        elif presence.fixed is None and presence.absent == 1.0 and presence.present in (1.0, 2.0):
            tail = _closed_tail
        else:
            tail = _recurrent_tail
        worth[k:], loss[k:] = tail(replace(presence, mass=1.0), n, k)
    return RankWeights(presence.mass * worth, presence.mass * loss)


def pair_weights(presence: Presence, n_players: int, n_neighbors: int) -> RankWeights:
    """The sequences e and f: those of K-1 neighbors under the size-biased law, one rank later."""
    biased = rank_weights(presence.size_biased(), max(n_players - 1, 1), n_neighbors - 1)
    scale = presence.mass * presence.mean * (n_neighbors - 1)
    worth = scale * np.concatenate([biased.worth[:1], biased.worth])[:n_players]
    loss = scale * np.concatenate([[0.0], biased.loss])[:n_players]
    return RankWeights(worth, loss)


def _closed_tail(presence: Presence, n: int, k: int) -> tuple[FloatVector, FloatVector]:
    """c and d at ranks beyond K when t ~ Beta(b, 1), b = 1 or 2, right to the last bit.

    c_l = (1/K) prod_{i<b} (K+i)/(l+i), and `before` is c_{l-1}.
    """
    rank = np.arange(k + 1, n + 1, dtype=np.float64)
    b = int(presence.present)
    before = np.full(rank.shape, 1.0 / k)
    worth = np.full(rank.shape, 1.0 / k)
    for i in range(b):
        before *= (k + i) / (rank - 1.0 + i)
        worth *= (k + i) / (rank + i)
    return worth, before * b / (rank - 1.0 + b)


def _recurrent_tail(presence: Presence, n: int, k: int) -> tuple[FloatVector, FloatVector]:
    """c and d at ranks beyond K for any law.

    d is made by its ratios and scaled to P(K or more present)/K. Then c is its tail sum.
    """
    sizes = size_distribution(presence, n - 1)
    rank = np.arange(k + 1, n, dtype=np.float64)
    ratios = (rank - 1.0) / (rank - k) * presence.next_is_absent(k, rank - 1.0 - k)
    loss = _distribution_from_ratios(ratios) * (sizes[k:].sum() / k)
    worth = sizes[:k].sum() / k + sum_after(loss)
    return worth, loss


def _tail_of_sizes(presence: Presence, n: int, k: int) -> tuple[FloatVector, FloatVector]:
    """c and d at ranks beyond K if the number j of the others present is uniform over a range.

    K d_l is the mean over these j of f(l, j) = C(l-2, K-1) C(N-l, j-K) / C(N-1, j), which is a law
    over l for each j >= K. F(l), the sum of f(l, j) over the range, comes from the ends of the
    range alone:

        (l+1) l F(l+1) = l (l-1) F(l) + l (G(l, last + 1) - G(l, first)),
        G(l, j) = (l-1) (j-K) (N-j) / ((l-K) (N-l)) f(l, j)
    """
    sizes = np.flatnonzero(size_distribution(presence, n - 1))
    rank = np.arange(k + 1, n, dtype=np.float64)

    def end(j: int) -> FloatVector:
        """G(l, j) at the ranks l = K+1..N-1."""
        if not k < j < n:
            return np.zeros(len(rank))
        ratios = (rank - 1.0) / (rank - k) * np.maximum(n - rank - j + k, 0.0) / (n - rank)
        law = _distribution_from_ratios(ratios)[:-1]
        return np.asarray((rank - 1.0) * (j - k) * (n - j) / ((rank - k) * (n - rank)) * law)

    # f(K + 1, j)
    nearest = np.ones(len(sizes))
    for i in range(k):
        nearest *= np.maximum(sizes - i, 0) / (n - 1.0 - i)
    steps = rank * (end(int(sizes[-1]) + 1) - end(int(sizes[0])))
    summed = np.concatenate([[0.0], np.cumsum(steps)]) + k * (k + 1) * nearest.sum()
    ranks_beyond = np.append(rank, n)
    mean_loss = summed / (ranks_beyond * (ranks_beyond - 1.0))
    loss = np.maximum(mean_loss, 0.0) / (k * len(sizes))
    last_worth = np.count_nonzero(sizes < k) / (k * len(sizes))
    return last_worth + sum_after(loss), loss


def _distribution_from_ratios(ratios: FloatVector) -> FloatVector:
    """Positive terms x_{j+1} = ratios[j] x_j that sum to one.

    They are made outwards from the largest, so that none can overflow.
    """
    with np.errstate(divide="ignore", under="ignore"):
        peak = _position_of_largest(ratios)
        below = np.cumprod(1.0 / ratios[:peak][::-1])[::-1]
        above = np.cumprod(ratios[peak:])
    terms = np.concatenate([below, [1.0], above])
    return np.asarray(terms / terms.sum())


def _position_of_largest(ratios: FloatVector) -> int:
    """The j of the largest term."""
    # A function of its own, so that this array is gone before the terms are made.
    log_terms = np.concatenate([[0.0], np.cumsum(np.log(ratios))])
    return int(np.argmax(log_terms))


def sum_after(terms: FloatVector) -> FloatVector:
    """Sum of the terms strictly after each position of the last axis, added from the far end."""
    after = np.zeros_like(terms)
    after[..., :-1] = np.cumsum(terms[..., :0:-1], axis=-1)[..., ::-1]
    return after


@dataclass(frozen=True)
class ClassificationCorrection:
    """What coalitions smaller than K add to the value of point i with the soft utility.

    It is own u_i + other (T - u_i) - empty/C.
    """

    own: float
    other: float
    empty: float


@lru_cache(MAX_CORRECTIONS)
def classification_correction(
    presence: Presence, n_players: int, n_neighbors: int
) -> ClassificationCorrection:
    """The factors for votes with weight 1/s instead of 1/m, m = min(K, N).

    All points of such a coalition vote, so that no distance enters.
    """
    m = min(n_neighbors, n_players)
    p = size_distribution(presence, n_players - 1)
    # Sizes of coalitions.
    s = np.arange(1, m, dtype=np.float64)
    # No BLAS, which rounds as the processor likes.
    own = (p[: m - 1] * (1.0 / s - 1.0 / m)).sum()
    other = -(p[1:m] / (s + 1.0)).sum() / max(n_players - 1, 1)
    return ClassificationCorrection(float(own), float(other), float(p[0]))


@dataclass(frozen=True)
class RegressionCorrection:
    """The same for squared errors: own z_i^2 + 2 cross z_i P + others Q + pairs (P^2 - Q).

    P is the sum of z and Q that of z^2 over all points but i.
    """

    own: float
    cross: float
    others: float
    pairs: float
    empty: float


def regression_correction(
    presence: Presence, n_players: int, n_neighbors: int
) -> RegressionCorrection:
    """The factors for weighting (sum z)^2 with 1/s^2 instead of 1/m^2 in coalitions of s < m."""
    m = min(n_neighbors, n_players)
    p = size_distribution(presence, n_players - 1)
    s = np.arange(1, m, dtype=np.float64)
    # Of a point that joins s - 1 others, and what s others lose when a point joins.
    gain = p[: m - 1] * (1.0 / s**2 - 1.0 / m**2)
    drop = p[1:m] * (2.0 * s + 1.0) / (s * (s + 1.0)) ** 2
    # P(one given point, or two, are among s of the others)
    one_present = s / max(n_players - 1, 1)
    two_present = one_present * (s - 1.0) / max(n_players - 2, 1)
    return RegressionCorrection(
        own=float(gain.sum()),
        cross=float((gain * ((s - 1.0) / max(n_players - 1, 1))).sum()),
        others=-float((drop * one_present).sum()),
        pairs=-float((drop * two_present).sum()),
        empty=float(p[0]),
    )
