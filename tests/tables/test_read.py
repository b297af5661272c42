"""Files of every format and origin: read, or refused in one line that names the file."""

from __future__ import annotations

import sys
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from nearworth.tables import InputError
from nearworth.tables.read import count_rows, read


def write(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", "a,b\n1,x\n2,y\n", {"a": [1, 2], "b": ["x", "y"]}),
        ("bom.csv", b"\xef\xbb\xbfa,b\n1,x\n", {"a": [1], "b": ["x"]}),
        ("semi.csv", "a;b\n1,5;x\n2,5;y\n", {"a": [1.5, 2.5], "b": ["x", "y"]}),
        ("points.csv", "a;b\n1,5;2.5\n", {"a": ["1,5"], "b": [2.5]}),
        ("tab.tsv", "a\tb\n1\tx,y\n", {"a": [1], "b": ["x,y"]}),
        ("pipe.csv", "a|b\n1|x\n", {"a": [1], "b": ["x"]}),
        ("latin.csv", "a,b\n1,Köln\n".encode("latin-1"), {"a": [1], "b": ["Köln"]}),
        ("windows.csv", "a,b\n1,it\u2019s\n".encode("cp1252"), {"a": [1], "b": ["it\u2019s"]}),
        (
            "breaks.csv",
            'a,b\n1,"x\ny, z"\n2,"say ""hi"""\n',
            {"a": [1, 2], "b": ["x\ny, z", 'say "hi"']},
        ),
        ("crlf.csv", "a,b\r\n1,x\r\n", {"a": [1], "b": ["x"]}),
        ("one.csv", "a\n1\n2\n", {"a": [1, 2]}),
        ("unicode.csv", "名前,b\n猫,1\n", {"名前": ["猫"], "b": [1]}),
        ("index.csv", ",b\n0,1\n", {"unnamed": [0], "b": [1]}),
        ("guarded.csv", "a,b\n'=1+2,1\n''=x,2\n", {"a": ["=1+2", "'=x"], "b": [1, 2]}),
    ],
)
def test_text_tables(tmp_path, name, content, expected):
    assert read(write(tmp_path, name, content)).table.to_pydict() == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", "", "is empty"),
        ("blank.csv", "\n \n", "is empty"),
        ("header.csv", "a,b\n", "no rows"),
        ("ragged.csv", "a,b\n1,2\n1,2,3\n", r"Row #3: Expected 2 columns, got 3"),
        ("binary.csv", bytes(range(256)), "binary"),
        ("page.csv", "\n<!DOCTYPE html><html><body>Login</body></html>", "web page"),
        ("book.csv", b"PK\x03\x04rest", "Excel"),
        ("wide.csv", "a,b\n1,2\n".encode("utf-16"), "UTF-16"),
        ("a.parquet", "a,b\n1,2\n", "Parquet"),
        ("a.feather", "a,b\n1,2\n", "Feather"),
        ("a.npz", "a,b\n1,2\n", "numpy"),
        ("a.npy", "a,b\n1,2\n", "numpy|pickle"),
        ("a.doc", "a,b\n1,2\n", "extension"),
    ],
)
def test_files_that_are_no_table_are_named(tmp_path, name, content, message):
    path = write(tmp_path, name, content)
    with pytest.raises(InputError, match=message) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_repeated_and_blank_names_are_made_distinct(tmp_path):
    path = write(tmp_path, "twice.csv", "a,,a,,a.1\n1,2,3,4,5\n")
    data = read(path)
    assert data.table.to_pydict() == {
        "a": [1],
        "unnamed": [2],
        "a.2": [3],
        "unnamed.1": [4],
        "a.1": [5],
    }
    assert "'a', 'unnamed' occurs more than once" in data.remarks[0]


def test_excel(tmp_path, monkeypatch):
    path = tmp_path / "a.xlsx"
    zipfile.ZipFile(path, "w").close()
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(InputError, match=r"Excel needs openpyxl: pip install 'nearworth\[excel\]'"):
        read(path)
    monkeypatch.delitem(sys.modules, "openpyxl")
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["a", None, "label"], [1, "x", "cat"], [2.5, 3, "dog"], [None, None, None]):
        book.active.append(row)
    book.save(path)
    assert read(path).table.to_pydict() == {
        "a": [1, 2.5],
        "unnamed": ["x", "3"],
        "label": ["cat", "dog"],
    }


def test_directories_and_absent_files(tmp_path):
    with pytest.raises(InputError, match="is a directory"):
        read(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "absent.csv")


def test_columnar_files_and_arrays(tmp_path):
    table = pa.table({"a": [1, 2], "e": [[0.5, 1.5], [2.5, 3.5]]})
    pq.write_table(table, tmp_path / "a.parquet")
    feather.write_feather(table, tmp_path / "a.feather")
    assert read(tmp_path / "a.parquet").table.equals(table)
    assert read(tmp_path / "a.feather").table.equals(table)
    np.savez(tmp_path / "a.npz", X=np.ones((3, 2, 2)), y=[0, 1, 0])
    assert read(tmp_path / "a.npz").X.shape == (3, 4)
    np.savez(tmp_path / "b.npz", Z=np.ones((3, 2)))
    assert read(tmp_path / "b.npz").X.shape == (3, 2)
    np.savez(tmp_path / "c.npz", Z=np.ones((3, 2)), labels=[1, 2, 3], other=np.ones(5))
    assert read(tmp_path / "c.npz").y.tolist() == [1, 2, 3]
    np.savez(tmp_path / "d.npz", Z=np.ones((3, 2)), W=np.ones((3, 2)))
    with pytest.raises(InputError, match=r"Z \(3, 2\), W"):
        read(tmp_path / "d.npz")
    np.save(tmp_path / "o.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(InputError, match="Python objects"):
        read(tmp_path / "o.npy")


def test_types_hold_for_the_whole_file(tmp_path):
    rows = "\n".join(["1,2"] * 200_000)
    source = read(write(tmp_path, "late.csv", f"a,b\n{rows}\nx,2\n"))
    assert source.table["a"][-1].as_py() == "x"
    assert source.table["a"][0].as_py() == "1"


def test_rows_are_counted(tmp_path):
    table = pa.table({"a": [1, 2, 3]})
    pq.write_table(table, tmp_path / "a.parquet")
    np.save(tmp_path / "a.npy", np.ones((5, 2)))
    assert count_rows(tmp_path / "a.parquet") == 3
    assert count_rows(tmp_path / "a.npy") == 5
    assert count_rows(write(tmp_path, "a.csv", "a\n1\n2\n")) == 2
    with pytest.raises(InputError, match="not a Parquet file"):
        count_rows(write(tmp_path, "b.parquet", "a\n1\n"))


def test_row_numbers_of_pandas_are_left_out(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2]}, index=[5, 7])
    for name, save in (("a.parquet", frame.to_parquet), ("a.feather", None)):
        if save:
            save(tmp_path / name)
        else:
            feather.write_feather(pa.Table.from_pandas(frame), tmp_path / name)
        assert read(tmp_path / name).table.column_names == ["a"]
