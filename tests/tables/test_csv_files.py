"""The text of cells: found as the csv module finds it, inert in spreadsheets, restored when it is read."""

from __future__ import annotations

import csv
import io

import pyarrow as pa
import pytest

from nearworth.tables.csv_files import guard, restore_column, split_cells, split_records, without_quotes

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


def test_cells_are_found_as_the_csv_module_finds_them(rng):
    for _ in range(500):
        text = "".join(rng.choice(list('ab,,""\n\r'), 30))
        expected = list(csv.reader(io.StringIO(text, newline="")))
        found = list(split_records(text.encode(), ","))
        assert b"".join(found).decode() == text
        cells = [[without_quotes(record[a:b]).decode() for a, b in split_cells(record, ",")] for record in found]
        assert [c if record.strip(b"\r\n") else [] for c, record in zip(cells, found, strict=True)] == expected, text
