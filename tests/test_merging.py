"""nearworth merge."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import nearworth as nw
from nearworth.cli import main
from runs import data, same


@pytest.fixture
def parts(rng, tmp_path):
    X, y, X_val, y_val = data(rng)
    est = nw.KNNShapley(3, standard_errors=True).fit(X, y)
    files = []
    for a, b in ((0, 128), (128, 320), (320, 330)):
        files.append(str(tmp_path / f"{a}.part"))
        est.partial(X_val[a:b], y_val[a:b], start=a).save(files[-1])
    return files, est.value(X_val, y_val)


def merge(*arguments):
    return CliRunner().invoke(main, ["merge", *map(str, arguments)])


def test_merge_writes_what_one_run_would_have_given(parts, tmp_path):
    files, expected = parts
    for ending, read in ((".csv", pd.read_csv), (".parquet", pd.read_parquet)):
        result = merge(*files[::-1], "-o", tmp_path / f"values{ending}")
        assert result.exit_code == 0, result.output
        frame = read(tmp_path / f"values{ending}")
        np.testing.assert_array_equal(frame["value"], expected.values)
        np.testing.assert_array_equal(frame["standard_error"], expected.standard_errors)
    assert merge(*files, "-o", tmp_path / "values.npz").exit_code == 0
    same(nw.Valuation.load(tmp_path / "values.npz"), expected)
    assert "--force" in merge(*files, "-o", tmp_path / "values.npz").output
    assert merge(*files, "-o", tmp_path / "values.npz", "--force").exit_code == 0


def test_merge_refuses_what_is_no_whole(parts, tmp_path):
    files, _ = parts
    for arguments, message in (
        ((files[0], files[2], "-o", tmp_path / "v.csv"), "Validation points are missing: 128 to 319"),
        ((*files, files[0], "-o", tmp_path / "v.csv"), "are in more than one part"),
        ((*files, "-o", tmp_path / "v.txt"), "must end in one of .npz, .csv, .parquet"),
        ((*files, __file__, "-o", tmp_path / "v.csv"), "its checksum is wrong"),
    ):
        result = merge(*arguments)
        assert result.exit_code == 2
        assert message in result.output
    assert not list(tmp_path.glob("v.*"))
