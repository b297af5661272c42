"""The text of cells: found as the csv module finds it, inert in spreadsheets, restored when it is
read.
"""

from __future__ import annotations

import csv
import io

import pyarrow as pa
import pytest

from nearworth.tables.read import Dialect, restore_column
from nearworth.tables.write import guard, replace_cells

HOSTILE = ["=1+2", "+A1", "-A1", "@x", "\tx", "\rx", "\nx", "\x00x", "'=1", "''=1", "\uff1d1"]
HARMLESS = ["'", "-1.5", "+3", "-1,5", "-5%", "-inf", "-", "plain", "", "it's"]


def restore(cell):
    return restore_column(pa.chunked_array([[cell]])).to_pylist()[0]


@pytest.mark.parametrize("cell", HOSTILE)
def test_formulas_become_inert_and_come_back(cell):
    assert guard(cell) == f"'{cell}"
    assert restore(guard(cell)) == cell


@pytest.mark.parametrize("cell", HARMLESS)
def test_harmless_cells_stay(cell):
    assert restore(guard(cell)) == guard(cell) == cell


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_one_cell_changes_and_not_another_byte(rng, tmp_path, mark):
    path = tmp_path / "random.csv"
    for _ in range(500):
        text = mark + "".join(rng.choice(list('ab,,""\n\r'), 30))
        path.write_bytes(text.encode())
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
        column = int(rng.integers(min(map(len, rows[1:]), default=1)))
        dialect = Dialect("utf-8", True, ",", ".", ())
        wanted = range(len(rows) - 1)
        given = {}

        def change(row, found, given=given):
            given[row] = found
            return f"new {row}"

        same = b"".join(replace_cells(path, dialect, column, (), change, len(rows) - 1))
        assert same.decode() == text
        new = b"".join(replace_cells(path, dialect, column, wanted, change, len(rows) - 1)).decode()
        expected = [
            [*row[:column], f"new {i}", *row[column + 1 :]] for i, row in enumerate(rows[1:])
        ]
        assert [row for row in csv.reader(io.StringIO(new, newline="")) if row][1:] == expected
        assert list(given.values()) == [row[column] for row in rows[1:]]
