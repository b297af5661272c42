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


def assert_same_bits(code: str, folder, *, numpy_error: float = 0.0) -> None:
    """Every variant that this machine runs gives the same bits; the numpy forms too, or they are
    off by so much.
    """
    numpy_forms, *compiled = [run_variant(name, code, folder) for name in variants_here()]
    assert numpy_forms, "the code put nothing into results"
    for name, found in zip(variants_here()[1:], compiled, strict=True):
        assert found.keys() == numpy_forms.keys()
        for key, array in found.items():
            first = compiled[0][key]
            assert (array.dtype, array.shape) == (first.dtype, first.shape), (
                f"{key} has another form with {name}"
            )
            assert array.tobytes() == first.tobytes(), f"{key} has other bits with {name}"
            np.testing.assert_allclose(
                array, numpy_forms[key], rtol=0, atol=numpy_error, err_msg=f"{key}, numpy"
            )
