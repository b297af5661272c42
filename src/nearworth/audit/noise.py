"""One model of votes and wrong labels.

    P(true label c | evidence)   proportional to  exp(sum_f b_f log share_f(c) + b_0 log prior(c))
    P(given label g | true c)    1 - e_c if g = c, else e_c / (C - 1)

Shares f are those of forward votes, reverse votes and whatever else speaks for a class; `share` weights b and error
rates e are found by maximum likelihood of the given labels, with weak priors (below) that decide only where the data do
not. How much each kind of evidence counts is thus learnt from the data at hand, not fixed beforehand.

What tells a wrong label from a doubtful region is the shape: where classes overlap, the share of other labels grows as
the evidence turns; wrong labels are there at the same rate however clear the evidence. Where evidence is never clear
the two cannot be told apart, and the model says that few labels are surely wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._typing import FloatMatrix, FloatVector, IntVector

FIT_ROWS = 10_000  # rows from which the few parameters are learnt
# Priors are normal: logits of the error rates around RATE, weights of the evidence around equal ones.
RATE, RATE_SPREAD, WEIGHT_SPREAD = -2.0, 1.5, 5.0
LIMITS_WEIGHT, LIMITS_RATE = (-1.0, 5.0), (-8.0, 0.0)  # no class more than half wrong


@dataclass(frozen=True)
class Posterior:
    """What the model makes of each row."""

    evidence: FloatMatrix  # P(true label | evidence without the given label)
    rates: FloatVector  # share of wrong labels in each true class
    given: FloatVector  # P(given label) under the model

    def of_labels(self, codes: IntVector) -> FloatMatrix:
        """P(true label | evidence and given label)."""
        n, n_classes = self.evidence.shape
        joint = self.evidence * (self.rates / (n_classes - 1))
        rows = np.arange(n)
        joint[rows, codes] = self.evidence[rows, codes] * (1.0 - self.rates[codes])
        return np.asarray(joint / joint.sum(axis=1, keepdims=True))

    def right(self, codes: IntVector) -> FloatVector:
        """P(the given label is the true one)."""
        own = self.evidence[np.arange(len(codes)), codes] * (1.0 - self.rates[codes])
        return np.asarray(own / self.given)


@dataclass(frozen=True)
class NoiseModel:
    """Weights of the kinds of evidence (the last is that of the class shares), and logits of the error rates."""

    weights: FloatVector
    logits: FloatVector
    covariance: FloatMatrix

    @property
    def parameters(self) -> FloatVector:
        """All in one vector, as the covariance has them."""
        return np.concatenate([self.weights, self.logits])

    def cautious(self) -> FloatVector:
        """The parameters with every error rate one standard error lower: who says less, says fewer wrong things."""
        errors = np.sqrt(np.diag(self.covariance))
        errors[: len(self.weights)] = 0.0
        return self.parameters - errors

    def posterior(self, features: npt.NDArray[np.float64], codes: IntVector) -> Posterior:
        """Of any rows with the same kinds of features."""
        return posterior(self.parameters, features, codes)


def make_features(shares: list[FloatMatrix], priors: FloatVector) -> npt.NDArray[np.float64]:
    """Logarithms of shares, one layer per kind of evidence, and those of the class shares as the last."""
    flat = np.broadcast_to(priors, shares[0].shape)
    return np.log(np.stack([*shares, flat]))


def fit_noise(features: npt.NDArray[np.float64], codes: IntVector) -> NoiseModel:
    """Learn weights and error rates from rows whose features never saw their own label."""
    from scipy.optimize import minimize

    if len(codes) > FIT_ROWS:
        some = np.sort(np.random.default_rng(0).choice(len(codes), FIT_ROWS, replace=False))
        features, codes = features[:, some], codes[some]
    n_kinds, _, n_classes = features.shape
    limits = [LIMITS_WEIGHT] * n_kinds + [LIMITS_RATE] * n_classes
    start = np.concatenate([_usual_weights(n_kinds), np.full(n_classes, RATE)])
    options = {"maxiter": 200}
    best = minimize(_loss, start, (features, codes), "L-BFGS-B", jac=True, bounds=limits, options=options).x
    return NoiseModel(best[:n_kinds], best[n_kinds:], _covariance(best, features, codes))


def _usual_weights(n_kinds: int) -> FloatVector:
    """All kinds of evidence alike, and the class shares, which smoothing has in them already, not again."""
    return np.append(np.full(n_kinds - 1, 1.0 / (n_kinds - 1)), 0.0)


def posterior(parameters: FloatVector, features: npt.NDArray[np.float64], codes: IntVector) -> Posterior:
    """Of rows under given parameters."""
    n_kinds, n, n_classes = features.shape
    scores = np.tensordot(parameters[:n_kinds], features, 1)
    scores -= scores.max(axis=1, keepdims=True)
    evidence = np.exp(scores)
    evidence /= evidence.sum(axis=1, keepdims=True)
    rates = 1.0 / (1.0 + np.exp(-parameters[n_kinds:]))
    own = evidence[np.arange(n), codes]
    strays = evidence @ (rates / (n_classes - 1)) - own * rates[codes] / (n_classes - 1)
    return Posterior(evidence, rates, own * (1.0 - rates[codes]) + strays)


def _loss(parameters: FloatVector, features: npt.NDArray[np.float64], codes: IntVector) -> tuple[float, FloatVector]:
    """Minus the logarithm of likelihood times priors, and its gradient."""
    n_kinds, n, n_classes = features.shape
    found, rows = posterior(parameters, features, codes), np.arange(n)
    inverse = 1.0 / found.given
    # Derivatives of log P(given) by the scores of the classes and by the error rates.
    by_score = found.evidence * (found.rates / (n_classes - 1) * inverse[:, None] - 1.0)
    own = found.evidence[rows, codes]
    by_score[rows, codes] = own * ((1.0 - found.rates[codes]) * inverse - 1.0)
    by_rate = (found.evidence * inverse[:, None]).sum(axis=0) / (n_classes - 1)
    by_rate -= np.bincount(codes, weights=own * inverse, minlength=n_classes) * n_classes / (n_classes - 1)
    slope = np.concatenate([np.tensordot(features, by_score, 2), by_rate * found.rates * (1.0 - found.rates)])
    penalty, its_slope = _penalty(parameters, n_kinds)
    return penalty - float(np.log(found.given).sum()), its_slope - slope


def _penalty(parameters: FloatVector, n_kinds: int) -> tuple[float, FloatVector]:
    """Minus the logarithm of the priors."""
    weights, logits = parameters[:n_kinds] - _usual_weights(n_kinds), parameters[n_kinds:] - RATE
    value = (logits @ logits / RATE_SPREAD**2 + weights @ weights / WEIGHT_SPREAD**2) / 2
    return float(value), np.concatenate([weights / WEIGHT_SPREAD**2, logits / RATE_SPREAD**2])


def _covariance(best: FloatVector, features: npt.NDArray[np.float64], codes: IntVector) -> FloatMatrix:
    """Of the parameters around the best ones: the inverse of the curvature there, by differences of gradients."""
    step = 1e-4
    curvature = np.empty((len(best), len(best)))
    for j in range(len(best)):
        shift = np.zeros(len(best))
        shift[j] = step
        curvature[j] = (_loss(best + shift, features, codes)[1] - _loss(best - shift, features, codes)[1]) / (2 * step)
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    # The priors alone curve this much: anything less is rounding, or a limit that was reached.
    floor = 1.0 / max(RATE_SPREAD, WEIGHT_SPREAD) ** 2
    inverse: Any = (vectors / np.maximum(values, floor)) @ vectors.T
    return np.asarray(inverse)
