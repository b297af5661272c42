"""Every Python example in README and docs runs, page by page, and says what it claims."""

from __future__ import annotations

import csv
import doctest
import inspect
import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import click
import pytest

import nearworth as nw
from nearworth.cli import main

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "examples" / "README.md", *(ROOT / "docs").rglob("*.md")]
)


def name(page: Path | str) -> str:
    return str(page.relative_to(ROOT)) if isinstance(page, Path) else page


class Block(NamedTuple):
    """Python of a page, and what the page says it prints (None: nothing is said)."""

    code: str
    output: str | None


BLOCK = re.compile(
    r"(?:^<!-- needs: (?P<needs>\w+)"
    r" -->\n)?^```python\n(?P<code>.*?)^```\n(?:\n?^```output\n(?P<output>.*?)^```$)?"
    r"|^<!-- test\n(?P<hidden>.*?)^-->$",
    flags=re.M | re.S,
)


def blocks(page: Path, extra: str = "") -> list[Block]:
    """The page's examples and the checks hidden in comments; those below `needs: PACKAGE` only for
    that package.
    """
    found = BLOCK.finditer(page.read_text())
    return [
        Block(m["code"] or m["hidden"], m["output"])
        for m in found
        if (m["needs"] or "") in ("", extra)
    ]


def extras(page: Path) -> set[str]:
    return set(re.findall(r"^<!-- needs: (\w+) -->\n```python$", page.read_text(), flags=re.M))


# Pages whose examples take many seconds.
LONG = {ROOT / "docs" / "howto" / "coming-from-cleanlab.md"}
WITH_EXAMPLES = [
    pytest.param(page, marks=pytest.mark.long) if page in LONG else page
    for page in PAGES
    if blocks(page)
]


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name)
@pytest.mark.filterwarnings("ignore:labels '")  # spellings of one class, which the page tells of
def test_examples(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(page, blocks(page))


@pytest.mark.parametrize(
    ("page", "package"), [(p, e) for p in PAGES for e in sorted(extras(p))], ids=name
)
def test_examples_with_other_packages(page, package, tmp_path, monkeypatch):
    pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    run(page, blocks(page, package))


CHECKER = doctest.OutputChecker()
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run(page: Path, examples: list[Block]) -> None:
    namespace: dict[str, object] = {}
    for number, (block, output) in enumerate(examples, start=1):
        name = f"{page.name} block {number}"
        if ">>>" in block:
            test = doctest.DocTestParser().get_doctest(block, namespace, name, str(page), 0)
            runner = doctest.DocTestRunner(optionflags=FLAGS)
            report: list[str] = []
            runner.run(test, out=report.append, clear_globs=False)
            namespace = test.globs
            assert not runner.failures, "".join(report)
        else:
            with redirect_stdout(StringIO()) as printed:
                exec(compile(block, name, "exec"), namespace)
            if output is not None:
                right = CHECKER.check_output(output, printed.getvalue(), FLAGS)
                assert right, f"{name} prints\n{printed.getvalue()}"


def test_what_a_page_prints_is_compared(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```output\n3\n```\n")
    with pytest.raises(AssertionError, match=r"page.md block 1 prints\s+2"):
        run(page, blocks(page))
    page.write_text("```python\nx = 1\n```\n\n<!-- test\nassert x == 2\n-->\n")
    with pytest.raises(AssertionError):
        run(page, blocks(page))


def test_links_to_files_lead_somewhere():
    for page in {*PAGES, *ROOT.glob("*.md"), *(ROOT / "benchmarks").rglob("*.md")}:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if not target.startswith(("http:", "https:", "mailto:")):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_public_name_is_in_the_reference():
    page = (ROOT / "docs" / "api.md").read_text()
    documented = set(re.findall(r"(?:auto\w+|py:data):: nearworth\.([\w.]+)", page))
    headings = set(re.findall(r"^## nearworth\.(\w+)$", page, flags=re.M))
    modules = {part for part in nw.__all__ if inspect.ismodule(getattr(nw, part))}
    assert set(nw.__all__) - modules - documented == {"__version__"}
    assert headings == modules
    for module in modules:
        public = getattr(getattr(nw, module), "__all__", ["check_searcher", "check_values"])
        missing = {
            part
            for part in public
            if f"{module}.{part}" not in documented and part not in documented
        }
        assert not missing, f"nearworth.{module} has {missing}, the reference does not"


def test_the_example_gives_what_is_beside_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = "suspects.csv"
    with pytest.raises(SystemExit) as left:
        main(
            [
                "audit",
                str(ROOT / "examples" / "wines.csv"),
                "-t",
                "grape",
                "--id",
                "bottle",
                "-o",
                found,
            ]
        )
    assert not left.value.code

    def suspects(path):
        with open(path, newline="") as file:
            return [(row["bottle"], row["given"], row["suggested"]) for row in csv.DictReader(file)]

    assert suspects(found) == suspects(ROOT / "examples" / "wines-suspects.csv")


def command_lines(page: Path) -> list[str]:
    """The lines of the page, in blocks or in sentences, that call `nearworth`."""
    text = page.read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", text, flags=re.M | re.S)
    lines = [line.split("  #")[0] for block in blocks for line in block.splitlines()]
    calls = [re.search(r"(?:^|bin/)(nearworth \S.*)", line) for line in lines]
    return [call[1] for call in calls if call] + re.findall(r"`(nearworth [^`\n]+)`", text)


@pytest.mark.parametrize("page", [p for p in PAGES if "decisions" not in p.parts], ids=name)
def test_commands_and_options_exist(page):
    for line in command_lines(page):
        words = re.findall(r"'[^']*'|\S+", line)[1:]
        command = main.commands.get(words[0].split("|")[0], main)
        while (
            isinstance(command, click.Group)
            and command is not main
            and words[1:]
            and words[1] in command.commands
        ):
            words, command = words[1:], command.commands[words[1]]
        known = {option for parameter in command.params for option in parameter.opts} | {
            "--help",
            "-h",
        }
        for word in words:
            if re.fullmatch(r"--?[a-z][a-z-]*(=.*)?", word):
                assert word.split("=")[0] in known, f"{page.name}: {line}: there is no {word}"
        assert command is not main or words[0].startswith("-"), (
            f"{page.name}: {line}: there is no such command"
        )


@pytest.mark.parametrize("folder", ["decisions", "decisions/history"])
def test_every_decision_has_a_date_and_a_status_and_is_in_the_index(folder):
    index = (ROOT / "docs" / folder / "index.md").read_text()
    notes = sorted((ROOT / "docs" / folder).glob("[0-9]*.md"))
    assert notes
    for note in notes:
        head = note.read_text().split("\n\n")[1:3]
        assert [part.split(" ")[0] for part in head] == ["**Date:**", "**Status:**"], note.name
        assert f"| [{note.name[:3]}]({note.name}) |" in index, f"{note.name} is not in the index"


def test_a_superseded_decision_is_history():
    for note in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")):
        assert "**Status:** accepted" in note.read_text(), note.name


@pytest.mark.parametrize("page", ["AGENTS.md", "CONTRIBUTING.md"])
def test_files_that_contributors_are_sent_to_exist(page):
    text = (ROOT / page).read_text()
    named = set(re.findall(r"[\w./-]*\w(?:\.(?:py|c|md)\b|/(?=`))", text))
    assert len(named) > 10
    for name in named:
        places = [ROOT / name, ROOT / "src" / "nearworth" / name]
        assert any(place.exists() for place in places), f"{page} names {name}"
