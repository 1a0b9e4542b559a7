"""``markdown``: to be pasted in an issue or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rolloutds.reports.model import Block, Border, Cells, Facts, Heading, Report, Table
from rolloutds.reports.paging import visible_pages
from rolloutds.reports.sections import sections_text
from rolloutds.reports.visible import visible, visible_lines

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~!&@])")


def render(report: Report) -> Iterator[str]:
    """The sections, with everything that Markdown or HTML would act on escaped."""
    return sections_text(report, {Heading: _heading, Facts: _facts, Block: _block, Table: _table})


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", visible(text))


def _heading(heading: Heading) -> Iterator[str]:
    yield f"## {_escaped(heading.text)}"


def _facts(facts: Facts) -> Iterator[str]:
    yield from (f"- {_escaped(name)}: {_escaped(value)}" for name, value in facts.pairs)


def _block(block: Block) -> Iterator[str]:
    if block.title is not None:
        yield f"**{_escaped(block.title)}**"
        yield ""
    lines = visible_lines(block.text)
    # A fence longer than any run of backticks inside cannot be closed by the data.
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (f"{fence}text", *lines, fence)


def _table(table: Table) -> Iterator[str]:
    columns, pages = visible_pages(table)
    yield _row([_escaped(column.name) for column in columns])
    yield _row(["---:" if column.justify == "right" else "---" for column in columns])
    for page in pages:
        for row in page:
            if isinstance(row, Cells):
                yield _row([_escaped(text) for text in row.texts])
            else:
                yield _row(_border(row, len(columns)))


def _border(border: Border, num_columns: int) -> list[str]:
    return [f"**{_escaped(border.title)}**", *[""] * (num_columns - 1)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
