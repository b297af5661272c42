"""Every variant of the compiled library gives the same bits, and the numpy forms the same
values.
"""

from __future__ import annotations

import pytest

from helpers import variants
from helpers.variants import assert_same_bits

VALUATIONS = """
import nearworth as nw

rng = np.random.default_rng(3)
settings = {
    "plain": {},
    "original": {"utility": "original", "semivalue": "banzhaf"},
    "spread": {"standard_errors": True},
    "near": {"n_candidates": 10},
    "cosine": {"metric": "cosine"},
    "regression": {"task": "regression"},
}
for dtype, n, width in (("f4", 3000, 40), ("f8", 50, 3), ("f8", 400, 17), ("u1", 700, 5)):
    X, X_val = ((rng.normal(size=(m, width)) * 20 + 100).astype(dtype) for m in (n, 70))
    y, y_val = rng.integers(0, 3, n), rng.integers(0, 3, 70)
    for name, parameters in settings.items():
        est = nw.KNNShapley(5, **parameters).fit(X, y)
        results[f"{name} {dtype} {n}"] = est.value(X_val, y_val).values
    results[f"self {dtype} {n}"] = nw.KNNShapley(5).fit(X, y).value().values
"""


def test_valuations_have_the_same_bits_on_every_processor(tmp_path):
    assert_same_bits(VALUATIONS, tmp_path, numpy_error=1e-15)


def test_other_bits_are_noticed(tmp_path, monkeypatch):
    if len(variants.variants_here()) < 3:
        pytest.skip("this processor runs one variant only")
    with pytest.raises(AssertionError, match="number has other bits with avx2"):
        assert_same_bits(
            "import os\nresults['number'] = 1.0 + 2.0**-52 * (os.environ['NEARWORTH_NATIVE'] =="
            " 'avx2')",
            tmp_path,
            numpy_error=1e-13,
        )
    with pytest.raises(AssertionError, match="numpy"):
        assert_same_bits(
            "import os\nresults['n'] = np.arange(2) * (os.environ['NEARWORTH_NATIVE'] == '0')",
            tmp_path,
        )
