"""Output formats: each renders a `Report` as pieces of text. Nothing here prints.

A format is one module with ``render(report, screen)`` and one line in `FORMATS`; it is imported
when it is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from rolloutds.reports.model import Report, Screen

FORMATS: dict[str, str] = {
    "text": "rolloutds.reports.text",
    "json": "rolloutds.reports.json_object",
    "jsonl": "rolloutds.reports.json_lines",
    "markdown": "rolloutds.reports.markdown",
}
"""Every output format by name: the module that renders it."""


def render(report: Report, format_name: str, screen: Screen) -> Iterator[str]:
    """The report in the format of that name, piece by piece, each ending in a newline.

    Raises:
        KeyError: there is no such format.
    """
    module = importlib.import_module(FORMATS[format_name])
    pieces: Iterator[str] = module.render(report, screen)
    return pieces
