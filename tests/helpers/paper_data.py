"""The script of the paper's experiment, and its data sets.

The data sets are in the folder that NEARWORTH_DATA names, or in `shared/data` beside the
repository.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

paper = pytest.importorskip(
    "paper", reason="benchmarks/paper.py is not part of the source distribution"
)
SCRIPT = Path(paper.__file__)
FOLDER = Path(os.environ.get("NEARWORTH_DATA") or Path(__file__).parents[3] / "shared" / "data")
needs_data = pytest.mark.skipif(
    not (FOLDER / "phoneme.npz").is_file(),
    reason=(
        f"the paper's datasets are not in {FOLDER}; set NEARWORTH_DATA to the folder that has them"
    ),
)
