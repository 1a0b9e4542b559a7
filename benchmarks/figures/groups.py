"""Making a rollout batch of groups, beside a deep copy for each sample."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks import eager
from benchmarks.bench import Bench
from benchmarks.result import Outcome, Timing, time_target

_NUM_GROUPS = 128
_N_SAMPLES_PER_PROMPT = 8
_NUM_CALLS = 20


def measure_text(bench: Bench) -> Outcome:
    """For prompts that are plain text."""
    return _measure(bench, bench.text_file)


def measure_messages(bench: Bench) -> Outcome:
    """For prompts that are lists of messages."""
    return _measure(bench, bench.message_file)


def _measure(bench: Bench, path: Path) -> Outcome:
    ours = _timing(bench, draw_groups, path)
    copies = _timing(bench, copy_groups, path)
    target = time_target(ours, copies, "deepcopy", limit=1 / 10)
    note = (
        f"seconds a call, median of {_NUM_CALLS} calls; ours reads and parses the rows too; each "
        "call ends with a collection of the new objects, so that none is put off"
    )
    return Outcome(ours, {"deepcopy": copies}, [target], [note])


def _timing(bench: Bench, function: Callable[..., float], path: Path) -> Timing:
    return Timing([bench.call(function, path=str(path))[1] for _ in range(bench.repeat)])


def draw_groups(path: str) -> float:
    """Seconds that one `get_samples` call takes, of an open data source."""
    from rolloutds.source import RolloutDataSource

    settings = SimpleNamespace(
        prompt_data=path,
        rollout_global_dataset=True,
        rollout_shuffle=True,
        input_key="prompt",
        label_key="label",
        n_samples_per_prompt=_N_SAMPLES_PER_PROMPT,
    )
    source = RolloutDataSource(settings)
    return _median_seconds(lambda: source.get_samples(_NUM_GROUPS))


def copy_groups(path: str) -> float:
    """Seconds that the deep copies take, of samples loaded before."""
    # No more rows than are served: the garbage collector would slow down the copying.
    samples = eager.load(path, max_rows=_NUM_GROUPS)
    return _median_seconds(lambda: eager.make_groups(samples, _N_SAMPLES_PER_PROMPT))


def _median_seconds(make: Callable[[], Any]) -> float:
    make()  # the first call opens files and makes the order
    seconds = []
    for _ in range(_NUM_CALLS):
        started = time.perf_counter()
        groups = make()
        gc.collect(0)
        seconds.append(time.perf_counter() - started)
        del groups
    return statistics.median(seconds)
