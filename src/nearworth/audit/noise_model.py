"""One model of votes and wrong labels, at a given level of noise; `noise_level.py` fits it at
several.

    P(true label c | evidence)   proportional to  exp(a_c + sum_f b_f log share_f(c))
    P(given label g | true c)    1 - e_c if g = c, else e_c r_cg

Shares f are those of forward votes, reverse votes and other evidence for a class. Weights b, shifts
a, the error rate e_c of each class and its preferences r among the wrong labels maximise the
likelihood of the given labels, with weak priors (below). Shifts correct votes that are themselves
full of errors of one kind.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth.audit.minimum import find_minimum

# Priors are normal: mean weight around one over their number (their sum may be large where votes
# are noisy), weights around their mean, shifts, class error rates around what the vote counts say
# (in the logit of twice the rate: no class is more than half wrong). Logarithms of preferences are
# around none with heavy tails: mostly wrong labels are of all kinds, but where people mistake one
# class for another, they are all of one. Rates of several classes have little room: with more, a
# high rate and one preference explain two classes that overlap.
MEAN_SPREAD, WEIGHT_SPREAD, SHIFT_SPREAD, PREFERENCE_SPREAD = 10.0, 0.7, 2.0, 0.25
RATE_SPREAD, RATE_SPREAD_OF_SEVERAL = 0.5, 0.2
# To prefer one of two labels or to avoid the other is the same. If both cost the same, the point in
# between is a saddle, and the last bit decides how and when the optimiser leaves it. So to avoid
# labels costs slightly more.
AVERSION = 1.01
MANY_CLASSES = (
    40  # with more, no preferences among wrong labels: they would be as many as classes squared
)
RARE = (
    0.05  # times one over the number of classes: a share of rows below which a class is a rare one
)
TINY = 1e-300


class NoiseModel(NamedTuple):
    """What a vector of the optimiser stands for: numbers of each kind of evidence and of each
    class.
    """

    weights: FloatVector
    shifts: FloatVector
    rates: FloatVector
    preferences: FloatMatrix
    confusion: FloatMatrix  # true labels in rows

    def posterior(self, features: FloatMatrix, codes: IntVector) -> tuple[FloatMatrix, FloatMatrix]:
        """P(true label | evidence) without and with the given label, for rows with the same kinds
        of features.
        """
        evidence = softmax(np.tensordot(self.weights, features, 1) + self.shifts, axis=1)
        joint = evidence * self.confusion.T[codes]
        return evidence, np.asarray(joint / np.maximum(joint.sum(axis=1, keepdims=True), TINY))


class NoiseFit:
    """Fits models to the same rows at one level of noise after another, each from where the last
    one ended.

    `popularity` says how often wrong labels are of each class; without it that is learnt.
    """

    def __init__(
        self, features: FloatMatrix, codes: IntVector, popularity: FloatVector | None = None
    ) -> None:
        order = np.argsort(codes, kind="stable")
        n_kinds, _, self.n_classes = features.shape
        self.codes, features = codes[order], features[:, order]
        # Features mixed so that they are uncorrelated: the optimiser then takes few rounds.
        centred = features - features.mean(axis=2, keepdims=True)
        flat = centred.reshape(n_kinds, -1)
        products = flat @ flat.T / len(codes)
        products += (1e-4 * np.trace(products) + 1e-12) * np.eye(n_kinds)
        self.mixing = np.linalg.inv(np.linalg.cholesky(products)).T
        self.features = np.tensordot(self.mixing.T, centred, 1)
        self.rate_spread = RATE_SPREAD if self.n_classes == 2 else RATE_SPREAD_OF_SEVERAL
        self.prior_weights = np.full(n_kinds, 1.0 / n_kinds)
        self.class_shares = np.bincount(codes, minlength=self.n_classes) / len(codes)
        self.present, self.starts = np.unique(self.codes, return_index=True)
        # Other labels are rarely mistaken for one that hardly any row has, or as its popularity
        # says.
        rarity = np.clip(
            self.class_shares * self.n_classes / RARE if popularity is None else popularity,
            1e-6,
            1.0,
        )
        self.rarity = _with_diagonal(np.tile(np.log(rarity), (self.n_classes, 1)), -np.inf)
        has_preferences = 2 < self.n_classes <= MANY_CLASSES and popularity is None
        sizes = [
            n_kinds,
            self.n_classes,
            self.n_classes,
            self.n_classes**2 if has_preferences else 0,
        ]
        self.parts = [
            slice(end - size, end)
            for size, end in zip(sizes, np.cumsum(sizes).tolist(), strict=True)
        ]
        self.at = np.concatenate(
            [np.linalg.solve(self.mixing, 2 * self.prior_weights), np.zeros(sum(sizes[1:]))]
        )

    def model(
        self, level: float, offsets: FloatVector, price: float = 1.0
    ) -> tuple[NoiseModel, float]:
        """The best model with class error rates around `level`, each expected to be `offsets` off
        it, and its loss.

        `price` is what preferences among wrong labels cost, times what they cost by default.
        """
        level_logit = float(np.log(2 * level / (1 - 2 * level)))
        self.at, loss = find_minimum(self.loss, self.at, (level_logit, offsets, price))
        return self._read(self.at, level_logit), loss

    def loss(
        self, at: FloatVector, level_logit: float, offsets: FloatVector, price: float = 1.0
    ) -> tuple[float, FloatVector]:
        """Minus the logarithm of likelihood times priors, and its gradient."""
        weights, shifts, rates, preferences, confusion = self._read(at, level_logit)
        mixed_weights, _, rate_offsets, preference_logs = (at[part] for part in self.parts)
        by_score, counts, fit = self._of_rows(mixed_weights, shifts, confusion)
        right = np.diag(counts)
        wrong = counts.sum(axis=1) - right
        by_rate = (1.0 - 2.0 * rates) * (right * rates / (1.0 - rates) - wrong)
        surprise = rate_offsets - offsets
        mean = np.mean(weights - self.prior_weights)
        contrast = weights - self.prior_weights - mean
        pull = contrast / WEIGHT_SPREAD**2 + mean / (len(weights) * MEAN_SPREAD**2)
        slopes = [
            np.tensordot(self.features, by_score, 2) + pull @ self.mixing,
            by_score.sum(axis=0) + shifts / SHIFT_SPREAD**2,
            by_rate - self.class_shares * by_rate.sum() + surprise / self.rate_spread**2,
        ]
        spreads = (
            (contrast, WEIGHT_SPREAD),
            (mean[None], MEAN_SPREAD),
            (shifts, SHIFT_SPREAD),
            (surprise, self.rate_spread),
        )
        value = sum(float(off @ off) / (2.0 * spread**2) for off, spread in spreads)
        if len(preference_logs):
            by_preference = _with_diagonal(wrong[:, None] * preferences - counts, 0.0).ravel()
            scale = (
                3.0 * PREFERENCE_SPREAD**2
            )  # of Student's t with 3 degrees of freedom, which allows large values
            prices = np.where(preference_logs < 0.0, AVERSION * price, price)
            slopes.append(
                by_preference + prices * (4.0 * preference_logs / (scale + preference_logs**2))
            )
            value += 2.0 * float(prices @ np.log1p(preference_logs**2 / scale))
        return value - fit, np.concatenate(slopes)

    def _of_rows(
        self, mixed_weights: FloatVector, shifts: FloatVector, confusion: FloatMatrix
    ) -> tuple[FloatMatrix, FloatMatrix, float]:
        """Slope by scores, expected rows by true and given label, log-likelihood: what takes the
        time, in place.
        """
        evidence = np.tensordot(mixed_weights, self.features, 1)
        evidence += shifts
        evidence -= evidence.T.copy().max(axis=0)[:, None]  # five times as fast as along short rows
        np.exp(evidence, out=evidence)
        evidence /= evidence.sum(axis=1, keepdims=True)
        joint = confusion.T.take(self.codes, axis=0)
        joint *= evidence
        given = np.maximum(joint.sum(axis=1), TINY)
        joint /= given[:, None]
        counts = np.zeros((self.n_classes, self.n_classes))
        counts[:, self.present] = np.add.reduceat(joint, self.starts, axis=0).T
        evidence -= joint
        return evidence, counts, float(np.log(given).sum())

    def _read(self, at: FloatVector, level_logit: float) -> NoiseModel:
        mixed_weights, shifts, offsets, preference_logs = (at[part] for part in self.parts)
        rate_logits = level_logit + offsets - self.class_shares @ offsets
        rates = 0.5 / (1.0 + np.exp(-np.clip(rate_logits, -30.0, 30.0)))
        scores = (
            self.rarity + preference_logs.reshape(-1, self.n_classes)
            if len(preference_logs)
            else self.rarity
        )
        preferences = np.exp(scores - scores.max(axis=1, keepdims=True))
        preferences /= preferences.sum(axis=1, keepdims=True)
        confusion = _with_diagonal(rates[:, None] * preferences, 1.0 - rates)
        return NoiseModel(self.mixing @ mixed_weights, shifts, rates, preferences, confusion)


def make_features(shares: list[FloatMatrix], squared: FloatMatrix | None = None) -> FloatMatrix:
    """Logarithms of shares, one layer per kind of evidence; those of `squared` also squared, with
    their sign.

    The signed square lets clear evidence weigh more or less than in proportion, as the data say.
    """
    layers = [np.log(share) for share in shares]
    if squared is not None:
        logs = np.log(squared)
        logs -= logs.mean(axis=1, keepdims=True)
        layers.append(logs * np.abs(logs))
    return np.stack(layers)


def _with_diagonal(matrix: FloatMatrix, diagonal: FloatVector | float) -> FloatMatrix:
    """The matrix itself, changed."""
    matrix.reshape(-1)[:: len(matrix) + 1] = diagonal
    return matrix
