"""nearworth apply: on the rows decisions were made on or not at all, and not a byte more than the
labels.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.command_line import one_line
from nearworth.tables.read import read

HEAD = "row,id,target,given,decision,label"


ROWS = [(f"r{i}", i * 1.5, "cat" if i % 2 else "dog") for i in range(8)]


def table_text(rows):
    return "name,a,label\n" + "".join(f"{name},{a},{label}\n" for name, a, label in rows)


def decide(content, **known):
    """decisions.json on some rows: {row: (given, label)}."""
    made = [
        {"row": r, "given": g, "decision": "relabel", "label": n} | known
        for r, (g, n) in content.items()
    ]
    Path("d.json").write_text(json.dumps({"target": "label", "decisions": made}))


def applied(command, before, after):
    """Whether `before` becomes `after`, byte for byte."""
    Path("t.csv").write_bytes(before)
    result = command("apply", "d.json", "t.csv", "-o", "c.csv", "--overwrite", "-q")
    assert result == (0, "", "")
    assert Path("c.csv").read_bytes() == after


def refused(command, decisions, train):
    code, out, err = command("apply", decisions, train, "-o", "c" + Path(train).suffix, "-q")
    assert (code, out) == (2, "")
    assert not Path("c" + Path(train).suffix).exists()
    return one_line(err)


@pytest.mark.parametrize("known", [",id_column,of_rows", ""])
def test_a_sorted_copy_is_refused_though_the_label_fits(command, tmp_path, known):
    line = "3,r3,label,cat,relabel,dog" + (",name,8" if known else "")
    Path("d.csv").write_text(f"{HEAD}{known}\n{line}\n")
    Path("t.csv").write_text(table_text(ROWS))
    Path("sorted.csv").write_text(table_text([*ROWS[2:], *ROWS[:2]]))  # row 3 is r5, a cat too
    message = refused(command, "d.csv", "sorted.csv")
    assert "row 3" in message
    assert "'r3'" in message
    assert "'r5'" in message
    assert "a copy in another order" in message
    assert command("apply", "d.csv", "t.csv", "-o", "c.csv", "-q") == (0, "", "")
    assert Path("c.csv").read_text() == table_text([*ROWS[:3], ("r3", 4.5, "dog"), *ROWS[4:]])
    pq.write_table(
        pa.table({"name": [r[0] for r in ROWS[::-1]], "label": ["cat"] * 8}), "t.parquet"
    )
    assert "'r4'" in refused(command, "d.csv", "t.parquet")


def test_the_id_must_be_in_its_own_column(command, tmp_path):
    Path("t.csv").write_text("key,other,label\n1,2,a\n2,1,a\n")
    decide({0: ("a", "b")}, id="2", id_column="key")
    assert "but has '1'" in refused(command, "d.json", "t.csv")
    decide({0: ("a", "b")}, id="2", id_column="elsewhere")
    assert command("apply", "d.json", "t.csv", "-o", "c.csv", "-q")[0] == 0


@pytest.mark.parametrize(
    ("cell", "exported"),
    [
        ("007", "7"),
        ("20231234567.0", "20231234567"),
        ("true", "True"),
        ("2024-01-31", "2024-01-31"),
        ("'=x", "=x"),
        ("2024-01-31 10:00", "2024-01-31 10:00:00"),
        ("0.10", "0.1"),
        (" x y ", "x y"),
        ("", ""),
    ],
)
def test_ids_as_reports_spell_them(command, tmp_path, cell, exported):
    decide({1: ("a", "b")}, id=exported, id_column="key")
    before = f"key,n,label\n{cell},0,a\n{cell},1,a\n".encode()
    applied(command, before, before.replace(b"1,a", b"1,b"))


@pytest.mark.parametrize("train", ["t.csv", "t.csv.gz", "t.parquet", "t.npz"])
def test_rows_can_be_removed(command, tmp_path, train):
    labels = [label for _, _, label in ROWS]
    if train == "t.npz":
        np.savez(train, features=np.arange(16.0).reshape(8, 2), kinds=labels, once=[1, 2])
    elif train == "t.parquet":
        pq.write_table(pa.table({"name": [r[0] for r in ROWS], "label": labels}), train)
    else:
        text = table_text(ROWS).encode()
        Path(train).write_bytes(gzip.compress(text) if train.endswith("gz") else text)
    made = [{"row": 0, "given": "dog", "decision": "remove", "label": None}]
    made.append({"row": 1, "given": "cat", "decision": "relabel", "label": "a long new label"})
    Path("d.json").write_text(json.dumps({"target": "label", "decisions": made}))
    output = "c" + {"gz": ".csv"}.get(train.rpartition(".")[2], Path(train).suffix)
    code, _, err = command("apply", "d.json", train, "-o", output)
    assert code == 0, err
    assert "1 label changed, 1 row removed" in err
    if train == "t.npz":
        with np.load(output) as archive:
            assert archive["kinds"].tolist() == ["a long new label", *labels[2:]]
            assert archive["features"][0].tolist() == [2, 3]
            assert archive["once"].tolist() == [1, 2]
        return
    after = read(output).table
    assert after["name"].to_pylist() == [r[0] for r in ROWS[1:]]
    assert after["label"].to_pylist() == ["a long new label", *labels[2:]]


def test_not_every_row_can_be_removed(command, tmp_path):
    Path("t.csv").write_text("a,label\n1,x\n2,y\n")
    Path("d.csv").write_text(
        "row,target,given,decision,label\n0,label,x,remove,\n1,label,y,remove,\n"
    )
    assert "nothing would be left" in refused(command, "d.csv", "t.csv")


@pytest.mark.parametrize(
    ("cell", "given", "fits"),
    [
        (" New York ", "New York", True),
        ("new  york", "New York", True),
        ("York", "New York", False),
        ("1000004", "1000001", False),
        ("1000004.0", "1e+06", False),
        ("0.123456789", "0.123457", True),
        ("1000004", "1000004", True),
        ("12.5", "12.5000", True),
    ],
)
def test_labels_are_compared_as_reports_spell_them(command, tmp_path, cell, given, fits):
    decide({0: (given, "other" if given[0] == "N" else "7")})
    Path("t.csv").write_text(f"a,label\n1,{cell}\n2,{cell}\n")
    assert (command("apply", "d.json", "t.csv", "-o", "c.csv", "-q")[0] == 0) == fits


def test_amounts_with_signs_are_recognised(command, tmp_path):
    decide({0: ("1200.5", "1300")})
    applied(command, b'a,label\n1,"$1,200.50"\n2,$900\n', b'a,label\n1,"1300"\n2,$900\n')


@pytest.mark.parametrize("index", [[5, 7, 9], None])
def test_parquet_of_pandas_stays_the_same_frame(command, tmp_path, index):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {"a": [1.5, 2.5, 3.5], "label": pd.Categorical(["x", "y", "x"])}, index=index
    )
    frame["n"] = np.array([1, 2, 3], dtype=np.int8)
    frame.to_parquet("t.parquet")
    decide({1: ("y", "x")})
    assert command("apply", "d.json", "t.parquet", "-o", "c.parquet", "-q") == (0, "", "")
    after = pd.read_parquet("c.parquet")
    assert after.index.tolist() == frame.index.tolist()
    assert after.dtypes.astype(str).tolist() == frame.dtypes.astype(str).tolist()
    assert after["label"].tolist() == ["x", "x", "x"]
    Path("d.csv").write_text("row,target,given,decision,label\n0,label,x,remove,\n")
    assert command("apply", "d.csv", "t.parquet", "-o", "e.parquet", "-q") == (0, "", "")
    assert pd.read_parquet("e.parquet")["a"].tolist() == [2.5, 3.5]


def test_arrays_keep_their_type(command, tmp_path):
    np.savez("t.npz", X=np.ones((3, 2)), y=np.array([0, 1, 2], dtype=np.int8))
    decide({1: ("1", "2")})
    assert command("apply", "d.json", "t.npz", "-o", "c.npz", "-q") == (0, "", "")
    with np.load("c.npz") as archive:
        assert archive["y"].dtype == np.int8


def test_long_numbers_are_not_confused(command, tmp_path):
    Path("t.csv").write_text("key,label\n10000001,a\n10000002,a\n")
    decide({0: ("a", "b")}, id="10000002", id_column="key")
    assert "'10000001'" in refused(command, "d.json", "t.csv")


def test_another_number_of_rows_is_refused(command, tmp_path):
    decide({1: ("cat", "dog")}, of_rows=9)
    Path("t.csv").write_text(table_text(ROWS))
    assert "data of 9 rows" in refused(command, "d.json", "t.csv")
    np.savez("t.npz", X=np.ones((8, 2)), y=["dog", "cat"] * 4)
    assert "data of 9 rows" in refused(command, "d.json", "t.npz")
    decide(
        {1: ("cat", "dog")}, of_rows=9, id="r1", id_column="name"
    )  # rows were added, this one is still there
    assert command("apply", "d.json", "t.csv", "-o", "c.csv", "-q")[0] == 0
    decide({1: ("cat", "dog")}, of_rows="many")
    assert "of_rows" in one_line(command("apply", "d.json", "t.csv", "-o", "e.csv", "-q")[2])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"])
@pytest.mark.parametrize("last", [True, False])
def test_every_other_byte_stays(command, tmp_path, end, mark, delimiter, last):
    lines = [
        ["a", '"the text"', "label", "z"],
        ['"1"', '"plain"', "cat", "1.50"],
        ["2", f'"x{end}y ""q"" {delimiter}"', "dog", ""],
        [],
        ["+3", ' spaced "inside" ', '"cat"', "=1+2"],
        ["4", '""', "dog", '"é"'],
    ]
    changed = [list(line) for line in lines]
    changed[1][2] = "bird"
    changed[4][2] = '"bird"'
    changed[5][2] = "bird"
    decide({0: ("cat", "bird"), 2: ("cat", "bird"), 3: ("dog", "bird")})
    before, after = (
        (mark + end.join(map(delimiter.join, content)) + end * last).encode()
        for content in (lines, changed)
    )
    applied(command, before, after)


@pytest.mark.parametrize(
    ("label", "written"),
    [
        ("a,b", '"a,b"'),
        ('a "b"', '"a ""b"""'),
        ("a\nb", '"a\nb"'),
        ("=1+2", "'=1+2"),
        ("", '""'),
        ("é", "é"),
    ],
)
def test_labels_that_need_quotes(command, tmp_path, label, written):
    decide({1: ("cat", label)})
    applied(command, b"label,a\r\ncat,1\r\ncat,2", f"label,a\r\ncat,1\r\n{written},2".encode())


def test_latin_1_stays(command, tmp_path):
    decide({0: ("süß", "öd")})
    before = "ort;label\r\nKöln;süß\r\nBonn;süß\r\n"
    applied(
        command, before.encode("latin-1"), before.replace("Köln;süß", "Köln;öd").encode("latin-1")
    )
    decide({0: ("süß", "日本")})
    Path("c.csv").unlink()
    assert "cannot write the label" in refused(command, "d.json", "t.csv")


def test_apply_changes_labels_and_nothing_else(command, tmp_path):
    text = 'a,b,label\n1.50,"x, y",cat\n2,=1+2,dog\n3,"line\nbreak",cat\n\n4,z,dog\n'
    (tmp_path / "train.csv").write_text(text)
    (tmp_path / "d.csv").write_text(
        "row,target,given,decision,label\n0,label,cat,relabel,dog\n3,label,dog,confirm,dog\n"
    )
    code, out, err = command("apply", "d.csv", "train.csv", "-o", "clean.csv")
    assert (code, out) == (0, "")
    assert "1 label changed, 1 confirmed" in err
    assert "spreadsheet" not in err
    assert Path("clean.csv").read_text() == text.replace(',"x, y",cat', ',"x, y",dog')
    assert command("apply", "d.csv", "train.csv", "-o", "clean.tsv", "-q") == (
        0,
        "",
        "",
    )  # as any other format
    before = read("train.csv").table
    after = read("clean.tsv").table
    assert after.drop_columns("label").equals(before.drop_columns("label"))
    assert '\t"\'=1+2"\t' in Path("clean.tsv").read_text()


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        ("row,target,given,decision,label\n0,label,dog,relabel,cat\n", "made on 'dog'"),
        ("row,target,given,decision,label\n9,label,cat,relabel,dog\n", "row 9"),
        ("row,target,given,decision,label\n0,label,cat,explode,dog\n", "'explode'"),
        ("row,target,given,decision,label\n0,other,cat,relabel,dog\n", "no column 'other'"),
        (
            "row,target,given,decision,label\n0,label,cat,relabel,dog\n0,label,cat,skip,cat\n",
            "twice",
        ),
        ("row,given\n0,cat\n", "no column 'decision'"),
        ("row,target,given,decision,label\nx,label,cat,relabel,dog\n", "row is 'x'"),
    ],
)
def test_apply_refuses_what_does_not_fit(command, tmp_path, decisions, message):
    (tmp_path / "train.csv").write_text("a,label\n1,cat\n2,dog\n")
    (tmp_path / "d.csv").write_text(decisions)
    code, _, err = command("apply", "d.csv", "train.csv", "-o", "clean.csv", "-q")
    assert code == 2
    assert message in one_line(err)
    assert not Path("clean.csv").exists()


def test_apply_to_other_formats(command, tmp_path):
    made = {
        "target": "label",
        "decisions": [{"row": 1, "given": "1", "decision": "relabel", "label": "2"}],
    }
    (tmp_path / "d.json").write_text(json.dumps(made))
    table = pa.table({"a": [0.5, 1.5, 2.5], "label": pa.array([0, 1, 2], pa.int8())})
    pq.write_table(table, "t.parquet")
    assert command("apply", "d.json", "t.parquet", "-o", "c.parquet", "-q") == (0, "", "")
    changed = read("c.parquet").table
    assert changed.schema.field("label").type == pa.int8()
    assert changed["label"].to_pylist() == [0, 2, 2]
    np.savez("t.npz", X=np.ones((3, 2)), y=[0, 1, 2], extra=[7])
    assert command("apply", "d.json", "t.npz", "-o", "c.npz", "-q") == (0, "", "")
    with np.load("c.npz") as archive:
        assert archive["y"].tolist() == [0, 2, 2]
        assert archive["extra"].tolist() == [7]
    for train, output in (
        ("t.npz", "c.csv"),
        ("t.parquet", "d.npz"),
    ):  # arrays and tables do not become each other
        assert "cannot write" in one_line(command("apply", "d.json", train, "-o", output)[2])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[" * 100_000, "not a file of decisions"),
        ('{"target": "label", "decisions": ' + '{"row":' * 100_000, "not a file of decisions"),
        ("[1", "not a file of decisions"),
        ('{"target": "label", "decisions": 5}', "not a file of decisions"),
        ('{"target": "label", "decisions": []}', "holds no decisions"),
    ],
)
def test_json_that_is_not_decisions(command, tmp_path, content, message):
    Path("t.csv").write_text(table_text(ROWS))
    Path("d.json").write_text(content)
    line = refused(command, "d.json", "t.csv")
    assert "d.json" in line
    assert message in line


def test_json_as_deep_as_can_be_read(command, tmp_path):
    """Where parsing just succeeds, printing the value in a message must not fail either."""
    Path("t.csv").write_text(table_text(ROWS))
    record = {"row": "DEEP", "given": "cat", "decision": "relabel", "label": "dog"}
    for depth in range(850, 1_000, 10):
        deep = json.dumps({"target": "label", "decisions": [record]}).replace(
            '"DEEP"', "[" * depth + "]" * depth
        )
        Path("d.json").write_text(deep)
        assert "d.json" in refused(command, "d.json", "t.csv")


def test_an_id_of_zero_is_an_id(command, tmp_path):
    Path("t.csv").write_text("key,label\n5,a\n0,a\n")
    decide({0: ("a", "b")}, id=0, id_column="key")
    assert "should have the id '0'" in refused(command, "d.json", "t.csv")


@pytest.mark.parametrize("name", ["row", "given", "decision", "label"])
def test_a_decision_that_lacks_something_is_refused(command, tmp_path, name):
    Path("t.csv").write_text(table_text(ROWS))
    decide({1: ("cat", "dog")}, **{name: None})
    assert f"no column '{name}'" in refused(command, "d.json", "t.csv")


def test_arrays_without_labels_are_refused(command, tmp_path):
    np.savez("t.npz", X=np.ones((8, 2)))
    decide({1: ("cat", "dog")})
    assert "has no labels `y` to change" in refused(command, "d.json", "t.npz")


def test_a_table_may_have_no_column_but_the_target(command, tmp_path):
    Path("t.csv").write_text("label\ncat\ndog\ncat\n")
    decide({1: ("dog", "cat")})
    assert command("apply", "d.json", "t.csv", "-o", "c.csv", "-q") == (0, "", "")
    assert Path("c.csv").read_text() == "label\ncat\ncat\ncat\n"
