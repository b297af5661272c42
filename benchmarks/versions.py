"""Two checkouts against each other, in turn, so that a busy machine disturbs both alike.

    python benchmarks/versions.py ../old/src src

Each checkout has a process of its own that runs one row at a time; the best CPU time of some rounds
counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np

ROUNDS = 5


def rows():
    """Name -> work to be timed; all set-up that is not timed happens here."""
    import nearworth as nw

    rng = np.random.default_rng(0)
    centres = rng.normal(size=(10, 64))

    def blobs(n, d=64):
        y = rng.integers(0, 10, n)
        return centres[y][:, :d] + rng.normal(size=(n, d)), y

    X, y = blobs(100_000)
    X_val, y_val = blobs(256)
    mid_X, mid_y = blobs(20_000, 32)
    few_X, few_y = blobs(3_000, 16)

    def valuing(X, y, X_val=None, y_val=None, **parameters):
        est = nw.KNNShapley(5, **{"n_jobs": 1, **parameters}).fit(X, y)
        return lambda: est.value(X_val, y_val)

    return {
        "fit, 100,000 x 64": lambda: nw.KNNShapley(5).fit(X, y),
        "value, 100,000 x 256": valuing(X, y, X_val, y_val),
        "the same, two threads": valuing(X, y, X_val, y_val, n_jobs=2),
        "with standard errors": valuing(X, y, X_val[:64], y_val[:64], standard_errors=True),
        "two classes": valuing(X, y % 2, X_val[:64], y_val[:64] % 2),
        "random labels": valuing(X, rng.integers(0, 10, len(y)), X_val[:64], y_val[:64]),
        "float32": valuing(X.astype(np.float32), y, X_val[:64], y_val[:64]),
        "cosine": valuing(mid_X, mid_y, X_val[:64, :32], y_val[:64], metric="cosine"),
        "manhattan": valuing(few_X, few_y, X_val[:, :16], y_val, metric="manhattan"),
        "regression, 20,000 x 64": valuing(
            mid_X, mid_y, X_val[:64, :32], y_val[:64], task="regression"
        ),
        "20 candidates": valuing(X, y, X_val, y_val, n_candidates=20),
        "self-valuation, 3,000": valuing(few_X, few_y),
        "self-valuation, 500": valuing(few_X[:500], few_y[:500]),
        "N = 20": valuing(few_X[:20], few_y[:20], few_X[20:40], few_y[20:40]),
        "audit, 1,500": lambda: nw.audit_labels(few_X[:1_500], few_y[:1_500], n_jobs=1).suspects(),
    }


def serve() -> None:
    """Run the rows that are named on standard input, and print their CPU times."""
    works = rows()
    for work in works.values():
        work()  # imports
    print("|".join(works), flush=True)
    for line in sys.stdin:
        started = time.process_time()
        works[line.strip()]()
        print(time.process_time() - started, flush=True)


def main(*sources: str) -> None:
    servers = []
    for source in sources:
        command = [sys.executable, __file__, "--serve"]
        environment = os.environ | {"PYTHONPATH": os.path.abspath(source)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        servers.append(subprocess.Popen(command, env=environment, **pipes))
    names = [server.stdout.readline().strip() for server in servers][-1].split(
        "|"
    )  # waits until both are ready
    print(f"{'row':26} {'first':>9} {'second':>9}  second / first")
    for name in names:
        times: list[list[float]] = [[] for _ in servers]
        for _ in range(ROUNDS):
            for server, found in zip(servers, times, strict=True):
                server.stdin.write(name + "\n")
                server.stdin.flush()
                found.append(float(server.stdout.readline()))
        first, second = map(min, times)
        print(f"{name:26} {first:9.4f} {second:9.4f}  {second / first:.2f}", flush=True)
    for server in servers:
        server.stdin.close()
        server.wait()


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["--serve"] else main(*sys.argv[1:])
