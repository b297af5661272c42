"""nearworth demo."""

from __future__ import annotations

import re
import shlex

import numpy as np
import pytest

import nearworth
from helpers.command_line import installed
from nearworth.datasets import noisy_digits
from nearworth.tables.read import read


def test_demo_finds_most_of_the_wrong_labels(tmp_path):
    done = installed("demo", "-o", str(tmp_path))
    assert done.returncode == 0
    assert done.stderr == ""
    said = re.search(
        r"(\d+) rows are suspect and (\d+) of them wrong: (\d+)% precision, (\d+)% recall",
        done.stdout,
    )
    suspects, found, precision, recall = map(int, said.groups())
    assert precision >= 85
    assert recall >= 85
    digits = noisy_digits()
    assert found / len(digits.flipped) == pytest.approx(recall / 100, abs=0.006)
    assert found / suspects == pytest.approx(precision / 100, abs=0.006)
    values = read(tmp_path / "nearworth-demo-values.csv").table
    np.testing.assert_allclose(
        values["value"],
        nearworth.knn_shapley(digits.X, digits.y, digits.X_val, digits.y_val, n_neighbors=10),
        rtol=1e-12,
    )
    assert (
        read(tmp_path / "nearworth-demo-train.csv").table["label"].to_pylist() == digits.y.tolist()
    )
    assert "</html>" in (tmp_path / "nearworth-demo-report.html").read_text()
    again = installed(
        *shlex.split(re.search(r"  nearworth (audit .*) -o suspects.csv", done.stdout).group(1))
    )
    assert again.returncode == 0
    listed = [int(line.split(",")[0]) for line in again.stdout.splitlines()[1:]]
    assert len(listed) == suspects
    assert listed[:10] == [
        int(row) for row in re.findall(r"^ +(\d+) .*(?:right|wrong)$", done.stdout, re.M)
    ]
