"""Which evaluator computes the values of a method."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nearworth.engine.classify import ClassificationEvaluator, SharedTraining
from nearworth.engine.problem import Problem
from nearworth.engine.regress import RegressionEvaluator
from nearworth.engine.run import Evaluator
from nearworth.engine.truncate import ExactSource, Source, TruncatedEvaluator

if TYPE_CHECKING:
    from nearworth.engine.plan import Method, Plan


def evaluators_of(
    method: Method,
    problem: Problem,
    plan: Plan,
    source: Source | None = None,
    shared: SharedTraining | None = None,
) -> Callable[[], Evaluator]:
    """A function that makes an evaluator, which each thread calls once.

    Parameters
    ----------
    method : Method
        What is computed.
    problem : Problem
    plan : Plan
        Batches and precision.
    source : callable, optional
        What finds the nearest rows, if only these are ranked. Exact search by default.
    shared : SharedTraining, optional
        What evaluators of this training set have in common, if it exists already.
    """
    if method.n_candidates is not None:
        found_by = source or ExactSource(problem, method.n_candidates, plan)
        return lambda: TruncatedEvaluator(problem, found_by, method.tail)
    if method.query_rule is not None:
        return method.query_rule.evaluators(problem, plan, shared)
    if problem.game.TASK == "regression":
        return lambda: RegressionEvaluator(problem, plan.batch)
    training = shared or SharedTraining(problem.keys, problem.labels)
    return lambda: ClassificationEvaluator(
        problem,
        training,
        batch=plan.batch,
        products=plan.products,
        single=plan.single,
        max_error=method.max_error,
    )
