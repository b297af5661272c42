"""Tables in files: read, prepared for distances, written.

    path --> read.py --> DataFile --> load.py --> Dataset (dataset.py)
                                        |
                          labels.py, prepare.py: TablePreparer
                                        |
                                   columns.py <-- readers.py
    columns --> write.py --> path

dataset.py      Dataset: rows with their features, labels, names, cells, images, up to the page
load.py         files and frames to a Dataset; which columns rows are compared by
read.py         a path to a DataFile (a table, or arrays): CSV, TSV, JSON (or .gz), Parquet,
                Feather, Excel, npz, npy
json_reader.py  objects in JSON to columns, by Python's own decoder; numbers keep all digits
readers.py      what the cells of a column stand for: numbers, dates, truth values, lists, nothing
columns.py      what each kind of column becomes: numbers, categories, components of a text, an
                embedding
prepare.py      TablePreparer, the scikit-learn transformer over all columns
labels.py       labels and targets: spellings put together, rows without a label, amounts or classes
write.py        columns to a file: CSV, TSV, Parquet, Feather, JSON; atomic; the formula guard, CSV
                with some new cells

All of them raise InputError, which is here with the functions that put names and numbers into
messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nearworth._common.text import one_line


class InputError(ValueError):
    """Bad input. The message names the place, the finding and the remedy, in one line.

    The command that would work has no `drop`, has `instead[1]` for `instead[0]`, and has `add` at
    its end.
    """

    def __init__(
        self,
        message: str,
        *,
        add: Iterable[str] = (),
        drop: str = "",
        instead: tuple[str, str] | None = None,
    ) -> None:
        super().__init__(one_line(message))
        self.add = tuple(add)
        self.drop = drop.split()
        self.instead = instead

    def corrected(self, arguments: Iterable[str]) -> list[str]:
        """The arguments of a command that would work; none if that is not known."""
        given = [*arguments]
        corrected = given
        if self.instead is not None:
            old, new = self.instead
            corrected = [new if argument == old else argument for argument in given]
        if self.drop:
            corrected = _without(corrected, self.drop)
        corrected = [*corrected, *self.add]
        return corrected if corrected != given else []


def _without(arguments: list[str], drop: list[str]) -> list[str]:
    """The arguments without the first run of those to drop."""
    for start in range(len(arguments)):
        end = start + len(drop)
        if arguments[start:end] == drop:
            return [*arguments[:start], *arguments[end:]]
    return arguments


def listed(items: Iterable[Any], max_items: int = 5) -> str:
    """The first few items in words.

    >>> listed(["a", "b", "c"], max_items=2)
    "'a', 'b' and 1 more"
    """
    named = list(items)
    head = ", ".join(repr(item) for item in named[:max_items])
    return head if len(named) <= max_items else f"{head} and {len(named) - max_items:,} more"


def number_of(word: str, n: int, then: str = "") -> str:
    """A number of things, in the plural unless it is one.

    >>> number_of("row", 1, "removed"), number_of("row", 1200)
    ('1 row removed', '1,200 rows')
    """
    return f"{n:,} {word}{'s' * (n != 1)} {then}".rstrip()
