"""Hostile files: each is read right, or refused by one line that names it; none takes the process
down.

    python tests/fuzz_tables.py --seed 0 --cases 400

Every case writes a table of known cells in one format. An intact file must be read with all of
these cells, as their columns require. A damaged one (cut, flipped bits, other bytes put in, pieces
left out or repeated; types that vary or are rare) must be read or refused, and what was read can be
prepared or is refused. Cases run in a child process under a limit of memory. If it dies or hangs,
its case has failed, and another child goes on with the next. A failing case can be repeated:
--first N --cases 1. With --only t.feather, all cases are in one format.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import gzip
import io
import json
import random
import subprocess
import sys
import tempfile
import warnings
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

import nearworth as nw
from nearworth.inputs.sources import open_pair
from nearworth.tables import InputError
from nearworth.tables.read import read

SECONDS = 60  # for one case, by far more than any needs
MEMORY = 6 * 2**30
DAMAGED = 0.75  # share of the cases
ID = "id"
LABEL = "label"
FORMULA = "=1+2"
WORDS = [
    "cat",
    "dog",
    "Köln",
    "猫",
    "say hi",
    "a\nb",
    "x, y; z",
    "007",
    "1.10",
    "null",
    "NaN",
    FORMULA,
    '"',
    "{",
    "[1]",
]
HOSTILE = [
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xc3",
    b"\xed\xa0\x80",
    b'"',
    b"\\",
    b"\n",
    b"\r",
    b",",
    b";",
    b"\t",
    b"{",
    b"}",
    b"[",
    b"]",
    b"[" * 2_000,
    b'{"a":' * 2_000,
    b"[" * 200_000,
    b"9" * 25,
    b"9" * 400,
    b"-" + b"9" * 25,
    b"1e999",
    b"-0",
    b"1" * 5_000,
    b"null",
    b"\nnull\n",
    b"NaN",
    b"-Infinity",
    b"true",
    b"{}",
    b'"x"',
    b"7",
    b'"\\ud800"',
    b"1.5",
    b"x" * 100_000,
    b"\x1f\x8b",
    b"PK\x03\x04",
    b"ARROW1",
    b"PAR1",
    b"\x7f\xff\xff\xff",
    b"\xff" * 8,
]

ODD_VALUES = [
    None,
    7,
    -0.0,
    1.5,
    10**30,
    1e300,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\ud800",
    "\0",
    True,
    [],
    [1],
    [1, None],
    [1, 2.5],
    ["x"],
    [1, "x"],
    [10**30],
    [[1], [2]],
    [[[[[[[[1]]]]]]]],
    [{"a": 1}],
    {},
    {"a": 1},
    {"a": {"b": [1]}},
    {"": None},
]
ODD_TYPES = {
    "bytes": (pa.binary(), [b"", b"\xff", b"\0x"]),
    "half": (pa.float16(), [0.0, 1.5, float("nan"), float("inf")]),
    "decimal": (pa.decimal128(38, 2), [Decimal(10**30), Decimal("-1.25")]),
    "wide": (pa.decimal256(76, 0), [Decimal(10**70), Decimal(10**70 + 1)]),
    "unsigned": (pa.uint64(), [0, 2**64 - 1, 2**64 - 2]),
    "moment": (pa.timestamp("ns", "UTC"), [0, 2**63 - 1, -(2**63)]),
    "day": (pa.date64(), [0, 86_400_000 * 10**6]),
    "time": (pa.time64("ns"), [0, 86_399 * 10**9]),
    "length": (pa.duration("us"), [0, 2**62]),
    "vector": (pa.list_(pa.float32(), 2), [[1.0, 2.0], [float("nan"), 1.0]]),
    "list": (pa.large_list(pa.int64()), [[], [1], [1, None], [2**62, 1]]),
    "lists": (pa.list_(pa.list_(pa.int8())), [[], [[1], []], [None]]),
    "words": (pa.list_(pa.string()), [[], ["x"], [None]]),
    "struct": (pa.struct({"a": pa.int64()}), [{"a": 1}, {"a": None}]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1)], []]),
    "large": (pa.large_string(), ["", "x", "\0", "7"]),
    "truth": (pa.bool_(), [True, False]),
    "nothing": (pa.null(), [None]),
    "huge": (pa.float64(), [1.7e308, -1.7e308, 5e-324, float("inf"), 0.0]),
    "long": (pa.int64(), [2**63 - 1, -(2**63), 0]),
}


def make_columns(rng):
    """Columns of one table by name, with what an intact file must give for them."""
    n_rows = rng.choice([1, 2, 3, 10, 40])
    digits = rng.choice([3, 15, 16, 17, 18, 19, 20, 21, 30, 400])
    first = 10 ** (digits - 1) + rng.randrange(10 ** (digits - 1))
    columns = {
        ID: [first + i for i in range(n_rows)],
        "number": [
            rng.choice([rng.gauss(0, 1), rng.gauss(0, 1) * 10.0 ** rng.randint(-30, 30)])
            for _ in range(n_rows)
        ],
        "count": [rng.randint(-100, 100) for _ in range(n_rows)],
        "text": [
            "cat",
            *(rng.choice(WORDS) for _ in range(n_rows - 1)),
        ],  # one word makes it a column of text
        LABEL: [f"class {i % 2}" for i in range(n_rows)],
    }
    if rng.random() < 0.5:  # missing cells beside long integers
        for name in (ID, "number", "count"):
            columns[name] = [None if rng.random() < 0.3 else cell for cell in columns[name]]
    return columns


def as_csv(columns, rng, delimiter=","):
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    mark = "\ufeff" if rng.random() < 0.2 else ""
    return (mark + file.getvalue()).encode()


def records_of(columns, rng):
    """Objects with their keys in any order; keys of missing cells may be left out."""
    for cells in zip(*columns.values(), strict=True):
        pairs = [
            (k, c)
            for k, c in zip(columns, cells, strict=True)
            if c is not None or rng.random() < 0.5
        ]
        rng.shuffle(pairs)
        yield dict(pairs)


def as_json(columns, rng):
    return json.dumps(list(records_of(columns, rng)), indent=rng.choice([None, 1])).encode()


def as_json_lines(columns, rng):
    return "\n".join(json.dumps(record) for record in records_of(columns, rng)).encode()


def vary(records, rng):
    """Objects whose types vary, or something else in the place of an object."""
    for record in records:
        if rng.random() < 0.05:
            yield rng.choice(ODD_VALUES)
        yield {
            name: rng.choice(ODD_VALUES) if rng.random() < 0.1 else cell
            for name, cell in record.items()
        }


def as_odd_json(columns, rng):
    """JSON of which each line or item is valid, but not what a table has."""
    lines = [json.dumps(record) for record in vary(records_of(columns, rng), rng)]
    rng.shuffle(lines)
    return (f"[{','.join(lines)}]" if rng.random() < 0.3 else "\n".join(lines)).encode()


def as_odd_parquet(columns, rng):
    """A valid file with columns of types that are rare in tables, some cells missing."""
    table = as_arrow(columns, rng)
    for name, (kind, cells) in ODD_TYPES.items():
        found = [None if rng.random() < 0.2 else rng.choice(cells) for _ in range(len(table))]
        table = table.append_column(name, pa.array(found, kind))
    file = io.BytesIO()
    pq.write_table(table.select(rng.sample(table.column_names, rng.randint(1, 6))), file)
    return file.getvalue()


def as_arrow(columns, rng):
    """The columns in types of Arrow: the narrowest that holds the integers, at times a
    dictionary.
    """
    found = {}
    for name, cells in columns.items():
        known = [abs(cell) for cell in cells if isinstance(cell, int)]
        if name == ID and known and max(known) >= 2**63:
            kind = pa.uint64() if max(known) < 2**64 else pa.string()
            if kind == pa.string():
                cells = [None if cell is None else str(cell) for cell in cells]
            found[name] = pa.array(cells, kind)
        else:
            found[name] = pa.array(cells)
        if rng.random() < 0.2 and found[name].type != pa.null():
            found[name] = found[name].dictionary_encode()
    return pa.table(found)


def as_parquet(columns, rng):
    file = io.BytesIO()
    compression = rng.choice(["snappy", "none", "gzip", "zstd"])
    pq.write_table(
        as_arrow(columns, rng),
        file,
        compression=compression,
        data_page_version=rng.choice(["1.0", "2.0"]),
    )
    return file.getvalue()


def as_feather(columns, rng):
    file = io.BytesIO()
    feather.write_feather(
        as_arrow(columns, rng), file, compression=rng.choice(["uncompressed", "zstd", "lz4"])
    )
    return file.getvalue()


def as_excel(columns, rng):
    import openpyxl

    book = openpyxl.Workbook()
    book.active.append([*columns])
    for cells in zip(
        *columns.values(), strict=True
    ):  # texts: a workbook itself rounds numbers to 15 digits
        texts = [
            str(cell) if isinstance(cell, int) and abs(cell) >= 2**53 else cell for cell in cells
        ]
        book.active.append([f"text {cell}" if cell == FORMULA else cell for cell in texts])
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def packed(write):
    return lambda columns, rng: gzip.compress(write(columns, rng), mtime=0)


def as_tsv(columns, rng):
    return as_csv(columns, rng, "\t")


FORMATS = {
    "t.csv": as_csv,
    "t.tsv": as_tsv,
    "t.json": as_json,
    "t.jsonl": as_json_lines,
    "t.parquet": as_parquet,
    "t.feather": as_feather,
    "t.csv.gz": packed(as_csv),
    "t.jsonl.gz": packed(as_json_lines),
}
ODD = {
    "t.json": as_odd_json,
    "t.jsonl": as_odd_json,
    "t.jsonl.gz": packed(as_odd_json),
    "t.parquet": as_odd_parquet,
}
with contextlib.suppress(ImportError):
    import openpyxl  # noqa: F401

    FORMATS["t.xlsx"] = as_excel


def damage(content, rng):
    """The bytes of a file after one to three accidents."""
    found = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        where = rng.randint(0, len(found))
        length = rng.choice([1, 2, 8, 50, 1_000])
        accident = rng.randrange(6)
        if accident == 0:
            del found[where:]
        elif accident == 1 and found:
            for _ in range(rng.choice([1, 3, 20])):
                found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
        elif accident == 2:
            found[where:where] = rng.choice(HOSTILE)
        elif accident == 3:
            piece = rng.choice(HOSTILE)
            found[where : where + len(piece)] = piece
        elif accident == 4:
            del found[where : where + length]
        else:
            found[where:where] = found[where : where + length]
    return bytes(found)


def spelled(cell):
    """A cell as text with all of its digits."""
    if cell is None or cell == "" or cell != cell:
        return ""
    return repr(float(cell)) if isinstance(cell, float) else str(cell)


def expect(columns, found, is_book=False):
    """What differs between the cells that were written and those that were read; empty if nothing
    does.
    """
    for name, cells in columns.items():
        if is_book and name in (
            "number",
            "text",
        ):  # of 16 digits, and with another text for a formula
            continue
        if name not in found.column_names:
            if all(cell is None for cell in cells):  # no object has the key
                continue
            return f"column {name!r} is lost"
        kind = type(next((cell for cell in cells if cell is not None), None))
        read_cells = found[name].to_pylist()
        if kind is float:
            read_cells = [None if cell in (None, "") else float(cell) for cell in read_cells]
        if [*map(spelled, cells)] != [*map(spelled, read_cells)]:
            return f"column {name!r} was {cells[:3]} and is {read_cells[:3]}"
    return ""


def run_case(folder, seed, number, only=None):
    """What is wrong with one case; empty if nothing is."""
    rng = random.Random(f"{seed} {number}")
    name = only or rng.choice([*FORMATS])
    columns = make_columns(rng)
    is_damaged = rng.random() < DAMAGED
    if is_damaged and name in ODD and rng.random() < 0.5:
        content = ODD[name](columns, rng)
    elif not is_damaged:
        content = FORMATS[name](columns, rng)
    else:
        content = FORMATS[name](columns, rng)
        content = damage(content, rng)
    path = folder / name
    path.write_bytes(content)
    identifiers = rng.choice([(), (ID,)])
    if name in ("t.parquet", "t.feather"):
        open_in_batches(path)
    try:
        table = read(path, identifiers=identifiers).table
    except InputError as error:
        message = str(error)
        if not is_damaged:
            return f"{name} is refused: {message}"
        if not message.startswith(f"{path}: ") or "\n" in message:
            return f"{name}: the message names no file, or has several lines: {message!r}"
        return ""
    wrong = "" if is_damaged else expect(columns, table, is_book=name == "t.xlsx")
    return f"{name}: {wrong}" if wrong else use(table)


def open_in_batches(path):
    """The way of audits and values, which read files in batches; most of these tables are
    refused.
    """
    with contextlib.suppress(ValueError, TypeError):
        open_pair(path, LABEL, ("X", "y"), None)


def use(table):
    """Prepare what was read: the cells of a damaged file are as hostile as its bytes."""
    table.validate(full=True)
    with warnings.catch_warnings(), contextlib.suppress(InputError):
        warnings.simplefilter("ignore")
        nw.TablePreparer().fit(table).transform(table)
    return ""


def run_cases(seed, first, n_cases, only=None):
    """Cases one after the other; each says that it begins, so that the parent knows which one was
    the end.
    """
    with contextlib.suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, first + n_cases):
            print(f"begin {number}", flush=True)
            try:
                wrong = run_case(Path(folder), seed, number, only)
            except BaseException as error:  # not the error that a file may end in
                wrong = f"{type(error).__name__}: {error}"
            if wrong:
                print(f"wrong {number} {' '.join(wrong.split())[:500]}", flush=True)
    print("end", flush=True)


def failures(seed, first, n_cases, only=None):
    """Which cases fail, and how; run by as many children as die."""
    found = {}
    end = first + n_cases
    while first < end:
        command = [sys.executable, __file__, "--child", "--seed", str(seed), "--first", str(first)]
        command += [] if only is None else ["--only", only]
        child = subprocess.Popen(
            [*command, "--cases", str(end - first)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            out, err = child.communicate(timeout=SECONDS + 0.5 * (end - first))
            why = (
                f"the process ended with code {child.returncode}:"
                f" {err.decode(errors='replace')[-300:]}"
            )
        except subprocess.TimeoutExpired:
            child.kill()
            out, _ = child.communicate()
            why = "the process did not end"
        lines = out.decode(errors="replace").splitlines()
        for line in lines:
            if line.startswith("wrong "):
                _, number, wrong = line.split(" ", 2)
                found[int(number)] = wrong
        if "end" in lines:
            return found
        begun = [int(line.split()[1]) for line in lines if line.startswith("begin ")]
        if not begun:
            raise RuntimeError(why)
        found[begun[-1]] = why
        first = begun[-1] + 1
    return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", type=int, default=400)
    parser.add_argument("--only", choices=[*FORMATS])
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        run_cases(given.seed, given.first, given.cases, given.only)
        return
    found = failures(given.seed, given.first, given.cases, given.only)
    for number, wrong in sorted(found.items()):
        print(f"case {number} of seed {given.seed}: {wrong}", file=sys.stderr)
    print(f"{given.cases} hostile files, {len(found)} failures")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
