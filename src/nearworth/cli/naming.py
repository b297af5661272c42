"""Columns that are not there: what may have been meant."""

from __future__ import annotations

from difflib import get_close_matches
from fnmatch import fnmatchcase

from nearworth.tables.errors import listed

FIRST, LAST = 8, 4


def what_it_has(names: list[str]) -> str:
    """The columns of a file: the first, and the last, which often hold the labels.

    >>> what_it_has([f"c{i}" for i in range(20)])
    "'c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7', ... (8 more), 'c16', 'c17', 'c18', 'c19'"
    """
    between = len(names) - FIRST - LAST
    if between < 1:
        return listed(names, FIRST + LAST)
    return f"{listed(names[:FIRST], FIRST)}, ... ({between:,} more), {listed(names[-LAST:], LAST)}"


def meant(name: str, names: list[str]) -> str:
    """A hint for a column that is not there, with a space before it; nothing if no name is near.

    >>> meant("Diagnosis", ["mean radius", "diagnosis"])
    " Did you mean 'diagnosis'?"
    """
    by_lower = {known.strip().lower(): known for known in reversed(names)}
    near = get_close_matches(name.strip().lower(), list(by_lower), n=1)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""


def meant_pattern(pattern: str, names: list[str]) -> str:
    """A hint for a pattern that matches nothing: the same with a star, or the column that is nearest.

    >>> meant_pattern("mean", ["mean radius", "mean area"])
    " Did you mean 'mean*'?"
    """
    wider = (changed for changed in (f"{pattern}*", f"*{pattern}", f"*{pattern}*"))
    found = next((w for w in wider if any(fnmatchcase(name, w) for name in names)), None)
    return meant(pattern, names) if found is None else f" Did you mean {found!r}?"
