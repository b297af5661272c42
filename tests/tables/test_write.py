"""Columns written to files: inert, complete, and only where they may be."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from nearworth.tables import InputError
from nearworth.tables.read import read
from nearworth.tables.write import check_output, records, write_columns

HOSTILE = [
    "=1+2",
    "@x",
    "\tx",
    "\rx",
    "\nx",
    "'=1",
    "''=1",
    "'",
    "-1.5",
    "+3",
    "plain",
    "",
    "it's",
    "\uff1d1",
]


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize("kind", ["mapping", "table", "large", "dictionary"])
def test_formulas_are_inert_and_come_back(tmp_path, suffix, kind):
    text = pa.array(HOSTILE)
    if kind == "large":
        text = text.cast(pa.large_string())
    elif kind == "dictionary":
        text = text.dictionary_encode()
    columns = {"row": list(range(len(HOSTILE))), "text": text}
    path = str(tmp_path / f"out{suffix}")
    write_columns(columns if kind == "mapping" else pa.table(columns), path)
    assert read(path).table["text"].to_pylist() == HOSTILE
    delimiter = "\t" if suffix == ".tsv" else ","
    for line in Path(path).read_bytes().decode().split("\n"):
        assert f"{delimiter}=" not in line
        assert f'{delimiter}"=' not in line


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_columnar_files_hold_cells_as_they_are(tmp_path, suffix):
    path = str(tmp_path / f"out{suffix}")
    write_columns({"text": HOSTILE}, path)
    assert read(path).table["text"].to_pylist() == HOSTILE


def test_json_has_null_for_nan(tmp_path):
    columns = {"a": [1.5, float("nan")], "b": ["x", None]}
    expected = [{"a": 1.5, "b": "x"}, {"a": None, "b": None}]
    assert records(columns) == expected
    write_columns(columns, str(tmp_path / "out.json"))
    assert json.loads((tmp_path / "out.json").read_text()) == expected


def test_lists_have_no_form_in_csv(tmp_path):
    with pytest.raises(InputError, match=r"'e' holds list.*write \.parquet"):
        write_columns({"e": [[1.0], [2.0]]}, str(tmp_path / "out.csv"))
    assert list(tmp_path.iterdir()) == []


def test_outputs_are_refused_beforehand(tmp_path):
    existing = tmp_path / "there.csv"
    existing.write_text("precious")
    with pytest.raises(InputError, match="--overwrite"):
        check_output(str(existing), overwrite=False)
    check_output(str(existing), overwrite=True)
    with pytest.raises(InputError, match=r"use \.csv"):
        check_output(str(tmp_path / "x.xls"), overwrite=False)
    with pytest.raises(InputError, match="no folder"):
        check_output(str(tmp_path / "no" / "x.csv"), overwrite=False)
