"""The report as a page of Markdown, for the README and for who compares versions."""

from __future__ import annotations

from typing import Any

from benchmarks.growth import format_growth
from benchmarks.table import format_amount, format_seconds

_LIMITS = {
    "length_cold": "importing transformers and loading the tokenizer for the first time (the line "
    "`transformers`); `length_known` is the same without that",
    "length_counted": "what is not counting (importing transformers, the index, reading the rows) "
    "runs on one core",
    "groups_messages": "two thirds of the instructions make what every sample must own: a dict of "
    "32 fields, two counters, three containers, the messages",
    "dump_reader": "the pickle is read twice, first in a child process with limits",
}
"""What is known of why a figure misses its target."""


def format_results(report: dict[str, Any]) -> str:
    """All figures of a report with ratios and verdicts; the growth table where there is one."""
    machine = report["machine"]
    python = ".".join(machine["python"].split(".")[:2])
    parts = [
        "# Measured figures",
        f"{report['date']}, {machine['num_cores']} cores shared, {machine['system']} "
        f"{machine['architecture']}, Python {python}, {report['rows']:,} rows, "
        f"median of {report['repeat']}. Written by `python -m benchmarks --results`.",
    ]
    if report["figures"]:
        heading = "| figure | rolloutds | yardsticks | ratios | |\n|---|---|---|---|---|"
        parts.append("\n".join([heading, *map(_line, report["figures"])]))
    if "growth" in report:
        parts += [
            "## Growth",
            "Of rows of 40 bytes; measured once.",
            format_growth(report["growth"]),
        ]
    return "\n\n".join(parts) + "\n"


def _line(entry: dict[str, Any]) -> str:
    name = f"`{entry['name']}` {entry['title']}"
    if entry["status"] != "measured":
        reason = entry["reason"].replace("\n", " ").replace("|", "\\|")
        return f"| {name} | | | | {entry['status']}: {reason} |"
    yardsticks = (f"{what} {_timing(timing)}" for what, timing in entry["yardsticks"].items())
    ratios = (
        f"{target['what']} {format_amount(target['value'], target['unit'])} "
        f"(at most {format_amount(target['limit'], target['unit'])})"
        for target in entry["targets"]
    )
    cells = [name, _timing(entry["ours"]), "<br>".join(yardsticks), "<br>".join(ratios)]
    return f"| {' | '.join(cells)} | {_verdict(entry)} |"


def _timing(timing: dict[str, Any]) -> str:
    seconds, peak = format_seconds(timing["median_seconds"]), timing["median_peak_bytes"]
    return seconds if peak is None else f"{seconds}, {format_amount(peak, 'bytes')}"


def _verdict(entry: dict[str, Any]) -> str:
    if all(target["reached"] for target in entry["targets"]):
        return "reached"
    limit = _LIMITS.get(entry["name"])
    return f"missed: {limit}" if limit else "missed"
