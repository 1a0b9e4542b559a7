"""Saving the state with a full buffer, beside ``torch.save`` of the same."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.bench import Bench
from benchmarks.result import Outcome, Timing, time_target

_ROWS_A_GROUP = 100
_N_SAMPLES_PER_PROMPT = 8
_NUM_CALLS = 3


def measure(bench: Bench) -> Outcome:
    """With a hundredth of the rows as groups in the buffer, partly generated."""
    path, num_groups = str(bench.text_file), max(bench.rows // _ROWS_A_GROUP, 1)
    calls = [
        bench.call(save_both, path=path, folder=str(bench.folder), num_groups=num_groups)[1]
        for _ in range(bench.repeat)
    ]
    ours = Timing([call["ours"] for call in calls])
    torch_save = Timing([call["torch_save"] for call in calls])
    target = time_target(ours, torch_save, "torch.save", limit=1.3)
    note = (
        f"{num_groups} groups of {_N_SAMPLES_PER_PROMPT} without tensors; the call alone: ours "
        "copies, checks and writes the state and waits until the disk has it (fsync); torch.save "
        "writes all samples as dicts, to the same folder and without fsync"
    )
    return Outcome(ours, {"torch.save": torch_save}, [target], [note])


def save_both(path: str, folder: str, num_groups: int) -> dict[str, float]:
    """Seconds of a save of the data source, and of ``torch.save`` of its samples as dicts."""
    import torch

    from rolloutds.source import RolloutDataSourceWithBuffer

    settings = SimpleNamespace(
        prompt_data=path,
        rollout_global_dataset=True,
        rollout_shuffle=True,
        input_key="prompt",
        label_key="label",
        n_samples_per_prompt=_N_SAMPLES_PER_PROMPT,
        save=str(Path(folder) / "saved"),
    )
    source = RolloutDataSourceWithBuffer(settings)
    groups = source.get_samples(num_groups)
    for sample in (sample for group in groups for sample in group):
        _generate(sample)
    source.add_samples(groups)
    state = {
        **source.cursor.state_dict(),
        "metadata": {},
        "buffer": [[sample.to_dict() for sample in group] for group in groups],
    }
    target = Path(folder) / "saved" / "torch.pt"
    target.parent.mkdir(exist_ok=True)
    return {
        "ours": _median_seconds(lambda: source.save(0)),
        "torch_save": _median_seconds(lambda: torch.save(state, target)),
    }


def _generate(sample: Any) -> None:
    sample.response, sample.response_length = "half an answer", 100
    sample.tokens = list(range(1000, 1100))
    sample.rollout_log_probs = [-1 / (1 + token) for token in range(100)]
    sample.status = sample.Status.ABORTED


def _median_seconds(save: Callable[[], Any]) -> float:
    save()
    seconds = []
    for _ in range(_NUM_CALLS):
        started = time.perf_counter()
        save()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)
