"""What every kind of rank keys can do."""

from __future__ import annotations

from typing import Any, Protocol

from nearworth._common.types import FloatMatrix
from nearworth.neighbors.products import RoughBatch


class Rough(Protocol):
    """Rough distances from a matrix product (see `products.Products`)."""

    can_be_narrow: bool

    def __call__(self, queries: FloatMatrix, *, narrow: bool) -> RoughBatch:
        """Rough distances of a batch of queries."""
        ...


class Keys:
    """Knows the training points; turns a batch of queries into keys of shape (queries, training points)."""

    def __call__(self, queries: Any) -> FloatMatrix:
        """Smaller is nearer, equal is tied."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """Numbers in a query, of which a few copies are made."""
        return 0

    @property
    def streamed(self) -> bool:
        """Whether every pass over the training points reads a file."""
        return False

    @property
    def has_products(self) -> bool:
        """Whether a matrix product gives rough distances."""
        return False

    def products(self, *, narrow: bool) -> Rough:
        """Rough distances for many queries at once, with a 32-bit copy of the training set if `narrow`."""
        raise NotImplementedError
