"""The level of noise: how likely each level is, and the model of wrong labels averaged over the
likely ones.

`docs/audit.md` has the model. Count the labels c among a row and its m nearest neighbours: m + 1
trials that each show c with probability

    p = inflow + (1 - inflow - error rate) * eta,        eta ~ Beta(mean * size, (1 - mean) * size)
    over the rows

where eta is the share of the true class c around the row. Noise moves both ends of its distribution
inwards and leaves a sharp edge; classes that overlap fill the middle. Outcomes drawn by lot have
any shape: see `ANY_SHAPE`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betainc, expit, logsumexp, softmax

from nearworth._common.types import FloatMatrix, FloatVector, IntMatrix, IntVector
from nearworth.audit.noise_model import MANY_CLASSES, RARE, NoiseFit, NoiseModel
from nearworth.audit.votes import MOST_COLUMNS, Columns

FIT_ROWS = 6_000  # rows from which the few parameters are learnt
LEVELS: FloatVector = np.array(
    [
        0.002,
        0.01,
        0.02,
        0.03,
        0.04,
        0.05,
        0.06,
        0.08,
        0.1,
        0.125,
        0.15,
        0.18,
        0.21,
        0.25,
        0.3,
        0.35,
        0.4,
        0.45,
    ]
)
USUAL_LEVEL = 1.0 / 15.0  # mean of the exponential prior: most labels of most data are right
UNLIKELY = (
    25.0  # levels that vote counts make so many nats less likely than the best are not fitted
)
# Once more with preferences at this part of their price; for which so many nats are due, and one
# for each class.
CHEAP_PREFERENCES, CHEAP_FEE = 0.35, 6.0
NEGLIGIBLE = 1e-4  # levels with a smaller weight are dropped

# A label is part of as many counts as a count has trials. Likelihoods are taken per trial, and so
# many times: all counts together say about as much as this many independent counts for every m + 1
# rows.
WORTH = 4.0
# Sizes and offsets of error rates (in the logit of twice the rate) are normal before looking, sizes
# in their logarithm.
SIZES: FloatVector = np.geomspace(0.003, 60.0, 28)
SIZE_MEAN, SIZE_SPREAD = 0.0, 1.0
OFFSETS, OFFSET_SPREAD = np.array([-3.0, -2.25, -1.5, -0.75, 0.0, 0.75, 1.5, 2.25, 3.0]), 0.8
INFLOWS, INFLOW_SPREAD = (
    np.array([0.4, 1.0, 2.5]),
    0.7,
)  # times the error rate shared out among all wrong classes
TRICKLE = (
    0.05  # share of an even inflow that still comes from the others if nearly all comes from one
)
MOST_INFLOW, MOST_TILT = 0.49, 1e6
# Of two classes p may have any distribution, without noise, for so many nats and a part of what it
# gains on a Beta distribution: no data have quite that. Of more classes, noise from each class to
# one other would look like it.
ANY_SHAPE, PART_OF_GAIN, ROUNDS = 6.0, 0.2, 200  # more rounds of the fit change hundredths
MOST_CLASSES = 20  # the largest; they tell enough, and each takes time
AT_ONCE = 18  # error rates: arrays then stay in the processor's cache
_EVEN: FloatVector = np.linspace(0.0, 1.0, 49)
_DENSE: FloatVector = _EVEN**2 * (3.0 - 2.0 * _EVEN)  # at both ends
EDGES: FloatVector = _DENSE**2 * (
    3.0 - 2.0 * _DENSE
)  # of the cells of eta, far denser there: most of it may be there
CENTRES: FloatVector = (EDGES[1:] + EDGES[:-1]) / 2.0
MEANS: FloatVector = 1.0 / (
    1.0 + np.exp(-np.linspace(-12.0, 12.0, 121))
)  # for which cells are tabulated

Flows = Sequence[
    tuple[float, FloatMatrix]
]  # shares of the rows, and the inflow that those rows have


class Hypothesis(NamedTuple):
    """A level of noise, how far the error rate of each class is off it, and the price of
    preferences.
    """

    level: float
    offsets: FloatVector
    price: float


@dataclass(frozen=True)
class Posterior:
    """What the hypotheses together make of each row."""

    hypotheses: list[Hypothesis]
    models: list[NoiseModel]  # of the hypotheses
    weights: FloatVector
    _: KW_ONLY
    right: FloatMatrix  # P(given label is right), one line per hypothesis
    evidence: FloatMatrix  # P(true label | evidence without the given label)
    labels: FloatMatrix  # P(true label | evidence and given label)
    by_lot: float = 0.0  # P(all labels are right, outcomes drawn by lot); apart from the above
    calibration: FloatVector | None = (
        None  # a weight and shifts that make the evidence predict given labels
    )

    @classmethod
    def of(
        cls, hypotheses: Any, models: Any, weights: Any, features: FloatMatrix, codes: IntVector
    ) -> Posterior:
        _, n_rows, n_classes = features.shape
        evidence, labels = np.zeros((n_rows, n_classes)), np.zeros((n_rows, n_classes))
        right = np.empty((len(models), n_rows))
        for number, (model, weight) in enumerate(zip(models, weights, strict=True)):
            of_evidence, of_labels = model.posterior(features, codes)
            right[number] = of_labels[np.arange(n_rows), codes]
            evidence += weight * of_evidence
            labels += weight * of_labels
        return cls(hypotheses, models, weights, right=right, evidence=evidence, labels=labels)

    def judge(self, features: FloatMatrix, codes: IntVector) -> Posterior:
        """What they make of other rows."""
        found = Posterior.of(self.hypotheses, self.models, self.weights, features, codes)
        return replace(found, by_lot=self.by_lot, calibration=self.calibration)

    @property
    def quality(self) -> FloatVector:
        return np.minimum(self.weights @ self.right, 1.0)

    @property
    def confusion(self) -> FloatMatrix:
        """P(given label | true label), true labels in rows, averaged over the hypotheses."""
        return np.asarray(np.tensordot(self.weights, [model.confusion for model in self.models], 1))


class LevelFit(NamedTuple):
    """What the vote counts say about each level of noise."""

    likelihood: FloatVector  # logarithm, up to a constant
    # levels x classes: how far the error rate of each class is off it, in the logit of 2 e
    offsets: FloatMatrix
    by_lot: float = -np.inf  # the same logarithm without noise and with overlap of any shape


def fitted_rows(n_rows: int) -> IntVector:
    """The rows from which the model is learnt: all, or a sample that is enough."""
    if n_rows <= FIT_ROWS:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, FIT_ROWS, replace=False))


def label_posterior(
    features: FloatMatrix,
    codes: IntVector,
    votes: Sequence[IntMatrix] = (),
    columns: Columns | None = None,
) -> Posterior:
    """Learn from some rows how likely each label is, and apply that to all. Features must not know
    a row's own label.

    `votes` are counts of labels among the nearest neighbours of each of the `fitted_rows`, few of
    them and then more. Of very many classes, `codes` are those of columns, and votes are counted by
    class.
    """
    _, n_rows, n_classes = features.shape
    some = fitted_rows(n_rows)
    no_votes = LevelFit(np.zeros(len(LEVELS)), np.zeros((len(LEVELS), n_classes)))
    counted = (
        level_likelihood(votes, (codes if columns is None else columns.codes)[some])
        if votes
        else no_votes
    )
    counted = counted if columns is None else no_votes._replace(likelihood=counted.likelihood)
    likely = counted.likelihood - LEVELS / USUAL_LEVEL
    near = np.flatnonzero(likely > likely.max() - UNLIKELY)
    hypotheses = [
        Hypothesis(float(LEVELS[number]), counted.offsets[number], 1.0) for number in near
    ]
    prior = likely[near]
    if 2 < n_classes <= MANY_CLASSES and columns is None:
        hypotheses += [hypothesis._replace(price=CHEAP_PREFERENCES) for hypothesis in hypotheses]
        prior = np.concatenate([prior, prior - n_classes - CHEAP_FEE])
    models, losses = _models(features[:, some], codes[some], hypotheses, columns)
    weights = softmax(prior - losses)
    chosen = np.flatnonzero(weights > NEGLIGIBLE).tolist()
    kept = [hypotheses[number] for number in chosen], [models[number] for number in chosen]
    by_lot = expit(
        counted.by_lot - losses[0] - logsumexp(prior - losses)
    )  # labels are as likely as with least noise
    return replace(
        Posterior.of(*kept, weights[chosen] / weights[chosen].sum(), features, codes), by_lot=by_lot
    )


def with_more_evidence(
    found: Posterior, features: FloatMatrix, codes: IntVector, columns: Columns | None = None
) -> Posterior:
    """The same hypotheses with the same weights, fitted to more kinds of features.

    Predictions of the given labels, wrong ones included, make little noise more likely the better
    they are. So they may say which labels are wrong, but not how many.
    """
    some = fitted_rows(len(codes))
    models, _ = _models(features[:, some], codes[some], found.hypotheses, columns)
    return Posterior.of(found.hypotheses, models, found.weights, features, codes)


def _models(
    features: FloatMatrix, codes: IntVector, hypotheses: list[Hypothesis], columns: Columns | None
) -> tuple[list[NoiseModel], FloatVector]:
    """The model of each hypothesis, and its loss.

    Wrong labels are of all kinds, or each class is nearly always taken for one other. One prior for
    both would hold the optimiser where it starts, so each price starts anew.
    """
    popularity = None if columns is None else columns.rows.mean(axis=0)
    fits = {
        price: NoiseFit(features, codes, popularity)
        for price in dict.fromkeys(h.price for h in hypotheses)
    }
    found = [fits[h.price].model(*h) for h in hypotheses]
    return [model for model, _ in found], np.array([loss for _, loss in found])


def level_likelihood(votes: Sequence[IntMatrix], codes: IntVector) -> LevelFit:
    """From label counts (rows x classes) among ever more neighbours, the same number of them for
    all rows.
    """
    shares = np.bincount(codes, minlength=votes[0].shape[1]) / len(codes)
    # By size, and classes of a size by how their votes are spread: what a class is called does not
    # matter.
    order = np.lexsort((-np.einsum("ij,ij->j", votes[-1], votes[-1]), -shares))
    common = order[: max(2, int((shares >= RARE / len(shares)).sum()))]
    step = (
        MOST_CLASSES if len(common) > MOST_COLUMNS else len(common)
    )  # very many have few rows: twentieths lose alike
    parts = [part for number in range(MOST_CLASSES) if len(part := common[number::step])]
    two = len(common) == 2
    tallies = [_tallies(v, codes, parts[:1] if two else parts) for v in votes]
    weights = np.array([shares[part].sum() for part in parts])
    weights /= weights.sum()
    likelihood, found = (
        _of_two(tallies, weights) if two else _of_many(tallies, weights, len(common))
    )
    gain = (
        WORTH * float(np.mean([any_shape_likelihood(tally[0]) for tally in tallies]))
        - likelihood[0]
    )
    by_lot = likelihood[0] + (1.0 - PART_OF_GAIN) * gain - ANY_SHAPE if two else -np.inf
    offsets = np.zeros((len(LEVELS), len(shares)))
    for part, off in zip(parts, found.T, strict=True):
        offsets[:, part] = off[:, None]
    return LevelFit(likelihood, offsets, by_lot)


def _of_two(tallies: list[FloatMatrix], shares: FloatVector) -> tuple[FloatVector, FloatMatrix]:
    """From the tallies of the first of two classes: what flows into it is what the other one
    loses.
    """
    rates = [_rates(OFFSETS * side) for side in (shares[1], -shares[0])]
    fits = _likelihoods(tallies, rates[0], [(1.0, rates[1])], WORTH)[0] + _normal_logs(
        OFFSETS / OFFSET_SPREAD
    )
    expected = _expected_offset(fits)
    return _log_sum(fits, 1), np.stack([shares[1] * expected, -shares[0] * expected], axis=1)


def _of_many(
    tallies: list[FloatMatrix], shares: FloatVector, n_classes: int
) -> tuple[FloatVector, FloatMatrix]:
    """Each class against all others, whatever flows into it: from all of them alike, or nearly all
    from one.

    All at the level: what other classes lose beyond it is not known while this class is looked at.
    Each counts half, as of two classes, each of which determines the other.
    """
    levels = np.broadcast_to(LEVELS[:, None], (len(LEVELS), len(OFFSETS)))
    even = 1.0 / (n_classes - 1)
    patterns = [[(1.0, np.minimum(times * even * levels, MOST_INFLOW))] for times in INFLOWS]
    patterns.append([(even, levels), (1.0 - even, TRICKLE * even * levels)])
    priors = np.append(_normal_logs(np.log(INFLOWS) / INFLOW_SPREAD), 0.0) - np.log(2.0)
    rates = _rates(OFFSETS)
    fits = [
        prior + _likelihoods(tallies, rates, flows, WORTH / 2.0)
        for prior, flows in zip(priors, patterns, strict=True)
    ]
    fit = _log_sum(np.stack(fits), 0) + _normal_logs(OFFSETS / OFFSET_SPREAD)
    # Offsets of all classes, weighted, add up to nothing, else a level of 2 % with all classes
    # above it would do for 5 %. The tilt of the offsets at which their expected sum is nothing
    # gives the likelihood up to small terms, by the saddle-point approximation.
    pull = shares[:, None, None] * OFFSETS
    low, high = np.full(len(LEVELS), -MOST_TILT), np.full(len(LEVELS), MOST_TILT)
    for _ in range(60):  # bisection, at all levels at once
        tilt = (low + high) / 2.0
        tilted = fit - tilt[:, None] * pull
        offsets = np.ascontiguousarray(_expected_offset(tilted).T)
        above = offsets @ shares > 0.0
        low, high = np.where(above, tilt, low), np.where(above, high, tilt)
    return _log_sum(tilted, 2).sum(axis=0), offsets


def _expected_offset(logs: FloatMatrix) -> FloatVector:
    """Mean of OFFSETS in every row, which holds a logarithm of the weight of each."""
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(weights @ OFFSETS / weights.sum(axis=-1))


def _rates(offset: FloatVector) -> FloatMatrix:
    """Error rates (levels x offsets), at most a half."""
    level = LEVELS[:, None]
    return np.asarray(0.5 / (1.0 + np.exp(-(np.log(2.0 * level / (1.0 - 2.0 * level)) + offset))))


def _tallies(votes: IntMatrix, codes: IntVector, parts: Sequence[IntVector]) -> FloatMatrix:
    """How many rows see each label 0, 1, ... times among their neighbours and in themselves: parts
    x counts.
    """
    seen = votes.sum(axis=1)
    size = int(np.bincount(seen).argmax())
    full = seen == size  # rows with more or fewer neighbours than most are dropped
    votes, codes = votes[full], codes[full]
    tallies = [
        [np.bincount(votes[:, c] + (codes == c), minlength=size + 2) for c in part]
        for part in parts
    ]
    return np.array([np.sum(of_part, axis=0) for of_part in tallies], dtype=np.float64)


def _likelihoods(
    tallies: list[FloatMatrix], rates: FloatMatrix, flows: Flows, worth: float
) -> FloatMatrix:
    """Logarithms, one for each label, error rate and inflow (shaped alike), sizes averaged out;
    mean of the scales.
    """
    size_prior = _normal_logs((np.log(SIZES) - SIZE_MEAN) / SIZE_SPREAD)
    flat = [(share, inflows.ravel()) for share, inflows in flows]
    fits = [
        _log_sum(worth * tally_likelihoods(tally, rates.ravel(), flat) + size_prior, 2)
        for tally in tallies
    ]
    return np.asarray(np.mean(fits, axis=0).reshape(-1, *rates.shape))


def tally_likelihoods(tallies: FloatMatrix, rates: FloatVector, flows: Flows) -> FloatMatrix:
    """Logarithms of the likelihoods of tallies, per trial: labels x error rates x sizes.

    The mean of eta is the one at which the expected number of votes is the observed one, or the
    nearest there is: error rates at which more votes would flow in than there are fit badly, as
    they should.
    """
    trials = tallies.shape[1] - 1
    inflow = np.sum([share * inflows for share, inflows in flows], axis=0)
    counted = np.arange(trials + 1)[:, None]
    # of each count, in one order of its trials: error rates x counts x cells of eta, over the
    # highest
    chances = []
    for share, inflows in flows:
        chance = inflows[:, None] + (1.0 - inflows - rates)[:, None] * CENTRES
        logs = np.log(chance)[:, None, :] * counted + np.log1p(-chance)[:, None, :] * (
            trials - counted
        )
        highest = logs.max(axis=2, keepdims=True)
        chances.append((np.log(share), np.exp(logs - highest), highest))
    fits = np.empty((len(tallies), len(rates), len(SIZES)))
    for number, tally in enumerate(tallies):
        counts = np.flatnonzero(tally)
        rows = tally[counts]
        means = (rows @ counts / (rows.sum() * trials) - inflow) / (1.0 - inflow - rates)
        for start in range(0, len(rates), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            cells = _cells(means[part])
            found = [
                log + (np.log(of[part, counts] @ cells) + top[part, counts])
                for log, of, top in chances
            ]
            joined = found[0] if len(found) == 1 else _log_sum(np.stack(found), 0)
            fits[number, part] = np.einsum("k,pks->ps", rows, joined)
    return np.asarray(fits / trials)


def any_shape_likelihood(tally: FloatVector) -> float:
    """Logarithm of the likelihood of a tally, per trial, with the distribution of chances that fits
    best: by EM.
    """
    counted, trials = np.arange(len(tally))[:, None], len(tally) - 1
    chances = np.exp(np.log(CENTRES) * counted + np.log1p(-CENTRES) * (trials - counted))
    parts = np.full(len(CENTRES), 1.0 / len(CENTRES))
    for _ in range(ROUNDS):
        parts *= tally / (chances @ parts) @ chances / tally.sum()
    return float(tally @ np.log(chances @ parts)) / trials


def _cells(means: FloatVector) -> FloatMatrix:
    """Probabilities of the cells of eta for each mean (means x cells x sizes), interpolated between
    tabulated ones.
    """
    means = np.clip(means, MEANS[0], MEANS[-1])
    after = np.clip(np.searchsorted(MEANS, means), 1, len(MEANS) - 1)
    part = ((means - MEANS[after - 1]) / (MEANS[after] - MEANS[after - 1]))[:, None, None]
    return np.asarray((1.0 - part) * _table()[after - 1] + part * _table()[after])


@cache
def _table() -> FloatMatrix:
    a, b = MEANS[:, None, None] * SIZES, (1.0 - MEANS)[:, None, None] * SIZES
    low = EDGES[: len(CENTRES) // 2 + 1, None]
    chances = np.maximum(np.diff(betainc(a, b, low), axis=1), 1e-300)
    # Near one, differences of what is nearly one say nothing; there the mirrored distribution does.
    return np.concatenate([chances, chances[::-1, ::-1]], axis=1)


def _normal_logs(off: FloatVector) -> FloatVector:
    """Logarithms of normal weights that add up to one."""
    logs = -(off**2) / 2.0
    return np.asarray(logs - _log_sum(logs, 0))


def _log_sum(logs: FloatMatrix, axis: int) -> FloatMatrix:
    """As scipy's logsumexp, in plain sums."""
    highest = logs.max(axis=axis, keepdims=True)
    return np.asarray(np.squeeze(highest, axis) + np.log(np.exp(logs - highest).sum(axis=axis)))
