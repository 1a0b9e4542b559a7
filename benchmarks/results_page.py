"""The report as a page of Markdown, for the README and for who compares versions."""

from __future__ import annotations

from typing import Any

from benchmarks.growth import format_growth
from benchmarks.table import format_amount, format_seconds

_LIMITS = {
    "rendering": "not explained; of a call of apply_chat_template (68 us) its compiled template takes 31",
    "parquet_epoch": "each row of a shuffled batch lies in another batch of the Arrow file, and "
    "pyarrow turns nested rows into Python values one by one",
    "length_cold": "importing transformers and loading the tokenizer for the first time; "
    "`length_known` is the same without that",
    "length_known": "rows are still read, parsed and built one by one in Python",
    "buffer_stats": "not profiled; each dump is read twice, first in a limited child process",
    "save": "not profiled; the state is also copied and checked value by value",
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
