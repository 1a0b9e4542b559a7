"""``sarif``: SARIF 2.1.0, for code scanning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from rolloutds.checks.base import Check
from rolloutds.checks.registry import CHECKS
from rolloutds.reports.findings_report import place_of
from rolloutds.reports.json_text import as_json
from rolloutds.reports.model import Report
from rolloutds.reports.visible import visible

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(report: Report) -> Iterator[str]:
    """One run."""
    records = list(report.records)
    codes = sorted({*report.data["codes_run"], *(record["code"] for record in records)})
    index = {code: number for number, code in enumerate(codes)}
    skipped = [
        {
            "level": "note",
            "message": {"text": f"{skip['code']} did not run: {skip['reason']}"},
        }
        for skip in report.data["skipped"]
    ]
    run = {
        "tool": {"driver": {"name": "rolloutds", "rules": [_rule(CHECKS[code]) for code in codes]}},
        "invocations": [{"executionSuccessful": True, "toolConfigurationNotifications": skipped}],
        "results": [_result(record, index) for record in records],
        "columnKind": "unicodeCodePoints",
    }
    yield as_json({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)
    yield "\n"


def _rule(check: type[Check]) -> dict[str, Any]:
    text = check.explanation
    return {
        "id": check.code,
        "name": "".join(word.capitalize() for word in check.name.split("-")),
        "shortDescription": {"text": check.name},
        "fullDescription": {"text": text.what},
        "help": {"text": f"{text.why}\n\nExample: {text.example}\n\nHow to fix: {text.fix}"},
        "defaultConfiguration": {"level": check.severity},
    }


def _result(record: Mapping[str, Any], index: Mapping[str, int]) -> dict[str, Any]:
    place = "" if record["line"] is not None else f"{place_of(record)}: "
    location: dict[str, Any] = {
        "artifactLocation": {"uri": quote(record["file"], safe="/", errors="replace")}
    }
    if record["line"] is not None:
        region = {"startLine": record["line"]}
        if record["column"] is not None:
            region["startColumn"] = record["column"]
        location["region"] = region
    return {
        "ruleId": record["code"],
        "ruleIndex": index[record["code"]],
        "level": record["severity"],
        "message": {"text": visible(place + record["message"])},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {"rolloutds/v1": record["fingerprint"]},
    }
