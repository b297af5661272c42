"""Files that are cut, or hold what cannot be told apart: the commands name them, and end with exit
code 2.
"""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.command_line import one_line
from nearworth.cli.data import MAX_LINES

FUZZER = Path(__file__).parents[1] / "fuzz_tables.py"
LONG = 10**20


def table(n_rows=60, columns=("seller", "label"), first=LONG, distinct=None):
    """A CSV with ids of many digits, and two clear classes."""
    with open("t.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["x", *columns])
        for i in range(n_rows):
            writer.writerow([(i % 2) * 9 + i / 100, first + i % (distinct or n_rows), "ab"[i % 2]])


def test_owners_whose_names_differ_in_the_last_digit_are_paid_each(command):
    table(distinct=3)
    given = ("--owner", "seller", "--budget", "900", "-o", "o.csv", "-q")
    assert command("owners", "t.csv", "-t", "label", *given)[0] == 0
    with open("o.csv", newline="") as file:
        paid = {row["owner"]: float(row["payment"]) for row in csv.DictReader(file)}
    assert set(paid) == {str(LONG + i) for i in range(3)}
    assert sum(paid.values()) == pytest.approx(900)
    assert max(paid.values()) < 400


def test_ids_are_written_and_recognised_with_all_digits(command):
    table(columns=("id", "label"))
    assert command(
        "audit", "t.csv", "-t", "label", "--id", "id", "-o", "o.csv", "--count", "1", "-q"
    )[0] in (0, 2)
    made = {
        "row": 4,
        "given": "a",
        "decision": "relabel",
        "label": "b",
        "id": str(LONG + 4),
        "id_column": "id",
    }
    Path("d.json").write_text(
        json.dumps({"target": "label", "decisions": [made | {"of_rows": 60}]})
    )
    lines = Path("t.csv").read_text().splitlines()
    Path("sorted.csv").write_text("\n".join([lines[0], *lines[3:], *lines[1:3]]))
    code, _, err = command("apply", "d.json", "sorted.csv", "-o", "c.csv", "-q")
    assert code == 2
    assert f"should have the id '{LONG + 4}', but has '{LONG + 6}'" in one_line(err)
    assert command("apply", "d.json", "t.csv", "-o", "c.csv", "-q") == (0, "", "")


def test_an_id_that_another_row_has_exactly_is_not_this_one(command):
    Path("t.csv").write_text("id,n,label\n7,1,a\n007,2,a\n")
    made = {
        "row": 0,
        "given": "a",
        "decision": "relabel",
        "label": "b",
        "id": "007",
        "id_column": "id",
    }
    Path("d.json").write_text(json.dumps({"target": "label", "decisions": [made]}))
    assert "should have the id '007', but has '7'" in one_line(
        command("apply", "d.json", "t.csv", "-o", "c.csv")[2]
    )


def test_a_record_that_is_no_object_is_named(command):
    Path("t.jsonl").write_text('null\n{"a": 1, "label": "x"}\n')
    code, _, err = command("audit", "t.jsonl", "-t", "label", "-o", "o.csv")
    assert code == 2
    assert one_line(err).startswith("nearworth: t.jsonl: record 1 (line 1) is null")


@pytest.mark.parametrize("cut", [6, 12, 25])
def test_a_packed_file_that_is_cut_is_named(command, cut):
    Path("r.gz").write_bytes(gzip.compress(b"1 Q0 a 1 5 t\n")[:-cut])
    Path("q").write_text("1 0 a 1\n")
    code, _, err = command("retrieval", "r.gz", "q", "-o", "o.csv")
    assert (code, one_line(err).startswith("nearworth: r.gz: is cut short or damaged")) == (2, True)
    Path("t.jsonl.gz").write_bytes(gzip.compress(b'{"a": 1, "label": "x"}\n')[:-cut])
    code, _, err = command("audit", "t.jsonl.gz", "-t", "label", "-o", "o.csv")
    assert code == 2
    assert "nearworth: t.jsonl.gz: is a packed JSON file that is cut short or damaged" in one_line(
        err
    )


def test_the_end_of_a_file_is_no_interruption(command, monkeypatch):
    def ends(*_, **__):
        raise EOFError("No data left in file")

    monkeypatch.setattr("nearworth.cli.value.load_files", ends)
    table()
    code, _, err = command("plan", "t.csv", "-t", "label")
    assert (code, one_line(err)) == (2, "nearworth: a file is cut short: No data left in file")


@pytest.mark.parametrize("more", [0, 1, 7])
def test_as_many_lines_about_columns_as_are_shown(command, more):
    """Each column has a treatment of its own, because its median is named; the target has the last
    line.
    """
    n_columns = MAX_LINES + more - 1
    lines = [",".join([*(f"c{i}" for i in range(n_columns)), "label"])]
    lines += [
        ",".join([*(str((r * (i + 3)) % 11 + i) for i in range(n_columns)), "ab"[r % 2]])
        for r in range(12)
    ]
    lines[3] = "," * (n_columns - 1) + ",a"
    Path("t.csv").write_text("\n".join(lines))
    code, _, err = command("audit", "t.csv", "-t", "label", "-o", "o.csv", "--dry-run")
    assert code == 0
    told = [line for line in err.splitlines() if ": number" in line or "the target" in line]
    assert len(told) == MAX_LINES
    assert ("lines more" in err) == (more > 0)
    assert (f"and {more} lines more" in err) == (more > 0)


def test_hostile_files_are_read_or_refused():
    done = subprocess.run(
        [sys.executable, str(FUZZER), "--seed", "0", "--cases", "150"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "150 hostile files, 0 failures" in done.stdout
