"""The commands on files as people have them: what goes wrong is one line, and nothing is left behind."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearworth as nw
from nearworth.cli import main
from nearworth.tables.reading import read


@pytest.fixture
def command(capfd, tmp_path, monkeypatch):
    """Run a command in a folder of its own: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        with pytest.raises(SystemExit) as left:
            main(list(arguments), prog_name="nearworth")
        out, err = capfd.readouterr()
        return left.value.code or 0, out, err

    return run


def installed(*arguments, cwd, stdout=subprocess.PIPE, user=None):
    """The command as a process of its own."""
    code = "from nearworth.cli import main; main(prog_name='nearworth')"
    env = os.environ | {"PYTHONPATH": str(Path(nw.__file__).parents[1])}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False,
        cwd=cwd, env=env, user=user,
    )  # fmt: skip


def flowers(rng, n=90, wrong=()):
    """Three clusters with a label each, a category, and names."""
    label = np.arange(n) % 3
    place = rng.normal(size=(n, 2)) * 0.3 + 4.0 * np.column_stack([label, label == 1])
    given = label.copy()
    given[list(wrong)] = (given[list(wrong)] + 1) % 3
    species = np.array(["iris", "rose", "tulip"])
    return {
        "name": [f"flower {i}" for i in range(n)],
        "length": place[:, 0].round(3),
        "width": place[:, 1].round(3),
        "garden": [("north", "south")[i % 2] for i in range(n)],
        "species": species[given].tolist(),
    }, species[label].tolist()


def write_csv(path, columns, delimiter=","):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def one_line(err):
    lines = err.strip().splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("nearworth: ")
    return lines[0]


WRONG = (4, 31, 62)
COLUMNS = "a,b,label\n"
GOOD = COLUMNS + "1,2,x\n2,1,y\n3,2,x\n4,1,y\n"
BAD = {
    "empty.csv": (b"", "is empty"),
    "header.csv": (b"a,b,label\n", "no rows"),
    "ragged.csv": (GOOD.encode() + b"1,2\n", "row 4"),
    "binary.csv": (os.urandom(2000).replace(b"\n", b"") + b"\x00", "binary|is "),
    "html.csv": (b"<html><body>no</body></html>", "web page"),
    "notarget.csv": (b"a,b\n1,2\n", "no column 'label'"),
    "constant.csv": (b"a,b,label\n1,2,x\n2,3,x\n", "one class"),
    "distinct.csv": (b"a,b,label\n1,2,x\n2,3,y\n3,4,z\n", "different in each"),
    "missing.csv": (b"a,b,label\n1,,x\n2,3,y\n3,4,x\n", "missing value in column 'b' at row 0"),
    "nan.csv": (b"a,b,label\n1,nan,x\n2,3,y\n3,4,x\n", "missing value"),
    "infinite.csv": (b"a,b,label\n1,inf,x\n2,3,y\n3,4,x\n", "infinite at row 0"),
    "nolabel.csv": (b"a,b,label\n1,2,\n2,3,y\n3,4,x\n", "target 'label' is missing at row 0"),
    "twice.csv": (b"a,a,label\n1,2,x\n2,3,y\n", "more than once"),
    "fractions.csv": (b"a,b,label\n1,2,0.5\n2,3,1.5\n3,4,0.5\n", "--task regression"),
    "onlylabel.csv": (b"label\nx\ny\nx\n", "no column is left"),
    "broken.parquet": (b"nonsense", "Parquet"),
    "list.npz": (b"nonsense", "numpy"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("what", ["value", "detect"])
def test_bad_files_are_one_line(command, tmp_path, name, what):
    content, message = BAD[name]
    (tmp_path / name).write_bytes(content)
    code, out, err = command(what, name, "--target", "label", "-o", "out.csv", "-q")
    assert code == 2
    assert out == ""
    line = one_line(err)
    assert name in line
    assert re.search(message, line), line
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_directories_permissions_and_absent_files(command, tmp_path):
    assert "directory" in one_line(command("value", str(tmp_path), "-t", "x")[2])
    assert "no such file" in one_line(command("value", "absent.csv", "-t", "x")[2])
    (tmp_path / "secret.csv").write_text(GOOD)
    (tmp_path / "secret.csv").chmod(0)
    root = os.access(tmp_path / "secret.csv", os.R_OK)  # may read everything: ask as nobody
    for folder in [tmp_path, *tmp_path.parents[:2]] if root else []:
        folder.chmod(0o755)
    try:
        done = installed("value", str(tmp_path / "secret.csv"), "-t", "label", cwd="/", user=65534 if root else None)
    except PermissionError:
        pytest.skip("root may read everything, and nobody may not run this Python")
    assert done.returncode == 2
    assert "no permission" in one_line(done.stderr)


def test_target_is_never_guessed(command, tmp_path):
    (tmp_path / "a.csv").write_text(GOOD)
    code, _, err = command("detect", "a.csv")
    assert code == 2
    assert "--target" in one_line(err)
    assert "'label'" in err


def test_usage_is_one_line_too(command):
    for arguments in (["value"], ["value", "a.csv", "--what"], ["detect", "a.csv", "-k", "0"], ["valeu"]):
        code, out, err = command(*arguments)
        assert code == 2
        assert out == ""
        assert "--help" in one_line(err)


def test_value_gives_what_the_api_gives(command, tmp_path, rng):
    columns, _ = flowers(rng)
    write_csv(tmp_path / "train.csv", columns)
    write_csv(tmp_path / "trusted.csv", dict(reversed(flowers(rng, 30)[0].items())))
    code, out, err = command(
        "value", "train.csv", "-t", "species", "--id", "name", "--validation", "trusted.csv", "-o", "values.csv"
    )
    assert (code, out) == (0, "")
    assert "garden: 2 categories" in err
    table = read("values.csv").table
    assert table.column_names == ["row", "name", "value", "standard_error", "rank"]
    assert table["name"].to_pylist() == columns["name"]
    preparer = nw.TablePreparer()
    features = ["length", "width", "garden"]
    X = preparer.fit_transform(read("train.csv").table.select(features))
    other = read("trusted.csv").table
    expected = (
        nw.KNNShapley(5, standard_errors=True)
        .fit(X, columns["species"])
        .value(preparer.transform(other.select(features)), other["species"].to_pylist())
    )
    np.testing.assert_allclose(table["value"], expected.values, rtol=1e-12)
    np.testing.assert_allclose(table["standard_error"], expected.standard_errors, rtol=1e-12)
    order = np.argsort(table["rank"].to_numpy(), kind="stable")
    assert (np.diff(expected.values[order]) <= 1e-15).all()


def test_detect_finds_wrong_labels_and_says_what_they_should_be(command, tmp_path, rng):
    columns, truth = flowers(rng, wrong=WRONG)
    write_csv(tmp_path / "train.csv", columns, delimiter=";")
    code, out, err = command("detect", "train.csv", "-t", "species", "--id", "name", "--fraction", "0.0334")
    assert code == 0
    assert "separated by ';'" in err
    rows = list(csv.DictReader(out.splitlines()))
    assert list(rows[0]) == ["row", "name", "given", "suggested", "quality", "value", "why"]
    assert {int(r["row"]) for r in rows} == set(WRONG)
    assert all(r["suggested"] == truth[int(r["row"])] for r in rows)
    assert all(r["given"] == columns["species"][int(r["row"])] for r in rows)
    assert [float(r["quality"]) for r in rows] == sorted(float(r["quality"]) for r in rows)


def test_formats_and_json(command, tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng, wrong=WRONG)[0])
    for name in ("v.parquet", "v.feather", "v.tsv", "v.csv"):
        assert command("value", "train.csv", "-t", "species", "--ignore", "name", "-o", name, "-q") == (0, "", "")
        assert read(name).table.num_rows == 90
    assert command("value", "train.csv", "-t", "species", "--ignore", "name", "-o", "v.json", "-q")[0] == 0
    assert len(json.loads(Path("v.json").read_text())) == 90
    code, out, _ = command("detect", "train.csv", "-t", "species", "--ignore", "n*", "--json", "-q")
    summary = json.loads(out)
    assert (code, summary["command"], summary["n_train"]) == (0, "detect", 90)
    assert len(summary["rows"]) == summary["n_suspects"]
    code, out, _ = command("value", "train.csv", "-t", "species", "--ignore", "n*", "--json", "-q", "-o", "w.csv")
    assert "rows" not in json.loads(out)


def test_existing_files_stay_unless_forced(command, tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng)[0])
    (tmp_path / "out.csv").write_text("precious")
    arguments = ["value", "train.csv", "-t", "species", "--id", "name", "-o", "out.csv", "-q"]
    code, _, err = command(*arguments)
    assert code == 2
    assert "--force" in one_line(err)
    assert Path("out.csv").read_text() == "precious"
    assert command(*arguments, "--force")[0] == 0
    assert Path("out.csv").read_text() != "precious"


def test_dry_run_stops_before_work(command, tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng)[0])
    code, out, err = command("detect", "train.csv", "-t", "species", "--id", "name", "--dry-run", "-o", "o.csv")
    assert (code, out) == (0, "")
    assert "length: number, standardised" in err
    assert "Dry run" in err
    assert not Path("o.csv").exists()


def test_config_sets_what_the_command_line_does_not(command, tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng, wrong=WRONG)[0])
    (tmp_path / "run.toml").write_text(
        'target = "species"\nid = "name"\n[detect]\nfraction = 0.5\ntrain = "train.csv"\n'
    )
    code, out, _ = command("detect", "--config", "run.toml", "-q")
    assert code == 0
    assert len(out.splitlines()) == 1 + 45
    assert len(command("detect", "--config", "run.toml", "--fraction", "0.1", "-q")[1].splitlines()) == 1 + 9
    (tmp_path / "run.toml").write_text("tarhget = 1\n")
    assert "'tarhget'" in one_line(command("detect", "train.csv", "--config", "run.toml")[2])
    (tmp_path / "run.toml").write_text("target = \n")
    assert "TOML" in one_line(command("detect", "train.csv", "--config", "run.toml")[2])
    assert "No such file" in one_line(command("detect", "train.csv", "--config", "none.toml")[2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"length": "size"}, "column 'length' is missing"),
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


def test_validation_of_another_type(command, tmp_path, rng):
    columns, _ = flowers(rng)
    write_csv(tmp_path / "train.csv", columns)
    write_csv(tmp_path / "val.csv", columns | {"length": columns["garden"]})
    code, _, err = command("value", "train.csv", "-t", "species", "--id", "name", "--validation", "val.csv", "-q")
    assert code == 2
    assert "'length' holds numbers in training but text" in one_line(err)


def test_arrays_and_embeddings(command, tmp_path, rng):
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    np.savez("a.npz", X=X, y=y)
    assert command("value", "a.npz", "-o", "v.csv", "-q")[0] == 0
    expected = nw.KNNShapley(5).fit(X, y).value().values
    np.testing.assert_allclose(read("v.csv").table["value"], expected, rtol=1e-12)
    pq.write_table(pa.table({"emb": X.tolist(), "y": y, "note": ["x"] * 40}), "a.parquet")
    assert command("value", "a.parquet", "-t", "y", "-o", "w.csv", "-q")[0] == 0
    np.testing.assert_allclose(read("w.csv").table["value"], expected, rtol=1e-12)
    parts = {f"emb_{i}": X[:, i] for i in range(3)}
    pq.write_table(pa.table(parts | {"y": y, "other": rng.normal(size=40)}), "b.parquet")
    assert command("value", "b.parquet", "-t", "y", "--features", "emb_*", "-o", "u.csv", "-q")[0] == 0
    np.testing.assert_allclose(read("u.csv").table["value"], expected, rtol=1e-12)
    np.save("X.npy", X)
    np.save("y.npy", y)
    assert command("value", "X.npy", "-t", "y.npy", "-o", "t.csv", "-q")[0] == 0
    assert "no labels" in one_line(command("value", "X.npy", "-q")[2])


def test_ten_thousand_columns(command, tmp_path, rng):
    X = rng.normal(size=(20, 10_000)).round(2)
    write_csv(tmp_path / "wide.csv", {f"c{i}": X[:, i] for i in range(10_000)} | {"y": np.arange(20) % 2})
    code, out, err = command("value", "wide.csv", "-t", "y", "-o", "v.csv")
    assert (code, out) == (0, "")
    assert len(err.splitlines()) < 70


def test_regression(command, tmp_path, rng):
    X = rng.normal(size=(60, 2))
    write_csv(tmp_path / "a.csv", {"a": X[:, 0], "b": X[:, 1], "price": X.sum(axis=1)})
    assert command("value", "a.csv", "-t", "price", "--task", "regression", "-o", "v.csv", "-q")[0] == 0
    assert "--task regression" in one_line(command("value", "a.csv", "-t", "price", "-q")[2])
    assert "needs numbers" in one_line(_text_regression(command, tmp_path))


def _text_regression(command, tmp_path):
    (tmp_path / "t.csv").write_text(GOOD)
    return command("value", "t.csv", "-t", "label", "--task", "regression", "-q")[2]


def test_formulas_stay_inert_in_ids_and_labels(command, tmp_path, rng):
    columns, _ = flowers(rng, wrong=WRONG)
    columns["name"][4] = '=HYPERLINK("http://evil")'
    columns["species"] = [{"iris": "@iris"}.get(s, s) for s in columns["species"]]
    write_csv(tmp_path / "train.csv", columns)
    code, out, _ = command("detect", "train.csv", "-t", "species", "--id", "name", "--fraction", "0.5", "-q")
    assert code == 0
    cells = [cell for row in csv.reader(out.splitlines()) for cell in row]
    assert '\'=HYPERLINK("http://evil")' in cells
    assert "'@iris" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "@"))]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng)[0])
    with open("/dev/full", "w") as full:
        done = installed("value", "train.csv", "-t", "species", "--id", "name", "-q", cwd=tmp_path, stdout=full)
    assert done.returncode == 2
    assert "No space left" in one_line(done.stderr)


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
    code = "from nearworth.cli import main; main(prog_name='nearworth')"
    env = os.environ | {"PYTHONPATH": str(Path(nw.__file__).parents[1])}
    running = subprocess.Popen(
        [sys.executable, "-c", code, "value", "a.npz", "-o", "v.csv"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=env,
    )
    assert "60,000 rows" in running.stderr.readline()
    time.sleep(1.0)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


def test_the_installed_command(tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng)[0])
    done = installed("value", "train.csv", "-t", "species", "--id", "name", cwd=tmp_path)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 91
    assert "Traceback" not in done.stderr


def test_help_is_quick_and_has_examples():
    code = (
        "import sys, time; from nearworth.cli import main\n"
        "try: main(['--help'], prog_name='nearworth')\n"
        "except SystemExit: pass\n"
        "print(time.process_time(), 'numpy' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, heavy = done.stderr.split()
    assert heavy == "False"
    assert float(seconds) < 0.2
    every = [one for command in main.commands.values() for one in getattr(command, "commands", {"": command}).values()]
    assert all("nearworth " in one.help for one in every), [one.name for one in every if "nearworth " not in one.help]


def test_apply_changes_labels_and_nothing_else(command, tmp_path):
    text = 'a,b,label\n1.50,"x, y",cat\n2,=1+2,dog\n3,"line\nbreak",cat\n\n4,z,dog\n'
    (tmp_path / "train.csv").write_text(text)
    (tmp_path / "d.csv").write_text(
        "row,target,given,decision,label\n0,label,cat,relabel,dog\n3,label,dog,confirm,dog\n"
    )
    code, out, err = command("apply", "d.csv", "train.csv", "-o", "clean.csv")
    assert (code, out) == (0, "")
    assert "1 labels changed, 1 confirmed" in err
    assert "1 cells that a spreadsheet would run" in err
    expected = text.replace(',"x, y",cat', ',"x, y",dog').replace("\n\n", "\n")
    assert Path("clean.csv").read_text() == expected.replace("=1+2", "'=1+2")
    before, after = read("train.csv", text_only=True).table, read("clean.csv", text_only=True).table
    assert after.drop_columns("label").equals(before.drop_columns("label"))
    assert command("apply", "d.csv", "train.csv", "-o", "raw.csv", "--verbatim", "-q") == (0, "", "")
    assert Path("raw.csv").read_text() == expected


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        ("row,target,given,decision,label\n0,label,dog,relabel,cat\n", "made on 'dog'"),
        ("row,target,given,decision,label\n9,label,cat,relabel,dog\n", "row 9"),
        ("row,target,given,decision,label\n0,label,cat,explode,dog\n", "'explode'"),
        ("row,target,given,decision,label\n0,other,cat,relabel,dog\n", "no column 'other'"),
        ("row,target,given,decision,label\n0,label,cat,relabel,dog\n0,label,cat,skip,cat\n", "twice"),
        ("row,given\n0,cat\n", "no column 'decision'"),
        ("row,target,given,decision,label\nx,label,cat,relabel,dog\n", "row number"),
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
    made = {"target": "label", "decisions": [{"row": 1, "given": "1", "decision": "relabel", "label": "2"}]}
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


def test_a_checkpoint_is_taken_up_again(command, tmp_path, rng):
    columns, _ = flowers(rng)
    write_csv(tmp_path / "train.csv", columns)
    arguments = ("value", "train.csv", "--target", "species", "--ignore", "name", "--checkpoint", "kept")
    assert command(*arguments, "-o", "first.csv")[0] == 0
    code, _, err = command(*arguments, "-o", "second.csv")
    assert code == 0
    assert "90 of 90 validation points came from kept" in err
    assert (tmp_path / "first.csv").read_bytes() == (tmp_path / "second.csv").read_bytes()
