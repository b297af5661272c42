"""Pages of the documentation as notebooks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def notebook(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "_ext")
    sys.modules.pop("notebooks", None)
    from notebooks import notebook

    return notebook


def test_cells_in_their_order_with_what_they_print(notebook):
    page = (
        "# Title\n\n```python\nx = 1\nprint(x)\n```\n\n```output\n1\n```\n\n<!-- test\nassert x =="
        " 1\n-->\n\nThe end.\n"
    )
    cells = notebook(page)["cells"]
    assert [cell["cell_type"] for cell in cells] == ["markdown", "code", "markdown"]
    assert "".join(cells[1]["source"]) == "x = 1\nprint(x)"
    assert cells[1]["outputs"][0]["text"] == ["1\n"]
    assert "".join(cells[2]["source"]) == "The end."


@pytest.mark.parametrize("page", ["tables", "text", "images", "time-series", "embeddings"])
def test_pages_for_each_kind_of_data(notebook, page):
    made = notebook((DOCS / "howto" / f"{page}.md").read_text())
    assert made["nbformat"] == 4
    assert any(cell["cell_type"] == "code" for cell in made["cells"])
    assert not any("<!-- test" in "".join(cell["source"]) for cell in made["cells"])
