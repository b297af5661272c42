"""Data with wrong labels: classes far apart, and labels from the model of wrong labels itself."""

from __future__ import annotations

import numpy as np

# P(given label | true label, the label is wrong), by true label and given label.
PREFERENCES = np.array([[0.0, 0.9, 0.1], [0.5, 0.0, 0.5], [0.2, 0.8, 0.0]])


def draw_noisy_labels(rng, n=4000, rates=(0.05, 0.2, 0.3), sharpness=3.0, preferences=PREFERENCES):
    """Shares of votes that are the evidence, shape (n, n_classes); true labels; given labels.

    `rates` has the probability of a wrong label for each true label.
    """
    n_classes = len(rates)
    shares = rng.dirichlet(np.full(n_classes, 0.4), n) * 0.99 + 0.01 / n_classes
    evidence = shares**sharpness
    evidence /= evidence.sum(axis=1, keepdims=True)
    true = draw_columns(rng, evidence)
    is_wrong = rng.random(n) < np.asarray(rates)[true]
    given = np.where(is_wrong, draw_columns(rng, preferences[true]), true)
    return shares, true, given


def draw_columns(rng, probabilities):
    """The number of a column for each row, drawn with the probabilities of that row."""
    thresholds = np.cumsum(probabilities, axis=1)
    draws = rng.random(len(probabilities))[:, None]
    columns = (draws > thresholds).sum(axis=1)
    return columns.clip(0, probabilities.shape[1] - 1)


def blobs(rng, n=300, n_classes=3, width=4):
    """Features of well separated classes, shape (n, width), and the codes of the classes."""
    codes = rng.integers(0, n_classes, n)
    # Every class has a row.
    codes[:n_classes] = np.arange(n_classes)
    centers = 4.0 * rng.normal(size=(n_classes, width))
    return centers[codes] + rng.normal(size=(n, width)), codes
