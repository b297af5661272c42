"""How much is computed between two points at which a run can be stopped."""

from __future__ import annotations

from nearworth.engine.problem import Problem
from nearworth.results.sums import CHUNK

# A run can be stopped only between two calls that compute keys: each computes at most so many
# differences of two numbers.
MAX_DIFFERENCES_PER_CALL = 2**28


def interruptible_batch(problem: Problem, batch: int) -> int:
    """How many queries of a batch get exact keys in one call, after which a run may stop."""
    # From a file, keys take one pass over all rows: several passes would cost more than a late
    # stop.
    if problem.keys.streamed:
        return batch
    differences_per_query = problem.n_train * int(problem.queries.shape[1])
    return min(batch, max(1, MAX_DIFFERENCES_PER_CALL // differences_per_query))


def has_quick_leaves(problem: Problem) -> bool:
    """Whether a run is interrupted soon enough if it stops after a leaf only."""
    return not problem.keys.streamed and interruptible_batch(problem, CHUNK) == CHUNK
