"""How time and memory grow with the number of rows."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks import prompt_files
from benchmarks.bench import Bench
from benchmarks.figures.index import open_rows
from benchmarks.figures.order import make_order
from benchmarks.figures.resume import resume_at

Growth = dict[str, dict[str, list[float]]]
"""Seconds and peak of bytes by what is measured, then by the number of rows, as text."""


def measure(bench: Bench, numbers_of_rows: Sequence[int]) -> Growth:
    """Measures index, order, peek, resume and save once for each number of rows."""
    found: Growth = {}
    for num_rows in numbers_of_rows:
        path = str(prompt_files.make(bench.folder, prompt_files.short_line, num_rows))
        for name, run in _measures(bench, path, num_rows).items():
            found.setdefault(name, {})[str(num_rows)] = run()
    return found


def _measures(bench: Bench, path: str, num_rows: int) -> dict[str, Callable[[], list[float]]]:
    keys = ("--input-key", "prompt", "--label-key", "label", "--rollout-shuffle", "--n", "32")
    peek = bench.cli("peek", path, *keys, "--format", "jsonl")

    def whole(function: Callable[..., Any], **arguments: Any) -> list[float]:
        run = bench.call(function, **arguments)[0]
        return [run.seconds, run.peak_bytes]

    def order() -> list[float]:
        call = bench.call(make_order, num_rows=num_rows)[1]
        return [call["seconds"], call["num_bytes"]]

    def cold_peek() -> list[float]:
        bench.empty_cache()
        return warm_peek()

    def warm_peek() -> list[float]:
        run = bench.run(*peek)
        return [run.seconds, run.peak_bytes]

    def save() -> list[float]:
        call = bench.call(save_at_end, path=path, folder=str(bench.folder), row=num_rows - 1)[1]
        return [call["seconds"], call["num_bytes"]]

    return {
        "index": lambda: whole(open_rows, path=path),
        "order (call alone)": order,
        "peek, cold": cold_peek,
        "peek, warm": warm_peek,
        "resume at the last row": lambda: whole(resume_at, path=path, row=num_rows - 1),
        "save (call alone)": save,
    }


def save_at_end(path: str, folder: str, row: int) -> dict[str, float]:
    """Seconds that a save near the end of an epoch takes, and what the process held at most."""
    from rolloutds.source import RolloutDataSource

    settings = SimpleNamespace(
        prompt_data=path,
        rollout_global_dataset=True,
        rollout_shuffle=True,
        input_key="prompt",
        label_key="label",
        save=str(Path(folder) / "saved"),
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
    source.save(0)
    started = time.perf_counter()
    source.save(1)
    seconds = time.perf_counter() - started
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return {"seconds": seconds, "num_bytes": peak}


def format_growth(found: Growth) -> str:
    """A Markdown table: a line for each thing, a column for each number of rows."""
    columns = list(next(iter(found.values())))
    heading = " | ".join(f"{int(num_rows):,} rows" for num_rows in columns)
    lines = [f"| | {heading} |", "|---" * (len(columns) + 1) + "|"]
    for name, by_rows in found.items():
        cells = " | ".join(
            f"{seconds * 1000:.1f} ms, {num_bytes / 1e6:.0f} MB"
            for seconds, num_bytes in by_rows.values()
        )
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)
