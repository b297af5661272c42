"""Old names of what is in recall.py, until nothing imports them."""

from __future__ import annotations

from nearworth.neighbors.recall import Sample, recall, recall_by_distance

__all__ = ["Sample", "recall", "recall_by_distance"]
