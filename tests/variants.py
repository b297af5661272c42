"""The same lines of Python with each variant of the compiled library, and without it."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

from nearworth._common import native


def variants_here() -> list[str]:
    """What this machine can run, "0" (numpy forms) first."""
    best = native.VARIANTS.index(native.variant()) if native.available() else -1
    return ["0", *native.VARIANTS[: best + 1]]


def run_variant(variant: str, code: str, folder) -> dict[str, np.ndarray]:
    """Arrays that `code` puts into the dictionary `results`, in a process of its own."""
    path = folder / f"{variant}.npz"
    whole = f"import numpy as np\nresults = {{}}\n{code}\nnp.savez({str(path)!r}, **results)\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", whole],
        env=os.environ | {"NEARWORTH_NATIVE": variant},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with np.load(path) as arrays:
        return dict(arrays)


def assert_same_bits(code: str, folder) -> None:
    """Every variant that this machine runs gives the same bits as the numpy forms."""
    names = variants_here()
    expected, *others = [run_variant(name, code, folder) for name in names]
    assert expected, "the code put nothing into results"
    for name, found in zip(names[1:], others, strict=True):
        assert found.keys() == expected.keys()
        for key, array in expected.items():
            same = array.dtype == found[key].dtype and array.shape == found[key].shape
            assert same, f"{key} has another type or shape with {name}"
            differing = np.flatnonzero(array.view(np.uint8) != found[key].view(np.uint8)) if array.size else []
            assert array.tobytes() == found[key].tobytes(), f"{key} has other bits with {name}: {differing[:5]}"
