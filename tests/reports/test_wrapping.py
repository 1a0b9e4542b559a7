"""Lines: broken between words, behind the folders of a path, and nowhere else while that is so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolloutds.reports.visible import visible, width
from rolloutds.reports.wrapping import longest_piece, wrapped


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("two words", ["two words"]),
        ("one two three", ["one two", "three"]),
        ("  indented and long", ["  indented", "and long"]),
        ("runs/a/b/c/state.pt", ["runs/a/b/c/", "state.pt"]),
        ("global_dataset_state_dict", ["global_", "dataset_", "state_dict"]),
        ("日本語の問題です", ["日本語の問", "題です"]),
        ("x" * 25, ["x" * 11, "x" * 11, "xxx"]),
    ],
)
def test_where_lines_are_broken(text, lines):
    assert wrapped(text, 11) == lines


def test_the_longest_piece_is_a_word_or_a_folder():
    assert longest_piece("a word, runs/global_state/x.pt") == len("global_state/")
    assert longest_piece("") == 0


@given(st.text() | st.text("a日\u200d\u0300👩 /_"), st.integers(2, 60))
def test_nothing_is_lost_and_nothing_is_wider(text, columns):
    shown = visible(text)
    lines = wrapped(shown, columns)
    assert max(map(width, lines)) <= columns
    assert "".join(lines).replace(" ", "") == shown.replace(" ", "")
