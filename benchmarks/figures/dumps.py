"""Reading rollout dumps, beside what torch does with the same files."""

from __future__ import annotations

import random
import statistics
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench, MeasureError
from benchmarks.result import Outcome, Timing, memory_target, time_target

_RESPONSE_TOKENS = 8_000
_N_SAMPLES_PER_PROMPT = 8
_ROWS_A_GROUP = 3_300
"""Rows of the main file for a group of the big dump: 300 MB of a million."""
_NUM_DUMPS = 100


def measure_reader(bench: Bench) -> Outcome:
    """The safe reader on one big dump, beside ``torch.load`` with ``weights_only=True``."""
    path = str(_dump(bench, max(bench.rows // _ROWS_A_GROUP, 1)))
    whole_run, theirs = bench.call(load_with_torch, paths=[path], weights_only=False)
    _check_equal(bench.call(read_safely, path=path)[1], theirs)
    ours = bench.timing(lambda: bench.call(read_safely, path=path)[0])
    # It takes most of a minute: once is enough beside a target of a tenth.
    weights_only = bench.timing(
        lambda: bench.call(load_with_torch, paths=[path], weights_only=True)[0], repeat=1
    )
    whole = Timing([whole_run.seconds], [whole_run.peak_bytes])
    targets = [
        time_target(ours, weights_only, "weights_only", limit=1 / 10),
        memory_target(ours, weights_only, "weights_only", limit=1),
    ]
    note = f"{Path(path).stat().st_size / 1e6:.0f} MB; importing torch is part of torch.load"
    return Outcome(ours, {"weights_only": weights_only, "unpickling": whole}, targets, [note])


def measure_stats(bench: Bench) -> Outcome:
    """``rolloutds buffer stats`` over many dumps, beside unpickling each."""
    num_groups = max(bench.rows // _ROWS_A_GROUP // _NUM_DUMPS, 1)
    folder = bench.made_file(f"rollouts-{num_groups}-groups", make_dumps, num_groups=num_groups)
    paths = sorted(folder.iterdir())
    ours = bench.timing(lambda: bench.run(*_stats(bench, *paths)))
    one = bench.timing(lambda: bench.run(*_stats(bench, paths[0])))
    names = [str(path) for path in paths]
    whole = bench.timing(lambda: bench.call(load_with_torch, paths=names, weights_only=False)[0])
    targets = [
        time_target(ours, whole, "unpickling", limit=1),
        memory_target(ours, one, "one dump", limit=1.25),
    ]
    num_bytes = sum(path.stat().st_size for path in paths)
    note = f"{_NUM_DUMPS} dumps, {num_bytes / 1e6:.0f} MB; importing torch is part of unpickling"
    return Outcome(ours, {"unpickling": whole, "one dump": one}, targets, [note])


def _stats(bench: Bench, *paths: Path) -> list[str | Path]:
    return bench.cli("buffer", "stats", *paths, "--format", "jsonl")


def _dump(bench: Bench, num_groups: int) -> Path:
    return bench.made_file(f"rollout-{num_groups}-groups.pt", make_dump, num_groups=num_groups)


def _check_equal(ours: Any, theirs: Any) -> None:
    if ours != theirs:
        msg = f"the safe reader finds {ours}, torch {theirs}"
        raise MeasureError(msg)


def make_dumps(path: str, num_groups: int) -> None:
    """Makes a folder of dumps."""
    folder = Path(path)
    folder.mkdir(exist_ok=True)
    for number in range(_NUM_DUMPS):
        make_dump(str(folder / f"{number}.pt"), num_groups, number)


def make_dump(path: str, num_groups: int, number: int = 0) -> None:
    """Writes a rollout dump of slime's form with torch."""
    import torch

    rng = random.Random(number)
    samples = [
        _sample(rng, group_index, group_index * _N_SAMPLES_PER_PROMPT + place)
        for group_index in range(num_groups)
        for place in range(_N_SAMPLES_PER_PROMPT)
    ]
    torch.save({"rollout_id": number, "samples": samples}, path)


def _sample(rng: random.Random, group_index: int, index: int) -> dict[str, Any]:
    from rolloutds.sample import Sample

    length = _RESPONSE_TOKENS
    sample = Sample(group_index=group_index, index=index, prompt=[{"role": "user", "content": "?"}])
    sample.tokens = [rng.randrange(150_000) for _ in range(length + 100)]
    sample.response, sample.response_length = "answer " * length, length
    sample.reward = float(rng.random() < 0.5)
    sample.loss_mask = [1] * length
    sample.rollout_log_probs = [-rng.random() for _ in range(length)]
    sample.status = Sample.Status.COMPLETED
    return sample.to_dict()


def read_safely(path: str) -> list[Any]:
    """Reads a dump with the safe reader."""
    from rolloutds.torch_file import read

    return _summary(read(path))


def load_with_torch(paths: list[str], *, weights_only: bool) -> list[Any]:
    """Loads dumps with torch, one after the other, and says what is in the last."""
    import torch

    summary: list[Any] = []
    for path in paths:
        summary = _summary(torch.load(path, weights_only=weights_only))  # noqa: TID251 - the yardstick
    return summary


def _summary(dump: dict[str, Any]) -> list[Any]:
    samples = dump["samples"]
    tokens = sum(sum(sample["tokens"]) for sample in samples)
    log_probs = statistics.fmean(sum(sample["rollout_log_probs"]) for sample in samples)
    return [len(samples), tokens, log_probs, sum(sample["reward"] for sample in samples)]
