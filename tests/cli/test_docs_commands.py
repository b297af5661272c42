"""Every `nearworth` line in the pages about the command line runs, in order, and prints what the
page says.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from nearworth.cli import main

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page):
    text = re.sub(
        r"^<!-- needs: \w+ -->\n```python\n.*?^```",
        "",
        (DOCS / page).read_text(),
        flags=re.M | re.S,
    )
    return re.findall(r"^```(\w+)(?: ([\w.]+))?\n(.*?)^```", text, flags=re.M | re.S)


def example_files():
    """What the pages call train.csv, trusted.csv and digits.npz."""
    X, y = load_digits(return_X_y=True)
    np.savez("digits.npz", X=X[:300], y=y[:300])
    rng = np.random.default_rng(0)
    for name, n in (("train.csv", 120), ("trusted.csv", 40)):
        place = rng.normal(size=(n, 2))
        rows = [
            f"row {i},{a:.3f},{b:.3f},{'yes' if a > 0 else 'no'}" for i, (a, b) in enumerate(place)
        ]
        Path(name).write_text("name,a,b,label\n" + "\n".join(rows) + "\n")


@pytest.mark.parametrize(
    "page",
    [
        "command-line.md",
        "tutorial.md",
        "howto/embeddings.md",
        "howto/tables.md",
        "howto/text.md",
        "howto/images.md",
    ],
)
@pytest.mark.filterwarnings("ignore:labels '")  # spellings of one class, which the page tells of
def test_commands_in_docs(page, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    if page == "command-line.md":
        example_files()
    said = ""
    namespace = {}
    for language, name, text in blocks(page):
        if language == "python" and ">>>" not in text:
            exec(compile(text, page, "exec"), namespace)
        elif language == "csv":
            Path(name).write_text(text)
        elif language == "toml":
            Path("run.toml").write_text(text)
        elif language == "text" and "eval" not in text:
            assert text == said
        elif language == "sh":
            for line in text.splitlines():
                with pytest.raises(SystemExit) as left:
                    main(re.findall(r"'[^']*'|\S+", line)[1:], prog_name="nearworth")
                said = capfd.readouterr().err
                assert (left.value.code or 0) == 0, f"{line}: {said}"
