"""Record today's numbers: python tests/golden/record.py [NAME ...]

Without names, everything is recorded anew; with names (or beginnings of names) only these
configurations are, and all others stay as they are stored. Record only what was meant to change,
and say in the commit what changed and why.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from golden.configurations import CONFIGURATIONS, STORED, compute, load, save


def record(beginnings: list[str]) -> None:
    """Run the configurations whose names begin so, and store what they give."""
    stored = load() if beginnings else {}
    stored = {name: arrays for name, arrays in stored.items() if name in CONFIGURATIONS}
    for name in CONFIGURATIONS:
        if beginnings and not name.startswith(tuple(beginnings)):
            continue
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            stored[name] = compute(name, Path(folder))
        size = sum(array.nbytes for array in stored[name].values())
        print(
            f"{name:<45} {len(stored[name]):>3} arrays {size:>8,} bytes"
            f" {time.perf_counter() - start:6.2f} s"
        )
    save({name: stored[name] for name in CONFIGURATIONS if name in stored})
    print(f"{STORED}: {STORED.stat().st_size:,} bytes")


if __name__ == "__main__":
    record(sys.argv[1:])
