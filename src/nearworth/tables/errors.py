"""InputError, and the words that its messages share."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import Any


class InputError(ValueError):
    """Bad input: the message says what was found, where, and what to do."""


def plural(word: str, items: Sized) -> str:
    """The word as it is for one item, with an s otherwise.

    >>> plural("row", [4]), plural("row", [4, 7])
    ('row', 'rows')
    """
    return word if len(items) == 1 else f"{word}s"


def listed(items: Iterable[Any], most: int = 5) -> str:
    """The first few items in words.

    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    named = list(items)
    head = ", ".join(repr(item) for item in named[:most])
    return head if len(named) <= most else f"{head} and {len(named) - most:,} more"
