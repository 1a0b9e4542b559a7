"""``jsonl``: one record a line; a report without records is one line."""

from __future__ import annotations

from collections.abc import Iterator

from rolloutds.reports.json_text import as_json
from rolloutds.reports.model import SCHEMA_VERSION, Report


def render(report: Report) -> Iterator[str]:
    """The records, each as it comes."""
    if report.records_name is None:
        yield as_json({"kind": report.kind, "schema_version": SCHEMA_VERSION, **report.data})
        yield "\n"
        return
    for record in report.records:
        yield as_json(record) + "\n"
