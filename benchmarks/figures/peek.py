"""The first 32 groups of an epoch, from a command just started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks import eager
from benchmarks.bench import Bench, MeasureError, Run
from benchmarks.result import Outcome, Target, Timing, memory_target, time_target

_NUM_GROUPS = 32
_SEED = 42
_MAX_COLD_BYTES = 200_000_000


def measure_cold(bench: Bench) -> Outcome:
    """Without an index in the cache: the file is scanned."""
    _check_same_groups(bench)
    ours = bench.timing(lambda: bench.run(*_peek(bench)), before=bench.empty_cache)
    loader = _eager_timing(bench)
    targets = [
        time_target(ours, loader, "eager", limit=1 / 12, later=1 / 20),
        Target("memory", _peak_bytes(bench, ours), _MAX_COLD_BYTES, is_ratio=False),
        memory_target(ours, loader, "eager", limit=1 / 5),
    ]
    note = "memory: of all its processes together where the system tells, else of the largest"
    return Outcome(ours, {"eager": loader}, targets, [note])


def measure_warm(bench: Bench) -> Outcome:
    """With the index that an earlier run left in the cache."""
    bench.empty_cache()
    _check_same_groups(bench)
    ours = bench.timing(lambda: bench.run(*_peek(bench)))
    loader = _eager_timing(bench)
    targets = [
        time_target(ours, loader, "eager", limit=1 / 50, later=1 / 80),
        memory_target(ours, loader, "eager", limit=1 / 5),
    ]
    return Outcome(ours, {"eager": loader}, targets)


def _peek(bench: Bench) -> list[str | Path]:
    keys = ("--input-key", "prompt", "--label-key", "label")
    order = ("--rollout-shuffle", "--rollout-seed", str(_SEED))
    shown = ("--n", str(_NUM_GROUPS), "--format", "jsonl")
    return bench.cli("peek", bench.message_file, *shown, *keys, *order)


def _peak_bytes(bench: Bench, largest: Timing) -> float:
    bench.empty_cache()
    of_all = bench.peak_of_all_processes(*_peek(bench))
    return max(of_all or 0, largest.median_peak_bytes or 0)


def _eager_timing(bench: Bench) -> Timing:
    timing: Timing = bench.once("eager peek", lambda: bench.timing(lambda: _eager_peek(bench)[0]))
    return timing


def _eager_peek(bench: Bench) -> tuple[Run, Any]:
    path = str(bench.message_file)
    return bench.call(eager.peek, path=path, num_groups=_NUM_GROUPS, seed=_SEED)


def _check_same_groups(bench: Bench) -> None:
    ours = [json.loads(line) for line in bench.run(*_peek(bench)).output.splitlines()]
    theirs = bench.once("eager groups", lambda: _eager_peek(bench)[1])
    for group, other in zip(ours, theirs, strict=True):
        if any(group[key] != other[key] for key in other):
            msg = f"peek shows {group}, the eager loader {other}"
            raise MeasureError(msg)
