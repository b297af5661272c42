"""Labels and targets of tables as numpy arrays.

Spellings of one label are put together, and rows without a label are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearworth._common.types import BoolVector, Task
from nearworth.inputs.targets import are_amounts
from nearworth.tables import InputError, listed, number_of
from nearworth.tables.read import ARRAYS, DataFile, read_labels
from nearworth.tables.readers import NOTHING, find_reader, kind_of, missing_cells

# Classes whose spellings a message lists, and spellings of each.
MAX_SPELLINGS = 5
NO_LABEL = "empty, or NA, ? and the like"
# The command line has an option in place of this.
EXACT = "labels are exact"
AS_REGRESSION = ("--task", "regression")
# Integers of one type; larger ones are text.
MAX_INTEGER = 2**63
# Whole numbers beyond it are not all floats.
EXACT_FLOATS = 2.0**53


@dataclass(frozen=True)
class Target:
    """The target of the rows that have one.

    Attributes
    ----------
    y : array of shape (n labeled rows,)
        Numbers for regression, else integers, booleans or text.
    task : {"classification", "regression"}
    labelled : array of bool, shape (n_rows,)
        Which rows have a label.
    remarks : list of str
        What people should know of how the target was read.
    spelling : dict
        From folded text to the class as it is spelled.
    """

    y: Any
    task: Task
    labelled: BoolVector
    remarks: list[str] = field(default_factory=list)
    spelling: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Labels:
    """A target that is being read: which rows have a label, and where it is, for messages."""

    labelled: BoolVector
    where: str
    remarks: list[str]

    def target(self, y: Any, task: Task, spelling: dict[str, str] | None = None) -> Target:
        return Target(y, task, self.labelled, self.remarks, spelling or {})


@dataclass(frozen=True)
class TargetReader:
    """How a target is read.

    Attributes
    ----------
    task : {"classification", "regression"}, optional
        The task that was asked for.
    strict : bool
        Guess nothing.
    exact : bool
        Take labels as they are written.
    like : Target, optional
        The target of the training data, to read that of the validation data alike.
    """

    task: Task | None
    strict: bool = False
    exact: bool = False
    like: Target | None = None

    def column(self, source: DataFile, name: str) -> Target:
        return self.read(source.table[name], f"{source.path}: the target {name!r}")

    def array(self, source: DataFile, target: str | None) -> Target:
        """Labels beside an array: `y` of its archive, or an .npy file of their own."""
        y = source.y
        if target is not None and Path(target).suffix.lower() in ARRAYS:
            y = read_labels(target)
        elif y is None or target not in (None, source.y_name):
            raise InputError(
                f"{source.path}: has no labels. Use an .npz with `X` and `y`, or --target"
                " labels.npy."
            )
        if y.shape != (len(source.X),):
            raise InputError(
                f"{source.path}: y has shape {y.shape}; give one label per row, of"
                f" {len(source.X):,}."
            )
        # Arrow takes integers beyond 2**63 by the type of their array only.
        labels = pa.array(y) if y.dtype.kind == "u" else pa.array(y.tolist())
        where = f"{source.path}: the target {target or source.y_name!r}"
        return self.read(pa.chunked_array([labels]), where)

    def read(self, cells: Any, where: str) -> Target:
        """The target that an Arrow column holds; `where` names the column in messages."""
        if pa.types.is_dictionary(cells.type):
            cells = cells.cast(cells.type.value_type)
        if kind_of(cells) == "list":
            raise InputError(f"{where} holds lists, which cannot be labels.")
        written = cells
        cells = self._as_amounts(cells)
        labelled = ~self._missing(cells, kind_of(cells))
        self._check_missing(labelled, where)
        labels = _Labels(labelled, where, _left_out(written, labelled))

        known = self._as_classes(cells.filter(pa.array(labelled)))
        kind = kind_of(known)
        is_number = kind == "number" or (kind == "truth" and self.task != "regression")
        # Where training labels are text, so are all others.
        if is_number and (self.like is None or self.like.y.dtype != object):
            is_exact = kind == "truth" or pa.types.is_integer(known.type)
            return self._numbers(known.to_numpy() if is_exact else _floats(known), labels)
        if self.task == "regression":
            raise InputError(
                f"{where} holds {kind}, but regression needs numbers.", drop="--task regression"
            )
        return self._text(known.cast(pa.string()).to_pylist(), labels)

    def _as_amounts(self, cells: Any) -> Any:
        """Texts such as "$1,200" as numbers, if these are no classes."""
        if kind_of(cells) != "text" or self.strict or self.exact:
            return cells
        numbers = find_reader(cells)(cells)
        return numbers if self._is_amount(numbers) else cells

    def _as_classes(self, cells: Any) -> Any:
        """Whole numbers that are classes in a type that keeps their digits."""
        if kind_of(cells) != "number" or self.task == "regression":
            return cells
        return _whole_numbers(cells) if self.strict or not self._is_amount(cells) else cells

    def _check_missing(self, labelled: BoolVector, where: str) -> None:
        """Refuse targets without a label in any row or, if strict, in some rows."""
        if self.strict and not labelled.all():
            rows = listed(np.flatnonzero(~labelled).tolist())
            raise InputError(
                f"{where} is missing or infinite at row {rows} (0-based).", drop="--strict"
            )
        if not labelled.any():
            raise InputError(f"{where} is empty in every row.")

    def _is_amount(self, cells: Any) -> bool:
        """Whether numbers are amounts: they were asked for, or are too many for classes."""
        if kind_of(cells) != "number" or self.task == "classification":
            return False
        if self.task == "regression":
            return True
        return self.like is None and are_amounts(_floats(cells.drop_null()))

    def _missing(self, cells: Any, kind: str) -> BoolVector:
        if kind != "text":
            return missing_cells(cells)
        text = pc.utf8_lower(pc.utf8_trim_whitespace(pc.fill_null(cells.cast(pa.string()), "")))
        if self.strict or self.exact:
            nothing = [""]
        else:
            nothing = [*NOTHING]
        distinct = set(pc.unique(text).to_pylist())
        # "-" is a class beside "+", and "none" is one beside a single other class.
        if "+" in distinct and "-" in nothing:
            nothing.remove("-")
        if len(distinct - set(NOTHING)) < 2 and "none" in nothing:
            nothing.remove("none")
        return np.asarray(pc.is_in(text, pa.array(nothing)).to_numpy())

    def _numbers(self, y: Any, labels: _Labels) -> Target:
        """Numbers as amounts, or as classes if they are whole."""
        task = self.task or (self.like.task if self.like else None)
        if task is None and not self.strict and y.dtype.kind in "iuf" and are_amounts(y):
            labels.remarks.append(
                f"the target has {len(np.unique(y)):,} distinct numbers: taken as amounts, for"
                " regression"
            )
            task = "regression"
        if task == "regression":
            return self._checked(labels.target(y.astype(np.float64), task), labels.where)
        if y.dtype.kind == "f":
            fractions = np.flatnonzero(y != np.trunc(y))
            if len(fractions):
                raise InputError(
                    f"{labels.where} holds {y[fractions[0]]:g} at row {fractions[0]}: numbers with"
                    " fractions are no classes. Use the task regression.",
                    add=AS_REGRESSION,
                    drop="--task classification",
                )
            y = y.astype(np.int64)
        return self._checked(labels.target(y, "classification"), labels.where)

    def _text(self, texts: list[str], labels: _Labels) -> Target:
        """Labels that differ by case and white space only are one class, spelt as in most rows."""
        spelling = dict(self.like.spelling) if self.like else {}
        if not (self.exact or self.strict):
            # For each class, how often each of its spellings occurs.
            counts: dict[str, Counter[str]] = {}
            for text, count in Counter(texts).items():
                counts.setdefault(folded(text), Counter())[text] = count
            for key, spellings in counts.items():
                spelling.setdefault(key, spellings.most_common(1)[0][0].strip())
            if self.like is None:
                labels.remarks.extend(_spelling_remarks(counts.values()))
            texts = [spelling[folded(text)] for text in texts]
        y = np.array(texts, dtype=object)
        return self._checked(labels.target(y, "classification", spelling), labels.where)

    def _checked(self, target: Target, where: str) -> Target:
        """Refuse targets from which nothing can be learnt."""
        if self.like is not None:
            return target
        y, distinct = target.y, set(target.y.tolist())
        if len(distinct) == 1:
            raise InputError(
                f"{where} is {y[0]!r} in every row: with one class there is nothing to learn."
            )
        if target.task == "classification" and len(distinct) == len(y) > 2:
            raise InputError(
                f"{where} is different in each of the {len(y):,} rows. Is it another column, or is"
                " the task regression?",
                add=AS_REGRESSION if y.dtype.kind in "iuf" else (),
            )
        return target


def _spelling_remarks(counts: Iterable[Counter[str]]) -> list[str]:
    """A remark on each class that is spelled in several ways, for some of them."""
    remarks: list[str] = []
    several = [spellings for spellings in counts if len(spellings) > 1]
    for spellings in several[:MAX_SPELLINGS]:
        commonest = spellings.most_common(MAX_SPELLINGS)
        spelled = ", ".join(f"{label!r} ({count:,})" for label, count in commonest)
        remarks.append(f"labels {spelled} are one class unless {EXACT}")
    return remarks


def folded(label: str) -> str:
    """What spellings of one label have in common.

    >>> folded(" New  York ") == folded("new york")
    True
    """
    return " ".join(label.split()).casefold()


def _left_out(cells: Any, labelled: BoolVector) -> list[str]:
    """A remark on rows without a label and the words that they have instead.

    One of these words may be a class.
    """
    rows = np.flatnonzero(~labelled).tolist()
    if not rows:
        return []
    missing = cells.filter(pa.array(~labelled)).to_pylist()
    counts = Counter(str(cell or "").strip() for cell in missing)
    words = [
        f"{count:,} read {word!r}"
        for word, count in counts.most_common(MAX_SPELLINGS)
        if word not in ("", "nan")
    ]
    why = f"{', '.join(words)}: no labels unless renamed or {EXACT}" if words else NO_LABEL
    return [f"{number_of('row', len(rows))} without a label left out: {listed(rows, 3)} ({why})"]


def _whole_numbers(cells: Any) -> Any:
    """Classes as 64-bit integers or, beyond those, as text; numbers with fractions as they are.

    Two classes of many digits would be one as floats.
    """
    kind = cells.type
    if pa.types.is_integer(kind):
        fits = kind != pa.uint64() or pc.max(cells).as_py() < MAX_INTEGER
        return cells if fits else cells.cast(pa.string())
    if pa.types.is_decimal(kind):
        exact = cells.to_pylist()
    elif pc.max(pc.abs(cells.cast(pa.float64()))).as_py() >= EXACT_FLOATS:
        exact = cells.cast(pa.float64()).to_pylist()
    else:
        return cells
    if any(number != int(number) for number in exact):
        return cells
    whole = [int(number) for number in exact]
    if all(abs(number) < MAX_INTEGER for number in whole):
        return pa.chunked_array([pa.array(whole, pa.int64())])
    return pa.chunked_array([pa.array([str(number) for number in whole], pa.string())])


def _floats(cells: Any) -> Any:
    return cells.cast(pa.float64(), safe=False).to_numpy()
