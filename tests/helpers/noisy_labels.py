"""Data with wrong labels: classes far apart, and labels drawn from the model of wrong labels
itself.
"""

from __future__ import annotations

import numpy as np

PREFERENCES = np.array([[0.0, 0.9, 0.1], [0.5, 0.0, 0.5], [0.2, 0.8, 0.0]])


def drawn(rng, n=4000, rates=(0.05, 0.2, 0.3), sharpness=3.0, preferences=PREFERENCES):
    """True and given labels from the model itself, and the shares that were the evidence."""
    n_classes = len(rates)
    shares = rng.dirichlet(np.full(n_classes, 0.4), n) * 0.99 + 0.01 / n_classes
    evidence = shares**sharpness
    evidence /= evidence.sum(axis=1, keepdims=True)
    true = pick(rng, evidence)
    wrong = rng.random(n) < np.asarray(rates)[true]
    return shares, true, np.where(wrong, pick(rng, preferences[true]), true)


def pick(rng, probabilities):
    """One column per row, as likely as it says."""
    draws = rng.random(len(probabilities))[:, None]
    return (
        (draws > np.cumsum(probabilities, axis=1)).sum(axis=1).clip(0, probabilities.shape[1] - 1)
    )


def blobs(rng, n=300, n_classes=3, width=4):
    """Well separated classes, as codes."""
    codes = rng.integers(0, n_classes, n)
    codes[:n_classes] = np.arange(n_classes)
    return 4.0 * rng.normal(size=(n_classes, width))[codes] + rng.normal(size=(n, width)), codes
