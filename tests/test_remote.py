"""Training sets behind addresses: fetched once to a machine, checked, mapped."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
import scipy.sparse

import nearworth as nw
from nearworth.engine import cluster, remote
from test_executors import Here
from test_long_runs import data, same

fsspec = pytest.importorskip("fsspec")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NEARWORTH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cluster._Latest, "name", None)
    return tmp_path / "cache"


def test_all_kinds_of_training_data(rng, tmp_path, cache):
    X, y, X_val, y_val = data(rng)
    np.save(tmp_path / "mapped.npy", X.astype(np.float32))
    sparse = scipy.sparse.csr_array
    for training, queries in (
        (X, X_val),
        (np.load(tmp_path / "mapped.npy", mmap_mode="r"), X_val),
        (sparse(X), sparse(X_val)),
    ):
        est = nw.KNNShapley(3).fit(training, y)
        for address in ("memory://somewhere/", f"file://{tmp_path}/there"):
            same(est.value(queries, y_val, executor=Here(), scratch=address), est.value(queries, y_val))
    assert len(list(cache.rglob("*.npy"))) == 3 + 4  # dense and mapped data are the same numbers


def test_a_file_is_fetched_once_whoever_asks(rng, monkeypatch):
    X, y, X_val, y_val = data(rng)
    fetched = []
    memory = fsspec.filesystem("memory")
    get = type(memory).get_file
    monkeypatch.setattr(type(memory), "get_file", lambda fs, a, b, **more: fetched.append(a) or get(fs, a, b, **more))
    est = nw.KNNShapley(3).fit(X, y)
    for _ in range(3):
        same(est.value(X_val, y_val, executor=Here(), scratch="memory://once"), est.value(X_val, y_val))
        cluster._Latest.name = None  # another process of the machine
    assert len(fetched) == 2


def test_processes_of_one_machine(rng, tmp_path, cache):
    X, y, X_val, y_val = data(rng, n_val=700)
    est = nw.KNNShapley(3).fit(X, y)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        same(est.value(X_val, y_val, executor=pool, scratch=f"file://{tmp_path}/there"), est.value(X_val, y_val))
    assert sorted(p.name for p in cache.rglob("*.npy")) == ["labels.npy", "points.npy"]


def test_damage_on_the_way_is_seen_and_mended(rng, tmp_path, cache):
    X, y, X_val, y_val = data(rng)
    est = nw.KNNShapley(3).fit(X, y)
    place = {"executor": Here(), "scratch": f"file://{tmp_path}/there"}
    est.value(X_val, y_val, **place)
    (path,) = cache.rglob("points.npy")
    changed = np.load(path)
    changed[3] += 1
    np.save(path, changed)
    cluster._Latest.name = None
    with pytest.raises(RuntimeError, match="are no longer what they were"):
        est.value(X_val, y_val, **place)
    same(est.value(X_val, y_val, **place), est.value(X_val, y_val))


def test_what_cannot_be_reached_is_refused(rng, monkeypatch):
    X, y, X_val, y_val = data(rng)
    est = nw.KNNShapley(3).fit(X, y)
    with pytest.raises(ValueError, match="scratch='nowhere://x/.*' cannot be reached: Protocol not known: nowhere"):
        est.value(X_val, y_val, executor=Here(), scratch="nowhere://x")
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(ImportError, match="needs fsspec"):
        est.value(X_val, y_val, executor=Here(), scratch="memory://x")


def test_a_cache_of_somebody_else_is_not_trusted(tmp_path, monkeypatch):
    monkeypatch.delenv("NEARWORTH_CACHE")
    monkeypatch.setattr(remote.tempfile, "gettempdir", lambda: str(tmp_path))
    assert remote._cache().stat().st_mode & 0o077 == 0
    monkeypatch.setattr(remote.os, "getuid", lambda: 4321)
    (tmp_path / "nearworth-cache-4321").mkdir()
    with pytest.raises(PermissionError, match="belongs to somebody else"):
        remote._cache()
