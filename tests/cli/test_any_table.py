"""Twenty awkward but honest tables: the first command, with nothing but the target, ends in a page
or one sentence.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from helpers.awkward_tables import (
    CSVS,
    OTHER_FORMATS,
    N,
    blobs,
    in_other_formats,
    tickets,
    titanic,
)
from helpers.command_line import one_line, write_csv
from helpers.report_pages import embedded
from nearworth.tables.read import read


def page(command, *arguments):
    code, _, err = command("report", *arguments, "-o", "r.html", "--overwrite")
    assert code == 0, err
    text = Path("r.html").read_text()
    assert "</html>" in text
    return err, text


@pytest.mark.parametrize("name", CSVS)
def test_tables_in_csv(command, tmp_path, rng, name):
    write_csv(tmp_path / "t.csv", CSVS[name](rng))
    err, _ = page(command, "t.csv", "-t", "label")
    assert "Traceback" not in err


@pytest.mark.parametrize("name", CSVS)
@pytest.mark.parametrize("output", ["c.csv", pytest.param("c.parquet", marks=pytest.mark.long)])
def test_decisions_on_every_table_can_be_applied(command, tmp_path, rng, name, output):
    write_csv(tmp_path / "t.csv", CSVS[name](rng))
    _, text = page(command, "t.csv", "-t", "label", "--fraction", "0.05")
    data = embedded(text)
    assert len(data["row"]) >= 3
    made = [
        {
            "row": row,
            "given": data["labels"][given],
            "label": data["labels"][new],
            "of_rows": data["ofRows"],
        }
        | {"decision": ("relabel", "remove", "confirm")[i % 3]}
        for i, (row, given, new) in enumerate(
            zip(data["row"], data["given"], data["suggested"], strict=True)
        )
    ]
    Path("d.json").write_text(json.dumps({"target": data["target"], "decisions": made}))
    code, _, err = command("apply", "d.json", "t.csv", "-o", output)
    assert code == 0, err
    before = read("t.csv").table
    after = read(output).table
    n_removed = sum(decision["decision"] == "remove" for decision in made)
    assert after.num_rows == before.num_rows - n_removed
    rest = [name for name in before.column_names if name != "label"]
    kept = [
        row
        for row in range(before.num_rows)
        if (row, "remove") not in {(d["row"], d["decision"]) for d in made}
    ]
    assert after.select(rest).to_pylist() == before.select(rest).take(kept).to_pylist()
    page(command, output, "-t", "label")


SAID = {
    "german.csv": (
        "betrag: number, standardised",
        "datum: date, as days, standardised; day first",
        "größe: number, standardised",
    ),
    "vec.parquet": ("vec: embedding of 8 numbers, used as it is, 1 missing filled with the mean",),
    "digits.npz": ("64 columns of",),
    "adult.xlsx": ("occupation: 5", "capital.gain: number, standardised"),
}


@pytest.mark.parametrize("name", OTHER_FORMATS)
def test_tables_in_other_formats(command, tmp_path, rng, name):
    files = in_other_formats(rng, tmp_path)
    assert list(files) == OTHER_FORMATS
    err, _ = page(command, name, *([] if name.endswith(".npz") else ["-t", "label"]))
    for line in SAID.get(name, ()):
        assert line in err


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a,label\n1,x\n2,x\n3,x\n", "with one class there is nothing to learn"),
        (
            "id,label\n" + "".join(f"{i},{'xy'[i % 2]}\n" for i in range(20)),
            "no column is left to compare rows by: 'id' is left out: it numbers the rows",
        ),
        ("a,label\n", "has no rows"),
        ("a,label\n1,x\n2,?\n3,x\n4,NA\n", "with one class there is nothing to learn"),
        ("a,label\n1,\n2,\n", "is empty in every row"),
    ],
)
def test_nothing_to_compare_is_one_sentence(command, tmp_path, content, sentence):
    Path("t.csv").write_text(content)
    code, _, err = command("report", "t.csv", "-t", "label")
    assert code == 2
    assert sentence in one_line(err)


def test_choices_are_said_and_on_the_page(command, tmp_path, rng):
    write_csv(tmp_path / "t.csv", titanic(rng))
    err, text = page(command, "t.csv", "-t", "label")
    for line in (
        "unnamed: left out: it numbers the rows",
        "PassengerId: left out: it numbers the rows",
        "Name: free text",
        "Ticket: left out: a different text in",
        "Age: number, standardised, missing filled with the median",
    ):
        assert line in err
        assert line in text


def test_spellings_of_labels_are_one_class(command, tmp_path, rng):
    write_csv(tmp_path / "t.csv", tickets(rng))
    err, text = page(command, "t.csv", "-t", "label")
    assert re.search(
        r"labels 'praise ' \(\d+\)|labels 'PRAISE' \(\d+\)|labels 'Praise' \(\d+\)", err
    )
    assert "are one class unless labels are exact" in err
    assert len(embedded(text)["labels"]) == 2
    err, _ = page(command, "t.csv", "-t", "label", "--exact-labels")
    assert "one class" not in err


def test_rows_without_a_label_keep_their_numbers(command, tmp_path, rng):
    columns = blobs(rng, lambda y, rng: [str(v) for v in y])
    columns["a"] += np.arange(N) % 2 * 20
    columns["label"][0] = columns["label"][5] = "NA"
    columns["label"][40] = "1"  # wrong
    write_csv(tmp_path / "t.csv", columns)
    code, out, err = command("audit", "t.csv", "-t", "label", "--fraction", "0.01", "--json")
    assert code == 0
    assert "2 rows without a label left out: 0, 5" in err
    assert [(row["row"], row["status"]) for row in json.loads(out)["rows"]] == [
        (40, "suspect"),
        (5, "unlabelled"),
        (0, "unlabelled"),
    ]
    _, text = page(command, "t.csv", "-t", "label", "--fraction", "0.01")
    data = embedded(text)
    assert (data["row"], data["ofRows"]) == ([40], N)
    made = {"row": 40, "given": "1", "decision": "relabel", "label": "0", "of_rows": data["ofRows"]}
    Path("d.json").write_text(json.dumps({"target": "label", "decisions": [made]}))
    assert command("apply", "d.json", "t.csv", "-o", "c.csv", "-q") == (0, "", "")
    before, after = (Path(name).read_text().splitlines() for name in ("t.csv", "c.csv"))
    assert [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b] == [41]


def test_words_that_are_taken_for_missing_labels_are_named(command, tmp_path, rng):
    """None is a class here, beside two others: nobody may lose it without being told."""
    columns = blobs(
        rng, lambda y, rng: np.where(y, "some", np.where(np.arange(N) % 3, "None", "lots"))
    )
    columns["label"] = ["", "NA", *columns["label"][2:]]
    n = list(columns["label"]).count("None")
    write_csv(tmp_path / "t.csv", columns)
    err, _ = page(command, "t.csv", "-t", "label")
    assert f"{n + 2} rows without a label left out: " in err
    assert (
        f"({n} read 'None', 1 read 'NA': no labels unless renamed or given --exact-labels)" in err
    )
    code, _, err = command("audit", "t.csv", "-t", "label", "--exact-labels", "-o", "s.csv")
    assert code == 0
    assert "1 row without a label left out: 0 (empty, or NA, ? and the like)" in err


def test_none_beside_one_other_label_is_a_class(command, tmp_path, rng):
    write_csv(tmp_path / "t.csv", blobs(rng, lambda y, rng: np.where(y, "some", "None")))
    assert "left out" not in page(command, "t.csv", "-t", "label")[0]


def test_options_as_people_type_them(command, tmp_path, rng):
    write_csv(tmp_path / "t.csv", titanic(rng))
    base = ["value", "t.csv", "-t", "label", "--dry-run"]
    _, _, err = command(*base, "--ignore", "Name,Ticket", "--ignore", "Cabin")
    assert err.count("left out: --ignore") == 3
    _, _, err = command(*base, "--features", "Age, Fare,Sex")
    assert "Fare: number, standardised" in err
    assert "Sex: 2 categories" in err
    _, _, err = command(*base, "--na-values", "1,male")
    assert "Pclass: number, standardised, missing filled" in err
    assert "Sex: 2 categories (missing is one of them)" in err


@pytest.mark.filterwarnings("ignore:X_val")  # the same rows
def test_validation_is_read_as_training_was(command, tmp_path, rng):
    columns = titanic(rng)
    write_csv(tmp_path / "t.csv", columns)
    columns |= {
        "Age": ["?", *columns["Age"][1:]],
        "label": [f" {label.upper()}" for label in columns["label"]],
    }
    columns["Fare"] = columns["Fare"][::-1]  # other rows than those of training
    write_csv(tmp_path / "v.csv", columns)
    code, _, err = command("value", "t.csv", "-t", "label", "--validation", "v.csv", "-o", "o.csv")
    assert code == 0, err


def test_an_id_stays_an_id_when_a_row_is_copied(command, tmp_path):
    rows = [f"{1000 + 7 * i},{i % 5},{'a' if i % 2 else 'b'}" for i in range(100)]
    (tmp_path / "t.csv").write_text("\n".join(["PassengerId,x,label", *rows, rows[4]]) + "\n")
    code, _, err = command("audit", "t.csv", "-t", "label", "--dry-run")
    assert code == 0
    assert "PassengerId: left out: an id, different in almost every row" in err


def test_the_median_of_dates_is_a_date(command, tmp_path, rng):
    columns = blobs(rng, lambda y, rng: np.where(y, "a", "b"))
    days = [f"2021-03-{1 + i % 27:02}" for i in range(N)]
    write_csv(tmp_path / "t.csv", {"day": ["", *days[1:]]} | columns)
    assert "missing filled with the median 2021-03-" in page(command, "t.csv", "-t", "label")[0]
