"""nearworth value, plan and merge."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import nearworth as nw
from helpers.command_line import flowers, installed, one_line, write_csv
from helpers.runs import assert_same_valuation, data
from nearworth.cli import main
from nearworth.tables.read import read


def test_value_gives_what_the_api_gives(command, tmp_path, rng):
    columns, _ = flowers(rng)
    write_csv(tmp_path / "train.csv", columns)
    write_csv(tmp_path / "trusted.csv", dict(reversed(flowers(rng, 30)[0].items())))
    code, out, err = command(
        "value",
        "train.csv",
        "-t",
        "species",
        "--id",
        "name",
        "--validation",
        "trusted.csv",
        "-o",
        "values.csv",
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


def test_a_checkpoint_is_taken_up_again(command, tmp_path, rng):
    columns, _ = flowers(rng)
    write_csv(tmp_path / "train.csv", columns)
    arguments = (
        "value",
        "train.csv",
        "--target",
        "species",
        "--ignore",
        "name",
        "--checkpoint",
        "kept",
    )
    assert command(*arguments, "-o", "first.csv")[0] == 0
    code, _, err = command(*arguments, "-o", "second.csv")
    assert code == 0
    assert "90 of 90 validation points came from kept" in err
    assert (tmp_path / "first.csv").read_bytes() == (tmp_path / "second.csv").read_bytes()


def test_plan_of_a_file(command, tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng)[0])
    write_csv(tmp_path / "trusted.csv", flowers(rng, 30)[0])
    pq.write_table(read("trusted.csv").table, "trusted.parquet")
    about = ["plan", "train.csv", "-t", "species", "--id", "name"]
    assert "90 validation points against 90 training points" in command(*about)[1]
    for name in ("trusted.csv", "trusted.parquet"):
        assert (
            "30 validation points against 90 training points"
            in command(*about, "--validation", name)[1]
        )
    np.save("X.npy", rng.normal(size=(50, 4)))
    np.save("y.npy", np.arange(50) % 2)
    said = command("plan", "X.npy", "-t", "y.npy", "--validation", "X.npy")
    assert "50 validation points against 50 training points" in said[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train.csv"], "--target"),
        (["none.csv", "-t", "species"], "no such file"),
        (["100"], "no such file"),
        (["train.csv", "-t", "species", "--id", "name", "--max-memory", "1KB"], "max_memory"),
    ],
)
def test_plan_refuses(command, tmp_path, rng, arguments, message):
    write_csv(tmp_path / "train.csv", flowers(rng)[0])
    code, out, err = command("plan", *arguments)
    assert (code, out) == (2, "")
    assert message in one_line(err)


def test_plan_says_what_a_run_would_need(tmp_path, rng):
    np.savez(tmp_path / "a.npz", X=rng.normal(size=(2_000, 16)), y=np.arange(2_000) % 3)
    done = installed("plan", "a.npz", "--max-memory", "200MB", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "2,000 validation points against 2,000 training points" in done.stdout
    assert "from a short trial" in done.stdout
    done = installed("plan", "a.npz", "--max-memory", "10KB", cwd=tmp_path)
    assert done.returncode == 2
    assert "max_memory" in done.stderr
    assert "Traceback" not in done.stderr


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
    for ending, read_frame in ((".csv", pd.read_csv), (".parquet", pd.read_parquet)):
        result = merge(*files[::-1], "-o", tmp_path / f"values{ending}")
        assert result.exit_code == 0, result.output
        frame = read_frame(tmp_path / f"values{ending}")
        np.testing.assert_array_equal(frame["value"], expected.values)
        np.testing.assert_array_equal(frame["standard_error"], expected.standard_errors)
    assert merge(*files, "-o", tmp_path / "values.npz").exit_code == 0
    assert_same_valuation(nw.Valuation.load(tmp_path / "values.npz"), expected)
    assert "--overwrite" in merge(*files, "-o", tmp_path / "values.npz").output
    assert merge(*files, "-o", tmp_path / "values.npz", "--overwrite").exit_code == 0


def test_merge_refuses_what_is_no_whole(parts, tmp_path):
    files, _ = parts
    for arguments, message in (
        (
            (files[0], files[2], "-o", tmp_path / "v.csv"),
            "Validation points are missing. This is a Partial",
        ),
        ((*files, files[0], "-o", tmp_path / "v.csv"), "are in more than one part"),
        ((*files, "-o", "-"), "the result goes to a file"),
        ((*files, "-o", tmp_path / "none" / "v.csv"), "there is no folder"),
        (
            (*files, "-o", tmp_path / "v.txt"),
            "v.txt: cannot write '.txt'; use .npz, .csv, .parquet",
        ),
        (
            (*files, __file__, "-o", tmp_path / "v.csv"),
            "is not a part saved by nearworth, or it is damaged",
        ),
    ):
        result = merge(*arguments)
        assert result.exit_code == 2
        assert message in result.output
    assert not list(tmp_path.glob("v.*"))
