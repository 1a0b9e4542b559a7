"""Resuming late in an epoch, beside resuming at its begin: neither may replay anything."""

from __future__ import annotations

from types import SimpleNamespace

from benchmarks.bench import Bench
from benchmarks.result import Outcome, time_target

_EARLY_ROW = 10


def measure(bench: Bench) -> Outcome:
    """A new process that opens ten times as many rows, resumes at the last one and serves it."""
    path, last_row = str(bench.short_file), bench.rows * 10 - 1
    bench.call(resume_at, path=path, row=_EARLY_ROW)  # leaves index and order in the cache
    late = bench.timing(lambda: bench.call(resume_at, path=path, row=last_row)[0])
    early = bench.timing(lambda: bench.call(resume_at, path=path, row=_EARLY_ROW)[0])
    name = f"row {_EARLY_ROW}"
    target = time_target(late, early, name, limit=1.2)
    return Outcome(late, {name: early}, [target], [f"row {last_row}; index and order cached"])


def resume_at(path: str, row: int) -> int | None:
    """Resumes at a row of the first epoch and returns the row it serves."""
    from rolloutds.source import RolloutDataSource

    settings = SimpleNamespace(
        prompt_data=path,
        rollout_global_dataset=True,
        rollout_shuffle=True,
        input_key="prompt",
        label_key="label",
        n_samples_per_prompt=8,
    )
    source = RolloutDataSource(settings)
    source.load_state_dict(
        {
            "epoch_id": 0,
            "sample_offset": row,
            "sample_group_index": row,
            "sample_index": row * 8,
            "metadata": {},
        }
    )
    (group,) = source.get_samples(1)
    return group[0].row_id
