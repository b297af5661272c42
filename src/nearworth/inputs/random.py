"""Whatever a user calls a random state, as a generator."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearworth.inputs.parameters import seed


def as_generator(random_state: Any) -> np.random.Generator:
    """A generator from a seed, None, or a generator; a legacy RandomState seeds one, and moves on."""
    seed("random_state", random_state)
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**32, size=4, dtype=np.uint32))
    return np.random.default_rng(random_state)
