"""Names and labels that would forge lines or steer a terminal, through every command: shown in one
line, escaped.
"""

from __future__ import annotations

import csv
import io
import json
import os
import unicodedata
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest

from helpers.command_line import flowers, one_line, write_csv
from nearworth.tables.write import write_columns

FORGED = "  5,000.00  mallory"
HOSTILE = f"bob\n{FORGED}\r\x1b[31m\x9b1m\u202ebob\u2028{FORGED}\u200b"
SHOWN = r"bob\n"  # how it begins wherever it is printed
PAPER = f"paper\n{FORGED}\x1b[2J\u202e"  # a label
COLUMN = f"len|gth\n{FORGED}\x1b[1m"
FILE = f"train\n{FORGED}\x1b[2m.csv"
HIDDEN = {"Cc", "Cf", "Zl", "Zp", "Cs"}

pytestmark = pytest.mark.skipif(os.name == "nt", reason="file names of Windows have no line breaks")


def assert_plain(text):
    """Nothing but characters that can be seen, and no line that data made."""
    hidden = {character for character in text if unicodedata.category(character) in HIDDEN} - {"\n"}
    assert not hidden, (hidden, text)
    forged = [line for line in text.splitlines() if line.strip().startswith(FORGED.strip())]
    assert not forged, text


@pytest.fixture
def data(tmp_path, rng):
    """Four wrong labels, a hostile name wherever there can be one."""
    columns, _ = flowers(rng, 120, wrong=(4, 31, 62, 100))
    columns[COLUMN] = columns.pop("length")
    columns["species"] = [PAPER if label == "rose" else label for label in columns["species"]]
    columns["seller"] = [(HOSTILE, "alice", "carol")[i % 3] for i in range(120)]
    columns["name"] = [f"{name}\n{FORGED}" for name in columns["name"]]
    for cells in columns.values():  # row 119 is a copy of row 118
        cells[119] = cells[118]
    write_csv(tmp_path / FILE, columns)
    return columns


def run(command, *arguments, code=0):
    """What the command prints, which is plain."""
    found, out, err = command(*arguments)
    assert found == code, err
    assert_plain(err)
    return out, err


def test_every_command_prints_plain_lines(command, data):
    target = ("-t", "species")
    _, err = run(command, "value", FILE, *target, "-o", "values.csv", "--id", "name")
    assert r"len|gth\n" in err
    run(command, "report", FILE, *target, "-o", "report.html", "--id", "name", "--groups", "seller")
    run(command, "review", FILE, *target, "-o", "review.html", "-n", "5")
    out, err = run(
        command, "scan", FILE, *target, "--groups", "seller", "-o", "scan.html", "--json"
    )
    assert_plain(out)
    assert_plain("\n".join(json.loads(out)["summary"]))
    out, _ = run(command, "plan", FILE, *target)
    assert_plain(out)
    out, _ = run(command, "value", FILE, *target, "-q", "--json", "--dry-run")
    run(command, "value", FILE, *target, "-o", f"out\n{FORGED}\x1b.csv")
    run(command, "value", FILE, *target, "-o", f"out\n{FORGED}\x1b.csv", code=2)  # it exists


def test_suspects_are_cells_of_a_csv(command, data):
    out, _ = run(
        command, "audit", FILE, "-t", "species", "--id", "name", "-o", "suspects.csv", "--json"
    )
    assert_plain(out)
    with open("suspects.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {PAPER} < {row["given"] for row in rows} | {
        row["suggested"] for row in rows
    }  # as they are in the data
    assert all(row["name"] == data["name"][int(row["row"])] for row in rows)
    for row in rows:
        assert_plain(row["why"])
    assert any(r"paper\n" in row["why"] for row in rows)


def test_statements(command, data):
    arguments = ("owners", FILE, "-t", "species", "--owner", "seller", "--budget", "100")
    _, err = run(command, *arguments, "-o", "owners.csv")
    assert (
        sum(line.startswith(SHOWN) for line in err.splitlines()) == 2
    )  # its value and its payment
    with open("owners.csv", newline="", encoding="utf-8") as file:
        assert [row["owner"] for row in csv.DictReader(file)] == [HOSTILE, "alice", "carol"]
    run(command, *arguments, "-o", "owners.html")
    page = unescape(Path("owners.html").read_text(encoding="utf-8"))
    assert_plain(page)
    assert (
        page.count(SHOWN) == 4
    )  # the table, the payments, the heading and the statement of this owner
    run(command, *arguments, "-o", "owners.json")
    assert set(json.loads(Path("owners.json").read_text())["payments"]) == {
        HOSTILE,
        "alice",
        "carol",
    }


@pytest.mark.parametrize("form", ["text", "json", "markdown", "sarif", "junit"])
def test_every_form_of_the_gate(command, data, form):
    gate = ("check", FILE, "-t", "species", "--baseline", f"base\n{FORGED}.json")
    run(command, *gate, "--update", "-q")
    species = [
        PAPER if label != PAPER and i < 30 else label for i, label in enumerate(data["species"])
    ]
    species[50] = f"unseen|<b>*new*</b>\n| leak | row 0 | {FORGED}\x1b[0m"
    write_csv(Path(FILE), data | {"species": species, "name": [f"n{i}" for i in range(120)]})
    out, _ = run(command, *gate, "--format", form, code=3)
    assert_plain(out)
    if form == "markdown":
        assert "<b>" not in out.replace(r"\<", "")
        assert not [line for line in out.splitlines() if line.startswith("| leak | row 0")]
        assert r"unseen\|\<b\>\*new\*\</b\>" in out
    elif form == "junit":
        assert len(ElementTree.fromstring(out)) > 0
    elif form == "sarif":
        places = [
            result["locations"][0]["physicalLocation"]
            for result in json.loads(out)["runs"][0]["results"]
        ]
        uris = {place["artifactLocation"]["uri"] for place in places}
        assert uris == {"train%0A%20%205%2C000.00%20%20mallory%1B%5B2m.csv"}
    elif form == "json":
        assert any("unseen" in finding["message"] for finding in json.loads(out)["findings"])


def test_decisions(command, data):
    given = data["species"]
    new = f"new\n{FORGED}\x1b"
    made = [{"row": 0, "given": given[0], "decision": "relabel", "label": new}]
    made += [{"row": 1, "given": given[1], "decision": "wrong", "label": ""}]
    decisions = f"d\n{FORGED}.json"
    Path(decisions).write_text(json.dumps({"target": "species", "decisions": made}))
    _, err = run(command, "apply", decisions, FILE, "-o", f"c\n{FORGED}.csv")
    assert r"-> new\n" in err
    with open(f"c\n{FORGED}.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["species"] == new
    made[0]["given"] = f"other\n{FORGED}"
    Path(decisions).write_text(json.dumps({"target": "species", "decisions": made}))
    _, err = run(command, "apply", decisions, FILE, "-o", "d.csv", code=2)
    assert_plain(one_line(err))


@pytest.mark.parametrize(
    "arguments",
    [
        ("value", f"none\n{FORGED}\x1b.csv", "-t", "y"),
        ("value", FILE, "-t", f"none\n{FORGED}\x1b"),
        ("value", FILE, "-t", "species", "--ignore", f"none\n{FORGED}\x1b"),
        ("value", FILE, "-t", "species", "--strict"),
        ("value", FILE, "-t", "species", f"--none\n{FORGED}\x1b"),
        ("value", FILE, "-t", "species", "-o", f"none\n{FORGED}/\x1b.csv"),
        ("value", FILE, "-t", "species", "--task", "regression"),
        ("value", FILE, "-t", "species", "--metric", f"none\n{FORGED}\x1b", "-q"),
        ("apply", f"none\n{FORGED}\x1b.json", FILE, "-o", "c.csv"),
        ("merge", f"none\n{FORGED}\x1b.part", "-o", "m.csv"),
        ("retrieval", f"none\n{FORGED}\x1b.run", "none.qrels"),
        (f"none\n{FORGED}\x1b",),
    ],
)
def test_errors_are_one_plain_line(command, data, arguments):
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert_plain(err)
    assert err.rstrip("\n").count("\n") == 0


def test_documents(command):
    document = "d\x1b[31m\u202e"
    Path("run.txt").write_text(
        f"q\u202e Q0 {document} 1 2.0 x\nq\u202e Q0 good 2 1.0 x\n", encoding="utf-8"
    )
    Path("qrels.txt").write_text(f"q\u202e 0 good 1\nq\u202e 0 {document} -1\n", encoding="utf-8")
    out, err = run(command, "retrieval", "run.txt", "qrels.txt", "-o", "values.csv", "--json")
    assert_plain(out)
    assert r"d\x1b[31m\u202e hurts q\u202e" in err
    with open("values.csv", newline="", encoding="utf-8") as file:
        assert {row["document"] for row in csv.DictReader(file)} == {document, "good"}


def test_csv_that_is_written_reads_back(tmp_path):
    """Delimiters, quotes, line breaks and formulas in names and cells."""
    cells = ["a,b\tc", 'say "x"', "two\nlines", "two\r\nlines", "one\rtwo", "=1+1", "\t=1", ""]
    columns = {'na,m"e\n': cells, "tab\there": cells[::-1]}
    for path, delimiter in (("x.csv", ","), ("x.tsv", "\t")):
        write_columns(columns, str(tmp_path / path))
        text = (tmp_path / path).read_bytes().decode()
        head, *rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        assert head == list(columns)
        unguarded = [[cell.removeprefix("'") for cell in row] for row in rows]
        assert unguarded == [list(pair) for pair in zip(cells, cells[::-1], strict=True)]


def test_letters_of_all_scripts_are_shown_as_they_are(command, rng, tmp_path):
    columns, _ = flowers(rng, 60)
    columns["species"] = [
        ["é", "日本", "👩‍👩‍👧 no\u00a0break"][i % 3] for i in range(60)
    ]  # ZWJ is part of emoji
    write_csv(tmp_path / "t.csv", columns)
    code, _, err = command("owners", "t.csv", "-t", "garden", "--owner", "species", "-o", "o.csv")
    assert code == 0
    for name in columns["species"][:3]:
        assert name in err
