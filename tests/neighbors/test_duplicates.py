"""Identical rows, whatever holds them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from nearworth.neighbors.duplicates import first_duplicates, first_equal


@pytest.mark.parametrize("container", [np.array, np.asfortranarray, scipy.sparse.csr_array, lambda X: X.astype(">f4")])
def test_first_duplicates(container):
    X = np.array([[1.0, 0.0], [2.0, 0.0], [1.0, -0.0], [0.0, 1.0], [2.0, 0.0], [0.0, 0.0]])
    if container is scipy.sparse.csr_array:
        X = np.abs(X)
    assert first_duplicates(container(X)).tolist() == [0, 1, 0, 3, 1, 5]


def test_first_equal_looks_at_all_columns():
    assert first_equal(np.array([1, 1, 2, 1]), np.array([0.5, 0.5, 0.5, 0.25])).tolist() == [0, 0, 2, 3]
