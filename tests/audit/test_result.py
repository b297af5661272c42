"""LabelAudit: which rows it lists, what it says about them, and what it turns into."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

import nearworth as nw
from nearworth.audit.error_count import ErrorCount
from nearworth.audit.result import WORTH_A_LOOK


def test_suspects_are_in_order_and_within_what_was_asked(noisy):
    X, y, _ = noisy
    audit = nw.audit_labels(X, y)
    for found in (audit.suspects(), audit.suspects(rule="cluster"), audit.suspects(max_fdr=0.3)):
        assert (np.diff(audit.quality[found]) >= 0).all()
    assert len(audit.suspects(fraction=0.2)) == 60
    assert len(audit.suspects(max_fdr=1.0)) == len(y)
    few, many = (audit.suspects(max_fdr=share) for share in (0.05, 0.4))
    assert set(few) <= set(many)
    assert audit.quality[many].mean() <= 0.4
    assert set(audit.suspects()) == set(np.flatnonzero(audit.is_label_issue))


def test_frames_in_and_out(noisy):
    X, y, _ = noisy
    names = list("abcd")
    expected = nw.audit_labels(X, y)
    for library in (pd, pl):
        audit = nw.audit_labels(
            library.DataFrame(dict(zip(names, X.T, strict=True))), library.Series(y)
        )
        frame = audit.to_frame()
        assert isinstance(frame, library.DataFrame)
        assert {"is_label_issue", "label_score", "suggested_label"} <= set(frame.columns)
        np.testing.assert_allclose(np.asarray(frame["label_score"]), expected.quality)
        assert list(frame["given_label"]) == y.tolist()


def test_plot(noisy):
    pytest.importorskip("matplotlib").use("Agg")
    X, y, _ = noisy
    ax = nw.audit_labels(X, y).plot()
    assert ax.get_xlabel()
    assert len(ax.get_legend().get_texts()) == 2


def test_repr_says_how_many(noisy):
    X, y, _ = noisy
    assert "300 labels in 3 classes" in repr(nw.audit_labels(X, y))


def test_ranking_is_the_worst_fraction(noisy):
    X, y, _ = noisy
    audit = nw.audit_labels(X, y)
    assert audit.suspects(rule="ranking").tolist() == audit.suspects(fraction=0.1).tolist()
    assert (
        audit.suspects(rule="ranking", fraction=0.3).tolist()
        == audit.suspects(fraction=0.3).tolist()
    )
    with pytest.raises(ValueError, match="fraction and rule"):
        audit.suspects(rule="cluster", fraction=0.3)


def test_selections_in_words(noisy):
    X, y, _ = noisy
    audit = nw.audit_labels(X, y)
    assert audit.describe_selection({}) == "more likely wrong than right"
    assert (
        audit.describe_selection({"rule": "ranking", "fraction": 0.2})
        == "rule ranking, fraction 0.2"
    )
    assert audit.describe_selection({"max_fdr": 0.1}) == "max-fdr 0.1"


def test_a_page_shows_what_is_worth_a_look():
    """Where no label is more likely wrong than right, the most doubtful are shown, as many as may
    be wrong.
    """
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 2))
    y = (X[:, 0] + 0.8 * rng.normal(size=400) > 0).astype(int)
    audit = nw.audit_labels(X, y)
    assert len(audit.suspects()) < WORTH_A_LOOK < audit.n_errors.upper
    np.testing.assert_array_equal(audit.top_doubtful(), audit.order[:WORTH_A_LOOK])
    few = replace(audit, n_errors=ErrorCount(None, 0.0, 6.2))
    np.testing.assert_array_equal(few.top_doubtful(), audit.order[: max(7, len(audit.suspects()))])
    many = replace(audit, quality=np.where(np.arange(400) < 100, 0.1, 0.9))
    assert set(many.top_doubtful()) == set(range(100))


def test_why_a_list_is_empty(noisy):
    X, y, _ = noisy
    audit = nw.audit_labels(X, y)
    look = "--fraction 0.05 lists the worst; a review of 100 rows says how many are wrong."
    said = f"No list can promise at most 0.1 % false alarms here: {look}"
    assert audit.explain_empty({"max_fdr": 0.001}) == said
    assert audit.explain_empty({}) == f"That is no proof: {look}"
    assert audit.explain_empty({"fraction": 0.0}) == ""
    assert replace(audit, n_errors=ErrorCount(None, 0.0, 0.0)).explain_empty({}) == ""


def test_why_a_row_is_listed(rng):
    X = np.concatenate([rng.normal(size=(40, 2)), rng.normal(size=(40, 2)) + 9])
    y = np.repeat(["left", "right"], 40)
    y[0] = "right"
    audit = nw.audit_labels(X, y, n_neighbors=4)
    assert audit.why(0).startswith(
        "of its 4 nearest rows 4 are left, 0 are right; wrong with a probability of "
    )
    assert audit.why(1).startswith("of its 4 nearest rows ")
    targets = nw.audit_labels(X, X[:, 0], n_neighbors=4, task="regression")
    assert targets.why(0).startswith("rows like it are mostly between ")


@pytest.mark.parametrize(
    ("metric", "scale"),
    [
        ("euclidean", 1.0),
        ("euclidean", 1e-200),
        ("sqeuclidean", 1.0),
        ("cosine", 1.0),
        ("correlation", 1.0),
        ("manhattan", 1.0),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_nearest_rows_have_the_distances_of_the_metric(rng, metric, scale, whole, tmp_path):
    """Also for whole numbers, whose cosines are fractions, and for tiny ones, which are scaled;
    after save and load.
    """
    from sklearn.metrics import pairwise_distances

    X = rng.integers(1, 30, (60, 5)).astype(float) if whole else rng.normal(size=(60, 5))
    y = (X[:, 0] > np.median(X[:, 0])).astype(int)
    audit = nw.audit_labels(X * scale, y, n_neighbors=4, metric=metric)
    audit.save(tmp_path / "audit.npz")
    new = audit.check(X[:9] * scale + (0 if whole else 1e-3 * scale), y[:9])
    true = scale * pairwise_distances(X, metric=metric)
    for one in (audit, nw.LabelAudit.load(tmp_path / "audit.npz")):
        for row in (0, 17, 59):
            near = one.nearest(row)
            expected = [true[row, neighbour.row] for neighbour in near]
            np.testing.assert_allclose(
                [n.distance for n in near], expected, rtol=1e-9, atol=1e-10 * scale
            )
    assert all(np.isfinite(n.distance) and n.distance >= 0 for n in new.nearest(3))


def test_near_copies_of_whole_numbers_are_found_by_angles(rng):
    X = rng.integers(1, 400, (200, 8)).astype(float)
    X[199] = 100 * X[0]
    X[199, 0] += 1  # nearly the same direction
    copies = nw.audit_labels(X, rng.integers(0, 2, 200), metric="cosine").copies
    assert copies is not None
    assert [group.tolist() for group in copies.groups] == [[0, 199]]


@pytest.mark.parametrize(("part", "is_copy"), [(0.01, True), (0.1, False)])
def test_a_near_copy_by_angles_is_one_by_its_angle(rng, part, is_copy):
    """Cosine distances grow with the square of the angle: a tenth of it is a hundredth of them."""
    X = rng.normal(size=(300, 12))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    usual = np.sort(np.arccos(np.clip(X @ X[0], -1, 1)))[20]
    aside = np.linalg.qr(np.stack([X[0], rng.normal(size=12)]).T)[0][:, 1]
    X[299] = np.cos(part * usual) * X[0] + np.sin(part * usual) * aside
    copies = nw.audit_labels(X, rng.integers(0, 2, 300), metric="cosine").copies
    assert (copies is not None and copies.group[0] == copies.group[299]) == is_copy
