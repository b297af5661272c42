"""Every Python example in README and docs runs, page by page, and says what it claims."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path

import pytest

import nearworth as nw

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def name(page: Path | str) -> str:
    return str(page.relative_to(ROOT)) if isinstance(page, Path) else page


def blocks(page: Path, extra: str = "") -> list[str]:
    """The page's examples; those below a comment `needs: PACKAGE` only for that package."""
    found = re.findall(r"(?:^<!-- needs: (\w+) -->\n)?^```python\n(.*?)^```", page.read_text(), flags=re.M | re.S)
    return [block for needs, block in found if needs in ("", extra)]


def extras(page: Path) -> set[str]:
    return set(re.findall(r"^<!-- needs: (\w+) -->\n```python$", page.read_text(), flags=re.M))


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=name)
def test_examples(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(page, blocks(page))


@pytest.mark.parametrize(("page", "package"), [(p, e) for p in PAGES for e in sorted(extras(p))], ids=name)
def test_examples_with_other_packages(page, package, tmp_path, monkeypatch):
    pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    run(page, blocks(page, package))


def run(page: Path, examples: list[str]) -> None:
    namespace: dict[str, object] = {}
    for number, block in enumerate(examples, start=1):
        if ">>>" in block:
            test = doctest.DocTestParser().get_doctest(block, namespace, f"{page.name} block {number}", str(page), 0)
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            report: list[str] = []
            runner.run(test, out=report.append, clear_globs=False)
            namespace = test.globs
            assert not runner.failures, "".join(report)
        else:
            exec(compile(block, f"{page.name} block {number}", "exec"), namespace)


def test_links_to_files_lead_somewhere():
    for page in PAGES:
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
        public = getattr(getattr(nw, module), "__all__", ["check_searcher"])
        missing = {part for part in public if f"{module}.{part}" not in documented and part not in documented}
        assert not missing, f"nearworth.{module} has {missing}, the reference does not"
