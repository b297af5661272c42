"""Drives the compiled functions with hostile sizes and contents, and whole valuations with and without compiled code.

    python tests/fuzz_native.py --seconds 60 --seed 7 [--only name]

Every function of `native.DECLARATIONS` has a maker of cases below (a test compares the lists). A case is called twice, with
memory that held other things before. What must hold each time:

- arrays that are not marked as written to are left alone, and so are the bytes around those that are;
- the results have the same bits both times: nothing is read that was never written;
- they agree with the plain form in numpy, where the maker gives one.

Under AddressSanitizer, where tests/test_sanitizers.py runs this too, reads beyond the end of an array are found as well.
A failure prints the seed of the case: `--seed that --cases 1` repeats it.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nearworth._common import native

SIZES = (0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 129, 257)
CANARY = 64  # bytes around what is written to
UNDER_ASAN = "libasan" in os.environ.get("LD_PRELOAD", "")  # which watches the bytes around arrays itself


@dataclass
class Space:
    """An array that the function fills (or uses as scratch), whatever was in it before."""

    shape: tuple[int, ...]
    dtype: Any = np.float64
    scratch: bool = False


@dataclass
class Case:
    """Arguments of one call, and what is to become of them."""

    arguments: list[Any]
    check: Callable[[Any, dict[str, np.ndarray]], None] = lambda result, arrays: None
    text: str = ""
    written: dict[str, np.ndarray] = field(default_factory=dict)


MAKERS: dict[str, Callable[[np.random.Generator], Case]] = {}


def case(maker):
    """Register the maker of cases for the function of its name."""
    MAKERS[maker.__name__] = maker
    return maker


# Data.


def size(rng: np.random.Generator, most: int = 257, least: int = 0) -> int:
    return int(rng.choice([number for number in SIZES if least <= number <= most]))


def numbers(rng: np.random.Generator, shape: Any, dtype: Any = np.float64) -> np.ndarray:
    """Few different values, many, far from the origin, or all equal; of the full range for integers, at times."""
    dtype = np.dtype(dtype)
    kind = rng.integers(5)
    if kind == 0:
        return rng.integers(0, 3, shape).astype(dtype)
    if kind == 1:
        return np.full(shape, 5, dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    values = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4)
    return (values + (1e3 if kind == 2 else 0.0)).astype(dtype)


def rows(rng: np.random.Generator, n: int, width: int) -> np.ndarray:
    """Training rows of any type that compiled code reads."""
    return numbers(rng, (n, width), rng.choice(native.ROW_TYPES))


# Functions that give a number.


@case
def instruction_set(rng):
    def check(result, arrays):
        assert result >= native.VARIANTS.index(native.variant())

    return Case([], check)


# One call.


def guarded(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A copy with known bytes on both sides, and these with it; exactly its own bytes under AddressSanitizer."""
    if UNDER_ASAN:
        return array.copy(), np.zeros(0, np.uint8)
    whole = np.full(array.nbytes + 2 * CANARY, 0x5A, np.uint8)
    inside = whole[CANARY : CANARY + array.nbytes].view(array.dtype).reshape(array.shape)
    inside[...] = array
    return inside, whole


def run_once(name: str, made: Case, fill: int) -> tuple[Any, dict[str, np.ndarray]]:
    """Call it with memory that held `fill`; the result, and arrays that were written to, scratch aside."""
    given, watched, written = [], [], {}
    for parameter, argument in zip(native._DECLARED[name].parameters, made.arguments, strict=True):
        if isinstance(argument, Space):
            before = np.full(int(np.prod(argument.shape)) * np.dtype(argument.dtype).itemsize, fill, np.uint8)
            array, whole = guarded(before.view(argument.dtype).reshape(argument.shape))
        elif isinstance(argument, np.ndarray):
            array, whole = guarded(argument)
        else:
            given.append(argument)
            continue
        given.append(array)
        watched.append((parameter.name, argument, array, whole))
        if parameter.flags & native.WRITEABLE and not (isinstance(argument, Space) and argument.scratch):
            written[parameter.name] = array
    result = native.call(name, *given)
    for parameter, argument, array, whole in watched:
        around = np.concatenate([whole[:CANARY], whole[len(whole) - CANARY :]]) if len(whole) else whole
        assert (around == 0x5A).all(), f"{name} wrote beyond {parameter}"
        if isinstance(argument, np.ndarray) and parameter not in written:
            assert argument.tobytes() == array.tobytes(), f"{name} wrote to {parameter}"
    return result, written


def run_case(name: str, made: Case) -> None:
    result, arrays = run_once(name, made, 0x00)
    again, others = run_once(name, made, 0xC3)
    assert result == again, f"{name} gives {result}, then {again}"
    for parameter, array in arrays.items():
        assert array.tobytes() == others[parameter].tobytes(), f"{name}: {parameter} depends on what was there before"
    made.check(result, arrays)


# Whole valuations.


def valuation(rng: np.random.Generator) -> None:
    """The same bits with the compiled library and without."""
    import nearworth as nw

    n, n_val, width = size(rng, least=1), size(rng, 65, least=1), size(rng, 33, least=1)
    X, X_val = rows(rng, n, width), rows(rng, n_val, width)
    if X.dtype.kind in "iu":
        X, X_val = X % 100, X_val % 100  # distances stay finite, with many ties
    task = str(rng.choice(["classification", "regression"]))
    y, y_val = rng.integers(0, rng.choice([1, 2, 10, 300]), (2, max(n, n_val)))
    parameters = {
        "n_neighbors": size(rng, least=1),
        "task": task,
        "metric": str(rng.choice(["euclidean", "cosine", "manhattan"])),
        "n_jobs": int(rng.integers(1, 3)),
    }
    if task == "classification":
        parameters["utility"] = str(rng.choice(["soft", "original"]))
        if n > 1 and rng.integers(3) == 0:
            parameters["n_candidates"] = int(rng.integers(1, n))
    validation = (X_val, y_val[:n_val]) if n == 1 or rng.integers(2) else ()

    def values():
        return nw.KNNShapley(**parameters).fit(X, y[:n]).value(*validation).values

    found = values()
    compiled, native.library = native.library, lambda: None
    try:
        expected = values()
    finally:
        native.library = compiled
    text = f"{n} x {n_val}, {width} columns of {X.dtype}, {parameters}, validation {bool(validation)}"
    assert found.tobytes() == expected.tobytes(), f"{text}: off by {np.abs(found - expected).max()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--cases", type=int, default=10**9)
    parser.add_argument("--only", choices=[*MAKERS, "valuation"])
    options = parser.parse_args()
    assert native.available(), "there is no compiled library"
    names = [options.only] if options.only else [*MAKERS, "valuation"]
    start, seed = time.monotonic(), options.seed
    while time.monotonic() - start < options.seconds and seed - options.seed < options.cases:
        for name in names:
            rng = np.random.default_rng(seed)
            try:
                valuation(rng) if name == "valuation" else run_case(name, MAKERS[name](rng))
            except BaseException as error:
                error.add_note(f"python tests/fuzz_native.py --only {name} --seed {seed} --cases 1")
                raise
        seed += 1
    print(f"{native.variant()}: {seed - options.seed} rounds of {len(names)} cases from seed {options.seed}")


if __name__ == "__main__":
    main()
