"""Tables of any length: cut into pages, so that widths are known and memory is bounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice

from rolloutds.reports.model import Border, Cells, Column, Table
from rolloutds.reports.visible import shortened, width

PAGE_ROWS = 200
"""Rows whose widths are measured together."""

Page = list[Cells | Border]


def visible_pages(
    table: Table, screen_width: int | None = None
) -> tuple[list[Column], Iterator[Page]]:
    """The columns that have something to show, and the pages with their cells made visible.

    Args:
        table: the table; its rows are read as the pages are taken.
        screen_width: columns of the terminal, the limit of a flexible column that has one.
    """
    columns = list(table.columns)
    if screen_width is not None:
        columns = [
            replace(c, limit=screen_width) if c.is_flexible and c.limit is not None else c
            for c in columns
        ]
    # Cells are cut before they are kept: a page of whole prompts may be gigabytes.
    pages = _pages(_visible(row, columns) for row in table.rows)
    first = next(pages, [])
    shown = [i for i, column in enumerate(columns) if not column.is_optional or _used(first, i)]
    selected = (_selected(page, shown) for page in chain([first], pages))
    return [columns[index] for index in shown], selected


def _visible(row: Cells | Border, columns: Sequence[Column]) -> Cells | Border:
    if isinstance(row, Border):
        return row
    pairs = zip(row.texts, columns, strict=True)
    # What counts in a path is its end, and no path is long.
    return Cells([shortened(text, None if c.keeps_end else c.limit) for text, c in pairs])


def widest(page: Page, index: int) -> int:
    """Columns that the widest cell of a table's column takes."""
    return max((width(row.texts[index]) for row in page if isinstance(row, Cells)), default=0)


def _pages(rows: Iterator[Cells | Border]) -> Iterator[Page]:
    while page := list(islice(rows, PAGE_ROWS)):
        yield page


def _used(page: Page, index: int) -> bool:
    return any(isinstance(row, Cells) and row.texts[index] for row in page)


def _selected(page: Page, shown: Sequence[int]) -> Page:
    return [
        Cells([row.texts[index] for index in shown]) if isinstance(row, Cells) else row
        for row in page
    ]
