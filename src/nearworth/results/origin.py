"""Where sums came from: what must agree before two of them may be added, and what differs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from types import CodeType, MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from nearworth.inputs.features import fingerprint

SELF = "self"  # stands for the fingerprint of validation points that are the training points themselves
TYPES = {"version": str, "parameters": dict, "n_train": int, "training": str, "kernel": str}
WORDS = {"training": "the training data", "validation": "the validation data", "weights": "the weights"}


class ValidationSet(NamedTuple):
    """Validation points that came in together: number of the first among all, how many, hash of the data."""

    start: int
    n_points: int
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Which data and parameters sums belong to. Fields that are empty are not known.

    Fingerprints are compared and written, never taken apart: any object will do that equals and prints as its hash.
    `ranked` is how many neighbours were ranked (None for all), `search` what a searcher must be to find the same again,
    `weights` the fingerprint of weights that are not part of a validation set, and `kernel` the kind of processor.
    """

    version: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    n_train: int = 0
    n_classes: int | None = None
    training: str = ""
    validation: tuple[ValidationSet, ...] = ()
    standard_errors: bool = False
    ranked: int | None = None
    tail: str | None = None
    search: str | None = None
    weights: str | None = None
    kernel: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    @property
    def n_val(self) -> int:
        """Number of validation points."""
        return sum(each.n_points for each in self.validation)

    @property
    def is_leave_one_out(self) -> bool:
        """Whether the training points were valued on each other."""
        return any(each.fingerprint == SELF for each in self.validation)

    def differences(self, other: Origin, names: Sequence[str]) -> list[str]:
        """In which of these fields two origins differ, in words: see GAME, PARTS and RUN."""
        found = []
        for name in names:
            mine, theirs = getattr(self, name), getattr(other, name)
            if name == "parameters":
                keys = sorted(key for key in {*mine, *theirs} if mine.get(key) != theirs.get(key))
                found += [f"{key}: {mine.get(key)!r} and {theirs.get(key)!r}" for key in keys]
            elif mine != theirs:
                # Another version may have hashed the same data to another fingerprint.
                unsure = " (fingerprints of these versions cannot be compared)" if self.version != other.version else ""
                found.append(WORDS[name] + unsure if name in WORDS else f"{name}: {mine!r} and {theirs!r}")
        return found

    def shares_validation(self, other: Origin) -> bool:
        mine, theirs = ({each.fingerprint for each in origin.validation} for origin in (self, other))
        return not mine.isdisjoint(theirs)

    def merge(self, others: Sequence[Origin]) -> Origin:
        """The origin of the whole that these are parts of; a ValueError if they are not."""
        for other in others:
            if different := self.differences(other, PARTS):
                raise ValueError(f"These parts do not belong together; they differ in {'; '.join(different)}.")
        self.warn_of_kernels(others)
        sets = {each.start: each for origin in (self, *others) for each in origin.validation}
        ordered = tuple(sets[start] for start in sorted(sets))
        return replace(self, validation=ordered, kernel="; ".join(self._kernels(others)))

    def followed_by(self, other: Origin) -> Origin:
        """The origin of the sum of two: the validation points of the other come after these."""
        later = (each._replace(start=each.start + self.n_val) for each in other.validation)
        both = self.standard_errors and other.standard_errors
        return replace(self, validation=(*self.validation, *later), standard_errors=both)

    def warn_of_kernels(self, others: Sequence[Origin]) -> None:
        """Say that the last bits may differ where processors do."""
        kernels = self._kernels(others)
        if len(kernels) > 1:
            warnings.warn(
                f"Parts come from unlike processors ({'; '.join(kernels)}): the last bits may differ "
                "from those of a run on one of them.",
                stacklevel=4,
            )

    def _kernels(self, others: Sequence[Origin]) -> list[str]:
        return sorted({kind for origin in (self, *others) for kind in origin.kernel.split("; ") if kind})

    def to_json(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in (*RUN, "kernel")}
        return plain | {"parameters": dict(self.parameters), "validation": [[*each] for each in self.validation]}

    @classmethod
    def from_json(cls, known: Mapping[str, Any]) -> Origin:
        """What `to_json` gave; a ValueError if it cannot have been that."""
        sets = tuple(ValidationSet(*each) for each in known["validation"])
        wrong = [name for name, kind in TYPES.items() if not isinstance(known[name], kind)]
        if wrong or any([type(x) for x in each] != [int, int, str] for each in sets):
            raise ValueError(f"its origin has a wrong {wrong[0] if wrong else 'validation set'}.")
        return cls(**{**known, "validation": sets})

    def __reduce__(self) -> Any:
        return Origin.from_json, (self.to_json(),)


# What must agree: between valuations to be added, parts to be merged, a checkpoint and the run that takes it up.
GAME = ("parameters", "training")
PARTS = tuple(name for name in Origin.__dataclass_fields__ if name not in ("validation", "kernel"))
RUN = (*PARTS, "validation")


@cache
def kernel() -> str:
    """The kind of processor, as the BLAS sees it: other kinds round products differently."""
    from threadpoolctl import threadpool_info

    kinds = {
        f"{lib['internal_api']} {lib.get('architecture')}" for lib in threadpool_info() if lib["user_api"] == "blas"
    }
    return ", ".join(sorted(kinds))


def describe(value: Any) -> Any:
    """A parameter as JSON can hold it, the same in every process."""
    if callable(value):
        body = repr(value)
        if code := getattr(value, "__code__", None):
            closure = [describe(cell.cell_contents) for cell in value.__closure__ or ()]
            body = fingerprint(_contents(code), value.__defaults__, closure)[:8]
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}#{body}"
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, tuple | list):
        return [describe(item) for item in value]
    if isinstance(value, dict):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return fingerprint(value)
    return value.item() if isinstance(value, np.generic) else value


def _contents(code: CodeType) -> list[Any]:
    """What a function does, without the addresses that the repr of inner functions holds."""
    constants = [_contents(part) if isinstance(part, CodeType) else repr(part) for part in code.co_consts]
    return [code.co_code, code.co_names, constants]
