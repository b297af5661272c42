"""The compiled library: which variant is loaded, what its functions take, and how they are called safely.

Every function of `native/*.c` is declared here once. `call(name, ...)` checks type, layout and length of every array
before a pointer leaves Python, adds the lengths as the last arguments, and runs without the interpreter lock.

    total:f8[n]        an array of n float64; a letter binds a length, an expression (f8[n+1]) must agree with it
    rows:any[n,d]      rows of any number type: a pointer and a code for the type
    values:f8?[n]      may be None
    weight:f8          a number
    ask:function       a callback, made by `callback`

NEARWORTH_NATIVE=0 asks for the numpy forms; =baseline, =avx2 or =avx512 for one variant.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

DECLARATIONS = """
instruction_set() -> i4

certified_cut(matches:u4[c] others:u4[c] total:f8[t] worth:f8[t+1] max_error:f8 certain:i8 of_match:f8[c] of_other:f8[c] result:f8[2]) -> i8

packed_size(n_rows:i8 width:i8) -> i8
packed_query_size(n_queries:i8 width:i8) -> i8
pack_points(points:any[n,d] order:i4[m] centre:f8[d] first:i8 last:i8 packed:f4[p] norms:f8[m])
product_qkeys(packed:f4[p] norms:f4[s] factors:f8[q,d] scales:f4[q] offsets:f4[q] packed_queries:f4[r] qkeys:i4[q,s])
"""

NUMBERS = {"f8": ctypes.c_double, "f4": ctypes.c_float, "i8": ctypes.c_int64, "i4": ctypes.c_int32}
ROW_TYPES = ("f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")  # as in native/rows.h; bool reads as u1
VARIANTS = ("baseline", "avx2", "avx512")  # by the number that instruction_set returns
SUFFIX = {"win32": "dll", "darwin": "dylib"}.get(sys.platform, "so")
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)


@cache
def library() -> Any:
    """The loaded library with the best variant that this processor runs, or None."""
    wanted = os.environ.get("NEARWORTH_NATIVE", "")
    if wanted == "0":
        return None
    baseline = _open("baseline")
    if baseline is None or wanted == "baseline":
        return baseline
    best = wanted or VARIANTS[baseline.instruction_set()]
    return baseline if best == "baseline" else _open(best) or baseline


def available() -> bool:
    """Whether compiled functions can be called."""
    return library() is not None


def variant() -> str:
    """The instructions that the loaded library uses; "numpy" without a library."""
    loaded = library()
    return "numpy" if loaded is None else str(loaded.variant)


def call(name: str, *arguments: Any) -> Any:
    """Call a compiled function."""
    loaded = library()
    function = getattr(loaded, name)
    return function(*_DECLARED[name].convert(arguments))


def _open(name: str) -> Any:
    path = Path(__file__).with_name(f"libnearworth-{name}.{SUFFIX}")
    if not path.exists():
        return None
    loaded = ctypes.CDLL(str(path))
    for declaration in _DECLARED.values():
        function = getattr(loaded, declaration.name)
        function.restype, function.argtypes = declaration.result, declaration.types
    loaded.variant = name
    return loaded


class _Declaration:
    """The parameters of one function."""

    def __init__(self, line: str) -> None:
        match = re.fullmatch(r"(\w+)\((.*)\)(?: -> (\w+))?", line)
        assert match, line
        self.name, inner, result = match.groups()
        self.result = NUMBERS[result] if result else None
        self.parameters = [_Parameter(text) for text in inner.split()]
        self.letters = list(dict.fromkeys(p for q in self.parameters for p in q.shape if p.isidentifier()))
        self.types = [kind for parameter in self.parameters for kind in parameter.types]
        self.types += [ctypes.c_int64] * len(self.letters)

    def convert(self, arguments: tuple[Any, ...]) -> list[Any]:
        """Checked arguments, then the lengths."""
        if len(arguments) != len(self.parameters):
            raise TypeError(f"{self.name} takes {len(self.parameters)} arguments; got {len(arguments)}.")
        sizes: dict[str, int] = {}
        converted: list[Any] = []
        for parameter, argument in zip(self.parameters, arguments, strict=True):
            parameter.convert(argument, sizes, converted, self.name)
        return converted + [sizes.get(letter, 0) for letter in self.letters]


class _Parameter:
    """One parameter: a number, an array with its shape, or a callback."""

    def __init__(self, text: str) -> None:
        match = re.fullmatch(r"(\w+):(\w+)(\??)(?:\[(.*)\])?", text)
        assert match, text
        self.name, self.type, optional, shape = match.groups()
        self.optional, self.is_array = bool(optional), shape is not None
        self.shape = [] if shape is None else shape.split(",")
        if self.type == "function":
            self.types: list[Any] = [ctypes.c_void_p]
        elif not self.is_array:
            self.types = [NUMBERS[self.type]]
        else:
            self.types = [ctypes.c_void_p] + ([ctypes.c_int32] if self.type == "any" else [])
        self.dtype = np.dtype(self.type) if self.is_array and self.type != "any" else None

    def convert(self, argument: Any, sizes: dict[str, int], converted: list[Any], name: str) -> None:
        if not self.is_array:
            converted.append(argument)
            return
        if argument is None and self.optional:
            converted.append(None)
            return
        if self.dtype is not None and argument.dtype != self.dtype:
            raise TypeError(f"{name}: {self.name} is {argument.dtype}, not {self.dtype}.")
        if not argument.flags.c_contiguous:
            raise ValueError(f"{name}: {self.name} is not contiguous.")
        if argument.ndim != len(self.shape):
            raise ValueError(f"{name}: {self.name} has {argument.ndim} dimensions, not {len(self.shape)}.")
        for size, letter in zip(argument.shape, self.shape, strict=True):
            expected = sizes.setdefault(letter, size) if letter.isidentifier() else eval(letter, {}, sizes)
            if size != expected:
                raise ValueError(f"{name}: {self.name} has the shape {argument.shape}, but {letter} is {expected}.")
        converted.append(argument.ctypes.data)
        if self.type == "any":
            converted.append(row_type(argument.dtype))


def row_type(dtype: np.dtype[Any]) -> int:
    """The code of a type of numbers, as the library reads rows."""
    return ROW_TYPES.index("u1" if dtype == bool else f"{dtype.kind}{dtype.itemsize}")


_DECLARED = {made.name: made for made in map(_Declaration, filter(None, DECLARATIONS.splitlines()))}
