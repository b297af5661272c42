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
from itertools import chain, islice, zip_longest
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
# These may end in .gz.
PACKED = tuple(suffix for suffix, kind in FORMATS.items() if kind in ("CSV", "JSON"))
# Any file may unpack to so many bytes, and a larger one to so many times its size.
MAX_UNPACKED_BYTES = 10**9
MAX_PACKING_RATIO = 200
# Cells of a workbook take about so many times the memory of their text.
EXCEL_MEMORY_RATIO = 10
# The beginning of a CSV file, by which its dialect is found.
SAMPLE_BYTES = 256 * 1024
SAMPLE_ROWS = 50
CHUNK_BYTES = 4 * 1024 * 1024
# A row must fit in one block.
BLOCK_BYTES = 1024 * 1024
LARGE_BLOCK_BYTES = 32 * 1024 * 1024
DELIMITERS = (",", ";", "\t", "|")
# The last one can decode everything.
ENCODINGS = ("utf-8", "cp1252", "latin-1")
# How other files begin, after a byte-order mark.
OTHER_FILES = {
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
# All whole numbers up to here are 64-bit floats.
EXACT_FLOATS = 2.0**53
LONG_NUMBER = r"^\s*[+-]?\d{16,}\s*$"
NUMBER = r"^\s*[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?\s*$"
# Such an integer fits 64 bits, and is printed as it is written.
PLAIN_INTEGER = r"^(0|-?[1-9]\d{0,17})$"
# Arrow takes these texts for missing in columns of numbers.
MISSING_NUMBERS = pa_csv.ConvertOptions().null_values
# Cells that begin so may be formulas. Python's re and Arrow's RE2 both read the pattern. The last
# four characters are full-width forms of = + - @.
DANGEROUS = "'*[=+\\-@\t\r\n\x00\uff1d\uff0b\uff0d\uff20]"


@dataclass(frozen=True)
class DataFile:
    """The contents of a file: a table, or arrays.

    Attributes
    ----------
    path : str
    table : pyarrow.Table, optional
    X, y : arrays, optional
        Features and labels, where the file holds arrays.
    remarks : tuple of str
        What people should know of how the file was read.
    index : pyarrow.Table, optional
        Columns in which pandas keeps the names of rows.
    y_name : str
        The name of the array of labels.
    """

    path: str
    table: Any = None
    X: Any = None
    y: Any = None
    _: KW_ONLY
    remarks: tuple[str, ...] = ()
    index: Any = None
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
    """Read a table or arrays, by extension.

    With `text_only` the cells of CSV stay texts. Columns named in `identifiers` name things: their
    cells are as they are written, so that 007 is not 7.
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
    """The checked path and its format.

    Errors of the operating system and of the file's format become InputErrors.
    """
    file = Path(path)
    suffix = suffix_of(file) if suffix_of(file) in PACKED else file.suffix.lower()
    if not file.is_file():
        problem = "is a directory or a device" if file.exists() else "there is no such file"
        raise InputError(f"{file}: {problem}.")
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
        raise InputError(
            f"{file}: is a packed {kind} file that is cut short or damaged ({error}). Copy or"
            " download it again."
        ) from error
    # Damage to a file can surface as almost anything, a size beyond memory included.
    except Exception as error:
        message = getattr(error, "strerror", None) or str(error) or repr(error)
        problem = message.splitlines()[0]
        if problem.startswith(f"{file}: "):
            raise InputError(problem) from error
        raise InputError(f"{file}: is not a {kind} file that can be read: {problem}") from error


def _check_unpacked(path: Path, kind: str) -> None:
    """Refuse files that unpack to more than is plausible, or than there is memory for."""
    n_packed = path.stat().st_size
    limit = free_memory() or MAX_UNPACKED_BYTES
    if kind == "Parquet":
        metadata = pq.read_metadata(path)
        # Each cell takes a byte at least.
        size = metadata.num_rows * metadata.num_columns
    elif kind == "Excel" or path.suffix.lower() == ".npz":
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if kind == "Excel":
            size *= EXCEL_MEMORY_RATIO
    elif path.suffix.lower() == ".gz":
        # The size is nowhere declared: the file is unpacked, up to the limit.
        limit = min(limit, max(MAX_UNPACKED_BYTES, MAX_PACKING_RATIO * n_packed))
        size = _unpacked_size(path, limit)
    else:
        return
    if size > limit:
        raise InputError(
            f"{path}: its {n_packed:,} bytes unpack to {size / 1e9:,.1f} GB or more, where"
            f" {limit / 1e9:,.1f} GB are allowed. Unpack it and look first."
        )


def _unpacked_size(path: Path, limit: int) -> int:
    """The unpacked size of a .gz file, or some size beyond the limit."""
    size = 0
    with gzip.open(path) as file:
        while size <= limit and (chunk := file.read(CHUNK_BYTES)):
            size += len(chunk)
    return size


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written, and the names of its columns."""

    encoding: str
    quotes: bool
    delimiter: str
    decimal: str
    names: tuple[str, ...]


def open_csv(path: Path, encoding: str | None = None) -> IO[Any]:
    """The file as bytes, or as text in an encoding. A packed one is unpacked."""
    open_file: Callable[..., IO[Any]] = gzip.open if path.suffix.lower() == ".gz" else open
    if encoding is None:
        return open_file(path, "rb")
    return open_file(path, "rt", encoding=encoding, newline="")


def suffix_of(path: Path) -> str:
    """The last extension, or the one before .gz.

    >>> suffix_of(Path("a.CSV.gz")), suffix_of(Path("a.b.parquet"))
    ('.csv', '.parquet')
    """
    return Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()


def find_dialect(path: Path) -> Dialect:
    """How the file is written, by its first rows. Files that are no table are refused."""
    with open_csv(path) as file:
        sample = file.read(SAMPLE_BYTES).removeprefix(codecs.BOM_UTF8)
    for beginning, description in OTHER_FILES.items():
        if re.match(beginning, sample):
            raise InputError(f"{path}: is {description}")
    # The last row is cut if the file goes on.
    if len(sample) >= SAMPLE_BYTES - len(codecs.BOM_UTF8):
        sample = sample[: sample.rfind(b"\n") + 1] or sample
    scan = _TextScan.of(path)
    text = sample.decode(scan.encoding, errors="ignore")
    delimiters = ["\t"] if suffix_of(path) == ".tsv" else DELIMITERS
    delimiter = max(delimiters, key=lambda delimiter: _regularity(_first_rows(text, delimiter)))
    rows = _first_rows(text, delimiter)
    return Dialect(
        encoding=scan.encoding,
        quotes=scan.has_quotes,
        delimiter=delimiter,
        decimal="." if delimiter == "," else _find_decimal(rows),
        names=tuple(rows[0]),
    )


@dataclass(frozen=True)
class _TextScan:
    """The first encoding in which a whole file can be read, and whether quotes occur in it."""

    encoding: str
    has_quotes: bool

    @classmethod
    def of(cls, path: Path) -> _TextScan:
        for encoding in ENCODINGS:
            has_quotes = False
            with suppress(UnicodeDecodeError), open_csv(path, encoding) as file:
                # The whole file is read, quotes or not: an error may come late.
                while chunk := file.read(CHUNK_BYTES):
                    has_quotes |= '"' in chunk
                return cls(encoding, has_quotes)
        raise AssertionError("Latin-1 decodes everything")


def _first_rows(text: str, delimiter: str) -> list[list[str]]:
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    return list(islice(filter(None, reader), SAMPLE_ROWS))


def _regularity(rows: list[list[str]]) -> tuple[float, int]:
    """The share of rows with as many columns as the header, and the number of its columns.

    The delimiter for which this is largest is the right one.
    """
    width = len(rows[0])
    if width == 1:
        return 0.0, width
    return sum(len(row) == width for row in rows) / len(rows), width


def _find_decimal(rows: list[list[str]]) -> str:
    """A comma where the first rows have numbers with decimal commas and none with points."""
    cells = chain.from_iterable(rows)
    numbers = [re.fullmatch(r"\s*[+-]?\d+([.,])\d+\s*", cell) for cell in cells]
    separators = {number[1] for number in numbers if number}
    return "," if separators == {","} else "."


def _parse(path: Path, dialect: Dialect, types: dict[str, Any]) -> Any:
    """The table, with these types of columns, and others as they seem."""
    parse = pa_csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=dialect.quotes)
    convert = pa_csv.ConvertOptions(decimal_point=dialect.decimal, column_types=types)
    # Types of the first block save memory, where they hold for all rows.
    small = pa_csv.ReadOptions(encoding=dialect.encoding, block_size=BLOCK_BYTES)
    with suppress(pa.ArrowInvalid), pa_csv.open_csv(path, small, parse, convert) as reader:
        return reader.read_all()
    # Without threads messages number the rows, the header being row 1.
    large = pa_csv.ReadOptions(
        encoding=dialect.encoding, block_size=LARGE_BLOCK_BYTES, use_threads=False
    )
    try:
        return pa_csv.read_csv(path, large, parse, convert)
    except pa.ArrowInvalid as error:
        problem = str(error).splitlines()[0][:200]
        raise InputError(
            f"{path}: cannot be read as a table: {problem}. Quote cells that hold the delimiter, or"
            " repair the row."
        ) from error


def restore_column(column: Any) -> Any:
    """The text that `guard_column` was given."""
    return pc.replace_substring_regex(column, f"^'({DANGEROUS})", r"\1")


def _read_csv(path: Path, text_only: bool, identifiers: Collection[str | None]) -> DataFile:
    """The table, with column types inferred from all rows unless only text is asked for."""
    dialect = find_dialect(path)
    as_text = {name for name in dialect.names if text_only or name.strip() in identifiers}
    table = _parse(path, dialect, dict.fromkeys(as_text, pa.string()))
    columns = list(table.columns)
    if not text_only:
        for number, (name, column) in enumerate(_cells(table)):
            if name in as_text:
                columns[number] = _typed(column)

    # Floats that would lose digits are read again, as text.
    large = {name for name, column in _cells(table) if _may_lose_digits(column)}
    if large:
        texts = _parse(path, dialect, dict.fromkeys(large | as_text, pa.string()))
        for number, (name, text) in enumerate(_cells(texts)):
            if name in large and not floats_hold(_long_numbers(text)):
                columns[number] = text

    # pandas leaves the column of row numbers without a name.
    names = [name.strip() or "unnamed" for name in table.column_names]
    columns = [restore_column(c) if pa.types.is_string(c.type) else c for c in columns]
    return DataFile(str(path), pa.table(columns, names=names), remarks=_remarks(path, dialect))


def _remarks(path: Path, dialect: Dialect) -> tuple[str, ...]:
    """What people should know of a dialect that is not the usual one."""
    remarks: list[str] = []
    if dialect.encoding != "utf-8":
        remarks.append(f"{path}: is not UTF-8; read as {dialect.encoding}")
    if dialect.delimiter not in (",", "\t"):
        remarks.append(f"{path}: columns are separated by {dialect.delimiter!r}")
    if dialect.decimal == ",":
        remarks.append(f"{path}: numbers have decimal commas")
    return tuple(remarks)


def _cells(table: Any) -> list[tuple[str, Any]]:
    """The columns with their names, which may occur more than once."""
    return list(zip(table.column_names, table.columns, strict=True))


def _may_lose_digits(column: Any) -> bool:
    """Whether a column has floats so large that not all whole numbers there are floats."""
    if not pa.types.is_floating(column.type):
        return False
    return bool(pc.any(pc.greater_equal(pc.abs(column), EXACT_FLOATS)).as_py())


def _long_numbers(column: Any) -> Iterator[str]:
    """The cells that are whole numbers of many digits."""
    long = column.filter(pc.match_substring_regex(column, LONG_NUMBER))
    for chunk in long.chunks:
        yield from chunk.to_pylist()


def _typed(column: Any) -> Any:
    """A column that names things: integers if these are printed as they are written, else text."""
    missing = pc.is_in(column, pa.array(MISSING_NUMBERS))
    known = column.filter(pc.invert(missing))
    if not pc.all(pc.match_substring_regex(known, NUMBER)).as_py():
        return column
    numbers = pc.if_else(missing, pa.scalar(None, pa.string()), column)
    are_plain = pc.all(pc.match_substring_regex(known, PLAIN_INTEGER)).as_py()
    return numbers.cast(pa.int64()) if are_plain else numbers


def _read_columnar(path: Path, kind: str) -> DataFile:
    table = pq.ParquetFile(path).read() if kind == "Parquet" else feather.read_table(path)
    # Damaged offsets would crash the process later.
    table.validate(full=True)
    names = [name for name in table.column_names if name.startswith("__index_level_")]
    index = table.select(names) if names else None
    return DataFile(str(path), table.drop_columns(names), index=index)


def _read_json(path: Path, identifiers: Collection[str | None]) -> DataFile:
    """One object after the other, usually one per line; or one array of objects."""
    with open_csv(path) as file:
        content = file.read()
    table, remarks = parse_json(content, f"{path}:", identifiers)
    return DataFile(str(path), table, remarks=tuple(f"{path}: {remark}" for remark in remarks))


def _read_excel(path: Path, identifiers: Collection[str | None]) -> Any:
    """The first sheet of a workbook, with values in place of formulas.

    Columns of mixed types become text.
    """
    try:
        from openpyxl import load_workbook  # type: ignore[import-untyped]
    except ImportError as error:
        raise InputError(
            f"{path}: Excel needs openpyxl: pip install 'nearworth[excel]'. Or save it as CSV."
        ) from error
    with closing(load_workbook(path, read_only=True, data_only=True)) as book:
        sheet = book.worksheets[0]
        # A workbook may declare many more rows and columns than it has.
        sheet.reset_dimensions()
        rows = [row for row in sheet.iter_rows(values_only=True) if row.count(None) < len(row)]
    names: list[str] = []
    columns: list[Any] = []
    for header, *cells in zip_longest(*rows):
        name = "unnamed" if header is None else str(header)
        names.append(name)
        try:
            columns.append(pa.array(cells))
        # Mixed types, or integers beyond 64 bits.
        except (pa.ArrowException, OverflowError):
            if name in identifiers:
                _check_alike(path, name, cells)
            columns.append(pa.array([None if cell is None else str(cell) for cell in cells]))
    return pa.table(columns, names=names)


def _check_alike(path: Path, name: str, cells: list[Any]) -> None:
    """Refuse an identifier that is both the number 7 and the text "7"."""
    written: dict[str, Any] = {}
    for cell in cells:
        first = written.setdefault(str(cell), cell)
        if type(first) is not type(cell):
            raise InputError(
                f"{path}: column {name!r} holds {str(cell)!r} both as text and as something else."
                " Write names of one thing in one way."
            )


def _checked(data: DataFile) -> DataFile:
    """The data with names that are distinct, if there are rows."""
    if data.table.num_rows == 0:
        raise InputError(f"{data.path}: has no rows.")
    counts = Counter(data.table.column_names)
    repeated = [name for name, count in counts.items() if count > 1]
    if not repeated:
        return data
    # A dictionary, for there may be very many names.
    names: dict[str, None] = {}
    for name in data.table.column_names:
        distinct = name
        number = 0
        # A new name must not be that of another column either.
        while distinct in names or (number > 0 and distinct in counts):
            number += 1
            distinct = f"{name}.{number}"
        names[distinct] = None
    remark = (
        f"{data.path}: the column name {listed(repeated)} occurs more than once; further ones are"
        " called NAME.1, NAME.2"
    )
    return replace(data, table=data.table.rename_columns([*names]), remarks=(*data.remarks, remark))


def _load_npz(path: Path) -> DataFile:
    """X and y of an archive.

    Without these names, X is the only array of several dimensions, and y the only one with an entry
    for each row.
    """
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if "X.npy" in names:
            names = [name for name in names if name in ("X.npy", "y.npy")]
        arrays = {name.removesuffix(".npy"): parse_npy(archive.read(name)) for name in names}
    matrices = [name for name, array in arrays.items() if array.ndim >= 2]
    if "X" in arrays:
        matrices = ["X"]
    if len(matrices) != 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise InputError(
            f"{path}: holds {shapes or 'no arrays'}; nearworth needs `X` (and `y`), or one matrix"
            " and one vector."
        )
    X = arrays.pop(matrices[0])
    vectors = [name for name, array in arrays.items() if array.shape == X.shape[:1]]
    if "y" in arrays:
        vectors = ["y"]
    if len(vectors) > 1:
        raise InputError(
            f"{path}: {listed(vectors)} could all be the labels; call the one that is `y`."
        )
    X = _as_matrix(path, X)
    if not vectors:
        return DataFile(str(path), X=X)
    return DataFile(str(path), X=X, y=arrays[vectors[0]], y_name=vectors[0])


def _as_matrix(path: Path, X: Any) -> Any:
    if X.ndim < 2 or 0 in X.shape:
        raise InputError(
            f"{path}: X must have two dimensions, one row per point, and a point; its shape is"
            f" {X.shape}."
        )
    # Images become rows of pixels.
    return X.reshape(len(X), -1)
