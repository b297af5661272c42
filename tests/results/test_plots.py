"""Pictures: labelled, on the axes one gives, in colours that are told apart in grey too."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import nearworth as nw
from nearworth.results.plots import plot_values

matplotlib = pytest.importorskip(
    "matplotlib", reason="matplotlib is not installed: pip install 'nearworth[plot]'"
)
matplotlib.use("Agg")
from matplotlib import colors, pyplot  # noqa: E402


@pytest.fixture(autouse=True)
def _close_figures():
    # Other tests of this process may have left figures open, such as examples of documentation.
    pyplot.close("all")
    yield
    pyplot.close("all")


@pytest.fixture
def valuation(rng):
    return nw.KNNShapley(3).fit(rng.normal(size=(60, 2)), rng.integers(0, 3, 60)).value()


def lightness(colour):
    """Of a colour in grey, 0 to 1."""
    return float(np.dot(colors.to_rgb(colour), (0.299, 0.587, 0.114)))


def check(ax):
    ax.figure.canvas.draw()
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    bars = {(patch.get_facecolor(), patch.get_hatch()) for patch in ax.patches}
    assert len({hatch for _, hatch in bars}) == len(
        bars
    )  # no two kinds of bars differ by colour alone
    tones = sorted(lightness(colour) for colour, _ in bars)
    assert all(high - low > 0.3 for low, high in zip(tones, tones[1:], strict=False))
    assert all(lightness(line.get_color()) < 0.5 for line in ax.lines)  # dark enough on white


def test_values(valuation):
    ax = valuation.plot()
    check(ax)
    assert sum(patch.get_height() for patch in ax.patches) == 60
    edges = [patch.get_x() for patch in ax.patches] + [
        patch.get_x() + patch.get_width() for patch in ax.patches
    ]
    assert np.abs(edges).min() == pytest.approx(0, abs=1e-12)  # no bar across zero
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts[0] == f"below zero: {(valuation.values < 0).sum()} rows"
    assert "the other rows" in ax.get_xlabel()


@pytest.mark.parametrize(
    "values", [[0.0], [1.0, 1.0], [-2.0, -1.0], [1e-300, 2e-300], [0.0, 0.0, 5.0]]
)
def test_few_or_equal_values(values):
    ax = plot_values(np.array(values), "value")
    check(ax)
    assert sum(patch.get_height() for patch in ax.patches) == len(values)


def test_on_given_axes(valuation):
    _, (one, two) = pyplot.subplots(1, 2)
    assert valuation.plot(one) is one
    assert valuation.plot(two) is two
    assert len(pyplot.get_fignums()) == 1


def test_without_matplotlib(valuation, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'nearworth\[plot\]'"):
        valuation.plot()
