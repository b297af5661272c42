"""Files as people have them: each either works or ends in one clear line, and nothing is left
behind.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import nearworth as nw
from helpers.command_line import GOOD, flowers, one_line, write_csv
from nearworth.tables.read import read

ROWS = pa.table(
    {"a": [1.0, 2.0, 3.0, 4.0], "b": [2.0, 1.0, 2.0, 1.0], "label": ["x", "y", "x", "y"]}
)


def parquet(table=ROWS):
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def arrow(table=ROWS):
    sink = io.BytesIO()
    feather.write_feather(table, sink)
    return sink.getvalue()


def npz(**arrays):
    sink = io.BytesIO()
    np.savez(sink, **arrays)
    return sink.getvalue()


def npy(array):
    sink = io.BytesIO()
    np.save(sink, array)
    return sink.getvalue()


X = np.arange(12.0).reshape(6, 2)
Y = np.arange(6) % 2


REFUSED = {
    "empty.csv": (b"", "is empty"),
    "blank.csv": (b"\n\n  \n", "is empty"),
    "header.csv": (b"a,b,label\n", "no rows"),
    "onerow.csv": (b"a,b,label\n1,2,x\n", "one class"),
    "short.csv": (GOOD.encode() + b"1,2\n", "Row #6: Expected 3 columns, got 2"),
    "long.csv": (GOOD.encode() + b"1,2,x,4\n", "Row #6: Expected 3 columns, got 4"),
    "openquote.csv": (GOOD.encode() + b'1,"2,x\n3,4,y\n', "Row #6"),
    "binary.csv": (os.urandom(2000).replace(b"\n", b"") + b"\x00", "binary|is "),
    "nul.csv": (b"a,b,label\n1,\x002,x\n", "NUL"),
    "utf16.csv": (GOOD.encode("utf-16"), "UTF-16"),
    "html.csv": (b"<html><body>no</body></html>", "web page"),
    "json.csv": (b'{"a": [1, 2], "label": 3}\n', "JSON"),
    "packed.csv": (gzip.compress(GOOD.encode()), "gzip"),
    "packed.parquet.gz": (gzip.compress(parquet()), "extension '.gz' is not known"),
    "damaged.csv.gz": (gzip.compress(GOOD.encode())[:-9], "CSV"),
    "book.xlsx": (b"PK\x03\x04rest", "Excel"),
    "book.xls": (b"\xd0\xcf\x11\xe0rest", "extension '.xls' is not known"),
    "line.jsonl": (b'{"a": 1, "label": "x"}\n{"a": 2, "label"', "JSON"),
    "book.csv": (b"PK\x03\x04rest", "Excel"),
    "noextension": (GOOD.encode(), "extension '' is not known"),
    "notarget.csv": (b"a,b\n1,2\n", "no column 'label'"),
    "constant.csv": (b"a,b,label\n1,2,x\n2,3,x\n", "one class"),
    "distinct.csv": (b"a,b,label\n1,2,x\n2,3,y\n3,4,z\n", "different in each"),
    "missing.csv": (
        b"a,b,label\n1,,x\n2,3,y\n3,4,x\n",
        "missing or infinite values in column 'b' at row 0",
    ),
    "nan.csv": (b"a,b,label\n1,nan,x\n2,3,y\n3,4,x\n", "missing or infinite value"),
    "infinite.csv": (
        b"a,b,label\n1,inf,x\n2,3,y\n3,4,x\n",
        "infinite values in column 'b' at row 0",
    ),
    "overflow.csv": (
        b"a,b,label\n1,1e400,x\n2,3,y\n3,4,x\n",
        "infinite values in column 'b' at row 0",
    ),
    "nolabel.csv": (
        b"a,b,label\n1,2,\n2,3,y\n3,4,x\n",
        "target 'label' is missing or infinite at row 0",
    ),
    "blanklabel.csv": (
        b'a,b,label\n1,2," "\n2,3,y\n3,4,x\n',
        "target 'label' is missing or infinite at row 0",
    ),
    "fractions.csv": (b"a,b,label\n1,2,0.5\n2,3,1.5\n3,4,0.5\n", "--task regression"),
    "onlylabel.csv": (b"label\nx\ny\nx\n", "no column is left"),
    "same.csv": (b"a,label\n1,x\n1,y\n1,x\n", "no column is left"),
    "broken.parquet": (b"nonsense", "Parquet"),
    "cut.parquet": (parquet()[:-20], "Parquet"),
    "norows.parquet": (parquet(ROWS.slice(0, 0)), "no rows"),
    "null.parquet": (
        parquet(pa.table({"a": [1.0, None], "label": list("xy")})),
        "infinite values .* 'a' at row 1",
    ),
    "lists.parquet": (
        parquet(pa.table({"a": [[1.0, 2.0], [1.0], [2.0, 2.0]], "label": list("xyx")})),
        "row 1 holds 1",
    ),
    "records.parquet": (
        parquet(pa.table({"a": [{"q": 1}, {"q": 2}, {"q": 3}], "label": list("xyx")})),
        "--ignore 'a'",
    ),
    "cut.feather": (arrow()[:50], "Feather"),
    "list.npz": (b"nonsense", "numpy"),
    "cut.npz": (npz(X=X, y=Y)[:-30], "numpy"),
    "other.npz": (npz(Z=X, W=X), r"holds Z \(6, 2\), W \(6, 2\); nearworth needs `X`"),
    "doubt.npz": (npz(Z=X, a=Y, b=Y), "'a', 'b' could all be the labels"),
    "nan.npz": (npz(X=np.where(X == 3, np.nan, X), y=Y), "NaN at row 1, column 1"),
    "ynan.npz": (npz(X=X, y=np.where(Y == 1, np.nan, Y)), "missing or infinite at row 1"),
    "short.npz": (npz(X=X, y=Y[:2]), "one label per row"),
    "objects.npz": (
        npz(X=X, y=np.array(["a", None] * 3, dtype=object)),
        "declared shape .* and type object",
    ),
    "text.npy": (GOOD.encode(), "not a numpy file"),
    "flat.npy": (npy(Y), "two dimensions"),
    "objects.npy": (npy(np.array([["a"], [None]], dtype=object)), "Python objects"),
    "cut.npy": (npy(X)[:100], "numpy"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("what", ["value", "audit", "report"])
def test_refused_in_one_line(command, tmp_path, name, what):
    content, message = REFUSED[name]
    (tmp_path / name).write_bytes(content)
    target = [] if name.endswith(("npz", "npy")) else ["--target", "label"]
    code, out, err = command(
        what, name, *target, "--strict", "-o", "out.html" if what == "report" else "out.csv", "-q"
    )
    assert (code, out) == (2, "")
    line = one_line(err)
    assert name in line
    assert re.search(message, line), line
    assert [p.name for p in tmp_path.iterdir()] == [name]


PREPARED = [
    "missing.csv",
    "nan.csv",
    "infinite.csv",
    "overflow.csv",
    "nolabel.csv",
    "blanklabel.csv",
    "fractions.csv",
    "null.parquet",
    "records.parquet",
]


@pytest.mark.parametrize("name", PREPARED)
def test_refused_only_if_strict(command, tmp_path, name):
    content, _ = REFUSED[name]
    if name == "records.parquet":
        content = parquet(
            pa.table({"a": [{"q": 1}, {"q": 2}, {"q": 3}], "b": [1, 3, 2], "label": list("xyx")})
        )
    more = b"5,6,y\n7,8,x\n" if name.endswith("label.csv") else b""
    (tmp_path / name).write_bytes(content + more)
    target = [] if name.endswith("npz") else ["--target", "label"]
    if name == "null.parquet":
        pq.write_table(pa.table({"a": [1.0, None, 2.0], "label": list("xyx")}), name)
    assert command("value", name, *target, "-o", "out.csv", "-q") == (0, "", "")
    refused = one_line(
        command("value", name, *target, "-o", "out.csv", "--overwrite", "-q", "--strict")[2]
    )
    if name == "missing.csv":
        assert refused.endswith(
            "Try: nearworth value missing.csv --target label -o out.csv --overwrite -q"
        )


ACCEPTED = {
    "bom.csv": b"\xef\xbb\xbf" + GOOD.encode(),
    "latin.csv": GOOD.replace("x", "café").encode("latin-1"),
    "unicode.csv": (
        (
            'größe,名前,label\n1,"two\nlines",甲\n2,"a ""b""",乙\n'
            '3,"two\nlines",甲\n4,"a ""b""",乙\n'
        ).encode()
    ),
    "semicolons.csv": GOOD.replace(",", ";").encode(),
    "commas.csv": b"a;b;label\n1,5;2;x\n2,25;1;y\n3,5;2;x\n-4,5;1;y\n",
    "returns.csv": GOOD.replace("\n", "\r\n").encode(),
    "tabs.tsv": GOOD.replace(",", "\t").encode(),
    "signs.csv": GOOD.replace("x", "+").replace("y", "-").encode(),
    "good.parquet": parquet(),
    "good.feather": arrow(),
    "good.npz": npz(X=X, y=Y),
    "named.npz": npz(features=X, labels=Y),
    "packed.csv.gz": gzip.compress(GOOD.encode()),
    "lines.jsonl": b"".join(
        f'{{"a": {i}, "b": {i % 2}, "label": "{"xy"[i % 2]}"}}\n'.encode() for i in range(4)
    ),
    "array.json": (
        b'[{"a": 1, "label": "x"}, {"a": 2, "label": "y"}, {"a": 3, "label": "x"}, {"a": 4,'
        b' "label": "y"}]'
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(command, tmp_path, name):
    (tmp_path / name).write_bytes(ACCEPTED[name])
    target = [] if name.endswith("npz") else ["--target", "label"]
    code, out, _ = command("value", name, *target, "-k", "1", "-q")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == (6 if name.endswith("npz") else 4)
    assert all(abs(float(row["value"])) <= 1 for row in rows)


def test_decimal_commas_are_numbers(command, tmp_path):
    (tmp_path / "a.csv").write_bytes(ACCEPTED["commas.csv"])
    _, _, err = command("value", "a.csv", "--target", "label", "--dry-run")
    assert "decimal commas" in err
    assert "a: number, standardised" in err


def test_a_few_strange_cells_among_numbers_are_missing(command, tmp_path, rng):
    cells = [f"{x:.3f}" for x in rng.normal(size=100)]
    cells[17] = "?"
    write_csv(tmp_path / "a.csv", {"a": cells, "label": ["x", "y"] * 50})
    cells[19] = "broken"
    write_csv(tmp_path / "a.csv", {"a": cells, "label": ["x", "y"] * 50})
    _, _, err = command("value", "a.csv", "-t", "label", "--dry-run")
    assert "and marked (2)" in err


def test_ten_thousand_columns(command, tmp_path, rng):
    wide = rng.normal(size=(20, 10_000)).round(2)
    write_csv(
        tmp_path / "wide.csv",
        {f"c{i}": wide[:, i] for i in range(10_000)} | {"y": np.arange(20) % 2},
    )
    code, out, err = command("value", "wide.csv", "-t", "y", "-o", "v.csv")
    assert (code, out) == (0, "")
    assert len(err.splitlines()) < 70


def test_many_columns_are_few_lines(command, tmp_path, rng):
    columns = {f"p{i}": rng.normal(size=12) for i in range(50)} | {"town": list("ab") * 6}
    columns |= {f"q{i}": rng.normal(size=12) for i in range(3)} | {"label": list("ab") * 6}
    write_csv(tmp_path / "a.csv", columns)
    _, _, err = command("value", "a.csv", "-t", "label", "--dry-run", "--ignore", "p1?")
    lines = [line.strip() for line in err.splitlines()]
    assert lines[1:7] == [
        "p0 ... p49 (40 columns): number, standardised",
        "town: 2 categories, one 0/1 column each",
        *[f"q{i}: number, standardised" for i in range(3)],
        "p10 ... p19 (10 columns): left out: --ignore",
    ]
    _, _, err = command("value", "a.csv", "-t", "label", "--dry-run", "--features", "p*")
    assert "p0 ... p49 (50 columns): number, used as it is" in err


def test_dry_run_stops_before_work(command, tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng)[0])
    code, out, err = command(
        "audit", "train.csv", "-t", "species", "--id", "name", "--dry-run", "-o", "o.csv"
    )
    assert (code, out) == (0, "")
    assert "length: number, standardised" in err
    assert "Dry run" in err
    assert not Path("o.csv").exists()


def test_target_is_never_guessed(command, tmp_path):
    (tmp_path / "a.csv").write_text(GOOD)
    code, _, err = command("audit", "a.csv")
    assert code == 2
    assert "--target" in one_line(err)
    assert "'label'" in err


def test_names_that_are_nearly_right(command, tmp_path, rng):
    names = [f"mean {i}" for i in range(30)]
    columns = {name: rng.normal(size=12) for name in names} | {"diagnosis": list("ab") * 6}
    write_csv(tmp_path / "a.csv", columns)
    line = one_line(command("audit", "a.csv", "-t", "Diagnosis")[2])
    assert "'mean 0'" in line
    assert "'mean 11' and 19 more. Did you mean 'diagnosis'?" in line
    assert "Did you mean" not in one_line(command("audit", "a.csv", "-t", "price")[2])
    for option in ("--features", "--ignore"):
        line = one_line(command("audit", "a.csv", "-t", "diagnosis", option, "mean")[2])
        assert "Did you mean 'mean*'?" in line
        assert line.endswith(f"Try: nearworth audit a.csv -t diagnosis {option} 'mean*'")
    assert "Did you mean '*9*'?" in one_line(
        command("audit", "a.csv", "-t", "diagnosis", "--features", "9")[2]
    )


def test_row_numbers_are_left_out(command, tmp_path, rng):
    columns = {
        "row_no": rng.permutation(12) + 5,
        "count": [1, *range(1, 12)],
        "size": rng.normal(size=12),
    }
    write_csv(tmp_path / "a.csv", columns | {"label": list("ab") * 6})
    _, _, err = command("value", "a.csv", "-t", "label", "--dry-run")
    assert "row_no: left out: it numbers the rows" in err
    assert "count: number, standardised" in err


def test_amounts_as_classes_are_doubted(command, tmp_path, rng):
    price = np.repeat(np.arange(25) * 100, 2)
    size = rng.normal(size=50)
    write_csv(tmp_path / "a.csv", {"size": size, "price": price})
    np.savez("a.npz", X=size[:, None], y=price)
    for arguments in (["a.csv", "-t", "price"], ["a.npz"]):
        assert (
            "25 distinct numbers: taken as amounts" in command("value", *arguments, "--dry-run")[2]
        )
        assert "amounts" not in command("value", *arguments, "--dry-run", "--strict")[2]
        assert "amounts" not in command("value", *arguments, "--dry-run", "--task", "regression")[2]
    np.savez("b.npz", X=rng.normal(size=(250, 2)), y=np.repeat(np.arange(25), 10))
    assert "amounts" not in command("value", "b.npz", "--dry-run")[2]


def test_arrays_and_embeddings(command, tmp_path, rng):
    X = rng.normal(size=(40, 3))
    y = np.arange(40) % 2
    np.savez("a.npz", X=X, y=y)
    assert command("value", "a.npz", "-o", "v.csv", "-q")[0] == 0
    expected = nw.KNNShapley(5).fit(X, y).value().values
    np.testing.assert_allclose(read("v.csv").table["value"], expected, rtol=1e-12)
    pq.write_table(pa.table({"emb": X.tolist(), "y": y, "note": ["x"] * 40}), "a.parquet")
    assert command("value", "a.parquet", "-t", "y", "-o", "w.csv", "-q")[0] == 0
    np.testing.assert_allclose(read("w.csv").table["value"], expected, rtol=1e-12)
    parts = {f"emb_{i}": X[:, i] for i in range(3)}
    pq.write_table(pa.table(parts | {"y": y, "other": rng.normal(size=40)}), "b.parquet")
    assert (
        command("value", "b.parquet", "-t", "y", "--features", "emb_*", "-o", "u.csv", "-q")[0] == 0
    )
    np.testing.assert_allclose(read("u.csv").table["value"], expected, rtol=1e-12)
    np.save("X.npy", X)
    np.save("y.npy", y)
    assert command("value", "X.npy", "-t", "y.npy", "-o", "t.csv", "-q")[0] == 0
    assert "no labels" in one_line(command("value", "X.npy", "-q")[2])


def test_regression(command, tmp_path, rng):
    X = rng.normal(size=(60, 2))
    write_csv(tmp_path / "a.csv", {"a": X[:, 0], "b": X[:, 1], "price": X.sum(axis=1)})
    assert (
        command("value", "a.csv", "-t", "price", "--task", "regression", "-o", "v.csv", "-q")[0]
        == 0
    )
    assert command("value", "a.csv", "-t", "price", "-o", "w.csv", "-q")[0] == 0
    assert Path("v.csv").read_bytes() == Path("w.csv").read_bytes()
    line = one_line(command("value", "a.csv", "-t", "price", "-q", "--task", "classification")[2])
    assert line.endswith(
        "Use the task regression. Try: nearworth value a.csv -t price -q --task regression"
    )
    assert "needs numbers" in one_line(_text_regression(command, tmp_path))


def _text_regression(command, tmp_path):
    (tmp_path / "t.csv").write_text(GOOD)
    return command("value", "t.csv", "-t", "label", "--task", "regression", "-q")[2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"length": "size"},
            "columns differ from training. Missing: ['length']; further: ['size']",
        ),
        ({"species": "kind"}, "no column 'species'"),
    ],
)
def test_validation_with_other_names(command, tmp_path, rng, change, message):
    columns, _ = flowers(rng)
    write_csv(tmp_path / "train.csv", columns)
    write_csv(
        tmp_path / "val.csv", {change.get(name, name): cells for name, cells in columns.items()}
    )
    code, _, err = command(
        "value", "train.csv", "-t", "species", "--id", "name", "--validation", "val.csv", "-q"
    )
    assert code == 2
    line = one_line(err)
    assert message in line
    assert "val.csv" in line


def test_validation_in_another_order_is_the_same(command, tmp_path, rng):
    columns, _ = flowers(rng)
    write_csv(tmp_path / "train.csv", columns)
    write_csv(tmp_path / "val.csv", columns)
    write_csv(tmp_path / "turned.csv", dict(reversed(columns.items())))
    arguments = [
        "audit",
        "train.csv",
        "-t",
        "species",
        "--id",
        "name",
        "--fraction",
        "0.2",
        "-q",
        "--validation",
    ]
    said = [command(*arguments, name) for name in ("val.csv", "turned.csv")]
    assert said[0] == said[1]
    assert said[0][0] == 0


def test_validation_of_another_type(command, tmp_path, rng):
    columns, _ = flowers(rng)
    write_csv(tmp_path / "train.csv", columns)
    write_csv(tmp_path / "val.csv", columns | {"length": columns["garden"]})
    code, _, err = command(
        "value", "train.csv", "-t", "species", "--id", "name", "--validation", "val.csv", "-q"
    )
    assert code == 2
    assert "'length' holds cells of type number in training but text" in one_line(err)
    np.savez("a.npz", X=X, y=Y)
    np.savez("b.npz", X=X[:, :1], y=Y)
    np.savez("c.npz", X=np.where(X == 3, np.inf, X), y=Y)
    for other, message in (
        ("b.npz", "1 numbers, but 2 in a.npz"),
        ("c.npz", "c.npz: X"),
        ("val.csv", "both be"),
    ):
        assert message in one_line(command("value", "a.npz", "--validation", other, "-q")[2])
