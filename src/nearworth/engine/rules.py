"""Other games of rows than that of all rows by rank.

Votes weighted by distance are not normalised: matches become real gains (`RankRule`, reference.py).
Where some rows are always there (games/owner_game.py), a query needs the rows that are not beyond
its K-th nearest owned one. Where every row within a radius votes, rows beyond it are null players,
and the n within are those of the soft utility with K = N = n: counts decide, no rank. Where only
near rows count, those of large Euclidean sets come from one matrix product.
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
from nearworth._common.types import (
    BoolVector,
    FloatMatrix,
    FloatVector,
    IntMatrix32,
    IntVector,
    IntVector32,
)
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

# A sample of about so many owned rows bounds how far the rows that count are.
N_SAMPLED_OWNED = 2048


class Rule:
    """A game for `Method`, which prints it, asks it for evaluators and sends it to workers.

    Attributes
    ----------
    n_values : int or None
        How many players there are. None: the training rows.
    is_local : bool
        Whether only near rows count, so that there are `limits`.
    is_exact : bool
        False: values are unbiased estimates, and standard errors include their error.
    """

    n_values: int | None = None
    is_local: ClassVar[bool] = False
    is_exact: ClassVar[bool] = True

    def identity(self) -> dict[str, Any]:
        """What must be equal where sums are combined, beside the parameters."""
        return {}

    def keys(self, problem: Problem) -> Keys:
        """The keys that decide in this game."""
        return problem.keys

    def values(
        self, problem: Problem, query: int, rows: IntVector, keys: FloatVector
    ) -> tuple[Any, FloatVector]:
        """Values of one query.

        Parameters
        ----------
        rows : array of shape (n,)
            The training rows that take part, not beyond the limit if the rule is local.
        keys : array of shape (n,)
            Their exact keys.

        Returns
        -------
        players : array of shape (m,) or slice
            All other players have the value 0.
        values : array of shape (m,)
        """
        raise NotImplementedError

    def limits(self, problem: Problem, block: QuantisedKeys) -> tuple[IntVector32, IntVector32]:
        """Which rows count for each query, as far as qkeys show it: two arrays of shape (Q,).

        Rows with qkeys below the first are sure to count: their exact keys are not computed, and
        are passed as 0. Rows with qkeys above the second do not count. Where qkeys are not usable,
        all rows are between both.
        """
        raise NotImplementedError

    def evaluators(
        self, problem: Problem, plan: Plan, shared: SharedTraining | None
    ) -> Callable[[], Evaluator]:
        """A function that makes an evaluator, which each thread calls once."""
        evaluator = RadiusEvaluator if isinstance(self, RadiusRule) else RuleEvaluator
        products = self._products(problem, plan, shared)
        single = products is not None and plan.single and products.single_precision
        return lambda: evaluator(problem, plan.batch, self, products, single=single)

    def _products(
        self, problem: Problem, plan: Plan, shared: SharedTraining | None
    ) -> Products | None:
        """What makes keys by matrix products, where these pay and only near rows count."""
        keys = self.keys(problem)
        if not (self.is_local and plan.products and native.available()):
            return None
        if not isinstance(keys, EuclideanKeys):
            return None
        if shared is not None and shared.products is not None and keys is problem.keys:
            return shared.products
        return keys.products(single=True)

    def memory(self, n_train: int, *, by_product: bool) -> Memory:  # noqa: ARG002
        """Bytes of one evaluator."""
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
    """Values by a rule, query by query; see Evaluator in run.py. One per thread."""

    def __init__(
        self, problem: Problem, batch: int, rule: Rule, products: Products | None, *, single: bool
    ) -> None:
        self._problem = problem
        self._batch = batch
        self._rule = rule
        self._products = products
        self._single = single
        self._keys = rule.keys(problem)
        self._all_rows: IntVector32 = np.arange(problem.n_train, dtype=np.int32)
        block_size = 0 if products is None else batch
        self._qkeys = np.empty((block_size, problem.n_train), dtype=np.int32)

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        problem = self._problem
        weights = problem.weights
        for query, near_rows, near_keys in self._near_rows(start, stop):
            takes_part = ~np.isin(near_rows, problem.excluded(query))
            rows = near_rows[takes_part]
            keys = near_keys[takes_part]
            if request.nearest is not None:
                request.nearest.keep(query, rows, keys)
            players, values = self._rule.values(problem, query, rows, keys)
            if request.needs_every_value:
                all_values = np.zeros(self._rule.n_values or problem.n_train)
                all_values[players] = values
                request.add(leaf, query, float(weights[query]), all_values)
            else:
                leaf.total[players] += weights[query] * values
                leaf.count(weights[query : query + 1])
            yield 1

    def _near_rows(self, start: int, stop: int) -> Iterator[tuple[int, IntVector, FloatVector]]:
        """Each query, the rows that may count for it, and their keys."""
        if self._products is None:
            yield from self._all_by_exact_keys(start, stop)
            return
        assert isinstance(self._keys, EuclideanKeys)
        for first, block in self._blocks(start, stop):
            sure, possible = self._rule.limits(self._problem, block)
            for q, qkeys in enumerate(block.qkeys):
                query = first + q
                rows = np.flatnonzero(qkeys <= possible[q])
                is_open = qkeys[rows] >= sure[q]
                point = self._problem.queries[query : query + 1]
                keys = np.zeros(len(rows))
                keys[is_open] = self._keys.listed(point, rows[None, is_open])[0]
                yield query, rows, keys

    def _all_by_exact_keys(
        self, start: int, stop: int
    ) -> Iterator[tuple[int, IntVector, FloatVector]]:
        """Each query, all rows, and their keys."""
        queries = self._problem.queries
        step = interruptible_batch(self._problem, self._batch)
        all_rows: Any = self._all_rows
        for first in range(start, stop, step):
            block_keys = self._keys(queries[first : min(first + step, stop)])
            for query, keys in enumerate(block_keys, start=first):
                yield query, all_rows, keys

    def _blocks(self, start: int, stop: int) -> Iterator[tuple[int, QuantisedKeys]]:
        """The number of the first query of each block, and the keys of the block."""
        assert self._products is not None
        for first in range(start, stop, self._batch):
            points = self._problem.queries[first : min(first + self._batch, stop)]
            queries = np.ascontiguousarray(points, dtype=np.float64)
            block = self._products(
                queries, self._all_rows, self._all_rows, self._qkeys, single=self._single
            )
            yield first, block


class RadiusEvaluator(RuleEvaluator):
    """Sums within a radius, a block of queries at a time: marks of the rows within it and their
    counts, then the values of marked rows.
    """

    def __init__(
        self, problem: Problem, batch: int, rule: Rule, products: Products | None, *, single: bool
    ) -> None:
        super().__init__(problem, batch, rule, products, single=single)
        self._labels = problem.labels.astype(np.int32)
        self._marks = np.empty(self._qkeys.shape, dtype=np.uint8)
        self._open_rows = np.empty_like(self._all_rows)

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        if self._products is None or request.needs_every_value or request.nearest is not None:
            yield from super().add(leaf, start, stop, request)
            return
        for first, block in self._blocks(start, stop):
            end = first + len(block.qkeys)
            for a, b, excluded in self._problem.runs(first, end):
                run = block.some(a - first, b - first)
                self._add_votes(leaf, run, slice(a, b), excluded.astype(np.int32))
            yield end - first

    def _add_votes(
        self, leaf: Leaf, block: QuantisedKeys, run: slice, excluded: IntMatrix32
    ) -> None:
        """Add a run of queries, each with as many `excluded` rows, shape (Q, n_excluded)."""
        problem, rule = self._problem, self._rule
        assert isinstance(rule, RadiusRule)
        query_labels = np.ascontiguousarray(problem.query_labels[run], dtype=np.int32)
        n_queries = len(query_labels)
        marks = self._marks[:n_queries]
        counts = np.empty((n_queries, 2), dtype=np.int64)
        sure, possible = rule.limits(problem, block)
        queries, points, given, ask = block.source
        native.call(
            "mark_votes",
            qkeys=block.qkeys,
            sure=sure,
            possible=possible,
            excluded=excluded,
            labels=self._labels,
            of_query=query_labels,
            queries=queries,
            points=points,
            given=given,
            ask=ask,
            largest=rule.vicinity(problem).largest,
            near=self._open_rows,
            exact=np.empty(problem.n_train),
            marks=marks,
            counts=counts,
        )
        worth = np.empty((n_queries, 2))
        for q, (n_votes, n_matches) in enumerate(counts.tolist()):
            worth[q] = rule.worth(problem, run.start + q, n_votes, n_matches)
        native.call("add_votes", marks, worth * problem.weights[run, None], leaf.total)
        leaf.count(problem.weights[run])


def by_rank(
    problem: Problem, rows: IntVector, keys: FloatVector
) -> tuple[IntVector, FloatMatrix, BoolVector]:
    """Rows by rank, shape (n,), their keys and where blocks of ties begin, shape (1, n)."""
    order = np.argsort(keys, kind="stable")
    ranked = Neighbours(rows[None, order], keys[None, order])
    return ranked.rows[0], ranked.keys, ranked.starts(problem.ties)


@dataclass(frozen=True, eq=False)
class OwnedRule(Rule):
    """Candidates given rows that are always there.

    Attributes
    ----------
    owned : array of shape (N,)
        Which training rows are always there. The others are the players.
    game : OwnedGame
    """

    owned: BoolVector
    game: OwnedGame

    @classmethod
    def of(cls, owned: Any, problem: Problem) -> OwnedRule:
        """The rule for a mask and a problem that are checked here."""
        parameters = problem.parameters
        mask = np.asarray(owned)
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
        n_owned = int(mask.sum())
        n_candidates = len(mask) - n_owned
        # This refuses coalitions larger than all candidates.
        problem.training.game(parameters, n_candidates)
        if problem.leave_one_out or problem.groups is not None:
            raise ValueError("owned needs X_val and y_val, and no groups.")
        game = OwnedGame(
            n_candidates,
            n_owned,
            n_classes=problem.training.n_classes(parameters["n_classes"]),
            n_neighbors=parameters["n_neighbors"],
            utility=parameters["utility"],
            semivalue=parameters["semivalue"],
        )
        return cls(mask, game)

    def identity(self) -> dict[str, Any]:
        return {"owned": fingerprint(self.owned)}

    def __str__(self) -> str:
        n_owned = int(self.owned.sum())
        n_candidates = len(self.owned) - n_owned
        return (
            f"{n_candidates:,} candidates given {n_owned:,} owned rows: the K nearest of these"
            " decide"
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
            owned_keys = keys[self.owned[rows]]
            counts = keys <= np.partition(owned_keys, k)[k]
            rows, keys = rows[counts], keys[counts]
        ranked, _, is_first = by_rank(problem, rows, keys)
        is_owned = self.owned[ranked]
        is_match = problem.labels[ranked] == label
        values = self.game.values(is_owned, is_match.astype(np.float64), is_first[0])
        if not self.is_local:
            # Any candidate may be in a small coalition, however far it is.
            is_candidate = ~is_owned
            n_matching_candidates = int((is_match & is_candidate).sum())
            n_matching_owned = int((is_match & is_owned).sum())
            of_match, of_other = self.game.added(n_matching_candidates, n_matching_owned)
            values[is_candidate] += np.where(is_match[is_candidate], of_match, of_other)
        return ranked, values

    def limits(self, problem: Problem, block: QuantisedKeys) -> tuple[IntVector32, IntVector32]:  # noqa: ARG002
        k = self.game.n_neighbors - 1
        owned_qkeys = block.qkeys[:, self._sampled_owned]
        limit = np.partition(owned_qkeys, k)[:, k] + block.tolerance
        return np.zeros_like(limit), np.where(block.usable, limit, TOP)

    @cached_property
    def _sampled_owned(self) -> IntVector:
        """Some of the owned rows: their K-th nearest is at least as far as the K-th of all."""
        rows = np.flatnonzero(self.owned)
        step = max(1, len(rows) // max(N_SAMPLED_OWNED, self.game.n_neighbors))
        return rows[::step]


@dataclass(frozen=True)
class RadiusRule(Rule):
    """Every row within the radius votes.

    Attributes
    ----------
    radius : float
    noise : float
        The standard deviation of normal noise that is added to both counts of a query; 0: none.
    seed : int
        Of the noise.
    """

    radius: float
    noise: float = 0.0
    seed: int = 0
    is_local: ClassVar[bool] = True

    def identity(self) -> dict[str, Any]:
        return {"noise": self.noise} if self.noise else {}

    def __str__(self) -> str:
        text = f"every row within {self.radius:g} votes; no ranks"
        if self.noise:
            text += (
                f"; normal noise with a deviation of {self.noise:.4g} on both counts of each query"
            )
        return text

    def vicinity(self, problem: Problem) -> Vicinity:
        """What is within the radius: keys, and the largest one that is.

        A row's own key decides, which no other training row changes.
        """
        return problem.keys.within(self.radius)

    def keys(self, problem: Problem) -> Keys:
        return self.vicinity(problem).keys

    def values(
        self, problem: Problem, query: int, rows: IntVector, keys: FloatVector
    ) -> tuple[Any, FloatVector]:
        rows = rows[keys <= self.vicinity(problem).largest]
        is_match = problem.labels[rows] == problem.query_labels[query]
        of_match, of_other = self.worth(problem, query, len(rows), int(is_match.sum()))
        return rows, np.where(is_match, of_match, of_other)

    def worth(
        self, problem: Problem, query: int, n_votes: float, n_matches: float
    ) -> tuple[float, float]:
        """Values of a match and of another row, if so many rows vote and so many of them match."""
        if self.noise:
            noise = self.noise * query_generator(self.seed, problem, query).normal(size=2)
            n_votes = n_votes + float(noise[0])
            n_matches = round(n_matches + float(noise[1]))
        n = max(1, round(n_votes))
        presence = Presence.of(problem.parameters["semivalue"])
        added = classification_correction(presence, n, n)
        empty = added.empty / problem.training.n_classes(problem.parameters["n_classes"])

        # Of n - 1 other rows, one less matches if the row itself is a match. With noise the counts
        # may contradict each other.
        others_of_match = min(max(n_matches - 1, 0.0), n - 1.0)
        others_of_other = min(max(n_matches, 0.0), n - 1.0)
        of_match = added.other * others_of_match - empty + (added.own + presence.mass / n)
        of_other = added.other * others_of_other - empty
        return of_match, of_other

    def limits(self, problem: Problem, block: QuantisedKeys) -> tuple[IntVector32, IntVector32]:
        assert block.scale is not None
        square = self.radius
        if problem.parameters["metric"] != "sqeuclidean":
            square = self.radius * self.radius
        edge = np.minimum(MARGIN + square * block.scale, 2 * TOP)
        tolerance = np.where(block.usable, block.tolerance, np.inf)
        sure = np.ceil(edge - tolerance - 1.0)
        possible = np.floor(edge + tolerance)
        return np.clip(sure, 0, TOP).astype(np.int32), np.clip(possible, 0, TOP).astype(np.int32)


def privacy_noise(privacy: tuple[float, float], n_val: int) -> float:
    """The standard deviation of the noise on counts that makes a run (epsilon, delta)-private
    towards any one other row.
    """
    try:
        from dp_accounting import GaussianDpEvent, calibrate_dp_mechanism
        from dp_accounting.pld import PLDAccountant
    except ImportError as error:
        raise ImportError(
            "privacy needs dp-accounting: pip install 'nearworth[privacy]'."
        ) from error
    epsilon, delta = privacy
    multiplier = float(calibrate_dp_mechanism(PLDAccountant, GaussianDpEvent, epsilon, delta))
    # Such a row changes both counts of every validation point by one at most: together, a vector of
    # length sqrt(2 n_val) at most.
    sensitivity = float(np.sqrt(2 * n_val))
    return multiplier * sensitivity


def query_generator(seed: int, problem: Problem, query: int) -> np.random.Generator:
    """The random numbers of a validation point, whatever part of the run values it.

    They depend on its position in the whole run and on its content. Equal points at two positions
    need numbers of their own, because the standard error takes them for independent. Different
    points at one position need them too: equal noise in two runs would cancel in their difference.
    """
    point = problem.queries[query : query + 1]
    dense = point.toarray() if hasattr(point, "toarray") else point
    content = np.ascontiguousarray(dense, dtype=np.float64)
    label = str(problem.query_labels[query]).encode()
    digest = blake2b(content.tobytes() + label).digest()
    return np.random.default_rng([seed, problem.position(query), int.from_bytes(digest, "little")])
