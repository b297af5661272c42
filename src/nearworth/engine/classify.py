"""Classification, query after query: which points are pivots, which keys, who settles doubts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._typing import FloatVector, IntVector
from nearworth.engine import kernels
from nearworth.games.classification import ClassificationGame
from nearworth.neighbors.products import RoughRow

Vector32 = npt.NDArray[np.int32]


class ClassifierRows:
    """Values of one query at a time, left as a table by place (see `kernels`). One per thread."""

    def __init__(self, game: ClassificationGame, codes: IntVector, members: Members, by_index: bool) -> None:
        self._codes = codes
        self._members = members
        self._by_index = by_index
        self._worth = np.concatenate([game.weights.worth[:1], game.weights.worth])
        self._loss = np.concatenate([[0.0], game.weights.loss])
        self._game = game
        self._no_norms = np.zeros(len(codes))
        self._scratch: kernels.Scratch | None = None

    @property
    def table(self) -> FloatVector:
        """Value of each place, after a call."""
        assert self._scratch is not None
        return self._scratch.table

    @property
    def place(self) -> Vector32:
        """Place of each point, after a call."""
        assert self._scratch is not None
        return self._scratch.place

    def exact(self, keys: FloatVector, label: int, left_out: int) -> None:
        """From keys that are exact distances: rough ones with nothing to fear, and their own judges."""
        largest = np.abs(keys).max(initial=0.0, where=np.isfinite(keys))
        hints = keys if 1e-200 < largest < 1e200 else np.ldexp(keys, -np.frexp(largest)[1])
        self.rough(RoughRow(hints, self._no_norms, 0.0, 0.0, 0.0, True), keys.__getitem__, label, left_out)

    def rough(self, row: RoughRow, distances_to: Any, label: int, left_out: int) -> int:
        """From rough distances; `distances_to(rows)` is asked where these leave doubts. Returns for how many points."""
        scratch, pivots, match, added = self._prepare(row.products, label, left_out)
        others, wanted, n_asked, marks = kernels.begin_row(
            row.products, row.norms, self._codes, label, pivots, match, left_out,
            row.reach, row.far_reach, row.border, scratch,
        )  # fmt: skip
        distances = distances_to(scratch.doubtful[:wanted])
        kernels.end_row(
            distances, others, n_asked, marks, len(pivots), match, left_out,
            self._by_index, self._worth, self._loss, *added, scratch,
        )  # fmt: skip
        return int(wanted)

    def _prepare(self, keys: npt.NDArray[Any], label: int, left_out: int) -> Any:
        if self._scratch is None:
            self._scratch = kernels.make_scratch(len(keys), self._members.most_pivots)
        pivots, match, n_matches = self._members.pivots(label, left_out)
        return self._scratch, pivots, match, self._game.added(n_matches)


class Members:
    """The points of each class; of a class with most of the points, all the others."""

    def __init__(self, codes: npt.NDArray[Any]) -> None:
        n_classes = int(codes.max()) + 1
        self._order = np.argsort(codes, kind="stable").astype(np.int32)
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(codes))])
        self._complement: dict[int, Vector32] = {
            code: np.flatnonzero(codes != code).astype(np.int32)
            for code in range(n_classes)
            if 2 * self._count(code) > len(codes)
        }
        self.most_pivots = max(len(self.pivots(code, -1)[0]) for code in range(n_classes))

    def pivots(self, label: int, left_out: int) -> tuple[Vector32, bool, int]:
        """The pivots of a label without the point left out, whether they match, and how many points do."""
        if label < 0:
            return self._order[:0], True, 0
        n_matches = self._count(label) - (left_out >= 0)
        if label in self._complement:
            return self._complement[label], False, n_matches
        members = self._order[self._starts[label] : self._starts[label + 1]]
        return (members if left_out < 0 else members[members != left_out]), True, n_matches

    def _count(self, code: int) -> int:
        return int(self._starts[code + 1] - self._starts[code])
