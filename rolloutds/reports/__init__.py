"""Output formats: each renders a `Report` as pieces of text. Nothing here prints.

A format is one module with ``render(report)`` and one line in `FORMATS`; it is imported when it
is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from rolloutds.reports.model import Report

FORMATS: dict[str, str] = {
    "text": "rolloutds.reports.text",
    "json": "rolloutds.reports.json_object",
    "jsonl": "rolloutds.reports.json_lines",
    "markdown": "rolloutds.reports.markdown",
}
"""Every output format by name: the module that renders it."""

FINDING_FORMATS: dict[str, str] = FORMATS | {
    "text": "rolloutds.reports.findings_text",
    "github": "rolloutds.reports.github",
    "gitlab": "rolloutds.reports.gitlab",
    "junit": "rolloutds.reports.junit",
    "sarif": "rolloutds.reports.sarif",
}
"""The formats of `validate`, with those that CI systems read."""

ON_TERMINAL = {"text": "rolloutds.reports.terminal"}
"""What renders a format in its place when people watch; only this loads Rich's tables."""


def render(report: Report, format_name: str, *, on_terminal: bool = False) -> Iterator[str]:
    """The report in the format of that name, piece by piece, each ending in a newline.

    Raises:
        KeyError: there is no such format.
    """
    modules = FORMATS | ON_TERMINAL if on_terminal else FORMATS
    pieces: Iterator[str] = importlib.import_module(modules[format_name]).render(report)
    return pieces


FINDINGS_ON_TERMINAL = {"text": "rolloutds.reports.findings_terminal"}
"""The same for findings."""


def render_findings(
    report: Report, format_name: str, *, on_terminal: bool = False
) -> Iterator[str]:
    """The report of findings in the format of that name.

    Raises:
        KeyError: there is no such format.
    """
    modules = FINDING_FORMATS | FINDINGS_ON_TERMINAL if on_terminal else FINDING_FORMATS
    pieces: Iterator[str] = importlib.import_module(modules[format_name]).render(report)
    return pieces
