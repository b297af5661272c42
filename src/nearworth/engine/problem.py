"""A checked question, complete, and who answers it query by query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from nearworth._typing import FloatMatrix, FloatVector, IntVector, Ties
from nearworth.engine.classify import ClassifierRows, Members
from nearworth.engine.plan import Plan
from nearworth.games.classification import ClassificationGame
from nearworth.games.regression import RegressionGame
from nearworth.games.ties import TieBlocks
from nearworth.neighbors.keys import Keys
from nearworth.neighbors.products import Products
from nearworth.neighbors.ranking import rank

Places = tuple[FloatVector, npt.NDArray[np.int32]]  # value of training point i is table[place[i]]


@dataclass(frozen=True)
class Problem:
    """Validation points against training points.

    With `leave_out`, the validation points are the training points themselves and each takes no part in
    its own game.
    """

    keys: Keys
    game: ClassificationGame | RegressionGame
    labels: npt.NDArray[Any]
    queries: Any
    query_labels: npt.NDArray[Any]
    weights: FloatVector
    ties: Ties
    leave_out: bool = False

    @property
    def n_train(self) -> int:
        """Number of training points."""
        return len(self.labels)

    @property
    def n_val(self) -> int:
        """Number of validation points."""
        return len(self.query_labels)


class Evaluator(Protocol):
    """Values of queries one after the other; one evaluator per thread."""

    def places(self, start: int, stop: int) -> Iterator[Places]:
        """For each validation point start..stop-1, the values of all training points, as a table and places in it."""
        ...


class ClassificationEvaluator:
    """By pivots (see `kernels`): from a matrix product where there is one, else from exact keys."""

    def __init__(self, problem: Problem, members: Members, products: Products | None) -> None:
        assert isinstance(problem.game, ClassificationGame)
        self._problem = problem
        self._products = products
        self._rows = ClassifierRows(problem.game, problem.labels, members, problem.ties == "index")

    def places(self, start: int, stop: int) -> Iterator[Places]:
        """See Evaluator."""
        rows = self._rows
        for query, answer in zip(range(start, stop), self._answers(start, stop), strict=True):
            left_out = query if self._problem.leave_out else -1
            answer(int(self._problem.query_labels[query]), left_out)
            yield rows.table, rows.place

    def _answers(self, start: int, stop: int) -> Iterator[Any]:
        rows, queries = self._rows, self._problem.queries[start:stop]
        if self._products is None:
            for keys in self._problem.keys(queries):
                yield lambda label, left_out, keys=keys: rows.exact(keys, label, left_out)
            return
        points = np.ascontiguousarray(queries, dtype=np.float64)
        batch = self._products(points)
        for query, products, reach in zip(points, batch.products, batch.reach, strict=True):
            distances = self._products.distances_from(query)
            if self._products.keeps_its_promise(query, products):
                yield lambda label, left_out, p=products, r=reach, d=distances: rows.rough(
                    p, batch.norms, r, label, left_out, d
                )
            else:
                keys = self._problem.keys(query[None, :])[0]
                yield lambda label, left_out, keys=keys: rows.exact(keys, label, left_out)


class RegressionEvaluator:
    """By full ranks and the closed form, a batch at a time."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._identity = np.arange(problem.n_train, dtype=np.int32)

    def places(self, start: int, stop: int) -> Iterator[Places]:
        """See Evaluator."""
        for row in self._values(start, stop):
            yield row, self._identity

    def _values(self, start: int, stop: int) -> FloatMatrix:
        problem = self._problem
        left_out: IntVector | None = np.arange(start, stop) if problem.leave_out else None
        ranking = rank(problem.keys(problem.queries[start:stop]), problem.ties, left_out)
        ranked = problem.game.values(
            problem.labels[ranking.order], problem.query_labels[start:stop], TieBlocks(ranking.first)
        )
        values = np.zeros((stop - start, problem.n_train))
        np.put_along_axis(values, ranking.order, ranked, axis=1)
        return values


def make_evaluators(problem: Problem, plan: Plan) -> Callable[[], Evaluator]:
    """A maker of evaluators, one for each thread, and what they share."""
    if isinstance(problem.game, RegressionGame):
        return lambda: RegressionEvaluator(problem)
    members = Members(problem.labels)
    products = problem.keys.products() if plan.products else None  # type: ignore[attr-defined]
    return lambda: ClassificationEvaluator(problem, members, products)
