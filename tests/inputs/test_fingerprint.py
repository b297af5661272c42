"""Equal numbers have equal fingerprints, whatever holds them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from nearworth.inputs.file_rows import open_npy
from nearworth.inputs.fingerprint import fingerprint


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
