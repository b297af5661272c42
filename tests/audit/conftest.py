from __future__ import annotations

import numpy as np
import pytest

import nearworth as nw
from helpers.noisy_labels import blobs


@pytest.fixture
def noisy(rng):
    """Features, labels of which a tenth are wrong, and the true labels."""
    X, codes = blobs(rng)
    clean = np.array(["cat", "cow", "dog"])[codes]
    return X, nw.add_label_noise(clean, 0.1, random_state=rng), clean
