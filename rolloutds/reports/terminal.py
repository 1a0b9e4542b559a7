"""``text`` on a terminal, laid out by Rich.

Rich knows the width (``COLUMNS``), what the terminal can do (``TERM``) and what is asked for
(``FORCE_COLOR``). Text from data is made visible first and reaches it as `Text`, not as markup.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.rule import Rule
from rich.segment import Segment, SegmentLines
from rich.table import Table as RichTable
from rich.text import Text

from rolloutds.reports.model import Block, Border, Cells, Column, Facts, Heading, Report, Table
from rolloutds.reports.paging import Page, visible_pages, widest
from rolloutds.reports.sections import sections_text
from rolloutds.reports.visible import visible, visible_lines, width

_NARROWEST = 40
"""A narrower terminal wraps lines by itself: columns of a few letters say nothing."""

_LEAST = 8
"""Columns that a cell keeps where room is short."""

_SHARE = 8
"""Where room is short, a column beside a flexible one has one part in so many of the screen."""

_GAP = 2
_HEAD_LINES = 2
_PADDING = re.compile(" +$", re.MULTILINE)


def render(report: Report) -> Iterator[str]:
    """The sections, fitted to the terminal and styled as it allows."""
    # Rich keeps bold and dim under NO_COLOR; who sets it expects plain text.
    console = Console(color_system=None if os.environ.get("NO_COLOR") else "auto")
    console.width = max(console.width, _NARROWEST)
    return sections_text(
        report, {kind: partial(_printed, console, parts) for kind, parts in _PARTS.items()}
    )


Parts = Iterator[RenderableType]


def _printed(
    console: Console, parts: Callable[[Any, Console], Parts], section: Any
) -> Iterator[str]:
    for part in parts(section, console):
        with console.capture() as captured:
            # Where there is no room, the terminal wraps: numbers and headings are not cropped.
            console.print(part, crop=False)
        yield _PADDING.sub("", captured.get()).removesuffix("\n")


def _heading(heading: Heading, console: Console) -> Parts:
    del console
    yield Text(visible(heading.text), "bold")


def _facts(facts: Facts, console: Console) -> Parts:
    del console
    grid = RichTable.grid(padding=(0, _GAP, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.pairs:
        grid.add_row(Text(visible(name)), Text(visible(value)))
    yield grid


def _block(block: Block, console: Console) -> Parts:
    if block.title is not None:
        yield Text(visible(block.title), "bold")
    bar = Segment("  │ ", console.get_style("dim"))
    for line in visible_lines(block.text):
        parts = Text(line).wrap(console, console.width - bar.cell_length, overflow="fold")
        yield SegmentLines([[bar, Segment(part.plain)] for part in parts], new_lines=True)


def _table(table: Table, console: Console) -> Parts:
    columns, pages = visible_pages(table, console.width)
    # Each page has headings of its own: in a long listing, some are always near.
    return (_page(columns, page, console) for page in pages)


def _page(columns: Sequence[Column], page: Page, console: Console) -> SegmentLines:
    grid = _grid(columns, page, console.width)
    least = _total([column.min_width or 0 for column in grid.columns])
    # Given less than it needs, Rich drops columns; the terminal can wrap the lines.
    options = console.options.update(width=max(least, console.width))
    lines = console.render_lines(grid, options, pad=False)
    # A border reaches across all columns, which Rich has no row for.
    options = options.update(width=Segment.get_line_length(lines[0]))
    for index, row in enumerate(page):
        if isinstance(row, Border):
            lines.insert(_HEAD_LINES + index, console.render_lines(_rule(row), options)[0])
    return SegmentLines(lines, new_lines=True)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _rule(border: Border) -> Rule:
    title = Text.assemble(("── ", "dim"), (visible(border.title), "bold"))
    return Rule(title, align="left", style="dim")


def _grid(columns: Sequence[Column], page: Page, screen_width: int) -> RichTable:
    grid = RichTable(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, _GAP - 1, 0, 0),  # the box adds one
        header_style="bold",
        border_style="dim",
    )
    needs = [max(widest(page, i), width(column.name)) for i, column in enumerate(columns)]
    shares = _total(needs) > screen_width and any(column.is_flexible for column in columns)
    for column, needed in zip(columns, needs, strict=True):
        _add_column(grid, column, needed, screen_width, shares=shares)
    # Where there are borders, a row is one line, so that it is known where they go.
    has_borders = any(isinstance(row, Border) for row in page)
    for row in page:
        if isinstance(row, Cells):
            pairs = zip(row.texts, columns, strict=True)
            grid.add_row(*(_cell(text, c, is_one_line=has_borders) for text, c in pairs))
    return grid


def _add_column(
    grid: RichTable, column: Column, needed: int, screen_width: int, *, shares: bool
) -> None:
    """Numbers and names keep what they need; of the others, Rich narrows the widest first."""
    heading = width(column.name)
    stays = _stays_whole(column, needed, screen_width)
    has_share = shares and column.limit is not None and not column.is_flexible
    grid.add_column(
        Text(column.name),
        justify=column.justify,
        no_wrap=stays,
        overflow="fold",
        min_width=needed if stays else max(heading, min(needed, _LEAST)),
        max_width=max(heading, screen_width // _SHARE) if has_share else None,
    )


def _stays_whole(column: Column, needed: int, screen_width: int) -> bool:
    if column.justify == "right" or needed <= _LEAST:
        return True
    gives_way = column.limit is not None or column.keeps_end or column.is_flexible
    return not gives_way and needed <= screen_width // 2


def _cell(text: str, column: Column, *, is_one_line: bool) -> RenderableType:
    if column.keeps_end:
        return _PathEnd(text)
    if is_one_line or column.limit is not None:
        return Text(text, no_wrap=True, overflow="ellipsis")
    return Text(text)


@dataclass(frozen=True)
class _PathEnd:
    """A path: where it does not fit, its end is shown, which Rich has no way for."""

    path: str

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, max(width(self.path), 1))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        end = self.path
        while width(end) > options.max_width:
            end = "…" + end.removeprefix("…")[1:]
        yield Text(end)


_PARTS: dict[type, Callable[[Any, Console], Parts]] = {
    Heading: _heading,
    Facts: _facts,
    Block: _block,
    Table: _table,
}
