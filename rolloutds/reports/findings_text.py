"""``text`` of findings: a line each, as compilers and linters write them, the worst first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rolloutds.checks.base import SEVERITIES
from rolloutds.reports.findings_report import (
    checked_text,
    checks_text,
    known_text,
    place_of,
    skipped_texts,
    summary,
)
from rolloutds.reports.model import Report
from rolloutds.reports.visible import shortened, visible, width
from rolloutds.reports.wrapping import wrapped

SHOWN_OF_A_CODE = 5
"""Warnings and notes of one code in one file that are shown; errors are all shown."""

_LONGEST = 400
_INDENT = " " * 4
_STYLES = {"error": "1;31", "warning": "1;33", "note": "1;36"}


def render(report: Report) -> Iterator[str]:
    """Errors, warnings, notes; a summary; what was checked and what was skipped."""
    return findings_text(report, is_styled=False)


def findings_text(report: Report, *, is_styled: bool, columns: int | None = None) -> Iterator[str]:
    """The same, in colour for a terminal and fitted to so many columns; None: never wrapped."""
    records = list(report.records)
    for severity in SEVERITIES:
        some = [record for record in records if record["severity"] == severity]
        if some:
            heading = f"{severity}s" if len(some) > 1 else severity
            yield _styled(f"{heading}:", _STYLES[severity], is_styled=is_styled) + "\n"
            for text, code in _lines(some, severity):
                for line in _fitted(text, columns):
                    yield _marked(line, code, _STYLES[severity], is_styled=is_styled) + "\n"
            yield "\n"
    for text in _closing(report.data):
        yield from (line + "\n" for line in _fitted(visible(text), columns))


def _fitted(text: str, columns: int | None) -> list[str]:
    """The text in lines, the second and further ones indented: a place begins a line, alone."""
    if columns is None or width(text) <= columns:
        return [text]
    first, *others = wrapped(text, columns - len(_INDENT))
    return [first, *(_INDENT + line for line in others)]


def _marked(line: str, code: str, style: str, *, is_styled: bool) -> str:
    if not is_styled or not code:
        return line
    return re.sub(rf"(?<!\S){code}(?!\S)", _styled(code, style, is_styled=True), line, count=1)


def _lines(records: Sequence[Mapping[str, Any]], severity: str) -> Iterator[tuple[str, str]]:
    """Each finding in one line, with its code."""
    if severity == "error":
        yield from map(_line, records)
        return
    # Together by code, so that what is one problem reads as one.
    ordered = sorted(records, key=lambda record: (record["file"], record["code"]))
    for (file, code), group in groupby(ordered, lambda r: (r["file"], r["code"])):
        some = list(group)
        shown = some if len(some) <= SHOWN_OF_A_CODE + 1 else some[:SHOWN_OF_A_CODE]
        yield from map(_line, shown)
        if len(shown) < len(some):
            rest = f"{len(some) - len(shown):,} more {code} {some[0]['name']}"
            yield f"{visible(file)}: {rest} (--format jsonl lists each)", ""


def _line(record: Mapping[str, Any]) -> tuple[str, str]:
    code = record["code"]
    message = shortened(record["message"], _LONGEST)
    return f"{visible(place_of(record))}: {code} {message}", code


def _closing(data: Any) -> Iterator[str]:
    yield f"{summary(data)}."
    if data["num_known"]:
        yield known_text(data)
    if data["num_not_listed"]:
        count = data["num_not_listed"]
        found = "1 further finding is" if count == 1 else f"{count:,} further findings are"
        yield f"{found} counted, not listed:"
    if data["shows_statistics"] or data["num_not_listed"]:
        yield from _statistics(data["statistics"])
    yield f"Checked {checked_text(data)} with {checks_text(data)}."
    yield from (f"Skipped {text}" for text in skipped_texts(data))
    if data["statistics"]:
        code = min(data["statistics"], key=lambda s: SEVERITIES.index(s["severity"]))["code"]
        yield f"`rolloutds explain {code}` says what a code means and how to fix it."


def _statistics(statistics: Sequence[dict[str, Any]]) -> Iterator[str]:
    digits = max((len(f"{item['count']:,}") for item in statistics), default=0)
    for item in sorted(statistics, key=lambda s: SEVERITIES.index(s["severity"])):
        count = f"{item['count']:,}".rjust(digits)
        yield f"  {count}  {item['code']}  {item['severity']}  {item['name']}"


def _styled(text: str, style: str, *, is_styled: bool) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if is_styled else text
