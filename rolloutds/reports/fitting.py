"""How a table is fitted to a screen: how wide columns are, what goes below, what is left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rolloutds.reports.model import Cells, Column
from rolloutds.reports.paging import Page, widest
from rolloutds.reports.visible import width
from rolloutds.reports.wrapping import longest_piece, wrapped

GAP = 2
"""Columns between two columns of a table."""

_LEAST = 8
"""Columns that a cell keeps where room is short."""

_COMFORT = 15
"""Columns in which a cell that is cut still says something."""

_SHARE = 8
"""Beside a flexible column, another that is cut has one part in so many of the screen."""


@dataclass(frozen=True)
class Layout:
    """Where a table's columns are on a screen; they are named by their place in a row.

    Attributes:
        widths: of those that are in the rows.
        below: those whose cells go below their row.
        left_out: those there is no room for.
        is_short: whether headings are the short ones.
    """

    widths: Mapping[int, int]
    below: Sequence[int] = ()
    left_out: Sequence[int] = ()
    is_short: bool = False

    @property
    def width(self) -> int:
        """Columns that a row takes."""
        return _total(self.widths.values())


def fitted(columns: Sequence[Column], page: Page, screen: int) -> Layout | None:
    """The layout of a page on a screen of so many columns; None: it does not fit as a table."""
    needs = [max(widest(page, i), width(column.name)) for i, column in enumerate(columns)]
    if _total(needs) <= screen:
        return Layout(dict(enumerate(needs)))
    for layout in _layouts(columns):
        sizes = [_size(column, page, i, screen, layout) for i, column in enumerate(columns)]
        if _total(sizes[i].comfort for i in layout.widths) <= screen:
            break
    least = {i: sizes[i].least for i in layout.widths}
    if _total(least.values()) > screen:
        return None
    return replace(layout, widths=_spread(columns, page, sizes, least, screen))


def heading(column: Column, layout: Layout) -> str:
    """What a column is called."""
    return column.name if column.short is None or not layout.is_short else column.short


def _total(widths: Iterable[int]) -> int:
    return sum(found + GAP for found in widths) - GAP


def _layouts(columns: Sequence[Column]) -> Iterator[Layout]:
    """From the one with everything in the rows to the one with the least; without widths."""
    shown = dict.fromkeys(range(len(columns)), 0)
    yield Layout(shown)
    yield Layout(shown, is_short=True)
    below = [i for i in shown if columns[i].num_below]
    shown = {i: 0 for i in shown if i not in below}
    yield Layout(shown, below, is_short=True)
    left_out: list[int] = []
    for extra in reversed([i for i in shown if columns[i].is_extra]):
        left_out.insert(0, extra)
        shown = {i: 0 for i in shown if i != extra}
        yield Layout(shown, below, tuple(left_out), is_short=True)


# --- widths -------------------------------------------------------------------------------


class _Size(NamedTuple):
    """What a column would like, what it needs to say something, and what it cannot do without."""

    needed: int
    comfort: int
    least: int


def _size(column: Column, page: Page, index: int, screen: int, layout: Layout) -> _Size:
    name = width(heading(column, layout))
    needed = max(name, widest(page, index))
    if column.justify == "right" or needed <= _LEAST:
        return _Size(needed, needed, needed)
    if column.num_below:
        return _Size(needed, needed, max(name, _LEAST))
    if column.is_one_line:
        comfort = _COMFORT if _takes_room(column) else min(_COMFORT, screen // _SHARE)
        least, wanted = (max(name, min(needed, most)) for most in (_LEAST, comfort))
        return _Size(needed, wanted, least)
    texts = (row.texts[index] for row in page if isinstance(row, Cells))
    least = max(name, min(screen // 2, max(map(longest_piece, texts), default=0)))
    is_whole = not column.is_flexible and needed <= screen // 2
    return _Size(needed, needed if is_whole else max(least, min(needed, _COMFORT)), least)


def _takes_room(column: Column) -> bool:
    """Whether a column that is cut takes what others leave; else it has a share of the screen."""
    return column.is_flexible or column.limit is None


def _spread(
    columns: Sequence[Column],
    page: Page,
    sizes: Sequence[_Size],
    least: Mapping[int, int],
    screen: int,
) -> dict[int, int]:
    """The widths that make the best of a screen: the narrowest column grows first."""
    widths = dict(least)
    has_flexible = any(columns[i].is_flexible for i in widths)
    shares = {
        i: min(sizes[i].needed, screen // _SHARE)
        if has_flexible and not _takes_room(columns[i])
        else sizes[i].needed
        for i in widths
    }
    names = {i: sizes[i].comfort for i in widths if not columns[i].is_flexible}
    _grow(widths, {i: min(goal, shares[i]) for i, goal in names.items()}, screen)
    _grow(widths, shares, screen)
    prose = [i for i in widths if columns[i].justify == "left" and not columns[i].is_one_line]
    for i in prose:
        widths[i] = max(least[i], _widest_line(page, i, widths[i]))
    _grow(widths, {i: sizes[i].needed for i in widths if i not in prose}, screen)
    return widths


def _grow(widths: dict[int, int], goals: Mapping[int, int], screen: int) -> None:
    for _ in range(screen - _total(widths.values())):
        growing = [i for i, goal in goals.items() if widths[i] < goal]
        if not growing:
            return
        widths[min(growing, key=widths.__getitem__)] += 1


def _widest_line(page: Page, index: int, columns: int) -> int:
    """What prose takes of its columns: lines end before they are full."""
    texts = [row.texts[index] for row in page if isinstance(row, Cells)]
    return max((width(line) for text in texts for line in wrapped(text, columns)), default=0)
