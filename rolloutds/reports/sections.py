"""Reports for people: their sections one after another, each in the way of a format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rolloutds.reports.model import Report

SectionLines = Mapping[type, Callable[[Any], Iterator[str]]]
"""How a format writes a section of each kind: line by line, without line ends."""


def sections_text(report: Report, lines_of: SectionLines) -> Iterator[str]:
    """The sections of a report, with an empty line between two."""
    for number, section in enumerate(report.sections):
        if number:
            yield "\n"
        yield from (line + "\n" for line in lines_of[type(section)](section))
