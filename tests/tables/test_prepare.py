"""Mixed tables become numbers whose distances mean something, or are refused with advice."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import nearworth as nw
from nearworth.tables import InputError
from nearworth.tables.load import load_frame

MIXED = {
    "size": [1.0, 2.0, 3.0, 6.0],
    "colour": ["red", "blue", "red", "green"],
    "sold": [True, False, True, True],
    "day": np.array(
        ["2024-01-01", "2024-01-03", "2024-01-02", "2024-01-05"], dtype="datetime64[ms]"
    ),
    "vector": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]],
    "same": [7, 7, 7, 7],
}


def test_mixed_columns_become_what_one_expects():
    preparer = nw.TablePreparer()
    matrix = preparer.fit_transform(pa.table(MIXED))
    names = preparer.get_feature_names_out().tolist()
    assert names == [
        "size",
        "colour=blue",
        "colour=green",
        "colour=red",
        "sold",
        "day",
        "vector[0]",
        "vector[1]",
    ]
    sizes = np.array(MIXED["size"])
    np.testing.assert_allclose(matrix[:, 0], (sizes - sizes.mean()) / sizes.std())
    np.testing.assert_array_equal(matrix[:, 1:4], [[0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 0]])
    np.testing.assert_allclose(matrix[:, 4:6].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(matrix[:, 4:6].std(axis=0), 1)
    np.testing.assert_array_equal(matrix[:, 6:], MIXED["vector"])
    assert "left out: the same in every row" in preparer.describe()[-1]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_other_libraries(library):
    frame = pytest.importorskip(library).DataFrame(
        {k: v for k, v in MIXED.items() if k != "vector"}
    )
    expected = nw.TablePreparer().fit_transform(
        pa.table({k: v for k, v in MIXED.items() if k != "vector"})
    )
    np.testing.assert_allclose(nw.TablePreparer().fit_transform(frame), expected)


def test_order_of_columns_does_not_matter_but_names_and_types_do():
    preparer = nw.TablePreparer().fit(pa.table(MIXED))
    table = pa.table(MIXED)
    np.testing.assert_array_equal(
        preparer.transform(table.select(sorted(MIXED))), preparer.transform(table)
    )
    with pytest.raises(InputError, match=r"Missing: \['size'\]; further: \['length'\]"):
        preparer.transform(table.rename_columns(["length", *list(MIXED)[1:]]))
    with pytest.raises(
        InputError, match="'size' holds cells of type number in training but text here"
    ):
        preparer.transform(pa.table(MIXED | {"size": ["a", "b", "c", "d"]}))
    with pytest.raises(InputError, match=r"Missing: \[\]; further: \['extra'\]"):
        preparer.transform(pa.table(MIXED | {"extra": [1, 2, 3, 4]}))
    other = pa.table(MIXED | {"colour": ["red", "pink", "red", "red"]})
    assert preparer.transform(other)[1, 1:4].tolist() == [0, 0, 0]


def test_missing_values_are_named_or_filled():
    table = pa.table(
        {"a": [1.0, None, 3.0, 8.0], "b": ["x", "y", "", "x"], "c": [1.0, 2.0, float("nan"), 4.0]}
    )
    with pytest.raises(
        InputError,
        match=r"missing or infinite values in column 'a', 'b', 'c' at row 1, 2 \(0-based\)",
    ):
        nw.TablePreparer(strict=True).fit(table)
    preparer = nw.TablePreparer()
    matrix = preparer.fit_transform(table)
    assert np.isfinite(matrix).all()
    known = np.array([1.0, 3.0, 8.0])
    assert matrix[1, 0] == pytest.approx((3 - known.mean()) / known.std())
    assert "b=" in preparer.get_feature_names_out()
    with pytest.raises(InputError, match="missing"):
        nw.TablePreparer(strict=True).fit(pa.table({"a": [1.0, 2.0]})).transform(
            pa.table({"a": [1.0, None]})
        )


def test_medians_fill_what_only_later_rows_miss():
    preparer = nw.TablePreparer().fit(pa.table({"a": [1.0, 2.0, 6.0]}))
    assert preparer.describe() == ["a: number, standardised"]
    filled = preparer.transform(pa.table({"a": [None, 2.0, 1.0]}))
    assert filled[0] == filled[1]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([f"name {i}" for i in range(100)], "--id"),
        (
            [f"a long sentence about the thing number {i % 60} that goes on" for i in range(100)],
            "--ignore 'bad'",
        ),
        ([f"town {i % 60}" for i in range(100)], "--max-categories"),
        ([float("inf"), *range(99)], "infinite values in column 'bad' at row 0"),
        ([[1.0]] * 99 + [[1.0, 2.0]], "row 99 holds 2 numbers where others hold 1"),
        ([["a"]] * 100, "only lists of numbers"),
        ([{"x": 1}] * 100, "has no distance"),
    ],
)
def test_columns_without_a_distance_are_refused_with_advice(column, message):
    with pytest.raises(InputError, match=message):
        nw.TablePreparer(strict=True).fit_transform(
            pa.table({"good": list(range(100)), "bad": column})
        )
    good = np.random.default_rng(0).normal(size=100)
    assert np.isfinite(
        nw.TablePreparer().fit_transform(pa.table({"good": good, "bad": column}))
    ).all()


def test_what_categories_hide_is_told():
    preparer = nw.TablePreparer().fit(
        pa.table({"ward": ["A", "B", "", "A"] * 2, "grade": ["1", "A"] * 4})
    )
    ward, grade = preparer.describe()
    assert ward == "ward: 3 categories (missing is one of them), one 0/1 column each"
    assert grade == "grade: 2 categories, one 0/1 column each"
    clean = nw.TablePreparer().fit(pa.table({"b": ["x", "y", "1"]}))
    assert clean.describe() == ["b: 3 categories, one 0/1 column each"]


def test_huge_and_tiny_numbers_stay_finite():
    matrix = nw.TablePreparer().fit_transform(
        pa.table({"a": [1e300, -1e300, 0.0], "b": [1e-300, 2e-300, 3e-300]})
    )
    assert np.isfinite(matrix).all()
    np.testing.assert_allclose(matrix.std(axis=0), 1)


def test_nothing_to_compare_by():
    with pytest.raises(InputError, match="no column is left"):
        nw.TablePreparer().fit(pa.table({"a": [1, 1]}))


def test_empty_lists_are_left_out_but_one_is_refused():
    nothing = nw.TablePreparer().fit(
        pa.table({"a": [1, 2], "e": pa.array([[], []], pa.list_(pa.float64()))})
    )
    assert nothing.describe()[1] == "e: left out: every cell is empty"
    with pytest.raises(InputError, match="row 1 holds 0 numbers where others hold 2"):
        nw.TablePreparer(strict=True).fit_transform(pa.table({"e": [[1.0, 2.0], []]}))


def test_the_index_of_pandas_is_no_column():
    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0]}, index=pd.Index([7, 8, 9], name="patient"))
    preparer = nw.TablePreparer().fit(frame)
    assert preparer.feature_names_in_.tolist() == ["a"]
    np.testing.assert_array_equal(
        preparer.transform(frame.set_axis([1, "b", (2,)])), preparer.transform(frame)
    )


def test_matrices_in_cells_are_embeddings():
    table = pa.table({"image": [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]})
    assert nw.TablePreparer().fit_transform(table).tolist() == [
        [1.0, 2.0, 3.0, 4.0],
        [5.0, 6.0, 7.0, 8.0],
    ]


def test_free_text_of_which_rows_share_one_word_is_left_out():
    notes = [f"a{i} shared b{i}" if i % 2 else f"a{i} b{i} c{i}" for i in range(200)]
    table = pa.table({"size": np.arange(200.0) ** 2, "note": notes})
    preparer = nw.TablePreparer().fit(table)
    assert preparer.describe()[1] == "note: left out: text with one word only that rows share"
    assert preparer.transform(table).shape == (200, 1)


def test_columns_are_described_in_one_line_each():
    names = ["size\n  x: number", "height\x1b[1m"]
    table = pa.table([np.arange(9.0) ** 2, np.arange(9.0) ** 3], names=names)
    assert [line.split(": number")[0] for line in nw.TablePreparer().fit(table).describe()] == [
        r"size\n  x",
        r"height\x1b[1m",
    ]


def test_what_a_page_shows_of_a_frame_with_vectors():
    """Cells of a list are no text that anybody reads. Everything else is shown."""
    vectors = pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float64(), 2))
    table = pa.table({"vector": vectors, "size": [1, 2, 3], "kind": ["a", None, "b"]})
    frame = load_frame(table, "kind", "X")
    assert sorted(frame.cells) == sorted({*frame.table.column_names} - {"vector"})
    assert "size" in frame.cells
    assert "vector" in frame.table.column_names
    assert frame.labeled_rows.tolist() == [0, 2]
    assert frame.n_rows == 3
