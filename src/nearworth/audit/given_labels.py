"""What the evidence predicts as the given label, right or wrong: a bound on the errors, and a second opinion on rows.

    P(given label g | evidence)   proportional to  exp(a_g + sum_f b_f log p_f(g))

Votes and out-of-sample predictions have learnt the wrong labels with the right ones. Rows that do not have their most
probable label are a bound: if around every row the commonest label is the right one, no more are wrong, up to chance.
The model of wrong labels (`noise_model.py`) says how many are if errors do not depend on the features. People err where
classes meet, and there the plain prediction ranks better. So the ranking joins both.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, logit, softmax

from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth.audit.error_count import CERTAIN, with_sum
from nearworth.audit.noise_level import Posterior, fitted_rows
from nearworth.audit.votes import Columns

FLOOR = 1e-6  # of probabilities, before their logarithm
SHIFT_SPREAD = 2.0  # shifts a are normal before looking
SAME = 1e-6  # probabilities that differ by less are equal
CHANCE = 2.0  # square roots of the number of rows against their surroundings, on top of it: the upper end
LEAST_TRUST = 0.5  # weight of what includes predictions; the rest, as far as they explain labels without votes
IDLE = 2.0  # nats by which they must do so to count half of that rest
FEW, MOST = 0.25, 0.4  # share of those rows that are wrong labels to the model: from none to all of its weight
SEVERAL_CLASSES = 0.5  # least weight of the model of wrong labels with predictions and three classes or more
LEANING = 2.0  # times the concentration of preferences: where wrong labels prefer classes, only the model sees it
SHARPER = 2.0  # power of the weights of levels, for lists with a promise: see decision 19


class GivenLabels(NamedTuple):
    """Probability of each label to be the given one, and minus the logarithm of the likelihood of those given."""

    probabilities: FloatMatrix
    loss: float

    def of_given(self, codes: IntVector) -> FloatVector:
        return np.asarray(self.probabilities[np.arange(len(codes)), codes])

    def n_against(self, codes: IntVector) -> float:
        """How many rows have another label than the most probable one; of several such, any may be it."""
        most = self.probabilities >= (1.0 - SAME) * self.probabilities.max(axis=1, keepdims=True)
        has = most[np.arange(len(codes)), codes]
        return float(len(codes) - (has / most.sum(axis=1)).sum())


def predict_given(kinds: list[FloatMatrix], codes: IntVector, part: FloatVector | float = 1.0) -> GivenLabels:
    """Weights and shifts that make the given labels most likely, learnt from some rows and applied to all.

    If the last column stands for several labels, the given one is a `part` of it.
    """
    layers = np.stack([np.log(np.maximum(kind, FLOOR)) for kind in kinds])
    layers -= layers.mean(axis=2, keepdims=True)
    n_kinds, n_rows, n_classes = layers.shape
    some = fitted_rows(n_rows)
    fitted, given = layers[:, some], codes[some]

    def loss(at: FloatVector) -> tuple[float, FloatVector]:
        logs, rows = log_softmax(np.tensordot(at[:n_kinds], fitted, 1) + at[n_kinds:], axis=1), np.arange(len(given))
        excess, pull = np.exp(logs), at[n_kinds:] / SHIFT_SPREAD**2
        excess[rows, given] -= 1.0
        slope = np.concatenate([np.tensordot(fitted, excess, 2), excess.sum(axis=0) + pull])
        return float(pull @ at[n_kinds:] / 2.0 - logs[rows, given].sum()), slope

    start = np.concatenate([np.full(n_kinds, 1.0 / n_kinds), np.zeros(n_classes)])
    # Never a negative weight: a row sees one label of its class less than others do, which would tell its label.
    bounds = [(0.0, None)] * n_kinds + [(None, None)] * n_classes
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    probabilities = softmax(np.tensordot(found.x[:n_kinds], layers, 1) + found.x[n_kinds:], axis=1)
    probabilities[:, -1] *= part
    return GivenLabels(probabilities, float(found.fun))


def judge(
    votes: Posterior,
    codes: IntVector,
    predictions: list[FloatMatrix],
    helped: Posterior | None = None,
    columns: Columns | None = None,
) -> tuple[FloatVector, FloatVector, float]:
    """P(given label is right), the same with levels weighed more sharply, and a bound on the number of errors.

    The model of wrong labels joined with what predicts the given ones. `votes` is that model without `predictions` of
    other models, `helped` with them: the number of errors is that of the votes alone, whatever is predicted.
    """
    part = 1.0 if columns is None else columns.part
    by_votes = predict_given([votes.evidence], codes, part)
    everything, trust, bounds = by_votes, 0.0, [by_votes]
    if helped is not None:
        everything = predict_given([votes.evidence, *predictions], codes, part)
        alone = predict_given(predictions, codes, part)
        bounds = [by_votes, everything, alone]
        # The more of what both explain together predictions explain alone, the more they count.
        they_add, votes_add = (max(without.loss - everything.loss, 0.0) for without in (by_votes, alone))
        trust = LEAST_TRUST + (1.0 - LEAST_TRUST) * they_add / (they_add + votes_add + IDLE)
    n_against = min(fit.n_against(codes) for fit in bounds)
    plain = trust * _logit(everything.of_given(codes)) + (1.0 - trust) * _logit(by_votes.of_given(codes))
    share = float((1.0 - votes.quality).sum()) / max(1.0, everything.n_against(codes))
    weight = max((share - FEW) / (MOST - FEW), 0.0)
    if votes.labels.shape[1] > 2:
        least = 1.0 if helped is None else SEVERAL_CLASSES
        leaning = LEANING * concentration(votes.labels, codes) if columns is None else 0.0
        weight = max(weight, least, leaning)
    found = []
    for weights in (votes.weights, sharper(votes.weights)):
        alone_right = np.minimum(weights @ votes.right, 1.0)
        if helped is None and weight >= 1.0:
            found.append(alone_right)
            continue
        score = (1.0 - trust) * _logit(alone_right)
        if helped is not None:
            score += trust * _logit(np.minimum(weights @ helped.right, 1.0))
        score = min(weight, 1.0) * score + (1.0 - min(weight, 1.0)) * plain
        found.append(with_sum(score, float(alone_right.sum())))
    return found[0], found[1], most_errors(n_against)


def class_answers(
    labels: Any, codes: IntVector, columns: Columns | None, shares: list[FloatMatrix], evidence: FloatMatrix,
    probabilities: FloatMatrix,
) -> dict[str, Any]:  # fmt: skip
    """What a LabelAudit says of rows with these labels, given the evidence without and with the given label."""
    own, rows = codes if columns is None else columns.given, np.arange(len(codes))
    best, classes = (evidence.argmax(axis=1),) * 2 if columns is None else columns.best(evidence)
    found = {"given": labels[codes], "agreement": shares[0][rows, own], "suggested": labels[classes]}
    return found | {"confidence": probabilities[rows, best], "_probabilities": probabilities, "_columns": columns}


def sharper(weights: FloatVector) -> FloatVector:
    """The weights of levels for lists with a promise."""
    return np.asarray(weights**SHARPER / (weights**SHARPER).sum())


def most_errors(n_against: float) -> float:
    """How many labels are wrong at most, if so many rows do not have the most probable label."""
    return n_against + CHANCE * math.sqrt(n_against)


def concentration(labels: FloatMatrix, codes: IntVector) -> float:
    """How far wrong labels prefer some classes, from 0 (as frequent as these are) to 1 (each true class has its one).

    Kullback-Leibler divergence of expected wrong labels from the class shares, over the logarithm of their number.
    """
    n_classes = labels.shape[1]
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    expected = np.zeros((n_classes, n_classes))  # true labels in rows
    expected[:, present] = np.add.reduceat(labels[order], starts, axis=0).T
    np.fill_diagonal(expected, 0.0)
    shares = np.tile(np.bincount(codes, minlength=n_classes) / len(codes), (n_classes, 1))
    np.fill_diagonal(shares, 0.0)
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), CERTAIN)
    total = expected.sum(axis=1, keepdims=True)
    ratios = expected / np.maximum(total, CERTAIN) / np.maximum(shares, CERTAIN)
    logs = np.log(np.where(ratios > 0, ratios, 1.0))
    return float((expected * logs).sum() / max(total.sum(), CERTAIN) / np.log(max(n_classes - 1, 2)))


def _logit(probabilities: FloatVector) -> FloatVector:
    return np.asarray(logit(np.clip(probabilities, CERTAIN, 1.0 - CERTAIN)))
