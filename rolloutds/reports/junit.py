"""``junit``: test results, as almost every CI system shows them.

A check without findings is a test that passed, a skipped check a skipped test. A finding is a
test: it failed when it is as bad as ``--fail-on``, else it passed and says so in its output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from rolloutds.checks.base import SEVERITIES
from rolloutds.reports.findings_report import place_of
from rolloutds.reports.model import Report
from rolloutds.reports.visible import visible

_SUITE = "rolloutds validate"


def render(report: Report) -> Iterator[str]:
    """One suite."""
    data, records = report.data, list(report.records)
    failing = SEVERITIES[: SEVERITIES.index(data["fail_on"]) + 1]
    found = {item["code"] for item in data["statistics"]}
    passed = [code for code in data["codes_run"] if code not in found]
    num_failed = sum(record["severity"] in failing for record in records)
    counts = (
        f'tests="{len(records) + len(passed) + len(data["skipped"])}" failures="{num_failed}" '
        f'errors="0" skipped="{len(data["skipped"])}"'
    )
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f"<testsuites name={quoteattr(_SUITE)} {counts}>\n"
    yield f"  <testsuite name={quoteattr(_SUITE)} {counts}>\n"
    yield from (_finding(record, failing) for record in records)
    yield from (
        f"    <testcase classname={_class(code)} name={quoteattr(code)}/>\n" for code in passed
    )
    yield from (_skipped(skip) for skip in data["skipped"])
    yield "  </testsuite>\n</testsuites>\n"


def _class(code: str) -> str:
    return quoteattr(f"rolloutds.{code.rstrip('0123456789').lower()}")


def _finding(record: Mapping[str, Any], failing: Sequence[str]) -> str:
    message = visible(record["message"])
    name = quoteattr(visible(f"{record['code']} {place_of(record)}"))
    place = f'file={quoteattr(visible(record["file"]))} line="{record["line"] or 1}"'
    text = escape(visible(f"{place_of(record)}: {record['code']} {record['message']}"))
    if record["severity"] in failing:
        kind = quoteattr(f"{record['code']} {record['name']}")
        inside = f"<failure type={kind} message={quoteattr(message)}>{text}</failure>"
    else:
        inside = f"<system-out>{escape(record['severity'])}: {text}</system-out>"
    return f"    <testcase classname={_class(record['code'])} name={name} {place}>{inside}</testcase>\n"


def _skipped(skip: Mapping[str, Any]) -> str:
    reason = quoteattr(visible(skip["reason"]))
    code = skip["code"]
    return (
        f"    <testcase classname={_class(code)} name={quoteattr(code)}>"
        f"<skipped message={reason}/></testcase>\n"
    )
