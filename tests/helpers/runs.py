"""Data, kinds of runs, interruptions and an executor that several tests share."""

from __future__ import annotations

import pickle
from concurrent.futures import Executor, Future

import numpy as np

# Parameters of KNNShapley for each kind of run.
KINDS = {
    "classification": {},
    "with errors": {"standard_errors": True},
    "regression": {"task": "regression", "standard_errors": True},
    "truncated": {"n_candidates": 7, "standard_errors": True},
    "manhattan": {"metric": "manhattan", "utility": "original", "ties": "index"},
}


def data(rng, n_train=60, n_val=330):
    """X, y, X_val and y_val of small whole numbers, so that many distances are tied."""
    X = rng.integers(0, 5, (n_train, 2))
    y = rng.integers(0, 3, n_train)
    X_val = rng.integers(0, 5, (n_val, 2))
    y_val = rng.integers(0, 3, n_val)
    return X, y, X_val, y_val


def assert_same_valuation(a, b):
    """Two valuations have the same bits and count the same validation rows."""
    for name in ("values", "standard_errors", "lower", "upper"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert a.n_val == b.n_val
    assert a.moments.count == b.moments.count
    assert a.moments.weight == b.moments.weight


class InterruptedByUserError(Exception):
    """What a user's callback raises."""


def interrupt_after(n_rows):
    """A callback that stops a run after `n_rows` validation rows."""

    def progress(n_done, n_total):
        if n_done >= n_rows:
            raise InterruptedByUserError

    return progress


class InlineExecutor(Executor):
    """Works at once, in this process, on what a worker would get: a copy through pickle."""

    def __init__(self):
        # Bytes that were sent for each piece of work.
        self.sent_bytes = []

    def submit(self, function, /, *args, **kwargs):
        future = Future()
        sent = pickle.dumps(args)
        self.sent_bytes.append(len(sent))
        try:
            result = function(*pickle.loads(sent))
            future.set_result(pickle.loads(pickle.dumps(result)))
        except BaseException as error:
            future.set_exception(error)
        return future


def bad_metric(a, b):
    """The Manhattan distance, but it fails for one pair of rows."""
    if a[0] == 4 and b[0] == 2:
        raise ArithmeticError("four and two")
    return abs(a - b).sum()
