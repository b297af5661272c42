"""Audits in files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import nearworth as nw
from helpers.noisy_labels import blobs
from nearworth._common.files import write_archive
from nearworth.audit.export import pack


@pytest.fixture(params=["text", "numbers", "targets", "frame"])
def audit(rng, request):
    X, codes = blobs(rng)
    y = nw.add_label_noise(np.array(["cat", "cow", "dog"])[codes], 0.1, random_state=rng)
    if request.param == "text":
        return nw.audit_labels(np.vstack([X, X[:3]]), [*y, *y[:3]])
    if request.param == "numbers":
        return nw.audit_labels(X, codes, metric="manhattan")
    if request.param == "targets":
        return nw.audit_labels(X, X[:, 0], task="regression")
    frame = pd.DataFrame(X).add_prefix("x").assign(label=y).set_axis(np.arange(len(X)) * 3)
    frame.loc[[3, 9], "label"] = None
    with pytest.warns(UserWarning, match="without a label"):
        return nw.audit_labels(frame, "label")


def same(one, other):
    pd.testing.assert_frame_equal(one.to_frame("pandas"), other.to_frame("pandas"))
    assert repr(one) == repr(other)
    assert one.n_errors == other.n_errors
    for selection in ({}, {"fraction": 0.1}, {"max_fdr": 0.2}, {"rule": "cluster"}):
        np.testing.assert_array_equal(one.suspects(**selection), other.suspects(**selection))
    row = int(one.order[0])
    assert (one.why(row), one.nearest(row)) == (other.why(row), other.nearest(row))
    assert one.given.dtype == other.given.dtype
    assert one.suggested.dtype == other.suggested.dtype
    assert one._repr_html_() == other._repr_html_()
    if one.classes is not None:
        np.testing.assert_array_equal(one.label_probabilities, other.label_probabilities)


def test_a_loaded_audit_says_the_same(audit, tmp_path):
    audit.save(tmp_path / "audit.npz")
    again = nw.LabelAudit.load(tmp_path / "audit.npz")
    same(audit, again)
    assert again.unlabelled == audit.unlabelled
    assert [g.tolist() for g in again.contradictions] == [g.tolist() for g in audit.contradictions]
    for call in (
        lambda: again.explain(0),
        lambda: again.check([[0.0]], [0]),
        lambda: again.report(tmp_path / "a"),
    ):
        with pytest.raises(
            ValueError, match="needs the data: not for checked rows or a loaded audit"
        ):
            call()


def test_a_review_goes_on_after_a_night(audit, tmp_path):
    audit.save(tmp_path / "audit.npz")
    again = nw.LabelAudit.load(tmp_path / "audit.npz")
    rows = audit.review_sample(50, random_state=2)
    np.testing.assert_array_equal(again.review_sample(50, random_state=2), rows)
    one = audit.reviewed(rows, rows % 7 == 0)
    other = again.reviewed(rows, rows % 7 == 0)
    same(one, other)
    one.save(tmp_path / "reviewed.npz")
    loaded = nw.LabelAudit.load(tmp_path / "reviewed.npz")
    same(one, loaded)
    assert loaded.precision(fraction=0.2) == one.precision(fraction=0.2)
    np.testing.assert_array_equal(loaded.review_sample(20), one.review_sample(20))


def test_what_cannot_be_saved_is_refused(rng, tmp_path):
    X, codes = blobs(rng)
    with pytest.raises(ValueError, match="save is for audited rows, not for checked ones"):
        nw.audit_labels(X, codes).check(X[:5], codes[:5]).save(tmp_path / "a")
    assert not list(tmp_path.iterdir())


def test_damaged_files_are_refused(audit, tmp_path):
    path = tmp_path / "audit.npz"
    audit.review_sample(20)
    audit.save(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match="is not an audit saved by nearworth, or it is damaged: .*Bad CRC-32"
    ):
        nw.LabelAudit.load(path)
    audit.valuation.save(path)
    with pytest.raises(ValueError, match="its format is 'nearworth valuation"):
        nw.LabelAudit.load(path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("quality", lambda a: a[1:]),
        ("quality", lambda a: a * np.nan),
        ("agreement", lambda a: a.astype(np.float32)),
        ("rows", lambda a: a + 10**6),
        ("rows", lambda a: a[1:]),
        ("distances", lambda a: a[:, 1:]),
        ("order", lambda a: a * 0),
        ("strata", lambda a: a - 5),
        ("judged", lambda a: a[1:]),
        ("valuation total", lambda a: a[1:]),
    ],
)
def test_parts_that_do_not_fit_are_refused(rng, tmp_path, name, change):
    X, codes = blobs(rng)
    audit = nw.audit_labels(X, codes)
    rows = audit.review_sample(20)
    audit = audit.reviewed(rows, rows % 5 == 0)
    audit.review_sample(20)
    description, arrays = pack(audit)
    write_archive(tmp_path / "a", "audit", description, arrays | {name: change(arrays[name])})
    with pytest.raises(ValueError, match="is not an audit saved by nearworth, or it is damaged"):
        nw.LabelAudit.load(tmp_path / "a")
    write_archive(tmp_path / "a", "audit", description, arrays)
    same(nw.LabelAudit.load(tmp_path / "a"), audit)
    short = description | {"labels": description["labels"] | {"given": ["<i8", [0]]}}
    write_archive(tmp_path / "a", "audit", short, arrays)
    with pytest.raises(ValueError, match="its parts are not those of its rows"):
        nw.LabelAudit.load(tmp_path / "a")


def test_html_is_inert(rng):
    X, codes = blobs(rng)
    names = np.array(["<script>", "&amp;", "c"])
    audit = nw.audit_labels(X, nw.add_label_noise(names[codes], 0.1, random_state=0))
    for html in (audit._repr_html_(), audit.explain(int(audit.order[0]))._repr_html_()):
        assert "<script" not in html
        assert "&lt;script&gt;" in html
        assert "color" not in html
        assert len(html) < 20_000
