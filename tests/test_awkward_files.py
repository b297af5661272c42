"""Files as people have them: each either works or ends in one clear line, and nothing is left behind."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from command_line import START, environment, flowers, installed, one_line, write_csv
from nearworth.tables.read import read

GOOD = "a,b,label\n1,2,x\n2,1,y\n3,2,x\n4,1,y\n"
ROWS = pa.table({"a": [1.0, 2.0, 3.0, 4.0], "b": [2.0, 1.0, 2.0, 1.0], "label": ["x", "y", "x", "y"]})


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


X, Y = np.arange(12.0).reshape(6, 2), np.arange(6) % 2
REFUSED = {
    "empty.csv": (b"", "is empty"),
    "blank.csv": (b"\n\n  \n", "is empty"),
    "header.csv": (b"a,b,label\n", "no rows"),
    "onerow.csv": (b"a,b,label\n1,2,x\n", "one row only"),
    "short.csv": (GOOD.encode() + b"1,2\n", "row 4 .* has 2 columns where the header has 3"),
    "long.csv": (GOOD.encode() + b"1,2,x,4\n", "row 4 .* has 4 columns"),
    "openquote.csv": (GOOD.encode() + b'1,"2,x\n3,4,y\n', "row 4"),
    "binary.csv": (os.urandom(2000).replace(b"\n", b"") + b"\x00", "binary|is "),
    "nul.csv": (b"a,b,label\n1,\x002,x\n", "NUL"),
    "utf16.csv": (GOOD.encode("utf-16"), "UTF-16"),
    "html.csv": (b"<html><body>no</body></html>", "web page"),
    "json.csv": (b'{"a": [1, 2], "label": 3}\n', "JSON"),
    "packed.csv": (gzip.compress(GOOD.encode()), "gzip"),
    "packed.csv.gz": (gzip.compress(GOOD.encode()), "unpack it first"),
    "book.xlsx": (b"PK\x03\x04rest", "workbook"),
    "book.csv": (b"PK\x03\x04rest", "Excel"),
    "noextension": (GOOD.encode(), "extension '' is not known"),
    "notarget.csv": (b"a,b\n1,2\n", "no column 'label'"),
    "constant.csv": (b"a,b,label\n1,2,x\n2,3,x\n", "one class"),
    "distinct.csv": (b"a,b,label\n1,2,x\n2,3,y\n3,4,z\n", "different in each"),
    "missing.csv": (b"a,b,label\n1,,x\n2,3,y\n3,4,x\n", "missing value in column 'b' at row 0"),
    "nan.csv": (b"a,b,label\n1,nan,x\n2,3,y\n3,4,x\n", "missing value"),
    "infinite.csv": (b"a,b,label\n1,inf,x\n2,3,y\n3,4,x\n", "infinite at row 0"),
    "overflow.csv": (b"a,b,label\n1,1e400,x\n2,3,y\n3,4,x\n", "infinite at row 0"),
    "nolabel.csv": (b"a,b,label\n1,2,\n2,3,y\n3,4,x\n", "target 'label' is missing at row 0"),
    "blanklabel.csv": (b'a,b,label\n1,2," "\n2,3,y\n3,4,x\n', "target 'label' is missing at row 0"),
    "twice.csv": (b"a,a,label\n1,2,x\n2,3,y\n", "more than once"),
    "fractions.csv": (b"a,b,label\n1,2,0.5\n2,3,1.5\n3,4,0.5\n", "--task regression"),
    "onlylabel.csv": (b"label\nx\ny\nx\n", "no column is left"),
    "same.csv": (b"a,label\n1,x\n1,y\n1,x\n", "no column is left"),
    "broken.parquet": (b"nonsense", "Parquet"),
    "cut.parquet": (parquet()[:-20], "Parquet"),
    "norows.parquet": (parquet(ROWS.slice(0, 0)), "no rows"),
    "null.parquet": (parquet(pa.table({"a": [1.0, None], "label": list("xy")})), "missing value .* 'a' at row 1"),
    "lists.parquet": (parquet(pa.table({"a": [[1.0, 2.0], [1.0], [2.0, 2.0]], "label": list("xyx")})), "row 1 holds 1"),
    "records.parquet": (parquet(pa.table({"a": [{"q": 1}, {"q": 2}, {"q": 3}], "label": list("xyx")})), "--ignore 'a'"),
    "cut.feather": (arrow()[:50], "Feather"),
    "list.npz": (b"nonsense", "numpy"),
    "cut.npz": (npz(X=X, y=Y)[:-30], "numpy"),
    "other.npz": (npz(Z=X), "needs `X`"),
    "nan.npz": (npz(X=np.where(X == 3, np.nan, X), y=Y), "NaN at row 1, column 1"),
    "ynan.npz": (npz(X=X, y=np.where(Y == 1, np.nan, Y)), "NaN or infinite at row 1"),
    "short.npz": (npz(X=X, y=Y[:2]), "one label per row"),
    "objects.npz": (npz(X=X, y=np.array(["a", None] * 3, dtype=object)), "pickled"),
    "text.npy": (GOOD.encode(), "not a numpy array"),
    "flat.npy": (npy(Y), "two dimensions"),
    "objects.npy": (npy(np.array([["a"], [None]], dtype=object)), "pickled"),
    "cut.npy": (npy(X)[:100], "numpy"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("what", ["value", "detect", "report"])
def test_refused_in_one_line(command, tmp_path, name, what):
    content, message = REFUSED[name]
    (tmp_path / name).write_bytes(content)
    target = [] if name.endswith(("npz", "npy")) else ["--target", "label"]
    code, out, err = command(what, name, *target, "-o", "out.html" if what == "report" else "out.csv", "-q")
    assert (code, out) == (2, "")
    line = one_line(err)
    assert name in line
    assert re.search(message, line), line
    assert [p.name for p in tmp_path.iterdir()] == [name]


ACCEPTED = {
    "bom.csv": b"\xef\xbb\xbf" + GOOD.encode(),
    "latin.csv": GOOD.replace("x", "café").encode("latin-1"),
    "unicode.csv": 'größe,名前,label\n1,"two\nlines",甲\n2,"a ""b""",乙\n3,"two\nlines",甲\n4,"a ""b""",乙\n'.encode(),
    "semicolons.csv": GOOD.replace(",", ";").encode(),
    "commas.csv": b"a;b;label\n1,5;2;x\n2,25;1;y\n3,5;2;x\n-4,5;1;y\n",
    "returns.csv": GOOD.replace("\n", "\r\n").encode(),
    "tabs.tsv": GOOD.replace(",", "\t").encode(),
    "signs.csv": GOOD.replace("x", "+").replace("y", "-").encode(),
    "good.parquet": parquet(),
    "good.feather": arrow(),
    "good.npz": npz(X=X, y=Y),
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


def test_numbers_with_a_few_strange_cells_are_named(command, tmp_path, rng):
    cells = [f"{x:.3f}" for x in rng.normal(size=100)]
    cells[17] = "?"
    write_csv(tmp_path / "a.csv", {"a": cells, "label": ["x", "y"] * 50})
    line = one_line(command("value", "a.csv", "-t", "label", "-q")[2])
    assert "Most are numbers, but not '?' (row 17)" in line


def test_ten_thousand_columns(command, tmp_path, rng):
    wide = rng.normal(size=(20, 10_000)).round(2)
    write_csv(tmp_path / "wide.csv", {f"c{i}": wide[:, i] for i in range(10_000)} | {"y": np.arange(20) % 2})
    code, out, err = command("value", "wide.csv", "-t", "y", "-o", "v.csv")
    assert (code, out) == (0, "")
    assert len(err.splitlines()) < 70


def without_power(*arguments, cwd):
    """As `installed`, but root too must keep to permissions."""
    if os.getuid():
        return installed(*arguments, cwd=cwd)
    if not shutil.which("setpriv"):
        pytest.skip("root may do everything, and there is no setpriv to make it less")
    drop = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    return subprocess.run(
        [*drop, *START, *arguments], capture_output=True, text=True, check=False, cwd=cwd, env=environment()
    )


def test_no_permission(tmp_path):
    (tmp_path / "good.csv").write_text(GOOD)
    (tmp_path / "secret.csv").write_text(GOOD)
    (tmp_path / "secret.csv").chmod(0)
    done = without_power("value", "secret.csv", "-t", "label", cwd=tmp_path)
    assert done.returncode == 2
    assert "secret.csv: no permission to read" in one_line(done.stderr)
    (tmp_path / "closed").mkdir(mode=0o500)
    done = without_power("value", "good.csv", "-t", "label", "-o", "closed/v.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert "closed/v.csv: no permission to write" in one_line(done.stderr)


def test_directories_and_absent_files(command, tmp_path):
    assert "directory" in one_line(command("value", str(tmp_path), "-t", "x")[2])
    assert "no such file" in one_line(command("value", "absent.csv", "-t", "x")[2])
    (tmp_path / "a.csv").write_text(GOOD)
    (tmp_path / "dir.csv").mkdir()
    assert "is a directory" in one_line(command("value", "a.csv", "-t", "label", "-o", "dir.csv")[2])
    assert "no folder" in one_line(command("value", "a.csv", "-t", "label", "-o", "none/v.csv")[2])
    assert "Missing option '-o'" in one_line(command("report", "a.csv", "-t", "label")[2])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_output_is_one_line(tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng)[0])
    with open("/dev/full", "w") as full:
        done = installed("value", "train.csv", "-t", "species", "--id", "name", "-q", cwd=tmp_path, stdout=full)
    assert done.returncode == 2
    assert "No space left" in one_line(done.stderr)


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 64 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.skipif(not shutil.which("mount"), reason="no mount here")
def test_a_full_disk_is_one_line_and_leaves_nothing(command, small_disk, tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng, n=2400)[0])
    data = ["train.csv", "-t", "species", "--ignore", "name", "-q"]
    decisions = [{"row": 0, "given": "iris", "decision": "skip", "label": "iris"}]
    Path("d.json").write_text(json.dumps({"target": "species", "decisions": decisions}))
    large = {f"column {i}": rng.normal(size=2400).tolist() for i in range(6)}
    write_csv(tmp_path / "wide.csv", flowers(rng, n=2400)[0] | large)
    for arguments in (
        ["value", *data, "-o", "disk/v.csv"],
        ["detect", *data, "--fraction", "1", "-o", "disk/s.json"],
        ["report", *data, "-o", "disk/r.html"],
        ["apply", "d.json", "wide.csv", "-o", "disk/c.csv"],
    ):
        code, out, err = command(*arguments)
        assert (code, out) == (2, ""), arguments
        assert "No space left" in one_line(err)
        assert list(small_disk.iterdir()) == []


def test_an_output_that_does_not_fit_leaves_nothing(command, tmp_path, rng):
    resource = pytest.importorskip("resource")
    write_csv(tmp_path / "train.csv", flowers(rng)[0])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        code, out, err = command("value", "train.csv", "-t", "species", "--id", "name", "-o", "out.csv", "-q")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (code, out) == (2, "")
    assert "out.csv: could not be written" in one_line(err)
    assert [p.name for p in tmp_path.iterdir()] == ["train.csv"]


def test_interrupted(tmp_path, rng):
    np.savez(tmp_path / "a.npz", X=rng.normal(size=(60_000, 64)), y=np.arange(60_000) % 3)
    running = subprocess.Popen(
        [*START, "detect", "a.npz", "-o", "v.csv"], stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment()
    )
    assert "60,000 rows" in running.stderr.readline()
    time.sleep(1.0)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


def test_a_reader_that_has_seen_enough(tmp_path, rng):
    np.savez(tmp_path / "a.npz", X=rng.normal(size=(5_000, 1)), y=np.arange(5_000) % 2)
    with subprocess.Popen(
        [*START, "value", "a.npz", "-q"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env=environment(),
    ) as running:  # fmt: skip
        assert "value" in running.stdout.readline()
        running.stdout.close()
        assert running.wait(timeout=60) == 0
        assert running.stderr.read() == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"length": "size"}, "column 'length' is missing, which training had; it has 'size' instead"),
        ({"species": "kind"}, "no column 'species'"),
    ],
)
def test_validation_with_other_names(command, tmp_path, rng, change, message):
    columns, _ = flowers(rng)
    write_csv(tmp_path / "train.csv", columns)
    write_csv(tmp_path / "val.csv", {change.get(name, name): cells for name, cells in columns.items()})
    code, _, err = command("value", "train.csv", "-t", "species", "--id", "name", "--validation", "val.csv", "-q")
    assert code == 2
    line = one_line(err)
    assert message in line
    assert "val.csv" in line


def test_validation_in_another_order_is_the_same(command, tmp_path, rng):
    columns, _ = flowers(rng)
    write_csv(tmp_path / "train.csv", columns)
    write_csv(tmp_path / "val.csv", columns)
    write_csv(tmp_path / "turned.csv", dict(reversed(columns.items())))
    arguments = ["detect", "train.csv", "-t", "species", "--id", "name", "--fraction", "0.2", "-q", "--validation"]
    said = [command(*arguments, name) for name in ("val.csv", "turned.csv")]
    assert said[0] == said[1]
    assert said[0][0] == 0


def test_validation_of_another_type(command, tmp_path, rng):
    columns, _ = flowers(rng)
    write_csv(tmp_path / "train.csv", columns)
    write_csv(tmp_path / "val.csv", columns | {"length": columns["garden"]})
    code, _, err = command("value", "train.csv", "-t", "species", "--id", "name", "--validation", "val.csv", "-q")
    assert code == 2
    assert "'length' holds numbers in training but text" in one_line(err)
    np.savez("a.npz", X=X, y=Y)
    np.savez("b.npz", X=X[:, :1], y=Y)
    np.savez("c.npz", X=np.where(X == 3, np.inf, X), y=Y)
    for other, message in (("b.npz", "1 numbers, but 2 in a.npz"), ("c.npz", "c.npz: X"), ("val.csv", "both be")):
        assert message in one_line(command("value", "a.npz", "--validation", other, "-q")[2])


HOSTILE = [
    "=1+2", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "\r=1", "\n=1", "'=1", "''=1", "\uff1d1", "-A1",
]  # fmt: skip
HARMLESS = ["-1.5", "-1,5", "+3e-4", "-5%", "-inf", "-", "+", "'x", "plain", "a\tb", 'q"uote', ""]


def runs(cell):
    """Whether a spreadsheet would take the cell for a formula (beyond a plain number)."""
    return cell[:1] in set("=+-@\t\r\n\uff1d") and cell not in HARMLESS and not re.fullmatch(r"[+-][\d.e+-]+", cell)


@pytest.mark.parametrize("kind", ["string", "large", "dictionary"])
@pytest.mark.parametrize("what", ["value", "detect"])
def test_cells_stay_inert_and_come_back(command, tmp_path, what, kind):
    cells = pa.array(HOSTILE + HARMLESS)
    cells = {"string": cells, "large": cells.cast(pa.large_string()), "dictionary": cells.dictionary_encode()}[kind]
    n = len(cells)
    labels = [("=bad", "+")[i % 2] for i in range(n)]
    pq.write_table(pa.table({"=name": cells, "a": np.arange(n) * 1.0, "label": labels}), "t.parquet")
    chosen = ["--fraction", "1"] if what == "detect" else []
    for suffix, delimiter in ((".csv", ","), (".tsv", "\t")):
        output = f"out{suffix}"
        assert command(what, "t.parquet", "-t", "label", "--id", "=name", "-o", output, "-q", *chosen)[0] == 0
        with open(output, newline="") as file:
            written = [cell for row in csv.reader(file, delimiter=delimiter) for cell in row]
        assert [cell for cell in written if runs(cell)] == []
        table = read(output, text_only=True).table
        assert table.column_names[1].lstrip("'") == "=name"
        found = dict(zip(map(int, table["row"].to_pylist()), table.column(1).to_pylist(), strict=True))
        assert [found[i] for i in range(n)] == HOSTILE + HARMLESS


def test_apply_makes_what_it_writes_inert(command, tmp_path):
    cells = HOSTILE + HARMLESS
    labels = ["a" for _ in cells]
    write_csv(tmp_path / "t.csv", {"a": cells, "n": range(-len(cells), 0), "label": labels})
    decisions = [{"row": r, "given": "a", "decision": "relabel", "label": cell} for r, cell in enumerate(cells)]
    Path("d.json").write_text(json.dumps({"target": "label", "decisions": decisions}))
    assert f"{len(HOSTILE)} cells that a spreadsheet would run" in command("apply", "d.json", "t.csv", "-o", "c.csv")[2]
    assert command("apply", "d.json", "t.csv", "-o", "c.tsv", "-q") == (0, "", "")
    for name, inert in (("c.csv", [2]), ("c.tsv", [0, 1, 2])):  # another delimiter: all is written
        with open(name, newline="") as file:
            written = list(csv.reader(file, delimiter="\t" if name.endswith(".tsv") else ","))[1:]
        assert [row[column] for row in written for column in inert if runs(row[column])] == []
        assert [row[1] for row in written] == [str(n) for n in range(-len(cells), 0)]
        assert read(name, text_only=True).table["label"].to_pylist() == cells
    assert command("apply", "d.json", "t.csv", "-o", "raw.csv", "--verbatim", "-q") == (0, "", "")
    for name, column in (("c.csv", 0), ("raw.csv", 0), ("raw.csv", 2)):
        with open(name, newline="") as file:
            assert [row[column] for row in csv.reader(file)][1:] == cells


def test_apply_keeps_decimal_commas(command, tmp_path):
    (tmp_path / "t.csv").write_text("a;price\n1;2,5\n2;-3,25\n")
    decisions = [{"row": 1, "given": "-3.25", "decision": "relabel", "label": "4.75"}]
    Path("d.json").write_text(json.dumps({"target": "price", "decisions": decisions}))
    assert command("apply", "d.json", "t.csv", "-o", "c.csv", "-q") == (0, "", "")
    assert Path("c.csv").read_text() == "a;price\n1;2,5\n2;4,75\n"


def test_lists_have_no_form_in_csv(command, tmp_path):
    pq.write_table(pa.table({"emb": [[1.0], [2.0]], "label": ["x", "y"]}), "t.parquet")
    decisions = [{"row": 0, "given": "x", "decision": "relabel", "label": "y"}]
    Path("d.json").write_text(json.dumps({"target": "label", "decisions": decisions}))
    line = one_line(command("apply", "d.json", "t.parquet", "-o", "c.csv", "-q")[2])
    assert "'emb'" in line
    assert ".parquet" in line
    assert not Path("c.csv").exists()


def test_an_output_that_is_an_input_is_never_replaced(tmp_path):
    train = tmp_path / "train.csv"
    train.write_text("a,label\n" + "".join(f"{i},{i % 2}\n" for i in range(20)))
    before = train.read_bytes()
    for command in ("detect", "value"):
        done = installed(command, "train.csv", "--target", "label", "-o", "./train.csv", "--force", cwd=tmp_path)
        assert done.returncode == 2
        assert "read from" in done.stderr
        assert train.read_bytes() == before
