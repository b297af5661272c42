"""Constructor parameters: a table of checks, which other functions share."""

from __future__ import annotations

import numbers
import re
import reprlib
import sys
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, TypeAlias

import numpy as np

# Takes the name of a parameter and its value; raises an error if the value is wrong.
Check: TypeAlias = Callable[[str, Any], Any]

# Letters of a value in a message.
MAX_BRIEF = 80
# A number and a unit, such as "1.5 GiB": digits, letter of the unit, "i" of binary units.
SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:(?:([kmgt])(i?))?b)?\s*", re.IGNORECASE)
# Units in the order of their exponents; a space stands for none.
UNITS = " kmgt"


def is_whole(value: Any) -> bool:
    """A whole number that is not a bool in disguise."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_real(value: Any) -> bool:
    """A finite real number that is not a bool in disguise."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return is_number and bool(abs(value) <= sys.float_info.max)


def did_you_mean(value: str, options: list[str]) -> str:
    """A hint with the nearest right spelling, or all of them when nothing is near."""
    matches = get_close_matches(value.lower(), options, n=1)
    if matches:
        return f"Did you mean {matches[0]!r}?"
    return "Use one of " + ", ".join(map(repr, options)) + "."


def brief(value: Any) -> str:
    """A value in a message: the shape of an array or frame, else as much of it as a line holds."""
    shape = getattr(value, "shape", ())
    if shape:
        return f"{type(value).__name__} of shape {tuple(shape)}"
    text = reprlib.repr(value)
    if len(text) <= MAX_BRIEF:
        return text
    return f"{text[:MAX_BRIEF]} ... ({type(value).__name__})"


def parse_bytes(name: str, value: Any) -> int:
    """Bytes from a number or from text such as "2GB" (10^9) or "2GiB" (2^30)."""
    if is_whole(value) and value > 0:
        return int(value)
    match = SIZE.fullmatch(value) if isinstance(value, str) else None
    if match:
        base = 1024 if match[3] else 1000
        # The first unit, a blank, stands for bytes.
        exponent = UNITS.index((match[2] or " ").lower())
        n_bytes = int(float(match[1]) * base**exponent)
        if n_bytes > 0:
            return n_bytes
    raise ValueError(
        f"{name} must be a positive number of bytes or a size such as '2GB' or '500MB'; got"
        f" {value!r}."
    )


def as_generator(random_state: Any) -> np.random.Generator:
    """A generator from a seed, None or a generator.

    A legacy RandomState is drawn from to seed one.
    """
    seed("random_state", random_state)
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**32, size=4, dtype=np.uint32))
    return np.random.default_rng(random_state)


def condition(holds: Callable[[Any], bool], what: str, error: type[Exception] = TypeError) -> Check:
    """A check of one condition, with what the value must be in words."""

    def check(name: str, value: Any) -> None:
        if not holds(value):
            raise error(f"{name} must be {what}; got {brief(value)}.")

    return check


def one_of(*options: str) -> Check:
    """A check that a value is one of these texts."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, str):
            listed = ", ".join(map(repr, options))
            raise TypeError(f"{name} must be one of {listed}; got {brief(value)}.")
        if value not in options:
            raise ValueError(f"{name}={value!r} is not known. {did_you_mean(value, list(options))}")

    return check


def whole_number(minimum: int, *, or_none: bool = False) -> Check:
    """A check that a value is a whole number of 64 bits, and not too small."""

    def check(name: str, value: Any) -> None:
        if value is None and or_none:
            return
        if not is_whole(value):
            or_none_text = " (or None)" if or_none else ""
            raise TypeError(
                f"{name} must be a whole number, {minimum} or more{or_none_text}; got"
                f" {brief(value)}."
            )
        if not minimum <= value < 2**63:
            raise ValueError(
                f"{name} must be {minimum} or more (and a 64-bit number); got {value!r}."
            )

    return check


def semivalue(name: str, value: Any) -> None:
    """Check a name, or a tuple of ("beta", a, b) or ("sizes", low, high)."""
    match value:
        case ["beta", a, b] if all(is_real(x) and 1e-100 <= x <= 1e100 for x in (a, b)):
            return
        case ["sizes", low, high] if (
            is_whole(low) and low >= 0 and (high is None or (is_whole(high) and high >= low))
        ):
            return
    if isinstance(value, tuple | list) or (isinstance(value, str) and value in ("beta", "sizes")):
        beta = '("beta", a, b) with positive numbers (1e-100 to 1e100)'
        sizes = '("sizes", low, high) with whole numbers, 0 <= low <= high or None'
        raise ValueError(f"{name} must be {beta} or {sizes}; got {value!r}.")
    one_of("shapley", "banzhaf", "loo", "composite")(name, value)


def search(name: str, value: Any) -> None:
    """Check a name, or an object that searches."""
    if callable(getattr(value, "fit", None)) and callable(getattr(value, "search", None)):
        return
    is_name = condition(
        lambda v: isinstance(v, str), "a name or an object with fit(X) and search(Q, k)"
    )
    is_name(name, value)
    one_of("exact", "lsh", "faiss", "auto")(name, value)


def _is_share(value: Any) -> bool:
    return is_real(value) and 0 < value < 1


def _is_positive_or_none(value: Any) -> bool:
    return value is None or (is_real(value) and value > 0)


def _is_seed(value: Any) -> bool:
    """What scikit-learn accepts as random_state, and generators."""
    if isinstance(value, np.random.RandomState | np.random.Generator | None):
        return True
    return is_whole(value) and 0 <= value < 2**32


def _is_thread_count(value: Any) -> bool:
    return value is None or (is_whole(value) and value != 0)


def _is_privacy(value: Any) -> bool:
    """None, or epsilon and delta in their ranges."""
    if value is None:
        return True
    if not isinstance(value, tuple) or len(value) != 2 or not all(map(is_real, value)):
        return False
    epsilon, delta = value
    return bool(0 < epsilon <= 20 and 0 < delta < 1)


def _is_vote_weighting(value: Any) -> bool:
    return value is None or callable(value) or (isinstance(value, str) and value == "inverse")


share = condition(_is_share, "a number between 0 and 1, such as 0.95", ValueError)
positive_or_none = condition(_is_positive_or_none, "a positive number or None", ValueError)
seed = condition(
    _is_seed, "a whole number from 0 to 2**32 - 1, a numpy generator or None", ValueError
)

PARAMETERS: dict[str, Check] = {
    "n_neighbors": whole_number(1),
    "task": one_of("classification", "regression"),
    "utility": one_of("soft", "original"),
    "semivalue": semivalue,
    # Names of metrics are checked in `neighbors`, where they are known.
    "metric": condition(
        lambda v: isinstance(v, str) or callable(v),
        "the name of a metric or a function of two points",
    ),
    "metric_params": condition(
        lambda v: isinstance(v, Mapping | None),
        "a dict of keyword arguments for the metric, or None",
    ),
    "search": search,
    "n_candidates": whole_number(1, or_none=True),
    "max_error": positive_or_none,
    "tail": one_of("local", "minimax", "mean", "paper"),
    "n_classes": whole_number(1, or_none=True),
    "ties": one_of("average", "index"),
    "aggregate": one_of("mean", "sum"),
    "standard_errors": condition(lambda v: isinstance(v, bool | np.bool_), "True or False"),
    "max_memory": lambda name, value: value is None or parse_bytes(name, value),
    "n_jobs": condition(_is_thread_count, "a number of threads, -1 or None for all usable cores"),
    "random_state": seed,
    "radius": positive_or_none,
    "privacy": condition(
        _is_privacy,
        "None or (epsilon, delta), epsilon above 0 and at most 20, delta between 0 and 1",
        ValueError,
    ),
    "weights": condition(
        _is_vote_weighting, 'a function of an array of distances, "inverse" or None'
    ),
    "progress": condition(
        lambda v: isinstance(v, bool | None) or callable(v),
        "True, False, None or a function of (done, total)",
    ),
}
