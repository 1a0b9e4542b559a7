"""The cursor's arithmetic, held against a walk of one group at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolloutds.cursor import Cursor, Span
from rolloutds.errors import ConfigError, EmptyDatasetError


def walk(cursor: Cursor, num_groups: int, num_rows: int) -> list[tuple[int, int]]:
    """Epoch and position of each group, taken one at a time."""
    epoch_id, offset, taken = cursor.epoch_id, cursor.sample_offset, []
    for _ in range(num_groups):
        if offset >= num_rows:
            epoch_id, offset = epoch_id + 1, 0
        taken.append((epoch_id, offset))
        offset += 1
    return taken


@given(
    num_rows=st.integers(1, 9),
    before=st.integers(0, 30),
    num_groups=st.integers(0, 40),
    size=st.integers(1, 4),
)
def test_spans_and_advance_equal_a_walk(
    num_rows: int, before: int, num_groups: int, size: int
) -> None:
    cursor = Cursor().advanced(before, num_rows, size)
    expected = walk(cursor, num_groups, num_rows)
    spans = cursor.spans(num_groups, num_rows)
    assert [(e, i) for e, start, stop in spans for i in range(start, stop)] == expected
    after = cursor.advanced(num_groups, num_rows, size)
    total = before + num_groups
    assert (after.sample_group_index, after.sample_index) == (total, total * size)
    if expected:
        assert (after.epoch_id, after.sample_offset - 1) == expected[-1]
    else:
        assert after == cursor


@given(
    num_rows=st.integers(1, 9),
    draws=st.lists(st.integers(0, 25), max_size=8),
)
def test_many_draws_equal_one(num_rows: int, draws: list[int]) -> None:
    cursor = Cursor()
    for num_groups in draws:
        cursor = cursor.advanced(num_groups, num_rows, 2)
    assert cursor == Cursor().advanced(sum(draws), num_rows, 2)


def test_an_epoch_s_end_stays_until_the_next_draw() -> None:
    cursor = Cursor().advanced(4, 4, 2)
    assert (cursor.epoch_id, cursor.sample_offset) == (0, 4)
    assert cursor.spans(1, 4) == [Span(1, 0, 1)]


def test_o1_one_draw_over_several_epochs() -> None:
    after = Cursor().advanced(8, 3, 1)
    assert (after.epoch_id, after.sample_offset) == (2, 2)
    assert Cursor().spans(8, 3) == [Span(0, 0, 3), Span(1, 0, 3), Span(2, 0, 2)]


def test_negative_numbers_are_refused() -> None:
    with pytest.raises(ConfigError, match="-1"):
        Cursor().spans(-1, 3)
    with pytest.raises(ConfigError, match="-1"):
        Cursor().advanced(-1, 3, 1)


def test_an_empty_dataset_is_refused() -> None:
    with pytest.raises(EmptyDatasetError):
        Cursor().spans(1, 0)
    with pytest.raises(EmptyDatasetError):
        Cursor().advanced(1, 0, 1)


def test_nothing_is_drawn_from_an_empty_dataset_without_an_error() -> None:
    assert Cursor().spans(0, 0) == []


def test_at_is_the_cursor_of_a_run_without_buffer() -> None:
    assert Cursor.at(2, 3, 10, 8) == Cursor().advanced(23, 10, 8)
