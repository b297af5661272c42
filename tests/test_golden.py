"""The numbers of today: every configuration gives what is stored in golden/values.npz, recorded by
golden/record.py.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nearworth as nw
from golden.configurations import (
    CONFIGURATIONS,
    TOLERANCE,
    compute,
    difference,
    generic,
    load,
    regression,
    tied,
)

STORED = load()


def test_exactly_these_configurations_are_stored():
    assert sorted(STORED) == sorted(CONFIGURATIONS)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_numbers_are_those_recorded(name, tmp_path):
    if "faiss" in name:
        pytest.importorskip("faiss")
    if name == "the paper's split":
        pytest.importorskip(
            "paper", reason="benchmarks/paper.py is not part of the source distribution"
        )
    found = compute(name, tmp_path)
    expected = STORED[name]
    wrong = {array: "not there any more" for array in expected if array not in found}
    wrong |= {array: "not recorded" for array in found if array not in expected}
    wrong |= {
        array: difference(array, expected[array], found[array])
        for array in expected
        if array in found
    }
    lines = [
        f"configuration {name!r}, array {array!r}: {what}" for array, what in wrong.items() if what
    ]
    assert not lines, "\n".join(lines)


def test_what_counts_as_a_difference():
    numbers = np.array([1.0, -4.0, np.nan, np.inf])
    assert difference("a", numbers, numbers.copy()) is None
    assert difference("a", numbers, numbers + 2 * TOLERANCE) is None
    assert "1 of 4 entries differ" in difference(
        "a", numbers, np.array([1.0 + 8 * TOLERANCE, -4.0, np.nan, np.inf])
    )
    assert difference("fitted a", numbers, np.array([1.0 + 1e-10, -4.0, np.nan, np.inf])) is None
    assert "first at (2,)" in difference("a", numbers, np.array([1.0, -4.0, 0.0, np.inf]))
    assert "first at (3,)" in difference("a", numbers, np.array([1.0, -4.0, np.nan, -np.inf]))
    assert "shape" in difference("a", numbers, numbers[:3])
    assert "type" in difference("a", np.arange(3), np.arange(3.0))
    assert "first at (1,)" in difference("a", np.array(["x", "y"]), np.array(["x", "z"]))
    assert "1 of 1" in difference("a", np.array(0.0), np.array(1e-15))
    assert difference("a", np.array([3e-18]), np.array([0.0])) is None


KINDS = {
    "classification": (tied, {}),
    "many rows": (generic, {}),
    "regression": (tied, {"task": "regression"}),
    "manhattan": (tied, {"metric": "manhattan", "utility": "original", "ties": "index"}),
    "nearest only": (generic, {"n_candidates": 11}),
}


def _parts(make, X, y, X_val, y_val, folder):
    est = make().fit(X, y)
    parts = [est.partial(X_val[i : i + 64], y_val[i : i + 64], start=i) for i in (128, 0, 64)]
    return nw.Valuation.from_partial(parts[0].merge(parts[1:]))


def _shards(make, X, y, X_val, y_val, folder):
    with ThreadPoolExecutor(2) as executor:
        return make().fit(X, y).value(X_val, y_val, executor=executor)


def _checkpoint(make, X, y, X_val, y_val, folder):
    est = make().fit(X, y)
    est.value(X_val, y_val, checkpoint=folder, checkpoint_interval=0)
    return est.value(X_val, y_val, checkpoint=folder)


def _in_two_goes(make, X, y, X_val, y_val, folder):
    est = make().fit(X, y)
    first = est.value(X_val[:77], y_val[:77])
    return est.value(X_val[77:], y_val[77:], continue_from=first)


def _with(**parameters):
    return lambda make, X, y, X_val, y_val, folder: make(**parameters).fit(X, y).value(X_val, y_val)


WAYS = {
    "two threads": _with(n_jobs=2),
    "little memory": _with(max_memory="3MB"),
    "much memory": _with(max_memory="2GB", n_jobs=2),
    "parts": _parts,
    "shards": _shards,
    "checkpoint": _checkpoint,
    "in two goes": _in_two_goes,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bits_however_the_work_is_done(kind, way, tmp_path):
    made, parameters = KINDS[kind]
    data = made(50, 2300 if kind == "many rows" else 150, 150)
    if kind == "regression":
        data = regression(data)

    def make(**others):
        return nw.KNNShapley(3, standard_errors=True, **{"n_jobs": 1} | parameters | others)

    expected = make().fit(*data[:2]).value(*data[2:])
    found = WAYS[way](make, *data, tmp_path)
    for array in ("values", "standard_errors", "lower", "upper"):
        one = getattr(expected, array)
        other = getattr(found, array)
        assert one.tobytes() == other.tobytes(), (
            f"configuration {kind!r}, way {way!r}, array {array!r}: other bits"
        )
