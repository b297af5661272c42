"""Copies are found, and nothing else is."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
import scipy.sparse
from sklearn.datasets import load_digits, load_wine
from sklearn.metrics import average_precision_score
from sklearn.neighbors import NearestNeighbors

import nearworth as nw
from nearworth.audit.noise_level import Posterior
from nearworth.audit.noise_model import NoiseModel
from nearworth.audit.predictions import independence, with_labels_of_copies
from nearworth.audit.scan import find_conflicts
from nearworth.audit.votes import Copies, agree, exact_copies, joined, near_copies
from nearworth.neighbors.distances import first_duplicates


def nearest(X, size=40):
    distances, rows = NearestNeighbors(n_neighbors=size + 1).fit(X).kneighbors(X)
    return rows[:, 1:].astype(np.int32), distances[:, 1:]


def smooth(kind, rng):
    if kind == "digits":
        return load_digits().data
    if kind == "wine":
        X = load_wine().data
        return (X - X.mean(axis=0)) / X.std(axis=0)
    return {"normal": rng.normal(size=(2000, 5)), "skew": np.exp(2 * rng.normal(size=(2000, 4)))}[
        kind
    ]


@pytest.mark.parametrize("kind", ["digits", "wine", "normal", "skew"])
def test_near_copies_are_found_and_none_invented(kind, rng):
    X = smooth(kind, rng)
    clean = near_copies(*nearest(X), None)
    assert clean is None or sum(map(len, clean.groups)) <= 0.002 * len(X)
    rows = rng.permutation(len(X))[:40]
    noise = rng.normal(size=(40, X.shape[1]))
    noise *= 0.01 * nearest(X)[1][rows, :1] / np.linalg.norm(noise, axis=1, keepdims=True)
    found = near_copies(*nearest(np.concatenate([X, X[rows] + noise])), None)
    assert (found.group[len(X) :] == found.group[rows]).sum() >= 39


def test_near_copies_join_groups_of_exact_ones(rng):
    X = rng.normal(size=(300, 4))
    X = np.concatenate([X, X[:1], X[:1] + 1e-5])  # row 300 is row 0, row 301 nearly
    exact = exact_copies(first_duplicates(X), X)
    assert [rows.tolist() for rows in exact.groups] == [[0, 300]]
    rows, distances = nearest(X)
    distances[rows == np.where(np.arange(302) == 0, 300, 0)[:, None]] = (
        np.inf
    )  # as the engine lists: no exact copies
    order = np.argsort(distances, axis=1, kind="stable")
    found = near_copies(
        np.take_along_axis(rows, order, 1), np.take_along_axis(distances, order, 1), exact
    )
    assert [rows.tolist() for rows in found.groups] == [[0, 300, 301]]


def test_cells_of_a_coarse_table_are_no_copies(rng):
    tables = (
        rng.integers(0, 2, (500, 2)),
        rng.normal(size=(500, 2)),
        np.round(rng.normal(size=(500, 2)), 1),
    )
    ages = np.column_stack([rng.integers(18, 80, 900), rng.integers(0, 2, (900, 6))])
    tied = np.repeat(rng.integers(0, 4, (900, 1)), 2, axis=1) * [1, 10] + rng.integers(
        0, 2, (900, 2)
    )  # not independent
    for X in (*tables, ages, tied, scipy.sparse.csr_array(ages)):
        assert exact_copies(first_duplicates(X), X) is None


@pytest.mark.parametrize("times", [2, 10])
def test_copies_of_a_coarse_table_are_copies(rng, times):
    """Equal by far more often than rows that differ in one column only explain, however often they
    are repeated.
    """
    X = np.tile(rng.integers(0, 5, (300, 10)), (times, 1))
    assert sorted(map(len, exact_copies(first_duplicates(X), X).groups)) == [times] * 300


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("n_answers", [1, 2])
def test_copies_of_a_number_and_few_answers_are_copies(rng, times, n_answers):
    """Nearly all rows are equal in the answers: only rows that differ there tell how often numbers
    meet.
    """
    X = np.column_stack([rng.normal(size=300), 1 + rng.integers(0, 2, (300, n_answers))])
    every = np.tile(X, (times, 1))
    assert sorted(map(len, exact_copies(first_duplicates(every), every).groups)) == [times] * 300
    audit = nw.audit_labels(
        np.concatenate([X, X[:40]]), np.append(X[:, 0] > 0, X[:40, 0] <= 0).astype(int)
    )
    assert len(audit.contradictions) == 40
    assert audit.n_errors.lower >= 40


@pytest.mark.parametrize("n", [20, 100, 500])
def test_few_rows_that_meet_by_chance_are_no_copies(n, rng):
    tables = [
        np.column_stack([rng.integers(0, n // 2, n), 1 + (rng.random(n) < 0.1)]) for _ in range(50)
    ]
    found = [exact_copies(first_duplicates(X), X) for X in tables]
    assert sum(copies is not None for copies in found) <= 1


@pytest.mark.parametrize("k", [1, 10])
@pytest.mark.parametrize("times", [3, 10])
def test_neighbours_agree_with_rows_as_if_these_were_there_once(k, times, rng):
    X, y = noisy_digits(rng, 200)[:2]
    once = nw.audit_labels(X, y, n_neighbors=k)
    copied = nw.audit_labels(np.tile(X, (times, 1)), np.tile(y, times), n_neighbors=k)
    np.testing.assert_allclose(copied.agreement, np.tile(once.agreement, times), atol=1e-9)


def test_rows_that_meet_by_chance_may_have_different_labels(rng):
    """Outcomes are likelier for the old than for the young: nothing is wrong, and nothing is said
    to be.
    """
    X = np.column_stack([rng.integers(18, 60, 800), rng.integers(0, 2, (800, 3))]).astype(float)
    y = (60 * rng.random(800) < X[:, 0]).astype(int)
    audit = nw.audit_labels(
        nw.TablePreparer().fit_transform(pandas.DataFrame(X, columns=list("abcd"))), y
    )
    assert audit.copies is None
    assert audit.contradictions == []
    assert audit.n_errors.lower < 20
    found = nw.scan(X, y, n_neighbors=5)
    assert len(found.conflicts.groups) > 20
    assert "no label need be wrong" in found.conflicts.summary


def test_inner_products_are_no_distances():
    keys = np.array([[-4.0, 1e-9, 5.0], [-4.0, -1.0, 2.0], [-1.0, 3.0, 5.0], [1e-9, 2.0, 3.0]])
    rows = np.array([[1, 3, 2], [0, 2, 3], [1, 3, 0], [0, 1, 2]])
    assert near_copies(rows, keys, None) is None


def test_contradictions():
    group = np.array([0, 1, 0, 2, 2, 2, 3])
    copies = Copies(group, identical=group)
    labels = np.array(["a", "b", "a", "x", "y", "x", "b"])
    assert [rows.tolist() for rows in copies.groups] == [[0, 2], [3, 4, 5]]
    assert [rows.tolist() for rows in copies.contradictions(labels)] == [[3, 4, 5]]
    assert copies.fewest_errors(labels) == 1
    near = Copies(
        group, 0.03, identical=np.array([0, 1, 0, 3, 4, 3, 6])
    )  # row 4 is nearly like its group
    assert [rows.tolist() for rows in near.groups] == [[0, 2], [3, 4, 5]]
    assert near.contradictions(labels) == []
    assert near.fewest_errors(labels) == 0


def noisy_digits(rng, n=500):
    data = load_digits()
    rows = rng.permutation(len(data.target))[:n]
    X = data.data[rows]
    y = data.target[rows].copy()
    wrong = rng.random(n) < 0.1
    y[wrong] = (y[wrong] + rng.integers(1, 10, wrong.sum())) % 10
    return X, y, wrong


@pytest.mark.parametrize("noise", [0.0, 0.02])  # exact copies, and near ones
def test_copies_do_not_vouch_for_each_other(noise, rng):
    """Rows copied three times with their labels are found as well as if they stood once."""
    X, y, wrong = noisy_digits(rng)
    once = average_precision_score(wrong, -nw.audit_labels(X, y).quality)
    copied = np.tile(X, (3, 1)) + noise * rng.normal(size=(1500, 64))
    audit = nw.audit_labels(copied, np.tile(y, 3))
    assert average_precision_score(np.tile(wrong, 3), -audit.quality) > once - 0.03
    assert sorted(map(len, audit.copies.groups)) == [3] * 500
    assert audit.contradictions == []
    assert "1,500 rows in 500 groups are copies" in repr(audit)


def test_copies_do_not_vouch_for_each_other_through_a_model(rng):
    """A model that saw the other copy repeats its label; predictions of rows without copies count
    as ever.
    """
    X, y, wrong = noisy_digits(rng)
    X = np.concatenate([X, X[:250]])
    y = np.concatenate([y, y[:250]])
    wrong = np.concatenate([wrong, wrong[:250]])
    copied = (np.arange(750) < 250) | (np.arange(750) >= 500)
    knows = (
        np.where(copied, 0.0, 0.9)[:, None] * np.eye(10)[np.where(wrong, (y + 1) % 10, y)] + 0.01
    )
    repeats = knows + 0.9 * copied[:, None] * np.eye(10)[y]
    repeats /= repeats.sum(axis=1, keepdims=True)
    plain = nw.audit_labels(X, y)
    audit = nw.audit_labels(X, y, pred_probs=repeats)
    assert audit.n_errors.upper >= wrong.sum()
    of_copies = [average_precision_score(wrong[copied], -a.quality[copied]) for a in (plain, audit)]
    of_others = [
        average_precision_score(wrong[~copied], -a.quality[~copied]) for a in (plain, audit)
    ]
    assert of_copies[1] > of_copies[0] - 0.02
    assert of_others[1] > of_others[0]


def test_copied_targets_do_not_vouch_for_each_other_through_a_model(rng):
    X = rng.uniform(size=(400, 3))
    true = 5 * X[:, 0] + 0.1 * rng.normal(size=400)
    wrong = rng.random(400) < 0.1
    X, y, true, wrong = (
        np.tile(X, (2, 1)),
        np.tile(np.where(wrong, true + 3.0, true), 2),
        *np.tile([true, wrong], 2),
    )
    audit = nw.audit_labels(X, y, task="regression", predictions=y)
    assert (
        np.abs(audit.suggested - true)[wrong == 1].max() < 1.5
    )  # nowhere near the 3.0 that a copy says
    assert average_precision_score(wrong, -audit.quality) > 0.9


def test_copies_with_different_labels_are_contradictions(rng):
    X, y, _ = noisy_digits(rng)
    X = np.concatenate([X, X[:6]])
    y = np.concatenate([y, (y[:6] + 1) % 10])
    audit = nw.audit_labels(X, y)
    assert [rows.tolist() for rows in audit.contradictions] == [[i, 500 + i] for i in range(6)]
    assert audit.n_errors.lower >= 6
    assert "identical rows in 6 groups have different labels" in repr(audit)
    either = audit.quality[:6] + audit.quality[500:]
    assert (either <= 1 + 1e-9).all()  # one label at most is right
    assert np.median(either) > 0.9
    assert {*range(500, 506)} & set(audit.suspects().tolist())
    assert f"identical row 0 is {y[0]}; wrong with" in audit.why(500)
    assert audit.why(-6) == audit.why(500)
    assert "identical" not in audit.why(6)


@pytest.mark.parametrize("independent", [0.0, 0.5, 1.0])
def test_labels_of_identical_rows_are_judged_together(independent):
    """Against Bayes' rule: rows 0 to 2 are identical, 3 and 4 too, 5 and 6 too, and 7 is alone.

    Equal labels of a group count once if they were copied with the rows, each if they were given
    independently.
    """
    confusion = np.array([[0.9, 0.06, 0.04], [0.1, 0.8, 0.1], [0.05, 0.05, 0.9]])
    evidence = np.array([0.5, 0.3, 0.2])
    codes = np.array([0, 0, 1, 2, 1, 2, 2, 0])
    identical = np.array([0, 0, 0, 3, 3, 5, 5, 7])
    model = NoiseModel(np.ones(1), np.zeros(3), np.zeros(3), np.zeros((3, 3)), confusion)
    alone = evidence * confusion.T[codes]
    alone /= alone.sum(axis=1, keepdims=True)
    right = alone[np.arange(8), codes]
    rows = np.tile(evidence, (8, 1))
    found = Posterior([], [model], np.ones(1), right=right[None], evidence=rows, labels=alone)
    (judged,), after = with_labels_of_copies([right], found, codes, identical, independent)
    for first in (0, 3, 5):
        group = np.flatnonzero(identical == first)
        labels, times = np.unique(codes[group], return_counts=True)
        powers = 1 + independent * (times - 1)
        joint = evidence * np.prod(
            [confusion[:, c] ** power for c, power in zip(labels, powers, strict=True)], axis=0
        )
        np.testing.assert_allclose(judged[group], (joint / joint.sum())[codes[group]], rtol=1e-6)
        np.testing.assert_allclose(
            after.labels[group], np.tile(joint / joint.sum(), (len(group), 1)), rtol=1e-6
        )
        if len(labels) > 1:
            np.testing.assert_allclose(after.evidence[group], after.labels[group], rtol=1e-6)
    assert judged[7] == right[7]


def test_labels_are_independent_as_far_as_copies_disagree(rng):
    """Labels that were copied with the rows tell nothing more; ones that people gave anew do."""
    data = load_digits()
    X = np.tile(data.data[:400], (3, 1))
    true = np.tile(data.target[:400], 3)
    wrong = rng.random(1200) < 0.15
    anew = np.where(wrong, (true + rng.integers(1, 10, 1200)) % 10, true)
    copied = np.tile(anew[:400], 3)
    edited = np.where(rng.random(1200) < 0.02, (copied + 1) % 10, copied)
    identical = np.arange(1200) % 400
    found = []
    for y in (anew, edited, copied):
        audit = nw.audit_labels(X, y)
        found.append(independence(audit._model, y, identical, None))
    assert found[0] > 0.8
    assert 0 < found[1] < 0.3
    assert found[2] == 0
    sums = [(1 - nw.audit_labels(X, y).quality).sum() for y in (anew, copied)]
    assert sums[0] == pytest.approx(wrong.sum(), rel=0.07)
    assert sums[1] == pytest.approx(3 * wrong[:400].sum(), rel=0.15)


def test_contradictions_tell_errors_of_their_own(rng):
    """Each of three copies has errors of its own: those that differ from the others are known."""
    data = load_digits()
    X = np.tile(data.data[:400], (3, 1))
    true = np.tile(data.target[:400], 3)
    wrong = rng.random(1200) < 0.15
    y = np.where(wrong, (true + rng.integers(1, 10, 1200)) % 10, true)
    audit = nw.audit_labels(X, y)
    assert average_precision_score(wrong, -audit.quality) > 0.998
    assert (1 - audit.quality).sum() == pytest.approx(wrong.sum(), rel=0.1)


def test_different_things_that_look_alike_may_have_different_labels(rng):
    """Three people each of 300 kinds. What they earn is more or less likely, or a matter of kind
    with errors.
    """
    kinds = rng.normal(size=(300, 4))
    kind = rng.permutation(np.arange(900) % 300)
    much = rng.random(900) < 1 / (1 + np.exp(-2 * kinds[kind, 0]))
    grade = np.clip(np.round(2.5 + 1.2 * kinds[kind, 0] + rng.normal(size=900)), 0, 5)
    for earns in (much, grade):
        audit = nw.audit_labels(kinds[kind], earns)
        assert sorted(map(len, audit.copies.groups)) == [3] * 300
        assert audit.contradictions == []
        assert audit.n_errors.lower < 20
        assert "no label need be wrong" in repr(find_conflicts(audit, audit.copies.groups))
    by_kind = (kinds[kind, 0] > 0).astype(int)
    wrong = rng.permutation(900) < 90
    audit = nw.audit_labels(kinds[kind], np.where(wrong, 1 - by_kind, by_kind))
    assert len(audit.contradictions) > 60
    assert 60 < audit.n_errors.lower <= 90


def test_rows_of_zeros_are_no_copies(rng):
    """A text without a known word has nothing that another could repeat."""
    X, y, _ = noisy_digits(rng)
    X[:4] = 0.0
    X[4] = X[5]
    y[:4] = [0, 1, 2, 3]
    y[4:6] = [4, 5]
    for data in (X, scipy.sparse.csr_array(X)):
        for sources in (None, [""] * 500):
            audit = nw.audit_labels(data, y, sources=sources)
            assert [rows.tolist() for rows in audit.contradictions] == [[4, 5]]


def test_rows_made_from_different_sources_are_no_contradiction(rng):
    """The same numbers may stand for different texts: these share a vote, but none of them need be
    wrong.
    """
    X, y, _ = noisy_digits(rng)
    X = np.concatenate([X, X[:6]])
    y = np.concatenate([y, (y[:6] + 1) % 10])
    sources = [f"text {i}" for i in range(503)] + ["text 3", "text 4", "text 5"]
    plain = nw.audit_labels(X, y)
    audit = nw.audit_labels(X, y, sources=sources)
    assert [rows.tolist() for rows in audit.contradictions] == [[i, 500 + i] for i in (3, 4, 5)]
    assert [rows.tolist() for rows in audit.copies.groups] == [
        rows.tolist() for rows in plain.copies.groups
    ]
    others = np.delete(np.arange(506), [0, 1, 2, 500, 501, 502])
    np.testing.assert_allclose(audit.quality[others], plain.quality[others])
    assert (audit.quality[[500, 501, 502]] > plain.quality[[500, 501, 502]]).all()
    found = nw.scan(X, y, sources=sources)
    assert len(found.conflicts.groups) == 6
    assert "in 3 of them identical rows" in found.conflicts.summary
    assert found.duplicates.columns["exact"].sum() == 6
    with pytest.raises(ValueError, match="sources"):
        nw.audit_labels(X, y, sources=sources[:-1])


def test_texts_tell_rows_of_a_frame_apart(rng):
    """Words that no other row has leave no trace in the numbers; a different case is no different
    text.
    """
    words = [
        " ".join(rng.choice(["red", "green", "blue", "grey", "pink", "teal"], 6))
        for _ in range(120)
    ]
    words += [f"look at this page please {i}" for i in range(4)] + ["Look at  this page please 3"]
    label = [*rng.integers(0, 2, 120).tolist(), 0, 1, 0, 1, 0]
    audit = nw.audit_labels(
        pandas.DataFrame({"text": words, "label": label}), "label", task="classification"
    )
    assert [120, 121, 122, 123, 124] in [rows.tolist() for rows in audit.copies.groups]
    assert [123, 124] in [rows.tolist() for rows in audit.contradictions]
    assert not any({120, 121, 122} & set(rows.tolist()) for rows in audit.contradictions)


def test_empty_texts_of_a_frame_are_no_contradictions(rng):
    """With nothing else to compare; beside other columns, an empty remark is a remark like
    others.
    """
    words = [
        " ".join(rng.choice(["red", "green", "blue", "grey", "pink", "teal"], 6))
        for _ in range(120)
    ]
    frame = pandas.DataFrame(
        {"text": [*words, "", None, " ", words[0]], "label": [*rng.integers(0, 2, 120), 0, 1, 0, 2]}
    )
    audit = nw.audit_labels(frame, "label", task="classification")
    assert [rows.tolist() for rows in audit.contradictions] == [[0, 123]]
    sizes = [*rng.normal(size=120), 1.5, 1.5, 2.5, 3.0]
    audit = nw.audit_labels(frame.assign(size=sizes), "label", task="classification")
    assert [rows.tolist() for rows in audit.contradictions] == [[120, 121]]


def test_sparse_copies(rng):
    X, y, _ = noisy_digits(rng, 200)
    audit = nw.audit_labels(
        scipy.sparse.csr_array(np.concatenate([X, X[:3]])), np.concatenate([y, y[:3]])
    )
    assert [rows.tolist() for rows in audit.copies.groups] == [[i, 200 + i] for i in range(3)]


def test_groups_do_not_vote_for_each_other(rng):
    """A speaker whose rows are alike and all wrong is found only if they do not vouch for each
    other.
    """
    X = rng.normal(size=(300, 5))
    y = (X[:, 0] > 0).astype(int)
    speaker = np.arange(300)
    X[:12] = [2.0, 0, 0, 0, 0] + 0.2 * rng.normal(
        size=(12, 5)
    )  # near each other, among rows of class 1
    y[:12] = 0
    speaker[:12] = 0
    plain = nw.audit_labels(X, y)
    grouped = nw.audit_labels(X, y, groups=speaker)
    assert grouped.agreement[:12].max() < 0.25 < 0.35 < plain.agreement[:12].min()
    assert grouped.copies is None
    problem = nw.KNNShapley(10).fit(X, y)
    np.testing.assert_array_equal(grouped.value, problem.value(groups=speaker).values)
    assert grouped.explain(3).value == pytest.approx(grouped.value[3])


def videos(rng, n_videos=300, size=8, n_classes=2):
    """Frames near each other, the class of each video, and the videos."""
    kinds = rng.integers(0, n_classes, n_videos)
    centres = 1.6 * rng.normal(size=(n_classes, 3, 8))[kinds, rng.integers(0, 3, n_videos)]
    centres += rng.normal(size=(n_videos, 8))
    frames = np.repeat(centres, size, axis=0) + 0.15 * rng.normal(size=(n_videos * size, 8))
    return frames, kinds, np.repeat(np.arange(n_videos), size)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_groups_that_are_agree_are_counted(n_classes, rng):
    """If each frame had a vote, the eight of a video would agree, right or wrong: nothing would
    look like noise.
    """
    X, kinds, video = videos(rng, n_classes=n_classes)
    given = nw.add_label_noise(kinds, 0.15, "uniform", 1)[video]
    wrong = given != kinds[video]
    audit = nw.audit_labels(X, given, groups=video)
    assert 0.5 * wrong.sum() < (1 - audit.quality).sum() < 1.5 * wrong.sum()
    assert audit.n_errors.lower < wrong.sum() < audit.n_errors.upper
    listed = audit.suspects()
    assert wrong[listed].sum() > 0.4 * wrong.sum()
    assert wrong[listed].mean() > 0.75
    assert len(audit.suspects(max_fdr=0.1))
    none = nw.audit_labels(X, kinds[video], groups=video)
    assert none.n_errors.lower < 0.02 * len(X)
    assert not len(none.suspects(max_fdr=0.1))


def test_rows_of_a_group_have_votes_of_their_own_if_their_labels_differ(rng):
    X, kinds, video = videos(rng, n_videos=60)
    rows = np.arange(len(X))
    whole = kinds[video]
    mixed = np.where(rows % 3 == 0, 1 - kinds[video], kinds[video])
    assert agree(video, whole)
    assert not agree(video, mixed)
    assert not agree(rows, whole)  # groups of one row say nothing
    assert agree(np.arange(4) // 2, np.array([0.5, 0.5, 2.5, 2.5]))  # targets
    for labels, n_votes in ((whole, 1), (mixed, 8)):
        weights, lists = (
            getattr(nw.audit_labels(X, labels, groups=video)._voters, n)
            for n in ("weights", "rows")
        )
        nearest = video[lists[:, :8]]
        together = (nearest == nearest[:, :1]).all(
            axis=1
        )  # all frames of one other video come first
        np.testing.assert_allclose(weights[together, :8].sum(axis=1), n_votes / 10)
        assert together.sum() > 100


def test_groups_and_copies_are_joined():
    copies = Copies(np.array([0, 1, 1, 2, 3, 4]), identical=np.arange(6))
    assert joined(None, None) is None
    assert joined(None, copies).tolist() == copies.group.tolist()
    assert joined(np.array([0, 0, 1, 1, 2, 3]), None).tolist() == [0, 0, 1, 1, 2, 3]
    assert joined(np.array([0, 0, 1, 1, 2, 3]), copies).tolist() == [0, 0, 0, 0, 1, 2]
    assert joined(np.array([0, 0, 1, 1, 1, 1]), copies).tolist() == [
        0,
        0,
        1,
        1,
        1,
        1,
    ]  # else one group of all


def test_groups_that_are_given_add_to_copies(rng):
    X, y, _ = noisy_digits(rng, 300)
    X = np.concatenate([X, X[:40]])
    y = np.concatenate([y, y[:40]])
    speaker = np.arange(340) // 4
    audit = nw.audit_labels(X, y, groups=speaker)
    assert [rows.tolist() for rows in audit.copies.groups] == [[i, 300 + i] for i in range(40)]
    together = joined(speaker, audit.copies)
    np.testing.assert_array_equal(
        audit.value, nw.KNNShapley(10).fit(X, y).value(groups=together).values
    )
    assert all(together[n.row] != together[row] for row in (0, 7, 301) for n in audit.nearest(row))


@pytest.mark.parametrize(("share", "left_out"), [(0.3, True), (0.005, False)])
def test_many_near_copies_are_left_out_of_values_too(rng, share, left_out):
    X, y, _ = noisy_digits(rng, 600)
    n_copied = int(share * 600)
    X = np.concatenate([X, X[:n_copied] + 0.01 * rng.normal(size=(n_copied, 64))])
    y = np.concatenate([y, y[:n_copied]])
    audit = nw.audit_labels(X, y)
    plain = nw.KNNShapley(10).fit(X, y)
    assert sum(map(len, audit.copies.groups)) == 2 * n_copied
    expected = plain.value(groups=audit.copies.group) if left_out else plain.value()
    np.testing.assert_array_equal(audit.value, expected.values)
    assert audit.explain(1).value == pytest.approx(audit.value[1])


def test_columns_of_other_scales_are_warned_of(rng):
    X = rng.normal(size=(100, 6))
    X[:, 2] *= 5_000
    with pytest.warns(
        UserWarning, match=r"column 2 varies .* times as much as the median column.*StandardScaler"
    ):
        nw.audit_labels(X, (X[:, 0] > 0).astype(int))


def test_columns_that_vary_by_rounding_only_are_no_other_scale(rng):
    X = rng.normal(size=(100, 6))
    X[:, 2:] = 1.0 + 1e-15 * rng.normal(size=(100, 4))
    nw.audit_labels(X, (X[:, 0] > 0).astype(int))  # a warning would be an error here
