"""Checking every row, beside only parsing each line."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.bench import Bench, MeasureError, Run
from benchmarks.figures.index import parse_lines
from benchmarks.result import Outcome, Timing, time_target


def measure_one_process(bench: Bench) -> Outcome:
    """``rolloutds validate`` in one process."""
    path = str(bench.message_file)
    _check_all_rows(bench)
    loop = bench.timing(lambda: bench.call(parse_lines, path=path)[0])
    ours = _one_process(bench)
    target = time_target(ours, loop, "orjson loop", limit=5, later=3)
    return Outcome(ours, {"orjson loop": loop}, [target])


def measure_two_processes(bench: Bench) -> Outcome:
    """``rolloutds validate`` in two processes, beside one."""
    ours = bench.timing(lambda: _validate(bench, jobs=2), before=bench.empty_cache)
    alone = _one_process(bench)
    return Outcome(ours, {"one": alone}, [time_target(ours, alone, "one", limit=1 / 1.5)])


def _one_process(bench: Bench) -> Timing:
    timing: Timing = bench.once(
        "validate",
        lambda: bench.timing(lambda: _validate(bench, jobs=1), before=bench.empty_cache),
    )
    return timing


def _validate(bench: Bench, *, jobs: int) -> Run:
    keys = ("--input-key", "prompt", "--label-key", "label")
    form = ("--jobs", str(jobs), "--format", "json", "--exit-zero")
    return bench.run(*bench.cli("validate", bench.message_file, *keys, *form))


def _check_all_rows(bench: Bench) -> None:
    report: dict[str, Any] = json.loads(_validate(bench, jobs=1).output)
    if f"{bench.rows}" not in json.dumps(report):
        msg = f"the report speaks of {report.get('summary')}, not of {bench.rows} rows"
        raise MeasureError(msg)
