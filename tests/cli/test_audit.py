"""nearworth audit and report."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from helpers.command_line import WRONG, flowers, one_line, write_csv
from helpers.report_pages import embedded
from nearworth.tables.read import read


def test_audit_finds_wrong_labels_and_says_what_they_should_be(command, tmp_path, rng):
    columns, truth = flowers(rng, wrong=WRONG)
    write_csv(tmp_path / "train.csv", columns, delimiter=";")
    code, out, err = command(
        "audit", "train.csv", "-t", "species", "--id", "name", "--fraction", "0.0334"
    )
    assert code == 0
    assert "separated by ';'" in err
    rows = list(csv.DictReader(out.splitlines()))
    assert list(rows[0]) == ["row", "name", "given", "suggested", "quality", "value", "why"]
    assert {int(r["row"]) for r in rows} == set(WRONG)
    assert all(r["suggested"] == truth[int(r["row"])] for r in rows)
    assert all(r["given"] == columns["species"][int(r["row"])] for r in rows)
    assert [float(r["quality"]) for r in rows] == sorted(float(r["quality"]) for r in rows)


def test_an_empty_list_says_why(command, tmp_path, rng):
    columns, _ = flowers(rng, wrong=WRONG)
    write_csv(tmp_path / "train.csv", columns)
    arguments = ["audit", "train.csv", "-t", "species", "--id", "name"]
    _, out, err = command(*arguments)
    n_listed = len(out.splitlines()) - 1
    assert f"{n_listed} of 90 labels are suspect (more likely wrong than right)" in err
    code, out, err = command(*arguments, "--max-fdr", "0.001")
    assert (code, len(out.splitlines())) == (0, 1)
    assert "No suspects among 90 labels (max-fdr 0.001)." in err
    assert "No list can promise at most 0.1 % false alarms" in err
    assert "--fraction 0.05 lists the worst" in err
    _, _, err = command("report", *arguments[1:], "--max-fdr", "0.001", "-o", "r.html")
    assert "No list can promise" in err
    page = Path("r.html").read_text()
    assert "No suspects (max-fdr 0.001). No list can promise" in page
    assert "listed below" not in page


def test_audit_values_as_value_does(command, tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng)[0])
    write_csv(tmp_path / "trusted.csv", flowers(rng, 30)[0])
    data = [
        "train.csv",
        "-t",
        "species",
        "--id",
        "name",
        "-k",
        "4",
        "--validation",
        "trusted.csv",
        "-q",
    ]
    for model in (
        ["--utility", "original"],
        ["--semivalue", "banzhaf"],
        ["--semivalue", "loo"],
        [],
    ):
        assert command("value", *data, *model, "-o", "v.csv", "--overwrite")[0] == 0
        assert (
            command("audit", *data, *model, "--fraction", "1", "-o", "s.csv", "--overwrite")[0] == 0
        )
        worth = read("v.csv").table
        suspects = read("s.csv").table
        np.testing.assert_allclose(
            worth["value"].to_numpy()[suspects["row"].to_numpy()], suspects["value"], rtol=1e-9
        )


def test_an_audit_by_a_searcher_keeps_its_promise(command, tmp_path, rng):
    pytest.importorskip("faiss")
    X = rng.normal(size=(700, 3))
    y = (X[:, 0] > 0).astype(int)
    wrong = rng.choice(700, 20, replace=False)
    y[wrong] = 1 - y[wrong]
    np.savez("a.npz", X=X, y=y)
    arguments = ["audit", "a.npz", "--fraction", "1", "--json", "-q", "-k", "3"]
    exact = json.loads(command(*arguments)[1])
    found = json.loads(command(*arguments, "--search", "faiss", "--max-error", "0.05")[1])
    assert exact["error_bound"] == 0
    values = [{row["row"]: row["value"] for row in said["rows"]} for said in (exact, found)]
    assert (
        max(abs(values[0][row] - values[1][row]) for row in range(700))
        <= found["error_bound"] + 1e-12
    )
    worst = [{row["row"] for row in said["rows"][:20]} for said in (exact, found)]
    assert len(worst[0] & worst[1]) >= 18
    assert "--max-error" in one_line(command("audit", "a.npz", "--search", "lsh")[2])


def test_report_has_a_summary_for_programs(command, tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng, wrong=WRONG)[0])
    code, out, _ = command(
        "report", "train.csv", "-t", "species", "--id", "name", "-o", "r.html", "--json", "-q"
    )
    said = json.loads(out)
    assert (code, said["command"], said["output"]) == (0, "report", "r.html")
    assert Path("r.html").exists()


def test_images_outside_the_folder_must_be_allowed(command, tmp_path, rng):
    """What is refused ends with the command that allows it."""
    (tmp_path / "pictures").mkdir()
    (tmp_path / "data").mkdir()
    columns, _ = flowers(rng, 30)
    columns["image"] = ["../pictures/a.png"] * 30
    (tmp_path / "pictures" / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n rest")
    write_csv(tmp_path / "data" / "t.csv", columns)
    line = [
        "report",
        "data/t.csv",
        "-t",
        "species",
        "--image-column",
        "image",
        "-o",
        "r.html",
        "--fraction",
        "0.1",
    ]
    code, _, err = command(*line)
    assert code == 2
    message = err.splitlines()[-1]
    assert "'../pictures/a.png' is outside the folder 'data'" in message
    allowed = shlex.split(message.split("Try: nearworth ")[1])
    assert allowed == [*line, "--image-root", "data/../pictures"]
    assert command(*allowed, "-q") == (0, "", "")
    assert "data:image/png;base64" in Path("r.html").read_text()


def test_images_of_rows_without_a_label_are_shown(command, tmp_path, rng):
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 4)).round(2) + 5 * y[:, None]
    labels = [*("ab"[v] for v in y[:-1]), ""]
    columns = {f"p{j}": X[:, j] for j in range(4)} | {
        "who": [f"w{i % 3}" for i in range(60)],
        "label": labels,
    }
    write_csv(tmp_path / "t.csv", columns)
    line = [
        "report",
        "t.csv",
        "-t",
        "label",
        "--features",
        "p*",
        "--image-shape",
        "2x2",
        "-o",
        "r.html",
    ]
    code, _, err = command(*line, "--fraction", "0.05")
    assert code == 0, err
    data = embedded(Path("r.html").read_text())
    assert data["unlabelled"]["row"] == [59]
    assert data["labels"][data["unlabelled"]["suggested"][0]] == "b"
    assert "59" in data["images"]
    assert data["cellNames"] == ["who"]  # the pixels are in the picture
    assert data["more"]["cells"][-1] == ["w2"]


def test_constant_pixels_are_pixels_too(command, tmp_path, rng):
    pixels = rng.integers(0, 16, size=(60, 4))
    pixels[:, 2] = 7
    columns = {f"p{i}": pixels[:, i].tolist() for i in range(4)} | {"label": ["a", "b"] * 30}
    write_csv(tmp_path / "t.csv", columns)
    code, _, err = command("report", "t.csv", "-t", "label", "--image-shape", "2x2", "-o", "r.html")
    assert code == 0, err
    assert "each is compared by 4 numbers" in err


def test_models_are_further_evidence(command, tmp_path, rng):
    """Labels that a line tells, among columns of noise: neighbours see little of it, models do."""
    X = rng.normal(size=(400, 12))
    label = (X[:, 0] > 0).astype(int)
    wrong = rng.choice(400, 30, replace=False)
    label[wrong] = 1 - label[wrong]
    write_csv(tmp_path / "t.csv", {f"x{j}": X[:, j] for j in range(12)} | {"label": label})
    found = []
    for models in ([], ["--with-models"]):
        code, out, err = command(
            "audit", "t.csv", "-t", "label", "--fraction", "0.075", "--json", *models
        )
        assert code == 0, err
        found.append(len({row["row"] for row in json.loads(out)["rows"]} & {*wrong.tolist()}))
    assert found[1] > found[0]
    for page in ("report", "review"):
        assert (
            command(page, "t.csv", "-t", "label", "--with-models", "-o", f"{page}.html", "-q")[0]
            == 0
        )
