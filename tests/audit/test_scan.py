"""One scan holds the audit as it would be alone, takes any input that an audit takes, and finds
what was planted.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.metrics import pairwise_distances

import nearworth as nw
from helpers.report_pages import embedded
from nearworth.audit.votes import first_copies

KINDS = ["duplicates", "conflicts", "outliers", "leakage", "imbalance"]


def test_the_audit_is_the_audit(rng):
    X = rng.normal(size=(150, 4))
    y = rng.integers(0, 3, 150)
    found = nw.scan(X, y)
    audit = nw.audit_labels(X, y)
    assert np.array_equal(found.labels.quality, audit.quality)
    assert np.array_equal(found.labels.value, audit.value)
    assert [line.split(":")[0] for line in found.summary().splitlines()] == ["labels", *KINDS]
    assert repr(found) == found.summary()


@pytest.mark.parametrize(
    "kind", ["strings", "targets", "sparse", "precomputed", "frame", "cosine", "far", "float32"]
)
def test_any_input_of_an_audit(kind, rng):
    X = rng.normal(size=(90, 5))
    y = rng.integers(0, 2, 90)
    keywords = {}
    X[3] = X[4]
    if kind == "strings":
        y = np.array(["no", "yes"])[y]
    if kind == "targets":
        y = rng.normal(size=90)
        keywords = {"task": "regression"}
    if kind == "sparse":
        X = scipy.sparse.csr_array(X)
    if kind == "precomputed":
        X = pairwise_distances(X)
        keywords = {"metric": "precomputed"}
    if kind == "frame":
        X = pytest.importorskip("pandas").DataFrame(X)
    if kind == "cosine":
        keywords = {"metric": "cosine"}
    if kind == "far":
        X = X + 1e6
    if kind == "float32":
        X = X.astype(np.float32)
    found = nw.scan(X, y, **keywords)
    if kind != "precomputed":
        assert [group.tolist() for group in found.duplicates.groups] == [[3, 4]]
    for name in KINDS:
        finding = getattr(found, name)
        assert len(finding.to_frame()) == len(finding)
        assert name == "leakage" or len(finding.scores) == 90


@pytest.mark.parametrize("n", [2, 3, 12])
def test_few_rows(n, rng):
    found = nw.scan(rng.normal(size=(n, 2)), np.arange(n) % 2, n_neighbors=20)
    assert not len(found.outliers)
    assert not len(found.duplicates)


def test_same_on_any_number_of_threads(rng):
    X = rng.normal(size=(300, 5))
    y = rng.integers(0, 2, 300)
    one = nw.scan(X, y, n_jobs=1)
    two = nw.scan(X, y, n_jobs=2)
    assert all(
        np.array_equal(getattr(one, kind).scores, getattr(two, kind).scores) for kind in KINDS
    )


def groups_of(finding):
    return [group.tolist() for group in finding.groups]


def planted(rng, n=300, d=6):
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] > 0).astype(int)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=40),
    st.integers(0, 2**32 - 1),
)
def test_identical_rows_are_those_of_the_definition(picks, seed):
    """Every pair is compared: equal, or one the other's rounding; groups are transitive."""
    source = np.random.default_rng(seed).normal(size=(7, 3)) * 10.0 ** np.arange(-3, 4)[:, None]
    X = np.array(
        [source[k].astype(np.float32) if single else source[k] for k, single in picks],
        dtype=np.float64,
    )
    group = np.arange(len(X))
    for i in range(len(X)):
        for j in range(i):
            a = X[i]
            b = X[j]
            if (
                (a == b).all()
                or (a.astype(np.float32) == b).all()
                or (b.astype(np.float32) == a).all()
            ):
                group[group == group[i]] = group[j]
    found = first_copies(X)
    assert ((found[:, None] == found) == (group[:, None] == group)).all()


def test_rows_that_round_alike_are_no_copies():
    X = np.array([[1.0, 1.0 + 1e-9], [1.0, 1.0 + 2e-9], [3.0, 0.1], [2.0, 3.0]])
    assert first_copies(X).tolist() == [0, 1, 2, 3]
    assert first_copies(X[:2], X[:1].astype(np.float32)).tolist() == [
        0,
        0,
        0,
    ]  # here the rounding is a row itself


def test_minus_zero_and_types():
    assert first_copies(np.array([[0.0], [-0.0]])).tolist() == [0, 0]
    assert first_copies(np.array([[1], [2]]), np.array([[2.0]])).tolist() == [0, 1, 1]
    assert first_copies(scipy.sparse.csr_array(np.eye(3)[[0, 1, 0]])).tolist() == [0, 1, 0]


def test_planted_copies_are_all_found_and_none_invented(rng):
    X, y = planted(rng)
    order = rng.permutation(330)
    rows = np.concatenate([X, X[:10], X[10:20].astype(np.float32), X[20:30] + 1e-7])[order]
    labels = np.concatenate([y, 1 - y[:10], y[10:30]])[order]
    place = np.argsort(order)
    found = nw.scan(rows, labels)
    wanted = sorted(
        sorted(pair) for pair in zip(place[:30].tolist(), place[300:].tolist(), strict=True)
    )
    assert groups_of(found.duplicates) == wanted
    assert groups_of(found.conflicts) == [
        pair for pair in wanted if labels[pair[0]] != labels[pair[1]]
    ]
    assert len(found.conflicts.groups) == 10
    frame = found.duplicates.to_frame("pandas")
    assert frame["exact"].sum() == 40
    assert frame["extra"].sum() == 30
    assert (frame["score"] > 0.97).all()
    assert (found.conflicts.scores[found.conflicts.rows] == 1).all()
    assert "60 rows in 30 groups of copies, 40 identical" in found.summary()


def test_identical_rows_of_a_coarse_table_are_listed(rng):
    X = rng.integers(0, 2, (200, 2)).astype(float)
    found = nw.scan(X, rng.integers(0, 2, 200))
    assert found.labels.copies is None
    assert sorted(map(len, found.duplicates.groups)) == sorted(
        np.unique(X, axis=0, return_counts=True)[1]
    )
    assert (
        "200 rows in 4 groups of identical rows, about as many as chance makes"
        in found.duplicates.summary
    )


def test_what_further_copies_draw(rng):
    X, y = planted(rng, 40)
    found = nw.scan(
        np.concatenate([X, X[:1], X[:1]]),
        np.concatenate([y, y[:1], y[:1]]),
        X_val=X[5:9] + 0.1,
        y_val=y[5:9],
    )
    paid = np.maximum(found.labels.value, 0)
    share = paid[[40, 41]].sum() / paid.sum()
    assert f"draw {share:.1%} of payments" in found.duplicates.summary


def test_of_copies_with_different_labels_the_most_valuable_is_not_extra(rng):
    X, y = planted(rng, 60)
    found = nw.scan(np.concatenate([X, X[:1]]), np.concatenate([y, 1 - y[:1]]))
    value = found.labels.value
    assert value[0] != value[60]
    assert found.duplicates.to_frame("pandas")["extra"].tolist() == [
        bool(value[0] < value[60]),
        bool(value[60] < value[0]),
    ]


def test_a_row_that_is_there_many_times_is_a_leak(rng):
    X, y = planted(rng, 60)
    X[:30] = X[0]  # all that are near are at the same place
    assert nw.scan(
        X, y, X_val=np.concatenate([X[:1], X[40:41] + 5.0]), y_val=y[[0, 40]]
    ).leakage.rows.tolist() == [0]


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine"])
def test_leaked_rows_are_found_and_no_others(metric, rng):
    X, y = planted(rng)
    X_val = np.concatenate(
        [rng.normal(size=(60, 6)), X[:5], X[5:10].astype(np.float32), X[10:15] * (1 + 1e-9) + 1e-8]
    )
    y_val = (X_val[:, 0] > 0).astype(int)
    leakage = nw.scan(X, y, X_val=X_val, y_val=y_val, metric=metric).leakage
    assert leakage.rows.tolist() == [*range(60, 75)]
    assert leakage.to_frame("pandas")["training_row"].tolist() == [*range(15)]
    assert leakage.to_frame("pandas")["exact"].tolist() == [True] * 10 + [False] * 5
    assert len(leakage.scores) == 75


def test_the_score_without_leaks_is_that_of_the_other_rows(rng):
    X = rng.normal(size=(100, 5))
    y = rng.integers(0, 2, 100)
    X_val = np.concatenate([X[:10], rng.normal(size=(30, 5))])
    y_val = np.concatenate([y[:10], rng.integers(0, 2, 30)])
    says = nw.scan(X, y, X_val=X_val, y_val=y_val, n_neighbors=3).leakage.summary
    near = np.argsort(((X_val[:, None] - X) ** 2).sum(axis=2), axis=1)[:, :3]
    right = (y[near] == y_val[:, None]).mean(axis=1)
    assert f"{right.mean():.3f} of all cases, {right[10:].mean():.3f} without" in says


def test_all_validation_rows_may_be_leaked_and_none_given(rng):
    X, y = planted(rng, 50)
    assert len(nw.scan(X, y, X_val=X[:9], y_val=y[:9]).leakage.rows) == 9
    none = nw.scan(X, y).leakage
    assert not len(none)
    assert none.summary == "no validation set was given"
    assert len(none.to_frame("pandas")) == 0


def outliers(X, **parameters):
    return nw.scan(X, np.arange(len(X)) % 2, **parameters).outliers


@pytest.mark.parametrize("d", [1, 2, 4, 6, 20])
def test_few_or_none_on_clean_data(d, rng):
    assert len(outliers(rng.normal(size=(1000, d)))) <= 1
    assert len(outliers(rng.uniform(size=(1000, d)))) <= 1
    assert len(outliers(np.exp(rng.normal(size=(1000, d))))) <= 3


@pytest.mark.parametrize("load", [load_digits, load_iris, load_wine])
def test_few_on_clean_real_data(load):
    X = load().data
    assert len(outliers((X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9))) <= 0.01 * len(X)


@pytest.mark.parametrize("d", [1, 2, 3, 10])
def test_a_row_far_away_is_the_first_outlier(d, rng):
    X = rng.normal(size=(500, d))
    X[77] = 60.0
    found = outliers(X)
    assert found.rows[0] == 77
    assert found.scores.argmax() == 77


def test_a_row_in_a_direction_of_its_own(rng):
    X = np.zeros((500, 40))
    X[:, :5] = rng.normal(size=(500, 5))
    X[3] = 0.0
    X[3, 30] = 2.5  # no longer than other rows
    assert outliers(X).rows.tolist() == [3]


def test_scores_do_not_depend_on_units_or_place(rng):
    X = rng.normal(size=(200, 5))
    scores = outliers(X).scores
    assert np.allclose(outliers(1000.0 * X).scores, scores)
    assert np.allclose(outliers(X + 1000.0).scores, scores, atol=1e-6)


def test_rows_on_a_grid_and_few_rows_and_equal_rows(rng):
    grid = np.stack(np.meshgrid(*[np.arange(6.0)] * 3), axis=-1).reshape(-1, 3)
    assert not len(outliers(grid))
    assert not len(outliers(rng.normal(size=(10, 3))))
    assert not len(outliers(np.ones((60, 5))))


def test_inner_products_are_no_distances(rng):
    X = rng.normal(size=(60, 5))
    assert not outliers(X, metric=lambda a, b: -float(a @ b)).scores.any()


def test_small_classes_come_smallest_first(rng):
    y = np.repeat(["a", "b", "c"], [150, 15, 5])
    found = nw.scan(rng.normal(size=(170, 4)), y).imbalance
    assert [len(group) for group in found.groups] == [5, 15]
    assert found.summary == "classes with fewer than 20 rows: 2, with 10 or fewer: 1"
    frame = found.to_frame("pandas")
    assert frame["of"].unique().tolist() == ["class c", "class b"]
    assert found.scores[0] == 0
    assert found.scores[-1] == 0.75


def test_the_group_that_makes_the_score(rng):
    """One small group is right, the labels of the others are drawn by lot."""
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] > 0).astype(int)
    groups = np.repeat(["good", "bad"], [100, 200])
    y[100:] = rng.integers(0, 2, 200)
    X_val = rng.normal(size=(200, 3))
    found = nw.scan(X, y, X_val=X_val, y_val=(X_val[:, 0] > 0).astype(int), groups=groups).imbalance
    assert found.groups[-1].tolist() == [*range(100)]
    assert "group good makes" in found.summary
    assert not nw.scan(X, y, groups=np.arange(300) % 3).imbalance.groups


def test_targets_have_no_classes(rng):
    found = nw.scan(rng.normal(size=(60, 3)), rng.normal(size=60), task="regression").imbalance
    assert not found.groups
    assert found.summary == ""


@pytest.mark.parametrize("kind", ["texts", "codes", "targets"])
def test_a_frame_with_rows_without_a_label_keeps_its_row_numbers(kind, rng, tmp_path):
    frames = pytest.importorskip("pandas")
    X = rng.normal(size=(200, 6))
    X[150], X[160] = 60.0, X[161]
    target = {
        "texts": np.where(X[:, 0] > 0, "cat", "dog"),
        "codes": (X[:, 0] > 0) * 1.0,
        "targets": X[:, 1],
    }[kind]
    frame = frames.DataFrame(X, columns=list("abcdef")).assign(label=target)
    groups = np.arange(200) % 5
    trusted = frame.iloc[90:93]
    frame.loc[[3, 50], "label"] = None
    keywords = {"task": "regression"} if kind == "targets" else {}
    with pytest.warns(UserWarning, match="2 rows without a label"):
        found = nw.scan(frame, "label", X_val=trusted, y_val="label", groups=groups, **keywords)
    assert found.outliers.rows.tolist() == [150]
    assert groups_of(found.duplicates) == [[160, 161]]
    assert found.duplicates.rows.tolist() == [160, 161]
    assert found.duplicates.columns["exact"].all()
    assert found.leakage.columns["training_row"].tolist() == [90, 91, 92]
    assert "nan" not in found.summary()
    for finding in (found.duplicates, found.conflicts, found.outliers, found.imbalance):
        np.testing.assert_array_equal(np.isnan(finding.scores), np.isin(np.arange(200), [3, 50]))
    for group in found.imbalance.groups:  # one of every five rows
        assert len(set(group % 5)) == 1
    found.report(tmp_path / "page.html")
    data = embedded((tmp_path / "page.html").read_text())
    assert data["findings"]["duplicates"]["rows"] == [160, 161]
    assert data["findings"]["duplicates"]["near"] == [[161], [160]]
    assert data["findings"]["outliers"]["rows"] == [150]
    assert data["findings"]["leakage"]["rows"] == [90, 91, 92]
