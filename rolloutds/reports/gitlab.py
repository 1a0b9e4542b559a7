"""``gitlab``: a Code Quality report, shown in merge requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rolloutds.reports.findings_report import place_of
from rolloutds.reports.json_text import as_json
from rolloutds.reports.model import Report
from rolloutds.reports.visible import visible

_SEVERITIES = {"error": "critical", "warning": "minor", "note": "info"}


def render(report: Report) -> Iterator[str]:
    """One JSON array; empty when nothing was found, as GitLab wants it."""
    yield as_json([_issue(record) for record in report.records], indent=2)
    yield "\n"


def _issue(record: Mapping[str, Any]) -> dict[str, Any]:
    place = "" if record["line"] is not None else f"{place_of(record)}: "
    return {
        "description": visible(f"{record['code']}: {place}{record['message']}"),
        "check_name": f"{record['code']} {record['name']}",
        "fingerprint": record["fingerprint"],
        "severity": _SEVERITIES[record["severity"]],
        "location": {
            "path": visible(record["file"]).removeprefix("./"),
            "lines": {"begin": record["line"] or 1},
        },
    }
