r"""Text from data in a fixed layout.

Names, labels and paths may hold line breaks and characters that steer a terminal. Such characters
are shown as Python escapes ("\n", "\x1b", "\u202e"), so that a reader sees that they are there.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

# Categories of Unicode: control and format characters (which reverse the direction of writing, or
# are invisible), line and paragraph separators, halves of surrogate pairs (bytes of a file name
# that are no UTF-8).
HIDDEN = ("Cc", "Cf", "Zl", "Zp", "Cs")

# Format characters that Persian, Indian scripts and emoji are written with.
JOINERS = "\u200c\u200d"

# Spaces after another, or at an end: two spaces look like the gap between two columns.
FURTHER_SPACES = re.compile(r"(?<=\s)\s|^\s|\s$")


def one_line(text: Any) -> str:
    r"""The text in one line, with escapes for what cannot be seen.

    >>> print(one_line("bob\n  5,000.00  mallory \u202e"))
    bob\n  5,000.00  mallory \u202e
    """
    return _escaped(str(text))


def lines(text: Any) -> str:
    """The text as `one_line` has it, but with its line breaks, for messages of several lines."""
    return _escaped(str(text), kept="\n")


def cell(text: Any) -> str:
    r"""The text as one cell of a printed table, without gaps that look like those of columns.

    >>> print(cell("bob  5,000.00"))
    bob \x205,000.00
    """
    return FURTHER_SPACES.sub(lambda space: _escape(space[0]), one_line(text))


def appearance(text: Any) -> str:
    """A form that is equal for texts which a reader may take for the same.

    Case, spaces and forms of a character do not count.

    >>> appearance("Bob\u200d  Smith ") == appearance("bob smith")
    True
    """
    characters = str(text)
    visible = "".join(
        character for character in characters if unicodedata.category(character) != "Cf"
    )
    folded = unicodedata.normalize("NFKC", visible).casefold()
    return " ".join(folded.split())


def refuse_alike(names: Iterable[Any], argument: str) -> None:
    """Refuse distinct names that print alike: an output, such as JSON, would make one of them."""
    names = list(names)
    # Such names print as they are.
    if all(isinstance(name, str) and name.isprintable() and "\\" not in name for name in names):
        return
    first_with_text: dict[str, Any] = {}
    for name in names:
        first = first_with_text.setdefault(cell(name), name)
        if first is not name and first != name:
            raise ValueError(
                f"{argument}: {first!r} ({type(first).__name__}) and"
                f" {name!r} ({type(name).__name__}) are two values that print alike. Write them"
                " alike if they are the same, or rename one of them."
            )


def _escaped(text: str, kept: str = "") -> str:
    """The text with escapes for hidden characters, except those in `kept`."""
    if text.isprintable():
        return text
    return "".join(
        _escape(character) if _is_hidden(character, kept) else character for character in text
    )


def _is_hidden(character: str, kept: str) -> bool:
    return (
        unicodedata.category(character) in HIDDEN
        and character not in JOINERS
        and character not in kept
    )


def _escape(character: str) -> str:
    # Python leaves characters that can be printed, such as spaces, as they are.
    if character.isascii() and character.isprintable():
        return f"\\x{ord(character):02x}"
    return character.encode("unicode_escape").decode("ascii")
