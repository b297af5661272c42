"""The model of wrong labels at several levels of noise, each believed as far as it explains the given labels.

Labels alone do not always tell noise from classes that overlap: a label that goes against its neighbours may be wrong,
or its class may just be rare there. Both explanations then fit alike, at different levels of noise. Instead of choosing
one, probabilities are averaged over the levels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nearworth._typing import FloatMatrix, FloatVector, IntVector
from nearworth.audit.noise import TINY, NoiseFit, NoiseModel

FIT_ROWS = 10_000  # rows from which the few parameters are learnt
LEVELS = (0.01, 0.03, 0.06, 0.1, 0.16, 0.23, 0.31, 0.38, 0.45)
# Of a level's loss only so much counts: rows near each other are not as many witnesses as they seem. And data sets are
# mostly made of classes that can be told apart: before looking, those that can are so many nats likelier.
TRUST, CLARITY = 0.5, 6.0
NEGLIGIBLE = 1e-4  # levels that are believed less are left out


@dataclass(frozen=True)
class Belief:
    """What the levels together make of each row."""

    weights: FloatVector  # of the levels
    right: FloatMatrix  # P(given label is right), one line per level
    evidence: FloatMatrix  # P(true label | evidence without the given label)
    labels: FloatMatrix  # P(true label | evidence and given label)

    @property
    def quality(self) -> FloatVector:
        """P(given label is right)."""
        return np.asarray(self.weights @ self.right)


def believe(features: npt.NDArray[np.float64], codes: IntVector) -> Belief:
    """Learn from rows whose features never saw their own label, and judge all of them."""
    models, weights = _weigh(*_some(features, codes))
    evidence, labels = np.zeros(features.shape[1:]), np.zeros(features.shape[1:])
    right = np.empty((len(models), len(codes)))
    for number, model in enumerate(models):
        found = model.posterior(features)
        of_labels = found.of_labels(codes)
        right[number] = of_labels[np.arange(len(codes)), codes]
        evidence += weights[number] * found.evidence
        labels += weights[number] * of_labels
    return Belief(weights, right, evidence, labels)


def _some(features: npt.NDArray[np.float64], codes: IntVector) -> tuple[npt.NDArray[np.float64], IntVector]:
    if len(codes) <= FIT_ROWS:
        return features, codes
    rows = np.sort(np.random.default_rng(0).choice(len(codes), FIT_ROWS, replace=False))
    return features[:, rows], codes[rows]


def _weigh(features: npt.NDArray[np.float64], codes: IntVector) -> tuple[list[NoiseModel], FloatVector]:
    """Models at the levels that matter, and how far each is believed."""
    fit = NoiseFit(features, codes)
    models = [fit.model(level) for level in LEVELS]
    costs = np.array([TRUST * model.loss - CLARITY * _clarity(model, features) for model in models])
    weights = np.exp(costs.min() - costs)
    kept = np.flatnonzero(weights > NEGLIGIBLE * weights.sum())
    return [models[number] for number in kept], weights[kept] / weights[kept].sum()


def _clarity(model: NoiseModel, features: npt.NDArray[np.float64]) -> float:
    """How far classes are told apart, 0 to 1: squared, for a little of it is what overlap looks like, too."""
    evidence = model.posterior(features).evidence
    n, n_classes = evidence.shape
    doubt = -float((evidence * np.log(np.maximum(evidence, TINY))).sum()) / (n * np.log(n_classes))
    return float((1.0 - doubt) ** 2)
