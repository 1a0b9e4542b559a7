"""Findings on a terminal: the text, wrapped between words, in colour unless NO_COLOR is set."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

from rolloutds.reports.findings_text import findings_text
from rolloutds.reports.model import Report

_NARROWEST = 40


def render(report: Report) -> Iterator[str]:
    """The text, its headings and codes in the colour of their severity."""
    columns = max(shutil.get_terminal_size().columns, _NARROWEST)
    return findings_text(report, is_styled=not os.environ.get("NO_COLOR"), columns=columns)
