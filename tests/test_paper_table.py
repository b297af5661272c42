"""Table 1 of the paper."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

from nearworth.cli import main
from nearworth.datasets import NAMES, load
from nearworth.paper import CELLS, PRINTED, TIE_RANGES, score_values, table1
from paper_data import FOLDER, needs_data

TABLES = ("fraud", "creditcard", "click", "phoneme", "wind", "pol", "cpu", "2dplanes")


@needs_data
@pytest.mark.filterwarnings("ignore:X_val")  # fraud has many equal rows
@pytest.mark.parametrize("name", ["mnist", "fmnist", *TABLES])
def test_cells_are_the_printed_ones(name):
    (row,) = table1(FOLDER, datasets=[name])
    assert row.stand_in is None
    allowed = {"=", "~"} if name in TIE_RANGES else {"="}
    for cell, verdict in row.verdicts.items():
        more = {"c"} if name == "click" and cell.endswith("C") else set()
        assert verdict in allowed | more, f"{cell}: {row.scores[cell]:.4f}, printed {PRINTED[name][cell]}"
    for utility in ("original", "soft"):
        assert 0.6 < row.scores[f"{utility}_auroc"] <= 1
        assert 0.15 < row.scores[f"{utility}_average_precision"] <= 1


def test_scores_by_hand():
    flipped = np.array([True, True, False, False, False, False, False, False, False, False])
    values = np.array([-9.0, 1.0, -8.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    scores = score_values(values, flipped)
    assert scores["R"] == pytest.approx(2 / 3)  # one flagged, and it is one of two
    assert scores["C"] == pytest.approx(2 / 3)  # below -8.5
    assert scores["auroc"] == pytest.approx(15 / 16)
    assert scores["average_precision"] == pytest.approx((1 + 2 / 3) / 2)


def test_bad_arguments():
    with pytest.raises(ValueError, match="Did you mean 'table'"):
        table1(protocol="tabel")
    with pytest.raises(ValueError, match="datasets='minst' is not known"):
        table1(datasets=["minst"])
    with pytest.raises(ValueError, match="n_val"):
        table1(n_val=0)


def bench_paper(*arguments):
    return CliRunner().invoke(main, ["bench", "paper", *map(str, arguments)])


@needs_data
def test_command_prints_and_writes_the_table(tmp_path):
    shutil.copy(FOLDER / "phoneme.npz", tmp_path)
    done = bench_paper("--data", tmp_path, "--json", tmp_path / "rows.json")
    assert done.exit_code == 0
    assert re.search(
        r"^phoneme    0\.535 = 0\.535   0\.545 = 0\.545   0\.509 = 0\.509   0\.516 = 0\.516 ", done.output, re.M
    )
    assert "4 cells of 1 complete dataset: 4 equal the printed digits" in done.output
    rows = {row["dataset"]: row for row in json.loads((tmp_path / "rows.json").read_text())}
    assert tuple(rows) == NAMES
    assert [rows["phoneme"][cell] for cell in CELLS] == [0.535, 0.545, 0.509, 0.516]
    assert rows["phoneme"]["soft_auroc"] == pytest.approx(0.883, abs=0.01)
    assert rows["phoneme"]["original_average_precision"] == pytest.approx(0.558, abs=0.01)
    assert rows["mnist"]["original_R"] is None
    assert "no mnist.npz" in rows["mnist"]["problem"]
    assert {path.name for path in tmp_path.iterdir()} == {"phoneme.npz", "rows.json"}


@needs_data
def test_the_released_protocol_is_not_the_printed_one():
    (row,) = table1(FOLDER, "released", datasets=["wind"])
    assert set(row.verdicts.values()) == {"x"}
    assert load("wind", FOLDER).complete


def test_command_without_data(tmp_path):
    done = bench_paper("--data", tmp_path)
    assert done.exit_code == 2
    assert "None of the datasets could be had" in done.output
    assert done.output.count("not available") == 13
    done = bench_paper("--data", tmp_path, "--json", tmp_path / "nowhere" / "rows.json")
    assert done.exit_code == 2
    assert "no folder" in done.output
    assert bench_paper("--protocol", "printed").exit_code == 2
