"""``text`` on a terminal, fitted to its width.

Rich knows the width (``COLUMNS``), what the terminal can do (``TERM``) and what is asked for
(``FORCE_COLOR``). Text from data is made visible first and reaches it as `Text`, not as markup.
Lines are laid out here: none is wider than the screen, and none is left to the terminal to wrap.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

from rich.cells import set_cell_size
from rich.console import Console
from rich.text import Text

from rolloutds.reports.fitting import GAP, Layout, fitted, heading
from rolloutds.reports.model import Block, Border, Cells, Column, Facts, Heading, Report, Table
from rolloutds.reports.paging import Page, visible_pages
from rolloutds.reports.sections import sections_text
from rolloutds.reports.visible import shortened, visible, visible_lines, width
from rolloutds.reports.wrapping import wrapped

_NARROWEST = 40
"""A narrower terminal wraps lines by itself: columns of a few letters say nothing."""

_BAR = "  │ "
_INDENT = " " * 6
_PADDING = re.compile(" +$", re.MULTILINE)

Parts = Iterator[Text]
"""Lines, one or several in a part."""


def render(report: Report) -> Iterator[str]:
    """The sections, fitted to the terminal and styled as it allows."""
    # Rich keeps bold and dim under NO_COLOR; who sets it expects plain text.
    console = Console(color_system=None if os.environ.get("NO_COLOR") else "auto")
    console.width = max(console.width, _NARROWEST)
    return sections_text(
        report, {kind: partial(_printed, console, parts) for kind, parts in _PARTS.items()}
    )


def _printed(console: Console, parts: Callable[[Any, int], Parts], section: Any) -> Iterator[str]:
    for part in parts(section, console.width):
        with console.capture() as captured:
            console.print(part, soft_wrap=True)
        yield _PADDING.sub("", captured.get()).removesuffix("\n")


def _lines(lines: Sequence[Text]) -> Text:
    return Text("\n").join(lines)


def _heading(heading: Heading, screen: int) -> Parts:
    yield _title(heading.text, screen)


def _title(text: str, screen: int) -> Text:
    return Text("\n".join(wrapped(visible(text), screen)), "bold")


def _facts(facts: Facts, screen: int) -> Parts:
    pairs = [(visible(name), visible(value)) for name, value in facts.pairs]
    names = min(max((width(name) for name, _ in pairs), default=0), screen // 2)
    for name, value in pairs:
        lines = zip_longest(
            wrapped(name, names), wrapped(value, screen - names - GAP), fillvalue=""
        )
        yield _lines(
            [Text.assemble((_padded(one, names + GAP), "dim"), other) for one, other in lines]
        )


def _block(block: Block, screen: int) -> Parts:
    if block.title is not None:
        yield _title(block.title, screen)
    for line in visible_lines(block.text):
        parts = wrapped(line, screen - width(_BAR))
        yield _lines([Text.assemble((_BAR, "dim"), part) for part in parts])


# --- tables -------------------------------------------------------------------------------


def _table(table: Table, screen: int) -> Parts:
    columns, pages = visible_pages(table, screen)
    left_out: dict[str, None] = {}
    # Each page has headings of its own: in a long listing, some are always near.
    for page in pages:
        layout = fitted(columns, page, screen)
        if layout is None:
            yield _lines(list(_stacked(columns, page, screen)))
            continue
        left_out |= dict.fromkeys(heading(columns[i], layout) for i in layout.left_out)
        yield _lines(list(_page(columns, page, layout, screen)))
    left_out.pop("", None)
    if left_out:
        names = ", ".join(left_out)
        yield Text(f"no room for: {names} (a wider terminal, or a pipe, has it)", "dim")


def _page(columns: Sequence[Column], page: Page, layout: Layout, screen: int) -> Iterator[Text]:
    yield Text(_row([heading(c, layout) for c in columns], columns, layout), "bold")
    yield Text("─" * layout.width, "dim")
    for row in page:
        if isinstance(row, Border):
            yield _rule(row.title, layout.width)
            continue
        yield from map(Text, _row_lines(row, columns, layout))
        yield from _below(row, columns, layout, screen)


def _row_lines(row: Cells, columns: Sequence[Column], layout: Layout) -> Iterator[str]:
    cells = {
        i: _cell_lines(row.texts[i], columns[i], columns_wide)
        for i, columns_wide in layout.widths.items()
    }
    for number in range(max(map(len, cells.values()))):
        texts = [
            cells[i][number] if i in cells and number < len(cells[i]) else ""
            for i in range(len(columns))
        ]
        yield _row(texts, columns, layout)


def _cell_lines(text: str, column: Column, columns: int) -> list[str]:
    if width(text) <= columns:
        return [text]
    if column.keeps_end:
        return [_end(text, columns)]
    return [_head(text, columns)] if column.is_one_line else wrapped(text, columns)


def _head(text: str, columns: int) -> str:
    """As much of a text that does not fit as there is room for."""
    if text.isascii():
        return text[: columns - 1] + "…"
    return set_cell_size(text, columns - 1) + "…"


def _end(path: str, columns: int) -> str:
    """The end of a path that does not fit."""
    end = path[-columns:]
    while width(end) > columns - 1:
        end = end[1:]
    return "…" + end


def _row(texts: Sequence[str], columns: Sequence[Column], layout: Layout) -> str:
    cells = (_padded(texts[i], wide, columns[i].justify) for i, wide in layout.widths.items())
    return (" " * GAP).join(cells)


def _padded(text: str, columns: int, justify: str = "left") -> str:
    padding = " " * (columns - width(text))
    return padding + text if justify == "right" else text + padding


def _rule(title: str, columns: int) -> Text:
    shown = shortened(title, max(columns - 6, 1))
    line = "─" * (columns - width(shown) - 4)
    return Text.assemble(("── ", "dim"), (shown, "bold"), (f" {line}", "dim"))


def _below(row: Cells, columns: Sequence[Column], layout: Layout, screen: int) -> Iterator[Text]:
    names = max((width(heading(columns[i], layout)) for i in layout.below), default=0)
    room = screen - width(_INDENT) - names - GAP
    for i in layout.below:
        lines = wrapped(row.texts[i], room)
        if len(lines) > columns[i].num_below:
            lines = lines[: columns[i].num_below]
            lines[-1] = _cut_off(lines[-1], room)
        name = heading(columns[i], layout)
        for number, line in enumerate(lines if row.texts[i] else ()):
            head = _padded("" if number else name, names + GAP)
            yield Text.assemble(_INDENT, (head, "dim"), line)


def _cut_off(line: str, columns: int) -> str:
    """A line with a mark that more follows."""
    if width(line) + 2 > columns:
        line = line.rpartition(" ")[0]
    return f"{line} …" if line else "…"


def _stacked(columns: Sequence[Column], page: Page, screen: int) -> Iterator[Text]:
    """Rows that do not fit as such: each under its first cell, as names with values."""
    for row in page:
        if isinstance(row, Border):
            yield _rule(row.title, screen)
            continue
        cells = zip(columns, row.texts, strict=True)
        first, *others = [f"{c.name} {text}".strip() for c, text in cells if text] or [""]
        yield _rule(first, screen)
        yield from map(Text, _joined(others, screen))


def _joined(pairs: Sequence[str], screen: int) -> Iterator[str]:
    """Pairs one after another, as many on a line as fit; a long one is wrapped."""
    line = ""
    for pair in pairs:
        if line and width(line) + 3 + width(pair) <= screen:
            line += "   " + pair
            continue
        if line:
            yield line
        *full, line = wrapped(pair, screen)
        yield from full
    if line:
        yield line


_PARTS: dict[type, Callable[[Any, int], Parts]] = {
    Heading: _heading,
    Facts: _facts,
    Block: _block,
    Table: _table,
}
