"""Sums over validation points that come out bit for bit the same however the work was cut up.

Validation points are numbered; every CHUNK consecutive ones form a `Leaf`, summed in their order. What a finished leaf
holds are its `Moments`, and these are added pairwise along a fixed binary tree: node (level, i) holds leaves i 2^level
to (i+1) 2^level - 1 and is always left child plus right child. A `Partial` keeps the largest complete nodes it has, so
the work done in order needs memory for log2(leaves) nodes, and partials may be merged in any order and grouping. The
last leaf may be short: it stays apart, as running sums, so that further points can be added to it. The `Origin` of a
Partial says which data and parameters it belongs to, and so whether two may be merged.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import reduce
from types import CodeType, MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from nearworth._common.files import Arrays, check_arrays, read_archive, write_archive
from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth.inputs.features import fingerprint

CHUNK = 64  # validation points of a leaf
LARGEST_LEVEL = 48  # of a file's nodes: more validation points than anything can hold
# Arrays of sums by name; of each group all are there or none.
OF_MOMENTS = (("total",), ("centre", "spread"), ("ends",), ("error",))
OF_LEAF = (("total",), ("shift", "first", "second"), ("sums", "near", "far"), ("error",))
WITH_SPREAD = ("total", "shift", "first", "second")  # in the order that the kernels take them
N_ROWS = {"ends": 2, "sums": 3, "near": 3, "far": 3}  # the others are vectors

SELF = "self"  # stands for the fingerprint of validation points that are the training points themselves
TYPES = {"version": str, "parameters": dict, "n_train": int, "training": str}
WORDS = {"training": "the training data", "validation": "the validation data", "weights": "the weights"}

Node: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class Moments:
    """What a set of validation points contributes: counts, weights, sum of w phi and the spread of phi.

    `positive` counts the points of positive weight; the others take no part in anything but `count`. `centre` is the
    mean of phi under the weights w^2, `spread` the sum of w^2 (phi - centre)^2; both None when no standard errors are
    wanted. Centred sums cannot cancel. `ends` (2, N) are sums of w times the lower and upper end of phi, None where
    phi is exact or all are off by no more than one number: then `error` (1,) is the sum of w times that number.
    """

    count: int
    positive: int
    weight: float
    weight_squares: float
    _: KW_ONLY
    total: FloatVector
    centre: FloatVector | None = None
    spread: FloatVector | None = None
    ends: FloatMatrix | None = None
    error: FloatVector | None = None

    def __add__(self, other: Moments) -> Moments:
        numbers = [mine + theirs for mine, theirs in zip(self.numbers, other.numbers, strict=True)]
        sums: dict[str, Any] = {"total": self.total + other.total}
        if self.centre is not None and other.centre is not None:
            share = other.weight_squares / numbers[-1] if numbers[-1] > 0 else 0.0
            away = other.centre - self.centre
            sums["centre"] = self.centre + share * away
            sums["spread"] = self.spread + other.spread + (share * self.weight_squares) * away**2  # type: ignore[operator]
        if self.ends is not None or other.ends is not None:
            sums["ends"] = self._ends_or_values() + other._ends_or_values()
        elif errors := [each.error for each in (self, other) if each.error is not None]:
            sums["error"] = sum(errors[1:], errors[0])
        return Moments(*numbers, **sums)

    def _ends_or_values(self) -> FloatMatrix:
        error = 0.0 if self.error is None else self.error
        return np.stack([self.total - error, self.total + error]) if self.ends is None else self.ends

    def with_ends(self) -> Moments:
        """The same with both ends of each sum, where one error for all of them is known."""
        return self if self.error is None else replace(self, ends=self._ends_or_values(), error=None)

    def take(self, rows: IntVector) -> Moments:
        """The moments of other training points, one for each row named."""
        taken: dict[str, Any] = {name: array[..., rows] for name, array in self.arrays.items()}
        return replace(self, **taken)

    def standard_errors(self) -> FloatVector | None:
        """Standard error of the weighted mean of phi over the validation points; NaN for a single one."""
        if self.centre is None or self.spread is None:
            return None
        if self.positive < 2:
            return np.full(self.total.shape, np.nan)
        squares = np.maximum(self.spread, 0.0) + self.weight_squares * (self.centre - self.total / self.weight) ** 2
        return np.asarray(np.sqrt(self.positive / (self.positive - 1) * squares) / self.weight)

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Those that are not None, by name."""
        named = {name: getattr(self, name) for group in OF_MOMENTS for name in group}
        return {name: array for name, array in named.items() if array is not None}

    @property
    def numbers(self) -> list[Any]:
        return [self.count, self.positive, self.weight, self.weight_squares]

    @classmethod
    def of_state(cls, numbers: Sequence[Any], arrays: Mapping[str, Any]) -> Moments:
        _check_state(numbers, arrays, OF_MOMENTS)
        return cls(*numbers, **arrays)


class Leaf:
    """Sums over consecutive validation points, added in their order; unfinished, it can be continued later.

    `numbers` are those of Moments. `arrays` has the sum `total`; for standard errors sums around the first value of
    each training point (`shift`), so that they do not cancel; of truncated values and their ends `sums` (3, N), and
    what it takes to go on: `near` and `far`; and `error` (1,), the sum of w times a certified error of all values.
    """

    def __init__(self, n_train: int, *, spread: bool) -> None:
        self.numbers: list[Any] = [0, 0, 0.0, 0.0]
        names = WITH_SPREAD if spread else ("total",)
        self.arrays: dict[str, npt.NDArray[Any]] = {name: np.zeros(n_train) for name in names}

    @staticmethod
    def bytes(n_train: int, *, spread: bool, with_ends: bool) -> int:
        """What a leaf, or its moments, takes for so many training points: sums, their spread, both ends."""
        return 8 * n_train * ((4 if spread else 1) + (2 if with_ends else 0))

    @property
    def total(self) -> FloatVector:
        return self.arrays["total"]

    @property
    def n_points(self) -> int:
        return int(self.numbers[0])

    @contextmanager
    def reordered(self, order: npt.NDArray[Any] | None) -> Iterator[Leaf]:
        """The same leaf with training points in another order for a while: order[i] is the point at position i."""
        names = [] if order is None else [name for name in WITH_SPREAD if name in self.arrays]
        self.arrays |= {name: self.arrays[name][order] for name in names}
        yield self
        for name in names:
            sums = self.arrays[name]
            self.arrays[name] = np.empty_like(sums)
            self.arrays[name][order] = sums

    def add_values(self, values: FloatVector, weight: float) -> None:
        """Add one validation point, given the value phi of each training point.

        To the total goes w phi; to the spread w^2 (phi - shift) and its square, where the first point sets the shift.
        """
        fresh = self.numbers[1] == 0
        self._count(weight)
        if "shift" not in self.arrays:
            self.total[:] += weight * values
            return
        total, shift, first, second = (self.arrays[name] for name in WITH_SPREAD)
        if fresh:
            shift[:] = values
        away = values - shift
        total += weight * values
        first += (some := weight * weight * away)
        second += np.multiply(some, away, out=some)

    def count(self, weights: FloatVector, errors: FloatVector | None = None) -> None:
        """Count validation points whose values are summed elsewhere, with the errors of their values."""
        self._count(*weights.tolist())
        for error in () if errors is None else (weights * errors).tolist():
            self.widen(error)

    def widen(self, error: float) -> None:
        """Add to the error of all sums."""
        self.arrays["error"] = self.arrays.get("error", np.zeros(1)) + error

    def _count(self, *weights: float) -> None:
        count, positive, total, squares = self.numbers
        for weight in weights:  # one after the other, in any batch
            count += 1
            positive += weight > 0
            total += weight
            squares += weight * weight
        self.numbers = [count, positive, total, squares]

    def moments(self) -> Moments:
        arrays, squares = self.arrays, self.numbers[-1]
        sums: dict[str, Any] = {name: arrays[name] for name in ("total", "error") if name in arrays}
        if "shift" in arrays:
            mean = arrays["first"] / squares if squares > 0 else arrays["first"]
            sums["centre"] = arrays["shift"] + mean
            sums["spread"] = np.maximum(arrays["second"] - mean * arrays["first"], 0.0)
        if "sums" in arrays:
            sums |= {"total": arrays["sums"][0], "ends": arrays["sums"][1:]}
        return Moments(*self.numbers, **sums)

    @classmethod
    def of_state(cls, numbers: Sequence[Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Leaf:
        _check_state(numbers, arrays, OF_LEAF)
        leaf = cls(0, spread=False)
        leaf.numbers = list(numbers)
        leaf.arrays = {name: array.copy() for name, array in arrays.items()}  # those of a file are read-only
        return leaf


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
    and `weights` the fingerprint of weights that are not part of a validation set.
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
        sets = {each.start: each for origin in (self, *others) for each in origin.validation}
        return replace(self, validation=tuple(sets[start] for start in sorted(sets)))

    def followed_by(self, other: Origin) -> Origin:
        """The origin of the sum of two: the validation points of the other come after these."""
        later = (each._replace(start=each.start + self.n_val) for each in other.validation)
        both = self.standard_errors and other.standard_errors
        return replace(self, validation=(*self.validation, *later), standard_errors=both)

    def to_json(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in RUN}
        return plain | {"parameters": dict(self.parameters), "validation": [[*each] for each in self.validation]}

    @classmethod
    def from_json(cls, known: Mapping[str, Any]) -> Origin:
        """What `to_json` gave; a ValueError if it cannot have been that."""
        sets = tuple(ValidationSet(*each) for each in known["validation"])
        wrong = [name for name, kind in TYPES.items() if not isinstance(known[name], kind)]
        if wrong or any([type(x) for x in each] != [int, int, str] for each in sets):
            raise ValueError(f"its origin has a wrong {wrong[0] if wrong else 'validation set'}.")
        fields = {name: each for name, each in known.items() if name != "kernel"}  # which older files have
        return cls(**{**fields, "validation": sets})

    def __reduce__(self) -> Any:
        return Origin.from_json, (self.to_json(),)


# What must agree: between valuations to be added, parts to be merged, a checkpoint and the run that takes it up.
GAME = ("parameters", "training")
PARTS = tuple(name for name in Origin.__dataclass_fields__ if name != "validation")
RUN = (*PARTS, "validation")


class Partial:
    """A part of the sum over validation points: add, merge, finish; save and load.

    `origin` says of which data and parameters. Parts of one origin merge in any order and grouping to the same bits;
    no validation point may be in two of them.
    """

    def __init__(self, origin: Origin | None = None) -> None:
        self.origin = origin or Origin()
        self._nodes: dict[Node, Moments | Leaf] = {}  # the last may be a short leaf, at level 0
        self.notes: dict[str, npt.NDArray[Any]] = {}  # about single validation points; saved, never merged

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The validation points that are in, as ranges: first and one past the last."""
        joined: list[tuple[int, int]] = []
        for first, stop in sorted(_spans(self._nodes)):
            if joined and joined[-1][1] == first:
                first = joined.pop()[0]
            joined.append((first, stop))
        return joined

    @property
    def n_points(self) -> int:
        """How many validation points are in."""
        return sum(stop - first for first, stop in _spans(self._nodes))

    def add_leaf(self, number: int, leaf: Leaf) -> None:
        """Add a leaf, which stays open if it is short; only the last one may be."""
        self._add({(0, number): leaf.moments() if leaf.n_points == CHUNK else leaf})

    def reopened(self) -> tuple[Partial, Leaf | None]:
        """The same without the short leaf at its end, to add to, and that leaf; this one stays as it is."""
        part = Partial(self.origin)
        part._nodes = {node: sums for node, sums in self._nodes.items() if isinstance(sums, Moments)}
        return part, next((sums for sums in self._nodes.values() if isinstance(sums, Leaf)), None)

    def merge(self, others: Partial | Iterable[Partial]) -> Partial:
        """The part made of this one and others; no validation point may be in two of them."""
        parts = [self, *([others] if isinstance(others, Partial) else others)]
        merged = Partial(self.origin.merge([part.origin for part in parts[1:]]))
        for part in parts:
            merged.absorb(part)
        return merged

    def absorb(self, other: Partial) -> None:
        """Take in the sums of another part, whatever its origin."""
        self._add(other._nodes)

    def attach(self, notes: Mapping[str, Any]) -> None:
        """Save these arrays with the sums from now on, and fill them from those that were saved before."""
        for name, note in notes.items():
            note[...] = self.notes.get(name, note)
            self.notes[name] = note

    def finish(self) -> Moments:
        """The sum over everything added, left to right."""
        if not self._nodes:
            raise ValueError("This part has no validation points yet.")
        whole = Partial()
        for node, sums in self._nodes.items():
            whole._insert(node, sums.moments() if isinstance(sums, Leaf) else sums)
        ordered: Any = (whole._nodes[node] for node in sorted(whole._nodes, key=_first_point))
        return reduce(operator.add, ordered).with_ends()  # type: ignore[no-any-return]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a numpy archive with a checksum, atomically; any damage is found by `load`."""
        description: dict[str, Any] = {"origin": self.origin.to_json(), "nodes": [], "open": None}
        arrays = {f"note-{name}": note for name, note in self.notes.items()}
        for level, index in sorted(self._nodes):
            sums = self._nodes[level, index]
            if isinstance(sums, Leaf):
                prefix, description["open"] = "open", [index, sums.numbers]
            else:
                prefix = f"{level}-{index}"
                description["nodes"].append([level, index, sums.numbers])
            arrays |= {f"{prefix}-{name}": array for name, array in sums.arrays.items()}
        write_archive(path, "part", description, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Partial:
        """Read what `save` wrote; a damaged file is a ValueError."""
        return read_archive(path, "part", cls._from_archive)

    @classmethod
    def _from_archive(cls, description: dict[str, Any], arrays: Arrays) -> Partial:
        part = cls(Origin.from_json(description["origin"]))
        for level, index, numbers in description["nodes"]:
            if not (0 <= level <= LARGEST_LEVEL and 0 <= index <= 2**LARGEST_LEVEL):
                raise ValueError(f"it has a node {level}, {index}, which no number of validation points needs.")
            sums = Moments.of_state(numbers, _named(f"{level}-{index}-", arrays))
            if sums.count != CHUNK << level:
                raise ValueError(f"its node {level}, {index} does not hold {CHUNK << level} validation points.")
            part._add({(level, index): sums})
        if description["open"] is not None:
            index, numbers = description["open"]
            part._add({(0, index): Leaf.of_state(numbers, _named("open-", arrays))})
        sizes = {array.size for name, array in arrays.items() if name.endswith("-total")}
        if len(sizes | ({part.origin.n_train} - {0})) > 1:
            raise ValueError("its sums are of different numbers of training points.")
        part.notes = _named("note-", arrays)
        return part

    def __repr__(self) -> str:
        ranges = ", ".join(f"{a:,} to {b - 1:,}" for a, b in self.ranges) or "none yet"
        return f"Partial: validation points {ranges}"

    def _add(self, nodes: Mapping[Node, Moments | Leaf]) -> None:
        _check_spans([*_spans(self._nodes), *_spans(nodes)])
        for node, sums in nodes.items():
            self._insert(node, sums)

    def _insert(self, node: Node, sums: Moments | Leaf) -> None:
        level, index = node
        sibling = self._nodes.get((level, index ^ 1))
        if isinstance(sums, Moments) and isinstance(sibling, Moments):
            del self._nodes[level, index ^ 1]
            self._insert((level + 1, index // 2), sibling + sums if index & 1 else sums + sibling)
        else:
            self._nodes[node] = sums


def _first_point(node: Node) -> int:
    level, index = node
    return CHUNK * index << level


def _spans(nodes: Mapping[Node, Moments | Leaf]) -> list[tuple[int, int]]:
    """The first validation point of each node and one past its last."""
    firsts = ((_first_point(node), sums) for node, sums in nodes.items())
    return [(first, first + sums.numbers[0]) for first, sums in firsts]


def _check_spans(spans: Iterable[tuple[int, int]]) -> None:
    """No validation point may be in two spans, and only the last span may end within a leaf."""
    end = 0
    for first, stop in sorted(spans, key=lambda span: (span[0], -span[1])):
        if first < end:
            raise ValueError(f"Validation points {first} to {stop - 1} are in more than one part.")
        if end % CHUNK:
            short = end - end % CHUNK
            raise ValueError(
                f"A part ends within validation points {short} to {short + CHUNK - 1}, and others come "
                f"after it. Every part but the last must hold a multiple of {CHUNK} validation points."
            )
        end = stop


def _named(prefix: str, arrays: Arrays) -> dict[str, npt.NDArray[Any]]:
    """The arrays whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _check_state(numbers: Sequence[Any], arrays: Arrays, groups: Sequence[Sequence[str]]) -> None:
    """A ValueError for numbers and arrays that no Moments or Leaf can have."""
    count, positive, *weights = numbers
    if not (type(count) is type(positive) is int and 0 <= positive <= count):
        raise ValueError(f"it counts {count!r} validation points, {positive!r} of positive weight.")
    if len(weights) != 2 or not all(isinstance(x, int | float) and math.isfinite(x) and x >= 0 for x in weights):
        raise ValueError(f"its sums of weights are {weights!r}.")
    complete = {name for group in groups if set(group) <= arrays.keys() for name in group}
    if complete != arrays.keys() or "total" not in complete:
        raise ValueError(f"it has the sums {', '.join(arrays) or 'none'}, and others are missing.")
    columns = dict.fromkeys(arrays, arrays["total"].size)
    if "error" in arrays:
        columns["error"] = 1
    if "far" in arrays:
        columns["far"] = arrays["far"].shape[-1]  # one per class
    check_arrays(arrays, {name: (N_ROWS[name], n) if name in N_ROWS else (n,) for name, n in columns.items()})


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
