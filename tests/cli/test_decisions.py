"""Decisions kept beside the data: no row is asked about twice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from helpers.command_line import START, WRONG, environment, flowers, one_line, write_csv
from helpers.report_pages import embedded
from nearworth.cli.decisions import KEPT, row_keys, same_label
from nearworth.tables.read import read
from nearworth.tables.write import locked


@pytest.fixture
def data(tmp_path):
    """Three wrong labels, which the audit lists."""
    write_csv(tmp_path / "t.csv", flowers(np.random.default_rng(0), wrong=WRONG)[0])
    return "t.csv"


def suspects(command, path, *options):
    code, out, err = command("audit", path, "-t", "species", "--json", *options)
    assert code == 0, err
    return json.loads(out), err


def decide(decisions, path="t.csv", name="d.json"):
    """A file of decisions as the page exports it: {row: (decision, label)}."""
    table = read(path).table
    records = [
        {"row": row, "given": table["species"][row].as_py(), "decision": what, "label": label}
        for row, (what, label) in decisions.items()
    ]
    Path(name).write_text(json.dumps({"target": "species", "decisions": records}))
    return name


def listed(found):
    return {row["row"] for row in found["rows"]}


def test_what_was_judged_is_not_asked_again(command, data):
    found, err = suspects(command, data)
    assert listed(found) == set(WRONG)
    assert "judged" not in err
    given = {row["row"]: row["given"] for row in found["rows"]}
    new = {row["row"]: row["suggested"] for row in found["rows"]}
    made = decide({4: ("relabel", new[4]), 31: ("confirm", given[31]), 62: ("skip", given[62])})
    code, _, err = command("apply", made, data, "-o", "c.csv")
    assert code == 0
    assert KEPT in err.splitlines()[-1]
    worst = ("--fraction", "0.023")  # 2 of 90
    found, err = suspects(command, "c.csv", *worst)
    assert listed(found) == {62}  # skipped is not judged; 4 is right now, 31 was kept
    assert found["n_judged"] == 1
    assert "1 row judged before (listed with --include-reviewed)" in err
    assert listed(suspects(command, "c.csv", *worst, "--include-reviewed")[0]) == {31, 62}
    found, err = suspects(command, data)  # the data as they were
    assert listed(found) == {62}
    assert "2 rows judged before (listed with --include-reviewed)" in err


def test_the_page_does_not_ask_again_either(command, data):
    command(
        "apply",
        decide({row: ("confirm", read(data).table["species"][row].as_py()) for row in WRONG[:2]}),
        data,
        "-o",
        "c.csv",
    )
    assert command("report", "c.csv", "-t", "species", "-o", "r.html")[0] == 0
    assert '"nJudged":2' in Path("r.html").read_text()
    shown = embedded(Path("r.html").read_text())["row"]
    assert shown[0] == WRONG[2]
    assert not {*shown} & {*WRONG[:2]}


@pytest.mark.parametrize("output", ["c.csv", "c.parquet", "c.tsv", "c.feather", "c.json"])
def test_rows_are_known_in_any_order_and_format(command, data, output):
    label = read(data).table["species"][31].as_py()
    assert command("apply", decide({31: ("confirm", label)}), data, "-o", output, "-q")[0] == 0
    table = read(output).table
    order = np.random.default_rng(3).permutation(table.num_rows)
    names = [*table.column_names][::-1]
    pq.write_table(table.take(order).select(names), "sorted.parquet")
    pa_csv.write_csv(table.take(order).select(names), "sorted.csv")
    for path in ("sorted.parquet", "sorted.csv"):
        assert listed(suspects(command, path)[0]) == {
            int(np.flatnonzero(order == row)[0]) for row in (4, 62)
        }


def test_another_label_is_asked_about(command, data):
    label = read(data).table["species"][31].as_py()
    command("apply", decide({31: ("confirm", label)}), data, "-o", "c.csv", "-q")
    other = {"iris": "rose", "rose": "tulip", "tulip": "iris"}
    command(
        "apply",
        decide({31: ("relabel", other[label]), 4: ("skip", "")}, name="e.json"),
        "c.csv",
        "-o",
        "e.csv",
        "--no-keep",
        "-q",
    )
    right = flowers(np.random.default_rng(0))[0]["species"][31] == other[label]
    assert (31 in listed(suspects(command, "e.csv")[0])) == (not right)


def test_the_file_is_sorted_a_line_each_and_grows(command, data):
    labels = read(data).table["species"].to_pylist()
    command(
        "apply",
        decide({row: ("confirm", labels[row]) for row in (62, 4)}),
        data,
        "-o",
        "c.csv",
        "-q",
    )
    first = Path(KEPT).read_text().splitlines()
    command("apply", decide({31: ("remove", "")}, name="e.json"), data, "-o", "e.csv", "-q")
    second = Path(KEPT).read_text().splitlines()
    assert len(second) == len(first) + 1
    assert {line.rstrip(",") for line in first} <= {line.rstrip(",") for line in second}
    keys = [record["row"] for record in json.loads("\n".join(second))["decisions"]]
    assert keys == sorted(keys)
    command("apply", decide({31: ("remove", "")}, name="e.json"), data, "-o", "f.csv", "-q")
    assert Path(KEPT).read_text().splitlines() == second  # the same decision again changes nothing


def test_decisions_are_kept_where_the_data_go(command, data, tmp_path):
    (tmp_path / "out").mkdir()
    label = read(data).table["species"][31].as_py()
    command("apply", decide({31: ("confirm", label)}), data, "-o", "out/c.csv", "-q")
    assert Path(KEPT).read_text() == Path("out", KEPT).read_text()
    assert 31 not in listed(suspects(command, "out/c.csv")[0])


def test_nothing_is_kept_unless_wanted(command, data):
    label = read(data).table["species"][31].as_py()
    code, _, err = command(
        "apply", decide({31: ("confirm", label)}), data, "-o", "c.csv", "--no-keep"
    )
    assert code == 0
    assert "again" not in err
    assert not Path(KEPT).exists()


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"decisions": [1]}', '{"decisions": [{"row": "a"}]}', "[" * 9999]
)
def test_a_broken_file_is_one_line(command, data, content):
    Path(KEPT).write_text(content)
    code, _, err = command("audit", data, "-t", "species", "-q")
    assert code == 2
    assert one_line(err).endswith("audit t.csv -t species -q --include-reviewed")
    assert command("audit", data, "-t", "species", "-q", "--include-reviewed")[0] == 0
    label = read(data).table["species"][31].as_py()
    code, _, err = command("apply", decide({31: ("confirm", label)}), data, "-o", "c.csv")
    assert code == 0  # the data are written all the same
    assert "warning: the decisions are not kept" in err


def test_of_identical_rows_with_two_labels_the_one_judged_is_known(command, tmp_path):
    """The label decided on is that of the other one."""
    columns = flowers(np.random.default_rng(0), wrong=WRONG)[0]
    twin = {name: [*cells, cells[31]] for name, cells in columns.items()}
    other = next(label for label in ("iris", "rose", "tulip") if label != twin["species"][31])
    twin["species"][90] = other
    write_csv(tmp_path / "t.csv", twin)
    assert command("apply", decide({31: ("relabel", other)}), "t.csv", "-o", "c.csv", "-q")[0] == 0
    everything = ("--ignore", "name", "--fraction", "1")
    assert {*range(91)} - listed(suspects(command, "t.csv", *everything)[0]) == {31}
    assert {*range(91)} - listed(suspects(command, "c.csv", *everything)[0]) == {31}
    pa_csv.write_csv(read("c.csv").table.take(np.arange(91)[::-1]), "sorted.csv")
    assert len({*range(91)} - listed(suspects(command, "sorted.csv", *everything)[0])) == 1


@pytest.mark.parametrize("order", ["as it was", "reversed"])
def test_a_decision_on_one_of_two_identical_rows_leaves_the_other(command, tmp_path, order):
    columns = flowers(np.random.default_rng(0), wrong=WRONG)[0]
    twin = {
        name: [*cells, cells[31]] for name, cells in columns.items()
    }  # row 90, as wrong as row 31
    write_csv(tmp_path / "t.csv", twin)
    worst = ("--ignore", "name", "--fraction", "0.045")  # 4 of 91
    found, _ = suspects(command, "t.csv", *worst)
    assert {31, 90} <= listed(found)
    right = next(row["suggested"] for row in found["rows"] if row["row"] == 90)
    for decided, other in ((90, 31), (31, 90)):
        Path(KEPT).unlink(missing_ok=True)
        made = decide({decided: ("relabel", right)})
        assert command("apply", made, "t.csv", "-o", "c.csv", "--overwrite", "-q")[0] == 0
        found, err = suspects(command, "t.csv", *worst)  # the data as they were
        assert listed(found) & {31, 90} == {other}
        assert "1 row judged before" in err
        table = read("c.csv").table
        rows = np.arange(91) if order == "as it was" else np.arange(91)[::-1]
        pa_csv.write_csv(table.take(rows), "sorted.csv")
        found, _ = suspects(command, "sorted.csv", *worst)
        at = {row: int(np.flatnonzero(rows == row)[0]) for row in (31, 90)}
        assert at[other] in listed(found)
    made = decide({row: ("confirm", twin["species"][row]) for row in (31, 90)}, name="both.json")
    assert command("apply", made, "t.csv", "-o", "d.csv", "-q")[0] == 0
    assert not listed(suspects(command, "t.csv", *worst)[0]) & {31, 90}


def test_decisions_kept_without_their_place_are_read(command, data):
    label = read(data).table["species"][31].as_py()
    command("apply", decide({31: ("confirm", label)}), data, "-o", "c.csv", "-q")
    kept = json.loads(Path(KEPT).read_text())
    for record in kept["decisions"]:
        del record["at"]
    Path(KEPT).write_text(json.dumps(kept))
    assert listed(suspects(command, data)[0]) == {4, 62}


def test_rows_without_a_label_are_asked_about_once(command, tmp_path, rng):
    columns = flowers(rng)[0]
    right = columns["species"][7], columns["species"][8]
    columns["species"][7] = ""
    columns["species"][8] = "n/a"
    write_csv(tmp_path / "t.csv", columns)
    found, err = suspects(command, "t.csv")
    rows = {row["row"]: row for row in found["rows"] if row["status"] == "unlabelled"}
    assert (rows[7]["suggested"], rows[8]["suggested"]) == right
    assert rows[7]["given"] is rows[7]["value"] is None
    assert 0.5 < rows[7]["quality"] < 1.0
    assert "2 rows without a label, with a suggestion each" in err
    Path("d.json").write_text(
        json.dumps(
            {
                "target": "species",
                "decisions": [
                    {"row": 7, "given": "", "decision": "relabel", "label": right[0]},
                    {"row": 8, "given": "", "decision": "confirm", "label": ""},
                ],
            }
        )
    )
    code, _, err = command("apply", "d.json", "t.csv", "-o", "c.csv")
    assert code == 0, err
    assert read("c.csv").table["species"][7].as_py() == right[0]
    found, _ = suspects(command, "c.csv")
    assert (
        found["n_unlabelled"],
        [row for row in found["rows"] if row["status"] == "unlabelled"],
    ) == (1, [])
    shutil.copy("c.csv", "d.csv")
    Path(KEPT).unlink()
    found, _ = suspects(command, "d.csv")
    assert [row["row"] for row in found["rows"] if row["status"] == "unlabelled"] == [8]


def test_a_label_is_not_taken_for_missing(command, tmp_path, rng):
    write_csv(tmp_path / "t.csv", flowers(rng)[0])
    Path("d.json").write_text(
        json.dumps(
            {
                "target": "species",
                "decisions": [{"row": 7, "given": "", "decision": "relabel", "label": "rose"}],
            }
        )
    )
    code, _, err = command("apply", "d.json", "t.csv", "-o", "c.csv")
    assert code == 2
    assert "but the decision was made on ''" in one_line(err)


def test_targets_without_a_number_get_a_typical_one(command, tmp_path, rng):
    x = rng.normal(size=150)
    y = (100 * x).round(1).astype(object)
    y[3] = ""
    write_csv(tmp_path / "t.csv", {"x": x, "species": y})
    found, _ = suspects(command, "t.csv")
    row = next(row for row in found["rows"] if row["status"] == "unlabelled")
    assert abs(row["suggested"] - 100 * x[3]) < 60
    assert row["suggested"] in y.tolist()
    assert row["quality"] is None
    assert row["why"] == "no label; its nearest rows suggest this one"
    code, _, _ = command("audit", "t.csv", "-t", "species", "-q", "-o", "s.csv")
    assert code == 0
    assert "nan" not in Path("s.csv").read_text()


def test_arrays_have_keys_too(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.arange(12.0).reshape(4, 3), y=[0, 1, 0, 1])
    np.savez(
        tmp_path / "b.npz", X=np.arange(12).reshape(4, 3)[::-1].astype(np.int32), y=[0, 1, 0, 1]
    )
    a, b = (row_keys(read(tmp_path / name), "y", np.arange(4)) for name in ("a.npz", "b.npz"))
    assert a == b[::-1]
    assert len(set(a)) == 4


def test_labels_that_are_the_same():
    assert same_label(None, "")
    assert same_label("?", "")
    assert same_label(7.0, "007")
    assert not same_label("x", "")
    assert not same_label("1000001", "1000004")


def kept():
    return {
        (record["at"], record["decision"])
        for record in json.loads(Path(KEPT).read_text())["decisions"]
    }


def start_apply(number, rows):
    """The command in a process of its own, confirming some rows."""
    given = read("t.csv").table["species"].to_pylist()
    made = decide({row: ("confirm", given[row]) for row in rows}, name=f"d{number}.json")
    return subprocess.Popen(
        [*START, "apply", made, "t.csv", "-o", f"c{number}.csv", "-q"], env=environment()
    )


def test_what_several_commands_decide_at_once_is_all_kept(command, data):
    started = [start_apply(number, range(10 * number, 10 * number + 10)) for number in range(3)]
    assert [process.wait() for process in started] == [0, 0, 0]
    assert kept() == {(str(row), "confirm") for row in range(30)}
    assert [name for name in os.listdir() if "lock" in name] == []


def test_what_another_command_keeps_meanwhile_stays(command, data):
    assert start_apply(0, [5]).wait() == 0
    before = Path(KEPT).read_text()
    with locked(Path(KEPT)):
        Path(KEPT).unlink()
        process = start_apply(1, [7])
        while not Path("c1.csv").exists():  # from now on it waits for the lock
            assert process.poll() is None
        Path(KEPT).write_text(before)
    assert process.wait() == 0
    assert kept() == {("5", "confirm"), ("7", "confirm")}


def test_decisions_that_cannot_be_kept_are_named(command, data, monkeypatch):
    monkeypatch.setattr("nearworth.tables.write.MAX_LOCK_SECONDS", 0.1)
    made = decide({5: ("confirm", read(data).table["species"][5].as_py())})
    with locked(Path(KEPT)):
        code, _, err = command("apply", made, data, "-o", "c.csv")
    assert code == 0
    assert Path("c.csv").exists()
    assert "warning: the decisions are not kept for the next report: " in err
    assert f"{KEPT}: could not be changed: another process has held it for 0.1 seconds" in err
    assert not Path(KEPT).exists()
