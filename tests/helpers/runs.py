"""Data, kinds of runs and interruptions that several tests share."""

from __future__ import annotations

from concurrent.futures import Executor, Future

import numpy as np

KINDS = {
    "classification": {},
    "with errors": {"standard_errors": True},
    "regression": {"task": "regression", "standard_errors": True},
    "truncated": {"n_candidates": 7, "standard_errors": True},
    "manhattan": {"metric": "manhattan", "utility": "original", "ties": "index"},
}


def data(rng, n_train=60, n_val=330):
    """Small whole numbers: many ties."""
    return (
        rng.integers(0, 5, (n_train, 2)),
        rng.integers(0, 3, n_train),
        rng.integers(0, 5, (n_val, 2)),
        rng.integers(0, 3, n_val),
    )


def same(a, b):
    for name in ("values", "standard_errors", "lower", "upper"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert (a.n_val, a.moments.count, a.moments.weight) == (
        b.n_val,
        b.moments.count,
        b.moments.weight,
    )


class InterruptedByUserError(Exception):
    """What a user's callback raises."""


def interrupt_after(points):
    def progress(done, total):
        if done >= points:
            raise InterruptedByUserError

    return progress


class Here(Executor):
    """Works at once, on what a worker would get: a copy through pickle."""

    def __init__(self):
        self.shards = []

    def submit(self, function, /, *args, **kwargs):
        import pickle

        future = Future()
        self.shards.append(len(pickle.dumps(args)))
        try:
            future.set_result(
                pickle.loads(pickle.dumps(function(*pickle.loads(pickle.dumps(args)))))
            )
        except BaseException as error:
            future.set_exception(error)
        return future


def bad_metric(a, b):
    if a[0] == 4 and b[0] == 2:
        raise ArithmeticError("four and two")
    return abs(a - b).sum()
