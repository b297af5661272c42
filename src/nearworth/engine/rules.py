"""Other games of rows than that of all rows by rank, and that one without compiled code.

Votes weighed by distance are not normalised: matches become real gains. Where some rows are always
there (see games/owner_game.py), a query needs the rows that are not beyond its K-th nearest owned
one. Where every row within a radius votes, rows beyond it are null players, and the n within are
those of the soft utility with K = N = n: counts decide, no rank. Where only near rows count, those
of large Euclidean sets come from one matrix product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nearworth._common import native
from nearworth._common.memory import Memory
from nearworth._common.types import BoolVector, FloatMatrix, FloatVector, IntVector, IntVector32
from nearworth.engine.classify import SharedTraining
from nearworth.engine.interruption import interruptible_batch
from nearworth.engine.problem import Problem
from nearworth.engine.run import Evaluator, Request
from nearworth.games.coefficients import Presence, classification_correction
from nearworth.games.owner_game import OwnedGame
from nearworth.inputs.features import fingerprint
from nearworth.neighbors.keys import EuclideanKeys, Keys, Vicinity
from nearworth.neighbors.quantised import MARGIN, TOP, Products, QuantisedKeys
from nearworth.neighbors.searchers import Neighbours
from nearworth.results.sums import Leaf

if TYPE_CHECKING:
    from nearworth.engine.plan import Plan

SOME = 2048  # owned rows that tell how far near ones are, about


class Rule:
    """A game for `Method`, which prints it, asks it for evaluators and sends it to workers."""

    n_values: int | None = None  # how many players there are; None: the training rows
    is_local: ClassVar[bool] = False  # whether there are `limits`
    is_exact: ClassVar[bool] = (
        True  # else values are unbiased estimates, and standard errors say how good
    )

    def identity(self) -> dict[str, Any]:
        """What must be equal where sums are combined, beside the parameters."""
        return {}

    def keys(self, problem: Problem) -> Keys:
        """The keys that decide in this game."""
        return problem.keys

    def values(
        self, problem: Problem, query: int, rows: IntVector, keys: FloatVector
    ) -> tuple[Any, FloatVector]:
        """Some players and their values; others have 0. From rows that count, not beyond the limit,
        and exact keys.
        """
        raise NotImplementedError

    def limits(self, problem: Problem, block: QuantisedKeys) -> tuple[IntVector32, IntVector32]:
        """For each query: rows with qkeys below the first surely count, with qkeys above the second
        they do not.

        Exact keys of the former are not computed, and are passed as 0. Qkeys that are not usable
        are all between.
        """
        raise NotImplementedError

    def evaluators(
        self, problem: Problem, plan: Plan, shared: SharedTraining | None
    ) -> Callable[[], Evaluator]:
        products, evaluator = (
            None,
            RadiusEvaluator if isinstance(self, RadiusRule) else RuleEvaluator,
        )
        keys = self.keys(problem)
        if (
            self.is_local
            and plan.products
            and isinstance(keys, EuclideanKeys)
            and native.available()
        ):
            is_shared = shared is not None and keys is problem.keys
            products = (shared.products if shared and is_shared else None) or keys.products(
                single=True
            )
        single = products is not None and plan.single and products.single_precision
        return lambda: evaluator(problem, plan.batch, self, products, single=single)

    def memory(self, n_train: int, *, by_product: bool) -> Memory:  # noqa: ARG002
        return Memory(per_thread=16 * 8 * n_train, per_query=(8 + 8) * n_train)


def check_rule(name: str, parameters: Mapping[str, Any], *absent: str) -> None:
    """Refuse what has no form in a game: regression, searchers, and parameters that must be
    absent.
    """
    if parameters["task"] == "regression":
        raise ValueError(
            f"{name} needs task='classification': no exact values are known for regression."
        )
    if parameters["search"] not in ("exact", "auto"):
        raise ValueError(f"{name} needs search='exact'; got {parameters['search']!r}.")
    for other in absent:
        if parameters[other] is not None:
            raise ValueError(f"{name} needs {other}=None; got {parameters[other]!r}.")


class RuleEvaluator:
    """Values by a rule; see Evaluator in run.py."""

    def __init__(
        self, problem: Problem, batch: int, rule: Rule, products: Products | None, *, single: bool
    ) -> None:
        self._problem, self._batch, self._rule, self._products, self._single = (
            problem,
            batch,
            rule,
            products,
            single,
        )
        self._keys = rule.keys(problem)
        self._every: Any = np.arange(problem.n_train, dtype=np.int32)
        self._rows, self._labels = np.empty_like(self._every), problem.labels.astype(np.int32)
        block = (0 if products is None else batch, problem.n_train)
        self._qkeys, self._marks = np.empty(block, dtype=np.int32), np.empty(block, dtype=np.uint8)

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        problem = self._problem
        for query, rows, keys in self._near(start, stop):
            there = ~np.isin(rows, problem.excluded(query))
            rows, keys = rows[there], keys[there]
            if request.nearest is not None:
                request.nearest.keep(query, rows, keys)
            players, values = self._rule.values(problem, query, rows, keys)
            if request.needs_every_value:
                every = np.zeros(self._rule.n_values or problem.n_train)
                every[players] = values
                request.add(leaf, query, float(problem.weights[query]), every)
            else:
                leaf.total[players] += problem.weights[query] * values
                leaf.count(problem.weights[query : query + 1])
            yield 1

    def _near(self, start: int, stop: int) -> Iterator[tuple[int, IntVector, FloatVector]]:
        """For each query the rows that may count, and their keys."""
        problem, every = self._problem, self._every
        if self._products is None:
            step = interruptible_batch(problem, self._batch)
            for a in range(start, stop, step):
                for query, keys in enumerate(
                    self._keys(problem.queries[a : min(a + step, stop)]), start=a
                ):
                    yield query, every, keys
            return
        assert isinstance(self._keys, EuclideanKeys)
        for first, block in self._blocks(start, stop):
            sure, possible = self._rule.limits(problem, block)
            for q, qkeys in enumerate(block.qkeys):
                rows = np.flatnonzero(qkeys <= possible[q])
                query, open_rows, keys = first + q, qkeys[rows] >= sure[q], np.zeros(len(rows))
                keys[open_rows] = self._keys.listed(
                    problem.queries[query : query + 1], rows[None, open_rows]
                )[0]
                yield query, rows, keys

    def _blocks(self, start: int, stop: int) -> Iterator[tuple[int, QuantisedKeys]]:
        """Blocks of qkeys, and the number of their first query."""
        assert self._products is not None
        for a in range(start, stop, self._batch):
            queries = np.ascontiguousarray(
                self._problem.queries[a : min(a + self._batch, stop)], dtype=np.float64
            )
            yield (
                a,
                self._products(queries, self._every, self._every, self._qkeys, single=self._single),
            )


class RadiusEvaluator(RuleEvaluator):
    """Sums within a radius, a block of queries at a time: marks and counts, then what a marked row
    is worth.
    """

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        if self._products is None or request.needs_every_value or request.nearest is not None:
            yield from super().add(leaf, start, stop, request)
            return
        for first, block in self._blocks(start, stop):
            end = first + len(block.qkeys)
            for a, b, excluded in self._problem.runs(first, end):
                self._add_votes(
                    leaf, block.some(a - first, b - first), slice(a, b), excluded.astype(np.int32)
                )
            yield end - first

    def _add_votes(self, leaf: Leaf, block: QuantisedKeys, part: slice, excluded: Any) -> None:
        problem, rule = self._problem, self._rule
        assert isinstance(rule, RadiusRule)
        of_query = np.ascontiguousarray(problem.query_labels[part], dtype=np.int32)
        marks, counts = self._marks[: len(of_query)], np.empty((len(of_query), 2), dtype=np.int64)
        native.call(
            "mark_votes",
            block.qkeys,
            *rule.limits(problem, block),
            excluded,
            self._labels,
            of_query,
            *block.source,
            rule.vicinity(problem).largest,
            self._rows,
            np.empty(problem.n_train),
            marks,
            counts,
        )
        worth = np.array(
            [rule.worth(problem, part.start + q, *both) for q, both in enumerate(counts.tolist())]
        )
        native.call("add_votes", marks, worth * problem.weights[part, None], leaf.total)
        leaf.count(problem.weights[part])


def by_rank(
    problem: Problem, rows: IntVector, keys: FloatVector
) -> tuple[IntVector, FloatMatrix, BoolVector]:
    """Rows by rank, their keys, and where blocks of ties begin."""
    order = np.argsort(keys, kind="stable")
    ranked = Neighbours(rows[None, order], keys[None, order])
    return ranked.rows[0], ranked.keys, ranked.starts(problem.ties)


@dataclass(frozen=True, eq=False)
class OwnedRule(Rule):
    """The rows that are always there, as a mask of the training rows; the others are the
    players.
    """

    owned: BoolVector
    game: OwnedGame

    @classmethod
    def of(cls, owned: Any, problem: Problem) -> OwnedRule:
        mask, parameters = np.asarray(owned), problem.parameters
        if mask.dtype != bool or mask.shape != (problem.n_train,):
            raise ValueError(
                f"owned must be a mask, True or False for each of the {problem.n_train} training"
                " rows."
            )
        if mask.all():
            raise ValueError(
                "owned: all training rows are owned, so that no candidate is left to value."
            )
        check_rule("owned", parameters, "n_candidates", "max_error", "radius", "weights")
        problem.training.game(
            parameters, int((~mask).sum())
        )  # refuses coalitions larger than all candidates
        if problem.leave_one_out or problem.groups is not None:
            raise ValueError("owned needs X_val and y_val, and no groups.")
        n_classes = problem.training.n_classes(parameters["n_classes"])
        about = {name: parameters[name] for name in ("n_neighbors", "utility", "semivalue")}
        return cls(
            mask, OwnedGame(int((~mask).sum()), int(mask.sum()), n_classes=n_classes, **about)
        )

    def identity(self) -> dict[str, Any]:
        return {"owned": fingerprint(self.owned)}

    def __str__(self) -> str:
        count = int(self.owned.sum())
        return (
            f"{len(self.owned) - count:,} candidates given {count:,} owned rows: the K nearest of"
            " these decide"
        )

    @cached_property
    def is_local(self) -> bool:  # type: ignore[override]
        return int(self.owned.sum()) >= self.game.n_neighbors

    def values(
        self, problem: Problem, query: int, rows: IntVector, keys: FloatVector
    ) -> tuple[Any, FloatVector]:
        label = problem.query_labels[query]
        if self.is_local:
            k = self.game.n_neighbors - 1
            near = keys <= np.partition(keys[self.owned[rows]], k)[k]
            rows, keys = rows[near], keys[near]
        ranked, _, first = by_rank(problem, rows, keys)
        matches = problem.labels[ranked] == label
        values = self.game.values(self.owned[ranked], matches.astype(np.float64), first[0])
        if not self.is_local:  # any candidate may be in a small coalition, however far it is
            candidates = ~self.owned[ranked]
            added = self.game.added(
                int((matches & candidates).sum()), int((matches & ~candidates).sum())
            )
            values[candidates] += np.where(matches[candidates], *added)
        return ranked, values

    def limits(self, problem: Problem, block: QuantisedKeys) -> tuple[IntVector32, IntVector32]:  # noqa: ARG002
        k = self.game.n_neighbors - 1
        near = np.partition(block.qkeys[:, self._some_owned], k)[:, k] + block.tolerance
        return np.zeros_like(near), np.where(block.usable, near, TOP)

    @cached_property
    def _some_owned(self) -> IntVector:
        """A sample: its K-th nearest is at least as far as the K-th nearest of all, so it serves as
        a bound.
        """
        rows = np.flatnonzero(self.owned)
        return rows[:: max(1, len(rows) // max(SOME, self.game.n_neighbors))]


@dataclass(frozen=True)
class RadiusRule(Rule):
    """Every row within the radius votes. With `noise`, both counts of a query have normal noise of
    that deviation.
    """

    radius: float
    noise: float = 0.0
    seed: int = 0
    is_local: ClassVar[bool] = True

    def identity(self) -> dict[str, Any]:
        return {"noise": self.noise} if self.noise else {}

    def __str__(self) -> str:
        private = (
            f"; normal noise with a deviation of {self.noise:.4g} on both counts of each query"
        )
        return f"every row within {self.radius:g} votes; no ranks{private * bool(self.noise)}"

    def vicinity(self, problem: Problem) -> Vicinity:
        """What is within the radius. A row's own key decides, which no other training row
        changes.
        """
        return problem.keys.within(self.radius)

    def keys(self, problem: Problem) -> Keys:
        return self.vicinity(problem).keys

    def values(
        self, problem: Problem, query: int, rows: IntVector, keys: FloatVector
    ) -> tuple[Any, FloatVector]:
        rows = rows[keys <= self.vicinity(problem).largest]
        matches = problem.labels[rows] == problem.query_labels[query]
        return rows, np.where(matches, *self.worth(problem, query, len(rows), int(matches.sum())))

    def worth(
        self, problem: Problem, query: int, n_votes: float, n_matches: float
    ) -> tuple[float, float]:
        """Values of a match and of another row, if so many rows vote and so many of them match."""
        if self.noise:
            noise = self.noise * query_generator(self.seed, problem, query).normal(size=2)
            n_votes, n_matches = n_votes + float(noise[0]), round(n_matches + float(noise[1]))
        n, presence = max(1, round(n_votes)), Presence.of(problem.parameters["semivalue"])
        added = classification_correction(presence, n, n)
        empty = added.empty / problem.training.n_classes(problem.parameters["n_classes"])
        # What a row knows of the others is how many of them match.
        of_match, of_other = (
            added.other * min(max(n_matches - own, 0.0), n - 1.0) - empty for own in (1, 0)
        )
        return of_match + (added.own + presence.mass / n), of_other

    def limits(self, problem: Problem, block: QuantisedKeys) -> tuple[IntVector32, IntVector32]:
        assert block.scale is not None
        square = (
            self.radius
            if problem.parameters["metric"] == "sqeuclidean"
            else self.radius * self.radius
        )
        edge = np.minimum(MARGIN + square * block.scale, 2 * TOP)
        tolerance = np.where(block.usable, block.tolerance, np.inf)
        low, high = np.ceil(edge - tolerance - 1.0), np.floor(edge + tolerance)
        return np.clip(low, 0, TOP).astype(np.int32), np.clip(high, 0, TOP).astype(np.int32)


def privacy_noise(privacy: tuple[float, float], n_val: int) -> float:
    """Deviation of the noise on counts that makes a run (epsilon, delta)-private towards any one
    other row.
    """
    try:
        from dp_accounting import GaussianDpEvent, calibrate_dp_mechanism
        from dp_accounting.pld import PLDAccountant
    except ImportError as error:
        raise ImportError(
            "privacy needs dp-accounting: pip install 'nearworth[privacy]'."
        ) from error
    # Such a row changes both counts of every validation point by one at most, all together by
    # sqrt(2 n_val).
    return float(calibrate_dp_mechanism(PLDAccountant, GaussianDpEvent, *privacy)) * float(
        np.sqrt(2 * n_val)
    )


def query_generator(seed: int, problem: Problem, query: int) -> np.random.Generator:
    """Of a validation point, by its position in the whole run and its content, whatever part of the
    run values it.

    Equal points at two positions need numbers of their own, because the standard error takes them
    for independent. Different points at one position need them too: equal noise in two runs would
    cancel in their difference.
    """
    point = problem.queries[query : query + 1]
    content = np.ascontiguousarray(
        point.toarray() if hasattr(point, "toarray") else point, dtype=np.float64
    )
    label = str(problem.query_labels[query]).encode()
    digest = blake2b(content.tobytes() + label).digest()
    return np.random.default_rng([seed, problem.position(query), int.from_bytes(digest, "little")])
