"""JSON as programs write it, and as it should not be: a table of all cells, or a line that says
what is wrong.
"""

from __future__ import annotations

import pytest

from nearworth.tables import InputError
from nearworth.tables.read import read


@pytest.fixture
def parse(tmp_path):
    def parsed(content, name="t.jsonl"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read(path)

    return parsed


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"a": 1}\n{"a": 2}\n', {"a": [1, 2]}),
        ('{"a": 1}{"a": 2}', {"a": [1, 2]}),
        ('\n {"a":\n 1}\r\n', {"a": [1]}),
        (b'\xef\xbb\xbf[{"a": 1}]', {"a": [1]}),
        ('[{"a": null}, {"b": "x"}]', {"a": [None, None], "b": [None, "x"]}),
        ('{"a": null, "b": 1}\n{"a": "x", "b": null}\n', {"a": [None, "x"], "b": [1, None]}),
        ('{"a": 1}\n{"a": 2.50}\n{"a": NaN}\n', {"a": [1.0, 2.5, None]}),
        ('{"a": "x"}\n{"a": 2.50}\n{"a": true}\n', {"a": ["x", "2.50", "true"]}),
        ('{"a": true}\n{"a": null}\n', {"a": [True, None]}),
        ('{"a": "2024-01-31"}\n', {"a": ["2024-01-31"]}),
        ('{"a": [1, 2.5]}\n{"a": null}\n{"a": [3]}\n', {"a": [[1.0, 2.5], None, [3.0]]}),
        ('{"a": []}\n{"a": [3, 4]}\n', {"a": [[], [3, 4]]}),
        ('{"a": {"b": 1}}\n{"a": {"b": 2.5}}\n', {"a": [{"b": 1.0}, {"b": 2.5}]}),
        ('{"a": [[1], [2]]}\n', {"a": [[[1], [2]]]}),
        ('{"a": ["x", null]}\n', {"a": [["x", None]]}),
        ('{"a": {"b": 1}}\n{"a": {"b": "ä"}}\n', {"a": ['{"b": 1}', '{"b": "ä"}']}),
        ('{"a": [1]}\n{"a": 2}\n', {"a": ["[1]", "2"]}),
        ('{"a": "\\u0000"}\n', {"a": ["\0"]}),
    ],
)
def test_columns_are_made_of_all_cells(parse, content, expected):
    assert parse(content).table.to_pydict() == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('null\n{"a": 1}\n', "record 1 (line 1) is null"),
        ('{"a": 1}\n7\n', "record 2 (line 2) is a number"),
        ('[{"a": 1},\n [1]]', "record 2 (line 2) is a list"),
        ('"x"', "record 1 (line 1) is text"),
        ("true", "record 1 (line 1) is a truth value"),
        ('{"a": 1}\n{"a": }\n', "is not JSON: expecting value at line 2, column 7"),
        ('[{"a": 1}', "the array is not closed at line 1"),
        ('[{"a": 1},', "the array is not closed at line 1"),
        ('[{"a": 1} {"a": 2}]', "the array is not closed at line 1"),
        ('[{"a": 1}]\n[', "something follows the array at line 2"),
        ('{"a": 1, "a": 2}', "has the key 'a' twice"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
        (b'{"a": "\xff"}', "is not UTF-8, as JSON is: invalid start byte at byte 7"),
        ('{"a": ' + "[" * 100_000, "nested too deeply at line 1"),
        ("[" * 100_000, "nested too deeply at line 1"),
        ("{}\n{}", "its objects have no keys"),
        ("[]", "has no rows"),
        ("", "has no rows"),
    ],
)
def test_what_is_no_table_is_refused(parse, tmp_path, content, message):
    with pytest.raises(InputError) as caught:
        parse(content)
    assert str(caught.value).startswith(f"{tmp_path / 't.jsonl'}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_column_of_several_types_is_remarked(parse, tmp_path):
    content = (
        '{"a": 1, "b": [1], "c": 1, "d": [1, "x"]}\n{"a": "x", "b": true, "c": 2, "d": []}\n{"a":'
        " {}}\n"
    )
    assert parse(content).remarks == tuple(
        f"{tmp_path / 't.jsonl'}: column {words}: read as text"
        for words in (
            "'a' holds numbers, objects and text",
            "'b' holds lists and truth values",
            "'d' holds lists of several types",
        )
    )


def test_lists_too_deep_for_arrow_are_text(parse):
    deep = "[" * 60 + "]" * 60
    assert parse(f'{{"a": {deep}}}').table["a"].to_pylist() == [deep]
