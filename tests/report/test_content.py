"""What the page shows, as data."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

import nearworth as nw
from helpers.report_pages import embedded, made_up
from nearworth.report import content, shown
from nearworth.report.content import Content, Suggestions, rounded
from nearworth.report.row_numbers import RowNumbers
from nearworth.report.shown import CELL_LENGTHS, Cells, deviation, places, project, unfold
from nearworth.tables.dataset import Dataset
from nearworth.tables.labels import Target


def test_projection_has_most_variance_and_a_fixed_sign(rng):
    X = rng.normal(size=(300, 6)) * [1, 9, 2, 5, 1, 1]
    found = project(X, np.arange(300), 2)
    centred = X - X.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    np.testing.assert_allclose((found**2).sum(axis=0), values[::-1][:2])
    for number in (0, 1):
        direction = vectors[:, -1 - number]
        direction *= np.sign(direction[np.abs(direction).argmax()])
        np.testing.assert_allclose(found[:, number], centred @ direction, atol=1e-8)


def test_projection_of_sparse_wide_and_equal_rows(rng, monkeypatch):
    X = rng.normal(size=(30, 5))
    np.testing.assert_allclose(
        project(sp.csr_array(X), np.arange(9), 2), project(X, np.arange(9), 2), atol=1e-9
    )
    assert project(rng.normal(size=(20, 2000)), np.array([3, 1]), 2).shape == (2, 2)
    assert (project(np.ones((5, 3)), np.arange(5), 2) == 0).all()
    assert places(np.ones((50, 3)), np.arange(50)) == [[0, 0]] * 50
    monkeypatch.setattr(shown, "N_FIT_ROWS", 20)
    assert np.isfinite(project(X, np.arange(30), 2)).all()


def test_missing_values_are_drawn_at_the_mean(rng, tmp_path):
    X = rng.normal(size=(40, 3))
    X[3, 1] = np.nan
    filled = X.copy()
    filled[3, 1] = np.nanmean(X[:, 1])
    np.testing.assert_allclose(
        project(X, np.arange(40), 2), project(filled, np.arange(40), 2), atol=1e-9
    )
    audit = nw.audit_labels(X, np.arange(40) % 2, n_neighbors=3, metric="nan_euclidean")
    audit.report(tmp_path / "report.html", fraction=0.1)
    assert len(embedded((tmp_path / "report.html").read_text())["place"]) >= 4


@pytest.mark.parametrize("most", [4_000, 200])
def test_the_map_keeps_groups_apart_that_principal_components_mix(rng, monkeypatch, most):
    """Neighbours on the map are of the same group, for points that were unfolded and for points put
    between them.
    """
    monkeypatch.setattr(shown, "MAX_UNFOLDED", most)
    group = np.arange(600) % 12
    X = 6 * rng.normal(size=(12, 12))[group] + rng.normal(size=(600, 12))

    def purity(place):
        gaps = ((place[:, None] - place) ** 2).sum(axis=2) + np.eye(600) * 1e9
        return (group[gaps.argmin(axis=1)] == group).mean()

    drawn = np.array(places(X, np.arange(600)))
    assert drawn.min() == 0
    assert drawn.max() == shown.SIDE
    assert purity(drawn) > 0.97 > purity(project(X, np.arange(600), 2))


def test_few_points_are_drawn_where_they_lie(rng):
    points = rng.normal(size=(5, 3))
    assert np.corrcoef(unfold(points)[:, 0], points[:, 0])[0, 1] > 0.9


def test_only_rows_that_are_needed_are_in_the_page(rng):
    audit = made_up(rng, 3_000, 20, ["a", "b"])
    texts = np.array([f"the text of row {row}" for row in range(3_000)], dtype=object)
    data = Content(audit, Dataset(rng.normal(size=(3_000, 2)), cells={"t": texts}), {}).page_data()
    near = {n.row for row in audit.suspects() for n in audit.nearest(int(row))}
    assert set(data["more"]["row"]) | set(data["row"]) == near | {*data["sample"]} | {
        *audit.suspects().tolist()
    }
    assert [cells[0] for cells in data["more"]["cells"]] == [
        f"the text of row {row}" for row in data["more"]["row"]
    ]
    assert len(data["place"]) == len(data["row"]) + len(data["more"]["row"])
    assert len(data["points"]) <= content.MAX_POINTS


def test_the_sample_is_drawn_by_lot(rng):
    """Every row has the same chance: among 100 of 1,000 rows, suspects are not preferred."""
    audit = made_up(rng, 1_000, 500, ["a", "b"])
    sample = Content(audit, Dataset(), {}).page_data()["sample"]
    assert len(set(sample)) == 100
    assert sample != sorted(sample)
    assert 25 < len({*sample} & {*audit.suspects().tolist()}) < 75


def test_row_numbers_are_those_of_the_file(rng):
    """Where rows were left out, those of the page have other numbers than those of the audit."""
    audit = made_up(rng, 300, 9, ["a", "b"])
    X = rng.normal(size=(300, 4))
    numbers = 7 + 3 * np.arange(300)
    cells = {"n": np.arange(300)}
    plain = Content(audit, Dataset(X, cells=cells, image_shape=(2, 2)), {}).page_data()
    X_file = np.zeros((999, 4))
    n_file = np.zeros(999, dtype=int)
    X_file[numbers] = X
    n_file[numbers] = np.arange(300)
    labels = Target(audit.given, "classification", np.isin(np.arange(999), numbers))
    rows = Dataset(X_file, cells={"n": n_file}, image_shape=(2, 2), labels=labels)
    found = Content(audit, rows, {}).page_data()
    of = lambda rows: [7 + 3 * row for row in rows]  # noqa: E731
    assert (found["row"], found["sample"]) == (of(plain["row"]), of(plain["sample"]))
    assert found["more"] == plain["more"] | {"row": of(plain["more"]["row"])}
    assert [[n[0] for n in group] for group in found["near"]] == [
        of(n[0] for n in group) for group in plain["near"]
    ]
    assert set(found["images"]) == {str(row) for row in of(int(row) for row in plain["images"])}
    assert (found["place"], found["nRows"], found["ofRows"]) == (plain["place"], 300, 999)


def test_prose_is_told_from_cells():
    said = np.array(["The parcel has not arrived yet, and nobody rang the bell."] * 9, dtype=object)
    codes = np.array(["x" * 80] * 9, dtype=object)
    found = Cells(Dataset(cells={"code": codes, "n": np.arange(9), "said": said}), 9)
    assert (found.text, found.names) == ("said", ["said", "code", "n"])
    assert found.scales == [None, None, 2.0]
    assert Cells(Dataset(cells={"code": codes}), 9).text is None


def test_features_are_shown_where_nothing_else_is(rng):
    X = rng.normal(size=(20, 3))
    for given in (X, sp.csr_array(X)):
        found, _ = Cells(Dataset(X=given), 20).of(np.array([4]), 10_000)
        assert [float(cell) for cell in found[0]] == pytest.approx(X[4], rel=1e-4)
    assert Cells(Dataset(X=np.zeros((5, 900))), 5).names == []
    assert Cells(Dataset(X=X, image_shape=(1, 3)), 20).names == []


def test_cells_are_cut_where_there_is_no_room():
    column = {"t": np.array(["x" * 3_000] * 10, dtype=object)}
    whole, left = Cells(Dataset(cells=column), 10).of(np.arange(10), 40_000)
    assert {len(row[0]) for row in whole} == {3_000}
    assert left == 40_000 - 10 * 3_003
    cut, left = Cells(Dataset(cells=column), 10).of(np.arange(10), 11_000)
    assert {row[0] for row in cut} == {"x" * 1_000 + "…"}
    assert left >= 0
    least, _ = Cells(Dataset(cells=column), 10).of(np.arange(10), 0)
    assert {len(row[0]) for row in least} == {CELL_LENGTHS[-1] + 1}


def test_columns_beyond_the_most_are_counted():
    found = Cells(Dataset(cells={f"c{i}": np.arange(4) for i in range(shown.MAX_COLUMNS + 7)}), 4)
    assert (len(found.names), found.omitted) == (shown.MAX_COLUMNS, 7)


def test_deviation_is_of_numbers_only():
    assert deviation([1, 2, 3, None, 4, 100]) == 1.0
    assert deviation([True, False, True]) is None
    assert deviation(["1", "2"]) is None
    assert deviation([float("nan")]) is None


def test_numbers_with_a_unit_are_not_words():
    assert deviation(["14.4 %", "13.6 %", "14.4 %"]) == -1.0
    assert deviation(["$1,200", "$900"]) == -1.0
    assert deviation(["first", "third", "first"]) is None
    assert deviation(["2nd street", "3rd street"]) is None


def test_targets_and_suggestions_are_numbers_as_people_write_them(rng):
    X = rng.normal(size=(400, 3))
    y = (200_000 + 50_000 * X[:, 0]).round(-2)
    y[:10] *= 9
    audit = nw.audit_labels(X, y, n_neighbors=10, task="regression")
    data = Content(audit, Dataset(X, "price"), {}).page_data()
    assert data["nClasses"] == 0
    assert [float(data["labels"][c]) for c in data["given"]] == y[data["row"]].tolist()
    for code, row in zip(data["suggested"], data["row"], strict=True):
        text = data["labels"][code]
        assert len(text.rstrip("0")) <= 4
        assert float(text) == pytest.approx(audit.suggested[row], rel=0.01)
    within = audit.suggested_range[data["row"]]
    unit = np.maximum(within[:, 1] - within[:, 0], 100) / 100
    assert (np.abs(np.array(data["ranges"]) - within) <= unit[:, None] + 100).all()
    assert all(low < high for low, high in data["ranges"])
    assert sum(data["targets"]["counts"][0]) == 400


@pytest.mark.parametrize(
    ("low", "high", "log"),
    [
        (1.0, 100.0, False),
        (1.0, 101.0, True),
        (0.5, 900.0, True),
        (0.0, 900.0, False),
        (-3.0, 900.0, False),
    ],
)
def test_targets_that_span_more_than_two_powers_of_ten_are_drawn_as_logarithms(rng, low, high, log):
    X = rng.normal(size=(120, 3))
    share = (X[:, 0] - X[:, 0].min()) / np.ptp(X[:, 0])
    y = (low + (high - low) * share**4).round(3)
    y[[3, 5]] = low, high
    audit = nw.audit_labels(X, y, n_neighbors=10, task="regression")
    content = Content(audit, Dataset(X, "price"), {})
    targets = content.page_data()["targets"]
    assert (targets["low"], targets["high"], targets["log"]) == (low, high, log)
    scale = np.log if log else np.asarray
    edges = np.linspace(scale(low), scale(high), len(targets["counts"][0]) + 1)
    of_all, of_listed = targets["counts"]
    assert of_all == np.histogram(scale(y), edges)[0].tolist()
    assert of_listed == np.histogram(scale(y[content.suspects]), edges)[0].tolist()
    assert sum(of_listed) == len(content.suspects) > 0


def test_the_cells_of_far_neighbours_are_cut_first(rng, monkeypatch):
    """Where room is short, listed rows, the sample and the nearest neighbours are in full."""
    audit = made_up(rng, 2_000, 8, ["a", "b"])
    texts = np.array([f"{row:04} " + "x" * 1_995 for row in range(2_000)], dtype=object)
    rows = Dataset(cells={"t": texts})
    whole = Content(audit, rows, {}).page_data()
    listed = whole["row"]
    sample = whole["sample"]
    nearest = {group[0][0] for group in whole["near"]}
    first = {*listed, *sample, *nearest}
    others = set(whole["more"]["row"]) - first
    assert len(others) > 40
    monkeypatch.setattr(content, "MAX_CELL_CHARACTERS", (len(first) + 1) * 2_003)
    data = Content(audit, rows, {}).page_data()
    assert [cells[0] for cells in data["cells"]] == texts[listed].tolist()
    shown_in_full = {
        row
        for row, cells in zip(data["more"]["row"], data["more"]["cells"], strict=True)
        if cells[0] == texts[row]
    }
    assert shown_in_full == first - set(listed)
    for row, cells in zip(data["more"]["row"], data["more"]["cells"], strict=True):
        assert row in first or cells[0] == texts[row][: CELL_LENGTHS[-1]] + "…"


def test_row_numbers_of_a_file_with_rows_that_have_no_label():
    numbers = RowNumbers.make(3, [1, 4, 5], 7)
    assert (numbers.n_labeled, numbers.n_file_rows) == (3, 7)
    assert numbers.file_rows([2, 0]).tolist() == [5, 1]
    assert numbers.labeled_rows([5, 1]).tolist() == [2, 0]
    assert np.flatnonzero(numbers.has_label(np.arange(7))).tolist() == [1, 4, 5]
    with pytest.raises(ValueError, match="without a label"):
        numbers.labeled_rows([1, 2])
    alone = RowNumbers.make(4)
    assert (
        alone.file_rows(np.arange(4)).tolist()
        == alone.labeled_rows(np.arange(4)).tolist()
        == [0, 1, 2, 3]
    )


def test_rows_without_a_label_have_no_place_and_no_label_on_the_page(rng):
    numbers = np.setdiff1d(np.arange(66), [0, 7, 8, 30, 41, 65])
    without = np.setdiff1d(np.arange(66), numbers)
    audit = made_up(rng, 60, 12, ["a", "b"])
    near = rng.integers(0, 60, (6, 10))
    unlabelled = Suggestions(
        without, np.array(["b"] * 6, dtype=object), np.linspace(0.9, 0.4, 6), near, np.ones((6, 10))
    )
    labels = Target(audit.given, "classification", np.isin(np.arange(66), numbers))
    rows = Dataset(rng.normal(size=(66, 3)), labels=labels)
    data = Content(audit, rows, {}, suggestions=unlabelled).page_data()
    order = data["row"] + data["more"]["row"]
    given = data["given"] + data["more"]["given"]
    assert len(data["place"]) == len(order) == len(set(order))
    for row, place, code in zip(order, data["place"], given, strict=True):
        assert (place is None) == (code is None) == (row in without)
        if code is not None:
            assert data["labels"][code] == audit.given[np.searchsorted(numbers, row)]
    n_drawn = sum(place is not None for place in data["place"]) + len(data["points"])
    assert n_drawn == data["nRows"] == 60
    assert data["ofRows"] == 66
    assert data["labels"] == ["a", "b"]
    assert [[row for row, _ in group] for group in data["unlabelled"]["near"]] == numbers[
        near
    ].tolist()


def test_numbers_are_no_finer_than_the_data():
    ranges = np.array([[0.0, 1e-9], [0.0, 0.0]])
    assert rounded(np.array([0.123456, 0.5]), ranges, 0.01) == [0.12, 0.5]
    assert rounded(np.array([-1234.5]), np.array([[-1300.0, -1200.0]]), 1.0) == [-1234.0]


def test_labels_keep_all_their_digits(rng):
    """1000001 is not 1000004."""
    audit = made_up(rng, 30, 5, [1000001.0, 1000004.0, 0.1 + 0.2])
    assert set(Content(audit, Dataset(), {}).page_data()["labels"]) == {
        "1000001",
        "1000004",
        "0.30000000000000004",
    }


def test_arrow_columns_and_half_characters(rng):
    audit = made_up(rng, 30, 5, ["a\ud800", "b"])
    cells = {
        "c": pa.chunked_array([["ä"] * 10, [None] * 20]),
        "h": np.array(["\ud800"] * 30, dtype=object),
    }
    data = Content(audit, Dataset(cells=cells), {}).page_data()
    assert {row[0] for row in data["cells"] + data["more"]["cells"]} == {"ä", ""}
    assert "a?" in data["labels"]


def test_a_slip_of_the_decimal_point_is_undone_to_the_last_digit(rng):
    X = rng.normal(size=(300, 2))
    y = np.round(1e6 + 1e5 * X[:, 0]) + 400.0
    y[10:19] *= 10
    audit = nw.audit_labels(X, y, task="regression")
    assert 17 in audit.suspects()
    content = Content(audit, Dataset(X, "price"), {})
    assert content._suggested(np.array([17])) == [y[17] / 10]


def test_a_target_of_0_has_a_rounded_suggestion(rng):
    X = rng.normal(size=(300, 2))
    y = 1000 + 100 * X[:, 0]
    y[17] = 0.0
    audit = nw.audit_labels(X, y, task="regression")
    shown_number = Content(audit, Dataset(X, "price"), {})._suggested(np.array([17]))[0]
    assert shown_number != audit.suggested[17]
    assert shown_number == pytest.approx(audit.suggested[17], rel=0.01)
    assert len(str(shown_number)) <= 6


def test_identical_rows_with_another_label_are_counted(rng, tmp_path):
    X = rng.normal(size=(80, 3))
    y = (X[:, 0] > 0).astype(int)
    audit = nw.audit_labels(
        np.concatenate([X, X[:2], X[:1]]), np.concatenate([y, 1 - y[:2], 1 - y[:1]])
    )
    audit.report(tmp_path / "report.html", fraction=1.0)
    data = embedded((tmp_path / "report.html").read_text())
    unlike = dict(zip(data["row"], data["unlike"], strict=True))
    a = str(y[0])
    b = str(y[1])
    of_first = str(1 - y[0])
    of_second = str(1 - y[1])
    expected = {
        0: [80, of_first, 2],
        1: [81, of_second, 1],
        80: [0, a, 1],
        81: [1, b, 1],
        82: [0, a, 1],
    }
    assert {row: found for row, found in unlike.items() if found} == expected
