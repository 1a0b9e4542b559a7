"""Short commands, beside importing what they are made with."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.result import Outcome, Timing, time_target

_IMPORTS = "import typer, rich.console"


def measure(bench: Bench) -> Outcome:
    """``rolloutds --help`` beside a Python that imports Typer and Rich and does nothing."""
    help_command = bench.cli("--help")
    bench.run(*help_command)  # writes the bytecode
    ours = bench.timing(lambda: bench.run(*help_command))
    return _outcome(ours, _imports(bench), limit=2.5)


def measure_subcommands(bench: Bench) -> Outcome:
    """``--help`` of every subcommand; the slowest counts."""
    names = bench.call(subcommands)[1]
    timings = {name: _command_timing(bench, *name.split(), "--help") for name in names}
    slowest = max(timings, key=lambda name: timings[name].median_seconds)
    median = statistics.median(timing.median_seconds for timing in timings.values())
    note = f"the slowest of {len(names)} is {slowest}; the median is {median:.3f} s"
    return _outcome(timings[slowest], _imports(bench), limit=2.5, note=note)


def measure_ckpt_show(bench: Bench) -> Outcome:
    """``rolloutds ckpt show`` of a small saved state."""
    state = bench.made_file("cursor_state.pt", save_state)
    return _outcome(_command_timing(bench, "ckpt", "show", state), _imports(bench), limit=2.5)


def _outcome(ours: Timing, imports: Timing, *, limit: float, note: str | None = None) -> Outcome:
    target = time_target(ours, imports, "typer, rich", limit=limit)
    return Outcome(ours, {"typer, rich": imports}, [target], [note] if note else [])


def _imports(bench: Bench) -> Timing:
    return bench.timing(lambda: bench.run(sys.executable, "-c", _IMPORTS))


def _command_timing(bench: Bench, *arguments: str | Path) -> Timing:
    command = bench.cli(*arguments)
    bench.run(*command)
    return bench.timing(lambda: bench.run(*command))


def subcommands() -> list[str]:
    """Every subcommand that does something, as it is typed."""
    import typer.main

    from rolloutds.cli.root import app

    return list(_leaves(typer.main.get_command(app), ()))


def _leaves(command: Any, name: tuple[str, ...]) -> Iterator[str]:
    if not hasattr(command, "list_commands"):
        yield " ".join(name)
        return
    import typer

    context = typer.Context(command)
    for child in command.list_commands(context):
        yield from _leaves(command.get_command(context, child), (*name, child))


def save_state(path: str) -> None:
    """Writes a cursor file as slime does."""
    from rolloutds.torch_file import write

    cursor = {"sample_offset": 7, "epoch_id": 1, "sample_group_index": 40, "sample_index": 320}
    write(path, {**cursor, "metadata": {}})
