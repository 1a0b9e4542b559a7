"""Tables on screens: what is shortened first, what goes below a row, what is left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolloutds.reports.fitting import Layout, fitted, heading
from rolloutds.reports.model import Cells, Column

COLUMNS = [
    Column("group", "right"),
    Column("zero spread", "right", short="std 0"),
    Column("rewards", is_list=True, is_extra=True),
    Column("which groups", is_list=True, num_below=2),
    Column("prompt", limit=100, is_flexible=True),
]
PAGE = [Cells(["12", "15.4%", "0 1 " * 8, "9 27 29 45 " * 3, "word " * 20])]


def headings(screen):
    found = fitted(COLUMNS, PAGE, screen)
    assert found is not None
    assert found.width <= screen
    return (
        [heading(COLUMNS[i], found) for i in found.widths],
        [COLUMNS[i].name for i in found.below],
        [COLUMNS[i].name for i in found.left_out],
    )


@pytest.mark.parametrize(
    ("screen", "shown", "below", "left_out"),
    [
        (200, ["group", "zero spread", "rewards", "which groups", "prompt"], [], []),
        (100, ["group", "zero spread", "rewards", "which groups", "prompt"], [], []),
        (85, ["group", "std 0", "rewards", "which groups", "prompt"], [], []),
        (80, ["group", "std 0", "rewards", "prompt"], ["which groups"], []),
        (45, ["group", "std 0", "prompt"], ["which groups"], ["rewards"]),
    ],
)
def test_what_gives_way_first(screen, shown, below, left_out):
    assert headings(screen) == (shown, below, left_out)


def test_below_what_fits_nowhere_there_is_no_table():
    numbers = [Column(f"number {i}", "right") for i in range(9)]
    assert fitted(numbers, [Cells(["1"] * 9)], 80) is None
    assert fitted(numbers, [Cells(["1"] * 9)], 9 * 8 + 16) == Layout(dict.fromkeys(range(9), 8))


def test_flexible_columns_get_the_room_and_prose_gives_back_what_it_does_not_use():
    columns = [Column("by status"), Column("prompt", limit=100, is_flexible=True)]
    page = [Cells(["completed 5, truncated-late 3", "word " * 20])]
    found = fitted(columns, page, 40)
    assert found is not None
    assert found.widths == {0: 16, 1: 22}


@given(
    st.lists(
        st.builds(
            Column,
            st.sampled_from(["a", "a heading", "日本"]),
            st.sampled_from(["left", "right"]),
            limit=st.sampled_from([None, 30]),
            is_flexible=st.booleans(),
            keeps_end=st.booleans(),
            is_list=st.booleans(),
            is_extra=st.booleans(),
            num_below=st.integers(0, 2),
        ),
        min_size=1,
        max_size=7,
    ),
    st.lists(st.text("ab 日/", max_size=60), min_size=7, max_size=7),
    st.integers(40, 120),
)
def test_a_layout_is_never_wider_than_the_screen_and_has_every_column(columns, texts, screen):
    found = fitted(columns, [Cells(texts[: len(columns)])], screen)
    if found is not None:
        assert found.width <= screen
        places = [*found.widths, *found.below, *found.left_out]
        assert sorted(places) == list(range(len(columns)))
