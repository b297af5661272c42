"""nearworth review, and --review of audit and report."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from helpers.command_line import WRONG, flowers, one_line, write_csv
from helpers.report_pages import embedded


def read_csv(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


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
    code, out, _ = command(
        "audit", *DATA, "--review", "decisions.csv", "--max-fdr", "0.1", "--json"
    )
    summary = json.loads(out)
    assert code == 0
    assert summary["n_errors"]["basis"] == "review"
    assert found <= summary["n_errors"]["lower"] <= 3 <= summary["n_errors"]["upper"]
    assert (summary["n_reviewed"], summary["precision"]["estimate"]) == (40, 1.0)
    assert 0.0 <= summary["precision"]["lower"] <= 1.0 == summary["precision"]["upper"]
    unreviewed = json.loads(command("audit", *DATA, "--json")[1])
    assert (unreviewed["n_reviewed"], unreviewed["precision"]) == (0, None)
    assert {row for row in rows if row in WRONG} <= {record["row"] for record in summary["rows"]}
    assert not {row for row in rows if row not in WRONG} & {
        record["row"] for record in summary["rows"]
    }
    _, _, err = command("audit", *DATA[:-1], "--review", "decisions.csv", "-o", "s.csv")
    assert "95% interval, by review). Of the suspects, 100% are wrong (" in err
    assert command("report", *DATA, "--review", "decisions.csv", "-o", "report.html")[0] == 0
    assert embedded(Path("report.html").read_text())["reviewed"] is True
    assert "judged wrong in the review" in embedded(Path("report.html").read_text())["why"]


def test_rows_judged_wrong_without_a_label_get_the_command_to_label_them(command, page):
    rows = judge(page)
    n_wrong = len(set(rows) & set(WRONG))
    assert n_wrong > 0
    code, _, err = command("apply", "decisions.csv", "train.csv", "-o", "clean.csv")
    assert code == 0
    to_label = "nearworth report train.csv --target species --review decisions.csv -o labels.html"
    expected = f"{n_wrong} judged wrong have no label yet and stay as they are. To choose one: "
    assert expected + to_label in " ".join(err.split())


def test_a_second_review_asks_for_other_rows(command, page):
    first = judge(page, skipped={0, 1, 2})
    more = ["review", *DATA, "--review", "decisions.csv", "-n", "10", "--blind", "-o", "more.html"]
    assert command(*more)[0] == 0
    second = judge("more.html", "more.csv")
    assert embedded(Path("more.html").read_text())["blind"]
    assert not (set(first) - {0, 1, 2}) & set(second)
    _, out, _ = command(
        "audit", *DATA, "--review", "decisions.csv", "--review", "more.csv", "--json"
    )
    assert json.loads(out)["n_errors"]["basis"] == "review"
    code, _, err = command("audit", *DATA, "--review", "more.csv")
    assert code == 2
    assert "is not among the 10 rows of this review" in one_line(err)


def test_single_answers_on_rows_not_drawn_here_are_left_out(command, page):
    """Another processor may round a row into another stratum: the other answers count."""
    rows = judge(page)
    answers = read_csv("decisions.csv")
    flower = read_csv("train.csv")
    other = next(row for row in range(len(flower)) if row not in rows)
    answers[-1] |= {"row": str(other), "given": flower[other]["species"], "decision": "right"}
    write_csv("decisions.csv", {name: [answer[name] for answer in answers] for name in answers[0]})
    code, out, err = command("audit", *DATA[:-1], "--review", "decisions.csv", "--json")
    assert code == 0
    assert "decisions.csv: 1 answer left out, on rows that are not drawn here." in err
    assert json.loads(out)["n_reviewed"] == 39


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
    code, _, err = command("audit", *DATA, "--review", "decisions.csv")
    assert code == 2
    assert problem in one_line(err)


def test_other_files_are_refused(command, page):
    Path("other.csv").write_text("row,decision\n1,wrong\n")
    code, _, err = command("audit", *DATA, "--review", "other.csv")
    assert code == 2
    assert "has no column 'given'" in one_line(err)
    code, _, err = command("review", *DATA, "-n", "91", "-o", "all.html")
    assert code == 2
    assert "90 are left" in one_line(err)
    assert "goes to a file" in one_line(command("review", *DATA, "-o", "-")[2])
    with open("train.csv") as file:
        assert len(list(csv.reader(file))) == 91


def test_what_a_report_exports_is_no_review(command, page):
    Path("d.csv").write_text(
        "row,target,given,decision,label,of_rows,found_as\n4,species,iris,relabel,rose,90,sample\n"
    )
    code, _, err = command("audit", *DATA, "--review", "d.csv")
    assert code == 2
    assert "is of a report, whose rows were not drawn for a review" in one_line(err)
    assert "nearworth review" in err
    code, _, err = command("apply", "train.csv", "d.csv", "-o", "c.csv")
    assert code == 2
    assert "train.csv: line 0 holds no decisions" in one_line(err)
    assert "takes them first, then the data" in err


def test_small_files_are_judged_in_full(command, page):
    code, _, err = command("review", *DATA[:-1], "-o", "all.html")
    assert code == 0
    assert "90 of 90 rows to judge" in err
    judge(page)
    code, _, err = command("review", *DATA[:-1], "--review", "decisions.csv", "-o", "rest.html")
    assert code == 0
    assert "50 of 90 rows to judge" in err


def test_a_report_asks_for_the_labels_that_are_not_known(command, page):
    found = sorted(row for row in judge(page) if row in WRONG)
    assert found
    assert command("report", *DATA, "--review", "decisions.csv", "-o", "report.html")[0] == 0
    content = embedded(Path("report.html").read_text())
    assert sorted(content["wasWrong"]) == sorted(content["row"][: len(found)]) == found

    rows = read_csv("decisions.csv")
    other = lambda given: "iris" if given != "iris" else "rose"  # noqa: E731
    for row in rows:
        row["label"] = other(row["given"]) if int(row["row"]) == found[0] else ""
    write_csv("decisions.csv", {name: [row[name] for row in rows] for name in rows[0]})
    report = ["report", *DATA[:-1], "--review", "decisions.csv", "--overwrite", "-o", "report.html"]
    code, _, err = command(*report)
    content = embedded(Path("report.html").read_text())
    assert code == 0
    assert "1 row judged before (listed with --include-reviewed)" in err
    assert (content["nJudged"], found[0] in content["row"]) == (1, False)
    assert sorted(content["wasWrong"]) == found[1:]
    command(*report, "--include-reviewed")
    assert sorted(embedded(Path("report.html").read_text())["wasWrong"]) == found
    _, out, _ = command("audit", *DATA, "--review", "decisions.csv", "--json")
    assert set(found) <= {
        record["row"] for record in json.loads(out)["rows"]
    }  # audit lists them as before

    code, _, err = command("apply", "decisions.csv", "train.csv", "-o", "clean.csv")
    assert code == 0
    assert "1 label changed" in err
    pairs = enumerate(zip(read_csv("train.csv"), read_csv("clean.csv"), strict=True))
    given = {int(row["row"]): row["given"] for row in rows}
    assert [(i, new["species"]) for i, (old, new) in pairs if old != new] == [
        (found[0], other(given[found[0]]))
    ]
    kept = json.loads(Path("nearworth-decisions.json").read_text())["decisions"]
    assert {record["decision"] for record in kept} == {
        "confirm",
        "relabel",
    }  # those without a label are still open
