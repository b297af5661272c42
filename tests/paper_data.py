"""Where the paper's datasets are, if they are here: $NEARWORTH_DATA, or `shared/data` beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("NEARWORTH_DATA") or Path(__file__).parents[2] / "shared" / "data")
needs_data = pytest.mark.skipif(
    not (FOLDER / "phoneme.npz").is_file(),
    reason=f"the paper's datasets are not in {FOLDER}; set NEARWORTH_DATA to the folder that has them",
)
