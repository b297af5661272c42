"""What is written: complete or not at all, never over other files unasked, inert in
spreadsheets.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.command_line import (
    GOOD,
    START,
    WRONG,
    environment,
    flowers,
    installed,
    one_line,
    write_csv,
)
from nearworth.tables.read import read


def test_formats_and_json(command, tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng, wrong=WRONG)[0])
    for name in ("v.parquet", "v.feather", "v.tsv", "v.csv"):
        assert command(
            "value", "train.csv", "-t", "species", "--ignore", "name", "-o", name, "-q"
        ) == (0, "", "")
        assert read(name).table.num_rows == 90
    assert (
        command("value", "train.csv", "-t", "species", "--ignore", "name", "-o", "v.json", "-q")[0]
        == 0
    )
    assert len(json.loads(Path("v.json").read_text())) == 90
    code, out, _ = command("audit", "train.csv", "-t", "species", "--ignore", "n*", "--json", "-q")
    summary = json.loads(out)
    assert (code, summary["command"], summary["n_train"]) == (0, "audit", 90)
    assert len(summary["rows"]) == summary["n_suspects"]
    code, out, _ = command(
        "value", "train.csv", "-t", "species", "--ignore", "n*", "--json", "-q", "-o", "w.csv"
    )
    assert "rows" not in json.loads(out)


def test_existing_files_stay_unless_forced(command, tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng)[0])
    (tmp_path / "out.csv").write_text("precious")
    arguments = ["value", "train.csv", "-t", "species", "--id", "name", "-o", "out.csv", "-q"]
    code, _, err = command(*arguments)
    assert code == 2
    assert "--overwrite" in one_line(err)
    assert Path("out.csv").read_text() == "precious"
    assert command(*arguments, "--overwrite")[0] == 0
    assert Path("out.csv").read_text() != "precious"


def names_of(file):
    """Other names of a file in the folder `elsewhere`: relative, absolute, a symbolic and a hard
    link.
    """
    Path("elsewhere").mkdir()
    symbolic = Path("elsewhere") / f"symbolic{file.suffix}"
    hard = Path("elsewhere") / f"hard{file.suffix}"
    symbolic.symlink_to(file.absolute())
    os.link(file, hard)
    return [
        str(file),
        f"./{file}",
        f"elsewhere/../{file}",
        str(file.absolute()),
        str(symbolic),
        str(hard),
    ]


@pytest.mark.parametrize("what", ["value", "audit", "report"])
@pytest.mark.parametrize("role", ["train", "validation"])
def test_an_output_that_is_an_input_is_never_replaced(command, tmp_path, rng, what, role):
    write_csv("train.csv", flowers(rng)[0])
    shutil.copy("train.csv", "validation.csv")
    file = Path(f"{role}.csv")
    before = file.read_bytes()
    if what == "report":  # writes .html only, so an input can be in its way by a link only
        Path("page.html").symlink_to(file)
        names = ["page.html"]
    else:
        names = names_of(file)
    arguments = [
        what,
        "train.csv",
        "-t",
        "species",
        "--id",
        "name",
        "--validation",
        "validation.csv",
        "-q",
        "--overwrite",
    ]
    for name in names:
        code, out, err = command(*arguments, "-o", name)
        assert (code, out) == (2, ""), name
        assert f"{name}: is one of the files that data are read from" in one_line(err)
        assert file.read_bytes() == before
        assert Path(name).samefile(file)


def test_an_output_that_only_looks_like_an_input_is_replaced(command, tmp_path, rng):
    write_csv("train.csv", flowers(rng)[0])
    Path("folder").mkdir()
    for name in ("folder/train.csv", "copy.csv"):  # same name, same content, another file
        shutil.copy("train.csv", name)
        assert (
            command(
                "value",
                "train.csv",
                "-t",
                "species",
                "--id",
                "name",
                "-q",
                "--overwrite",
                "-o",
                name,
            )[0]
            == 0
        )
        assert Path(name).read_text().startswith('"row"')


def test_apply_never_replaces_its_decisions(command, tmp_path):
    Path("t.csv").write_text("a,label\n1,x\n2,y\n")
    decisions = Path("d.csv")
    decisions.write_text("row,target,given,decision,label\n0,label,x,relabel,y\n")
    before = decisions.read_bytes()
    for name in names_of(decisions):
        code, _, err = command("apply", "d.csv", "t.csv", "-o", name, "--overwrite")
        assert code == 2
        assert "read from" in one_line(err)
        assert decisions.read_bytes() == before
    assert (
        command("apply", "d.csv", "t.csv", "-o", "t.csv", "--overwrite", "-q")[0] == 0
    )  # corrected in place, if forced
    assert Path("t.csv").read_text() == "a,label\n1,y\n2,y\n"


def without_power(*arguments, cwd):
    """As `installed`, but root too must keep to permissions."""
    if os.getuid():
        return installed(*arguments, cwd=cwd)
    if not shutil.which("setpriv"):
        pytest.skip("root may do everything, and there is no setpriv to make it less")
    drop = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    return subprocess.run(
        [*drop, *START, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=environment(),
    )


def test_no_permission(tmp_path):
    (tmp_path / "good.csv").write_text(GOOD)
    (tmp_path / "secret.csv").write_text(GOOD)
    (tmp_path / "secret.csv").chmod(0)
    done = without_power("value", "secret.csv", "-t", "label", cwd=tmp_path)
    assert done.returncode == 2
    assert "secret.csv: is not a CSV file that can be read: Permission denied" in one_line(
        done.stderr
    )
    (tmp_path / "closed").mkdir(mode=0o500)
    done = without_power("value", "good.csv", "-t", "label", "-o", "closed/v.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert "closed/v.csv: no permission to write" in one_line(done.stderr)


def test_directories_and_absent_files(command, tmp_path):
    assert "directory" in one_line(command("value", str(tmp_path), "-t", "x")[2])
    assert "no such file" in one_line(command("value", "absent.csv", "-t", "x")[2])
    assert "absent.trec: there is no such file." in one_line(
        command("retrieval", "absent.trec", "q.txt")[2]
    )
    (tmp_path / "a.csv").write_text(GOOD)
    (tmp_path / "dir.csv").mkdir()
    assert "is a directory" in one_line(
        command("value", "a.csv", "-t", "label", "-o", "dir.csv")[2]
    )
    assert "no folder" in one_line(command("value", "a.csv", "-t", "label", "-o", "none/v.csv")[2])
    assert command("report", "a.csv", "-t", "label")[0] == 0
    assert Path("a-report.html").stat().st_size > 10_000
    assert (
        command("report", "a.csv", "-t", "label")[0] == 0
    )  # replaces the page of the same command
    Path("a-report.html").write_text("what somebody else wrote")
    assert "a-report.html" in one_line(command("report", "a.csv", "-t", "label")[2])
    assert Path("a-report.html").read_text() == "what somebody else wrote"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_output_is_one_line(tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng)[0])
    with open("/dev/full", "w") as full:
        done = installed(
            "value", "train.csv", "-t", "species", "--id", "name", "-q", cwd=tmp_path, stdout=full
        )
    assert done.returncode == 2
    assert "No space left" in one_line(done.stderr)


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 64 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
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
        ["audit", *data, "--fraction", "1", "-o", "disk/s.json"],
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
        code, out, err = command(
            "value", "train.csv", "-t", "species", "--id", "name", "-o", "out.csv", "-q"
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (code, out) == (2, "")
    assert "out.csv: could not be written" in one_line(err)
    assert [p.name for p in tmp_path.iterdir()] == ["train.csv"]


def test_formulas_stay_inert_in_ids_and_labels(command, tmp_path, rng):
    columns, _ = flowers(rng, wrong=WRONG)
    columns["name"][4] = '=HYPERLINK("http://evil")'
    columns["species"] = [{"iris": "@iris"}.get(s, s) for s in columns["species"]]
    write_csv(tmp_path / "train.csv", columns)
    code, out, _ = command(
        "audit", "train.csv", "-t", "species", "--id", "name", "--fraction", "0.5", "-q"
    )
    assert code == 0
    cells = [cell for row in csv.reader(out.splitlines()) for cell in row]
    assert '\'=HYPERLINK("http://evil")' in cells
    assert "'@iris" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "@"))]


HOSTILE = [
    "=1+2",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "'=1",
    "''=1",
    "\uff1d1",
    "-A1",
]


HARMLESS = ["-1.5", "-1,5", "+3e-4", "-5%", "-inf", "-", "+", "'x", "plain", "a\tb", 'q"uote', ""]


def runs(cell):
    """Whether a spreadsheet would take the cell for a formula (beyond a plain number)."""
    return (
        cell[:1] in set("=+-@\t\r\n\uff1d")
        and cell not in HARMLESS
        and not re.fullmatch(r"[+-][\d.e+-]+", cell)
    )


@pytest.mark.parametrize("kind", ["string", "large", "dictionary"])
@pytest.mark.parametrize("what", ["value", "audit"])
def test_cells_stay_inert_and_come_back(command, tmp_path, what, kind):
    cells = pa.array(HOSTILE + HARMLESS)
    cells = {
        "string": cells,
        "large": cells.cast(pa.large_string()),
        "dictionary": cells.dictionary_encode(),
    }[kind]
    n = len(cells)
    labels = [("=bad", "+")[i % 2] for i in range(n)]
    pq.write_table(
        pa.table({"=name": cells, "a": np.arange(n) * 1.0, "label": labels}), "t.parquet"
    )
    chosen = ["--fraction", "1"] if what == "audit" else []
    for suffix, delimiter in ((".csv", ","), (".tsv", "\t")):
        output = f"out{suffix}"
        assert (
            command(what, "t.parquet", "-t", "label", "--id", "=name", "-o", output, "-q", *chosen)[
                0
            ]
            == 0
        )
        with open(output, newline="") as file:
            written = [cell for row in csv.reader(file, delimiter=delimiter) for cell in row]
        assert [cell for cell in written if runs(cell)] == []
        table = read(output, text_only=True).table
        assert table.column_names[1].lstrip("'") == "=name"
        found = dict(
            zip(map(int, table["row"].to_pylist()), table.column(1).to_pylist(), strict=True)
        )
        assert [found[i] for i in range(n)] == HOSTILE + HARMLESS


def test_apply_makes_what_it_writes_inert(command, tmp_path):
    cells = HOSTILE + HARMLESS
    labels = ["a" for _ in cells]
    write_csv(tmp_path / "t.csv", {"a": cells, "n": range(-len(cells), 0), "label": labels})
    decisions = [
        {"row": r, "given": "a", "decision": "relabel", "label": cell}
        for r, cell in enumerate(cells)
    ]
    Path("d.json").write_text(json.dumps({"target": "label", "decisions": decisions}))
    assert command("apply", "d.json", "t.csv", "-o", "c.csv", "-q") == (0, "", "")
    assert command("apply", "d.json", "t.csv", "-o", "c.tsv", "-q") == (0, "", "")
    for name, inert in (("c.csv", [2]), ("c.tsv", [0, 1, 2])):  # another delimiter: all is written
        with open(name, newline="") as file:
            written = list(csv.reader(file, delimiter="\t" if name.endswith(".tsv") else ","))[1:]
        assert [row[column] for row in written for column in inert if runs(row[column])] == []
        assert [row[1] for row in written] == [str(n) for n in range(-len(cells), 0)]
        assert read(name, text_only=True).table["label"].to_pylist() == cells
    with open("c.csv", newline="") as file:
        assert [row[0] for row in csv.reader(file)][1:] == cells


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
