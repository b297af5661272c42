"""Digits that a 64-bit float cannot hold: they stay text in every format, and nothing that differs
is printed alike.
"""

from __future__ import annotations

import csv
import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import nearworth as nw
from nearworth.cli.decisions import row_keys
from nearworth.inputs.targets import check_owners
from nearworth.tables import InputError
from nearworth.tables.labels import TargetReader
from nearworth.tables.read import read

LONG = 10**20  # beyond 64 bits
EXACT = 2**53  # from here on, floats skip integers
N = 6


def write(path, columns):
    """A table with these columns in the format of the extension."""
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    if path.suffix in (".csv", ".tsv"):
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, columns, delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    elif path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    elif path.suffix == ".feather":
        feather.write_feather(pa.table(columns), path)
    else:
        openpyxl = pytest.importorskip("openpyxl")
        book = openpyxl.Workbook()
        book.active.append([*columns])
        for row in rows:  # as text: a workbook has 15 digits of a number
            long = {cell for cell in row.values() if isinstance(cell, int) and cell > EXACT}
            book.active.append([str(cell) if cell in long else cell for cell in row.values()])
        book.save(path)
    return path


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("first", [10**17, 2**63 - 3, 2**64, LONG, 10**400])
@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.json", "t.jsonl", "t.xlsx"])
def test_long_integers_keep_their_digits(tmp_path, name, first, missing):
    ids = [first + i for i in range(N)]
    if missing:
        ids[2] = None
    path = write(tmp_path / name, {"id": ids, "x": [i / 2 for i in range(N)]})
    for identifiers in ((), ("id",)):
        cells = read(path, identifiers=identifiers).table["id"].to_pylist()
        assert [str(cell or "") for cell in cells] == [str(cell or "") for cell in ids]


@pytest.mark.parametrize("name", ["t.parquet", "t.feather"])
@pytest.mark.parametrize(
    ("first", "kind"),
    [(10**17, pa.int64()), (2**63, pa.uint64()), (LONG, pa.decimal128(38, 0)), (LONG, pa.string())],
)
def test_columnar_integers_keep_their_digits(tmp_path, name, first, kind):
    ids = [None, *(first + i for i in range(1, N))]
    cells = [cell and (str(cell) if kind == pa.string() else Decimal(cell)) for cell in ids]
    column = pa.array(cells, kind if pa.types.is_decimal(kind) or kind == pa.string() else None)
    if pa.types.is_integer(kind):
        column = pa.array(ids, kind)
    path = write(tmp_path / name, {"id": column, "x": pa.array(range(N))})
    assert [cell and str(cell) for cell in read(path).table["id"].to_pylist()] == [
        cell and str(cell) for cell in ids
    ]


def test_numbers_stay_numbers_where_floats_hold_them(tmp_path):
    columns = {
        "a": [LONG, 1, 2],
        "b": ["1e300", "-2.5", ""],
        "c": ["0.12345678901234567890123", "1", "2"],
    }
    table = read(write(tmp_path / "t.csv", columns)).table
    assert table.to_pydict() == {
        "a": [1e20, 1.0, 2.0],
        "b": [1e300, -2.5, None],
        "c": [0.12345678901234568, 1.0, 2.0],
    }


def test_a_single_long_number_among_measurements_is_a_measurement():
    cells = [*map(str, np.arange(30.0)), "99999999999999999999"]
    preparer = nw.TablePreparer().fit(pa.table({"x": cells, "y": pa.array(range(31))}))
    assert preparer.describe()[0].startswith("x: number")
    preparer = nw.TablePreparer().fit(
        pa.table({"x": [str(LONG + i) for i in range(31)], "y": np.arange(31) % 5})
    )
    assert "as names and ids have" in preparer.describe()[0]


def test_cells_of_identifiers_are_as_they_are_written(tmp_path):
    columns = {
        "a": ["007", "7"],
        "b": ["1.10", "1.1"],
        "c": [12, "NA"],
        "d": ["1e3", ""],
        "e": [-5, 8],
    }
    path = write(tmp_path / "t.csv", columns)
    found = {
        "a": ["007", "7"],
        "b": ["1.10", "1.1"],
        "c": [12, None],
        "d": ["1e3", None],
        "e": [-5, 8],
    }
    assert read(path, identifiers=[*columns]).table.to_pydict() == found
    assert read(path).table["a"].to_pylist() == [7, 7]
    (tmp_path / "t.json").write_text('[{"a": 1.10}, {"a": 1.1}]')
    assert read(tmp_path / "t.json", identifiers=["a"]).table["a"].to_pylist() == ["1.10", "1.1"]


@pytest.mark.parametrize("name", ["t.json", "t.xlsx"])
def test_names_that_would_be_printed_alike_are_refused(tmp_path, name):
    path = write(tmp_path / name, {"owner": [7, "7", 8], "x": [1, 2, 3]})
    assert read(path).table["owner"].to_pylist() == ["7", "7", "8"]
    with pytest.raises(
        InputError,
        match=r"column 'owner' holds '?7'? both as .*Write names of one thing in one way",
    ):
        read(path, identifiers=["owner"])


@pytest.mark.parametrize(
    "labels",
    [
        pa.array([Decimal(LONG), Decimal(LONG + 1)] * N),
        pa.array([2**64 - 1, 2**64 - 2] * N, pa.uint64()),
        pa.array([float(LONG), float(LONG + 2**20)] * N),
        pa.array([EXACT, EXACT + 1] * N),
        pa.array([Decimal(EXACT), Decimal(EXACT + 1)] * N),
        pa.array([str(LONG), str(LONG + 1)] * N),
    ],
)
@pytest.mark.parametrize("task", [None, "classification"])
def test_classes_of_many_digits_are_not_one(labels, task):
    for cells in (labels, pa.concat_arrays([labels, pa.nulls(1, labels.type)])):
        target = TargetReader(task).read(pa.chunked_array([cells]), "t: the target 'label'")
        assert target.task == "classification"
        exact = [str(int(cell)) for cell in labels.to_pylist()]
        assert [str(label) for label in target.y.tolist()] == exact


def test_long_numbers_are_targets_of_regression():
    targets = TargetReader("regression").read(
        pa.chunked_array([[str(LONG * i + 1) for i in range(N)]]), "t"
    )
    assert targets.y.tolist() == [float(LONG * i + 1) for i in range(N)]


def test_owners_in_lists_are_not_merged():
    assert check_owners([EXACT, EXACT + 1, 0.5], 3)[0] == [EXACT, EXACT + 1, 0.5]
    assert check_owners([2**63, 2**63 + 1, 1], 3)[0] == [2**63, 2**63 + 1, 1]


@pytest.mark.parametrize("first", [EXACT, LONG])
def test_rows_that_differ_in_the_last_digit_have_keys_of_their_own(tmp_path, first):
    columns = {"id": [first, first + 1], "label": ["a", "b"]}
    keys = [
        row_keys(read(write(tmp_path / name, columns)), "label", [0, 1])
        for name in ("t.csv", "t.jsonl")
    ]
    assert keys[0][0] != keys[0][1]
    assert keys[0] == keys[1]


def test_frames_with_integers_beyond_64_bits_or_of_several_types():
    frame = pd.DataFrame(
        {"x": np.r_[0:10, 50:60], "id": [LONG + i for i in range(20)], "mixed": [1, "a"] * 10}
    )
    preparer = nw.TablePreparer().fit(frame)
    assert [line.partition(":")[0] for line in preparer.describe()] == ["x", "id", "mixed"]
    assert "as names and ids have" in preparer.describe()[1]
    assert preparer.describe()[2].startswith("mixed: 2 categories")


@pytest.mark.parametrize("kind", ["pandas", "pyarrow", "list"])
def test_ids_of_a_page_keep_their_digits_beside_missing_ones(tmp_path, kind):
    ids = [None, *(10**17 + i for i in range(1, 20))]
    forms = {
        "pandas": lambda: pd.Series(ids, dtype="Int64"),
        "pyarrow": lambda: pa.chunked_array([ids]),
        "list": lambda: ids,
    }
    y = np.repeat([0, 1], 10)
    y[3] = 1
    audit = nw.audit_labels(np.r_[0.0:10, 50:60][:, None], y)
    audit.report(tmp_path / "t.html", ids=forms[kind](), fraction=1.0)
    page = (tmp_path / "t.html").read_text()
    assert all(f'"{name}"' in page for name in ids[1:])
