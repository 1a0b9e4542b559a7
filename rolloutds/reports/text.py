"""``text`` off a terminal: plain lines that are never wrapped, fitted or styled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rolloutds.reports.model import Block, Cells, Column, Facts, Heading, Report, Table
from rolloutds.reports.paging import visible_pages, widest
from rolloutds.reports.sections import sections_text
from rolloutds.reports.visible import visible, visible_lines, width

_GAP = "  "
"""Between two columns."""

_BAR = "  | "
"""Before each line of a block, so that no line of data begins a line of output."""


def render(report: Report) -> Iterator[str]:
    """The sections, in columns that stay where they are for `cut`, `grep` and diffs."""
    return sections_text(report, {Heading: _heading, Facts: _facts, Block: _block, Table: _table})


def _heading(heading: Heading) -> Iterator[str]:
    yield visible(heading.text)


def _facts(facts: Facts) -> Iterator[str]:
    pairs = [(visible(name), visible(value)) for name, value in facts.pairs]
    names = max((width(name) for name, _ in pairs), default=0)
    yield from (f"{_padded(name, names)}{_GAP}{value}".rstrip() for name, value in pairs)


def _block(block: Block) -> Iterator[str]:
    if block.title is not None:
        yield visible(block.title)
    yield from (_BAR + line if line else _BAR.rstrip() for line in visible_lines(block.text))


def _table(table: Table) -> Iterator[str]:
    columns, pages = visible_pages(table)
    widths = [width(column.name) for column in columns]
    for number, page in enumerate(pages):
        # Widths only grow, so that later pages keep under the headings where they can.
        widths = [max(least, widest(page, index)) for index, least in enumerate(widths)]
        if number == 0:
            yield _line([column.name for column in columns], columns, widths)
        for row in page:
            if isinstance(row, Cells):
                yield _line(row.texts, columns, widths)
            else:
                yield f"-- {visible(row.title)} --"


def _line(texts: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    cells = zip(texts, columns, widths, strict=True)
    return _GAP.join(_padded(text, wide, column.justify) for text, column, wide in cells).rstrip()


def _padded(text: str, columns: int, justify: str = "left") -> str:
    # str.ljust counts characters; a terminal and a fixed-width font count columns.
    padding = " " * (columns - width(text))
    return padding + text if justify == "right" else text + padding
