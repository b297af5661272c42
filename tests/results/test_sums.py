"""Sums over validation points: right, steady against rounding, blind to points of weight zero; and
parts of them.

Parts give the same bits in any order and grouping, hold no point twice, and are read from files
whole or not at all.
"""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import nearworth as nw
from nearworth._common.files import read_archive, write_archive
from nearworth.results.sums import CHUNK, Leaf, Origin, SumTree, check_shapes, tree_of


def summed(values, weights, spread=True):
    leaf = Leaf(values.shape[1], spread=spread)
    for row, weight in zip(values, weights, strict=True):
        leaf.add_values(row, float(weight))
    return leaf


def test_large_means_do_not_drown_small_spreads(rng):
    values = 1e6 + 1e-6 * rng.normal(size=(500, 3))
    errors = summed(values, np.ones(500)).moments().standard_errors()
    np.testing.assert_allclose(errors, values.std(axis=0, ddof=1) / np.sqrt(500), rtol=1e-3)


def test_weights_of_zero_do_not_move_the_centre(rng):
    values = rng.normal(size=(6, 3))
    weights = np.array([1.0, 0, 2, 0, 0, 1])
    moments = summed(values[1:2], weights[1:2]).moments() + summed(values, weights).moments()
    assert (moments.count, moments.positive) == (7, 3)
    np.testing.assert_allclose(
        moments.centre, (weights**2 @ values) / (weights**2).sum(), rtol=1e-12
    )


@pytest.mark.parametrize(
    "parameters", [{}, {"task": "regression"}, {"n_candidates": 9}, {"aggregate": "sum"}]
)
def test_a_point_of_weight_zero_is_as_if_it_were_not_there(parameters, rng):
    """Also where it comes first, and where its own values are enormous."""
    X = rng.normal(size=(40, 2))
    y = rng.integers(0, 3, 40)
    X_val = rng.normal(size=(90, 2))
    y_val = rng.integers(0, 3, 90).astype(float)
    weights = rng.uniform(0.5, 2, 90)
    weights[[0, 1, 40, 64, 89]] = 0.0
    if "task" in parameters:
        y_val[[0, 40]] = 1e6
    there = weights > 0
    est = nw.KNNShapley(3, standard_errors=True, **parameters).fit(X, y)
    found = est.value(X_val, y_val, weights)
    expected = est.value(X_val[there], y_val[there], weights[there])
    for name in ("values", "standard_errors", "lower", "upper"):
        scale = np.abs(getattr(expected, name)).max()
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=0, atol=1e-13 * scale
        )
    owners = np.arange(40) % 3
    np.testing.assert_allclose(
        [row.standard_error for row in found.sum_by(owners).values()],
        [row.standard_error for row in expected.sum_by(owners).values()],
        rtol=1e-12,
    )
    assert found.n_val == 90
    alone = est.value(X_val, y_val, np.arange(90) == 7)
    assert np.isnan(alone.standard_errors).all()
    np.testing.assert_allclose(alone.values, est.value(X_val[7:8], y_val[7:8]).values, rtol=1e-13)


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("truncated", [False, True])
def test_moments_take_no_more_than_they_say(spread, truncated, rng):
    X = rng.normal(size=(1_000, 2))
    y = rng.integers(0, 2, 1_000)
    est = nw.KNNShapley(3, standard_errors=spread, n_candidates=9 if truncated else None).fit(X, y)
    moments = est.value(X[:10] + 0.1, y[:10]).moments
    size = sum(array.nbytes for array in moments.arrays.values())
    said = Leaf.bytes(1_000, spread=spread, with_ends=truncated)
    assert 0.75 * said <= size <= said


def test_arrays_that_no_sums_can_have(rng):
    arrays = summed(rng.normal(size=(4, 3)), np.ones(4)).moments().arrays
    for change in (
        {"spread": np.ones(2)},
        {"ends": np.ones((3, 3))},
        {"total": np.ones((1, 3))},
        {"centre": np.ones(3, "f4")},
    ):
        with pytest.raises(ValueError, match="has shape"):
            check_shapes({**arrays, **change})


def parts(rng, n_points, spread=True, origin=None, n_train=5):
    """One part for each leaf of random values of many sizes."""
    values = rng.normal(size=(n_points, n_train))
    weights = rng.uniform(0, 2, n_points)
    values *= np.repeat(10.0 ** rng.integers(-8, 8, n_points // CHUNK + 1), CHUNK)[:n_points, None]
    made = []
    for number, start in enumerate(range(0, n_points, CHUNK)):
        tree = SumTree()
        stop = start + CHUNK
        tree.add_leaf(number, summed(values[start:stop], weights[start:stop], spread))
        made.append(nw.Partial(origin, tree))
    return made


def total_of(part):
    return tree_of(part).finish()


def same(a, b):
    assert a.numbers == b.numbers
    assert a.arrays.keys() == b.arrays.keys()
    for name, array in a.arrays.items():
        np.testing.assert_array_equal(array, b.arrays[name])


@pytest.mark.parametrize("n_points", [64, 128, 192, 448, 512, 800])
def test_any_order_and_any_grouping_bit_for_bit(n_points, rng):
    pieces = parts(rng, n_points)
    expected = total_of(pieces[0].merge(pieces[1:]))
    for _ in range(10):
        groups = [
            [pieces[i] for i in group]
            for group in np.array_split(rng.permutation(len(pieces) - 1), 3)
        ]
        merged = [group[0].merge(group[1:]) for group in groups if group]
        merged = [merged[i] for i in rng.permutation(len(merged))]
        same(total_of(pieces[-1].merge(merged)), expected)


def test_the_sum_is_right(rng):
    values = rng.normal(size=(700, 5))
    w = rng.uniform(0, 2, 700)
    tree = SumTree()
    for number, start in enumerate(range(0, 700, CHUNK)):
        tree.add_leaf(number, summed(values[start : start + CHUNK], w[start : start + CHUNK]))
    result = tree.finish()
    mean = w @ values / w.sum()
    np.testing.assert_allclose(result.total / result.weight, mean, rtol=1e-12)
    errors = np.sqrt(700 / 699 * (w**2 @ (values - mean) ** 2)) / w.sum()
    np.testing.assert_allclose(result.standard_errors(), errors, rtol=1e-12)


def test_work_in_order_keeps_few_nodes(rng):
    tree = SumTree()
    leaf = summed(rng.normal(size=(CHUNK, 300)), np.ones(CHUNK), spread=False)
    empty = len(pickle.dumps(tree))
    tree.add_leaf(0, leaf)
    most = empty + 10 * (len(pickle.dumps(tree)) - empty)  # log2(1000) nodes
    for i in range(1, 1000):
        tree.add_leaf(i, leaf)
        if i % 111 == 0:
            assert len(pickle.dumps(tree)) <= most


def test_nothing_is_added_twice(rng):
    tree = SumTree()
    for n_points in (CHUNK, 3):
        number = tree.n_points // CHUNK
        leaf = summed(rng.normal(size=(n_points, 3)), np.ones(n_points))
        tree.add_leaf(number, leaf)
        with pytest.raises(
            ValueError, match=f"points {number * CHUNK} to .* are in more than one part"
        ):
            tree.add_leaf(number, leaf)


@pytest.mark.parametrize("n_points", [1, 64, 65, 500, 1024])
def test_files_merge_in_any_order_to_the_same_bits(n_points, rng, tmp_path):
    pieces = parts(rng, n_points)
    expected = pieces[0].merge(pieces[1:])
    assert expected.ranges == [(0, n_points)]
    assert expected.n_points == n_points
    for i in rng.permutation(len(pieces)):
        pieces[i].save(tmp_path / f"{i}.part")
    order = [nw.Partial.load(tmp_path / f"{i}.part") for i in rng.permutation(len(pieces))]
    half = len(order) // 2
    merged = order[0].merge(order[1:half]).merge(order[half:]) if half else order[0]
    same(total_of(merged), total_of(expected))
    merged.save(tmp_path / "all.part")
    same(total_of(nw.Partial.load(tmp_path / "all.part")), total_of(expected))


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("cut", [1, 63])
def test_an_unfinished_leaf_goes_on_from_a_file(cut, spread, rng, tmp_path):
    values = rng.normal(size=(64, 4))
    weights = rng.uniform(0, 2, 64)
    tree = SumTree()
    tree.add_leaf(0, summed(values[:cut], weights[:cut], spread))
    nw.Partial(tree=tree).save(tmp_path / "a.part")
    finished, leaf = tree_of(nw.Partial.load(tmp_path / "a.part")).without_open_leaf()
    for row, weight in zip(values[cut:], weights[cut:], strict=True):
        leaf.add_values(row, float(weight))
    assert finished.n_points == 0
    same(leaf.moments(), summed(values, weights, spread).moments())


def test_no_point_is_counted_twice(rng):
    a, b, c, d = parts(rng, 4 * CHUNK)
    whole = a.merge([b])
    for inside in (a, b, whole, whole.merge([c, d])):
        for first, second in ((whole, inside), (inside, whole)):
            with pytest.raises(
                ValueError, match=r"Validation points \d+ to \d+ are in more than one part"
            ):
                first.merge(second)
    assert whole.merge(c).ranges == [(0, 192)]
    assert a.merge(c).ranges == [(0, 64), (128, 192)]


def test_only_the_last_part_may_be_short(rng):
    first, last = parts(rng, 64 + 10)
    short = parts(rng, 10)[0]
    with pytest.raises(ValueError, match="more than one part"):
        first.merge(short)
    later = parts(rng, 192)[2]
    for pair in ((later, last), (last, later)):
        with pytest.raises(ValueError, match="but the last must hold a multiple of 64"):
            pair[0].merge(pair[1])
    assert last.ranges == [(64, 74)]


def test_parts_of_other_origins_are_refused_with_what_differs(rng):
    origin = Origin(training="a", version="1", parameters={"n_neighbors": 5, "ties": "index"})
    a, _ = parts(rng, 128, origin=origin)
    for change, message in (
        ({"training": "b"}, "differ in the training data"),
        ({"version": "2"}, "version: '1' and '2'"),
        ({"parameters": {"n_neighbors": 6, "ties": "index"}}, "n_neighbors: 5 and 6"),
    ):
        with pytest.raises(ValueError, match=message):
            a.merge(parts(rng, 128, origin=replace(origin, **change))[1])


def test_damage_is_seen_or_changes_nothing(rng, tmp_path):
    path = tmp_path / "a.part"
    part = parts(rng, 70)[1]
    part.save(path)
    whole = path.read_bytes()
    for position in rng.integers(0, len(whole), 200):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            found = nw.Partial.load(path)
        except ValueError as error:
            assert "or it is damaged" in str(error)  # noqa: PT017 - dates in the archive may change
        else:
            np.testing.assert_array_equal(total_of(found).total, total_of(part).total)
    for size in (0, 1, 40, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="or it is damaged"):
            nw.Partial.load(path)


def test_files_that_do_not_fit_are_refused(rng, tmp_path):
    """Whole files, but not what `save` writes."""
    path = tmp_path / "a.part"
    pieces = parts(rng, 3 * CHUNK + 10)
    pieces[0].merge(pieces[1:]).save(path)
    description, arrays = read_archive(path, "part", lambda *read: read)
    first, second, opened = description[
        "sums"
    ]  # two leaves in one node, the third alone, and the short one
    assert (first[0], second[0], opened[0]) == (0, 2, 3)
    changes = [
        {"sums": [first, first]},
        {"sums": [[1, first[1]]]},
        {"sums": [[-2, first[1]]]},
        {"sums": [[0.5, first[1]]]},
        {"sums": [[0, [3 * CHUNK, *first[1][1:]]]]},
        {"sums": [[0, [CHUNK + 1, *first[1][1:]]]]},
        {"sums": [first, [1, opened[1]]]},
        {"sums": [[3, opened[1][:1]], first, second, first]},
        {"origin": {}},
    ]
    for change in changes:
        write_archive(path, "part", {**description, **change}, arrays)
        with pytest.raises(
            ValueError, match="is not a part saved by nearworth, or it is damaged: "
        ):
            nw.Partial.load(path)
    for name in ("0-total", "2-centre", "3-shift"):
        write_archive(path, "part", description, {**arrays, name: np.ones(4)})
        with pytest.raises(ValueError, match="has shape"):
            nw.Partial.load(path)


def test_a_part_shows_what_its_users_need():
    public = {name for name in dir(nw.Partial()) if not name.startswith("_")}
    assert public == {"origin", "ranges", "n_points", "merge", "save", "load"}
