"""Sums over validation points that come out bit for bit the same however the work was cut up.

Validation points are numbered; every CHUNK consecutive ones form a `Leaf`, summed in their order.
What a finished leaf holds are its `Moments`, and these are added pairwise along a fixed binary
tree: a node holds 2^level leaves, the first of which has a multiple of 2^level as its number, and
is always left child plus right child. A `Partial` keeps the largest complete nodes it has, so the
work done in order needs memory for log2(leaves) nodes, and partials may be merged in any order and
grouping. The last leaf may be short: it stays apart, as running sums, so that further points can be
added to it. The `Origin` of a Partial says which data and parameters it belongs to, and so whether
two may be merged.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from fractions import Fraction
from functools import reduce
from types import CodeType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearworth._common.files import Arrays, check_arrays, read_archive, write_archive
from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth.inputs.features import fingerprint

CHUNK = 64  # validation points of a leaf
OF_MOMENTS = ("total", "centre", "spread", "ends")
WITH_SPREAD = ("total", "shift", "first", "second")  # in the order that the kernels take them
N_ROWS = {"ends": 2, "sums": 3, "near": 3, "far": 3}  # the others are vectors

# stands for the fingerprint of validation points that are the training points themselves
SELF = "self"
WORDS = {
    "training": "the training data",
    "validation": "the validation data",
    "weights": "the weights",
}


@dataclass(frozen=True)
class Moments:
    """What a set of validation points contributes: counts, weights, sum of w phi and the spread of
    phi.

    `positive` counts the points of positive weight; the others take no part in anything but
    `count`. `centre` is the mean of phi under the weights w^2, `spread` the sum of w^2 (phi -
    centre)^2; both None when no standard errors are wanted. Centred sums cannot cancel. `ends` (2,
    N) are sums of w times the lower and upper end of phi, None where phi is exact or all are off by
    no more than one number: then `error` is the sum of w times that number.
    """

    count: int
    positive: int
    weight: float
    weight_squares: float
    error: float = 0.0
    _: KW_ONLY
    total: FloatVector
    centre: FloatVector | None = None
    spread: FloatVector | None = None
    ends: FloatMatrix | None = None

    def __add__(self, other: Moments) -> Moments:
        numbers = [mine + theirs for mine, theirs in zip(self.numbers, other.numbers, strict=True)]
        sums: dict[str, Any] = {"total": self.total + other.total}
        if self.centre is not None and other.centre is not None:
            squares = self.weight_squares + other.weight_squares
            share = other.weight_squares / squares if squares > 0 else 0.0
            away = other.centre - self.centre
            sums["centre"] = self.centre + share * away
            sums["spread"] = self.spread + other.spread + (share * self.weight_squares) * away**2  # type: ignore[operator]
        if self.ends is not None or other.ends is not None:
            both = (
                np.stack([each.total] * 2) if each.ends is None else each.ends
                for each in (self, other)
            )
            sums["ends"] = np.add(*both)
        return Moments(*numbers, **sums)

    def with_ends(self) -> Moments:
        """The same with both ends of each sum, where one error of all of them is known."""
        if not self.error:
            return self
        return replace(
            self, ends=np.stack([self.total - self.error, self.total + self.error]), error=0.0
        )

    def take(self, rows: IntVector) -> Moments:
        """The moments of other training points, one for each row named."""
        taken: dict[str, Any] = {name: array[..., rows] for name, array in self.arrays.items()}
        return replace(self, **taken)

    def standard_errors(self) -> FloatVector | None:
        """Standard error of the weighted mean of phi over the validation points; NaN for a
        single one.
        """
        if self.centre is None or self.spread is None:
            return None
        if self.positive < 2:
            return np.full(self.total.shape, np.nan)
        squares = (
            np.maximum(self.spread, 0.0)
            + self.weight_squares * (self.centre - self.total / self.weight) ** 2
        )
        return np.asarray(np.sqrt(self.positive / (self.positive - 1) * squares) / self.weight)

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Those that are not None, by name."""
        named = {name: getattr(self, name) for name in OF_MOMENTS}
        return {name: array for name, array in named.items() if array is not None}

    @property
    def numbers(self) -> list[Any]:
        return [self.count, self.positive, self.weight, self.weight_squares, self.error]


class Leaf:
    """Sums over consecutive validation points, added in their order; unfinished, it can be
    continued later.

    `numbers` are those of Moments. `arrays` has the sum `total`; for standard errors sums around
    the first value of each training point (`shift`), so that they do not cancel; of truncated
    values and their ends `sums` (3, N), and what it takes to go on: `near` and `far`.
    """

    def __init__(self, n_train: int, *, spread: bool) -> None:
        self.numbers: list[Any] = [0, 0, 0.0, 0.0, 0.0]
        names = WITH_SPREAD if spread else ("total",)
        self.arrays: dict[str, npt.NDArray[Any]] = {name: np.zeros(n_train) for name in names}

    @staticmethod
    def bytes(n_train: int, *, spread: bool, with_ends: bool) -> int:
        """What a leaf, or its moments, takes for so many training points: sums, their spread, both
        ends.
        """
        return 8 * n_train * ((4 if spread else 1) + (2 if with_ends else 0))

    @property
    def total(self) -> FloatVector:
        return self.arrays["total"]

    @contextmanager
    def reordered(self, order: npt.NDArray[Any], positions: npt.NDArray[Any]) -> Iterator[Leaf]:
        """The same leaf with training points in another order for a while: order[i] is the point at
        position i.
        """
        names = [name for name in WITH_SPREAD if name in self.arrays]
        if self.numbers[0]:  # else they are zeros
            self.arrays |= {name: self.arrays[name][order] for name in names}
        yield self
        self.arrays |= {name: self.arrays[name].take(positions) for name in names}

    def add_values(self, values: FloatVector, weight: float) -> None:
        """Add one validation point, given the value phi of each training point."""
        fresh = self.numbers[1] == 0
        self.count(np.array([weight]))
        if "shift" not in self.arrays:
            self.total[:] += weight * values
            return
        # To the total goes w phi; to the spread w^2 (phi - shift) and its square, where the first
        # point sets the shift.
        total, shift, first, second = (self.arrays[name] for name in WITH_SPREAD)
        if fresh:
            shift[:] = values
        away = values - shift
        total += weight * values
        first += (some := weight * weight * away)
        second += np.multiply(some, away, out=some)

    def widen(self, error: float) -> None:
        self.numbers[4] += error

    def count(self, weights: FloatVector, errors: FloatVector | None = None) -> None:
        """Count validation points whose values are summed elsewhere, with the errors of their
        values.
        """
        count, positive, total, squares, error = self.numbers
        for weight in weights.tolist():  # one after the other, in any batch
            count += 1
            positive += weight > 0
            total += weight
            squares += weight * weight
        self.numbers = [count, positive, total, squares, error]
        for error in () if errors is None else (weights * errors).tolist():
            self.widen(error)

    def moments(self) -> Moments:
        arrays, squares = self.arrays, self.numbers[3]
        sums: dict[str, Any] = {"total": arrays["total"]}
        if "shift" in arrays:
            mean = arrays["first"] / squares if squares > 0 else arrays["first"]
            sums["centre"] = arrays["shift"] + mean
            sums["spread"] = np.maximum(arrays["second"] - mean * arrays["first"], 0.0)
        if "sums" in arrays:
            sums |= {"total": arrays["sums"][0], "ends": arrays["sums"][1:]}
        return Moments(*self.numbers, **sums)


class ValidationSet(NamedTuple):
    """Validation points that came in together: number of the first among all, how many, hash of the
    data.
    """

    start: int
    n_points: int
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Which data and parameters sums belong to. Fields that are empty are not known.

    `ranked` is how many neighbours were ranked (None for all), `search` what a searcher must be to
    find the same again, and `weights` the fingerprint of weights that are not part of a validation
    set.
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
                found.append(WORDS.get(name, f"{name}: {mine!r} and {theirs!r}"))
        return found

    def shares_validation(self, other: Origin) -> bool:
        mine, theirs = (
            {each.fingerprint for each in origin.validation} for origin in (self, other)
        )
        return not mine.isdisjoint(theirs)

    def merge(self, others: Sequence[Origin]) -> Origin:
        """The origin of the whole that these are parts of; a ValueError if they are not."""
        for other in others:
            if different := self.differences(other, PARTS):
                raise ValueError(
                    f"These parts do not belong together; they differ in {'; '.join(different)}."
                )
        sets = {each.start: each for origin in (self, *others) for each in origin.validation}
        return replace(self, validation=tuple(sets[start] for start in sorted(sets)))

    def followed_by(self, other: Origin) -> Origin:
        """The origin of the sum of two: the validation points of the other come after these."""
        if different := self.differences(other, GAME):
            raise ValueError(
                f"These valuations cannot be combined; they differ in {'; '.join(different)}."
            )
        if self.shares_validation(other):
            raise ValueError(
                "These valuations share a validation set, whose points would count twice."
            )
        later = (each._replace(start=each.start + self.n_val) for each in other.validation)
        both = self.standard_errors and other.standard_errors
        return replace(self, validation=(*self.validation, *later), standard_errors=both)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, known: Mapping[str, Any]) -> Origin:
        return cls(
            **{**known, "validation": tuple(ValidationSet(*each) for each in known["validation"])}
        )


# What must agree: between valuations to be added, parts to be merged, a checkpoint and the run that
# takes it up.
GAME = ("parameters", "training")
PARTS = tuple(name for name in Origin.__dataclass_fields__ if name != "validation")
RUN = (*PARTS, "validation")


class Partial:
    """A part of the sum over validation points: add, merge, finish; save and load.

    `origin` says of which data and parameters. Parts of one origin merge in any order and grouping
    to the same bits; no validation point may be in two of them.
    """

    def __init__(self, origin: Origin | None = None) -> None:
        self.origin = origin or Origin()
        # By the number of the first leaf; how many leaves there are tells the level. The last may
        # be a short leaf.
        self._nodes: dict[int, Moments | Leaf] = {}
        self.notes: dict[
            str, npt.NDArray[Any]
        ] = {}  # about single validation points; saved, never merged

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
        self._add({number: leaf.moments() if leaf.numbers[0] == CHUNK else leaf})

    def reopened(self) -> tuple[Partial, Leaf | None]:
        """The same without the short leaf at its end, to add to, and that leaf; this one stays as
        it is.
        """
        part = Partial(self.origin)
        part._nodes = {
            first: sums for first, sums in self._nodes.items() if isinstance(sums, Moments)
        }
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
        """Save these arrays with the sums from now on, and fill them from those that were saved
        before.
        """
        for name, note in notes.items():
            note[...] = self.notes.get(name, note)
            self.notes[name] = note

    def finish(self) -> Moments:
        """The sum over everything added, left to right."""
        whole = Partial()
        for first, sums in self._nodes.items():
            whole._insert(first, sums.moments() if isinstance(sums, Leaf) else sums)
        ordered: Any = (sums for _, sums in sorted(whole._nodes.items()))
        return reduce(operator.add, ordered).with_ends()  # type: ignore[no-any-return]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a numpy archive with checksums, atomically; damaged numbers are found by `load`."""
        nodes = sorted(self._nodes.items())
        description = {
            "origin": self.origin.to_json(),
            "sums": [[first, sums.numbers] for first, sums in nodes],
        }
        arrays = {f"note-{name}": note for name, note in self.notes.items()}
        for first, sums in nodes:
            arrays |= {f"{first}-{name}": array for name, array in sums.arrays.items()}
        write_archive(path, "part", description, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Partial:
        """Read what `save` wrote; a damaged file is a ValueError."""
        return read_archive(path, "part", cls._from_archive)

    @classmethod
    def _from_archive(cls, description: dict[str, Any], arrays: Arrays) -> Partial:
        part = cls(Origin.from_json(description["origin"]))
        for first, numbers in description["sums"]:
            named, n_leaves = _named(f"{first}-", arrays), -(-numbers[0] // CHUNK)
            check_shapes(named)
            sums: Moments | Leaf
            if numbers[0] == CHUNK * n_leaves:
                sums = Moments(*numbers, **named)
            else:
                sums = Leaf(0, spread=False)
                sums.numbers, sums.arrays = (
                    numbers,
                    {name: array.copy() for name, array in named.items()},
                )
            is_node = n_leaves == 1 or (isinstance(sums, Moments) and n_leaves.bit_count() == 1)
            if not is_node or first not in range(0, 2**62, n_leaves):
                raise ValueError(
                    f"it has {numbers[0]} validation points from leaf {first} on, which are no"
                    " node."
                )
            part._add({first: sums})
        part.notes = _named("note-", arrays)
        return part

    def __repr__(self) -> str:
        ranges = ", ".join(f"{a:,} to {b - 1:,}" for a, b in self.ranges) or "none yet"
        return f"Partial: validation points {ranges}"

    def _add(self, nodes: Mapping[int, Moments | Leaf]) -> None:
        """Add nodes. No validation point may be in two of all, and only the last of all may end
        within a leaf.
        """
        end = 0
        for first, stop in sorted(
            [*_spans(self._nodes), *_spans(nodes)], key=lambda span: (span[0], -span[1])
        ):
            if first < end:
                raise ValueError(
                    f"Validation points {first} to {stop - 1} are in more than one part."
                )
            if end % CHUNK:
                rule = f"Every part but the last must hold a multiple of {CHUNK} points"
                raise ValueError(f"{rule}; one ends before {end}.")
            end = stop
        for first, sums in nodes.items():
            self._insert(first, sums)

    def _insert(self, first: int, sums: Moments | Leaf) -> None:
        """Add a node, as part of a larger one if its sibling is there."""
        size = _n_leaves(sums)
        sibling = self._nodes.get(first ^ size)
        if (
            isinstance(sums, Moments)
            and isinstance(sibling, Moments)
            and _n_leaves(sibling) == size
        ):
            del self._nodes[first ^ size]
            self._insert(first & ~size, sibling + sums if first & size else sums + sibling)
        else:
            self._nodes[first] = sums


def _n_leaves(sums: Moments | Leaf) -> int:
    return -(-int(sums.numbers[0]) // CHUNK)


def _spans(nodes: Mapping[int, Moments | Leaf]) -> list[tuple[int, int]]:
    """The first validation point of each node and one past its last."""
    return [(CHUNK * first, CHUNK * first + sums.numbers[0]) for first, sums in nodes.items()]


def _named(prefix: str, arrays: Arrays) -> dict[str, Any]:
    """The arrays whose names begin so, by the rest of their names."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def check_shapes(arrays: Arrays) -> None:
    """A ValueError for arrays that are not those of Moments or of a Leaf."""
    columns = dict.fromkeys(arrays, arrays["total"].size)
    if "far" in arrays:
        columns["far"] = arrays["far"].shape[-1]  # one per class
    check_arrays(
        arrays, {name: (N_ROWS[name], n) if name in N_ROWS else (n,) for name, n in columns.items()}
    )


def describe(value: Any) -> Any:
    """A parameter as JSON can hold it, the same in every process."""
    if callable(value):
        body = repr(value)
        if code := getattr(value, "__code__", None):
            constants = [repr(each) for each in code.co_consts if not isinstance(each, CodeType)]
            closure = [describe(cell.cell_contents) for cell in value.__closure__ or ()]
            body = fingerprint(code.co_code, code.co_names, constants, value.__defaults__, closure)[
                :8
            ]
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
