"""What a scan finds of what was planted in the data sets of ../shared/data, and what it costs.

    python benchmarks/scan.py planted     copies, near-copies and leaks: found and invented;
                                          outliers: AP, listed
    python benchmarks/scan.py datalab     outliers by cleanlab's Datalab, in its own environment
    python benchmarks/scan.py clean       groups found where there are none: every row moved as far
                                          as its nearest is
    python benchmarks/scan.py million     exact copies among 10^6 rows
    python benchmarks/scan.py time        scan against audit, CPU seconds, in turn

Outliers are rows of another data set, each standardised by itself; where that has fewer columns,
the others are 0 ("padded", the row is at the mean there) or its columns are repeated ("tiled").
Leaks and copies are 1 and 5 % of rows.
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
TABLES = (
    "2dplanes",
    "click",
    "cpu",
    "creditcard",
    "fraud",
    "phoneme",
    "pol",
    "wind",
    "apsfail_subset",
    "wine_quality_white",
    "california_housing",
    "bike_sharing_hour",
    "yoruba_news",
    "youtube_spam",
    "mnist",
    "fmnist",
    "cifar10_catdog_features",
)
ROWS, SHARE = 2000, 0.02


def load(n=ROWS, seed=0):
    """Standardised rows and labels of each set, some of them drawn by lot."""
    rng, sets = np.random.default_rng(seed), {}
    for name in TABLES:
        file = np.load(DATA / f"{name}.npz", allow_pickle=False)
        X = file["X"] if "X" in file else file["x_train"]
        y = next(file[key] for key in ("y", "y_given", "y_train") if key in file)
        rows = rng.permutation(len(X))[:n]
        X, y = np.asarray(X[rows].reshape(len(rows), -1), dtype=np.float64), y[rows]
        spread = X.std(axis=0)
        y = y if y.dtype.kind in "biuUS" else (y > np.median(y)).astype(int)
        sets[name] = (X - X.mean(axis=0))[:, spread > 1e-9] / spread[spread > 1e-9], y
    return sets


def with_outliers(sets, fill, seed=0):
    """Each set with rows of the next one (digits with clothes and the other way round)."""
    rng, names = np.random.default_rng(seed), list(sets)
    for i, name in enumerate(names):
        X, y = sets[name]
        other = sets[{"mnist": "fmnist", "fmnist": "mnist"}.get(name, names[(i + 1) % len(names)])][
            0
        ]
        m, d = max(5, int(SHARE * len(X))), X.shape[1]
        Z = other[rng.permutation(len(other))[:m]]
        Z = (
            np.pad(Z, ((0, 0), (0, max(0, d - Z.shape[1]))))
            if fill == "padded"
            else np.tile(Z, (1, -(-d // Z.shape[1])))
        )
        planted = np.concatenate([np.zeros(len(X), bool), np.ones(m, bool)])
        yield name, np.concatenate([X, Z[:, :d]]), np.concatenate([y, rng.choice(y, m)]), planted


def average_precision(planted, scores):
    order = np.argsort(-scores, kind="stable")
    hits = planted[order]
    return float((np.cumsum(hits) / np.arange(1, len(hits) + 1))[hits].mean())


def near(rng, X, rows):
    """Rows moved by 1 % of the distance to their nearest other row."""
    from sklearn.neighbors import NearestNeighbors

    distances = (
        NearestNeighbors(n_neighbors=2, algorithm="brute").fit(X).kneighbors(X[rows])[0][:, 1:]
    )
    noise = rng.normal(size=(len(rows), X.shape[1]))
    return X[rows] + 0.01 * distances * noise / np.linalg.norm(noise, axis=1, keepdims=True)


def planted():
    import warnings

    import nearworth as nw

    warnings.simplefilter("ignore")
    sets, rng = load(), np.random.default_rng(1)
    print(
        "set | rows in groups before | exact found, invented | near found | leaks exact, near,"
        " others | outliers clean"
    )
    for name, (X, y) in sets.items():
        X, first = np.unique(X, axis=0, return_index=True)
        y, n = y[first], len(X)
        before = nw.scan(X, y)
        m = n // 20
        pick = rng.permutation(n)[: 2 * m]
        copies = np.concatenate(
            [X[pick[: m // 2]], X[pick[m // 2 : m]].astype(np.float32), near(rng, X, pick[m:])]
        )
        after = nw.scan(np.concatenate([X, copies]), np.concatenate([y, rng.choice(y, 2 * m)]))
        groups = {frozenset(map(int, g)) for g in after.duplicates.groups}
        together = {int(row): g for g in groups for row in g}
        pairs = [n + k in together.get(int(row), ()) for k, row in enumerate(pick)]
        exact = set(after.duplicates.rows[np.asarray(after.duplicates.columns["exact"])].tolist())
        invented = len(exact - set(pick[:m].tolist()) - set(range(n, n + m)))
        some = rng.permutation(n)
        train, val, k = some[: n // 2], some[n // 2 :], max(2, n // 100)
        X_val = np.concatenate([X[val], X[train[:k]], near(rng, X, train[k : 2 * k])])
        leaks = nw.scan(
            X[train], y[train], X_val=X_val, y_val=np.concatenate([y[val], y[train[: 2 * k]]])
        ).leakage.rows
        of = [
            int(((leaks >= a) & (leaks < b)).sum())
            for a, b in ((len(val), len(val) + k), (len(val) + k, len(X_val)))
        ]
        others = int((leaks < len(val)).sum())
        parts = [
            f"{name} ({n})",
            len(before.duplicates),
            f"{sum(pairs[:m])}/{m}, {invented}",
            f"{sum(pairs[m:])}/{m}",
        ]
        print(
            *parts,
            f"{of[0]}/{k}, {of[1]}/{k}, {others}",
            len(before.outliers),
            sep=" | ",
            flush=True,
        )
    for fill in ("padded", "tiled"):
        found = []
        for name, X, y, bad in with_outliers(sets, fill):
            outliers = nw.scan(X, y).outliers
            found.append(average_precision(bad, outliers.scores))
            listed = bad[outliers.rows]
            print(
                f"{fill} {name}: AP {found[-1]:.3f}, {len(listed)} listed, {int(listed.sum())} of"
                " them planted",
                flush=True,
            )
        print(f"{fill}: mean AP {np.mean(found):.3f}")


def datalab():
    from cleanlab import Datalab

    for fill in ("padded", "tiled"):
        found = []
        for name, X, _, bad in with_outliers(load(), fill):
            with contextlib.redirect_stdout(io.StringIO()):
                lab = Datalab({"row": np.arange(len(X)).tolist()})
                lab.find_issues(features=X, issue_types={"outlier": {}})
            issues = lab.get_issues("outlier")
            found.append(average_precision(bad, -issues["outlier_score"].to_numpy()))
            listed = bad[issues["is_outlier_issue"].to_numpy()]
            print(
                f"{fill} {name}: AP {found[-1]:.3f}, {len(listed)} listed, {int(listed.sum())} of"
                " them planted",
                flush=True,
            )
        print(f"{fill}: mean AP {np.mean(found):.3f}")


def clean():
    import warnings

    from sklearn.neighbors import NearestNeighbors

    import nearworth as nw

    warnings.simplefilter("ignore")
    rng, n_rows, n_found = np.random.default_rng(0), 0, 0
    for name, (X, y) in load().items():
        nearest = NearestNeighbors(n_neighbors=2).fit(X).kneighbors(X)[0][:, 1]
        far = np.maximum(nearest, np.median(nearest[nearest > 0])) / np.sqrt(X.shape[1])
        copies = nw.audit_labels(X + far[:, None] * rng.normal(size=X.shape), y).copies
        found = 0 if copies is None else sum(map(len, copies.groups))
        n_rows, n_found = n_rows + len(X), n_found + found
        print(f"{name}: {found} of {len(X):,} rows", flush=True)
    print(f"all: {n_found} of {n_rows:,} rows")


def million():
    from nearworth.audit.votes import first_copies

    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_000_000, 16))
    copies = np.concatenate([X[:500], X[500:1000].astype(np.float32)])
    start = time.process_time()
    first = first_copies(np.concatenate([X, copies]))
    wanted = np.concatenate([np.arange(1_000_000), np.arange(1000)])
    print(
        f"10^6 rows: {int((first != wanted).sum())} differ from what was planted,"
        f" {time.process_time() - start:.1f} s"
    )


def timed():
    import warnings

    import nearworth as nw

    warnings.simplefilter("ignore")
    for n, d in ((1000, 20), (5000, 30), (20_000, 30)):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n, d))
        y = (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)
        spent = {nw.audit_labels: [], nw.scan: []}
        for _ in range(3):
            for work, times in spent.items():
                start = time.process_time()
                work(X, y, n_jobs=1)
                times.append(time.process_time() - start)
        audit, scan = (min(times) for times in spent.values())
        print(
            f"{n} x {d}: audit {audit:.2f} s, scan {scan:.2f} s, ratio {scan / audit:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    {"planted": planted, "datalab": datalab, "clean": clean, "million": million, "time": timed}[
        sys.argv[1]
    ]()
