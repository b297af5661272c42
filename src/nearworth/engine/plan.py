"""Method and Plan: how a problem will be solved, decided before any work is done. Both print
themselves.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

from nearworth._common import native
from nearworth._common.frames import lines_as_html
from nearworth._common.memory import Memory, default_budget, usable_threads
from nearworth.engine.classify import ClassificationEvaluator, SharedTraining
from nearworth.engine.problem import Problem, TrainingSet, budget
from nearworth.engine.reference import RankRule
from nearworth.engine.regress import RegressionEvaluator
from nearworth.engine.rules import RadiusRule, Rule, check_rule, privacy_noise
from nearworth.engine.run import Evaluator, Request, one_blas_thread
from nearworth.engine.truncate import ExactSource, Source, TruncatedEvaluator
from nearworth.games.classification import ClassificationGame
from nearworth.games.regression import RegressionGame
from nearworth.games.truncation import Tail, candidates_for_error
from nearworth.inputs.features import fingerprint
from nearworth.inputs.parameters import as_generator
from nearworth.neighbors.exact import PRODUCT_POINTS as SEARCH_POINTS
from nearworth.neighbors.quantised import products_memory
from nearworth.neighbors.searchers import Searcher, as_searcher
from nearworth.results.sums import CHUNK, Leaf, describe
from nearworth.results.typical_error import sample_sizes

# An index must be built first: below these sizes every distance is computed sooner.
INDEX_POINTS, INDEX_QUERIES = 500_000, 8_000
PRODUCT_POINTS = (
    128  # from here on, a product and what it leaves ambiguous are faster than all exact distances
)
PRODUCT_QUERIES = 8  # from here on, the preparation of a matrix product pays
GOOD_BATCH = 32  # queries from which on a product is efficient
SHARED_PASS = (
    8  # queries that must share a pass over a file before a second thread makes passes of its own
)
QUERY_COPIES = 6  # of a query, while it is converted, centred and multiplied
PAIR_WORK, THREAD_WORK = (
    32,
    2**20,
)  # operations: of a pair beside its differences; of a leaf, for threads to help
TRIAL_SECONDS = 0.3
THREAD_GAIN = 0.85  # of what a further thread would add if memory were not shared


@dataclass(frozen=True, kw_only=True)
class Method:
    """How values are computed; prints itself, picks the evaluator, goes into the origin and travels
    to workers.

    `n_candidates` neighbours are ranked (None: all), found by the `searcher` (None: every distance
    is computed); `tail` stands for the others. With `max_error`, points are counted in cells beyond
    a cut that certifies this error, instead of being ranked. A `rule` replaces the ranking of rows:
    owners as players, rows given others, a radius.
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
        how = (
            "every distance computed" if self.searcher is None else f"found by {self.searcher.name}"
        )
        return f"{self.n_candidates:,} nearest ranked, {how}: {self.reason}"

    @property
    def is_exact(self) -> bool:
        return self.n_candidates is None and self.max_error is None

    @property
    def _game(self) -> Rule | None:
        """The rule that values query by query; None where compiled code ranks all rows."""
        return RankRule() if self.rule is None and not native.available() else self.rule

    def evaluators(
        self,
        problem: Problem,
        plan: Plan,
        source: Source | None = None,
        shared: SharedTraining | None = None,
    ) -> Callable[[], Evaluator]:
        """What makes the evaluator of each thread; candidates come from the `source`, if not from
        exact search.
        """
        if self.n_candidates is not None:
            found = source or ExactSource(problem, self.n_candidates, plan)
            return lambda: TruncatedEvaluator(problem, found, self.tail)
        if self._game is not None:
            return self._game.evaluators(problem, plan, shared)
        if problem.game.TASK == "regression":
            return lambda: RegressionEvaluator(problem, plan.batch)
        shared = shared or SharedTraining(problem.keys, problem.labels)
        return lambda: ClassificationEvaluator(
            problem,
            shared,
            batch=plan.batch,
            products=plan.products,
            single=plan.single,
            max_error=self.max_error,
        )

    def memory(self, training: TrainingSet, n_train: int, *, by_product: bool) -> Memory:
        """Bytes of its evaluators, for a training set like this one of the size `n_train`."""
        if self.n_candidates is not None:
            return TruncatedEvaluator.memory(n_train, by_product=by_product)
        if self._game is not None:
            return self._game.memory(n_train, by_product=by_product)
        if training.task == "regression":
            return RegressionEvaluator.memory(n_train)
        return ClassificationEvaluator.memory(n_train, by_product=by_product)


def check_search_parameters(parameters: Mapping[str, Any]) -> None:
    """Refuse what contradicts itself, before any data are seen."""
    search, wanted, max_error = (
        parameters["search"],
        parameters["n_candidates"],
        parameters["max_error"],
    )
    indexed, regression = search not in ("exact", "auto"), parameters["task"] == "regression"
    name = f"search={search!r}" if isinstance(search, str) else "search with a searcher"
    if wanted is not None and max_error is not None:
        raise ValueError(
            f"n_candidates={wanted} and max_error={max_error} were both given. Give one of them."
        )
    if indexed and wanted is None and max_error is None:
        raise ValueError(f"{name} needs n_candidates or max_error, which say how far to search.")
    games = [game for game in ("radius", "weights") if parameters[game] is not None]
    if parameters["semivalue"][0] == "sizes":
        games.append("semivalue=('sizes', ...)")
    for game in games:
        check_rule(game, parameters, "n_candidates", "max_error")
    if "radius" in games and (len(games) > 1 or parameters["utility"] != "soft"):
        raise ValueError(
            "radius needs utility='soft', weights=None and another semivalue than ('sizes', ...)."
        )
    if parameters["privacy"] is not None and (
        "radius" not in games or parameters["n_classes"] is None
    ):
        raise ValueError(
            "privacy needs a radius, and n_classes, which would be counted in the data otherwise."
        )
    if regression and (wanted is not None or indexed):
        found = name if wanted is None else f"n_candidates={wanted}"
        raise ValueError(
            f"{found} needs task='classification': regression ranks all neighbours. Leave it out."
        )


def choose_method(
    training: TrainingSet, parameters: Mapping[str, Any], n_val: int, n_train: int | None
) -> Method:
    """The cheapest method that gives what is asked for."""
    if parameters["radius"] is not None:
        rule, privacy = RadiusRule(float(parameters["radius"])), parameters["privacy"]
        if privacy is not None:
            noise, secret = (
                privacy_noise(privacy, n_val),
                int(as_generator(parameters["random_state"]).integers(2**63)),
            )
            # Two runs with the same noise on other counts, or with a multiple of it, would tell the
            # counts.
            counts = (
                training.fingerprint,
                rule.radius,
                describe(training.metric),
                describe(training.metric_params),
            )
            rule = replace(rule, noise=noise, seed=int(fingerprint(secret, noise, *counts), 16))
        return Method(rule=rule)
    if parameters["weights"] is not None:
        return Method(rule=RankRule(parameters["weights"]))
    search, max_error, n_train = (
        parameters["search"],
        parameters["max_error"],
        n_train or training.n_rows,
    )
    euclidean = training.keys.data is not None
    if search not in ("exact", "auto") and not euclidean:
        raise ValueError(
            "Searchers find Euclidean neighbours; use search='exact' with other metrics and sparse"
            " data."
        )
    k, why = _how_many(training, parameters, n_train)
    if k is None or k >= n_train:
        return Method(reason=why if k is None else "n_candidates covers the whole training set")
    searcher = searcher_of(search, parameters)
    if (
        search == "auto"
        and euclidean
        and n_train >= INDEX_POINTS
        and n_val >= INDEX_QUERIES
        and find_spec("faiss")
    ):
        searcher, why = searcher_of("faiss", {}), f"{why}; an index pays off for this many queries"
    if searcher is None and max_error is not None:
        return Method(
            max_error=float(max_error) if native.available() else None,
            reason="beyond, counting is enough",
        )
    return Method(n_candidates=k, searcher=searcher, tail=parameters["tail"], reason=why)


def _how_many(
    training: TrainingSet, parameters: Mapping[str, Any], n_train: int
) -> tuple[int | None, str]:
    wanted, max_error = parameters["n_candidates"], parameters["max_error"]
    if wanted is not None:
        return int(wanted), f"{wanted:,} neighbours were asked for"
    if max_error is None:
        return None, "exact values were asked for"
    if training.task == "regression":
        return None, "no bound is known beforehand for regression, so all neighbours are ranked"
    k = candidates_for_error(
        training.game(parameters, n_train), float(max_error), parameters["tail"]
    )
    return k, f"{k:,} neighbours make an error of {max_error:g} certain"


def searcher_of(search: Any, parameters: Mapping[str, Any]) -> Searcher | None:
    if search == "lsh":
        from nearworth.neighbors.lsh import LSHSearch

        return LSHSearch(random_state=parameters["random_state"])
    if search == "faiss":
        from nearworth.neighbors.faiss_search import FaissSearch

        return FaissSearch()
    return None if isinstance(search, str) else as_searcher(search)


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan:
    """How a valuation will run."""

    n_train: int
    n_val: int
    threads: int
    batch: int
    products: bool
    single: bool  # whether products are made in float32
    working_bytes: int
    method: Method = field(default_factory=Method)
    seconds: float | None = field(default=None, compare=False)
    prediction: str = field(default="", compare=False)  # of a searcher about itself

    def __repr__(self) -> str:
        is_exact = self.method.is_exact and getattr(self.method.rule, "is_exact", True)
        keys = "pair by pair"
        if self.products:
            keys = "one matrix product, near-ties by exact distances"
        lines = [
            f"{self.n_val:,} validation points against {self.n_train:,} training points"
            + (", exactly" if is_exact else ""),
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
        return "\n".join([*lines, self.prediction] if self.prediction else lines)

    def _repr_html_(self) -> str:
        return lines_as_html(repr(self))

    def with_time(self, trial: Problem) -> Plan:
        """The plan with the time it should take, scaled up from a trial with fewer points and
        queries.
        """
        alike = replace(self, n_train=trial.n_train, n_val=trial.n_val, batch=min(self.batch, 8))
        with one_blas_thread():
            method = self.method if (self.method.n_candidates or 0) < trial.n_train else Method()
            evaluator = method.evaluators(trial, alike)()
            request = Request(spread=bool(trial.parameters["standard_errors"]))
            leaf = request.leaf(trial.n_values)
            deque(evaluator.add(leaf, 0, min(2, trial.n_val), request), maxlen=0)  # warms up
            started, done = time.perf_counter(), 0
            while done < trial.n_val and time.perf_counter() - started < TRIAL_SECONDS:
                step = min(alike.batch, trial.n_val - done)
                deque(evaluator.add(leaf, done, done + step, request), maxlen=0)
                done += step
            spent = time.perf_counter() - started
        ratio = self.n_train * self.n_val / (trial.n_train * done)
        return replace(self, seconds=spent * ratio / (1.0 + THREAD_GAIN * (self.threads - 1)))


def readable_time(seconds: float) -> str:
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
    """The most threads and the largest batches that the budget allows; an error if not even one
    query fits.

    Products, where the metric has them, are made in float32, from a copy of the training set if its
    rows would have to be `converted`, and if that leaves room for batches of a good size. A
    training set `streamed` from a file is never copied, and threads that would only read it more
    often are not started.
    """
    keys, max_memory, n_train = training.keys, budget(parameters), n_train or training.n_rows
    truncated, leaves = method.n_candidates is not None, -(-n_val // CHUNK)
    base = _base_memory(
        training, method, n_train, leaves, spread=bool(parameters["standard_errors"])
    )
    by_pair = base + method.memory(training, n_train, by_product=False)
    products_base = base + method.memory(training, n_train, by_product=True)
    by_product = products_base + products_memory(n_train, keys.width, copied=False)
    with_copy = products_base + products_memory(n_train, keys.width, copied=keys.converted)
    many = (
        n_train >= SEARCH_POINTS
        if truncated
        else training.task != "regression" and n_train >= PRODUCT_POINTS
    )
    worthwhile = many and keys.has_products and (truncated or n_val >= PRODUCT_QUERIES)
    allowed = max_memory if max_memory is not None else max(default_budget(), by_pair.total())
    if by_pair.total() > allowed:
        least = f"{n_train:,} training points: one validation point needs {by_pair.total():,}"
        raise ValueError(f"max_memory={max_memory:,} bytes is too little for {least}.")
    # Searchers have threads of their own; small leaves are done before another thread has begun.
    small = CHUNK * n_train * (keys.width + PAIR_WORK) < THREAD_WORK
    wanted = (
        1
        if method.searcher is not None or small
        else min(usable_threads(parameters["n_jobs"]), leaves)
    )
    products = worthwhile and by_product.total() <= allowed
    single = (
        products
        and not keys.streamed
        and with_copy.total(wanted, min(GOOD_BATCH, n_val)) <= allowed
    )
    needed = with_copy if single else by_product if products else by_pair
    threads = min(wanted, needed.threads(allowed))
    shared = min(GOOD_BATCH if products else SHARED_PASS, n_val)
    while keys.streamed and threads > 1 and needed.batch(allowed, threads) < shared:
        threads -= 1
    batch = min(CHUNK, n_val, needed.batch(allowed, threads))
    return Plan(
        n_train=n_train,
        n_val=n_val,
        threads=threads,
        batch=batch,
        products=products,
        single=single,
        working_bytes=needed.total(threads, batch),
        method=method,
    )


def _base_memory(
    training: TrainingSet, method: Method, n_train: int, leaves: int, *, spread: bool
) -> Memory:
    """Bytes of what every run has: the game, labels, sums (a leaf per thread, open nodes of the
    tree), query copies.
    """
    making, made = (
        RegressionGame if training.task == "regression" else ClassificationGame
    ).FLOATS_PER_PLAYER
    sums = Leaf.bytes(n_train, spread=spread, with_ends=not method.is_exact)
    nodes = sums * (leaves.bit_length() + 1)
    labels = 8 * 3 * n_train  # codes, and the pivots of every class
    return Memory(
        preparing=8 * making * n_train + labels + nodes,
        shared=8 * made * n_train + labels + nodes,
        per_thread=0 if method.n_candidates is not None else 2 * sums,
        per_query=8 * QUERY_COPIES * training.keys.width,
    )
