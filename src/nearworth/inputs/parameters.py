"""Constructor parameters: one table, one line each."""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

BRIEF = 80
UNITS = {"": 1, "b": 1}
UNITS |= {f"{p}b": 1000**i for i, p in enumerate("kmgt", start=1)}
UNITS |= {f"{p}ib": 1024**i for i, p in enumerate("kmgt", start=1)}


def is_whole(value: Any) -> bool:
    """A whole number that is not a bool in disguise."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_real(value: Any) -> bool:
    """A finite real number that is not a bool in disguise."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def did_you_mean(value: str, options: list[str]) -> str:
    """A hint with the nearest right spelling, or all of them when nothing is near."""
    near = get_close_matches(value.lower(), options, n=1)
    return f"Did you mean {near[0]!r}?" if near else "Use one of " + ", ".join(map(repr, options)) + "."


def brief(value: Any) -> str:
    """A value in a message: of arrays and frames the shape, of anything else as much as a line holds."""
    shape = getattr(value, "shape", None)
    if shape:
        return f"{type(value).__name__} of shape {tuple(shape)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= BRIEF else f"{text[:BRIEF]} ... ({type(value).__name__})"


def one_of(*options: str) -> Callable[[str, Any], None]:
    """One of a few words."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, str):
            raise TypeError(f"{name} must be one of {', '.join(map(repr, options))}; got {value!r}.")
        if value not in options:
            raise ValueError(f"{name}={value!r} is not known. {did_you_mean(value, list(options))}")

    return check


def whole_number(minimum: int, *, or_none: bool = False) -> Callable[[str, Any], None]:
    """A whole number that is at least `minimum`."""

    def check(name: str, value: Any) -> None:
        if value is None and or_none:
            return
        if not is_whole(value):
            raise TypeError(
                f"{name} must be a whole number, {minimum} or more{' (or None)' * or_none}; got {brief(value)}."
            )
        if not minimum <= value < 2**63:
            raise ValueError(f"{name} must be {minimum} or more (and a 64-bit number); got {value!r}.")

    return check


def true_or_false(name: str, value: Any) -> None:
    """True or False."""
    if not isinstance(value, bool) and type(value).__name__ != "bool":  # numpy's bool_ included
        raise TypeError(f"{name} must be True or False; got {value!r}.")


def semivalue(name: str, value: Any) -> None:
    """A name, or ("beta", a, b)."""
    if isinstance(value, tuple | list):
        if len(value) != 3 or value[0] != "beta":
            raise ValueError(f'{name} as a tuple must be ("beta", a, b); got {value!r}.')
        if not all(is_real(x) and 1e-100 <= x <= 1e100 for x in value[1:]):
            raise ValueError(f'{name}=("beta", a, b) needs two positive numbers (1e-100 to 1e100); got {value!r}.')
        return
    if isinstance(value, str) and value == "beta":
        raise ValueError(f'{name}="beta" needs its two parameters: ("beta", 4, 1) for example.')
    one_of("shapley", "banzhaf", "loo")(name, value)


def metric(name: str, value: Any) -> None:
    """A name or a function; which names there are is known to the geometry."""
    if not isinstance(value, str) and not callable(value):
        raise TypeError(f"{name} must be the name of a metric or a function of two points; got {value!r}.")


def mapping_or_none(name: str, value: Any) -> None:
    """Keyword arguments, or nothing."""
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dict of keyword arguments for the metric, or None; got {value!r}.")


def search(name: str, value: Any) -> None:
    """A name, or an object that can fit and search."""
    if callable(getattr(value, "fit", None)) and callable(getattr(value, "search", None)):
        return
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a name or an object with fit(X) and search(Q, k); got {value!r}.")
    one_of("exact", "lsh", "faiss", "auto")(name, value)


def positive_or_none(name: str, value: Any) -> None:
    """A positive real number, or nothing."""
    if value is not None and (not is_real(value) or value <= 0):
        raise ValueError(f"{name} must be a positive number or None; got {value!r}.")


def memory(name: str, value: Any) -> None:
    """Bytes, or a size in words."""
    if value is not None:
        parse_bytes(name, value)


def jobs(name: str, value: Any) -> None:
    """As scikit-learn means it: a count, or -1 for all cores, -2 for all but one."""
    if value is not None and not is_whole(value):
        raise TypeError(f"{name} must be a whole number or None (all usable cores); got {value!r}.")
    if value == 0:
        raise ValueError(f"{name}=0 means no worker at all. Use 1 for a single one, -1 or None for all cores.")


def seed(name: str, value: Any) -> None:
    """What scikit-learn accepts as random_state."""
    if value is None or type(value).__name__ in ("RandomState", "Generator"):
        return
    if not is_whole(value) or not 0 <= value < 2**32:
        raise ValueError(
            f"{name} must be a whole number from 0 to 2**32 - 1, a numpy generator or None; got {value!r}."
        )


def progress(name: str, value: Any) -> None:
    """None, True, False, or a function called with (done, total)."""
    if value is not None and not isinstance(value, bool) and not callable(value):
        raise TypeError(f"{name} must be True, False, None or a function of (done, total); got {value!r}.")


def parse_bytes(name: str, value: Any) -> int:
    """Bytes from a number or from text such as "2GB" (10^9) or "2GiB" (2^30)."""
    if is_whole(value) and value > 0:
        return int(value)
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", value)
        if match and match[2].lower() in UNITS and float(match[1]) > 0:
            return int(float(match[1]) * UNITS[match[2].lower()])
    raise ValueError(f"{name} must be a positive number of bytes or a size such as '2GB' or '500MB'; got {value!r}.")


PARAMETERS: dict[str, Callable[[str, Any], None]] = {
    "n_neighbors": whole_number(1),
    "task": one_of("classification", "regression"),
    "utility": one_of("soft", "original"),
    "semivalue": semivalue,
    "metric": metric,
    "metric_params": mapping_or_none,
    "search": search,
    "n_candidates": whole_number(1, or_none=True),
    "max_error": positive_or_none,
    "tail": one_of("local", "minimax", "mean", "paper"),
    "n_classes": whole_number(1, or_none=True),
    "ties": one_of("average", "index"),
    "aggregate": one_of("mean", "sum"),
    "standard_errors": true_or_false,
    "max_memory": memory,
    "n_jobs": jobs,
    "random_state": seed,
    "progress": progress,
}


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Check every parameter against the table."""
    for name, check in PARAMETERS.items():
        check(name, parameters[name])
