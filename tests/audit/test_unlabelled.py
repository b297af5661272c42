"""Frames in audits: prepared as on the command line, rows without a label, the index, and every row
at its place.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import nearworth as nw
from nearworth.audit.audit import suggest

CLASSES = np.array(["cat", "Dog", "ox"])
WITHOUT = [4, 77, 120, 199]


@pytest.fixture
def animals(rng):
    """A mixed table with ten wrong labels, four missing ones and an odd spelling, and the true
    classes.
    """
    true = rng.integers(0, 3, 200)
    frame = pd.DataFrame(
        {
            "size": [f"{x:.2f} kg" for x in rng.normal(size=200) + 10 * true],
            "colour": np.array(["red", "blue", "green"])[true],
            "speed": rng.normal(size=200) * 100 - 1000 * true,
            "label": CLASSES[true],
        },
        index=pd.Index([f"id {i}" for i in range(200)], name="animal"),
    )
    wrong = np.arange(10, 110, 10)
    frame.iloc[wrong, 3] = CLASSES[(true[wrong] + 1) % 3]
    frame.iloc[WITHOUT, 3] = [None, "?", "", "n/a"]
    frame.iloc[5, 3] = f" {frame.iloc[5, 3].upper()}"
    return frame, wrong, CLASSES[true]


def audited(frame, *args, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nw.audit_labels(frame, *args, **keywords)


def test_every_array_has_an_entry_for_every_row_of_the_frame(animals):
    frame, wrong, true = animals
    audit = audited(frame, "label")
    assert len(audit) == 200
    assert set(audit.suspects()) == set(wrong)
    for row in wrong:
        assert audit.given[row] == frame["label"].iloc[row]
        assert audit.suggested[row] == true[row]
    without = np.isin(np.arange(200), WITHOUT)
    for array in (audit.quality, audit.agreement, audit.value, audit.label_probabilities[:, 0]):
        np.testing.assert_array_equal(np.isnan(array), without)
    assert not audit.is_label_issue[WITHOUT].any()
    assert [audit.given[row] for row in WITHOUT] == [None] * 4
    assert len(audit.order) == 196
    assert not set(audit.order) & set(WITHOUT)
    assert len(audit.suspects(fraction=0.5)) == 98


def test_it_is_the_audit_of_the_prepared_rows_that_have_a_label(animals):
    frame, _, _ = animals
    audit = audited(frame, "label")
    rows = np.setdiff1d(np.arange(200), WITHOUT)
    labels = [
        {"dog": "Dog"}.get(label.strip().lower(), label.strip().lower())
        for label in frame["label"].iloc[rows]
    ]
    X = nw.TablePreparer().fit_transform(frame.drop(columns="label").iloc[rows])
    alone = nw.audit_labels(X, labels)
    for name in (
        "given",
        "suggested",
        "quality",
        "agreement",
        "value",
        "confidence",
        "label_probabilities",
    ):
        np.testing.assert_array_equal(
            getattr(audit, name)[rows], getattr(alone, name), err_msg=name
        )
    for selection in ({}, {"fraction": 0.1}, {"max_fdr": 0.2}, {"rule": "lower-cluster"}):
        np.testing.assert_array_equal(
            audit.suspects(**selection), rows[alone.suspects(**selection)]
        )
    for row in (0, 6, 100, 198):
        place = int(np.searchsorted(rows, row))
        assert [n.row for n in audit.nearest(row)] == [rows[n.row] for n in alone.nearest(place)]
        assert audit.why(row) == alone.why(place)
        told = audit.explain(row)
        expected = alone.explain(place)
        assert (told.row, told.value, told.value_by_label) == (
            row,
            expected.value,
            expected.value_by_label,
        )
        assert [(e.row, e.value) for e in told.helped] == [
            (rows[e.row], e.value) for e in expected.helped
        ]
        assert [(e.row, e.label) for e in told.hurt] == [
            (rows[e.row], e.label) for e in expected.hurt
        ]


def test_rows_without_a_label_get_a_suggestion(animals):
    frame, _, true = animals
    audit = audited(frame, "label")
    assert {row: label for row, (label, _) in audit.unlabelled.items()} == {
        row: true[row] for row in WITHOUT
    }
    assert all(0.5 < probability < 1 for _, probability in audit.unlabelled.values())
    assert audit.suggested[4] == true[4]
    assert audit.why(4) == f"it has no label; {true[4]} is suggested"
    for call in (audit.explain, audit.nearest):
        with pytest.raises(ValueError, match=r"without a label cannot be judged; audit.unlabelled"):
            call(4)
    assert audited(frame.drop(index=frame.index[WITHOUT]), "label").unlabelled == {}


def test_a_suggestion_is_a_mean_over_the_nearest_rows(rng):
    X = rng.normal(size=(60, 2))
    y = rng.integers(0, 2, 60)
    audit = nw.audit_labels(X, y, n_neighbors=7)
    new = rng.normal(size=(5, 2))
    near = np.argsort(((new[:, None] - X) ** 2).sum(axis=2), axis=1)[:, :7]
    shares = (audit.label_probabilities[near].sum(axis=1) + 0.5) / 8
    labels, probabilities, nearest = suggest(audit, new)
    np.testing.assert_array_equal(nearest.rows, near)
    np.testing.assert_array_equal(labels, shares.argmax(axis=1))
    np.testing.assert_allclose(probabilities, shares.max(axis=1))


def test_what_was_done_is_said(animals):
    frame, _, _ = animals
    with pytest.warns(UserWarning, match="4 rows without a label left out") as said:
        audit = nw.audit_labels(frame, "label")
    assert [str(warning.message) for warning in said] == [f"{'; '.join(audit.notes)}."]
    assert audit.notes[0].startswith("4 rows without a label left out: 4, 77, 120 and 1 more")
    assert "are one class unless labels are exact" in audit.notes[1]
    assert "--" not in " ".join(audit.notes)
    assert all(note in repr(audit) for note in audit.notes)
    assert repr(audit).startswith("LabelAudit of 196 labels in 3 classes")


@pytest.mark.parametrize(
    "convert", [pl.from_pandas, lambda frame: pa.Table.from_pandas(frame, preserve_index=False)]
)
def test_polars_and_arrow(animals, convert):
    frame, _, _ = animals
    audit = audited(frame, "label")
    found = audited(convert(frame.reset_index(drop=True)), "label")
    np.testing.assert_array_equal(found.quality, audit.quality)
    assert found.unlabelled == audit.unlabelled
    assert (
        type(found.to_frame()).__module__.split(".")[0]
        == type(convert(frame)).__module__.split(".")[0]
    )
    with pytest.raises(ValueError, match=r"no index: X was no frame of pandas. Use suspects\(\)"):
        found.suspects(index=True)


def test_the_index_names_the_suspects(animals):
    frame, _, _ = animals
    audit = audited(frame, "label")
    assert audit.suspects(index=True).tolist() == [f"id {row}" for row in audit.suspects()]
    assert len(audit.suspects(index=True, fraction=0.5)) == 98
    cleaned = frame.drop(index=audit.suspects(index=True))
    assert len(cleaned) == 200 - len(audit.suspects())
    table = audit.to_frame()
    pd.testing.assert_index_equal(table.index, frame.index)
    assert table["is_label_issue"].sum() == len(audit.suspects())
    assert pd.isna(table.loc["id 4", "given_label"])


@pytest.mark.parametrize(
    "index",
    [
        pd.MultiIndex.from_product([["a", "b"], range(100)], names=["part", None]),
        pd.date_range("2026-01-01", periods=200, freq="h"),
        pd.Index([None, *range(1, 200)], dtype=object),
        pd.Index([np.nan, *range(1, 200)]),
        pd.RangeIndex(1000, 1200),
    ],
)
def test_indexes_of_every_kind(animals, index, tmp_path):
    frame, _, _ = animals
    frame = frame.set_axis(index)
    audit = audited(frame, "label")
    kept = frame.drop(index=audit.suspects(index=True))
    assert kept.index.equals(index[np.setdiff1d(np.arange(200), audit.suspects())])
    audit.save(tmp_path / "audit")
    assert (
        nw.LabelAudit.load(tmp_path / "audit")
        .suspects(index=True)
        .equals(audit.suspects(index=True))
    )


def test_index_labels_that_other_rows_have_too_are_warned_of(animals):
    frame, _, _ = animals
    frame = frame.set_axis([*range(100), *range(100)])
    audit = audited(frame, "label")
    with pytest.warns(
        UserWarning, match=f"{len(audit.suspects())} more rows have the same index labels"
    ):
        labels = audit.suspects(index=True)
    assert labels.tolist() == (audit.suspects() % 100).tolist()


def test_a_review_counts_rows_of_the_frame(animals, tmp_path):
    frame, wrong, _ = animals
    audit = audited(frame, "label")
    rows = audit.review_sample(60, random_state=3)
    assert not set(rows) & set(WITHOUT)
    reviewed = audit.reviewed(rows, np.isin(rows, wrong))
    assert reviewed.n_errors.basis == "review"
    judged_wrong = rows[np.isin(rows, wrong)]
    assert (reviewed.quality[judged_wrong] == 0).all()
    assert np.isnan(reviewed.quality[WITHOUT]).all()
    assert reviewed.why(int(judged_wrong[0])) == "judged wrong in the review"
    assert (
        set(judged_wrong) <= set(reviewed.suspects(max_fdr=0.2)) <= set(range(200)) - set(WITHOUT)
    )
    assert reviewed.precision(judged_wrong).estimate == 1.0
    assert not set(reviewed.review_sample(20)) & (set(rows) | set(WITHOUT))
    with pytest.raises(ValueError, match="rows that the last review_sample of this audit drew"):
        audit.reviewed([*rows, 4], [False] * 61)
    with pytest.raises(ValueError, match="n=197 rows to judge were asked for, but 196 are left"):
        audit.review_sample(197)


def test_copies_are_rows_of_the_frame(animals):
    frame, _, _ = animals
    twice = pd.concat([frame, frame.iloc[[60, 61]].assign(label="ox")])
    audit = audited(twice, "label")
    assert [group.tolist() for group in audit.copies.groups] == [[60, 200], [61, 201]]
    for group in audit.contradictions:
        assert len(set(audit.given[group])) == 2


def test_new_rows_are_prepared_alike(animals):
    frame, _, true = animals
    audit = audited(frame.iloc[50:], "label")
    with pytest.warns(UserWarning, match="1 row without a label left out: 4"):
        new = audit.check(frame.iloc[:50], "label")
    assert len(new) == 50
    assert set(new.suspects()) == {10, 20, 30, 40}
    assert new.suspects(index=True).tolist() == [f"id {row}" for row in new.suspects()]
    assert new.unlabelled[4][0] == true[4]
    assert all(n.label == audit.given[n.row] for n in new.nearest(10))
    reordered = audited(frame.iloc[50:], "label").check(
        frame.iloc[:50, ::-1].drop(index=["id 4"]), "label"
    )
    assert set(reordered.suspects(index=True)) == set(new.suspects(index=True))
    with pytest.raises(
        ValueError, match=r"columns differ from training. Missing: \[\]; further: \['extra'\]"
    ):
        audit.check(frame.iloc[:50].assign(extra=1), "label")
    with pytest.raises(ValueError, match="labels that no audited row carries"):
        audit.check(frame.iloc[6:9].assign(label="cow"), "label")
    with pytest.raises(ValueError, match="X_new has no column 'lable' for the labels; it has "):
        audit.check(frame.iloc[6:9], "lable")


def test_a_frame_of_labels_beside_an_array_audit(rng):
    X = rng.normal(size=(60, 2))
    y = rng.integers(0, 2, 60)
    audit = nw.audit_labels(X, y)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(label=y)
    with pytest.warns(UserWarning, match="feature names"):
        new = audit.check(frame.iloc[:9].set_axis(list("abcdefghi")), "label")
    assert new.index.tolist() == list("abcdefghi")


def test_trusted_rows_groups_and_probabilities_have_an_entry_for_each_row(animals, rng):
    frame, wrong, true = animals
    probabilities = (true[:, None] == np.sort(CLASSES)) * 0.9 + 1 / 30
    groups = rng.integers(0, 50, 200)
    audit = audited(frame, "label", pred_probs=probabilities, groups=groups)
    rows = np.setdiff1d(np.arange(200), WITHOUT)
    complete = audited(
        frame.iloc[rows], "label", pred_probs=probabilities[rows], groups=groups[rows]
    )
    np.testing.assert_array_equal(audit.quality[rows], complete.quality)
    for given in (probabilities, pd.DataFrame(probabilities)):
        np.testing.assert_array_equal(
            audited(frame, "label", pred_probs=given, groups=pd.Series(groups)).quality,
            audit.quality,
        )
    trusted = frame.drop(index=frame.index[[*wrong, *WITHOUT]]).iloc[:40]
    one = audited(frame, "label", X_val=trusted, y_val="label")
    other = audited(
        frame, "label", X_val=trusted.drop(columns="label"), y_val=trusted["label"].str.strip()
    )
    assert len(one.unlabelled) == 4
    assert one.valuation.n_val == other.valuation.n_val == 40
    with pytest.raises(ValueError, match="groups has 199 entries for 196 rows"):
        audited(frame, "label", groups=groups[1:])


def test_amounts_are_taken_as_amounts_or_refused_at_once(rng):
    X = rng.normal(size=(300, 2))
    price = np.round(1000 * (5 + X[:, 0])).astype(int)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(price=price.astype(float))
    frame.loc[[3, 8], "price"] = np.nan
    with pytest.warns(UserWarning, match=r"taken as amounts, for regression"):
        audit = nw.audit_labels(frame, "price")
    assert audit.classes is None
    assert set(audit.unlabelled) == {3, 8}
    assert abs(audit.unlabelled[3][0] - price[3]) < 1000
    assert np.isnan(audit.unlabelled[3][1])
    assert np.isnan(audit.suggested_range[3]).all()
    with pytest.raises(
        ValueError, match=r"y holds \d+ distinct numbers in 300 rows, which look like amounts"
    ):
        nw.audit_labels(X, price)
    assert len(audited(X, price // 100, task="classification").classes) > 20
    with pytest.raises(ValueError, match="y holds continuous values"):
        nw.audit_labels(X, price + 0.5)


def test_frames_that_cannot_be_audited_are_refused_by_name(animals):
    frame, _, _ = animals
    with pytest.raises(ValueError, match="X has no column 'Lable' for the labels; it has 'size'"):
        nw.audit_labels(frame, "Lable")
    with pytest.raises(ValueError, match=r"X has shape \(0, 4\): give rows"):
        nw.audit_labels(frame.iloc[:0], "label")
    with pytest.raises(
        ValueError, match=r"X has shape \(200, 1\): give rows, and columns beside 'label'"
    ):
        nw.audit_labels(frame[["label"]], "label")
    with pytest.raises(ValueError, match="two columns of one name"):
        nw.audit_labels(pd.concat([frame, frame[["size"]]], axis=1), "label")
    with pytest.raises(ValueError, match="the target 'label' is empty in every row"):
        nw.audit_labels(frame.assign(label=None), "label")
    with pytest.raises(
        ValueError, match="'cat' in every row: with one class there is nothing to learn"
    ):
        nw.audit_labels(frame.assign(label="cat"), "label")
    with pytest.raises(ValueError, match="no column is left to compare rows by"):
        nw.audit_labels(frame[["label"]].assign(same=1), "label")


def test_the_page_has_the_cells_and_row_numbers_of_the_frame(animals, tmp_path):
    frame, wrong, _ = animals
    audit = audited(frame, "label")
    audit.report(tmp_path / "page.html", ids=frame.index)
    page = (tmp_path / "page.html").read_text()
    assert frame["size"].iloc[int(wrong[-1])] in page
    assert f"id {wrong[-1]}" in page


def test_a_prepared_dataset_of_hugging_face(animals):
    pytest.importorskip(
        "datasets.arrow_dataset", reason="datasets is not installed: pip install datasets"
    )
    import datasets

    frame, wrong, _ = animals
    audit = audited(datasets.Dataset.from_pandas(frame, preserve_index=False), "label")
    assert set(audit.suspects()) == set(wrong)
