"""How long a run will take, from a short trial on some of the data."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace

from nearworth.engine.plan import Plan
from nearworth.engine.problem import Problem, make_evaluators
from nearworth.engine.run import Request
from nearworth.engine.threads import one_blas_thread
from nearworth.results.moments import Leaf

TRIAL_POINTS, TRIAL_QUERIES, TRIAL_SECONDS = 32_768, 64, 0.3
THREAD_GAIN = 0.85  # of what a further thread would add if memory were not shared


def with_time(plan: Plan, trial: Problem) -> Plan:
    """The plan with the time it should take, scaled up from a trial with fewer points and queries."""
    alike = replace(plan, n_train=trial.n_train, n_val=trial.n_val, batch=min(plan.batch, 8))
    with one_blas_thread():
        evaluator = make_evaluators(trial, alike)()
        leaf = Leaf(trial.n_train, spread=False)
        deque(evaluator.add(leaf, 0, min(2, trial.n_val), Request()), maxlen=0)  # compiles
        started, done = time.perf_counter(), 0
        while done < trial.n_val and time.perf_counter() - started < TRIAL_SECONDS:
            step = min(alike.batch, trial.n_val - done)
            deque(evaluator.add(leaf, done, done + step, Request()), maxlen=0)
            done += step
        spent = time.perf_counter() - started
    pairs = plan.n_train * plan.n_val / (trial.n_train * done)
    return replace(plan, seconds=spent * pairs / (1.0 + THREAD_GAIN * (plan.threads - 1)))
