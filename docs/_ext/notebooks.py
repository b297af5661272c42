"""Pages as notebooks: each how-to page with Python in it can be downloaded, with the output that
the page shows.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

PART = re.compile(r"^```python\n(.*?)^```\n(?:\n?^```output\n(.*?)^```\n)?", flags=re.M | re.S)
HIDDEN = re.compile(r"^<!-- (?:test\n.*?|needs: \w+ )-->\n", flags=re.M | re.S)


def notebook(page: str) -> dict[str, Any]:
    """The cells of a page in MyST: text, code, and what the code prints."""
    text, cells, end = HIDDEN.sub("", page), [], 0
    for match in PART.finditer(text):
        cells += [markdown(text[end : match.start()]), code(match[1], match[2] or "")]
        end = match.end()
    cells = [cell for cell in [*cells, markdown(text[end:])] if "".join(cell["source"])]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells}


def markdown(text: str) -> dict[str, Any]:
    return {
        "cell_type": "markdown",
        "metadata": {},
        "source": text.strip().splitlines(keepends=True),
    }


def code(source: str, printed: str) -> dict[str, Any]:
    stream = {"output_type": "stream", "name": "stdout", "text": printed.splitlines(keepends=True)}
    return {
        "cell_type": "code",
        "metadata": {},
        "execution_count": None,
        "source": source.rstrip().splitlines(keepends=True),
        "outputs": [stream] if printed else [],
    }


def add_link(app: Any, name: str, source: list[str]) -> None:
    """A notebook beside the page, and a link to it below the title."""
    if not name.startswith("howto/") or not PART.search(source[0]) or app.builder.format != "html":
        return
    target = Path(app.outdir, "notebooks", f"{Path(name).name}.ipynb")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(notebook(source[0]), indent=1))
    link = (
        f'<p><a href="../notebooks/{target.name}" download>Download this page as a notebook</a></p>'
    )
    title, rest = source[0].split("\n", 1)
    source[0] = f"{title}\n\n{link}\n{rest}"


def setup(app: Any) -> dict[str, bool]:
    """Let Sphinx call it for each page that it reads."""
    app.connect("source-read", add_link)
    return {"parallel_read_safe": True}
