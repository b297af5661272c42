"""What the spread of votes over the rows says about the level of noise.

Count the labels c among a row and its m nearest neighbours: m + 1 tosses of a coin that shows c with

    p = inflow + (1 - inflow - error rate) * eta,        eta ~ Beta(mean * size, (1 - mean) * size) over the rows.

eta is the share of the true class c around the row. From classes that are apart (size near 0) to one blur of all
(large) its distribution is one smooth family, and this is what tells noise from overlap: noise moves both ends of the
distribution inwards and leaves a sharp edge, overlap fills the middle. One row says little, all together say a lot.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatMatrix, FloatVector, IntMatrix, IntVector
from nearworth.audit.noise import RARE

# A label is tossed in as many counts as a count has tosses. Likelihoods are taken per toss, and so many times: all
# counts together say about as much as this many independent counts for every m + 1 rows.
WORTH = 4.0
# Sizes and offsets of error rates (in the logit of twice the rate) are normal before looking, sizes in their logarithm.
SIZES: FloatVector = np.geomspace(0.003, 60.0, 28)
SIZE_MEAN, SIZE_SPREAD = 0.0, 1.0
OFFSETS, OFFSET_SPREAD = np.array([-3.0, -2.25, -1.5, -0.75, 0.0, 0.75, 1.5, 2.25, 3.0]), 0.8
INFLOWS, INFLOW_SPREAD = np.array([0.4, 1.0, 2.5]), 0.7  # times the error rate shared out among all wrong classes
TRICKLE = 0.05  # share of an even inflow that still comes from the others if nearly all comes from one
MOST_INFLOW, MOST_TILT = 0.49, 1e6
MOST_CLASSES = 20  # the largest; they tell enough, and each takes time
_EVEN: FloatVector = np.linspace(0.0, 1.0, 49)
_DENSE: FloatVector = _EVEN**2 * (3.0 - 2.0 * _EVEN)  # at both ends
EDGES: FloatVector = _DENSE**2 * (3.0 - 2.0 * _DENSE)  # of the cells of eta, far denser there: most of it may be there
CENTRES: FloatVector = (EDGES[1:] + EDGES[:-1]) / 2.0
MEANS: FloatVector = 1.0 / (1.0 + np.exp(-np.linspace(-12.0, 12.0, 121)))  # for which cells are tabulated


Flows = Sequence[tuple[float, npt.NDArray[np.float64]]]  # a row has one of these inflows, as often as the number says


class Shapes(NamedTuple):
    """What shapes say about each level of noise."""

    likelihood: FloatVector  # logarithm, up to a constant
    off_level: FloatMatrix  # levels x classes: how far the error rate of each class is off it, in the logit of 2 e


def indifferent(n_levels: int, n_classes: int) -> Shapes:
    """Where nobody voted."""
    return Shapes(np.zeros(n_levels), np.zeros((n_levels, n_classes)))


def read_shapes(votes: Sequence[IntMatrix], codes: IntVector, levels: FloatVector) -> Shapes:
    """From votes (rows x classes) among ever more neighbours, all rows asking the same number of them."""
    shares = np.bincount(codes, minlength=votes[0].shape[1]) / len(codes)
    # By size, and those of a size by how their votes are spread: what a class is called does not matter.
    order = np.lexsort((-(votes[-1].astype(np.float64) ** 2).sum(axis=0), -shares))
    common = order[: max(2, int((shares >= RARE / len(shares)).sum()))]
    tallies = [[_tally(v, codes, int(label)) for v in votes] for label in common[:MOST_CLASSES]]
    weights = shares[common[:MOST_CLASSES]] / shares[common[:MOST_CLASSES]].sum()
    if len(common) == 2:
        likelihood, off = _of_two(tallies[0], levels, weights)
    else:
        likelihood, off = _of_many(tallies, levels, weights, len(common))
    off_level = np.zeros((len(levels), len(shares)))
    off_level[:, common[:MOST_CLASSES]] = off
    return Shapes(likelihood, off_level)


def _of_two(tallies: list[FloatVector], levels: FloatVector, shares: FloatVector) -> tuple[FloatVector, FloatMatrix]:
    """From the tallies of the first of two classes: what flows into it is what the other one loses."""
    rates = [_rate(levels[:, None], OFFSETS * side) for side in (shares[1], -shares[0])]
    fits = _likelihoods(tallies, rates[0], [(1.0, rates[1])], WORTH) + _bell(OFFSETS / OFFSET_SPREAD)
    off = _expected(fits, OFFSETS)
    return _log_sum(fits, 1), np.stack([shares[1] * off, -shares[0] * off], axis=1)


def _of_many(
    tallies: list[list[FloatVector]], levels: FloatVector, shares: FloatVector, n_classes: int
) -> tuple[FloatVector, FloatMatrix]:
    """Each class against all others, whatever flows into it: from all of them alike, or nearly all from one.

    Each counts half, as if there were two classes, each of which says what the other one does.
    """
    rates = _rate(levels[:, None], OFFSETS)
    patterns = _inflow_patterns(np.broadcast_to(levels[:, None], rates.shape), n_classes)
    fits = [
        _log_sum(np.stack([prior + _likelihoods(tally, rates, flows, WORTH / 2.0) for prior, flows in patterns]), 0)
        for tally in tallies
    ]
    return _balanced(np.stack(fits) + _bell(OFFSETS / OFFSET_SPREAD), shares)


def _inflow_patterns(levels: FloatMatrix, n_classes: int) -> list[tuple[float, Flows]]:
    """Logarithms of how likely each is before looking, and what flows from the others into a class.

    All at the level: what other classes lose beyond it is not known while this class is looked at.
    """
    even = 1.0 / (n_classes - 1)
    alike = [[(1.0, np.minimum(times * even * levels, MOST_INFLOW))] for times in INFLOWS]
    from_one = [(even, levels), (1.0 - even, TRICKLE * even * levels)]
    logs = np.append(_bell(np.log(INFLOWS) / INFLOW_SPREAD), 0.0) - np.log(2.0)
    return list(zip(logs.tolist(), [*alike, from_one], strict=True))


def _balanced(fits: npt.NDArray[np.float64], shares: FloatVector) -> tuple[FloatVector, FloatMatrix]:
    """Likelihoods and expected offsets (levels x classes) if the offsets of all classes, weighted, add up to nothing.

    Else a level of 2 % with all classes above it would do for 5 %. The tilt of the offsets at which their expected sum
    is nothing gives the likelihood up to small terms, by the saddle-point approximation.
    """
    pull = shares[:, None, None] * OFFSETS
    low, high = np.full(fits.shape[1], -MOST_TILT), np.full(fits.shape[1], MOST_TILT)
    for _ in range(60):
        tilt = (low + high) / 2.0
        tilted = fits - tilt[:, None] * pull
        off = np.stack([_expected(of_class, OFFSETS) for of_class in tilted], axis=1)
        above = off @ shares > 0.0
        low, high = np.where(above, tilt, low), np.where(above, high, tilt)
    return _log_sum(tilted, 2).sum(axis=0), off


def _rate(level: FloatMatrix, off_level: FloatVector) -> FloatMatrix:
    """Error rates, at most a half."""
    return np.asarray(0.5 / (1.0 + np.exp(-(np.log(2.0 * level / (1.0 - 2.0 * level)) + off_level))))


def _expected(logs: FloatMatrix, values: FloatVector) -> FloatVector:
    """Mean of the values, one per column, in every row."""
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(weights @ values / weights.sum(axis=1))


def _tally(votes: IntMatrix, codes: IntVector, label: int) -> FloatVector:
    """How many rows see the label 0, 1, ... times among their neighbours and in themselves."""
    asked = int(np.bincount(votes.sum(axis=1)).argmax())  # rows that ask more or fewer than most are left out
    full = votes.sum(axis=1) == asked
    return np.bincount(votes[full, label] + (codes[full] == label), minlength=asked + 2).astype(np.float64)


def _likelihoods(tallies: list[FloatVector], rates: FloatMatrix, flows: Flows, worth: float) -> FloatMatrix:
    """Logarithms, one for each error rate and what flows in (shaped alike), sizes averaged out; mean of the scales."""
    size_prior = _bell((np.log(SIZES) - SIZE_MEAN) / SIZE_SPREAD)
    flat = [(share, inflows.ravel()) for share, inflows in flows]
    fits = [_log_sum(worth * _mixed(tally, rates.ravel(), flat) + size_prior, 1) for tally in tallies]
    return np.asarray(np.mean(fits, axis=0).reshape(rates.shape))


def _mixed(tally: FloatVector, rates: FloatVector, flows: Flows) -> FloatMatrix:
    """Logarithm of the likelihood of a tally, per toss: error rates x sizes.

    The mean of eta is the one at which the expected number of votes is the observed one, or the nearest there is: error
    rates at which more votes would flow in than there are fit badly, as they should.
    """
    tosses = len(tally) - 1
    heads = np.flatnonzero(tally)
    seen = tally[heads]
    inflow = np.sum([share * inflows for share, inflows in flows], axis=0)
    cells = _cells((seen @ heads / (seen.sum() * tosses) - inflow) / (1.0 - inflow - rates))
    logs = [np.log(share) + _log_chances(heads, tosses, rates, inflows, cells) for share, inflows in flows]
    return np.asarray(np.einsum("k,pks->ps", seen, _log_sum(np.stack(logs), 0)) / tosses)


def _log_chances(
    heads: IntVector, tosses: int, rates: FloatVector, inflows: FloatVector, cells: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Of so many heads in one order: error rates x heads x sizes."""
    chance = inflows[:, None] + (1.0 - inflows - rates)[:, None] * CENTRES
    logs = np.log(chance)[:, None, :] * heads[:, None] + np.log1p(-chance)[:, None, :] * (tosses - heads)[:, None]
    highest = logs.max(axis=2, keepdims=True)
    return np.asarray(np.log(np.exp(logs - highest) @ cells) + highest)


def _cells(means: FloatVector) -> npt.NDArray[np.float64]:
    """Chances of the cells of eta for each mean (means x cells x sizes), between those of the tabulated ones."""
    means = np.clip(means, MEANS[0], MEANS[-1])
    after = np.clip(np.searchsorted(MEANS, means), 1, len(MEANS) - 1)
    part = ((means - MEANS[after - 1]) / (MEANS[after] - MEANS[after - 1]))[:, None, None]
    table = _table()
    return np.asarray((1.0 - part) * table[after - 1] + part * table[after])


@cache
def _table() -> npt.NDArray[np.float64]:
    from scipy.special import betainc

    a, b = MEANS[:, None, None] * SIZES, (1.0 - MEANS)[:, None, None] * SIZES
    chances = np.maximum(np.diff(betainc(a, b, EDGES[:, None]), axis=1), 1e-300)
    # Near one, differences of what is nearly one say nothing; there the mirrored distribution does.
    return np.asarray(np.where(CENTRES[:, None] < 0.5, chances, chances[::-1, ::-1]))


def _bell(off: FloatVector) -> FloatVector:
    """Logarithms of normal weights that add up to one."""
    logs = -(off**2) / 2.0
    return np.asarray(logs - _log_sum(logs, 0))


def _log_sum(logs: npt.NDArray[np.float64], axis: int) -> npt.NDArray[np.float64]:
    highest = logs.max(axis=axis, keepdims=True)
    return np.asarray(np.squeeze(highest, axis) + np.log(np.exp(logs - highest).sum(axis=axis)))
