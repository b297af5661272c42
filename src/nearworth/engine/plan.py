"""From a memory budget to threads and batches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import joblib

from nearworth._common.memory import default_budget, free_memory
from nearworth._common.types import Task
from nearworth.neighbors.products import panel_rows
from nearworth.results.moments import CHUNK

# Bytes per training point: coefficients while they are made, which is before the threads begin; what stays of them with
# labels and pivots; and scratch per thread, more of it for pivots (see `kernels`). Sums come on top, one vector each
# (four with standard errors, two more with both ends): a leaf per thread, and the open nodes of the tree over leaves.
PREPARING, FIXED, PER_THREAD, PER_PIVOT = 8 * 14, 8 * 7, 8 * 6, 8 * 12
RANKING = 8 * 3  # more per thread to rank exact keys
TRUNCATED = 8 * 18  # per thread where few neighbours are ranked
PER_MARK, PER_KEY = 4, 20  # bytes per (query of a batch, training point) with and without a matrix product
PER_FEATURE = 8 * 6  # bytes per number of a query of a batch: a few copies
# A matrix product beats differences once its preparation is spread over enough points.
PRODUCT_POINTS, PRODUCT_QUERIES = 2048, 8
NORMS, GOOD_BATCH = 24, 32
SHARED_PASS = 8  # queries by which a pass over a file is shared before a second thread makes passes of its own


@dataclass(frozen=True)
class SearchPlan:
    """How many neighbours are ranked (None: all), which searcher finds them (None: all distances), and why.

    With `whole_ties`, a block of ties that begins
    among the nearest is ranked to its end, so that no tie costs certainty.
    """

    n_candidates: int | None = None
    searcher: str | None = None
    reason: str = "exact values were asked for"
    whole_ties: bool = False

    def __str__(self) -> str:
        if self.n_candidates is None:
            return f"all neighbours ranked: {self.reason}"
        who = "every distance computed" if self.searcher is None else f"found by {self.searcher}"
        return f"{self.n_candidates:,} nearest ranked, {who}: {self.reason}"


@dataclass(frozen=True)
class Plan:
    """How a valuation will run; prints itself."""

    n_train: int
    n_val: int
    threads: int
    batch: int
    products: bool
    narrow: bool
    working_bytes: int
    search: SearchPlan = SearchPlan()
    seconds: float | None = field(default=None, compare=False)
    advice: tuple[str, ...] = ()
    foretold: str = field(default="", compare=False)  # what a searcher says of itself

    def __str__(self) -> str:
        lines = [
            f"{self.n_val:,} validation points against {self.n_train:,} training points"
            f"{', exactly' if self.search.n_candidates is None else ''}",
            f"search   {self.search}",
            f"threads  {self.threads}",
            f"batches  {self.batch} validation points at a time in each thread",
            f"keys     {'one matrix product, close calls settled by differences' if self.products else 'pair by pair'}",
            f"memory   {self.working_bytes / 1e6:,.1f} MB beyond the inputs at most",
        ]
        if self.seconds is not None:
            lines.append(f"time     about {readable_time(self.seconds)}, from a short trial on this machine")
        lines += [f"cheaper  {hint}" for hint in self.advice]
        return "\n".join([*lines, self.foretold] if self.foretold else lines)


def readable_time(seconds: float) -> str:
    """A duration in words that fit its size."""
    for size, name in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.2g} seconds"


@dataclass(frozen=True)
class Costs:
    """Bytes that a run needs: to prepare it; then once, in each thread, and for each query of a batch."""

    preparing: int
    fixed: int
    thread: int
    query: int

    @property
    def least(self) -> int:
        """One thread, one query at a time."""
        return self.total(1, 1)

    def threads(self, budget: int) -> int:
        """How many threads fit, at least one."""
        return max(1, (budget - self.fixed) // (self.thread + self.query))

    def batch(self, budget: int, threads: int) -> int:
        """How many queries at a time fit in so many threads."""
        return max(1, (budget - self.fixed - threads * self.thread) // (threads * self.query))

    def total(self, threads: int, batch: int) -> int:
        """What is needed then."""
        return max(self.preparing, self.fixed + threads * (self.thread + batch * self.query))


def make_plan(
    n_train: int,
    n_val: int,
    task: Task,
    *,
    standard_errors: bool,
    n_jobs: int | None,
    max_memory: int | None,
    has_products: bool = False,
    width: int = 0,
    search: SearchPlan | None = None,
    kept: bool = False,
    streamed: bool = False,
    pivots: float = 0.5,
) -> Plan:
    """The most threads and the largest batches that the budget allows; an error if not even one query fits.

    A matrix product, where the metric has one, takes a 32-bit copy of the training set if that leaves room for batches
    of a good size; `width` is the numbers in a query. Sums that are `kept` in a checkpoint are there twice meanwhile. A
    training set `streamed` from a file is never copied, and threads that would only read it more often are not begun.
    At most a share `pivots` of all points is sorted for a query.
    """
    search = search or SearchPlan()
    truncated = search.n_candidates is not None
    sums = n_train * 8 * ((4 if standard_errors else 1) + (2 if truncated else 0))
    leaves, rows = -(-n_val // CHUNK), min(n_train, panel_rows(width))
    nodes = sums * (leaves.bit_length() + 1) * (2 if kept else 1)
    scratch = TRUNCATED if truncated else PER_THREAD + PER_PIVOT * pivots
    thread = int(scratch * n_train) + (0 if truncated else 2 * sums) + 2 * 8 * rows * width
    copies = width * PER_FEATURE
    by_pair = Costs(
        n_train * PREPARING + nodes, n_train * FIXED + nodes, thread + n_train * RANKING, n_train * PER_KEY + copies
    )
    marks = 0 if truncated else n_train * PER_MARK
    by_product = replace(by_pair, fixed=by_pair.fixed + n_train * NORMS, thread=thread, query=marks + copies + 8 * rows)
    with_copy = replace(by_product, fixed=by_product.fixed + 4 * n_train * width)
    many = (truncated or task == "classification") and n_train >= PRODUCT_POINTS
    worthwhile = many and has_products and (truncated or n_val >= PRODUCT_QUERIES)
    budget = max_memory if max_memory is not None else max(default_budget(), by_pair.least)
    if by_pair.least > budget:
        raise ValueError(
            f"max_memory={max_memory:,} bytes is too little for {n_train:,} training points: "
            f"one validation point at a time needs {by_pair.least:,}. Raise max_memory or leave it None."
        )
    products = worthwhile and by_product.least <= budget
    wanted = 1 if search.searcher else min(usable_threads(n_jobs), leaves)  # a searcher has threads of its own
    narrow = products and not streamed and with_copy.total(wanted, min(GOOD_BATCH, n_val)) <= budget
    costs = with_copy if narrow else by_product if products else by_pair
    threads = min(wanted, costs.threads(budget))
    shared = min(GOOD_BATCH if products else SHARED_PASS, n_val)
    while streamed and threads > 1 and costs.batch(budget, threads) < shared:
        threads -= 1
    batch = min(CHUNK, n_val, costs.batch(budget, threads))
    advice = []
    if worthwhile and not products:
        advice.append(f"a matrix product needs max_memory of at least {by_product.least / 1e6:,.0f} MB")
    elif many and not has_products:
        advice.append("metric='euclidean' or 'cosine' go through a matrix product, this metric does not")
    if threads < wanted:
        advice.append(f"{wanted} threads need max_memory of at least {costs.total(wanted, 1) / 1e6:,.0f} MB")
    return Plan(
        n_train, n_val, threads, batch, products, narrow, costs.total(threads, batch), search, advice=tuple(advice)
    )


def usable_threads(n_jobs: int | None) -> int:
    """As scikit-learn counts: None and -1 for all cores that this process may use, -2 for all but one."""
    cores = int(joblib.cpu_count())
    if n_jobs is None:
        return cores
    return int(n_jobs) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))


def check_fits(plan: Plan, n_rows: int, max_memory: int | None) -> None:
    """Refuse a matrix of single values that would not fit beside the work, before any work is done."""
    n_val, needed = plan.n_val, 8 * plan.n_val * n_rows + plan.working_bytes
    allowed = max_memory if max_memory is not None else free_memory()
    if allowed is not None and needed > allowed:
        raise ValueError(
            f"contributions of {n_rows:,} training points for {n_val:,} validation points need {needed:,} bytes "
            f"with the work, but {allowed:,} are {'allowed by max_memory' if max_memory is not None else 'free'}. "
            "Choose fewer rows."
        )
