"""What `validate` says: findings, what was checked, what was not and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rolloutds.checks.base import SEVERITIES, Severity
from rolloutds.checks.findings import Result, as_record, worst_first
from rolloutds.checks.registry import CHECKS
from rolloutds.reports.model import Cells, Column, Facts, Heading, Report, Section, Table


def findings_report(
    result: Result,
    *,
    max_findings: int | None = None,
    shows_statistics: bool = False,
    fail_on: Severity = "error",
) -> Report:
    """The report of a call of `validate`.

    Args:
        result: what was found.
        max_findings: the most findings that are listed, the worst first; None: all.
        shows_statistics: whether findings are counted by code.
        fail_on: the mildest severity that fails.
    """
    listed = result.findings
    if max_findings is not None and len(listed) > max_findings:
        chosen = set(map(id, worst_first(listed)[:max_findings]))
        listed = [finding for finding in listed if id(finding) in chosen]
    records = [as_record(finding) for finding in listed]
    total = sum(result.counts.values())
    data: dict[str, Any] = {
        "num_errors": result.num("error"),
        "num_warnings": result.num("warning"),
        "num_notes": result.num("note"),
        "num_listed": len(records),
        "num_not_listed": total - len(records),
        "num_known": result.num_known,
        "shows_statistics": shows_statistics,
        "fail_on": fail_on,
        "checked": [
            {
                "kind": checked.kind,
                "name": checked.name,
                "count": checked.number,
                "unit": checked.unit,
                "num_bytes": checked.num_bytes,
            }
            for checked in result.checked
        ],
        "codes_run": sorted(result.ran),
        "skipped": [{"code": skip.code, "reason": skip.reason} for skip in result.skipped],
        "statistics": [
            {
                "code": code,
                "name": CHECKS[code].name,
                "severity": result.severities[code],
                "count": count,
            }
            for code, count in sorted(result.counts.items())
        ],
        "notices": list(result.notices),
    }
    return Report("validate", data, "findings", records, _sections(data, records))


def summary(data: Any) -> str:
    """``Found 2 errors and 1 warning in 7,473 rows of prompts.jsonl``."""
    names = (("num_errors", "error"), ("num_warnings", "warning"), ("num_notes", "note"))
    counts = [
        f"{data[key]:,} {name if data[key] == 1 else name + 's'}"
        for key, name in names
        if data[key]
    ]
    found = " and ".join([", ".join(counts[:-1]), counts[-1]]) if len(counts) > 1 else None
    found = found or (counts[0] if counts else "nothing wrong")
    return f"Found {found} in {checked_text(data)}"


def checked_text(data: Any) -> str:
    """What was checked, in words."""
    units: dict[str, int] = {}
    for checked in data["checked"]:
        units[checked["unit"]] = units.get(checked["unit"], 0) + checked["count"]
    if not units:
        return "nothing"
    parts = [f"{count:,} {unit if count == 1 else unit + 's'}" for unit, count in units.items()]
    names = [checked["name"] for checked in data["checked"]]
    where = names[0] if len(names) == 1 else f"{len(names)} inputs"
    return f"{', '.join(parts)} of {where}"


def checks_text(data: Any) -> str:
    """How many checks ran, in words."""
    count = len(data["codes_run"])
    return "1 check" if count == 1 else f"{count} checks"


def known_text(data: Any) -> str:
    """How many findings a baseline knows, in words."""
    count = data["num_known"]
    found = "1 known finding" if count == 1 else f"{count:,} known findings"
    return f"{found} (baseline) {'is' if count == 1 else 'are'} not shown."


def skipped_texts(data: Any) -> list[str]:
    """One line for each reason: the codes that were skipped for it."""
    by_reason: dict[str, list[str]] = {}
    for skip in data["skipped"]:
        by_reason.setdefault(skip["reason"], []).append(skip["code"])
    return [f"{', '.join(codes)}: {reason}" for reason, codes in by_reason.items()]


def _sections(data: dict[str, Any], records: list[dict[str, Any]]) -> Iterator[Section]:
    yield Heading(summary(data))
    if records:
        columns = [Column("place"), Column("code"), Column("severity"), Column("message")]
        rows = [
            Cells([place_of(record), record["code"], record["severity"], record["message"]])
            for severity in SEVERITIES
            for record in records
            if record["severity"] == severity
        ]
        yield Table(columns, rows)
    yield Facts(list(_facts(data)))


def _facts(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if data["num_not_listed"]:
        yield "not listed", f"{data['num_not_listed']:,} more findings, counted above"
    if data["num_known"]:
        yield "known", f"{data['num_known']:,} findings of the baseline are left out"
    if data["shows_statistics"]:
        for count in data["statistics"]:
            yield count["code"], f"{count['count']:,} {count['severity']} ({count['name']})"
    yield "checked", f"{checked_text(data)}, by {checks_text(data)}"
    for text in skipped_texts(data):
        yield "skipped", text


def place_of(record: Any) -> str:
    """The place of a finding: ``file:line:column``, or as exact as it is known."""
    if record["line"] is not None:
        column = f":{record['column']}" if record["column"] else ""
        return f"{record['file']}:{record['line']}{column}"
    if record["group"] is not None:
        sample = "" if record["sample"] is None else f", sample {record['sample']}"
        return f"{record['file']} group {record['group']}{sample}"
    if record["row_id"] is not None:
        return f"{record['file']} row {record['row_id']}"
    return str(record["file"])
