"""Equal numbers have equal fingerprints, whatever holds them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from nearworth._common import native
from nearworth.inputs.features import fingerprint
from nearworth.inputs.file_rows import open_npy


@pytest.fixture
def matrix(rng):
    return rng.integers(-5, 5, (3_000, 50)).astype(np.float64)


def test_containers_and_types_do_not_matter(matrix, tmp_path):
    expected = fingerprint(matrix, [1, 2], "text")
    assert len(expected) == 32
    np.save(tmp_path / "X.npy", matrix)
    same = [
        matrix.astype(np.int8),
        matrix.astype(">f4"),
        np.asfortranarray(matrix),
        np.where(matrix == 0, -0.0, matrix),
    ]
    same += [np.load(tmp_path / "X.npy", mmap_mode="r"), open_npy(tmp_path / "X.npy", "X")]
    assert {fingerprint(data, [1, 2], "text") for data in same} == {expected}


def test_anything_else_does(matrix):
    other = matrix.copy()
    other[2_999, 49] += 1
    vectors = [np.array(["a", "b"]), np.array(["a", "c"])]
    different = [
        (matrix,),
        (other,),
        (matrix.T,),
        (matrix.reshape(-1, 25),),
        (scipy.sparse.csr_array(matrix),),
        (matrix, None),
        (matrix[:0],),
    ]
    different += [(vector,) for vector in vectors]
    assert len({fingerprint(*parts) for parts in different}) == len(different)


def test_sparse_matrices(matrix):
    sparse = scipy.sparse.csr_array(matrix)
    assert fingerprint(sparse) == fingerprint(sparse.astype(np.float32))
    assert fingerprint(sparse) != fingerprint(scipy.sparse.csr_array(2 * matrix))


def test_rows_in_another_order_differ(matrix):
    matrix = matrix[:, :1]  # whole numbers, two of which change places within a block
    others = []
    for row in range(1, 200):
        other = matrix.copy()
        other[[0, row]] = matrix[[row, 0]]
        others.append(other)
    changed = [other for other in others if (other != matrix).any()]
    assert len({fingerprint(other) for other in [matrix, *changed]}) == len(changed) + 1


@pytest.mark.skipif(not native.available(), reason="the compiled library is not there")
def test_compiled_and_numpy_form_agree(rng, monkeypatch):
    matrices = [
        rng.normal(size=shape) for shape in [(1, 1), (1, 1024), (1025, 1), (300, 1000), (0, 3)]
    ]
    matrices += [
        np.array([[0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324]]),
        np.arange(5000),
        rng.random(7) < 0.5,
    ]
    compiled = [fingerprint(each) for each in matrices]
    monkeypatch.setattr(native, "available", lambda: False)
    assert [fingerprint(each) for each in matrices] == compiled


def test_every_bit_counts(rng):
    numbers = rng.normal(size=3000)
    before = fingerprint(numbers)
    seen = set()
    for bit in range(64):
        other = numbers.view(np.uint64).copy()
        other[rng.integers(3000)] ^= np.uint64(1 << bit)
        seen.add(fingerprint(other.view(np.float64)))
    assert len(seen) == 64
    assert before not in seen
