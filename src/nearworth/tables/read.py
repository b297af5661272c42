"""A file to a table or to arrays. Anything wrong with the file is one InputError that names it."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.feather as feather
import pyarrow.parquet as pq

from nearworth._common.digits import floats_hold
from nearworth._common.files import parse_npy
from nearworth._common.memory import free_memory
from nearworth.inputs.file_rows import map_npy
from nearworth.tables import InputError, listed
from nearworth.tables.json_reader import parse_json

FORMATS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "CSV"),
    **dict.fromkeys((".parquet", ".pq"), "Parquet"),
    **dict.fromkeys((".feather", ".arrow"), "Feather"),
    **dict.fromkeys((".npz", ".npy"), "numpy"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "JSON"),
    **dict.fromkeys((".xlsx", ".xlsm"), "Excel"),
}
ARRAYS = (".npz", ".npy")
PACKED = tuple(
    suffix for suffix, kind in FORMATS.items() if kind in ("CSV", "JSON")
)  # may end in .gz
MOST_UNPACKED, MOST_PACKED = (
    10**9,
    200,
)  # bytes that any file may unpack to; times its size, from there on
SAMPLE = 256 * 1024
CHUNK = 4 * 1024 * 1024
BLOCK, LARGE_BLOCK = 1024 * 1024, 32 * 1024 * 1024  # a row must fit in one
DELIMITERS = (",", ";", "\t", "|")
ENCODINGS = ("utf-8", "cp1252", "latin-1")  # the last one can decode everything
OTHER_FILES = {  # how they begin, after a byte-order mark
    rb"\s*\Z": "empty.",
    rb"PK\x03\x04|\xd0\xcf\x11\xe0|\x1f\x8b|%PDF|\xff\xfe|\xfe\xff|[^\x00]*\x00": (
        "binary (NUL bytes, an Excel workbook, gzip, PDF, UTF-16). Save it as UTF-8, or give it its"
        " right extension."
    ),
    rb"(?i)\s*<(!doctype|html|\?xml|head|body)": (
        "a web page (HTML or XML). Was a login or error page saved as CSV?"
    ),
    rb"\s*(\{|\[\{|\[\[)": "JSON, not a table. Name it .json, or save it as CSV.",
}
EXACT_FLOATS = 2.0**53  # all whole numbers up to here are 64-bit floats
LONG_NUMBER = r"^\s*[+-]?\d{16,}\s*$"
NUMBER = r"^\s*[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?\s*$"
PLAIN_INTEGER = r"^(0|-?[1-9]\d{0,17})$"  # fits 64 bits, and is printed as it is written
MISSING_NUMBERS = (
    pa_csv.ConvertOptions().null_values
)  # what Arrow takes for missing in columns of numbers
# Python's re and Arrow's RE2 both read it. The last four characters are full-width forms of = + -
# @.
DANGEROUS = "'*[=+\\-@\t\r\n\x00\uff1d\uff0b\uff0d\uff20]"


@dataclass(frozen=True)
class DataFile:
    """The contents of a file: a table, or an array X with labels y if it has them; and remarks for
    the user.
    """

    path: str
    table: Any = None
    X: Any = None
    y: Any = None
    _: KW_ONLY
    remarks: tuple[str, ...] = ()
    index: Any = None  # columns in which pandas keeps the names of rows, if any
    y_name: str = "y"

    @property
    def is_table(self) -> bool:
        return self.table is not None


def read(
    path: str | os.PathLike[str],
    text_only: bool = False,
    *,
    identifiers: Collection[str | None] = (),
) -> DataFile:
    """Read a table or arrays, by extension; text_only leaves CSV cells as text.

    Columns named in `identifiers` name things: their cells are as they are written, so that 007 is
    not 7.
    """
    with _opened(path) as (file, kind):
        if file.suffix.lower() == ".npz":
            return _load_npz(file)
        if kind == "numpy":
            return DataFile(str(file), X=_as_matrix(file, map_npy(file, f"{file}:")))
        if kind == "CSV":
            return _checked(_read_csv(file, text_only, identifiers))
        if kind == "JSON":
            return _checked(_read_json(file, identifiers))
        if kind == "Excel":
            return _checked(DataFile(str(file), _read_excel(file, identifiers)))
        return _checked(_read_columnar(file, kind))


def count_rows(path: str | os.PathLike[str]) -> int:
    """How many rows `read` finds."""
    source = read(path)
    return source.table.num_rows if source.is_table else len(source.X)


def read_labels(path: str | os.PathLike[str]) -> Any:
    """The array of labels in an .npy file."""
    with _opened(path) as (file, _):
        return map_npy(file, f"{file}:")


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[tuple[Path, str]]:
    """The checked path and its format; errors of the operating system and of the file's format
    become InputErrors.
    """
    file = Path(path)
    suffix = suffix_of(file) if suffix_of(file) in PACKED else file.suffix.lower()
    if not file.is_file():
        raise InputError(
            f"{file}: {'is a directory or a device' if file.exists() else 'there is no such file'}."
        )
    if suffix not in FORMATS:
        known = ", ".join(FORMATS)
        raise InputError(
            f"{file}: its extension {file.suffix!r} is not known. Save the data as one of {known}."
        )
    kind = FORMATS[suffix]
    try:
        _check_unpacked(file, kind)
        yield file, kind
    except InputError:
        raise
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        found = f"is a packed {kind} file that is cut short or damaged"
        raise InputError(f"{file}: {found} ({error}). Copy or download it again.") from error
    except (
        Exception
    ) as error:  # damage to a file can surface as almost anything, a size beyond memory included
        why = (getattr(error, "strerror", None) or str(error) or repr(error)).splitlines()[0]
        if why.startswith(f"{file}: "):
            raise InputError(why) from error
        raise InputError(f"{file}: is not a {kind} file that can be read: {why}") from error


def _check_unpacked(path: Path, kind: str) -> None:
    """Refuse, before anything is unpacked, files that hold more than they could honestly, or than
    there is room for.
    """
    packed, free = path.stat().st_size, free_memory() or MOST_UNPACKED
    if kind == "Parquet":
        found = pq.read_metadata(path)
        size = found.num_rows * found.num_columns  # a byte for each cell, at least
    elif kind == "Excel" or path.suffix.lower() == ".npz":
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist()) * (
                10 if kind == "Excel" else 1
            )
    elif path.suffix.lower() == ".gz":
        with gzip.open(path) as file:  # the sizes of its parts are nowhere declared
            size, free = 0, min(free, max(MOST_UNPACKED, MOST_PACKED * packed))
            while size <= free and (chunk := file.read(CHUNK)):
                size += len(chunk)
    else:
        return
    if size > free:
        limit = f"where {free / 1e9:,.1f} GB are allowed. Unpack it and look first."
        raise InputError(
            f"{path}: its {packed:,} bytes unpack to {size / 1e9:,.1f} GB or more, {limit}"
        )


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written."""

    encoding: str
    quotes: bool
    delimiter: str
    decimal: str
    names: tuple[str, ...]  # of columns


def open_csv(path: Path, encoding: str | None = None) -> IO[Any]:
    """The file as bytes, or as text in an encoding; a packed one is unpacked."""
    opened: Callable[..., IO[Any]] = gzip.open if path.suffix.lower() == ".gz" else open
    return (
        opened(path, "rb")
        if encoding is None
        else opened(path, "rt", encoding=encoding, newline="")
    )


def suffix_of(path: Path) -> str:
    """The last extension, or the one before .gz.

    >>> suffix_of(Path("a.CSV.gz")), suffix_of(Path("a.b.parquet"))
    ('.csv', '.parquet')
    """
    return Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()


def find_dialect(path: Path) -> Dialect:
    """How the file is written, by its first rows; files that are no table are refused."""
    with open_csv(path) as file:
        sample = file.read(SAMPLE).removeprefix(codecs.BOM_UTF8)
    for beginning, what in OTHER_FILES.items():
        if re.match(beginning, sample):
            raise InputError(f"{path}: is {what}")
    if len(sample) >= SAMPLE - len(codecs.BOM_UTF8):  # the last row is cut
        sample = sample[: sample.rfind(b"\n") + 1] or sample
    encoding, quotes = _scan(path)
    text = sample.decode(encoding, errors="ignore")
    known = ["\t"] if suffix_of(path) == ".tsv" else DELIMITERS
    delimiter = max(known, key=lambda delimiter: _regularity(_first_rows(text, delimiter)))
    rows = _first_rows(text, delimiter)
    return Dialect(
        encoding,
        quotes,
        delimiter,
        _find_decimal(rows) if delimiter != "," else ".",
        tuple(rows[0]),
    )


def _scan(path: Path) -> tuple[str, bool]:
    """The first encoding in which the whole file can be read, and whether quotes occur."""
    for encoding in ENCODINGS:
        with suppress(UnicodeDecodeError), open_csv(path, encoding) as file:
            return encoding, sum('"' in chunk for chunk in iter(lambda: file.read(CHUNK), "")) > 0
    raise AssertionError("Latin-1 decodes everything")


def _first_rows(text: str, delimiter: str) -> list[list[str]]:
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    return list(islice(filter(None, reader), 50))


def _regularity(rows: list[list[str]]) -> tuple[float, int]:
    """The share of rows with as many columns as the header, and their number: the largest has the
    right delimiter.
    """
    width = len(rows[0])
    return (sum(len(row) == width for row in rows) / len(rows) if width > 1 else 0.0), width


def _find_decimal(rows: list[list[str]]) -> str:
    """A comma where the first rows have numbers with decimal commas and none with points."""
    found = (re.fullmatch(r"\s*[+-]?\d+([.,])\d+\s*", cell) for row in rows for cell in row)
    return "," if {number[1] for number in found if number} == {","} else "."


def _parse(path: Path, dialect: Dialect, types: dict[str, Any]) -> Any:
    parse = pa_csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=dialect.quotes)
    convert = pa_csv.ConvertOptions(decimal_point=dialect.decimal, column_types=types)
    small, large = (
        pa_csv.ReadOptions(encoding=dialect.encoding, block_size=block)
        for block in (BLOCK, LARGE_BLOCK)
    )
    # Types of the first block save memory, where they hold for all rows.
    with suppress(pa.ArrowInvalid), pa_csv.open_csv(path, small, parse, convert) as reader:
        return reader.read_all()
    large.use_threads = False  # so that messages number the rows, the header being row 1
    try:
        return pa_csv.read_csv(path, large, parse, convert)
    except pa.ArrowInvalid as error:
        advice = "Quote cells that hold the delimiter, or repair the row."
        raise InputError(
            f"{path}: cannot be read as a table: {str(error).splitlines()[0][:200]}. {advice}"
        ) from error


def restore_column(column: Any) -> Any:
    """The text that `guard_column` was given."""
    return pc.replace_substring_regex(column, f"^'({DANGEROUS})", r"\1")


def _read_csv(path: Path, text_only: bool, identifiers: Collection[str | None]) -> DataFile:
    """The table, with column types inferred from all rows unless only text is asked for."""
    dialect = find_dialect(path)
    found = {
        f"is not UTF-8; read as {dialect.encoding}": dialect.encoding != "utf-8",
        f"columns are separated by {dialect.delimiter!r}": dialect.delimiter not in (",", "\t"),
        "numbers have decimal commas": dialect.decimal == ",",
    }
    remarks = tuple(f"{path}: {remark}" for remark, holds in found.items() if holds)
    as_text = {name for name in dialect.names if text_only or name.strip() in identifiers}
    table = _parse(path, dialect, dict.fromkeys(as_text, pa.string()))
    columns = [_typed(c) if text_only is False and n in as_text else c for n, c in _cells(table)]
    long = {name for name, column in _cells(table) if _may_lose_digits(column)}
    if long:
        texts = _parse(path, dialect, dict.fromkeys(long | as_text, pa.string()))
        for number, (name, text) in enumerate(_cells(texts)):
            if name in long and not floats_hold(_long_numbers(text)):
                columns[number] = text
    names = [
        name.strip() or "unnamed" for name in table.column_names
    ]  # pandas leaves row numbers without a name
    columns = [restore_column(c) if pa.types.is_string(c.type) else c for c in columns]
    return DataFile(str(path), pa.table(columns, names=names), remarks=remarks)


def _cells(table: Any) -> list[tuple[str, Any]]:
    """The columns with their names, which may occur more than once."""
    return list(zip(table.column_names, table.columns, strict=True))


def _may_lose_digits(column: Any) -> bool:
    """Whether a column of floats has numbers so large that some whole numbers there are no
    floats.
    """
    if not pa.types.is_floating(column.type):
        return False
    return bool(pc.any(pc.greater_equal(pc.abs(column), EXACT_FLOATS)).as_py())


def _long_numbers(column: Any) -> Iterator[str]:
    """The cells that are whole numbers of many digits."""
    long = column.filter(pc.match_substring_regex(column, LONG_NUMBER))
    for chunk in long.chunks:
        yield from chunk.to_pylist()


def _typed(column: Any) -> Any:
    """A column that names things, as integers where these are printed as they are written; else as
    text.
    """
    missing = pc.is_in(column, pa.array(MISSING_NUMBERS))
    known = column.filter(pc.invert(missing))
    if not pc.all(pc.match_substring_regex(known, NUMBER)).as_py():
        return column
    numbers = pc.if_else(missing, pa.scalar(None, pa.string()), column)
    are_plain = pc.all(pc.match_substring_regex(known, PLAIN_INTEGER)).as_py()
    return numbers.cast(pa.int64()) if are_plain else numbers


def _read_columnar(path: Path, kind: str) -> DataFile:
    table = pq.ParquetFile(path).read() if kind == "Parquet" else feather.read_table(path)
    table.validate(full=True)  # damaged offsets would crash the process later
    index = [name for name in table.column_names if name.startswith("__index_level_")]
    return DataFile(
        str(path), table.drop_columns(index), index=table.select(index) if index else None
    )


def _read_json(path: Path, identifiers: Collection[str | None]) -> DataFile:
    """One object after the other, usually one per line; or one array of objects."""
    with open_csv(path) as file:
        content = file.read()
    table, remarks = parse_json(content, f"{path}:", identifiers)
    return DataFile(str(path), table, remarks=tuple(f"{path}: {remark}" for remark in remarks))


def _read_excel(path: Path, identifiers: Collection[str | None]) -> Any:
    """The first sheet of a workbook, values in place of formulas; columns of mixed types become
    text.
    """
    try:
        from openpyxl import load_workbook  # type: ignore[import-untyped]
    except ImportError as error:
        raise InputError(
            f"{path}: Excel needs openpyxl: pip install 'nearworth[excel]'. Or save it as CSV."
        ) from error
    with closing(load_workbook(path, read_only=True, data_only=True)) as book:
        sheet = book.worksheets[0]
        sheet.reset_dimensions()  # a workbook may declare many more rows and columns than it has
        rows = [
            row
            for row in sheet.iter_rows(values_only=True)
            if any(cell is not None for cell in row)
        ]
    names, columns = [], []
    for name, *cells in zip_longest(*rows):
        names.append("unnamed" if name is None else str(name))
        try:
            columns.append(pa.array(cells))
        except (pa.ArrowException, OverflowError):  # mixed types, or integers beyond 64 bits
            if names[-1] in identifiers:
                _check_alike(path, names[-1], cells)
            columns.append(pa.array([None if cell is None else str(cell) for cell in cells]))
    return pa.table(columns, names=names)


def _check_alike(path: Path, name: str, cells: list[Any]) -> None:
    """Refuse an identifier that is both the number 7 and the text "7"."""
    written: dict[str, Any] = {}
    for cell in cells:
        other = written.setdefault(str(cell), cell)
        if type(other) is not type(cell):
            found = f"column {name!r} holds {str(cell)!r} both as text and as something else"
            raise InputError(f"{path}: {found}. Write names of one thing in one way.")


def _checked(data: DataFile) -> DataFile:
    """The data with names that are distinct, if there are rows."""
    path, table, count = data.path, data.table, Counter(data.table.column_names)
    repeated = [name for name, times in count.items() if times > 1]
    if table.num_rows == 0:
        raise InputError(f"{path}: has no rows.")
    if not repeated:
        return data
    names: dict[str, None] = {}  # in their order
    for name in table.column_names:
        new, number = name, 1
        while new in names or (number > 1 and new in count):
            new, number = f"{name}.{number}", number + 1
        names[new] = None
    remark = (
        f"{path}: the column name {listed(repeated)} occurs more than once; further ones are called"
        " NAME.1, NAME.2"
    )
    return replace(data, table=table.rename_columns([*names]), remarks=(*data.remarks, remark))


def _load_npz(path: Path) -> DataFile:
    """X and y, or else the only array of several dimensions and the only one with a number or text
    for each row.
    """
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        wanted = [name for name in names if name in ("X.npy", "y.npy") or "X.npy" not in names]
        arrays = {name.removesuffix(".npy"): parse_npy(archive.read(name)) for name in wanted}
    matrices = (
        ["X"] if "X" in arrays else [name for name, array in arrays.items() if array.ndim >= 2]
    )
    if len(matrices) != 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "no arrays"
        raise InputError(
            f"{path}: holds {shapes}; nearworth needs `X` (and `y`), or one matrix and one vector."
        )
    X = arrays.pop(matrices[0])
    labels = [name for name, array in arrays.items() if name == "y" or array.shape == X.shape[:1]]
    labels = ["y"] if "y" in labels else labels
    if len(labels) > 1:
        raise InputError(
            f"{path}: {listed(labels)} could all be the labels; call the one that is `y`."
        )
    y, y_name = (arrays[labels[0]], labels[0]) if labels else (None, "y")
    return DataFile(str(path), X=_as_matrix(path, X), y=y, y_name=y_name)


def _as_matrix(path: Path, X: Any) -> Any:
    if X.ndim < 2 or 0 in X.shape:
        raise InputError(
            f"{path}: X must have two dimensions, one row per point, and a point; its shape is"
            f" {X.shape}."
        )
    return X.reshape(len(X), -1)  # images become rows of pixels
