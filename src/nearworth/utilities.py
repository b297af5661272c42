"""The four utilities of K-nearest-neighbour valuation, from their definitions (see `nearworth.games.definition`)."""

from nearworth.games.definition import (
    original_classification,
    original_regression,
    soft_classification,
    soft_regression,
)

__all__ = ["original_classification", "original_regression", "soft_classification", "soft_regression"]
