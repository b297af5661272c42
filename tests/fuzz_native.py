"""Drives the compiled functions with hostile sizes and contents, and whole valuations with and
without compiled code.

    python tests/fuzz_native.py --seconds 60 --seed 7 [--only name]

Every function of `native.DECLARATIONS` has a maker of cases below (a test compares the lists). A
case is called twice, with memory that held other things before. What must hold each time:

- arrays that are not marked as written to are left alone, and so are the bytes around those that
  are;
- the results have the same bits both times: nothing is read that was never written;
- they agree with the plain form in numpy, where the maker gives one.

Under AddressSanitizer (tests/test_fuzz_native.py), reads beyond the end of an array are found as
well. A failure prints the seed of the case: `--seed that --cases 1` repeats it.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import scipy.sparse

from helpers import cells
from helpers.definition import defined_values, utility_of_owners
from helpers.extreme import (
    TRIPLES,
    check_distances,
    check_ranks,
    exact_squares,
    numbers_of_all_sizes,
    voters,
)
from nearworth._common import native
from nearworth.engine.run import NearestLists
from nearworth.games.classification import ClassificationGame, linear_values
from nearworth.games.coefficients import Presence, rank_weights
from nearworth.games.owner_game import Nodes, owner_values
from nearworth.games.regression import RegressionGame
from nearworth.games.ties import TieBlocks
from nearworth.inputs import features
from nearworth.neighbors import distances
from nearworth.neighbors.keys import make_keys
from nearworth.neighbors.searchers import Neighbours

SIZES = (0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 129, 257, 511, 600)
CANARY = 64  # bytes around what is written to
UNDER_ASAN = "libasan" in os.environ.get(
    "LD_PRELOAD", ""
)  # which watches the bytes around arrays itself


@dataclass
class Space:
    """An array that the function fills (or uses as scratch), whatever was in it before."""

    shape: tuple[int, ...]
    dtype: Any = np.float64
    scratch: bool = False


@dataclass
class Case:
    """Arguments of one call, and what is to become of them."""

    arguments: list[Any]
    check: Callable[[Any, dict[str, np.ndarray]], None] = lambda result, arrays: None


MAKERS: dict[str, Callable[[np.random.Generator], Case]] = {}


def case(maker):
    """Register the maker of cases for the function of its name."""
    MAKERS[maker.__name__] = maker
    return maker


# Data.


def size(rng: np.random.Generator, most: int = 257, least: int = 0) -> int:
    return int(rng.choice([number for number in SIZES if least <= number <= most]))


def numbers(rng: np.random.Generator, shape: Any, dtype: Any = np.float64) -> np.ndarray:
    """Few different values, many, far from the origin, or all equal; of the full range for
    integers, at times.
    """
    dtype = np.dtype(dtype)
    kind = rng.integers(5)
    if kind == 0:
        return rng.integers(0, 3, shape).astype(dtype)
    if kind == 1:
        return np.full(shape, 5, dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    values = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4)
    return (values + (1e3 if kind == 2 else 0.0)).astype(dtype)


def rows(rng: np.random.Generator, n: int, width: int) -> np.ndarray:
    """Training rows of any type that compiled code reads."""
    return numbers(rng, (n, width), rng.choice(native.ROW_TYPES))


@contextmanager
def numpy_forms() -> Iterator[None]:
    """As if there were no library."""
    compiled = native.library
    native.library = lambda: None
    try:
        yield
    finally:
        native.library = compiled


# variant.c


@case
def instruction_set(rng):
    def check(result, arrays):
        assert result >= native.VARIANTS.index(native.variant())

    return Case([], check)


# product.c

TOP = 2**30


@case
def product_roundings(rng):
    width = size(rng)

    def check(result, arrays):
        assert result >= 2 * np.sqrt(width) - 1

    return Case([width], check)


@case
def product_space(rng):
    n = size(rng)
    width = size(rng)

    def check(result, arrays):
        assert n * width <= result < (n + 16) * (width + 100)

    return Case([n, width], check)


@case
def product_qkeys(rng):
    """Some rows of any type, in any order, to any places or one after the other."""
    n = size(rng, least=1)
    n_queries = size(rng, 65, least=1)
    width = size(rng, 600)
    extra = size(rng, 33)
    points = rows(rng, n, width)
    factors = rng.normal(size=(n_queries, width))
    centre = numbers(rng, width).astype(np.float32).astype(np.float64)
    some = rng.integers(0, n, size(rng)).astype(np.int32)
    places = rng.permutation(len(some) + extra)[: len(some)].astype(np.int32)
    centred = points[some].astype(np.float64) - centre
    single = bool(rng.integers(2))
    largest = np.abs(factors) @ np.abs(centred.T)
    norms = (
        rng.normal(size=n) * largest.max(initial=1.0) * 10.0 ** rng.integers(-2, 3)
    )  # too large, at times
    scales = (
        np.full(n_queries, TOP / 4 / max(1e-30, largest.max(initial=0.0)))
        .astype(np.float32)
        .astype(np.float64)
    )
    offsets = np.full(n_queries, TOP / 2)
    scratch = Space((native.call("product_space", n_queries, width),), scratch=True)
    before = np.full((n_queries, len(some) + extra), -5, np.int32)

    def check(result, arrays):
        expected = np.clip(
            (factors @ centred.T + norms[some]) * scales[:, None] + offsets[:, None], 0, TOP
        )
        unit = 2.0**-24 if single else 2.0**-53
        error = (
            (native.call("product_roundings", width) + 4)
            * unit
            * (largest + np.abs(norms[some]))
            * scales[:, None]
        )
        assert (
            np.abs(arrays["qkeys"][:, places] - expected) <= error + (256.0 if single else 2.0)
        ).all()
        assert (np.delete(arrays["qkeys"], places, axis=1) == -5).all()

    given = places
    if rng.integers(2):
        given = None
        places = np.arange(len(some))
    return Case(
        [points, some, given, norms, centre, factors, scales, offsets, single, scratch, before],
        check,
    )


# classify.c


def some_excluded(rng, n_queries, n):
    """Positions of points that take no part, equally many for each query; at least one point
    does.
    """
    count = min(int(rng.choice([0, 1, 4])), n - 1)
    positions = [rng.permutation(n)[:count] for _ in range(n_queries)]
    return np.array(positions, dtype=np.int32).reshape(n_queries, count)


@case
def classify_scratch(rng):
    n = size(rng)

    def check(result, arrays):
        assert result > 40 * n

    return Case([n, 64], check)


@case
def classify_block(rng):
    """Rough qkeys within their tolerance give the bits that exact ones do, and the values of the
    formula, ties averaged or not; certified values are as near as they say.
    """
    n = size(rng, least=2)
    n_queries = int(rng.choice([1, size(rng, 17)]))
    n_classes = int(rng.choice([1, 2, 3, 30]))
    classes = np.sort(rng.integers(0, n_classes, n))
    counts = np.bincount(classes, minlength=n_classes)
    row_of = rng.permutation(n).astype(np.int32)
    excluded = some_excluded(rng, n_queries, n)
    keys = rng.integers(0, rng.choice([1, 2, 5, 20, 100, 10**5]), (n_queries, n))  # by row
    noise = int(rng.choice([0, 1, 100, 2**18]))
    spacing = int(rng.choice([1, 50, 2**10]))
    qkeys = np.zeros((n_queries, n + 3), np.int32)
    qkeys[:, :n] = keys[:, row_of] * spacing + rng.integers(-noise, noise + 1, keys.shape) + 2**20
    labels = rng.integers(-1, n_classes, n_queries).astype(np.int32)
    n_cells = int(rng.choice([64, 256]))
    scratch = Space((native.call("classify_scratch", n, n_cells),), np.uint8, scratch=True)
    weights = ClassificationGame(n - excluded.shape[1], size(rng, least=1), n_classes).weights
    worth = np.concatenate([weights.worth[:1], weights.worth, [0.0]])
    loss = np.append(0.0, weights.loss)
    given = keys.astype(np.float64)
    max_error = float(rng.choice([0.0, 1e-6, 1e-2]))
    before = rng.random(n)
    source = (
        (given, None)
        if rng.integers(2)
        else (None, lambda query, rows, out: np.copyto(out, given[query, rows]))
    )
    common = [
        labels,
        excluded,
        rng.random((n_queries, 2)),
        rng.random(n_queries),
        np.append(0, np.cumsum(counts)),
    ]
    common += [
        row_of,
        np.argsort(row_of).astype(np.int32),
        worth,
        loss,
        np.append(0.0, np.cumsum(weights.worth)),
    ]
    by_index = bool(rng.integers(4) == 0)
    ends = [int(weights.loss.argmax()), int(by_index), n_cells, None, None, *source]
    ends += [before, np.zeros(n_queries), scratch]

    def by_formula():
        for query, (label, constants) in enumerate(zip(labels, common[2], strict=True)):
            # By position.
            values = np.zeros(n)
            there = np.setdiff1d(np.arange(n), excluded[query])
            order = there[np.lexsort((row_of[there], keys[query, row_of[there]]))]
            first = np.append(True, by_index | (np.diff(keys[query, row_of[order]]) != 0))[
                : len(order)
            ]
            matches = classes[order] == label
            linear = linear_values(matches[None].astype(float), weights, TieBlocks(first[None]))[0]
            values[order] = linear + np.where(matches, *constants)
            yield values

    def check(result, arrays):
        qkeys_of_keys = np.zeros_like(qkeys)
        qkeys_of_keys[:, :n] = keys[:, row_of] * 1000
        exactly = Case([qkeys_of_keys, np.zeros(n_queries, np.int32), *common, 0.0, *ends])
        _, expected = run_once("classify_block", exactly, 0x11)
        if max_error == 0.0:
            assert arrays["total"].tobytes() == expected["total"].tobytes()
            values = np.array(list(by_formula())).reshape(n_queries, n)
            np.testing.assert_allclose(
                arrays["total"], before + common[3] @ values, rtol=0, atol=1e-12
            )
            return
        assert (arrays["errors"] <= max_error).all()
        assert (
            np.abs(arrays["total"] - expected["total"]) <= common[3] @ arrays["errors"] + 1e-13
        ).all()

    return Case([qkeys, np.full(n_queries, 2 * noise, np.int32), *common, max_error, *ends], check)


@case
def mark_votes(rng):
    """Rough qkeys decide outside their tolerance, exact keys within it."""
    n = size(rng, least=1)
    n_queries = size(rng, 33)
    n_labels = int(rng.integers(1, 4))
    keys = rng.integers(0, rng.choice([1, 5, 10**5]), (n_queries, n))
    noise = int(rng.choice([0, 1, 1000]))
    largest = int(rng.integers(-1, keys.max(initial=0) + 2))
    qkeys = (keys * 7 + rng.integers(-noise, noise + 1, keys.shape)).astype(np.int32)
    labels, of_query = (
        rng.integers(0, n_labels, count).astype(np.int32) for count in (n, n_queries)
    )
    limits = [np.full(n_queries, 7 * largest + by, np.int32) for by in (-noise, noise)]
    source = [None, None, keys.astype(np.float64), None]
    if rng.integers(2):
        source = [None, None, None, lambda query, rows, out: np.copyto(out, keys[query, rows])]
    excluded = some_excluded(rng, n_queries, n)
    scratch = Space((n,), np.int32, scratch=True), Space((n,), scratch=True)
    results = Space((n_queries, n), np.uint8), Space((n_queries, 2), np.int64)

    def check(result, arrays):
        inside = keys <= largest
        matches = labels == of_query[:, None]
        np.put_along_axis(inside, excluded, False, axis=1)
        np.testing.assert_array_equal(arrays["marks"], np.where(inside, np.where(matches, 1, 2), 0))
        expected = np.stack([inside.sum(axis=1), (inside & matches).sum(axis=1)], axis=1)
        np.testing.assert_array_equal(arrays["counts"], expected)

    return Case(
        [qkeys, *limits, excluded, labels, of_query, *source, float(largest), *scratch, *results],
        check,
    )


@case
def add_votes(rng):
    n = size(rng)
    n_queries = size(rng, 33)
    marks = rng.integers(0, 3, (n_queries, n))
    worth = numbers(rng, (n_queries, 2))
    total = numbers(rng, n)
    expected = total.copy()
    for mark, (of_match, of_other) in zip(marks, worth, strict=True):
        expected += np.array([0.0, of_match, of_other])[mark]

    def check(result, arrays):
        np.testing.assert_array_equal(arrays["total"], expected)

    return Case([marks.astype(np.uint8), worth, total], check)


# owners.c


@case
def owners_space(rng):
    k = size(rng, 33, least=1)
    n_owners = size(rng, 65, least=1)
    n_nodes = size(rng, 33, least=1)

    def check(result, arrays):
        assert result > 2 * (k + n_owners) * k * n_nodes

    return Case([k, n_owners, n_nodes], check)


@case
def value_owners(rng):
    """Owners with few and many rows, ties within and across owners, rough qkeys, points that take
    no part.
    """
    return case_of_tied_owners(rng) if rng.integers(2) else case_of_mixed_owners(rng)


def case_of_mixed_owners(rng):
    """Few neighbours: values are those of the form in numpy."""
    n_owners = size(rng, 9, least=1)
    n_queries = size(rng, 3)
    k = int(rng.choice([1, 2, 3, 7]))
    owners = np.sort(
        np.append(np.arange(n_owners), rng.integers(0, n_owners, size(rng, 33)))
    )  # by position
    keys = rng.integers(0, rng.choice([1, 5, 100, 10**5]), (n_queries, len(owners))).astype(
        np.float64
    )
    by_index = bool(rng.integers(2))
    nodes = Nodes.of(Presence.of(str(rng.choice(["shapley", "banzhaf", "loo"]))), n_owners)

    def values_of(keys, owners, matches):
        order = np.argsort(keys, kind="stable")
        first = np.append(True, by_index | (np.diff(keys[order]) != 0))[: len(order)]
        return owner_values(owners[order], matches[order].astype(np.float64), first, k, nodes)

    return owners_case(rng, owners, keys, by_index, k, nodes, values_of)


def case_of_tied_owners(rng):
    """All rows tied, or on few points, K from 1 to all of them, owners from one row to nearly all:
    values are those of the definition, in exact fractions of counts.
    """
    n = size(rng, 257, least=100)
    n_owners = int(rng.integers(2, 5))
    n_queries = int(rng.integers(1, 3))
    k = int(rng.choice([1, n // 2, n - 1, n, rng.integers(1, n + 1)]))
    n_small = int(
        rng.choice([n_owners - 1, rng.integers(1, n_owners)])
    )  # owners of one row; others share the rest
    owners = np.sort(np.append(np.arange(n_owners), rng.integers(n_small, n_owners, n - n_owners)))
    keys = rng.integers(0, rng.choice([1, 1, 1, 3]), (n_queries, n)).astype(np.float64)
    semivalue = str(rng.choice(["shapley", "banzhaf", "loo"]))

    def values_of(keys, owners, matches):
        blocks = []
        for key in np.unique(keys):
            tied = keys == key
            matching = owners[tied & matches]
            blocks.append(
                (
                    np.bincount(owners[tied], minlength=n_owners),
                    np.bincount(matching, minlength=n_owners),
                )
            )
        return defined_values(utility_of_owners(blocks, k), n_owners, semivalue)

    return owners_case(
        rng, owners, keys, False, k, Nodes.of(Presence.of(semivalue), n_owners), values_of
    )


def owners_case(rng, owners, keys, by_index, k, nodes, values_of):
    """Owners by position, keys of each query by row; `values_of` has the values, from keys, owners
    and matches.
    """
    (n_queries, n), n_owners = keys.shape, nodes.n_owners
    row_of = rng.permutation(n).astype(np.int32)
    excluded = some_excluded(rng, n_queries, n)
    owner_of = np.empty(n, np.int32)
    owner_of[row_of] = owners
    noise = int(rng.choice([0, 1, 100]))
    spacing = int(rng.choice([1, 50, 2**10]))
    qkeys = np.zeros((n_queries, n + 3), np.int32)
    qkeys[:, :n] = keys[:, row_of] * spacing + rng.integers(-noise, noise + 1, keys.shape) + 2**20
    classes = rng.integers(0, 2, n).astype(np.int32)
    labels = rng.integers(-1, 2, n_queries).astype(np.int32)
    source = (
        (keys, None)
        if rng.integers(2)
        else (None, lambda query, rows, out: np.copyto(out, keys[query, rows]))
    )
    space = Space((native.call("owners_space", k, n_owners, len(nodes.t)),), scratch=True)
    starts = np.append(0, np.cumsum(np.bincount(owners, minlength=n_owners)))

    def check(result, arrays):
        for query in range(n_queries):
            there = np.setdiff1d(np.arange(n), row_of[excluded[query]])
            expected = values_of(
                keys[query, there], owner_of[there], classes[there] == labels[query]
            )
            np.testing.assert_allclose(arrays["values"][query], expected, rtol=0, atol=1e-13)

    rest = [by_index, k, nodes.t, nodes.weights, nodes.binomial(k), Space((n_queries, n_owners))]
    scratch = [Space((n,), np.int32, scratch=True), Space((n,), scratch=True), space]
    tolerances = np.full(n_queries, 2 * noise, np.int32)
    return Case(
        [
            qkeys,
            tolerances,
            labels,
            excluded,
            starts,
            row_of,
            owner_of,
            classes,
            None,
            None,
            *source,
            *rest,
            *scratch,
        ],
        check,
    )


# certified.c


@case
def certified_cut(rng):
    n = size(rng, least=1)
    n_cells = size(rng, least=1)
    counts = np.zeros((2, n_cells), np.uint32)
    np.add.at(
        counts,
        (
            rng.integers(0, 2, n),
            (n_cells * rng.random(n) ** rng.choice([0.1, 1.0, 9.0])).astype(int),
        ),
        1,
    )
    matches, others = counts
    weights = rank_weights(Presence(), n, size(rng, least=1))
    max_error = float(10.0 ** rng.uniform(-9, 0))
    tables = (
        np.append(0.0, np.cumsum(weights.worth)),
        np.concatenate([weights.worth[:1], weights.worth, [np.nan]]),
    )
    out = np.zeros(n_cells), np.zeros(n_cells), Space((2,))

    def check(cut, arrays):
        values = cells.cell_values(matches.astype(int), others.astype(int), weights)
        some = slice(cut, n_cells)
        assert values.first_cut(max_error + 1e-14) <= cut <= values.first_cut(max_error - 1e-14)
        for found, expected, count in (
            (arrays["of_match"], values.match, matches),
            (arrays["of_other"], values.other, others),
        ):
            np.testing.assert_allclose(
                (found * (count > 0))[some], (expected * (count > 0))[some], rtol=0, atol=1e-13
            )

    return Case([matches, others, *tables, max_error, int(weights.loss.argmax()), *out], check)


# hash.c


@case
def hash_numbers(rng):
    n = size(rng)
    start = size(rng)
    keys = rng.integers(0, 2**64, (2, features.BLOCK), dtype=np.uint64)
    values = rows(rng, n, 1)[:, 0]
    start += int(rng.integers(0, 2)) * (features.BLOCK - n // 2)  # across the border of two blocks
    sums = rng.integers(0, 2**64, ((start + n) // features.BLOCK + 1, 2), dtype=np.uint64)

    def check(result, arrays):
        expected = sums.copy()
        if n:
            features.hash_numbers(values.astype(np.float64), start, keys, expected)
        np.testing.assert_array_equal(arrays["sums"], expected)

    return Case([values, start, keys, sums], check)


# distances.c


@case
def listed_pairs(rng):
    """Rows that are not there give infinity."""
    n = size(rng, least=1)
    width = size(rng, 129)
    shape = (size(rng, 33), size(rng, 65))
    queries = numbers(rng, (shape[0], width))
    points = rows(rng, n, width)
    product = bool(rng.integers(2))
    some = rng.integers(-1, n + 1, shape).astype(np.int32)

    def check(result, arrays):
        with numpy_forms():
            expected = distances.listed_pairs(
                queries, points, np.clip(some, 0, n - 1), product=product
            )
        np.testing.assert_array_equal(
            arrays["out"], np.where((some < 0) | (some >= n), np.inf, expected)
        )

    return Case([queries, points, some, product, Space(shape)], check)


@case
def all_pairs(rng):
    """Some columns of the output, rows long and short, queries few and many."""
    n = size(rng)
    width = size(rng, 600)
    first = size(rng, 9)
    more = size(rng, 9)
    queries = numbers(rng, (size(rng, 129), width))
    points = rows(rng, n, width)
    product = bool(rng.integers(2))
    out = np.full((len(queries), first + n + more), -5.0)

    def check(result, arrays):
        expected = out.copy()
        with numpy_forms():
            expected[:, first : first + n] = distances.all_pairs(queries, points, product=product)
        np.testing.assert_array_equal(arrays["out"], expected)

    return Case([queries, points, first, product, out], check)


@case
def sparse_distances(rng):
    width = size(rng, least=1)
    power = int(rng.integers(1, 3))
    sides = [sparse_rows(rng, size(rng, 65, least=1), width) for _ in range(2)]
    parts = [
        part
        for side in sides
        for part in (side.indptr.astype(np.int64), side.indices.astype(np.int32), side.data)
    ]

    def check(result, arrays):
        with numpy_forms():
            np.testing.assert_array_equal(arrays["out"], distances.sparse_distances(*sides, power))

    return Case([Space((sides[0].shape[0], sides[1].shape[0])), *parts, power], check)


def sparse_rows(rng: np.random.Generator, n: int, width: int) -> scipy.sparse.csr_array:
    dense = numbers(rng, (n, width)) * (rng.random((n, width)) < rng.choice([0.0, 0.05, 0.9, 1.0]))
    return scipy.sparse.csr_array(dense)


# nearest.c


@case
def nearest_lists(rng):
    """Rough qkeys within their tolerance give the lists of exact keys."""
    n = size(rng, least=1)
    n_queries = size(rng, 33)
    k = size(rng, 65, least=1)
    first = size(rng)
    row_of = rng.permutation(n).astype(np.int32)
    least = int(rng.integers(1, k + 1))
    noise = int(rng.choice([0, 1, 1000]))
    spacing = int(rng.choice([1, 50]))
    keys = rng.integers(0, rng.choice([1, 5, 10**5]), (n_queries, n))  # by row
    source = [None, None, keys.astype(np.float64), None]
    exact = keys.astype(np.float64)
    hashed = bool(rng.integers(2))
    if rng.integers(2):
        source = [None, None, None, lambda query, rows, out: np.copyto(out, exact[query, rows])]
    if n_queries and rng.integers(
        2
    ):  # every query is the origin, so all have the keys of the first
        keys[:] = keys[0]
        points = np.sqrt(keys[0].astype(np.float64))[:, None]
        source = [np.zeros((n_queries, 1)), points, None, None]
        exact = np.repeat(points.T**2, n_queries, axis=0)
    qkeys = np.zeros((n_queries, n + 3), np.int32)
    qkeys[:, :n] = keys[:, row_of] * spacing + rng.integers(-noise, noise + 1, keys.shape)
    tolerances = np.full(n_queries, 2 * noise, np.int32)
    excluded = some_excluded(rng, n_queries, n)
    lists = Space((n_queries, k), np.int32), Space((n_queries, k))
    scratch = Space((n,), np.int32, scratch=True), Space((n,), scratch=True)

    def check(result, arrays):
        expected = NearestLists(first + n_queries, k, least)
        for q in range(n_queries):
            others = np.delete(np.arange(n), row_of[excluded[q]])
            if hashed:
                expected.keep(first + q, others, exact[q, others])
                continue
            near = others[np.argsort(exact[q, others], kind="stable")]
            listed = np.sort(exact[q, others])
            before = np.count_nonzero(listed < listed[k]) if len(near) > k else k
            near = near[: before if before >= least else k]
            expected.found.rows[first + q, : len(near)] = near
            expected.found.keys[first + q, : len(near)] = exact[q, near]
        np.testing.assert_array_equal(arrays["rows"], expected.found.rows[first:])
        np.testing.assert_array_equal(arrays["keys"], expected.found.keys[first:])

    return Case(
        [qkeys, tolerances, excluded, row_of, *source, first, hashed, least, *lists, *scratch],
        check,
    )


# regression.c


@case
def value_regression(rng):
    n = size(rng, least=2)
    n_queries = int(rng.choice([1, size(rng, 17)]))
    excluded = some_excluded(rng, n_queries, n)
    utility = str(rng.choice(["soft", "original"]))
    ties = str(rng.choice(["average", "index"]))
    game = RegressionGame(n - excluded.shape[1], size(rng, least=1), utility)
    keys = numbers(rng, (n_queries, n)) * rng.choice([1.0, 0.0, 1e-300, 1e300])
    keys[rng.random(keys.shape) < 0.05] = rng.choice([0.0, -0.0, np.inf])
    np.put_along_axis(keys, excluded, np.nan, axis=1)
    targets = rng.normal(size=n)
    query_targets = rng.normal(size=n_queries)
    weights = rng.random(n_queries)
    before = rng.random(n)
    scratch = [
        Space((n,), kind, scratch=True) for kind in (np.uint64, np.uint64, np.int32, np.uint8)
    ]
    coefficients = game.single.worth, game.single.loss, game.pair.worth, game.pair.loss, game.votes
    correction = None if game.correction is None else np.array(astuple(game.correction))

    def check(result, arrays):
        expected = np.zeros((n_queries, n))
        for q in range(n_queries):
            own = keys[q]
            order = np.argsort(own, kind="stable")[: game.n_players]
            blocks_of = TieBlocks(Neighbours(order[None], own[None, order]).starts(ties))
            expected[q, order] = game.values(
                targets[None, order], query_targets[q : q + 1], blocks_of
            )[0]
        found = arrays["total"] - before
        expected = weights @ expected
        np.testing.assert_allclose(
            found, expected, rtol=0, atol=1e-12 * max(1.0, np.abs(expected).max(initial=0.0))
        )

    arguments = [keys, targets, query_targets, weights, ties == "index", *coefficients, correction]
    return Case([*arguments, before, *scratch], check)


# One call.


def guarded(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A copy with known bytes on both sides, and these with it; exactly its own bytes under
    AddressSanitizer.
    """
    if UNDER_ASAN:
        return array.copy(), np.zeros(0, np.uint8)
    whole = np.full(array.nbytes + 2 * CANARY, 0x5A, np.uint8)
    inside = whole[CANARY : CANARY + array.nbytes].view(array.dtype).reshape(array.shape)
    inside[...] = array
    return inside, whole


def run_once(name: str, made: Case, fill: int) -> tuple[Any, dict[str, np.ndarray]]:
    """Call it with memory that held `fill`; the result, and arrays that were written to, scratch
    aside.
    """
    given = []
    watched = []
    written = {}
    for parameter, argument in zip(native.DECLARED[name].parameters, made.arguments, strict=True):
        if isinstance(argument, Space):
            before = np.full(
                int(np.prod(argument.shape)) * np.dtype(argument.dtype).itemsize, fill, np.uint8
            )
            array, whole = guarded(before.view(argument.dtype).reshape(argument.shape))
        elif isinstance(argument, np.ndarray):
            array, whole = guarded(argument)
        else:
            given.append(argument)
            continue
        given.append(array)
        watched.append((parameter.name, argument, array, whole))
        if parameter.flags & native.WRITEABLE and not (
            isinstance(argument, Space) and argument.scratch
        ):
            written[parameter.name] = array
    result = native.call(name, *given)
    for parameter, argument, array, whole in watched:
        around = (
            np.concatenate([whole[:CANARY], whole[len(whole) - CANARY :]]) if len(whole) else whole
        )
        assert (around == 0x5A).all(), f"{name} wrote beyond {parameter}"
        if isinstance(argument, np.ndarray) and parameter not in written:
            assert argument.tobytes() == array.tobytes(), f"{name} wrote to {parameter}"
    return result, written


def run_case(name: str, made: Case) -> None:
    result, arrays = run_once(name, made, 0x00)
    again, others = run_once(name, made, 0xC3)
    assert result == again, f"{name} gives {result}, then {again}"
    for parameter, array in arrays.items():
        assert array.tobytes() == others[parameter].tobytes(), (
            f"{name}: {parameter} depends on what was there before"
        )
    made.check(result, arrays)


# Whole valuations.


def valuation(rng: np.random.Generator) -> None:
    """The same values with the compiled library and without: another order or tie would change far
    more than this.
    """
    import nearworth as nw

    n = size(rng, least=1)
    n_val = size(rng, 65, least=1)
    width = size(rng, 33, least=1)
    X, X_val = (
        some % 100 if some.dtype.kind in "iu" else some
        for some in (rows(rng, n, width), rows(rng, n_val, width))
    )
    task = str(rng.choice(["classification", "regression"]))
    y, y_val = rng.integers(0, rng.choice([1, 2, 10, 300]), (2, max(n, n_val)))
    parameters = {
        "n_neighbors": size(rng, least=1),
        "task": task,
        "metric": str(rng.choice(["euclidean", "cosine", "manhattan"])),
        "n_jobs": int(rng.integers(1, 3)),
    }
    if task == "classification":
        parameters["utility"] = str(rng.choice(["soft", "original"]))
        if n > 1 and rng.integers(3) == 0:
            parameters["n_candidates"] = int(rng.integers(1, n))
    validation = (X_val, y_val[:n_val]) if n == 1 or rng.integers(2) else ()
    owned = None
    if (
        task == "classification"
        and validation
        and "n_candidates" not in parameters
        and rng.integers(3) == 0
    ):
        owned = rng.random(n) < rng.random()
        owned[rng.integers(n)] = False  # there is a candidate

    def values():
        with warnings.catch_warnings(action="ignore"):
            return nw.KNNShapley(**parameters).fit(X, y[:n]).value(*validation, owned=owned).values

    found = values()
    with numpy_forms():
        expected = values()
    text = (
        f"{n} x {n_val}, {width} columns of {X.dtype}, {parameters}, validation {bool(validation)}"
    )
    text += f", {0 if owned is None else owned.sum()} owned"
    error = np.abs(found - expected).max()
    assert error <= 1e-13 * max(1.0, np.abs(expected).max()), f"{text}: off by {error}"


# Distances of numbers of all sizes, and votes within a radius.


def distances_of_all_sizes(rng: np.random.Generator) -> None:
    """Ranks and distances are those of exact fractions, with the same bits from numpy, sparse rows
    and listed pairs.

    Training rows and queries have tiny numbers, both or one of them, or numbers that differ in the
    last bit.
    """
    n = size(rng, 17, least=1)
    n_queries = size(rng, 3, least=1)
    width = size(rng, 9, least=1)
    numbers_of_both = numbers_of_all_sizes(rng, (n + n_queries, width))
    X = numbers_of_both[:n]
    queries = numbers_of_both[n:]
    without_tiny = int(rng.integers(4))
    if without_tiny:
        some = X if without_tiny == 1 else queries
        some[np.abs(some) < 1e-100] = 0.0
    queries[0] = X[0] * (rng.random(width) < 0.5)
    metric = str(rng.choice(["euclidean", "nan_euclidean"]))
    keys = make_keys(X, metric, None)
    found = keys(queries)
    for key, query in zip(found, queries, strict=True):
        exact = exact_squares(X, query)
        check_ranks(key, exact)
        check_distances(keys.as_distances(key[None], query[None])[0], exact)
    with numpy_forms():
        np.testing.assert_array_equal(keys(queries), found)
    if metric == "euclidean":
        every = np.tile(np.arange(n), (len(queries), 1))
        np.testing.assert_array_equal(keys.listed(queries, every), found)
        sparse = [scipy.sparse.csr_array(some) for some in (X, queries)]
        np.testing.assert_array_equal(make_keys(sparse[0], metric, None)(sparse[1]), found)


def votes_within_a_radius(rng: np.random.Generator) -> None:
    """Whether a row votes depends on no other row, and a row exactly at the radius does."""
    metric = str(rng.choice(["euclidean", "sqeuclidean", "cosine", "manhattan", "nan_euclidean"]))
    a, b, c = TRIPLES[int(rng.integers(len(TRIPLES)))]
    scale = 2.0 ** int(rng.choice([-1060, -600, -30, -1, 0, 3, 400]))
    query = np.zeros((1, 2))
    radius = c * scale
    if metric == "cosine":
        query[0, 0] = rng.choice([1.0, 0.3, 7.0])
        radius = 1 - a / c
        scale *= rng.choice([1.0, 0.1, 1 / 3]) if abs(np.log2(scale)) < 500 else 1.0
    elif metric == "manhattan":
        radius = (a + b) * scale
    elif metric == "sqeuclidean":
        scale = max(scale, 2.0**-500)
        radius = c * c * scale * scale
    rows = np.array([[a, b], [a, -b]]) * scale
    mixed = np.vstack(
        [rng.integers(-2, 3, (5, 2)), rng.normal(size=(5, 2)), numbers_of_all_sizes(rng, (5, 2))]
    )
    others = mixed[rng.permutation(len(mixed))[: int(rng.integers(1, 15))]]
    aside = float(
        rng.choice([0.0, 3e-13, -3e-13])
    )  # about a step of the grid on which angles are compared
    radius *= 1.0 + aside
    text = f"{metric}, {radius=}, {rows=}, {others=}"
    X = np.vstack([rows, others])
    together = voters(X, query, radius, metric)
    assert together[:2].all() or aside < 0.0, text
    alone = [bool(voters(row[None], query, radius, metric)[0]) for row in X]
    assert together.tolist() == alone, text


WHOLE = {
    "valuation": valuation,
    "distances_of_all_sizes": distances_of_all_sizes,
    "votes_within_a_radius": votes_within_a_radius,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--cases", type=int, default=10**9)
    parser.add_argument("--only", choices=[*MAKERS, *WHOLE])
    options = parser.parse_args()
    assert native.available(), "there is no compiled library"
    names = [options.only] if options.only else [*MAKERS, *WHOLE]
    start = time.monotonic()
    seed = options.seed
    while time.monotonic() - start < options.seconds and seed - options.seed < options.cases:
        for name in names:
            rng = np.random.default_rng(seed)
            try:
                WHOLE[name](rng) if name in WHOLE else run_case(name, MAKERS[name](rng))
            except BaseException as error:
                error.add_note(f"python tests/fuzz_native.py --only {name} --seed {seed} --cases 1")
                raise
        seed += 1
    print(
        f"{native.variant()}: {seed - options.seed} rounds of {len(names)} cases from seed"
        f" {options.seed}"
    )


if __name__ == "__main__":
    main()
