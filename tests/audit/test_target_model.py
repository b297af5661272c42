"""The audit of continuous targets."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import nearworth as nw
from nearworth.audit.target_model import fit_targets


@pytest.fixture
def shifted(rng):
    X = rng.uniform(-2, 2, (400, 2))
    clean = np.sin(X[:, 0]) + X[:, 1] + 0.05 * rng.normal(size=400)
    y = clean.copy()
    wrong = np.zeros(400, dtype=bool)
    wrong[rng.choice(400, 30, replace=False)] = True
    y[wrong] += rng.choice([-1, 1], 30) * rng.uniform(2, 4, 30)
    return X, y, clean, wrong


def test_shifted_targets_come_first_and_are_mended(shifted):
    X, y, clean, wrong = shifted
    audit = nw.audit_labels(X, y, task="regression")
    assert wrong[audit.suspects(fraction=30 / 400)].mean() > 0.8
    assert np.abs(audit.suggested - clean)[wrong].mean() < 0.3 * np.abs(y - clean)[wrong].mean()
    low, high = audit.suggested_range.T
    assert 0.8 < ((low <= clean) & (clean <= high)).mean() <= 1.0
    assert 15 < audit.n_errors.estimate < 60
    listed = audit.suspects(max_fdr=0.2)
    assert len(listed) > 10
    assert wrong[listed].mean() > 0.7


@pytest.mark.filterwarnings("ignore:X_val. 50 of 50 rows are training rows")
def test_value_and_validation_value(shifted):
    X, y, clean, _ = shifted
    assert (
        nw.audit_labels(X, y, task="regression").value
        == nw.KNNShapley(10, task="regression").fit(X, y).value().values
    ).all()
    audit = nw.audit_labels(X, y, X_val=X[:50], y_val=clean[:50], task="regression")
    assert (
        audit.value
        == nw.KNNShapley(10, task="regression").fit(X, y).value(X[:50], clean[:50]).values
    ).all()


def test_units_do_not_matter(shifted):
    X, y, _, _ = shifted
    one, other = (nw.audit_labels(X, scale * y + 7, task="regression") for scale in (1.0, 1e3))
    np.testing.assert_allclose(one.quality, other.quality, atol=1e-6)


@pytest.mark.parametrize(
    ("targets", "suggested"),
    [([1.0, 2.0], [2.0, 1.0]), ([0.0, 0.0, 0.0, 0.0, 9.0], [2.25, 2.25, 2.25, 2.25, 0.0])],
)
def test_of_few_rows_none_is_called_wrong(targets, suggested):
    """All others are neighbours, so their mean is suggested, and every target lies within the
    range.
    """
    audit = nw.audit_labels(np.arange(len(targets))[:, None] * 1.0, targets, task="regression")
    np.testing.assert_allclose(audit.suggested, suggested, atol=1e-9)
    assert ((audit.quality > 0.5) & (audit.quality <= 1.0)).all()
    assert len(audit.suspects(max_fdr=0.4)) == 0
    low, high = audit.suggested_range.T
    assert ((low < targets) & (targets < high)).all()


def test_constant_targets_are_right():
    audit = nw.audit_labels(np.arange(3)[:, None] * 1.0, [3.0, 3.0, 3.0], task="regression")
    np.testing.assert_allclose(audit.quality, 1.0, atol=1e-9)
    np.testing.assert_allclose(audit.suggested_range, 3.0, atol=1e-9)
    assert audit.n_errors.estimate < 0.5


def test_explanation_and_frame(shifted):
    X, y, _, _ = shifted
    audit = nw.audit_labels(X, y, task="regression")
    why = audit.explain(int(audit.order[0]))
    assert "target" in why.sentence
    assert not why.value_by_label
    low, high = why.suggested_range
    assert low < why.suggested < high
    assert {"suggested_low", "suggested_high"} <= set(audit.to_frame("pandas").columns)
    assert "targets" in repr(audit)


@pytest.fixture
def prices(rng):
    """Features, targets over more than an order of magnitude with errors in proportion, and thirty
    rows to spoil.
    """
    X = rng.uniform(-1, 1, (500, 2))
    return (
        X,
        np.exp(3 + X[:, 0] + 0.5 * X[:, 1] + 0.1 * rng.normal(size=500)),
        rng.choice(500, 30, replace=False),
    )


@pytest.mark.parametrize("factor", [10.0, 100.0, 0.1, 0.01, -1.0])
def test_slips_of_the_decimal_point_and_the_sign_are_found_and_mended(prices, factor):
    X, clean, wrong = prices
    y = clean.copy()
    y[wrong] *= factor
    audit = nw.audit_labels(X, y, task="regression")
    assert set(audit.suspects(fraction=0.06)) == set(wrong)
    assert set(wrong) <= set(audit.suspects())
    assert len(audit.suspects()) <= 32
    mended = np.isclose(
        audit.suggested[wrong], clean[wrong], rtol=1e-9
    )  # the target itself, not a mean
    assert mended.sum() >= 24
    inside = (audit.suggested_range[:, 0] <= clean) & (clean <= audit.suggested_range[:, 1])
    assert (mended == inside[wrong]).all()  # it must be in the range that holds nine in ten
    assert inside.mean() > 0.88
    assert 27 < audit.n_errors.estimate < 35
    assert 12 < audit.n_errors.lower < 30  # slips are no tails of right targets


@pytest.mark.parametrize("factor", [1e3, 1e6, -1e9, 7.0])
def test_one_wild_target_leaves_the_others_alone(prices, factor):
    X, clean, wrong = prices
    y = clean.copy()
    y[wrong[0]] *= factor
    audit = nw.audit_labels(X, y, task="regression")
    assert audit.order[0] == wrong[0]
    assert len(audit.suspects()) <= 2
    others = np.delete(np.arange(500), wrong[0])
    change = np.abs(audit.suggested - nw.audit_labels(X, clean, task="regression").suggested)[
        others
    ]
    assert change.max() < np.ptp(clean)


def test_wilder_targets_come_first_even_where_all_are_certainly_wrong(prices):
    X, y, wrong = prices
    y[wrong[:4]] = [1e9, 1e5, 1e13, 1e7]
    audit = nw.audit_labels(X, y, task="regression")
    assert audit.order[:4].tolist() == wrong[[2, 0, 3, 1]].tolist()


@pytest.mark.parametrize("shift", [0.0, 1000.0])
def test_heavy_tails_are_not_errors(rng, shift):
    """Around zero and elsewhere; as they are, hundreds of these targets would seem wrong."""
    X = rng.normal(size=(600, 3))
    y = shift + np.exp(2.5 * (0.8 * X[:, 0] + 0.6 * rng.normal(size=600)))
    audit = nw.audit_labels(X, y, task="regression")
    assert len(audit.suspects()) <= 3
    assert audit.n_errors.lower == 0
    low, high = audit.suggested_range.T
    assert 0.8 < ((low <= y) & (y <= high)).mean() < 0.97


def test_skewed_targets_are_not_slips(rng):
    """Most of them small, some ten times as large for no reason that the features know."""
    X = rng.normal(size=(600, 3))
    audit = nw.audit_labels(X, rng.lognormal(size=600) ** 1.5, task="regression")
    assert len(audit.suspects()) <= 3


def test_exchanged_targets_and_good_predictions(rng, shifted):
    """Features of no use: all the evidence is in the predictions."""
    _, _, clean, _ = shifted
    wrong = rng.choice(400, 30, replace=False)
    y = clean.copy()
    y[wrong] = clean[np.roll(wrong, 1)]
    moved = np.flatnonzero(np.abs(y - clean) > 1)
    X = rng.normal(size=(400, 2))
    guess = clean + 0.1 * rng.normal(size=400)
    audit = nw.audit_labels(X, y, task="regression", predictions=guess)
    assert np.isin(moved, audit.order[: len(moved) + 5]).mean() > 0.9
    assert np.abs(audit.suggested - clean).mean() < 0.3
    alone = nw.audit_labels(X, y, task="regression")
    assert np.isin(moved, alone.order[: len(moved) + 5]).mean() < 0.5


def test_useless_predictions_do_no_harm(rng, shifted):
    X, y, _, wrong = shifted
    for guess in (rng.normal(size=400), np.zeros(400), 1e9 * rng.normal(size=400)):
        audit = nw.audit_labels(X, y, task="regression", predictions=guess)
        assert wrong[audit.suspects(fraction=30 / 400)].mean() > 0.8


@pytest.fixture
def bent(rng):
    """Many columns, so that neighbours are far; the target is a sum of straight and bent functions
    of some of them.
    """
    X = rng.normal(size=(1500, 8)) * 10.0 ** np.arange(-4, 4)
    Z = X / 10.0 ** np.arange(-4, 4)
    clean = 2 * Z[:, 0] + 3 * np.abs(Z[:, 1]) - Z[:, 2] + 0.3 * rng.normal(size=1500)
    wrong = rng.choice(1500, 75, replace=False)
    y = clean.copy()
    y[wrong] += rng.choice([-4, 4], 75)
    return X, Z, y, clean, wrong


def test_means_of_far_neighbours_are_corrected_by_a_trend(bent):
    """Against the same neighbours by their distances alone, which show no features."""
    _, Z, y, clean, wrong = bent
    distances = np.sqrt(((Z[:, None] - Z) ** 2).sum(axis=2))
    audit = nw.audit_labels(Z, y, task="regression")
    alone = nw.audit_labels(distances, y, task="regression", metric="precomputed")
    assert np.abs(audit.suggested - clean).mean() < 0.6 * np.abs(alone.suggested - clean).mean()
    found, before = (np.isin(wrong, a.order[:75]).mean() for a in (audit, alone))
    assert found > before + 0.15
    low, high = audit.suggested_range.T
    assert 0.85 < ((low <= clean) & (clean <= high)).mean() < 0.97


def test_the_trend_does_not_depend_on_units_or_on_columns_that_never_vary(bent):
    X, Z, y, _, _ = bent
    voters = nw.audit_labels(Z, y, task="regression")._voters
    constant = np.full((1500, 1), 1e6)
    one, *others = (fit_targets(voters, y, columns).answers["suggested"] for columns in (Z, X, -Z))
    np.testing.assert_allclose(one, others[0], rtol=1e-6)
    np.testing.assert_allclose(one, others[1], atol=0.2)  # knots are at other quantiles
    with_constant = fit_targets(voters, y, np.hstack([Z, constant])).answers["suggested"]
    np.testing.assert_allclose(one, with_constant, atol=1e-6)


def test_the_trend_is_that_of_a_regression_of_differences(rng):
    """Robinson's estimator by hand: targets and bent features less the means around each row."""
    X = rng.normal(size=(310, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=310)
    audit = nw.audit_labels(X, y, task="regression")
    voters = audit._voters
    votes = np.zeros((310, 310))
    np.add.at(votes, (np.arange(310)[:, None], voters.rows), voters.weights)
    means = (votes + votes.T) / (votes + votes.T).sum(axis=1, keepdims=True)
    bent = np.hstack(
        [(X - bend).clip(min=0.0) for bend in np.quantile(X, np.linspace(0, 1, 7)[:-1], axis=0)]
    )
    moved = bent - means @ bent
    ground = audit._model.ground
    nearer = ground.near + bent @ ground.slopes  # targets, drawn in
    gram = moved.T @ moved
    slopes = np.linalg.solve(
        gram + 0.005 * np.diag(gram.diagonal()), moved.T @ (nearer - means @ nearer)
    )
    np.testing.assert_allclose(ground.slopes, slopes, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        audit.suggested, bent @ slopes + means @ (nearer - bent @ slopes), atol=1e-9
    )


def test_few_rows_and_wide_tables_have_no_trend(rng):
    """Fewer than a hundred rows per column: slopes would follow the errors. The features may then
    be anything.
    """
    X = rng.normal(size=(200, 6))
    y = X[:, 0] + 0.1 * rng.normal(size=200)
    audit = nw.audit_labels(X, y, task="regression")
    distances = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    alone = nw.audit_labels(distances, y, task="regression", metric="precomputed")
    np.testing.assert_allclose(audit.suggested, alone.suggested, rtol=1e-12)
    np.testing.assert_allclose(audit.quality, alone.quality, rtol=1e-9)


def test_sparse_features_have_the_same_trend(bent):
    _, Z, y, _, _ = bent
    Z[Z < 0] = 0.0
    dense, sparse = (
        nw.audit_labels(features, y, task="regression")
        for features in (Z, scipy.sparse.csr_array(Z))
    )
    np.testing.assert_allclose(dense.suggested, sparse.suggested, rtol=1e-9)


def test_models_know_what_neighbours_do_not(rng):
    """One column counts, up and down again, eleven do not: neighbours are far, lines are straight,
    trees see it.
    """
    X = rng.normal(size=(400, 12))
    X[:, 0] = rng.integers(0, 4, 400)
    clean = np.where(X[:, 0] % 2 > 0, 5.0, 0.0) + 0.3 * rng.normal(size=400)
    y = clean.copy()
    wrong = np.zeros(400, dtype=bool)
    wrong[rng.choice(400, 15, replace=False)] = True
    y[wrong] = 5.0 - clean[wrong]
    seen = []
    audit = nw.audit_labels(
        X, y, task="regression", models="auto", progress=lambda *done: seen.append(done)
    )
    assert wrong[audit.suspects(fraction=15 / 400)].mean() > 0.9
    assert wrong[nw.audit_labels(X, y, task="regression").suspects(fraction=15 / 400)].mean() < 0.7
    assert seen[-1] == (15, 15)
    assert (
        audit.quality == nw.audit_labels(X, y, task="regression", models="auto", n_jobs=1).quality
    ).all()


def test_models_are_left_out_where_they_do_not_pay(rng):
    X = rng.normal(size=(60, 300))
    one, other = (
        nw.audit_labels(X, X[:, 0], task="regression", models=models) for models in (None, "auto")
    )
    assert (one.quality == other.quality).all()


def test_bad_models_and_predictions_are_refused_by_name(shifted):
    X, y, _, _ = shifted
    with pytest.raises(ValueError, match=r"models='best' is not known"):
        nw.audit_labels(X, y, task="regression", models="best")
    with pytest.raises(TypeError, match="models must be one of 'auto'"):
        nw.audit_labels(X, y, task="regression", models=3)
    with pytest.raises(ValueError, match="models='auto' needs features"):
        nw.audit_labels(np.abs(X @ X.T), y, task="regression", models="auto", metric="precomputed")
    with pytest.raises(ValueError, match="predictions"):
        nw.audit_labels(X, y, task="regression", predictions=y[:-1])
    with pytest.raises(ValueError, match="predictions"):
        nw.audit_labels(X, y, task="regression", predictions=np.where(y > 0, np.nan, y))
    with pytest.raises(ValueError, match="predictions are targets"):
        nw.audit_labels(X, (y > 0).astype(int), predictions=y)


@pytest.mark.parametrize("unit", [1.0, 3.0, 1e-9])
@pytest.mark.parametrize("kind", ["by neighbours", "by a model", "fitted here"])
def test_residuals_that_are_only_rounding_are_no_errors(kind, unit, rng):
    """Every target is that of all rows: no row is more wrong than another, and ranges stay
    narrow.
    """
    X = rng.normal(size=(200, 3))
    y = np.full(200, 0.1 * unit)
    keywords = {
        "by neighbours": {},
        "by a model": {"predictions": y},
        "fitted here": {"models": "auto"},
    }[kind]
    audit = nw.audit_labels(X, y, task="regression", **keywords)
    assert not len(audit.suspects())
    assert audit.n_errors.upper < 5
    assert np.ptp(audit.suggested_range, axis=1).max() < 1e-9 * unit


@pytest.mark.parametrize("seed", range(4))
def test_one_error_among_equal_targets_is_the_only_one(seed):
    """It moves what the rows around it are suggested; of most rows residuals are only rounding, and
    say nothing.
    """
    X = np.random.default_rng(seed).normal(size=(290, 3))
    y = np.full(290, 0.3)
    y[7] = 5.0
    assert nw.audit_labels(X, y, task="regression").suspects().tolist() == [7]
