"""The compiled library: found, refused with a reason, and never called with arrays that it could
not bear.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import shutil
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

from nearworth._common import native

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "native"
C_NUMBERS = {"f8": "double", "f4": "float"}


def c_type(code: str) -> str:
    """Of a type code like f8, u2, i4."""
    return C_NUMBERS.get(code) or f"{'u' if code[0] == 'u' else ''}int{8 * int(code[1])}_t"


def expected_in_c(declaration) -> list[str]:
    """The parameters that a C function must have; codes of types and lengths under any name."""
    expected = []
    for parameter in declaration.parameters:
        if parameter.type == "function":
            expected.append(f"callback {parameter.name}")
        elif parameter.is_number:
            expected.append(f"{c_type(parameter.type)} {parameter.name}")
        else:
            kind = "void" if parameter.type == "any" else c_type(parameter.type)
            constant = "" if parameter.flags & native.WRITEABLE else "const "
            expected.append(f"{constant}{kind} *{parameter.name}")
            expected += ["int32_t"] if parameter.type == "any" else []
    return expected + ["int64_t"] * len(declaration.letters)


def native_struct(name: str) -> bool:
    """Whether a function is declared as one whose arguments are a struct."""
    return re.search(rf"^{name}\{{", native.DECLARATIONS, flags=re.MULTILINE) is not None


def with_types(fields: str) -> str:
    """Fields with a type each: `int64_t n, width` becomes `int64_t n, int64_t width`."""
    written = []
    for field in " ".join(fields.split()).split(", "):
        is_name = re.fullmatch(r"\w+", field) is not None
        written.append(f"{written[-1].rsplit(' ', 1)[0]} {field}" if is_name else field)
    return ", ".join(written)


def exported() -> dict[str, tuple[str, list[str]]]:
    """Functions of the C sources: result and parameters."""
    found = {}
    structs = {}
    for path in sorted(NATIVE.glob("*.[ch]")):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", path.read_text(), flags=re.DOTALL)
        structs |= {
            name: fields.replace(";", ",").rstrip(", \n")
            for fields, name in re.findall(r"typedef struct \{([^}]*)\} (\w+);", text)
        }
        functions = re.findall(r"^EXPORT (\w+) (\w+)\(([^)]*)\)", text, flags=re.MULTILINE)
        assert len(functions) == len(re.findall("^EXPORT", text, flags=re.MULTILINE)), (
            f"{path.name}: an exported function in another form"
        )
        for result, name, inner in functions:
            # The arguments may be the fields of one struct.
            struct = re.fullmatch(r"const (\w+) \*\w+", inner.strip())
            is_struct = struct is not None and struct[1] in structs
            assert is_struct == native_struct(name), name
            inner = with_types(structs[struct[1]]) if is_struct else inner
            parameters = [
                " ".join(part.replace("restrict", "").split()) for part in inner.split(",")
            ]
            found[name] = (
                result,
                [re.sub(r"\* +", "*", part) for part in parameters if part != "void"],
            )
    return found


def test_every_exported_function_is_declared_as_it_is_in_c():
    """Types, names, order, and what is written to: ctypes believes whatever it is told."""
    functions = exported()
    assert functions.pop("declarations") == ("uint32_t", [])
    assert set(functions) == set(native.DECLARED)
    results = {None: "void"} | {kind: c_type(code) for code, kind in native.NUMBERS.items()}
    for name, (result, parameters) in functions.items():
        expected = expected_in_c(native.DECLARED[name])
        assert results[native.DECLARED[name].result] == result, name
        assert len(parameters) == len(expected), name
        for parameter, wanted in zip(parameters, expected, strict=True):
            parameter = re.sub(r"\bchar \*", "uint8_t *", parameter)  # raw memory
            assert parameter == wanted or parameter.split()[:-1] == [wanted], (
                f"{name}: {parameter}, not {wanted}"
            )


def test_types_of_rows_have_the_codes_of_the_header():
    header = (NATIVE / "nearworth.h").read_text()
    names = re.search(r"enum row_type \{(.*?)\}", header, flags=re.DOTALL)[1].split(",")
    assert tuple(name.strip().lower() for name in names) == native.ROW_TYPES
    assert [native.row_type(np.dtype(name)) for name in native.ROW_TYPES] == list(range(10))
    assert native.row_type(np.dtype(bool)) == native.ROW_TYPES.index("u1")
    for name in ("f2", ">f8", "c16", "m8[s]", "O", "S4"):
        with pytest.raises(TypeError, match="cannot be read by compiled code"):
            native.row_type(np.dtype(name))


# What call checks.


class FakeLibrary:
    """Stands for a compiled library: functions in Python that get what C would get."""

    def __init__(self, **functions):
        self.__dict__.update(functions)


@pytest.fixture
def declare(monkeypatch):
    """Declare a function for one test; returns the list of what it was called with."""

    def declare(line, function=None):
        calls = []
        declaration = native.Declaration(line)
        monkeypatch.setitem(native.DECLARED, declaration.name, declaration)
        fake = FakeLibrary(
            **{declaration.name: function or (lambda *arguments: calls.append(arguments))}
        )
        monkeypatch.setattr(native, "library", lambda: fake)
        return calls

    return declare


def test_lengths_follow_in_order_of_appearance(declare):
    calls = declare("f(keys:f8[n] rows:any[m,d] starts:i8[m+1] total:f4[n]!)")
    arrays = (
        np.zeros(3),
        np.zeros((5, 2), np.uint16),
        np.zeros(6, np.int64),
        np.zeros(3, np.float32),
    )
    native.call("f", *arrays)
    keys, rows, starts, total = (array.ctypes.data for array in arrays)
    given = [
        ctypes.cast(given, ctypes.c_void_p).value if hasattr(given, "value") else given
        for given in calls[0]
    ]
    assert given == [keys, rows, native.row_type(np.dtype(np.uint16)), starts, total, 3, 5, 2]


def test_numbers_may_be_used_as_lengths_and_are_not_passed_twice(declare):
    calls = declare("f(table:i4[n_cells+1] rows:i4[n,k] k:i8 n_cells:i4 weight:f8)")
    native.call("f", np.zeros(8, np.int32), np.zeros((2, 3), np.int32), 3, np.int64(7), 1)
    assert calls[0][2:] == (3, 7, 1.0, 2)
    with pytest.raises(ValueError, match="f: k is 4, but an array has the length 3"):
        native.call("f", np.zeros(8, np.int32), np.zeros((2, 3), np.int32), 4, 7, 1)
    with pytest.raises(ValueError, match=r"f: the length n_cells\+1 is 8, not 9"):
        native.call("f", np.zeros(8, np.int32), np.zeros((2, 3), np.int32), 3, 8, 1)


def test_optional_arrays_are_null_with_length_0(declare):
    calls = declare("f(values:f8?[n] rows:any?[m,d] ask:function? starts:i8[n+1])")
    native.call("f", None, None, None, np.zeros(1, np.int64))
    assert calls[0][:3] == (None, None, 0)
    assert not calls[0][3]  # a function pointer that is NULL
    assert calls[0][5:] == (0, 0, 0)
    with pytest.raises(ValueError, match=r"the length n\+1 is 2, not 1"):
        native.call("f", None, None, None, np.zeros(2, np.int64))


BAD = {
    "keys is list, not an array of f8": [1.0, 2.0],
    "keys is NoneType, not an array of f8": None,
    "keys is float32, not an array of f8": np.zeros(2, np.float32),
    "keys is >f8, not an array of f8": np.zeros(2, ">f8"),
    "keys is not contiguous and aligned": np.zeros(4)[::2],
    "keys is not contiguous and aligned, ": np.frombuffer(bytes(17), np.uint8)[1:].view(np.float64),
    "keys has 2 dimensions, not 1": np.zeros((1, 2)),
    r"keys has the shape \(3,\), but \[n\] is \(2,\)": np.zeros(3),
}


@pytest.mark.parametrize("message", BAD)
def test_unfit_arrays_are_refused(declare, message):
    calls = declare("f(total:f8[n]! keys:f8[n])")
    with pytest.raises((TypeError, ValueError), match=f"f: {message}"):
        native.call("f", np.zeros(2), BAD[message])
    assert not calls


def test_outputs_must_be_writeable(declare):
    calls = declare("f(total:f8[n]! keys:f8[n])")
    constant = np.zeros(2)
    constant.flags.writeable = False
    native.call("f", np.zeros(2), constant)
    assert len(calls) == 1
    with pytest.raises(
        ValueError, match="f: total is not contiguous and aligned, or not writeable"
    ):
        native.call("f", constant, np.zeros(2))


@pytest.mark.parametrize(
    ("kind", "number"), [("i4", 2**31), ("i4", -(2**31) - 1), ("i8", 2**63), ("i8", 2**70)]
)
def test_numbers_that_would_be_cut_off_are_refused(declare, kind, number):
    calls = declare(f"f(count:{kind})")
    native.call("f", 2 ** (8 * int(kind[1]) - 1) - 1)
    native.call("f", -(2 ** (8 * int(kind[1]) - 1)))
    assert len(calls) == 2
    with pytest.raises(ValueError, match=f"f: count is {number}, too large for {kind}"):
        native.call("f", number)
    with pytest.raises(TypeError):
        native.call("f", 2.5)


def test_many_arguments_travel_as_one_struct(declare):
    """By name or in order; the fields are aligned as in C."""
    calls = declare("f{by_index:i4 keys:f8[n] rows:any?[m,d] ask:function? weight:f8 total:f4[n]!}")
    keys, total = np.zeros(3), np.zeros(3, np.float32)
    rows = np.zeros((5, 2), np.uint16)
    native.call("f", weight=0.5, keys=keys, rows=rows, total=total, ask=None, by_index=True)
    native.call("f", True, keys, None, print, 0.5, total)

    class Expected(ctypes.Structure):
        _fields_ = (
            ("by_index", ctypes.c_int32),
            ("keys", ctypes.c_void_p),
            ("rows", ctypes.c_void_p),
            ("type", ctypes.c_int32),
            ("ask", ctypes.c_void_p),
            ("weight", ctypes.c_double),
            ("total", ctypes.c_void_p),
            ("n", ctypes.c_int64),
            ("m", ctypes.c_int64),
            ("d", ctypes.c_int64),
        )

    given = [Expected.from_buffer(struct) for (struct,) in calls]
    for struct in given:
        assert (struct.by_index, struct.weight, struct.n) == (1, 0.5, 3)
        assert (struct.keys, struct.total) == (keys.ctypes.data, total.ctypes.data)
    assert (given[0].rows, given[0].type) == (rows.ctypes.data, native.row_type(rows.dtype))
    assert (given[0].ask, given[0].m, given[0].d) == (None, 5, 2)
    assert (given[1].rows, given[1].type, given[1].m, given[1].d) == (None, 0, 0, 0)
    assert given[1].ask


def test_structs_are_checked_as_arguments_are(declare):
    calls = declare("f{total:f8[n]! keys:f8[n]}")
    with pytest.raises(TypeError, match="f: missing or unknown arguments: key, keys"):
        native.call("f", total=np.zeros(2), key=np.zeros(2))
    with pytest.raises(TypeError, match="f: missing or unknown arguments: total"):
        native.call("f", keys=np.zeros(2))
    with pytest.raises(TypeError, match="f takes 2 arguments; got 3"):
        native.call("f", 1, total=np.zeros(2), keys=np.zeros(2))
    with pytest.raises(ValueError, match=r"f: keys has the shape \(3,\), but \[n\] is \(2,\)"):
        native.call("f", total=np.zeros(2), keys=np.zeros(3))
    with pytest.raises(TypeError, match="f: keys is NoneType, not an array of f8"):
        native.call("f", total=np.zeros(2), keys=None)
    assert not calls


def test_wrong_numbers_of_arguments(declare):
    declare("f(keys:f8[n])")
    with pytest.raises(TypeError, match="f takes 1 arguments; got 2"):
        native.call("f", np.zeros(2), np.zeros(2))


@pytest.mark.parametrize(
    "line",
    [
        "f(keys:f8[n",
        "f(keys)",
        "f{keys:f8[n])",
        "f(keys:f8[n]}",
        "f(keys:f8[n+1])",
        "f(keys:f8[n] total:f8[m+1])",
    ],
)
def test_declarations_with_mistakes_are_refused(line):
    with pytest.raises(AssertionError):
        native.Declaration(line)


# Callbacks.


def ask_for(rows, result):
    """What C does: calls until it is told to stop, and returns how often."""
    rows = np.asarray(rows, np.int32)

    def function(ask, count):
        for query in range(count):
            if ask(query, len(rows), rows.ctypes.data, result.ctypes.data):
                return query
        return count

    return function


def test_callbacks_read_rows_and_write_numbers(declare):
    out = np.zeros(3)
    declare("f(ask:function count:i8) -> i8", ask_for([4, 5, 9], out))
    seen = []

    def answer(query, rows, out):
        assert rows.dtype == np.int32
        assert not rows.flags.writeable
        seen.append((query, rows.tolist()))
        out[:] = 10 * rows + query

    assert native.call("f", answer, 2) == 2
    assert seen == [(0, [4, 5, 9]), (1, [4, 5, 9])]
    assert out.tolist() == [41, 51, 91]


def test_callbacks_without_rows(declare):
    declare("f(ask:function count:i8) -> i8", ask_for([], np.zeros(0)))
    assert native.call("f", lambda query, rows, out: [rows, out], 1) == 1


@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt])
def test_exceptions_in_callbacks_stop_the_function_and_are_raised(declare, kind, capfd):
    seen = []

    def answer(query, rows, out):
        seen.append(query)
        if query == 2:
            raise kind("in the callback")

    declare("f(ask:function count:i8) -> i8", ask_for([1], np.zeros(1)))
    with pytest.raises(kind, match="in the callback"):
        native.call("f", answer, 10)
    assert seen == [0, 1, 2]
    assert capfd.readouterr() == ("", "")


def test_callbacks_are_released(declare):
    declare("f(ask:function count:i8) -> i8", ask_for([1], np.zeros(1)))
    array = np.zeros(3)
    watched = weakref.ref(array)
    native.call("f", lambda query, rows, out, array=array: None, 3)
    del array
    gc.collect()
    assert watched() is None


# Which library is loaded.


def load(*, native_setting="", folder=None, code=""):
    """Ask for the variant in a process of its own: (exit code, stdout, stderr)."""
    variables = {"NEARWORTH_NATIVE": native_setting, "NEARWORTH_NATIVE_FOLDER": str(folder or "")}
    code = code or "from nearworth._common import native; print(native.variant(), native.variant())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.strip(), done.stderr


@pytest.fixture
def libraries(tmp_path):
    """A copy of the libraries, to be damaged."""
    for path in Path(native.__file__).parent.glob("libnearworth-*"):
        shutil.copy(path, tmp_path)
    assert list(tmp_path.iterdir())
    return tmp_path


def test_the_library_is_there():
    """An install without a C compiler works, but a change is judged with compiled code."""
    assert native.available() or os.environ.get("NEARWORTH_NATIVE") == "0"


def test_every_variant_can_be_asked_for():
    best = native.VARIANTS.index(load()[1].split()[0])
    for number, name in enumerate(native.VARIANTS):
        status, out, err = load(native_setting=name)
        if number <= best:
            assert (status, out, err) == (0, f"{name} {name}", "")
        else:
            assert status == 1
            assert (
                f"NEARWORTH_NATIVE is {name}, but this processor has no more than"
                f" {native.VARIANTS[best]}" in err
            )
    assert load(native_setting="0") == (0, "numpy numpy", "")


def test_a_variant_that_the_processor_lacks_is_refused_not_run(monkeypatch):
    monkeypatch.setenv("NEARWORTH_NATIVE", "avx512")
    opened = []

    def open_old(name):
        opened.append(name)
        return FakeLibrary(instruction_set=lambda: 1)

    monkeypatch.setattr(native, "open_variant", open_old)
    with pytest.raises(
        ValueError, match="NEARWORTH_NATIVE is avx512, but this processor has no more than avx2"
    ):
        native.library.__wrapped__()
    assert opened == ["baseline"]


def test_unknown_settings_are_refused():
    status, _, err = load(native_setting="sse9")
    assert status == 1
    assert (
        "NEARWORTH_NATIVE is 'sse9'; it must be 0 (no compiled code) or one of baseline, avx2,"
        " avx512." in err
    )


def damage_missing(folder):
    for path in folder.iterdir():
        path.unlink()
    return "there is no "


def damage_content(folder):
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:100])
    return "libnearworth-baseline"


def damage_version(folder):
    """Another checksum, as in a library compiled before the declarations changed."""
    import zlib

    found = zlib.crc32(native.DECLARATIONS.encode()).to_bytes(4, "little")
    for path in folder.iterdir():
        content = path.read_bytes()
        assert content.count(found) == 1
        path.write_bytes(content.replace(found, b"\0\1\2\3"))
    return "belongs to another version of the package"


@pytest.mark.parametrize("damage", [damage_missing, damage_content, damage_version])
def test_without_a_fitting_library_one_warning_says_what_to_do(libraries, damage):
    reason = damage(libraries)
    status, out, err = load(folder=libraries)
    assert (status, out) == (0, "numpy numpy")
    assert err.count("UserWarning: nearworth runs without compiled code") == 1
    assert reason in err
    assert "python hatch_build.py" in err
    assert load(folder=libraries, native_setting="0") == (0, "numpy numpy", "")
    status, _, err = load(folder=libraries, native_setting="baseline")
    assert status == 1
    assert "RuntimeError: NEARWORTH_NATIVE is baseline, but " in err
    assert reason in err


def test_a_missing_better_variant_leaves_the_next_one(libraries):
    best = load(folder=libraries)[1].split()[0]
    if best == "baseline":
        pytest.skip("this processor runs the baseline only")
    (libraries / f"libnearworth-{best}.{native.SUFFIX}").unlink()
    lower = native.VARIANTS[native.VARIANTS.index(best) - 1]
    assert load(folder=libraries) == (0, f"{lower} {lower}", "")


def test_threads_and_forks_get_the_same_library():
    code = """
import os, threading
from nearworth._common import native
found = []
threads = [threading.Thread(target=lambda: found.append(native.variant())) for _ in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
assert len(found) == 8 and len(set(found)) == 1, found
child = os.fork()
if child == 0:
    os._exit(0 if native.call("instruction_set") >= 0 and native.variant() == found[0] else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    assert load(code=code)[0] == 0
