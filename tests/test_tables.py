"""Tables as people have them: read, prepared, written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import nearworth as nw
from nearworth.tables.errors import InputError
from nearworth.tables.formulas import guard, restore
from nearworth.tables.reading import read
from nearworth.tables.writing import check_output, write_columns

HOSTILE = [
    "=1+2",
    "+A1",
    "-A1",
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
        ("breaks.csv", 'a,b\n1,"x\ny, z"\n2,"say ""hi"""\n', {"a": [1, 2], "b": ["x\ny, z", 'say "hi"']}),
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
        ("ragged.csv", "a,b\n1,2\n1,2,3\n", r"row 1 .* has 3 columns where the header has 2"),
        ("binary.csv", bytes(range(256)), "binary"),
        ("page.csv", "\n<!DOCTYPE html><html><body>Login</body></html>", "web page"),
        ("twice.csv", "a,b,a\n1,2,3\n", "'a' occurs more than once"),
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
    with pytest.raises(InputError, match="'Z'"):
        read(tmp_path / "b.npz")
    np.save(tmp_path / "o.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(InputError, match="pickled"):
        read(tmp_path / "o.npy")


def test_types_hold_for_the_whole_file(tmp_path):
    rows = "\n".join(["1,2"] * 200_000)
    source = read(write(tmp_path, "late.csv", f"a,b\n{rows}\nx,2\n"))
    assert source.table["a"][-1].as_py() == "x"
    assert source.table["a"][0].as_py() == "1"


def test_formulas_are_inert_and_come_back(tmp_path):
    for cell in HOSTILE:
        assert restore(guard(cell)) == cell
        assert not guard(cell).startswith(("=", "@", "\t", "\r", "\n", "\uff1d"))
    path = str(tmp_path / "out.csv")
    write_columns({"row": list(range(len(HOSTILE))), "text": HOSTILE}, path)
    assert read(path).table["text"].to_pylist() == HOSTILE
    for line in Path(path).read_bytes().decode().split("\n"):
        assert ",=" not in line
        assert ',"=' not in line


def test_outputs_are_refused_beforehand(tmp_path):
    existing = tmp_path / "there.csv"
    existing.write_text("precious")
    with pytest.raises(InputError, match="--force"):
        check_output(str(existing), force=False)
    check_output(str(existing), force=True)
    with pytest.raises(InputError, match=r"use \.csv"):
        check_output(str(tmp_path / "x.xls"), force=False)
    with pytest.raises(InputError, match="no folder"):
        check_output(str(tmp_path / "no" / "x.csv"), force=False)


MIXED = {
    "size": [1.0, 2.0, 3.0, 6.0],
    "colour": ["red", "blue", "red", "green"],
    "sold": [True, False, True, True],
    "day": np.array(["2024-01-01", "2024-01-03", "2024-01-02", "2024-01-05"], dtype="datetime64[ms]"),
    "vector": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]],
    "same": [7, 7, 7, 7],
}


def test_mixed_columns_become_what_one_expects():
    preparer = nw.TablePreparer()
    matrix = preparer.fit_transform(pa.table(MIXED))
    names = preparer.get_feature_names_out().tolist()
    assert names == ["size", "colour=blue", "colour=green", "colour=red", "sold", "day", "vector[0]", "vector[1]"]
    sizes = np.array(MIXED["size"])
    np.testing.assert_allclose(matrix[:, 0], (sizes - sizes.mean()) / sizes.std())
    np.testing.assert_array_equal(matrix[:, 1:4], [[0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 0]])
    np.testing.assert_allclose(matrix[:, 4:6].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(matrix[:, 4:6].std(axis=0), 1)
    np.testing.assert_array_equal(matrix[:, 6:], MIXED["vector"])
    assert "left out: the same in every row" in preparer.describe()[-1]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_other_libraries(library):
    frame = pytest.importorskip(library).DataFrame({k: v for k, v in MIXED.items() if k != "vector"})
    expected = nw.TablePreparer().fit_transform(pa.table({k: v for k, v in MIXED.items() if k != "vector"}))
    np.testing.assert_allclose(nw.TablePreparer().fit_transform(frame), expected)


def test_order_of_columns_does_not_matter_but_names_and_types_do():
    preparer = nw.TablePreparer().fit(pa.table(MIXED))
    table = pa.table(MIXED)
    np.testing.assert_array_equal(preparer.transform(table.select(sorted(MIXED))), preparer.transform(table))
    with pytest.raises(InputError, match=r"'size' is missing.*'length' instead"):
        preparer.transform(table.rename_columns(["length", *list(MIXED)[1:]]))
    with pytest.raises(InputError, match="'size' holds numbers in training but text here"):
        preparer.transform(pa.table(MIXED | {"size": ["a", "b", "c", "d"]}))
    with pytest.raises(InputError, match="'extra' was not there"):
        preparer.transform(pa.table(MIXED | {"extra": [1, 2, 3, 4]}))
    other = pa.table(MIXED | {"colour": ["red", "pink", "red", "red"]})
    assert preparer.unseen(other) == {"colour": ["pink"]}
    assert preparer.transform(other)[1, 1:4].tolist() == [0, 0, 0]


def test_missing_values_are_named_or_filled():
    table = pa.table({"a": [1.0, None, 3.0, 8.0], "b": ["x", "y", "", "x"], "c": [1.0, 2.0, float("nan"), 4.0]})
    with pytest.raises(InputError, match=r"3 missing values in columns 'a', 'b', 'c' at rows 1, 2 \(0-based\)"):
        nw.TablePreparer().fit(table)
    preparer = nw.TablePreparer(missing="median")
    matrix = preparer.fit_transform(table)
    assert np.isfinite(matrix).all()
    known = np.array([1.0, 3.0, 8.0])
    assert matrix[1, 0] == pytest.approx((3 - known.mean()) / known.std())
    assert "b=" in preparer.get_feature_names_out()
    with pytest.raises(InputError, match="missing"):
        nw.TablePreparer().fit(pa.table({"a": [1.0, 2.0]})).transform(pa.table({"a": [1.0, None]}))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([f"name {i}" for i in range(100)], "--id"),
        ([f"a long sentence about the thing number {i % 60} that goes on" for i in range(100)], "free text"),
        ([f"town {i % 60}" for i in range(100)], "--max-categories"),
        ([float("inf"), *range(99)], "infinite at row 0"),
        ([[1.0]] * 99 + [[1.0, 2.0]], "row 99 holds 2 numbers where others hold 1"),
        ([["a"]] * 100, "only lists of numbers"),
        ([{"x": 1}] * 100, "has no distance"),
    ],
)
def test_columns_without_a_distance_are_refused_with_advice(column, message):
    with pytest.raises(InputError, match=message):
        nw.TablePreparer().fit_transform(pa.table({"good": list(range(100)), "bad": column}))


def test_problems_are_told_together():
    columns = {"a": [1.0, None] * 50, "town": [f"town {i % 60}" for i in range(100)], "far": [float("inf"), *range(99)]}
    with pytest.raises(InputError, match=r"^3 problems: \(1\) 50 missing values in column 'a' .*") as caught:
        nw.TablePreparer().fit(pa.table(columns))
    assert "(2) column 'town': 60 distinct texts" in str(caught.value)
    assert "(3) column 'far': infinite at row 0" in str(caught.value)


def test_what_categories_hide_is_told():
    preparer = nw.TablePreparer(missing="median").fit(
        pa.table({"age": ["1", "2", "?", ""] + ["3"] * 4, "ward": ["A", "B", "", "A"] * 2, "grade": ["1", "A"] * 4})
    )
    age, ward, grade = preparer.describe()
    assert age.startswith("age: 5 categories (missing is one of them)")
    assert "most are numbers, but not '?' (row 2)" in age
    assert ward == "ward: 3 categories (missing is one of them), one 0/1 column each"
    assert grade == "grade: 2 categories, one 0/1 column each"
    clean = nw.TablePreparer().fit(pa.table({"b": ["x", "y", "1"]}))
    assert clean.describe() == ["b: 3 categories, one 0/1 column each"]


def test_huge_and_tiny_numbers_stay_finite():
    matrix = nw.TablePreparer().fit_transform(pa.table({"a": [1e300, -1e300, 0.0], "b": [1e-300, 2e-300, 3e-300]}))
    assert np.isfinite(matrix).all()
    np.testing.assert_allclose(matrix.std(axis=0), 1)


def test_nothing_to_compare_by():
    with pytest.raises(InputError, match="no column is left"):
        nw.TablePreparer().fit(pa.table({"a": [1, 1]}))
