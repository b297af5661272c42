"""Text from data in a fixed layout, and names that print alike."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from nearworth._common.text import cell, lines, one_line, refuse_alike

HIDDEN = ("Cc", "Cf", "Zl", "Zp", "Cs")


def test_every_character_is_seen_or_escaped():
    for number in (*range(0x20000), *range(0xE0000, 0xE0200), sys.maxunicode):
        character = chr(number)
        shown = one_line(character)
        if unicodedata.category(character) in HIDDEN and character not in "\u200c\u200d":
            assert shown.isascii(), number
            assert shown.isprintable(), number
            assert shown.startswith("\\"), number
        else:
            assert shown == character, number


def test_lines_keep_their_breaks_and_cells_have_no_gaps():
    assert lines("a\nb\r\x1b[1m") == "a\nb\\r\\x1b[1m"
    assert one_line("a\nb") == r"a\nb"
    assert one_line(7) == "7"
    assert cell("a b") == "a b"
    assert cell(" a  b\u00a0\u00a0c ") == r"\x20a \x20b" + "\u00a0\\xa0c\\x20"


@pytest.mark.parametrize(
    "names",
    [
        [7, "7"],
        [True, "True"],
        [None, "None"],
        ["a\nb", r"a\nb"],
        ["a  b", r"a \x20b"],
        [0.5, "0.5", 1],
    ],
)
def test_names_that_print_alike_are_refused(names):
    with pytest.raises(
        ValueError, match="^owners: .* are two values that print alike. Write them alike"
    ) as refused:
        refuse_alike(names, "owners")
    for name in names[:2]:
        assert f"{name!r} ({type(name).__name__})" in str(refused.value)


@pytest.mark.parametrize(
    "names", [[], [7, "8"], ["a", "A"], ["a", "a "], [r"C:\new", "C:"], [("a", 1), ("a", "1")]]
)
def test_names_that_print_differently_are_not(names):
    refuse_alike(names, "owners")
