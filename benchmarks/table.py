"""The report for people: a heading, then a line for each number."""

from __future__ import annotations

from typing import Any

_WIDTHS = (28, 22, 12, 12)


def format_heading(report: dict[str, Any]) -> str:
    """The run's circumstances and the names of the columns."""
    machine = report["machine"]
    where = (
        f"{report['date']}, {machine['system']} {machine['architecture']}, "
        f"{machine['num_cores']} cores, Python {machine['python']}, "
        f"{report['rows']} rows, median of {report['repeat']}"
    )
    return f"{where}\n{_line('figure', 'what', 'time', 'memory')}"


def format_figure(entry: dict[str, Any]) -> str:
    """A figure's timings, then its targets."""
    if entry["status"] != "measured":
        reason = entry["reason"].replace("\n", "\n    ")
        return f"{entry['name']}: {entry['status']}: {reason}"
    lines = [_timing_line(entry["name"], "rolloutds", entry["ours"])]
    lines += [_timing_line("", name, timing) for name, timing in entry["yardsticks"].items()]
    lines += [_target_line(target) for target in entry["targets"]]
    return "\n".join(lines)


def _timing_line(figure: str, what: str, timing: dict[str, Any]) -> str:
    peak = timing["median_peak_bytes"]
    memory = "" if peak is None else _bytes(peak)
    return _line(figure, what, format_seconds(timing["median_seconds"]), memory)


def _target_line(target: dict[str, Any]) -> str:
    def show(value: float) -> str:
        return format_amount(value, target["unit"])

    later = "" if target["later"] is None else f", later {show(target['later'])}"
    verdict = "reached" if target["reached"] else "MISSED"
    limits = f"at most {show(target['limit'])}{later}"
    return f"{_line('', target['what'], show(target['value']))}  {verdict}: {limits}"


def _line(*cells: str) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells[:2], _WIDTHS, strict=False)]
    padded += [cell.rjust(width) for cell, width in zip(cells[2:], _WIDTHS[2:], strict=False)]
    return "".join(padded).rstrip()


def format_amount(value: float, unit: str) -> str:
    """A ratio or a number of bytes."""
    return _ratio(value) if unit == "ratio" else _bytes(value)


def format_seconds(value: float) -> str:
    """Milliseconds or seconds."""
    return f"{value * 1000:.1f} ms" if value < 1 else f"{value:.2f} s"


def _bytes(value: float) -> str:
    return f"{value / 1e6:.1f} MB"


def _ratio(value: float) -> str:
    return f"1/{1 / value:.1f}" if 0 < value < 0.5 else f"{value:.2f}"
