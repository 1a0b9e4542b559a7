"""One epoch's order, beside shuffling a list."""

from __future__ import annotations

import random
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.bench import Bench, MeasureError
from benchmarks.result import Outcome, Timing, memory_target, time_target

_SEED = 42
# macOS counts in bytes what Linux counts in kilobytes.
_MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024


def measure_rows(bench: Bench) -> Outcome:
    """For as many rows as the main file has."""
    return _measure(bench, bench.rows)


def measure_rows_10x(bench: Bench) -> Outcome:
    """For ten times as many rows."""
    return _measure(bench, bench.rows * 10)


def _measure(bench: Bench, num_rows: int) -> Outcome:
    ours, our_sample = _timing(bench, make_order, num_rows)
    shuffle, sample = _timing(bench, shuffle_list, num_rows)
    if our_sample != sample:
        msg = f"the order has {our_sample}, the shuffled list {sample}"
        raise MeasureError(msg)
    targets = [
        time_target(ours, shuffle, "random.shuffle", limit=0.2),
        memory_target(ours, shuffle, "random.shuffle", limit=0.2),
    ]
    note = f"{num_rows} rows; the call alone, without imports"
    return Outcome(ours, {"random.shuffle": shuffle}, targets, [note])


def _timing(bench: Bench, function: Callable[..., Any], num_rows: int) -> tuple[Timing, list[int]]:
    calls = [bench.call(function, num_rows=num_rows)[1] for _ in range(bench.repeat)]
    seconds = [call["seconds"] for call in calls]
    return Timing(seconds, [call["num_bytes"] for call in calls]), calls[0]["sample"]


def make_order(num_rows: int) -> dict[str, Any]:
    """Times `epoch_order`."""
    import numpy  # noqa: F401 - the call is measured, not the import

    from rolloutds.shuffle import epoch_order

    return _measure_call(lambda: epoch_order(num_rows, _SEED, 0))


def shuffle_list(num_rows: int) -> dict[str, Any]:
    """Times ``random.shuffle`` of the list of row positions."""

    def shuffled() -> list[int]:
        order = list(range(num_rows))
        random.Random(_SEED).shuffle(order)
        return order

    return _measure_call(shuffled)


def _measure_call(make: Callable[[], Any]) -> dict[str, Any]:
    """Times one call and what it adds to the highest memory of the process so far."""
    bytes_before = _peak_bytes()
    started = time.perf_counter()
    order = make()
    seconds = time.perf_counter() - started
    sample = [int(row) for row in order[:: max(len(order) // 10, 1)]]
    return {"seconds": seconds, "num_bytes": _peak_bytes() - bytes_before, "sample": sample}


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_BYTES
