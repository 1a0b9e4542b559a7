"""The benchmark command: measures the figures asked for, prints a table, writes JSON."""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import growth
from benchmarks.bench import Bench, MeasureError
from benchmarks.figures import FIGURES, Figure
from benchmarks.results_page import format_results
from benchmarks.table import format_figure, format_heading

_SCHEMA_VERSION = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Returns:
        0, or with ``--strict`` 1 when a target is missed or a figure could not be measured.
    """
    options = _parser().parse_args(arguments)
    bench = Bench(options.folder, rows=options.rows, repeat=options.repeat)
    report = _describe_run(bench)
    _say(format_heading(report))
    for name in options.only or ([] if options.growth else FIGURES):
        entry = _measure(name, FIGURES[name], bench)
        report["figures"].append(entry)
        _say(format_figure(entry))
        _write(report, options)  # after each figure: a run that is stopped leaves what it has
    if options.growth:
        report["growth"] = growth.measure(bench, options.growth_rows)
        _say(growth.format_growth(report["growth"]))
        _write(report, options)
    return int(options.strict and not _all_reached(report))


def _write(report: dict[str, Any], options: argparse.Namespace) -> None:
    if options.results:
        options.results.write_text(format_results(report), encoding="utf-8")
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        choices=tuple(FIGURES),
        metavar="FIGURE",
        help=f"measure this figure; may be repeated. One of: {', '.join(FIGURES)}",
    )
    parser.add_argument("--rows", type=_positive, default=1_000_000, help="rows of the main file")
    parser.add_argument("--repeat", type=_positive, default=3, help="repetitions; medians count")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(tempfile.gettempdir()) / "rolloutds-benchmarks",
        help="where data files are made and kept (about 1.1 GB for a million rows)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here too")
    parser.add_argument("--results", type=Path, metavar="FILE", help="write a Markdown table here")
    parser.add_argument(
        "--growth", action="store_true", help="measure how time and memory grow with the rows"
    )
    parser.add_argument(
        "--growth-rows",
        type=_positive,
        nargs="+",
        metavar="N",
        default=[10_000, 100_000, 1_000_000],
        help="the numbers of rows for --growth",
    )
    parser.add_argument("--strict", action="store_true", help="exit 1 when a target is missed")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        msg = f"{text} is not 1 or more"
        raise argparse.ArgumentTypeError(msg)
    return number


def _describe_run(bench: Bench) -> dict[str, Any]:
    return {
        "kind": "benchmarks",
        "schema_version": _SCHEMA_VERSION,
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "machine": {
            "system": platform.system(),
            "architecture": platform.machine(),
            "num_cores": os.cpu_count(),
            "python": platform.python_version(),
        },
        "rows": bench.rows,
        "repeat": bench.repeat,
        "figures": [],
    }


def _measure(name: str, figure: Figure, bench: Bench) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "title": figure.title}
    missing = [module for module in figure.needs if not _is_importable(module)]
    if missing:
        return {**entry, "status": "skipped", "reason": f"{', '.join(missing)} not found"}
    try:
        outcome = figure.measure(bench)
    except MeasureError as error:
        return {**entry, "status": "failed", "reason": str(error)}
    return {**entry, "status": "measured", **outcome.to_dict()}


def _is_importable(module: str) -> bool:
    """Whether there is such a module; a folder without code is none."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return False
    return spec is not None and spec.origin is not None


def _all_reached(report: dict[str, Any]) -> bool:
    return all(
        figure["status"] == "measured" and all(target["reached"] for target in figure["targets"])
        for figure in report["figures"]
    )


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
