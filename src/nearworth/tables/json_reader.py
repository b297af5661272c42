"""Objects in JSON to a table. The decoder is Python's own: no file may take the process down.

A column is made of what all of its cells are:

    numbers            whole numbers, or floats; text where neither holds all of their digits
    truth values       truth values
    text               text
    lists of numbers   lists
    several of these   text: numbers keep their digits, lists and objects are written as JSON
    null, or no key    missing

Objects and other lists are kept as they are where their cells agree in type, and are written as
JSON elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from nearworth._common.digits import floats_hold
from nearworth.tables import InputError

# Lists and objects within each other. Arrow descends into them without a limit of its own.
MAX_NESTED = 20
WHITE_SPACE = re.compile(r"[ \t\r\n]*")
# Characters of the longest integer of 64 bits.
MAX_INT64_CHARACTERS = 20
NAMES = {dict: "an object", list: "a list", str: "text", bool: "a truth value", type(None): "null"}
NUMBERS, TRUTHS, TEXTS, LISTS, OBJECTS = "numbers", "truth values", "text", "lists", "objects"
KINDS = {bool: TRUTHS, str: TEXTS, list: LISTS, dict: OBJECTS}


class Literal(str):
    """A number as it is written in the file."""

    __slots__ = ()

    @property
    def is_whole(self) -> bool:
        return self.isdecimal() or self[1:].isdecimal()


def parse_json(
    content: bytes, where: str, identifiers: Collection[str | None] = ()
) -> tuple[pa.Table, list[str]]:
    """The table of one array of objects, or of objects one after the other, and remarks on columns.

    Columns named in `identifiers` name things: their numbers are text unless all are whole and fit
    64 bits. As floats, long ids would be merged.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where} is not UTF-8, as JSON is: {error.reason} at byte {error.start:,}."
        ) from error
    columns: dict[str, list[Any]] = {}
    n_rows = 0
    for record in _records(text, where):
        for name, cell in record.items():
            column = columns.setdefault(name, [])
            column.extend([None] * (n_rows - len(column)))
            column.append(cell)
        n_rows += 1
    arrays: list[Any] = []
    remarks: list[str] = []
    for name, cells in columns.items():
        cells.extend([None] * (n_rows - len(cells)))
        try:
            array, remark = _as_array(cells, name in identifiers)
        except UnicodeEncodeError as error:
            raise InputError(
                f"{where} column {name!r} holds half of a surrogate pair, which is no character."
                " Repair the text."
            ) from error
        except _AlikeError as error:
            raise InputError(
                f"{where} column {name!r} holds {error.args[0]} both as a number and as text."
                " Write names of one thing in one way."
            ) from error
        arrays.append(array)
        if remark:
            remarks.append(f"column {name!r} {remark}")
    if n_rows and not columns:
        raise InputError(f"{where} its objects have no keys, so that the table has no columns.")
    return pa.table(arrays, names=[*columns]), remarks


def _records(text: str, where: str) -> Iterator[dict[str, Any]]:
    """The objects of the file, one after the other."""
    for number, (record, start) in enumerate(_values(text, where), start=1):
        if not isinstance(record, dict):
            found = "a number" if isinstance(record, Literal) else NAMES[type(record)]
            place = f"record {number} (line {_line(text, start)})"
            raise InputError(
                f"{where} {place} is {found}, but each must be an object. Repair or remove it."
            )
        yield record


def _values(text: str, where: str) -> Iterator[tuple[Any, int]]:
    """Each value at the top, or within the array at the top, and where it starts."""
    decoder = json.JSONDecoder(
        object_pairs_hook=_object,
        parse_float=Literal,
        parse_int=Literal,
        parse_constant=_constant,
    )
    position = _skip(text, 0)
    is_array = text.startswith("[", position)
    if is_array:
        position = _skip(text, position + 1)
    first = True
    while position < len(text):
        if is_array and text[position] == "]" and first:
            break
        start = position
        try:
            value, end = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            place = f"line {error.lineno}, column {error.colno}"
            found = error.msg[0].lower() + error.msg[1:].removesuffix(" at")
            raise InputError(f"{where} is not JSON: {found} at {place}.") from error
        except RecursionError as error:
            raise InputError(
                f"{where} lists and objects are nested too deeply at line {_line(text, start)}."
            ) from error
        except _RepeatedKeyError as error:
            place = f"the object at line {_line(text, start)}"
            raise InputError(
                f"{where} {place} has the key {error.args[0]!r} twice. Keep one."
            ) from error
        yield value, start
        first = False
        position = _skip(text, end)
        if not is_array:
            continue
        if text.startswith(",", position):
            position = _skip(text, position + 1)
        elif text.startswith("]", position):
            break
        else:
            raise InputError(
                f"{where} is not JSON: the array is not closed at line {_line(text, position)}."
            )
    else:
        if is_array:
            raise InputError(
                f"{where} is not JSON: the array is not closed at line {_line(text, position)}."
            )
        return
    rest = _skip(text, position + 1)
    if rest < len(text):
        raise InputError(
            f"{where} is not JSON: something follows the array at line {_line(text, rest)}."
        )


def _skip(text: str, position: int) -> int:
    """The position after white space."""
    space = WHITE_SPACE.match(text, position)
    return space.end() if space else position


def _line(text: str, position: int) -> int:
    """The number of the line at a position, from 1."""
    return text.count("\n", 0, position) + 1


class _RepeatedKeyError(Exception):
    """An object has a key twice, so that one of its values would be lost."""


class _AlikeError(Exception):
    """A number and a text of an identifier would be printed alike."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object with lists of numbers as arrays, which take a quarter of the memory."""
    record = {name: _packed(value) if type(value) is list else value for name, value in pairs}
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        raise _RepeatedKeyError(next(name for name in names if names.count(name) > 1))
    return record


def _constant(name: str) -> Literal | None:
    """NaN is a missing number, as elsewhere. Infinities stay, for many programs write them."""
    return None if name == "NaN" else Literal(name)


def _packed(cells: list[Any]) -> Any:
    """A list of numbers as an array; any other list as it is."""
    if not cells or {*map(type, cells)} != {Literal}:
        return cells
    if not cells[0].is_whole and floats_hold(cells):
        return pa.array(np.array(list(map(float, cells))))
    return _numbers(cells)


def _as_array(cells: list[Any], is_identifier: bool) -> tuple[Any, str]:
    """The cells of a column as an array of Arrow, and a remark if they are not what they were."""
    kinds = {_kind(cell) for cell in cells if cell is not None}
    if kinds == {NUMBERS}:
        return (_identifiers(cells) if is_identifier else _numbers(cells)), ""
    if len(kinds) < 2 and kinds <= {TRUTHS, TEXTS}:
        return pa.array(cells), ""
    if kinds <= {LISTS, OBJECTS}:
        # They may differ in type, be nested too deeply, or hold integers beyond 64 bits.
        with suppress(pa.ArrowException, OverflowError, RecursionError):
            return _nested(cells), ""
    if is_identifier:
        _check_alike(cells)
    mixture = listed_words(sorted(kinds)) if len(kinds) > 1 else f"{min(kinds)} of several types"
    texts = pa.array([_as_text(cell) for cell in cells], pa.string())
    return texts, f"holds {mixture}: read as text"


def _kind(cell: Any) -> str:
    if isinstance(cell, Literal):
        return NUMBERS
    return KINDS.get(type(cell), LISTS)


def listed_words(words: list[str]) -> str:
    """Words as in a sentence.

    >>> listed_words(["lists", "numbers", "text"])
    'lists, numbers and text'
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _check_alike(cells: list[Any]) -> None:
    """Refuse an identifier that is both the number 7 and the text "7"."""
    numbers = {str(cell) for cell in cells if type(cell) is Literal}
    others = {cell for cell in cells if type(cell) is str}
    if both := sorted(numbers & others):
        raise _AlikeError(both[0])


def _identifiers(cells: list[Any]) -> Any:
    """Numbers that name things, as text unless all are integers of 64 bits: 1.10 is not 1.1."""
    numbers = _numbers(cells)
    if pa.types.is_integer(numbers.type) and "-0" not in cells:
        return numbers
    return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())


def _numbers(cells: list[Any]) -> Any:
    """Literals as whole numbers if all are whole, else as floats, or as text to keep digits."""
    are_short = all(cell is None or len(cell) <= MAX_INT64_CHARACTERS for cell in cells)
    if are_short and _all_whole(cells):
        # They may be beyond 64 bits after all.
        with suppress(pa.ArrowException, OverflowError):
            return pa.array([None if cell is None else int(cell) for cell in cells], pa.int64())
    if floats_hold(cells):
        return pa.array([None if cell is None else float(cell) for cell in cells], pa.float64())
    return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())


def _all_whole(cells: list[Any]) -> bool:
    return all(cell is None or cell.is_whole for cell in cells)


def _nested(cells: list[Any]) -> Any:
    """Lists and objects as Arrow types; one of its errors if they have no type in common."""
    arrays = [cell for cell in cells if isinstance(cell, pa.Array)]
    kinds = {array.type for array in arrays}
    if arrays and kinds <= {pa.int64(), pa.float64()} and all(_is_flat(cell) for cell in cells):
        # Vectors of embeddings are put together without a Python object for each number.
        kind = pa.float64() if pa.float64() in kinds else pa.int64()
        lengths = [0 if cell is None else len(cell) for cell in cells]
        ends = np.cumsum([0, *lengths])
        values = pa.concat_arrays([array.cast(kind) for array in arrays])
        missing = pa.array([cell is None for cell in cells])
        if ends[-1] < 2**31:
            return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values, mask=missing)
        return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), values, mask=missing)
    return pa.array([_plain(cell, MAX_NESTED) for cell in cells])


def _is_flat(cell: Any) -> bool:
    return cell is None or isinstance(cell, pa.Array) or cell == []


def _plain(cell: Any, depth: int) -> Any:
    """A list or an object of which Arrow can tell the type."""
    if depth == 0:
        raise RecursionError
    if isinstance(cell, Literal):
        return _numbers([cell])[0].as_py()
    if isinstance(cell, pa.Array):
        return cell.to_pylist()
    if isinstance(cell, list):
        return [_plain(item, depth - 1) for item in cell]
    if isinstance(cell, dict):
        return {name: _plain(item, depth - 1) for name, item in cell.items()}
    return cell


def _as_text(cell: Any) -> str | None:
    """Text as it is, and anything else as JSON."""
    return cell if cell is None or type(cell) is str else _as_json(cell)


def _as_json(cell: Any) -> str:
    """A value as JSON, numbers with the digits that they were written with."""
    if isinstance(cell, Literal):
        return str(cell)
    if isinstance(cell, pa.Array):
        return f"[{', '.join(map(str, cell.to_pylist()))}]"
    if isinstance(cell, list):
        return f"[{', '.join(map(_as_json, cell))}]"
    if isinstance(cell, dict):
        pairs = [f"{_as_json(name)}: {_as_json(item)}" for name, item in cell.items()]
        return f"{{{', '.join(pairs)}}}"
    return json.dumps(cell, ensure_ascii=False)
