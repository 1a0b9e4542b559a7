"""``github``: annotations of a pull request, as GitHub's runner reads them from the log.

GitHub shows ten annotations of a kind a step and drops the rest without a word. No more are
written: the last of ten says how many are left, and each of those is a plain line of the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rolloutds.reports.findings_report import place_of, skipped_texts, summary
from rolloutds.reports.model import Report
from rolloutds.reports.visible import visible

MOST_OF_A_KIND = 10
_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def render(report: Report) -> Iterator[str]:
    """Annotations, worst first; then what they leave out, the summary and what was skipped."""
    records = list(report.records)
    left: list[Mapping[str, Any]] = []
    for severity, command in _COMMANDS.items():
        some = [record for record in records if record["severity"] == severity]
        shown = some if len(some) <= MOST_OF_A_KIND else some[: MOST_OF_A_KIND - 1]
        left += some[len(shown) :]
        yield from (_annotation(command, record) for record in shown)
        yield from _rest(command, severity, len(some) - len(shown))
    for record in left:
        message = f"{place_of(record)}: {record['code']} {record['message']}"
        yield visible(message) + "\n"
    yield from _closing(report.data)


def _closing(data: Mapping[str, Any]) -> Iterator[str]:
    if data["num_not_listed"]:
        yield f"{data['num_not_listed']:,} further findings are counted, not listed.\n"
    yield visible(summary(data)) + ".\n"
    yield from (visible(f"Skipped {text}") + "\n" for text in skipped_texts(data))


def _rest(command: str, severity: str, count: int) -> Iterator[str]:
    if count:
        noun = severity if count == 1 else f"{severity}s"
        title = _property(f"rolloutds: {count:,} more {noun}")
        yield f"::{command} title={title}::{count:,} more {noun}: see the log and the job summary\n"


def _annotation(command: str, record: Mapping[str, Any]) -> str:
    properties: Sequence[tuple[str, Any]] = (
        ("file", record["file"]),
        ("line", record["line"]),
        ("col", record["column"]),
        ("title", f"{record['code']} {record['name']}"),
    )
    named = ",".join(f"{key}={_property(str(value))}" for key, value in properties if value)
    place = "" if record["line"] is not None else f"{place_of(record)}: "
    return f"::{command} {named}::{_data(place + record['message'])}\n"


def _data(text: str) -> str:
    return visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
