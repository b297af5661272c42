"""Table 1 of the paper."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from helpers.paper_data import FOLDER, SCRIPT, needs_data, paper

TABLES = ("fraud", "creditcard", "click", "phoneme", "wind", "pol", "cpu", "2dplanes")


@needs_data
@pytest.mark.filterwarnings("ignore:X_val")  # fraud has many equal rows
@pytest.mark.parametrize("name", ["mnist", "fmnist", *TABLES])
def test_cells_are_the_printed_ones(name):
    (row,) = paper.table1(FOLDER, datasets=[name])
    assert row.stand_in is None
    allowed = {"=", "~"} if name in paper.TIE_RANGES else {"="}
    for cell, verdict in row.verdicts.items():
        more = {"c"} if name == "click" and cell.endswith("C") else set()
        assert verdict in allowed | more, (
            f"{cell}: {row.scores[cell]:.4f}, printed {paper.PRINTED[name][cell]}"
        )
    for utility in ("original", "soft"):
        assert 0.6 < row.scores[f"{utility}_auroc"] <= 1
        assert 0.15 < row.scores[f"{utility}_average_precision"] <= 1


def test_scores_by_hand():
    flipped = np.array([True, True, False, False, False, False, False, False, False, False])
    values = np.array([-9.0, 1.0, -8.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    scores = paper.score_values(values, flipped)
    assert scores["R"] == pytest.approx(2 / 3)  # one flagged, and it is one of two
    assert scores["C"] == pytest.approx(2 / 3)  # below -8.5
    assert scores["auroc"] == pytest.approx(15 / 16)
    assert scores["average_precision"] == pytest.approx((1 + 2 / 3) / 2)


def test_bad_arguments():
    with pytest.raises(ValueError, match="Did you mean 'table'"):
        paper.table1(protocol="tabel")
    with pytest.raises(ValueError, match="datasets='minst' is not known"):
        paper.table1(datasets=["minst"])
    with pytest.raises(ValueError, match="n_val"):
        paper.table1(n_val=0)


def run_script(*arguments):
    return subprocess.run(
        [sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, check=False
    )


@needs_data
def test_script_prints_and_writes_the_table(tmp_path):
    shutil.copy(FOLDER / "phoneme.npz", tmp_path)
    done = run_script("--data", tmp_path, "--json", tmp_path / "rows.json")
    assert done.returncode == 0
    assert re.search(
        r"^phoneme    0\.535 = 0\.535   0\.545 = 0\.545   0\.509 = 0\.509   0\.516 = 0\.516 ",
        done.stdout,
        re.M,
    )
    assert "4 cells of 1 complete dataset: 4 equal the printed digits" in done.stdout
    rows = {row["dataset"]: row for row in json.loads((tmp_path / "rows.json").read_text())}
    assert tuple(rows) == paper.NAMES
    assert [rows["phoneme"][cell] for cell in paper.CELLS] == [0.535, 0.545, 0.509, 0.516]
    assert rows["phoneme"]["soft_auroc"] == pytest.approx(0.883, abs=0.01)
    assert rows["phoneme"]["original_average_precision"] == pytest.approx(0.558, abs=0.01)
    assert rows["mnist"]["original_R"] is None
    assert "no mnist.npz" in rows["mnist"]["problem"]
    assert {path.name for path in tmp_path.iterdir()} == {"phoneme.npz", "rows.json"}


@needs_data
def test_the_released_protocol_is_not_the_printed_one():
    (row,) = paper.table1(FOLDER, "released", datasets=["wind"])
    assert set(row.verdicts.values()) == {"x"}
    assert paper.load("wind", FOLDER).complete


@pytest.mark.long
def test_script_without_data(tmp_path):
    done = run_script("--data", tmp_path)
    assert done.returncode == 2
    assert "None of the datasets could be had" in done.stderr
    assert done.stdout.count("not available") == 13
    done = run_script("--data", tmp_path, "--json", tmp_path / "nowhere" / "rows.json")
    assert done.returncode == 2
    assert "no folder" in done.stderr
    assert run_script("--protocol", "printed").returncode == 2
