"""The compiled library: which variant is loaded, what its functions take, and how they are called
safely.

Every function of `native/*.c` is declared here once. `call` checks the type, the layout and the
length of every array before a pointer leaves Python, adds the lengths as the last arguments, and
runs without the interpreter lock.

    keys:f8[n]       an array of n float64. A letter binds a length, and an expression (f8[n+1])
                     must agree with it.
    total:f8[n]!     an array that the function writes to
    values:f8?[n]    an array or None, which is NULL
    rows:any[n,d]    rows of any number type: a pointer and a code for the type
    weight:f8        a number. An i8 or i4 may be used in lengths, which then is not passed again.
    ask:function     a Python function f(query, rows, out), see `Callback`. `function?`: or None

Lengths follow in the order in which their letters first appear. Those of arrays that are None are
0. A declaration goes on in lines that begin with a space.

    f(...)           The arguments of the C function are these, one by one.
    f{...}           The C function takes a pointer to one struct with these fields. Its arguments
                     are many, so `call` takes them by name.

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
from collections.abc import Callable, Mapping
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
classify_block{qkeys:i4[q,s] tolerances:i4[q] labels:i4[q] excluded:i4[q,e] constants:f8[q,2]
    weights:f8[q] starts:i8[c] row_of:i4[n] place_of:i4[n] worth:f8[r] loss:f8[r-1]
    cumulative:f8[r-1] max_error:f8 certain:i8 by_index:i4 n_cells:i8 queries:f8?[q,d]
    points:any?[m,d] given:f8?[q,n] ask:function? total:f8[n]! errors:f8[q]! memory:u1[b]!} -> i8

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
nearest_lists{qkeys:i4[q,s] tolerances:i4[q] excluded:i4[q,e] row_of:i4[n] queries:f8?[q,d]
    points:any?[m,d] given:f8?[q,n] ask:function? first:i8 hashed:i4 least:i8 rows:i4[q,k]!
    keys:f8[q,k]! near:i4[n]! exact:f8[n]!}
mark_votes{qkeys:i4[q,n] sure:i4[q] possible:i4[q] excluded:i4[q,e] labels:i4[n] of_query:i4[q]
    queries:f8?[q,d] points:any?[m,d] given:f8?[q,n] ask:function? largest:f8 near:i4[n]!
    exact:f8[n]! marks:u1[q,n]! counts:i8[q,2]!}
add_votes(marks:u1[q,n] worth:f8[q,2] total:f8[n]!)

# owners.c
owners_space(k:i8 n_owners:i8 n_nodes:i8) -> i8
value_owners{qkeys:i4[q,s]! tolerances:i4[q] labels:i4[q] excluded:i4[q,e] starts:i8[m+1]
    row_of:i4[n] owner_of:i4[n] class_of:i4[n] queries:f8?[q,d] points:any?[p,d] given:f8?[q,n]
    ask:function? by_index:i4 k:i8 t:f8[g] weights:f8[g] binomial:f8[m+1,k,g] values:f8[q,m]!
    near:i4[n]! exact:f8[n]! space:f8[b]!}

# regression.c
value_regression{keys:f8[q,n] targets:f8[n] query_targets:f8[q] weights:f8[q] by_index:i4
    worth:f8[m] loss:f8[m] pair_worth:f8[m] pair_loss:f8[m] votes:f8 correction:f8?[5] total:f8[n]!
    items:u8[n]! spare:u8[n]! order:i4[n]! first:u1[n]!}
"""

NUMBERS = {"f8": ctypes.c_double, "f4": ctypes.c_float, "i8": ctypes.c_int64, "i4": ctypes.c_int32}

# The codes of `enum row_type` in nearworth.h. Truth values are read as u1.
ROW_TYPES = ("f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")

# In the order of the numbers that `instruction_set` returns.
VARIANTS = ("baseline", "avx2", "avx512")
SUFFIX = {"win32": "dll", "darwin": "dylib"}.get(sys.platform, "so")

CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
)
NO_BYTES = ctypes.c_char * 0

# Bits of ndarray.flags.num.
CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400


def available() -> bool:
    return library() is not None


def variant() -> str:
    """The instructions that the loaded library uses; "numpy" without a library."""
    return str(getattr(library(), "variant", "numpy"))


def call(name: str, *arguments: Any, **named_arguments: Any) -> Any:
    """Call a compiled function with all arguments in order, or with all of them by name.

    An exception raised in a callback is raised here.
    """
    declaration = DECLARED[name]
    if named_arguments:
        arguments = (*arguments, *declaration.in_order(named_arguments))
    passed, callbacks = declaration.convert(arguments)
    result = getattr(library(), name)(*passed)
    for callback in callbacks:
        if callback.error is not None:
            raise callback.error
    return result


# Two threads may both load the library at once, which gives the same one. A lock would be copied
# by a fork while it is held.
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
        name = _variant_to_use(wanted, baseline.instruction_set())
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


def _variant_to_use(wanted: str, best: int) -> str:
    """The variant asked for, or the best one that is there; `best` is what the processor runs."""
    if not wanted:
        return next(name for name in VARIANTS[best::-1] if _path(name).exists())
    if VARIANTS.index(wanted) > best:
        raise ValueError(
            f"NEARWORTH_NATIVE is {wanted}, but this processor has no more than {VARIANTS[best]}."
        )
    return wanted


def _path(variant_name: str) -> Path:
    folder = os.environ.get("NEARWORTH_NATIVE_FOLDER") or Path(__file__).parent
    return Path(folder, f"libnearworth-{variant_name}.{SUFFIX}")


def open_variant(name: str) -> Any:
    """Load one variant.

    Raises
    ------
    OSError
        If it does not exist, is not for this machine, or was made for other declarations.
    """
    path = _path(name)
    if not path.exists():
        raise OSError(f"there is no {path}")
    loaded: Any = ctypes.CDLL(str(path))

    # A wrong signature would crash: what the library was made for must be what is declared here.
    made_for = getattr(loaded, "declarations", int)() % 2**32
    if made_for != zlib.crc32(DECLARATIONS.encode()):
        raise OSError(f"{path} belongs to another version of the package")
    for declaration in DECLARED.values():
        function = getattr(loaded, declaration.name)
        function.restype = declaration.result
        function.argtypes = declaration.argument_types
    loaded.variant = name
    return loaded


class Callback:
    """A Python function f(query, rows, out) that compiled code calls: out[i] is to become a number
    for rows[i].

    The arrays, int32 and float64, are views of the caller's memory and must not outlive the call.
    An exception is kept in `error`. Compiled code then gets a result other than 0 and is to return
    at once.
    """

    def __init__(self, function: Callable[[int, Any, Any], object]) -> None:
        self.function = function
        self.error: BaseException | None = None

    def __call__(self, query: int, n_rows: int, rows_address: int, out_address: int) -> int:
        try:
            rows = np.ctypeslib.as_array((ctypes.c_int32 * n_rows).from_address(rows_address))
            rows.flags.writeable = False
            out = np.ctypeslib.as_array((ctypes.c_double * n_rows).from_address(out_address))
            self.function(query, rows, out)
        except BaseException as error:  # ctypes would print and forget it
            self.error = error
        return int(self.error is not None)


class Declaration:
    """The parameters of one function, and the checks of its arguments.

    Attributes
    ----------
    name : str
    parameters : list of _Parameter
        In the order of the declaration.
    letters : list of str
        The lengths that follow the parameters.
    result : ctypes type or None
    argument_types : list of ctypes types
        Of the C function: a pointer to a struct if the declaration has braces.
    """

    def __init__(self, line: str) -> None:
        match = re.fullmatch(r"(\w+)(?:\((.*)\)|\{(.*)\})(?: -> (\w+))?", line)
        assert match, f"not a declaration: {line}"
        self.name, listed, fields, result = match.groups()
        self.result = NUMBERS[result] if result else None
        self.parameters = [_Parameter(text) for text in (listed or fields or "").split()]

        numbers = {parameter.name for parameter in self.parameters if parameter.is_number}
        sizes = dict.fromkeys(size for parameter in self.parameters for size in parameter.shape)
        self.letters = [size for size in sizes if size.isidentifier() and size not in numbers]
        self._expressions = {
            size: compile(size, line, "eval") for size in sizes if not size.isidentifier()
        }
        for size, code in self._expressions.items():
            unknown = {*code.co_names} - {*self.letters, *numbers}
            assert not unknown, f"{size} has a part that is no length: {line}"

        self._struct = None if fields is None else _struct(self.name, self.parameters, self.letters)
        if self._struct is None:
            self.argument_types = [
                kind for parameter in self.parameters for kind in parameter.types
            ]
            self.argument_types += [ctypes.c_int64] * len(self.letters)
        else:
            self.argument_types = [ctypes.POINTER(self._struct)]

    def in_order(self, named_arguments: Mapping[str, Any]) -> list[Any]:
        """The arguments in the order of the declaration."""
        names = [parameter.name for parameter in self.parameters]
        if named_arguments.keys() != {*names}:
            differing = sorted(named_arguments.keys() ^ {*names})
            raise TypeError(f"{self.name}: missing or unknown arguments: {', '.join(differing)}.")
        return [named_arguments[name] for name in names]

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
                    converted += parameter.nulls
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
            self._check_expressions(sizes)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{self.name}: {error}") from None
        return converted if self._struct is None else [self._struct(*converted)], callbacks

    def _check_expressions(self, sizes: Mapping[str, int]) -> None:
        for size, code in self._expressions.items():
            if size not in sizes:
                continue
            expected = eval(code, {}, sizes)
            if sizes[size] != expected:
                raise ValueError(f"the length {size} is {sizes[size]}, not {expected}.")


class _Parameter:
    """One parameter: a number, an array with its shape, or a callback.

    Attributes
    ----------
    name : str
    type : str
        A code such as "f8", "any" for rows of any number type, or "function".
    optional, is_array, is_number : bool
    shape : list of str
        A letter, a number or an expression for each axis.
    flags : int
        The bits of ndarray.flags.num that an argument must have.
    types : list of ctypes types
        What is passed: rows of any type are a pointer and a code.
    nulls : list
        What is passed for None.
    """

    def __init__(self, text: str) -> None:
        match = re.fullmatch(r"(\w+):(\w+)(\??)(?:\[(\S+)\](!?))?", text)
        assert match, f"not a parameter: {text}"
        self.name, self.type, optional, shape, written = match.groups()
        self.optional = bool(optional)
        self.is_array = shape is not None
        self.is_number = not self.is_array and self.type != "function"
        self.shape = shape.split(",") if shape else []
        self.flags = CONTIGUOUS | ALIGNED
        if written:
            self.flags |= WRITEABLE
        self._dtype = np.dtype(self.type) if self.is_array and self.type != "any" else None

        self.types: list[Any]
        self.nulls: list[Any]
        if self.is_number:
            self.types, self.nulls = [NUMBERS[self.type]], []
        elif self.type == "any":
            self.types, self.nulls = [ctypes.c_void_p, ctypes.c_int32], [None, 0]
        elif self.is_array:
            self.types, self.nulls = [ctypes.c_void_p], [None]
        else:
            self.types, self.nulls = [CALLBACK], [CALLBACK()]

    def check_number(self, argument: Any, sizes: dict[str, int]) -> float:
        if self.type in ("f4", "f8"):
            return float(argument)
        number = operator.index(argument)
        # ctypes would cut off the leading bits of a number that is too large.
        n_bits = (number if number >= 0 else ~number).bit_length()
        if n_bits >= 8 * int(self.type[1]):
            raise ValueError(f"{self.name} is {number}, too large for {self.type}.")
        if sizes.setdefault(self.name, number) != number:
            raise ValueError(
                f"{self.name} is {number}, but an array has the length {sizes[self.name]}."
            )
        return number

    def check_array(self, argument: Any, sizes: dict[str, int]) -> int:
        """The address of an array that is as declared; lengths that it binds go into `sizes`."""
        if not isinstance(argument, np.ndarray) or (
            self._dtype is not None and argument.dtype != self._dtype
        ):
            dtype = getattr(argument, "dtype", type(argument).__name__)
            raise TypeError(f"{self.name} is {dtype}, not an array of {self.type}.")
        flags = argument.flags.num
        if flags & self.flags != self.flags:
            raise ValueError(f"{self.name} is not contiguous and aligned, or not writeable.")
        shape = argument.shape
        if len(shape) != len(self.shape):
            raise ValueError(f"{self.name} has {len(shape)} dimensions, not {len(self.shape)}.")
        expected = tuple(map(sizes.setdefault, self.shape, shape))
        if expected != shape:
            raise ValueError(
                f"{self.name} has the shape {shape}, but [{','.join(self.shape)}] is {expected}."
            )
        # The first way is three times as fast, but ctypes makes no view of constant arrays.
        if flags & WRITEABLE:
            return ctypes.addressof(NO_BYTES.from_buffer(argument))  # type: ignore[arg-type]
        return int(argument.ctypes.data)


def _struct(name: str, parameters: list[_Parameter], letters: list[str]) -> type[ctypes.Structure]:
    """The struct of a function: the parameters in order, then the lengths, aligned as in C."""
    fields: list[tuple[str, Any]] = []
    for parameter in parameters:
        names = [parameter.name, f"type of {parameter.name}"]
        fields += zip(names, parameter.types, strict=False)
    fields += [(f"length {letter}", ctypes.c_int64) for letter in letters]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


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
