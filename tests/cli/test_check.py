"""The gate: nothing new passes, something new is named and stops it, in repositories of git as
people use them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import nearworth as nw
from helpers.command_line import environment, flowers, one_line, write_csv
from nearworth.tables.write import locked

ROOT = Path(__file__).parents[2]
CHECK = ["check", "train.csv", "-t", "species"]


@pytest.fixture
def data(tmp_path, rng):
    """Columns in a file, and a function that writes them again."""
    columns, _ = flowers(rng, 150)

    def write(**changed):
        write_csv(tmp_path / "train.csv", columns | changed)
        return columns

    write()
    return write


def accepted(command):
    assert command(*CHECK, "--update")[0] == 0


def with_wrong(columns, row):
    """One clear case labelled wrong."""
    species = list(columns["species"])
    species[row] = "tulip" if species[row] != "tulip" else "iris"
    return species


def longer(columns, *rows, **changed):
    """The columns with further rows like these, whose cells may be others."""
    return {
        name: [*cells, *(changed.get(name, cells[row]) for row in rows)]
        for name, cells in columns.items()
    }


def test_nothing_new_passes_and_a_wrong_label_is_named(command, data):
    accepted(command)
    assert command(*CHECK)[0] == 0
    data(species=with_wrong(data(), 40))
    code, out, err = command(*CHECK)
    assert code == 3
    assert out.splitlines()[0].split()[:3] == ["suspect", "row", "40"]
    assert "looks like" in out
    assert "accept them with --update" in err
    assert command(*CHECK, "--max-new-suspects", "1")[0] == 0
    accepted(command)
    assert command(*CHECK)[0] == 0


def test_without_a_baseline_everything_is_new(command, data, tmp_path):
    columns = data()
    assert command(*CHECK)[0] == 0
    write_csv(tmp_path / "train.csv", longer(columns, 3))
    code, out, _ = command(*CHECK)
    assert code == 3
    assert [line.split()[:3] for line in out.splitlines()[:2]] == [
        ["duplicate", "row", "3"],
        ["duplicate", "row", "150"],
    ]


@pytest.fixture
def prices(tmp_path, rng):
    """Rows with a number to predict, and a function that writes them with other targets and further
    rows.
    """
    size = rng.uniform(20, 200, 150).round(1)
    age = rng.uniform(0, 50, 150).round(1)
    columns = {
        "size": size,
        "age": age,
        "price": (10 * size - 8 * age + 20 * rng.normal(size=150)).round(2),
    }

    def write(row=None, target=None, further=()):
        changed = {name: cells.tolist() for name, cells in columns.items()}
        if row is not None:
            changed["price"][row] = target
        for cells in further:
            for name, cell in zip(changed, cells, strict=True):
                changed[name].append(cell)
        write_csv(tmp_path / "train.csv", changed)

    write()
    return write


CHECK_NUMBERS = ["check", "train.csv", "-t", "price", "--task", "regression"]


def test_a_new_number_to_predict_is_no_unknown_label(command, prices, tmp_path):
    assert command(*CHECK_NUMBERS, "--update")[0] == 0
    assert json.loads((tmp_path / "nearworth.lock").read_text())["labels"] == []
    prices(further=[(100.05, 25.05, 801.23), (60.05, 10.05, 521.47)])
    code, out, _ = command(*CHECK_NUMBERS)
    assert code == 0
    assert out.strip() == "train.csv: passed, 0 new findings"


def test_a_wrong_number_to_predict_is_named(command, prices):
    assert command(*CHECK_NUMBERS, "--update")[0] == 0
    prices(row=40, target=90_000.0)
    code, out, _ = command(*CHECK_NUMBERS)
    assert code == 3
    kind, _, row, _, given = out.splitlines()[0].split()[:5]
    assert (kind, row, given) == ("suspect", "40", "90000.0,")
    assert len(out.strip().splitlines()) == 3  # the finding, an empty line, the verdict
    assert command(*CHECK_NUMBERS, "--update")[0] == 0
    assert command(*CHECK_NUMBERS)[0] == 0


def test_order_does_not_matter_and_the_file_is_sorted(command, data, tmp_path):
    accepted(command)
    before = (tmp_path / "nearworth.lock").read_bytes()
    columns = data()
    write_csv(tmp_path / "train.csv", {name: list(cells)[::-1] for name, cells in columns.items()})
    assert command(*CHECK)[0] == 0
    accepted(command)
    assert (tmp_path / "nearworth.lock").read_bytes() == before
    rows = list(json.loads(before)["rows"])
    assert rows == sorted(rows)
    assert len(before.splitlines()) > len(rows)  # one line for each


def test_copies_leaks_and_labels_never_seen(command, data, tmp_path):
    accepted(command)
    columns = data()
    write_csv(tmp_path / "train.csv", longer(columns, 3))
    code, out, _ = command(*CHECK, "--id", "name")
    assert (code, out.split()[:3]) == (3, ["duplicate", "row", "150"])
    assert command(*CHECK, "--max-new-duplicates", "1")[0] == 0
    data(species=["daisy", *columns["species"][1:]])
    code, out, _ = command(*CHECK)
    assert code == 3
    assert "no known row has the label daisy" in out
    data()
    write_csv(tmp_path / "test.csv", {name: list(cells)[7:9] for name, cells in columns.items()})
    code, out, _ = command(*CHECK, "--validation", "test.csv")
    assert code == 3
    assert [line.split()[:3] for line in out.splitlines()[:2]] == [
        ["leak", "row", "7"],
        ["leak", "row", "8"],
    ]
    assert command(*CHECK, "--validation", "test.csv", "--update")[0] == 0
    assert command(*CHECK, "--validation", "test.csv")[0] == 0


def test_forms_for_machines(command, data):
    accepted(command)
    data(species=with_wrong(data(), 40))
    assert json.loads(command(*CHECK, "--format", "json")[1])["findings"][0]["row"] == 40
    assert "| suspect | row 40 |" in command(*CHECK, "--format", "markdown")[1]
    result = json.loads(command(*CHECK, "--format", "sarif")[1])["runs"][0]["results"][0]
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 42
    assert (result["ruleId"], result["level"]) == ("suspect", "error")
    suite = ElementTree.fromstring(command(*CHECK, "--format", "junit")[1])
    assert [case.find("failure") is not None for case in suite] == [True]
    assert len({command(*CHECK, "--jobs", str(jobs))[1] for jobs in (1, 2)}) == 1


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"rows": 3}', "<<<<<<< ours\n{}\n=======\n{}\n>>>>>>> theirs\n"]
)
def test_a_damaged_baseline_is_refused(content, command, data, tmp_path):
    (tmp_path / "nearworth.lock").write_text(content)
    code, _, err = command(*CHECK, "-q")
    assert code == 2
    assert ("merge conflict" if "<<<" in content else "is no baseline") in one_line(err)
    assert command(*CHECK, "-q", "--update")[0] == 2  # deleted or resolved by a person first


def test_an_unknown_label_is_named_with_its_first_row(command, data, tmp_path):
    accepted(command)
    species = list(data()["species"])
    species[40] = species[77] = "orchid"
    data(species=species)
    code, out, _ = command(*CHECK, "--max-new-suspects", "2", "--format", "json")
    unknown = [found for found in json.loads(out)["findings"] if found["kind"] == "label"]
    assert (code, unknown) == (
        3,
        [{"kind": "label", "row": 40, "message": "no known row has the label orchid"}],
    )
    assert command(*CHECK, "--update")[0] == 0
    assert "label" not in json.loads((tmp_path / "nearworth.lock").read_text())["rows"].values()


def test_rows_of_a_group_do_not_judge_each_other(command, tmp_path, rng):
    """Five rows of each of 40 patients; those of one are wrong, and alike, so that without groups
    they vouch.
    """
    patient = rng.permutation(np.repeat(np.arange(40), 5))
    kind = patient % 2
    X = 6.0 * kind[:, None] + rng.normal(size=(40, 3))[patient] + 0.1 * rng.normal(size=(200, 3))
    columns = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "patient": [f"p{v}" for v in patient]}
    write = lambda label: write_csv(tmp_path / "train.csv", columns | {"species": label})  # noqa: E731
    write(kind)
    check = ["check", "train.csv", "-t", "species", "-k", "4", "--format", "json"]
    assert command(*check, "--groups", "patient", "--update")[0] == 0
    write(np.where(patient == 7, 1 - kind, kind))
    wrong = set(np.flatnonzero(patient == 7).tolist())
    found = json.loads(command(*check, "--groups", "patient")[1])["findings"]
    assert {new["row"] for new in found if new["kind"] == "suspect"} == wrong


def git(*arguments, check=True):
    who = [
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "-c",
        "init.defaultBranch=main",
        "-c",
        "commit.gpgsign=false",
    ]
    return subprocess.run(
        ["git", *who, *arguments], check=check, capture_output=True, text=True
    ).returncode


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_repository_through_add_judge_update_revert_and_a_merge_conflict(
    command, data, tmp_path, rng
):
    accepted(command)
    git("init")
    git("add", ".")
    git("commit", "-m", "data")
    more, _ = flowers(rng, 6)
    for branch, rows in {
        "left": [0, 1, 2],
        "right": [3, 4, 5],
    }.items():  # further rows, all right
        git("checkout", "-b", branch, "main")
        base = data()
        write_csv(
            tmp_path / "train.csv", {n: [*base[n], *([*more[n]][r] for r in rows)] for n in base}
        )
        assert command(*CHECK, "--id", "name")[0] == 0
        accepted(command)
        git("commit", "-am", branch)
    assert git("merge", "left", check=False) != 0  # both added rows at the end
    assert command(*CHECK, "-q")[0] in (2, 3)  # a file with conflict markers is no data
    base = data()
    write_csv(tmp_path / "train.csv", {n: [*base[n], *more[n]] for n in base})
    if "<<<<<<<" in (tmp_path / "nearworth.lock").read_text():
        assert "merge conflict" in command(*CHECK, "-q")[2]
        git("checkout", "--ours", "nearworth.lock")
    assert command(*CHECK)[0] == 0  # rows of the other side are new again, and right
    accepted(command)
    git("commit", "-am", "merged")
    species = with_wrong(base, 11)
    write_csv(
        tmp_path / "train.csv",
        {n: [*(species if n == "species" else base[n]), *more[n]] for n in base},
    )
    assert command(*CHECK)[0] == 3
    git("checkout", "train.csv")  # reverted
    assert command(*CHECK)[0] == 0


@pytest.mark.long
def test_the_steps_of_the_action(data, command, tmp_path):
    yaml = pytest.importorskip("yaml")
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = action["runs"]["steps"][-1]
    assert set(step["env"]) == {"DATA", "TARGET", "OPTIONS"}
    assert all(value == f"${{{{ inputs.{name.lower()} }}}}" for name, value in step["env"].items())
    tool = tmp_path / "bin"
    tool.mkdir()
    (tool / "nearworth").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m nearworth "$@"\n')
    (tool / "nearworth").chmod(0o755)
    accepted(command)

    def run(options=""):
        given = {
            "DATA": "train.csv",
            "TARGET": "species",
            "OPTIONS": options,
            "GITHUB_STEP_SUMMARY": "summary.md",
        }
        path = {"PATH": f"{tool}{os.pathsep}{os.environ['PATH']}"}
        shell = ["bash", "-e", "-c", step["run"]]
        return subprocess.run(
            shell, env=environment() | given | path, cwd=tmp_path, capture_output=True
        ).returncode

    assert run() == 0
    data(species=with_wrong(data(), 40))
    assert run() == 3
    assert "| suspect | row 40 |" in (tmp_path / "summary.md").read_text()
    assert run("--max-new-suspects 1 --jobs 1") == 0


def test_the_hook_names_this_command():
    yaml = pytest.importorskip("yaml")
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"] == "nearworth check"
    assert not hook["pass_filenames"]


@pytest.mark.skipif(shutil.which("pre-commit") is None, reason="needs pre-commit")
def test_pre_commit_runs_the_hook(data, command, tmp_path):
    yaml = pytest.importorskip("yaml")
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    # this tree instead of one that is installed from a network
    entry = f"{sys.executable} -m {hook['entry']}"
    local = hook | {"language": "system", "entry": entry, "args": ["train.csv", "-t", "species"]}
    (tmp_path / ".pre-commit-config.yaml").write_text(
        yaml.safe_dump({"repos": [{"repo": "local", "hooks": [local]}]})
    )
    accepted(command)
    git("init")
    git("add", ".")
    run = ["pre-commit", "run", "--all-files"]
    assert subprocess.run(run, env=environment(), check=False).returncode == 0
    data(species=with_wrong(data(), 40))
    git("add", ".")
    stopped = subprocess.run(run, env=environment(), check=False, capture_output=True, text=True)
    assert stopped.returncode == 1
    assert "row 40" in stopped.stdout


@pytest.mark.skipif(shutil.which("dvc") is None, reason="needs dvc")
def test_a_dvc_stage_stops_at_a_new_wrong_label(data, command, tmp_path):
    """The stage of docs/howto/gate.md, in this folder and with this Python."""
    page = (ROOT / "docs/howto/gate.md").read_text()
    stage = (
        page[page.index("stages:") :]
        .partition("```")[0]
        .replace("data/", "")
        .replace("target label", "target species")
    )
    (tmp_path / "dvc.yaml").write_text(
        stage.replace("cmd: nearworth", f"cmd: {sys.executable} -m nearworth")
    )
    accepted(command)
    git("init")
    for arguments in (["init", "-q"], ["repro"]):
        subprocess.run(["dvc", *arguments], env=environment(), check=True)
    assert "passed" in (tmp_path / "check.md").read_text()
    data(species=with_wrong(data(), 40))
    stopped = subprocess.run(
        ["dvc", "repro"], env=environment(), check=False, capture_output=True, text=True
    )
    assert stopped.returncode != 0
    assert "exited with 3" in stopped.stderr
    assert "| suspect | row 40 |" in (tmp_path / "check.md").read_text()


def test_what_another_command_accepts_meanwhile_stays(command, data, monkeypatch):
    accepted(command)
    baseline = Path("nearworth.lock")
    scan = nw.scan
    content = json.loads(baseline.read_text())
    key = sorted(content["rows"])[0]
    content["rows"][key] = "leak"

    def scan_and_accept(*arguments, **options):
        baseline.write_text(json.dumps(content))
        return scan(*arguments, **options)

    monkeypatch.setattr(nw, "scan", scan_and_accept)
    columns = data()
    data(**longer(columns, 3, 4, name="new"))
    assert command(*CHECK, "--update")[0] == 0
    rows = json.loads(baseline.read_text())["rows"]
    assert rows[key] == "leak"
    assert len(rows) == 152
    assert [name for name in os.listdir() if name.endswith(".lock.lock")] == []


def test_a_baseline_that_is_held_is_named(command, data, monkeypatch):
    monkeypatch.setattr("nearworth.tables.write.MAX_LOCK_SECONDS", 0.1)
    with locked(Path("nearworth.lock").absolute()):
        code, _, err = command(*CHECK, "--update", "-q")
    assert code == 2
    assert "nearworth.lock: could not be changed: another process has held it" in one_line(err)
    code, _, err = command(*CHECK, "--update", "-q", "--baseline", "none/baseline.json")
    assert code == 2
    assert "there is no folder 'none'" in one_line(err)
    assert not Path("none").exists()
