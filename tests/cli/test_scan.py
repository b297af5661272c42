"""nearworth scan on a file: what it says, and a page whose decisions `apply` carries out."""

from __future__ import annotations

import json

import numpy as np

from helpers.command_line import flowers, installed, one_line, write_csv
from nearworth.tables.load import TableOptions, load_files


def planted(tmp_path, rng):
    """Flowers of which 3 are there twice, one of these with another label; one is far away; two are
    in the test set.
    """
    columns, _ = flowers(rng, 90)
    for name, cells in columns.items():
        columns[name] = [*cells, *cells[:3]]
    columns["length"][50] = 400.0
    columns["species"][92] = "rose"
    write_csv(tmp_path / "train.csv", columns)
    write_csv(
        tmp_path / "test.csv", {name: [cells[10], cells[11]] for name, cells in columns.items()}
    )
    return columns


def test_every_kind_is_found(tmp_path, rng):
    planted(tmp_path, rng)
    options = [
        "-t",
        "species",
        "--id",
        "name",
        "--validation",
        "test.csv",
        "-o",
        "scan.html",
        "--json",
    ]
    run = installed("scan", "train.csv", *options, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["duplicates"] == [0, 90, 1, 91, 2, 92]
    assert found["conflicts"] == [2, 92]
    assert found["outliers"] == [50]
    assert found["leakage"] == [0, 1]
    assert "6 rows in 3 groups of copies, 6 identical" in run.stderr
    page = (tmp_path / "scan.html").read_text()
    assert "Duplicates: 6 rows in 3 groups" in page
    assert "Open scan.html" in run.stderr


def test_without_a_page_and_with_a_bad_one(tmp_path, rng):
    planted(tmp_path, rng)
    run = installed("scan", "train.csv", "-t", "species", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert not list(tmp_path.glob("*.html"))
    refused = installed("scan", "train.csv", "-t", "species", "-o", "scan.txt", "-q", cwd=tmp_path)
    assert refused.returncode == 2
    assert "cannot write '.txt'" in one_line(refused.stderr)


def test_row_numbers_are_those_of_the_file(tmp_path, rng):
    columns = planted(tmp_path, rng)
    columns["species"][5] = ""
    write_csv(tmp_path / "train.csv", columns)
    found = json.loads(
        installed("scan", "train.csv", "-t", "species", "--json", cwd=tmp_path).stdout
    )
    assert found["duplicates"] == [0, 90, 1, 91, 2, 92]
    assert np.isin(50, found["outliers"])


def test_rows_of_a_group_do_not_judge_each_other(tmp_path, rng):
    """Five frames of each of 40 videos, all frames of one wrongly labelled: only other videos can
    tell.
    """
    video = rng.permutation(np.repeat(np.arange(40), 5))
    kind = video % 2
    X = 6.0 * kind[:, None] + rng.normal(size=(40, 3))[video] + 0.3 * rng.normal(size=(200, 3))
    label = np.where(video == 7, 1 - kind, kind)
    columns = {"a": X[:, 0].tolist(), "b": X[:, 1].tolist(), "c": X[:, 2].tolist()}
    write_csv(
        tmp_path / "train.csv",
        columns | {"video": [f"v{v}" for v in video], "label": label.tolist()},
    )
    wrong = set(np.flatnonzero(video == 7).tolist())

    def worst(*options):
        run = installed(
            "audit",
            "train.csv",
            "-t",
            "label",
            "-k",
            "4",
            "--fraction",
            "0.025",
            *options,
            cwd=tmp_path,
        )
        return {row["row"] for row in json.loads(run.stdout)["rows"]}

    assert worst("--groups", "video", "--json") == wrong
    assert (
        worst("--features", "a,b,c", "--json") != wrong
    )  # each frame has four of its own video around it
    assert (
        installed("scan", "train.csv", "-t", "label", "--groups", "video", cwd=tmp_path).returncode
        == 0
    )
    refused = installed("scan", "train.csv", "-t", "label", "--groups", "film", "-q", cwd=tmp_path)
    assert refused.returncode == 2
    assert "'film'" in one_line(refused.stderr)
    assert "there is no column 'film' for --groups" in refused.stderr


def test_columns_of_groups_as_files_have_them(command, tmp_path, rng):
    """Cells may be missing, or dates; the target is none."""
    columns, _ = flowers(rng, 90, wrong=(4,))
    columns["patient"] = [None if i in (3, 4, 5) else f"p{i % 30}" for i in range(90)]
    columns["day"] = [f"2024-01-{1 + i % 30:02}" for i in range(90)]
    write_csv(tmp_path / "t.csv", columns)
    audit = ["audit", "t.csv", "-t", "species", "--id", "name", "-o", "-"]
    code, out, err = command(*audit, "--groups", "patient")
    assert code == 0
    assert "3 rows without 'patient': a group of its own each" in err
    assert "patient: names the groups" in err
    assert "--ignore" not in err
    assert out.splitlines()[1].startswith("4,")
    code, out, err = command(
        *audit, "--groups", "day", "--ignore", "patient", "--fraction", "0.012"
    )
    assert (code, out.splitlines()[1][:2]) == (0, "4,")
    assert "without 'day'" not in err
    code, _, err = command(*audit, "--groups", "species", "-q")
    assert code == 2
    assert "--groups 'species' is the target" in one_line(err)
    data = load_groups("t.csv", "patient")
    assert len(set(data)) == 30 + 3


def load_groups(path, column):
    options = TableOptions(
        train=path,
        validation=None,
        target="species",
        task=None,
        id_column="name",
        ignore=(),
        features=(),
        na_values=(),
        max_categories=20,
        exact_labels=False,
        strict=False,
    )
    return load_files(options, groups=column).groups


def test_a_scan_of_numbers_says_nothing_about_classes(command, tmp_path, rng):
    X = rng.normal(size=(120, 2))
    write_csv(
        tmp_path / "t.csv", {"a": X[:, 0], "b": X[:, 1], "price": (100 * X.sum(axis=1)).round(2)}
    )
    code, out, err = command("scan", "t.csv", "-t", "price", "--json")
    assert code == 0
    assert "imbalance" not in err
    assert [line.partition(":")[0] for line in json.loads(out)["summary"]][-1] == "leakage"
