"""The same code with each variant of the compiled library, and with the numpy forms."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

from nearworth._common import native


def variants_here() -> list[str]:
    """Names of the variants that this machine can run. "0", the numpy forms, is the first."""
    if not native.available():
        return ["0"]
    best = native.VARIANTS.index(native.variant())
    return ["0", *native.VARIANTS[: best + 1]]


def run_variant(variant: str, code: str, folder) -> dict[str, np.ndarray]:
    """Run `code` in a process of its own; the arrays that it puts into the dictionary `results`."""
    path = folder / f"{variant}.npz"
    program = f"import numpy as np\nresults = {{}}\n{code}\nnp.savez({str(path)!r}, **results)\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=os.environ | {"NEARWORTH_NATIVE": variant},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with np.load(path) as arrays:
        return dict(arrays)


def assert_same_bits(code: str, folder, *, numpy_error: float = 0.0) -> None:
    """Every compiled variant gives the same bits, and the numpy forms differ by `numpy_error`."""
    numpy_forms, *compiled = [run_variant(name, code, folder) for name in variants_here()]
    assert numpy_forms, "the code put nothing into results"
    for name, arrays in zip(variants_here()[1:], compiled, strict=True):
        assert arrays.keys() == numpy_forms.keys()
        for key, array in arrays.items():
            first = compiled[0][key]
            assert (array.dtype, array.shape) == (first.dtype, first.shape), (
                f"{key} has another form with {name}"
            )
            assert array.tobytes() == first.tobytes(), f"{key} has other bits with {name}"
            np.testing.assert_allclose(
                array, numpy_forms[key], rtol=0, atol=numpy_error, err_msg=f"{key}, numpy"
            )
