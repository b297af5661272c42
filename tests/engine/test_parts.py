"""Parts of sums as files: whole or refused, and the same sums in any order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nearworth as nw
from nearworth.results.moments import CHUNK, Leaf, Moments


def summed(values, weights, spread):
    leaf = Leaf(values.shape[1], spread=spread)
    for row, weight in zip(values, weights, strict=True):
        leaf.add_values(row, float(weight))
    return leaf


def parts(rng, n_points, spread=True, origin=None, n_train=5):
    """One part for each leaf of random values."""
    values, weights = rng.normal(size=(n_points, n_train)), rng.uniform(0, 2, n_points)
    made = []
    for number, start in enumerate(range(0, n_points, CHUNK)):
        part = nw.Partial(origin)
        part.add_leaf(number, summed(values[start : start + CHUNK], weights[start : start + CHUNK], spread))
        made.append(part)
    return made


def same(a, b):
    assert (a.count, a.weight, a.weight_squares) == (b.count, b.weight, b.weight_squares)
    for name in ("total", "centre", "spread", "ends"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


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
    same(merged.finish(), expected.finish())
    merged.save(tmp_path / "all.part")
    same(nw.Partial.load(tmp_path / "all.part").finish(), expected.finish())


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("cut", [1, 63])
def test_an_unfinished_leaf_goes_on_from_a_file(cut, spread, rng, tmp_path):
    values, weights = rng.normal(size=(64, 4)), rng.uniform(0, 2, 64)
    part = nw.Partial()
    part.add_leaf(0, summed(values[:cut], weights[:cut], spread))
    part.save(tmp_path / "a.part")
    number, leaf = nw.Partial.load(tmp_path / "a.part").unfinished()
    for row, weight in zip(values[cut:], weights[cut:], strict=True):
        leaf.add_values(row, float(weight))
    assert number == 0
    same(leaf.moments(), Moments.of(values, weights, spread=spread))


def test_no_point_is_counted_twice(rng):
    a, b, c, d = parts(rng, 4 * CHUNK)
    whole = a.merge([b])
    for inside in (a, b, whole, whole.merge([c, d])):
        for first, second in ((whole, inside), (inside, whole)):
            with pytest.raises(ValueError, match=r"Validation points \d+ to \d+ are in more than one part"):
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
    origin = nw.Origin(training="a", version="1", parameters={"n_neighbors": 5, "ties": "index"}, kernel="x")
    a, _ = parts(rng, 128, origin=origin)
    for change, message in (
        ({"training": "b"}, "differ in the training data"),
        ({"version": "2"}, "version: '1' and '2'"),
        ({"parameters": {"n_neighbors": 6, "ties": "index"}}, "n_neighbors: 5 and 6"),
    ):
        with pytest.raises(ValueError, match=message):
            a.merge(parts(rng, 128, origin=replace(origin, **change))[1])
    with pytest.warns(UserWarning, match="unlike processors"):
        a.merge(parts(rng, 128, origin=replace(origin, kernel="y"))[1])


def test_every_flipped_bit_and_every_missing_byte_is_seen(rng, tmp_path):
    path = tmp_path / "a.part"
    parts(rng, 70)[1].save(path)
    whole = path.read_bytes()
    for position in rng.integers(0, len(whole), 200):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="checksum is wrong"):
            nw.Partial.load(path)
    for size in (0, 1, 40, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="checksum is wrong"):
            nw.Partial.load(path)
    path.write_bytes(whole + b"x")
    with pytest.raises(ValueError, match="checksum is wrong"):
        nw.Partial.load(path)


def test_an_empty_part_has_no_sum():
    with pytest.raises(ValueError, match="no validation points yet"):
        nw.Partial().finish()
