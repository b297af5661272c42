"""The four utilities of K-nearest-neighbour valuation, from their definitions (see `nearworth.games.utilities`)."""

from nearworth.games.utilities import (
    original_classification,
    original_regression,
    soft_classification,
    soft_regression,
)

__all__ = ["original_classification", "original_regression", "soft_classification", "soft_regression"]
