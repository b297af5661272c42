"""Report, decide in a browser, export, apply, report again: on every awkward table, and nothing is
asked twice.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from helpers.awkward_tables import CSVS, OTHER_FORMATS, in_other_formats
from helpers.browser import ENTER, Page, errors_in_console
from helpers.command_line import write_csv
from helpers.report_pages import embedded
from nearworth.cli.decisions import KEPT, row_keys
from nearworth.tables.read import read


def report(command, path, target, output):
    given = [] if path.endswith(".npz") else ["-t", target]
    code, _, err = command("report", path, *given, "--fraction", "0.05", "-o", output)
    assert code == 0, err
    return embedded(Path(output).read_text())


def decide_all(page, data):
    """Change, keep and delete a row each, then all others at once; the same for rows without a
    label.
    """
    for name, number in [
        ("labels", len(data["row"])),
        ("unlabelled", len(data.get("unlabelled", {"row": []})["row"])),
    ]:
        if not number:
            continue
        page.click(f"#tab-{name}")
        page.keys("kd"[:number])
        if page.all(".verdict .new"):  # else C asks which label
            page.keys("c")
        if page.one("#bulk").is_enabled():
            page.click("#bulk")
            page.keys(ENTER)
        assert page.text(f"#tab-{name}").endswith(" 0")
    page.saved()
    page.click("#export")
    return page.text("dialog code")


# One table of each kind: categories, rows without a label, hostile cells, a file without columns,
# and nested records.
QUICK = {"adult", "unlabelled", "hostile", "digits.npz", "tickets.jsonl"}
TABLES = [
    name if name in QUICK else pytest.param(name, marks=pytest.mark.long)
    for name in [*CSVS, *OTHER_FORMATS]
]


@pytest.mark.parametrize("name", TABLES)
def test_nothing_is_asked_twice(command, browser, tmp_path, rng, name):
    path = name
    if name in CSVS:
        path = f"{name.replace(' ', '-').replace(',', '')}.csv"
        write_csv(tmp_path / path, CSVS[name](rng))
    else:
        in_other_formats(rng, tmp_path)
    first = report(command, path, "label", "first.html")
    assert len(first["row"]) >= 3
    line = decide_all(Page(browser, tmp_path, Path("first.html").read_text()), first)
    assert not errors_in_console(browser)
    code, _, err = command(*shlex.split(line)[1:])
    assert code == 0, err
    assert "1 row removed" in err or "2 rows removed" in err
    judged = {record["row"] for record in json.loads(Path(KEPT).read_text())["decisions"]}
    for data, file in [(None, shlex.split(line)[-1]), (first, path)]:
        second = report(command, file, "label", f"{'first' if data else 'second'}-again.html")
        listed = second["row"] + second.get("unlabelled", {"row": []})["row"]
        assert not judged & set(row_keys(read(file), second["target"], listed))
        assert data is None or not second["row"]
