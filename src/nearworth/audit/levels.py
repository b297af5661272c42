"""The model of wrong labels at several levels of noise, each believed as far as it explains the given labels.

Labels alone do not always tell noise from classes that overlap: a label that goes against its neighbours may be wrong,
or its class may just be rare there. Both explanations then fit alike, at different levels of noise. Instead of choosing
one, probabilities are averaged over the levels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nearworth._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from nearworth.audit.noise import TINY, NoiseFit, NoiseModel

FIT_ROWS = 6_000  # rows from which the few parameters are learnt
LEVELS = (0.01, 0.03, 0.06, 0.1, 0.16, 0.23, 0.31, 0.38, 0.45)
# Of a level's loss only so much counts: rows near each other are not as many witnesses as they seem. And data sets are
# mostly made of classes that can be told apart: before looking, those that can are so many nats likelier.
TRUST, CLARITY = 0.5, 6.0
# Where classes are apart and labels are noisy, the same coin is tossed for every vote, so that shares of votes differ
# by chance alone. Where classes overlap, they differ by more. A level that makes all this come out is so much likelier.
EVENNESS = 5.0
MEDIAN = 0.455  # of the square of a standard normal variable
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


def believe(features: npt.NDArray[np.float64], codes: IntVector, votes: IntMatrix | None = None) -> Belief:
    """Learn from rows whose features never saw their own label, and judge all of them.

    `votes` are how many of its nearest neighbours have each label, if they are to tell noise from overlap.
    """
    some = _some(len(codes))
    models, weights = _weigh(features[:, some], codes[some], None if votes is None else votes[some])
    evidence, labels = np.zeros(features.shape[1:]), np.zeros(features.shape[1:])
    right = np.empty((len(models), len(codes)))
    for number, model in enumerate(models):
        found = model.posterior(features)
        of_labels = found.of_labels(codes)
        right[number] = of_labels[np.arange(len(codes)), codes]
        evidence += weights[number] * found.evidence
        labels += weights[number] * of_labels
    return Belief(weights, right, evidence, labels)


def _some(n_rows: int) -> IntVector:
    if n_rows <= FIT_ROWS:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, FIT_ROWS, replace=False))


def _weigh(
    features: npt.NDArray[np.float64], codes: IntVector, votes: IntMatrix | None
) -> tuple[list[NoiseModel], FloatVector]:
    """Models at the levels that matter, and how far each is believed."""
    fit = NoiseFit(features, codes)
    models = [fit.model(level) for level in LEVELS]
    costs = np.array([_cost(model, model.posterior(features).evidence, votes) for model in models])
    weights = np.exp(costs.min() - costs)
    kept = np.flatnonzero(weights > NEGLIGIBLE * weights.sum())
    return [models[number] for number in kept], weights[kept] / weights[kept].sum()


def _cost(model: NoiseModel, evidence: FloatMatrix, votes: IntMatrix | None) -> float:
    clarity = _clarity(evidence)
    even = 0.0 if votes is None else clarity * _evenness(evidence, votes)
    return float(TRUST * model.loss - CLARITY * clarity - EVENNESS * even**4)


def _evenness(evidence: FloatMatrix, votes: IntMatrix) -> float:
    """Whether the votes for a row's likeliest class vary as tosses of its coin do, 0 to 1: of the median row."""
    best = evidence.argmax(axis=1)
    own, total = votes[np.arange(len(votes)), best], votes.sum(axis=1)
    heads, tosses = (np.bincount(best, weights=x, minlength=votes.shape[1]) for x in (own, total))
    share = ((heads + 0.5) / (tosses + 1.0))[best]
    squares = (own - total * share) ** 2 / np.maximum(total * share * (1.0 - share), TINY)
    return min(1.0, MEDIAN / max(float(np.median(squares)), TINY))


def _clarity(evidence: FloatMatrix) -> float:
    """How far classes are told apart, 0 to 1: squared, for a little of it is what overlap looks like, too."""
    n, n_classes = evidence.shape
    doubt = -float((evidence * np.log(np.maximum(evidence, TINY))).sum()) / (n * np.log(n_classes))
    return float((1.0 - doubt) ** 2)
