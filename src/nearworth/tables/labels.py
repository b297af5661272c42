"""Labels and targets of tables as numpy arrays: spellings of one label put together, rows without a
label left out.
"""

from __future__ import annotations

from collections import Counter
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

MOST_SPELLINGS = 5  # classes whose spellings a message lists
NO_LABEL, EXACT = "empty, or NA, ? and the like", "labels are exact"
AS_REGRESSION = ("--task", "regression")


@dataclass(frozen=True)
class Target:
    """The target of the rows that have one, as numbers for regression, else as integers, booleans
    or text.
    """

    y: Any
    task: Task
    labelled: BoolVector  # of all rows
    remarks: list[str] = field(default_factory=list)
    spelling: dict[str, str] = field(default_factory=dict)  # folded text -> class


@dataclass(frozen=True)
class TargetReader:
    """How a target is read: by the task if one was asked for; `strict` guesses nothing, `exact`
    folds no labels.
    """

    task: Task | None
    strict: bool = False
    exact: bool = False
    like: Target | None = None  # the target of the training data, for that of the validation data

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
        labels = (
            pa.array(y) if y.dtype.kind == "u" else pa.array(y.tolist())
        )  # beyond 2**63 by their type only
        return self.read(
            pa.chunked_array([labels]), f"{source.path}: the target {target or source.y_name!r}"
        )

    def read(self, cells: Any, where: str) -> Target:
        if pa.types.is_dictionary(cells.type):
            cells = cells.cast(cells.type.value_type)
        kind, written = kind_of(cells), cells
        if kind == "list":
            raise InputError(f"{where} holds lists, which cannot be labels.")
        if (
            kind == "text"
            and not (self.strict or self.exact)
            and self._is_amount(read := find_reader(cells)(cells))
        ):
            cells, kind = read, "number"
        labelled = ~self._missing(cells, kind)
        if self.strict and not labelled.all():
            rows = listed(np.flatnonzero(~labelled).tolist())
            raise InputError(
                f"{where} is missing or infinite at row {rows} (0-based).", drop="--strict"
            )
        if not labelled.any():
            raise InputError(f"{where} is empty in every row.")
        known, remarks = cells.filter(pa.array(labelled)), _left_out(written, labelled)
        if (
            kind == "number"
            and self.task != "regression"
            and (self.strict or not self._is_amount(known))
        ):
            known = _whole_numbers(known)
            kind = kind_of(known)
        is_number = kind == "number" or (kind == "truth" and self.task != "regression")
        if is_number and (self.like is None or self.like.y.dtype != object):
            exact = kind == "truth" or pa.types.is_integer(known.type)
            return self._numbers(
                known.to_numpy() if exact else _floats(known), labelled, where, remarks
            )
        if self.task == "regression":
            raise InputError(
                f"{where} holds {kind}, but regression needs numbers.", drop="--task regression"
            )
        return self._text(known.cast(pa.string()).to_pylist(), labelled, where, remarks)

    def _is_amount(self, cells: Any) -> bool:
        """Whether text is read as numbers: they must be asked for, or be too many for classes."""
        if kind_of(cells) != "number" or self.task == "classification":
            return False
        return self.task == "regression" or (
            self.like is None and are_amounts(_floats(cells.drop_null()))
        )

    def _missing(self, cells: Any, kind: str) -> BoolVector:
        if kind != "text":
            return missing_cells(cells)
        text = pc.utf8_lower(pc.utf8_trim_whitespace(pc.fill_null(cells.cast(pa.string()), "")))
        nothing = [""] if self.strict or self.exact else [*NOTHING]
        distinct = set(pc.unique(text).to_pylist())
        pairs = {
            "-": "+" in distinct,
            "none": len(distinct - set(nothing)) < 2,
        }  # with "+" or "some", it is a class
        nothing = [cell for cell in nothing if not pairs.get(cell)]
        return np.asarray(pc.is_in(text, pa.array(nothing)).to_numpy())

    def _numbers(self, y: Any, labelled: BoolVector, where: str, remarks: list[str]) -> Target:
        task = self.task or (self.like.task if self.like else None)
        if task is None and not self.strict and y.dtype.kind in "iuf" and are_amounts(y):
            remarks.append(
                f"the target has {len(np.unique(y)):,} distinct numbers: taken as amounts, for"
                " regression"
            )
            task = "regression"
        if task == "regression":
            return self._checked(Target(y.astype(np.float64), task, labelled, remarks), where)
        if y.dtype.kind == "f":
            broken = np.flatnonzero(y != np.trunc(y))
            if len(broken):
                found = f"{y[broken[0]]:g} at row {broken[0]}"
                problem = (
                    f"{where} holds {found}: numbers with fractions are no classes. Use the task"
                    " regression."
                )
                raise InputError(problem, add=AS_REGRESSION, drop="--task classification")
            y = y.astype(np.int64)
        return self._checked(Target(y, "classification", labelled, remarks), where)

    def _text(
        self, labels: list[str], labelled: BoolVector, where: str, remarks: list[str]
    ) -> Target:
        """Labels that differ by case and white space only are one class, spelt as in most rows."""
        spelling = dict(self.like.spelling) if self.like else {}
        if not (self.exact or self.strict):
            counts: dict[str, Counter[str]] = {}
            for label, count in Counter(labels).items():
                counts.setdefault(folded(label), Counter())[label] = count
            for key, found in counts.items():
                spelling.setdefault(key, found.most_common(1)[0][0].strip())
            several = [found for found in counts.values() if len(found) > 1]
            for found in several[:MOST_SPELLINGS] if self.like is None else []:
                spelt = ", ".join(f"{label!r} ({count:,})" for label, count in found.most_common(5))
                remarks.append(f"labels {spelt} are one class unless {EXACT}")
            labels = [spelling[folded(label)] for label in labels]
        y = np.array(labels, dtype=object)
        return self._checked(Target(y, "classification", labelled, remarks, spelling), where)

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
            found, add = (
                f"different in each of the {len(y):,} rows",
                AS_REGRESSION if y.dtype.kind in "iuf" else (),
            )
            raise InputError(
                f"{where} is {found}. Is it another column, or is the task regression?", add=add
            )
        return target


def folded(label: str) -> str:
    """What spellings of one label have in common.

    >>> folded(" New  York ") == folded("new york")
    True
    """
    return " ".join(label.split()).casefold()


def _left_out(cells: Any, labelled: BoolVector) -> list[str]:
    """That rows have no label, and which words they have instead: one of them may be a class."""
    rows = np.flatnonzero(~labelled).tolist()
    found = Counter(
        str(cell or "").strip() for cell in cells.filter(pa.array(~labelled)).to_pylist()
    )
    words = [
        f"{n:,} read {word!r}"
        for word, n in found.most_common(MOST_SPELLINGS)
        if word not in ("", "nan")
    ]
    why = f"{', '.join(words)}: no labels unless renamed or {EXACT}" if words else NO_LABEL
    return [
        f"{number_of('row', len(rows))} without a label left out: {listed(rows, 3)} ({why})"
    ] * bool(rows)


def _whole_numbers(cells: Any) -> Any:
    """Classes as 64-bit integers or, beyond those, as text; numbers with fractions as they are.

    Two classes of many digits would be one as floats.
    """
    kind = cells.type
    if pa.types.is_integer(kind):
        fits = kind != pa.uint64() or pc.max(cells).as_py() < 2**63
        return cells if fits else cells.cast(pa.string())
    if pa.types.is_decimal(kind):
        exact = cells.to_pylist()
    elif pc.max(pc.abs(cells.cast(pa.float64()))).as_py() >= 2.0**53:
        exact = cells.cast(pa.float64()).to_pylist()
    else:
        return cells
    if any(number != int(number) for number in exact):
        return cells
    whole = [int(number) for number in exact]
    if all(abs(number) < 2**63 for number in whole):
        return pa.chunked_array([pa.array(whole, pa.int64())])
    return pa.chunked_array([pa.array([str(number) for number in whole], pa.string())])


def _floats(cells: Any) -> Any:
    return cells.cast(pa.float64(), safe=False).to_numpy()
