"""The model of wrong labels at several levels of noise, each believed as far as it explains the given labels.

Labels alone do not always tell noise from classes that overlap: a label that goes against its neighbours may be wrong,
or its class may just be rare there. Both explanations then fit alike, at different levels of noise. How the shares of
votes are spread over the rows (`shapes.py`) says more; what it leaves open is averaged over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatMatrix, FloatVector, IntMatrix, IntVector
from nearworth.audit.noise import NoiseFit, NoiseModel
from nearworth.audit.shapes import indifferent, read_shapes

FIT_ROWS = 6_000  # rows from which the few parameters are learnt
LEVELS: FloatVector = np.array(
    [0.002, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.125, 0.15, 0.18, 0.21, 0.25, 0.3, 0.35, 0.4, 0.45]
)
USUAL_LEVEL = 1.0 / 15.0  # mean of the exponential prior: most labels of most data are right
FAR_FETCHED = 25.0  # levels that shapes make so many nats less likely than the best are not fitted
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
        return np.minimum(self.weights @ self.right, 1.0)


def fitted_rows(n_rows: int) -> IntVector:
    """From which the model is learnt: all, or as many as are enough."""
    if n_rows <= FIT_ROWS:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, FIT_ROWS, replace=False))


def believe(features: npt.NDArray[np.float64], codes: IntVector, votes: Sequence[IntMatrix] = ()) -> Belief:
    """Learn from rows whose features never saw their own label, and judge all of them.

    `votes` are how many of its nearest neighbours have each label, among few and among more, for the rows to learn
    from: their shapes tell noise from overlap.
    """
    some = fitted_rows(len(codes))
    models, weights = _weigh(features[:, some], codes[some], votes)
    evidence, labels = np.zeros(features.shape[1:]), np.zeros(features.shape[1:])
    right = np.empty((len(models), len(codes)))
    for number, model in enumerate(models):
        found = model.posterior(features)
        of_labels = found.of_labels(codes)
        right[number] = of_labels[np.arange(len(codes)), codes]
        evidence += weights[number] * found.evidence
        labels += weights[number] * of_labels
    return Belief(weights, right, evidence, labels)


def _weigh(
    features: npt.NDArray[np.float64], codes: IntVector, votes: Sequence[IntMatrix]
) -> tuple[list[NoiseModel], FloatVector]:
    """Models at the levels that matter, and how far each is believed."""
    shapes = read_shapes(votes, codes, LEVELS) if votes else indifferent(len(LEVELS), features.shape[2])
    likely = shapes.likelihood - LEVELS / USUAL_LEVEL
    fit = NoiseFit(features, codes)
    near = np.flatnonzero(likely > likely.max() - FAR_FETCHED)
    models = [fit.model(float(LEVELS[number]), shapes.off_level[number]) for number in near]
    scores = likely[near] - np.array([model.loss for model in models])
    weights = np.exp(scores - scores.max())
    kept = np.flatnonzero(weights > NEGLIGIBLE * weights.sum())
    return [models[number] for number in kept], weights[kept] / weights[kept].sum()
