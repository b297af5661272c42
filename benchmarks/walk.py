"""How many functions, files and classes one call walks through: counts that say how hard the code
is to follow.

python benchmarks/walk.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import nearworth as nw

SOURCE = str(Path(nw.__file__).parent)


def walk(action):
    """Functions and files of the package that run in an action, and how often one file calls into
    another.
    """
    functions, files, changes = set(), set(), 0

    def hook(frame, event, _argument):
        nonlocal changes
        place = frame.f_code.co_filename
        if event != "call" or not place.startswith(SOURCE):
            return
        functions.add((place, frame.f_code.co_qualname))
        files.add(place)
        caller = frame.f_back.f_code.co_filename if frame.f_back else ""
        changes += caller.startswith(SOURCE) and caller != place

    import threading

    sys.setprofile(hook)
    threading.setprofile(hook)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return functions, files, changes


def main() -> None:
    rng = np.random.default_rng(0)
    X, y, X_val, y_val = (
        rng.normal(size=(300, 4)),
        rng.integers(0, 3, 300),
        rng.normal(size=(40, 4)),
        rng.integers(0, 3, 40),
    )
    actions = {
        "fit(X, y).value(X_val, y_val)": lambda: (
            nw.KNNShapley(5, n_jobs=1).fit(X, y).value(X_val, y_val).values
        ),
        "the same with max_error": lambda: (
            nw.KNNShapley(5, max_error=0.1).fit(X, y).value(X_val, y_val).values
        ),
        "audit_labels(X, y)": lambda: nw.audit_labels(X, y).suspects(),
    }
    for action in actions.values():
        action()  # imports
    print(f"{'walk':32} functions  files")
    for name, action in actions.items():
        functions, files, _ = walk(action)
        print(f"{name:32} {len(functions):9} {len(files):6}")
        if "-v" in sys.argv:
            print("    " + ", ".join(sorted(str(Path(file).relative_to(SOURCE)) for file in files)))


if __name__ == "__main__":
    main()
