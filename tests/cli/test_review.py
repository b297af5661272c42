"""nearworth review, and --review of detect and report."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from cli.command_line import WRONG, flowers, one_line, write_csv
from report_pages import embedded

DATA = ["train.csv", "-t", "species", "--id", "name", "-q"]


def judge(page, decisions="decisions.csv", skipped=(), **changed):
    """Decisions as the page exports them, by someone who knows the wrong rows; returns the rows."""
    content = embedded(Path(page).read_text())
    rows = content["row"]
    answers = ["skip" if row in skipped else "wrong" if row in WRONG else "right" for row in rows]
    columns = {
        "row": rows,
        "id": content["id"],
        "target": [content["target"]] * len(rows),
        "given": [content["labels"][code] for code in content["given"]],
        "decision": answers,
        "asked": [len(rows)] * len(rows),
        "seed": [content["seed"]] * len(rows),
        "of_rows": [content["ofRows"]] * len(rows),
    }
    write_csv(decisions, columns | {name: [value] * len(rows) for name, value in changed.items()})
    return rows


@pytest.fixture
def page(command, tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng, wrong=WRONG)[0])
    code, out, _ = command("review", *DATA, "-n", "40", "--seed", "3", "-o", "review.html")
    assert (code, out) == (0, "")
    return "review.html"


def test_counts_and_lists_rest_on_the_answers(command, page):
    rows = judge(page)
    found = sum(row in WRONG for row in rows)
    assert len(set(rows)) == 40
    code, out, _ = command("detect", *DATA, "--review", "decisions.csv", "--max-fdr", "0.1", "--json")
    summary = json.loads(out)
    assert code == 0
    assert summary["n_errors"]["basis"] == "review"
    assert found <= summary["n_errors"]["lower"] <= 3 <= summary["n_errors"]["upper"]
    assert {row for row in rows if row in WRONG} <= {record["row"] for record in summary["rows"]}
    assert not {row for row in rows if row not in WRONG} & {record["row"] for record in summary["rows"]}
    _, _, err = command("detect", *DATA[:-1], "--review", "decisions.csv", "-o", "s.csv")
    assert "95% interval, by review). Of the suspects, 100% are wrong (" in err
    assert command("report", *DATA, "--review", "decisions.csv", "-o", "report.html")[0] == 0
    assert embedded(Path("report.html").read_text())["reviewed"] is True
    assert "judged wrong in the review" in embedded(Path("report.html").read_text())["why"]


def test_a_second_review_asks_for_other_rows(command, page):
    first = judge(page, skipped={0, 1, 2})
    more = ["review", *DATA, "--review", "decisions.csv", "-n", "10", "--blind", "-o", "more.html"]
    assert command(*more)[0] == 0
    second = judge("more.html", "more.csv")
    assert embedded(Path("more.html").read_text())["blind"]
    assert not (set(first) - {0, 1, 2}) & set(second)
    _, out, _ = command("detect", *DATA, "--review", "decisions.csv", "--review", "more.csv", "--json")
    assert json.loads(out)["n_errors"]["basis"] == "review"
    code, _, err = command("detect", *DATA, "--review", "more.csv")
    assert code == 2
    assert "is not among the 10 rows of this review" in one_line(err)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"decision": "relabel"}, "use right, wrong, skip"),
        ({"of_rows": 91}, "Is it the file that the page was made from?"),
        ({"given": "rose?"}, "Is it the file that the page was made from?"),
        ({"seed": 4}, "is not among the 40 rows of this review"),
        ({"decision": "skip"}, "holds no judged row"),
        ({"asked": "many"}, "has no number where one is needed"),
    ],
)
def test_decisions_of_another_review_are_refused(command, page, changed, problem):
    judge(page, **changed)
    code, _, err = command("detect", *DATA, "--review", "decisions.csv")
    assert code == 2
    assert problem in one_line(err)


def test_other_files_are_refused(command, page):
    Path("other.csv").write_text("row,decision\n1,wrong\n")
    code, _, err = command("detect", *DATA, "--review", "other.csv")
    assert code == 2
    assert "has no column 'given'" in one_line(err)
    code, _, err = command("review", *DATA, "-n", "91", "-o", "all.html")
    assert code == 2
    assert "90 are left" in one_line(err)
    assert "goes to a file" in one_line(command("review", *DATA, "-o", "-")[2])
    with open("train.csv") as file:
        assert len(list(csv.reader(file))) == 91
