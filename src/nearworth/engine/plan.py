"""How a problem will be solved, decided before any work is done.

A `Method` says what is computed: which neighbors are ranked, and what finds them. A `Plan` adds
how: threads, batches and memory. Both print themselves.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

from nearworth._common import native
from nearworth._common.frames import lines_as_html
from nearworth._common.memory import Memory, default_budget, usable_threads
from nearworth.engine.classify import ClassificationEvaluator
from nearworth.engine.evaluators import evaluators_of
from nearworth.engine.problem import Problem, TrainingSet, budget
from nearworth.engine.reference import RankRule
from nearworth.engine.regress import RegressionEvaluator
from nearworth.engine.rules import RadiusRule, Rule, check_rule, privacy_noise
from nearworth.engine.run import Request, one_blas_thread
from nearworth.engine.truncate import TruncatedEvaluator
from nearworth.games.classification import ClassificationGame
from nearworth.games.regression import RegressionGame
from nearworth.games.truncation import Tail, candidates_for_error
from nearworth.inputs.features import fingerprint
from nearworth.inputs.parameters import as_generator
from nearworth.neighbors.exact import PRODUCT_POINTS as MIN_SEARCH_POINTS
from nearworth.neighbors.quantised import products_memory
from nearworth.neighbors.searchers import Searcher, as_searcher
from nearworth.results.sums import CHUNK, Leaf, describe
from nearworth.results.typical_error import sample_sizes

# An index must be built first. Below one of these sizes every distance is computed sooner.
MIN_INDEX_POINTS = 500_000
MIN_INDEX_QUERIES = 8_000

# Below this size all exact distances are computed sooner than a matrix product and the exact
# distances of the points whose order it leaves open.
MIN_PRODUCT_POINTS = 128

# Below this number of queries the preparation of a matrix product does not pay.
MIN_PRODUCT_QUERIES = 8

# From this number of queries at a time on, a matrix product is efficient.
EFFICIENT_BATCH = 32

# Each thread reads a whole file for itself. Before a second one does, so many queries must share a
# pass over it.
MIN_QUERIES_PER_PASS = 8

# Copies of a query that exist while it is converted, centered and multiplied.
QUERY_COPIES = 6

# Operations of a pair of points besides the differences of their columns.
PAIR_OPERATIONS = 32

# A leaf of fewer operations is done before another thread has started.
MIN_THREAD_OPERATIONS = 2**20

# A trial takes so long, unless it comes to its end before.
TRIAL_SECONDS = 0.3

# Queries of a trial at a time: few, so that it can end in time.
MAX_TRIAL_BATCH = 8

# What a further thread adds, as a share of what it would add if memory were not shared.
THREAD_GAIN = 0.85


@dataclass(frozen=True, kw_only=True)
class Method:
    """How values are computed. It travels to the workers of a cluster.

    Attributes
    ----------
    n_candidates : int or None
        How many neighbors of a query are ranked; None for all.
    searcher : Searcher or None
        What finds these neighbors; None if every distance is computed.
    tail : {"local", "minimax", "mean", "paper"}
        What stands for the neighbors that are not ranked.
    max_error : float or None
        If given, points are ranked up to a cut that certifies this error, and only counted in
        cells beyond it.
    reason : str
        Why this method was chosen.
    rule : Rule or None
        A game other than that of all rows by rank: owners as players, rows given others, a radius.
    """

    n_candidates: int | None = None
    searcher: Searcher | None = field(default=None, compare=False)
    tail: Tail = "local"
    max_error: float | None = None
    reason: str = "exact values were asked for"
    rule: Rule | None = field(default=None, compare=False)

    def __str__(self) -> str:
        if self.rule is not None:
            return str(self.rule)
        if self.max_error is not None:
            return (
                f"neighbours ranked as far as an error of {self.max_error:g} asks for:"
                f" {self.reason}"
            )
        if self.n_candidates is None:
            return f"all neighbours ranked: {self.reason}"
        search = "every distance computed"
        if self.searcher is not None:
            search = f"found by {self.searcher.name}"
        return f"{self.n_candidates:,} nearest ranked, {search}: {self.reason}"

    @property
    def is_exact(self) -> bool:
        """Whether all neighbors are ranked."""
        return self.n_candidates is None and self.max_error is None

    @property
    def query_rule(self) -> Rule | None:
        """The rule that values query by query; None where compiled code ranks all rows."""
        return RankRule() if self.rule is None and not native.available() else self.rule

    def memory(self, training: TrainingSet, n_train: int, *, by_product: bool) -> Memory:
        """Bytes of its evaluators, for a training set like this one of the size `n_train`."""
        if self.n_candidates is not None:
            return TruncatedEvaluator.memory(n_train, by_product=by_product)
        if self.query_rule is not None:
            return self.query_rule.memory(n_train, by_product=by_product)
        if training.task == "regression":
            return RegressionEvaluator.memory(n_train)
        return ClassificationEvaluator.memory(n_train, by_product=by_product)


def check_search_parameters(parameters: Mapping[str, Any]) -> None:
    """Refuse parameters that contradict each other, before any data are seen."""
    search = parameters["search"]
    n_candidates = parameters["n_candidates"]
    max_error = parameters["max_error"]
    if n_candidates is not None and max_error is not None:
        raise ValueError(
            f"n_candidates={n_candidates} and max_error={max_error} were both given. Give one of"
            " them."
        )
    uses_searcher = search not in ("exact", "auto")
    name = f"search={search!r}" if isinstance(search, str) else "search with a searcher"
    if uses_searcher and n_candidates is None and max_error is None:
        raise ValueError(f"{name} needs n_candidates or max_error, which say how far to search.")

    _check_game_parameters(parameters)

    if parameters["task"] == "regression" and (n_candidates is not None or uses_searcher):
        if n_candidates is not None:
            name = f"n_candidates={n_candidates}"
        raise ValueError(
            f"{name} needs task='classification': regression ranks all neighbours. Leave it out."
        )


def _check_game_parameters(parameters: Mapping[str, Any]) -> None:
    """Refuse parameters that contradict a radius, weights of votes or coalitions of given sizes."""
    games = [name for name in ("radius", "weights") if parameters[name] is not None]
    if parameters["semivalue"][0] == "sizes":
        games.append("semivalue=('sizes', ...)")
    for game in games:
        check_rule(game, parameters, "n_candidates", "max_error")
    has_radius = "radius" in games
    if has_radius and (len(games) > 1 or parameters["utility"] != "soft"):
        raise ValueError(
            "radius needs utility='soft', weights=None and another semivalue than ('sizes', ...)."
        )
    if parameters["privacy"] is not None and (not has_radius or parameters["n_classes"] is None):
        raise ValueError(
            "privacy needs a radius, and n_classes, which would be counted in the data otherwise."
        )


def choose_method(
    training: TrainingSet, parameters: Mapping[str, Any], n_val: int, n_train: int | None
) -> Method:
    """The cheapest method that gives the values asked for.

    `n_train` is the number of training points to plan for; None stands for those of `training`.
    """
    if parameters["radius"] is not None:
        return Method(rule=_radius_rule(training, parameters, n_val))
    if parameters["weights"] is not None:
        return Method(rule=RankRule(parameters["weights"]))

    search = parameters["search"]
    is_euclidean = training.keys.data is not None
    if search not in ("exact", "auto") and not is_euclidean:
        raise ValueError(
            "Searchers find Euclidean neighbours; use search='exact' with other metrics and sparse"
            " data."
        )
    n_train = n_train or training.n_rows
    n_candidates, reason = _choose_n_candidates(training, parameters, n_train)
    if n_candidates is None:
        return Method(reason=reason)
    if n_candidates >= n_train:
        return Method(reason="n_candidates covers the whole training set")

    searcher = searcher_of(search, parameters)
    if search == "auto" and is_euclidean and _index_pays(n_train, n_val):
        searcher = searcher_of("faiss", {})
        reason = f"{reason}; an index pays off for this many queries"

    # If every distance is computed anyway, points beyond the cut need not be ranked. The compiled
    # code alone has this form.
    max_error = parameters["max_error"]
    if searcher is None and max_error is not None:
        return Method(
            max_error=float(max_error) if native.available() else None,
            reason="beyond, counting is enough",
        )
    return Method(
        n_candidates=n_candidates, searcher=searcher, tail=parameters["tail"], reason=reason
    )


def _radius_rule(training: TrainingSet, parameters: Mapping[str, Any], n_val: int) -> RadiusRule:
    """The game of votes within a radius, with noise if privacy is wanted."""
    rule = RadiusRule(float(parameters["radius"]))
    privacy = parameters["privacy"]
    if privacy is None:
        return rule

    # Two runs with the same noise on other counts, or with a multiple of it, would reveal the
    # counts. So the seed depends on all that the counts and the size of the noise depend on.
    noise = privacy_noise(privacy, n_val)
    secret = int(as_generator(parameters["random_state"]).integers(2**63))
    seed = fingerprint(
        secret,
        noise,
        training.fingerprint,
        rule.radius,
        describe(training.metric),
        describe(training.metric_params),
    )
    return replace(rule, noise=noise, seed=int(seed, 16))


def _choose_n_candidates(
    training: TrainingSet, parameters: Mapping[str, Any], n_train: int
) -> tuple[int | None, str]:
    """How many neighbors are to be ranked, None for all, and why."""
    n_candidates = parameters["n_candidates"]
    max_error = parameters["max_error"]
    if n_candidates is not None:
        return int(n_candidates), f"{n_candidates:,} neighbours were asked for"
    if max_error is None:
        return None, "exact values were asked for"
    if training.task == "regression":
        return None, "no bound is known beforehand for regression, so all neighbours are ranked"
    game = training.game(parameters, n_train)
    n_needed = candidates_for_error(game, float(max_error), parameters["tail"])
    return n_needed, f"{n_needed:,} neighbours make an error of {max_error:g} certain"


def _index_pays(n_train: int, n_val: int) -> bool:
    """Whether an index is faster than all distances, and can be built here."""
    is_large = n_train >= MIN_INDEX_POINTS and n_val >= MIN_INDEX_QUERIES
    return is_large and find_spec("faiss") is not None


def searcher_of(search: Any, parameters: Mapping[str, Any]) -> Searcher | None:
    """The searcher that the parameter `search` stands for; None for exact search."""
    if search == "lsh":
        from nearworth.neighbors.lsh import LSHSearch

        return LSHSearch(random_state=parameters["random_state"])
    if search == "faiss":
        from nearworth.neighbors.faiss_search import FaissSearch

        return FaissSearch()
    return None if isinstance(search, str) else as_searcher(search)


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan:
    """How a valuation will run: the result of `KNNShapley.plan`. Print it to read it.

    Attributes
    ----------
    n_train : int
        Number of training points.
    n_val : int
        Number of validation points.
    threads : int
        Number of threads.
    batch : int
        How many validation points each thread values at a time.
    products : bool
        Whether distances come from matrix products, and only near-ties from differences.
    single : bool
        Whether these products are computed in single precision. Exact values do not depend on it.
    working_bytes : int
        Upper bound on the memory that the run needs beyond its inputs, in bytes.
    method : Method
        Which neighbors are ranked and what finds them. Print it to read it.
    seconds : float or None
        Estimated time of the run, from a short trial on this machine; None if there is no
        estimate.
    prediction : str
        What a searcher predicts about its recall and cost; empty if it predicts nothing.

    Examples
    --------
    >>> import numpy as np
    >>> import nearworth as nw
    >>> X = np.arange(2000.0).reshape(1000, 2)
    >>> y = np.arange(1000) % 3
    >>> plan = nw.KNNShapley(max_memory="8MB", n_jobs=2).fit(X, y).plan(500)
    >>> plan.n_train, plan.n_val
    (1000, 500)
    >>> plan.working_bytes <= 8_000_000
    True
    """

    n_train: int
    n_val: int
    threads: int
    batch: int
    products: bool
    single: bool
    working_bytes: int
    method: Method = field(default_factory=Method)
    seconds: float | None = field(default=None, compare=False)
    prediction: str = field(default="", compare=False)

    def __repr__(self) -> str:
        is_exact = self.method.is_exact and getattr(self.method.rule, "is_exact", True)
        points = f"{self.n_val:,} validation points against {self.n_train:,} training points"
        if is_exact:
            points += ", exactly"
        keys = "pair by pair"
        if self.products:
            keys = "one matrix product, near-ties by exact distances"
        lines = [
            points,
            f"search   {self.method}",
            f"threads  {self.threads}",
            f"batches  {self.batch} validation points at a time in each thread",
            f"keys     {keys}",
            f"memory   {self.working_bytes / 1e6:,.1f} MB beyond the inputs at most",
        ]
        if not self.method.is_exact:
            size, _ = sample_sizes(self.n_val, self.n_train)
            when = "when asked for" if self.method.searcher is None else "during the run"
            lines.append(
                f"error    certified; typical error from {size} validation points valued exactly"
                f" {when}"
            )
        if self.seconds is not None:
            lines.append(
                f"time     about {readable_time(self.seconds)}, from a short trial on this machine"
            )
        if self.prediction:
            lines.append(self.prediction)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return lines_as_html(repr(self))

    def with_time(self, trial: Problem) -> Plan:
        """The plan with its time, extrapolated from `trial`, a smaller problem of the same kind."""
        batch = min(self.batch, MAX_TRIAL_BATCH)
        trial_plan = replace(self, n_train=trial.n_train, n_val=trial.n_val, batch=batch)
        method = self.method
        # All points of the trial would be candidates, so that its exact values take as long.
        if method.n_candidates is not None and method.n_candidates >= trial.n_train:
            method = Method()

        with one_blas_thread():
            evaluator = evaluators_of(method, trial, trial_plan)()
            request = Request(spread=bool(trial.parameters["standard_errors"]))
            leaf = request.leaf(trial.n_values)

            def add(start: int, stop: int) -> None:
                deque(evaluator.add(leaf, start, stop, request), maxlen=0)

            # The first queries warm up and are not timed.
            add(0, min(2, trial.n_val))

            n_done = 0
            started = time.perf_counter()
            while n_done < trial.n_val and time.perf_counter() - started < TRIAL_SECONDS:
                step = min(batch, trial.n_val - n_done)
                add(n_done, n_done + step)
                n_done += step
            elapsed = time.perf_counter() - started
        ratio = self.n_train * self.n_val / (trial.n_train * n_done)
        speedup = 1.0 + THREAD_GAIN * (self.threads - 1)
        return replace(self, seconds=elapsed * ratio / speedup)


def readable_time(seconds: float) -> str:
    """A time in the largest unit of which it has at least two."""
    for size, name in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.2g} seconds"


def make_plan(
    training: TrainingSet,
    parameters: Mapping[str, Any],
    method: Method,
    n_val: int,
    n_train: int | None = None,
) -> Plan:
    """The most threads and the largest batches that the memory allows.

    It is an error if not even one query fits. `n_train` is the number of training points to plan
    for; None stands for those of `training`.
    """
    keys = training.keys
    n_train = n_train or training.n_rows
    n_leaves = -(-n_val // CHUNK)
    max_threads = _useful_threads(training, parameters, method, n_train, n_leaves)
    needs = _MemoryNeeds.of(training, parameters, method, n_train, n_leaves)
    allowed = _allowed_memory(parameters, needs.by_pair.total(), n_train)

    products = False
    if _products_pay(training, method, n_train, n_val):
        products = needs.by_product.total() <= allowed

    # Single precision is used if it leaves room for batches of an efficient size. For points in a
    # file it would need a copy of all of them in memory.
    single = False
    if products and not keys.streamed:
        efficient_batch = min(EFFICIENT_BATCH, n_val)
        single = needs.with_copy.total(max_threads, efficient_batch) <= allowed

    memory = needs.by_pair
    if products:
        memory = needs.with_copy if single else needs.by_product

    # Fewer threads, of which each reads the file for more queries at a time, are faster.
    threads = min(max_threads, memory.threads(allowed))
    if keys.streamed:
        per_pass = min(EFFICIENT_BATCH if products else MIN_QUERIES_PER_PASS, n_val)
        while threads > 1 and memory.batch(allowed, threads) < per_pass:
            threads -= 1
    batch = min(CHUNK, n_val, memory.batch(allowed, threads))
    return Plan(
        n_train=n_train,
        n_val=n_val,
        threads=threads,
        batch=batch,
        products=products,
        single=single,
        working_bytes=memory.total(threads, batch),
        method=method,
    )


def _allowed_memory(parameters: Mapping[str, Any], needed: int, n_train: int) -> int:
    """The bytes that a run may take; refused if it needs more."""
    max_memory = budget(parameters)
    if max_memory is None:
        # A run that needs more than the usual share of the free memory is not refused for that.
        return max(default_budget(), needed)
    if needed > max_memory:
        raise ValueError(
            f"max_memory={max_memory:,} bytes is too little for {n_train:,} training points: one"
            f" validation point needs {needed:,}."
        )
    return max_memory


def _products_pay(training: TrainingSet, method: Method, n_train: int, n_val: int) -> bool:
    """Whether matrix products exist for the metric and are faster than differences."""
    if not training.keys.has_products:
        return False
    if method.n_candidates is not None:
        return n_train >= MIN_SEARCH_POINTS
    if training.task == "regression":
        return False
    return n_train >= MIN_PRODUCT_POINTS and n_val >= MIN_PRODUCT_QUERIES


def _useful_threads(
    training: TrainingSet,
    parameters: Mapping[str, Any],
    method: Method,
    n_train: int,
    n_leaves: int,
) -> int:
    """How many threads make a run faster, if there is memory for them."""
    # Searchers have threads of their own.
    if method.searcher is not None:
        return 1
    operations_per_leaf = CHUNK * n_train * (training.keys.width + PAIR_OPERATIONS)
    if operations_per_leaf < MIN_THREAD_OPERATIONS:
        return 1
    return min(usable_threads(parameters["n_jobs"]), n_leaves)


@dataclass(frozen=True, kw_only=True)
class _MemoryNeeds:
    """Bytes of a run, by the way in which keys are computed.

    Attributes
    ----------
    by_pair : Memory
        From differences, pair by pair.
    by_product : Memory
        From matrix products of the training points as they are.
    with_copy : Memory
        The same with a copy in single precision, if the points would have to be converted again
        and again.
    """

    by_pair: Memory
    by_product: Memory
    with_copy: Memory

    @classmethod
    def of(
        cls,
        training: TrainingSet,
        parameters: Mapping[str, Any],
        method: Method,
        n_train: int,
        n_leaves: int,
    ) -> _MemoryNeeds:
        keys = training.keys
        spread = bool(parameters["standard_errors"])
        base = _base_memory(training, method, n_train, n_leaves, spread=spread)
        products_base = base + method.memory(training, n_train, by_product=True)
        return cls(
            by_pair=base + method.memory(training, n_train, by_product=False),
            by_product=products_base + products_memory(n_train, keys.width, copied=False),
            with_copy=products_base + products_memory(n_train, keys.width, copied=keys.converted),
        )


def _base_memory(
    training: TrainingSet, method: Method, n_train: int, n_leaves: int, *, spread: bool
) -> Memory:
    """Bytes of what every run has: the game, labels, sums and copies of queries."""
    game = RegressionGame if training.task == "regression" else ClassificationGame
    floats_while_made, floats_kept = game.FLOATS_PER_PLAYER

    # Complete sums form a tree of leaves, of which at most one node of each level is kept.
    leaf = Leaf.bytes(n_train, spread=spread, with_ends=not method.is_exact)
    nodes = leaf * (n_leaves.bit_length() + 1)

    # Codes, and the pivots of every class.
    labels = 8 * 3 * n_train
    return Memory(
        preparing=8 * floats_while_made * n_train + labels + nodes,
        shared=8 * floats_kept * n_train + labels + nodes,
        per_thread=0 if method.n_candidates is not None else 2 * leaf,
        per_query=8 * QUERY_COPIES * training.keys.width,
    )
