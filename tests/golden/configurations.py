"""What is recorded: calls of the public interface on small made-up data, each by a name, and what
they return.

`CONFIGURATIONS` maps names to functions of an empty folder; each returns arrays by name. Both the
test and `record.py` run them, so the stored numbers are always those of the same call. `difference`
is the rule by which they are compared. Data come from numpy's legacy generator, whose numbers never
change.
"""

from __future__ import annotations

import csv
import json
import math
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import nearworth as nw

STORED = Path(__file__).with_name("values.npz")
TOLERANCE = 1e-13  # of the largest magnitude of an array
FLOOR = 1e-16  # always allowed: some arrays are zero but for rounding
# Arrays so named come from fits. These end where the slope is rounding. Flat directions make more
# of that than sums do, but less than 1e-9, with scipy 1.16 and 1.17 and every OpenBLAS kernel
# tried.
FITTED = "fitted "
FITTED_TOLERANCE = 1e-9
Arrays = dict[str, Any]
CONFIGURATIONS: dict[str, Callable[[Path], Arrays]] = {}


def difference(name: str, expected: np.ndarray, found: np.ndarray) -> str | None:
    """What is wrong with an array, None if nothing.

    Whole numbers, truth values and text must be equal. Real numbers may differ by `TOLERANCE` times
    the largest finite magnitude of the expected array (`FITTED_TOLERANCE` if the name begins with
    "fitted "), and always by `FLOOR`; NaN and infinities must be in the same places.
    """
    if expected.shape != found.shape:
        return f"shape {found.shape} instead of {expected.shape}"
    if expected.dtype.kind != found.dtype.kind:
        return f"type {found.dtype} instead of {expected.dtype}"
    if expected.dtype.kind != "f":
        wrong = expected != found
        apart = ""
    else:
        finite = np.isfinite(expected)
        scale = float(np.abs(expected[finite]).max(initial=0.0))
        allowed = max(FLOOR, scale * (FITTED_TOLERANCE if name.startswith(FITTED) else TOLERANCE))
        equal = (expected == found) | (np.isnan(expected) & np.isnan(found))
        with np.errstate(invalid="ignore"):
            distance = np.where(equal, 0.0, np.abs(expected - found))
        wrong = ~(distance <= allowed)
        apart = f" by up to {np.max(distance, initial=0.0):.3g} where {allowed:.3g} is allowed"
    if not wrong.any():
        return None
    first = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
    shown = f"{found[first]!r} instead of {expected[first]!r}"
    return f"{wrong.sum()} of {wrong.size} entries differ{apart}; first at {first}: {shown}"


def compute(name: str, folder: Path) -> dict[str, np.ndarray]:
    """The arrays of one configuration, as they are stored."""
    return {
        array: _storable(value)
        for array, value in CONFIGURATIONS[name](folder).items()
        if value is not None
    }


def save(arrays: dict[str, dict[str, np.ndarray]]) -> None:
    """Store arrays by configuration and name: all of one type in one long vector, equal ones once,
    and an index.

    Hundreds of small arrays would take more room for their headers than for their numbers.
    """
    vectors: dict[str, list[np.ndarray]] = {"floats": [], "integers": [], "truths": [], "texts": []}
    sizes = dict.fromkeys(vectors, 0)
    places = {}
    index: dict[str, dict[str, Any]] = {}
    for configuration_name, named in arrays.items():
        index[configuration_name] = {}
        for array, values in named.items():
            vector = {"f": "floats", "i": "integers", "b": "truths", "U": "texts"}[
                values.dtype.kind
            ]
            content = (vector, values.dtype.str, values.tobytes())
            if content not in places:
                places[content] = sizes[vector]
                vectors[vector].append(values.ravel())
                sizes[vector] += values.size
            index[configuration_name][array] = [vector, places[content], list(values.shape)]
    joined = {
        vector: np.concatenate(parts) for vector, parts in vectors.items() if vector != "texts"
    }
    texts = [text for part in vectors["texts"] for text in part.tolist()]
    np.savez_compressed(STORED, index=_letters(index), texts=_letters(texts), **joined)


def load() -> dict[str, dict[str, np.ndarray]]:
    """The stored arrays by configuration and name."""
    with np.load(STORED, allow_pickle=False) as archive:
        vectors = {vector: archive[vector] for vector in ("floats", "integers", "truths")}
        index, texts = (json.loads(archive[name].tobytes()) for name in ("index", "texts"))
    vectors["texts"] = np.array(texts)
    return {
        name: {
            array: _storable(vectors[vector][start : start + math.prod(shape)].reshape(shape))
            for array, (vector, start, shape) in arrays.items()
        }
        for name, arrays in index.items()
    }


def _letters(content: Any) -> np.ndarray:
    return np.frombuffer(json.dumps(content, ensure_ascii=False).encode(), dtype=np.uint8)


def _storable(value: Any) -> np.ndarray:
    array = np.array(value)
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    if array.dtype.kind == "O":
        return array.astype(np.str_)
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def configuration(name: str) -> Callable[[Any], Any]:
    """Register a function under a name."""

    def register(function: Any) -> Any:
        assert name not in CONFIGURATIONS
        CONFIGURATIONS[name] = function
        return function

    return register


# Data


def generic(
    seed: int, n_train: int = 120, n_val: int = 90, d: int = 4, *, apart: float = 1.5
) -> tuple[Any, ...]:
    """Three clusters in which no two distances are equal, overlapping unless far apart; a tenth of
    the labels wrong.
    """
    rng = np.random.RandomState(seed)
    n_classes = 3
    centres = apart * rng.standard_normal((n_classes, d))
    y = rng.randint(0, n_classes, n_train)
    y_val = rng.randint(0, n_classes, n_val)
    X = centres[y] + rng.standard_normal((n_train, d))
    X_val = centres[y_val] + rng.standard_normal((n_val, d))
    wrong = rng.permutation(n_train)[: n_train // 10]
    y[wrong] = (y[wrong] + 1) % n_classes
    return X, y, X_val, y_val


def tied(seed: int, n_train: int = 120, n_val: int = 90, d: int = 2) -> tuple[Any, ...]:
    """Small whole numbers: many equal distances and identical rows, the labels nearly at random."""
    rng = np.random.RandomState(seed)
    n_classes = 3
    X = rng.randint(0, 5, (n_train, d))
    X_val = rng.randint(0, 5, (n_val, d))
    y = np.where(
        rng.uniform(size=n_train) < 0.5,
        X.sum(axis=1) % n_classes,
        rng.randint(0, n_classes, n_train),
    )
    return X, y, X_val, rng.randint(0, n_classes, n_val)


def targets(X: np.ndarray, seed: int) -> np.ndarray:
    """Numbers for regression that the features explain in part."""
    rng = np.random.RandomState(seed)
    return np.asarray(X, dtype=np.float64)[:, 0] ** 2 + X[:, -1] + 0.3 * rng.standard_normal(len(X))


def regression(data: tuple[Any, ...], seed: int = 0) -> tuple[Any, ...]:
    """The same points with targets instead of labels."""
    X, _, X_val, _ = data
    return X, targets(X, seed), X_val, targets(X_val, seed + 1)


# What is taken from results


def everything(v: Any, prefix: str = "") -> Arrays:
    """All numbers of a valuation."""
    inexact = v.error_bound > 0
    found = {
        "values": v.values,
        "standard errors": v.standard_errors,
        "lower": v.lower if inexact else None,
        "upper": v.upper if inexact else None,
        "error bound": v.error_bound,
        "contributions": v.contributions,
        "contribution rows": v.contribution_rows,
        "confidence": v.confidence,
        "sizes": [v.n_train, v.n_val, len(v)],
    }
    if v.search is not None:
        search = v.search
        found["search counts"] = [
            search.n_candidates,
            search.n_sampled,
            search.n_complete,
            search.incomplete,
        ]
        found["search recall"] = search.recall
        found["search failed"] = search.failed
    return {prefix + name: value for name, value in found.items()}


def thinned(values: np.ndarray, prefix: str = "", step: int = 10) -> Arrays:
    """Some of many numbers, and three sums in which each of them counts: as they are, their sizes,
    and weighted.
    """
    weights = np.cos(np.arange(len(values)))
    return {
        f"{prefix}some": values[::step].copy(),
        f"{prefix}sums": [values.sum(), np.abs(values).sum(), values @ weights],
    }


def taken_up(make: Callable[[Any], Any], call: Callable[[Any], Any], after: int) -> Any:
    """Stop a run after so many validation points, and let another one take it up."""

    class StoppedError(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done >= after:
            raise StoppedError

    try:
        call(make(stop))
    except StoppedError:
        pass
    else:
        raise AssertionError("the run was not interrupted")
    v = call(make(False))
    assert v.resumed > 0
    return v


# The four utilities and the semivalues

SEMIVALUES: dict[str, Any] = {
    "shapley": "shapley",
    "banzhaf": "banzhaf",
    "loo": "loo",
    "beta": ("beta", 4, 1),
}


def _game(task: str, utility: str, semivalue: str) -> Callable[[Path], Arrays]:
    def run(folder: Path) -> Arrays:
        data = generic(1, 60, 80), tied(2, 60, 80)
        if task == "regression":
            data = regression(data[0]), regression(data[1])
        parameters = {"task": task, "utility": utility, "semivalue": SEMIVALUES[semivalue]}
        return {
            "generic": nw.knn_shapley(*data[0], **parameters),
            "ties average": nw.knn_shapley(*data[1], **parameters),
            "ties index": nw.knn_shapley(*data[1], ties="index", **parameters),
            "K = 1": nw.knn_shapley(*data[1], n_neighbors=1, **parameters),
        }

    return run


for _names in product(("classification", "regression"), ("soft", "original"), SEMIVALUES):
    configuration(" ".join(_names))(_game(*_names))


@configuration("beta with other shapes")
def _(folder: Path) -> Arrays:
    data = generic(3, 80)
    return {
        f"{a} {b}": nw.knn_shapley(*data, n_neighbors=3, semivalue=("beta", a, b))
        for a, b in ((1, 16), (0.5, 2.5))
    }


@configuration("definition")
def _(folder: Path) -> Arrays:
    labels = [0, 1, 0, 1, 2]
    distances = [1, 2, 2, 3, 3]
    numbers = [1, 4, 2, 8, 5]
    found = {}
    for utility, task in product(("soft", "original"), ("classification", "regression")):
        data = (labels, 1) if task == "classification" else (numbers, 3)
        asked = {"n_neighbors": 2, "task": task, "utility": utility, "n_classes": 3}
        values = nw.exact_shapley(lambda s: nw.testing.knn_utility(s, distances, *data, **asked), 5)  # noqa: B023
        found[f"{utility} {task}"] = [str(value) for value in values]
    return found


# Metrics and kinds of data


def weighted_steps(a: Any, b: Any) -> float:
    """A metric of one's own."""
    return float(abs(a[0] - b[0]) + 0.5 * np.abs(a[1:] - b[1:]).sum())


def _metric(metric: Any, *, ties: bool, **parameters: Any) -> Callable[[Path], Arrays]:
    def run(folder: Path) -> Arrays:
        kinds = {"generic": generic(4, 110, 80, 5)} | (
            {"tied": tied(5, 110, 80, 3)} if ties else {}
        )
        found: Arrays = {}
        for kind, data in kinds.items():
            found[kind] = nw.knn_shapley(*data, metric=metric, **parameters)
            found[f"{kind} itself"] = nw.knn_shapley(*data[:2], metric=metric, **parameters)
            found[f"{kind} regression"] = nw.knn_shapley(
                *regression(data), metric=metric, task="regression", **parameters
            )
        return found

    return run


configuration("metric euclidean")(_metric("euclidean", ties=True))
configuration("metric manhattan")(_metric("manhattan", ties=True))
configuration("metric cosine")(_metric("cosine", ties=False))
configuration("metric correlation")(_metric("correlation", ties=False))
configuration("metric inner product")(_metric("inner_product", ties=True))
configuration("metric minkowski")(_metric("minkowski", ties=False, metric_params={"p": 3}))
configuration("metric of one's own")(_metric(weighted_steps, ties=True))


@configuration("metric nan euclidean")
def _(folder: Path) -> Arrays:
    X, y, X_val, y_val = generic(6, 110, 80, 6)
    rng = np.random.RandomState(0)
    for points in (X, X_val):
        others = points[:, 1:]  # two rows must have a number in common
        others[rng.uniform(size=others.shape) < 0.1] = np.nan
    return everything(nw.KNNShapley(metric="nan_euclidean").fit(X, y).value(X_val, y_val))


@configuration("metric precomputed")
def _(folder: Path) -> Arrays:
    X, y, X_val, y_val = tied(7, 110, 80)
    across, within = (np.abs(Q[:, None, :] - X[None, :, :]).max(axis=2) for Q in (X_val, X))
    return {
        "values": nw.KNNShapley(metric="precomputed").fit(None, y).value(across, y_val).values,
        "itself": nw.KNNShapley(metric="precomputed").fit(within, y).value().values,
        "regression": nw.KNNShapley(metric="precomputed", task="regression")
        .fit(None, X[:, 0])
        .value(across, y_val),
    }


def _dtype(dtype: Any) -> Callable[[Path], Arrays]:
    def run(folder: Path) -> Arrays:
        found: Arrays = {}
        for kind, (X, y, X_val, y_val) in {
            "generic": generic(8, 110, 80),
            "tied": tied(9, 110, 80),
        }.items():
            X, X_val = (100 * X, 100 * X_val) if np.dtype(dtype).kind == "i" else (X, X_val)
            for order in ("C", "F"):
                points, queries = (np.asarray(Z, dtype=dtype, order=order) for Z in (X, X_val))
                found[f"{kind} {order}"] = nw.knn_shapley(points, y, queries, y_val)
        return found

    return run


for _type in ("float64", "float32", "float16", "int64", "int16"):
    configuration(f"numbers {_type}")(_dtype(_type))


@configuration("sparse")
def _(folder: Path) -> Arrays:
    X, y, X_val, y_val = tied(10, 110, 80, 6)
    X = np.where(X > 2, X, 0)
    X_val = np.where(X_val > 2, X_val, 0)
    points = scipy.sparse.csr_array(X.astype(float))
    queries = scipy.sparse.csr_array(X_val.astype(float))
    return {
        "values": nw.knn_shapley(points, y, queries, y_val),
        "columns": nw.knn_shapley(scipy.sparse.csc_array(points), y, queries, y_val),
        "itself": nw.knn_shapley(points, y),
        "manhattan": nw.knn_shapley(points, y, queries, y_val, metric="manhattan"),
    }


@configuration("frames")
def _(folder: Path) -> Arrays:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    X, y, X_val, y_val = generic(11, 80, 70)
    names = ["a", "b", "c", "d"]
    labels = np.array(["red", "green", "blue"])
    frame = pd.DataFrame(X, columns=names)
    other = pd.DataFrame(X_val, columns=names)
    v = nw.KNNShapley().fit(frame, pd.Series(labels[y])).value(other, pd.Series(labels[y_val]))
    polars = nw.knn_shapley(
        pl.DataFrame(X, schema=names), labels[y], pl.DataFrame(X_val, schema=names), labels[y_val]
    )
    arrow = nw.knn_shapley(
        pa.table(dict(zip(names, X.T, strict=True))),
        y,
        pa.table(dict(zip(names, X_val.T, strict=True))),
        y_val,
    )
    return {
        "pandas": v.values,
        "polars": polars,
        "pyarrow": arrow,
        "columns": list(v.to_frame().columns),
        "frame": v.to_frame()["value"].to_numpy(),
    }


@configuration("from files in little memory")
def _(folder: Path) -> Arrays:
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y, X_val, y_val = generic(12, 2600, 70, 12)
    X = X.astype(np.float32)
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    pq.write_table(
        pa.table({"embedding": X.tolist(), "label": y}),
        folder / "train.parquet",
        row_group_size=500,
    )
    small = {"max_memory": "2MB", "n_jobs": 1}
    found = {
        "path": nw.knn_shapley(folder / "X.npy", folder / "y.npy", X_val, y_val, **small),
        "map": nw.knn_shapley(
            np.load(folder / "X.npy", mmap_mode="r"), y, X_val, y_val, metric="manhattan", **small
        ),
        "parquet": nw.knn_shapley(
            folder / "train.parquet", "label", X_val, y_val, semivalue="banzhaf", **small
        ),
        "truncated": nw.knn_shapley(folder / "X.npy", y, X_val, y_val, n_candidates=30, **small),
    }
    return {
        key: value
        for name, values in found.items()
        for key, value in thinned(values, f"{name} ", 20).items()
    }


# Corners


@configuration("more neighbours than rows")
def _(folder: Path) -> Arrays:
    found: Arrays = {}
    for utility, task in product(("soft", "original"), ("classification", "regression")):
        data = tied(13, 7, 70) if task == "classification" else regression(tied(13, 7, 70))
        for K in (7, 8, 50):
            found[f"{utility} {task} {K}"] = nw.knn_shapley(
                *data, n_neighbors=K, utility=utility, task=task
            )
    return found


@configuration("one row")
def _(folder: Path) -> Arrays:
    found: Arrays = {}
    for (utility, task), K in product(
        product(("soft", "original"), ("classification", "regression")), (1, 3)
    ):
        y, y_val = ([1], [1, 1]) if task == "classification" else ([2.5], [1.0, 4.0])
        found[f"{utility} {task} {K}"] = nw.knn_shapley(
            [[0.5]], y, [[1.0], [2.0]], y_val, n_neighbors=K, utility=utility, task=task
        )
    return found


@configuration("one class")
def _(folder: Path) -> Arrays:
    X, y, X_val, y_val = generic(14, 60, 70)
    return {
        "one of one": nw.knn_shapley(X, 0 * y, X_val, 0 * y_val),
        "one of four": nw.knn_shapley(X, 0 * y, X_val, 0 * y_val, n_classes=4),
        "original": nw.knn_shapley(X, 0 * y, X_val, 0 * y_val, utility="original"),
        "three of five": nw.knn_shapley(X, y, X_val, y_val, n_classes=5),
    }


@configuration("labels never seen")
def _(folder: Path) -> Arrays:
    X, y, X_val, y_val = generic(15, 80, 70)
    y_val = np.where(np.arange(70) % 5 == 0, 9, y_val)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return {
            utility: nw.knn_shapley(X, y, X_val, y_val, utility=utility, n_neighbors=3)
            for utility in ("soft", "original")
        }


@configuration("text and truth values as labels")
def _(folder: Path) -> Arrays:
    X, y, X_val, y_val = generic(16, 80, 70)
    names = np.array(["zebra", "ant", "Möwe"])
    est = nw.KNNShapley().fit(X, names[y])
    return {
        "text": est.value(X_val, names[y_val]).values,
        "classes": est.classes_,
        "lists": nw.knn_shapley(
            X.tolist(), names[y].tolist(), X_val.tolist(), names[y_val].tolist()
        ),
        "truth": nw.knn_shapley(X, y > 0, X_val, y_val > 0),
    }


@configuration("far from the origin")
def _(folder: Path) -> Arrays:
    X, y, X_val, y_val = tied(17, 110, 80)
    Z, _, Z_val, _ = generic(18, 110, 80)
    return {
        "tied": nw.knn_shapley(X + 2.0**40, y, X_val + 2.0**40, y_val),
        "generic": nw.knn_shapley(Z + 1e6, y, Z_val + 1e6, y_val),
        "large": nw.knn_shapley(Z * 1e148, y, Z_val * 1e148, y_val),
        "small": nw.knn_shapley(Z * 1e-140, y, Z_val * 1e-140, y_val),
        "narrow": nw.knn_shapley(
            (Z + 1e3).astype(np.float32), y, (Z_val + 1e3).astype(np.float32), y_val
        ),
    }


# Many rows: from 2,048 on, with 8 validation points or more, distances begin with a matrix product


def _many(n_train: int, data: Any, **parameters: Any) -> Callable[[Path], Arrays]:
    def run(folder: Path) -> Arrays:
        made = data(19, n_train, 70, 8)
        if parameters.get("task") == "regression":
            made = regression(made)
        v = nw.KNNShapley(standard_errors=True, **parameters).fit(*made[:2]).value(*made[2:])
        return thinned(v.values) | thinned(v.standard_errors, "errors ", 40)

    return run


configuration("2,047 rows")(_many(2047, generic))
configuration("2,048 rows")(_many(2048, generic))
configuration("3,000 rows")(_many(3000, generic))
configuration("3,000 rows tied")(_many(3000, tied, n_neighbors=10))
configuration("3,000 rows tied by index")(_many(3000, tied, ties="index", utility="original"))
configuration("3,000 rows banzhaf")(_many(3000, generic, semivalue="banzhaf"))
configuration("3,000 rows cosine")(_many(3000, generic, metric="cosine"))
configuration("3,000 rows correlation")(_many(3000, generic, metric="correlation"))
configuration("3,000 rows inner product")(_many(3000, tied, metric="inner_product"))
configuration("3,000 rows regression")(_many(3000, generic, task="regression"))


@configuration("3,000 rows of 32 bits, and few questions")
def _(folder: Path) -> Arrays:
    X, y, X_val, y_val = generic(20, 3000, 70, 8)
    X = (X + 50).astype(np.float32)
    X_val = (X_val + 50).astype(np.float32)
    many = nw.knn_shapley(X, y, X_val, y_val)
    few = nw.knn_shapley(X, y, X_val[:5], y_val[:5])
    return thinned(many, "many ") | thinned(few, "few ")


@configuration("2,500 rows valued on each other")
def _(folder: Path) -> Arrays:
    X, y, _, _ = generic(21, 2500, 1, 6)
    return thinned(nw.knn_shapley(X, y), step=20)


# What value() can do


@configuration("valued on each other")
def _(folder: Path) -> Arrays:
    found: Arrays = {}
    weights = np.random.RandomState(0).uniform(0.5, 2, 130)
    for kind, data in {"generic": generic(22, 130), "tied": tied(23, 130)}.items():
        est = nw.KNNShapley(3, standard_errors=True).fit(*data[:2])
        found |= everything(est.value(contributions=[0, 5, 129]), f"{kind} ")
        found[f"{kind} weighted"] = est.value(sample_weight=weights).values
        est = nw.KNNShapley(3, task="regression", ties="index").fit(*regression(data)[:2])
        found[f"{kind} regression"] = est.value().values
    return found


@configuration("weights of validation points")
def _(folder: Path) -> Arrays:
    X, y, X_val, y_val = generic(24, 100, 90)
    weights = np.random.RandomState(0).uniform(0.2, 3, 90)
    some = np.where(np.arange(90) % 4 == 0, 0.0, weights)
    found = {"with zeros": nw.knn_shapley(X, y, X_val, y_val, sample_weight=some)}
    for aggregate in ("mean", "sum"):
        est = nw.KNNShapley(aggregate=aggregate, standard_errors=True).fit(X, y)
        found |= everything(est.value(X_val, y_val, weights), f"{aggregate} ")
    return found


@configuration("standard errors and sums")
def _(folder: Path) -> Arrays:
    found: Arrays = {}
    for task, utility in product(("classification", "regression"), ("soft", "original")):
        data = tied(25, 90, 150) if task == "classification" else regression(tied(25, 90, 150))
        for aggregate in ("mean", "sum"):
            est = nw.KNNShapley(
                task=task, utility=utility, aggregate=aggregate, standard_errors=True
            ).fit(*data[:2])
            v = est.value(*data[2:])
            found |= {
                f"{task} {utility} {aggregate}": v.values,
                f"{task} {utility} {aggregate} e": v.standard_errors,
            }
    return found


@configuration("contributions")
def _(folder: Path) -> Arrays:
    X, y, X_val, y_val = tied(26, 50, 70)
    est = nw.KNNShapley(standard_errors=True).fit(X, y)
    few = nw.KNNShapley(n_candidates=8).fit(*generic(26, 50, 70)[:2])
    return (
        everything(est.value(X_val, y_val, contributions="all"), "all ")
        | everything(
            est.value(X_val, y_val, np.arange(1.0, 71.0), contributions=slice(3, 9)), "weighted "
        )
        | everything(few.value(*generic(26, 50, 70)[2:], contributions=[7, 1]), "truncated ")
    )


# Only the nearest


def _truncated(tail: str) -> Callable[[Path], Arrays]:
    def run(folder: Path) -> Arrays:
        found: Arrays = {}
        for utility, kind in product(("soft", "original"), ("generic", "tied")):
            X, y, X_val, y_val = (generic if kind == "generic" else tied)(27, 100, 80)
            est = nw.KNNShapley(
                3, utility=utility, n_candidates=15, tail=tail, standard_errors=kind == "generic"
            )
            found |= everything(est.fit(X, y).value(X_val, y_val), f"{utility} {kind} ")
        return found

    return run


for _tail in ("local", "minimax", "mean", "paper"):
    configuration(f"nearest only, tail {_tail}")(_truncated(_tail))


@configuration("nearest only, other games")
def _(folder: Path) -> Arrays:
    X, y, X_val, y_val = generic(28, 100, 80)
    found: Arrays = {}
    for semivalue in ("banzhaf", "loo", "beta"):
        est = nw.KNNShapley(3, n_candidates=12, semivalue=SEMIVALUES[semivalue]).fit(X, y)
        found |= everything(est.value(X_val, y_val), f"{semivalue} ")
    found |= everything(
        nw.KNNShapley(3, n_candidates=12, ties="index").fit(X, y).value(), "itself "
    )
    est = nw.KNNShapley(3, n_candidates=12, metric="manhattan", aggregate="sum", search="auto").fit(
        X, y
    )
    return found | everything(est.value(X_val, y_val), "manhattan ")


@configuration("nearest only, 3,000 rows")
def _(folder: Path) -> Arrays:
    found: Arrays = {}
    for kind, metric in (("generic", "euclidean"), ("tied", "euclidean"), ("generic", "cosine")):
        X, y, X_val, y_val = (generic if kind == "generic" else tied)(29, 3000, 70, 6)
        v = nw.KNNShapley(n_candidates=40, metric=metric).fit(X, y).value(X_val, y_val)
        for end in ("values", "lower", "upper"):
            found |= thinned(getattr(v, end), f"{kind} {metric} {end} ", 60)
        found[f"{kind} {metric} error bound"] = v.error_bound
    return found


# Searchers


class Forgetful:
    """A searcher of one's own: it misses the nearest row, and finds nothing for some."""

    random_state = 3

    def fit(self, X: Any) -> Forgetful:
        self._points = np.asarray(X, dtype=np.float64)
        return self

    def search(self, Q: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        found, far = brute_force(self._points, Q, k + 1)
        found[np.abs(np.asarray(Q)[:, 0]) > 3] = -1
        return found[:, 1:], np.where(found[:, 1:] < 0, np.inf, far[:, 1:])

    def fingerprint(self) -> str:
        return "forgets the nearest"


def brute_force(X: Any, Q: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers and distances of the k nearest."""
    far = np.sqrt(((np.asarray(Q)[:, None, :] - np.asarray(X)[None, :, :]) ** 2).sum(axis=2))
    found = np.argsort(far, axis=1, kind="stable")[:, :k]
    return found, np.take_along_axis(far, found, axis=1)


def _graph(X: Any, X_val: Any) -> Any:
    found, far = brute_force(X, X_val, 15)
    found[::7, 10:] = -1
    return nw.GraphSearch(found, far)


def _partial(X: Any, X_val: Any) -> Any:
    searcher = nw.LSHSearch(4, 4, 2.0, random_state=1)
    searcher.on_fail = "partial"
    return searcher


SEARCHERS: dict[str, Callable[[Any, Any], Any]] = {
    "search lsh": _partial,
    "search lsh by name": lambda X, X_val: "lsh",
    "search graph": _graph,
    "search of one's own": lambda X, X_val: Forgetful(),
    "search faiss flat": lambda X, X_val: nw.FaissSearch("Flat"),
    "search faiss lists": lambda X, X_val: nw.FaissSearch(
        "IVF4,Flat", recall=0.9999
    ),  # all of them, however they are cut
    "search faiss by name": lambda X, X_val: "faiss",
}


def _searched(name: str) -> Callable[[Path], Arrays]:
    def run(folder: Path) -> Arrays:
        X, y, X_val, y_val = generic(31, 350, 300)
        weights = np.random.RandomState(0).uniform(0.5, 2, 300)
        given = {"n_candidates": 12, "random_state": 7, "standard_errors": True}

        def make(progress: Any) -> Any:
            return nw.KNNShapley(
                3, search=SEARCHERS[name](X, X_val), progress=progress, n_jobs=1, **given
            ).fit(X, y)

        kept = taken_up(
            make, lambda est: est.value(X_val, y_val, weights, checkpoint=folder / "run"), 150
        )
        return everything(make(False).value(X_val, y_val, weights)) | everything(kept, "taken up ")

    return run


for _name in SEARCHERS:
    configuration(_name)(_searched(_name))


@configuration("search asked directly")
def _(folder: Path) -> Arrays:
    X, y, X_val, y_val = generic(32, 400, 300)
    lsh = nw.LSHSearch(random_state=0).fit(X).prepare(5)
    indices, distances = lsh.search(X_val[:60], 5)
    with_error = nw.KNNShapley(
        2, search=nw.LSHSearch(6, 3, 4.0, random_state=2), max_error=0.2, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # only more than 0.2 is certain
        v = with_error.fit(X, y).value(X_val, y_val)
    return {
        "lsh indices": indices,
        "lsh distances": distances,
        "lsh tables and hashes": (
            lsh.tuning.parameters["n_tables"],
            lsh.tuning.parameters["n_hashes"],
        ),
        "lsh width": lsh.tuning.parameters["width"],
        "lsh itself": nw.KNNShapley(3, search="lsh", n_candidates=6, random_state=0)
        .fit(X, y)
        .value()
        .values,
    } | everything(v, "max error ")


# Long runs


@configuration("checkpoints")
def _(folder: Path) -> Arrays:
    found: Arrays = {}
    kinds = {
        "exact": {},
        "nearest": {"n_candidates": 9},
        "regression": {"task": "regression", "metric": "manhattan"},
    }
    for kind, parameters in kinds.items():
        data = tied(33, 60, 330) if kind != "regression" else regression(tied(33, 60, 330))
        weights = np.random.RandomState(0).uniform(0.5, 2, 330)

        def make(progress: Any, data: Any = data, parameters: Any = parameters) -> Any:
            return nw.KNNShapley(
                3, standard_errors=True, progress=progress, n_jobs=1, **parameters
            ).fit(*data[:2])

        def call(est: Any, data: Any = data, kind: str = kind, weights: Any = weights) -> Any:
            return est.value(*data[2:], weights, checkpoint=folder / kind)

        found |= everything(taken_up(make, call, 150), f"{kind} ")
    return found


@configuration("going on with more validation points")
def _(folder: Path) -> Arrays:
    X, y, X_val, y_val = tied(34, 80, 230)
    est = nw.KNNShapley(3, standard_errors=True).fit(X, y)
    first = est.value(X_val[:100], y_val[:100])
    first.partial.save(folder / "first.part")
    kept = nw.Partial.load(folder / "first.part")
    other = est.value(X_val[100:], y_val[100:])
    added = first + other
    first.save(folder / "first.npz")
    return (
        everything(est.value(X_val[100:], y_val[100:], continue_from=first), "valuation ")
        | everything(est.value(X_val[100:], y_val[100:], continue_from=kept), "part ")
        | everything(added, "added ")
        | everything(nw.Valuation.load(folder / "first.npz"), "loaded ")
    )


@configuration("parts")
def _(folder: Path) -> Arrays:
    found: Arrays = {}
    for kind, parameters in {
        "exact": {"standard_errors": True},
        "nearest": {"n_candidates": 9},
    }.items():
        X, y, X_val, y_val = tied(35, 80, 230)
        est = nw.KNNShapley(3, **parameters).fit(X, y)
        for start, stop in ((0, 64), (64, 192), (192, 230)):
            est.partial(X_val[start:stop], y_val[start:stop], start=start).save(
                folder / f"{kind} {start}.part"
            )
        last, first, middle = (
            nw.Partial.load(folder / f"{kind} {start}.part") for start in (192, 0, 64)
        )
        found |= everything(nw.Valuation.from_partial(last.merge([first, middle])), f"{kind} ")
        found[f"{kind} ranges"] = last.merge(first).ranges
    return found


@configuration("executors")
def _(folder: Path) -> Arrays:
    X, y, X_val, y_val = generic(36, 90, 300)
    found: Arrays = {}
    with ThreadPoolExecutor(2) as executor:
        for kind, parameters in {
            "exact": {"standard_errors": True},
            "nearest": {"n_candidates": 9},
        }.items():
            est = nw.KNNShapley(3, **parameters).fit(X, y)
            found |= everything(
                est.value(X_val, y_val, executor=executor, scratch=folder / kind), f"{kind} "
            )
        found["itself"] = est.value(executor=executor).values
    return found


# From values to decisions


@configuration("owners")
def _(folder: Path) -> Arrays:
    found: Arrays = {}
    kinds = {
        "exact": {"standard_errors": True},
        "nearest": {"standard_errors": True, "n_candidates": 10},
        "no e": {},
    }
    owners = np.array(["ann", "bob", "cy", "ann", "dee"])[np.arange(120) % 5]
    for kind, parameters in kinds.items():
        X, y, X_val, y_val = generic(37, 120, 150)
        v = nw.KNNShapley(3, **parameters).fit(X, y).value(X_val, y_val)
        table = v.sum_by(owners)
        found[f"{kind} owners"] = list(table)
        found[f"{kind} columns"] = list(table.to_frame("pandas").columns)
        for field in ("total", "standard_error", "share", "n_rows", "lower", "upper"):
            found[f"{kind} {field}"] = [getattr(row, field) for row in table.values()]
    return found


@configuration("rules and rankings")
def _(folder: Path) -> Arrays:
    X, y, X_val, y_val = generic(38, 200, 150)
    v = nw.KNNShapley(5).fit(X, y).value(X_val, y_val)
    found: Arrays = {
        "values": v.values,
        "top": v.top(20),
        "bottom": v.bottom(20),
        "ranking": v.order,
        "columns": list(v.to_frame("pandas").columns),
        "rank": v.to_frame("pandas")["rank"].to_numpy(),
    }
    for rule, fraction in (
        ("ranking", None),
        ("ranking", 0.25),
        ("cluster", None),
        ("lower-cluster", None),
    ):
        detection = v.detect(rule, fraction=fraction)
        name = rule if fraction is None else f"{rule} {fraction}"
        found |= {f"{name} mask": detection.mask, f"{name} threshold": detection.threshold}
    return found


@configuration("label noise")
def _(folder: Path) -> Arrays:
    y = np.array(["ant", "bee", "cow", "dog"])[np.random.RandomState(0).randint(0, 4, 100)]
    return {
        kind: nw.add_label_noise(y, 0.2, kind, random_state=5)
        for kind in ("uniform", "pair", "class-dependent")
    }


@configuration("the paper's split")
def _(folder: Path) -> Arrays:
    import paper  # of the folder benchmarks

    X, _, _, _ = generic(40, 3000, 1, 3)
    y = (np.arange(3000) % 5 < 2).astype(np.int64)
    dataset = paper.PaperDataset(
        name="made up",
        X=X,
        y=y,
        X_test=None,
        y_test=None,
        source="nowhere",
        verified=False,
        stand_in=None,
        balanced=False,
    )
    found: Arrays = {}
    for protocol, flip in (("table", "first"), ("released", "last")):
        split = paper.make_split(dataset, protocol, n_val=100, flip=flip)
        v = nw.KNNShapley(5).fit(split.X, split.y).value(split.X_val, split.y_val)
        found |= thinned(split.X[:, 0], f"{protocol} X ", 50) | thinned(
            v.values, f"{protocol} values ", 50
        )
        found |= {
            f"{protocol} y": np.flatnonzero(split.y),
            f"{protocol} flipped": np.flatnonzero(split.flipped)[::20],
        }
    return found


# Audits


def audited(audit: Any, prefix: str = "") -> Arrays:
    """All numbers of an audit; those that optimisers fitted are named so."""
    worst = int(audit.order[0])
    told = audit.explain(worst)
    count = audit.n_errors
    found: Arrays = {
        "value": audit.value,
        "agreement": audit.agreement,
        "given": audit.given,
        "issues": np.flatnonzero(audit.is_label_issue),
        "worst": audit.order[: len(audit) // 10],
        "suspects": audit.suspects(),
        "suspects by fraction": audit.suspects(fraction=0.1),
        "suspects by fdr": audit.suspects(max_fdr=0.2),
        "suspects by large fdr": audit.suspects(max_fdr=0.4),
        "suspects by rule": audit.suspects(rule="lower-cluster"),
        "columns": list(audit.to_frame("pandas").columns),
        "fitted quality": audit.quality,
        "fitted confidence": audit.confidence,
        "fitted errors": [
            np.nan if count.estimate is None else count.estimate,
            count.lower,
            count.upper,
        ],
        "fitted probabilities": audit.label_probabilities,
        "fitted range": audit.suggested_range,
        "fitted explanation": [told.probability_right, told.confidence],
        "explained value": told.value,
        "explained labels": list(told.value_by_label),
        "explained values": list(told.value_by_label.values()),
        "explained neighbours": [neighbour.row for neighbour in told.neighbors],
        "explained distances": [neighbour.distance for neighbour in told.neighbors],
        "explained hurt": [
            effect.row for effect in told.hurt
        ],  # of those helped, several are helped alike
        "explained effects": [effect.value for effect in (*told.helped, *told.hurt)],
    }
    found["suggested" if audit.classes is not None else "fitted suggested"] = audit.suggested
    if not told.value_by_label:
        del found["explained labels"], found["explained values"]
    return {_named(prefix, name): value for name, value in found.items()}


def _named(prefix: str, name: str) -> str:
    return FITTED + prefix + name.removeprefix(FITTED) if name.startswith(FITTED) else prefix + name


def _animals(codes: np.ndarray) -> np.ndarray:
    return np.array(["ant", "bee", "cow"])[codes]


@configuration("audit")
def _(folder: Path) -> Arrays:
    X, y, _, _ = generic(41, 240, 1, 6, apart=3)
    return audited(nw.audit_labels(X, _animals(y)))


@configuration("audit with trusted rows and probabilities")
def _(folder: Path) -> Arrays:
    X, y, X_val, y_val = generic(42, 160, 60, 6, apart=3)
    centres = np.array([X_val[y_val == label].mean(axis=0) for label in range(3)])
    nearness = 1 / ((X[:, None, :] - centres) ** 2).sum(axis=2)
    probabilities = nearness / nearness.sum(axis=1, keepdims=True)
    return audited(
        nw.audit_labels(X, _animals(y), n_neighbors=5, X_val=X_val, y_val=_animals(y_val)),
        "trusted ",
    ) | audited(
        nw.audit_labels(X, _animals(y), pred_probs=probabilities, metric="manhattan"), "model "
    )


@configuration("audit of targets")
def _(folder: Path) -> Arrays:
    X, _, _, _ = generic(43, 240, 1, 2)
    y = targets(X, 0)
    y[::17] += 15.0
    return audited(nw.audit_labels(X, y, task="regression"))


# The command line


def run_command(folder: Path, *arguments: str) -> None:
    """Run `nearworth` with these arguments; it must succeed."""
    from click.testing import CliRunner

    from nearworth.cli import main

    result = CliRunner().invoke(main, [*arguments], prog_name="nearworth", catch_exceptions=False)
    assert result.exit_code == 0, result.output


def write_table(path: Path, columns: dict[str, Any]) -> None:
    """A CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def read_table(path: Path, prefix: str, leave_out: tuple[str, ...] = ()) -> Arrays:
    """The names of the columns, and each column as numbers if it has only such."""
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    found: Arrays = {f"{prefix}columns": header}
    for name, cells in zip(
        header, zip(*rows, strict=True) if rows else [()] * len(header), strict=True
    ):
        if name not in leave_out:
            fitted = FITTED if name in ("quality", "suggested") else ""
            found[_named(prefix, f"{fitted}{name}")] = _parsed(cells)
    return found


def _parsed(cells: tuple[str, ...]) -> np.ndarray:
    for kind in (int, float):
        try:
            return np.array([kind(cell) for cell in cells])
        except ValueError:
            pass
    return np.array(cells)


def flowers(seed: int, n: int) -> dict[str, Any]:
    """A table with names, numbers, a category, labels and a number to predict."""
    X, y, _, _ = generic(seed, n, 1, 2, apart=5)
    rng = np.random.RandomState(seed)
    return {
        "name": [f"flower {i}" for i in range(n)],
        "length": X[:, 0].round(6),
        "width": X[:, 1].round(6),
        "garden": np.array(["north", "south", "west"])[rng.randint(0, 3, n)],
        "height": (X[:, 0] + 0.1 * rng.standard_normal(n)).round(6),
        "species": np.array(["iris", "rose", "tulip"])[y],
    }


@configuration("command value")
def _(folder: Path) -> Arrays:
    write_table(folder / "train.csv", flowers(44, 90))
    write_table(folder / "trusted.csv", flowers(45, 70))
    train = str(folder / "train.csv")
    trusted = str(folder / "trusted.csv")
    species = ["-t", "species", "--ignore", "height"]
    height = ["-t", "height", "--ignore", "species"]
    named = ["--id", "name", "-q"]
    run_command(
        folder,
        "value",
        train,
        *species,
        *named,
        "--validation",
        trusted,
        "-o",
        str(folder / "a.csv"),
    )
    run_command(folder, "value", train, *species, *named, "-k", "3", "-o", str(folder / "b.csv"))
    run_command(
        folder, "value", train, *height, *named, "--task", "regression", "-o", str(folder / "c.csv")
    )
    return (
        read_table(folder / "a.csv", "trusted ")
        | read_table(folder / "b.csv", "itself ", ("name",))
        | read_table(folder / "c.csv", "regression ", ("name",))
    )


@configuration("command detect and apply")
def _(folder: Path) -> Arrays:
    columns = flowers(46, 150)
    write_table(folder / "train.csv", columns)
    train = str(folder / "train.csv")
    species = ["-t", "species", "--ignore", "height", "--id", "name", "-q"]
    height = ["-t", "height", "--ignore", "species", "--id", "name", "-q"]
    run_command(folder, "audit", train, *species, "--fraction", "0.1", "-o", str(folder / "a.csv"))
    run_command(
        folder,
        "audit",
        train,
        *species,
        "--ignore",
        "garden",
        "--max-fdr",
        "0.3",
        "-o",
        str(folder / "b.csv"),
    )
    run_command(
        folder,
        "audit",
        train,
        *height,
        "--task",
        "regression",
        "--fraction",
        "0.1",
        "-o",
        str(folder / "c.csv"),
    )
    with (folder / "a.csv").open(newline="", encoding="utf-8") as file:
        suspects = list(csv.DictReader(file))
    decisions = {
        "row": [suspect["row"] for suspect in suspects],
        "id": [suspect["name"] for suspect in suspects],
        "id_column": ["name"] * len(suspects),
        "target": ["species"] * len(suspects),
        "given": [suspect["given"] for suspect in suspects],
        "decision": ["relabel" if i % 3 else "confirm" for i in range(len(suspects))],
        "label": [
            suspect["suggested"] if i % 3 else suspect["given"]
            for i, suspect in enumerate(suspects)
        ],
        "of_rows": [150] * len(suspects),
    }
    write_table(folder / "decisions.csv", decisions)
    run_command(
        folder, "apply", str(folder / "decisions.csv"), train, "-o", str(folder / "clean.csv"), "-q"
    )
    return (
        read_table(folder / "a.csv", "worst ", ("why",))
        | read_table(folder / "b.csv", "by fdr ", ("why",))
        | read_table(folder / "c.csv", "regression ", ("why",))
        | read_table(
            folder / "clean.csv", "applied ", ("name", "length", "width", "garden", "height")
        )
    )


@configuration("command merge")
def _(folder: Path) -> Arrays:
    X, y, X_val, y_val = generic(47, 70, 150)
    est = nw.KNNShapley(3, standard_errors=True).fit(X, y)
    for start, stop in ((0, 128), (128, 150)):
        est.partial(X_val[start:stop], y_val[start:stop], start=start).save(
            folder / f"{start}.part"
        )
    parts = [str(folder / "128.part"), str(folder / "0.part")]
    for name in ("values.csv", "values.npz"):
        run_command(folder, "merge", *parts, "-o", str(folder / name))
    return read_table(folder / "values.csv", "table ") | everything(
        nw.Valuation.load(folder / "values.npz")
    )


@configuration("tables prepared")
def _(folder: Path) -> Arrays:
    import pyarrow as pa

    columns = flowers(48, 60)
    del columns["name"]
    preparer = nw.TablePreparer().fit(pa.table(columns))
    return {
        "numbers": preparer.transform(pa.table(columns)),
        "description": list(preparer.describe()),
    }
