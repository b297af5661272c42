"""One model of votes and wrong labels, at a given level of noise.

    P(true label c | evidence)   proportional to  exp(a_c + sum_f b_f log share_f(c))
    P(given label g | true c)    1 - e_c if g = c, else e_c r_cg

Shares f are those of forward votes, reverse votes and whatever else speaks for a class. Weights b, shifts a, the error
rate e_c of each class and its preferences r among the wrong labels maximise the likelihood of the given labels, with
weak priors (below). How much each kind of evidence counts is thus learnt from the data at hand. Shifts let the evidence
lean against votes that are themselves full of errors of one kind.

How much noise there is in all is the one thing that data may leave open: `levels.py` asks this model at several levels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatMatrix, FloatVector, IntVector

# Priors are normal: mean weight around one over their number (their sum may be large where votes are noisy), weights
# around their mean, shifts, class error rates around what shapes of votes say (in the logit of twice the rate: no class
# is more than half wrong). Logarithms of preferences are around none with heavy tails: mostly wrong labels are of all
# kinds, but where people mistake one class for another, they are all of one.
MEAN_SPREAD, WEIGHT_SPREAD, SHIFT_SPREAD, RATE_SPREAD, PREFERENCE_SPREAD = 10.0, 0.7, 2.0, 0.5, 0.25
MANY_CLASSES = 40  # with more, no preferences among wrong labels: they would be as many as classes squared
RARE = 0.05  # times one over the number of classes: a share of rows below which a class is a rare one
OPTIONS = {"maxiter": 300, "ftol": 1e-10}  # levels are weighed by their losses, to a hundredth
TINY = 1e-300


@dataclass(frozen=True)
class Posterior:
    """What the model makes of each row."""

    evidence: FloatMatrix  # P(true label | evidence without the given label)
    confusion: FloatMatrix  # P(given label | true label), true labels in rows

    def of_labels(self, codes: IntVector) -> FloatMatrix:
        """P(true label | evidence and given label)."""
        joint = self.evidence * self.confusion.T[codes]
        return np.asarray(joint / np.maximum(joint.sum(axis=1, keepdims=True), TINY))


@dataclass(frozen=True)
class NoiseModel:
    """Weights of the kinds of evidence, shifts of the classes, confusion of true and given labels, and how it fits."""

    weights: FloatVector
    shifts: FloatVector
    confusion: FloatMatrix
    loss: float

    def posterior(self, features: npt.NDArray[np.float64]) -> Posterior:
        """Of any rows with the same kinds of features."""
        return Posterior(_softmax(np.tensordot(self.weights, features, 1) + self.shifts), self.confusion)


class NoiseFit:
    """Fits models to the same rows at one level of noise after another, each from where the last one ended."""

    def __init__(self, features: npt.NDArray[np.float64], codes: IntVector) -> None:
        order = np.argsort(codes, kind="stable")
        n_kinds, _, self.n_classes = features.shape
        self.codes = codes[order]
        self.features, self.mixing = _decorrelate(features[:, order])
        self.usual = np.full(n_kinds, 1.0 / n_kinds)
        self.off_level = np.zeros(self.n_classes)
        self.class_shares = np.bincount(codes, minlength=self.n_classes) / len(codes)
        self.present, self.starts = np.unique(self.codes, return_index=True)
        # Labels that next to nobody has are not what others were mistaken for.
        self.taken = np.log(np.clip(self.class_shares * self.n_classes / RARE, 1e-6, 1.0))
        picky = 2 < self.n_classes <= MANY_CLASSES
        sizes = [n_kinds, self.n_classes, self.n_classes, self.n_classes**2 if picky else 0]
        self.cuts = np.cumsum(sizes)[:-1]
        self.at = np.concatenate([np.linalg.solve(self.mixing, 2 * self.usual), np.zeros(sum(sizes[1:]))])

    def model(self, level: float, off_level: FloatVector | None = None) -> NoiseModel:
        """The best model whose classes have error rates around `level`, each off it by about so much."""
        from scipy.optimize import minimize

        odds = float(np.log(2 * level / (1 - 2 * level)))
        self.off_level = np.zeros(self.n_classes) if off_level is None else off_level
        found = minimize(self.loss, self.at, (odds,), "L-BFGS-B", jac=True, options=OPTIONS)
        self.at = found.x
        weights, shifts, rates, _, confusion = self._read(found.x, odds)
        return NoiseModel(weights, shifts, _with_diagonal(confusion, 1.0 - rates), float(found.fun))

    def loss(self, at: FloatVector, odds: float) -> tuple[float, FloatVector]:
        """Minus the logarithm of likelihood times priors, and its gradient."""
        weights, shifts, rates, preferences, confusion = self._read(at, odds)
        parts = np.split(at, self.cuts)
        evidence = _softmax(np.tensordot(parts[0], self.features, 1) + shifts)
        joint = evidence * _with_diagonal(confusion, 1.0 - rates).T[self.codes]
        given = np.maximum(joint.sum(axis=1), TINY)
        joint /= given[:, None]
        counts = np.zeros((self.n_classes, self.n_classes))  # expected rows by true and given label
        counts[:, self.present] = np.add.reduceat(joint, self.starts, axis=0).T
        right = np.diag(counts)
        wrong = counts.sum(axis=1) - right
        by_score = evidence - joint
        by_rate = (1.0 - 2.0 * rates) * (right * rates / (1.0 - rates) - wrong)
        surprise = parts[2] - self.off_level
        mean = np.mean(weights - self.usual)
        contrast = weights - self.usual - mean
        pull = contrast / WEIGHT_SPREAD**2 + mean / (len(weights) * MEAN_SPREAD**2)
        slopes = [
            np.tensordot(self.features, by_score, 2) + pull @ self.mixing,
            by_score.sum(axis=0) + shifts / SHIFT_SPREAD**2,
            by_rate - self.class_shares * by_rate.sum() + surprise / RATE_SPREAD**2,
        ]
        value = (
            _bell(contrast, WEIGHT_SPREAD)
            + _bell(np.array([mean]), MEAN_SPREAD)
            + _bell(shifts, SHIFT_SPREAD)
            + _bell(surprise, RATE_SPREAD)
        )
        if len(parts[3]):
            by_preference = _with_diagonal(wrong[:, None] * preferences - counts, 0.0).ravel()
            cost, slope = _heavy_bell(parts[3], PREFERENCE_SPREAD)
            slopes.append(by_preference + slope)
            value += cost
        return value - float(np.log(given).sum()), np.concatenate(slopes)

    def _read(
        self, at: FloatVector, odds: float
    ) -> tuple[FloatVector, FloatVector, FloatVector, FloatMatrix, FloatMatrix]:
        """Weights, shifts, error rates, preferences, and the confusion but for its diagonal."""
        mixed, shifts, off_level, liking = np.split(at, self.cuts)
        odds_of_classes = odds + off_level - self.class_shares @ off_level
        rates = 0.5 / (1.0 + np.exp(-np.clip(odds_of_classes, -30.0, 30.0)))
        scores = liking.reshape(self.n_classes, -1) if len(liking) else np.zeros((self.n_classes, self.n_classes))
        preferences = _softmax(_with_diagonal(scores + self.taken, -np.inf))
        return self.mixing @ mixed, shifts, rates, preferences, rates[:, None] * preferences


def make_features(shares: list[FloatMatrix], bent: FloatMatrix | None = None) -> npt.NDArray[np.float64]:
    """Logarithms of shares, one layer per kind of evidence; those of `bent` also squared, with their sign.

    So evidence may weigh more or less the clearer it is, and the model need not guess how fast doubt fades.
    """
    layers = [np.log(share) for share in shares]
    if bent is not None:
        logs = np.log(bent)
        logs -= logs.mean(axis=1, keepdims=True)
        layers.append(logs * np.abs(logs))
    return np.stack(layers)


def _decorrelate(features: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], FloatMatrix]:
    """Features mixed so that none speaks for another (the search then takes few rounds), and weights of the mixing."""
    centred = features - features.mean(axis=2, keepdims=True)
    flat = centred.reshape(len(features), -1)
    products = flat @ flat.T / features.shape[1]
    products += (1e-4 * np.trace(products) + 1e-12) * np.eye(len(features))
    mixing = np.linalg.inv(np.linalg.cholesky(products)).T
    return np.tensordot(mixing.T, centred, 1), mixing


def _softmax(scores: FloatMatrix) -> FloatMatrix:
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def _with_diagonal(matrix: FloatMatrix, diagonal: FloatVector | float) -> FloatMatrix:
    changed = matrix.copy()
    np.fill_diagonal(changed, diagonal)
    return changed


def _bell(off: FloatVector, spread: float) -> float:
    return float(off @ off) / (2.0 * spread**2)


def _heavy_bell(off: FloatVector, spread: float) -> tuple[float, FloatVector]:
    """Minus the logarithm of Student's t (3 degrees of freedom), and its slope: far off is unlikely, not absurd."""
    scale = 3.0 * spread**2
    return 2.0 * float(np.log1p(off**2 / scale).sum()), 4.0 * off / (scale + off**2)
