"""The compiled library: which variant is loaded, what its functions take, and how they are called
safely.

Every function of `native/*.c` is declared here once. `call(name, ...)` checks type, layout and
length of every array before a pointer leaves Python, adds the lengths as the last arguments, and
runs without the interpreter lock.

    keys:f8[n]         an array of n float64; a letter binds a length, an expression (f8[n+1]) must
    agree with it total:f8[n]!       written to by the function values:f8?[n]      may be None,
    which is NULL rows:any[n,d]      rows of any number type: a pointer and a code for the type
    weight:f8          a number; an i8 or i4 may be used in lengths, which then is not passed again
    ask:function       a Python function f(query, rows, out), see `Callback`; function? may be None

Lengths follow in the order in which their letters first appear; those of arrays that are None are
0. A declaration goes on in lines that begin with a space.

NEARWORTH_NATIVE=0 asks for the numpy forms; =baseline, =avx2 or =avx512 for one variant.
NEARWORTH_NATIVE_FOLDER names another folder with libraries.
"""

from __future__ import annotations

import ctypes
import operator
import os
import re
import sys
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from nearworth._common.warnings import warn_user

DECLARATIONS = """
# variant.c
instruction_set() -> i4

# product.c
product_roundings(width:i8) -> i8
product_space(n_queries:i8 width:i8) -> i8
product_qkeys(points:any[n,d] rows:i4[m] places:i4?[m] norms:f8[n] centre:f8[d] factors:f8[q,d]
    scales:f8[q] offsets:f8[q] single:i4 space:f8[w]! qkeys:i4[q,s]!)

# classify.c
classify_scratch(n:i8 n_cells:i8) -> i8
classify_block(qkeys:i4[q,s] tolerances:i4[q] labels:i4[q] excluded:i4[q,e] constants:f8[q,2]
    weights:f8[q] starts:i8[c] row_of:i4[n] place_of:i4[n] worth:f8[r] loss:f8[r-1]
    cumulative:f8[r-1] max_error:f8 certain:i8 by_index:i4 n_cells:i8 queries:f8?[q,d]
    points:any?[m,d] given:f8?[q,n] ask:function? total:f8[n]! errors:f8[q]! memory:u1[b]!) -> i8

# distances.c
listed_pairs(queries:f8[q,d] points:any[n,d] rows:i4[q,k] product:i4 out:f8[q,k]!)
all_pairs(queries:f8[q,d] points:any[m,d] first:i8 product:i4 out:f8[q,n]!)
sparse_distances(out:f8[q,n]! q_start:i8[q+1] q_column:i4[a] q_value:f8[a] x_start:i8[n+1]
    x_column:i4[b] x_value:f8[b] power:i4)

# certified.c
certified_cut(matches:u4[c] others:u4[c] total:f8[t] worth:f8[t+1] max_error:f8 certain:i8
    of_match:f8[c]! of_other:f8[c]! result:f8[2]!) -> i8

# hash.c
hash_numbers(numbers:any[n] start:i8 keys:u8[2,b] sums:u8[c,2]!)

# nearest.c
nearest_lists(qkeys:i4[q,s] tolerances:i4[q] excluded:i4[q,e] row_of:i4[n] queries:f8?[q,d]
    points:any?[m,d] given:f8?[q,n] ask:function? first:i8 hashed:i4 least:i8 rows:i4[q,k]!
    keys:f8[q,k]! near:i4[n]! exact:f8[n]!)
mark_votes(qkeys:i4[q,n] sure:i4[q] possible:i4[q] excluded:i4[q,e] labels:i4[n] of_query:i4[q]
    queries:f8?[q,d] points:any?[m,d] given:f8?[q,n] ask:function? largest:f8 near:i4[n]!
    exact:f8[n]! marks:u1[q,n]! counts:i8[q,2]!)
add_votes(marks:u1[q,n] worth:f8[q,2] total:f8[n]!)

# owners.c
owners_space(k:i8 n_owners:i8 n_nodes:i8) -> i8
value_owners(qkeys:i4[q,s]! tolerances:i4[q] labels:i4[q] excluded:i4[q,e] starts:i8[m+1]
    row_of:i4[n] owner_of:i4[n] class_of:i4[n] queries:f8?[q,d] points:any?[p,d] given:f8?[q,n]
    ask:function? by_index:i4 k:i8 t:f8[g] weights:f8[g] binomial:f8[m+1,k,g] values:f8[q,m]!
    near:i4[n]! exact:f8[n]! space:f8[b]!)

# regression.c
value_regression(keys:f8[q,n] targets:f8[n] query_targets:f8[q] weights:f8[q] by_index:i4
    worth:f8[m] loss:f8[m] pair_worth:f8[m] pair_loss:f8[m] votes:f8 correction:f8?[5] total:f8[n]!
    items:u8[n]! spare:u8[n]! order:i4[n]! first:u1[n]!)
"""

NUMBERS = {"f8": ctypes.c_double, "f4": ctypes.c_float, "i8": ctypes.c_int64, "i4": ctypes.c_int32}
ROW_TYPES = (
    "f4",
    "f8",
    "i1",
    "u1",
    "i2",
    "u2",
    "i4",
    "u4",
    "i8",
    "u8",
)  # enum row_type of nearworth.h; bool is u1
VARIANTS = ("baseline", "avx2", "avx512")  # by the number that instruction_set returns
SUFFIX = {"win32": "dll", "darwin": "dylib"}.get(sys.platform, "so")
CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
)
NOTHING = ctypes.c_char * 0
# Bits of ndarray.flags.num.
CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400


def available() -> bool:
    return library() is not None


def variant() -> str:
    """The instructions that the loaded library uses; "numpy" without a library."""
    return str(getattr(library(), "variant", "numpy"))


def call(name: str, *arguments: Any) -> Any:
    """Call a compiled function. An exception raised in a callback is raised here."""
    converted, callbacks = DECLARED[name].convert(arguments)
    result = getattr(library(), name)(*converted)
    for callback in callbacks:
        if callback.error is not None:
            raise callback.error
    return result


# two threads at once may both load it, which gives the same library; no lock that a fork could copy
# while held
@cache
def library() -> Any:
    """The loaded library with the best variant that this processor runs, or None."""
    wanted = os.environ.get("NEARWORTH_NATIVE", "")
    if wanted not in ("", "0", *VARIANTS):
        allowed = ", ".join(VARIANTS)
        raise ValueError(
            f"NEARWORTH_NATIVE is {wanted!r}; it must be 0 (no compiled code) or one of {allowed}."
        )
    if wanted == "0":
        return None
    try:
        baseline = open_variant("baseline")
        best = baseline.instruction_set()
        if wanted and VARIANTS.index(wanted) > best:
            raise ValueError(
                f"NEARWORTH_NATIVE is {wanted}, but this processor has no more than"
                f" {VARIANTS[best]}."
            )
        name = wanted or next(name for name in VARIANTS[best::-1] if _path(name).exists())
        return baseline if name == "baseline" else open_variant(name)
    except OSError as reason:
        if wanted:
            raise RuntimeError(f"NEARWORTH_NATIVE is {wanted}, but {reason}.") from None
        slow = (
            "nearworth runs without compiled code, with the same results but many times slower:"
            f" {reason}"
        )
        where = (
            "where there is a C compiler or a package index (in a checkout: python hatch_build.py)"
        )
        warn_user(f"{slow}. Install it again {where}. NEARWORTH_NATIVE=0 hides this message.")
        return None


def _path(name: str) -> Path:
    return Path(
        os.environ.get("NEARWORTH_NATIVE_FOLDER") or Path(__file__).parent,
        f"libnearworth-{name}.{SUFFIX}",
    )


def open_variant(name: str) -> Any:
    """One variant; OSError if it is not there, not for this machine, or made for other
    declarations.
    """
    path = _path(name)
    if not path.exists():
        raise OSError(f"there is no {path}")
    loaded: Any = ctypes.CDLL(str(path))
    # A wrong signature would crash: what the library was made for must be what is declared here.
    if zlib.crc32(DECLARATIONS.encode()) != getattr(loaded, "declarations", int)() % 2**32:
        raise OSError(f"{path} belongs to another version of the package")
    for declaration in DECLARED.values():
        function = getattr(loaded, declaration.name)
        function.restype, function.argtypes = declaration.result, declaration.types
    loaded.variant = name
    return loaded


class Callback:
    """A Python function f(query, rows, out) that compiled code calls: out[i] is to become a number
    for rows[i].

    The arrays, int32 and float64, are views of the caller's memory and must not outlive the call.
    An exception is kept in `error`; compiled code gets a result other than 0 and is to return at
    once.
    """

    def __init__(self, function: Callable[[int, Any, Any], object]) -> None:
        self.function = function
        self.error: BaseException | None = None

    def __call__(self, query: int, n_rows: int, rows: int, out: int) -> int:
        try:
            asked = np.ctypeslib.as_array((ctypes.c_int32 * n_rows).from_address(rows))
            asked.flags.writeable = False
            self.function(
                query, asked, np.ctypeslib.as_array((ctypes.c_double * n_rows).from_address(out))
            )
        except BaseException as error:  # ctypes would print and forget it
            self.error = error
        return int(self.error is not None)


class Declaration:
    """The parameters of one function."""

    def __init__(self, line: str) -> None:
        match = re.fullmatch(r"(\w+)\((.*)\)(?: -> (\w+))?", line)
        assert match, f"not a declaration: {line}"
        self.name, inner, result = match.groups()
        self.result = NUMBERS[result] if result else None
        self.parameters = [_Parameter(text) for text in inner.split()]
        numbers = {parameter.name for parameter in self.parameters if parameter.is_number}
        sizes = dict.fromkeys(size for parameter in self.parameters for size in parameter.shape)
        self.letters = [size for size in sizes if size.isidentifier() and size not in numbers]
        self.expressions = {
            size: compile(size, line, "eval") for size in sizes if not size.isidentifier()
        }
        for size, code in self.expressions.items():
            assert {*code.co_names} <= {
                *self.letters,
                *numbers,
            }, f"{size} has a part that is no length: {line}"
        self.types = [kind for parameter in self.parameters for kind in parameter.types]
        self.types += [ctypes.c_int64] * len(self.letters)

    def convert(self, arguments: tuple[Any, ...]) -> tuple[list[Any], list[Callback]]:
        """What the compiled function is given, and the callbacks among it."""
        if len(arguments) != len(self.parameters):
            raise TypeError(
                f"{self.name} takes {len(self.parameters)} arguments; got {len(arguments)}."
            )
        sizes: dict[str, int] = {}
        converted: list[Any] = []
        callbacks: list[Callback] = []
        try:
            for parameter, argument in zip(self.parameters, arguments, strict=True):
                if argument is None and parameter.optional:
                    converted += [None, 0][: len(parameter.types)]
                elif parameter.is_array:
                    converted.append(parameter.check_array(argument, sizes))
                    if parameter.type == "any":
                        converted.append(row_type(argument.dtype))
                elif parameter.is_number:
                    converted.append(parameter.check_number(argument, sizes))
                else:
                    callbacks.append(Callback(argument))
                    converted.append(CALLBACK(callbacks[-1]))
            converted += [sizes.setdefault(letter, 0) for letter in self.letters]
            for size, code in self.expressions.items():
                if size in sizes and sizes[size] != eval(code, {}, sizes):
                    raise ValueError(
                        f"the length {size} is {sizes[size]}, not {eval(code, {}, sizes)}."
                    )
        except (TypeError, ValueError) as error:
            raise type(error)(f"{self.name}: {error}") from None
        return converted, callbacks


class _Parameter:
    """One parameter: a number, an array with its shape, or a callback."""

    def __init__(self, text: str) -> None:
        match = re.fullmatch(r"(\w+):(\w+)(\??)(?:\[(\S+)\](!?))?", text)
        assert match, f"not a parameter: {text}"
        self.name, self.type, optional, shape, written = match.groups()
        self.optional, self.is_array = bool(optional), shape is not None
        self.is_number = not self.is_array and self.type != "function"
        self.shape = shape.split(",") if shape else []
        self.flags = CONTIGUOUS | ALIGNED | (WRITEABLE if written else 0)
        self.dtype = np.dtype(self.type) if self.is_array and self.type != "any" else None
        self.types: list[Any] = [NUMBERS[self.type]] if self.is_number else [ctypes.c_void_p]
        if self.type == "any":
            self.types.append(ctypes.c_int32)

    def check_number(self, argument: Any, sizes: dict[str, int]) -> float:
        if self.type in ("f4", "f8"):
            return float(argument)
        number = operator.index(argument)
        if (number if number >= 0 else ~number).bit_length() >= 8 * int(
            self.type[1]
        ):  # ctypes would cut it off
            raise ValueError(f"{self.name} is {number}, too large for {self.type}.")
        if sizes.setdefault(self.name, number) != number:
            raise ValueError(
                f"{self.name} is {number}, but an array has the length {sizes[self.name]}."
            )
        return number

    def check_array(self, argument: Any, sizes: dict[str, int]) -> Any:
        """The pointer."""
        if not isinstance(argument, np.ndarray) or (
            self.dtype is not None and argument.dtype != self.dtype
        ):
            found = getattr(argument, "dtype", type(argument).__name__)
            raise TypeError(f"{self.name} is {found}, not an array of {self.type}.")
        flags, shape = argument.flags.num, argument.shape
        if flags & self.flags != self.flags:
            raise ValueError(f"{self.name} is not contiguous and aligned, or not writeable.")
        if len(shape) != len(self.shape):
            raise ValueError(f"{self.name} has {len(shape)} dimensions, not {len(self.shape)}.")
        expected = tuple(map(sizes.setdefault, self.shape, shape))
        if expected != shape:
            raise ValueError(
                f"{self.name} has the shape {shape}, but [{','.join(self.shape)}] is {expected}."
            )
        if flags & WRITEABLE:  # three times as fast as the other way
            return NOTHING.from_buffer(argument)  # type: ignore[arg-type]
        return argument.ctypes.data


@cache
def row_type(dtype: np.dtype[Any]) -> int:
    """The code of a type of numbers, as the library reads rows."""
    name = "u1" if dtype.kind == "b" else f"{dtype.kind}{dtype.itemsize}"
    if name not in ROW_TYPES or not dtype.isnative:
        raise TypeError(f"rows of {dtype} cannot be read by compiled code.")
    return ROW_TYPES.index(name)


_LINES = [
    line
    for line in re.sub(r"\n +", " ", DECLARATIONS).splitlines()
    if line and not line.startswith("#")
]
DECLARED = {declaration.name: declaration for declaration in map(Declaration, _LINES)}
