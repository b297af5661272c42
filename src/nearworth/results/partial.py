"""Sums over validation points that come out bit for bit the same however the work was cut up.

Validation points are numbered; every CHUNK consecutive ones form a leaf, summed in their order. Leaves are
added pairwise along a fixed binary tree: node (level, i) holds leaves i 2^level to (i+1) 2^level - 1 and is
always left child plus right child. A `Partial` keeps the largest complete nodes it has, so the work done in
order needs memory for log2(leaves) nodes, and partials may be merged in any order and grouping. The last leaf
may be short: it stays apart, as running sums, so that further points can be added to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy.typing as npt

from nearworth._common.archive import Arrays, read_archive, write_archive
from nearworth.results.moments import CHUNK, Leaf, Moments
from nearworth.results.origin import Origin

Node: TypeAlias = tuple[int, int]
LARGEST_LEVEL = 48  # of a file's nodes: more validation points than anything can hold


class Partial:
    """A part of the sum over validation points: add, merge, finish; save and load.

    `origin` says of which data and parameters. Parts of one origin merge in any order and grouping to the same bits;
    no validation point may be in two of them.
    """

    def __init__(self, origin: Origin | None = None) -> None:
        self.origin = origin or Origin()
        self._nodes: dict[Node, Moments] = {}
        self._open: tuple[int, Leaf] | None = None
        self.notes: dict[str, npt.NDArray[Any]] = {}  # about single validation points; kept, never merged

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The validation points that are in, as ranges: first and one past the last."""
        ranges = sorted((index << level, (index + 1) << level) for level, index in self._nodes)
        points = [(CHUNK * first, CHUNK * last) for first, last in ranges]
        if self._open is not None:
            points.append((CHUNK * self._open[0], CHUNK * self._open[0] + self._open[1].n_points))
        return _joined(points)

    @property
    def n_points(self) -> int:
        """How many validation points are in."""
        unfinished = 0 if self._open is None else self._open[1].n_points
        return sum(moments.count for moments in self._nodes.values()) + unfinished

    def __contains__(self, leaf: int) -> bool:
        return self._covered((0, leaf)) or (self._open is not None and self._open[0] == leaf)

    def add_leaf(self, number: int, leaf: Leaf) -> None:
        """Add a leaf, which is kept open if it is short; only the last one may be."""
        if number in self:
            raise ValueError(f"Validation points of leaf {number} were already added.")
        if leaf.n_points == CHUNK:
            self._insert((0, number), leaf.moments())
        else:
            self._keep_open(number, leaf)

    def unfinished(self) -> tuple[int, Leaf] | None:
        """The number of the last leaf and a copy of it, if it is short."""
        return None if self._open is None else (self._open[0], self._open[1].copy())

    def finished(self) -> Partial:
        """The same without the short leaf at its end, to add to; this one stays as it is."""
        part = Partial(self.origin)
        part._nodes = dict(self._nodes)
        return part

    def snapshot(self) -> Partial:
        """The same as it is now, while this one goes on."""
        part = self.finished()
        part._open = self._open
        part.notes = {name: note.copy() for name, note in self.notes.items()}
        return part

    def merge(self, others: Partial | Iterable[Partial]) -> Partial:
        """The part made of this one and others; no validation point may be in two of them."""
        parts = [self, *([others] if isinstance(others, Partial) else others)]
        merged = Partial(self.origin.merge([part.origin for part in parts[1:]]))
        for part in parts:
            merged.absorb(part)
        return merged

    def absorb(self, other: Partial) -> None:
        """Take in the sums of another part, whatever its origin."""
        mine, opened, self._nodes = self._nodes, self._open, {}
        try:
            self._insert_all([*mine.items(), *other._nodes.items()])
            if other._open is not None:
                self._keep_open(*other._open)
            elif self._open is not None:
                number, leaf = self._open
                self._open = None
                self._keep_open(number, leaf)
        except ValueError:
            self._nodes, self._open = mine, opened
            raise

    def finish(self) -> Moments:
        """The sum over everything added, left to right."""
        whole = self.finished()
        if self._open is not None:
            whole._insert((0, self._open[0]), self._open[1].moments())
        ordered = sorted(whole._nodes.items(), key=lambda item: item[0][1] << item[0][0])
        if not ordered:
            raise ValueError("This part has no validation points yet.")
        total = ordered[0][1]
        for _, moments in ordered[1:]:
            total = total + moments
        return total

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a numpy archive with a checksum, atomically; any damage is found by `load`."""
        arrays = {f"note-{name}": note for name, note in self.notes.items()}
        nodes = []
        for (level, index), moments in sorted(self._nodes.items()):
            numbers, sums = moments.state()
            nodes.append([level, index, numbers])
            arrays |= {f"{level}-{index}-{name}": array for name, array in sums.items()}
        opened = None
        if self._open is not None:
            numbers, sums = self._open[1].state()
            opened = [self._open[0], numbers]
            arrays |= {f"open-{name}": array for name, array in sums.items()}
        write_archive(path, "part", {"origin": self.origin.to_json(), "nodes": nodes, "open": opened}, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Partial:
        """Read what `save` wrote; a damaged file is a ValueError."""
        return read_archive(path, "part", cls._from_archive)

    @classmethod
    def _from_archive(cls, description: dict[str, Any], arrays: Arrays) -> Partial:
        part, nodes = cls(Origin.from_json(description["origin"])), []
        for level, index, numbers in description["nodes"]:
            if not (0 <= level <= LARGEST_LEVEL and 0 <= index <= 2**LARGEST_LEVEL):
                raise ValueError(f"it has a node {level}, {index}, which no number of validation points needs.")
            nodes.append(((level, index), Moments.of_state(numbers, _named(f"{level}-{index}-", arrays))))
            if nodes[-1][1].count != CHUNK << level:
                raise ValueError(f"its node {level}, {index} does not hold {CHUNK << level} validation points.")
        part._insert_all(nodes)
        if description["open"] is not None:
            number, numbers = description["open"]
            part._keep_open(number, Leaf.of_state(numbers, _named("open-", arrays)))
        sizes = {array.size for name, array in arrays.items() if name.endswith("-total")}
        if len(sizes | ({part.origin.n_train} - {0})) > 1:
            raise ValueError("its sums are of different numbers of training points.")
        part.notes = _named("note-", arrays)
        return part

    def __repr__(self) -> str:
        ranges = ", ".join(f"{a:,} to {b - 1:,}" for a, b in self.ranges) or "none yet"
        return f"Partial: validation points {ranges}"

    def _covered(self, node: Node) -> bool:
        level, index = node
        highest = max((lv for lv, _ in self._nodes), default=-1)
        return any((up, index >> (up - level)) in self._nodes for up in range(level, highest + 1))

    def _refuse_covered(self, node: Node) -> None:
        if self._covered(node):
            first, last = CHUNK * (node[1] << node[0]), CHUNK * ((node[1] + 1) << node[0])
            raise ValueError(f"Validation points {first} to {last - 1} are in more than one part.")

    def _keep_open(self, number: int, leaf: Leaf) -> None:
        first = CHUNK * number
        if self._covered((0, number)) or (self._open is not None and self._open[0] == number):
            raise ValueError(f"Validation points {first} to {first + leaf.n_points - 1} are in more than one part.")
        short = number if self._open is None else min(number, self._open[0])
        if self._open is not None or any((i + 1) << lv > number + 1 for lv, i in self._nodes):
            raise ValueError(
                f"A part ends within validation points {CHUNK * short} to {CHUNK * short + CHUNK - 1}, and others come "
                f"after it. Every part but the last must hold a multiple of {CHUNK} validation points."
            )
        self._open = (number, leaf)

    def _insert_all(self, nodes: Iterable[tuple[Node, Moments]]) -> None:
        for node, moments in sorted(nodes, key=lambda item: -item[0][0]):  # large ones first, to see one inside another
            self._refuse_covered(node)
            self._insert(node, moments)

    def _insert(self, node: Node, moments: Moments) -> None:
        level, index = node
        sibling = self._nodes.pop((level, index ^ 1), None)
        if sibling is None:
            self._nodes[node] = moments
        else:
            self._insert((level + 1, index // 2), sibling + moments if index & 1 else moments + sibling)


def _named(prefix: str, arrays: Arrays) -> dict[str, npt.NDArray[Any]]:
    """The arrays whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for first, last in ranges:
        if joined and joined[-1][1] == first:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined
