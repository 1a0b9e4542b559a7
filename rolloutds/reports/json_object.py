"""``json``: one object with the facts and, under their own key, the records."""

from __future__ import annotations

from collections.abc import Iterator

from rolloutds.reports.json_text import as_json
from rolloutds.reports.model import SCHEMA_VERSION, Report


def render(report: Report) -> Iterator[str]:
    """The object, indented; records are written as they come, one a line."""
    facts = {"kind": report.kind, "schema_version": SCHEMA_VERSION, **report.data}
    head = as_json(facts, indent=2)
    if report.records_name is None:
        yield head + "\n"
        return
    yield f"{head.removesuffix(chr(10) + '}')},\n  {as_json(report.records_name)}: ["
    separator = "\n    "
    for record in report.records:
        yield separator + as_json(record)
        separator = ",\n    "
    yield "]\n}\n" if separator == "\n    " else "\n  ]\n}\n"
