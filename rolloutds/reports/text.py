"""``text``: tables fitted to a terminal; off it, plain lines that are never wrapped or fitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from rolloutds.reports.model import (
    Block,
    Border,
    Cells,
    Column,
    Facts,
    Heading,
    Report,
    Screen,
    Table,
)
from rolloutds.reports.paging import Page, visible_pages
from rolloutds.reports.visible import fitted, visible, visible_lines, width

GAP = "  "
"""Between two columns."""

BAR = "  | "
"""Before each line of a block, so that no line of data begins a line of output."""

_READABLE = 28
"""Columns of a prompt that are left to it as long as others can give way."""

_LEAST = 8
"""Columns that a cell which may be cut is not cut below."""

_STYLES = {"bold": "1", "dim": "2"}


def render(report: Report, screen: Screen) -> Iterator[str]:
    """The sections, one after another, with an empty line between two."""
    is_first = True
    for section in report.sections:
        if not is_first:
            yield "\n"
        is_first = False
        yield from (line + "\n" for line in _RENDER[type(section)](section, screen))


def _styled(text: str, style: Literal["bold", "dim"], screen: Screen) -> str:
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if screen.has_colour and text else text


def _heading(heading: Heading, screen: Screen) -> Iterator[str]:
    yield _styled(visible(heading.text), "bold", screen)


def _facts(facts: Facts, screen: Screen) -> Iterator[str]:
    names = max((width(name) for name, _ in facts.pairs), default=0)
    for name, value in facts.pairs:
        head = _styled(_padded(visible(name), names), "dim", screen)
        for line in _wrapped(visible(value), screen, names + len(GAP)):
            yield f"{head}{GAP}{line}".rstrip()
            head = " " * names


def _wrapped(text: str, screen: Screen, indent: int) -> list[str]:
    """`text` broken between words where the screen ends, within a word longer than a line."""
    if screen.width is None or indent + width(text) <= screen.width:
        return [text]
    room = max(screen.width - indent, _READABLE)
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if width(joined) <= room:
            lines[-1] = joined
            continue
        rest = word if lines[-1] else joined
        while width(rest) > room:
            head = fitted(rest, room)
            lines.append(head)
            rest = rest[len(head) :]
        lines.append(rest)
    return [line for line in lines if line]


def _block(block: Block, screen: Screen) -> Iterator[str]:
    if block.title is not None:
        yield _styled(visible(block.title), "bold", screen)
    bar = _styled(BAR, "dim", screen)
    # Not wrapped on a terminal either: it wraps by itself, and what is copied stays whole.
    yield from (f"{bar}{line}" if line else bar.rstrip() for line in visible_lines(block.text))


def _table(table: Table, screen: Screen) -> Iterator[str]:
    columns, pages = visible_pages(table, screen.width)
    widths = [width(column.name) for column in columns]
    is_first = True
    for page in pages:
        # Widths only grow, so that later pages keep under the headings where they can.
        widths = [max(least, _widest(page, index)) for index, least in enumerate(widths)]
        fits = widths if screen.width is None else _fitted(columns, widths, screen.width)
        if is_first:
            yield from _header(columns, fits, screen)
        is_first = False
        for row in page:
            if isinstance(row, Cells):
                yield _line(row.texts, columns, fits)
            else:
                yield _border(row, fits, screen)


def _widest(page: Page, index: int) -> int:
    return max((width(row.texts[index]) for row in page if isinstance(row, Cells)), default=0)


def _header(columns: Sequence[Column], widths: Sequence[int], screen: Screen) -> Iterator[str]:
    yield _styled(_line([column.name for column in columns], columns, widths), "bold", screen)
    if screen.width is not None:
        yield _styled("─" * _total(widths), "dim", screen)


def _border(border: Border, widths: Sequence[int], screen: Screen) -> str:
    title = f"── {visible(border.title)} "
    if screen.width is None:
        return f"-- {visible(border.title)} --"
    return _styled(title + "─" * (_total(widths) - width(title)), "dim", screen)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _line(texts: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    cells = (
        _padded(_cut(text, columns_wide, column), columns_wide, justify=column.justify)
        for text, column, columns_wide in zip(texts, columns, widths, strict=True)
    )
    return GAP.join(cells).rstrip()


def _cut(text: str, columns: int, column: Column) -> str:
    if width(text) <= columns:
        return text
    if column.keeps_end:
        return "…" + fitted(text[::-1], columns - 1)[::-1]
    return fitted(text, columns - 1) + "…"


def _padded(text: str, columns: int, *, justify: str = "left") -> str:
    padding = " " * (columns - width(text))
    return padding + text if justify == "right" else text + padding


def _fitted(columns: Sequence[Column], widths: Sequence[int], screen_width: int) -> list[int]:
    """Widths that fit the screen: flexible columns give first, then others that may be cut.

    Numbers are never cut: a screen too narrow for them wraps.
    """
    fits = list(widths)
    flexible = [i for i, column in enumerate(columns) if column.is_flexible]
    others = [i for i, c in enumerate(columns) if c.limit is not None and not c.is_flexible]
    steps = [(i, _READABLE) for i in flexible] + [(i, _LEAST) for i in others + flexible]
    for index, least in steps:
        excess = max(_total(fits) - screen_width, 0)
        least_here = min(max(least, width(columns[index].name)), fits[index])
        fits[index] = max(fits[index] - excess, least_here)
    return fits


_RENDER: dict[type, Callable[[Any, Screen], Iterator[str]]] = {
    Heading: _heading,
    Facts: _facts,
    Block: _block,
    Table: _table,
}
