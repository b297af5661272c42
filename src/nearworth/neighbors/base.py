"""What every kind of rank keys can do."""

from __future__ import annotations

from typing import Any, Protocol

from nearworth._typing import FloatMatrix
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
    def product_bytes(self) -> int | None:
        """What rough distances would keep beside the data; None if there are none."""
        return None

    def products(self) -> Rough | None:
        """Rough distances for many queries at once, where a matrix product gives them."""
        return None
