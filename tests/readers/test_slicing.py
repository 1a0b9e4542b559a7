from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolloutds.errors import SliceError
from rolloutds.readers.slicing import RowSlice, shifting, split_slice

bounds = st.none() | st.integers(-15, 15)


@given(st.integers(0, 12), bounds, bounds)
def test_resolve_is_pythons_slice(num_rows, start, end):
    rows = list(range(num_rows))
    assert list(RowSlice(start, end).resolve(num_rows)) == rows[start:end]


@given(st.lists(st.booleans(), max_size=12), bounds, bounds)
def test_shifting_is_the_definition(is_row_of_line, start, end):
    """Each malformed line in turn counts as a row; the selected lines are compared."""
    rows = [line for line, is_row in enumerate(is_row_of_line) if is_row]
    malformed = [line for line, is_row in enumerate(is_row_of_line) if not is_row]
    before = [sum(row < line for row in rows) for line in malformed]
    expected = [
        number
        for number, line in enumerate(malformed)
        if sorted([*rows, line])[start:end] != rows[start:end]
    ]
    assert shifting(before, len(rows), RowSlice(start, end)) == expected


@pytest.mark.parametrize(
    ("text", "row_slice"),
    [
        ("a.jsonl", None),
        ("a.jsonl@[0:10]", RowSlice(0, 10)),
        ("a.jsonl@[-3:]", RowSlice(-3, None)),
        ("a.jsonl@[:-2]", RowSlice(None, -2)),
        ("a.jsonl@[:]", RowSlice()),
        ("folder@[1:2]/a.jsonl", None),
    ],
)
def test_split_slice(text, row_slice):
    path, found = split_slice(text)
    assert found == row_slice
    assert path == (text if row_slice is None else "a.jsonl")


@pytest.mark.parametrize(
    ("tail", "word"),
    [
        ("@[0:10:2]", "step"),
        ("@[x:1]", "whole number"),
        ("@[5]", "no colon"),
        ("@[]", "no colon"),
        ("@[1.5:2]", "whole number"),
        ("@[+1:2]", "whole number"),
        ("@[0:10", "closing"),
        ("@[" + "9" * 5000 + ":]", "5000 digits"),
    ],
)
def test_malformed_slices_explain(tail, word):
    with pytest.raises(SliceError, match=word) as caught:
        split_slice(f"a.jsonl{tail}")
    assert caught.value.expected
    assert "@[" in caught.value.hint


@pytest.mark.parametrize("name", ["a.jsonl@[1]", "a.jsonl@[0:1]"])
def test_a_real_file_comes_first(tmp_path, name):
    path = tmp_path / name
    path.write_text("{}")
    assert split_slice(str(path)) == (str(path), None)
    assert split_slice(f"{path}@[0:2]") == (str(path), RowSlice(0, 2))
